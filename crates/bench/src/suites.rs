//! What sweeps and suites of benchmarks show of themselves.

use crate::figures::{Figure, alone, beside, run};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Seconds of a final trial.
const FINAL: &str = "6s";

/// The share of the frames stamped at 1 Mpps, and the trial time of MLRsearch beside plain binary search's for bounds as near.
pub(crate) fn all(usect: &Path) -> Result<Vec<Figure>> {
    let args = ["--client", "kernel", "--sizes", "64", "--rates", "1000k", "--lasts", "5s"];
    let share = run(usect, &[&["sweep", "scenarios/metherxis.toml"], &args[..]].concat(), |_, run| {
        let counts = run.trials.first().context("nothing was measured")?.measured.counts;
        ensure!(counts.sent > 0, "the sender could not offer 1 Mpps");
        Ok(counts.stamped as f64 / counts.sent as f64)
    })?;
    let (mlr, binary) = (trial_time(usect, "mlr")?, trial_time(usect, "binary")?);
    Ok(vec![
        alone("stamped-share-1mpps-64", "share", share),
        beside("mlrsearch-trial-time", "s", mlr, binary, "plain binary search"),
    ])
}

/// Seconds of traffic that a search takes to find the throughput of a token bucket.
fn trial_time(usect: &Path, search: &str) -> Result<f64> {
    let line = ["--line-rate", "400 Mbit/s", "--sizes", "64", "--benchmark", "throughput"];
    let how = ["--search", search, "--trial", FINAL, "--width", "0.005"];
    run(usect, &[&["rfc2544", "scenarios/token-bucket.toml"], &line[..], &how].concat(), |_, run| {
        let record = run.header.rfc2544.as_ref().context("no suite was run")?;
        let size = record.findings.clients.first().and_then(|client| client.sizes.first());
        let found = size.and_then(|size| size.throughput.first()).context("no throughput was found")?;
        Ok(found.trial_s)
    })
}
