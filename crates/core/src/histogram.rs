//! A distribution of nanoseconds, saved in HdrHistogram's standard encoding.

use crate::buckets;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// A distribution of nanoseconds with 3 significant digits (DESIGN, "Statistics").
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram(Hdr<u64>);

/// Why bytes are not one of our histograms.
#[derive(Debug, thiserror::Error)]
#[error("not an HdrHistogram in V2 encoding: {0}")]
pub struct BadHistogram(String);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(Hdr::new_with_bounds(1, buckets::HIGHEST_NS, buckets::DIGITS).expect("constant bounds are valid"))
    }
}

impl Histogram {
    /// From counts per bucket in the layout of [`buckets`].
    pub fn from_counts(counts: &[u64]) -> Histogram {
        Histogram::from_buckets(counts.iter().copied().enumerate().filter(|&(_, count)| count > 0))
    }

    /// From pairs of bucket and count.
    pub fn from_buckets(pairs: impl IntoIterator<Item = (usize, u64)>) -> Histogram {
        let mut histogram = Histogram::default();
        for (index, count) in pairs {
            histogram.0.saturating_record_n(buckets::lowest(index), count);
        }
        histogram
    }

    /// Counts one value.
    pub fn record(&mut self, value_ns: u64) {
        self.0.saturating_record(value_ns);
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.0.len()
    }

    /// Smallest value, to the resolution; 0 when empty.
    pub fn min(&self) -> u64 {
        self.cumulative().first().map_or(0, |&(value, _)| value)
    }

    /// Largest value, to the resolution; 0 when empty.
    pub fn max(&self) -> u64 {
        self.cumulative().last().map_or(0, |&(value, _)| value)
    }

    /// Arithmetic mean; 0 when empty.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Standard deviation; 0 when empty.
    pub fn stdev(&self) -> f64 {
        self.0.stdev()
    }

    /// `(value, samples up to and including it)`, ascending, one per bucket in use. The value is the
    /// middle of its bucket, as HdrHistogram reports it.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut below = 0;
        self.0
            .iter_recorded()
            .map(|step| {
                below += step.count_at_value();
                (self.0.median_equivalent(step.value_iterated_to()), below)
            })
            .collect()
    }

    /// Adds the samples of another.
    pub fn add(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Takes away samples that are also in this one, for example those that a stall touched.
    /// Samples that are not here are left out of account.
    pub fn without(&self, other: &Histogram) -> Histogram {
        let mut rest = Histogram::default();
        for step in self.0.iter_recorded() {
            let value = step.value_iterated_to();
            let left = step.count_at_value().saturating_sub(other.0.count_at(value));
            rest.0.saturating_record_n(value, left);
        }
        rest
    }

    /// The V2 encoding, deflated: what HdrHistogram tools in any language read.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).expect("writing to memory does not fail");
        bytes
    }

    /// Reads the V2 encoding, deflated or not.
    pub fn decode(mut bytes: &[u8]) -> Result<Histogram, BadHistogram> {
        let read: Hdr<u64> = Deserializer::new().deserialize(&mut bytes).map_err(|e| BadHistogram(e.to_string()))?;
        let mut histogram = Histogram::default();
        for step in read.iter_recorded() {
            histogram.0.saturating_record_n(step.value_iterated_to(), step.count_at_value());
        }
        Ok(histogram)
    }
}

/// A histogram as text: base64 of [`Histogram::encode`]. Unpacked, one takes a quarter of a megabyte of addresses, which is
/// too much where thousands are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Packed(String);

impl Packed {
    /// Of a histogram.
    pub fn of(histogram: &Histogram) -> Packed {
        Packed(STANDARD.encode(histogram.encode()))
    }

    /// The histogram.
    pub fn histogram(&self) -> Histogram {
        unpacked(&self.0).expect("it was checked when it was read")
    }
}

fn unpacked(text: &str) -> Result<Histogram, BadHistogram> {
    let bytes = STANDARD.decode(text).map_err(|e| BadHistogram(e.to_string()))?;
    Histogram::decode(&bytes)
}

impl TryFrom<String> for Packed {
    type Error = BadHistogram;

    fn try_from(text: String) -> Result<Packed, BadHistogram> {
        unpacked(&text)?;
        Ok(Packed(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::Recorder;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let recorder = Recorder::default();
        values.iter().for_each(|&v| recorder.record(v));
        Histogram::from_counts(&recorder.counts())
    }

    proptest! {
        #[test]
        fn our_buckets_are_those_of_hdrhistogram(values in proptest::collection::vec(0..buckets::HIGHEST_NS, 1..200)) {
            let mut direct = Histogram::default();
            values.iter().for_each(|&v| direct.record(v));
            let ours = of(&values);
            prop_assert_eq!(ours.cumulative(), direct.cumulative());
            prop_assert_eq!(Histogram::decode(&ours.encode()).unwrap().cumulative(), ours.cumulative());
        }

        #[test]
        fn taking_away_what_was_added_leaves_the_rest(a in proptest::collection::vec(0_u64..1 << 30, 0..99), b in proptest::collection::vec(0_u64..1 << 30, 0..99)) {
            let mut both = of(&a);
            both.add(&of(&b));
            prop_assert_eq!(both.without(&of(&b)).cumulative(), of(&a).cumulative());
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Histogram::decode(&bytes);
        }
    }

    #[test]
    fn an_empty_distribution_has_no_extremes() {
        let none = Histogram::default();
        assert_eq!((none.samples(), none.min(), none.max()), (0, 0, 0));
    }
}
