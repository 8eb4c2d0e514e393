//! The bucket layout that every recorder shares: HdrHistogram's with 3 significant digits, 1 ns to
//! 60 s. Rust threads and eBPF programs fill plain arrays in this layout; [`crate::histogram`]
//! turns them into histograms. `xdp/src/bpf/buckets.bpf.h` is its twin, held to it by a test.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of the layout.
pub const LEN: usize = 27 * HALF as usize;
/// Largest value with a bucket of its own kind: 60 s in nanoseconds. Larger ones count as this.
pub const HIGHEST_NS: u64 = 60_000_000_000;
/// Significant decimal digits that a bucket keeps.
pub const DIGITS: u8 = 3;

const HALF: u64 = 1024;
const MASK: u64 = 2 * HALF - 1;

/// The bucket of a value in nanoseconds.
#[inline]
pub fn index(value_ns: u64) -> usize {
    let value = value_ns.min(HIGHEST_NS);
    let exponent = 53 - (value | MASK).leading_zeros();
    (u64::from(exponent + 1) * HALF + (value >> exponent) - HALF) as usize
}

/// The smallest value, in nanoseconds, of a bucket.
pub fn lowest(index: usize) -> u64 {
    let index = index as u64;
    match index / HALF {
        0 => index,
        row => (index % HALF + HALF) << (row - 1),
    }
}

/// Counts per bucket, written by one thread and readable by others while it writes.
#[derive(Debug)]
pub struct Recorder {
    counts: Box<[AtomicU64]>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder { counts: (0..LEN).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Recorder {
    /// Counts one value. Only one thread may record: no bus lock is taken.
    #[inline]
    pub fn record(&self, value_ns: u64) {
        let slot = &self.counts[index(value_ns)];
        slot.store(slot.load(Relaxed) + 1, Relaxed);
    }

    /// The counts as they stand.
    pub fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|c| c.load(Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in 0..HIGHEST_NS) {
            let i = index(value);
            prop_assert!(lowest(i) <= value);
            prop_assert!(i + 1 == LEN || value < lowest(i + 1));
        }

        #[test]
        fn three_digits_are_kept(value in 2048..HIGHEST_NS) {
            let low = lowest(index(value));
            prop_assert!((value - low) as f64 / value as f64 <= 1e-3);
        }
    }

    #[test]
    fn the_layout_covers_its_range_and_no_more() {
        assert_eq!(index(0), 0);
        assert!(index(u64::MAX) < LEN);
        assert_eq!(index(u64::MAX), index(HIGHEST_NS));
        assert!((0..LEN).all(|i| index(lowest(i).min(HIGHEST_NS)) == i || lowest(i) > HIGHEST_NS));
    }
}
