//! When each frame is due: absolute offsets from the start, so that rounding never accumulates.

use crate::pattern::{Pattern, Train};
use crate::rate::Rate;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::sync::Arc;

/// A pure iterator of departures, each an offset in nanoseconds from the start of the traffic.
///
/// Every pattern is a constructor of this type, none is a pacing loop of its own.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Departures that are left.
    left: u64,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Even(Even),
    Poisson(Poisson),
    Trains(Trains),
    Halves(Halves),
    Replay(Replayed),
}

impl Schedule {
    /// `frames` departures in a pattern, of which `rate` is the mean; the first is at offset 0, but for random ones.
    pub fn new(pattern: &Pattern, rate: Rate, frames: u64) -> Schedule {
        let kind = match pattern {
            Pattern::Constant {} => Kind::Even(Even::new(rate.gap())),
            Pattern::Poisson { seed } => Kind::Poisson(Poisson::new(*seed, rate)),
            Pattern::Trains(train) => Kind::Trains(Trains::new(train, rate)),
            Pattern::Halves { after } => Kind::Halves(Halves::new(*after, rate, frames)),
            Pattern::Replay(replay) => Kind::Replay(Replayed {
                offsets: replay.capture.offsets_ns().clone(),
                period_ns: replay.capture.rate().map_or(0, |(_, period)| period),
                speed: replay.speed,
                at: 0,
                rounds: 0,
            }),
        };
        Schedule { left: frames, kind }
    }

