//! How a trial went over time: a few figures per interval, from successive bucket counts.

use crate::histogram::Histogram;
use crate::stats::{self, Quantile};
use serde::{Deserialize, Serialize};

/// One interval of a time series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Start of the interval, seconds since the traffic began.
    pub at_s: f64,
    /// Samples in it.
    pub samples: u64,
    /// Median in nanoseconds; absent where the interval holds too few samples.
    pub p50_ns: Option<i64>,
    /// 99th percentile in nanoseconds; likewise.
    pub p99_ns: Option<i64>,
    /// Largest value in nanoseconds.
    pub max_ns: u64,
}

/// Builds a series from the same growing counts, read again and again. Sampling is cheap, because it
/// happens beside the measurement; the figures are worked out by [`Sampler::finish`].
#[derive(Debug, Default)]
pub struct Sampler {
    last: Vec<u64>,
    intervals: Vec<Interval>,
    since_s: f64,
}

/// The samples of one interval.
#[derive(Debug)]
pub struct Interval {
    /// Seconds since the traffic began, at its start.
    pub from_s: f64,
    /// Likewise, at its end.
    pub to_s: f64,
    /// Bucket and count.
    fresh: Vec<(usize, u64)>,
}

impl Sampler {
    /// Closes the interval that ends now, `at_s` seconds after the traffic began, and returns it.
    pub fn sample(&mut self, at_s: f64, counts: Vec<u64>) -> &Interval {
        self.last.resize(counts.len(), 0);
        let pairs = counts.iter().zip(&self.last).enumerate();
        let fresh = pairs.filter(|(_, (now, last))| now > last).map(|(i, (now, last))| (i, now - last)).collect();
        self.intervals.push(Interval { from_s: self.since_s, to_s: at_s, fresh });
        self.last = counts;
        self.since_s = at_s;
        self.intervals.last().expect("one was just pushed")
    }

    /// The series.
    pub fn finish(self) -> Vec<Point> {
        self.intervals.iter().map(Interval::point).collect()
    }
}

impl Interval {
    /// Its samples.
    pub fn histogram(&self) -> Histogram {
        Histogram::from_buckets(self.fresh.iter().copied())
    }

    /// Its figures.
    pub fn point(&self) -> Point {
        let histogram = self.histogram();
        let cumulative = histogram.cumulative();
        let figure = |share| {
            let quantile = Quantile::new(share).expect("constant share");
            stats::estimate(&cumulative, quantile).value.map(|v| v.ns)
        };
        Point {
            at_s: self.from_s,
            samples: histogram.samples(),
            p50_ns: figure(0.5),
            p99_ns: figure(0.99),
            max_ns: histogram.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::Recorder;

    #[test]
    fn an_interval_holds_only_its_own_samples() {
        let recorder = Recorder::default();
        let mut sampler = Sampler::default();
        (0..1000).for_each(|_| recorder.record(1_500));
        sampler.sample(1.0, recorder.counts());
        (0..3).for_each(|_| recorder.record(90_000));
        sampler.sample(2.0, recorder.counts());
        let points = sampler.finish();
        assert_eq!((points[0].samples, points[0].p99_ns), (1000, Some(1_500)));
        assert_eq!((points[1].at_s, points[1].samples, points[1].p50_ns), (1.0, 3, None));
    }
}
