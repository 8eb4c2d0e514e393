//! What the trials of a client and size say so far.

use crate::search::{Binary, Found, Goal, Mlr, Range, Search, Tried};
use std::collections::HashMap;
use usect_core::frame::FrameSize;
use usect_core::port_name::Engine;
use usect_core::rate::RateSpec;
use usect_core::run::TrialRecord;
use usect_core::scenario::ClientSpec;
use usect_core::stall::{CoreStalls, DISTURBED};
use usect_core::suite::{Benchmark, SearchKind, Suite};
use usect_core::trial::{INTERRUPTED, Trial};

/// The smallest load that is of interest, in frames per second.
pub(super) const LEAST: u64 = 100;
/// A burst counts as offered from this share of its rate on: it can be so short that a microsecond matters.
const BURST_OFFERED: f64 = 0.9;
/// Times that a trial is tried whose rate wasn't offered, before that is the sender's limit.
pub(super) const ATTEMPTS: usize = 3;
/// Share of what the sender reached that it is asked for at most.
pub(super) const MARGIN: f64 = 0.95;

/// What is known of a client and size.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) suite: &'a Suite,
    pub(super) client: &'a str,
    pub(super) size: FrameSize,
    /// Whether it is known which frames are lost, and when others arrive.
    pub(super) sees_each: bool,
    own: Vec<&'a TrialRecord>,
}

