//! A shift of level in a row of medians: not a threshold that somebody chose, but a change of what was usual (paper 003
//! §1: an operator moves a fiber to a longer path).
//!
//! A two-sided CUSUM (Page 1954) of how far each value lies from the median of the usual ones, in units of their spread.
//! Single values count no more than six units, so that no stall, however long, is a shift.

use crate::stats::middle;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Values that say what is usual, at least and at most.
const FEWEST: usize = 20;
const USUAL: usize = 300;
/// Units that a single value counts at most.
const MOST: f64 = 6.0;
/// Units that are no reason for suspicion.
const ALLOWED: f64 = 2.0;
/// Suspicion that is no chance any more: five values far off in a row, or more that are less far.
const ALARM: f64 = 20.0;
/// Values that have to agree on a new level, all but a tenth of them.
const LATEST: usize = 10;
/// Values after which a suspicion that has come to nothing is dropped.
const LONGEST: usize = 120;
/// Smallest spread, in nanoseconds, and as a share of the level: values that hardly vary shift by more than that.
const LEAST_NS: f64 = 5.0;
const LEAST_SHARE: f64 = 0.001;
/// Units by which the values after a shift may differ from what it shifted to.
const STAYED: f64 = 4.0;
/// Times the median distance from the median is a standard deviation, of a normal distribution.
const MAD: f64 = 1.4826;

/// A level that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// When the first value of the new level was.
    pub at: i64,
    /// When the value was at which it was certain.
    pub seen_at: i64,
    /// The level before, in nanoseconds.
    pub from_ns: f64,
    /// The level since, in nanoseconds.
    pub to_ns: f64,
}

/// Watches a row of medians.
#[derive(Debug, Clone, Default)]
pub struct Shifts {
    /// Each with its time.
    usual: VecDeque<(i64, f64)>,
    /// The last one, until the values since say whether it stayed.
    claimed: Option<Shift>,
    up: Suspicion,
    down: Suspicion,
}

/// What has piled up in one direction, and the values since it began.
#[derive(Debug, Clone, Default)]
struct Suspicion {
    sum: f64,
    /// Each with its time.
    values: Vec<(i64, f64)>,
}

impl Suspicion {
    fn add(&mut self, at: i64, value: f64, units: f64) {
        if self.sum + units <= 0.0 {
            *self = Suspicion::default();
            return;
        }
        self.sum += units;
        self.values.push((at, value));
    }

    /// The shift that it comes to, with the values since: where it is beyond chance, and nearly all of the latest values
    /// are near one another, and far from the level. A path that has two levels has no shift.
    fn judged(&self, level: f64, unit: f64) -> Option<(Shift, Vec<(i64, f64)>)> {
        let latest = &self.values[self.values.len().checked_sub(LATEST)?..];
        let to_ns = median(latest.iter().map(|(_, value)| *value));
        let is_far = (to_ns - level).abs() > ALLOWED * unit;
        let others = latest.iter().filter(|value| !is_near(value, level, to_ns)).count();
        if self.sum < ALARM || !is_far || others > LATEST / 10 {
            return None;
        }
        let new = &self.values[settled(&self.values, level, to_ns)..];
        let shift = Shift { at: new[0].0, seen_at: latest[LATEST - 1].0, from_ns: level, to_ns };
        Some((shift, new.to_vec()))
    }
}

impl Shifts {
    /// The level: the median of the usual values, in nanoseconds, once there are enough to say; right after a shift, what
    /// it shifted to.
    pub fn level_ns(&self) -> Option<f64> {
        self.usual_ns().or_else(|| self.claimed.map(|shift| shift.to_ns))
    }

    fn usual_ns(&self) -> Option<f64> {
        (self.usual.len() >= FEWEST).then(|| median(self.usual.iter().map(|(_, value)| *value)))
    }

    /// The next value, in nanoseconds, and when it was, on any clock that rises. Returns a shift once it is certain, and
    /// then takes the new level for the usual one.
    pub fn next(&mut self, at: i64, value: f64) -> Option<Shift> {
        let Some(level) = self.usual_ns() else {
            self.usual.push_back((at, value));
            return self.has_stayed(at);
        };
        let unit = unit(level, self.usual.iter().map(|(_, value)| *value));
        let units = ((value - level) / unit).clamp(-MOST, MOST);
        self.up.add(at, value, units - ALLOWED);
        self.down.add(at, value, -units - ALLOWED);
        let shift = [&self.up, &self.down].into_iter().find_map(|suspicion| suspicion.judged(level, unit));
        if let Some((shift, new)) = shift {
            *self = Shifts { usual: new.into(), claimed: Some(shift), ..Shifts::default() };
            return Some(shift);
        }
        for suspicion in [&mut self.up, &mut self.down] {
            if suspicion.values.len() > LONGEST {
                *suspicion = Suspicion::default();
            }
        }
        if units.abs() <= ALLOWED {
            self.learn(at, value);
        }
        None
    }

