//! What the instrument itself adds: the error of its pace, and of its latency against a known delay.

use crate::figures::{Figure, alone, run};
use anyhow::{Context, Result};
use std::path::Path;
use usect_core::histogram::Histogram;
use usect_core::run::Run;
use usect_core::stats::Estimate;
use usect_report::store;

/// Rates at which the pace is looked at, the bound that is a figure, and its name.
const PACES: [(&str, u64, &str); 3] = [
    ("100k", 256, "pacing-within-256ns-100kpps"),
    ("500k", 256, "pacing-within-256ns-500kpps"),
    ("1M", 64, "pacing-within-64ns-1mpps"),
];

/// Share of departures that are late by no more than a bound, over rings inside the process: the paced loop and
/// nothing else. The platform's stalls are in it.
pub(crate) fn pacing(usect: &Path) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (rate, bound_ns, name) in PACES {
        let args = ["measure", "--tx", "mem:a", "--rx", "mem:a", "--rate", rate, "--warmup", "0.5", "--duration", "10"];
        let share = run(usect, &args, |folder, _| {
            let stored = store::open(folder).map_err(anyhow::Error::from)?;
            let lateness = stored.histograms.get("mem").and_then(|h| h.lateness.clone()).context("no lateness")?;
            let shares: Vec<String> =
                [16, 64, 256, 1_000, 10_000].map(|b| format!("{:.4} within {b} ns", within(&lateness, b))).into();
            eprintln!("lateness at {rate}: {}", shares.join(", "));
            Ok(within(&lateness, bound_ns))
        })?;
        figures.push(alone(name, "share", share));
    }
    Ok(figures)
}

fn within(histogram: &Histogram, bound_ns: u64) -> f64 {
    let cumulative = histogram.cumulative();
    let inside = cumulative.iter().take_while(|(ns, _)| *ns <= bound_ns).last().map_or(0, |(_, count)| *count);
    inside as f64 / histogram.samples() as f64
}

/// Client less truth where a spool holds each frame for 5 µs on the other core, outside stalls.
pub(crate) fn truth(usect: &Path) -> Result<Vec<Figure>> {
    let args = ["compare", "scenarios/spool.toml", "--warmup", "1", "--duration", "20"];
    let errors: Vec<Estimate> = run(usect, &args, |_, run: &Run| {
        let client = run.clients.first().context("the run has no client")?;
        Ok(client.errors_clean.clone())
    })?;
    let at = |percentile: &str| {
        let found = errors.iter().find(|e| e.quantile.to_string() == percentile).and_then(|e| e.value);
        found.map(|value| value.ns as f64).with_context(|| format!("no error at {percentile}"))
    };
    Ok(vec![alone("truth-error-mem-p50", "ns", at("p50")?), alone("truth-error-mem-p99", "ns", at("p99")?)])
}
