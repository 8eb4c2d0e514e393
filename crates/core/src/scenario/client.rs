//! Who measures: an engine, a way to wait, a source of stamps, and ports.

use super::{DutSpec, Mode, TrafficSpec};
use crate::port_name::{Engine, PortName};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a client waits for frames and for the next departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Spins.
    #[default]
    Poll,
    /// Sleeps until due and blocks in receive.
    Block,
}

/// Whose stamps a client's latency is between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stamp {
    /// The engine's own, in this process.
    #[default]
    App,
    /// The kernel's: the driver's as the frame is sent, the stack's as it arrives (`SO_TIMESTAMPING`).
    Socket,
    /// The cards'.
    Nic,
    /// The engine's own as the frame is sent, the XDP program's as it arrives.
    Xdp,
}

impl Stamp {
    fn is_app(&self) -> bool {
        *self == Stamp::App
    }

    /// Engines that can be told to take these stamps.
    fn engines(self) -> &'static [Engine] {
        match self {
            Stamp::App => &Engine::ALL,
            Stamp::Socket => &[Engine::Udp, Engine::Packet],
            Stamp::Nic => &[Engine::Udp, Engine::Packet, Engine::Xdp, Engine::Dpdk],
            Stamp::Xdp => &[Engine::Xdp],
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stamp::App => "app",
            Stamp::Socket => "socket",
            Stamp::Nic => "nic",
            Stamp::Xdp => "xdp",
        })
    }
}

/// One way to measure latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// Its name in tables and reports.
    pub name: String,
    /// Its engine.
    pub engine: Engine,
    /// How it waits.
    #[serde(default)]
    pub wait: Wait,
    /// Whose stamps its latency is between.
    #[serde(default, skip_serializing_if = "Stamp::is_app")]
    pub stamp: Stamp,
    /// The virtual device of DPDK that stands on the lab's interface: `net_af_packet` (the default),
    /// `net_af_xdp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The port that it sends through; needed where the DUT is external, otherwise the lab's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx: Option<PortName>,
    /// The port that it receives through, or that the reflector sits at; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx: Option<PortName>,
    /// Further pairs of ports, each with the same traffic at the same time; where the DUT is external.
    #[serde(default, rename = "pair", skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairSpec>,
}

/// A further pair of ports of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairSpec {
    /// The port that sends.
    pub tx: PortName,
    /// The port that receives.
    pub rx: PortName,
    /// The core of its thread, which sends and receives; of the kernel engine, which sends.
    pub core: usize,
}

impl ClientSpec {
    /// One of a port's engine that polls and stamps by itself, between two ports of the user's own.
    pub fn between(tx: PortName, rx: PortName) -> ClientSpec {
        ClientSpec {
            name: tx.engine.name().to_owned(),
            engine: tx.engine,
            wait: Wait::Poll,
            stamp: Stamp::App,
            driver: None,
            pairs: Vec::new(),
            tx: Some(tx),
            rx: Some(rx),
        }
    }

