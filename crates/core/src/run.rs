//! A run: the only thing that is stored, reported and exported. `run.json` is this module, in JSON;
//! its schema is documented in `docs/run-json.md`.

use crate::calibration::{self, Calibrated, Calibration, Key};
use crate::converge::{self, Convergence};
use crate::dispersion::Dispersion;
use crate::environment::Environment;
use crate::histogram::Histogram;
use crate::measurement::{Measurement, Pace};
use crate::scenario::Case;
use crate::scenario::{Protocol, Scenario};
use crate::series::Point;
use crate::stages::{Stages, StagesRecord};
use crate::stall::CoreStalls;
use crate::stats::{self, Accuracy, Bounded, Estimate, Quantile};
use crate::summary::Summary;
use crate::tracker::Counts;
use crate::trains::TrainsRecord;
use crate::trial::{Trial, TrialResult};
use serde::{Deserialize, Serialize};

/// Version of the schema; a reader refuses others.
pub const SCHEMA: &str = "usect.run/1";

/// The head of a run: everything but its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of usect that measured.
    pub usect: String,
    /// Name of the run and of its folder.
    pub id: String,
    /// `compare` or `measure`.
    pub procedure: String,
    /// When it began, RFC 3339.
    pub created: String,
    /// Whether the quick protocol was used: a demonstration, not a result to keep.
    pub quick: bool,
    /// Why it ended before its time, if it did.
    pub partial: Option<String>,
    /// The protocol that was in force.
    pub protocol: Protocol,
    /// What was asked.
    pub scenario: Scenario,
    /// What the figures depended on.
    pub environment: Environment,
    /// How closely mean and percentiles are wanted, in nanoseconds, where it was asked how many samples that takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
    /// What each core did to a spinning thread before any traffic: the platform's own noise.
    pub platform: Vec<CoreStalls>,
    /// What its instruments were found to add, over known paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrations: Vec<Calibration>,
    /// What a reader should know of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A run as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Everything but the results.
    #[serde(flatten)]
    pub header: Header,
    /// Pooled results, one per client, in the scenario's order.
    pub clients: Vec<ClientRecord>,
    /// Every trial, in the order in which they ran.
    pub trials: Vec<TrialRecord>,
}

/// A client's trials, pooled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// The client's name, and its case where the scenario has several.
    pub client: String,
    /// What was different from the scenario.
    #[serde(default, skip_serializing_if = "Case::is_plain")]
    pub case: Case,
    /// Trials pooled.
    pub runs: u32,
    /// What the client saw.
    pub measured: Record,
    /// What the taps saw of the same frames.
    pub truth: Option<Record>,
    /// Delay that the path is known to impose; the truth where there are no taps.
    pub known_delay_ns: Option<u64>,
    /// How much its latencies vary for their size, outliers left out; absent below four.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<Dispersion>,
    /// How mean and percentiles settle, where every latency was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub convergence: Vec<Convergence>,
    /// Its median latency, of the heads where frames left in trains, in nanoseconds; absent where the sample can't support
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ns: Option<Bounded>,
    /// The same without what the instrument adds, where that was calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Calibrated>,
    /// Client minus truth, per percentile; empty without a truth, or where it is in doubt.
    pub errors: Vec<Estimate>,
    /// The same on samples that no stall touched, on either side; empty where that isn't known: no thread
    /// spun, so that stalls were not observed, or a log of slow samples was full.
    pub errors_clean: Vec<Estimate>,
    /// Why client and truth can't be compared, although there is one.
    pub doubt: Option<String>,
    /// What can be promised of the client, from `errors`; the tightest bound first.
    pub accuracy: Vec<Accuracy>,
    /// Kolmogorov–Smirnov distance between client and truth.
    pub ks_distance: Option<f64>,
    /// Lowest and highest figure of the single trials per percentile, where each supports one.
    pub spread: Vec<Spread>,
}

/// How far the single trials lie apart at one percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Which percentile.
    pub quantile: Quantile,
    /// Lowest over the trials, in nanoseconds; absent for a single trial, and where one can't support the
    /// percentile.
    pub lowest_ns: Option<i64>,
    /// Highest, likewise.
    pub highest_ns: Option<i64>,
}

/// One trial as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// What was asked.
    #[serde(flatten)]
    pub trial: Trial,
    /// When it began, RFC 3339.
    pub started: String,
    /// Why it ended before its time, if it did.
    pub partial: Option<String>,
    /// What the client saw.
    pub measured: Record,
    /// What the taps saw.
    pub truth: Option<Record>,
    /// What the DUT says it did.
    pub dut: Vec<(String, u64)>,
}

