//! The peers: sockperf for round trips, DPDK's testpmd for generation.

use crate::lab::Lab;
use anyhow::{Context, Result, bail};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Percentiles of the round trip, in nanoseconds.
#[derive(Debug, PartialEq)]
pub(crate) struct Sockperf {
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
}

const PORT: &str = "11111";

/// Ping-pong without blocking, payload of `bytes`, client on `client_core`, server on `server_core`.
pub(crate) fn ping_pong(bytes: usize, seconds: u32, client_core: usize, server_core: usize) -> Result<Sockperf> {
    let mut server =
        Server(pinned(Lab::RX, server_core, &["server", "-i", Lab::RX_ADDRESS, "-p", PORT, "--nonblocked"]).spawn()?);
    std::thread::sleep(Duration::from_millis(500));
    if let Some(status) = server.0.try_wait()? {
        bail!("sockperf's server ended at once ({status})");
    }
    let (bytes, seconds) = (bytes.to_string(), seconds.to_string());
    let args =
        ["ping-pong", "-i", Lab::RX_ADDRESS, "-p", PORT, "--nonblocked", "--full-rtt", "-m", &bytes, "-t", &seconds];
    let output =
        pinned(Lab::TX, client_core, &args).stdout(Stdio::piped()).output().context("sockperf could not be run")?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn pinned(netns: &str, core: usize, args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns, "taskset", "-c", &core.to_string(), "sockperf"]).args(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Lines such as `sockperf: ---> percentile 99.000 =    5.123`, with colour codes around.
fn parse(text: &str) -> Result<Sockperf> {
    let percentile = |p: &str| -> Result<f64> {
        let line = text.lines().find(|l| l.contains(&format!("percentile {p}")));
        let figure = line.and_then(|l| l.split('=').nth(1)).map(|f| f.trim().trim_end_matches("\u{1b}[0m").trim());
        figure.and_then(|f| f.parse().ok()).with_context(|| format!("sockperf printed no percentile {p}"))
    };
    Ok(Sockperf { p50_ns: percentile("50.000")? * 1000.0, p99_ns: percentile("99.000")? * 1000.0 })
}

/// testpmd's flow generator on a virtual device, in Mpps: the middle one of its reports of a few seconds.
/// With `no-rx` or nothing to receive, its receiving half has nothing to do.
pub(crate) fn testpmd(netns: Option<&str>, device: &str) -> Result<f64> {
    let inside = netns.map_or(Vec::new(), |netns| vec!["ip", "netns", "exec", netns]);
    let eal = ["timeout", "6", "dpdk-testpmd", "-l", "0,1", "--no-huge", "-m", "512", "--no-pci", "--no-shconf"];
    let own = ["--vdev", device, "--", "--forward-mode=flowgen", "--auto-start", "--stats-period=1"];
    let words: Vec<&str> = [&inside[..], &eal, &own, &["--total-num-mbufs=8192"]].concat();
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let text = output.context("testpmd could not be run")?.stdout;
    median_rate(&String::from_utf8_lossy(&text)).with_context(|| format!("testpmd reported no rate on {device}"))
}

/// Of lines such as `  Tx-pps:     17611925          Tx-bps:            0`, those of its start and end left out.
fn median_rate(text: &str) -> Option<f64> {
    let rates = text.lines().filter_map(|line| line.trim().strip_prefix("Tx-pps:")?.split_whitespace().next());
    let mut rates: Vec<f64> = rates.filter_map(|pps| pps.parse().ok()).filter(|&pps| pps > 0.0).collect();
    if rates.is_empty() { None } else { Some(crate::figures::median(&mut rates) / 1e6) }
}

/// The server; ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_middle_rate_counts() {
        let text = "  Tx-pps:            0          Tx-bps:            0\n  Tx-pps:     17611925          Tx-bps:            0\n";
        assert_eq!(super::median_rate(text), Some(17.611925));
        assert_eq!(super::median_rate("Tx-pps: none"), None);
    }

    #[test]
    fn percentiles_are_found() {
        let text = "sockperf: ---> <MAX> observation =  160.022\nsockperf: ---> percentile 99.000 =    3.301\nsockperf: ---> percentile 50.000 =    2.230\n";
        let found = super::parse(text).unwrap();
        assert_eq!(found, super::Sockperf { p50_ns: 2230.0, p99_ns: 3301.0 });
        assert!(super::parse("nothing").is_err());
    }
}