impl<'a> Known<'a> {
    pub(super) fn of(
        suite: &'a Suite,
        client: &'a ClientSpec,
        size: FrameSize,
        trials: &'a [TrialRecord],
    ) -> Known<'a> {
        let sees_each = client.engine != Engine::Kernel;
        let mut known = Known { suite, client: &client.name, size, sees_each, own: Vec::new() };
        // What the user cut short says nothing.
        let whole = trials.iter().filter(|record| record.partial.as_deref() != Some(INTERRUPTED));
        known.own = whole.filter(|record| known.is_of(&record.trial)).collect();
        known
    }

    pub(super) fn is_of(&self, trial: &Trial) -> bool {
        trial.client.name == self.client && trial.traffic.frame_size == self.size
    }

    /// How many trials there were, in how many of them a thread that spins was away for long, and for how much of its time at
    /// most.
    pub(super) fn disturbed(&self) -> (u32, u32, f64) {
        let away = |record: &&TrialRecord| {
            let shares = record.measured.stalls.iter().filter(|core| core.observed_ns > 0).map(CoreStalls::share);
            shares.fold(0.0, f64::max)
        };
        let shares: Vec<f64> = self.own.iter().map(away).collect();
        let long = shares.iter().filter(|share| **share > DISTURBED).count();
        (shares.len() as u32, long as u32, shares.into_iter().fold(0.0, f64::max))
    }

    /// Lost frames of all trials that the receiving port's own queue claims.
    pub(super) fn own_lost(&self) -> u64 {
        self.own.iter().map(|record| own_lost(record)).sum()
    }

    /// Repetitions of a benchmark that the sender never offered, though each was tried as often as it is let.
    pub(super) fn in_vain(&self, benchmark: Benchmark) -> usize {
        let mut tried: HashMap<_, Vec<&TrialRecord>> = HashMap::new();
        for record in self.trials(benchmark) {
            tried.entry((record.trial.purpose, record.trial.case.loopback)).or_default().push(record);
        }
        tried.values().filter(|tried| is_in_vain(tried)).count()
    }

    /// The trials of a benchmark, in order.
    pub(super) fn trials(&self, benchmark: Benchmark) -> impl DoubleEndedIterator<Item = &'a TrialRecord> {
        let of = move |record: &&TrialRecord| record.trial.purpose.is_some_and(|p| p.benchmark == benchmark);
        self.own.iter().copied().filter(of)
    }

    /// Those of one of its repetitions.
    pub(super) fn repetition(&self, benchmark: Benchmark, repetition: u32) -> impl Iterator<Item = &'a TrialRecord> {
        self.trials(benchmark).filter(move |record| record.trial.purpose.is_some_and(|p| p.repetition == repetition))
    }

    /// Frames per second that fill the line.
    pub(super) fn line(&self) -> u64 {
        (self.suite.line_fps(self.size) as u64).max(1)
    }

    /// Why nothing can be measured, if that is so.
    pub(super) fn verdict(&self) -> Option<String> {
        let checks: Vec<&TrialRecord> = self.trials(Benchmark::Check).collect();
        let (last, bytes) = (checks.last()?, self.size.with_fcs());
        if checks.iter().all(|check| check.measured.counts.received == 0) {
            // A host that held the frames up may have lost them, too, and is given another try.
            let settled = last.is_offered() || checks.len() >= ATTEMPTS;
            let says = match checks.iter().map(|check| check.measured.counts.sent).sum::<u64>() {
                0 => format!("the sender can't offer even {} frames of {bytes} bytes a second", load(last)),
                sent => format!("the device passes no frames of {bytes} bytes: none of {sent} arrived"),
            };
            return settled.then_some(says);
        }
        let most = self.most().filter(|most| *most < LEAST.min(self.line()))?;
        Some(format!("the sender can offer only {most} frames of {bytes} bytes a second"))
    }

    /// The most that is offered, in frames per second, once that is known: the line, or what the sender can do.
    pub(super) fn most(&self) -> Option<u64> {
        let offers: Vec<&TrialRecord> = self.trials(Benchmark::Offer).collect();
        let best = offers.iter().map(|record| record.reached()).max_by(f64::total_cmp)?;
        let settled = offers.len() >= ATTEMPTS;
        let first = match offers.iter().any(|record| record.is_offered()) {
            true => self.line(),
            false if settled => (best * self.line() as f64 * MARGIN) as u64,
            false => return None,
        };
        let searched = || self.trials(Benchmark::Throughput).chain(self.trials(Benchmark::Loss));
        let beyond = searched().filter(|record| {
            let alike = |other: &&&TrialRecord| load(other) == load(record);
            let tried: Vec<&TrialRecord> =
                self.own.iter().copied().filter(|other| alike(&other) && searches(other)).collect();
            is_in_vain(&tried)
        });
        // The best of the tries: a stall of the host is none of its limits.
        let best = |record: &TrialRecord| {
            let alike = searched().filter(|other| load(other) == load(record));
            alike.map(|other| (other.reached() * load(other) as f64 * MARGIN) as u64).max()
        };
        let least = beyond.filter_map(best).min().unwrap_or(first);
        Some(first.min(least).clamp(1, self.line()))
    }

    /// Where a throughput is searched for.
    fn range(&self) -> Option<Range> {
        self.most().map(|most| Range { least: LEAST.min(most), most })
    }

    fn goals(&self) -> Vec<Goal> {
        let Suite { search, loss_ratios, width, throughput, .. } = self.suite;
        let final_ns = (throughput.lasts_s * 1e9) as u64;
        let of = |loss: &f64| match search {
            SearchKind::Verified => Goal { loss: *loss, ..Goal::verified(final_ns, *width) },
            _ => Goal { loss: *loss, ..Goal::rfc2544(final_ns, *width) },
        };
        loss_ratios.iter().map(of).collect()
    }

    /// The search for the throughput.
    pub(super) fn search(&self) -> Option<Box<dyn Search>> {
        let (range, goals) = (self.range()?, self.goals());
        Some(match self.suite.search {
            SearchKind::Mlr => Box::new(Mlr::new(goals, range)),
            SearchKind::Binary | SearchKind::Verified => Box::new(Binary { goal: goals[0], range }),
        })
    }

    /// The trials of a repetition, as the search sees them: those that were offered, that still could be, and that are clear.
    pub(super) fn tried(&self, repetition: u32) -> Vec<Tried> {
        let most = self.most().unwrap_or(u64::MAX);
        let counts = |record: &&TrialRecord| record.is_offered() && load(record) <= most && !self.is_open_yet(record);
        let offered = self.repetition(Benchmark::Throughput, repetition).filter(counts);
        offered.map(|record| Tried { load: load(record), lasted_ns: lasted_ns(record), loss: loss(record) }).collect()
    }

    /// Whether it hangs on what the client's own queue claims whether a trial passes: one that may be lost by the client, and may
    /// be damaged by the device, is no pass and no failure.
    pub(super) fn is_unclear(&self, record: &TrialRecord) -> bool {
        let is_burst = record.trial.purpose.is_some_and(|p| p.benchmark == Benchmark::BackToBack);
        let ratios = if is_burst { &[0.0] } else { &self.suite.loss_ratios[..] };
        ratios.iter().any(|ratio| least_loss(record) <= *ratio && *ratio < loss(record))
    }

    /// How often what a trial tried was unclear in its repetition.
    pub(super) fn times_unclear(&self, record: &TrialRecord) -> usize {
        let Some(purpose) = record.trial.purpose else { return 0 };
        let is_same = |other: &&TrialRecord| {
            (load(other), other.trial.traffic.frames) == (load(record), record.trial.traffic.frames)
        };
        let alike = self.repetition(purpose.benchmark, purpose.repetition).filter(is_same);
        alike.filter(|other| self.is_unclear(other)).count()
    }

    /// Whether a trial is unclear and to be tried again. What is unclear each time is too much, whoever lost it (RFC 2544 §26.1).
    fn is_open_yet(&self, record: &TrialRecord) -> bool {
        self.is_unclear(record) && self.times_unclear(record) < ATTEMPTS
    }

    /// What each repetition has found, goal by goal, as far as it has come to its end.
    pub(super) fn found(&self, repetition: u32) -> Option<(Vec<Found>, bool)> {
        let (search, tried) = (self.search()?, self.tried(repetition));
        let over = !tried.is_empty() && search.next(&tried).is_none();
        (!tried.is_empty()).then(|| (search.found(&tried), over))
    }

    /// Whether every repetition has searched for the throughput, found or not.
    pub(super) fn searched(&self) -> bool {
        (1..=self.suite.throughput.times).all(|repetition| self.found(repetition).is_some_and(|(_, over)| over))
    }

    /// The load that other benchmarks take for the throughput: the smallest that a repetition found for the first loss
    /// ratio. `None` before all have, and where every load loses.
    pub(super) fn throughput(&self) -> Option<u64> {
        let each = (1..=self.suite.throughput.times).map(|repetition| {
            let (found, over) = self.found(repetition)?;
            found.first().filter(|_| over)?.lower
        });
        each.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }

    /// The rate within bursts, one for all, in frames per second.
    pub(super) fn burst_rate(&self) -> Option<u64> {
        self.trials(Benchmark::BackToBack).next().map(load).or_else(|| self.most())
    }

    /// The search for the longest burst, whose loads are frames.
    pub(super) fn burst_search(&self) -> Option<Binary> {
        let most = (self.burst_rate()? as f64 * self.suite.back_to_back.lasts_s) as u64;
        let goal = match self.suite.search {
            SearchKind::Verified => Goal::verified(1, self.suite.width),
            _ => Goal::rfc2544(1, self.suite.width),
        };
        Some(Binary { goal, range: Range { least: 1, most: most.max(1) } })
    }

    /// The bursts of a repetition, as the search sees them. One that the sender stretched says nothing, and is sent again, as is
    /// one that is unclear; a length that it can't send is too much for the search.
    pub(super) fn bursts(&self, repetition: u32) -> Vec<Tried> {
        let of = |record: &TrialRecord| {
            let load = record.trial.traffic.frames;
            let loss = match is_stretched(record) {
                false if self.is_open_yet(record) => return None,
                false => loss(record),
                true if self.is_beyond(repetition, load) => 1.0,
                true => return None,
            };
            Some(Tried { load, lasted_ns: 1, loss })
        };
        self.repetition(Benchmark::BackToBack, repetition).filter_map(of).collect()
    }

    /// Whether the sender stretched bursts of that length as often as it is let.
    pub(super) fn is_beyond(&self, repetition: u32, frames: u64) -> bool {
        let own = self.repetition(Benchmark::BackToBack, repetition);
        own.filter(|record| record.trial.traffic.frames == frames && is_stretched(record)).count() >= ATTEMPTS
    }
}

