//! Inverses of distribution functions, by halving a bracket: the steps are bounded and the error is known. statrs' own
//! (`inverse_cdf`) go by Newton's method without a bound, which never ends for a beta distribution of some millions, and its
//! beta function is not to be trusted there either (it comes to −3.7 at the middle of a billion).

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Largest share of an interval's margin by which its end is off, and always to the side that makes it wider.
const CLOSE: f64 = 1e-9;
/// Most halvings of a bracket; it is at the resolution of a double before that.
const MOST_HALVINGS: u32 = 100;

/// The interval of a probability, of `all` independent things of which `some` came so: below its lower end, and above its upper
/// one, at least as many, and at most as many, have no more than `one_side` (Clopper and Pearson).
pub(crate) fn binomial_share(some: u64, all: u64, one_side: f64) -> (f64, f64) {
    let share = some as f64 / all as f64;
    let of_none = -(one_side.ln() / all as f64).exp_m1();
    let low = match some {
        0 => 0.0,
        _ if some == all => 1.0 - of_none,
        _ => halved(0.0, share, |p| tails(some, all, p).at_least <= one_side),
    };
    let high = match some {
        0 => of_none,
        _ if some == all => 1.0,
        _ => halved(1.0, share, |p| tails(some, all, p).at_most <= one_side),
    };
    (low, high)
}

/// Beyond how many standard errors Student's t of so many degrees of freedom, at least 1, comes with `one_side` on either side.
pub(crate) fn students_t(freedom: f64, one_side: f64) -> f64 {
    // Beyond a million it is the normal distribution's to six digits.
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom.clamp(1.0, 1e6)) else { return f64::INFINITY };
    // One degree is Cauchy's distribution, the widest: cot(π·p) < 1/p.
    halved(1.0 / one_side, 0.0, |t| student.cdf(-t) <= one_side)
}

/// The end `outer` of a bracket that begins in the `middle` of an interval, taken inwards for as long as `is_beyond` holds there.
fn halved(mut outer: f64, middle: f64, is_beyond: impl Fn(f64) -> bool) -> f64 {
    let mut inner = middle;
    for _ in 0..MOST_HALVINGS {
        if (outer - inner).abs() <= CLOSE * (outer - middle).abs() {
            break;
        }
        let between = (outer + inner) / 2.0;
        *(if is_beyond(between) { &mut outer } else { &mut inner }) = between;
    }
    outer
}

/// Probabilities of at most, and of at least, so many.
struct Tails {
    at_most: f64,
    at_least: f64,
}

fn tails(some: u64, all: u64, p: f64) -> Tails {
    let (first, weights) = binomial_weights(all, p);
    let total: f64 = weights.iter().sum();
    let before = |number: u64| (number.saturating_sub(first) as usize).min(weights.len());
    let sum = |weights: &[f64]| weights.iter().sum::<f64>() / total;
    Tails { at_most: sum(&weights[..before(some + 1)]), at_least: sum(&weights[before(some)..]) }
}

