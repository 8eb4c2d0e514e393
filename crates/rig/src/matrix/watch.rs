//! What is watched while a light flow is measured: echoes, queues, arrivals, cores and processes; and the load.

use crate::RigError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::matrix::{Arrived, Became, Distribution, FIRST_END, Loaded, Pinged, Queue, SECOND_END, Used};
use usect_lab::{Link, within};
use usect_load::iperf::{Client, PORT, Server};
use usect_load::ping::Ping;
use usect_load::queue;
use usect_load::usage::{Usage, Who};
use usect_xdp::arrivals::Arrivals;

/// How often queues are looked at.
const LOOKS: Duration = Duration::from_millis(100);
/// Nothing is watched so shortly before the end: those who load may be gone already.
const BEFORE_THE_END: Duration = Duration::from_millis(100);
const BLINK: Duration = Duration::from_millis(20);

/// What is to be watched, and when.
pub(super) struct Watch<'a> {
    /// The near one and the far one.
    pub(super) ends: [&'a Link; 2],
    /// That of them where the load arrives.
    pub(super) receiver: Option<&'a Link>,
    /// Time between two echoes.
    pub(super) every: Duration,
    /// Nothing is watched before.
    pub(super) warmup: Duration,
    /// And after that, for so long.
    pub(super) lasts: Duration,
    /// Processes that stand between the ends.
    pub(super) between: Vec<Who>,
    pub(super) notes: Vec<String>,
    /// Whether the light flow has ended, for whatever reason.
    pub(super) over: &'a AtomicBool,
}

/// What was seen.
pub(super) struct Watched {
    pub(super) ping: Pinged,
    pub(super) load: Option<Loaded>,
    pub(super) cores: Vec<Used>,
    pub(super) processes: Vec<Used>,
    pub(super) arrived: Option<Arrived>,
    pub(super) queues: Vec<Queue>,
    pub(super) notes: Vec<String>,
}

impl Watch<'_> {
    /// Watches until it is over, and waits for the load's own report.
    pub(super) fn until_over(self, load: Option<(Server, Client)>) -> Result<Watched, Became> {
        let failed = |error: usect_load::LoadError| Became::from(RigError::from(error));
        let begun = Instant::now();
        self.sleep_until(begun + self.warmup);
        let [near, far] = self.ends;
        let times = (self.lasts.as_secs_f64() / self.every.as_secs_f64()).floor().max(1.0) as u64;
        let to = far.address.ok_or_else(|| Became::Failed(format!("{} has no address", far.interface)))?;
        let ping = Ping::start(near.netns.as_deref(), to, self.every, times).map_err(failed)?;
        let mut queues: Vec<queue::Watch> = Vec::new();
        for link in self.ends {
            queues.push(queue::Watch::begin(link.netns.as_deref(), &link.interface).map_err(failed)?);
        }
        let arrivals = self.receiver.map(arrivals_at).transpose()?;
        let usage = Usage::begin(self.processes(&ping, load.as_ref()));
        let end = begun + self.warmup + self.lasts.saturating_sub(BEFORE_THE_END);
        while Instant::now() < end && !self.over.load(Relaxed) {
            self.sleep_until((Instant::now() + LOOKS).min(end));
            for queue in &mut queues {
                queue.look().map_err(failed)?;
            }
        }
        if Instant::now() < end {
            return Err(Became::Failed("the light flow ended before its time".into()));
        }
        let (cores, processes) = usage.end();
        let arrived = arrivals.map(Arrivals::finish).map(|arrived| Arrived {
            packets: arrived.packets,
            segments: arrived.segments,
            gaps: Distribution::of(&arrived.gaps),
        });
        let load = load.map(|(server, client)| {
            let loaded = client.end();
            drop(server);
            loaded
        });
        Ok(Watched {
            load: load.transpose().map_err(failed)?,
            ping: ping.end().map_err(failed)?,
            cores,
            processes,
            arrived,
            queues: queues.into_iter().map(queue::Watch::end).collect(),
            notes: self.notes,
        })
    }

    fn sleep_until(&self, until: Instant) {
        while Instant::now() < until && !self.over.load(Relaxed) {
            std::thread::sleep(BLINK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Those whose work is told apart.
    fn processes(&self, ping: &Ping, load: Option<&(Server, Client)>) -> Vec<Who> {
        let who = |name: &str, pid: u32| Who { name: name.into(), pid };
        let ours = [who("usect, both ends", std::process::id()), who("ping", ping.pid())];
        let load = load.map(|(server, client)| [who(FIRST_END, client.pid()), who(SECOND_END, server.pid())]);
        load.into_iter().flatten().chain(ours).chain(self.between.clone()).collect()
    }
}

/// Looks at what of the load arrives at an interface.
fn arrivals_at(link: &Link) -> Result<Arrivals, RigError> {
    Ok(within(link.netns.as_deref(), || Arrivals::watch(link.index, PORT))??)
}
