//! The page's tables, one function each.

use crate::grid::{Entry, Grid, Line};
use crate::series::{Series, labelled, letter, thread};
use crate::trains::Written;
use crate::{StoredRun, calibrated, converge, format, trains};
use serde::Serialize;
use usect_core::run::{ClientRecord, Record};
use usect_core::stall::CoreStalls;
use usect_core::stats::{self, Accuracy, Estimate, LADDER, Quantile};
use usect_core::summary::Summary;
use usect_core::tracker::Counts;

/// The page's tables.
#[derive(Serialize)]
pub(crate) struct Grids {
    key: Grid,
    /// Absent where no instrument was calibrated.
    calibrated: Option<Grid>,
    /// Absent where it wasn't asked how many samples figures need.
    converge: Option<Grid>,
    /// Absent where no frames left in trains.
    trains: Option<Grid>,
    /// Absent where no client's frames were stamped on their way.
    stages: Option<Grid>,
    accuracy: Grid,
    spread: Grid,
    stalls: Grid,
    touched: Grid,
    pace: Grid,
    counts: Grid,
    trials: Grid,
}

impl Grids {
    /// Of every client of every run.
    pub(crate) fn of(runs: &[StoredRun], series: &[Series<'_>]) -> Grids {
        Grids {
            key: key(series),
            calibrated: calibrated(runs, series),
            converge: converge(runs, series),
            trains: trains(runs, series),
            stages: stages(series),
            accuracy: accuracy(series),
            spread: spread(series),
            stalls: stalls(runs, series),
            touched: touched(series),
            pace: pace(series),
            counts: counts(series),
            trials: trials(series),
        }
    }
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

fn ladder(names: &[&str]) -> Vec<String> {
    heads(names).into_iter().chain(LADDER.iter().map(ToString::to_string)).collect()
}

/// A line that begins a client.
fn line(series: &Series<'_>, cells: impl IntoIterator<Item = Entry>) -> Line {
    let name = Entry { kind: "name", text: series.label(), small: None };
    Line { swatch: Some((series.color, series.dash().to_owned())), cells: std::iter::once(name).chain(cells).collect() }
}

/// A line that goes on with the client above.
fn more(cells: impl IntoIterator<Item = Entry>) -> Line {
    let name = Entry { kind: "name", text: String::new(), small: None };
    Line { swatch: None, cells: std::iter::once(name).chain(cells).collect() }
}

fn estimate(estimate: &Estimate, write: fn(i64) -> String) -> Entry {
    match &estimate.value {
        Some(value) => Entry::number(write(value.ns)).with(format::interval(value, write)),
        None => Entry::missing("n/a", format!("needs {}", format::count(estimate.needs))),
    }
}

fn figures(what: &str, estimates: &[Estimate], write: fn(i64) -> String) -> Vec<Entry> {
    std::iter::once(Entry::text(what)).chain(estimates.iter().map(|e| estimate(e, write))).collect()
}

fn errors(estimates: &[Estimate]) -> Vec<Entry> {
    let cell = |e: &Estimate| match &e.value {
        Some(value) => Entry::number(format::error(value)).with(format::interval(value, format::signed_ns)),
        None => estimate(e, format::signed_ns),
    };
    std::iter::once(Entry::text("error")).chain(estimates.iter().map(cell)).collect()
}

fn plain(ns: i64) -> String {
    format::ns(ns)
}

fn key(series: &[Series<'_>]) -> Grid {
    let mut lines = Vec::new();
    for s in series {
        lines.push(line(s, figures("client", &s.client.measured.latency.quantiles, plain)));
        let parts = s.client.measured.streams.iter();
        lines.extend(parts.map(|part| more(figures(&part.name, &part.latency.quantiles, plain))));
        match (&s.client.truth, s.client.known_delay_ns) {
            (Some(truth), _) => lines.push(more(figures("truth", &truth.latency.quantiles, plain))),
            (None, Some(delay)) => lines.push(more(figures("known delay", &stats::constant(delay), plain))),
            (None, None) => {}
        }
        if !s.client.errors.is_empty() {
            lines.push(more(errors(&s.client.errors)));
        }
    }
    Grid::new(ladder(&["client", ""]), lines)
}

fn entry(written: Written) -> Entry {
    match written.interval {
        Some(interval) => Entry::number(written.figure).with(interval),
        None => Entry::number(written.figure),
    }
}

/// Medians with and without what instruments add.
fn calibrated(runs: &[StoredRun], series: &[Series<'_>]) -> Option<Grid> {
    let rows = runs.iter().flat_map(|run| calibrated::rows(&run.run));
    of_rows(series, &calibrated::HEADS, rows.map(|row| (row.client, row.cells().into_iter().map(entry).collect())))
}

/// How many samples figures need.
fn converge(runs: &[StoredRun], series: &[Series<'_>]) -> Option<Grid> {
    let rows = runs.iter().flat_map(|run| converge::rows(&run.run));
    of_rows(series, &converge::HEADS, rows.map(|row| (row.client, row.cells().into_iter().map(entry).collect())))
}

/// Lines of clients with these columns; `None` without any.
fn of_rows<'a>(
    series: &[Series<'_>],
    heads: &[&str],
    rows: impl Iterator<Item = (&'a ClientRecord, Vec<Entry>)>,
) -> Option<Grid> {
    let own = |client: &ClientRecord| series.iter().find(|s| std::ptr::eq(s.client, client));
    let lines: Vec<Line> = rows.filter_map(|(client, cells)| Some(line(own(client)?, cells))).collect();
    let head = std::iter::once("client").chain(heads.iter().copied());
    (!lines.is_empty()).then(|| Grid::new(head.map(str::to_owned).collect(), lines))
}

/// The rows of paper 003's Table 1.
fn trains(runs: &[StoredRun], series: &[Series<'_>]) -> Option<Grid> {
    let rows = runs.iter().flat_map(|run| trains::rows(&run.run));
    let cells = |row: &trains::TrainRow<'_>| {
        let whole =
            Entry::number(format::count(row.trains.trains)).with(format!("{} whole", format::count(row.trains.whole)));
        row.cells().into_iter().map(entry).chain([whole]).collect()
    };
    let heads = [&trains::HEADS[..], &["trains"]].concat();
    of_rows(series, &heads, rows.map(|row| (row.client, cells(&row))))
}

/// Percentiles of the time from application to application, taken apart.
fn stages(series: &[Series<'_>]) -> Option<Grid> {
    let mut lines = Vec::new();
    for s in series {
        let Some(record) = &s.client.measured.stages else { continue };
        for (i, stage) in record.stages.iter().enumerate() {
            let cell = |quantile: &Quantile| {
                let Some(share) = record.shares.iter().find(|share| share.quantile == *quantile) else {
                    return Entry::missing("n/a", format!("needs {}", format::count(quantile.needs())));
                };
                let total: f64 = share.stages_ns.iter().sum();
                let part = if total > 0.0 { share.stages_ns[i] / total } else { 0.0 };
                Entry::number(format::ns(share.stages_ns[i] as i64)).with(format!("{:.0} %", part * 100.0))
            };
            let cells = std::iter::once(Entry::text(stage.name())).chain(LADDER.iter().map(cell));
            lines.push(if i == 0 { line(s, cells) } else { more(cells) });
        }
    }
    (!lines.is_empty()).then(|| Grid::new(ladder(&["client", "stage"]), lines))
}

fn accuracy(series: &[Series<'_>]) -> Grid {
    let mut lines = Vec::new();
    for s in series {
        let clean = match &s.client.measured.clean {
            Some(_) => bounds(&stats::accuracies(&s.client.errors_clean)),
            None => Entry::text(format!("unknown: {}", why_unknown(&s.client.measured))),
        };
        let ks = s.client.ks_distance.map_or("–".to_owned(), |d| format!("{d:.4}"));
        lines.push(line(s, [bounds(&s.client.accuracy), clean, Entry::number(ks)]));
    }
    Grid::new(heads(&["client", "all samples", "without samples that a stall touched", "KS distance"]), lines)
}

/// Why it isn't known which samples a stall touched.
fn why_unknown(record: &Record) -> &'static str {
    if record.stalls.is_empty() { "no thread spun" } else { "a log was full" }
}

fn bounds(accuracy: &[Accuracy]) -> Entry {
    let texts: Vec<String> =
        accuracy.iter().map(|a| format!("{} up to {}", format::bound(a.within_ns), a.up_to)).collect();
    if texts.is_empty() {
        Entry::text("no bound")
    } else {
        Entry::text(texts.join(" · ").replace(' ', "\u{a0}").replace("·\u{a0}", "· "))
    }
}

fn spread(series: &[Series<'_>]) -> Grid {
    let cell = |s: &usect_core::run::Spread| match s.lowest_ns.zip(s.highest_ns) {
        Some((low, high)) => {
            let ratio = if low > 0 { format!("× {:.2}", high as f64 / low as f64) } else { String::new() };
            Entry::number(format!("{} – {}", format::ns(low), format::ns(high))).with(ratio)
        }
        None => Entry::missing("n/a", format!("needs {} each", format::count(s.quantile.needs()))),
    };
    let alone = || Entry::missing("n/a", "needs two runs");
    let row = |s: &Series<'_>| {
        let runs = Entry::number(s.client.runs.to_string());
        let cells = s.client.spread.iter().map(|spread| if s.client.runs > 1 { cell(spread) } else { alone() });
        line(s, std::iter::once(runs).chain(cells))
    };
    Grid::new(ladder(&["client", "runs"]), series.iter().map(row).collect())
}

const STALLS: [&str; 10] = [
    "",
    "thread",
    "observed",
    "stalls",
    "per second",
    "share of time",
    "median",
    "longest",
    "busy gaps",
    "longest busy",
];

fn stalls(runs: &[StoredRun], series: &[Series<'_>]) -> Grid {
    let mut lines = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let name = labelled(letter(runs.len(), index), "platform, no traffic");
        for (i, core) in run.run.header.platform.iter().enumerate() {
            let text = if i == 0 { name.clone() } else { String::new() };
            let first = Entry { kind: "name", text, small: None };
            lines.push(Line { swatch: None, cells: std::iter::once(first).chain(stall_cells(&[core])).collect() });
        }
    }
    for s in series {
        let threads = per_thread(s);
        if threads.is_empty() {
            lines.push(line(s, [Entry::text("no thread spun, so none could be seen")]));
        }
        for (i, thread) in threads.iter().enumerate() {
            let cells = stall_cells(thread);
            lines.push(if i == 0 { line(s, cells) } else { more(cells) });
        }
    }
    Grid::new(heads(&STALLS), lines)
}

/// Stalls of the same thread on the same core, over all trials.
fn per_thread<'a>(series: &Series<'a>) -> Vec<Vec<&'a CoreStalls>> {
    let mut threads: Vec<Vec<&CoreStalls>> = Vec::new();
    for (_, stalls) in series.stalls() {
        match threads.iter_mut().find(|t| (&t[0].thread, t[0].core) == (&stalls.thread, stalls.core)) {
            Some(same) => same.push(stalls),
            None => threads.push(vec![stalls]),
        }
    }
    threads
}

/// Of the trials of one thread. Medians can't be pooled: their range is shown.
fn stall_cells(trials: &[&CoreStalls]) -> Vec<Entry> {
    let sum = |of: fn(&CoreStalls) -> u64| trials.iter().map(|s| of(s)).sum::<u64>();
    let longest = |of: fn(&CoreStalls) -> u64| trials.iter().map(|s| of(s)).max().unwrap_or(0);
    let (observed, stalls) = (sum(|s| s.observed_ns), sum(|s| s.stalls));
    let medians = || trials.iter().map(|s| s.median_ns);
    let (low, high) = (medians().min().unwrap_or(0), medians().max().unwrap_or(0));
    let median = if low == high { format::ns(low) } else { format!("{} – {}", format::ns(low), format::ns(high)) };
    let rate = if observed == 0 { "–".to_owned() } else { format!("{:.1}", stalls as f64 * 1e9 / observed as f64) };
    let threshold = format!("over {}", format::bound(trials[0].threshold_ns));
    vec![
        Entry::text(thread(trials[0])),
        Entry::number(format::ns(observed)),
        Entry::number(format::count(stalls)).with(threshold),
        Entry::number(rate),
        Entry::number(format::part(sum(|s| s.total_ns), observed)).with(format::ns(sum(|s| s.total_ns))),
        Entry::number(median),
        Entry::number(format::ns(longest(|s| s.longest_ns))),
        Entry::number(format::count(sum(|s| s.busy.count))).with(format::part(sum(|s| s.busy.total_ns), observed)),
        Entry::number(format::ns(longest(|s| s.busy.longest_ns))),
    ]
}

fn at(summary: &Summary, share: f64) -> Entry {
    let quantile = Quantile::new(share);
    let found = summary.quantiles.iter().find(|e| Some(e.quantile) == quantile);
    found.map_or(Entry::text("–"), |e| estimate(e, plain))
}

fn touched(series: &[Series<'_>]) -> Grid {
    let mut lines = Vec::new();
    for s in series {
        let sides = [("client", Some(&s.client.measured)), ("truth", s.client.truth.as_ref())];
        for (what, record) in sides.into_iter().filter_map(|(what, record)| Some((what, record?))) {
            let cells = touched_cells(what, record);
            lines.push(if what == "client" { line(s, cells) } else { more(cells) });
        }
    }
    let head = ["client", "", "samples", "touched", "p99.9, all", "p99.9 without", "p99.99, all", "p99.99 without"];
    Grid::new(heads(&head), lines)
}

fn touched_cells(what: &str, record: &Record) -> Vec<Entry> {
    let all = &record.latency;
    let share = match &record.clean {
        Some(clean) => {
            let touched = all.samples - clean.samples;
            Entry::number(format::count(touched)).with(format::part(touched, all.samples))
        }
        None => Entry::missing("unknown", why_unknown(record)),
    };
    let clean = |share: f64| match &record.clean {
        Some(clean) => at(clean, share),
        None => Entry::text("–"),
    };
    vec![
        Entry::text(what),
        Entry::number(format::count(all.samples)),
        share,
        at(all, 0.999),
        clean(0.999),
        at(all, 0.9999),
        clean(0.9999),
    ]
}

fn pace(series: &[Series<'_>]) -> Grid {
    let head = ["client", "requested", "achieved", "of requested", "late, p50", "late, p99", "late, p99.9", "latest"];
    let row = |s: &Series<'_>| {
        let none = || Entry::text("–");
        let pace = s.client.measured.pace;
        let late = s.client.measured.lateness.as_ref();
        let lateness = |share: f64| late.map_or_else(none, |l| at(l, share));
        let cells = [
            pace.map_or_else(none, |p| Entry::number(format::rate(p.requested))),
            pace.map_or_else(none, |p| Entry::number(format::rate(p.achieved)).with("lowest run")),
            pace.map_or_else(none, |p| Entry::number(format::share(p.achieved / p.requested))),
            lateness(0.5),
            lateness(0.99),
            lateness(0.999),
            late.map_or_else(none, |l| Entry::number(format::ns(l.max_ns))),
        ];
        line(s, cells)
    };
    Grid::new(heads(&head), series.iter().map(row).collect())
}

const COUNTS: [&str; 13] = [
    "client",
    "",
    "sent",
    "received",
    "lost",
    "stamped",
    "reordered",
    "duplicates",
    "corrupted",
    "stale",
    "foreign",
    "arrivals",
    "of the warm-up",
];

fn counts(series: &[Series<'_>]) -> Grid {
    let mut lines = Vec::new();
    for s in series {
        lines.push(line(s, count_cells("client", &s.client.measured.counts)));
        lines.extend(s.client.measured.streams.iter().map(|part| more(count_cells(&part.name, &part.counts))));
        lines.extend(s.client.truth.iter().map(|t| more(count_cells("truth", &t.counts))));
    }
    Grid::new(heads(&COUNTS), lines)
}

fn count_cells(what: &str, c: &Counts) -> Vec<Entry> {
    let of_sent = |n: u64| Entry::number(format::count(n)).with(format::part(n, c.sent));
    let plain = [c.reordered, c.duplicates, c.corrupted, c.stale, c.foreign, c.arrivals];
    let stamped = Entry::number(format::count(c.stamped)).with(c.stamped_share().map_or("–".to_owned(), format::share));
    let first =
        [Entry::text(what), Entry::number(format::count(c.sent)), of_sent(c.received), of_sent(c.lost), stamped];
    let warmup = Entry::number(format::count(c.warmup_arrivals)).with(format!("{} sent", format::count(c.warmup_sent)));
    first.into_iter().chain(plain.map(|n| Entry::number(format::count(n)))).chain([warmup]).collect()
}

fn trials(series: &[Series<'_>]) -> Grid {
    let head = ["client", "run", "began", "p50", "p99", "p99.9", "largest", "lost", "achieved", "what the DUT says"];
    let mut lines = Vec::new();
    for s in series {
        for (i, trial) in s.trials().enumerate() {
            let latency = &trial.measured.latency;
            let dut: Vec<String> = trial.dut.iter().map(|(name, n)| format!("{name} {}", format::count(*n))).collect();
            let began = Entry::text(&trial.started);
            let cells = [
                Entry::number(trial.trial.run.to_string()),
                trial.partial.iter().fold(began, |entry, why| entry.with(format!("PARTIAL: {why}"))),
                at(latency, 0.5),
                at(latency, 0.99),
                at(latency, 0.999),
                Entry::number(format::ns(latency.max_ns)),
                Entry::number(format::count(trial.measured.counts.lost)),
                trial.measured.pace.map_or(Entry::text("–"), |p| Entry::number(format::rate(p.achieved))),
                Entry::text(dut.join(", ")),
            ];
            lines.push(if i == 0 { line(s, cells) } else { more(cells) });
        }
    }
    Grid::new(heads(&head), lines)
}

/// The two equations that every client's counts obey, with its numbers.
#[derive(Serialize)]
pub(crate) struct Balance {
    label: String,
    sent: String,
    arrivals: String,
    /// What is wrong with them, if anything is.
    fault: Option<String>,
}

impl Balance {
    /// Of a client.
    pub(crate) fn of(series: &Series<'_>) -> Balance {
        let c = &series.client.measured.counts;
        let sum = |parts: &[(u64, &str)]| {
            let texts: Vec<String> = parts.iter().map(|(n, name)| format!("{} {name}", format::count(*n))).collect();
            texts.join(" + ")
        };
        let classes = [
            (c.received, "received"),
            (c.duplicates, "duplicates"),
            (c.corrupted, "corrupted"),
            (c.stale, "stale"),
            (c.foreign, "foreign"),
            (c.warmup_arrivals, "of the warm-up"),
        ];
        let fault = c.balance().err().map(|e| e.to_string());
        let relation = if fault.is_some() { "≠?" } else { "=" };
        Balance {
            label: series.label(),
            sent: format!(
                "{} sent {relation} {}",
                format::count(c.sent),
                sum(&[(c.received, "received"), (c.lost, "lost")])
            ),
            arrivals: format!("{} arrivals {relation} {}", format::count(c.arrivals), sum(&classes)),
            fault,
        }
    }
}
