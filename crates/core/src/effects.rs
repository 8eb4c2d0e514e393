//! Which factor of an experiment moves a figure, by how much, and which differences are noise: main effects and interactions of a
//! factorial experiment with repetitions, of which cells may be missing.
//!
//! Each effect is a contrast of cell means. Cells are not taken to scatter alike (a loaded path scatters more than an idle one): the
//! variance of a contrast is that of its own cells, and its degrees of freedom are Welch's and Satterthwaite's.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

/// Probability of a false alarm among all effects of a figure together, and outside of an interval.
const DOUBT: f64 = 0.05;

/// A cell of the experiment: a level of each factor, by number, and the figure that each repetition gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The level of each factor, in the factors' order.
    pub levels: Vec<usize>,
    /// The figure, once per repetition.
    pub values: Vec<f64>,
}

/// A level of a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The factor's number.
    pub factor: usize,
    /// The level's, from 1: it is seen against the factor's first, 0.
    pub level: usize,
}

/// What a level does, against the first of its factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Which level.
    pub of: Level,
    /// Of an interaction: how its effect differs under this level from that under the first of this factor.
    pub under: Option<Level>,
    /// The difference, in the figure's unit: the mean over all combinations of the other factors that have all cells it takes.
    pub estimate: f64,
    /// Half the width of its 95% interval; none where no cell was repeated.
    pub margin: Option<f64>,
    /// Whether it is no noise: a false alarm among all effects of the figure has 5% (Holm).
    pub significant: bool,
    /// Combinations of the other factors that it is the mean of.
    pub combinations: usize,
}

/// The effects of factors with so many levels each: main effects, then interactions of two, in the factors' order. A level that no
/// combination has beside the first has no effect.
pub fn effects(levels: &[usize], cells: &[Cell]) -> Vec<Effect> {
    let means: BTreeMap<&[usize], Mean> =
        cells.iter().filter_map(|cell| Some((&cell.levels[..], Mean::of(&cell.values)?))).collect();
    let each = || levels.iter().enumerate().flat_map(|(factor, n)| (1..*n).map(move |level| Level { factor, level }));
    let main = each().map(|of| (of, None));
    let pairs =
        each().flat_map(|of| each().filter(move |under| under.factor > of.factor).map(move |under| (of, Some(under))));
    let all = main.chain(pairs).filter_map(|(of, under)| Contrast::of(&means, of, under).map(|c| (of, under, c)));
    let all: Vec<(Level, Option<Level>, Contrast)> = all.collect();
    let doubts: Vec<Option<f64>> = all.iter().map(|(_, _, contrast)| contrast.doubt()).collect();
    let significant = holm(&doubts);
    all.into_iter()
        .zip(significant)
        .map(|((of, under, contrast), significant)| Effect {
            of,
            under,
            estimate: contrast.estimate,
            margin: contrast.margin(),
            significant,
            combinations: contrast.combinations,
        })
        .collect()
}

/// A cell's mean.
#[derive(Debug, Clone, Copy)]
struct Mean {
    mean: f64,
    /// Of the mean.
    variance: f64,
    /// Degrees of freedom of the variance: one less than there are repetitions.
    freedom: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Option<Mean> {
        let n = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let variance = if values.len() > 1 { squares / (n - 1.0) / n } else { 0.0 };
        Some(Mean { mean, variance, freedom: n - 1.0 })
    }
}

/// A difference of cell means.
struct Contrast {
    estimate: f64,
    variance: f64,
    /// None where some cell has one value only, so that nobody knows how it scatters.
    freedom: Option<f64>,
    combinations: usize,
}

