//! A host's parts as usect measures them, beside the shortest C programs that measure the same.

use crate::figures::{Figure, beside, median, run};
use anyhow::{Context, Result, bail, ensure};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds, in which the two take turns.
const ROUNDS: usize = 3;
/// Of each, in a round.
const SECONDS: &str = "2";
const SOURCE: &str = "crates/bench/peers/parts.c";
const PEER: &str = "target/bench-parts";
const NAME: &str = "a small C program";
/// The cores that usect takes on a host with two: the last measures, the first answers.
const CORES: [&str; 2] = ["1", "0"];

/// Readings of the counter, two processes on one core and on two, memcached.
pub(crate) fn all(usect: &Path) -> Result<Vec<Figure>> {
    let compiled =
        Command::new("cc").args(["-O2", "-Wall", "-o", PEER, SOURCE]).status().context("cc could not be run")?;
    ensure!(compiled.success(), "{SOURCE} could not be compiled");
    let [own, other] = CORES;
    let server = Memcached::start()?;
    let address = format!("127.0.0.1:{}", server.port);
    Ok(vec![
        turns(usect, "tsc-gap-user-p50", &["--only", "1c,1d"], &["tsc", own, SECONDS])?,
        turns(usect, "ipc-rtt-same-core-p50", &["--only", "2a"], &["ipc", own, own, SECONDS])?,
        turns(usect, "ipc-rtt-other-core-p50", &["--only", "2b"], &["ipc", own, other, SECONDS])?,
        turns(
            usect,
            "memcached-get-p50",
            &["--only", "6b", "--memcached", &address],
            &["memcached", &server.port, own, SECONDS],
        )?,
    ])
}

/// The medians of rounds in which usect and the peer take turns.
fn turns(usect: &Path, name: &'static str, args: &[&str], peer: &[&str]) -> Result<Figure> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        theirs.push(asked(peer)?);
        let args = [&["dissect", "--lasts", "2s"], args].concat();
        ours.push(run(usect, &args, |_, run| {
            let rows =
                run.header.dissect.as_ref().map(|dissection| &dissection.rows).context("nothing was taken apart")?;
            rows.iter().find_map(|row| row.median_ns()).with_context(|| format!("{name}: {rows:?}"))
        })?);
        eprintln!("{name}, round {round} of {ROUNDS}: {} ns, {NAME} {} ns", ours[round - 1], theirs[round - 1]);
    }
    Ok(beside(name, "ns", median(&mut ours), median(&mut theirs), NAME))
}

/// The median that the peer finds.
fn asked(args: &[&str]) -> Result<f64> {
    let output = Command::new(PEER).args(args).stdin(Stdio::null()).output().context("the peer could not be run")?;
    if !output.status.success() {
        bail!("the peer failed at {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8_lossy(&output.stdout).trim().parse().context("the peer printed no number")
}

/// A memcached on a port of its own; ended when dropped.
struct Memcached {
    child: Child,
    port: String,
}

impl Memcached {
    fn start() -> Result<Memcached> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let unpacked = "target/memcached/usr";
        let path = format!("{}:{unpacked}/bin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", "1", "-m", "64", "-u", "nobody"]);
        command.env("PATH", path).env("LD_LIBRARY_PATH", format!("{unpacked}/lib/x86_64-linux-gnu"));
        let child = command.stdin(Stdio::null()).spawn().context("memcached could not be started")?;
        let server = Memcached { child, port };
        let begun = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{}", server.port)).is_err() {
            ensure!(begun.elapsed() < Duration::from_secs(5), "memcached does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
