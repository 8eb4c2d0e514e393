//! Frames as fast as a port takes them, and, with a receiver, as fast as they can be matched and recorded.

use crate::open;
use crate::path::{self, End};
use crate::{Rig, RigError, start_dpdk};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use usect_clock::Clock;
use usect_core::frame::{Endpoint, Flow, FrameSize};
use usect_core::measurement::Measurement;
use usect_core::port_name::{Engine, Place, PortName};
use usect_core::rate::Rate;
use usect_core::scenario::{Scenario, Stamp};
use usect_core::trial::{Traffic, Trial};
use usect_lab::audit;
use usect_port::flood::Flood;
use usect_port::{ClientError, Take, Transmit};

/// Where frames go to that nobody is to receive: a locally administered address that is nobody's.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];

/// What came of it.
#[derive(Debug)]
pub struct Generated {
    /// Frames that left.
    pub frames: u64,
    /// In how many nanoseconds.
    pub ns: u64,
    /// What was received and recorded, with a receiver.
    pub measured: Option<Measurement>,
    /// What a reader should know of the port.
    pub notes: Vec<String>,
}

/// Sends `frames` frames from the only client's `tx`, without a pace. Where `receive` is set, its `rx` receives,
/// matches and records every frame, on the same core where the scenario names one for both. Without `stamped`,
/// frames carry no number and no time, and only leave.
pub fn generate(
    scenario: &Scenario,
    frames: u64,
    receive: bool,
    stamped: bool,
    stop: Arc<AtomicBool>,
) -> Result<Generated, RigError> {
    let frame_size = scenario.traffic.frame_size;
    if receive {
        let traffic = Traffic::evenly(frame_size, Rate::UNPACED, frames);
        return looped(scenario, traffic, stop);
    }
    let cores = audit::online_cores();
    let core = scenario.cores.sender.or(cores.last().copied()).unwrap_or(0);
    let clock = Clock::calibrate()?;
    start_dpdk(scenario, &cores)?;
    let port = scenario.clients[0].tx.as_ref().expect("the caller names a port");
    let sender = Sender { clock, core, frame_size, frames, stamped, stop };
    match port.engine {
        Engine::Packet => {
            sender.send(&end(port)?, |end| open::packet(end, Take::Nothing, frame_size.without_fcs(), Stamp::App))
        }
        Engine::Xdp => sender.send(&end(port)?, |end| open::xdp(end, Take::Nothing, Stamp::App)),
        Engine::Dpdk => {
            let Place::Device(device) = &port.place else { unreachable!("dpdk ports are devices") };
            let mut end = end(port)?;
            let opened = open::dpdk(&end, device, frame_size.without_fcs(), Stamp::App)?;
            end.endpoint.mac = opened.tx.mac();
            sender.send(&end, |_| Ok(opened))
        }
        engine @ (Engine::Udp | Engine::Mem | Engine::Kernel) => {
            Err(RigError::Asked(format!("the {engine} engine doesn't send without a receiver: name one with --rx")))
        }
    }
}

/// Everything at once: send, receive, match, record.
fn looped(scenario: &Scenario, traffic: Traffic, stop: Arc<AtomicBool>) -> Result<Generated, RigError> {
    let trial = Trial::once(scenario.clients[0].clone(), traffic);
    let measured = Rig::new(scenario, stop)?.run(&trial, &mut |_| ())?.client;
    let sent = measured.counts.sent;
    let pace = measured.pace.map_or(0.0, |pace| pace.achieved);
    let ns = if pace > 0.0 { (sent as f64 * 1e9 / pace) as u64 } else { 0 };
    Ok(Generated { frames: sent, ns, notes: measured.notes.clone(), measured: Some(measured) })
}

fn end(port: &PortName) -> Result<End, RigError> {
    path::end(port, path::TX_ADDRESS, path::TX_PORT)
}

/// Who sends, and what.
struct Sender {
    clock: Clock,
    core: usize,
    frame_size: FrameSize,
    frames: u64,
    stamped: bool,
    stop: Arc<AtomicBool>,
}

impl Sender {
    fn send<T: Transmit, R>(
        &self,
        end: &End,
        open: impl FnOnce(&End) -> Result<usect_port::Port<T, R>, RigError>,
    ) -> Result<Generated, RigError> {
        let mut tx = open(end)?.tx;
        let address = std::net::SocketAddrV4::new(path::RX_ADDRESS, path::RX_PORT);
        let flow = Flow { source: end.endpoint, destination: Endpoint { mac: NOBODY, address } };
        let flood = Flood::new(flow, self.frame_size, self.frames, self.stamped);
        let work = || {
            usect_port::pin(self.core).map_err(|e| ClientError::io(format!("pinning to core {}", self.core), e))?;
            flood.send(&self.clock, &mut tx, &self.stop)
        };
        let sent = std::thread::scope(|scope| scope.spawn(work).join());
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (frames, ns) = sent.map_err(|source| RigError::Client { client: "generator".into(), source })?;
        Ok(Generated { frames, ns, measured: None, notes: vec![tx.caps().note.clone()] })
    }
}
