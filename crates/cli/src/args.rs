//! Flags as typed. They become a resolved scenario in `session`.

mod dissect;
mod host;
mod matrix;
mod monitor;
mod over;
mod suite;

pub(crate) use dissect::Dissect;
pub(crate) use host::{Check, Host, Scope, Tune};
pub(crate) use matrix::Matrix;
pub(crate) use monitor::Monitor;
pub(crate) use over::{Between, Shape, Sweep, Trains};
pub(crate) use suite::Rfc2544;

use clap::{Args as ClapArgs, Parser, Subcommand};
use dissect::DISSECT_HELP;
use matrix::MATRIX_HELP;
use monitor::MONITOR_HELP;
use over::{CONVOY_HELP, SWEEP_HELP, TRAIN_HELP, nanoseconds};
use std::path::PathBuf;
use std::process::ExitCode;
use suite::SUITE_HELP;
use usect_core::fiber::Fiber;
use usect_core::frame::FrameSize;
use usect_core::frame_spec::FrameSpec;
use usect_core::pattern::Pattern;
use usect_core::port_name::PortName;
use usect_core::profile::Profile;
use usect_core::rate::RateSpec;
use usect_core::scenario::{DpdkSpec, Stamp, Wait};

/// Measures network latency at the microsecond scale, down to the 99.9999th percentile, and says how far
/// each figure can be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "usect",
    version,
    max_term_width = 100,
    after_help = "\
Start with:
  usect engines                                    what works on this host, and why not
  usect compare scenarios/forwarder.toml --quick   several clients against the ground truth
  usect lab up                                     namespaces of your own to measure in

Exit codes:
  0    done
  2    refused or failed, with one sentence on standard error
  3, 4 `usect host check` found something serious, grave
  130  interrupted; what was measured is kept and marked partial"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare several clients over one path, each beside the ground truth.
    Compare(Box<Compare>),
    /// Measure with one client between two ports of your own.
    Measure(Box<Measure>),
    /// Latency, capacity and loss by convoys of packet trains: only the head of each train is stamped, because the
    /// others wait in queues behind it; they measure capacity.
    #[command(after_help = CONVOY_HELP)]
    Convoy(Box<Trains>),
    /// Latency of every frame of packet trains, train after train; capacity and loss besides.
    #[command(after_help = TRAIN_HELP)]
    Train(Box<Trains>),
    /// Find out what an instrument adds, over a path whose latency physics tells: a fiber, a spool, a wire. Later runs of
    /// the same engine, frames and rate show their median with and without it.
    #[command(after_help = CALIBRATE_HELP)]
    Calibrate {
        /// What to measure with.
        #[command(subcommand)]
        with: Measuring,
    },
    /// Frame sizes, and sizes against the time between frames: where latency varies, where queues build up, and where it is
    /// safe to measure.
    #[command(after_help = SWEEP_HELP)]
    Sweep(Box<Sweep>),
    /// The benchmarks of RFC 2544: throughput, latency, frame loss rate, back-to-back frames, system recovery, reset; with
    /// RFC 8219's latency and delay variation, RFC 9004's buffer time and the searches of TST009 and RFC 9971.
    #[command(after_help = SUITE_HELP)]
    Rfc2544(Box<Rfc2544>),
    /// How many repetitions mean and percentiles need, from the decay of their variance; and whether samples depend on each
    /// other.
    #[command(after_help = CONVERGE_HELP)]
    Converge {
        /// How closely they are wanted: ± this, with 95%.
        #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "10ns")]
        within: u64,
        /// What to measure with.
        #[command(subcommand)]
        with: Sampling,
    },
    /// Where the time goes: the host taken apart, experiment by experiment, beside the figures of paper 002.
    #[command(after_help = DISSECT_HELP)]
    Dissect(Box<Dissect>),
    /// Settings of a network and the load on it, in every combination: latency, throughput and cost together, and which setting
    /// moves them by how much.
    #[command(after_help = MATRIX_HELP)]
    Matrix(Matrix),
    /// Measure a path all the time at a low rate: a log, alarms when its latency shifts, metrics for Prometheus, convoys when
    /// nobody else needs it.
    #[command(after_help = MONITOR_HELP)]
    Monitor(Box<Monitor>),
    /// Send frames as fast as a port takes them, and say how many those are.
    Generate(Generate),
    /// Show stored runs again, or several in one page.
    Report(Report),
    /// Namespaces joined by veth pairs, to measure in.
    #[command(subcommand)]
    Lab(Lab),
    /// What is usable on this host, and why not.
    Engines(Engines),
    /// What on this host costs microseconds, and settings for the time of a command.
    #[command(subcommand)]
    Host(Host),
    /// The far end of a matrix between two hosts: takes orders from the near one on its standard input.
    #[command(hide = true)]
    Agent {
        /// Its interface: `eth1`, `eth1@namespace`.
        interface: String,
    },
    /// Waits for another usect to be killed, and puts back what that left.
    #[command(hide = true)]
    PutBack {
        /// Its process.
        pid: u32,
    },
    /// The other process of experiment 2: sends back what comes on its standard input.
    #[command(hide = true)]
    Echo {
        /// The core that it runs on.
        core: usize,
    },
}