/// Binomial probabilities up to a common factor, outwards from the mode until they vanish in
/// double precision: no special functions, exact for any n, in some ten standard deviations' steps
/// to either side. Returns the first k and the weights.
pub(crate) fn binomial_weights(n: u64, q: f64) -> (u64, Vec<f64>) {
    const NEGLIGIBLE: f64 = 1e-20;
    let odds = q / (1.0 - q);
    let mode = ((n as f64 + 1.0) * q).floor().min(n as f64) as u64;
    let mut down = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k > 0 && weight > NEGLIGIBLE {
        weight *= k as f64 / ((n - k + 1) as f64 * odds);
        k -= 1;
        down.push(weight);
    }
    down.reverse();
    down.push(1.0);
    let (mut up, mut weight) = (mode, 1.0);
    while up < n && weight > NEGLIGIBLE {
        weight *= (n - up) as f64 * odds / (up + 1) as f64;
        up += 1;
        down.push(weight);
    }
    (k, down)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const ONE_SIDE: f64 = 0.025;

    /// ln P(B = k), B ~ Binomial(n, p), by sums of logarithms: independent of the weights.
    fn ln_mass(n: u64, k: u64, p: f64) -> f64 {
        let choose: f64 = (1..=k.min(n - k)).map(|i| ((n - k.min(n - k) + i) as f64 / i as f64).ln()).sum();
        choose + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()
    }

    fn at_most(n: u64, k: u64, p: f64) -> f64 {
        (0..=k).map(|k| ln_mass(n, k, p).exp()).sum()
    }

    fn at_least(n: u64, k: u64, p: f64) -> f64 {
        (k..=n).map(|k| ln_mass(n, k, p).exp()).sum()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs()
    }

    #[test]
    fn few_of_millions_have_poissons_limits() {
        // Garwood's limits of a Poisson mean, 95%: Hald, Statistical Tables; the binomial's come to them for many.
        for (some, low, high) in
            [(0, 0.0, 3.688_879), (1, 0.025_318, 5.571_643), (3, 0.618_672, 8.767_273), (10, 4.795_389, 18.390_356)]
        {
            for all in [800_000, 8_000_000, 1_000_000_000] {
                let (l, h) = binomial_share(some, all, ONE_SIDE);
                let (l, h) = (l * all as f64, h * all as f64);
                assert!((l - low).abs() < 1e-4 && (h - high).abs() < 2e-4, "{some} of {all}: {l} {h}");
                let (from, to) = binomial_share(all - some, all, ONE_SIDE);
                let mirrored = ((1.0 - to) * all as f64, (1.0 - from) * all as f64);
                assert!((mirrored.0 - l).abs() < 1e-4 && (mirrored.1 - h).abs() < 1e-4, "{mirrored:?}");
            }
        }
    }

    #[test]
    fn half_of_a_billion_has_the_normal_distributions_limits() {
        let (low, high) = binomial_share(500_000_000, 1_000_000_000, ONE_SIDE);
        let half = 1.959_963_985 * (0.25_f64 / 1e9).sqrt();
        assert!((high - 0.5 - half).abs() < 1e-3 * half && (0.5 - low - half).abs() < 1e-3 * half, "{low} {high}");
    }

    #[test]
    fn students_t_is_that_of_tables() {
        let table = [(1.0, 12.706_205), (2.0, 4.302_653), (4.0, 2.776_445), (30.0, 2.042_272), (1e9, 1.959_966)];
        for (freedom, t) in table {
            assert!((students_t(freedom, ONE_SIDE) - t).abs() < 2e-6, "{freedom}: {}", students_t(freedom, ONE_SIDE));
        }
        assert!((students_t(2.0, 0.005) - 9.924_843).abs() < 1e-5);
    }

    #[test]
    fn a_bracket_ends_whatever_is_asked_of_it() {
        for answer in [true, false] {
            let asked = Cell::new(0);
            let asking = |_| {
                asked.set(asked.get() + 1);
                answer
            };
            assert!(halved(1.0, 0.0, asking).is_finite() && asked.get() <= MOST_HALVINGS, "{}", asked.get());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The tails at the limits, summed one by one in logarithms.
        #[test]
        fn the_tails_at_the_limits_are_what_was_asked(all in 2_u64..400, share in 0.0_f64..=1.0) {
            let some = (share * all as f64) as u64;
            let (low, high) = binomial_share(some, all, ONE_SIDE);
            prop_assert!(some == 0 && low == 0.0 || close(at_least(all, some, low), ONE_SIDE), "{some} of {all}: {low}");
            prop_assert!(some == all && high == 1.0 || close(at_most(all, some, high), ONE_SIDE), "{some} of {all}: {high}");
        }

        /// It ends for any size, with the share inside.
        #[test]
        fn any_size_up_to_a_billion_has_limits(exponent in 0.0_f64..9.0, few in 0_u64..20, share in 0.0_f64..=1.0, is_few: bool) {
            let all = 10_f64.powf(exponent) as u64;
            let some = if is_few { few.min(all) } else { (share * all as f64) as u64 };
            let (low, high) = binomial_share(some, all, ONE_SIDE);
            let share = some as f64 / all as f64;
            prop_assert!(0.0 <= low && low <= share && share <= high && high <= 1.0, "{some} of {all}: {low} {high}");
            prop_assert!(low < high);
        }
    }
}
