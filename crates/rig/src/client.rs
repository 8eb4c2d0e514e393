//! Opening a client of any engine over a path: the one place that knows them all.

use crate::path::{End, Ends};
use crate::place::Placement;
use crate::{Rig, RigError};
use std::io::ErrorKind;
use std::net::UdpSocket;
use usect_core::frame::Flow;
use usect_core::port_name::{Engine, Place, PortName};
use usect_core::scenario::{Mode, Wait};
use usect_core::trial::Trial;
use usect_dpdk::{DpdkRx, DpdkTx};
use usect_dut::{Dut, Reflector};
use usect_lab::{Link, receive_queues, within};
use usect_port::ClientError;
use usect_port::client::{Client, PacketClient, Threads};
use usect_port::mem::{self, MemPort};
use usect_port::packet::{self, PacketRx, PacketTx};
use usect_port::{Port, Receive, Take, Transmit, udp};
use usect_xdp::afxdp::{self, XdpRx, XdpTx};
use usect_xdp::kernel::{Assignment, KernelClient};

/// The virtual device of DPDK on the lab's interfaces, unless a client names another.
pub(crate) const LAB_DRIVER: &str = "net_af_packet";

/// A client ready to run, and the reflector of its round trip where it needs one that runs in user space.
pub(crate) struct Opened {
    pub(crate) client: Box<dyn Client>,
    pub(crate) reflector: Option<Box<dyn Dut>>,
    /// Sockets that keep the stack silent while the client runs.
    pub(crate) sinks: Vec<Option<UdpSocket>>,
}

/// Opens the client of a trial. `inside` are the two ports of a DUT inside the process.
pub(crate) fn open(
    rig: &Rig,
    trial: &Trial,
    ends: &Ends,
    inside: Option<(MemPort, MemPort)>,
) -> Result<Opened, RigError> {
    match trial.client.engine {
        Engine::Udp => udp(rig, trial, ends),
        Engine::Packet => packet(rig, trial, ends),
        Engine::Xdp => xdp(rig, trial, ends),
        Engine::Dpdk => dpdk(rig, trial, ends),
        Engine::Mem => {
            let (near, far) = inside.unwrap_or_else(|| mem::pair(trial.traffic.frame_size.without_fcs()));
            Ok(generic(rig, trial, ends, near, far))
        }
        Engine::Kernel => kernel(rig, trial, ends),
    }
}

