//! Prometheus itself, as `make test` unpacks it, reads what we expose.

use crate::world::{World, output, until};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use usect_core::histogram::Histogram;
use usect_report::exposition::{Exposition, Format};
use usect_testing::skip;

/// Where the Makefile puts it.
const BINARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/prometheus/usr/bin/prometheus");
/// No answer takes a tenth of it.
const HANGS: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes one target each second. It is killed when it is dropped.
pub(crate) struct Prometheus {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Prometheus {
    /// Starts it, in the caller's network, and waits until it answers; with `native`, it asks for messages and
    /// stores native histograms. `None` where there is no Prometheus; the reason is on standard error.
    pub(crate) fn scraping(target: SocketAddr, native: bool) -> Option<Prometheus> {
        if !Path::new(BINARY).exists() {
            skip("there is no target/prometheus, which make test downloads");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        let job = format!("{{job_name: test, static_configs: [{{targets: ['{target}']}}]}}");
        fs::write(&config, format!("global: {{scrape_interval: 1s}}\nscrape_configs: [{job}]\n")).unwrap();
        let address = free();
        let log = File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new(BINARY);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        command.args(native.then_some("--enable-feature=native-histograms"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut started = Prometheus { child: command.spawn().unwrap(), address, directory };
        started.wait_until_ready();
        Some(started)
    }

    /// The first value that a PromQL query comes to; `None` where it comes to none yet.
    pub(crate) fn ask(&self, query: &str) -> Option<f64> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (status, body) = get(self.address, &format!("/api/v1/query?query={query}")).unwrap();
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["data"]["result"][0]["value"][1].as_str().map(|value| value.parse().unwrap())
    }

    /// The same, when it must come to a value.
    pub(crate) fn answer(&self, query: &str) -> f64 {
        until(query, || self.ask(query))
    }

    fn wait_until_ready(&mut self) {
        until("Prometheus is ready", || {
            let ended = self.child.try_wait().unwrap();
            let log = || fs::read_to_string(self.directory.path().join("log")).unwrap();
            assert!(ended.is_none(), "it ended ({ended:?}): {}", log());
            get(self.address, "/-/ready").ok().filter(|&(status, _)| status == 200)
        });
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that was free a moment ago: Prometheus doesn't tell which one it took. In a network of the test's own
/// nobody else takes it.
fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Status and body. In version 1.0 of HTTP the body goes on to the end of the connection.
fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(HANGS))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.expect("a head has a status"), body.to_owned()))
}

/// Serves metrics, in the format that each request accepts, to the end of the process.
fn serve(metrics: Exposition) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Prometheus may be killed while it scrapes.
            let _ = answer(stream.unwrap(), &metrics);
        }
    });
    address
}

fn answer(mut stream: TcpStream, metrics: &Exposition) -> std::io::Result<()> {
    let lines = BufReader::new(stream.try_clone()?).lines();
    let head: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let format = Format::accepted(head.iter().find_map(|line| line.strip_prefix("Accept: ")));
    let body = metrics.encode(format);
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n", format.content_type())?;
    write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

/// 1001 round trips of 30.0 to 80.0 µs, 50 ns apart: half of them up to 55 µs. And one of 0 s.
fn metrics() -> Exposition {
    let mut latency = Histogram::default();
    (0..=1000).for_each(|i| latency.record(30_000 + 50 * i));
    latency.record(0);
    let mut metrics = Exposition::default();
    metrics.histogram("usect_latency_seconds", "Round trips, \"quoted\"\nand on two lines.", &latency);
    metrics.counters("usect_lost_total", "Frames lost.", "why", &[("late", 0.0), ("never\\\"\n", 3.0)]);
    metrics.info("usect_info", "The binary.", &[("version", "0.1.0")]);
    metrics
}

/// A network of the test's own, where a loopback interface is all that there is.
fn network() -> Option<World> {
    let world = World::new()?;
    output("ip", &["link", "set", "lo", "up"]);
    Some(world)
}

#[test]
fn it_reads_classic_buckets_from_text() {
    let Some(_network) = network() else { return };
    let Some(prometheus) = Prometheus::scraping(serve(metrics()), false) else { return };
    assert_eq!(prometheus.answer("usect_latency_seconds_count"), 1002.0);
    let median = prometheus.answer("histogram_quantile(0.5, usect_latency_seconds_bucket)");
    assert!((50e-6..=100e-6).contains(&median), "{median}");
    let sum = prometheus.answer("usect_latency_seconds_sum");
    assert!((sum / 55.055e-3 - 1.0).abs() < 1e-3, "{sum}");
    assert_eq!(prometheus.answer("usect_latency_seconds_bucket{le=\"2e-05\"}"), 1.0);
    assert_eq!(prometheus.ask("histogram_count(usect_latency_seconds)"), None);
    reads_labels(&prometheus);
}

#[test]
fn it_reads_native_buckets_from_messages() {
    let Some(_network) = network() else { return };
    let Some(prometheus) = Prometheus::scraping(serve(metrics()), true) else { return };
    assert_eq!(prometheus.answer("histogram_count(usect_latency_seconds)"), 1002.0);
    for (quantile, exact) in [(0.1, 35e-6), (0.5, 55e-6), (0.99, 79.5e-6)] {
        let read = prometheus.answer(&format!("histogram_quantile({quantile}, usect_latency_seconds)"));
        assert!((read / exact - 1.0).abs() < 0.011, "{quantile}: {read}");
    }
    assert!(prometheus.answer("histogram_quantile(0, usect_latency_seconds)") < 1e-9);
    let sum = prometheus.answer("histogram_sum(usect_latency_seconds)");
    assert!((sum / 55.055e-3 - 1.0).abs() < 1e-3, "{sum}");
    reads_labels(&prometheus);
}

/// What every format has to bring over alike.
fn reads_labels(prometheus: &Prometheus) {
    assert_eq!(prometheus.answer("usect_lost_total{why=\"never\\\\\\\"\\n\"}"), 3.0);
    assert_eq!(prometheus.answer("usect_lost_total{why=\"late\"}"), 0.0);
    assert_eq!(prometheus.answer("usect_info{version=\"0.1.0\"}"), 1.0);
    assert_eq!(prometheus.answer("up"), 1.0);
}
