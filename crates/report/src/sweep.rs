//! A sweep over frame sizes, and over the times between frames: where latency varies, and where queues build up (paper
//! 003, Figures 5 and 6).

use crate::format;
use serde::Serialize;
use std::collections::BTreeMap;
use usect_core::dispersion::{Dispersion, peaks, safe_from};
use usect_core::frame::FrameSize;
use usect_core::run::{ClientRecord, Run};
use usect_core::scenario::{Case, Scenario};
use usect_core::trial::Trial;

/// Latency that is at most this many times that of the longest gap is free of queues.
pub(crate) const SAFE: f64 = 1.2;

/// A sender that reached less than this share of the rate did not keep the gap.
const KEPT: f64 = 0.95;

/// One client's sweep.
#[derive(Serialize)]
pub(crate) struct Swept {
    /// The client.
    pub(crate) client: String,
    /// Frame sizes with FCS, ascending.
    pub(crate) sizes: Vec<u16>,
    /// Nanoseconds between frames, ascending.
    pub(crate) gaps_ns: Vec<u64>,
    /// Median latency by size and gap, in nanoseconds; null where frames were lost, too few came, or the sender could not
    /// keep the gap.
    pub(crate) median_ns: Vec<Vec<Option<f64>>>,
    /// Index of dispersion by size, at the longest gap, in nanoseconds.
    pub(crate) index_ns: Vec<Option<f64>>,
    /// Sizes at which it peaks, as places in `sizes`.
    pub(crate) peaks: Vec<usize>,
    /// The shortest safe gap by size, as a place in `gaps_ns`.
    pub(crate) safe_from: Vec<Option<usize>>,
    #[serde(skip)]
    dispersion: Vec<Option<Dispersion>>,
}

/// A client's results by frame size and gap.
type Cells<'a> = BTreeMap<(u16, u64), &'a ClientRecord>;

/// Every client's sweep; none where the run is of another procedure.
pub(crate) fn of(run: &Run) -> Vec<Swept> {
    if run.header.procedure != "sweep" {
        return Vec::new();
    }
    let trials: BTreeMap<String, &Trial> = run.trials.iter().map(|t| (t.trial.label(), &t.trial)).collect();
    let mut clients: Vec<(String, Cells)> = Vec::new();
    let scenario = &run.header.scenario;
    for record in &run.clients {
        let Some(trial) = trials.get(&record.client) else { continue };
        // What else varies makes a sweep of its own.
        let name = Trial { case: Case { frame_size: None, rate: None, ..trial.case }, ..(*trial).clone() }.label();
        let key = (trial.traffic.frame_size.with_fcs(), trial.traffic.rate.offset_ns(1));
        match clients.iter_mut().find(|(client, _)| *client == name) {
            Some((_, cells)) => drop(cells.insert(key, record)),
            None => clients.push((name, BTreeMap::from([(key, record)]))),
        }
    }
    clients.into_iter().map(|(name, cells)| Swept::of(&name, &cells, scenario)).collect()
}

