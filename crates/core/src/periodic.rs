//! Whether events come back at even distances: a timer's tick among the trains that it held up (paper 003 §4.1).

use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Fewest events of which a period is claimed.
const FEWEST: usize = 8;
/// Chance that any of the frequencies tried looks this regular by accident.
const BY_ACCIDENT: f64 = 1e-3;
/// Periods that must fit into the time that was watched.
const PERIODS: f64 = 4.0;
/// A multiple of the frequency is as regular as the frequency itself: the lowest that is nearly as regular as any counts.
const NEARLY: f64 = 0.8;
/// Frequencies tried per distance at which two can be told apart.
const FINE: f64 = 4.0;
/// Most frequencies tried, events used of all rows together, and rows: seconds of work, during which nobody sees a Ctrl-C.
const MOST: usize = 100_000;
const MOST_EVENTS: usize = 1_000;
const MOST_ROWS: usize = 100;

/// Events that come back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Periodic {
    /// How often, per second.
    pub hz: f64,
    /// From 0, at any time, to 1, at exactly even distances.
    pub regularity: f64,
    /// Events.
    pub events: u64,
}

/// The lowest frequency at which events come back, below `highest_hz`. Each row has times of its own, in nanoseconds,
/// ascending; rows need not be in step. By the Rayleigh test, its power added over the rows.
pub fn periodic(rows: &[Vec<u64>], highest_hz: f64) -> Option<Periodic> {
    let all: usize = rows.iter().map(Vec::len).sum();
    let rows = used(rows);
    let longest = rows.iter().filter_map(|row| Some(row.last()? - row.first()?)).fold(0.0, f64::max);
    let (step, lowest) = (1.0 / (FINE * longest), PERIODS / longest);
    if rows.is_empty() || longest <= 0.0 || highest_hz <= lowest {
        return None;
    }
    let tried = (((highest_hz - lowest) / step) as usize).min(MOST);
    let powers: Vec<f64> = (0..=tried).map(|i| power(&rows, lowest + step * i as f64)).collect();
    let highest = powers.iter().copied().fold(0.0, f64::max);
    if chance(highest, rows.len()) * tried as f64 > BY_ACCIDENT {
        return None;
    }
    let first = powers.iter().position(|&power| power >= NEARLY * highest)?;
    // To the top of the peak that begins there.
    let top = (first..powers.len()).find(|&i| powers.get(i + 1).is_none_or(|next| *next < powers[i]))?;
    let events: usize = rows.iter().map(Vec::len).sum();
    let regularity = (powers[top] / events as f64).sqrt();
    Some(Periodic { hz: lowest + step * top as f64, regularity, events: all as u64 })
}

/// The first events of each row, in seconds after the first.
fn used(rows: &[Vec<u64>]) -> Vec<Vec<f64>> {
    let rows: Vec<&Vec<u64>> = rows.iter().filter(|row| row.len() >= FEWEST).take(MOST_ROWS).collect();
    let each = MOST_EVENTS / rows.len().max(1);
    rows.iter().map(|row| row.iter().take(each).map(|ns| (ns - row[0]) as f64 / 1e9).collect()).collect()
}

/// n·R² of each row, added: R is the length of the mean of the events' directions on a clock of this frequency.
fn power(rows: &[Vec<f64>], hz: f64) -> f64 {
    let of = |row: &Vec<f64>| {
        let (x, y) = row.iter().fold((0.0, 0.0), |(x, y), at| {
            let (sin, cos) = (TAU * hz * at).sin_cos();
            (x + cos, y + sin)
        });
        (x * x + y * y) / row.len() as f64
    };
    rows.iter().map(of).sum()
}

/// Chance of this power or more at one frequency, of events at random: the tail of an Erlang distribution.
fn chance(power: f64, rows: usize) -> f64 {
    let terms = (1..rows).scan(1.0, |term, j| {
        *term *= power / j as f64;
        Some(*term)
    });
    (-power).exp() * (1.0 + terms.sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, StandardUniform};
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::SeedableRng;

    /// Events on a grid of 200 us, where the trains are: those that a tick every 4 ms hit, and some at random.
    fn ticks(seed: u64, from_ns: u64, random: usize) -> Vec<u64> {
        let mut draw = Pcg64Mcg::seed_from_u64(seed);
        let mut uniform = || -> f64 { StandardUniform.sample(&mut draw) };
        let on_grid = |ns: u64| ns / 200_000 * 200_000;
        let mut all: Vec<u64> =
            (0..100).filter(|_| uniform() < 0.4).map(|n| on_grid(from_ns + n * 4_000_000)).collect();
        all.extend((0..random).map(|_| on_grid((uniform() * 4e8) as u64)));
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn a_tick_of_250_hz_shows_among_random_ones_and_over_several_runs() {
        let one = periodic(&[ticks(1, 130_000, 8)], 2_500.0).unwrap();
        assert!((one.hz - 250.0).abs() < 1.0 && one.regularity > 0.7, "{one:?}");
        let rows = [ticks(2, 130_000, 20), ticks(3, 2_900_000, 20), ticks(4, 1_700_000, 20)];
        let several = periodic(&rows, 2_500.0).unwrap();
        assert!((several.hz - 250.0).abs() < 1.0, "{several:?}");
    }

    #[test]
    fn of_very_many_events_a_thousand_are_used() {
        for rows in [1, 3, 100, 400] {
            let many = vec![(0..2_000).map(|n| n * 4_000_000).collect(); rows];
            let used = used(&many);
            let all: usize = used.iter().map(Vec::len).sum();
            assert!((900..=MOST_EVENTS).contains(&all) && used.iter().all(|row| row.len() >= FEWEST), "{rows}: {all}");
        }
    }

    #[test]
    fn events_at_random_or_too_few_have_no_period() {
        for seed in 0..20 {
            let mut draw = Pcg64Mcg::seed_from_u64(seed);
            let mut uniform = || -> f64 { StandardUniform.sample(&mut draw) };
            let mut random: Vec<u64> = (0..60).map(|_| (uniform() * 4e8) as u64 / 200_000 * 200_000).collect();
            random.sort_unstable();
            random.dedup();
            // Less than half the rate of the grid, at which everything is regular.
            assert_eq!(periodic(&[random], 2_000.0), None, "seed {seed}");
        }
        assert_eq!(periodic(&[vec![0, 4_000_000, 8_000_000]], 2_500.0), None);
        assert_eq!(periodic(&[], 2_500.0), None);
        assert_eq!(periodic(&[vec![5; 20]], 2_500.0), None);
    }
}