/// A [`Measurement`] in numbers; its histograms are in the run's `histograms` folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// Share of the received frames that were stamped, 0 to 1; absent where none was received.
    pub stamped_share: Option<f64>,
    /// Latency from the actual departure, all samples.
    pub latency: Summary,
    /// Latency of the samples that no stall touched; absent where that isn't known of every sample.
    pub clean: Option<Summary>,
    /// Latency from the scheduled departure.
    pub scheduled: Option<Summary>,
    /// Actual minus scheduled departure.
    pub lateness: Option<Summary>,
    /// Where the time was spent, where frames were stamped at more points than the two of `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<StagesRecord>,
    /// Trains, where frames left in trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trains: Option<TrainsRecord>,
    /// Its parts, where it has several: flows, pairs of ports; and the other direction, which is not part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// Requested and achieved rate.
    pub pace: Option<Pace>,
    /// Stalls per spinning thread.
    pub stalls: Vec<CoreStalls>,
    /// Slow samples or stalls that the logs could not hold.
    pub unattributed: u64,
    /// Frames that were not in yet when a later one took their place in the table of stamps.
    pub overwritten: u64,
    /// Frames that reached the receiving port, warm-up and others' included, and found no room in its queue; absent
    /// where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruns: Option<u64>,
    /// How it went over time.
    pub series: Vec<Point>,
    /// What a reader should know of how it was measured.
    pub notes: Vec<String>,
}

/// A [`Stream`](crate::measurement::Stream) in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// `flow 3`, `pair 2`, `back`.
    pub name: String,
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// Its latency.
    pub latency: Summary,
}

impl Record {
    /// In numbers.
    pub fn of(m: &Measurement) -> Record {
        Record {
            counts: m.counts,
            stamped_share: m.counts.stamped_share(),
            latency: Summary::of(&m.latency),
            clean: m.clean().as_ref().map(Summary::of),
            scheduled: m.scheduled.as_ref().map(Summary::of),
            lateness: m.lateness.as_ref().map(Summary::of),
            stages: m.stages.as_ref().map(Stages::record_of),
            trains: m.trains.as_ref().map(TrainsRecord::of),
            streams: m
                .streams
                .iter()
                .map(|s| StreamRecord { name: s.name.clone(), counts: s.counts, latency: Summary::of(&s.latency) })
                .collect(),
            pace: m.pace,
            stalls: m.stalls.clone(),
            unattributed: m.unattributed,
            overwritten: m.overwritten,
            overruns: m.overruns,
            series: m.series.clone(),
            notes: m.notes.clone(),
        }
    }
}

impl TrialRecord {
    /// In numbers.
    pub fn of(result: &TrialResult) -> TrialRecord {
        TrialRecord {
            trial: result.trial.clone(),
            started: result.started.clone(),
            partial: result.partial.clone(),
            measured: Record::of(&result.client),
            truth: result.truth.as_ref().map(Record::of),
            dut: result.dut.clone(),
        }
    }
}

/// A client's trials pooled, with their distributions.
#[derive(Debug, Clone)]
pub struct Pooled {
    /// The client's name, and its case.
    pub client: String,
    /// What was different from the scenario.
    pub case: Case,
    /// What it saw.
    pub measured: Measurement,
    /// What the taps saw.
    pub truth: Option<Measurement>,
}

/// Pools the trials of each client, in the order in which clients first appear.
pub fn pool(results: &[TrialResult]) -> Vec<Pooled> {
    let mut pooled: Vec<Pooled> = Vec::new();
    for result in results {
        let name = result.trial.label();
        match pooled.iter_mut().find(|p| p.client == name) {
            Some(so_far) => so_far.add(result),
            None => pooled.push(Pooled {
                client: name,
                case: result.trial.case,
                measured: result.client.clone(),
                truth: result.truth.clone(),
            }),
        }
    }
    pooled
}

