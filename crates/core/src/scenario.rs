//! What a user asks for: a path, a traffic, a protocol of repetition and the clients to compare.

mod case;
mod client;
mod host;
mod spool;

pub use case::{Case, Vary};
pub use client::{ClientSpec, PairSpec, Stamp, Wait};
pub use host::{CoreSpec, DpdkSpec, HostSpec, SteerSpec};
pub use spool::{Bucket, Detour, Impairments, Jitter, SpoolSpec};

use crate::fiber::Fiber;
use crate::frame::{Endpoint, Flow, FrameSize};
use crate::frame_spec::FrameSpec;
use crate::pattern::Pattern;
use crate::port_name::Engine;
use crate::rate::{Rate, RateSpec};
use crate::template::Template;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Most flows: each keeps a window of the numbers that it has seen, and a distribution.
const MOST_FLOWS: u16 = 256;
/// Most runs of a client, or of a cell.
pub(crate) const MOST_RUNS: u32 = 1000;

/// A whole scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line for the reader of the report.
    pub title: String,
    /// What is sent.
    pub traffic: TrafficSpec,
    /// How often and how long, for figures that are meant to be kept.
    #[serde(default)]
    pub protocol: Protocol,
    /// The same for `--quick`.
    #[serde(default = "Protocol::quick")]
    pub quick: Protocol,
    /// What stands between sender and receiver.
    pub dut: DutSpec,
    /// What is tried in several ways.
    #[serde(default, skip_serializing_if = "Vary::is_nothing")]
    pub vary: Vary,
    /// Cores to pin to; those not named are chosen.
    #[serde(default)]
    pub cores: CoreSpec,
    /// Interfaces whose interrupts and queues are sent to a core while it is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steer: Vec<SteerSpec>,
    /// What the profiles of `vary` are about.
    #[serde(default, skip_serializing_if = "HostSpec::is_default")]
    pub host: HostSpec,
    /// How DPDK is started, where a client or the DUT uses it.
    #[serde(default, skip_serializing_if = "DpdkSpec::is_default")]
    pub dpdk: DpdkSpec,
    /// Who measures.
    #[serde(rename = "client")]
    pub clients: Vec<ClientSpec>,
}

/// The traffic of every client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSpec {
    /// Ethernet frame size with FCS, in bytes.
    pub frame_size: FrameSize,
    /// Mean rate; absent where a capture is replayed, which has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// How departures follow each other; by default evenly.
    #[serde(default, skip_serializing_if = "Pattern::is_constant")]
    pub pattern: Pattern,
    /// One way (the default) or round trip.
    #[serde(default)]
    pub mode: Mode,
    /// Flows that take turns; they differ in the source port, or, in frames without ports, in the source's hardware
    /// address.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub flows: u16,
    /// Whether the same traffic goes the other way at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both: bool,
    /// Its frames; by default Ethernet, IPv4 and UDP.
    #[serde(default, skip_serializing_if = "FrameSpec::is_plain")]
    pub frame: FrameSpec,
}

fn one() -> u16 {
    1
}

fn is_one(flows: &u16) -> bool {
    *flows == 1
}

/// Which latency is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// From the sender to a receiver that shares its clock (RFC 7679).
    #[default]
    OneWay,
    /// To a reflector and back (RFC 2681).
    RoundTrip,
    /// The same with one frame on its way at a time: the next leaves when the last is back. The rate only
    /// says how many frames there are. A stall delays later frames without showing in their latency
    /// (coordinated omission), so figures flatter: for comparison with tools that work this way.
    PingPong,
}

impl Mode {
    /// Whether frames come back to their sender.
    pub fn returns(self) -> bool {
        self != Mode::OneWay
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::OneWay => "one-way",
            Mode::RoundTrip => "round-trip",
            Mode::PingPong => "ping-pong",
        })
    }
}

/// How long and how often each client measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Traffic before the measured part, in seconds.
    pub warmup_s: f64,
    /// The measured part, in seconds.
    pub duration_s: f64,
    /// Independent repetitions.
    pub runs: u32,
}

impl Default for Protocol {
    /// As in the papers: 30 s, 120 s, 5 runs (paper 000 §3.2).
    fn default() -> Protocol {
        Protocol { warmup_s: 30.0, duration_s: 120.0, runs: 5 }
    }
}

impl Protocol {
    /// For demonstrations; results say that they are quick.
    pub fn quick() -> Protocol {
        Protocol { warmup_s: 1.0, duration_s: 8.0, runs: 3 }
    }
}

