//! Which factor of an experiment moves a figure, by how much, and which differences are noise: main effects and interactions of a
//! factorial experiment in blocks (each repetition has every cell once), of which trials may be missing.
//!
//! Each effect is a contrast of cell means. Cells are not taken to scatter alike (a loaded path scatters more than an idle one): the
//! variance of a contrast is that of its own cells, and its degrees of freedom are Welch's and Satterthwaite's. What a whole repetition
//! has in common, because the host drifts, falls on all cells alike and says nothing of any factor: it is taken out first, as the
//! median of what the cells that were always measured deviate by, so that a few wild cells don't settle it. Cells that were never measured
//! in the same session are not compared at all: days may lie between them.

use crate::inverse::students_t;
use crate::stats::middle;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

/// Probability of a false alarm among all effects of a figure together, and outside of an interval.
const DOUBT: f64 = 0.05;

/// A figure of a trial: in which cell, as a level of each factor, and in which repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The level of each factor, in the factors' order.
    pub levels: Vec<usize>,
    /// Which repetition.
    pub repetition: u32,
    /// When it was measured: before or after an experiment was gone on with.
    pub session: u32,
    /// The figure.
    pub value: f64,
    /// The least standard deviation that such a figure has, by how it is read or counted: what differs by less may be the same.
    pub least_deviation: f64,
}

/// A level of a factor, seen against another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The factor's number.
    pub factor: usize,
    /// The level's.
    pub level: usize,
    /// That of the level that it is seen against: the first for which there is the figure.
    pub against: usize,
}

/// What a level does, against the first of its factor that has the figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Which level.
    pub of: Level,
    /// Of an interaction: how its effect differs between these two levels of another factor.
    pub under: Option<Level>,
    /// The difference, in the figure's unit: the mean over all combinations of the other factors that have all cells it takes.
    pub estimate: f64,
    /// Half the width of its 95% interval; none where no combination has each of its cells at least twice.
    pub margin: Option<f64>,
    /// Whether it is no noise: a false alarm among all effects of the figure has 5% (Holm).
    pub significant: bool,
    /// Combinations of the other factors that it is the mean of.
    pub combinations: usize,
}

/// The effects of factors with so many levels each: main effects, then interactions of two, in the factors' order. A level is seen against the
/// first one beside which some combination has it, of an interaction the first ones: without a load there is no direction, and the directions
/// of the other loads are compared all the same. A level without any has no effect.
pub fn effects(levels: &[usize], observed: &[Observed]) -> Vec<Effect> {
    let means = means(levels.len(), observed);
    let each = |from: usize| {
        let levels = levels.iter().enumerate().skip(from);
        levels.flat_map(|(factor, n)| (1..*n).map(move |level| (factor, level)))
    };
    let against = |(factor, level): (usize, usize)| (0..level).map(move |against| Level { factor, level, against });
    let found = |of: Level, under: Option<Level>| Contrast::of(&means, of, under).map(|contrast| (of, under, contrast));
    let main = each(0).filter_map(|one| against(one).find_map(|of| found(of, None)));
    let pairs = each(0).flat_map(|one| each(one.0 + 1).map(move |other| (one, other)));
    let interactions = pairs
        .filter_map(|(one, other)| against(one).find_map(|of| against(other).find_map(|under| found(of, Some(under)))));
    let all: Vec<(Level, Option<Level>, Contrast)> = main.chain(interactions).collect();
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
    /// A bit for each session in which it was measured.
    sessions: u64,
}

/// The means of cells, without what whole repetitions have in common.
fn means(factors: usize, observed: &[Observed]) -> BTreeMap<Vec<usize>, Mean> {
    type Cell<'a> = BTreeMap<u32, &'a Observed>;
    let mut cells: BTreeMap<&[usize], Cell<'_>> = BTreeMap::new();
    for one in observed.iter().filter(|one| one.value.is_finite() && one.levels.len() == factors) {
        cells.entry(&one.levels).or_default().insert(one.repetition, one);
    }
    let most = cells.values().map(BTreeMap::len).max().unwrap_or(0);
    // Of those that were always measured.
    let whole: Vec<&Cell<'_>> = cells.values().filter(|values| values.len() == most).collect();
    let mean = |values: &Cell<'_>| values.values().map(|one| one.value).sum::<f64>() / values.len() as f64;
    let common = |repetition: u32| {
        let deviations = whole.iter().filter_map(|values| Some(values.get(&repetition)?.value - mean(values)));
        // Of a few cells, what they have in common can't be told from what each of them has.
        if whole.len() < FEWEST_CELLS { 0.0 } else { middle(deviations).unwrap_or(0.0) }
    };
    let of = |values: &Cell<'_>| {
        let least = values.values().map(|one| one.least_deviation).fold(0.0, f64::max);
        let sessions = values.values().fold(0, |all, one| all | 1 << one.session.min(63));
        let values: Vec<f64> = values.values().map(|one| one.value - common(one.repetition)).collect();
        Mean { sessions, ..Mean::of(&values, least) }
    };
    cells.iter().map(|(levels, values)| (levels.to_vec(), of(values))).collect()
}

