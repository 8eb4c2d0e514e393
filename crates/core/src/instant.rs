//! Instants that carry their clock, and the bridge between two clocks with its error bound.

use serde::{Deserialize, Serialize};

/// An instant of the processor's time-stamp counter, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tsc(pub u64);

/// An instant of `CLOCK_MONOTONIC`, in nanoseconds; what eBPF's `bpf_ktime_get_ns` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

/// Ticks per second of the time-stamp counter as an exact fixed-point factor.
///
/// Conversion is one multiplication and one shift, cheap enough for every frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickRate {
    /// Ticks per second.
    pub hz: u64,
    ns_per_tick_q48: u64,
}

impl TickRate {
    /// From a frequency in Hz, which must lie between 1 MHz and 100 GHz.
    pub fn from_hz(hz: u64) -> TickRate {
        assert!((1_000_000..=100_000_000_000).contains(&hz), "a TSC of {hz} Hz");
        let ns_per_tick_q48 = ((1_000_000_000_u128 << 48) / u128::from(hz)) as u64;
        TickRate { hz, ns_per_tick_q48 }
    }

    /// Nanoseconds in `ticks`, rounded down.
    #[inline]
    pub fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_q48)) >> 48) as u64
    }

    /// Ticks in `ns`, rounded up, so that a deadline is never early.
    #[inline]
    pub fn ticks(self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.hz)).div_ceil(1_000_000_000) as u64
    }
}

/// One moment read on two clocks: the tightest of many sandwich readings (DESIGN, "Time").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correlation {
    /// The counter at the moment.
    pub tsc: Tsc,
    /// `CLOCK_MONOTONIC` at the same moment, to within `error_ns`.
    pub mono: Mono,
    /// Half the width of the sandwich, in nanoseconds.
    pub error_ns: u64,
    /// Rate used away from the moment.
    pub rate: TickRate,
}

impl Correlation {
    /// The same instant on `CLOCK_MONOTONIC`; off by at most `error_ns` plus the drift of the two
    /// rates since the moment of correlation.
    pub fn mono(&self, at: Tsc) -> Mono {
        if at >= self.tsc {
            Mono(self.mono.0 + self.rate.ns(at.0 - self.tsc.0))
        } else {
            Mono(self.mono.0.saturating_sub(self.rate.ns(self.tsc.0 - at.0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
            #[test]
            fn a_deadline_in_ticks_is_never_early(hz in 1_000_000_000_u64..5_000_000_000, ns in 0_u64..1_000_000_000_000) {
                let rate = TickRate::from_hz(hz);
                let back = rate.ns(rate.ticks(ns));
    prop_assert!(back + 1 >= ns && back <= ns + 2, "{ns} became {back}");
            }

            #[test]
            fn correlation_is_monotone_across_its_moment(before in 0_u64..1 << 40, after in 0_u64..1 << 40) {
                let c = Correlation { tsc: Tsc(1 << 41), mono: Mono(1 << 42), error_ns: 20, rate: TickRate::from_hz(2_500_000_000) };
                prop_assert!(c.mono(Tsc((1 << 41) - before)) <= c.mono(Tsc((1 << 41) + after)));
            }
        }
}
