//! Flags of `usect rfc2544`.

use super::over::{Between, nanoseconds, number};
use super::{Output, frame_size};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use usect_core::fiber::LineRate;
use usect_core::frame::FrameSize;
use usect_core::port_name::PortName;
use usect_core::rate::RateSpec;
use usect_core::suite::{Benchmark, SearchKind};

pub(crate) const SUITE_HELP: &str = "\
By the book a frame size takes hours: 20 streams of 120 s at each load of latency, 50 searches for the longest burst. Say
which benchmarks and sizes you need, or how often: what is not as the RFC says is listed in the report by its section.

Examples:
  usect rfc2544 scenarios/forwarder.toml --client xdp --quick             the whole suite in minutes
  usect rfc2544 scenarios/token-bucket.toml --quick                       a device whose throughput and buffer are known
  usect rfc2544 --tx xdp:eth1 --rx xdp:eth2 --line-rate '10 Gbit/s' --benchmark throughput --sizes 64,1518
  usect rfc2544 scenarios/bridge.toml --client xdp --quick --benchmark reset --yes \\
    --reset 'ip -n usect-dut link set d1 down; sleep 1; ip -n usect-dut link set d1 up'
  usect rfc2544 --resume runs/20261121-221530-forwarder                   go on with what was interrupted

`usect report RUN` shows it again; runs/ID/rfc2544.csv has its figures.";

#[derive(Debug, ClapArgs)]
pub(crate) struct Rfc2544 {
    #[command(flatten)]
    pub(crate) between: Between,
    /// Which benchmarks: throughput, latency, loss, back-to-back, recovery, reset [default: all of them, reset if --reset
    /// says how]. Those at the throughput bring it along.
    #[arg(long = "benchmark", value_name = "NAME", value_delimiter = ',', value_parser = benchmark)]
    pub(crate) benchmarks: Vec<Benchmark>,
    /// Frame sizes in bytes, FCS included.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = frame_size,
        default_value = "64,128,256,512,1024,1280,1518")]
    pub(crate) sizes: Vec<FrameSize>,
    /// Rate of the line: the theoretical most [default: the cards', a fiber's, or 10 Gbit/s].
    #[arg(long, value_name = "RATE", value_parser = line_rate)]
    pub(crate) line_rate: Option<LineRate>,
    /// How the throughput is searched for: by halving; by halving where a trial with loss is repeated (ETSI GS NFV-TST
    /// 009); or by MLRsearch, with short trials first (RFC 9971) [default: binary, quick: mlr].
    #[arg(long, value_enum)]
    pub(crate) search: Option<SearchArg>,
    /// Shares of the frames that may be lost, a throughput for each; the other benchmarks use the first.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', default_value = "0", value_parser = share)]
    pub(crate) loss_ratio: Vec<f64>,
    /// How near the bounds of a search come, as a share of the rate [default: 0.005, quick: 0.02].
    #[arg(long, value_name = "SHARE", value_parser = number)]
    pub(crate) width: Option<f64>,
    /// How long trials of throughput and loss last [default: 60s, quick: 1s and 0.5s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) trial: Option<u64>,
    /// How long streams of latency last; the tagged frame leaves in the middle [default: 120s, quick: 1s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) stream: Option<u64>,
    /// How long the longest burst of back-to-back frames lasts [default: 2s, quick: 0.25s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) burst: Option<u64>,
    /// How long the overload before a recovery lasts [default: 60s, quick: 1s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) overload: Option<u64>,
    /// How long a trial of the reset lasts, in which the device must be back [default: 120s, quick: 8s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) reset_within: Option<u64>,
    /// The command that resets the device, run by `sh` in the middle of a trial; it is asked for a yes before.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) reset: Option<String>,
    /// Loads of latency, in percent of the throughput.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "10,50,90,100", value_parser = percent)]
    pub(crate) loads: Vec<u32>,
    /// Measure latency without the device, too, as a reference: over a bare wire, or between the ports of --loopback-tx and
    /// --loopback-rx.
    #[arg(long)]
    pub(crate) loopback: bool,
    /// The port that sends without the device, where ports are your own.
    #[arg(long, value_name = "PORT", requires = "loopback_rx")]
    pub(crate) loopback_tx: Option<PortName>,
    /// The port that receives without the device.
    #[arg(long, value_name = "PORT", requires = "loopback_tx")]
    pub(crate) loopback_rx: Option<PortName>,
    /// Both directions at once; what is lost of either counts.
    #[arg(long)]
    pub(crate) both: bool,
    /// How long learning frames settle before each trial [default: 2s, quick: 20ms].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) settle: Option<u64>,
    /// How long residual frames are waited for after each trial [default: 2s, quick: 0.2s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) residual: Option<u64>,
    /// How long the device is left alone after that [default: 5s, quick: 0s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) rest: Option<u64>,
    /// Go on with a run that was interrupted: its folder. Everything else was said when it was begun.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["scenario", "tx", "rx", "quick", "runs"])]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum SearchArg {
    Binary,
    Verified,
    Mlr,
}

impl From<SearchArg> for SearchKind {
    fn from(arg: SearchArg) -> SearchKind {
        match arg {
            SearchArg::Binary => SearchKind::Binary,
            SearchArg::Verified => SearchKind::Verified,
            SearchArg::Mlr => SearchKind::Mlr,
        }
    }
}

fn benchmark(text: &str) -> Result<Benchmark, String> {
    Ok(match text {
        "throughput" => Benchmark::Throughput,
        "latency" => Benchmark::Latency,
        "loss" => Benchmark::Loss,
        "back-to-back" => Benchmark::BackToBack,
        "recovery" => Benchmark::Recovery,
        "reset" => Benchmark::Reset,
        _ => {
            return Err("the benchmarks are throughput, latency, loss, back-to-back, recovery and reset".to_owned());
        }
    })
}

/// `0.005` or `0.5%`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let bad = |_| format!("`{text}` is no share of the frames: write 0.005 or 0.5%");
    number.trim().parse::<f64>().map(|share| share / scale).map_err(bad)
}

/// `50` or `50%`.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number.trim().parse().map_err(|_| format!("`{text}` is no load: write 50 or 50%, of the throughput"))
}

fn line_rate(text: &str) -> Result<LineRate, String> {
    let rate: RateSpec = text.parse().map_err(|_| "a line has bits per second: '10 Gbit/s'".to_owned())?;
    LineRate::try_from(rate).map_err(|e| e.to_string())
}
