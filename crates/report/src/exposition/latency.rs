//! A distribution of nanoseconds as a histogram of seconds, in classic and in native buckets.

use super::message::{Bucket, BucketSpan, Histogram as Buckets};
use usect_core::histogram::Histogram;

/// 64 buckets to an octave, each 1.09 % wider than the one below: a percentile is off by no more. The finest, 8,
/// would have four times as many.
const SCHEMA: i32 = 6;
/// Below 1 ns, so that nothing but 0 counts as zero; a power of 2, so that it is a bucket's bound in any schema.
const ZERO_THRESHOLD_S: f64 = 1.0 / (1_u64 << 31) as f64;
const NS_PER_S: f64 = 1e9;

/// Both kinds of buckets, and the sum and number of samples.
pub(super) fn buckets(latency: &Histogram) -> Buckets {
    let cumulative = latency.cumulative();
    let native = native(&cumulative);
    Buckets {
        sample_count: latency.samples(),
        sample_sum: latency.mean() * latency.samples() as f64 / NS_PER_S,
        bucket: classic(&cumulative),
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD_S,
        zero_count: up_to(&cumulative, 0),
        positive_span: spans(&native),
        positive_delta: deltas(&native),
    }
}

/// Classic buckets: 1–2–5 steps from 100 ns to 10 s, and +Inf.
fn classic(cumulative: &[(u64, u64)]) -> Vec<Bucket> {
    let steps = (2..10).flat_map(|exponent| [1, 2, 5].map(|digit| digit * 10_u64.pow(exponent)));
    let finite = steps.chain([10_000_000_000]).map(|ns| (ns as f64 / NS_PER_S, up_to(cumulative, ns)));
    let all = (f64::INFINITY, up_to(cumulative, u64::MAX));
    finite.chain([all]).map(|(upper_bound, cumulative_count)| Bucket { cumulative_count, upper_bound }).collect()
}

/// Samples up to and including a value.
fn up_to(cumulative: &[(u64, u64)], ns: u64) -> u64 {
    let steps = cumulative.partition_point(|&(value, _)| value <= ns);
    cumulative[..steps].last().map_or(0, |&(_, samples)| samples)
}

/// `(index, samples)` of each native bucket in use, ascending, without those of zero.
fn native(cumulative: &[(u64, u64)]) -> Vec<(i32, u64)> {
    let mut buckets: Vec<(i32, u64)> = Vec::new();
    let mut below = up_to(cumulative, 0);
    for &(ns, samples) in cumulative.iter().filter(|&&(ns, _)| ns > 0) {
        let (index, here) = (index(ns), samples - below);
        match buckets.last_mut() {
            Some((last, count)) if *last == index => *count += here,
            _ => buckets.push((index, here)),
        }
        below = samples;
    }
    buckets
}

/// The smallest `i` with `ns` ≤ 2^(i/64) seconds. No logarithm of a whole number of nanoseconds is so near to a
/// bound that rounding matters, but those of powers of 2, which are exact: a test goes through all values.
fn index(ns: u64) -> i32 {
    let per_octave = f64::from(1 << SCHEMA);
    ((ns as f64 / NS_PER_S).log2() * per_octave).ceil() as i32
}

/// Runs of buckets that follow each other without a gap.
fn spans(native: &[(i32, u64)]) -> Vec<BucketSpan> {
    let mut spans: Vec<BucketSpan> = Vec::new();
    let mut next = 0;
    for &(index, _) in native {
        match spans.last_mut() {
            Some(span) if index == next => span.length += 1,
            _ => spans.push(BucketSpan { offset: index - next, length: 1 }),
        }
        next = index + 1;
    }
    spans
}

