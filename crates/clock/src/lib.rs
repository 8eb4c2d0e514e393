//! Reading time: the processor's time-stamp counter, `CLOCK_MONOTONIC`, and how the two go together.

pub mod phc;
mod raw;
pub mod watch;

pub use raw::tsc;
use std::time::Duration;
use usect_core::instant::{Bridge, Correlation, Mono, TickRate, Tsc};

/// Two measurements of the counter's frequency may differ by this share (DESIGN, "Time").
const TOLERANCE: f64 = 0.001;
/// The clock sources that the kernel trusts; one that fails its watchdog (`clocksource.c`) leaves the list.
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// How long the frequency is measured, twice.
const WINDOW: Duration = Duration::from_millis(50);
/// Sandwich readings of which the tightest is kept.
const SANDWICHES: usize = 64;
/// Readings of [`correlate_briefly`], at the most, and the error in ticks below which one is enough.
const FEW: usize = 4;
const TIGHT: u64 = 500;

/// A time-stamp counter that was found fit to measure with.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    rate: TickRate,
    invariant: bool,
}

/// Set to 1, it lets a counter pass that the processor doesn't promise to be invariant, as an emulated one doesn't.
const TRUST: &str = "USECT_TRUST_TSC";

/// Why time can't be read as needed.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The counter stops or changes speed with the core.
    #[error(
        "this processor's time-stamp counter is not invariant (CPUID 80000007h), so usect can't measure with it; in an \
         emulated machine, where it is in fact, set {TRUST}=1"
    )]
    NotInvariant,
    /// The kernel found at boot or later that the counters of the cores don't go together.
    #[error(
        "the kernel has dropped the time-stamp counter as unreliable (it is not in {AVAILABLE}, which has {available}), \
         so usect can't measure with it: look for `tsc` in the kernel's log"
    )]
    Dropped {
        /// The clock sources that the kernel still trusts.
        available: String,
    },
    /// Its frequency could not be pinned down.
    #[error(
        "the time-stamp counter ran at {first} and then at {second} Hz against CLOCK_MONOTONIC_RAW, more than 0.1% apart: \
         the host is too disturbed to measure, try again when it is quiet"
    )]
    Unsteady {
        /// In the first window.
        first: u64,
        /// In the second window.
        second: u64,
    },
}

impl Clock {
    /// Checks the counter and measures its frequency against `CLOCK_MONOTONIC_RAW`; takes 0.1 s.
    pub fn calibrate() -> Result<Clock, ClockError> {
        let invariant = raw::invariant();
        if !invariant && std::env::var_os(TRUST).is_none_or(|trust| trust != "1") {
            return Err(ClockError::NotInvariant);
        }
        if let Ok(available) = std::fs::read_to_string(AVAILABLE)
            && !available.split_whitespace().any(|source| source == "tsc")
        {
            return Err(ClockError::Dropped { available: available.trim().to_owned() });
        }
        let (first, second) = (frequency(), frequency());
        if first.abs_diff(second) as f64 > first as f64 * TOLERANCE {
            return Err(ClockError::Unsteady { first, second });
        }
        Ok(Clock { rate: TickRate::from_hz(u64::midpoint(first, second)), invariant })
    }

    /// Ticks per second.
    pub fn rate(&self) -> TickRate {
        self.rate
    }

    /// Whether the processor promises that the counter keeps its rate.
    pub fn is_invariant(&self) -> bool {
        self.invariant
    }

    /// Now, on the counter.
    #[inline]
    pub fn now(&self) -> Tsc {
        tsc()
    }

    /// A fresh bridge to `CLOCK_MONOTONIC`.
    pub fn bridge(&self) -> Bridge {
        Bridge::new(self.rate, correlate())
    }

    /// Sleeps until `at`, as exactly as the kernel's timers can.
    pub fn sleep_until(&self, at: Tsc) {
        let now = tsc();
        if at > now {
            raw::sleep_until(Mono(mono().0 + self.rate.ns(at.0 - now.0)));
        }
    }
}

/// Now, on `CLOCK_MONOTONIC`.
pub fn mono() -> Mono {
    Mono(raw::clock_ns(libc::CLOCK_MONOTONIC))
}

/// Lets this thread's sleeps end when they are due instead of up to 50 µs later (`prctl(2)`,
/// `PR_SET_TIMERSLACK`).
pub fn sleep_precisely() {
    raw::least_timer_slack();
}

/// The counter and `CLOCK_MONOTONIC` at one moment.
pub fn correlate() -> Correlation {
    sandwich(libc::CLOCK_MONOTONIC)
}

