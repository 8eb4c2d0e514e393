//! A host taken apart, in words: the paper's table, ours beside it; what a request is made up of.

pub(crate) mod page;

use crate::format;
use usect_core::dissect::{Dissection, Row, Share};
use usect_core::stats::{Estimate, Quantile};

/// What it is.
pub(crate) const SETUP: &str = "the host taken apart, as in paper 002";

/// Names of the columns, which are the paper's.
pub(crate) const HEADS: [&str; 5] = ["minimum", "median", "99.9th", "tail", "observed"];

/// What they mean.
pub(crate) const READING: &str = "minimum, median, 99.9th, tail: the smallest value, the 50th and 99.9th percentile, the largest value (paper 002, Table 1). \
    Beneath them the paper's, of other hosts and other hardware: for orientation, not to compare. n/a: too few samples for a 95% \
    interval.";

/// The figures of a row.
pub(crate) fn cells(row: &Row) -> Option<[String; 5]> {
    let latency = row.latency.as_ref()?;
    let of = |share: f64| {
        let found =
            latency.quantiles.iter().find(|estimate: &&Estimate| Some(estimate.quantile) == Quantile::new(share));
        found.and_then(|estimate| estimate.value).map_or("n/a".to_owned(), |value| format::ns(value.ns))
    };
    Some([
        format::ns(latency.min_ns as i64),
        of(0.5),
        of(0.999),
        format::ns(latency.max_ns as i64),
        format!("{} in {}", short(latency.samples), format::ns((row.seconds * 1e9) as i64)),
    ])
}

/// Those of the paper that stand beneath a row's: the first of its experiment that was measured.
pub(crate) fn paper_cells(dissection: &Dissection, row: &Row) -> Option<[String; 5]> {
    let first = dissection.rows.iter().find(|other| other.experiment == row.experiment && other.latency.is_some())?;
    let row = row.paper().filter(|_| std::ptr::eq(first, row))?;
    let ns = |ns: f64| if ns < 100.0 && ns.fract() > 0.0 { format!("{ns} ns") } else { format::ns(ns as i64) };
    Some([ns(row.min_ns), ns(row.median_ns), ns(row.p999_ns), ns(row.tail_ns), row.observation.to_owned()])
}

/// A row's name among its figures.
pub(crate) fn label(row: &Row) -> String {
    let mark = if row.disturbed.is_some() { " (disturbed)" } else { "" };
    format!("{}{mark}", row.label())
}

/// What a row was disturbed by, while it was measured.
pub(crate) fn disturbed(row: &Row) -> Option<(String, String)> {
    let what = row.disturbed.as_ref()?;
    Some((
        row.label(),
        format!("DISTURBED while it was measured: {what}; measure it again with --only {}", row.experiment),
    ))
}

/// `1.20 M`, of many samples.
fn short(samples: u64) -> String {
    match samples {
        n if n >= 10_000_000 => format!("{:.0} M", n as f64 / 1e6),
        n if n >= 1_000_000 => format!("{:.1} M", n as f64 / 1e6),
        n => format::count(n),
    }
}

/// What parts are of a whole: each with its time and its share of it.
pub(crate) fn shares(shares: &[Share]) -> Vec<(String, String, String)> {
    let all: f64 = shares.iter().map(|share| share.ns).sum();
    let of = |share: &Share| {
        let part = if all > 0.0 { format!("{:.0} %", 100.0 * share.ns / all) } else { "n/a".to_owned() };
        (share.name.clone(), format!("{}, {part}", format::ns(share.ns.round() as i64)), share.from.clone())
    };
    shares.iter().map(of).collect()
}

/// What a whole takes.
pub(crate) fn total(shares: &[Share]) -> String {
    format::ns(shares.iter().map(|share| share.ns).sum::<f64>().round() as i64)
}
