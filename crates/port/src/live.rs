//! What the threads of a packet client share: the plan of the trial, and its counters as it runs.

use crate::numbered::Numbered;
use crate::route::Joint;
use crate::{BATCH, ClientError};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use usect_core::buckets::Recorder;
use usect_core::frame::HEADERS;
use usect_core::instant::Tsc;
use usect_core::signature::Signature;
use usect_core::template::{Tag, Template};
use usect_core::tracker::Departure;
use usect_core::trial::Traffic;

/// A window on a running measurement, read by another thread.
pub trait Probe: Send + Sync {
    /// Frames sent so far, warm-up included.
    fn sent(&self) -> u64;
    /// Measured frames received so far.
    fn received(&self) -> u64;
    /// Latency so far, as counts per bucket.
    fn latency(&self) -> Vec<u64>;
    /// Whether nothing more will be sent.
    fn has_sent_all(&self) -> bool;
}

/// Counters of a running packet client, shared between its threads and its probe.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) latency: Recorder,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// One past the highest frame number that arrived: what ping-pong waits for.
    pub(crate) arrived: AtomicU64,
    pub(crate) last_departure: AtomicU64,
    pub(crate) sending_done: AtomicBool,
    /// Whoever receives looks at its port.
    pub(crate) receiving: AtomicBool,
    /// Nobody receives any more, so nothing more need be sent.
    pub(crate) receiver_gone: AtomicBool,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Live {
    /// Whether sending should end before the schedule does.
    #[inline]
    pub(crate) fn cut_short(&self) -> bool {
        self.stop.load(Relaxed) || self.receiver_gone.load(Relaxed)
    }

    /// Below which number frames may have left: of a batch on its way out nothing is said before all of it has.
    #[inline]
    pub(crate) fn may_have_left(&self) -> u64 {
        let on_their_way = if self.sending_done.load(Acquire) { 0 } else { BATCH as u64 };
        self.sent.load(Relaxed) + on_their_way
    }

    /// Waits until somebody receives, or nobody will: what leaves sooner may find a queue that nobody empties yet.
    pub(crate) fn wait_for_receiver(&self) {
        while !self.receiving.load(Acquire) && !self.cut_short() {
            std::thread::yield_now();
        }
    }

    /// Nothing more will leave: the wait for residual frames begins. Only the first call counts.
    pub(crate) fn end_of_sending(&self, now: Tsc) {
        if !self.sending_done.load(Relaxed) {
            self.last_departure.store(now.0, Relaxed);
            self.sending_done.store(true, Release);
        }
    }
}

impl Probe for Live {
    fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    fn latency(&self) -> Vec<u64> {
        self.latency.counts()
    }

    fn has_sent_all(&self) -> bool {
        self.sending_done.load(Relaxed)
    }
}

/// What both halves of the paced loop need to know.
pub(crate) struct Plan {
    /// What is sent.
    pub(crate) sent: Template,
    /// What is expected to arrive: the same, or the way back.
    pub(crate) expected: Template,
    pub(crate) traffic: Traffic,
    /// Flows that take turns.
    pub(crate) flows: u16,
    /// Tells this trial's frames from another's.
    pub(crate) nonce: u16,
    /// How much of the templates ports don't see: 0, or the headers of datagrams.
    pub(crate) from: usize,
    /// Departures (when, and how late) of frames that carry no more than their number.
    pub(crate) departures: Option<Numbered>,
    /// Stamps of others than the client.
    pub(crate) joint: Option<Joint>,
}

impl Plan {
    /// Frames of one kind, there and, in `expected`, back.
    pub(crate) fn new(sent: Template, expected: Template, traffic: Traffic, frames: bool) -> Plan {
        let departures = matches!(sent.tag(), Tag::Number { .. }).then(Numbered::default);
        let from = if frames { 0 } else { HEADERS };
        Plan { sent, expected, traffic, flows: 1, nonce: 0, from, departures, joint: None }
    }

