//! The stamp table of `bpf/stamps.bpf.h`, as user space reads it.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use usect_core::buckets;
use usect_core::frame::Flow;
use usect_core::histogram::Histogram;
use usect_core::stall::{Span, SpanLog};
use usect_core::tracker::Counts;

const SLOTS: usize = 1 << 16;
const SLOW: usize = 1 << 18;

/// `struct span`.
#[repr(C)]
pub(crate) struct SharedSpan {
    from: AtomicU64,
    to: AtomicU64,
}

/// `struct slot`; lateness is the low half of the third word, the state the high one.
#[repr(C)]
struct Slot {
    departure: AtomicU64,
    sequence: AtomicU64,
    state: AtomicU64,
    arrival: AtomicU64,
}

/// State of a slot whose frame has arrived.
const ARRIVED: u64 = 2;

/// `struct stamps`.
#[repr(C)]
pub(crate) struct Stamps {
    slots: [Slot; SLOTS],
    latency: [AtomicU64; buckets::LEN],
    scheduled: [AtomicU64; buckets::LEN],
    slow: [SharedSpan; SLOW],
    slow_count: AtomicU64,
    pub(crate) departed: AtomicU64,
    arrivals: AtomicU64,
    pub(crate) received: AtomicU64,
    reordered: AtomicU64,
    duplicates: AtomicU64,
    corrupted: AtomicU64,
    stale: AtomicU64,
    foreign: AtomicU64,
    warmup_arrivals: AtomicU64,
    stamped: AtomicU64,
    next: AtomicU64,
    overwritten: AtomicU64,
}

impl Stamps {
    /// The final counts; `measure_from` frames were the warm-up.
    pub(crate) fn counts(&self, measure_from: u64) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let departed = get(&self.departed);
        let warmup_sent = departed.min(measure_from);
        let sent = departed - warmup_sent;
        let received = get(&self.received);
        Counts {
            sent,
            received,
            reordered: get(&self.reordered),
            stamped: get(&self.stamped),
            lost: sent.saturating_sub(received),
            duplicates: get(&self.duplicates),
            corrupted: get(&self.corrupted),
            stale: get(&self.stale),
            foreign: get(&self.foreign),
            arrivals: get(&self.arrivals),
            warmup_sent,
            warmup_arrivals: get(&self.warmup_arrivals),
        }
    }

    /// When a frame departed and arrived, on `CLOCK_MONOTONIC`, by the low half of its number; `None` when its place
    /// is another's.
    pub(crate) fn passed(&self, sequence: u32) -> Option<(u64, u64)> {
        let slot = &self.slots[sequence as usize % SLOTS];
        let is_its = || slot.sequence.load(Acquire) as u32 == sequence && slot.state.load(Acquire) >> 32 == ARRIVED;
        let found = is_its().then(|| (slot.departure.load(Acquire), slot.arrival.load(Acquire)));
        found.filter(|_| is_its())
    }

    /// Latency so far, as counts per bucket.
    pub(crate) fn latency(&self) -> Vec<u64> {
        loaded(&self.latency)
    }

    /// Latency from the scheduled departure.
    pub(crate) fn scheduled(&self) -> Histogram {
        Histogram::from_counts(&loaded(&self.scheduled))
    }

    /// Slow samples, on `CLOCK_MONOTONIC`.
    pub(crate) fn slow(&self) -> SpanLog {
        spans(&self.slow, self.slow_count.load(Relaxed))
    }

    /// Frames whose place in the table went to a later one before they arrived: lost, or too late to be known.
    pub(crate) fn overwritten(&self) -> u64 {
        self.overwritten.load(Relaxed)
    }

    /// Everything that reached the table so far; quiet when it stops growing.
    pub(crate) fn activity(&self) -> u64 {
        self.arrivals.load(Relaxed) + self.departed.load(Relaxed)
    }
}

/// Counts per bucket as they stand.
pub(crate) fn loaded(counts: &[AtomicU64]) -> Vec<u64> {
    counts.iter().map(|c| c.load(Relaxed)).collect()
}

/// The spans that were kept of `count`.
pub(crate) fn spans(kept: &[SharedSpan], count: u64) -> SpanLog {
    let dropped = count.saturating_sub(kept.len() as u64);
    let in_use = (count - dropped) as usize;
    let spans = kept[..in_use].iter().map(|s| Span { from: s.from.load(Relaxed), to: s.to.load(Relaxed) });
    SpanLog::from_parts(spans.collect(), dropped)
}

/// A flow's addresses and ports in network byte order, as `struct flow` holds them.
pub(crate) fn network_order(flow: &Flow) -> (u32, u32, u16, u16) {
    let end = |a: SocketAddrV4| (u32::from_ne_bytes(a.ip().octets()), a.port().to_be());
    let ((source, source_port), (destination, destination_port)) =
        (end(flow.source.address), end(flow.destination.address));
    (source, destination, source_port, destination_port)
}