/// What stands between sender and receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DutSpec {
    /// Nothing: the two interfaces are the ends of one veth pair.
    Wire {},
    /// The host that answers: from its interface, through kernel and application, and back to its interface (paper 002,
    /// experiment 4). There and back only.
    Host {},
    /// A forwarder in the kernel, by XDP redirect between two interfaces.
    XdpForwarder {},
    /// The Linux bridge.
    Bridge {},
    /// A forwarder in user space that moves frames between two ports, one stream per direction.
    Forwarder {
        /// Engine of its two ports.
        #[serde(default = "default_forwarder_engine")]
        engine: Engine,
        /// Faults that it imposes on frames from sender to receiver.
        #[serde(default)]
        faults: Faults,
    },
    /// A delay line between two ports, such as a fiber.
    Spool(SpoolSpec),
    /// Whatever connects the ports that each client names; usect sets nothing up.
    External {
        /// The fiber that it is, where it is one and nothing else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fiber: Option<Fiber>,
        /// Whether what is sent there and back is sent back by somebody else at the receiving ports, as on another host.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answered: bool,
    },
}

fn default_forwarder_engine() -> Engine {
    Engine::Xdp
}

impl DutSpec {
    /// Its `kind` in a scenario.
    pub fn name(&self) -> &'static str {
        match self {
            DutSpec::Wire {} => "wire",
            DutSpec::Host {} => "host",
            DutSpec::XdpForwarder {} => "xdp-forwarder",
            DutSpec::Bridge {} => "bridge",
            DutSpec::Forwarder { .. } => "forwarder",
            DutSpec::Spool(_) => "spool",
            DutSpec::External { .. } => "external",
        }
    }

    /// Whose ports it stands between, where it is a thread of ours.
    fn engine(&self) -> Option<Engine> {
        match self {
            DutSpec::Forwarder { engine, .. } => Some(*engine),
            DutSpec::Spool(spool) => Some(spool.engine),
            _ => None,
        }
    }

    /// Whether usect sets nothing up for it.
    pub fn is_external(&self) -> bool {
        matches!(self, DutSpec::External { .. })
    }

    /// The fiber that it is, if it is one.
    pub fn fiber(&self) -> Option<Fiber> {
        match self {
            DutSpec::Spool(spool) => spool.fiber,
            DutSpec::External { fiber, .. } => *fiber,
            _ => None,
        }
    }

    /// Whether somebody else sends back what arrives.
    pub fn is_answered(&self) -> bool {
        matches!(self, DutSpec::External { answered: true, .. })
    }

    fn check(&self) -> Result<(), String> {
        match self {
            DutSpec::Spool(spool) => spool.check(),
            DutSpec::External { fiber: Some(fiber), .. } => fiber.check(),
            _ => Ok(()),
        }
    }

    /// The spool, if it is one.
    pub fn spool(&self) -> Option<&SpoolSpec> {
        match self {
            DutSpec::Spool(spool) => Some(spool),
            _ => None,
        }
    }

    /// The delay that it is known to impose on a frame of a size, in nanoseconds, where it is known.
    pub fn known_delay_ns(&self, size: FrameSize) -> Option<u64> {
        match self {
            DutSpec::Wire {} => Some(0),
            DutSpec::Spool(spool) => spool.known_delay_ns(size),
            DutSpec::External { fiber, .. } => fiber.map(|fiber| fiber.delay_ns(size).round() as u64),
            _ => None,
        }
    }

    /// What physics gives a frame of a size that meets no other, in nanoseconds, where that is known.
    fn physics_ns(&self, size: FrameSize) -> Option<f64> {
        let fiber = match self {
            DutSpec::Spool(spool) if !spool.impair.vary() && spool.bucket.is_none() => spool.fiber,
            DutSpec::External { fiber, .. } => *fiber,
            _ => None,
        };
        fiber.map(|fiber| fiber.delay_ns(size)).or_else(|| self.known_delay_ns(size).map(|ns| ns as f64))
    }

    /// Whether it uses DPDK.
    pub fn uses_dpdk(&self) -> bool {
        self.engine() == Some(Engine::Dpdk)
    }

    /// Whether it is inside the process, where only clients of the `mem` engine are.
    pub fn is_mem(&self) -> bool {
        self.engine() == Some(Engine::Mem)
    }

    /// Whether it keeps a core busy.
    pub fn spins(&self) -> bool {
        self.engine().is_some()
    }
}

