//! A measuring session: from flags to a resolved scenario, through its trials, to a stored run.

use crate::args::{Compare, Measure, Output, Over, Protocol as ProtocolArgs, Sampling, WaitArg};
use crate::progress::Bars;
use crate::say;
use anyhow::{Context, Result, bail};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::calibration::{Calibration, Fingerprint};
use usect_core::capture::Capture;
use usect_core::case::{Case, Vary};
use usect_core::environment::Environment;
use usect_core::frame::FrameSize;
use usect_core::pattern::Pattern;
use usect_core::port_name::{Engine, PortName};
use usect_core::rate::RateSpec;
use usect_core::run::{Header, Run, SCHEMA};
use usect_core::scenario::{
    ClientSpec, CoreSpec, DpdkSpec, DutSpec, Mode, Protocol, Scenario, Stamp, TrafficSpec, Wait,
};
use usect_core::trial::{Traffic, TrialResult};
use usect_procedure::compare::Compare as CompareProcedure;
use usect_procedure::{Procedure, Step};
use usect_report::StoredRun;
use usect_report::store::{self, RunFolder};
use usect_rig::Rig;

/// Ended by a signal; what was measured is kept.
pub(crate) const INTERRUPTED: u8 = 130;

/// `usect compare`.
pub(crate) fn compare(args: &Compare) -> Result<Session> {
    let (scenario, slug) = load(&args.scenario, &args.clients)?;
    Session::new("compare", slug, timed(scenario, &args.protocol), &args.protocol.output)
}

/// A scenario of these clients, or of all that it has where none is named, with a name for its runs.
pub(crate) fn load(file: &Path, clients: &[String]) -> Result<(Scenario, String)> {
    let path = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("the scenario {path} can't be read"))?;
    let mut scenario = Scenario::parse(&text).map_err(|e| anyhow::anyhow!("{path}: {e}"))?;
    select(&mut scenario, clients)?;
    let slug = file.file_stem().and_then(|s| s.to_str()).unwrap_or("run").to_owned();
    // A capture's name is relative to that of the scenario that has it.
    read_capture(&mut scenario, file.parent().unwrap_or(Path::new("")))?;
    Ok((scenario, slug))
}

/// Reads the capture that a scenario replays, if it does.
fn read_capture(scenario: &mut Scenario, folder: &Path) -> Result<()> {
    let Pattern::Replay(replay) = &mut scenario.traffic.pattern else { return Ok(()) };
    let path = folder.join(&replay.file);
    let file = std::fs::File::open(&path).with_context(|| format!("the capture {} can't be read", path.display()))?;
    let read = Capture::read(std::io::BufReader::new(file));
    replay.capture = read.map_err(|e| anyhow::anyhow!("{} {e}", path.display()))?;
    Ok(())
}

/// A scenario with warm-up and duration as the user wants them.
fn timed(mut scenario: Scenario, args: &ProtocolArgs) -> Scenario {
    let slot = if args.output.quick { &mut scenario.quick } else { &mut scenario.protocol };
    slot.warmup_s = args.warmup.unwrap_or(slot.warmup_s);
    slot.duration_s = args.duration.unwrap_or(slot.duration_s);
    scenario
}

/// Keeps the clients named, in the scenario's order; all of them when none is.
fn select(scenario: &mut Scenario, names: &[String]) -> Result<()> {
    let known: Vec<&str> = scenario.clients.iter().map(|c| c.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|n| !known.contains(&n.as_str())) {
        bail!("the scenario has no client `{unknown}`; it has {}", known.join(", "));
    }
    scenario.clients.retain(|c| names.is_empty() || names.contains(&c.name));
    Ok(())
}

