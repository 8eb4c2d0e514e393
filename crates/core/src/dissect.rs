//! A host taken apart (paper 002): the experiments of its Table 1, what came out of them here, and how the time of a request
//! is made up.

use crate::histogram::{Histogram, Packed};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// A row of the paper's Table 1, for orientation: measured on other hosts, with other hardware.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperRow {
    /// Which experiment: `1a`.
    pub experiment: &'static str,
    /// What it is of, in the paper's words.
    pub name: &'static str,
    /// The smallest value, in nanoseconds.
    pub min_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// The 99.9th percentile.
    pub p999_ns: f64,
    /// The largest value.
    pub tail_ns: f64,
    /// How long was observed, or how often.
    pub observation: &'static str,
}

const fn paper(
    (experiment, name): (&'static str, &'static str),
    [min_ns, median_ns, p999_ns, tail_ns]: [f64; 4],
    observation: &'static str,
) -> PaperRow {
    PaperRow { experiment, name, min_ns, median_ns, p999_ns, tail_ns, observation }
}

/// The paper's Table 1. Its 8a and 8b are below the resolution of its capture card.
pub const PAPER: [PaperRow; 16] = [
    paper(("1a", "TSC - Kernel Cold Start"), [7.0, 7.0, 7.0, 11.0], "1 h"),
    paper(("1b", "TSC - Kernel"), [9.0, 9.0, 9.0, 6.9e3], "1 h"),
    paper(("1c", "TSC - From User Space"), [9.0, 10.0, 11.0, 49e3], "1 h"),
    paper(("1d", "TSC - From VM User Space"), [12.0, 12.0, 13.0, 64e6], "1 h"),
    paper(("2a", "User Space + OS (same core)"), [2e3, 2e3, 2e3, 68e3], "10 M messages"),
    paper(("2b", "User Space + OS (other core)"), [4e3, 5e3, 5e3, 31e3], "10 M messages"),
    paper(("3a", "Interconnect (64B)"), [552.0, 572.0, 592.0, 608.0], "1 M transactions"),
    paper(("3b", "Interconnect (1536B)"), [976.0, 988.0, 1_020.0, 1_028.0], "1 M transactions"),
    paper(("4", "Host"), [3.9e3, 4.5e3, 21e3, 45e3], "1 M packets"),
    paper(("5", "Kernel Bypass"), [895.0, 946.0, 1_096.0, 5.4e3], "1 M packets"),
    paper(("6a", "Client-Server (UDP)"), [7e3, 9e3, 107e3, 203e3], "1 M packets"),
    paper(("6b", "Client-Server (Memcached)"), [10e3, 13e3, 240e3, 20.3e6], "1 M packets"),
    paper(("7a", "NIC - X10 (64B)"), [804.0, 834.0, 834.0, 10e3], "1 M packets"),
    paper(("7b", "NIC - SFN8522 (64B)"), [960.0, 985.0, 1_047.0, 3.3e3], "1 M packets"),
    paper(("8a", "Switch - ExaLINK50 (64B)"), [0.0, 2.7, 17.7, 17.7], "1 M packets"),
    paper(("8b", "Switch - ExaLINK50 (1514B)"), [0.0, 2.7, 17.7, 17.7], "1 M packets"),
];

/// The experiments that a median can be had of, as their rows are numbered here.
pub const EXPERIMENTS: [&str; 14] = ["1a", "1b", "1c", "1d", "2a", "2b", "3a", "4", "5", "6a", "6b", "7", "8a", "8b"];

/// The rows that a request is made up of, each with one part more: clients that poll, and a server of ours.
pub const PARTS_OF_A_REQUEST: [&str; 4] =
    ["host, xdp", "host, udp-polling", "client and server, udp-polling", "memcached, get, back to back"];

/// An experiment, as it went here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which, as the paper numbers them; `cable` for the time that a metre takes.
    pub experiment: String,
    /// What it is of.
    pub name: String,
    /// What was measured, and how that is not what the paper did.
    pub how: String,
    /// The distribution; none where it could not be measured.
    pub latency: Option<Summary>,
    /// The same whole, as HdrHistogram encodes it, in base64.
    pub histogram: Option<Packed>,
    /// How long was observed, in seconds.
    pub seconds: f64,
    /// What became of what was sent, where that is more than what was measured.
    pub account: Option<String>,
    /// Why it could not be measured, or not all of it.
    pub unavailable: Option<String>,
    /// What others took of the host meanwhile, where that is much.
    #[serde(default)]
    pub disturbed: Option<String>,
}

