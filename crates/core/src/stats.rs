//! Statistics of tails: what a sample can say about a percentile, and what it can't.

use crate::buckets;
use crate::histogram::Histogram;
use crate::inverse::{binomial_share, binomial_weights, students_t};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The percentiles of every table: p50 to p99.9999 (paper 000 reports to 1−10⁻⁶).
pub const LADDER: [Quantile; 7] = [
    Quantile(0.5),
    Quantile(0.9),
    Quantile(0.99),
    Quantile(0.999),
    Quantile(0.9999),
    Quantile(0.99999),
    Quantile(0.999999),
];

/// Probability that the interval of an [`Estimate`] misses on either side: two-sided 95%.
const ONE_SIDE: f64 = 0.025;
/// The same for each of two quantiles whose difference is to have a two-sided 95% interval, whatever they
/// have to do with each other (Bonferroni).
const ONE_SIDE_OF_TWO: f64 = ONE_SIDE / 2.0;

/// A share of the samples, strictly between 0 and 1. Shown as the field does: `p99.9`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Quantile(f64);

impl TryFrom<f64> for Quantile {
    type Error = String;

    fn try_from(share: f64) -> Result<Quantile, String> {
        Quantile::new(share).ok_or_else(|| format!("{share} is no share between 0 and 1"))
    }
}

impl Quantile {
    /// `None` outside the open interval (0, 1).
    pub fn new(share: f64) -> Option<Quantile> {
        (share > 0.0 && share < 1.0).then_some(Quantile(share))
    }

    /// The share of samples at or below.
    pub fn share(self) -> f64 {
        self.0
    }

    /// Fewest samples whose order statistics bound this quantile on both sides with 95%: the
    /// smallest and largest sample must each fall on its far side with at most 2.5% doubt.
    pub fn needs(self) -> u64 {
        self.needs_for(ONE_SIDE)
    }

    /// The same for a difference of two quantiles.
    pub fn needs_for_error(self) -> u64 {
        self.needs_for(ONE_SIDE_OF_TWO)
    }

    fn needs_for(self, one_side: f64) -> u64 {
        let samples = |tail: f64| (one_side.ln() / (-tail).ln_1p()).ceil() as u64;
        samples(1.0 - self.0).max(samples(self.0))
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = format!("{:.6}", self.0 * 100.0);
        write!(f, "p{}", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// What a sample says about a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Which quantile.
    pub quantile: Quantile,
    /// The figure with its interval; `None` where the sample can't support one.
    pub value: Option<Interval>,
    /// Samples that this quantile needs; printed as `n/a (needs N)` where `value` is `None`.
    pub needs: u64,
}

/// A figure in nanoseconds with its two-sided 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The figure.
    pub ns: i64,
    /// Lower end, inclusive.
    pub low_ns: i64,
    /// Upper end, inclusive.
    pub high_ns: i64,
}

impl Interval {
    /// `self − other`, with the widest interval that both allow (no independence is assumed: a
    /// client and the truth see the same frames).
    pub fn minus(self, other: Interval) -> Interval {
        Interval { ns: self.ns - other.ns, low_ns: self.low_ns - other.high_ns, high_ns: self.high_ns - other.low_ns }
    }

