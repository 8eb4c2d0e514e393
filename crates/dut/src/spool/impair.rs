//! What a spool does to frames at random: seeded, and counted.

use rand_distr::{Distribution, Exp, Normal, Pareto, StandardUniform, Uniform};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use usect_core::instant::{TickRate, Tsc};
use usect_core::scenario::{Detour, Impairments, Jitter};

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Lost,
    Doubled,
    /// It leaves behind the next one.
    Overtaken,
}

/// Decides it, and counts.
pub(super) struct Impairing {
    random: Pcg64Mcg,
    spec: Impairments,
    jitter: Option<Delays>,
    rate: TickRate,
    /// When the first frame would have left.
    began: Option<Tsc>,
    /// When the last frame leaves: none leaves earlier.
    last: Tsc,
    lost: u64,
    doubled: u64,
    overtaken: u64,
}

/// A distribution of nanoseconds.
enum Delays {
    Uniform(Uniform<f64>),
    Normal(Normal<f64>),
    Exponential(Exp<f64>),
    Pareto(Pareto<f64>, f64),
}

impl Delays {
    /// Of a checked spec.
    fn of(jitter: &Jitter) -> Delays {
        let checked = "the scenario was checked";
        match *jitter {
            Jitter::Uniform { most_ns } => Delays::Uniform(Uniform::new_inclusive(0.0, most_ns).expect(checked)),
            Jitter::Normal { mean_ns, stdev_ns } => Delays::Normal(Normal::new(mean_ns, stdev_ns).expect(checked)),
            Jitter::Exponential { mean_ns } => Delays::Exponential(Exp::new(1.0 / mean_ns).expect(checked)),
            Jitter::Pareto { scale_ns, shape } => {
                Delays::Pareto(Pareto::new(scale_ns, shape).expect(checked), scale_ns)
            }
        }
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> u64 {
        let ns = match self {
            Delays::Uniform(uniform) => uniform.sample(random),
            Delays::Normal(normal) => normal.sample(random),
            Delays::Exponential(exponential) => exponential.sample(random),
            Delays::Pareto(pareto, scale) => pareto.sample(random) - scale,
        };
        // Below 0 it is 0; no frame is held for longer than frames are waited for.
        ns.clamp(0.0, 1e9) as u64
    }
}

impl Impairing {
    pub(super) fn new(spec: &Impairments, rate: TickRate) -> Impairing {
        Impairing {
            random: Pcg64Mcg::seed_from_u64(spec.seed),
            spec: *spec,
            jitter: spec.jitter.as_ref().map(Delays::of),
            rate,
            began: None,
            last: Tsc(0),
            lost: 0,
            doubled: 0,
            overtaken: 0,
        }
    }

    /// Of the next frame; while one is waiting to be overtaken, no second one is.
    pub(super) fn fate(&mut self, waiting: bool) -> Fate {
        let mut happens = |share: f64| {
            let drawn: f64 = StandardUniform.sample(&mut self.random);
            drawn < share
        };
        // Each is drawn for every frame, so that what happens to one doesn't shift what happens to the next.
        let [loss, duplicate, reorder] = [self.spec.loss, self.spec.duplicate, self.spec.reorder].map(&mut happens);
        if loss {
            self.lost += 1;
            return Fate::Lost;
        }
        if reorder && !waiting {
            self.overtaken += 1;
            return Fate::Overtaken;
        }
        if duplicate {
            self.doubled += 1;
            return Fate::Doubled;
        }
        Fate::Pass
    }

    /// When a frame leaves that would have left at `due`.
    pub(super) fn delayed(&mut self, due: Tsc) -> Tsc {
        let jitter = self.jitter.as_ref().map_or(0, |jitter| jitter.draw(&mut self.random));
        let more = jitter + self.spec.detour.map_or(0, |detour| self.way_round(&detour, due));
        self.last = self.last.max(Tsc(due.0 + self.rate.ticks(more)));
        self.last
    }

    /// What a detour adds to a frame, in nanoseconds.
    fn way_round(&mut self, detour: &Detour, due: Tsc) -> u64 {
        let began = *self.began.get_or_insert(due);
        let since_s = self.rate.ns(due.0.saturating_sub(began.0)) as f64 / 1e9;
        let over = detour.for_s.is_some_and(|lasts_s| since_s >= detour.after_s + lasts_s);
        if since_s >= detour.after_s && !over { detour.by_ns } else { 0 }
    }

    /// A frame that was to be overtaken was not.
    pub(super) fn not_overtaken(&mut self) {
        self.overtaken -= 1;
    }

    /// What was done, by name.
    pub(super) fn done(self) -> [(String, u64); 3] {
        [("lost", self.lost), ("duplicated", self.doubled), ("reordered", self.overtaken)]
            .map(|(name, number)| (name.to_owned(), number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detour_begins_and_ends_in_its_time() {
        let detour = Detour { after_s: 2.0, for_s: Some(3.0), by_ns: 1_000 };
        let spec = Impairments { detour: Some(detour), ..Impairments::default() };
        let mut impairing = Impairing::new(&spec, TickRate::nanoseconds());
        let mut adds = |ms: u64| {
            let due = 7_000_000_000 + ms * 1_000_000;
            impairing.delayed(Tsc(due)).0 - due
        };
        assert_eq!([0, 1_999, 2_000, 4_999, 5_000].map(&mut adds), [0, 0, 1_000, 1_000, 0]);
    }
}