    /// Whether, now that the values since a shift would make a level, the latest of them are still what it shifted to: they
    /// may have gone back, or on to another.
    fn has_stayed(&mut self, at: i64) -> Option<Shift> {
        self.usual_ns()?;
        let Shift { to_ns: from_ns, .. } = self.claimed.take()?;
        let latest = || self.usual.iter().skip(FEWEST / 2).map(|(_, value)| *value);
        let to_ns = median(latest());
        if (to_ns - from_ns).abs() <= STAYED * unit(to_ns, latest()) {
            return None;
        }
        let values = self.usual.make_contiguous();
        let new = &values[settled(values, from_ns, to_ns)..];
        let shift = Shift { at: new[0].0, seen_at: at, from_ns, to_ns };
        *self = Shifts { usual: new.iter().copied().collect(), claimed: Some(shift), ..Shifts::default() };
        Some(shift)
    }

    /// What is near the level is usual: it may drift.
    fn learn(&mut self, at: i64, value: f64) {
        self.usual.push_back((at, value));
        if self.usual.len() > USUAL {
            self.usual.pop_front();
        }
    }
}

/// What values differ by from their level by themselves: a standard deviation, which few that are far off don't change.
fn unit(level: f64, values: impl Iterator<Item = f64>) -> f64 {
    (MAD * median(values.map(|value| (value - level).abs()))).max(LEAST_NS).max(level.abs() * LEAST_SHARE)
}

/// Whether a value is of a new level.
fn is_near((_, value): &(i64, f64), from_ns: f64, to_ns: f64) -> bool {
    (value - to_ns).abs() < (to_ns - from_ns).abs() / 2.0
}

/// Where a new level begins: at the first two values in a row that are near it.
fn settled(values: &[(i64, f64)], from_ns: f64, to_ns: f64) -> usize {
    let both = |pair: &[(i64, f64)]| pair.iter().all(|value| is_near(value, from_ns, to_ns));
    values.windows(2).position(both).unwrap_or(0)
}

