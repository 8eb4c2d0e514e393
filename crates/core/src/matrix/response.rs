//! Figures of a trial that a setting may move, and which of them it does.

use super::{Apart, Distribution, Matrix, Seen, Tried, Used};
use crate::effects::{self, Effect, Observed};
use crate::matrix::Became;
use crate::stats::{self, Bounded, Quantile};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A figure of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Response {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The least standard deviation that one of this value has, by how it is read or counted.
    least_deviation: fn(&Seen, f64) -> f64,
    of: fn(&Seen) -> Option<f64>,
}

/// Names of the processes that load.
pub const FIRST_END: &str = "iperf3, first end";
/// At the other end.
pub const SECOND_END: &str = "iperf3, second end";

/// A figure of the probe's latencies, in microseconds.
const fn latency(name: &'static str, of: fn(&Seen) -> Option<f64>) -> Response {
    Response { name, unit: "µs", least_deviation: buckets, of }
}

fn summary(seen: &Seen) -> Option<&Summary> {
    Some(&seen.probe.latency.as_ref()?.summary)
}

fn probes_deviation(seen: &Seen) -> Option<f64> {
    Some(summary(seen)?.stdev_ns / 1e3)
}

fn pings_deviation(seen: &Seen) -> Option<f64> {
    Some(seen.ping.mean_and_stdev()?.1 / 1e3)
}

/// That of what is only told in steps of so much (a uniform distribution's).
fn steps(of: f64) -> f64 {
    of / 12_f64.sqrt()
}

/// Of how often something came about: its square root (Poisson's), where it is nothing that of steps of one.
fn events(count: f64) -> f64 {
    count.max(1.0 / 12.0).sqrt()
}

/// Accounts of cores and processes are in ticks of 10 ms, of the second that a trial takes at the least: percent of a core.
fn ticks(_: &Seen, _: f64) -> f64 {
    steps(1.0)
}

/// Figures out of a histogram, in microseconds: a nanosecond, and the width of a bucket.
fn buckets(_: &Seen, us: f64) -> f64 {
    steps((us / 1024.0).max(1e-3))
}

/// `ping` tells three digits, and no more than three of a millisecond.
fn three_digits(_: &Seen, us: f64) -> f64 {
    steps((us / 100.0).max(1.0))
}

/// All of them, in the order in which they are shown.
pub const RESPONSES: [Response; 16] = [
    Response { name: "probe, median", unit: "µs", least_deviation: buckets, of: |seen| quantile_us(seen, 0.5) },
    Response { name: "probe, p99", unit: "µs", least_deviation: buckets, of: |seen| quantile_us(seen, 0.99) },
    Response {
        name: "ping, mean",
        unit: "µs",
        least_deviation: three_digits,
        of: |seen| Some(seen.ping.mean_and_stdev()?.0 / 1e3),
    },
    Response {
        name: "throughput",
        unit: "Mbit/s",
        least_deviation: |_, _| steps(1e-3),
        of: |seen| Some(seen.load.as_ref()?.bits_per_second / 1e6),
    },
    Response {
        name: "CPU of the load, first end",
        unit: "% of a core",
        least_deviation: ticks,
        of: |seen| percent(&seen.processes, FIRST_END),
    },
    Response {
        name: "CPU of the load, second end",
        unit: "% of a core",
        least_deviation: ticks,
        of: |seen| percent(&seen.processes, SECOND_END),
    },
    Response { name: "CPU, all cores", unit: "% of a core", least_deviation: ticks, of: |seen| all_cores(&seen.cores) },
    Response {
        name: "between packets, median",
        unit: "µs",
        least_deviation: buckets,
        of: |seen| Some(seen.arrived.as_ref()?.gaps.as_ref()?.summary.median_ns()? / 1e3),
    },
    Response { name: "queued, mean", unit: "packets", least_deviation: |_, _| steps(0.1), of: queued },
    Response {
        name: "retransmitted",
        unit: "segments",
        least_deviation: |_, count| events(count),
        of: |seen| seen.load.as_ref()?.retransmits.map(|count| count as f64),
    },
    Response {
        name: "TCP's round trip, mean",
        unit: "µs",
        least_deviation: |_, _| steps(1.0),
        of: |seen| seen.load.as_ref()?.rtt_us,
    },
    Response {
        name: "probes lost",
        unit: "%",
        least_deviation: |seen, percent| of_some(seen.probe.counts.sent, percent),
        of: |seen| lost(seen.probe.counts.lost, seen.probe.counts.sent),
    },
    Response {
        name: "datagrams lost",
        unit: "%",
        least_deviation: |seen, percent| {
            of_some(seen.load.as_ref().and_then(|load| load.datagrams).unwrap_or(0), percent)
        },
        of: |seen| lost(seen.load.as_ref()?.lost?, seen.load.as_ref()?.datagrams?),
    },
    Response {
        name: "dropped by queues",
        unit: "packets",
        least_deviation: |_, count| events(count),
        of: |seen| Some(seen.queues.iter().map(|queue| queue.drops).sum::<u64>() as f64),
    },
    Response { name: "probe, standard deviation", unit: "µs", least_deviation: buckets, of: probes_deviation },
    Response { name: "ping, standard deviation", unit: "µs", least_deviation: three_digits, of: pings_deviation },
];

