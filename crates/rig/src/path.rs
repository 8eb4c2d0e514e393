//! The path of a run: the lab's interfaces, or the user's own.

use crate::RigError;
use std::net::{Ipv4Addr, SocketAddrV4};
use usect_core::frame::{Endpoint, Flow, FrameSize};
use usect_core::port_name::{Engine, Place, PortName};
use usect_core::scenario::{ClientSpec, DutSpec, PairSpec, Scenario};
use usect_lab::{Lab, Link, Shape, link, run, within};

/// The lab of a run; there is one run at a time.
pub(crate) const RUN_LAB: &str = "usect";
/// UDP ports of the two ends.
pub(crate) const TX_PORT: u16 = 9000;
pub(crate) const RX_PORT: u16 = 9001;
/// Addresses for interfaces that have none: RFC 2544's own range (appendix C.2.2).
pub(crate) const TX_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(crate) const RX_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Largest frame, FCS included, that fits a page beside what XDP keeps there (`veth_xdp_set`: 4096 less 256
/// of headroom and 320 of shared info), and that the lab's taps therefore pass.
const LARGEST_XDP: u16 = 4096 - 256 - 320 + 4;

/// Where frames of a run travel.
pub(crate) struct Path {
    lab: Option<Lab>,
    /// The interfaces of external ports, for the record.
    external: Vec<Link>,
    pub(crate) dut: DutSpec,
    frame_size: FrameSize,
    /// The MTU that its frames need; the kernel allows four bytes more for one VLAN tag.
    needs_mtu: usize,
}

/// One end of a client's path.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) netns: Option<String>,
    pub(crate) endpoint: Endpoint,
    /// Absent for an address that belongs to no interface that could be found.
    pub(crate) link: Option<Link>,
}

/// Both ends of a client's path.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) tx: End,
    pub(crate) rx: End,
}

impl Ends {
    pub(crate) fn flow(&self) -> Flow {
        Flow { source: self.tx.endpoint, destination: self.rx.endpoint }
    }
}

impl Path {
    /// Brings the lab up, unless the scenario uses the user's own ports.
    pub(crate) fn up(scenario: &Scenario) -> Result<Path, RigError> {
        let frame_size = scenario.largest_frame();
        let tag = if scenario.traffic.frame.vlans.is_empty() { 0 } else { 4 };
        let needs_mtu = frame_size.mtu() - tag;
        let mtu = frame_size.mtu().max(1500);
        let lab = match scenario.dut {
            DutSpec::External { .. } => None,
            _ if scenario.clients.iter().all(|c| c.engine == Engine::Mem) => None,
            DutSpec::Wire {} => Some(Lab::up(RUN_LAB, Shape::Wire, mtu)?),
            DutSpec::Host {} => Some(Lab::up(RUN_LAB, Shape::Watched, mtu)?),
            // A spool knows what it imposes; taps would see every frame of a train, and only its head is measured.
            DutSpec::Spool(_) if scenario.traffic.pattern.train().is_some_and(|train| train.heads_only) => {
                Some(Lab::up(RUN_LAB, Shape::Dut, mtu)?)
            }
            _ => Some(Lab::up(RUN_LAB, Shape::Tapped, mtu)?),
        };
        let mut path = Path { lab, external: Vec::new(), dut: scenario.dut.clone(), frame_size, needs_mtu };
        if path.lab.is_none() {
            for client in &scenario.clients {
                let pairs = client.pairs.iter().map(|pair| of_pair(client, pair));
                for client in [client.clone()].into_iter().chain(pairs) {
                    let ends = path.ends(&client)?;
                    let links = [ends.tx.link, ends.rx.link].into_iter().flatten();
                    links.for_each(|l| path.remember(l));
                }
            }
        }
        Ok(path)
    }

    fn remember(&mut self, link: Link) {
        let known = |l: &Link| l.netns == link.netns && l.interface == link.interface;
        if !self.external.iter().any(known) {
            self.external.push(link);
        }
    }

    /// Takes the lab down.
    pub(crate) fn take_down(&mut self) {
        self.lab = None;
    }

    /// The lab, unless the path is the user's own.
    pub(crate) fn lab(&self) -> Option<&Lab> {
        self.lab.as_ref()
    }

    /// Every interface of the path.
    pub(crate) fn links(&self) -> Vec<Link> {
        let Some(lab) = &self.lab else { return self.external.clone() };
        let dut = lab.dut().into_iter().flat_map(|(left, right)| [left, right]);
        [lab.tx()].into_iter().chain(dut).chain([lab.rx()]).cloned().collect()
    }

    /// Where a client's two ports are: those it names, or the lab's.
    pub(crate) fn ends(&self, client: &ClientSpec) -> Result<Ends, RigError> {
        if client.engine == Engine::Mem {
            return Ok(Ends { tx: nowhere(TX_ADDRESS, TX_PORT), rx: nowhere(RX_ADDRESS, RX_PORT) });
        }
        let ends = match (&client.tx, &client.rx, &self.lab) {
            (Some(tx), Some(rx), _) => Ends { tx: end(tx, TX_ADDRESS, TX_PORT)?, rx: end(rx, RX_ADDRESS, RX_PORT)? },
            (_, _, Some(lab)) => Ends {
                tx: of_link(lab.tx().clone(), TX_ADDRESS, TX_PORT),
                rx: of_link(lab.rx().clone(), RX_ADDRESS, RX_PORT),
            },
            _ => return Err(RigError::Asked(format!("client `{}` names no ports, and there is no lab", client.name))),
        };
        self.check(client, &ends)?;
        Ok(ends)
    }

