//! What each benchmark tries next.

use super::known::{ATTEMPTS, Known, load, loss};
use crate::search::Search;
use usect_core::pattern::Pattern;
use usect_core::rate::Rate;
use usect_core::run::TrialRecord;
use usect_core::schedule::mean_of_halves;
use usect_core::suite::{Benchmark, Extent, LOSS_STEP, OVERLOAD, Purpose};
use usect_core::trial::{Tagged, Trial};

/// Frames that show whether anything passes, and how many a second.
const CHECK: (u64, u64) = (100, 1_000);
/// Seconds of the line for which the sender is asked to fill it.
const OFFER_S: f64 = 0.5;
/// Tagged frames of a stream; RFC 8219 §7.2 asks for 500, and their 99.9th percentile takes more.
const TAGS: u64 = 5_000;
/// Seconds that a trial takes beside its traffic.
const OVERHEAD_S: f64 = 0.5;

/// A trial that a benchmark asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) purpose: Purpose,
    /// Frames per second, which names it.
    pub(super) load: u64,
    /// Their mean rate, where it is another.
    pub(super) rate: Option<Rate>,
    pub(super) frames: u64,
    pub(super) pattern: Pattern,
    pub(super) tagged: Option<Tagged>,
    pub(super) loopback: bool,
}

impl Asked {
    fn evenly(purpose: Purpose, load: u64, frames: u64) -> Asked {
        let pattern = Pattern::default();
        Asked { purpose, load, rate: None, frames: frames.max(1), pattern, tagged: None, loopback: false }
    }
}

fn first(benchmark: Benchmark) -> Purpose {
    Purpose { benchmark, repetition: 1, percent: None }
}

/// Frames of a load in some seconds.
fn frames_in(load: u64, seconds: f64) -> u64 {
    frames_for(load, (seconds * 1e9).round() as u64)
}

/// Frames that last so long at least: a search doesn't count a trial in full that is a nanosecond short.
fn frames_for(load: u64, ns: u64) -> u64 {
    ((u128::from(load) * u128::from(ns)).div_ceil(1_000_000_000) as u64).max(1)
}

/// A part of a load.
fn percent_of(load: u64, percent: u32) -> u64 {
    (load * u64::from(percent) / 100).max(1)
}

