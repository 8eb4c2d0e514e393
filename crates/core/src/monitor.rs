//! What `usect monitor` finds out, entry by entry: its log, a line of JSON each, is this module (`docs/monitor.md`).

use crate::calibration::{Calibration, Key};
use crate::environment::Environment;
use crate::frame::FrameSize;
use crate::histogram::Packed;
use crate::measurement::Measurement;
use crate::scenario::Scenario;
use crate::stall::CoreStalls;
use crate::summary::Summary;
use crate::tracker::Counts;
use crate::trains::TrainsRecord;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the schema of the log's lines.
pub const SCHEMA: &str = "usect.monitor/1";

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Entry {
    /// The monitor was started.
    Start(Box<Start>),
    /// It measured latency for a while.
    Interval(Box<Interval>),
    /// It measured capacity.
    Convoy(Box<Convoy>),
    /// Somebody should know.
    Alarm(Alarm),
    /// It could not measure.
    Failure {
        /// When.
        at: Timestamp,
        /// Why, in one sentence.
        why: String,
    },
    /// It was told to stop.
    Stop {
        /// When.
        at: Timestamp,
    },
}

/// What is monitored, on which host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of usect.
    pub usect: String,
    /// When it was started.
    pub at: Timestamp,
    /// The path, the client and its frames.
    pub scenario: Scenario,
    /// How it is measured: levels are compared with those of the same instrument.
    pub instrument: Key,
    /// Write operations that a storage array has in flight, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u32>,
    /// What its instrument was found to add, over a known path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What the figures depend on.
    pub environment: Environment,
}

/// Latency, for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When its traffic began.
    pub at: Timestamp,
    /// How long it lasted, in seconds.
    pub lasted_s: f64,
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// All samples.
    pub latency: Summary,
    /// Those that no stall of the client's own threads touched, where that is known.
    pub clean: Option<Summary>,
    /// What was usual at its end, in nanoseconds, where that is known yet.
    pub level_ns: Option<f64>,
    /// Seconds from one of `medians` to the next.
    pub step_s: f64,
    /// Median of each step, in nanoseconds; null where it had too few samples.
    pub medians: Vec<Option<i64>>,
    /// Stalls per spinning thread.
    pub stalls: Vec<CoreStalls>,
    /// All samples: HdrHistogram's V2 encoding, deflated, base64.
    pub histogram: Packed,
}

impl Interval {
    /// Of a measurement that began `at`.
    pub fn of(at: Timestamp, lasted_s: f64, measured: Measurement, level_ns: Option<f64>) -> Interval {
        let starts = || measured.series.iter().map(|point| point.at_s);
        let step_s = starts().nth(1).zip(starts().next()).map_or(lasted_s, |(second, first)| second - first);
        Interval {
            at,
            lasted_s,
            counts: measured.counts,
            latency: Summary::of(&measured.latency),
            clean: measured.clean().as_ref().map(Summary::of),
            level_ns,
            step_s,
            medians: measured.series.iter().map(|point| point.p50_ns).collect(),
            stalls: measured.stalls,
            histogram: Packed::of(&measured.latency),
        }
    }

    /// Its median, in nanoseconds, where its sample supports one.
    pub fn median_ns(&self) -> Option<f64> {
        let median = self.latency.quantiles.iter().find(|estimate| estimate.quantile.share() == 0.5)?;
        median.value.map(|value| value.ns as f64)
    }
}

/// A convoy of trains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convoy {
    /// When it began.
    pub at: Timestamp,
    /// Size of its frames.
    pub frame_size: FrameSize,
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// Latency of the heads, capacity, loss; without the single trains.
    pub trains: TrainsRecord,
}

