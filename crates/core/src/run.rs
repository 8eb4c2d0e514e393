//! A run: the only thing that is stored, reported and exported. `run.json` is this module, in JSON;
//! its schema is documented in `docs/run-json.md`.

use crate::calibration::{self, Calibrated, Calibration, Key};
use crate::converge::{self, Convergence};
use crate::dispersion::Dispersion;
use crate::dissect::Dissection;
use crate::environment::Environment;
use crate::findings::Findings;
use crate::gathered::{Gathered, Pooled, Single};
use crate::histogram::Histogram;
use crate::matrix::Measured;
use crate::measurement::{Measurement, Pace, Stream};
use crate::profile::Applied;
use crate::scenario::Case;
use crate::scenario::{Protocol, Scenario};
use crate::series::Point;
use crate::stages::{Stages, StagesRecord};
use crate::stall::CoreStalls;
use crate::stats::{self, Accuracy, Bounded, Estimate, Quantile};
use crate::suite::Suite;
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
    /// Profiles of the host's settings, as they were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Applied>,
    /// The benchmarks that were asked for, and what came out, where it is a suite of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rfc2544: Option<SuiteRecord>,
    /// The host taken apart, where that is what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dissect: Option<Dissection>,
    /// A matrix of settings and its trials, where that is what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Measured>,
    /// When it was gone on with after it had been interrupted, RFC 3339.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<String>,
}

/// A suite of benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteRecord {
    /// What was asked.
    pub suite: Suite,
    /// What came out so far.
    pub findings: Findings,
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
    /// Latency of the tagged frames, where some were picked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tagged: Option<TaggedRecord>,
    /// Number of the last measured frame that was lost, from 0; absent where none was, or where nobody numbers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lost: Option<u64>,
    /// Longest time between two arrivals, in nanoseconds; absent below two, and where nobody looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ns: Option<u64>,
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
    /// Frames that may have been taken for others, because their numbers of 16 bits came round; where there are any, nothing has
    /// a latency.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ambiguous: u64,
    /// Frames that reached the receiving port and that its queue dropped, warm-up and others' included: for want of room, and
    /// sockets also for a bad checksum; absent where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruns: Option<u64>,
    /// How it went over time.
    pub series: Vec<Point>,
    /// What a reader should know of how it was measured.
    pub notes: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Latency of the frames that were picked out, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedRecord {
    /// How many arrived.
    pub frames: u64,
    /// Of the first of them, the tagged frame of RFC 2544 §26.2; absent where it didn't arrive.
    pub first_ns: Option<u64>,
    /// Their median: typical latency (RFC 8219 §7.2).
    pub typical_ns: u64,
    /// Their 99.9th percentile: worst-case latency (RFC 8219 §7.2), of fewer than 1,000 the largest.
    pub worst_ns: u64,
}

impl TaggedRecord {
    /// Of frames, each which of the tagged it is and its latency; none of none.
    fn of(tagged: &[(u32, u64)]) -> Option<TaggedRecord> {
        let first_ns = tagged.iter().find(|(which, _)| *which == 0).map(|(_, ns)| *ns);
        let mut sorted: Vec<u64> = tagged.iter().map(|(_, ns)| *ns).collect();
        sorted.sort_unstable();
        sorted.first()?;
        // The nearest rank.
        let at = |share: f64| sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1];
        Some(TaggedRecord { frames: tagged.len() as u64, first_ns, typical_ns: at(0.5), worst_ns: at(0.999) })
    }
}

/// A [`Stream`] in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// `flow 3`, `pair 2`, `back`.
    pub name: String,
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// Its latency.
    pub latency: Summary,
    /// Requested and achieved rate, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Frames that the queue of its receiving port dropped, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruns: Option<u64>,
}

impl StreamRecord {
    fn of(stream: &Stream) -> StreamRecord {
        StreamRecord {
            name: stream.name.clone(),
            counts: stream.counts,
            latency: Summary::of(&stream.latency),
            pace: stream.pace,
            overruns: stream.overruns,
        }
    }

    /// Lost frames that its own queue claims; see [`Record::own_lost`].
    pub fn own_lost(&self) -> u64 {
        self.counts.lost.min(self.overruns.unwrap_or(0))
    }
}

impl Record {
    /// Lost frames that the receiving port's own queue claims, as many as it says that it dropped. They are lost all the same: its
    /// counter has bad checksums (`SK_MEMINFO_DROPS`), duplicates and others' frames (`imissed`) among them, so that nobody
    /// knows which of them the path did lose or damage.
    pub fn own_lost(&self) -> u64 {
        self.counts.lost.min(self.overruns.unwrap_or(0))
    }

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
            tagged: TaggedRecord::of(&m.tagged),
            last_lost: m.last_lost,
            silence_ns: m.silence_ns,
            streams: m.streams.iter().map(StreamRecord::of).collect(),
            pace: m.pace,
            stalls: m.stalls.clone(),
            unattributed: m.unattributed,
            overwritten: m.overwritten,
            ambiguous: m.ambiguous,
            overruns: m.overruns,
            series: m.series.clone(),
            notes: m.notes.clone(),
        }
    }
}

/// A trial counts as offered from this share of its rate on.
const OFFERED: f64 = 0.98;

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

    /// What goes the other way, where both are measured.
    pub fn back(&self) -> impl Iterator<Item = &StreamRecord> {
        self.measured.streams.iter().filter(|stream| stream.name == "back")
    }

    /// Share of its rate that the sender reached, in the worse direction; whole where nobody asked for one.
    pub fn reached(&self) -> f64 {
        let paces = self.back().map(|stream| stream.pace).chain([self.measured.pace]);
        paces.flatten().map(|pace| pace.achieved / pace.requested).fold(1.0, f64::min)
    }

    /// Whether its frames left at the rate that was asked for: not where a trial ended early, either.
    pub fn is_offered(&self) -> bool {
        self.partial.is_none() && self.reached() >= OFFERED
    }
}

impl ClientRecord {
    /// Everything that follows from a client's trials.
    pub fn of(pooled: &Pooled) -> ClientRecord {
        let known_delay_ns = pooled.known_delay_ns;
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
            case: pooled.trial.case,
            runs: pooled.singles.len() as u32,
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
            spread: spread(&pooled.singles),
        }
    }
}

fn spread(singles: &[Single]) -> Vec<Spread> {
    // One trial has no spread.
    let several = singles.len() > 1;
    let figures =
        |i: usize| singles.iter().map(move |s| s.estimates[i].value.map(|v| v.ns)).collect::<Option<Vec<i64>>>();
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
    /// From a header and what was measured.
    pub fn of(header: Header, gathered: &Gathered) -> Run {
        let calibrated = |p: &Pooled| {
            let mut record = ClientRecord::of(p);
            let key = Key::of(&p.trial, &header.scenario);
            let found = header.calibrations.iter().find(|calibration| calibration.key == key);
            record.calibrated = found.and_then(|found| found.applied_to(&p.measured));
            record
        };
        Run { clients: gathered.pooled().iter().map(calibrated).collect(), header, trials: gathered.trials().to_vec() }
    }
}