impl Pooled {
    /// Why client and truth can't be compared, if they can't.
    fn doubt(&self) -> Option<String> {
        let truth = self.truth.as_ref();
        truth.and_then(|truth| self.missed(&truth.counts)).or_else(|| self.confused())
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

    /// A table keyed by the 16-bit IP identification takes a frame that arrives after 65,536 others for its
    /// successor, which then looks like a copy.
    fn confused(&self) -> Option<String> {
        // The truth has the same keys.
        let seen_there = self.truth.as_ref().map_or(0, |truth| truth.counts.duplicates);
        let (overwritten, copies) = (self.measured.overwritten, self.measured.counts.duplicates.max(seen_there));
        let both = overwritten > 0 && copies > 0;
        both.then(|| {
            format!(
                "{overwritten} frames were not in when their identification came round again, and {copies} copies \
                 arrived: some may have been taken for others"
            )
        })
    }

    fn add(&mut self, result: &TrialResult) {
        pool_measurement(&mut self.measured, &result.client);
        match (&mut self.truth, &result.truth) {
            (Some(truth), Some(more)) => pool_measurement(truth, more),
            (truth @ None, Some(first)) => *truth = Some(first.clone()),
            (_, None) => {}
        }
    }
}

/// Pools distributions and counts; what only makes sense per trial is dropped, notes are united.
fn pool_measurement(into: &mut Measurement, more: &Measurement) {
    into.pool(more);
    into.series.clear();
    into.stalls.extend(more.stalls.iter().cloned());
    for note in &more.notes {
        if !into.notes.contains(note) {
            into.notes.push(note.clone());
        }
    }
    into.pace = into.pace.zip(more.pace).map(|(a, b)| Pace { achieved: a.achieved.min(b.achieved), ..a });
}

impl ClientRecord {
    /// Everything that follows from a client's trials.
    pub fn of(pooled: &Pooled, results: &[TrialResult]) -> ClientRecord {
        let own: Vec<&TrialResult> = results.iter().filter(|r| r.trial.label() == pooled.client).collect();
        let known_delay_ns = own.iter().find_map(|r| r.known_delay_ns);
        let doubt = pooled.doubt();
        let against = |side: fn(&Measurement) -> Option<Histogram>| {
            let client = side(&pooled.measured)?;
            match (&pooled.truth, known_delay_ns) {
                _ if doubt.is_some() => None,
                (Some(truth), _) => Some(stats::errors(&client, &side(truth)?)),
                (None, delay) => Some(stats::errors_of_constant(&client, delay?)),
            }
        };
        let errors = against(|m| Some(m.latency.clone())).unwrap_or_default();
        ClientRecord {
            client: pooled.client.clone(),
            case: pooled.case,
            runs: own.len() as u32,
            measured: Record::of(&pooled.measured),
            truth: pooled.truth.as_ref().map(Record::of),
            known_delay_ns,
            median_ns: calibration::median_ns(&pooled.measured),
            dispersion: Dispersion::of(&pooled.measured.latency),
            convergence: converge::of(&pooled.measured.samples),
            calibrated: None,
            errors_clean: against(Measurement::clean).unwrap_or_default(),
            doubt,
            accuracy: stats::accuracies(&errors),
            errors,
            ks_distance: pooled.truth.as_ref().and_then(|t| stats::ks_distance(&pooled.measured.latency, &t.latency)),
            spread: spread(own.iter().map(|r| &r.client.latency)),
        }
    }
}

fn spread<'a>(trials: impl Iterator<Item = &'a Histogram>) -> Vec<Spread> {
    let per_trial: Vec<Vec<Estimate>> = trials.map(stats::estimates).collect();
    // One trial has no spread.
    let several = per_trial.len() > 1;
    let figures = |i: usize| per_trial.iter().map(move |e| e[i].value.map(|v| v.ns)).collect::<Option<Vec<i64>>>();
    let at = |i: usize| figures(i).filter(|_| several);
    stats::LADDER
        .iter()
        .enumerate()
        .map(|(i, &quantile)| Spread {
            quantile,
            lowest_ns: at(i).and_then(|v| v.into_iter().min()),
            highest_ns: at(i).and_then(|v| v.into_iter().max()),
        })
        .collect()
}

impl Run {
    /// From a header and the trials.
    pub fn of(header: Header, results: &[TrialResult]) -> Run {
        let pooled = pool(results);
        let calibrated = |p: &Pooled| {
            let mut record = ClientRecord::of(p, results);
            let own = results.iter().find(|result| result.trial.label() == p.client);
            let key = own.map(|result| Key::of(&result.trial, &header.scenario));
            let found = header.calibrations.iter().find(|calibration| Some(&calibration.key) == key.as_ref());
            record.calibrated = found.zip(record.median_ns).map(|(found, median)| found.applied_to(median));
            record
        };
        Run {
            clients: pooled.iter().map(calibrated).collect(),
            header,
            trials: results.iter().map(TrialRecord::of).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let pooled = pool(&results);
        assert_eq!(pooled.len(), 2);
        let record = ClientRecord::of(&pooled[0], &results);
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
        let results = [result];
        let record = ClientRecord::of(&pool(&results)[0], &results);
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
        assert_eq!(doubt(|client, _| client.overwritten = 3), None, "lost ones look like that");
        assert_eq!(doubt(|client, _| client.counts.duplicates = 3), None);
        let confused = |client: &mut Measurement| (client.overwritten, client.counts.duplicates) = (3, 1);
        assert!(doubt(|client, _| confused(client)).unwrap().contains("taken for others"));
    }
}
