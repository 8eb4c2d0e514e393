//! A distribution in the numbers that are stored and shown.

use crate::histogram::Histogram;
use crate::stats::{self, Estimate};
use serde::{Deserialize, Serialize};

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

    /// The median, in nanoseconds, where there are enough samples.
    pub fn median_ns(&self) -> Option<f64> {
        self.quantiles.first()?.value.map(|value| value.ns as f64)
    }
}