/// The whole of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Dissection {
    /// The rows, in the paper's order.
    pub rows: Vec<Row>,
    /// What a request is made up of; empty where too little of it was measured.
    pub shares: Vec<Share>,
    /// Networks, and what they are made up of.
    pub networks: Vec<Network>,
}

/// A component and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Which.
    pub name: String,
    /// Its median, or the difference of two.
    pub ns: f64,
    /// Where that comes from: `4 − 5`.
    pub from: String,
}

/// A network between two hosts, and what the way through it is made up of (paper 002, Figure 5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Its components.
    pub shares: Vec<Share>,
}

impl Row {
    /// Of nothing yet.
    pub fn of(experiment: &str, name: impl Into<String>, how: impl Into<String>) -> Row {
        Row {
            experiment: experiment.into(),
            name: name.into(),
            how: how.into(),
            latency: None,
            histogram: None,
            seconds: 0.0,
            account: None,
            unavailable: None,
            disturbed: None,
        }
    }

    /// The same with what was measured in so many seconds.
    pub fn measured(self, histogram: &Histogram, seconds: f64) -> Row {
        Row { latency: Some(Summary::of(histogram)), histogram: Some(Packed::of(histogram)), seconds, ..self }
    }

    /// The same with what was measured one after another: the time observed is that of all of it.
    pub fn spent(self, histogram: &Histogram) -> Row {
        self.measured(histogram, histogram.mean() * histogram.samples() as f64 / 1e9)
    }

    /// The same with what became of what was sent.
    pub fn with_account(self, account: impl Into<String>) -> Row {
        Row { account: Some(account.into()), ..self }
    }

    /// The same, which could not be measured.
    pub fn unavailable(self, why: impl Into<String>) -> Row {
        Row { unavailable: Some(why.into()), ..self }
    }

    /// The same, with what others took meanwhile.
    pub fn beside(self, disturbed: Option<String>) -> Row {
        Row { disturbed, ..self }
    }

    /// Its experiment and name.
    pub fn label(&self) -> String {
        format!("{} {}", self.experiment, self.name).trim_end().to_owned()
    }

    /// The row of the paper that it is to be seen beside.
    pub fn paper(&self) -> Option<&'static PaperRow> {
        PAPER.iter().find(|row| row.experiment == self.experiment)
    }

    /// Its median, in nanoseconds.
    pub fn median_ns(&self) -> Option<f64> {
        self.latency.as_ref()?.median_ns()
    }
}

impl Dissection {
    /// The median of the first row of an experiment that has one.
    pub fn median_ns(&self, experiment: &str) -> Option<f64> {
        self.rows.iter().filter(|row| row.experiment == experiment).find_map(Row::median_ns)
    }

    /// What a request to memcached is made up of, by the differences of experiments that each have one part more: all of them
    /// together are the median of 6b. Where a part comes out below zero, the two experiments are not of the same host or
    /// load, and nothing is said.
    pub fn shares_of_a_request(&self) -> Vec<Share> {
        let whole = |name: &str| {
            let row = self.rows.iter().find(|row| row.name == name && row.unavailable.is_none());
            row.and_then(Row::median_ns)
        };
        let medians = PARTS_OF_A_REQUEST.map(whole);
        let [Some(bypass), Some(host), Some(udp), Some(memcached)] = medians else { return Vec::new() };
        let share = |name: &str, ns: f64, from: &str| Share { name: name.into(), ns, from: from.into() };
        let shares = vec![
            share("server: interface and application, kernel bypassed", bypass, "5"),
            share("server: kernel", host - bypass, "4 − 5"),
            share("client: kernel and application", udp - host, "6a − 4"),
            share("memcached", memcached - udp, "6b − 6a"),
        ];
        if shares.iter().all(|share| share.ns >= 0.0) { shares } else { Vec::new() }
    }
}
