//! What the instrument itself adds: the error of its pace, and of its latency against a known delay.

use crate::figures::{Figure, alone, run};
use anyhow::{Context, Result};
use std::path::Path;
use usect_core::frame::FrameSize;
use usect_core::histogram::Histogram;
use usect_core::run::{ClientRecord, Run};
use usect_core::scenario::Case;
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

/// A convoy over 2 m of fiber inside the process: capacity and latency of its heads against physics, at the line rates
/// that frames of 60 and 1,518 bytes (without FCS) pass on two cores.
pub(crate) fn convoy(usect: &Path) -> Result<Vec<Figure>> {
    let args = ["convoy", "scenarios/fiber.toml", "--trains", "500"];
    run(usect, &args, |_, run: &Run| {
        let of = |size: u16, line: &str| {
            let wanted = |client: &&ClientRecord| {
                let Case { length_m, line_rate, frame_size, .. } = client.case;
                let rate = line_rate.map(|rate| rate.to_string());
                (length_m, rate.as_deref(), frame_size.map(FrameSize::with_fcs)) == (Some(2.0), Some(line), Some(size))
            };
            let client = run.clients.iter().find(wanted).context("the scenario lacks a case")?;
            let trains = client.measured.trains.as_ref().context("no trains")?;
            let (case, asked) = (client.case, &run.header.scenario);
            let (size, dut) = (case.traffic(&asked.traffic).frame_size, case.dut(&asked.dut));
            let fiber = dut.fiber().context("no fiber")?;
            let line = fiber.line_rate.frames_per_second(size);
            let capacity = trains.capacity.context("no capacity")?.value;
            let head = trains.head_ns.context("no latency")?.value;
            Ok::<_, anyhow::Error>(((capacity / line - 1.0).abs(), (head - fiber.delay_ns(size)).abs()))
        };
        let (small, large) = (of(64, "2.5 Gbit/s")?, of(1522, "10 Gbit/s")?);
        Ok(vec![
            alone("convoy-capacity-error-60", "share", small.0),
            alone("convoy-capacity-error-1518", "share", large.0),
            alone("convoy-latency-error-60", "ns", small.1),
            alone("convoy-latency-error-1518", "ns", large.1),
        ])
    })
}

/// The median of heads over 2 km of fiber, less what a calibration over 2 m found, against physics: the largest error
/// of all its cases.
pub(crate) fn calibrated(usect: &Path) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let text = std::fs::read_to_string("scenarios/fiber.toml")?;
    let over = |length: &str| -> Result<String> {
        let path = folder.path().join(format!("{length}.toml"));
        std::fs::write(&path, text.replace("length_m = [2.0, 2000.0]", &format!("length_m = [{length}]")))?;
        Ok(path.to_str().context("a path of another encoding")?.to_owned())
    };
    let file = folder.path().join("calibration.json");
    let file = file.to_str().context("a path of another encoding")?;
    let (near, far) = (over("2.0")?, over("2000.0")?);
    run(usect, &["calibrate", "convoy", &near, "--trains", "500", "--calibration", file], |_, _| Ok(()))?;
    let args = ["convoy", &far, "--trains", "500", "--calibration", file];
    let worst = run(usect, &args, |_, run: &Run| {
        let scenario = &run.header.scenario;
        let error = |client: &ClientRecord| {
            let expected = scenario.physics_ns(&client.case).context("physics is unknown")?;
            let corrected = client.calibrated.as_ref().context("it was not calibrated")?.median_ns.value;
            eprintln!("{}: calibrated, off by {:+.0} ns", client.client, corrected - expected);
            Ok::<f64, anyhow::Error>((corrected - expected).abs())
        };
        run.clients.iter().map(error).try_fold(0.0, |worst: f64, error| Ok(worst.max(error?)))
    })?;
    Ok(vec![alone("calibrated-error-p50", "ns", worst)])
}
