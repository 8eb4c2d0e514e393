//! The benchmarks of RFC 2544 §26: throughput, latency, frame loss rate, back-to-back frames, system recovery, reset.
//!
//! What to try next follows from the trials so far and nothing else. Whether a size passes at all, and how much of the line
//! the sender can offer, is found out first: both bound every search.

mod ask;
mod findings;
mod known;

use crate::{Outlook, Procedure, Step};
use ask::Asked;
use known::Known;
use usect_core::findings::Findings;
use usect_core::frame::FrameSize;
use usect_core::rate::RateSpec;
use usect_core::run::TrialRecord;
use usect_core::scenario::{Case, ClientSpec};
use usect_core::suite::{Benchmark, Loopback, Suite};
use usect_core::trial::{Around, Traffic, Trial};

/// The suite as a procedure.
#[derive(Debug, Clone)]
pub struct Rfc2544 {
    suite: Suite,
    clients: Vec<ClientSpec>,
}

/// One benchmark of all sizes and clients, with the device under test or without.
#[derive(Debug, Clone, Copy)]
struct Stage {
    benchmark: Benchmark,
    loopback: bool,
}

impl Rfc2544 {
    /// Of these clients.
    pub fn new(suite: Suite, clients: Vec<ClientSpec>) -> Rfc2544 {
        Rfc2544 { suite, clients }
    }

    /// Everything that is measured, in order. The path without the device comes last of a benchmark, for it is another.
    fn stages(&self) -> impl Iterator<Item = Stage> {
        let with = |benchmark| Stage { benchmark, loopback: false };
        let first = [Benchmark::Check, Benchmark::Offer].map(with);
        let asked = Benchmark::ALL.into_iter().filter(|benchmark| self.suite.has(*benchmark)).map(with);
        let loopback = (self.suite.loopback.is_some() && self.suite.has(Benchmark::Latency))
            .then_some(Stage { benchmark: Benchmark::Latency, loopback: true });
        first.into_iter().chain(asked).chain(loopback)
    }

    /// Each client and size, with what is known of it.
    fn each<'a>(&'a self, trials: &'a [TrialRecord]) -> impl Iterator<Item = (&'a ClientSpec, Known<'a>)> {
        let of = |client: &'a ClientSpec| {
            let known = |size: &FrameSize| (client, Known::of(&self.suite, client, *size, trials));
            self.suite.sizes.iter().map(known).collect::<Vec<_>>()
        };
        self.clients.iter().flat_map(of)
    }

    fn trial(&self, client: &ClientSpec, size: FrameSize, asked: Asked, trials: &[TrialRecord]) -> Trial {
        let Suite { learning_frames, settle_s, residual_s, rest_s, loopback, .. } = &self.suite;
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let mut client = client.clone();
        if let (true, Some(Loopback::Ports { tx, rx })) = (asked.loopback, loopback) {
            (client.tx, client.rx) = (Some(tx.clone()), Some(rx.clone()));
        }
        let spec = RateSpec::Frames(asked.load);
        let traffic = Traffic {
            pattern: asked.pattern,
            tagged: asked.tagged,
            residual_ns: ns(*residual_s),
            ..Traffic::evenly(size, asked.rate.unwrap_or_else(|| spec.resolve(size.with_fcs())), asked.frames)
        };
        let case = Case { frame_size: Some(size), rate: Some(spec), loopback: asked.loopback, ..Case::default() };
        let around = Around { learning_frames: *learning_frames, settle_ns: ns(*settle_s), rest_ns: ns(*rest_s) };
        let trial = Trial { case, purpose: Some(asked.purpose), around, goes_on: true, ..Trial::once(client, traffic) };
        let label = trial.label();
        let before = trials.iter().filter(|record| record.trial.label() == label).count();
        Trial { run: before as u32 + 1, ..trial }
    }
}

impl Procedure for Rfc2544 {
    fn next(&self, trials: &[TrialRecord]) -> Step {
        let each: Vec<(&ClientSpec, Known)> = self.each(trials).collect();
        for stage in self.stages() {
            for (client, known) in &each {
                if let Some(asked) = known.ask(stage.benchmark, stage.loopback) {
                    return Step::Run(Box::new(self.trial(client, known.size, asked, trials)));
                }
            }
        }
        Step::Done
    }

    fn findings(&self, trials: &[TrialRecord]) -> Option<Findings> {
        Some(findings::of(&self.suite, &self.clients, self.each(trials).map(|(_, known)| known)))
    }

    fn outlook(&self, trials: &[TrialRecord]) -> Option<Outlook> {
        let each: Vec<Known> = self.each(trials).map(|(_, known)| known).collect();
        let left = |stage: Stage| each.iter().map(move |known| known.left_s(stage.benchmark, stage.loopback));
        let left_s = self.stages().map(|stage| left(stage).sum::<f64>()).sum();
        let current = trials.last().and_then(|last| {
            each.iter().find(|known| known.is_of(&last.trial)).and_then(|known| known.bounds_in_words(&last.trial))
        });
        Some(Outlook { bounds: current, left_s })
    }
}

#[cfg(test)]
mod tests;
