//! When each frame is due: absolute offsets from the start, so that rounding never accumulates.

use crate::rate::Rate;

/// A pure iterator of departures, each an offset in nanoseconds from the start of the traffic.
///
/// Other patterns (Poisson, trains, replay) are further constructors of this type, not further
/// pacing loops.
#[derive(Debug, Clone)]
pub struct Schedule {
    rate: Rate,
    next: u64,
    frames: u64,
}

impl Schedule {
    /// `frames` departures at a constant rate, the first at offset 0 (RFC 1242 §3.5).
    pub fn constant(rate: Rate, frames: u64) -> Schedule {
        Schedule { rate, next: 0, frames }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.next == self.frames {
            return None;
        }
        let offset = self.rate.offset_ns(self.next);
        self.next += 1;
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.frames - self.next) as usize;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_rate_is_evenly_spaced_and_ends() {
        let due: Vec<u64> = Schedule::constant(Rate::per_second(3).unwrap(), 4).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }
}