impl Contrast {
    /// The mean over all combinations of the other factors that have every cell.
    fn of(means: &BTreeMap<&[usize], Mean>, of: Level, under: Option<Level>) -> Option<Contrast> {
        let mut taken: Vec<(f64, Mean)> = Vec::new();
        let mut combinations = 0;
        for levels in means.keys() {
            // Each combination is met at its first levels.
            if levels[of.factor] != 0 || under.is_some_and(|under| levels[under.factor] != 0) {
                continue;
            }
            let at = |first: bool, second: bool| {
                let mut levels = levels.to_vec();
                levels[of.factor] = if first { of.level } else { 0 };
                if let Some(under) = under {
                    levels[under.factor] = if second { under.level } else { 0 };
                }
                means.get(&levels[..]).copied()
            };
            let signed = |sign: f64, mean: Option<Mean>| mean.map(|mean| (sign, mean));
            let mut wanted = vec![signed(1.0, at(true, true)), signed(-1.0, at(false, true))];
            if under.is_some() {
                wanted.extend([signed(-1.0, at(true, false)), signed(1.0, at(false, false))]);
            }
            if let Some(whole) = wanted.into_iter().collect::<Option<Vec<_>>>() {
                taken.extend(whole);
                combinations += 1;
            }
        }
        if combinations == 0 {
            return None;
        }
        let share = 1.0 / combinations as f64;
        let estimate = taken.iter().map(|(sign, mean)| sign * mean.mean).sum::<f64>() * share;
        let parts = taken.iter().map(|(_, mean)| (mean.variance * share * share, mean.freedom));
        let variance: f64 = parts.clone().map(|(part, _)| part).sum();
        let repeated = taken.iter().all(|(_, mean)| mean.freedom > 0.0);
        // Welch and Satterthwaite.
        let inverse: f64 = parts.map(|(part, freedom)| part * part / freedom.max(1.0)).sum();
        let freedom = repeated.then(|| if inverse > 0.0 { variance * variance / inverse } else { f64::INFINITY });
        Some(Contrast { estimate, variance, freedom, combinations })
    }

    fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom?.min(1e6)).ok()
    }

    fn margin(&self) -> Option<f64> {
        Some(self.student()?.inverse_cdf(1.0 - DOUBT / 2.0) * self.variance.sqrt())
    }

    /// How probable a difference as large is where there is none.
    fn doubt(&self) -> Option<f64> {
        let student = self.student()?;
        if self.estimate == 0.0 {
            return Some(1.0);
        }
        Some(2.0 * student.cdf(-self.estimate.abs() / self.variance.sqrt()))
    }
}

