//! What a suite of benchmarks found out.

use crate::frame::FrameSize;
use crate::stats::{self, Bounded};
use crate::suite::Deviation;
use serde::{Deserialize, Serialize};

/// What came out of a suite so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Client by client.
    pub clients: Vec<ClientFindings>,
    /// Where it is not what an RFC says.
    pub deviations: Vec<Deviation>,
}

/// What one client found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientFindings {
    /// Its name.
    pub client: String,
    /// Size by size.
    pub sizes: Vec<SizeFindings>,
}

/// What was found for a frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeFindings {
    /// The size.
    pub frame_size: FrameSize,
    /// Frames per second that fill the line.
    pub line_fps: f64,
    /// The most that was offered, in frames per second; absent before that is known.
    pub offered_fps: Option<f64>,
    /// Why there is nothing more, in one sentence.
    pub verdict: Option<String>,
    /// A throughput for each loss ratio (RFC 2544 §26.1).
    pub throughput: Vec<Throughput>,
    /// Latency for each load, with and without the device under test (§26.2).
    pub latency: Vec<Latency>,
    /// Frame loss rate for each load (§26.3).
    pub loss: Vec<Loss>,
    /// Back-to-back frames (§26.4).
    pub back_to_back: Option<BackToBack>,
    /// System recovery (§26.5).
    pub recovery: Option<Recovery>,
    /// Reset (§26.6).
    pub reset: Option<Reset>,
    /// Lost frames of all trials that the receiving port's own queue claims: no trial passed by them.
    pub own_lost: u64,
    /// Trials so far.
    pub trials: u32,
    /// Trials in which a thread that spins was away for more than a twentieth of its time: they may say more of the host than
    /// of the device.
    pub disturbed: u32,
    /// The largest share of its time that one was away in a trial.
    pub longest_away: f64,
}

/// A figure, repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// Every one, in order.
    pub values: Vec<f64>,
    /// Their mean, with the 95% interval of Student's t where there are two at least.
    pub mean: Bounded,
    /// Their median, from the least to the most of them: RFC 8219's summary, of which 1st and 99th percentile are these below
    /// 100 repetitions.
    pub median: Bounded,
}

impl Repeated {
    /// Of values; none of none.
    pub fn of(values: Vec<f64>) -> Option<Repeated> {
        let mean = stats::mean(&values)?;
        let edge = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
        let (low, high) = edge(f64::min).zip(edge(f64::max))?;
        let median = Bounded { value: stats::middle(values.iter().copied())?, low, high };
        Some(Repeated { values, mean, median })
    }

    /// With an interval that stays in the range that the figure has.
    pub fn within(self, least: f64, most: f64) -> Repeated {
        let mean = Bounded { low: self.mean.low.max(least), high: self.mean.high.min(most), ..self.mean };
        Repeated { mean, ..self }
    }

    /// Whether it has an interval.
    pub fn has_interval(&self) -> bool {
        self.values.len() > 1
    }
}

/// The largest load of which no more than a share is lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The share that may be lost: 0 for RFC 2544's throughput.
    pub loss_ratio: f64,
    /// The largest load that passed, in frames per second, of each repetition that found one.
    pub fps: Option<Repeated>,
    /// The smallest that didn't, likewise; absent where everything passed.
    pub above_fps: Option<Repeated>,
    /// What came out at the largest load, in frames per second (RFC 9971's conditional throughput).
    pub forwarded_fps: Option<Repeated>,
    /// Trials that it took, and their seconds of traffic.
    pub trials: u32,
    /// See `trials`.
    pub trial_s: f64,
    /// Whether every repetition has come to its end.
    pub complete: bool,
}

/// Latency at a load. Times are in nanoseconds, and each is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The load, in percent of the throughput.
    pub percent: u32,
    /// The load, in frames per second.
    pub fps: f64,
    /// Whether it is that of the path without the device under test.
    pub loopback: bool,
    /// Frames sent, and of them lost and stamped, all repetitions together; `own_lost` are lost besides.
    pub sent: u64,
    /// See `sent`.
    pub lost: u64,
    /// Lost frames that the receiving port's own queue claims.
    pub own_lost: u64,
    /// See `sent`.
    pub stamped: u64,
    /// Fewest tagged frames of a stream that arrived.
    pub tagged_frames: Option<u64>,
    /// Of the tagged frame in the middle of the stream (RFC 2544 §26.2).
    pub tagged_ns: Option<Repeated>,
    /// Median of the tagged frames of the second half (RFC 8219 §7.2).
    pub typical_ns: Option<Repeated>,
    /// Their 99.9th percentile.
    pub worst_ns: Option<Repeated>,
    /// Mean of all frames.
    pub mean_ns: Option<Repeated>,
    /// Median of all frames.
    pub median_ns: Option<Repeated>,
    /// 99.9th percentile of all frames.
    pub p999_ns: Option<Repeated>,
    /// Packet delay variation of all frames: their 99.9th percentile less their least (RFC 8219 §7.3.1).
    pub pdv_ns: Option<Repeated>,
}

/// Frame loss rate at a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// The load, in percent of the most that is offered.
    pub percent: u32,
    /// The load, in frames per second.
    pub fps: f64,
    /// Share of the frames that was lost.
    pub share: Repeated,
}

/// The longest burst at the highest rate of which nothing is lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// The rate within the burst, in frames per second.
    pub fps: f64,
    /// Its frames.
    pub frames: Repeated,
    /// The shortest that lost some, of each repetition that found one.
    pub above: Option<Repeated>,
    /// Repetitions in which the longest burst passed that was tried, or that the sender could send: the device may take more.
    pub unlimited: u32,
    /// Bursts that left at less than nine tenths of that rate, or not whole: they count for nothing, and are sent again twice.
    pub stretched: u32,
    /// What it takes to send the burst, in seconds (RFC 9004 §6.2, implied DUT buffer time).
    pub implied_s: f64,
    /// The same without what was forwarded meanwhile (RFC 9004 §6.2, corrected DUT buffer time): absent where the throughput
    /// isn't known, or is as high as the rate of the burst.
    pub corrected_s: Option<f64>,
    /// The corrected time in frames at the rate of the burst: the buffer.
    pub buffer_frames: Option<f64>,
}

/// How long frames are still lost after an overload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The overload, in frames per second.
    pub overload_fps: f64,
    /// From the first frame at half the overload to the last one that was lost, in seconds.
    pub seconds: Option<Repeated>,
    /// Repetitions in which nothing was lost, so that there was no overload to recover from.
    pub unmoved: u32,
    /// Repetitions in which frames were lost to the end.
    pub unrecovered: u32,
    /// Repetitions in which the receiving port's own queue claims lost frames, or nobody numbered them, so that the last one
    /// that the device lost isn't known.
    pub unclear: u32,
}

/// How long nothing arrives after a reset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reset {
    /// The load, in frames per second.
    pub fps: f64,
    /// From the last frame before to the first after, in seconds (RFC 6201, by time).
    pub seconds: Option<Repeated>,
    /// The frames lost at that rate, in seconds (RFC 6201, by loss).
    pub lost_s: Option<Repeated>,
    /// Repetitions in which nothing was lost: it wasn't reset, or in no time.
    pub unmoved: u32,
    /// Repetitions in which it was not back before the stream ended.
    pub out: u32,
}
