//! What one client, or the truth, saw in one trial.

use crate::histogram::Histogram;
use crate::series::Point;
use crate::stall::CoreStalls;
use crate::stats::{self, Estimate};
use crate::tracker::Counts;
use serde::{Deserialize, Serialize};

/// What one client, or the truth, saw in one trial. All distributions are in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// Latency of every stamped frame, from its actual departure.
    pub latency: Histogram,
    /// The part of `latency` whose flight a stall of the platform touched.
    pub touched: Histogram,
    /// Latency from the scheduled departure, which hides no coordinated omission; absent for taps.
    pub scheduled: Option<Histogram>,
    /// Actual minus scheduled departure; absent for taps.
    pub lateness: Option<Histogram>,
    /// Requested and achieved rate; absent for taps.
    pub pace: Option<Pace>,
    /// Stalls per spinning thread; empty where no thread spun, so that nothing was observed.
    pub stalls: Vec<CoreStalls>,
    /// Slow samples or stalls that no log could hold, so that `touched` may lack as many.
    pub unattributed: u64,
    /// How the trial went over time.
    pub series: Vec<Point>,
    /// What a reader should know of how it was measured (`AF_XDP copy mode`).
    pub notes: Vec<String>,
}

/// Requested against achieved rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Frames per second asked for.
    pub requested: f64,
    /// Measured frames over the time from the first to the last departure.
    pub achieved: f64,
}

/// A distribution in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub samples: u64,
    /// Smallest value, in nanoseconds; 0 without samples.
    pub min_ns: u64,
    /// Arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation, in nanoseconds.
    pub stdev_ns: f64,
    /// Largest value, in nanoseconds.
    pub max_ns: u64,
    /// The ladder of percentiles, each with its 95% interval or how many samples it needs.
    pub quantiles: Vec<Estimate>,
}

impl Summary {
    /// Of a distribution.
    pub fn of(histogram: &Histogram) -> Summary {
        Summary {
            samples: histogram.samples(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            stdev_ns: histogram.stdev(),
            max_ns: histogram.max(),
            quantiles: stats::estimates(histogram),
        }
    }
}

impl Measurement {
    /// Latency without the samples that a stall touched.
    pub fn clean(&self) -> Histogram {
        self.latency.without(&self.touched)
    }

    /// Pools another trial of the same client into this one; series and pace stay per trial.
    pub fn pool(&mut self, other: &Measurement) {
        self.counts.add(&other.counts);
        self.latency.add(&other.latency);
        self.touched.add(&other.touched);
        pool_optional(&mut self.scheduled, &other.scheduled);
        pool_optional(&mut self.lateness, &other.lateness);
        self.unattributed += other.unattributed;
    }
}

fn pool_optional(into: &mut Option<Histogram>, other: &Option<Histogram>) {
    if let Some(other) = other {
        into.get_or_insert_default().add(other);
    }
}
