//! A trial of a matrix: two ends and what stands between them, set up as the cell says; a load; and at once the latency of light flows beside
//! it, and what all of that costs (paper 004 §2).

mod agent;
mod between;
mod end;
mod site;

use crate::path::{RUN_LAB, RX_PORT, TX_PORT};
use crate::{Progress, Rig, RigError};
use between::Between;
use end::{Answer, End, Here, Order, Passed, Reflect, Told, loading};
pub use site::{Own, Site, serve};
use site::{done, unexpected};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::matrix::{
    Apart, Became, Direction, Distribution, FIRST_END, Load, Loaded, Matrix, Pinged, Probed, Seen, Settings, Way,
};
use usect_core::one_way::{self, Exchange};
use usect_core::scenario::{CoreSpec, Mode, Protocol, Scenario, TrafficSpec};
use usect_core::trial::{Tagged, Traffic, Trial, TrialResult};
use usect_dut::DutError;
use usect_lab::{Lab, LabError, audit};
use usect_load::LoadError;
use usect_load::iperf::{Asked, Client};
use usect_load::ping::Ping;
use usect_load::usage::Who;

/// The programs that a matrix needs, beside those of every lab.
pub const PROGRAMS: [&str; 2] = ["iperf3", "ping"];
/// Nothing is watched so shortly before the end: those who load may be gone already.
const BEFORE_THE_END: Duration = Duration::from_millis(100);
const BLINK: Duration = Duration::from_millis(20);
/// Probes whose two ways are told apart, of a trial; every so manieth of more.
const APART: u64 = 100_000;

/// A trial that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// Of which matrix.
    pub matrix: &'a Matrix,
    /// Which cell: the levels' numbers.
    pub levels: &'a [usize],
    /// How long.
    pub protocol: Protocol,
}

/// The two ends of a trial, set up.
struct Ends<'a> {
    near: Here,
    far: &'a mut End,
    /// The far one's.
    address: Ipv4Addr,
    /// The far one's host, where it is another.
    other_host: Option<String>,
    /// Processes that stand between.
    between: Vec<Who>,
}

/// What was seen beside the light flow.
struct Beside {
    ping: Pinged,
    load: Option<Loaded>,
    near: Told,
    far: Told,
}

