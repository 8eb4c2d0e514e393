//! Where a latency was spent: the time between the points at which one frame was stamped on its way, and how
//! much of each percentile of the whole falls between which two.

use crate::buckets;
use crate::histogram::Histogram;
use crate::stats::{self, Quantile};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A point at which a frame is stamped, in the order in which it passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The sending engine, as in every client.
    Sent,
    /// Entry of the queueing discipline (`SOF_TIMESTAMPING_TX_SCHED`).
    Queued,
    /// The driver, as it hands the frame to the card (`SOF_TIMESTAMPING_TX_SOFTWARE`).
    DriverOut,
    /// The card's clock, as the frame leaves.
    CardOut,
    /// The tap before the DUT.
    DutIn,
    /// The tap behind the DUT.
    DutOut,
    /// The card's clock, as the frame arrives.
    CardIn,
    /// The XDP program, in the driver, before there is a socket buffer.
    DriverIn,
    /// Entry of the receiving stack (`SOF_TIMESTAMPING_RX_SOFTWARE`).
    KernelIn,
    /// The receiving engine, as in every client.
    Received,
}

impl Point {
    /// How many there are.
    pub const COUNT: usize = 10;

    /// Its name in figures, where its neighbours tell on which side it is.
    pub fn short(self) -> &'static str {
        match self {
            Point::Sent | Point::Received => "application",
            Point::Queued => "qdisc",
            Point::DriverOut => "driver",
            Point::CardOut | Point::CardIn => "card",
            Point::DutIn => "tap in",
            Point::DutOut => "tap out",
            Point::DriverIn => "XDP program",
            Point::KernelIn => "stack",
        }
    }

    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Point::Sent => "application (sends)",
            Point::Queued => "queueing discipline",
            Point::DriverOut => "driver (sends)",
            Point::CardOut => "card (sends)",
            Point::DutIn => "tap before the DUT",
            Point::DutOut => "tap behind the DUT",
            Point::CardIn => "card (receives)",
            Point::DriverIn => "XDP program",
            Point::KernelIn => "stack (receives)",
            Point::Received => "application (receives)",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The stamps of one frame, in nanoseconds of `CLOCK_MONOTONIC`; 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passage([u64; Point::COUNT]);

impl Passage {
    /// When the frame passed a point, if it was stamped there.
    #[inline]
    pub fn at(&self, point: Point) -> Option<u64> {
        Some(self.0[point as usize]).filter(|&ns| ns > 0)
    }

    /// Notes when it passed.
    #[inline]
    pub fn set(&mut self, point: Point, ns: u64) {
        self.0[point as usize] = ns;
    }
}

/// Distributions of the stages of many frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stages {
    points: Vec<Point>,
    /// Of the time from the first to the last point, per bucket: how many frames, and per stage how much
    /// time they spent in it. A percentile of the whole is so taken apart into stages that add up to it.
    total: Vec<u64>,
    spent: Vec<Vec<u64>>,
    /// Of each stage on its own, per bucket.
    alone: Vec<Vec<u64>>,
    /// Frames that lacked a stamp.
    pub incomplete: u64,
    /// Frames of which two stamps stood in the wrong order, by the errors of their clocks.
    pub backwards: u64,
    /// Bound on the error of a stage between two clocks, in nanoseconds; 0 where all stamps are of one.
    pub clock_error_ns: u64,
}

impl Stages {
    /// Of frames that are stamped at these points.
    pub fn between(mut points: Vec<Point>) -> Stages {
        points.sort_unstable();
        points.dedup();
        let stages = points.len().saturating_sub(1);
        let empty = || vec![0; buckets::LEN];
        Stages {
            points,
            total: empty(),
            spent: (0..stages).map(|_| empty()).collect(),
            alone: (0..stages).map(|_| empty()).collect(),
            incomplete: 0,
            backwards: 0,
            clock_error_ns: 0,
        }
    }

    /// The points, in order.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Frames that had every stamp.
    pub fn frames(&self) -> u64 {
        self.total.iter().sum()
    }

    /// Takes in one frame. A stamp that lies before the one of an earlier point, or behind the last, counts
    /// as that, so that the stages still add up to the whole.
    pub fn record(&mut self, passage: &Passage) {
        let (Some(&first), Some(&last)) = (self.points.first(), self.points.last()) else { return };
        let whole = passage.at(first).zip(passage.at(last));
        let Some((begin, end)) = whole.filter(|_| self.points.iter().all(|&p| passage.at(p).is_some())) else {
            self.incomplete += 1;
            return;
        };
        let end = end.max(begin);
        let bucket = buckets::index(end - begin);
        self.total[bucket] += 1;
        let (mut before, mut in_order) = (begin, true);
        for (i, &point) in self.points[1..].iter().enumerate() {
            let raw = passage.at(point).unwrap_or(before);
            let at = raw.clamp(before, end);
            in_order &= at == raw;
            self.spent[i][bucket] += at - before;
            self.alone[i][buckets::index(at - before)] += 1;
            before = at;
        }
        self.backwards += u64::from(!in_order);
    }

