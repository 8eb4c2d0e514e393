//! An end of a path: what it is asked to do for a trial. It does so in the process that measures, or, on another host, in one of its own
//! (`agent.rs`), by the same orders.

use super::agent::Agent;
use crate::RigError;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use usect_clock::Clock;
use usect_core::environment::Environment;
use usect_core::instant::TickRate;
use usect_core::matrix::{self, Became, Distribution, Queue, SECOND_END, Settings, Used};
use usect_core::scenario::Stamp;
use usect_core::stored::Stored;
use usect_dut::{Reflector, Remember};
use usect_lab::ends::Setup;
use usect_lab::{Link, audit, within};
use usect_load::LoadError;
use usect_load::iperf::{PORT, Server};
use usect_load::queue;
use usect_load::usage::{Usage, Who};
use usect_port::udp;
use usect_xdp::arrivals::{Arrivals, Arrived};

/// How often queues are looked at.
const LOOKS: Duration = Duration::from_millis(100);

/// Most frames that an end remembers to have sent back.
pub(super) const MOST_REMEMBERED: usize = 100_000;

/// What an end is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Order {
    /// To look whether what it sends there leaves by its interface.
    CheckWay { to: Ipv4Addr },
    /// To set its interface up.
    SetUp(Settings),
    /// To listen for a load.
    Serve,
    /// To send back what comes to a UDP port of its own from the other end.
    Reflect(Reflect),
    /// To get ready to watch: cores, processes, its queue and, where the load arrives here, its packets. What takes work is done now.
    Prepare { receives: bool },
    /// To begin.
    Watch,
    /// To end.
    Hold,
    /// To tell what it saw.
    Tell,
    /// To say when what it sent back had passed, and send back no more.
    Recall,
    /// To stop everything and put everything back.
    Clear,
}

/// Who is sent back to, and what is remembered of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Reflect {
    pub(super) port: u16,
    pub(super) to: SocketAddrV4,
    pub(super) from: u32,
    pub(super) every: u32,
    pub(super) most: usize,
}

/// What an end answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// Who it is; said before anything is asked.
    Found(Box<Found>),
    Told(Box<Told>),
    Passed(Passed),
    /// It isn't done, and what becomes of the trial.
    Became(Became),
}

/// Numbers alone: what users rely on is in its types.
impl Stored for Answer {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// An end that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) interface: String,
    pub(super) address: Ipv4Addr,
    /// Its host and its interface.
    pub(super) environment: Environment,
}

/// What an end saw.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) cores: Vec<Used>,
    pub(super) processes: Vec<Used>,
    pub(super) arrived: Option<matrix::Arrived>,
    pub(super) queue: Queue,
}

/// Frames that were sent back: number, departure as they carry it, and when they were found, by a counter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Passed {
    /// The counter's ticks in a second.
    pub(super) hz: u64,
    pub(super) frames: Vec<(u32, u64, u64)>,
}

impl Passed {
    /// The counter's rate, where it is one.
    pub(super) fn rate(&self) -> Option<TickRate> {
        (1_000_000..=100_000_000_000).contains(&self.hz).then(|| TickRate::from_hz(self.hz))
    }
}

/// The far end.
pub(super) enum End {
    /// In this process.
    Here(Box<Here>),
    /// On another host.
    There(Agent),
}

impl End {
    /// Whether it can't be asked any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, End::There(agent) if agent.is_gone())
    }

    /// Has it do something.
    pub(super) fn ask(&mut self, order: Order) -> Result<Answer, Became> {
        match self {
            End::Here(here) => here.obey(order),
            End::There(agent) => agent.ask(&order),
        }
    }
}

/// An end on this host. What it does ends, and is put back, when it is dropped.
pub(super) struct Here {
    pub(super) link: Link,
    /// What this process is called where it accounts for its host; none where the other end does.
    account: Option<&'static str>,
    doing: Doing,
}

/// In the order in which it ends.
#[derive(Default)]
struct Doing {
    watch: Watch,
    reflector: Option<(Reflector, TickRate)>,
    server: Option<Server>,
    setup: Option<Setup>,
}