impl Cell<'_> {
    /// Makes it; nothing where `stop` was set meanwhile, and so it wasn't made whole.
    pub fn measure(
        self,
        site: &mut Site,
        stop: &Arc<AtomicBool>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Option<Became> {
        let settings = self.matrix.settings(self.levels);
        let seen = match site {
            Site::Lab => self.in_lab(&settings, stop, progress),
            Site::Own(own) => self.on(own, &settings, stop, progress),
        };
        let became = seen.map_or_else(|not_so| not_so, |seen| Became::Seen(Box::new(seen)));
        (!stop.load(Relaxed)).then_some(became)
    }

    fn in_lab(
        self,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Became> {
        let mtu = settings.mtu.unwrap_or(1500);
        let lab = Lab::up(RUN_LAB, Between::shape(settings.path), mtu.into()).map_err(RigError::from)?;
        // A delay line passes on frames as they are, and their checksums have to be in them.
        if !matches!(settings.path, Way::Spool(_)) {
            lab.leave_to_cards().map_err(RigError::from)?;
        }
        let (mut near, mut far) = (Here::at(lab.tx().clone(), Some(site::BOTH)), Here::at(lab.rx().clone(), None));
        near.set_up(settings)?;
        far.set_up(settings)?;
        let between = Between::start(&lab, settings.path, self.matrix)?;
        let (address, mut far) = (far.address()?, End::Here(Box::new(far)));
        let ends = Ends { near, far: &mut far, address, other_host: None, between: between.processes() };
        let mut seen = self.seen(ends, settings, stop, progress)?;
        seen.notes.splice(0..0, between.notes());
        between.stop()?;
        Ok(seen)
    }

    fn on(
        self,
        own: &mut Own,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Became> {
        let other_host = own.other_host().map(str::to_owned);
        let (mut near, address, far) = own.ends_for(settings.path)?;
        near.set_up(settings)?;
        let set_up = far.ask(Order::SetUp(settings.clone())).and_then(done);
        let seen = set_up.and_then(|()| {
            let ends = Ends { near, far: &mut *far, address, other_host, between: Vec::new() };
            self.seen(ends, settings, stop, progress)
        });
        let cleared = far.ask(Order::Clear).and_then(done);
        let seen = seen?;
        cleared.map(|()| seen)
    }

    /// Measures the light flow, and watches everything else meanwhile.
    fn seen(
        self,
        ends: Ends<'_>,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Became> {
        let Ends { mut near, far, address, other_host, between } = ends;
        let probe = self.probe(&near, address)?;
        let mut rig = Rig::new(&probe, stop.clone())?;
        let mut traffic = Traffic::of(&probe.traffic, &self.protocol);
        let every = traffic.frames.div_ceil(APART).max(1);
        traffic.tagged = Some(Tagged { from: 0, every });
        let from = traffic.warmup_frames as u32;
        far.ask(Order::Reflect(Reflect {
            port: RX_PORT,
            to: SocketAddrV4::new(near.address()?, TX_PORT),
            from,
            every: every as u32,
            most: APART as usize,
        }))
        .and_then(done)?;
        let load = self.load(settings, &near, far, address)?;
        let (over, trial) = (AtomicBool::new(false), Trial::once(probe.clients[0].clone(), traffic));
        let watch = Watch { cell: self, settings, address, between, over: &over };
        let (result, beside) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch.until_over(&mut near, far, load));
            let result = rig.run(&trial, progress);
            over.store(true, Relaxed);
            (result, watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let passed = match far.ask(Order::Recall)? {
            Answer::Passed(passed) => passed,
            other => return Err(unexpected(&other)),
        };
        let (result, beside) = (result?, beside?);
        let apart = split(&rig, &result, &passed, (from, every), other_host.is_none());
        Ok(beside.with(result, apart, other_host.as_deref()))
    }

    /// Starts the load; its warm-up begins with it.
    fn load(self, settings: &Settings, near: &Here, far: &mut End, to: Ipv4Addr) -> Result<Option<Client>, Became> {
        let Load::Flows { transport, flows } = settings.load else { return Ok(None) };
        let whole = |seconds: f64| seconds.ceil() as u64;
        let Protocol { warmup_s, duration_s, .. } = self.protocol;
        let asked = Asked {
            to,
            transport,
            flows,
            back: settings.direction == Direction::Back,
            seconds: whole(duration_s),
            warmup: whole(warmup_s),
        };
        far.ask(Order::Serve).and_then(done)?;
        Client::start(near.link.netns.as_deref(), asked).map(Some).map_err(loading)
    }

    /// The light flow, there and back by sockets that block: it leaves the cores to the load.
    fn probe(self, near: &Here, far: Ipv4Addr) -> Result<Scenario, Became> {
        let netns = near.link.netns.as_ref().map_or(String::new(), |netns| format!("@{netns}"));
        let text = format!(
            "title = \"beside a load\"\ndut = {{ kind = \"external\", answered = true }}\n\
             traffic = {{ frame_size = 64, rate = \"1 kpps\", mode = \"round-trip\" }}\n\
             [[client]]\nname = \"probe\"\nengine = \"udp\"\nwait = \"block\"\ntx = \"udp:{}:{TX_PORT}{netns}\"\nrx = \"udp:{far}:{RX_PORT}\"\n",
            near.address()?
        );
        let mut scenario = Scenario::parse(&text).map_err(|error| Became::Failed(error.to_string()))?;
        // One core for both threads, which block: on another a delay line may spin.
        let core = audit::online_cores().last().copied();
        scenario.cores = CoreSpec { sender: core, receiver: core, ..CoreSpec::default() };
        let probe = &self.matrix.probe;
        scenario.traffic = TrafficSpec::evenly(probe.frame_size, probe.rate);
        scenario.traffic.mode = Mode::RoundTrip;
        Ok(scenario)
    }
}

/// What is to be watched, and when.
struct Watch<'a> {
    cell: Cell<'a>,
    settings: &'a Settings,
    address: Ipv4Addr,
    between: Vec<Who>,
    /// Whether the light flow has ended, for whatever reason.
    over: &'a AtomicBool,
}

impl Watch<'_> {
    /// Watches until it is over, and waits for the load's own report.
    fn until_over(self, near: &mut Here, far: &mut End, load: Option<Client>) -> Result<Beside, Became> {
        let Protocol { warmup_s, duration_s, .. } = self.cell.protocol;
        let begun = Instant::now();
        let warm = begun + Duration::from_secs_f64(warmup_s);
        self.sleep_until(warm);
        let every = Duration::from_millis(self.cell.matrix.probe.ping_ms.into());
        let times = (duration_s / every.as_secs_f64()).floor().max(1.0) as u64;
        let ping = Ping::start(near.link.netns.as_deref(), self.address, every, times).map_err(loading)?;
        let receives = |direction| load.is_some() && self.settings.direction == direction;
        far.ask(Order::Watch { receives: receives(Direction::Forward) }).and_then(done)?;
        let mut beside = vec![Who { name: "ping".into(), pid: ping.pid() }];
        beside.extend(load.as_ref().map(|client| Who { name: FIRST_END.into(), pid: client.pid() }));
        beside.extend(self.between.clone());
        near.watch(receives(Direction::Back), beside)?;
        let end = warm + Duration::from_secs_f64(duration_s).saturating_sub(BEFORE_THE_END);
        self.sleep_until(end);
        if Instant::now() < end {
            return Err(Became::Failed("the light flow ended before its time".into()));
        }
        let near = near.tell()?;
        let far = match far.ask(Order::Tell)? {
            Answer::Told(told) => *told,
            other => return Err(unexpected(&other)),
        };
        let load = load.map(Client::end).transpose().map_err(loading)?;
        Ok(Beside { ping: ping.end().map_err(loading)?, load, near, far })
    }

    fn sleep_until(&self, until: Instant) {
        while Instant::now() < until && !self.over.load(Relaxed) {
            std::thread::sleep(BLINK.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

impl Beside {
    /// All that was seen. What is of another host is told by its name.
    fn with(self, result: TrialResult, apart: Option<Apart>, other_host: Option<&str>) -> Seen {
        let Beside { ping, load, near, mut far } = self;
        if let Some(host) = other_host {
            far.cores.iter_mut().for_each(|core| core.who = format!("{host} {}", core.who));
            far.queue.interface = format!("{host} {}", far.queue.interface);
        }
        let both = |near: Vec<_>, far: Vec<_>| near.into_iter().chain(far).collect();
        let latency = Distribution::of(&result.client.latency);
        Seen {
            probe: Probed { counts: result.client.counts, latency, apart },
            ping,
            load,
            cores: both(near.cores, far.cores),
            processes: both(near.processes, far.processes),
            arrived: near.arrived.or(far.arrived),
            queues: vec![near.queue, far.queue],
            notes: result.client.notes,
        }
    }
}

/// Tells the two ways of probes apart, by when the far end saw them.
fn split(
    rig: &Rig,
    result: &TrialResult,
    passed: &Passed,
    (from, every): (u32, u64),
    one_clock: bool,
) -> Option<Apart> {
    let near = rig.clock.rate();
    let far = if one_clock { near } else { passed.rate()? };
    let seen: HashMap<u32, (u64, u64)> =
        passed.frames.iter().map(|(number, left, there)| (*number, (*left, *there))).collect();
    let exchange = |(which, rtt_ns): &(u32, u64)| {
        let (left, there) = seen.get(&from.wrapping_add(which.wrapping_mul(every as u32)))?;
        let left = near.ns(*left);
        Some(Exchange { left, there: far.ns(*there), back: left.checked_add(*rtt_ns)? })
    };
    let exchanges: Vec<Exchange> = result.client.tagged.iter().filter_map(exchange).collect();
    let split = if one_clock { one_way::split_by_one_clock(&exchanges) } else { one_way::split(exchanges) };
    Apart::of(&split?)
}

/// What an error makes of a cell: a program that isn't installed is something that this host lacks.
impl From<RigError> for Became {
    fn from(error: RigError) -> Became {
        let (RigError::Lab(lab) | RigError::Dut(DutError::Lab(lab)) | RigError::Load(LoadError::Lab(lab))) = &error
        else {
            return Became::Failed(error.to_string());
        };
        match lab {
            LabError::MissingProgram { .. } => Became::Unavailable(error.to_string()),
            _ => Became::Failed(error.to_string()),
        }
    }
}