fn udp(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Opened, RigError> {
    let block = trial.client.wait == Wait::Block;
    let (tx, rx) = (ends.tx.endpoint.address, ends.rx.endpoint.address);
    let open = |netns: &Option<String>, local, remote| {
        let opened = within(netns.as_deref(), || udp::open(local, remote, block))?;
        opened.map_err(|e| failed(trial, format!("opening a UDP socket at {local}"), e))
    };
    let (near, far) = (open(&ends.tx.netns, tx, rx)?, open(&ends.rx.netns, rx, tx)?);
    Ok(generic(rig, trial, ends, near, far))
}

fn packet(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Opened, RigError> {
    let largest = trial.traffic.frame_size.without_fcs();
    let open = |end: &End, receives: bool| open_packet(end, take(end, receives), largest);
    Ok(generic(rig, trial, ends, open(&ends.tx, trial.traffic.mode.returns())?, open(&ends.rx, true)?))
}

/// Opens an AF_PACKET port at one end of a path.
pub(crate) fn open_packet(end: &End, take: Take, largest: usize) -> Result<Port<PacketTx, PacketRx>, RigError> {
    let link = end.link.as_ref().expect("packet ports are named by interface");
    let opened = within(end.netns.as_deref(), || packet::open(link.index, take, largest))?;
    opened.map_err(|e| {
        let what = format!("opening an AF_PACKET socket on `{}` failed", link.interface);
        match e.kind() {
            ErrorKind::PermissionDenied => RigError::Asked(format!("{what}: run usect as root (sudo)")),
            _ => RigError::Asked(format!("{what}: {e}")),
        }
    })
}

/// What the port at one end of a client's path receives.
fn take(end: &End, receives: bool) -> Take {
    if receives { Take::UdpPort(end.endpoint.address.port()) } else { Take::Nothing }
}

fn xdp(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Opened, RigError> {
    let round_trip = trial.traffic.mode.returns();
    let open = |end: &End, receives: bool| open_xdp(end, take(end, receives));
    Ok(generic(rig, trial, ends, open(&ends.tx, round_trip)?, open(&ends.rx, true)?))
}

/// Opens an AF_XDP port at one end of a path.
pub(crate) fn open_xdp(end: &End, take: Take) -> Result<Port<XdpTx, XdpRx>, RigError> {
    let link = end.link.as_ref().expect("xdp ports are named by interface");
    let queues = receive_queues(link)?;
    if take != Take::Nothing && queues > 1 {
        return Err(RigError::Asked(format!(
            "interface `{0}` spreads frames over {queues} receive queues and the xdp engine reads the first; make it \
             one with `ethtool -L {0} combined 1`",
            link.interface
        )));
    }
    Ok(within(end.netns.as_deref(), || afxdp::open(link.index, take))??)
}

fn dpdk(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Opened, RigError> {
    let largest = trial.traffic.frame_size.without_fcs();
    let device = |end: &End, named: &Option<PortName>, number| match (named.as_ref().map(|n| &n.place), &end.link) {
        (Some(Place::Device(device)), _) => device.clone(),
        (_, link) => {
            let link = link.as_ref().expect("the lab's ends are interfaces");
            lab_device(trial.client.driver.as_deref().unwrap_or(LAB_DRIVER), number, link)
        }
    };
    let (near, far) = (device(&ends.tx, &trial.client.tx, 0), device(&ends.rx, &trial.client.rx, 1));
    let port = open_dpdk(&ends.tx, &near, largest)?;
    let mut ends = ends.clone();
    (ends.tx.endpoint.mac, ends.rx.endpoint.mac) = (port.tx.mac(), port.tx.mac());
    if near == far {
        // A device that loops, such as net_ring or a cabled port: what it sends comes in there.
        let client = client_over(rig, trial, (ends.flow(), ends.flow()), port.tx, port.rx);
        return Ok(Opened { client, reflector: None, sinks: Vec::new() });
    }
    let other = open_dpdk(&ends.rx, &far, largest)?;
    ends.rx.endpoint.mac = other.tx.mac();
    let kernel_sees =
        [(&ends.tx, &near), (&ends.rx, &far)].into_iter().filter(|(_, device)| !usect_dpdk::is_pci(device));
    let sinks = kernel_sees.map(|(end, _)| sink(trial, end)).collect::<Result<_, _>>()?;
    Ok(Opened { sinks, ..generic(rig, trial, &ends, port, other) })
}

/// The virtual device on an interface of the lab. Its number tells it from others of the run.
pub(crate) fn lab_device(driver: &str, number: u32, link: &Link) -> String {
    format!("{driver}{number},iface={}", link.interface)
}

/// Opens a device of DPDK in the namespace of one end of a path.
pub(crate) fn open_dpdk(end: &End, device: &str, largest: usize) -> Result<Port<DpdkTx, DpdkRx>, RigError> {
    Ok(within(end.netns.as_deref(), || usect_dpdk::open(device, largest))??)
}

/// Keeps the stack at an end from answering.
fn sink(trial: &Trial, end: &End) -> Result<Option<UdpSocket>, RigError> {
    let port = end.endpoint.address.port();
    let opened = within(end.netns.as_deref(), || packet::sink(port))?;
    opened.map_err(|e| failed(trial, format!("silencing the stack at UDP port {port}"), e))
}

/// The generic client over two open ports; in round-trip mode the far one reflects.
fn generic<T, R>(rig: &Rig, trial: &Trial, ends: &Ends, near: Port<T, R>, far: Port<T, R>) -> Opened
where
    T: Transmit + 'static,
    R: Receive + 'static,
{
    let flow = ends.flow();
    let (client, reflector) = if trial.traffic.mode.returns() {
        let core = rig.placement.dut.or(Some(rig.placement.receiver));
        let reflector = Box::new(Reflector::start(rig.clock, core, far)) as Box<dyn Dut>;
        (client_over(rig, trial, (flow, flow.reversed()), near.tx, near.rx), Some(reflector))
    } else {
        (client_over(rig, trial, (flow, flow), near.tx, far.rx), None)
    };
    Opened { client, reflector, sinks: Vec::new() }
}

/// The generic client, which sends one flow and expects another.
fn client_over<T, R>(rig: &Rig, trial: &Trial, (flow, expected): (Flow, Flow), tx: T, rx: R) -> Box<dyn Client>
where
    T: Transmit + 'static,
    R: Receive + 'static,
{
    let mut client = PacketClient::new(rig.clock, tx, rx, flow, threads(rig.placement, trial), rig.stop.clone());
    client.wait = trial.client.wait;
    client.expected = expected;
    Box::new(client)
}

/// A blocking client needs two threads, because one can't sleep and receive at once; a round trip that
/// polls needs one, as it waits for its own frames, and so does ping-pong; otherwise it depends on the
/// cores.
fn threads(placement: Placement, trial: &Trial) -> Threads {
    let Placement { sender, receiver, .. } = placement;
    let one = trial.traffic.mode.returns() || sender == receiver;
    let polls = trial.client.wait == Wait::Poll;
    if (one && polls) || trial.traffic.mode == Mode::PingPong {
        Threads::One { core: sender }
    } else {
        Threads::Two { sender, receiver }
    }
}

fn kernel(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Opened, RigError> {
    let index = |end: &End| end.link.as_ref().expect("kernel ports are named by interface").index;
    let assignment =
        Assignment { flow: ends.flow(), traffic: trial.traffic, tx: index(&ends.tx), core: rig.placement.sender };
    let mut client = KernelClient::load(rig.clock, &assignment, rig.stop.clone())?;
    let (tx, rx) = ((ends.tx.netns.as_deref(), index(&ends.tx)), (ends.rx.netns.as_deref(), index(&ends.rx)));
    if trial.traffic.mode.returns() {
        within(rx.0, || client.attach_reflector(rx.1))??;
        within(tx.0, || client.attach_receiver(tx.1))??;
    } else {
        within(rx.0, || client.attach_receiver(rx.1))??;
    }
    Ok(Opened { client: Box::new(client), reflector: None, sinks: Vec::new() })
}

fn failed(trial: &Trial, what: String, source: std::io::Error) -> RigError {
    RigError::Client { client: trial.client.name.clone(), source: ClientError::io(what, source) }
}
