//! Searches against devices that are arithmetic: what they forward is known.

use super::*;
use proptest::prelude::*;
use rand_distr::{Distribution, StandardUniform};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

const SECOND: u64 = 1_000_000_000;
const RANGE: Range = Range { least: 1_000, most: 14_880_952 };
/// More trials than any search here may need: one that needs them doesn't end.
const ENDLESS: usize = 2_000;

/// Runs a search against a device, which says what share of a load it loses in the n-th trial.
fn run(search: &impl Search, mut loses: impl FnMut(Ask, usize) -> f64) -> Vec<Tried> {
    let mut tried = Vec::new();
    while let Some(ask) = search.next(&tried) {
        assert!((RANGE.least..=RANGE.most).contains(&ask.load), "{ask:?}");
        assert!(tried.len() < ENDLESS, "it doesn't end: {:?}", &tried[ENDLESS - 9..]);
        tried.push(Tried { load: ask.load, lasted_ns: ask.lasts_ns, loss: loses(ask, tried.len()) });
    }
    tried
}

/// A device that forwards so many frames per second, and loses the others.
fn limited(limit: u64) -> impl Fn(Ask, usize) -> f64 {
    move |ask, _| 1.0 - (limit as f64 / ask.load as f64).min(1.0)
}

fn time_s(tried: &[Tried]) -> f64 {
    tried.iter().map(|t| t.lasted_ns as f64 / 1e9).sum()
}

fn ndr() -> Goal {
    Goal::rfc2544(60 * SECOND, 0.005)
}

fn pdr() -> Goal {
    Goal { loss: 0.005, ..ndr() }
}

fn binary(goal: Goal) -> Binary {
    Binary { goal, range: RANGE }
}

fn mlr() -> Mlr {
    Mlr::new(vec![ndr(), pdr()], RANGE)
}

/// Both bounds are on their sides of a limit, and as near as they should be.
fn assert_found(found: &Found, limit: u64, width: f64) {
    let (lower, upper) = (found.lower.unwrap_or(0), found.upper.unwrap_or(u64::MAX));
    assert!(lower <= limit && limit < upper, "{found:?} of {limit}");
    assert!(upper == u64::MAX || (upper - lower) as f64 <= width * upper as f64 + 1.0, "{found:?}");
}

#[test]
fn loss_at_every_load_ends_the_search_soon() {
    for share in [0.001, 0.01, 0.3] {
        let tried = run(&mlr(), |_, _| share);
        assert!(tried.len() < 60, "{} trials for a loss of {share}", tried.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_limit_is_found_within_the_width(limit in RANGE.least..RANGE.most) {
        let search = binary(ndr());
        let tried = run(&search, limited(limit));
        assert_found(&search.found(&tried)[0], limit, 0.005);
        let search = mlr();
        let tried = run(&search, limited(limit));
        let found = search.found(&tried);
        assert_found(&found[0], limit, 0.005);
        // Of which half a percent is lost.
        assert_found(&found[1], (limit as f64 / 0.995) as u64, 0.005);
    }

    #[test]
    fn mlrsearch_takes_half_the_time_of_two_binary_searches_or_of_one(limit in 20_000..RANGE.most - 200_000) {
        let plain = time_s(&run(&binary(ndr()), limited(limit)));
        let both = plain + time_s(&run(&binary(pdr()), limited(limit)));
        let one = time_s(&run(&Mlr::new(vec![ndr()], RANGE), limited(limit)));
        prop_assert!(one <= plain / 2.0, "{one} s of {plain} s");
        let two = time_s(&run(&mlr(), limited(limit)));
        prop_assert!(two <= both / 2.0, "{two} s of {both} s");
    }

    #[test]
    fn any_device_is_searched_to_an_end(seed: u64, shares in proptest::collection::vec(0.0..=1.0_f64, 1..50)) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut lies = |_: Ask, _: usize| {
            let place: f64 = StandardUniform.sample(&mut random);
            shares[(place * shares.len() as f64) as usize % shares.len()]
        };
        run(&binary(ndr()), &mut lies);
        run(&binary(Goal::verified(60 * SECOND, 0.005)), &mut lies);
        run(&mlr(), &mut lies);
    }
}

#[test]
fn a_device_that_passes_everything_or_nothing_is_known_at_once() {
    for search in [&mlr() as &dyn Search, &binary(ndr())] {
        let mut tried = Vec::new();
        while let Some(ask) = search.next(&tried) {
            tried.push(Tried { load: ask.load, lasted_ns: ask.lasts_ns, loss: 0.0 });
        }
        assert_eq!((search.found(&tried)[0].lower, search.found(&tried)[0].upper), (Some(RANGE.most), None));
        assert!(tried.len() <= 3, "{tried:?}");
        let mut tried = Vec::new();
        while let Some(ask) = search.next(&tried) {
            tried.push(Tried { load: ask.load, lasted_ns: ask.lasts_ns, loss: 1.0 });
        }
        assert_eq!((search.found(&tried)[0].lower, search.found(&tried)[0].upper), (None, Some(RANGE.least)));
        assert!(tried.len() <= 7, "{tried:?}");
    }
}

#[test]
fn loss_that_comes_by_chance_is_verified_away_and_not_by_rfc_2544() {
    let (limit, mut found) = (5_000_000_u64, [Vec::new(), Vec::new()]);
    for seed in 0..50 {
        for (goal, found) in
            [Goal::rfc2544(60 * SECOND, 0.005), Goal::verified(60 * SECOND, 0.005)].into_iter().zip(&mut found)
        {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let search = binary(goal);
            let tried = run(&search, |ask, trial| {
                let chance: f64 = StandardUniform.sample(&mut random);
                limited(limit)(ask, trial) + if chance < 0.15 { 1e-6 } else { 0.0 }
            });
            found.push(search.found(&tried)[0].lower.unwrap_or(0));
        }
    }
    let right = |found: &[u64]| found.iter().filter(|&&lower| lower > limit * 99 / 100).count();
    let [plain, verified] = [right(&found[0]), right(&found[1])];
    assert!(verified > 40 && plain < 35, "{verified} and {plain} of 50");
}

#[test]
fn a_device_that_lies_at_first_is_believed_by_none_that_asks_again() {
    // It buffers: nothing is lost in trials of up to ten seconds, whatever their load.
    let limit = 3_000_000;
    let buffers = |ask: Ask, trial: usize| if ask.lasts_ns <= 10 * SECOND { 0.0 } else { limited(limit)(ask, trial) };
    let search = mlr();
    let tried = run(&search, buffers);
    assert_found(&search.found(&tried)[0], limit, 0.005);
    // It has to warm up: the first trial loses a tenth, whatever its load.
    let warms_up = |ask: Ask, trial: usize| if trial == 0 { 0.1 } else { limited(limit)(ask, trial) };
    for search in [&search as &dyn Search, &binary(ndr())] {
        let mut tried: Vec<Tried> = Vec::new();
        while let Some(ask) = search.next(&tried) {
            tried.push(Tried { load: ask.load, lasted_ns: ask.lasts_ns, loss: warms_up(ask, tried.len()) });
        }
        assert_found(&search.found(&tried)[0], limit, 0.005);
    }
}

#[test]
fn a_search_that_was_interrupted_goes_on_where_it_was() {
    let search = mlr();
    let whole = run(&search, limited(7_654_321));
    for kept in 0..whole.len() {
        let next = search.next(&whole[..kept]).unwrap();
        assert_eq!((next.load, next.lasts_ns), (whole[kept].load, whole[kept].lasted_ns));
    }
}
