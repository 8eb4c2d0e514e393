//! The figures by name.

use crate::lab::Lab;
use crate::peer;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use usect_core::run::{ClientRecord, Run};

/// A figure of ours, with a peer's beside it where there is one.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peer: Option<f64>,
    pub(crate) peer_name: Option<&'static str>,
    pub(crate) ratio: Option<f64>,
}

/// Rounds in which ours and the peer's are measured in turn; the median round counts.
const ROUNDS: usize = 5;
const SECONDS: u32 = 5;
/// How many frames our ping-pong sends: about as many per second as the peer.
const RATE: &str = "100k";
/// Payload of a 64-byte frame.
const PAYLOAD: usize = 18;
/// One core each for the two ends, the same for ours and the peer's.
const CORES: (usize, usize) = (1, 0);

/// Our polling UDP ping-pong against `sockperf ping-pong --nonblocked`: both send the next frame when the last
/// one is back. In turn, on the same veth pair, cores and size.
pub(crate) fn round_trip(usect: &Path) -> Result<Vec<Figure>> {
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        let theirs = peer::ping_pong(PAYLOAD, SECONDS, CORES.0, CORES.1)?;
        let seconds = SECONDS.to_string();
        let ours = measure(usect, "udp", &["--ping-pong", "--rate", RATE, "--warmup", "0.4", "--duration", &seconds])?;
        let [p50, peer_p50, p99, peer_p99] = [at(&ours, "p50")?, theirs.p50_ns, at(&ours, "p99")?, theirs.p99_ns];
        eprintln!(
            "round {round} of {ROUNDS}: p50 {p50} ns, sockperf {peer_p50} ns; p99 {p99} ns, sockperf {peer_p99} ns"
        );
        rounds.push([p50, peer_p50, p99, peer_p99]);
    }
    let column = |i: usize| median(&mut rounds.iter().map(|r| r[i]).collect::<Vec<f64>>());
    let figure = |name, ours, peer| beside(name, "ns", ours, peer, "sockperf ping-pong --nonblocked");
    Ok(vec![figure("rtt-udp-poll-p50", column(0), column(1)), figure("rtt-udp-poll-p99", column(2), column(3))])
}

/// A figure that no peer has.
pub(crate) fn alone(name: &'static str, unit: &'static str, ours: f64) -> Figure {
    Figure { name, unit, ours, peer: None, peer_name: None, ratio: None }
}

/// A figure beside a peer's.
pub(crate) fn beside(name: &'static str, unit: &'static str, ours: f64, peer: f64, peer_name: &'static str) -> Figure {
    Figure { name, unit, ours, peer: Some(peer), peer_name: Some(peer_name), ratio: Some(ours / peer) }
}

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// 100% of frames stamped at 1 Mpps over the bare wire, and what one way takes.
pub(crate) fn kernel_one_way(usect: &Path) -> Result<Vec<Figure>> {
    let client = measure(usect, "kernel", &["--rate", "1 Mpps", "--warmup", "1", "--duration", "10"])?;
    let counts = client.measured.counts;
    let share = counts.stamped as f64 / counts.sent as f64;
    Ok(vec![alone("kernel-stamped-share-1mpps", "share", share), alone("kernel-oneway-p50", "ns", at(&client, "p50")?)])
}

/// Runs `usect measure` over the bench's lab.
fn measure(usect: &Path, engine: &str, args: &[&str]) -> Result<ClientRecord> {
    let port = |netns: &str, interface: &str, address: &str, port: u16| match engine {
        "udp" => format!("udp:{address}:{port}@{netns}"),
        _ => format!("{engine}:{interface}@{netns}"),
    };
    let (tx, rx) = (port(Lab::TX, "t0", Lab::TX_ADDRESS, 9000), port(Lab::RX, "r0", Lab::RX_ADDRESS, 9001));
    let (tx_core, rx_core) = (CORES.0.to_string(), CORES.1.to_string());
    let ports = ["measure", "--tx", &tx, "--rx", &rx, "--tx-core", &tx_core, "--rx-core", &rx_core];
    run(usect, &[&ports[..], args].concat(), |_, run| run.clients.first().cloned().context("the run has no client"))
}

/// One quick run of usect, and what is to be known of it and of its folder, which is gone afterwards.
pub(crate) fn run<T>(usect: &Path, args: &[&str], take: impl FnOnce(&Path, &Run) -> Result<T>) -> Result<T> {
    let folder = std::env::temp_dir().join(format!("usect-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(usect);
    // What is taken apart is taken apart once.
    let once: &[&str] = if args.first() == Some(&"dissect") { &[] } else { &["--runs", "1"] };
    command.args(args).args(once).args(["--json", "--quick", "--out"]).arg(&folder);
    let mut taken = || {
        let output = command.stderr(Stdio::piped()).output().context("usect could not be run")?;
        if !output.status.success() {
            bail!("usect {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        let json = serde_json::from_slice(&output.stdout).context("usect printed no run")?;
        let run: Run = usect_core::stored::read(json).map_err(anyhow::Error::msg)?;
        Ok((folder.join("runs").join(&run.header.id), run))
    };
    let taken = taken().and_then(|(folder, run)| take(&folder, &run));
    std::fs::remove_dir_all(&folder)?;
    taken
}

/// A percentile of a client's latency, in nanoseconds.
fn at(client: &ClientRecord, percentile: &str) -> Result<f64> {
    let found = client.measured.latency.quantiles.iter().find(|e| e.quantile.to_string() == percentile);
    let value = found.and_then(|e| e.value).with_context(|| format!("too few samples for {percentile}"))?;
    Ok(value.ns as f64)
}