/// Samples of each bucket, less those of the bucket before.
fn deltas(native: &[(i32, u64)]) -> Vec<i64> {
    let mut before = 0;
    native.iter().map(|&(_, samples)| samples as i64 - std::mem::replace(&mut before, samples as i64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use usect_core::buckets as layout;

    fn of(values: &[u64]) -> Histogram {
        let mut latency = Histogram::default();
        values.iter().for_each(|&ns| latency.record(ns));
        latency
    }

    /// The bound of a native bucket, in seconds.
    fn bound(index: i32) -> f64 {
        (f64::from(index) / 64.0).exp2()
    }

    /// `(index, samples)` out of spans and deltas, as the schema says to read them.
    fn decoded(buckets: &Buckets) -> Vec<(i32, u64)> {
        let (mut index, mut samples, mut found) = (0, 0, Vec::new());
        let mut deltas = buckets.positive_delta.iter();
        for span in &buckets.positive_span {
            index += span.offset;
            for _ in 0..span.length {
                samples += deltas.next().unwrap();
                found.push((index, u64::try_from(samples).unwrap()));
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        found
    }

    fn spread() -> impl Strategy<Value = Vec<u64>> {
        let value = prop_oneof![0_u64..2_000, 40_000_u64..60_000, 0_u64..=layout::HIGHEST_NS];
        proptest::collection::vec(value, 0..300)
    }

    proptest! {
        #[test]
        fn native_buckets_hold_what_was_recorded(values in spread()) {
            let latency = of(&values);
            let native = decoded(&buckets(&latency));
            let mut left: std::collections::BTreeMap<i32, u64> = native.into_iter().collect();
            let mut below = 0;
            for (ns, samples) in latency.cumulative() {
                let seconds = ns as f64 / 1e9;
                let holds = |i: &i32| bound(i - 1) < seconds && seconds <= bound(*i);
                if ns == 0 {
                    prop_assert_eq!(buckets(&latency).zero_count, samples);
                } else {
                    let (_, count) = left.iter_mut().find(|(i, _)| holds(i)).unwrap();
                    *count -= samples - below;
                }
                below = samples;
            }
            prop_assert!(left.values().all(|&count| count == 0), "{:?}", left);
        }

        #[test]
        fn classic_buckets_add_up(values in spread()) {
            let latency = of(&values);
            let classic = buckets(&latency).bucket;
            let ascend = |a: &Bucket, b: &Bucket| {
                a.upper_bound < b.upper_bound && a.cumulative_count <= b.cumulative_count
            };
            prop_assert!(classic.is_sorted_by(ascend));
            prop_assert_eq!(classic.last().unwrap().cumulative_count, values.len() as u64);
            for bucket in classic {
                let bound = bucket.upper_bound * 1e9;
                let inside = values.iter().filter(|&&ns| ns as f64 <= bound).count() as u64;
                let near = values.iter().filter(|&&ns| (ns as f64 / bound - 1.0).abs() < 1e-3).count() as u64;
                prop_assert!(bucket.cumulative_count.abs_diff(inside) <= near);
            }
        }

        #[test]
        fn the_sum_is_of_the_samples(values in spread()) {
            let exact = values.iter().sum::<u64>() as f64 / 1e9;
            prop_assert!((buckets(&of(&values)).sample_sum - exact).abs() <= exact * 1e-3);
        }
    }

    #[test]
    fn every_value_that_a_histogram_can_report_is_in_its_bucket() {
        let all = Histogram::from_buckets((1..layout::index(layout::HIGHEST_NS)).map(|i| (i, 1)));
        assert!(all.samples() > 26_000);
        for (ns, _) in all.cumulative() {
            let (seconds, index) = (ns as f64 / 1e9, index(ns));
            assert!(bound(index - 1) < seconds && seconds <= bound(index), "{ns} ns");
        }
        // Those that are bounds themselves.
        assert_eq!([1_000_000_000, 500_000_000, 4_000_000_000, 1_000_000_001].map(index), [0, -64, 128, 1]);
    }

    #[test]
    fn classic_bounds_are_round() {
        let bounds: Vec<f64> = classic(&[]).iter().map(|b| b.upper_bound).collect();
        assert_eq!(bounds.len(), 26);
        assert_eq!(bounds[..4], [1e-7, 2e-7, 5e-7, 1e-6]);
        assert_eq!(bounds[22..], [2.0, 5.0, 10.0, f64::INFINITY]);
    }

    #[test]
    fn a_classic_bound_is_in_its_bucket() {
        let counts: Vec<u64> = classic(&[(100, 1), (101, 3), (200, 4)]).iter().map(|b| b.cumulative_count).collect();
        assert_eq!(counts[..3], [1, 4, 4]);
    }

    #[test]
    fn nothing_recorded_is_a_native_histogram_too() {
        let none = buckets(&Histogram::default());
        assert_eq!((none.sample_count, none.sample_sum, none.positive_span.len()), (0, 0.0, 0));
        assert!(none.zero_threshold > 0.0 && none.zero_threshold < 1e-9);
    }

    #[test]
    fn spans_and_deltas_are_as_the_schema_has_them() {
        let native = [(-3, 5), (-2, 7), (1, 2)];
        assert_eq!(spans(&native), [BucketSpan { offset: -3, length: 2 }, BucketSpan { offset: 2, length: 1 }]);
        assert_eq!(deltas(&native), [5, 2, -5]);
    }
}