    /// The largest magnitude inside the interval.
    pub fn bound_ns(self) -> u64 {
        self.low_ns.unsigned_abs().max(self.high_ns.unsigned_abs())
    }
}

/// The median of a distribution as one of two whose difference is to have an interval of 95%: it has one of 97.5% itself.
pub fn median_of_two_ns(histogram: &Histogram) -> Option<Interval> {
    estimate_within(&histogram.cumulative(), LADDER[0], ONE_SIDE_OF_TWO).value
}

/// Every quantile of [`LADDER`], each with the exact binomial interval of its order statistics.
pub fn estimates(histogram: &Histogram) -> Vec<Estimate> {
    ladder(histogram, ONE_SIDE)
}

fn ladder(histogram: &Histogram, one_side: f64) -> Vec<Estimate> {
    let cumulative = histogram.cumulative();
    LADDER.iter().map(|&quantile| estimate_within(&cumulative, quantile, one_side)).collect()
}

/// One quantile of a cumulative distribution as [`Histogram::cumulative`] gives it.
pub fn estimate(cumulative: &[(u64, u64)], quantile: Quantile) -> Estimate {
    estimate_within(cumulative, quantile, ONE_SIDE)
}

fn estimate_within(cumulative: &[(u64, u64)], quantile: Quantile, one_side: f64) -> Estimate {
    let samples = cumulative.last().map_or(0, |&(_, n)| n);
    let at = |rank: u64| cumulative[cumulative.partition_point(|&(_, n)| n < rank)].0 as i64;
    let value = rank_interval(samples, quantile, one_side).map(|(low, high)| {
        let rank = ((samples as f64 * quantile.0).ceil() as u64).clamp(low, high);
        // A value is known to its bucket: the interval goes to the far edges.
        let (low, high) = (buckets::index(at(low) as u64), buckets::index(at(high) as u64));
        Interval { ns: at(rank), low_ns: buckets::lowest(low) as i64, high_ns: buckets::lowest(high + 1) as i64 - 1 }
    });
    Estimate { quantile, value, needs: quantile.needs_for(one_side) }
}

/// Ranks (from 1) of the order statistics that bound a quantile; `None` when the sample is too small.
/// Exact: with B ~ Binomial(n, q), the lower rank is the largest l with P(B < l) ≤ `one_side`, the upper
/// the smallest u with P(B ≥ u) ≤ `one_side` (David & Nagaraja, Order Statistics, §7.1).
fn rank_interval(samples: u64, quantile: Quantile, one_side: f64) -> Option<(u64, u64)> {
    if samples < quantile.needs_for(one_side) {
        return None;
    }
    let (first, weights) = binomial_weights(samples, quantile.0);
    let total: f64 = weights.iter().sum();
    let mut below = 0.0;
    let mut low = first;
    let mut high = None;
    for (k, weight) in (first..).zip(&weights) {
        if below <= one_side * total {
            low = k;
        }
        below += weight;
        if high.is_none() && total - below <= one_side * total {
            high = Some(k + 1);
        }
    }
    Some((low.max(1), high?.min(samples)))
}

/// A figure in whatever unit, with its two-sided 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    /// The figure.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Bounded {
    /// In a unit of which one of its own has `factor`, at least 0.
    pub fn times(self, factor: f64) -> Bounded {
        Bounded { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Less an exact figure.
    pub fn minus(self, exact: f64) -> Bounded {
        Bounded { value: self.value - exact, low: self.low - exact, high: self.high - exact }
    }
}

impl From<Interval> for Bounded {
    fn from(interval: Interval) -> Bounded {
        Bounded { value: interval.ns as f64, low: interval.low_ns as f64, high: interval.high_ns as f64 }
    }
}

/// The middle one of some values, the upper of two; `None` of none.
pub fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let at = values.len() / 2;
    (at < values.len()).then(|| *values.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// The median of a few values, with the exact binomial interval of its order statistics; `None` below six.
pub fn median(values: Vec<f64>) -> Option<Bounded> {
    median_within(values, ONE_SIDE)
}

/// The same as one of two medians whose difference is to have an interval of 95%: it has one of 97.5% itself. `None` below seven.
pub fn median_of_two(values: Vec<f64>) -> Option<Bounded> {
    median_within(values, ONE_SIDE_OF_TWO)
}

fn median_within(mut values: Vec<f64>, one_side: f64) -> Option<Bounded> {
    values.sort_unstable_by(f64::total_cmp);
    let samples = values.len() as u64;
    let (low, high) = rank_interval(samples, LADDER[0], one_side)?;
    let at = |rank: u64| values[rank as usize - 1];
    Some(Bounded { value: at(samples.div_ceil(2)), low: at(low), high: at(high) })
}

/// The mean of a few values, with the 95% interval of Student's t, which takes them for independent and normal; the
/// interval is the figure itself for one. `None` of none.
pub fn mean(values: &[f64]) -> Option<Bounded> {
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (!values.is_empty()).then_some(Bounded { value, low: value, high: value });
    }
    let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1.0);
    let half = students_t(n - 1.0, ONE_SIDE) * (variance / n).sqrt();
    Some(Bounded { value, low: value - half, high: value + half })
}

/// The share of things that something happened to, in groups of `size` in which it may happen to neighbours alike:
/// the wider of the exact interval of independent ones (Clopper and Pearson) and of that of the groups' own spread
/// ([`mean`]; one group has no spread).
/// `None` without groups.
pub fn share_of_groups(happened: &[u64], size: u64) -> Option<Bounded> {
    let (all, some) = (happened.len() as u64 * size, happened.iter().sum::<u64>());
    if all == 0 {
        return None;
    }
    let (low, high) = binomial_share(some, all, ONE_SIDE);
    let shares: Vec<f64> = happened.iter().map(|&n| n as f64 / size as f64).collect();
    let spread = mean(&shares)?;
    Some(Bounded {
        value: some as f64 / all as f64,
        low: low.min(spread.low.max(0.0)),
        high: high.max(spread.high.min(1.0)),
    })
}

/// The Kolmogorov–Smirnov distance: the largest vertical gap between two distributions, 0 to 1.
/// `None` when either is empty.
pub fn ks_distance(a: &Histogram, b: &Histogram) -> Option<f64> {
    let (a, b) = (a.cumulative(), b.cumulative());
    let (total_a, total_b) = (a.last()?.1 as f64, b.last()?.1 as f64);
    let share = |side: &[(u64, u64)], total: f64, value: u64| match side.partition_point(|&(v, _)| v <= value) {
        0 => 0.0,
        i => side[i - 1].1 as f64 / total,
    };
    let values = a.iter().chain(&b).map(|&(value, _)| value);
    Some(values.map(|v| (share(&a, total_a, v) - share(&b, total_b, v)).abs()).fold(0.0, f64::max))
}

/// A client's error at each quantile that both it and the truth support. Each side's interval is
/// 97.5%, so that their difference has 95% whatever they have to do with each other (Bonferroni).
pub fn errors(client: &Histogram, truth: &Histogram) -> Vec<Estimate> {
    differences(&ladder(client, ONE_SIDE_OF_TWO), &ladder(truth, ONE_SIDE_OF_TWO))
}

/// A client's error where the delay is the same for every frame and known exactly.
pub fn errors_of_constant(client: &Histogram, delay_ns: u64) -> Vec<Estimate> {
    differences(&estimates(client), &constant(delay_ns))
}

fn differences(client: &[Estimate], truth: &[Estimate]) -> Vec<Estimate> {
    let pairs = client.iter().zip(truth);
    pairs.map(|(c, t)| Estimate { value: c.value.zip(t.value).map(|(c, t)| c.minus(t)), ..*c }).collect()
}

/// The estimates of a delay that is the same for every frame and known exactly.
pub fn constant(delay_ns: u64) -> Vec<Estimate> {
    let ns = delay_ns as i64;
    let value = Some(Interval { ns, low_ns: ns, high_ns: ns });
    LADDER.iter().map(|&quantile| Estimate { quantile, value, needs: quantile.needs() }).collect()
}

/// "Accurate to within `within_ns` up to `up_to`".
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Bound on the error, in nanoseconds, its interval included.
    pub within_ns: u64,
    /// The last quantile of the ladder up to which the bound holds without a gap.
    pub up_to: Quantile,
}

