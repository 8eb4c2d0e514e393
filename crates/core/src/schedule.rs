//! When each frame is due: absolute offsets from the start, so that rounding never accumulates.

use crate::rate::Rate;

/// A pure iterator of departures, each an offset in nanoseconds from the start of the traffic.
///
/// Other patterns (Poisson, trains, replay) are further constructors of this type, not further
/// pacing loops.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Departures that are left.
    left: u64,
    /// The next one.
    offset_ns: u64,
    /// What the whole nanoseconds leave out of it, in parts of one: `rest / parts`.
    rest: u64,
    gap_ns: u64,
    gap_rest: u64,
    parts: u64,
}

impl Schedule {
    /// `frames` departures at a constant rate, the first at offset 0 (RFC 1242 §3.5).
    pub fn constant(rate: Rate, frames: u64) -> Schedule {
        let (gap, parts) = rate.gap();
        Schedule { left: frames, offset_ns: 0, rest: 0, gap_ns: gap / parts, gap_rest: gap % parts, parts }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let offset = self.offset_ns;
        // A division per frame would cost more than the rest of the loop.
        self.offset_ns += self.gap_ns;
        self.rest += self.gap_rest;
        if self.rest >= self.parts {
            self.rest -= self.parts;
            self.offset_ns += 1;
        }
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn constant_rate_is_evenly_spaced_and_ends() {
        let due: Vec<u64> = Schedule::constant(Rate::per_second(3).unwrap(), 4).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }

    proptest! {
        #[test]
        fn offsets_are_those_of_the_rate(per_second in 1_u64..100_000_000, frames in 1_u64..2_000) {
            let rate = Rate::per_second(per_second).unwrap();
            for (index, offset) in (0..).zip(Schedule::constant(rate, frames)) {
                prop_assert_eq!(offset, rate.offset_ns(index));
            }
        }
    }
}
