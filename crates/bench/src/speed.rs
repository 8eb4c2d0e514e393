//! How fast frames are made, and received, matched and recorded; beside testpmd's flow generator, which makes
//! frames of many flows, writes their headers and checksums, and stamps and counts nothing.

use crate::figures::{Figure, alone, beside, median};
use crate::lab::Lab;
use crate::peer;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use usect_core::buckets::Recorder;

/// Rounds in which ours and the peer's are measured in turn; the median round counts.
const ROUNDS: usize = 3;
const TESTPMD: &str = "testpmd flowgen";

/// Everything about speed.
pub(crate) fn all(usect: &Path) -> Result<Vec<Figure>> {
    let mut figures = generation(usect)?;
    let looped =
        |port: &str, frames| generate(usect, &["--tx", port, "--rx", port, "--tx-core", "1", "--rx-core", "1"], frames);
    figures.push(alone("gen-kernel-mpps", "Mpps", kernel(usect)?));
    figures.push(alone("loop-mem-mpps", "Mpps", looped("mem:a", 50_000_000)?));
    figures.push(alone("loop-ring-mpps", "Mpps", looped("dpdk:net_ring0", 50_000_000)?));
    figures.push(alone("record-ns", "ns", record_ns()));
    figures.push(alone("memory-1e9-mib", "MiB", memory_mib(usect)?));
    Ok(figures)
}

/// What is generated, and the device on which testpmd does the same.
struct Case<'a> {
    name: &'static str,
    args: &'a [&'a str],
    frames: u64,
    netns: Option<&'a str>,
    device: &'a str,
}

/// Sending only, beside testpmd on the same device; 64-byte frames, one core.
fn generation(usect: &Path) -> Result<Vec<Figure>> {
    let t0 = format!("t0@{}", Lab::TX);
    let (packet, xdp) = (format!("packet:{t0}"), format!("xdp:{t0}"));
    let (packet, xdp) = (["--tx-core", "1", "--tx", &packet], ["--tx-core", "1", "--tx", &xdp]);
    let null = ["--tx-core", "1", "--tx", "dpdk:net_null0", "--unstamped"];
    let case = |name, args, frames, netns, device| Case { name, args, frames, netns, device };
    let cases = [
        case("gen-null-mpps", &null[..4], 100_000_000, None, "net_null0,no-rx=1"),
        case("gen-null-nostamp-mpps", &null, 100_000_000, None, "net_null0,no-rx=1"),
        case("gen-packet-mpps", &packet, 4_000_000, Some(Lab::TX), "net_af_packet0,iface=t0,qdisc_bypass=1"),
        case("gen-xdp-mpps", &xdp, 6_000_000, Some(Lab::TX), "net_af_xdp0,iface=t0"),
    ];
    let mut figures = Vec::new();
    for Case { name, args, frames, netns, device } in cases {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            ours.push(generate(usect, args, frames)?);
            theirs.push(peer::testpmd(netns, device)?);
            let (mine, other) = (ours[round - 1], theirs[round - 1]);
            eprintln!("{name}, round {round} of {ROUNDS}: {mine:.2} Mpps, {TESTPMD} {other:.2} Mpps");
        }
        figures.push(beside(name, "Mpps", median(&mut ours), median(&mut theirs), TESTPMD));
    }
    Ok(figures)
}

/// Unpaced, every frame stamped and recorded in the kernel.
fn kernel(usect: &Path) -> Result<f64> {
    let (tx, rx) = (format!("kernel:t0@{}", Lab::TX), format!("kernel:r0@{}", Lab::RX));
    generate(usect, &["--tx", &tx, "--rx", &rx], 20_000_000)
}

fn command(usect: &Path, args: &[&str], frames: u64) -> Command {
    let mut command = Command::new(usect);
    command.args(["generate", "--json", "--frames", &frames.to_string()]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `usect generate`, in Mpps. Every frame must have arrived, where there is a receiver.
fn generate(usect: &Path, args: &[&str], frames: u64) -> Result<f64> {
    let output = command(usect, args, frames).output().context("usect could not be run")?;
    if !output.status.success() {
        bail!("usect generate {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    let document: Value = serde_json::from_slice(&output.stdout).context("usect printed no document")?;
    if document["lost"].as_u64().is_some_and(|lost| lost > 0) {
        bail!(
            "usect generate {}: {} of {frames} frames were lost, so it is no figure",
            args.join(" "),
            document["lost"]
        );
    }
    document["mpps"].as_f64().context("the document has no rate")
}

/// What counting one latency costs: values as a path gives them, in no order.
fn record_ns() -> f64 {
    const VALUES: u64 = 200_000_000;
    let recorder = Recorder::default();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let begun = Instant::now();
    for _ in 0..VALUES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 1 to 17 µs; the generator's own two instructions are in the figure.
        recorder.record(1_000 + (state >> 50));
    }
    let ns = begun.elapsed().as_nanos() as f64 / VALUES as f64;
    assert_eq!(recorder.counts().iter().sum::<u64>(), VALUES, "every value was counted");
    ns
}

/// Most memory that a run of 10⁹ samples has resident.
fn memory_mib(usect: &Path) -> Result<f64> {
    let args = ["--tx", "mem:a", "--rx", "mem:a", "--tx-core", "1", "--rx-core", "1"];
    let mut child = command(usect, &args, 1_000_000_000).stdout(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0_u64;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kib.unwrap_or(0));
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    if !ended.success() || most == 0 {
        bail!("the run of 10⁹ samples failed");
    }
    Ok(most as f64 / 1024.0)
}
