//! Stalls, as a spinning thread sees them, and the samples that they touched.
//!
//! A long gap between two iterations of a poll loop is a *stall* when the iteration sent no frame: whatever
//! took the core then was none of the loop's own work. It is *busy* when frames were sent: the kernel
//! runs much of a path inside the call that sends (softirq), so what the path itself takes and what the
//! platform takes can't be told apart there. How long is long: [`Rule`].

mod rule;

use crate::histogram::Histogram;
use crate::instant::{Bridge, Tsc};
pub use rule::{Gap, Rule};
use serde::{Deserialize, Serialize};

/// A gap between two iterations of a poll loop counts above this and what the frames take that were handled in it.
pub const THRESHOLD_NS: u64 = 10_000;

/// What loses a larger share of its time is disturbed, and worth a warning. A quiet virtual machine loses 1 to 2%.
pub const DISTURBED: f64 = 0.05;

/// Spans kept by default: 64 Ki, 1 MiB.
const KEPT: usize = 1 << 16;
/// Most slow samples kept per trial: 1 Mi, 16 MiB.
const MOST_SLOW: u64 = 1 << 20;

/// A half-open interval of time on some clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

impl Span {
    /// Length in the clock's unit.
    pub fn len(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// A flight on the counter, on `CLOCK_MONOTONIC`. Its length is what was recorded as latency, to the
    /// nanosecond: touched samples are later taken away from the distribution bucket by bucket.
    pub fn flight(self, bridge: &Bridge) -> Span {
        let from = bridge.mono(Tsc(self.from)).0;
        Span { from, to: from + bridge.rate().ns(self.len()) }
    }

    /// Whether it has no length.
    pub fn is_empty(self) -> bool {
        self.to <= self.from
    }
}

/// A bounded list of spans that never allocates after it was made, and says what it dropped.
#[derive(Debug)]
pub struct SpanLog {
    spans: Vec<Span>,
    dropped: u64,
}

impl Default for SpanLog {
    fn default() -> SpanLog {
        SpanLog::with_room(KEPT)
    }
}

impl SpanLog {
    /// For the slow samples of a trial of so many frames: all of them, if there is memory for it.
    pub fn for_samples(frames: u64) -> SpanLog {
        SpanLog::with_room(frames.min(MOST_SLOW) as usize)
    }

    fn with_room(kept: usize) -> SpanLog {
        // Written once, so that no page is missing when it is used.
        let mut spans = vec![Span { from: 1, to: 1 }; kept];
        spans.clear();
        SpanLog { spans, dropped: 0 }
    }

    /// From spans recorded elsewhere, `dropped` of which were not kept.
    pub fn from_parts(spans: Vec<Span>, dropped: u64) -> SpanLog {
        SpanLog { spans, dropped }
    }

