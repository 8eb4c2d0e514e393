//! A distribution of nanoseconds, saved in HdrHistogram's standard encoding.

use crate::buckets;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use std::io::Read;

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

    /// Reads the V2 encoding, deflated or not, of a histogram in our layout.
    ///
    /// Errors: what is wrong with it. However it was made, it takes no more memory than one of ours.
    pub fn decode(bytes: &[u8]) -> Result<Histogram, BadHistogram> {
        let plain = match bytes.strip_prefix(&V2_DEFLATED) {
            Some(deflated) => &inflated(deflated.get(4..).unwrap_or_default())?,
            None => bytes,
        };
        let mut counts = counts_of(plain)?;
        let mut histogram = Histogram::default();
        while let Some((bucket, count)) = counts.next()? {
            histogram.0.saturating_record_n(buckets::lowest(bucket), count);
        }
        Ok(histogram)
    }
}

/// Most samples of a histogram that is read: those of a day at 12 Mpps. Time and memory of an interval's ranks grow with the
/// root of their number.
pub const MOST_SAMPLES: u64 = 1 << 40;
/// How a histogram in V2 encoding begins, deflated and not.
const V2_DEFLATED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
const V2: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
/// Bytes before the counts: cookie, length, offset, digits, lowest, highest, ratio.
const HEAD: usize = 40;
/// Longest encoding of a count.
const LONGEST_COUNT: usize = 9;

fn bad(why: impl ToString) -> BadHistogram {
    BadHistogram(why.to_string())
}

/// What was deflated, which is no longer than a histogram of ours with a count in every bucket.
fn inflated(deflated: &[u8]) -> Result<Vec<u8>, BadHistogram> {
    let most = HEAD + buckets::LEN * LONGEST_COUNT;
    let mut plain = Vec::new();
    ZlibDecoder::new(deflated).take(most as u64 + 1).read_to_end(&mut plain).map_err(bad)?;
    if plain.len() > most { Err(bad("it is longer than any")) } else { Ok(plain) }
}

/// The counts behind a head that says that they are in our layout. The crate's own reader believes the lengths and bounds
/// that a head tells, and makes room for them first: up to 4 GiB for 40 bytes.
fn counts_of(plain: &[u8]) -> Result<Counts<'_>, BadHistogram> {
    let (head, rest) = plain.split_at_checked(HEAD).ok_or_else(|| bad("it is too short"))?;
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    if head[..4] != V2 {
        return Err(bad("it does not begin as one"));
    }
    if word(8) != 0 || word(12) != u32::from(buckets::DIGITS) || head[16..24] != 1_u64.to_be_bytes() {
        return Err(bad("its buckets are not of 3 digits from 1 ns on"));
    }
    if head[32..] != 1_f64.to_be_bytes() {
        return Err(bad("its values are scaled"));
    }
    let bytes = rest.get(..word(4) as usize).ok_or_else(|| bad("it is cut short"))?;
    Ok(Counts { bytes, bucket: 0, samples: 0 })
}

/// Counts bucket by bucket: LEB128 of zigzag, of which a negative number is so many buckets without any.
struct Counts<'a> {
    bytes: &'a [u8],
    bucket: usize,
    samples: u64,
}