/// The same for the hot path: the first reading that is tight, or the tightest of a few.
#[inline]
pub fn correlate_briefly(rate: TickRate) -> Correlation {
    let mut best = reading(libc::CLOCK_MONOTONIC);
    for _ in 1..FEW {
        if best.error_ns < TIGHT {
            break;
        }
        let next = reading(libc::CLOCK_MONOTONIC);
        best = if next.error_ns < best.error_ns { next } else { best };
    }
    // Ticks bound nanoseconds; here the bound is wanted tighter.
    Correlation { error_ns: rate.ns(best.error_ns) + 1, ..best }
}

/// How `CLOCK_REALTIME`, in which the kernel stamps frames, lies to `CLOCK_MONOTONIC`. Both are steered together, so
/// the distance changes only when somebody sets the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wall {
    ahead_ns: i64,
    /// Bound on the error of the distance, in nanoseconds.
    pub error_ns: u64,
}

impl Wall {
    /// An instant of `CLOCK_REALTIME` on `CLOCK_MONOTONIC`.
    pub fn mono(&self, realtime_ns: u64) -> Mono {
        Mono(realtime_ns.saturating_add_signed(-self.ahead_ns))
    }

    /// Whether the time of day was set between two readings.
    pub fn moved(&self, earlier: &Wall) -> bool {
        self.ahead_ns.abs_diff(earlier.ahead_ns) > self.error_ns + earlier.error_ns
    }
}

/// The distance now, from the tightest of many readings.
pub fn wall() -> Wall {
    let reading = || (raw::clock_ns(libc::CLOCK_REALTIME), mono().0, raw::clock_ns(libc::CLOCK_REALTIME));
    let readings = (0..SANDWICHES).map(|_| reading());
    let (before, mono, after) = readings.min_by_key(|(before, _, after)| after - before).expect("SANDWICHES > 0");
    let width = after - before;
    Wall { ahead_ns: (before + width / 2) as i64 - mono as i64, error_ns: width.div_ceil(2) }
}

fn frequency() -> u64 {
    let from = sandwich(libc::CLOCK_MONOTONIC_RAW);
    std::thread::sleep(WINDOW);
    let to = sandwich(libc::CLOCK_MONOTONIC_RAW);
    let (ticks, ns) = (to.at.0 - from.at.0, to.mono.0 - from.mono.0);
    (u128::from(ticks) * 1_000_000_000 / u128::from(ns)) as u64
}

/// The tightest of many readings of a kernel clock between two of the counter.
fn sandwich(kernel_clock: libc::clockid_t) -> Correlation {
    let readings = (0..SANDWICHES).map(|_| reading(kernel_clock));
    readings.min_by_key(|reading| reading.error_ns).expect("SANDWICHES > 0")
}

/// One reading of a kernel clock between two of the counter.
#[inline]
fn reading(kernel_clock: libc::clockid_t) -> Correlation {
    let (before, ns, after) = (tsc(), raw::clock_ns(kernel_clock), tsc());
    let width = after.0 - before.0;
    // A tick is at most 1 ns on any processor with an invariant counter, so ticks bound nanoseconds.
    Correlation { at: Tsc(before.0 + width / 2), mono: Mono(ns), error_ns: width.div_ceil(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_and_the_kernel_agree_on_a_duration() {
        let clock = Clock::calibrate().unwrap();
        let mut bridge = clock.bridge();
        clock.sleep_until(Tsc(tsc().0 + clock.rate().ticks(20_000_000)));
        let later = correlate();
        let predicted = bridge.mono(later.at);
        bridge.add(later);
        let off = predicted.0.abs_diff(later.mono.0);
        // NTP may slew CLOCK_MONOTONIC by 500 ppm and the frequency is known to 0.1%.
        assert!(off <= 20_000_000 / 500 + later.error_ns + bridge.error_ns(), "off by {off} ns after 20 ms");
    }

    #[test]
    fn the_time_of_day_keeps_its_distance() {
        let first = wall();
        std::thread::sleep(Duration::from_millis(20));
        let second = wall();
        assert!(!second.moved(&first), "{first:?}, {second:?}: or somebody set the clock");
        let (now, realtime) = (mono().0, raw::clock_ns(libc::CLOCK_REALTIME));
        let back = second.mono(realtime).0;
        assert!(back + second.error_ns >= now && back < now + 1_000_000_000);
    }

    #[test]
    fn a_sleep_never_ends_early() {
        let clock = Clock::calibrate().unwrap();
        let due = mono().0 + 2_000_000;
        clock.sleep_until(Tsc(tsc().0 + clock.rate().ticks(2_000_000)));
        // Two clock readings lie between the two deadlines; 0.1% of 2 ms covers the frequency.
        assert!(mono().0 + 2_000 >= due);
    }
}