    /// `frames` departures at a constant rate, the first at offset 0 (RFC 1242 §3.5).
    pub fn constant(rate: Rate, frames: u64) -> Schedule {
        Schedule::new(&Pattern::Constant {}, rate, frames)
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        Some(match &mut self.kind {
            Kind::Even(even) => even.next(),
            Kind::Poisson(poisson) => poisson.next(),
            Kind::Trains(trains) => trains.next(),
            Kind::Halves(halves) => halves.next(),
            Kind::Replay(replayed) => replayed.next(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

/// Multiples of a fraction of nanoseconds, rounded down.
#[derive(Debug, Clone)]
struct Even {
    /// The next one.
    offset_ns: u64,
    /// What the whole nanoseconds leave out of it, in parts of one: `rest / parts`.
    rest: u64,
    gap_ns: u64,
    gap_rest: u64,
    parts: u64,
}

impl Even {
    fn new((gap, parts): (u64, u64)) -> Even {
        Even { offset_ns: 0, rest: 0, gap_ns: gap / parts, gap_rest: gap % parts, parts }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let offset = self.offset_ns;
        // A division per frame would cost more than the rest of the loop.
        self.offset_ns += self.gap_ns;
        self.rest += self.gap_rest;
        if self.rest >= self.parts {
            self.rest -= self.parts;
            self.offset_ns += 1;
        }
        offset
    }
}

/// Independent gaps, exponentially distributed.
#[derive(Debug, Clone)]
struct Poisson {
    random: Pcg64Mcg,
    mean_ns: f64,
    /// Exact to a 60th of a nanosecond after a day.
    at_ns: f64,
}

impl Poisson {
    fn new(seed: u64, rate: Rate) -> Poisson {
        Poisson { random: Pcg64Mcg::seed_from_u64(seed), mean_ns: 1e9 / rate.frames_per_second(), at_ns: 0.0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let gap: f64 = Exp1.sample(&mut self.random);
        self.at_ns += gap * self.mean_ns;
        self.at_ns as u64
    }
}

/// Trains at even distances.
#[derive(Debug, Clone)]
struct Trains {
    heads: Even,
    length: u32,
    spacing_ns: u64,
    lead_ns: u64,
    /// Frames that are left of this train, and the next one's departure.
    left: u32,
    due_ns: u64,
}

impl Trains {
    fn new(train: &Train, rate: Rate) -> Trains {
        let heads = Even::new(rate.slower(u64::from(train.length)).gap());
        let Train { length, spacing_ns, lead_ns, .. } = *train;
        Trains { heads, length, spacing_ns, lead_ns, left: 0, due_ns: 0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        if self.left == 0 {
            self.left = self.length;
            self.due_ns = self.heads.next();
        }
        let ahead = self.left == self.length && self.lead_ns > 0;
        self.left -= 1;
        let due = self.due_ns;
        self.due_ns += if ahead { self.lead_ns } else { self.spacing_ns };
        due
    }
}

/// Evenly, then at half the rate.
#[derive(Debug, Clone)]
struct Halves {
    full: Even,
    half: Even,
    /// Frames at the full rate that are left.
    left: u64,
    /// When half the rate begins.
    begins_ns: u64,
}

impl Halves {
    /// `mean` is the mean rate of all `frames`.
    fn new(after: u64, mean: Rate, frames: u64) -> Halves {
        let full = full_rate(after, mean, frames);
        let left = after.min(frames);
        Halves {
            full: Even::new(full.gap()),
            half: Even::new(full.slower(2).gap()),
            left,
            begins_ns: full.offset_ns(left),
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.full.next()
            }
            None => self.begins_ns + self.half.next(),
        }
    }
}

/// The rate before it is halved, where `mean` is that of all frames.
pub fn full_rate(after: u64, mean: Rate, frames: u64) -> Rate {
    let frames = frames.max(1);
    mean.times(2 * frames - after.min(frames), frames)
}

/// The mean rate of `frames` that leave at `full` and, after so many, at half of it.
pub fn mean_of_halves(after: u64, full: Rate, frames: u64) -> Rate {
    let frames = frames.max(1);
    full.times(frames, 2 * frames - after.min(frames))
}

/// The times of a capture, round and round.
#[derive(Debug, Clone)]
struct Replayed {
    offsets: Arc<[u64]>,
    period_ns: u64,
    speed: f64,
    at: usize,
    rounds: u64,
}

impl Replayed {
    #[inline]
    fn next(&mut self) -> u64 {
        let offset = u128::from(self.rounds) * u128::from(self.period_ns)
            + u128::from(self.offsets.get(self.at).copied().unwrap_or(0));
        self.at += 1;
        if self.at >= self.offsets.len() {
            self.at = 0;
            self.rounds += 1;
        }
        (offset as f64 / self.speed) as u64
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

    fn trains(length: u32, spacing_ns: u64) -> Pattern {
        Pattern::Trains(Train { length, spacing_ns, lead_ns: 0, heads_only: false })
    }

    #[test]
    fn trains_leave_at_the_mean_rate() {
        let rate = Rate::per_second(3_000).unwrap();
        let due: Vec<u64> = Schedule::new(&trains(3, 100), rate, 7).collect();
        assert_eq!(due, [0, 100, 200, 1_000_000, 1_000_100, 1_000_200, 2_000_000]);
        let Pattern::Trains(train) = trains(3, 100) else { panic!() };
        let led = Pattern::Trains(Train { lead_ns: 5_000, ..train });
        let due: Vec<u64> = Schedule::new(&led, rate, 4).collect();
        assert_eq!(due, [0, 5_000, 5_100, 1_000_000]);
        let bursts: Vec<u64> = Schedule::new(&trains(2, 0), rate, 4).collect();
        assert_eq!(bursts, [0, 0, 666_666, 666_666], "RFC 2544 §21");
    }

    #[test]
    fn the_rate_is_halved_after_a_number_of_frames() {
        let full = Rate::per_second(1_000_000).unwrap();
        let mean = mean_of_halves(3, full, 6);
        assert_eq!(full_rate(3, mean, 6).frames_per_second(), full.frames_per_second());
        let due: Vec<u64> = Schedule::new(&Pattern::Halves { after: 3 }, mean, 6).collect();
        assert_eq!(due, [0, 1_000, 2_000, 3_000, 5_000, 7_000]);
    }

    #[test]
    fn random_departures_are_seeded_and_keep_the_mean_rate() {
        let rate = Rate::per_second(1_000_000).unwrap();
        let due = |seed| Schedule::new(&Pattern::Poisson { seed }, rate, 100_000).collect::<Vec<u64>>();
        let (first, again, other) = (due(1), due(1), due(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert!(first.is_sorted());
        // The mean of 100,000 gaps has a standard error of 0.3%.
        let mean = *first.last().unwrap() as f64 / 100_000.0;
        assert!((985.0..1_015.0).contains(&mean), "{mean}");
        let gaps: Vec<f64> = first.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.95..1.05).contains(&(variance.sqrt() / mean)), "exponential: deviation as large as the mean");
    }

    #[test]
    fn a_capture_comes_round_again() {
        let file = "kind = \"replay\"\nfile = \"x\"\nspeed = 2.0";
        let Pattern::Replay(mut replay) = toml::from_str(file).unwrap() else { panic!() };
        replay.capture = crate::capture::tests_of(&[0, 1_000, 4_000]);
        assert_eq!(replay.rate(), Rate::ratio(3, 3_000));
        let due: Vec<u64> = Schedule::new(&Pattern::Replay(replay), Rate::UNPACED, 5).collect();
        assert_eq!(due, [0, 500, 2_000, 3_000, 3_500]);
    }

    proptest! {
        #[test]
        fn offsets_are_those_of_the_rate(per_second in 1_u64..100_000_000, frames in 1_u64..2_000) {
            let rate = Rate::per_second(per_second).unwrap();
            for (index, offset) in (0..).zip(Schedule::constant(rate, frames)) {
                prop_assert_eq!(offset, rate.offset_ns(index));
            }
        }

        #[test]
        fn heads_of_trains_never_drift(per_second in 1_u64..10_000_000, length in 2_u32..500, frames in 1_u64..2_000) {
            let rate = Rate::per_second(per_second).unwrap();
            for (index, offset) in (0..).zip(Schedule::new(&trains(length, 0), rate, frames)) {
                prop_assert_eq!(offset, rate.offset_ns(index / u64::from(length) * u64::from(length)));
            }
        }
    }
}
