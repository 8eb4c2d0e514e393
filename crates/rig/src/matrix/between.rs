//! What stands between the two ends of a matrix.

use crate::trial::end_at;
use crate::{RigError, open};
use std::net::{Ipv4Addr, SocketAddrV4};
use usect_clock::Clock;
use usect_core::frame::{Endpoint, Flow};
use usect_core::frame_spec::FrameSpec;
use usect_core::matrix::{Matrix, Way};
use usect_core::port_name::Engine;
use usect_core::scenario::{Impairments, SpoolSpec, Stamp};
use usect_core::template::Template;
use usect_dut::{Bridge, Dut, OpenVSwitch, Seat, Selection, Spool};
use usect_lab::{Lab, Link, Shape, audit};
use usect_load::usage::Who;
use usect_port::Take;

/// It; stopped when it is dropped.
pub(super) enum Between {
    /// A cable.
    Cable,
    /// Open vSwitch.
    Switch(Box<OpenVSwitch>),
    /// Anything else that has no process of its own.
    Other(Box<dyn Dut>),
}

impl Between {
    /// The lab that it takes.
    pub(super) fn shape(way: Way) -> Shape {
        if way == Way::Direct { Shape::Wire } else { Shape::Dut }
    }

    /// Starts it in a lab of that shape.
    pub(super) fn start(lab: &Lab, way: Way, matrix: &Matrix) -> Result<Between, RigError> {
        let Some((left, right)) = lab.dut() else { return Ok(Between::Cable) };
        Ok(match way {
            Way::Direct => Between::Cable,
            Way::Bridge => Between::Other(Box::new(Bridge::start(left, right)?)),
            Way::Ovs => Between::Switch(Box::new(OpenVSwitch::start(left, right)?)),
            Way::Spool(ns) => Between::Other(Box::new(spool(lab, (left, right), ns, matrix)?)),
        })
    }

    /// Processes whose work is its own.
    pub(super) fn processes(&self) -> Vec<Who> {
        match self {
            Between::Switch(switch) => vec![Who { name: "ovs-vswitchd".into(), pid: switch.pid() }],
            _ => Vec::new(),
        }
    }

    /// What a reader should know of it.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Between::Switch(switch) if switch.datapath() == "netdev" => {
                vec!["Open vSwitch's datapath was in user space: this kernel has no module of it".into()]
            }
            _ => Vec::new(),
        }
    }

    /// Stops it; fails where it had failed.
    pub(super) fn stop(self) -> Result<(), RigError> {
        match self {
            Between::Cable => Ok(()),
            Between::Switch(switch) => Ok(switch.stop().map(drop)?),
            Between::Other(dut) => Ok(dut.stop().map(drop)?),
        }
    }
}

/// A delay line. It spins, on the first core; probes are on the last.
fn spool(lab: &Lab, (left, right): (&Link, &Link), ns: u64, matrix: &Matrix) -> Result<Spool, RigError> {
    let spec = SpoolSpec {
        engine: Engine::Xdp,
        delay_ns: Some(ns),
        fiber: None,
        bucket: None,
        impair: Impairments::default(),
    };
    let endpoint = |link: &Link| Endpoint {
        mac: link.mac,
        address: SocketAddrV4::new(link.address.unwrap_or(Ipv4Addr::UNSPECIFIED), 0),
    };
    let flow = Flow { source: endpoint(lab.tx()), destination: endpoint(lab.rx()) };
    let template = Template::new(&FrameSpec::default(), matrix.probe.frame_size, &flow).map_err(RigError::Asked)?;
    // Nobody asks it what it did to single frames.
    let selection = Selection { tag: template.tag(), template, from: u64::MAX, until: u64::MAX, every: 1 };
    let port = |link: &Link| open::xdp(&end_at(link), Take::All, Stamp::App);
    Ok(Spool::start(
        Clock::calibrate()?,
        Seat::Own(audit::online_cores().first().copied()),
        (port(left)?, port(right)?),
        &spec,
        selection,
    ))
}