const CALIBRATE_HELP: &str = "\
Examples:
  usect calibrate convoy scenarios/fiber.toml
  usect calibrate compare scenarios/wire.toml --client xdp
  usect calibrate convoy --tx xdp:eth1 --rx xdp:eth2 --fiber 'length_m = 2.0, line_rate = \"10 Gbit/s\"'

Corrections are kept in calibration.json in the folder of --out, or in the file of --calibration, with the run that
they come from and the host on which they hold. One of another host, kernel or card is refused.";

const CONVERGE_HELP: &str = "\
Examples:
  usect converge compare scenarios/spool.toml --quick --runs 1
  usect converge --within 50ns measure --tx xdp:eth1 --rx xdp:eth2 --rate 66k --duration 15 --runs 1

Of independent samples, the variance of the mean of N decays as 1/N: a slope of −1 on logarithmic axes. Another slope
says that samples depend on each other, and that intervals which assume otherwise are too narrow.";

/// Commands that measure the latency of single frames.
#[derive(Debug, Subcommand)]
pub(crate) enum Sampling {
    /// As `usect compare`.
    Compare(Box<Compare>),
    /// As `usect measure`.
    Measure(Box<Measure>),
}

/// Commands that measure latency.
#[derive(Debug, Subcommand)]
pub(crate) enum Measuring {
    /// As `usect compare`.
    Compare(Box<Compare>),
    /// As `usect measure`.
    Measure(Box<Measure>),
    /// As `usect convoy`.
    Convoy(Box<Trains>),
    /// As `usect train`.
    Train(Box<Trains>),
}