/// A trial's latencies in full.
pub const LATENCIES: [Response; 10] = [
    latency("least", |seen| Some(summary(seen)?.min_ns as f64 / 1e3)),
    latency("mean", |seen| Some(summary(seen)?.mean_ns / 1e3)),
    latency("st. dev.", probes_deviation),
    latency("p50", |seen| quantile_us(seen, 0.5)),
    latency("p90", |seen| quantile_us(seen, 0.9)),
    latency("p99", |seen| quantile_us(seen, 0.99)),
    latency("p99.9", |seen| quantile_us(seen, 0.999)),
    latency("p99.99", |seen| quantile_us(seen, 0.9999)),
    latency("most", |seen| Some(summary(seen)?.max_ns as f64 / 1e3)),
    Response { name: "ping, st. dev.", unit: "µs", least_deviation: three_digits, of: pings_deviation },
];

/// Of a share of some, in percent.
fn of_some(all: u64, percent: f64) -> f64 {
    let each = 100.0 / all.max(1) as f64;
    each * events(percent / each)
}

/// In percent.
fn lost(lost: u64, sent: u64) -> Option<f64> {
    (sent > 0).then(|| 100.0 * lost as f64 / sent as f64)
}

/// The two ways of the probe, told apart.
pub const WAYS: [Response; 4] = [
    Response {
        name: "there, median",
        unit: "µs",
        least_deviation: buckets,
        of: |seen| way_us(seen, |apart| &apart.forward, 0.5),
    },
    Response {
        name: "there, p99",
        unit: "µs",
        least_deviation: buckets,
        of: |seen| way_us(seen, |apart| &apart.forward, 0.99),
    },
    Response {
        name: "back, median",
        unit: "µs",
        least_deviation: buckets,
        of: |seen| way_us(seen, |apart| &apart.back, 0.5),
    },
    Response {
        name: "back, p99",
        unit: "µs",
        least_deviation: buckets,
        of: |seen| way_us(seen, |apart| &apart.back, 0.99),
    },
];

fn way_us(seen: &Seen, of: fn(&Apart) -> &Distribution, share: f64) -> Option<f64> {
    at(&of(seen.probe.apart.as_ref()?).summary, share)
}

fn quantile_us(seen: &Seen, share: f64) -> Option<f64> {
    at(summary(seen)?, share)
}

fn at(summary: &Summary, share: f64) -> Option<f64> {
    let wanted = Quantile::new(share);
    let found = summary.quantiles.iter().find(|estimate| Some(estimate.quantile) == wanted)?;
    Some(found.value?.ns as f64 / 1e3)
}

fn percent(used: &[Used], who: &str) -> Option<f64> {
    used.iter().find(|used| used.who == who).map(|used| 100.0 * used.share)
}

fn all_cores(cores: &[Used]) -> Option<f64> {
    (!cores.is_empty()).then(|| cores.iter().map(|core| 100.0 * core.share).sum())
}

/// Where more wait: that of the end that sends.
fn queued(seen: &Seen) -> Option<f64> {
    seen.queues.iter().map(|queue| queue.mean_packets).max_by(f64::total_cmp)
}

