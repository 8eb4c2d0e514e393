//! Flags of `usect dissect`.

use super::over::{nanoseconds, number};
use clap::Args as ClapArgs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use usect_core::port_name::PortName;
use usect_core::rate::{Rate, RateSpec};

pub(crate) const DISSECT_HELP: &str = "\
The experiments are those of paper 002, Table 1, and their figures are shown beside it for orientation:
  1a  time between two readings of the counter, without an operating system: what the image of cold/ printed (--cold-start)
  1b  the same in the kernel, interrupts off          1c  in user space          1d  in user space of a virtual machine
  2a  there and back between two processes on one core        2b  on two cores
  3   a read of a device across its bus, and the call of the kernel alone
  4   from the interface through kernel and application and back      5  the same with the kernel bypassed
  6a  client to server and back, UDP                  6b  memcached, back to back and at a fixed rate
  7   a card, by a loopback cable (--nic-tx, --nic-rx)        8  a switch, by frame size (--switch-tx, --switch-rx)
  cable  time that a metre takes

What this host can't do is listed with the reason. Examples:
  usect dissect --quick
  usect dissect --only 1c,2 --lasts 1h                an hour of each, with a live view, in bounded memory
  usect dissect --only 6b --memcached 10.0.0.7:11211  a server of your own
  usect dissect --topology topologies/datacenter.toml  and networks, drawn from a file";

#[derive(Debug, ClapArgs)]
pub(crate) struct Dissect {
    /// Only these experiments: 1c, or 2 for 2a and 2b.
    #[arg(long, value_name = "EXPERIMENTS", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Seconds instead of a minute for each row; the result says so.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How long each row is observed [default: 60s, quick: 4s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) lasts: Option<u64>,
    /// What the image of cold/ printed over its serial line, on this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) cold_start: Option<PathBuf>,
    /// Put no kernel module in for 1b, which marks the kernel as tainted until the next boot: approximate it by eBPF.
    #[arg(long)]
    pub(crate) no_module: bool,
    /// The PCI device that is read, such as 0000:01:00.0 [default: the first card].
    #[arg(long, value_name = "DEVICE")]
    pub(crate) pci: Option<String>,
    /// A memcached that runs already [default: one of ours on a port of its own, stopped again].
    #[arg(long, value_name = "HOST:PORT", value_parser = server)]
    pub(crate) memcached: Option<SocketAddr>,
    /// Requests per second to memcached, where they leave at a fixed rate.
    #[arg(long, value_name = "RATE", default_value = "10k", value_parser = requests)]
    pub(crate) memcached_rate: Rate,
    /// The port that sends through a card, joined with --nic-rx by a cable.
    #[arg(long, value_name = "PORT", requires = "nic_rx")]
    pub(crate) nic_tx: Option<PortName>,
    /// The port that receives there.
    #[arg(long, value_name = "PORT", requires = "nic_tx")]
    pub(crate) nic_rx: Option<PortName>,
    /// Metres of fiber between the two, whose propagation is taken out of the card's time.
    #[arg(long, value_name = "METRES", value_parser = number, default_value_t = 0.0)]
    pub(crate) nic_cable: f64,
    /// Lengths in metres of cables that are put between the two one after another, for what a metre takes; usect asks for each.
    #[arg(long, value_name = "METRES", value_parser = number, value_delimiter = ',', requires = "nic_tx")]
    pub(crate) cables: Vec<f64>,
    /// The port that sends to a switch [default: a Linux bridge in a lab].
    #[arg(long, value_name = "PORT", requires = "switch_rx")]
    pub(crate) switch_tx: Option<PortName>,
    /// The port that receives from it.
    #[arg(long, value_name = "PORT", requires = "switch_tx")]
    pub(crate) switch_rx: Option<PortName>,
    /// Networks to draw, from a file such as topologies/datacenter.toml.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,
    /// Folder in which the run's folder is made, under `runs/`.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Print the run as one JSON document (see docs/run-json.md) and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A server, by address or name; of several addresses the first.
fn server(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|e| format!("`{text}` is no HOST:PORT that can be found: {e}"))?;
    found.into_iter().next().ok_or_else(|| format!("`{text}` has no address"))
}

/// Requests per second.
fn requests(text: &str) -> Result<Rate, String> {
    match text.parse() {
        Ok(spec @ RateSpec::Frames(_)) => Ok(spec.resolve(0)),
        _ => Err(format!("`{text}` is no number of requests per second: write 10k")),
    }
}