/// Which of some doubts are small enough that a false alarm among them all has 5%: Holm's step-down.
fn holm(doubts: &[Option<f64>]) -> Vec<bool> {
    let mut known: Vec<(usize, f64)> =
        doubts.iter().enumerate().filter_map(|(i, doubt)| Some((i, (*doubt)?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut found = vec![false; doubts.len()];
    let all = known.len();
    for (rank, (i, doubt)) in known.into_iter().enumerate() {
        if doubt > DOUBT / (all - rank) as f64 {
            break;
        }
        found[i] = true;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_distr::{Distribution, Normal};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::SeedableRng;

    /// Four factors of two levels, with `effect` of the first factor, 40 more of both the second and the third, and noise that is ten
    /// times as large under the last.
    fn planted(effect: f64, repetitions: usize, seed: u64) -> Vec<Cell> {
        let mut random = Pcg64::seed_from_u64(seed);
        let noise = Normal::new(0.0, 1.0).unwrap();
        let mut cells = Vec::new();
        for number in 0..16 {
            let levels: Vec<usize> = (0..4).map(|bit| number >> bit & 1).collect();
            let mean = 500.0 + effect * levels[0] as f64 + 40.0 * (levels[1] * levels[2]) as f64;
            let scatter = if levels[3] == 1 { 10.0 } else { 1.0 };
            let values = (0..repetitions).map(|_| mean + scatter * noise.sample(&mut random)).collect();
            cells.push(Cell { levels, values });
        }
        cells
    }

    fn find(found: &[Effect], of: usize, under: Option<usize>) -> &Effect {
        let level = |factor| Level { factor, level: 1 };
        found.iter().find(|e| e.of == level(of) && e.under == under.map(level)).unwrap()
    }

    #[test]
    fn what_was_planted_is_found_where_it_is() {
        let found = effects(&[2, 2, 2, 2], &planted(100.0, 3, 2));
        assert_eq!(found.len(), 4 + 6);
        let first = find(&found, 0, None);
        assert!(first.significant && (first.estimate - 100.0).abs() <= first.margin.unwrap(), "{first:?}");
        assert!(!find(&found, 3, None).significant);
        let both = find(&found, 1, Some(2));
        assert!(both.significant && (both.estimate - 40.0).abs() <= both.margin.unwrap(), "{both:?}");
        assert_eq!((first.combinations, both.combinations), (8, 4));
    }

    #[test]
    fn a_factor_that_does_nothing_is_rarely_accused_and_intervals_hold_the_truth() {
        let (mut accused, mut held) = (0, [0, 0]);
        for seed in 0..400 {
            let found = effects(&[2, 2, 2, 2], &planted(100.0, 3, seed));
            // The second and the third have an effect of 20 each, by their interaction.
            accused += usize::from(found.iter().any(|e| {
                let nothing = e.of.factor == 3
                    || e.under.is_some_and(|u| u.factor == 3)
                    || (e.of.factor == 0 && e.under.is_some());
                nothing && e.significant
            }));
            for (effect, (planted, held)) in
                [find(&found, 0, None), find(&found, 1, Some(2))].iter().zip([100.0, 40.0].into_iter().zip(&mut held))
            {
                *held += usize::from((effect.estimate - planted).abs() <= effect.margin.unwrap());
            }
        }
        // 5% of 400 is 20, 95% is 380; four standard deviations of the binomial are 17.
        assert!(accused <= 37, "{accused} of 400");
        assert!(held.iter().all(|held| *held >= 363), "{held:?} of 400");
    }

    #[test]
    fn cells_that_are_missing_are_left_out_with_their_combination() {
        let mut cells = planted(100.0, 3, 7);
        cells.retain(|cell| cell.levels != [1, 0, 0, 0] && cell.levels != [0, 1, 1, 1]);
        let found = effects(&[2, 2, 2, 2], &cells);
        let first = find(&found, 0, None);
        assert_eq!(first.combinations, 6);
        assert!((first.estimate - 100.0).abs() <= first.margin.unwrap(), "{first:?}");
    }

    #[test]
    fn without_repetitions_nothing_is_certain() {
        let found = effects(&[2, 2, 2, 2], &planted(100.0, 1, 7));
        assert!(found.iter().all(|effect| effect.margin.is_none() && !effect.significant));
        assert!((find(&found, 0, None).estimate - 100.0).abs() < 30.0);
        assert_eq!(effects(&[2], &[]), []);
    }

    #[test]
    fn by_hand() {
        // Means 10 and 13; variances 1 and 4 of three values each: of the difference (1 + 4) / 3.
        let cell = |level, values: [f64; 3]| Cell { levels: vec![level], values: values.into() };
        let found = effects(&[2], &[cell(0, [9.0, 10.0, 11.0]), cell(1, [11.0, 13.0, 15.0])]);
        assert_eq!(found[0].estimate, 3.0);
        // Welch: (5/3)² / ((1/3)²/2 + (4/3)²/2) = 50/17 degrees of freedom.
        let student = StudentsT::new(0.0, 1.0, 50.0 / 17.0).unwrap();
        let margin = student.inverse_cdf(0.975) * (5.0_f64 / 3.0).sqrt();
        assert!((found[0].margin.unwrap() - margin).abs() < 1e-9);
    }

    #[test]
    fn the_smallest_doubt_is_asked_most_of() {
        assert_eq!(holm(&[Some(0.03), Some(0.01), None, Some(0.2)]), [false, true, false, false]);
        assert_eq!(holm(&[Some(0.02), Some(0.01)]), [true, true]);
    }

    proptest! {
        #[test]
        fn any_cells_are_survived(cells in proptest::collection::vec((proptest::collection::vec(0_usize..3, 3), proptest::collection::vec(-1e12_f64..1e12, 0..4)), 0..30)) {
            let cells: Vec<Cell> = cells.into_iter().map(|(levels, values)| Cell { levels, values }).collect();
            for effect in effects(&[3, 3, 3], &cells) {
                prop_assert!(effect.estimate.is_finite() && effect.combinations > 0);
                prop_assert!(effect.margin.is_none_or(|margin| margin >= 0.0));
            }
        }
    }
}
