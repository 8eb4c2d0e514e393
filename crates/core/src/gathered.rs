//! What was measured so far in a run: every trial, and the distributions of those that repeat each other, pooled.

use crate::calibration;
use crate::measurement::{Measurement, Pace};
use crate::run::TrialRecord;
use crate::stats::{self, Bounded, Estimate};
use crate::tracker::Counts;
use crate::trial::{Trial, TrialResult};

/// The results of a run so far. Each is kept in numbers; its distributions only in those of its client and case.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    pooled: Vec<Pooled>,
    trials: Vec<TrialRecord>,
}

/// A client's trials in a case pooled, with their distributions.
#[derive(Debug, Clone)]
pub struct Pooled {
    /// The client's name, and its case.
    pub client: String,
    /// The first of them.
    pub trial: Trial,
    /// What it saw.
    pub measured: Measurement,
    /// What the taps saw.
    pub truth: Option<Measurement>,
    /// Delay that the path is known to impose.
    pub known_delay_ns: Option<u64>,
    /// What is kept of each trial.
    pub singles: Vec<Single>,
}

/// One of several trials that are pooled.
#[derive(Debug, Clone)]
pub struct Single {
    /// Percentiles of its latency.
    pub estimates: Vec<Estimate>,
    /// Its median, as a calibration is of.
    pub median_ns: Option<Bounded>,
}

impl Gathered {
    /// Of these results, in order.
    pub fn of<'a>(results: impl IntoIterator<Item = &'a TrialResult>) -> Gathered {
        let mut gathered = Gathered::default();
        results.into_iter().for_each(|result| gathered.add(result));
        gathered
    }

    /// Adds what has just been measured.
    pub fn add(&mut self, result: &TrialResult) {
        self.restore(TrialRecord::of(result), result);
    }

    /// Adds what was measured before and stored: `result` has what is left of it.
    pub fn restore(&mut self, record: TrialRecord, result: &TrialResult) {
        self.trials.push(record);
        if !result.trial.is_repetition() {
            return;
        }
        let name = result.trial.label();
        match self.pooled.iter_mut().find(|p| p.client == name) {
            Some(so_far) => so_far.add(result),
            None => self.pooled.push(Pooled::of(name, result)),
        }
    }

    /// Every trial.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.trials
    }

    /// Those that repeat each other, in the order in which clients and cases first appear.
    pub fn pooled(&self) -> &[Pooled] {
        &self.pooled
    }
}

impl Single {
    fn of(result: &TrialResult) -> Single {
        Single {
            estimates: stats::estimates(&result.client.latency),
            median_ns: calibration::median_ns(&result.client),
        }
    }
}

impl Pooled {
    fn of(client: String, result: &TrialResult) -> Pooled {
        Pooled {
            client,
            trial: result.trial.clone(),
            measured: Measurement { tagged: Vec::new(), last_lost: None, silence_ns: None, ..result.client.clone() },
            truth: result.truth.clone(),
            known_delay_ns: result.known_delay_ns,
            singles: vec![Single::of(result)],
        }
    }

    fn add(&mut self, result: &TrialResult) {
        pool(&mut self.measured, &result.client);
        match (&mut self.truth, &result.truth) {
            (Some(truth), Some(more)) => pool(truth, more),
            (truth @ None, Some(first)) => *truth = Some(first.clone()),
            (_, None) => {}
        }
        self.known_delay_ns = self.known_delay_ns.or(result.known_delay_ns);
        self.singles.push(Single::of(result));
    }

    /// Why client and truth can't be compared, if they can't.
    pub(crate) fn doubt(&self) -> Option<String> {
        let missed = || self.missed(&self.truth.as_ref()?.counts);
        self.confused().or_else(missed)
    }

    /// A tap sees every frame that the client sent and received, and no other.
    fn missed(&self, truth: &Counts) -> Option<String> {
        let client = &self.measured.counts;
        let differs = |what: &str, theirs: u64, ours: u64| {
            Some(format!("the taps saw {theirs} frames {what} the DUT, and the client {ours}"))
        };
        if truth.sent > client.sent {
            return differs("enter", truth.sent, client.sent);
        }
        // Of trains, a spool keeps a record of the heads alone where they alone are measured.
        let heads_only = self.measured.trains.as_ref().is_some_and(|trains| trains.train.heads_only);
        let measured = if heads_only { client.stamped } else { client.received };
        if truth.received < measured {
            return differs("leave", truth.received, measured);
        }
        let late = || format!("{} frames reached the second tap too late to be known", truth.stale);
        (truth.stale > 0).then(late)
    }

    /// Numbers of 16 bits came round while frames were on their way, so that nothing has a latency.
    fn confused(&self) -> Option<String> {
        let ambiguous = self.measured.ambiguous.max(self.truth.as_ref().map_or(0, |truth| truth.ambiguous));
        (ambiguous > 0).then(|| {
            format!(
                "{ambiguous} frames were not in when their 16-bit numbers came round again, or were copies: some may have been taken \
                 for others, so no latency is given (numbers of 4 bytes don't come round)"
            )
        })
    }
}

