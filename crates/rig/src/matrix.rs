//! A trial of a matrix: two ends and what stands between them, set up as the cell says; a load; and at once the latency of light flows beside
//! it, and what all of that costs (paper 004 §2).

mod agent;
mod apart;
mod between;
mod end;
mod site;

use crate::path::{RUN_LAB, RX_PORT, TX_PORT};
use crate::{Progress, Rig, RigError, Standing};
use apart::{Known, Picked, quiet, split};
use between::Between;
use end::{Answer, End, Here, Order, Passed, Told, loading};
pub use site::{Own, Site, serve};
use site::{done, unexpected};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::matrix::{
    Apart, Became, Direction, Distribution, FIRST_END, Load, Loaded, Matrix, Pinged, Probed, Seen, Settings, Way,
};
use usect_core::measurement::Measurement;
use usect_core::scenario::{CoreSpec, Mode, Protocol, Scenario, TrafficSpec};
use usect_core::trial::{Traffic, Trial};
use usect_dut::DutError;
use usect_lab::{Lab, LabError, audit};
use usect_load::LoadError;
use usect_load::iperf::{Asked, Client};
use usect_load::ping::{Echo, Ping};
use usect_load::usage::Who;

/// The programs that a matrix needs, beside those of every lab.
pub const PROGRAMS: [&str; 2] = ["iperf3", "ping"];
/// Nothing is watched so shortly before the end: those who load may be gone already.
const BEFORE_THE_END: Duration = Duration::from_millis(100);
const BLINK: Duration = Duration::from_millis(20);
/// How long a path may take to come back after it was set up.
const COMES_BACK: Duration = Duration::from_secs(20);
/// The frames of an AF_XDP socket are in pages, with what the kernel needs of each.
const SPOOL_MTU: u16 = 3_400;
/// How many echoes of full size may be lost on a path that carries them.
const ATTEMPTS: usize = 3;

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
    near: &'a mut Here,
    far: &'a mut End,
    /// The far one's.
    address: Ipv4Addr,
    /// The far one's host, where it is another.
    other_host: Option<&'a str>,
    /// Processes that stand between.
    between: Vec<Who>,
}

/// What was seen beside the light flow.
struct Beside {
    ping: Pinged,
    load: Option<Loaded>,
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
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Became> {
        let mtu = settings.mtu.unwrap_or(1500);
        let lab = Lab::up(RUN_LAB, Between::shape(settings.path), mtu.into()).map_err(RigError::from)?;
        // A delay line passes on frames as they are, and their checksums have to be in them: in all cells alike.
        if !self.matrix.vary.path.iter().any(|way| matches!(way, Way::Spool(_))) {
            lab.leave_to_cards().map_err(RigError::from)?;
        }
        let mut near = Here::at(lab.tx().clone(), Some(site::BOTH));
        let far = Here::at(lab.rx().clone(), None);
        let (address, mut far) = (far.address()?, End::Here(Box::new(far)));
        set_up(&mut near, &mut far, settings)?;
        if matches!(settings.path, Way::Spool(_)) && mtu > SPOOL_MTU {
            let why = format!("a delay line takes an MTU of up to {SPOOL_MTU}, as XDP does, and this one is {mtu}");
            return Err(Became::Unavailable(why));
        }
        let between = Between::start(&lab, settings.path, self.matrix)?;
        let ends = Ends { near: &mut near, far: &mut far, address, other_host: None, between: between.processes() };
        let mut seen = self.seen(ends, settings, stop, progress);
        if let Ok(seen) = &mut seen {
            seen.notes.splice(0..0, between.notes());
        }
        // What stood between knows best why it did so no longer.
        both(seen, between.stop().map_err(Became::from))
    }

