//! When a sender that is behind its schedule gives its rate up.

use usect_clock::Clock;
use usect_core::instant::Tsc;
use usect_core::signature::MAX_LATENESS_NS;

/// A sender that is behind its schedule by this, and by 2% of the time that has passed, can't keep the rate ...
const HOPELESS_NS: u64 = 200_000_000;
/// ... if it doesn't catch up in this time: a host that paused it lets it.
const CATCH_UP_NS: u64 = 1_000_000_000;

/// How long a sender may be behind.
#[derive(Debug, Default)]
pub struct Patience {
    late_since: Option<Tsc>,
}

impl Patience {
    /// Whether it is at its end for a sender that is late by `late_ns` for a frame due `offset_ns` after the first.
    pub fn ends(&mut self, clock: &Clock, now: Tsc, late_ns: u64, offset_ns: u64) -> bool {
        if late_ns <= HOPELESS_NS.max(offset_ns / 50).min(MAX_LATENESS_NS) {
            self.late_since = None;
            return false;
        }
        let since = *self.late_since.get_or_insert(now);
        clock.rate().ns(now.0 - since.0) > CATCH_UP_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_forgiven_and_a_rate_that_is_too_high_is_not() {
        let clock = Clock::calibrate().unwrap();
        let at = |ms: u64| Tsc(1 + clock.rate().ticks(ms * 1_000_000));
        let mut patience = Patience::default();
        let mut ends = |now_ms, late_ms: u64, offset_ms: u64| {
            patience.ends(&clock, at(now_ms), late_ms * 1_000_000, offset_ms * 1_000_000)
        };
        assert!(!ends(0, 900, 100) && !ends(900, 400, 100), "it catches up");
        assert!(!ends(950, 150, 100) && !ends(1_500, 900, 200), "and is paused again");
        assert!(!ends(2_400, 900, 200) && ends(2_600, 900, 200));
        // Two per cent of a minute.
        assert!(!ends(3_000, 1_100, 60_000) && !ends(9_000, 1_100, 60_000));
    }
}
