//! What is usable on this host, and why not: each engine is tried on interfaces of a throw-away lab, not
//! looked up in a list.

use crate::RigError;
use std::sync::Arc;
use usect_clock::Clock;
use usect_core::frame::{Endpoint, Flow, FrameSize};
use usect_core::rate::Rate;
use usect_core::scenario::Mode;
use usect_core::trial::Traffic;
use usect_lab::{Lab, Link, Shape, within};
use usect_port::client::Client;
use usect_port::udp;
use usect_xdp::afxdp::{self, Take};
use usect_xdp::kernel::{Assignment, KernelClient};
use usect_xdp::tap::{Cut, Key, Tap, Wiretap};

/// Whether something can be used here.
#[derive(Debug, Clone)]
pub struct Finding {
    /// An engine, or `clock` or `truth`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// How it works here, or why it doesn't and what to do.
    pub verdict: Result<String, String>,
}

/// Tries everything. Where no lab can be made, what needs one is reported as not tried, with the reason.
pub fn probe() -> Vec<Finding> {
    let clock = Clock::calibrate();
    let lab = Lab::up(&format!("probe-{}", std::process::id()), Shape::Wire, 1500);
    let on_lab = |attempt: fn(&Clock, &Lab) -> Result<String, RigError>| match (&clock, &lab) {
        (Ok(clock), Ok(lab)) => attempt(clock, lab).map_err(|e| e.to_string()),
        (Err(e), _) => Err(e.to_string()),
        (_, Err(e)) => Err(format!("not tried: {e}")),
    };
    let clock_verdict = match &clock {
        Ok(clock) => Ok(format!("invariant TSC, {:.3} GHz", clock.rate().hz as f64 / 1e9)),
        Err(e) => Err(e.to_string()),
    };
    vec![
        Finding { name: "clock", purpose: "stamps of every client in user space", verdict: clock_verdict },
        Finding { name: "udp", purpose: "UDP sockets, blocking or polled", verdict: on_lab(try_udp) },
        Finding { name: "xdp", purpose: "AF_XDP rings, polled", verdict: on_lab(try_xdp) },
        Finding { name: "kernel", purpose: "generator and receiver in eBPF", verdict: on_lab(try_kernel) },
        Finding { name: "truth", purpose: "passive taps at the DUT's interfaces", verdict: on_lab(try_truth) },
    ]
}

fn flow(lab: &Lab) -> Flow {
    let end = |link: &Link, port| Endpoint {
        mac: link.mac,
        address: std::net::SocketAddrV4::new(link.address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED), port),
    };
    Flow { source: end(lab.tx(), 9000), destination: end(lab.rx(), 9001) }
}

fn try_udp(_: &Clock, lab: &Lab) -> Result<String, RigError> {
    let flow = flow(lab);
    let open = || udp::open(flow.source.address, flow.destination.address, false);
    let opened = within(lab.tx().netns.as_deref(), open)?;
    opened
        .map(|_| "sockets of the kernel's stack".to_owned())
        .map_err(|e| RigError::Asked(format!("opening a socket failed: {e}")))
}

fn try_xdp(_: &Clock, lab: &Lab) -> Result<String, RigError> {
    let port = within(lab.rx().netns.as_deref(), || afxdp::open(lab.rx().index, Take::All))??;
    Ok(format!("{} on veth; zero-copy depends on the interface's driver", usect_port::Receive::caps(&port.rx).note))
}

fn try_kernel(clock: &Clock, lab: &Lab) -> Result<String, RigError> {
    let traffic = Traffic {
        frame_size: FrameSize::MIN,
        rate: Rate::per_second(1000).expect("not zero"),
        warmup_frames: 0,
        frames: 10,
        mode: Mode::OneWay,
    };
    let core = usect_lab::audit::online_cores().first().copied().unwrap_or(0);
    let assignment = Assignment { flow: flow(lab), traffic, tx: lab.tx().index, core };
    let mut client = KernelClient::load(*clock, &assignment, Arc::default())?;
    within(lab.rx().netns.as_deref(), || client.attach_receiver(lab.rx().index))??;
    let control = usect_port::client::Control { stop: Arc::default(), bridge: std::sync::Mutex::new(clock.bridge()) };
    let outcome = within(lab.tx().netns.as_deref(), || client.run(&traffic, &control))?;
    let counts = outcome.map_err(|source| RigError::Client { client: "kernel".into(), source })?.measurement.counts;
    if counts.stamped == traffic.frames {
        Ok("live frames, every one stamped".into())
    } else {
        Err(RigError::Asked(format!("only {} of {} frames were stamped", counts.stamped, traffic.frames)))
    }
}

fn try_truth(_: &Clock, wire: &Lab) -> Result<String, RigError> {
    let lab = Lab::up(&format!("{}-t", wire.name()), Shape::Tapped, 1500)?;
    let cuts = lab.tap().expect("the lab was made tapped");
    let cut = |(left, right): &(Link, Link)| Cut { left: left.index, right: right.index };
    let flow = flow(&lab);
    let what = Wiretap {
        near: cut(&cuts.near),
        far: cut(&cuts.far),
        comes_back: false,
        flow,
        leaving: flow,
        key: Key::Signature,
        measure_from: 0,
    };
    within(cuts.near.0.netns.as_deref(), || Tap::attach(&what))??;
    Ok("XDP programs in the wires, every frame stamped".into())
}