    fn on(
        self,
        own: &mut Own,
        settings: &Settings,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Became> {
        let other_host = own.other_host().map(str::to_owned);
        let (mut near, far, address) = own.ends_for(settings.path, stop)?;
        let seen = set_up(&mut near, far, settings).and_then(|()| {
            let other_host = other_host.as_deref();
            let ends = Ends { near: &mut near, far: &mut *far, address, other_host, between: Vec::new() };
            self.seen(ends, settings, stop, progress)
        });
        let mut cleared = near.obey(Order::Clear).and_then(done);
        // One that is gone puts back by itself.
        if !far.is_gone() {
            cleared = both(cleared, far.ask(Order::Clear).and_then(done));
        }
        both(seen, cleared)
    }

    /// Measures the light flow, and watches everything else meanwhile.
    fn seen(
        self,
        ends: Ends<'_>,
        settings: &Settings,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Seen, Became> {
        let Ends { near, far, address, other_host, between } = ends;
        await_path(near, (address, settings.mtu), stop)?;
        let probe = self.probe(near, address)?;
        // Ends the probes for the user, and where something else of the trial went wrong.
        let halt: Arc<AtomicBool> = Arc::default();
        let rig = Rig::new(&probe, halt.clone())?;
        let mut traffic = Traffic::of(&probe.traffic, &self.protocol);
        let picked = Picked::of(&mut traffic);
        let trial = Trial::once(probe.clients[0].clone(), traffic);
        let mut path = rig.open(&trial)?;
        let to = SocketAddrV4::new(near.address()?, TX_PORT);
        // What two clocks say of each other, they say best while the path is quiet.
        let mut beside_it = Vec::new();
        if other_host.is_some() {
            beside_it.push(quiet(&mut path, far, to, &trial.traffic)?);
        }
        far.ask(Order::Reflect(picked.reflect(to))).and_then(done)?;
        let receives = |direction| settings.load != Load::None && settings.direction == direction;
        near.obey(Order::Prepare { receives: receives(Direction::Back) }).and_then(done)?;
        far.ask(Order::Prepare { receives: receives(Direction::Forward) }).and_then(done)?;
        let load = self.load(settings, near, far, address)?;
        let watch = Watch { cell: self, address, between, over: &AtomicBool::new(false) };
        let (measured, beside) = at_once(
            &mut path,
            &trial.traffic,
            (near, far, load),
            watch,
            &mut |now| {
                if stop.load(Relaxed) {
                    halt.store(true, Relaxed);
                }
                progress(now);
            },
            &halt,
        );
        let (mut measured, beside) = match (measured, beside) {
            // What came of the probes then came of that.
            (_, Err(why)) if far.is_gone() => return Err(why),
            (measured, beside) => (measured?, beside?),
        };
        let (near_told, (far_told, passed)) = (near.tell()?, told(far)?);
        if measured.counts.received == 0 {
            let open = other_host.map(|_| format!(": is UDP port {RX_PORT} of {address} open, and {TX_PORT} here?"));
            return Err(Became::Failed(format!("no probe came back{}", open.unwrap_or_default())));
        }
        let known = Known { tagged: std::mem::take(&mut measured.tagged), passed, picked };
        if other_host.is_some() {
            beside_it.push(quiet(&mut path, far, to, &trial.traffic)?);
        }
        let apart = split(&known, &beside_it, rig.clock.rate());
        Ok(beside.with(measured, apart, (near_told, far_told), other_host))
    }

    /// Starts the load; its warm-up begins with it.
    fn load(self, settings: &Settings, near: &Here, far: &mut End, to: Ipv4Addr) -> Result<Option<Client>, Became> {
        let Load::Flows { transport, flows } = settings.load else { return Ok(None) };
        // Whole seconds, as a matrix is checked to have.
        let Protocol { warmup_s, duration_s, .. } = self.protocol;
        let asked = Asked {
            to,
            transport,
            flows,
            back: settings.direction == Direction::Back,
            seconds: duration_s as u64,
            warmup: warmup_s as u64,
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

/// Sets both ends up.
fn set_up(near: &mut Here, far: &mut End, settings: &Settings) -> Result<(), Became> {
    near.obey(Order::SetUp(settings.clone())).and_then(done)?;
    far.ask(Order::SetUp(settings.clone())).and_then(done)
}

/// What came of two things of which either may have failed.
fn both<T>(first: Result<T, Became>, second: Result<(), Became>) -> Result<T, Became> {
    match (first, second) {
        (first, Ok(())) => first,
        (Ok(_), Err(why)) => Err(why),
        (Err(Became::Failed(first) | Became::Unavailable(first)), Err(Became::Failed(second))) => {
            Err(Became::Failed(format!("{first}; and {second}")))
        }
        (Err(first), Err(_)) => Err(first),
    }
}

/// Waits until the far end answers: a card that was set up may take its link away for seconds. Then looks whether the path carries packets of the
/// MTU that was set up: between hosts stands what nobody set up.
fn await_path(near: &Here, (address, mtu): (Ipv4Addr, Option<u16>), stop: &AtomicBool) -> Result<(), Became> {
    let answers = |of: Echo| {
        let echo = Ping::start(near.link.netns.as_deref(), address, of).map_err(loading)?;
        Ok::<_, Became>(!echo.end().map_err(loading)?.rtts_ns.is_empty())
    };
    let begun = Instant::now();
    while !answers(Echo::ONE)? {
        if begun.elapsed() >= COMES_BACK {
            let within = COMES_BACK.as_secs();
            return Err(Became::Failed(format!("{address} answers no echo within {within} s of setting up")));
        }
        if stop.load(Relaxed) {
            return Err(Became::Failed("it was interrupted".into()));
        }
    }
    for _ in 0..ATTEMPTS {
        if mtu.is_none_or(|mtu| answers(Echo { packet: Some(mtu), ..Echo::ONE }).unwrap_or(false)) {
            return Ok(());
        }
    }
    let mtu = mtu.unwrap_or_default();
    Err(Became::Unavailable(format!(
        "{address} answers echoes, and none of {mtu} bytes: what stands between doesn't carry that MTU"
    )))
}

/// Sends the probes, and watches everything else meanwhile; where that can't be, `halt` ends them.
fn at_once(
    path: &mut Standing<'_>,
    probes: &Traffic,
    (near, far, load): (&mut Here, &mut End, Option<Client>),
    watch: Watch<'_>,
    progress: &mut dyn FnMut(&Progress),
    halt: &AtomicBool,
) -> (Result<Measurement, RigError>, Result<Beside, Became>) {
    let over = watch.over;
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let beside = watch.until_over(near, far, load);
            // Without it, what the probes find says nothing.
            if beside.is_err() {
                halt.store(true, Relaxed);
            }
            beside
        });
        let measured = path.again(probes, progress);
        over.store(true, Relaxed);
        (measured, watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// What the far end saw, and what passed there.
fn told(far: &mut End) -> Result<(Told, Passed), Became> {
    match (far.ask(Order::Tell)?, far.ask(Order::Recall)?) {
        (Answer::Told(told), Answer::Passed(passed)) => Ok((*told, passed)),
        (one, other) => Err(unexpected(if matches!(one, Answer::Told(_)) { &other } else { &one })),
    }
}

/// What is to be watched.
struct Watch<'a> {
    cell: Cell<'a>,
    address: Ipv4Addr,
    between: Vec<Who>,
    /// Whether the light flow has ended, for whatever reason.
    over: &'a AtomicBool,
}

impl Watch<'_> {
    /// Watches until it is over, and waits for the load's own report.
    fn until_over(self, near: &mut Here, far: &mut End, mut load: Option<Client>) -> Result<Beside, Became> {
        let Protocol { warmup_s, duration_s, .. } = self.cell.protocol;
        let warm = Instant::now() + Duration::from_secs_f64(warmup_s);
        self.wait_until(warm, &mut load);
        let every = Duration::from_millis(self.cell.matrix.probe.ping_ms.into());
        let times = (duration_s / every.as_secs_f64()).floor().max(1.0) as u64;
        let echoes = Echo { every, times, packet: None };
        let ping = Ping::start(near.link.netns.as_deref(), self.address, echoes).map_err(loading)?;
        let mut beside = vec![Who { name: "ping".into(), pid: ping.pid() }];
        beside.extend(load.as_ref().map(|client| Who { name: FIRST_END.into(), pid: client.pid() }));
        beside.extend(self.between.clone());
        far.ask(Order::Watch).and_then(done)?;
        near.watch(beside)?;
        let end = warm + Duration::from_secs_f64(duration_s).saturating_sub(BEFORE_THE_END);
        let loads = self.wait_until(end, &mut load);
        near.hold()?;
        far.ask(Order::Hold).and_then(done)?;
        if loads && Instant::now() < end {
            return Err(Became::Failed("the light flow ended before its time".into()));
        }
        let load = load.map(Client::end).transpose().map_err(loading)?;
        if !loads {
            return Err(Became::Failed("iperf3 ended before its time".into()));
        }
        Ok(Beside { ping: ping.end().map_err(loading)?, load })
    }

    /// Whether the load went on all the time.
    fn wait_until(&self, until: Instant, load: &mut Option<Client>) -> bool {
        while Instant::now() < until && !self.over.load(Relaxed) {
            std::thread::sleep(BLINK.min(until.saturating_duration_since(Instant::now())));
            if load.as_mut().is_some_and(Client::has_ended) {
                return false;
            }
        }
        true
    }
}

impl Beside {
    /// All that was seen. What is of another host is told by its name.
    fn with(
        self,
        measured: Measurement,
        apart: Option<Apart>,
        (near, mut far): (Told, Told),
        other_host: Option<&str>,
    ) -> Seen {
        let Beside { ping, load } = self;
        if let Some(host) = other_host {
            far.cores.iter_mut().for_each(|core| core.who = format!("{host} {}", core.who));
            far.queue.interface = format!("{host} {}", far.queue.interface);
        }
        let both = |near: Vec<_>, far: Vec<_>| near.into_iter().chain(far).collect();
        let unoffered = load.as_ref().and_then(|load| load.short_of_bits_per_second);
        let unoffered = unoffered
            .map(|asked| format!("iperf3 sent less than 95 % of the {:.0} Mbit/s that were asked for", asked / 1e6));
        let latency = Distribution::of(&measured.latency);
        Seen {
            probe: Probed { counts: measured.counts, latency, apart },
            ping,
            load,
            cores: both(near.cores, far.cores),
            processes: both(near.processes, far.processes),
            arrived: near.arrived.or(far.arrived),
            queues: vec![near.queue, far.queue],
            // How probes wait, all trials have in common.
            notes: measured.notes.into_iter().filter(|note| !note.starts_with("UDP socket")).chain(unoffered).collect(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_failures_both_are_told() {
        let failed = |why: &str| Err::<(), Became>(Became::Failed(why.into()));
        assert_eq!(both(failed("one"), failed("two")), failed("one; and two"));
        assert_eq!(both(Ok(()), failed("two")), failed("two"));
        assert_eq!(both(failed("one"), Ok(())), failed("one"));
    }
}