    /// Adds a span, or counts it as dropped when full.
    #[inline]
    pub fn push(&mut self, span: Span) {
        if self.spans.len() < self.spans.capacity() {
            self.spans.push(span);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds what another log holds, after the measurement.
    pub fn append(&mut self, other: SpanLog) {
        self.spans.extend(other.spans);
        self.dropped += other.dropped;
    }

    /// Forgets everything, and keeps its memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.dropped = 0;
    }

    /// What was kept, in order of recording.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many did not fit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The same with every instant converted by `convert`.
    pub fn map(&self, convert: impl Fn(u64) -> u64) -> SpanLog {
        self.map_spans(|s| Span { from: convert(s.from), to: convert(s.to) })
    }

    /// The same with every span converted by `convert`.
    pub fn map_spans(&self, convert: impl Fn(Span) -> Span) -> SpanLog {
        SpanLog { spans: self.spans.iter().map(|s| convert(*s)).collect(), dropped: self.dropped }
    }
}

/// The samples among `slow` whose flight overlaps a stall, as a distribution of their latency.
/// All spans are in nanoseconds of one clock. `slow` holds the samples of at least
/// [`THRESHOLD_NS`], so a stall that happened wholly inside a flight can't be missed.
pub fn touched(slow: &[Span], stalls: &[Span]) -> Histogram {
    let mut stalls: Vec<Span> = stalls.to_vec();
    stalls.sort_unstable_by_key(|s| s.from);
    // Stalls of two threads may overlap: keep the furthest end so far beside each start.
    let mut furthest = 0;
    let ends: Vec<u64> = stalls
        .iter()
        .map(|s| {
            furthest = furthest.max(s.to);
            furthest
        })
        .collect();
    let mut histogram = Histogram::default();
    for flight in slow {
        let begun = stalls.partition_point(|s| s.from < flight.to);
        if begun > 0 && ends[begun - 1] > flight.from {
            histogram.record(flight.len());
        }
    }
    histogram
}

/// Gaps of which only number and length matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// Their total length, in nanoseconds.
    pub total_ns: u64,
    /// The longest, in nanoseconds; 0 without any.
    pub longest_ns: u64,
}

impl Gaps {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

/// What one spinning thread saw, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Watched {
    /// The thread: `sender`, `receiver`, `sender and receiver`, `generator`, `forwarder`, `reflector`,
    /// `platform`.
    pub thread: String,
    /// The core it was pinned to, if it was.
    pub core: Option<usize>,
    /// How long it was observed.
    pub observed_ns: u64,
    /// Its stalls: gaps in which it sent nothing.
    pub log: SpanLog,
    /// Its busy gaps.
    pub busy: Gaps,
}

impl Watched {
    /// In numbers.
    pub fn summary(&self) -> CoreStalls {
        CoreStalls::of(self)
    }
}

/// What one spinning thread saw: a client's during the measured part of a trial, a DUT's or reflector's
/// since it was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreStalls {
    /// The thread: `sender`, `receiver`, `sender and receiver`, `generator`, `forwarder`, `reflector`,
    /// `platform`.
    pub thread: String,
    /// The core it was pinned to, if it was.
    pub core: Option<usize>,
    /// Gaps longer than this and what their frames take, in nanoseconds, count.
    pub threshold_ns: u64,
    /// How long it was observed, in nanoseconds.
    pub observed_ns: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Their total length, in nanoseconds.
    pub total_ns: u64,
    /// Median length, in nanoseconds; 0 without stalls.
    pub median_ns: u64,
    /// The longest, in nanoseconds; 0 without stalls.
    pub longest_ns: u64,
    /// Gaps over the threshold in which it sent frames: the platform's doing or the path's own work.
    pub busy: Gaps,
}

impl CoreStalls {
    /// In numbers.
    fn of(watched: &Watched) -> CoreStalls {
        let mut lengths: Vec<u64> = watched.log.spans().iter().map(|s| s.len()).collect();
        lengths.sort_unstable();
        CoreStalls {
            thread: watched.thread.clone(),
            core: watched.core,
            threshold_ns: THRESHOLD_NS,
            observed_ns: watched.observed_ns,
            stalls: lengths.len() as u64 + watched.log.dropped(),
            total_ns: lengths.iter().sum(),
            median_ns: lengths.get(lengths.len() / 2).copied().unwrap_or(0),
            longest_ns: lengths.last().copied().unwrap_or(0),
            busy: watched.busy,
        }
    }

    /// Share of the observed time spent in stalls.
    pub fn share(&self) -> f64 {
        if self.observed_ns == 0 { 0.0 } else { self.total_ns as f64 / self.observed_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = Span> {
        (0_u64..10_000, 1_u64..500).prop_map(|(from, len)| Span { from, to: from + len })
    }

    proptest! {
        #[test]
        fn touched_agrees_with_the_obvious_way(slow in proptest::collection::vec(span(), 0..60), stalls in proptest::collection::vec(span(), 0..60)) {
            let expected = slow.iter().filter(|f| stalls.iter().any(|s| s.from < f.to && s.to > f.from)).count();
            prop_assert_eq!(touched(&slow, &stalls).samples() as usize, expected);
        }
    }

    #[test]
    fn a_full_log_says_so() {
        let mut log = SpanLog::for_samples(5);
        (0..8).for_each(|i| log.push(Span { from: i, to: i + 20_000 }));
        assert_eq!(log.dropped(), 3);
        let watched = Watched { thread: "sender".into(), core: None, observed_ns: 1, log, busy: Gaps::default() };
        assert_eq!(watched.summary().stalls, 8);
    }
}
