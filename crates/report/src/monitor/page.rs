//! The page of a monitor's log.

use super::words;
use crate::format;
use crate::grid::{Entry as Cell, Grid, Line};
use crate::page::{self, PageError};
use crate::plots::Distribution;
use crate::view::{Group, groups};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use serde::Serialize;
use usect_core::histogram::Histogram;
use usect_core::monitor::{Alarm, Convoy, Entry, Interval, Start};
use usect_core::stats::{self, Estimate, Quantile};
use usect_core::tracker::Counts;

/// Medians that can be drawn; of more, those of intervals are.
const MOST_MEDIANS: usize = 20_000;
/// Intervals that can be drawn; of more, several are one.
const MOST_INTERVALS: usize = 3_000;
/// Percentiles of a day.
const OF_A_DAY: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The page of a log: what was measured and when, what alarms there were. `None` where nothing was measured.
pub fn html(log: &[Entry]) -> Result<Option<String>, PageError> {
    let Some(logged) = Logged::of(log) else { return Ok(None) };
    page::render(&page::MONITOR, View::of(&logged), &Plots::of(&logged)).map(Some)
}

/// A log by what its entries are: of the last start, and of those that can be compared with it.
struct Logged<'a> {
    entries: &'a [Entry],
    /// Intervals that can't.
    others: u64,
    /// The last one.
    start: &'a Start,
    intervals: Vec<&'a Interval>,
    convoys: Vec<&'a Convoy>,
    alarms: Vec<&'a Alarm>,
}

