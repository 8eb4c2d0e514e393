//! A distribution as a curve of few points that still has every step of its tail.

use serde::Serialize;
use usect_core::histogram::Histogram;

/// Steps that either axis of a plot can show apart.
const STEPS: f64 = 600.0;

/// A distribution to draw: ascending values and, for each, how many samples lie above it. Both the
/// CDF, `1 − above/samples`, and the CCDF, `above/samples`, are drawn from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Curve {
    /// Number of samples.
    pub(crate) samples: u64,
    /// Values in nanoseconds, the smallest and the largest included.
    pub(crate) ns: Vec<u64>,
    /// Samples above each value; 0 at the last.
    pub(crate) above: Vec<u64>,
}

impl Curve {
    /// At most about 1,200 points: one wherever the CDF, or the CCDF on a log scale, has moved by a
    /// 600th of its axis. In the tail every step moves the CCDF by more, so all of them stay.
    pub(crate) fn of(histogram: &Histogram) -> Curve {
        let cumulative = histogram.cumulative();
        let samples = cumulative.last().map_or(0, |&(_, below)| below);
        let mut curve = Curve { samples, ns: Vec::new(), above: Vec::new() };
        let decades = (samples.max(10) as f64).log10();
        let place = |above: u64| (above as f64 / samples as f64, (above.max(1) as f64).log10() / decades);
        let mut kept = (f64::INFINITY, f64::INFINITY);
        for &(value, below) in &cumulative {
            let above = samples - below;
            let here = place(above);
            let moved = (kept.0 - here.0).max(kept.1 - here.1) >= 1.0 / STEPS;
            if moved || above == 0 {
                curve.ns.push(value);
                curve.above.push(above);
                kept = here;
            }
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_curve_is_short_and_keeps_its_ends_and_its_tail(values in proptest::collection::vec(1_u64..1 << 35, 1..2_000)) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&v| histogram.record(v));
            let (curve, all) = (Curve::of(&histogram), histogram.cumulative());
            prop_assert!(curve.ns.len() <= 1_202, "{} points", curve.ns.len());
            prop_assert_eq!(curve.ns[0], all[0].0);
            prop_assert_eq!(curve.ns.last().copied(), all.last().map(|p| p.0));
            prop_assert_eq!(curve.above.last(), Some(&0));
            prop_assert!(curve.ns.is_sorted() && curve.above.is_sorted_by(|a, b| a > b));
            for &(value, below) in all.iter().rev().take(20) {
                prop_assert!(curve.ns.contains(&value), "the step at {} ({} below) is lost", value, below);
            }
        }
    }

    #[test]
    fn nothing_is_no_points() {
        assert_eq!(Curve::of(&Histogram::default()), Curve { samples: 0, ns: vec![], above: vec![] });
    }
}
