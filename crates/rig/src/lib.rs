//! Puts a trial together from lab, DUT, taps and client, and runs it.
#![forbid(unsafe_code)]

mod cards;
mod client;
mod dpdk;
pub mod engines;
pub mod generate;
pub mod host;
pub mod interface;
pub mod matrix;
mod open;
mod path;
pub mod place;
mod sampling;
mod trial;
mod veth;

pub use sampling::Progress;
pub use trial::Standing;

use path::Path;
use place::Placement;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_clock::Clock;
use usect_core::environment::Environment;
use usect_core::frame::{Flow, FrameSize};
use usect_core::frame_spec::FrameSpec;
use usect_core::port_name::{Engine, Place};
use usect_core::scenario::{CoreSpec, Scenario, SteerSpec, TrafficSpec};
use usect_core::stall::CoreStalls;
use usect_core::template::Template;
use usect_core::trial::{Trial, TrialResult};
use usect_lab::audit;
use usect_lab::steering::Steering;

/// How soon a pause ends when the user doesn't want to wait.
const BLINK: Duration = Duration::from_millis(50);

/// Everything that the trials of one run share. Dropping it takes the lab down.
pub struct Rig {
    /// Interrupts and queues, put back before the lab goes.
    _steering: Vec<Steering>,
    clock: Clock,
    path: Path,
    frame: FrameSpec,
    flows: u16,
    both: bool,
    placement: Placement,
    cores: Vec<usize>,
    cpu_times: audit::CpuTimes,
    /// The user's.
    stop: Arc<AtomicBool>,
    /// What clients look at: ends the running trial, for the user's or a client's own reason.
    cut: Arc<AtomicBool>,
}

