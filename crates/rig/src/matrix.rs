//! A trial of a matrix: two ends in a lab and what stands between them, set up as the cell says; a load; and at once the latency of light
//! flows beside it, and what all of that costs (paper 004 §2).

mod between;
mod watch;

use crate::path::{RUN_LAB, RX_PORT, TX_PORT};
use crate::{Progress, Rig, RigError};
use between::Between;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use usect_core::matrix::{Became, Direction, Distribution, Load, Matrix, Probed, Seen, Settings, Way};
use usect_core::scenario::{CoreSpec, Mode, Protocol, Scenario, TrafficSpec};
use usect_core::trial::{Traffic, Trial, TrialResult};
use usect_dut::DutError;
use usect_lab::ends::Setup;
use usect_lab::{Lab, LabError, Link, audit};
use usect_load::LoadError;
use usect_load::iperf::{Asked, Client, Server};
use watch::{Watch, Watched};

/// The programs that a matrix needs, beside those of every lab.
pub const PROGRAMS: [&str; 2] = ["iperf3", "ping"];

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

/// The two ends.
struct Ends {
    near: Link,
    far: Link,
}

impl Cell<'_> {
    /// Makes it; nothing where `stop` was set meanwhile, and so it wasn't made whole.
    pub fn measure(self, stop: &Arc<AtomicBool>, progress: &mut dyn FnMut(&Progress)) -> Option<Became> {
        let became = self.seen(stop, progress).map_or_else(|not_so| not_so, |seen| Became::Seen(Box::new(seen)));
        (!stop.load(Relaxed)).then_some(became)
    }

    fn seen(self, stop: &Arc<AtomicBool>, progress: &mut dyn FnMut(&Progress)) -> Result<Seen, Became> {
        let settings = self.matrix.settings(self.levels);
        let mtu = settings.mtu.unwrap_or(1500);
        let lab = Lab::up(RUN_LAB, Between::shape(settings.path), mtu.into()).map_err(RigError::from)?;
        let ends = Ends { near: lab.tx().clone(), far: lab.rx().clone() };
        // A delay line passes on frames as they are, and their checksums have to be in them.
        if !matches!(settings.path, Way::Spool(_)) {
            lab.leave_to_cards().map_err(RigError::from)?;
        }
        let _near = Setup::apply(&ends.near, &settings)?;
        let _far = Setup::apply(&ends.far, &settings)?;
        let between = Between::start(&lab, settings.path, self.matrix)?;
        let probe = self.probe(&ends)?;
        let rig = Rig::new(&probe, stop.clone())?;
        let trial = Trial::once(probe.clients[0].clone(), Traffic::of(&probe.traffic, &self.protocol));
        let (result, watched) = self.beside(&settings, (&ends, &between), (rig, &trial), progress)?;
        between.stop()?;
        let Watched { ping, load, cores, processes, arrived, queues, mut notes } = watched?;
        notes.extend(result.client.notes);
        let probe = Probed { counts: result.client.counts, latency: Distribution::of(&result.client.latency) };
        Ok(Seen { probe, ping, load, cores, processes, arrived, queues, notes })
    }

    /// Measures the light flow, and watches everything else meanwhile.
    fn beside(
        self,
        settings: &Settings<'_>,
        (ends, between): (&Ends, &Between),
        (mut rig, trial): (Rig, &Trial),
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(TrialResult, Result<Watched, Became>), Became> {
        let load = self.load(settings, ends)?;
        let over = AtomicBool::new(false);
        let receiver = match settings.direction {
            Direction::Forward => &ends.far,
            Direction::Back => &ends.near,
        };
        let watch = Watch {
            ends: [&ends.near, &ends.far],
            receiver: load.is_some().then_some(receiver),
            every: Duration::from_millis(self.matrix.probe.ping_ms.into()),
            warmup: Duration::from_secs_f64(self.protocol.warmup_s),
            lasts: Duration::from_secs_f64(self.protocol.duration_s),
            between: between.processes(),
            notes: between.notes(),
            over: &over,
        };
        let (result, watched) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch.until_over(load));
            let result = rig.run(trial, progress);
            over.store(true, Relaxed);
            (result, watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        Ok((result?, watched))
    }

    /// Starts the load; its warm-up begins with it.
    fn load(self, settings: &Settings<'_>, ends: &Ends) -> Result<Option<(Server, Client)>, Became> {
        let Load::Flows { transport, flows } = settings.load else { return Ok(None) };
        let to = ends.far.address.ok_or_else(|| Became::Failed(format!("{} has no address", ends.far.interface)))?;
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
        let server = Server::start(ends.far.netns.as_deref(), to).map_err(RigError::from)?;
        let client = Client::start(ends.near.netns.as_deref(), asked).map_err(RigError::from)?;
        Ok(Some((server, client)))
    }

    /// The light flow, there and back by sockets that block: it leaves the cores to the load.
    fn probe(self, ends: &Ends) -> Result<Scenario, Became> {
        let port = |link: &Link, port: u16| {
            let address = link.address.map_or(String::new(), |address| address.to_string());
            let netns = link.netns.as_ref().map_or(String::new(), |netns| format!("@{netns}"));
            format!("udp:{address}:{port}{netns}")
        };
        let text = format!(
            "title = \"beside a load\"\ndut = {{ kind = \"external\" }}\ntraffic = {{ frame_size = 64, rate = \"1 kpps\", mode = \"round-trip\" }}\n\
             [[client]]\nname = \"probe\"\nengine = \"udp\"\nwait = \"block\"\ntx = \"{}\"\nrx = \"{}\"\n",
            port(&ends.near, TX_PORT),
            port(&ends.far, RX_PORT)
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