/// `usect measure`.
pub(crate) fn measure(args: &Measure) -> Result<Session> {
    check_ports(&args.tx, &args.rx)?;
    let wait = match args.wait {
        WaitArg::Poll => Wait::Poll,
        WaitArg::Block => Wait::Block,
    };
    let client = ClientSpec {
        name: args.tx.engine.name().to_owned(),
        engine: args.tx.engine,
        wait,
        stamp: args.stamp.into(),
        driver: None,
        pairs: Vec::new(),
        tx: Some(args.tx.clone()),
        rx: Some(args.rx.clone()),
    };
    let mode = match (args.ping_pong, args.round_trip) {
        (true, _) => Mode::PingPong,
        (false, true) => Mode::RoundTrip,
        (false, false) => Mode::OneWay,
    };
    let pattern = args.pattern.clone().unwrap_or_default();
    let traffic = TrafficSpec {
        frame_size: args.size,
        rate: args.rate.or_else(|| pattern.replay().is_none().then_some(RateSpec::Frames(20_000))),
        pattern,
        mode,
        frame: args.frame.clone(),
        flows: args.flows,
        both: args.both,
    };
    let cores = CoreSpec { sender: args.tx_core, receiver: args.rx_core, back: args.back_core, ..CoreSpec::default() };
    let mut scenario = between_ports(client, traffic, cores, args.dpdk.clone().into());
    scenario.title = format!("{} to {}", args.tx, args.rx);
    read_capture(&mut scenario, Path::new(""))?;
    scenario.dut = DutSpec::External { fiber: args.fiber };
    Session::new("measure", "measure".into(), timed(scenario, &args.protocol), &args.protocol.output)
}

/// Trials up to which the run is stored after each.
const FEW_TRIALS: usize = 20;
/// How long the others may be lost when usect is killed.
const SAVE_AGAIN: Duration = Duration::from_secs(10);

/// Most samples of a trial that are kept.
const MOST_SAMPLES: u64 = 1 << 24;

/// `usect converge`.
pub(crate) fn converge(within_ns: u64, with: &Sampling) -> Result<Session> {
    let session = match with {
        Sampling::Compare(args) => compare(args)?,
        Sampling::Measure(args) => measure(args)?,
    };
    if let Some(client) = session.scenario.clients.iter().find(|c| c.engine == Engine::Kernel) {
        bail!("client `{}`: the kernel engine keeps no samples; use --client to choose others", client.name);
    }
    for case in session.scenario.vary.cases() {
        let frames = Traffic::of(&case.traffic(&session.scenario.traffic), &session.protocol).frames;
        if frames > MOST_SAMPLES {
            bail!("{frames} samples a run are too many to keep: {MOST_SAMPLES} are the most; use a shorter --duration");
        }
    }
    if within_ns == 0 {
        bail!("--within is above 0: no number of samples makes a figure exact");
    }
    Ok(Session { name: "converge", within_ns: Some(within_ns), ..session })
}

/// Two ports that can be the ends of a path.
pub(crate) fn check_ports(tx: &PortName, rx: &PortName) -> Result<()> {
    if tx == rx && !matches!(tx.engine, Engine::Dpdk | Engine::Mem) {
        bail!("--tx and --rx are the same port, {tx}: name the two ends of a path");
    }
    if tx.engine == Engine::Mem && tx != rx {
        bail!("--tx {tx} and --rx {rx} are two wires, and mem joins the ends of one: name it for both");
    }
    if tx.engine != rx.engine {
        bail!("--tx uses the {} engine and --rx the {}: one client has one engine", tx.engine, rx.engine);
    }
    Ok(())
}

/// The scenario that flags name, or one of a polling client that sends plain frames between the ports that they name;
/// and a name for its runs.
pub(crate) fn over(args: &Over, size: FrameSize, procedure: &str) -> Result<(Scenario, String)> {
    let (Some(tx), Some(rx)) = (&args.tx, &args.rx) else {
        return load(args.scenario.as_ref().context("name a scenario, or --tx and --rx")?, &args.clients);
    };
    check_ports(tx, rx)?;
    let client = ClientSpec {
        name: tx.engine.name().to_owned(),
        engine: tx.engine,
        wait: Wait::Poll,
        stamp: Stamp::App,
        driver: None,
        pairs: Vec::new(),
        tx: Some(tx.clone()),
        rx: Some(rx.clone()),
    };
    let traffic = TrafficSpec::evenly(size, RateSpec::Frames(1));
    let cores = CoreSpec { sender: args.tx_core, receiver: args.rx_core, ..CoreSpec::default() };
    let scenario = between_ports(client, traffic, cores, args.dpdk.clone().into());
    let dut = DutSpec::External { fiber: args.fiber };
    Ok((Scenario { title: format!("{tx} to {rx}"), dut, ..scenario }, procedure.to_owned()))
}