impl fmt::Display for DutSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DutSpec::Spool(spool) => write!(f, "{spool}"),
            DutSpec::External { fiber: Some(fiber), .. } => write!(f, "fiber of {fiber}"),
            other => f.write_str(other.name()),
        }
    }
}

/// Faults by number: 0 is never. Counted from the first frame; the phases differ so that small
/// periods that divide each other don't fall on the same frame (see `port::fault`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Drop one frame in so many.
    pub drop_every: u64,
    /// Send one frame in so many twice.
    pub duplicate_every: u64,
    /// Swap one pair of neighbours in so many pairs.
    pub swap_every: u64,
    /// Flip one bit in one frame in so many.
    pub corrupt_every: u64,
}

/// What is wrong with a scenario, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct BadScenario {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong and what would be right, in one sentence.
    pub message: String,
}

impl Scenario {
    /// Reads and checks a scenario.
    pub fn parse(text: &str) -> Result<Scenario, BadScenario> {
        let scenario: Scenario = toml::from_str(text)
            .map_err(|e| bad(text, e.span().map_or(0, |s| s.start), e.message().replace('\n', "; ")))?;
        scenario.check().map_err(|(needle, message)| bad(text, text.find(needle).unwrap_or(0), message))?;
        Ok(scenario)
    }

    /// What physics gives a frame in a case, one way, in nanoseconds, where that is known.
    pub fn physics_ns(&self, case: &Case) -> Option<f64> {
        let one_way = !self.traffic.mode.returns();
        case.dut(&self.dut).physics_ns(case.traffic(&self.traffic).frame_size).filter(|_| one_way)
    }

    /// The largest frames of all cases.
    pub fn largest_frame(&self) -> FrameSize {
        let sizes = self.vary.frame_size.iter().copied();
        sizes.max_by_key(|size| size.with_fcs()).unwrap_or(self.traffic.frame_size)
    }

    /// Rules that no type expresses. An error names a text to look for in the file, and the reason.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        for protocol in [&self.protocol, &self.quick] {
            protocol.check().map_err(|message| ("duration_s", message))?;
        }
        if self.clients.is_empty() {
            return Err(("client", "there is no [[client]]: name at least one".into()));
        }
        if !self.dpdk.is_default() && !self.dut.uses_dpdk() && self.clients.iter().all(|c| c.engine != Engine::Dpdk) {
            return Err((
                "dpdk",
                "hugepages and arguments of EAL are for DPDK, and nothing here uses it: leave them out".into(),
            ));
        }
        if self.dut == (DutSpec::Host {}) && !self.traffic.mode.returns() {
            let why = "a host is seen by what it answers: mode = \"round-trip\" or \"ping-pong\"";
            return Err(("dut", why.into()));
        }
        self.vary.check(self).map_err(|message| ("vary", message))?;
        for case in self.vary.cases() {
            case.dut(&self.dut).check().map_err(|message| ("dut", message))?;
            case.traffic(&self.traffic).check().map_err(|message| ("traffic", message))?;
        }
        let mut names = BTreeSet::new();
        for client in &self.clients {
            client.check(&self.dut, &self.traffic).map_err(|message| ("[[client]]", message))?;
            if !names.insert(&client.name) {
                return Err(("[[client]]", format!("two clients are named `{}`: give each its own name", client.name)));
            }
        }
        Ok(())
    }
}

fn bad(text: &str, at: usize, message: String) -> BadScenario {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    BadScenario { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, message }
}

impl TrafficSpec {
    /// Plain frames, one after another, one way.
    pub fn evenly(frame_size: FrameSize, rate: RateSpec) -> TrafficSpec {
        TrafficSpec {
            frame_size,
            rate: Some(rate),
            pattern: Pattern::default(),
            mode: Mode::OneWay,
            flows: 1,
            both: false,
            frame: FrameSpec::default(),
        }
    }

