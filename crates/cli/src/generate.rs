//! `usect generate`: frames as fast as a port takes them.

use crate::args::Generate;
use crate::{asked, say, session};
use anyhow::{Result, bail};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use usect_core::port_name::Engine;
use usect_core::scenario::{ClientSpec, CoreSpec, TrafficSpec};
use usect_rig::generate::{Generated, generate};

/// The one document of `--json`, documented in docs/run-json.md.
#[derive(Serialize)]
struct Document {
    tx: String,
    rx: Option<String>,
    frame_size: u16,
    stamped: bool,
    frames: u64,
    seconds: f64,
    mpps: f64,
    received: Option<u64>,
    lost: Option<u64>,
    latency_p50_ns: Option<i64>,
    notes: Vec<String>,
}

pub(crate) fn run(args: &Generate) -> Result<ExitCode> {
    if args.rx.as_ref().is_some_and(|rx| rx.engine != args.tx.engine) {
        bail!("--tx and --rx use different engines: one client has one engine");
    }
    if args.unstamped && (args.rx.is_some() || args.tx.engine == Engine::Kernel) {
        bail!("--unstamped frames can't be matched: leave out --rx, and use another engine than kernel");
    }
    let _lock = session::alone()?;
    let stop = session::stop_on_signal()?;
    let rate = "1".parse().expect("a rate");
    let client = ClientSpec::between(args.tx.clone(), args.rx.clone().unwrap_or_else(|| args.tx.clone()));
    let traffic = TrafficSpec::evenly(args.size, rate);
    let cores = CoreSpec { sender: args.tx_core, receiver: args.rx_core, ..CoreSpec::default() };
    let scenario = asked::between_ports(client, traffic, cores, args.dpdk.clone().into());
    scenario.check().map_err(|(_, message)| anyhow::anyhow!(message))?;
    let generated = generate(&scenario, args.frames, args.rx.is_some(), !args.unstamped, stop.clone())?;
    show(args, &generated)?;
    if stop.load(Relaxed) { Ok(ExitCode::from(session::INTERRUPTED)) } else { Ok(ExitCode::SUCCESS) }
}

fn show(args: &Generate, generated: &Generated) -> Result<()> {
    let measured = generated.measured.as_ref();
    let median = measured.and_then(|m| usect_core::stats::estimates(&m.latency)[0].value);
    let document = Document {
        tx: args.tx.to_string(),
        rx: args.rx.as_ref().map(ToString::to_string),
        frame_size: args.size.with_fcs(),
        stamped: !args.unstamped,
        frames: generated.frames,
        seconds: generated.ns as f64 / 1e9,
        mpps: if generated.ns == 0 { 0.0 } else { generated.frames as f64 * 1e3 / generated.ns as f64 },
        received: measured.map(|m| m.counts.received),
        lost: measured.map(|m| m.counts.lost),
        latency_p50_ns: median.map(|value| value.ns),
        notes: generated.notes.clone(),
    };
    if args.json {
        return say(serde_json::to_string_pretty(&document)?);
    }
    let what = if args.unstamped { "unstamped" } else { "numbered and stamped" };
    say(format!(
        "{:.3} Mpps: {} frames of {} bytes, {what}, in {:.3} s",
        document.mpps, document.frames, document.frame_size, document.seconds
    ))?;
    if let (Some(received), Some(lost)) = (document.received, document.lost) {
        say(format!("{received} received, matched and recorded; {lost} lost"))?;
    }
    say(document.notes.join("; "))
}