    /// Writes what changes from frame to frame.
    #[inline(always)]
    pub(crate) fn write(&self, buffer: &mut [u8], index: u64, departure: Departure) {
        let sequence = index as u32;
        if let Some(departures) = &self.departures {
            departures.note_overwritten(sequence, ARRIVED);
            departures.put(sequence, AT, departure.at);
            departures.put(sequence, LATENESS, departure.lateness_ns);
        }
        self.sent.write(buffer, self.from, index, |place| {
            if !place.is_empty() {
                Signature { sequence, departure }.write(self.nonce, place);
            }
        });
    }

    /// Whether a frame, or a datagram that got here, is of the expected flow.
    #[inline]
    pub(crate) fn owns(&self, frame: &[u8]) -> bool {
        self.from > 0 || self.expected.owns(frame)
    }

    /// The number and departure of a frame of the expected flow; `None` where it is damaged.
    #[inline(always)]
    pub(crate) fn read(&self, frame: &[u8]) -> Option<Signature> {
        if !self.expected.is_whole(frame, self.from) {
            return None;
        }
        match self.expected.tag() {
            Tag::Signature(at) => Signature::read(self.nonce, &frame[at - self.from..]),
            Tag::Number { at, width } => {
                let departures = self.departures.as_ref()?;
                let number = frame[at..at + width].iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
                // Two bytes name the last frame that ends in them.
                let sequence = if width == 2 { departures.owner(number as u16)? } else { number };
                departures.mark(sequence, ARRIVED);
                // 0 where a later frame has its place: received, and without a latency.
                let [at, lateness_ns, _] = departures.find(sequence);
                let was_sent = at > 0 || departures.is_gone(sequence);
                was_sent.then_some(Signature { sequence, departure: Departure { at, lateness_ns } })
            }
        }
    }

    /// Frames that were not in when another took their number; 0 where numbers don't come round.
    pub(crate) fn overwritten(&self) -> u64 {
        self.departures.as_ref().filter(|_| self.comes_round()).map_or(0, Numbered::overwritten)
    }

    /// Whether frames have numbers of 16 bits.
    pub(crate) fn comes_round(&self) -> bool {
        matches!(self.sent.tag(), Tag::Number { width: 2, .. })
    }

    /// Bytes of what is handed to the port.
    pub(crate) fn length(&self) -> usize {
        self.sent.bytes(self.from).len()
    }

    pub(crate) fn unreachable(&self, sent: u64, elapsed_ns: u64) -> ClientError {
        let reached = sent as f64 * 1e9 / elapsed_ns as f64;
        ClientError::Rate { requested: self.traffic.rate.frames_per_second(), reached }
    }
}

/// Words of [`Plan::departures`].
const AT: usize = 0;
const LATENESS: usize = 1;
/// Written by the receiving thread.
const ARRIVED: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;
    use usect_core::frame::{Endpoint, Flow, FrameSize};
    use usect_core::frame_spec::FrameSpec;
    use usect_core::rate::Rate;
    use usect_core::tracker::Counts;

    #[test]
    fn a_frame_that_is_later_than_numbers_last_is_no_quiet_success() {
        let end =
            |n: u8| Endpoint { mac: [2, 0, 0, 0, 0, n], address: SocketAddrV4::new([198, 18, 0, n].into(), 9000) };
        let flow = Flow { source: end(1), destination: end(2) };
        let spec: FrameSpec = "signature = \"identification\"".parse().unwrap();
        let template = Template::new(&spec, FrameSize::MIN, &flow).unwrap();
        let traffic = Traffic::evenly(FrameSize::MIN, Rate::per_second(1_000_000).unwrap(), 70_000);
        let plan = Plan::new(template.clone(), template.clone(), traffic, true);
        let sent = |index: u64| {
            let mut frame = template.bytes(0).to_vec();
            plan.write(&mut frame, index, Departure { at: 1_000 * (index + 1), lateness_ns: 0 });
            frame
        };
        let late = sent(0);
        let read = |frame: &[u8]| plan.read(frame).unwrap().sequence;
        (1..=1 << 16).for_each(|index| assert_eq!(read(&sent(index)), index as u32));
        assert_eq!(read(&late), 1 << 16, "the frame that has its number now");
        let counts = Counts { sent: 70_000, ..Counts::default() };
        assert_eq!((plan.overwritten(), counts.confusable(plan.overwritten())), (1, 1));
    }
}