/// A scenario of one client between ports of the user's own.
pub(crate) fn between_ports(client: ClientSpec, traffic: TrafficSpec, cores: CoreSpec, dpdk: DpdkSpec) -> Scenario {
    Scenario {
        title: String::new(),
        traffic,
        protocol: Protocol::default(),
        quick: Protocol::quick(),
        dut: DutSpec::External { fiber: None },
        vary: Vary::default(),
        cores,
        dpdk,
        clients: vec![client],
    }
}

/// Waits for nobody: the right to measure on this host, where what a killed run left behind was put away.
pub(crate) fn alone() -> Result<usect_lab::Lock> {
    let lock = usect_lab::lock()?;
    for sentence in usect_rig::recover()? {
        crate::complain(format_args!("usect: {sentence}"));
    }
    Ok(lock)
}

pub(crate) struct Session {
    name: &'static str,
    slug: String,
    scenario: Scenario,
    protocol: Protocol,
    quick: bool,
    json: bool,
    out: PathBuf,
    /// Calibrations that must hold here.
    calibration: Option<PathBuf>,
    /// Whether it makes new ones, so that earlier ones don't matter.
    calibrates: bool,
    /// How closely figures are wanted, where it is asked how many samples that takes.
    within_ns: Option<u64>,
    /// Frames of a trial, those of the warm-up before, where it isn't its duration that says how many.
    frames: Option<(u64, u64)>,
}

impl Session {
    pub(crate) fn new(procedure: &'static str, slug: String, mut scenario: Scenario, args: &Output) -> Result<Session> {
        let slot = if args.quick { &mut scenario.quick } else { &mut scenario.protocol };
        slot.runs = args.runs.unwrap_or(slot.runs);
        let protocol = *slot;
        scenario.check().map_err(|(_, message)| anyhow::anyhow!(message))?;
        let Output { quick, json, out, calibration, .. } = args.clone();
        Ok(Session {
            name: procedure,
            slug,
            scenario,
            protocol,
            quick,
            json,
            out,
            calibration,
            calibrates: false,
            within_ns: None,
            frames: None,
        })
    }

    /// Where what instruments add is kept.
    pub(crate) fn calibration(&self) -> PathBuf {
        self.calibration.clone().unwrap_or_else(|| self.out.join("calibration.json"))
    }

    /// The same with these many frames in every trial, whatever their rate, first those of the warm-up.
    pub(crate) fn with_frames(self, warmup: u64, frames: u64) -> Session {
        Session { frames: Some((warmup, frames)), ..self }
    }

    /// Refuses a path whose latency nothing tells.
    pub(crate) fn check_physics(&self) -> Result<()> {
        let known = |case: Case| {
            let size = case.traffic(&self.scenario.traffic).frame_size;
            case.dut(&self.scenario.dut).physics_ns(size).is_some()
        };
        if self.scenario.traffic.mode.returns() || !self.scenario.vary.cases().into_iter().all(known) {
            bail!(
                "nothing tells what this path takes: calibrate one way over a wire, a spool or a fiber (--fiber 'length_m = \
                 2.0, line_rate = \"10 Gbit/s\"')"
            );
        }
        Ok(())
    }

    /// The same without calibrations of earlier.
    pub(crate) fn uncalibrated(self) -> Session {
        Session { calibrates: true, ..self }
    }