    /// Adds another trial's.
    pub fn add(&mut self, other: &Stages) {
        if self.points != other.points {
            return;
        }
        let sum = |into: &mut Vec<u64>, more: &Vec<u64>| into.iter_mut().zip(more).for_each(|(a, b)| *a += b);
        sum(&mut self.total, &other.total);
        self.spent.iter_mut().zip(&other.spent).for_each(|(a, b)| sum(a, b));
        self.alone.iter_mut().zip(&other.alone).for_each(|(a, b)| sum(a, b));
        self.incomplete += other.incomplete;
        self.backwards += other.backwards;
        self.clock_error_ns = self.clock_error_ns.max(other.clock_error_ns);
    }

    /// In numbers.
    pub fn record_of(&self) -> StagesRecord {
        let total = Histogram::from_counts(&self.total);
        let pairs = self.points.windows(2);
        let stages = pairs.zip(&self.alone).map(|(pair, counts)| StageRecord {
            from: pair[0],
            to: pair[1],
            latency: Summary::of(&Histogram::from_counts(counts)),
        });
        let shares = stats::estimates(&total).into_iter().filter_map(|estimate| {
            let value = estimate.value?;
            Some(self.share(estimate.quantile, value.low_ns as u64, value.high_ns as u64))
        });
        StagesRecord {
            frames: total.samples(),
            incomplete: self.incomplete,
            backwards: self.backwards,
            clock_error_ns: self.clock_error_ns,
            stages: stages.collect(),
            shares: shares.collect(),
        }
    }

    /// The frames whose total lies within an interval, taken apart.
    fn share(&self, quantile: Quantile, low_ns: u64, high_ns: u64) -> Share {
        let range = buckets::index(low_ns)..=buckets::index(high_ns);
        let sum = |counts: &Vec<u64>| counts[range.clone()].iter().sum::<u64>();
        let frames = sum(&self.total);
        let mean = |counts: &Vec<u64>| sum(counts) as f64 / frames.max(1) as f64;
        Share { quantile, frames, stages_ns: self.spent.iter().map(mean).collect() }
    }
}

/// [`Stages`] in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagesRecord {
    /// Frames that had every stamp.
    pub frames: u64,
    /// Frames that lacked one.
    pub incomplete: u64,
    /// Frames of which two stamps stood in the wrong order, by the errors of their clocks.
    pub backwards: u64,
    /// Bound on the error of a stage between two clocks, in nanoseconds; 0 where all stamps are of one.
    pub clock_error_ns: u64,
    /// Each stage on its own.
    pub stages: Vec<StageRecord>,
    /// Percentiles of the whole, taken apart.
    pub shares: Vec<Share>,
}

/// The time between two points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Where it begins.
    pub from: Point,
    /// Where it ends.
    pub to: Point,
    /// Its distribution.
    pub latency: Summary,
}

impl StageRecord {
    /// `driver → tap in`.
    pub fn name(&self) -> String {
        format!("{} → {}", self.from.short(), self.to.short())
    }
}

/// A percentile of the time from the first to the last point, taken apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Which.
    pub quantile: Quantile,
    /// Frames within its 95% interval, of which the means are.
    pub frames: u64,
    /// Mean time that those frames spent in each stage, in nanoseconds; their sum is the frames' mean total.
    pub stages_ns: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POINTS: [Point; 4] = [Point::Sent, Point::DutIn, Point::DutOut, Point::Received];

    fn passage(stamps: [u64; 4]) -> Passage {
        let mut passage = Passage::default();
        POINTS.iter().zip(stamps).for_each(|(&point, ns)| passage.set(point, ns));
        passage
    }

    #[test]
    fn a_slow_tail_is_laid_to_the_stage_that_was_slow() {
        let mut stages = Stages::between(POINTS.to_vec());
        for i in 0..10_000_u64 {
            let wait = if i % 20 == 0 { 9_000 } else { 0 };
            stages.record(&passage([1_000, 1_100, 1_300 + wait, 1_350 + wait]));
        }
        let record = stages.record_of();
        assert_eq!((record.frames, record.incomplete, record.backwards), (10_000, 0, 0));
        let share = |share: f64| {
            let found = record.shares.iter().find(|s| s.quantile.share() == share).unwrap();
            found.stages_ns.clone()
        };
        assert_eq!(share(0.5), [100.0, 200.0, 50.0]);
        assert_eq!(share(0.99), [100.0, 9_200.0, 50.0]);
        assert_eq!(record.stages[1].from, Point::DutIn);
    }

    #[test]
    fn what_lacks_a_stamp_is_counted_and_left_out() {
        let mut stages = Stages::between(POINTS.to_vec());
        stages.record(&passage([1_000, 0, 1_300, 1_350]));
        stages.record(&passage([1_000, 990, 1_300, 1_200]));
        assert_eq!((stages.frames(), stages.incomplete, stages.backwards), (1, 1, 1));
    }

    proptest! {
        #[test]
        fn stages_add_up_to_the_whole(stamps in proptest::collection::vec(proptest::array::uniform4(1_u64..1 << 40), 1..50)) {
            let mut stages = Stages::between(POINTS.to_vec());
            let mut whole = 0;
            for stamps in stamps {
                stages.record(&passage(stamps));
                whole += stamps[3].saturating_sub(stamps[0]);
            }
            prop_assert_eq!(stages.spent.iter().flatten().sum::<u64>(), whole);
            prop_assert!(stages.alone.iter().all(|counts| counts.iter().sum::<u64>() == stages.frames()));
        }
    }
}