/// What somebody should know at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "alarm", rename_all = "kebab-case")]
pub enum Alarm {
    /// The level of latency has changed.
    Shift {
        /// From when on.
        at: Timestamp,
        /// When that was certain.
        seen_at: Timestamp,
        /// The level before, in nanoseconds.
        from_ns: f64,
        /// The level since, in nanoseconds.
        to_ns: f64,
        /// Share of the time since then for which a measuring thread waited for a core: this host may be the reason.
        waited: f64,
    },
    /// Latency is above what the user named, and stays there.
    High {
        /// From when on.
        at: Timestamp,
        /// The user's, in nanoseconds.
        threshold_ns: u64,
        /// The median of a second, in nanoseconds.
        median_ns: f64,
    },
    /// It is below again.
    HighOver {
        /// From when on.
        at: Timestamp,
        /// The user's, in nanoseconds.
        threshold_ns: u64,
    },
    /// Frames leave, and none arrives.
    Silent {
        /// From when on.
        at: Timestamp,
    },
    /// They arrive again.
    SilentOver {
        /// From when on.
        at: Timestamp,
        /// After how long, in seconds.
        after_s: f64,
    },
}

impl Alarm {
    /// From when on.
    pub fn at(&self) -> Timestamp {
        match *self {
            Alarm::Shift { at, .. }
            | Alarm::High { at, .. }
            | Alarm::HighOver { at, .. }
            | Alarm::Silent { at }
            | Alarm::SilentOver { at, .. } => at,
        }
    }
}

impl Entry {
    /// When it was.
    pub fn at(&self) -> Timestamp {
        match self {
            Entry::Start(start) => start.at,
            Entry::Interval(interval) => interval.at,
            Entry::Convoy(convoy) => convoy.at,
            Entry::Alarm(alarm) => alarm.at(),
            Entry::Failure { at, .. } | Entry::Stop { at } => *at,
        }
    }
}

impl Start {
    /// Write operations per second that a synchronously replicated array can't exceed at a latency, with N of them in
    /// flight: ρ < N/RTT (paper 003, equation 1). One way is half of a round trip; what the instrument is known to add is
    /// no part of it.
    pub fn most_writes(&self, latency_ns: f64) -> Option<f64> {
        let ways = if self.scenario.traffic.mode.returns() { 1.0 } else { 2.0 };
        self.writes.map(|writes| most_writes(writes, ways * self.calibrated_ns(latency_ns)))
    }

    /// A median without what the instrument is known to add, in nanoseconds.
    pub fn calibrated_ns(&self, median_ns: f64) -> f64 {
        median_ns - self.calibration.as_ref().map_or(0.0, |calibration| calibration.correction_ns.value)
    }

    /// Whether figures of another start can be compared with those of this one: the same client, between the same ports,
    /// with the same frames.
    pub fn is_like(&self, other: &Start) -> bool {
        self.instrument == other.instrument && self.scenario.clients == other.scenario.clients
    }
}

fn most_writes(writes: u32, rtt_ns: f64) -> f64 {
    f64::from(writes) * 1e9 / rtt_ns.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Point;

    #[test]
    fn the_papers_array_loses_a_tenth_of_its_writes_to_ten_microseconds() {
        assert_eq!(most_writes(10, 100_000.0), 100_000.0);
        assert!((most_writes(10, 110_000.0) - 90_909.0).abs() < 1.0);
    }

    #[test]
    fn a_line_of_the_log_is_read_as_it_was_written() {
        let mut measured = Measurement::default();
        (0..900).for_each(|i| measured.latency.record(5_000 + i));
        let point = |at_s| Point { at_s, samples: 450, p50_ns: Some(5_400), p99_ns: None, max_ns: 5_900 };
        measured.series = vec![point(0.0), point(1.0)];
        let interval = Interval::of("2026-11-21T10:00:00Z".parse().unwrap(), 2.0, measured, None);
        assert_eq!((interval.step_s, interval.median_ns().map(|ns| ns as u64 / 100)), (1.0, Some(54)));
        let entries = [Entry::Interval(Box::new(interval)), Entry::Alarm(Alarm::Silent { at: Timestamp::UNIX_EPOCH })];
        for entry in entries {
            let line = serde_json::to_string(&entry).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        }
    }
}
