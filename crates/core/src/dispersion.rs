//! How much latencies vary for their size: the index of dispersion of paper 003 §4.3 (equation 3), and its peaks.

use crate::histogram::Histogram;
use crate::stats::middle;
use serde::{Deserialize, Serialize};

/// Interquartile ranges beyond the quartiles from which on a value is an outlier (Tukey's fences).
const FENCE: f64 = 1.5;
/// A peak is this many times as far above the median index as the indices lie from it, at their median.
const PEAK: f64 = 5.0;

/// A distribution without its outliers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dispersion {
    /// Variance over mean, σ²/µ, in nanoseconds.
    pub index_ns: f64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation, in nanoseconds.
    pub stdev_ns: f64,
    /// Values left out: those more than 1.5 interquartile ranges beyond a quartile.
    pub outliers: u64,
}

impl Dispersion {
    /// Of a distribution; `None` below four values.
    pub fn of(histogram: &Histogram) -> Option<Dispersion> {
        let cumulative = histogram.cumulative();
        let samples = cumulative.last().map_or(0, |&(_, n)| n);
        if samples < 4 {
            return None;
        }
        let at = |share: f64| {
            let rank = (samples as f64 * share).ceil() as u64;
            cumulative[cumulative.partition_point(|&(_, n)| n < rank)].0 as f64
        };
        let (low, high) = (at(0.25), at(0.75));
        let fence = FENCE * (high - low);
        let mut before = 0;
        let counted = cumulative.iter().map(|&(value, below)| {
            let count = below - std::mem::replace(&mut before, below);
            (value as f64, count as f64)
        });
        let kept: Vec<(f64, f64)> = counted.filter(|(value, _)| (low - fence..=high + fence).contains(value)).collect();
        let number: f64 = kept.iter().map(|(_, count)| count).sum();
        let mean = kept.iter().map(|(value, count)| value * count).sum::<f64>() / number;
        let variance = kept.iter().map(|(value, count)| (value - mean).powi(2) * count).sum::<f64>() / number;
        Some(Dispersion {
            index_ns: if mean > 0.0 { variance / mean } else { 0.0 },
            mean_ns: mean,
            stdev_ns: variance.sqrt(),
            outliers: samples - number as u64,
        })
    }
}

/// Which of a row of figures stand out from all: higher than both neighbours, and further above the median than
/// five times the median distance from it.
pub fn peaks(row: &[f64]) -> Vec<usize> {
    let median = middle(row.iter().copied()).unwrap_or(0.0);
    let spread = middle(row.iter().map(|value| (value - median).abs())).unwrap_or(0.0);
    let above = |i: usize| row[i] > median + PEAK * spread;
    let highest = |i: usize| (i == 0 || row[i] > row[i - 1]) && (i + 1 == row.len() || row[i] >= row[i + 1]);
    (0..row.len()).filter(|&i| row.len() > 2 && above(i) && highest(i)).collect()
}

/// The shortest of some gaps from which on a path's queues stay empty: those whose latency is at most `times` that of the
/// longest gap, as all longer ones are. `latencies` are by gap, from the shortest on; a lossy one is `None`.
pub fn safe_from(latencies: &[Option<f64>], times: f64) -> Option<usize> {
    let reference = (*latencies.last()?)?;
    let unsafe_at = latencies.iter().rposition(|latency| latency.is_none_or(|ns| ns > reference * times));
    Some(unsafe_at.map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_left_out() {
        let mut histogram = Histogram::default();
        [100, 102, 104, 106, 108, 110, 112, 1_000_000].iter().for_each(|&ns| histogram.record(ns));
        let dispersion = Dispersion::of(&histogram).unwrap();
        assert_eq!((dispersion.mean_ns, dispersion.outliers), (106.0, 1));
        assert!((dispersion.index_ns - 16.0 / 106.0).abs() < 1e-9, "{dispersion:?}");
        assert_eq!(Dispersion::of(&Histogram::default()), None);
    }

    #[test]
    fn peaks_stand_out_of_all_and_of_their_neighbours() {
        let row = [1.0, 1.1, 0.9, 9.0, 1.0, 1.2, 1.0, 7.0, 8.0, 1.0, 1.1];
        assert_eq!(peaks(&row), [3, 8]);
        assert_eq!(peaks(&[1.0, 1.0, 1.0, 1.0]), Vec::<usize>::new());
        assert_eq!(peaks(&[5.0, 1.0]), Vec::<usize>::new());
    }

    #[test]
    fn the_safe_region_has_no_holes() {
        let some = |values: &[f64]| values.iter().map(|&v| Some(v)).collect::<Vec<_>>();
        assert_eq!(safe_from(&some(&[90.0, 30.0, 4.1, 4.0, 4.0]), 1.2), Some(2));
        assert_eq!(safe_from(&some(&[4.0, 30.0, 4.1, 4.0]), 1.2), Some(2), "what is fine below a queue is luck");
        assert_eq!(safe_from(&some(&[4.0, 4.0]), 1.2), Some(0));
        assert_eq!(safe_from(&[Some(4.0), None, Some(4.0)], 1.2), Some(2));
        assert_eq!(safe_from(&[Some(4.0), None], 1.2), None);
    }
}