/// Pools distributions and counts; what only makes sense per trial is dropped, notes are united.
fn pool(into: &mut Measurement, more: &Measurement) {
    into.pool(more);
    // Of one trial each.
    into.tagged.clear();
    (into.last_lost, into.silence_ns) = (None, None);
    into.series.clear();
    into.stalls.extend(more.stalls.iter().cloned());
    for note in &more.notes {
        if !into.notes.contains(note) {
            into.notes.push(note.clone());
        }
    }
    into.pace = into.pace.zip(more.pace).map(|(a, b)| Pace { achieved: a.achieved.min(b.achieved), ..a });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ClientRecord;
    use crate::scenario::ClientSpec;
    use crate::trial::Traffic;

    fn result(client: &str, run: u32, latencies: std::ops::Range<u64>, truth: u64) -> TrialResult {
        let mut measured = Measurement::default();
        let mut tapped = Measurement::default();
        for ns in latencies {
            measured.latency.record(ns);
            tapped.latency.record(truth);
        }
        let rate = crate::rate::Rate::per_second(1000).unwrap();
        let traffic = Traffic::evenly(crate::frame::FrameSize::MIN, rate, 100);
        let client = ClientSpec {
            name: client.into(),
            engine: crate::port_name::Engine::Udp,
            wait: Default::default(),
            stamp: crate::scenario::Stamp::App,
            pairs: Vec::new(),
            driver: None,
            tx: None,
            rx: None,
        };
        TrialResult {
            trial: Trial { run, ..Trial::once(client, traffic) },
            started: String::new(),
            client: measured,
            truth: Some(tapped),
            known_delay_ns: None,
            dut: Vec::new(),
            partial: None,
        }
    }

    #[test]
    fn trials_are_pooled_per_client_and_their_spread_kept() {
        let results =
            [result("a", 1, 1000..1200, 500), result("b", 1, 9000..9200, 500), result("a", 2, 1100..1300, 500)];
        let gathered = Gathered::of(&results);
        assert_eq!(gathered.pooled().len(), 2);
        let record = ClientRecord::of(&gathered.pooled()[0]);
        assert_eq!((record.runs, record.measured.latency.samples), (2, 400));
        assert_eq!((record.spread[0].lowest_ns, record.spread[0].highest_ns), (Some(1099), Some(1199)));
        let error = record.errors[0].value.unwrap();
        assert!((640..=660).contains(&error.ns), "{error:?}");
        assert_eq!(record.ks_distance, Some(1.0));
        assert_eq!(record.accuracy[0].within_ns, 1_000);
        assert_eq!(record.spread[3].lowest_ns, None, "400 samples can't support p99.9");
    }

    /// A result whose counts say that both sides saw 200 frames.
    fn counted() -> TrialResult {
        let mut result = result("a", 1, 1000..1200, 500);
        let counts = Counts { sent: 200, received: 200, stamped: 200, arrivals: 200, ..Counts::default() };
        result.client.counts = counts;
        result.truth.as_mut().unwrap().counts = counts;
        result
    }

    fn doubt(change: impl FnOnce(&mut Measurement, &mut Measurement)) -> Option<String> {
        let mut result = counted();
        let TrialResult { client, truth, .. } = &mut result;
        change(client, truth.as_mut().unwrap());
        let record = ClientRecord::of(&Gathered::of([&result]).pooled()[0]);
        assert_eq!(record.errors.is_empty(), record.doubt.is_some());
        assert_eq!(record.accuracy.is_empty(), record.doubt.is_some());
        record.doubt
    }

    #[test]
    fn no_error_is_given_against_a_truth_of_other_frames() {
        assert_eq!(doubt(|_, _| ()), None);
        let missed = doubt(|_, truth| truth.counts.received = 199).unwrap();
        assert!(missed.contains("199 frames leave the DUT, and the client 200"), "{missed}");
        assert!(doubt(|_, truth| truth.counts.sent = 201).is_some());
        assert!(doubt(|_, truth| truth.counts.stale = 1).is_some());
        assert_eq!(doubt(|client, _| client.counts.received = 190), None, "frames may be lost behind the taps");
    }

    #[test]
    fn no_error_is_given_where_frames_may_have_been_taken_for_others() {
        assert_eq!(doubt(|client, _| client.overwritten = 3), None, "of 32 bits, they are lost or stale");
        assert_eq!(doubt(|client, _| client.counts.duplicates = 3), None);
        assert!(doubt(|client, _| client.ambiguous = 3).unwrap().contains("taken for others"));
        assert!(doubt(|_, truth| truth.ambiguous = 3).unwrap().contains("taken for others"));
    }
}