impl Here {
    pub(super) fn at(link: Link, account: Option<&'static str>) -> Here {
        Here { link, account, doing: Doing::default() }
    }

    /// Who it is.
    ///
    /// Errors: its interface has no address; its counter can't measure, which every trial would fail on.
    pub(super) fn found(&self) -> Result<Found, RigError> {
        Clock::calibrate()?;
        let mut environment = audit::host();
        environment.extend(audit::interface(&self.link));
        Ok(Found { interface: self.link.interface.clone(), address: self.address()?, environment })
    }

    /// Its address, where it has one.
    pub(super) fn address(&self) -> Result<Ipv4Addr, RigError> {
        Ok(self.link.ipv4()?)
    }

    pub(super) fn obey(&mut self, order: Order) -> Result<Answer, Became> {
        match order {
            Order::CheckWay { to } => check_way(&self.link, to)?,
            Order::SetUp(settings) => self.doing.setup = Some(Setup::apply(&self.link, &settings)?),
            Order::Serve => {
                let server = Server::start(self.link.netns.as_deref(), self.address()?).map_err(loading)?;
                self.doing.server = Some(server);
            }
            Order::Reflect(reflect) => self.reflect(reflect)?,
            Order::Prepare { receives } => self.prepare(receives)?,
            Order::Watch => self.watch(Vec::new())?,
            Order::Hold => self.hold()?,
            Order::Tell => return Ok(Answer::Told(Box::new(self.tell()?))),
            Order::Recall => return Ok(Answer::Passed(self.recall()?)),
            Order::Clear => self.clear()?,
        }
        Ok(Answer::Done)
    }

    /// By a thread that blocks: it leaves the cores to the load.
    fn reflect(&mut self, reflect: Reflect) -> Result<(), Became> {
        let Reflect { port, to, from, every, most } = reflect;
        if most > MOST_REMEMBERED {
            return Err(Became::Failed(format!(
                "{most} frames are to be remembered, and {MOST_REMEMBERED} are the most that anybody asks for"
            )));
        }
        let (own, clock) = (SocketAddrV4::new(self.address()?, port), Clock::calibrate().map_err(RigError::from)?);
        let opened =
            within(self.link.netns.as_deref(), || udp::open(own, to, true, Stamp::App)).map_err(RigError::from)?;
        let opened = opened.map_err(|e| Became::Failed(format!("a UDP socket at {own}: {e}")))?;
        let remember = Remember { from, every: every.max(1), most };
        // On another core a delay line may spin.
        let reflector = Reflector::remembering(clock, audit::online_cores().last().copied(), opened, remember);
        self.doing.reflector = Some((reflector, clock.rate()));
        Ok(())
    }

    fn prepare(&mut self, receives: bool) -> Result<(), Became> {
        let Link { netns, interface, index, .. } = &self.link;
        let netns = netns.as_deref();
        let queue = queue::Watch::begin(netns, interface, *index).map_err(loading)?;
        let arrivals = || Ok::<_, RigError>(within(netns, || Arrivals::prepare(*index, PORT))??);
        self.doing.watch = Watch::Ready(queue, receives.then(arrivals).transpose()?);
        Ok(())
    }

    /// Watches its own work, and that of others beside it.
    pub(super) fn watch(&mut self, beside: Vec<Who>) -> Result<(), Became> {
        let Watch::Ready(mut queue, arrivals) = std::mem::take(&mut self.doing.watch) else { return Ok(()) };
        let mut processes: Vec<Who> = beside;
        processes.extend(self.account.map(|name| Who { name: name.into(), pid: std::process::id() }));
        processes.extend(self.doing.server.as_ref().map(|server| Who { name: SECOND_END.into(), pid: server.pid() }));
        arrivals.iter().for_each(Arrivals::begin);
        queue.count_anew().map_err(loading)?;
        let (looking, usage) = (Looking::begin(queue), Usage::begin(processes));
        self.doing.watch = Watch::Going { looking, arrivals, usage };
        Ok(())
    }

