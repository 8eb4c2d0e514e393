//! Flags of `usect matrix`.

use super::over::number;
use clap::Args as ClapArgs;
use std::path::PathBuf;

pub(crate) const MATRIX_HELP: &str = "\
A file says which settings are tried in which ways, and every combination is measured, in an order
that is drawn by lot: beside a load of iperf3's, the latency of a light flow of usect's and of ping,
the load's throughput, what cores and processes worked, times between packets at the receiver,
queues and drops. What this host lacks is named, and the rest runs (docs/matrix.md). Examples:
  usect matrix scenarios/datacenter.toml --quick    offloads, queues, a switch and loads (paper 004),
                                                    in some ten minutes
  usect matrix scenarios/datacenter.toml --runs 10  more repetitions, narrower intervals
  usect matrix --resume runs/matrix-…               go on with one that was interrupted
  usect matrix FILE --inventory hosts.ini           between two hosts, of an inventory of Ansible:
    [near]
    alpha usect_interface=eth1 ansible_connection=local
    [far]
    beta usect_interface=eth1 ansible_host=192.0.2.7 ansible_user=root";

#[derive(Debug, ClapArgs)]
pub(crate) struct Matrix {
    /// What to try: a file such as scenarios/datacenter.toml.
    #[arg(value_name = "FILE", required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) scenario: Option<PathBuf>,
    /// Seconds instead of minutes, as the file says under quick; the result says so.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Repetitions of every combination [default: the file's]; from two on there are intervals.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Seconds measured each time [default: the file's].
    #[arg(long, value_name = "SECONDS", value_parser = number)]
    pub(crate) duration: Option<f64>,
    /// Go on with a run that was interrupted, or had trials that failed: its folder.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["quick", "runs", "duration", "out"])]
    pub(crate) resume: Option<PathBuf>,
    /// Measure between interfaces of your own instead of in a lab: an inventory of Ansible (INI, or what `ansible-inventory --list` prints)
    /// with one host in each of the groups near, where usect runs, and far, which is reached by ssh, each with a usect_interface.
    #[arg(long, value_name = "FILE")]
    pub(crate) inventory: Option<PathBuf>,
    /// Folder in which the run's folder is made, under `runs/`.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Print the run as one JSON document (see docs/run-json.md) and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