/// Whether what was tried was never offered, as often as the sender is let.
fn is_in_vain(tried: &[&TrialRecord]) -> bool {
    tried.len() >= ATTEMPTS && !tried.iter().any(|record| record.is_offered())
}

/// Whether a trial is one of a benchmark that finds out what can be offered.
fn searches(record: &TrialRecord) -> bool {
    record.trial.purpose.is_some_and(|p| matches!(p.benchmark, Benchmark::Throughput | Benchmark::Loss))
}

/// Whether a burst left clearly slower than it was to, or not whole.
pub(super) fn is_stretched(record: &TrialRecord) -> bool {
    record.partial.is_some() || record.reached() < BURST_OFFERED
}

/// The load that was asked for, in frames per second.
pub(super) fn load(record: &TrialRecord) -> u64 {
    match record.trial.case.rate {
        Some(RateSpec::Frames(load)) => load,
        _ => record.trial.traffic.rate.frames_per_second() as u64,
    }
}

fn lasted_ns(record: &TrialRecord) -> u64 {
    record.trial.traffic.rate.offset_ns(record.trial.traffic.frames)
}

/// Share of the frames that were lost, both ways where both were measured.
pub(super) fn loss(record: &TrialRecord) -> f64 {
    share_lost(record, 0)
}

/// The same, if the client's own queue did lose all that it claims.
fn least_loss(record: &TrialRecord) -> f64 {
    share_lost(record, own_lost(record))
}

fn share_lost(record: &TrialRecord, but: u64) -> f64 {
    let each = record.back().map(|stream| stream.counts).chain([record.measured.counts]);
    let (sent, lost) = each.fold((0, 0), |sum, counts| (sum.0 + counts.sent, sum.1 + counts.lost));
    if sent == 0 { 1.0 } else { (lost - but) as f64 / sent as f64 }
}

/// Lost frames that the receiving ports' own queues claim.
pub(super) fn own_lost(record: &TrialRecord) -> u64 {
    record.back().map(|stream| stream.own_lost()).chain([record.measured.own_lost()]).sum()
}
