//! What was seen in a trial of a cell: the probe, the load, and what both cost.

use super::{Matrix, Moved, RESPONSES, Turn};
use crate::histogram::{Histogram, Packed};
use crate::one_way::OneWay;
use crate::summary::Summary;
use crate::tracker::Counts;
use serde::{Deserialize, Serialize};

/// A matrix and its trials so far, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was asked.
    pub matrix: Matrix,
    /// The two ends, where they aren't a lab's: `alpha, eth1, 192.0.2.1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<String>,
    /// What became of each trial.
    pub trials: Vec<Tried>,
    /// What moves which figure, as far as it is known.
    #[serde(default)]
    pub moved: Vec<Moved>,
}

impl Measured {
    /// Of a matrix that nothing was tried of yet.
    pub fn of(matrix: Matrix, ends: Vec<String>) -> Measured {
        Measured { matrix, ends, trials: Vec::new(), moved: Vec::new() }
    }

    /// Adds a trial, and judges anew what moves which figure.
    pub fn add(&mut self, tried: Tried) {
        self.trials.push(tried);
        self.moved = RESPONSES.iter().flat_map(|response| response.moved(&self.matrix, &self.trials)).collect();
    }
}

/// A trial that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Which.
    #[serde(flatten)]
    pub turn: Turn,
    /// When: 1 where the matrix was begun, one more each time that it was gone on with.
    #[serde(default)]
    pub session: u32,
    /// What became of it.
    #[serde(flatten)]
    pub became: Became,
}

/// What became of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// It was measured.
    Seen(Box<Seen>),
    /// This host or kernel lacks something that the cell takes: which, and in whose words.
    Unavailable(String),
    /// Something went wrong in the middle: what.
    Failed(String),
}

/// What was seen at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The light flow of ours, there and back.
    pub probe: Probed,
    /// The echoes of `ping`.
    pub ping: Pinged,
    /// The load, where there was one.
    pub load: Option<Loaded>,
    /// Share of its time that each core worked, by its number; those of another host behind its name.
    pub cores: Vec<Used>,
    /// Share of a core's time that each process of the experiment used: one that keeps two cores busy uses 2.
    pub processes: Vec<Used>,
    /// Packets of the load at its receiver.
    pub arrived: Option<Arrived>,
    /// The queueing disciplines of the two ends.
    pub queues: Vec<Queue>,
    /// What a reader should know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Packets where they arrive, as the host sees them behind its offloads: those that one of them put together are one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// How many.
    pub packets: u64,
    /// Segments that they were made of, by an offload of either end: over a cable of veth, what TSO left whole was never in pieces.
    pub segments: u64,
    /// Times from one to the next; none of fewer than two packets.
    pub gaps: Option<Distribution>,
}

/// A distribution, in numbers and whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// In numbers.
    pub summary: Summary,
    /// Whole, as HdrHistogram encodes it, in base64.
    pub histogram: Packed,
}

/// Our light flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// Every frame in one class.
    pub counts: Counts,
    /// From the actual departure, there and back; none where none came back.
    pub latency: Option<Distribution>,
    /// The two ways apart, where the clocks of the ends say enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
}

/// The two ways of our light flow, from and to programs; a round trip is the sum of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Apart {
    /// There.
    pub forward: Distribution,
    /// And back, with the time that the other end took to send it.
    pub back: Distribution,
    /// How wrong each can be at the most, in nanoseconds: what is too much of one is too little of the other. 0: one clock told both.
    pub bound_ns: u64,
    /// Frames that the clocks said too little of.
    pub left_out: u64,
}

/// What `ping` saw.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pinged {
    /// Echo requests sent.
    pub sent: u64,
    /// Round-trip times of those that were answered, in nanoseconds; `ping` tells three digits, so from a millisecond on no single
    /// microseconds.
    pub rtts_ns: Vec<u64>,
}

/// What became of the load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Loaded {
    /// Bits of payload a second, at the receiver.
    pub bits_per_second: f64,
    /// Segments that TCP sent again.
    pub retransmits: Option<u64>,
    /// The mean of TCP's own smoothed round-trip time over all flows and seconds, in microseconds, as the end that sends knows it.
    pub rtt_us: Option<f64>,
    /// Datagrams that its receiver counted, those that it missed among them, where it is UDP.
    pub datagrams: Option<u64>,
    /// Datagrams that didn't arrive.
    pub lost: Option<u64>,
    /// What was asked for, where the sender sent less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_of_bits_per_second: Option<f64>,
}

/// Somebody, and a share of a core's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Who: `0`, or `iperf3, far end`.
    pub who: String,
    /// From 0.
    pub share: f64,
}

/// A queueing discipline while it was looked at.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Of which interface.
    pub interface: String,
    /// What it is, as `tc` says: its kind, and those below it.
    pub kind: String,
    /// How often it was looked at.
    pub looks: u64,
    /// Packets in it, on the average of the looks.
    pub mean_packets: f64,
    /// And at the most.
    pub most_packets: u64,
    /// Bytes in it, at the most.
    pub most_bytes: u64,
    /// Packets that it dropped meanwhile.
    pub drops: u64,
    /// Packets that it took back from the driver meanwhile.
    pub requeues: u64,
}

impl Distribution {
    /// Of what was recorded; none of nothing.
    pub fn of(histogram: &Histogram) -> Option<Distribution> {
        let whole = || Distribution { summary: Summary::of(histogram), histogram: Packed::of(histogram) };
        (histogram.samples() > 0).then(whole)
    }
}

impl Apart {
    /// Of round trips that were split.
    pub fn of(split: &OneWay) -> Option<Apart> {
        let OneWay { forward, back, bound_ns, left_out } = split;
        let (forward, back) = (Distribution::of(forward)?, Distribution::of(back)?);
        Some(Apart { forward, back, bound_ns: *bound_ns, left_out: *left_out })
    }
}

impl Pinged {
    /// Mean and standard deviation, in nanoseconds; none without an answer.
    pub fn mean_and_stdev(&self) -> Option<(f64, f64)> {
        let n = self.rtts_ns.len() as f64;
        if n == 0.0 {
            return None;
        }
        let mean = self.rtts_ns.iter().sum::<u64>() as f64 / n;
        let squares: f64 = self.rtts_ns.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
        Some((mean, if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 }))
    }
}