    pub(super) fn hold(&mut self) -> Result<(), Became> {
        let Watch::Going { looking, arrivals, usage } = std::mem::take(&mut self.doing.watch) else { return Ok(()) };
        let (cores, processes) = usage.end();
        let arrived = arrivals.map(Arrivals::finish);
        let cores = if self.account.is_some() { cores } else { Vec::new() };
        self.doing.watch = Watch::Over { cores, processes, arrived, queue: looking.end().map_err(loading)? };
        Ok(())
    }

    pub(super) fn tell(&mut self) -> Result<Told, Became> {
        let Watch::Over { cores, processes, arrived, queue } = std::mem::take(&mut self.doing.watch) else {
            return Err(Became::Failed("nothing was watched".into()));
        };
        let arrived = arrived.map(|arrived| matrix::Arrived {
            packets: arrived.packets,
            segments: arrived.segments,
            gaps: Distribution::of(&arrived.gaps),
        });
        Ok(Told { cores, processes, arrived, queue })
    }

    /// Stops everything, and puts everything back.
    fn clear(&mut self) -> Result<(), Became> {
        let Doing { setup, .. } = std::mem::take(&mut self.doing);
        let failed = setup.map_or(Vec::new(), Setup::put_back);
        if failed.is_empty() { Ok(()) } else { Err(Became::Failed(failed.join("; "))) }
    }

    fn recall(&mut self) -> Result<Passed, Became> {
        let Some((reflector, rate)) = self.doing.reflector.take() else { return Ok(Passed::default()) };
        let passed = reflector.recall().map_err(RigError::from)?;
        let frames = passed.into_iter().map(|frame| (frame.sequence, frame.departure, frame.at.0)).collect();
        Ok(Passed { hz: rate.hz, frames })
    }
}

/// How far its watch is.
#[derive(Default)]
enum Watch {
    #[default]
    Nothing,
    Ready(queue::Watch, Option<Arrivals>),
    Going {
        looking: Looking,
        arrivals: Option<Arrivals>,
        usage: Usage,
    },
    Over {
        cores: Vec<Used>,
        processes: Vec<Used>,
        arrived: Option<Arrived>,
        queue: Queue,
    },
}

/// A thread that looks at a queue again and again.
struct Looking {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<queue::Watch, LoadError>>>,
}

impl Looking {
    fn begin(mut queue: queue::Watch) -> Looking {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let look = move || {
            while !until.load(Relaxed) {
                std::thread::park_timeout(LOOKS);
                queue.look()?;
            }
            Ok(queue)
        };
        Looking { stop, thread: Some(std::thread::spawn(look)) }
    }

    fn end(mut self) -> Result<Queue, LoadError> {
        let queue = self.join().expect("only this and dropping it take it");
        queue.map(queue::Watch::end)
    }

    fn join(&mut self) -> Option<Result<queue::Watch, LoadError>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Relaxed);
        thread.thread().unpark();
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.join();
    }
}

/// Fails where an interface is down, or what is sent to an address leaves by another.
pub(super) fn check_way(link: &Link, to: Ipv4Addr) -> Result<(), RigError> {
    if !link.up || !link.carrier {
        let (interface, up) = (&link.interface, crate::path::up_with(link));
        return Err(RigError::Asked(format!(
            "{interface} is down, or nothing is at its other end: set it up with `{up}`"
        )));
    }
    Ok(usect_lab::check_route(link, to)?)
}

/// What an error of a load makes of a trial.
pub(super) fn loading(error: LoadError) -> Became {
    RigError::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_to_remember_more_than_there_can_be_is_refused() {
        let mut here = Here::at(usect_lab::named("lo").unwrap(), None);
        let to = "127.0.0.1:9".parse().unwrap();
        // Of 24 bytes each they would be 240 GB.
        let order = Order::Reflect(Reflect { port: 0, to, from: 0, every: 1, most: 10_000_000_000 });
        let Err(Became::Failed(why)) = here.obey(order) else { panic!("it was obeyed") };
        assert!(why.starts_with("10000000000 frames are to be remembered, and 100000"), "{why}");
    }
}