/// `frames of 64 to 1522 bytes, 1.00 to 10.0 µs apart`, of a sweep.
pub(crate) fn asked(scenario: &Scenario) -> String {
    let sizes = scenario.vary.frame_size.iter().map(|size| size.with_fcs());
    let gaps = scenario.vary.rate.iter().chain(&scenario.traffic.rate).map(|rate| rate.resolve(64).offset_ns(1));
    let ends =
        |values: Vec<u64>| (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
    let ((small, large), (short, long)) = (ends(sizes.map(u64::from).collect()), ends(gaps.collect()));
    let apart = if short == long { format::ns(short) } else { format::bounded(&format::ns(short), &format::ns(long)) };
    format!("frames of {small} to {large} bytes, {apart} apart")
}

impl Swept {
    fn of(client: &str, cells: &Cells, scenario: &Scenario) -> Swept {
        let unique = |mut values: Vec<u64>| {
            values.sort_unstable();
            values.dedup();
            values
        };
        let sizes = unique(cells.keys().map(|(size, _)| u64::from(*size)).collect());
        let gaps_ns = unique(cells.keys().map(|(_, gap)| *gap).collect());
        let cell = |size: u64, gap: u64| cells.get(&(size as u16, gap)).copied();
        let median = |record: &ClientRecord| {
            let kept = record.measured.pace.is_some_and(|pace| pace.achieved >= KEPT * pace.requested);
            record.median_ns.filter(|_| kept && record.measured.counts.lost == 0).map(|median| median.value)
        };
        let row = |&size: &u64| gaps_ns.iter().map(|&gap| cell(size, gap).and_then(median)).collect();
        let median_ns: Vec<Vec<Option<f64>>> = sizes.iter().map(row).collect();
        let longest = gaps_ns.last().copied().unwrap_or(0);
        let dispersion: Vec<Option<Dispersion>> = sizes.iter().map(|&size| cell(size, longest)?.dispersion).collect();
        let indices: Vec<f64> = dispersion.iter().map(|d| d.map_or(0.0, |d| d.index_ns)).collect();
        // At a gap that is shorter than a frame takes on the line, a queue grows without end, however alike the medians of
        // all gaps may be.
        let fits = |size: u64, gap: u64| {
            let case = cell(size, gap).map_or_else(Case::default, |record| record.case);
            let line = case.dut(&scenario.dut).fiber().map(|fiber| fiber.line_rate);
            let size = FrameSize::try_from(size as u16).ok();
            line.zip(size).is_none_or(|(line, size)| gap as f64 >= line.slot_ns(size))
        };
        let without_queue = |(row, &size): (&Vec<Option<f64>>, &u64)| -> Vec<Option<f64>> {
            row.iter().zip(&gaps_ns).map(|(median, &gap)| median.filter(|_| fits(size, gap))).collect()
        };
        let free: Vec<Vec<Option<f64>>> = median_ns.iter().zip(&sizes).map(without_queue).collect();
        Swept {
            client: client.to_owned(),
            sizes: sizes.iter().map(|&size| size as u16).collect(),
            safe_from: free.iter().map(|row| safe_from(row, SAFE)).collect(),
            index_ns: dispersion.iter().map(|d| d.map(|d| d.index_ns)).collect(),
            peaks: peaks(&indices),
            gaps_ns,
            median_ns,
            dispersion,
        }
    }

    /// A line per size, in the order of [`HEADS`].
    pub(crate) fn lines(&self) -> impl Iterator<Item = [String; 6]> {
        (0..self.sizes.len()).map(|i| {
            let dash = || "–".to_owned();
            let dispersion = self.dispersion[i];
            let median = self.median_ns[i].last().copied().flatten();
            let safe = match (self.safe_from[i], self.gaps_ns.len()) {
                (_, 1) => dash(),
                (Some(0), _) => format!("all {}", self.gaps_ns.len()),
                (Some(at), gaps) if at < gaps => format!("from {}", format::ns(self.gaps_ns[at])),
                _ => "none".to_owned(),
            };
            [
                self.sizes[i].to_string(),
                median.map_or_else(|| "n/a".to_owned(), |ns| format::ns(ns.round() as i64)),
                dispersion.map_or_else(dash, |d| match d.index_ns {
                    small if small < 10.0 => format!("{small:.2} ns"),
                    large => format::ns(large.round() as i64),
                }),
                if self.peaks.contains(&i) { "peak".to_owned() } else { String::new() },
                dispersion.map_or_else(dash, |d| format::count(d.outliers)),
                safe,
            ]
        })
    }

    /// What a reader should take away.
    pub(crate) fn says(&self) -> Vec<String> {
        let peaks: Vec<String> = self.peaks.iter().map(|&i| self.sizes[i].to_string()).collect();
        let longest = self.gaps_ns.last().copied().unwrap_or(0);
        let peaks = match peaks.as_slice() {
            [] => "dispersion peaks at no size".to_owned(),
            some => format!("dispersion peaks at {} bytes", some.join(", ")),
        };
        let safe = (self.gaps_ns.len() > 1).then(|| {
            let worst = self.safe_from.iter().copied().max().flatten().filter(|_| !self.safe_from.contains(&None));
            match worst.and_then(|at| self.gaps_ns.get(at)) {
                Some(gap) => format!("every size is safe to measure from {} between frames on", format::ns(*gap)),
                None => format!("no gap up to {} is safe at every size", format::ns(longest)),
            }
        });
        std::iter::once(peaks).chain(safe).collect()
    }
}

/// Names of the columns.
pub(crate) const HEADS: [&str; 6] = ["bytes", "median", "dispersion", "", "outliers", "safe gaps"];

/// What they mean.
pub(crate) const READING: &str = "median and dispersion are at the longest gap; n/a: frames were lost, too few came, or the sender could not keep the gap. dispersion: variance over mean, without outliers, which \
    lie more than 1.5 interquartile ranges beyond a quartile; a peak stands out of all sizes and of its neighbours. safe \
    gaps: those from which on the sender keeps the gap, no frame is lost, and the median is at most 1.2 times that of the longest gap, so that no \
    queue builds up; where the rate of the line is known, none is shorter than a frame takes on it. Where it isn't, the longest gap must \
    be one at which none builds up.";
