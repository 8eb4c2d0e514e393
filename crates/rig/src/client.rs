//! Opening a client of any engine over a path: the one place that knows them all.

use crate::open;
use crate::path::{End, Ends};
use crate::place::Placement;
use crate::{Rig, RigError};
use std::cell::{Cell, RefCell};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};
use usect_core::frame::{Flow, HEADERS};
use usect_core::port_name::Engine;
use usect_core::scenario::{Mode, Stamp, Wait};
use usect_core::trial::Trial;
use usect_dut::{Dut, Reflector};
use usect_lab::within;
use usect_port::client::{Client, PacketClient, Threads};
use usect_port::lanes::{Lane, Lanes};
use usect_port::mem::{self, MemPort};
use usect_port::{Beside, Cards, ClientError, Port, Receive, Route, Take, Transmit, packet, udp};
use usect_xdp::kernel::{Assignment, Behind, KernelClient};

/// How long a port is given to take the learning frames.
const LEARNING: Duration = Duration::from_secs(2);

/// A client ready to run, and the reflector of its round trip where it needs one that runs in user space.
pub(crate) struct Opened {
    pub(crate) client: Box<dyn Client>,
    pub(crate) reflector: Option<Box<dyn Dut>>,
    /// Sockets that keep the stack silent while the client runs.
    pub(crate) sinks: Vec<Option<UdpSocket>>,
    /// The clocks of cards that stamp its frames, to be read while it runs.
    pub(crate) cards: Option<Arc<Cards>>,
}

impl Opened {
    pub(crate) fn alone(client: Box<dyn Client>) -> Opened {
        Opened { client, reflector: None, sinks: Vec::new(), cards: None }
    }
}

/// What opening the client of a trial needs.
pub(crate) struct Opening<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) trial: &'a Trial,
    pub(crate) ends: &'a Ends,
    /// Who stamps its frames besides it.
    pub(crate) route: Route,
    /// The one core of its thread, where it is not chosen.
    pub(crate) core: Option<usize>,
    /// What its receiving thread does besides: taken by the client that does.
    pub(crate) beside: Cell<Option<Box<dyn Beside>>>,
    /// The in-kernel receivers of the trial so far, and where they stand: namespace and interface.
    pub(crate) hooks: &'a RefCell<Vec<(u32, u32, Behind)>>,
}