/// A level against the one that it is seen beside, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The factor.
    pub factor: String,
    /// The level.
    pub level: String,
    /// That of the same factor that it is seen against.
    pub against: String,
}

/// What a level does to a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// The figure.
    pub figure: String,
    /// Its unit.
    pub unit: String,
    /// Which level.
    pub by: Step,
    /// Of an interaction: how its effect differs under this level of another factor from that under the one which that is seen against.
    pub under: Option<Step>,
    /// The difference, in the unit.
    pub estimate: f64,
    /// Half the width of its 95% interval; none where trials weren't repeated.
    pub margin: Option<f64>,
    /// Whether it is no noise: a false alarm among all effects on the figure has 5% (Holm).
    pub significant: bool,
    /// Combinations of the other factors that it is the mean of.
    pub combinations: usize,
    /// Of how many that have what is compared, of levels that were measured anywhere.
    #[serde(default)]
    pub of_combinations: usize,
}

/// Combinations of the other factors in which some cells have everything that an effect compares.
fn possible(cells: &BTreeSet<Vec<usize>>, effect: &Effect) -> usize {
    let has = |cell: &[usize], changes: &[Option<effects::Level>]| {
        let mut cell = cell.to_vec();
        changes.iter().flatten().for_each(|level| cell[level.factor] = level.level);
        cells.contains(&cell)
    };
    let (of, under) = (Some(effect.of), effect.under);
    let base = |cell: &&Vec<usize>| [of, under].iter().flatten().all(|level| cell[level.factor] == level.against);
    cells
        .iter()
        .filter(base)
        .filter(|cell| [[of, None], [None, under], [of, under]].iter().all(|c| has(cell, c)))
        .count()
}

impl Response {
    /// What a trial has for it.
    pub fn of(&self, seen: &Seen) -> Option<f64> {
        (self.of)(seen).filter(|value| value.is_finite())
    }

    /// Mean and 95% interval over the repetitions of a cell; none where it was never measured.
    pub fn mean(&self, trials: &[Tried], cell: &[usize]) -> Option<Bounded> {
        let own = trials.iter().filter(|tried| tried.turn.cell == cell);
        let mean = stats::mean(&own.filter_map(|tried| self.value(tried)).collect::<Vec<_>>())?;
        // None of them is less than nothing.
        Some(Bounded { low: mean.low.max(0.0), ..mean })
    }

    /// The same of what became of it; none where it wasn't measured.
    pub fn value(&self, tried: &Tried) -> Option<f64> {
        match &tried.became {
            Became::Seen(seen) => self.of(seen),
            Became::Unavailable(_) | Became::Failed(_) => None,
        }
    }