/// How long, how often, and what to print.
#[derive(Debug, ClapArgs)]
pub(crate) struct Protocol {
    /// Seconds of traffic before the measured part [default: the scenario's, or 30, quick: 1].
    #[arg(long, value_name = "SECONDS", value_parser = over::number)]
    pub(crate) warmup: Option<f64>,
    /// Seconds measured [default: the scenario's, or 120, quick: 8].
    #[arg(long, value_name = "SECONDS", value_parser = over::number)]
    pub(crate) duration: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How often, and what to print.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Output {
    /// A demonstration of seconds instead of minutes; the result says that it is one.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Independent repetitions of each client [default: the scenario's, or 5, quick: 3].
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
    /// Folder in which the run's folder is made, under `runs/`.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) out: PathBuf,
    /// What instruments add, as `usect calibrate` found it: this file must hold for this host
    /// [default: calibration.json in the folder of --out, as far as it does].
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,
    /// Print the run as one JSON document (see docs/run-json.md) and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  usect compare scenarios/forwarder.toml              as in the papers: 30 s warm-up, 120 s, 5 runs
  usect compare scenarios/forwarder.toml --quick      a minute or two
  usect compare scenarios/bridge.toml --client kernel --client xdp --json
  usect compare scenarios/forwarder.toml --quick --profiles default,isolated,isolated+power
                                                      how settings of the host move the tail (paper 000, Figure 3);
                                                      `usect host tune --help` says what the profiles are")]
pub(crate) struct Compare {
    /// What to compare: a scenario in TOML.
    pub(crate) scenario: PathBuf,
    /// Only these clients of the scenario.
    #[arg(long = "client", value_name = "NAME")]
    pub(crate) clients: Vec<String>,
    /// Measure under each of these profiles of the host's settings, and put everything back [default: the scenario's, or none].
    #[arg(long, value_name = "PROFILES", value_delimiter = ',')]
    pub(crate) profiles: Vec<Profile>,
    /// Yes, what the scenario asks to run may run: arguments that load code into DPDK.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) protocol: Protocol,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A port is ENGINE:INTERFACE[@NAMESPACE] (xdp:eth1, kernel:t0@lab-tx), or for sockets
udp:ADDRESS:PORT[@NAMESPACE] (udp:198.18.0.1:9000@lab-tx), or for DPDK dpdk:DEVICE[@NAMESPACE], a PCI
address or a virtual device (dpdk:0000:01:00.0, dpdk:net_ring0). Both ports use one engine.

Examples, after `usect lab up`:
  usect measure --tx xdp:t0@lab-tx --rx xdp:r0@lab-rx --rate 100k --duration 10 --runs 1
  usect measure --tx udp:198.18.0.1:9000@lab-tx --rx udp:198.18.0.2:9001@lab-rx --wait block --quick
  usect measure --tx packet:t0@lab-tx --rx packet:r0@lab-rx --stamp socket --quick
  usect measure --tx xdp:t0@lab-tx --rx xdp:r0@lab-rx --frame 'vlans = [100]' --size 128 --quick
  usect measure --tx kernel:t0@lab-tx --rx kernel:r0@lab-rx --rate '1 Gbit/s' --round-trip --quick")]
pub(crate) struct Measure {
    /// The port that sends.
    #[arg(long, value_name = "PORT")]
    pub(crate) tx: PortName,
    /// The port that receives; with --round-trip, where usect's reflector sits.
    #[arg(long, value_name = "PORT")]
    pub(crate) rx: PortName,
    /// Ethernet frame size in bytes, FCS included.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = frame_size)]
    pub(crate) size: FrameSize,
    /// Frames per second (20000, 20k, 1.5 Mpps) or bits per second on the line ('1 Gbit/s').
    /// [default: 20k]
    #[arg(long)]
    pub(crate) rate: Option<RateSpec>,
    /// When frames leave, as keys of a scenario's traffic.pattern table: `kind = "poisson"`,
    /// `kind = "trains", length = 64`, `kind = "replay", file = "x.pcap"` (which has its own rate).
    #[arg(long, value_name = "TOML")]
    pub(crate) pattern: Option<Pattern>,
    /// The frames, as keys of a scenario's traffic.frame table: `vlans = [100], network = "ipv6"`, which takes
    /// --size 88 or more (packet, xdp, dpdk, mem; one way).
    #[arg(long, value_name = "TOML", default_value = "", hide_default_value = true)]
    pub(crate) frame: FrameSpec,
    /// Flows that take turns, 1 to 256, told apart by their source port, or their source hardware address
    /// (packet, xdp, dpdk, mem; one way).
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) flows: u16,
    /// Send the same traffic the other way at the same time (any engine but kernel; app stamps).
    #[arg(long)]
    pub(crate) both: bool,
    /// The fiber between the ports, where there is nothing else, as keys of a scenario's dut.fiber table:
    /// `length_m = 2.0, line_rate = "10 Gbit/s"`. Errors are then against physics.
    #[arg(long, value_name = "TOML")]
    pub(crate) fiber: Option<Fiber>,
    /// Spin for frames and departures, or sleep and block (udp only).
    #[arg(long, value_enum, default_value = "poll")]
    pub(crate) wait: WaitArg,
    /// Whose stamps the latency is between: this process's, the kernel's (udp, packet), the cards' (udp,
    /// packet, xdp, dpdk), or the XDP program's as frames arrive (xdp). Stamps that are not there fail the run.
    #[arg(long, value_enum, default_value = "app")]
    pub(crate) stamp: StampArg,
    /// Measure there and back instead of one way.
    #[arg(long, conflicts_with = "ping_pong")]
    pub(crate) round_trip: bool,
    /// Measure there and back, the next frame when the last is back; the rate then only says how many.
    #[arg(long)]
    pub(crate) ping_pong: bool,
    /// Core of the sending thread.
    #[arg(long, value_name = "CORE")]
    pub(crate) tx_core: Option<usize>,
    /// Core of the receiving thread.
    #[arg(long, value_name = "CORE")]
    pub(crate) rx_core: Option<usize>,
    /// Core of the thread of the other direction (--both) [default: that of the receiving thread].
    #[arg(long, value_name = "CORE", requires = "both")]
    pub(crate) back_core: Option<usize>,
    #[command(flatten)]
    pub(crate) dpdk: Dpdk,
    #[command(flatten)]
    pub(crate) protocol: Protocol,
}

/// How DPDK is started.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Dpdk {
    /// Keep DPDK's memory in hugepages (dpdk only).
    #[arg(long)]
    pub(crate) hugepages: bool,
    /// Further argument for DPDK's EAL; may be repeated (dpdk only).
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,
}

impl From<Dpdk> for DpdkSpec {
    fn from(args: Dpdk) -> DpdkSpec {
        DpdkSpec { hugepages: args.hugepages, eal: args.eal }
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without --rx frames only leave (packet, xdp, dpdk); with it they are received, matched by number and
recorded, as in a measurement. Ports are named as for `usect measure`.

Examples:
  usect generate --tx dpdk:net_null0                     what DPDK and usect can do, without a NIC
  usect generate --tx mem:a --rx mem:a                   send, receive, match and record inside the process
  usect generate --tx kernel:t0@lab-tx --rx kernel:r0@lab-rx --json")]
pub(crate) struct Generate {
    /// The port that sends.
    #[arg(long, value_name = "PORT")]
    pub(crate) tx: PortName,
    /// The port that receives.
    #[arg(long, value_name = "PORT")]
    pub(crate) rx: Option<PortName>,
    /// Ethernet frame size in bytes, FCS included.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = frame_size)]
    pub(crate) size: FrameSize,
    /// How many frames.
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) frames: u64,
    /// Leave number and time out of the frames; one field still steps.
    #[arg(long)]
    pub(crate) unstamped: bool,
    /// Core of the sending thread.
    #[arg(long, value_name = "CORE")]
    pub(crate) tx_core: Option<usize>,
    /// Core of the receiving thread; one thread does both where it is the sender's.
    #[arg(long, value_name = "CORE", requires = "rx")]
    pub(crate) rx_core: Option<usize>,
    #[command(flatten)]
    pub(crate) dpdk: Dpdk,
    /// Print one JSON document (see docs/run-json.md) and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum WaitArg {
    Poll,
    Block,
}

impl From<WaitArg> for Wait {
    fn from(arg: WaitArg) -> Wait {
        match arg {
            WaitArg::Poll => Wait::Poll,
            WaitArg::Block => Wait::Block,
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum StampArg {
    App,
    Socket,
    Nic,
    Xdp,
}

impl From<StampArg> for Stamp {
    fn from(arg: StampArg) -> Stamp {
        match arg {
            StampArg::App => Stamp::App,
            StampArg::Socket => Stamp::Socket,
            StampArg::Nic => Stamp::Nic,
            StampArg::Xdp => Stamp::Xdp,
        }
    }
}

fn frame_size(text: &str) -> Result<FrameSize, String> {
    let bytes: u16 = text.parse().map_err(|_| "a frame size is a number of bytes from 64 to 9018".to_owned())?;
    FrameSize::try_from(bytes).map_err(|e| e.to_string())
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  usect report runs/20261121-101500-forwarder            the table again, and a fresh report.html
  usect report runs/A runs/B --output both.html          two runs over each other, with what differed
  usect report runs/A --json | jq '.clients[].errors'")]
pub(crate) struct Report {
    /// Run folders, as `compare` and `measure` make them; or the folder of a monitor's log.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the folder of the only run, overlay.html for several].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the stored run (several: a list of them) as one JSON document and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The lab of `usect lab up`; runs have one of their own.
const KEPT_LAB: &str = "lab";

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Make a lab that stays: t0 in NAME-tx and r0 in NAME-rx, the ends of one veth pair.
    Up {
        /// Its name.
        #[arg(default_value = KEPT_LAB)]
        name: String,
        /// With room for a DUT of yours between them: t0 to d0 and d1 to r0, d0 and d1 in NAME-dut; nothing
        /// passes until you join the two.
        #[arg(long)]
        dut: bool,
        /// Measurement functions: so many senders, t0 in NAME-tx, NAME-tx2, …, joined with the receivers by a bridge.
        #[arg(long, value_name = "N", conflicts_with = "dut", value_parser = clap::value_parser!(u8).range(1..=i64::from(usect_lab::MOST_FUNCTIONS)))]
        senders: Option<u8>,
        /// So many receivers, r0 in NAME-rx, NAME-rx2, …
        #[arg(long, value_name = "N", conflicts_with = "dut", value_parser = clap::value_parser!(u8).range(1..=i64::from(usect_lab::MOST_FUNCTIONS)))]
        receivers: Option<u8>,
        /// MTU of its interfaces.
        #[arg(long, default_value_t = 1500)]
        mtu: usize,
    },
    /// Take a lab down.
    Down {
        /// Its name.
        #[arg(default_value = KEPT_LAB)]
        name: String,
    },
    /// List the labs that are there.
    List {
        /// As one JSON document.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Engines {
    /// What each engine can do with this interface, and who stamps there, as its driver says; nothing is tried.
    #[arg(long = "interface", value_name = "INTERFACE[@NAMESPACE]")]
    pub(crate) interfaces: Vec<String>,
    /// As one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints what clap has to say: help as it is, mistakes as one sentence.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        crate::complain(text.trim_end());
    } else {
        let lines = text.lines().take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
        let sentence: Vec<&str> = lines.map(str::trim).filter(|l| !l.is_empty()).collect();
        crate::complain(format_args!(
            "usect: {} (`usect help` and `usect COMMAND --help` explain)",
            sentence.join(" ").trim_start_matches("error: ").replace(" tip: ", "; ")
        ));
    }
    ExitCode::from(crate::REFUSED)
}