/// Why a rig could not be set up or a trial failed. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// Time can't be read.
    #[error(transparent)]
    Clock(#[from] usect_clock::ClockError),
    /// Namespaces or interfaces.
    #[error(transparent)]
    Lab(#[from] usect_lab::LabError),
    /// The device under test.
    #[error(transparent)]
    Dut(#[from] usect_dut::DutError),
    /// What loads a path, or watches it meanwhile.
    #[error(transparent)]
    Load(#[from] usect_load::LoadError),
    /// eBPF or AF_XDP.
    #[error(transparent)]
    Xdp(#[from] usect_xdp::XdpError),
    /// DPDK.
    #[error(transparent)]
    Dpdk(#[from] usect_dpdk::DpdkError),
    /// A client's trial.
    #[error("client `{client}`: {source}")]
    Client {
        /// Its name.
        client: String,
        /// What went wrong.
        source: usect_port::ClientError,
    },
    /// The counts of a trial do not add up.
    #[error(transparent)]
    Unbalanced(#[from] usect_core::tracker::Unbalanced),
    /// What was asked for can't be done.
    #[error("{0}")]
    Asked(String),
}

/// Starts DPDK if the scenario uses it.
fn start_dpdk(scenario: &Scenario, cores: &[usize]) -> Result<(), RigError> {
    let clients = scenario.clients.iter().filter(|c| c.engine == Engine::Dpdk);
    let mut devices: Vec<&str> = clients
        .clone()
        .flat_map(|c| [&c.tx, &c.rx])
        .flatten()
        .filter_map(|port| match &port.place {
            Place::Device(device) => Some(device.as_str()).filter(|device| usect_dpdk::is_pci(device)),
            _ => None,
        })
        .collect();
    devices.sort_unstable();
    devices.dedup();
    if clients.count() == 0 && !scenario.dut.uses_dpdk() {
        return Ok(());
    }
    let core = *cores.first().ok_or_else(|| RigError::Asked("this process may run on no core at all".into()))?;
    Ok(usect_dpdk::start(&usect_dpdk::Eal {
        core,
        hugepages: scenario.dpdk.hugepages,
        pci: devices.into_iter().map(str::to_owned).collect(),
        arguments: scenario.dpdk.eal.clone(),
    })?)
}

/// Sends interrupts and queues of an interface to a core.
fn steer(spec: &SteerSpec, cores: &[usize]) -> Result<Steering, RigError> {
    let SteerSpec { interface, netns, core } = spec;
    if !cores.contains(core) {
        return Err(RigError::Asked(format!("steer: there is no core {core} for `{interface}`, only {cores:?}")));
    }
    Ok(Steering::apply(&usect_lab::link(netns.as_deref(), interface)?, *core)?)
}

/// Puts away what runs that were killed left behind; one sentence for each.
pub fn recover() -> Result<Vec<String>, RigError> {
    let Some(_turn) = usect_lab::recovering()? else { return Ok(Vec::new()) };
    let mut said = cards::recover()?;
    said.extend(usect_lab::steering::recover()?);
    said.extend(usect_lab::companion::recover()?);
    said.extend(usect_lab::module::recover()?);
    said.extend(usect_lab::tune::recover()?);
    said.extend(usect_lab::ends::recover()?);
    said.extend(usect_lab::recover()?);
    usect_dut::ovs::recover();
    Ok(said)
}

impl Rig {
    /// The frames of a flow of this run.
    fn template(&self, size: FrameSize, flow: &Flow) -> Result<Template, RigError> {
        let spec = self.frame.with_flows(self.flows, flow.source.address.port());
        Template::new(&spec, size, flow).map_err(RigError::Asked)
    }

    /// Sets up what the scenario asks for. `stop` ends a running trial early.
    pub fn new(scenario: &Scenario, stop: Arc<AtomicBool>) -> Result<Rig, RigError> {
        let cores = audit::online_cores();
        let placement = place::place(scenario, &cores).map_err(RigError::Asked)?;
        let clock = Clock::calibrate()?;
        start_dpdk(scenario, &cores)?;
        let path = Path::up(scenario)?;
        let steering = scenario.steer.iter().map(|spec| steer(spec, &cores)).collect::<Result<_, _>>()?;
        let TrafficSpec { frame, flows, both, .. } = scenario.traffic.clone();
        Ok(Rig {
            clock,
            path,
            frame,
            flows,
            both,
            placement,
            cores,
            cpu_times: audit::CpuTimes::now(),
            _steering: steering,
            stop,
            cut: Arc::default(),
        })
    }

    /// The cores of the threads that send and receive.
    pub fn cores(&self) -> CoreSpec {
        let Placement { sender, receiver, .. } = self.placement;
        CoreSpec { sender: Some(sender), receiver: Some(receiver), ..CoreSpec::default() }
    }

    /// What the figures depend on: host, interfaces, clocks, placement; and what the cores did since the
    /// rig was made.
    pub fn environment(&self) -> Environment {
        let mut facts = audit::host();
        facts.set("usect.version", env!("CARGO_PKG_VERSION"));
        for link in self.path.links() {
            facts.extend(audit::interface(&link));
        }
        facts.extend(audit::CpuTimes::now().steal_since(&self.cpu_times));
        let bridge = self.clock.bridge();
        facts.set("clock.tsc_hz", self.clock.rate().hz);
        facts.set(
            "clock.tsc_invariant",
            if self.clock.is_invariant() { "yes" } else { "not promised, trusted all the same" },
        );
        facts.set("clock.tsc_to_monotonic_error_ns", bridge.error_ns());
        facts.set("cores.sender", self.placement.sender);
        facts.set("cores.receiver", self.placement.receiver);
        if let Some(core) = self.placement.dut_back {
            facts.set("cores.dut_back", core);
        }
        if self.both {
            facts.set("cores.back", self.placement.back);
        }
        facts
            .set("cores.dut", self.placement.dut.map_or("none: it runs where frames arrive".into(), |c| c.to_string()));
        facts
    }

    /// What each core does to a spinning thread while there is no traffic, for so long.
    pub fn platform(&self, lasts: Duration) -> Vec<CoreStalls> {
        host::platform(&self.clock, &self.cores, lasts)
    }

    /// Waits, unless the user stops the trial.
    fn pause(&self, ns: u64) {
        let until = Instant::now() + Duration::from_nanos(ns);
        while Instant::now() < until && !self.stop.load(Relaxed) {
            std::thread::sleep(BLINK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Takes its lab down, as dropping it does: it can run nothing more.
    pub fn take_down(&mut self) {
        self._steering.clear();
        self.path.take_down();
    }

    /// Runs one trial; `progress` is called several times a second.
    pub fn run(&mut self, trial: &Trial, progress: &mut dyn FnMut(&Progress)) -> Result<TrialResult, RigError> {
        trial::run(self, trial, progress)
    }

    /// Opens a path for a trial that is to be run again and again.
    pub fn open(&self, trial: &Trial) -> Result<Standing<'_>, RigError> {
        if trial.client.engine == Engine::Kernel {
            return Err(RigError::Asked("the kernel engine measures once per opening: use another engine".into()));
        }
        Standing::open(self, trial)
    }
}