    /// What moves it.
    pub fn moved(&self, matrix: &Matrix, trials: &[Tried]) -> Vec<Moved> {
        let factors = matrix.factors();
        let levels: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
        let observed = |tried: &Tried| {
            let Became::Seen(seen) = &tried.became else { return None };
            let (levels, repetition, session) = (tried.turn.cell.clone(), tried.turn.repetition, tried.session);
            let value = self.of(seen)?;
            Some(Observed { levels, repetition, session, value, least_deviation: (self.least_deviation)(seen, value) })
        };
        let observed: Vec<Observed> = trials.iter().filter_map(observed).collect();
        let step = |level: effects::Level| {
            let factor = &factors[level.factor];
            let name = |level: usize| factor.levels[level].clone();
            Step { factor: factor.name.clone(), level: name(level.level), against: name(level.against) }
        };
        // Of levels that have the figure at all: what a kernel lacks, and what another level has no figure for, is told elsewhere.
        let seen: BTreeSet<(usize, usize)> =
            observed.iter().flat_map(|one| one.levels.iter().copied().enumerate()).collect();
        let has = |cell: &Vec<usize>| cell.iter().copied().enumerate().all(|level| seen.contains(&level));
        let could: BTreeSet<Vec<usize>> = matrix.cells().into_iter().filter(has).collect();
        let moved = |effect: Effect| Moved {
            figure: self.name.into(),
            unit: self.unit.into(),
            by: step(effect.of),
            under: effect.under.map(step),
            estimate: effect.estimate,
            margin: effect.margin,
            significant: effect.significant,
            combinations: effect.combinations,
            of_combinations: possible(&could, &effect),
        };
        effects::effects(&levels, &observed).into_iter().map(moved).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::matrix::{Distribution, Pinged, Probed};
    use crate::tracker::Counts;

    fn seen(median_ns: u64) -> Seen {
        let mut histogram = Histogram::default();
        (0..2_000).for_each(|_| histogram.record(median_ns));
        Seen {
            probe: Probed { counts: Counts::default(), latency: Distribution::of(&histogram), apart: None },
            ping: Pinged { sent: 2, rtts_ns: vec![40_000, 60_000] },
            load: None,
            cores: vec![Used { who: "0".into(), share: 0.5 }, Used { who: "1".into(), share: 0.25 }],
            processes: Vec::new(),
            arrived: None,
            queues: Vec::new(),
            notes: Vec::new(),
        }
    }

    const MATRIX: &str = "title = \"\"\n[vary]\nqueue = [\"pfifo\", \"sfq\"]\npath = [\"direct\", \"spool 100000ns\"]\nmtu = [1500, 9000]\n";

    #[test]
    fn a_delay_is_told_from_what_does_nothing() {
        let matrix = Matrix::parse(MATRIX).unwrap();
        // The factors are in the order of the file's fields: queue, mtu, path.
        assert_eq!(
            matrix.factors().iter().map(|factor| factor.name.as_str()).collect::<Vec<_>>(),
            ["queue", "mtu", "path"]
        );
        let trials: Vec<Tried> = matrix
            .order(3)
            .into_iter()
            .map(|turn| {
                let ns = 20_000
                    + 100_000 * turn.cell[2] as u64
                    + 40 * (turn.repetition as u64 + turn.cell[0] as u64 * 2) % 130;
                let became = if turn.cell == [1, 1, 1] {
                    Became::Unavailable("no".into())
                } else {
                    Became::Seen(Box::new(seen(ns)))
                };
                Tried { turn, session: 1, became }
            })
            .collect();
        let median = &RESPONSES[0];
        let moved = median.moved(&matrix, &trials);
        let main =
            |factor: &str| moved.iter().find(|moved| moved.by.factor == factor && moved.under.is_none()).unwrap();
        let spool = main("path");
        assert_eq!((spool.by.level.as_str(), spool.by.against.as_str()), ("spool 100000ns", "direct"));
        assert_eq!((spool.combinations, spool.of_combinations), (3, 4));
        assert!(spool.significant && (spool.estimate - 100.0).abs() < 1.0, "{spool:?}");
        assert!(!main("mtu").significant && !main("queue").significant, "{moved:?}");
        let mean = median.mean(&trials, &[0, 0, 1]).unwrap();
        assert!(mean.low < 120.05 && mean.high > 120.0, "{mean:?}");
        assert!(median.mean(&trials, &[1, 1, 1]).is_none());
    }

    #[test]
    fn a_probe_that_is_lost_now_and_then_accuses_nobody() {
        let matrix = Matrix::parse("title = \"\"\n[vary]\nmtu = [1500, 9000]\n").unwrap();
        let lost = |turn: &super::super::Turn, lost: u64| {
            let mut seen = seen(20_000);
            seen.probe.counts = Counts { sent: 4000, received: 4000 - lost, lost, ..Counts::default() };
            Tried { turn: turn.clone(), session: 1, became: Became::Seen(Box::new(seen)) }
        };
        let response = RESPONSES.iter().find(|response| response.name == "probes lost").unwrap();
        let judged = |each: u64| {
            let trials: Vec<Tried> =
                matrix.order(3).iter().map(|turn| lost(turn, each * turn.cell[0] as u64)).collect();
            let moved = response.moved(&matrix, &trials);
            assert_eq!((moved[0].combinations, moved[0].of_combinations), (1, 1));
            moved[0].significant
        };
        assert!(!judged(1) && judged(400), "a tenth of them is no accident");
    }

    #[test]
    fn figures_of_a_trial() {
        let of = |name: &str| RESPONSES.iter().find(|response| response.name == name).unwrap().of(&seen(20_000));
        assert_eq!((of("ping, mean"), of("CPU, all cores"), of("throughput")), (Some(50.0), Some(75.0), None));
        assert!((of("probe, median").unwrap() - 20.0).abs() < 0.02, "its bucket");
    }
}