impl Counts<'_> {
    /// The next bucket in use, and its count.
    fn next(&mut self) -> Result<Option<(usize, u64)>, BadHistogram> {
        while !self.bytes.is_empty() {
            let encoded = self.number()?;
            let (half, is_negative) = (encoded >> 1, encoded & 1 == 1);
            let empty = if is_negative { half.saturating_add(1) } else { u64::from(half == 0) };
            let bucket = self.bucket;
            self.bucket =
                usize::try_from(empty.max(1)).ok().and_then(|on| bucket.checked_add(on)).unwrap_or(usize::MAX);
            if self.bucket > buckets::LEN {
                return Err(bad("it has more buckets than there are"));
            }
            if empty == 0 {
                self.samples = self.samples.saturating_add(half);
                let is_possible = self.samples <= MOST_SAMPLES;
                return if is_possible {
                    Ok(Some((bucket, half)))
                } else {
                    Err(bad("it has more samples than can be"))
                };
            }
        }
        Ok(None)
    }

    /// The next number: seven bits a byte, of the ninth all eight.
    fn number(&mut self) -> Result<u64, BadHistogram> {
        let mut number = 0;
        for place in 0..LONGEST_COUNT {
            let (&byte, rest) = self.bytes.split_first().ok_or_else(|| bad("a count is cut short"))?;
            self.bytes = rest;
            let is_last = byte < 0x80 || place + 1 == LONGEST_COUNT;
            let bits = if is_last { byte } else { byte & 0x7f };
            number |= u64::from(bits) << (7 * place);
            if is_last {
                break;
            }
        }
        Ok(number)
    }
}

/// A histogram as text: base64 of [`Histogram::encode`]. Unpacked, one takes a quarter of a megabyte of addresses, which is
/// too much where thousands are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Packed {
    text: String,
    samples: u64,
}

impl Packed {
    /// Of a histogram.
    pub fn of(histogram: &Histogram) -> Packed {
        Packed { text: STANDARD.encode(histogram.encode()), samples: histogram.samples() }
    }

    /// The histogram.
    pub fn histogram(&self) -> Histogram {
        unpacked(&self.text).expect("it was checked when it was read")
    }

    /// How many samples it has.
    pub fn samples(&self) -> u64 {
        self.samples
    }
}

impl From<Packed> for String {
    fn from(packed: Packed) -> String {
        packed.text
    }
}

fn unpacked(text: &str) -> Result<Histogram, BadHistogram> {
    let bytes = STANDARD.decode(text).map_err(|e| BadHistogram(e.to_string()))?;
    Histogram::decode(&bytes)
}

impl TryFrom<String> for Packed {
    type Error = BadHistogram;

    fn try_from(text: String) -> Result<Packed, BadHistogram> {
        let samples = unpacked(&text)?.samples();
        Ok(Packed { text, samples })
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
            let _ = Histogram::decode(&encoded(bytes.len() as u32, buckets::HIGHEST_NS, &bytes));
        }
    }

    /// A head as it should be, which promises `length` bytes of counts, and these.
    fn encoded(length: u32, highest: u64, counts: &[u8]) -> Vec<u8> {
        let words = [length, 0, u32::from(buckets::DIGITS)].map(u32::to_be_bytes).concat();
        [&V2[..], &words, &1_u64.to_be_bytes(), &highest.to_be_bytes(), &1_f64.to_be_bytes(), counts].concat()
    }

    /// The crate's own reader takes 4 GiB for the first, half a gigabyte for the second, and adds up what 64 bits don't hold.
    #[test]
    fn a_histogram_that_promises_too_much_is_refused_before_it_has_room() {
        let refused = |bytes: &[u8]| Histogram::decode(bytes).unwrap_err().to_string();
        let promise = encoded(u32::MAX, buckets::HIGHEST_NS, &[2]);
        assert!(STANDARD.encode(&promise[..HEAD]).len() == 56 && refused(&promise[..HEAD]).contains("cut short"));
        let mut digits = encoded(1, u64::MAX / 2, &[2]);
        digits[15] = 5;
        assert!(refused(&digits).contains("3 digits"));
        let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(refused(&encoded(9, 1 << 40, &most)).contains("more samples"));
        let backwards = [0xff; 9];
        assert!(refused(&encoded(9, 1 << 40, &backwards)).contains("more buckets"));
        let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(0).take(1 << 24), &mut deflated).unwrap();
        let deflated = [&V2_DEFLATED[..], &[0; 4], &deflated.finish().unwrap()].concat();
        assert!(deflated.len() < 1 << 16 && refused(&deflated).contains("longer than any"));
    }

    #[test]
    fn an_empty_distribution_has_no_extremes() {
        let none = Histogram::default();
        assert_eq!((none.samples(), none.min(), none.max()), (0, 0, 0));
    }
}
