//! Instants that carry their clock, and the bridge from one clock to another with its error bound.

use serde::{Deserialize, Serialize};

/// An instant of the processor's time-stamp counter, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tsc(pub u64);

/// An instant of `CLOCK_MONOTONIC`, in nanoseconds; what eBPF's `bpf_ktime_get_ns` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

/// An instant of a card's own clock, in its ticks: nanoseconds for a PTP hardware clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Phc(pub u64);

/// An instant as a plain number of its clock's ticks.
pub trait Ticks: Copy + Ord {
    /// The number.
    fn ticks(self) -> u64;
}

impl Ticks for Tsc {
    fn ticks(self) -> u64 {
        self.0
    }
}

impl Ticks for Phc {
    fn ticks(self) -> u64 {
        self.0
    }
}

/// Ticks per second of a clock, such as the time-stamp counter, as an exact fixed-point factor.
///
/// Conversion is one multiplication and one shift, cheap enough for every frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickRate {
    /// Ticks per second.
    pub hz: u64,
    ns_per_tick_q48: u64,
    ticks_per_ns_q48: u64,
}

impl TickRate {
    /// Of a clock that counts nanoseconds.
    pub fn nanoseconds() -> TickRate {
        TickRate::from_hz(1_000_000_000)
    }

    /// From a frequency in Hz, which must lie between 1 MHz and 100 GHz.
    pub fn from_hz(hz: u64) -> TickRate {
        assert!((1_000_000..=100_000_000_000).contains(&hz), "a TSC of {hz} Hz");
        let ns_per_tick_q48 = ((1_000_000_000_u128 << 48) / u128::from(hz)) as u64;
        let ticks_per_ns_q48 = (u128::from(hz) << 48).div_ceil(1_000_000_000) as u64;
        TickRate { hz, ns_per_tick_q48, ticks_per_ns_q48 }
    }

    /// Nanoseconds in `ticks`, rounded down.
    #[inline]
    pub fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_q48)) >> 48) as u64
    }

    /// Ticks in `ns`, rounded up, so that a deadline is never early.
    #[inline]
    pub fn ticks(self, ns: u64) -> u64 {
        let q48 = u128::from(ns) * u128::from(self.ticks_per_ns_q48);
        ((q48 + ((1 << 48) - 1)) >> 48) as u64
    }
}

/// One moment read on two clocks: the tightest of many sandwich readings (DESIGN, "Time").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correlation<C = Tsc> {
    /// The other clock at the moment.
    pub at: C,
    /// `CLOCK_MONOTONIC` at the same moment, to within `error_ns`.
    pub mono: Mono,
    /// Half the width of the sandwich, in nanoseconds.
    pub error_ns: u64,
}

/// The way from another clock to `CLOCK_MONOTONIC` over a whole run: correlations taken again and again,
/// straight lines between them (NTP may slew one clock and not the other).
#[derive(Debug, Clone)]
pub struct Bridge<C = Tsc> {
    rate: TickRate,
    readings: Vec<Correlation<C>>,
    /// The largest of all readings, also of those that were forgotten.
    error_ns: u64,
}

impl<C: Ticks> Bridge<C> {
    /// Ticks per second of the other clock.
    pub fn rate(&self) -> TickRate {
        self.rate
    }

    /// From a first reading; `rate` serves beyond the outermost readings.
    pub fn new(rate: TickRate, first: Correlation<C>) -> Bridge<C> {
        Bridge { rate, error_ns: first.error_ns, readings: vec![first] }
    }

    /// Adds a reading later than all before; others are left out. Returns whether it was added.
    pub fn add(&mut self, reading: Correlation<C>) -> bool {
        let later = self.readings.last().is_some_and(|last| last.at < reading.at && last.mono < reading.mono);
        if later {
            self.error_ns = self.error_ns.max(reading.error_ns);
            self.readings.push(reading);
        }
        later
    }

    /// The same with its last readings alone, at least one.
    pub fn recent(&self, readings: usize) -> Bridge<C> {
        let from = self.readings.len().saturating_sub(readings.max(1));
        Bridge { readings: self.readings[from..].to_vec(), ..*self }
    }

    /// Forgets all but its last readings, at least one.
    pub fn forget(&mut self, but: usize) {
        self.readings.drain(..self.readings.len().saturating_sub(but.max(1)));
    }

    /// Whether an instant lies before the last reading, so that it needs no guess at the rate.
    pub fn reaches(&self, at: C) -> bool {
        self.readings.last().is_some_and(|last| at <= last.at)
    }

    /// The same instant on `CLOCK_MONOTONIC`, to within [`Bridge::error_ns`].
    pub fn mono(&self, at: C) -> Mono {
        let after = self.readings.partition_point(|r| r.at <= at);
        let at = at.ticks();
        match (after.checked_sub(1).map(|i| self.readings[i]), self.readings.get(after)) {
            (None, Some(next)) => Mono(next.mono.0.saturating_sub(self.rate.ns(next.at.ticks() - at))),
            (Some(last), None) => Mono(last.mono.0 + self.rate.ns(at - last.at.ticks())),
            (Some(last), Some(next)) => {
                let ns = u128::from(next.mono.0 - last.mono.0) * u128::from(at - last.at.ticks());
                Mono(last.mono.0 + (ns / u128::from(next.at.ticks() - last.at.ticks())) as u64)
            }
            (None, None) => unreachable!("a bridge has a first reading"),
        }
    }

    /// Bound on the error of the readings themselves, in nanoseconds.
    pub fn error_ns(&self) -> u64 {
        self.error_ns
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
        fn a_bridge_passes_through_its_readings_and_is_monotone(
            gaps in proptest::collection::vec((1_u64..1 << 32, 1_u64..1 << 32), 1..6),
            at in 0_u64..1 << 40,
            further in 0_u64..1 << 20,
        ) {
            let (mut tsc, mut mono) = (1 << 38, 1 << 39);
            let reading = |tsc, mono| Correlation { at: Tsc(tsc), mono: Mono(mono), error_ns: 20 };
            let mut bridge = Bridge::new(TickRate::from_hz(2_500_000_000), reading(tsc, mono));
            for (ticks, ns) in gaps {
                tsc += ticks;
                mono += ns;
                bridge.add(reading(tsc, mono));
                prop_assert_eq!(bridge.mono(Tsc(tsc)), Mono(mono));
            }
            prop_assert!(bridge.mono(Tsc(at)) <= bridge.mono(Tsc(at + further)));
        }
    }
}
