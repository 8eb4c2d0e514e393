//! A sweep over rates and frame sizes: drops, share of the frames stamped, latency (paper 001, Figures 2 to 6).

pub(crate) mod page;

use crate::format;
use crate::trains::Written;
use serde::Serialize;
use usect_core::findings::Repeated;
use usect_core::frame::FrameSize;
use usect_core::rate::RateSpec;
use usect_core::run::{Record, Run, TrialRecord};
use usect_core::scenario::Scenario;
use usect_core::trial::INTERRUPTED;

/// One client's sweep.
#[derive(Serialize)]
pub(crate) struct Loaded {
    /// The client, and whether it measured without the device.
    pub(crate) client: String,
    /// Each size at each rate.
    pub(crate) cells: Vec<Cell>,
}

/// A size at a rate. Each figure is repeated.
#[derive(Serialize)]
pub(crate) struct Cell {
    /// Frame size with FCS.
    pub(crate) size: u16,
    /// Frames per second.
    pub(crate) fps: f64,
    /// Frames that arrived with a latency, as a share of those that arrived.
    pub(crate) stamped: Option<Repeated>,
    /// Lost frames, as a share of those sent.
    pub(crate) lost: Option<Repeated>,
    /// Those of them that the receiving port's own queue claims, likewise.
    pub(crate) own_lost: Option<Repeated>,
    /// Mean latency, in nanoseconds.
    pub(crate) mean_ns: Option<Repeated>,
    /// Median latency, in nanoseconds.
    pub(crate) median_ns: Option<Repeated>,
    /// Repetitions in which the sender offered the rate.
    pub(crate) offered: usize,
    /// Those in which it could not offer the rate, which are left out.
    pub(crate) unoffered: usize,
    /// The most that it offered then, in frames per second.
    pub(crate) reached: Option<f64>,
}

/// `frames of 64, 128 bytes at 100 kpps to 1 Mpps`, of such a sweep.
pub(crate) fn asked(scenario: &Scenario) -> String {
    let or = |several: Vec<String>, one: String| if several.is_empty() { vec![one] } else { several };
    let size = |size: &FrameSize| size.with_fcs().to_string();
    let sizes = or(scenario.vary.frame_size.iter().map(size).collect(), size(&scenario.traffic.frame_size));
    let rate = |rate: &RateSpec| match rate {
        RateSpec::Frames(fps) => format::rate(*fps as f64),
        other => other.to_string(),
    };
    let rates = or(scenario.vary.rate.iter().map(rate).collect(), scenario.traffic.rate.iter().map(rate).collect());
    let rates = match &rates[..] {
        [first, .., last] => format!("{first} to {last}"),
        only => only.concat(),
    };
    format!("frames of {} bytes at {rates}", sizes.join(", "))
}

/// Every client's sweep; none where the run is of another procedure.
pub(crate) fn of(run: &Run) -> Vec<Loaded> {
    if run.header.procedure != "loads" {
        return Vec::new();
    }
    let mut all: Vec<Loaded> = Vec::new();
    let mut cells: Vec<(String, u16, u64, Vec<&TrialRecord>)> = Vec::new();
    for record in run.trials.iter().filter(|record| record.partial.as_deref() != Some(INTERRUPTED)) {
        let trial = &record.trial;
        let client = format!("{}{}", trial.client.name, if trial.case.loopback { ", loopback" } else { "" });
        let key = (client, trial.traffic.frame_size.with_fcs(), trial.traffic.rate.offset_ns(1_000_000));
        match cells.iter_mut().find(|(client, size, gap, _)| (client, *size, *gap) == (&key.0, key.1, key.2)) {
            Some((.., trials)) => trials.push(record),
            None => cells.push((key.0, key.1, key.2, vec![record])),
        }
    }
    for (client, size, _, trials) in cells {
        let cell = Cell::of(size, &trials);
        match all.iter_mut().find(|loaded| loaded.client == client) {
            Some(loaded) => loaded.cells.push(cell),
            None => all.push(Loaded { client, cells: vec![cell] }),
        }
    }
    all
}

impl Cell {
    fn of(size: u16, trials: &[&TrialRecord]) -> Cell {
        let (offered, short): (Vec<&TrialRecord>, Vec<&TrialRecord>) =
            trials.iter().partition(|record| record.is_offered());
        let each = |of: &dyn Fn(&Record) -> Option<f64>| {
            Repeated::of(offered.iter().filter_map(|record| of(&record.measured)).collect())
        };
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let positive = |latency: Repeated| latency.within(0.0, f64::INFINITY);
        Cell {
            size,
            fps: trials.first().map_or(0.0, |record| record.trial.traffic.rate.frames_per_second()),
            stamped: each(&|record| record.stamped_share),
            lost: each(&|record| share(record.counts.lost, record.counts.sent)).map(|lost| lost.within(0.0, 1.0)),
            own_lost: each(&|record| share(record.own_lost(), record.counts.sent)),
            mean_ns: each(&|record| (record.latency.samples > 0).then_some(record.latency.mean_ns)).map(positive),
            median_ns: each(&|record| record.latency.median_ns()).map(positive),
            offered: offered.len(),
            unoffered: short.len(),
            reached: short.iter().filter_map(|record| record.measured.pace).map(|pace| pace.achieved).reduce(f64::max),
        }
    }

    /// Its figures, in the order of [`HEADS`].
    pub(crate) fn cells(&self) -> Vec<Written> {
        let ns = |value: f64| format::ns(value.round() as i64);
        let short = self.reached.filter(|_| self.unoffered > 0);
        vec![
            repeated(&self.stamped, format::share),
            repeated(&self.lost, format::share),
            repeated(&self.own_lost, format::share),
            repeated(&self.mean_ns, ns),
            repeated(&self.median_ns, ns),
            Written {
                figure: self.offered.to_string(),
                interval: short.map(|fps| format!("{} offered {} at most", self.unoffered, format::rate(fps))),
            },
        ]
    }
}

/// Names of the columns.
pub(crate) const HEADS: [&str; 6] = ["stamped", "lost", "own queue", "mean", "median", "runs"];

/// What they mean.
pub(crate) const READING: &str = "stamped: share of the frames that arrived with a latency. lost: share of the sent that didn't arrive. own queue: share \
    that didn't and that usect's own receive queue claims, for want of room or for bad checksums. mean, median: latency. Figures are means of the runs, beneath them their \
    95% intervals (Student's t). runs: those in which the sender offered the rate; the others are left out.";

/// The mean of repetitions, and beneath it half of its 95% interval.
pub(crate) fn repeated(value: &Option<Repeated>, write: fn(f64) -> String) -> Written {
    let Some(value) = value else { return Written { figure: "n/a".to_owned(), interval: None } };
    let half = format!("± {}", write(value.mean.high - value.mean.value));
    Written { figure: write(value.mean.value), interval: value.has_interval().then_some(half) }
}