    /// Measures, stores and shows.
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.run_with(|_, _| Ok(()))
    }

    /// The same, and hands a finished run over before it is shown.
    pub(crate) fn run_with(self, finished: impl FnOnce(&Run, &[TrialResult]) -> Result<()>) -> Result<ExitCode> {
        let _lock = alone()?;
        let folder = store::create(&self.out, &self.slug)?;
        let stop = stop_on_signal()?;
        let mut rig = Rig::new(&self.scenario, stop.clone())?;
        let mut header = self.header(&folder, &rig);
        (header.calibrations, header.notes) = self.known(&header.environment)?;
        let (results, failure) = self.trials(&mut rig, &mut header, &folder, &stop)?;
        header.environment.extend(rig.environment());
        drop(rig);
        header.partial = match (&failure, stop.load(Relaxed)) {
            (Some(error), _) => Some(crate::sentence(error)),
            (None, true) => Some("interrupted by the user".into()),
            (None, false) => None,
        };
        if results.is_empty() {
            if failure.is_none() {
                crate::complain("usect: interrupted before anything was measured");
            }
            return failure.map_or(Ok(ExitCode::from(INTERRUPTED)), Err);
        }
        let stored = folder.save(header, &results)?;
        if failure.is_none() && !stop.load(Relaxed) {
            finished(&stored.run, &results)?;
        }
        self.show(&stored, folder.path())?;
        match failure {
            Some(error) => {
                Err(error.context(format!("what was measured before is kept in {}", folder.path().display())))
            }
            None if stop.load(Relaxed) => Ok(ExitCode::from(INTERRUPTED)),
            None => self.check_arrivals(&stored),
        }
    }

    /// A client that received nothing measured nothing, whatever its tables say.
    fn check_arrivals(&self, stored: &StoredRun) -> Result<ExitCode> {
        let silent = stored.run.clients.iter().filter(|c| c.measured.counts.received == 0);
        let names: Vec<&str> = silent.map(|c| c.client.as_str()).collect();
        if names.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        bail!(
            "nothing arrived of what {} sent: does anything join the two ports, and does it forward?",
            names.join(", ")
        )
    }

    fn header(&self, folder: &RunFolder, rig: &Rig) -> Header {
        Header {
            schema: SCHEMA.into(),
            usect: env!("CARGO_PKG_VERSION").into(),
            id: folder.id().into(),
            procedure: self.name.into(),
            created: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            quick: self.quick,
            partial: Some("not finished: it is still running, or was killed".into()),
            protocol: self.protocol,
            scenario: self.scenario.clone(),
            environment: rig.environment(),
            within_ns: self.within_ns,
            platform: rig.platform(),
            calibrations: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The calibrations of what is about to be measured, and why others can't be used. Those that the user named must be
    /// of use.
    fn known(&self, environment: &Environment) -> Result<(Vec<Calibration>, Vec<String>)> {
        let path = self.calibration();
        if self.calibrates || self.calibration.is_none() && !path.exists() {
            return Ok(Default::default());
        }
        let (all, here) = (store::read_calibrations(&path)?, Fingerprint::of(environment));
        let (mut found, mut refused): (Vec<Calibration>, Vec<String>) = Default::default();
        for key in self.procedure().instruments(&self.scenario) {
            match all.find(&key, &here) {
                Ok(calibration) => found.extend(calibration.cloned()),
                Err(why) => refused.push(why),
            }
        }
        match refused.first() {
            Some(why) if self.calibration.is_some() => bail!("{}: {why}", path.display()),
            _ => Ok((found, refused)),
        }
    }

    /// Runs the trials and stores after each. A failure ends the run; what came before is kept.
    fn trials(
        &self,
        rig: &mut Rig,
        header: &mut Header,
        folder: &RunFolder,
        stop: &AtomicBool,
    ) -> Result<(Vec<TrialResult>, Option<anyhow::Error>)> {
        let mut procedure = self.procedure();
        let bars = Bars::new(procedure.trials(), !std::io::stderr().is_terminal());
        let mut results: Vec<TrialResult> = Vec::new();
        let mut saved = Instant::now();
        while let Step::Run(trial) = procedure.next(&results) {
            if stop.load(Relaxed) {
                break;
            }
            bars.begin(&trial);
            match rig.run(&trial, &mut |p| bars.tick(p)) {
                Ok(result) => results.push(result),
                Err(error) => return Ok((results, Some(error.into()))),
            }
            bars.end(results.last().expect("one was just pushed"));
            // Of many short trials, writing them would take longer than measuring.
            if results.len() <= FEW_TRIALS || saved.elapsed() > SAVE_AGAIN {
                folder.save(header.clone(), &results)?;
                saved = Instant::now();
            }
        }
        Ok((results, None))
    }

    /// What it tries, one trial after another.
    fn procedure(&self) -> CompareProcedure {
        let mut procedure = CompareProcedure::new(&self.scenario, &self.protocol);
        if self.within_ns.is_some() {
            procedure = procedure.keeping_samples();
        }
        match self.frames {
            Some((warmup, frames)) => procedure.with_frames(warmup, frames),
            None => procedure,
        }
    }

    fn show(&self, stored: &StoredRun, folder: &Path) -> Result<()> {
        if self.json {
            return say(serde_json::to_string_pretty(&stored.run)?);
        }
        say(usect_report::table(&stored.run, std::io::stdout().is_terminal()))?;
        say(format!("report: {}", folder.join("report.html").display()))
    }
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; a second one ends the process at once, and the next start
/// cleans up after it.
pub(crate) fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