/// Of values of which there is one.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    middle(values).expect("there is one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, Normal, StandardUniform};
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::SeedableRng;

    /// Medians of a second each, as a path on a virtual machine shows them: 5 us, 30 ns of noise of which part stays for
    /// some seconds, a slow drift of 100 ns an hour, and one second in fifty with a stall of up to a millisecond in it.
    fn trace(seed: u64, seconds: u64) -> impl Iterator<Item = f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let noise = Normal::new(0.0, 25.0).unwrap();
        let mut lasting = 0.0;
        (0..seconds).map(move |second| {
            lasting = 0.6 * lasting + 0.5 * noise.sample(&mut random);
            let stall: f64 = StandardUniform.sample(&mut random);
            let stalled = if stall < 0.02 { stall * 5e7 } else { 0.0 };
            5_000.0 + second as f64 * 100.0 / 3_600.0 + lasting + noise.sample(&mut random) + stalled
        })
    }

    fn shifts(values: impl Iterator<Item = f64>) -> Vec<Shift> {
        let mut shifts = Shifts::default();
        (0..).zip(values).filter_map(|(at, value)| shifts.next(at, value)).collect()
    }

    #[test]
    fn an_hour_without_a_step_raises_no_alarm() {
        for seed in 0..12 {
            assert_eq!(shifts(trace(seed, 3_600)), [], "seed {seed}");
        }
    }

    #[test]
    fn a_step_of_a_microsecond_is_told_within_thirty_seconds_with_its_time_and_size() {
        for seed in 0..12 {
            for step in [1_000.0, -1_000.0] {
                let stepped = trace(seed, 1_200).enumerate().map(|(i, v)| if i < 600 { v } else { v + step });
                let found = shifts(stepped);
                let [shift] = found[..] else { panic!("seed {seed}: {found:?}") };
                assert!((596..=604).contains(&shift.at) && shift.seen_at < 630, "seed {seed}: {shift:?}");
                assert!((shift.to_ns - shift.from_ns - step).abs() < 100.0, "seed {seed}: {shift:?}");
            }
        }
    }

    #[test]
    fn a_step_back_is_a_second_shift_and_lost_seconds_are_none() {
        let mut shifts = Shifts::default();
        let steps = trace(3, 900).enumerate().map(|(i, v)| match i {
            400..=599 => Some(v + 1_000.0),
            _ if i % 7 == 0 => None,
            _ => Some(v),
        });
        let found: Vec<Shift> = (0..).zip(steps).filter_map(|(at, value)| shifts.next(at, value?)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((596..=604).contains(&found[1].at) && found[1].to_ns < found[1].from_ns, "{found:?}");
    }

    #[test]
    fn a_level_that_soon_goes_back_is_told_too() {
        for seed in 0..12 {
            let bump = trace(seed, 300).enumerate().map(|(i, v)| if (100..114).contains(&i) { v + 1_000.0 } else { v });
            let found = shifts(bump);
            let [up, back] = found[..] else { panic!("seed {seed}: {found:?}") };
            assert!((96..=104).contains(&up.at) && up.to_ns - up.from_ns > 800.0, "seed {seed}: {up:?}");
            assert!((112..=122).contains(&back.at) && back.seen_at < 140, "seed {seed}: {back:?}");
            assert!((back.to_ns - up.from_ns).abs() < 100.0, "seed {seed}: {back:?}");
        }
    }

    #[test]
    fn a_level_that_soon_goes_on_or_overshot_is_told_as_it_settles() {
        for seed in 0..12 {
            let levels = |i: usize, steps: &[(usize, f64)]| {
                steps.iter().rev().find(|(from, _)| i >= *from).map_or(0.0, |(_, more)| *more)
            };
            for (steps, last) in [
                (&[(100, 1_000.0), (106, 11_000.0)][..], 11_000.0),
                (&[(100, 30_000.0), (106, 20_000.0)], 20_000.0),
                (&[(100, 2_000.0), (103, 4_000.0), (106, 6_000.0), (109, 8_000.0)], 8_000.0),
            ] {
                let stepped = trace(seed, 300).enumerate().map(|(i, v)| v + levels(i, steps));
                let found = shifts(stepped);
                let (first, end) = (found.first().unwrap(), found.last().unwrap());
                assert!((first.from_ns - 5_000.0).abs() < 200.0, "seed {seed}: {found:?}");
                assert!((end.to_ns - 5_000.0 - last).abs() < 200.0 && end.seen_at < 160, "seed {seed}: {found:?}");
                assert!(found.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "seed {seed}: {found:?}");
            }
        }
    }

    #[test]
    fn a_path_with_two_levels_has_no_shift() {
        for (seed, share) in (0..12).flat_map(|seed| [0.05, 0.1, 0.2].map(|share| (seed, share))) {
            let mut random = Pcg64Mcg::seed_from_u64(1_000 + seed);
            let two = trace(seed, 3_600).map(|v| {
                let drawn: f64 = StandardUniform.sample(&mut random);
                if drawn < share { v + 600.0 } else { v }
            });
            assert_eq!(shifts(two), [], "seed {seed}, {share}");
        }
    }

    #[test]
    fn a_microsecond_is_told_in_time_on_paths_of_up_to_three_hundred() {
        for level in [50_000.0, 200_000.0, 300_000.0] {
            let stepped =
                trace(7, 900).enumerate().map(|(i, v)| v - 5_000.0 + level + if i < 600 { 0.0 } else { 1_000.0 });
            let found = shifts(stepped);
            let [shift] = found[..] else { panic!("{level}: {found:?}") };
            assert!((596..=604).contains(&shift.at) && shift.seen_at < 630, "{level}: {shift:?}");
            assert!((shift.to_ns - shift.from_ns - 1_000.0).abs() < 100.0, "{level}: {shift:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_shift_is_smaller_than_what_is_usual_or_told_before_it_was(
            seed: u64, share in 0.0..1.0_f64, apart in 0.0..5_000.0_f64, seconds in 30_u64..900,
        ) {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let values = trace(seed, seconds).map(|v| {
                let drawn: f64 = StandardUniform.sample(&mut random);
                if drawn < share { v + apart } else { v }
            });
            for Shift { at, seen_at, from_ns, to_ns } in shifts(values) {
                proptest::prop_assert!(at <= seen_at && (to_ns - from_ns).abs() > ALLOWED * LEAST_NS);
            }
        }
    }

    #[test]
    fn values_that_never_vary_shift_by_more_than_their_resolution() {
        let still = (0..200).map(|i| if i < 100 { 800.0 } else { 802.0 });
        assert_eq!(shifts(still), []);
        let step = (0..200).map(|i| if i < 100 { 800.0 } else { 900.0 });
        assert_eq!(shifts(step).iter().map(|s| s.at).collect::<Vec<_>>(), [100]);
    }
}