    pub(super) fn check(&self, dut: &DutSpec, traffic: &TrafficSpec) -> Result<(), String> {
        let name = &self.name;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) || name.starts_with('.') || name == "truth" {
            return Err(format!("`{name}` can't name a client: use letters, digits, - and _, and not `truth`"));
        }
        if self.wait == Wait::Block && self.engine != Engine::Udp {
            return Err(format!("client `{name}`: only the udp engine can wait by blocking; use wait = \"poll\""));
        }
        self.check_traffic(traffic)?;
        self.check_pairs(dut, traffic)?;
        self.check_stamp()?;
        self.check_answered(dut, traffic)?;
        self.check_driver(dut)?;
        self.check_mem(dut)?;
        self.check_ports(dut)
    }

    /// Not every engine sends every traffic.
    fn check_traffic(&self, traffic: &TrafficSpec) -> Result<(), String> {
        let (name, kernel) = (&self.name, self.engine == Engine::Kernel);
        let plain = traffic.frame.is_plain() && traffic.flows == 1;
        if !plain && matches!(self.engine, Engine::Udp | Engine::Kernel) {
            return Err(format!(
                "client `{name}`: the {} engine sends plain frames of one flow; [traffic.frame] and flows go with packet, \
                 xdp, dpdk and mem",
                self.engine
            ));
        }
        if traffic.both && self.stamp != Stamp::App {
            return Err(format!("client `{name}`: both directions at once go with stamps of the app"));
        }
        if traffic.both && kernel {
            return Err(format!("client `{name}`: the kernel engine sends one way; leave it out, or both"));
        }
        if !traffic.pattern.is_constant() && kernel {
            return Err(format!("client `{name}`: the kernel engine sends evenly; leave it out, or pattern"));
        }
        if traffic.pattern.train().is_some() && (self.stamp != Stamp::App || self.wait == Wait::Block) {
            return Err(format!("client `{name}`: trains go with stamps of the app and wait = \"poll\""));
        }
        if traffic.mode == Mode::PingPong && kernel {
            return Err(format!("client `{name}`: the kernel engine sends by the clock and can't ping-pong"));
        }
        Ok(())
    }

    fn check_pairs(&self, dut: &DutSpec, traffic: &TrafficSpec) -> Result<(), String> {
        let name = &self.name;
        if self.pairs.is_empty() {
            return Ok(());
        }
        if !dut.is_external() {
            return Err(format!("client `{name}`: pairs go with dut kind \"external\""));
        }
        let first = self.tx.iter().zip(&self.rx);
        let mut all: Vec<(&PortName, &PortName)> =
            first.chain(self.pairs.iter().map(|pair| (&pair.tx, &pair.rx))).collect();
        all.sort_by_key(|(tx, rx)| (tx.to_string(), rx.to_string()));
        if let Some([(tx, rx), _]) = all.windows(2).find(|both| both[0] == both[1]).map(|both| [both[0], both[1]]) {
            return Err(format!(
                "client `{name}`: {tx} and {rx} are a pair twice, and their frames can't be told apart"
            ));
        }
        if traffic.mode.returns() || traffic.both || self.stamp != Stamp::App {
            return Err(format!("client `{name}`: several pairs go one way, with stamps of the app"));
        }
        match self.pairs.iter().find(|pair| !self.uses(&pair.tx, &pair.rx)) {
            Some(PairSpec { tx, rx, .. }) => {
                Err(format!("client `{name}`: {tx} and {rx} must be ports of its engine, {}", self.engine))
            }
            None => Ok(()),
        }
    }

    /// Whether two ports are of its engine.
    fn uses(&self, tx: &PortName, rx: &PortName) -> bool {
        tx.engine == self.engine && rx.engine == self.engine
    }

    fn check_stamp(&self) -> Result<(), String> {
        let (name, able) = (&self.name, self.stamp.engines());
        if able.contains(&self.engine) {
            return Ok(());
        }
        let able: Vec<&str> = able.iter().map(|e| e.name()).collect();
        let (engine, stamp, able) = (self.engine, self.stamp, able.join(", "));
        Err(format!("client `{name}`: the {engine} engine has no {stamp} stamps; they go with {able}"))
    }

    /// Somebody else can answer only what carries addresses.
    fn check_answered(&self, dut: &DutSpec, traffic: &TrafficSpec) -> Result<(), String> {
        if dut.is_answered() && (self.engine != Engine::Udp || !traffic.mode.returns()) {
            let name = &self.name;
            return Err(format!(
                "client `{name}`: with answered = true, the engine is udp, and the mode round-trip or ping-pong"
            ));
        }
        Ok(())
    }

    /// Ports are named where, and only where, usect makes none.
    fn check_ports(&self, dut: &DutSpec) -> Result<(), String> {
        let name = &self.name;
        match (&self.tx, &self.rx, dut) {
            (Some(tx), Some(rx), DutSpec::External { .. }) if self.uses(tx, rx) => Ok(()),
            (Some(_), Some(_), DutSpec::External { .. }) => {
                Err(format!("client `{name}`: tx and rx must be ports of its engine, {}", self.engine))
            }
            (_, _, DutSpec::External { .. }) => {
                Err(format!("client `{name}`: with an external dut, name its tx and rx ports"))
            }
            (None, None, _) => Ok(()),
            _ => Err(format!("client `{name}`: tx and rx go with dut kind \"external\"; the lab has its own ports")),
        }
    }

    /// Frames of the `mem` engine pass no interface.
    fn check_mem(&self, dut: &DutSpec) -> Result<(), String> {
        let name = &self.name;
        match (self.engine == Engine::Mem, dut.is_mem(), dut) {
            (true, true, _) | (true, _, DutSpec::Wire {} | DutSpec::External { .. }) | (false, false, _) => Ok(()),
            (true, ..) => Err(format!(
                "client `{name}`: mem is inside the process; its dut is a wire, or a forwarder or spool with engine = \"mem\""
            )),
            (false, ..) => Err(format!("client `{name}`: with engine = \"mem\" in [dut], only mem clients reach it")),
        }
    }

    fn check_driver(&self, dut: &DutSpec) -> Result<(), String> {
        let (name, Some(driver)) = (&self.name, &self.driver) else { return Ok(()) };
        if self.engine != Engine::Dpdk || dut.is_external() {
            return Err(format!("client `{name}`: driver goes with the dpdk engine on the lab's interfaces"));
        }
        if !["net_af_packet", "net_af_xdp"].contains(&driver.as_str()) {
            return Err(format!("client `{name}`: driver is net_af_packet or net_af_xdp, not `{driver}`"));
        }
        Ok(())
    }
}