    /// Fails where an interface of a client went down: what is lost then is no measurement.
    pub(crate) fn check_still_up(&self, client: &ClientSpec) -> Result<(), RigError> {
        let ends = self.ends(client)?;
        let mut links: Vec<Link> = [ends.tx.link, ends.rx.link].into_iter().flatten().collect();
        links.extend(self.lab().and_then(Lab::dut).into_iter().flat_map(|(left, right)| [left.clone(), right.clone()]));
        for known in links {
            let now = link(known.netns.as_deref(), &known.interface)?;
            if !now.up || !now.carrier {
                return Err(RigError::Asked(format!(
                    "interface `{}` went down during a trial, so what was lost says nothing; set it up with `{}` and go on",
                    now.interface,
                    up_with(&now)
                )));
            }
        }
        Ok(())
    }

    fn check(&self, client: &ClientSpec, ends: &Ends) -> Result<(), RigError> {
        let asked = |message: String| Err(RigError::Asked(format!("client `{}`: {message}", client.name)));
        for end in [&ends.tx, &ends.rx] {
            let Some(link) = &end.link else { continue };
            if !link.up {
                return asked(format!("interface `{}` is down; set it up with `{}`", link.interface, up_with(link)));
            }
            if self.needs_mtu > link.mtu {
                return asked(format!(
                    "frames of {} bytes need an MTU of {}, and `{}` has {}",
                    self.frame_size.with_fcs(),
                    self.needs_mtu,
                    link.interface,
                    link.mtu
                ));
            }
        }
        let by_xdp = self.lab.is_some() || matches!(client.engine, Engine::Xdp | Engine::Kernel);
        if by_xdp && self.frame_size.with_fcs() > LARGEST_XDP {
            return asked(format!(
                "XDP carries frames up to {LARGEST_XDP} bytes, in a page each; larger ones pass between udp, packet or dpdk ports of your own only"
            ));
        }
        if client.engine == Engine::Kernel && self.frame_size.with_fcs() > usect_xdp::kernel::LARGEST {
            let most = usect_xdp::kernel::LARGEST;
            return asked(format!(
                "the kernel generates frames up to {most} bytes; leave the client out or send smaller ones"
            ));
        }
        if client.engine == Engine::Udp && ends.tx.netns == ends.rx.netns && !self.dut.is_answered() {
            return asked(
                "both udp ports are in one namespace, so the kernel would deliver inside the host and nothing would reach \
                 a wire; put them in two namespaces (`usect lab up` makes some)"
                    .into(),
            );
        }
        Ok(())
    }
}

/// A client over a further pair of its ports.
pub(crate) fn of_pair(client: &ClientSpec, pair: &PairSpec) -> ClientSpec {
    ClientSpec { tx: Some(pair.tx.clone()), rx: Some(pair.rx.clone()), pairs: Vec::new(), ..client.clone() }
}

pub(crate) fn end(port: &PortName, address: Ipv4Addr, udp_port: u16) -> Result<End, RigError> {
    let netns = port.netns.as_deref();
    match &port.place {
        Place::Interface(name) => Ok(of_link(link(netns, name)?, address, udp_port)),
        // Its address is known when it is open.
        Place::Device(_) | Place::Wire(_) => Ok(End { netns: port.netns.clone(), ..nowhere(address, udp_port) }),
        Place::Address(address) => Ok(End {
            netns: port.netns.clone(),
            endpoint: Endpoint { mac: [0; 6], address: *address },
            link: owner(netns, *address)?,
        }),
    }
}

/// What sets an interface up.
pub(crate) fn up_with(link: &Link) -> String {
    let netns = link.netns.as_ref().map_or(String::new(), |netns| format!("-n {netns} "));
    format!("ip {netns}link set {} up", link.interface)
}

/// An end without an interface.
fn nowhere(address: Ipv4Addr, udp_port: u16) -> End {
    End { netns: None, endpoint: Endpoint { mac: [0; 6], address: SocketAddrV4::new(address, udp_port) }, link: None }
}

fn of_link(link: Link, address: Ipv4Addr, udp_port: u16) -> End {
    let address = SocketAddrV4::new(link.address.unwrap_or(address), udp_port);
    End { netns: link.netns.clone(), endpoint: Endpoint { mac: link.mac, address }, link: Some(link) }
}

/// The interface that has an address, if one does.
fn owner(netns: Option<&str>, address: SocketAddrV4) -> Result<Option<Link>, RigError> {
    within(netns, || ())?;
    let listed = run(netns, "ip", &["-o", "-4", "addr", "show", "to", &address.ip().to_string()])?;
    let name = listed.split_whitespace().nth(1);
    name.map(|name| link(netns, name)).transpose().map_err(RigError::from)
}