    /// The rate that its pattern keeps on average; `None` without one, or before a capture was read.
    pub fn mean_rate(&self) -> Option<Rate> {
        match self.pattern.replay() {
            Some(replay) => replay.rate(),
            None => Some(self.rate?.resolve(self.frame_size.with_fcs())),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.pattern.check(self.rate.map(|rate| rate.resolve(self.frame_size.with_fcs())))?;
        if !self.pattern.is_constant() && self.mode == Mode::PingPong {
            return Err("in ping-pong frames leave when the last one is back: leave pattern out".into());
        }
        if self.pattern.train().is_some() && (self.mode.returns() || self.flows > 1 || self.both) {
            return Err("trains go one way, in one flow: leave mode, flows and both out".into());
        }
        if self.mode.returns() && !self.frame.is_plain() {
            return Err("frames by template go one way: the reflector turns plain frames round only".into());
        }
        if self.mode.returns() && (self.flows > 1 || self.both) {
            return Err("several flows, and both directions at once, go one way each, not there and back".into());
        }
        if !(1..=MOST_FLOWS).contains(&self.flows) {
            return Err(format!("flows runs from 1 to {MOST_FLOWS}"));
        }
        // What doesn't fit or overlaps does so whatever the addresses are.
        let nobody = Endpoint { mac: [0; 6], address: std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0) };
        let flow = Flow { source: nobody, destination: nobody };
        Template::new(&self.frame.with_flows(self.flows, 9000), self.frame_size, &flow).map(|_| ())
    }
}

impl Protocol {
    /// That it takes some time, and not for ever.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let in_range = |s: f64, most: f64| (0.0..=most).contains(&s);
        if !in_range(self.warmup_s, 86_400.0) || !in_range(self.duration_s, 86_400.0) || self.duration_s == 0.0 {
            return Err("warm-up (warmup_s) runs from 0 and duration (duration_s) from above 0 to 86400 seconds".into());
        }
        if self.runs == 0 || self.runs > MOST_RUNS {
            return Err(format!("runs is a number from 1 to {MOST_RUNS}"));
        }
        Ok(())
    }

    /// Seconds that one client needs, pauses not counted.
    pub fn seconds(&self) -> f64 {
        f64::from(self.runs) * (self.warmup_s + self.duration_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;
    use proptest::prelude::*;

    const GOOD: &str = r#"
title = "t"
[traffic]
frame_size = 64
rate = "20 kpps"
[dut]
kind = "forwarder"
faults = { drop_every = 1000 }
[[client]]
name = "udp-blocking"
engine = "udp"
wait = "block"
"#;

    #[test]
    fn a_good_scenario_is_read_with_its_defaults() {
        let s = Scenario::parse(GOOD).unwrap();
        assert_eq!((s.protocol, s.quick), (Protocol::default(), Protocol::quick()));
        let traffic = crate::trial::Traffic::of(&s.traffic, &s.protocol);
        assert_eq!((traffic.warmup_frames, traffic.frames), (600_000, 2_400_000));
        assert!(matches!(s.dut, DutSpec::Forwarder { engine: Engine::Xdp, faults } if faults.drop_every == 1000));
    }

    #[test]
    fn a_scenario_survives_json() {
        let s = Scenario::parse(GOOD).unwrap();
        let json = serde_json::to_string(&s).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), s);
    }

    #[test]
    fn the_scenarios_that_come_with_usect_are_good() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty());
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let read = match file.file_name().unwrap().to_str() {
                Some("datacenter.toml") => Matrix::parse(&text).map(drop),
                _ => Scenario::parse(&text).map(drop).map_err(|e| e.to_string()),
            };
            read.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
    }

    #[test]
    fn mistakes_are_located() {
        for (from, to, line, part) in [
            ("rate = \"20 kpps\"", "rate = \"fast\"", 5, "is not a rate"),
            ("frame_size = 64", "frame_size = 12", 4, "64 to 9018"),
            ("frame_size", "framesize", 4, "unknown field `framesize`"),
            ("kind = \"forwarder\"", "kind = \"router\"", 7, "unknown variant `router`"),
            ("faults =", "colour =", 6, "unknown field `colour`"),
            ("kind = \"forwarder\"", "kind = \"bridge\"", 6, "unknown field `faults`"),
            ("engine = \"udp\"", "engine = \"warp\"", 11, "unknown variant `warp`"),
            ("title = \"t\"", "title = ", 2, ""),
            ("engine = \"udp\"", "engine = \"xdp\"", 9, "only the udp engine"),
            ("name = \"udp-blocking\"", "name = \"../x\"", 9, "can't name a client"),
        ] {
            let error = Scenario::parse(&GOOD.replace(from, to)).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.message.contains(part), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read(text in ".{0,200}") {
            let _ = Scenario::parse(&text);
        }

        #[test]
        fn a_damaged_scenario_is_refused_or_read(at in 0..GOOD.len(), with in any::<char>()) {
            let mut text = GOOD.to_owned();
            text.insert(at, with);
            let _ = Scenario::parse(&text);
        }
    }
}