impl Known<'_> {
    /// The next trial of a benchmark; none, where it is over or can't be.
    pub(super) fn ask(&self, benchmark: Benchmark, loopback: bool) -> Option<Asked> {
        let blind = matches!(benchmark, Benchmark::Recovery | Benchmark::Reset) && !self.sees_each;
        if self.verdict().is_some() || blind {
            return None;
        }
        match benchmark {
            Benchmark::Check => self.check(),
            Benchmark::Offer => self.offer(),
            Benchmark::Throughput => self.repeated(self.suite.throughput, |n| self.throughput_trial(n)),
            Benchmark::Latency => self.repeated(self.suite.latency, |n| self.latency_trial(n, loopback)),
            Benchmark::Loss => self.repeated(self.suite.loss, |n| self.loss_trial(n)),
            Benchmark::BackToBack => self.repeated(self.suite.back_to_back, |n| self.burst(n)),
            Benchmark::Recovery => self.repeated(self.suite.recovery, |n| self.recovery_trial(n)),
            Benchmark::Reset => self.repeated(self.suite.reset, |n| self.reset_trial(n)),
        }
    }

    /// One repetition after another.
    fn repeated(&self, extent: Extent, ask: impl Fn(u32) -> Option<Asked>) -> Option<Asked> {
        (1..=extent.times).find_map(ask)
    }

    fn check(&self) -> Option<Asked> {
        self.is_open(self.trials(Benchmark::Check)).then(|| Asked::evenly(first(Benchmark::Check), CHECK.1, CHECK.0))
    }

    fn offer(&self) -> Option<Asked> {
        self.is_open(self.trials(Benchmark::Offer))
            .then(|| Asked::evenly(first(Benchmark::Offer), self.line(), frames_in(self.line(), OFFER_S)))
    }

    /// Whether something is still to be tried: it was never offered, and not often enough in vain.
    fn is_open<'r>(&self, tried: impl Iterator<Item = &'r TrialRecord>) -> bool {
        let tried: Vec<&TrialRecord> = tried.collect();
        tried.len() < ATTEMPTS && !tried.iter().any(|record| record.is_offered())
    }

    fn throughput_trial(&self, repetition: u32) -> Option<Asked> {
        let ask = self.search()?.next(&self.tried(repetition))?;
        let purpose = Purpose { benchmark: Benchmark::Throughput, repetition, percent: None };
        Some(Asked::evenly(purpose, ask.load, frames_for(ask.load, ask.lasts_ns)))
    }

    fn latency_trial(&self, repetition: u32, loopback: bool) -> Option<Asked> {
        let throughput = self.throughput()?;
        let is_open = |percent: &u32| {
            let own = |record: &&TrialRecord| {
                record.trial.case.loopback == loopback
                    && record.trial.purpose.is_some_and(|p| p.percent == Some(*percent))
            };
            self.is_open(self.repetition(Benchmark::Latency, repetition).filter(own))
        };
        let percent = self.suite.loads.iter().copied().find(is_open)?;
        let load = percent_of(throughput, percent);
        let frames = frames_in(load, self.suite.latency.lasts_s);
        let purpose = Purpose { benchmark: Benchmark::Latency, repetition, percent: Some(percent) };
        let tagged = Tagged { from: frames / 2, every: (frames / 2).div_ceil(TAGS).max(1) };
        Some(Asked { tagged: Some(tagged), loopback, ..Asked::evenly(purpose, load, frames) })
    }

    /// Down from the most in steps, until two trials in a row lose nothing (RFC 2544 §26.3).
    fn loss_trial(&self, repetition: u32) -> Option<Asked> {
        let done: Vec<&TrialRecord> =
            self.repetition(Benchmark::Loss, repetition).filter(|record| record.is_offered()).collect();
        let lossless = |record: &&TrialRecord| loss(record) == 0.0;
        let over = done.len() >= 2 && done[done.len() - 2..].iter().all(lossless);
        let percent = 100_u32.checked_sub(LOSS_STEP * done.len() as u32).filter(|percent| *percent > 0 && !over)?;
        // Of one most for all of its loads, whatever later turns out.
        let most = done.first().map(|record| load(record)).or_else(|| self.most())?;
        let load = percent_of(most, percent);
        let purpose = Purpose { benchmark: Benchmark::Loss, repetition, percent: Some(percent) };
        Some(Asked::evenly(purpose, load, frames_in(load, self.suite.loss.lasts_s)))
    }

    fn burst(&self, repetition: u32) -> Option<Asked> {
        let (most, search) = (self.burst_rate()?, self.burst_search()?);
        let ask = search.next(&self.bursts(repetition))?;
        let purpose = Purpose { benchmark: Benchmark::BackToBack, repetition, percent: None };
        Some(Asked::evenly(purpose, most, ask.load))
    }

    /// The load of an overload: above the throughput, as far as the sender can.
    pub(super) fn overload(&self) -> Option<u64> {
        Some(percent_of(self.throughput()?, OVERLOAD).min(self.most()?))
    }

    fn recovery_trial(&self, repetition: u32) -> Option<Asked> {
        if !self.is_open(self.repetition(Benchmark::Recovery, repetition)) {
            return None;
        }
        let overload = self.overload()?;
        let after = frames_in(overload, self.suite.recovery.lasts_s);
        let frames = after + (after / 2).max(1);
        let purpose = Purpose { benchmark: Benchmark::Recovery, repetition, percent: None };
        let rate = mean_of_halves(after, Rate::per_second(overload)?, frames);
        let pattern = Pattern::Halves { after };
        Some(Asked { rate: Some(rate), pattern, ..Asked::evenly(purpose, overload, frames) })
    }

    /// For the smallest frames only (RFC 2544 §26.6).
    fn reset_trial(&self, repetition: u32) -> Option<Asked> {
        let smallest = self.suite.sizes.iter().min()? == &self.size;
        let done = self.repetition(Benchmark::Reset, repetition).next().is_some();
        if !smallest || done || self.suite.reset_command.is_none() {
            return None;
        }
        let throughput = self.throughput()?;
        let purpose = Purpose { benchmark: Benchmark::Reset, repetition, percent: None };
        Some(Asked::evenly(purpose, throughput, frames_in(throughput, self.suite.reset.lasts_s)))
    }

    /// About how many seconds a benchmark still takes.
    pub(super) fn left_s(&self, benchmark: Benchmark, loopback: bool) -> f64 {
        if self.verdict().is_some() {
            return 0.0;
        }
        let suite = self.suite;
        let steps = (1.0 / suite.width).log2() + 2.0;
        let with = |lasts_s: f64| lasts_s + suite.settle_s + suite.rest_s + OVERHEAD_S;
        let (extent, trials, each_s) = match benchmark {
            Benchmark::Check | Benchmark::Offer => (Extent { lasts_s: 0.0, times: 1 }, 1.0, with(OFFER_S)),
            Benchmark::Throughput => (suite.throughput, steps, with(suite.throughput.lasts_s) + suite.residual_s / 2.0),
            Benchmark::Latency => (suite.latency, suite.loads.len() as f64, with(suite.latency.lasts_s)),
            Benchmark::Loss => (suite.loss, 5.0, with(suite.loss.lasts_s) + suite.residual_s / 2.0),
            Benchmark::BackToBack => (suite.back_to_back, 2.0 * steps, with(0.1) + suite.residual_s / 2.0),
            Benchmark::Recovery => (suite.recovery, 1.0, with(2.0 * suite.recovery.lasts_s) + suite.residual_s),
            Benchmark::Reset if suite.reset_command.is_none() => return 0.0,
            Benchmark::Reset => (suite.reset, 1.0, with(suite.reset.lasts_s) + suite.residual_s),
        };
        if self.ask(benchmark, loopback).is_none() && self.is_ready(benchmark) {
            return 0.0;
        }
        let done = |repetition: u32| {
            let own = |record: &&TrialRecord| record.trial.case.loopback == loopback;
            (self.repetition(benchmark, repetition).filter(own).count() as f64).min(trials)
        };
        (1..=extent.times).map(|repetition| (trials - done(repetition)) * each_s).sum()
    }

    /// Whether what a benchmark begins with is known, so that one that asks for nothing is over.
    fn is_ready(&self, benchmark: Benchmark) -> bool {
        match benchmark {
            Benchmark::Check => true,
            Benchmark::Offer => self.trials(Benchmark::Check).next().is_some(),
            Benchmark::Throughput | Benchmark::Loss | Benchmark::BackToBack => self.most().is_some(),
            Benchmark::Latency | Benchmark::Recovery | Benchmark::Reset => self.searched(),
        }
    }

    /// Where the search is of which a trial was one.
    pub(super) fn bounds_in_words(&self, trial: &Trial) -> Option<String> {
        let purpose = trial.purpose?;
        let bounds = |lower: Option<u64>, upper: Option<u64>, unit: &str| match (lower, upper) {
            (Some(lower), Some(upper)) => format!("between {lower} and {upper} {unit}"),
            (Some(lower), None) => format!("above {lower} {unit}"),
            (None, Some(upper)) => format!("below {upper} {unit}"),
            (None, None) => String::new(),
        };
        match purpose.benchmark {
            Benchmark::Throughput => {
                let (found, _) = self.found(purpose.repetition)?;
                Some(bounds(found.first()?.lower, found.first()?.upper, "pps"))
            }
            Benchmark::BackToBack => {
                let found = self.burst_search()?.found(&self.bursts(purpose.repetition));
                Some(bounds(found.first()?.lower, found.first()?.upper, "frames"))
            }
            _ => None,
        }
    }
}