/// What can be promised of a client: for each bound of 1, 2, 5 … that holds at the median, how far up
/// it holds. A looser bound is listed only where it reaches further than a tighter one.
pub fn accuracies(errors: &[Estimate]) -> Vec<Accuracy> {
    let mut found: Vec<Accuracy> = Vec::new();
    for within_ns in one_two_five(100, 1_000_000_000) {
        let held = errors.iter().take_while(|e| e.value.is_some_and(|v| v.bound_ns() <= within_ns));
        let Some(last) = held.last() else { continue };
        if found.last().is_none_or(|better| better.up_to < last.quantile) {
            found.push(Accuracy { within_ns, up_to: last.quantile });
        }
    }
    found
}

fn one_two_five(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from), |decade| Some(decade * 10))
        .flat_map(|decade| [decade, decade * 2, decade * 5])
        .take_while(move |&bound| bound <= to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn q(share: f64) -> Quantile {
        Quantile::new(share).unwrap()
    }

    #[test]
    fn the_sample_sizes_of_the_design_hold() {
        assert_eq!(q(0.999).needs(), 3_688);
        assert_eq!(q(0.999999).needs(), 3_688_878);
        assert_eq!(q(0.5).needs(), 6);
    }

    #[test]
    fn a_quantile_is_given_from_exactly_the_samples_it_needs() {
        for quantile in &LADDER[..5] {
            assert!(rank_interval(quantile.needs() - 1, *quantile, ONE_SIDE).is_none());
            assert!(rank_interval(quantile.needs(), *quantile, ONE_SIDE).is_some());
        }
    }

    #[test]
    fn ranks_agree_with_published_tables() {
        // Median of n samples, 95%: Conover, Practical Nonparametric Statistics, table A3.
        assert_eq!(rank_interval(10, q(0.5), ONE_SIDE), Some((2, 9)));
        assert_eq!(rank_interval(20, q(0.5), ONE_SIDE), Some((6, 15)));
        assert_eq!(rank_interval(100, q(0.5), ONE_SIDE), Some((40, 61)));
    }

    #[test]
    fn huge_samples_are_bounded_tightly_and_fast() {
        let (low, high) = rank_interval(1_000_000_000, q(0.5), ONE_SIDE).unwrap();
        // ±1.96 σ with σ = √(n/4).
        let expected = 1.959_964 * (1e9_f64 / 4.0).sqrt();
        assert!(((high - low) as f64 / 2.0 - expected).abs() < 2.0, "{low} {high}");
    }

    #[test]
    fn a_loss_among_millions_of_frames_has_an_interval() {
        // statrs' inverse never returned from this.
        let mut lost = vec![0; 8_000];
        lost[17] = 3;
        let loss = share_of_groups(&lost, 1_000).unwrap();
        // All in one train: the spread of the trains is wider than Poisson's limits, 0.62 and 8.77.
        assert!(loss.low == 0.0 && (loss.high * 8e6 - 8.88).abs() < 0.01, "{loss:?}");
        assert_eq!(share_of_groups(&[0; 8_000], 1_000).unwrap().low, 0.0);
        assert_eq!(share_of_groups(&[1_000; 8_000], 1_000).unwrap().high, 1.0);
        assert_eq!(share_of_groups(&[], 1_000), None);
    }

    #[test]
    fn the_share_of_few_groups_is_inside_its_interval() {
        use rand_distr::{Distribution, Normal};
        use rand_pcg::Pcg64;
        use rand_pcg::rand_core::SeedableRng;
        // Groups of 100 lose half on average, each its own share: further apart than independent losses.
        let of_group = Normal::new(0.5, 0.15).unwrap();
        for groups in [2, 3, 5] {
            let mut random = Pcg64::seed_from_u64(groups);
            let mut lost = || (f64::clamp(of_group.sample(&mut random), 0.0, 1.0) * 100.0).round() as u64;
            let mut of_trial = || share_of_groups(&(0..groups).map(|_| lost()).collect::<Vec<_>>(), 100).unwrap();
            let held = (0..400).map(|_| of_trial()).filter(|loss| loss.low <= 0.5 && 0.5 <= loss.high).count();
            // 95% are 380, with a standard deviation of 4.
            assert!(held >= 380 - 16, "{held} of 400, {groups} groups");
        }
    }

    #[test]
    fn names_are_those_of_the_field() {
        let names: Vec<String> = LADDER.iter().map(Quantile::to_string).collect();
        assert_eq!(names, ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999"]);
    }

    #[test]
    fn an_interval_is_no_finer_than_the_buckets() {
        let mut histogram = Histogram::default();
        (0..1_000).for_each(|_| histogram.record(3_760_000));
        let error = errors(&histogram, &histogram)[0].value.unwrap();
        assert_eq!(error.ns, 0);
        assert!(error.low_ns < -1_000 && error.high_ns > 1_000, "three digits of 3.76 ms: {error:?}");
    }

    #[test]
    fn accuracy_stops_at_the_first_gap() {
        let error = |q: Quantile, ns: Option<i64>| Estimate {
            quantile: q,
            value: ns.map(|ns| Interval { ns, low_ns: ns - 1, high_ns: ns + 1 }),
            needs: 0,
        };
        let errors = [
            error(LADDER[0], Some(900)),
            error(LADDER[1], Some(-950)),
            error(LADDER[2], Some(7_000)),
            error(LADDER[3], None),
        ];
        let found = accuracies(&errors);
        assert_eq!(
            found,
            [Accuracy { within_ns: 1_000, up_to: LADDER[1] }, Accuracy { within_ns: 10_000, up_to: LADDER[2] }]
        );
    }

    #[test]
    fn distance_of_disjoint_and_equal_distributions() {
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        (100..200).for_each(|v| a.record(v));
        (500..600).for_each(|v| b.record(v));
        assert_eq!(ks_distance(&a, &b), Some(1.0));
        assert_eq!(ks_distance(&a, &a), Some(0.0));
        assert_eq!(ks_distance(&a, &Histogram::default()), None);
    }

    proptest! {
        /// The interval covers the true quantile in at least 95% of samples (less what chance allows
        /// in 400 draws: 5 standard deviations).
        #[test]
        fn intervals_cover(share in 0.05_f64..0.95, n in 200_u64..2_000, seed: u64) {
            let (low, high) = rank_interval(n, q(share), ONE_SIDE).unwrap();
            let mut state = seed | 1;
            let mut covered = 0;
            for _ in 0..400 {
                // B = how many of n uniform draws lie below the true quantile.
                let below = (0..n).filter(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 11) as f64 / (1_u64 << 53) as f64 <= share
                }).count() as u64;
                covered += u32::from(low <= below && below < high);
            }
            prop_assert!(covered >= 380 - 22, "covered {covered} of 400");
        }
    }
}
