//! Flags of `usect monitor`.

use super::over::{Between, Shape, nanoseconds};
use super::{StampArg, WaitArg, frame_size};
use clap::Args as ClapArgs;
use std::net::SocketAddr;
use std::path::PathBuf;
use usect_core::frame::FrameSize;
use usect_core::rate::RateSpec;
use usect_procedure::monitor::Calendar;

pub(crate) const MONITOR_HELP: &str = "\
Every --interval it prints a line and appends it to the log, which goes on after a restart; alarms go to standard
error. It ends with a signal (exit code 0) or after --for. `usect report FOLDER` draws the log.

Examples:
  usect monitor scenarios/monitor.toml --interval 10s --for 2min     a path inside the process that gets longer
  usect monitor --tx xdp:eth1 --rx xdp:eth2 --log /var/lib/usect/san --listen 127.0.0.1:9464
  usect monitor --tx udp:10.0.0.1:9000 --rx udp:10.0.0.2:9000@far --wait block --round-trip --writes 10 --above 150us
  usect monitor --tx xdp:eth1 --rx xdp:eth2 --convoys '*/10 2-4 * * *' --convoy-size 1518";

#[derive(Debug, ClapArgs)]
pub(crate) struct Monitor {
    #[command(flatten)]
    pub(crate) between: Between,
    /// Frame size in bytes, FCS included [default: the scenario's, or 64].
    #[arg(long, value_name = "BYTES", value_parser = frame_size)]
    pub(crate) size: Option<FrameSize>,
    /// Frames per second, at least ten in each step.
    #[arg(long, value_name = "RATE", default_value = "100")]
    pub(crate) rate: RateSpec,
    /// Measure there and back instead of one way.
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) round_trip: bool,
    /// Spin for frames and departures, which takes a core each, or sleep and block (udp only).
    #[arg(long, value_enum, default_value = "poll", conflicts_with = "scenario")]
    pub(crate) wait: WaitArg,
    /// Whose stamps the latency is between, as for `usect measure`.
    #[arg(long, value_enum, default_value = "app", conflicts_with = "scenario")]
    pub(crate) stamp: StampArg,
    /// How often a line is logged: 2 to 600 steps.
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "60s")]
    pub(crate) interval: u64,
    /// How often a median is taken: 100ms to 10s. Five to twenty of them tell a shift, three silence, and each takes
    /// ten frames.
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "1s")]
    pub(crate) step: u64,
    /// Folder of the log: a file a day (UTC), a line of JSON per entry (docs/monitor.md).
    #[arg(long, value_name = "FOLDER", default_value = "monitor")]
    pub(crate) log: PathBuf,
    /// Serve http://ADDRESS/metrics to Prometheus.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Raise an alarm also when the medians of five steps in a row are above this.
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) above: Option<u64>,
    /// Write operations that a storage array has in flight over this path: says how many a second it can't exceed,
    /// N/RTT. One way counts as half of the round trip.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) writes: Option<u32>,
    /// When convoys measure capacity: a cron expression in this host's time zone, of five fields, or six with seconds
    /// before them. They fill the path while they last: choose hours without traffic of others.
    #[arg(long, value_name = "CRON")]
    pub(crate) convoys: Option<Calendar>,
    /// Frame size of convoys, FCS included [default: that of the other frames].
    #[arg(long, value_name = "BYTES", value_parser = frame_size, requires = "convoys")]
    pub(crate) convoy_size: Option<FrameSize>,
    #[command(flatten, next_help_heading = "Convoys")]
    pub(crate) shape: Shape,
    /// What the instrument adds, as `usect calibrate` found it: this file must hold for this host
    /// [default: calibration.json here, as far as it does].
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,
    /// End after so long [default: never].
    #[arg(long = "for", value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) lasts: Option<u64>,
    /// Print every entry of the log as a line of JSON, and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