impl<'a> Logged<'a> {
    fn of(entries: &'a [Entry]) -> Option<Logged<'a>> {
        let start = entries.iter().rev().find_map(|entry| match entry {
            Entry::Start(start) => Some(&**start),
            _ => None,
        })?;
        let (intervals, convoys, alarms) = Default::default();
        let mut logged = Logged { entries, others: 0, start, intervals, convoys, alarms };
        let mut alike = false;
        for entry in entries {
            match entry {
                Entry::Start(other) => alike = other.is_like(start),
                Entry::Interval(_) if !alike => logged.others += 1,
                Entry::Interval(interval) => logged.intervals.push(interval),
                Entry::Convoy(convoy) if alike => logged.convoys.push(convoy),
                Entry::Alarm(alarm) if alike => logged.alarms.push(alarm),
                _ => {}
            }
        }
        (!logged.intervals.is_empty()).then_some(logged)
    }

    /// All samples, or those of some intervals.
    fn pooled<'i>(intervals: impl Iterator<Item = &'i &'a Interval>) -> (Histogram, Counts)
    where
        'a: 'i,
    {
        let mut pooled = (Histogram::default(), Counts::default());
        for interval in intervals {
            pooled.0.add(&interval.histogram.histogram());
            pooled.1.add(&interval.counts);
        }
        pooled
    }
}

/// A time in this host's zone, as the chart library reads it.
fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

fn minute(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn day(at: Timestamp) -> civil::Date {
    at.to_zoned(TimeZone::system()).date()
}

fn after(at: Timestamp, seconds: f64) -> Timestamp {
    SignedDuration::try_from_secs_f64(seconds).ok().and_then(|later| at.checked_add(later).ok()).unwrap_or(at)
}

/// What the page says besides its plots.
#[derive(Serialize)]
struct View {
    title: String,
    setup: String,
    span: String,
    says: Vec<String>,
    alarms: Grid,
    days: Grid,
    convoys: Option<Grid>,
    events: Grid,
    zone: String,
    medians: &'static str,
    environment: Vec<Group>,
    scenario: String,
    version: &'static str,
}

impl View {
    fn of(logged: &Logged) -> View {
        let (start, all) = (logged.start, Logged::pooled(logged.intervals.iter()));
        let scenario = &start.scenario;
        let traffic = usect_core::trial::Traffic::of(&scenario.traffic, &scenario.protocol);
        let client = &scenario.clients[0].name;
        View {
            title: scenario.title.clone(),
            setup: format!("Monitored by {client}: {}", format::traffic(&traffic, &scenario.traffic)),
            span: span(logged),
            says: says(logged, &all),
            alarms: alarms(logged),
            days: days(logged),
            convoys: (!logged.convoys.is_empty()).then(|| convoys(logged)),
            events: events(logged),
            zone: TimeZone::system().iana_name().unwrap_or("this host's time zone").to_owned(),
            medians: if Plots::by_step(logged) { "Medians of seconds" } else { "Medians of intervals" },
            environment: groups(&start.environment),
            scenario: toml::to_string_pretty(scenario).unwrap_or_else(|e| format!("# can't be shown: {e}")),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// From when to when, and how much of that was measured.
fn span(logged: &Logged) -> String {
    let first = logged.intervals.first().map_or(logged.start.at, |first| first.at);
    let last = logged.intervals.last().map_or(first, |last| after(last.at, last.lasted_s));
    // Frames that are sent first, and not measured, are time that was not.
    let sent: u64 = logged.intervals.iter().map(|interval| interval.counts.sent).sum();
    let measured = sent as f64 / logged.start.instrument.rate.frames_per_second();
    let all = last.duration_since(first).as_secs_f64().max(measured);
    format!(
        "{} to {}; latency was measured {} of the time, in {} intervals",
        minute(first),
        minute(last),
        format::share(measured / all.max(1e-9)),
        format::count(logged.intervals.len() as u64)
    )
}

/// What a reader should take away.
fn says(logged: &Logged, (latency, counts): &(Histogram, Counts)) -> Vec<String> {
    let shifts = logged.alarms.iter().filter(|alarm| matches!(alarm, Alarm::Shift { .. })).count();
    let level = logged.intervals.iter().rev().find_map(|interval| interval.level_ns);
    let level = level.map(|ns| {
        let bound = logged.start.most_writes(ns);
        let bound = bound.map(|bound| format!("; writes are bound by {} a second", format::count(bound as u64)));
        format!("latency is usually {} now{}", words::level(ns, logged.start), bound.unwrap_or_default())
    });
    let shifts = match shifts {
        0 => "its level did not shift".to_owned(),
        1 => "its level shifted once".to_owned(),
        several => format!("its level shifted {several} times"),
    };
    let lost = match counts.lost {
        0 => format!("none of {} frames was lost", format::count(counts.sent)),
        lost => format!("{} of {} frames were lost", format::count(lost), format::count(counts.sent)),
    };
    let tail =
        stats::estimates(latency).into_iter().rev().find_map(|estimate| Some((estimate.quantile, estimate.value?)));
    let tail = tail.map(|(quantile, value)| {
        format!("{quantile} of all is {}, the largest {}", format::ns(value.ns), format::ns(latency.max()))
    });
    let others = (logged.others > 0)
        .then(|| format!("{} intervals of another path, client or frames are left out", format::count(logged.others)));
    let failures = logged.entries.iter().filter(|entry| matches!(entry, Entry::Failure { .. })).count();
    let failures =
        (failures > 0).then(|| format!("at times it could not be measured: see starts and stops ({failures})"));
    level.into_iter().chain([shifts, lost]).chain(tail).chain(failures).chain(others).collect()
}

/// What a line is about.
fn name(text: String) -> Cell {
    Cell { kind: "name", text, small: None }
}

fn cells(lines: impl Iterator<Item = Vec<Cell>>, heads: &[&str]) -> Grid {
    let lines = lines.map(|cells| Line { swatch: None, cells });
    Grid::new(heads.iter().map(|head| (*head).to_owned()).collect(), lines.collect())
}

fn alarms(logged: &Logged) -> Grid {
    let line = |alarm: &&Alarm| vec![name(minute(alarm.at())), Cell::text(words::alarm(alarm, logged.start))];
    cells(logged.alarms.iter().map(line), &["since", "alarm"])
}

/// A line per day.
fn days(logged: &Logged) -> Grid {
    let quantiles = OF_A_DAY.map(|share| Quantile::new(share).expect("constant share"));
    let names: Vec<String> = quantiles.iter().map(ToString::to_string).collect();
    let mut heads = vec!["day", "sent", "lost"];
    heads.extend(names.iter().map(String::as_str));
    heads.extend(["largest", "shifts"]);
    let lines = logged.intervals.chunk_by(|a, b| day(a.at) == day(b.at)).map(|intervals| {
        let date = day(intervals[0].at);
        let (latency, counts) = Logged::pooled(intervals.iter());
        let cumulative = latency.cumulative();
        let shifts = logged.alarms.iter().filter(|a| matches!(a, Alarm::Shift { .. }) && day(a.at()) == date).count();
        let mut line = vec![name(date.to_string())];
        line.extend([counts.sent, counts.lost].map(|frames| Cell::number(format::count(frames))));
        line.extend(quantiles.map(|quantile| figure(&stats::estimate(&cumulative, quantile))));
        line.extend([Cell::number(format::ns(latency.max())), Cell::number(shifts.to_string())]);
        line
    });
    cells(lines, &heads)
}

fn figure(estimate: &Estimate) -> Cell {
    match &estimate.value {
        Some(value) => Cell::number(format::ns(value.ns)).with(format::interval(value, format::ns)),
        None => Cell::missing("n/a", format!("needs {}", format::count(estimate.needs))),
    }
}

fn convoys(logged: &Logged) -> Grid {
    let line = |convoy: &&Convoy| {
        let capacity = convoy.trains.bits(convoy.frame_size).map(|[capacity, ..]| capacity);
        let capacity = capacity.map_or_else(
            || Cell::missing("n/a", "no train arrived whole"),
            |c| {
                let small = format::bounded(&format::bits(c.low), &format::bits(c.high));
                let bound = if convoy.trains.sender_bound { "; or more: the sender is the bottleneck" } else { "" };
                Cell::number(format::bits(c.value)).with(format!("{small}{bound}"))
            },
        );
        let head = convoy.trains.head_ns.map(|head| format::ns(head.value.round() as i64));
        vec![
            name(minute(convoy.at)),
            Cell::number(convoy.frame_size.with_fcs().to_string()),
            capacity,
            Cell::number(head.unwrap_or_else(|| "–".to_owned())),
            Cell::number(convoy.trains.loss.map_or_else(|| "–".to_owned(), |loss| format::share(loss.value))),
        ]
    };
    cells(logged.convoys.iter().map(line), &["when", "bytes", "capacity", "heads, median", "lost"])
}

/// Starts, stops and failures.
fn events(logged: &Logged) -> Grid {
    let line = |entry: &Entry| {
        let what = match entry {
            Entry::Start(start) => format!("started: {}, usect {}", start.scenario.title, start.usect),
            Entry::Stop { .. } => "stopped".to_owned(),
            Entry::Failure { why, .. } => format!("not measured: {why}"),
            _ => return None,
        };
        Some(vec![name(minute(entry.at())), Cell::text(what)])
    };
    cells(logged.entries.iter().filter_map(line), &["when", "what"])
}

/// What the page's script draws, as data. Field names are the script's.
#[derive(Serialize)]
struct Plots<'a> {
    medians: Row,
    intervals: Vec<IntervalPoint>,
    convoys: Vec<ConvoyPoint<'a>>,
    alarms: Vec<AlarmPoint>,
    latency: Distribution,
}

/// Values over time; a gap where there is none.
#[derive(Serialize, Default)]
struct Row {
    at: Vec<String>,
    ns: Vec<Option<i64>>,
}

#[derive(Serialize)]
struct IntervalPoint {
    from: String,
    to: String,
    p99: Option<i64>,
    p999: Option<i64>,
    max: u64,
    level: Option<f64>,
    sent: u64,
    lost: u64,
}

#[derive(Serialize)]
struct ConvoyPoint<'a> {
    at: String,
    bits: Option<usect_core::stats::Bounded>,
    #[serde(flatten)]
    convoy: &'a Convoy,
}

#[derive(Serialize)]
struct AlarmPoint {
    at: String,
    shift: bool,
    text: String,
}

impl<'a> Plots<'a> {
    /// Whether the medians of steps can be drawn.
    fn by_step(logged: &Logged) -> bool {
        logged.intervals.iter().map(|interval| interval.medians.len()).sum::<usize>() <= MOST_MEDIANS
    }

    fn of(logged: &Logged<'a>) -> Plots<'a> {
        let alarm = |alarm: &&Alarm| AlarmPoint {
            at: local(alarm.at()),
            shift: matches!(alarm, Alarm::Shift { .. }),
            text: words::alarm(alarm, logged.start),
        };
        let convoy = |convoy: &&'a Convoy| ConvoyPoint {
            at: local(convoy.at),
            bits: convoy.trains.bits(convoy.frame_size).map(|[bits, ..]| bits),
            convoy,
        };
        Plots {
            medians: Row::of(logged),
            intervals: logged
                .intervals
                .chunks(logged.intervals.len().div_ceil(MOST_INTERVALS))
                .map(IntervalPoint::of)
                .collect(),
            convoys: logged.convoys.iter().map(convoy).collect(),
            alarms: logged.alarms.iter().map(alarm).collect(),
            latency: Distribution::of(&Logged::pooled(logged.intervals.iter()).0),
        }
    }
}

impl Row {
    fn of(logged: &Logged) -> Row {
        let (mut row, by_step) = (Row::default(), Plots::by_step(logged));
        for interval in &logged.intervals {
            let steps = if by_step { interval.medians.len() } else { 0 };
            for (number, median) in interval.medians.iter().take(steps).enumerate() {
                row.push(after(interval.at, number as f64 * interval.step_s), *median);
            }
            if !by_step {
                row.push(interval.at, interval.median_ns().map(|ns| ns as i64));
            }
        }
        row
    }

    fn push(&mut self, at: Timestamp, ns: Option<i64>) {
        self.at.push(local(at));
        self.ns.push(ns);
    }
}

impl IntervalPoint {
    /// Of intervals in a row, as one.
    fn of(intervals: &[&Interval]) -> IntervalPoint {
        let (first, last) = (intervals[0], intervals[intervals.len() - 1]);
        let (latency, counts) = Logged::pooled(intervals.iter());
        let cumulative = latency.cumulative();
        let figure = |share| {
            let quantile = Quantile::new(share).expect("constant share");
            stats::estimate(&cumulative, quantile).value.map(|value| value.ns)
        };
        IntervalPoint {
            from: local(first.at),
            to: local(after(last.at, last.lasted_s)),
            p99: figure(0.99),
            p999: figure(0.999),
            max: latency.max(),
            level: last.level_ns,
            sent: counts.sent,
            lost: counts.lost,
        }
    }
}
