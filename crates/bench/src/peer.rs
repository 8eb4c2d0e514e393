//! sockperf, the peer of the round-trip figures.

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
    fn percentiles_are_found() {
        let text = "sockperf: ---> <MAX> observation =  160.022\nsockperf: ---> percentile 99.000 =    3.301\nsockperf: ---> percentile 50.000 =    2.230\n";
        let found = super::parse(text).unwrap();
        assert_eq!(found, super::Sockperf { p50_ns: 2230.0, p99_ns: 3301.0 });
        assert!(super::parse("nothing").is_err());
    }
}
