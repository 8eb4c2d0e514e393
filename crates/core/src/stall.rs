//! Stalls of the platform, as a spinning thread sees them, and the samples that they touched.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// A gap between two iterations of a poll loop counts as a stall above this, per frame handled in it.
pub const THRESHOLD_NS: u64 = 10_000;

/// Stalls and slow samples kept per trial and thread: 64 Ki of each, about 1 MiB.
const KEPT: usize = 1 << 16;

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
        // Written once, so that no page is missing when it is used.
        let mut spans = vec![Span { from: 1, to: 1 }; KEPT];
        spans.clear();
        SpanLog { spans, dropped: 0 }
    }
}

impl SpanLog {
    /// From spans recorded elsewhere, `dropped` of which were not kept.
    pub fn from_parts(spans: Vec<Span>, dropped: u64) -> SpanLog {
        SpanLog { spans, dropped }
    }

    /// Adds a span, or counts it as dropped when full.
    #[inline]
    pub fn push(&mut self, span: Span) {
        if self.spans.len() < KEPT {
            self.spans.push(span);
        } else {
            self.dropped += 1;
        }
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

/// One spinning thread's stalls, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Watched {
    /// The thread: `sender`, `receiver`, `sender and receiver`, `generator`, `forwarder`, `reflector`,
    /// `platform`.
    pub thread: String,
    /// The core it was pinned to, if it was.
    pub core: Option<usize>,
    /// How long it was observed.
    pub observed_ns: u64,
    /// Its stalls.
    pub log: SpanLog,
}

impl Watched {
    /// In numbers.
    pub fn summary(&self) -> CoreStalls {
        CoreStalls::of(&self.thread, self.core, self.observed_ns, &self.log)
    }
}

/// What one spinning thread saw of the platform: a client's during the measured part of a trial, a DUT's or
/// reflector's since it was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreStalls {
    /// The thread: `sender`, `receiver`, `sender and receiver`, `generator`, `forwarder`, `reflector`,
    /// `platform`.
    pub thread: String,
    /// The core it was pinned to, if it was.
    pub core: Option<usize>,
    /// Gaps longer than this, in nanoseconds, count.
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
}

impl CoreStalls {
    /// Summarises a log in nanoseconds.
    pub fn of(thread: &str, core: Option<usize>, observed_ns: u64, log: &SpanLog) -> CoreStalls {
        let mut lengths: Vec<u64> = log.spans().iter().map(|s| s.len()).collect();
        lengths.sort_unstable();
        CoreStalls {
            thread: thread.to_owned(),
            core,
            threshold_ns: THRESHOLD_NS,
            observed_ns,
            stalls: lengths.len() as u64 + log.dropped(),
            total_ns: lengths.iter().sum(),
            median_ns: lengths.get(lengths.len() / 2).copied().unwrap_or(0),
            longest_ns: lengths.last().copied().unwrap_or(0),
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
        let mut log = SpanLog::default();
        (0..KEPT as u64 + 3).for_each(|i| log.push(Span { from: i, to: i + 20_000 }));
        assert_eq!(log.dropped(), 3);
        assert_eq!(CoreStalls::of("sender", None, 1, &log).stalls, KEPT as u64 + 3);
    }
}