impl Opening<'_> {
    /// Opens the client. `inside` are the two ports of a DUT inside the process.
    pub(crate) fn open(&self, inside: Option<(MemPort, MemPort)>) -> Result<Opened, RigError> {
        let Opening { trial, ends, .. } = self;
        let (largest, stamp) = (trial.traffic.frame_size.without_fcs(), self.route.stamp);
        let comes_back = trial.traffic.mode.returns() || self.rig.both;
        let near = if comes_back { self.only(&ends.flow().reversed())? } else { Take::Nothing };
        let far = self.only(&ends.flow())?;
        let far_stamp = self.far_stamp();
        match trial.client.engine {
            Engine::Udp => self.udp(),
            Engine::Packet => {
                let open = |end, take, stamp| open::packet(end, take, largest, stamp);
                let sinks = vec![self.sink(&ends.tx)?, self.sink(&ends.rx)?];
                let ports = (open(&ends.tx, near, stamp)?, open(&ends.rx, far, far_stamp)?);
                Ok(Opened { sinks, ..self.generic(ends, ports.0, ports.1)? })
            }
            Engine::Xdp => {
                let (near, far) = (open::xdp(&ends.tx, near, stamp)?, open::xdp(&ends.rx, far, far_stamp)?);
                self.generic(ends, near, far)
            }
            Engine::Dpdk => self.dpdk(largest),
            Engine::Mem => {
                let (near, far) = inside.unwrap_or_else(|| mem::pair(largest));
                self.generic(ends, near, far)
            }
            Engine::Kernel => self.kernel(),
        }
    }

    /// The same with others who stamp its frames.
    pub(crate) fn stamped_by(&self, route: Route) -> Opening<'_> {
        let beside = Cell::new(self.beside.take());
        Opening { rig: self.rig, trial: self.trial, ends: self.ends, route, core: self.core, beside, hooks: self.hooks }
    }

    /// A reflector needs no stamps, and nobody would fetch them.
    pub(crate) fn far_stamp(&self) -> Stamp {
        if self.trial.traffic.mode.returns() { Stamp::App } else { self.route.stamp }
    }

    /// The frames of a flow, to be received.
    fn only(&self, flow: &Flow) -> Result<Take, RigError> {
        Ok(Take::Only(self.rig.template(self.trial.traffic.frame_size, flow)?.words()))
    }

    fn udp(&self) -> Result<Opened, RigError> {
        let client = &self.trial.client;
        let (tx, rx) = (self.ends.tx.endpoint.address, self.ends.rx.endpoint.address);
        let open = |netns: &Option<String>, local, remote, stamp| {
            let opened = within(netns.as_deref(), || udp::open(local, remote, client.wait == Wait::Block, stamp))?;
            opened.map_err(|e| self.failed(format!("opening a UDP socket at {local}"), e))
        };
        let near = open(&self.ends.tx.netns, tx, rx, self.route.stamp)?;
        if self.rig.path.dut.is_answered() {
            let flow = self.ends.flow();
            return Ok(Opened::alone(self.client((flow, flow.reversed()), near.tx, near.rx)));
        }
        let far = open(&self.ends.rx.netns, rx, tx, self.far_stamp())?;
        self.generic(self.ends, near, far)
    }

    /// Keeps the stack at an end from answering.
    pub(crate) fn sink(&self, end: &End) -> Result<Option<UdpSocket>, RigError> {
        let port = end.endpoint.address.port();
        let opened = within(end.netns.as_deref(), || packet::sink(port))?;
        opened.map_err(|e| self.failed(format!("silencing the stack at UDP port {port}"), e))
    }

    /// The generic client over two open ports: one way, both ways at once, or, with a reflector at the far one, there
    /// and back.
    pub(crate) fn generic<T, R>(&self, ends: &Ends, near: Port<T, R>, mut far: Port<T, R>) -> Result<Opened, RigError>
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let (rig, flow) = (self.rig, ends.flow());
        if self.trial.traffic.mode.returns() {
            // A DUT that spins has its core for itself, and the receiver's is free: a round trip is one thread.
            let spare = rig.placement.dut.filter(|_| !rig.path.dut.spins());
            let core = spare.or(Some(rig.placement.receiver));
            let reflector = Box::new(Reflector::start(rig.clock, core, far)) as Box<dyn Dut>;
            let client = self.client((flow, flow.reversed()), near.tx, near.rx);
            return Ok(Opened { reflector: Some(reflector), ..Opened::alone(client) });
        }
        self.teach(&flow, &mut far.tx)?;
        let there = self.client((flow, flow), near.tx, far.rx);
        if !rig.both {
            return Ok(Opened::alone(there));
        }
        let (core, route) = (Some(rig.placement.back), Route::default());
        let way_back =
            Opening { rig, trial: self.trial, ends, route, core, beside: Cell::default(), hooks: self.hooks };
        let back = way_back.client((flow.reversed(), flow.reversed()), far.tx, near.rx);
        let lane = |name: &str, client, pooled| Lane { name: name.to_owned(), client, pooled };
        Ok(Opened::alone(Box::new(Lanes::new(vec![lane("there", there, true), lane("back", back, false)]))))
    }

    /// Sends the learning frames of RFC 2544 §23 from the receiver's port.
    fn teach(&self, flow: &Flow, far: &mut impl Transmit) -> Result<(), RigError> {
        let mut left = self.trial.around.learning_frames;
        // Where frames go both ways anyway, they would be taken for the others'.
        if left == 0 || self.rig.both {
            return Ok(());
        }
        let template = self.rig.template(self.trial.traffic.frame_size, &flow.reversed())?;
        let bytes = template.bytes(if far.caps().frames { 0 } else { HEADERS });
        far.prepare(bytes);
        let until = Instant::now() + LEARNING;
        while left > 0 && Instant::now() < until {
            let sent = far.send(|_| {
                left = left.checked_sub(1)?;
                Some(bytes.len())
            });
            sent.map_err(|e| self.failed("sending learning frames".into(), e))?;
        }
        Ok(())
    }

    /// The generic client, which sends one flow and expects another.
    pub(crate) fn client<T, R>(&self, (flow, expected): (Flow, Flow), tx: T, rx: R) -> Box<dyn Client>
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let Opening { rig, trial, .. } = self;
        let mut client = PacketClient::new(rig.clock, tx, rx, flow, self.threads(), rig.cut.clone());
        client.wait = trial.client.wait;
        client.expected = expected;
        client.frame = rig.frame.clone();
        client.flows = rig.flows;
        client.route = self.route.clone();
        client.beside = self.beside.take();
        Box::new(client)
    }

    /// A blocking client needs two threads, because one can't sleep and receive at once; a round trip that polls needs
    /// one, as it waits for its own frames, and so does ping-pong, and each of two directions; otherwise it depends
    /// on the cores.
    fn threads(&self) -> Threads {
        let Placement { sender, receiver, .. } = self.rig.placement;
        let mode = self.trial.traffic.mode;
        let polls = self.trial.client.wait == Wait::Poll;
        let one = mode.returns() || self.rig.both || sender == receiver;
        match self.core {
            Some(core) if polls => Threads::One { core },
            Some(core) => Threads::Two { sender: core, receiver: core },
            None if (one && polls) || mode == Mode::PingPong => Threads::One { core: sender },
            None => Threads::Two { sender, receiver },
        }
    }

    fn kernel(&self) -> Result<Opened, RigError> {
        let Opening { rig, trial, ends, .. } = self;
        let index = |end: &End| end.link.as_ref().expect("kernel ports are named by interface").index;
        let assignment = Assignment {
            flow: ends.flow(),
            traffic: trial.traffic.clone(),
            tx: index(&ends.tx),
            core: self.core.unwrap_or(rig.placement.sender),
        };
        let mut client = KernelClient::load(rig.clock, &assignment, rig.cut.clone())?;
        let (tx, rx) = ((ends.tx.netns.as_deref(), index(&ends.tx)), (ends.rx.netns.as_deref(), index(&ends.rx)));
        if trial.traffic.mode.returns() {
            within(rx.0, || client.attach_reflector(rx.1))??;
            within(tx.0, || client.attach_receiver(tx.1))??;
        } else {
            let place = (ends.rx.link.as_ref().map_or(0, |link| link.netns_inum), rx.1);
            let mut hooks = self.hooks.borrow_mut();
            // Each stands behind the one before it.
            match hooks.iter().rfind(|(netns, index, _)| (*netns, *index) == place) {
                Some((.., behind)) => client.stand_behind(behind)?,
                None => within(rx.0, || client.attach_receiver(rx.1))??,
            }
            hooks.push((place.0, place.1, client.behind()?));
        }
        // After the receiver, which makes the far end of a bare wire take frames.
        self.open_veth(&mut client, &ends.tx)?;
        if trial.traffic.mode.returns() {
            self.open_veth(&mut client, &ends.rx)?;
        }
        Ok(Opened::alone(Box::new(client)))
    }

    fn failed(&self, what: String, source: std::io::Error) -> RigError {
        RigError::Client { client: self.trial.client.name.clone(), source: ClientError::io(what, source) }
    }
}