/// Fewest cells by which a repetition is told.
const FEWEST_CELLS: usize = 6;

impl Mean {
    /// Of one value or more, of a figure that has a standard deviation of `least` at the least.
    fn of(values: &[f64], least: f64) -> Mean {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let scatter = if values.len() > 1 { squares / (n - 1.0) } else { 0.0 }.max(least * least);
        Mean { mean, variance: scatter / n, freedom: n - 1.0, sessions: 0 }
    }
}

/// A difference of cell means.
struct Contrast {
    estimate: f64,
    variance: f64,
    /// None where nobody knows how some cell scatters.
    freedom: Option<f64>,
    combinations: usize,
}

impl Contrast {
    /// The mean over all combinations of the other factors that have every cell, twice at least where there are such.
    fn of(means: &BTreeMap<Vec<usize>, Mean>, of: Level, under: Option<Level>) -> Option<Contrast> {
        let all: Vec<Vec<(f64, Mean)>> =
            means.keys().filter_map(|levels| combination(means, levels, of, under)).collect();
        let repeated = |cells: &&Vec<(f64, Mean)>| cells.iter().all(|(_, mean)| mean.freedom > 0.0);
        let twice: Vec<&Vec<(f64, Mean)>> = all.iter().filter(repeated).collect();
        let (taken, known) = if twice.is_empty() { (all.iter().collect(), false) } else { (twice, true) };
        if taken.is_empty() {
            return None;
        }
        let share = 1.0 / taken.len() as f64;
        let cells = || taken.iter().flat_map(|cells| cells.iter());
        let estimate = cells().map(|(sign, mean)| sign * mean.mean).sum::<f64>() * share;
        // What rounding leaves of nothing is nothing.
        let rounding = cells().map(|(_, mean)| mean.mean.abs()).sum::<f64>() * share * 1e-12;
        let estimate = if estimate.abs() <= rounding { 0.0 } else { estimate };
        let parts = || cells().map(|(_, mean)| (mean.variance * share * share, mean.freedom));
        let variance: f64 = parts().map(|(part, _)| part).sum();
        // Welch and Satterthwaite.
        let inverse: f64 = parts().map(|(part, freedom)| part * part / freedom.max(1.0)).sum();
        let freedom = known.then(|| if inverse > 0.0 { variance * variance / inverse } else { f64::INFINITY });
        Some(Contrast { estimate, variance, freedom, combinations: taken.len() })
    }

    fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom?.min(1e6)).ok()
    }

    fn margin(&self) -> Option<f64> {
        Some(students_t(self.freedom?, DOUBT / 2.0) * self.variance.sqrt())
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

/// The cells that a contrast takes of the combination that `levels` is of, each with its sign; met at its first levels only.
fn combination(
    means: &BTreeMap<Vec<usize>, Mean>,
    levels: &[usize],
    of: Level,
    under: Option<Level>,
) -> Option<Vec<(f64, Mean)>> {
    if levels[of.factor] != of.against || under.is_some_and(|under| levels[under.factor] != under.against) {
        return None;
    }
    let at = |sign: f64, level: usize, under_level: usize| {
        let mut levels = levels.to_vec();
        levels[of.factor] = level;
        if let Some(under) = under {
            levels[under.factor] = under_level;
        }
        means.get(&levels).map(|mean| (sign, *mean))
    };
    let cells: Option<Vec<(f64, Mean)>> = match under {
        None => [at(1.0, of.level, 0), at(-1.0, of.against, 0)].into_iter().collect(),
        Some(under) => [
            at(1.0, of.level, under.level),
            at(-1.0, of.against, under.level),
            at(-1.0, of.level, under.against),
            at(1.0, of.against, under.against),
        ]
        .into_iter()
        .collect(),
    };
    let met = |cells: &Vec<(f64, Mean)>| cells.iter().fold(u64::MAX, |all, (_, mean)| all & mean.sessions) != 0;
    cells.filter(met)
}

/// Which of some doubts are small enough that a false alarm among them all has 5%: Holm's step-down.
fn holm(doubts: &[Option<f64>]) -> Vec<bool> {
    let mut known: Vec<(usize, f64)> =
        doubts.iter().enumerate().filter_map(|(i, doubt)| Some((i, (*doubt)?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut found = vec![false; doubts.len()];
    let all = known.len();
    for (rank, (i, doubt)) in known.into_iter().enumerate() {
        // Not a number is no reason to be sure.
        let sure = doubt <= DOUBT / (all - rank) as f64;
        if !sure {
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

    /// Four factors of two levels, with `effect` of the first factor, 40 more of both the second and the third, noise that is ten
    /// times as large under the last, and a host that drifts by 300 from one repetition to the next.
    fn planted(effect: f64, repetitions: u32, seed: u64) -> Vec<Observed> {
        let mut random = Pcg64::seed_from_u64(seed);
        let noise = Normal::new(0.0, 1.0).unwrap();
        let mut observed = Vec::new();
        for repetition in 1..=repetitions {
            for number in 0..16_usize {
                let levels: Vec<usize> = (0..4).map(|bit| number >> bit & 1).collect();
                let mean = 500.0 + effect * levels[0] as f64 + 40.0 * (levels[1] * levels[2]) as f64;
                let scatter = if levels[3] == 1 { 10.0 } else { 1.0 };
                let value = mean + scatter * noise.sample(&mut random) + 300.0 * f64::from(repetition);
                observed.push(of(levels, repetition, value));
            }
        }
        observed
    }

    fn of(levels: Vec<usize>, repetition: u32, value: f64) -> Observed {
        Observed { levels, repetition, session: 1, value, least_deviation: 0.0 }
    }

    fn find(found: &[Effect], of: usize, under: Option<usize>) -> &Effect {
        let level = |factor| Level { factor, level: 1, against: 0 };
        found.iter().find(|e| e.of == level(of) && e.under == under.map(level)).unwrap()
    }

    const TWOS: [usize; 4] = [2; 4];

    #[test]
    fn what_was_planted_is_found_where_it_is() {
        let found = effects(&TWOS, &planted(100.0, 3, 2));
        assert_eq!(found.len(), 4 + 6);
        let first = find(&found, 0, None);
        assert!(first.significant && (first.estimate - 100.0).abs() <= first.margin.unwrap(), "{first:?}");
        assert!(first.margin.unwrap() < 20.0, "the drift is no noise: {first:?}");
        assert!(!find(&found, 3, None).significant);
        let both = find(&found, 1, Some(2));
        assert!(both.significant && (both.estimate - 40.0).abs() <= both.margin.unwrap(), "{both:?}");
        assert_eq!((first.combinations, both.combinations), (8, 4));
    }

    #[test]
    fn a_factor_that_does_nothing_is_rarely_accused_and_intervals_hold_the_truth() {
        for repetitions in [2, 3, 5] {
            let (mut accused, mut held) = (0, [0, 0]);
            for seed in 0..400 {
                let found = effects(&TWOS, &planted(100.0, repetitions, seed));
                // The second and the third have an effect of 20 each, by their interaction.
                accused += usize::from(found.iter().any(|e| {
                    let last = |level: Level| level.factor == 3;
                    let nothing = last(e.of) || e.under.is_some_and(last) || (e.of.factor == 0 && e.under.is_some());
                    nothing && e.significant
                }));
                let two = [find(&found, 0, None), find(&found, 1, Some(2))];
                for ((effect, planted), held) in two.iter().zip([100.0, 40.0]).zip(&mut held) {
                    *held += usize::from((effect.estimate - planted).abs() <= effect.margin.unwrap());
                }
            }
            // 5% of 400 is 20, 95% is 380; four standard deviations of the binomial are 17.
            assert!(accused <= 37, "{accused} of 400, {repetitions} repetitions");
            assert!(held.iter().all(|held| *held >= 363), "{held:?} of 400, {repetitions} repetitions");
        }
    }

    #[test]
    fn trials_that_are_missing_are_left_out_with_their_combination() {
        let mut observed = planted(100.0, 3, 7);
        // One cell was never measured, one once only.
        observed.retain(|one| one.levels != [1, 0, 0, 0] && (one.levels != [0, 1, 1, 1] || one.repetition == 2));
        let found = effects(&TWOS, &observed);
        let first = find(&found, 0, None);
        assert_eq!(first.combinations, 6);
        assert!(first.significant && (first.estimate - 100.0).abs() <= first.margin.unwrap(), "{first:?}");
    }

    #[test]
    fn a_level_without_the_figure_leaves_the_others() {
        // Without a load there is no throughput.
        let one = |level, repetition, value| of(vec![level], repetition, value);
        let observed = [one(1, 1, 10.0), one(1, 2, 11.0), one(2, 1, 20.0), one(2, 2, 21.0)];
        let found = effects(&[3], &observed);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].of, found[0].estimate), (Level { factor: 0, level: 2, against: 1 }, 10.0));
    }

    #[test]
    fn without_repetitions_nothing_is_certain() {
        let found = effects(&TWOS, &planted(100.0, 1, 7));
        assert!(found.iter().all(|effect| effect.margin.is_none() && !effect.significant));
        assert!((find(&found, 0, None).estimate - 100.0).abs() < 30.0);
        assert_eq!(effects(&[2], &[]), []);
    }

    #[test]
    fn what_rounding_leaves_and_what_is_below_the_resolution_is_no_effect() {
        let table = [([0, 0], 0.1), ([0, 1], 0.3), ([1, 0], 0.3), ([1, 1], 0.5)];
        let twice = |repetition| move |(levels, value): &([usize; 2], f64)| of(levels.to_vec(), repetition, *value);
        let observed: Vec<Observed> = table.iter().map(twice(1)).chain(table.iter().map(twice(2))).collect();
        let found = effects(&[2, 2], &observed);
        assert!(found.iter().all(|effect| effect.significant == effect.under.is_none()), "{found:?}");
        let coarse: Vec<Observed> = observed.into_iter().map(|one| Observed { least_deviation: 0.3, ..one }).collect();
        assert!(effects(&[2, 2], &coarse).iter().all(|effect| !effect.significant));
    }

    #[test]
    fn where_the_first_level_has_no_other_direction_the_others_are_compared() {
        // No load has one direction only; the third load's differs from the second's by 5.
        let table = [([0, 0], 1.0), ([1, 0], 10.0), ([1, 1], 12.0), ([2, 0], 20.0), ([2, 1], 27.0)];
        let observed: Vec<Observed> = [1, 2]
            .into_iter()
            .flat_map(|again| table.map(|(levels, value)| of(levels.to_vec(), again, value)))
            .collect();
        let found = effects(&[3, 2], &observed);
        let pairs: Vec<&Effect> = found.iter().filter(|effect| effect.under.is_some()).collect();
        assert_eq!(pairs.len(), 1, "{found:?}");
        assert_eq!((pairs[0].of, pairs[0].estimate), (Level { factor: 0, level: 2, against: 1 }, 5.0));
        let main = found.iter().find(|effect| effect.of.level == 2 && effect.under.is_none()).unwrap();
        assert_eq!((main.of.against, main.estimate), (0, 19.0));
    }

    #[test]
    fn what_was_never_measured_in_one_session_is_not_compared() {
        let mut observed = planted(100.0, 3, 7);
        // The second level of the last factor failed, and was measured a week later.
        observed.iter_mut().filter(|one| one.levels[3] == 1).for_each(|one| one.session = 2);
        let found = effects(&TWOS, &observed);
        assert!(found.iter().all(|effect| effect.of.factor != 3 && effect.under.is_none_or(|under| under.factor != 3)));
        assert!(find(&found, 0, None).significant);
        // One repetition of it before is enough to see it beside the others.
        observed.iter_mut().filter(|one| one.repetition == 1).for_each(|one| one.session = 1);
        assert_eq!(find(&effects(&TWOS, &observed), 3, None).combinations, 8);
    }

    #[test]
    fn by_hand() {
        // Means 10 and 13; variances 1 and 4 of three values each: of the difference (1 + 4) / 3.
        let one = |level, values: [f64; 3]| {
            values.into_iter().zip(1..).map(move |(value, repetition)| of(vec![level], repetition, value))
        };
        let observed: Vec<Observed> = one(0, [9.0, 10.0, 11.0]).chain(one(1, [11.0, 13.0, 15.0])).collect();
        let found = effects(&[2], &observed);
        assert_eq!(found[0].estimate, 3.0);
        // Welch: (5/3)² / ((1/3)²/2 + (4/3)²/2) = 50/17 degrees of freedom.
        let margin = students_t(50.0 / 17.0, 0.025) * (5.0_f64 / 3.0).sqrt();
        assert!((found[0].margin.unwrap() - margin).abs() < 1e-9);
    }

    #[test]
    fn the_smallest_doubt_is_asked_most_of() {
        assert_eq!(holm(&[Some(0.03), Some(0.01), None, Some(0.2)]), [false, true, false, false]);
        assert_eq!(holm(&[Some(0.02), Some(0.01)]), [true, true]);
        assert_eq!(holm(&[Some(f64::NAN)]), [false]);
    }

    proptest! {
        #[test]
        fn any_figures_are_survived(all in proptest::collection::vec((proptest::collection::vec(0_usize..3, 3), 1_u32..4, prop_oneof![-1e12_f64..1e12, Just(f64::NAN)]), 0..60)) {
            let observed: Vec<Observed> = all.into_iter().map(|(levels, repetition, value)| of(levels, repetition, value)).collect();
            for effect in effects(&[3, 3, 3], &observed) {
                prop_assert!(effect.estimate.is_finite() && effect.combinations > 0);
                prop_assert!(effect.margin.is_none_or(|margin| margin >= 0.0));
            }
        }
    }
}
