//! Flags of `usect host`.

use clap::{Args as ClapArgs, Subcommand};
use usect_core::profile::Profile;
use usect_core::scenario::HostSpec;

#[derive(Debug, Subcommand)]
pub(crate) enum Host {
    /// What on this host costs microseconds: each with its weight, the evidence, the mend and who says so.
    #[command(after_help = CHECK_HELP)]
    Check(Check),
    /// Change the host's settings for the time of a command, and put every one back.
    #[command(after_help = TUNE_HELP)]
    Tune(Tune),
    /// Put back what a killed `tune`, or a killed run, left changed; every command that measures does so first.
    Restore,
}

const CHECK_HELP: &str = "\
It watches the host for two seconds: one at rest, one while a thread spins on each core. Nothing is changed.

Weights:
  grave     hundreds of microseconds in the tail, or figures that can't be trusted
  serious   microseconds of a usual latency, or tens of them in the tail
  slight    less than a microsecond, single microseconds in the tail, or something to some engines only

Exit codes:
  0    nothing serious
  2    refused or failed, with one sentence on standard error
  3    something serious
  4    something grave

Examples:
  usect host check
  usect host check --interface eth1 --cores 2,3 --all
  usect host check --json | jq '.[] | select(.weight == \"serious\") | .mend'";

const TUNE_HELP: &str = "\
Profiles, several joined by +, or `default`, which changes nothing (paper 000 §3.2 and §4.2):
  local      on cores of the card's own node
  remote     on cores of another node
  isolated   everything else runs, and is interrupted, on one other core; irqbalance is stopped
  power      governor performance, no turbo, no deep sleep of cores and links
  quiet      NUMA balancing, transparent huge pages, page merging, audit, watchdogs and interrupt moderation off
  busypoll   sockets that wait ask the card for 50 µs before they sleep

What is changed, and what this host can't do, is told on standard error; the exit code is the command's. Every setting is written
down before it is touched: after a kill -9 a second process puts it back at once; where that was killed too, the next `usect`
that measures does, or `usect host restore`.

Examples:
  usect host tune isolated+power -- usect compare scenarios/forwarder.toml --quick
  usect host tune quiet --interface eth1 -- sockperf ping-pong -i 198.18.0.2";

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// An interface that is measured through; may be repeated [default: every card of this namespace].
    #[arg(long = "interface", value_name = "INTERFACE[@NAMESPACE]")]
    pub(crate) interfaces: Vec<String>,
    /// The cores that matter [default: all that usect may run on].
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,
    /// Show what is fine as what isn't, with its evidence.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print a list as one JSON document and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tune {
    /// Which settings.
    #[arg(value_name = "PROFILE")]
    pub(crate) profile: Profile,
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// The command, behind `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What profiles are about.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Scope {
    /// An interface that is measured through, for its moderation and its node; may be repeated.
    #[arg(long = "interface", value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<String>,
    /// The core for everything else, where a profile isolates [default: the first].
    #[arg(long, value_name = "CORE")]
    pub(crate) others: Option<usize>,
}

impl Scope {
    /// Whether none of it was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.others.is_none()
    }
}

impl From<Scope> for HostSpec {
    fn from(scope: Scope) -> HostSpec {
        HostSpec { interfaces: scope.interfaces, others: scope.others }
    }
}
