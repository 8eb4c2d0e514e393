//! A measuring session: from a scenario, through its trials, to a stored run.

use crate::args::Output;
use crate::progress::Bars;
use crate::reset::Event;
use crate::rigs::Rigs;
use crate::{say, survivor};
use anyhow::{Result, bail};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::calibration::{Calibration, Fingerprint, Key};
use usect_core::environment::Environment;
use usect_core::gathered::{Gathered, Pooled};
use usect_core::run::{ClientRecord, Header, Run, SCHEMA, SuiteRecord};
use usect_core::scenario::{Case, Protocol, Scenario};
use usect_core::suite::Suite;
use usect_core::trial::Traffic;
use usect_lab::survivor::Survivor;
use usect_procedure::compare::Compare as CompareProcedure;
use usect_procedure::rfc2544::Rfc2544;
use usect_procedure::{Procedure, Step};
use usect_report::StoredRun;
use usect_report::store::{self, RunFolder};
use usect_rig::Rig;

/// Ended by a signal; what was measured is kept.
pub(crate) const INTERRUPTED: u8 = 130;
/// Trials up to which the run is stored after each.
const FEW_TRIALS: usize = 20;
/// What a run says of itself while it is measured, and for ever if it is killed.
const UNFINISHED: &str = "not finished: it is still running, or was killed";
/// How long the platform is watched, at least and at most.
const PLATFORM_LEAST: Duration = Duration::from_millis(50);
const PLATFORM_MOST: Duration = Duration::from_millis(500);
/// How long the others may be lost when usect is killed.
const SAVE_AGAIN: Duration = Duration::from_secs(10);

/// The right to measure on this host.
pub(crate) struct Alone {
    // Ended first: nobody else changes anything until the lock is free.
    _survivor: Survivor,
    _lock: usect_lab::Lock,
}

/// Waits for nobody: the right to measure on this host, where what a killed run left behind was put away.
pub(crate) fn alone() -> Result<Alone> {
    let lock = usect_lab::lock()?;
    let survivor = survivor::start()?;
    for sentence in usect_rig::recover()? {
        crate::complain(format_args!("usect: {sentence}"));
    }
    Ok(Alone { _survivor: survivor, _lock: lock })
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
    /// Whether a rate that a sender can't reach is a result.
    goes_on: bool,
    /// The benchmarks, where it is a suite of them.
    suite: Option<Suite>,
    /// The folder of the run that it goes on with.
    resumes: Option<PathBuf>,
}

impl Session {
    pub(crate) fn new(procedure: &'static str, slug: String, mut scenario: Scenario, args: &Output) -> Result<Session> {
        let slot = if args.quick { &mut scenario.quick } else { &mut scenario.protocol };
        slot.runs = args.runs.unwrap_or(slot.runs);
        let protocol = *slot;
        scenario.check().map_err(|(_, message)| anyhow::anyhow!(message))?;
        for case in scenario.vary.cases() {
            let traffic = case.traffic(&scenario.traffic);
            if traffic.mean_rate().is_none() {
                bail!("the capture would come round more than a million times a second: use a smaller speed");
            }
            Traffic::of(&traffic, &protocol).check().map_err(anyhow::Error::msg)?;
        }
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
            goes_on: false,
            suite: None,
            resumes: None,
        })
    }

    /// Where what instruments add is kept.
    pub(crate) fn calibration(&self) -> PathBuf {
        self.calibration.clone().unwrap_or_else(|| kept_calibration(&self.out))
    }

    /// What it measures.
    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// How often.
    pub(crate) fn runs(&self) -> u32 {
        self.protocol.runs
    }

    /// Frames that are measured in a trial, case by case.
    pub(crate) fn frames_of_cases(&self) -> impl Iterator<Item = u64> {
        let frames = |case: Case| Traffic::of(&case.traffic(&self.scenario.traffic), &self.protocol).frames;
        self.scenario.vary.cases().into_iter().map(frames)
    }

    /// The same, which keeps every latency, to tell how many of them figures need.
    pub(crate) fn converging(self, within_ns: u64) -> Session {
        Session { name: "converge", within_ns: Some(within_ns), ..self }
    }

    /// The same with these many frames in every trial, whatever their rate, first those of the warm-up.
    pub(crate) fn with_frames(self, warmup: u64, frames: u64) -> Session {
        Session { frames: Some((warmup, frames)), ..self }
    }

    /// The same, which goes on where a sender can't reach a rate.
    pub(crate) fn going_on(self) -> Session {
        Session { goes_on: true, ..self }
    }

    /// The same, for a suite of benchmarks.
    pub(crate) fn benchmarking(self, suite: Suite) -> Session {
        Session { suite: Some(suite), ..self }
    }

    /// The same, which goes on with a run that was interrupted.
    pub(crate) fn resuming(self, folder: PathBuf) -> Session {
        Session { resumes: Some(folder), ..self }
    }

    /// Refuses a path whose latency nothing tells.
    pub(crate) fn check_physics(&self) -> Result<()> {
        if !self.scenario.vary.cases().iter().all(|case| self.scenario.physics_ns(case).is_some()) {
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
    pub(crate) fn run_with(self, finished: impl FnOnce(&Run, &[Pooled]) -> Result<()>) -> Result<ExitCode> {
        let _lock = alone()?;
        let Begun { folder, before, mut gathered } = self.begin()?;
        let stop = stop_on_signal()?;
        let mut rigs = Rigs::new(&self.scenario, stop.clone())?;
        let mut header = match before {
            Some(header) => self.again(header, rigs.rig())?,
            None => self.header(&folder, rigs.rig()),
        };
        if self.suite.is_none() {
            (header.calibrations, header.notes) = self.known(&header.environment)?;
        }
        let failure = self.trials(&mut rigs, &mut header, &folder, &mut gathered, &stop)?;
        header.environment.extend(rigs.environment());
        header.profiles = rigs.finish();
        header.partial = match (&failure, stop.load(Relaxed)) {
            (Some(error), _) => Some(crate::sentence(error)),
            (None, true) => Some("interrupted by the user".into()),
            (None, false) => None,
        };
        if gathered.trials().is_empty() {
            if failure.is_none() {
                crate::complain("usect: interrupted before anything was measured");
            }
            return failure.map_or(Ok(ExitCode::from(INTERRUPTED)), Err);
        }
        self.note_findings(&mut header, &gathered);
        let stored = folder.save(header, &gathered)?;
        if failure.is_none() && !stop.load(Relaxed) {
            finished(&stored.run, gathered.pooled())?;
        }
        show(&stored, folder.path(), self.json)?;
        match failure {
            Some(error) if self.suite.is_some() => {
                let folder = folder.path().display();
                let why = crate::sentence(&error);
                bail!("{why}; what was measured before is kept: go on with `usect rfc2544 --resume {folder}`")
            }
            Some(error) => {
                Err(error.context(format!("what was measured before is kept in {}", folder.path().display())))
            }
            None if stop.load(Relaxed) => {
                if self.suite.is_some() {
                    let folder = folder.path().display();
                    crate::complain(format_args!("usect: go on with `usect rfc2544 --resume {folder}`"));
                }
                Ok(ExitCode::from(INTERRUPTED))
            }
            None => self.check_arrivals(&stored),
        }
    }

    /// A client that received nothing measured nothing, whatever its tables say.
    fn check_arrivals(&self, stored: &StoredRun) -> Result<ExitCode> {
        if let Some(record) = &stored.run.header.rfc2544 {
            // Of each size it says what passed; where none did, nothing was measured.
            if stored.run.trials.iter().all(|trial| trial.measured.counts.received == 0) {
                let first = record.findings.clients.first().and_then(|client| client.sizes.first()?.verdict.clone());
                bail!("{}: does it forward, and are these its ports?", first.unwrap_or("nothing arrived".into()));
            }
            return Ok(ExitCode::SUCCESS);
        }
        // A rate that its sender could not offer is told where it is shown.
        let offered = |client: &&ClientRecord| client.measured.counts.sent > 0 || !self.goes_on;
        let silent = stored.run.clients.iter().filter(offered).filter(|c| c.measured.counts.received == 0);
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
        let head = head(self.name, folder.id(), self.quick, self.protocol, &self.scenario, rig);
        Header { within_ns: self.within_ns, ..head }
    }

    /// A folder of its own, or that of the run that it goes on with.
    fn begin(&self) -> Result<Begun> {
        Ok(match &self.resumes {
            None => {
                Begun { folder: store::create(&self.out, &self.slug)?, before: None, gathered: Gathered::default() }
            }
            Some(path) => {
                let (folder, header, gathered) = store::resume(path)?;
                Begun { folder, before: Some(header), gathered }
            }
        })
    }

    /// The head of a run that is gone on with, on the host that it was begun on.
    fn again(&self, mut header: Header, rig: &Rig) -> Result<Header> {
        go_on(&mut header, &rig.environment())?;
        Ok(header)
    }

    /// The calibrations of what is about to be measured, and why others can't be used.
    fn known(&self, environment: &Environment) -> Result<(Vec<Calibration>, Vec<String>)> {
        if self.calibrates {
            return Ok(Default::default());
        }
        known(self.calibration.as_deref(), &self.out, &self.compared().instruments(&self.scenario), environment)
    }

    /// Runs the trials and stores after each. A failure ends the run; what came before is kept.
    fn trials(
        &self,
        rigs: &mut Rigs,
        header: &mut Header,
        folder: &RunFolder,
        gathered: &mut Gathered,
        stop: &AtomicBool,
    ) -> Result<Option<anyhow::Error>> {
        let procedure = self.procedure();
        let bars = Bars::new(procedure.trials(), !std::io::stderr().is_terminal());
        let mut saved = Instant::now();
        while let Step::Run(trial) = procedure.next(gathered.trials()) {
            if stop.load(Relaxed) {
                break;
            }
            bars.begin(&trial, gathered.trials().len(), procedure.outlook(gathered.trials()));
            let mut event = self.suite.as_ref().and_then(|suite| Event::of(suite, &trial));
            let outcome = rigs.at(&trial.case).and_then(|rig| {
                Ok(rig.run(&trial, &mut |progress| {
                    bars.tick(progress);
                    event.iter_mut().for_each(|event| event.tick(progress.elapsed_s));
                })?)
            });
            // It ends also where the trial failed.
            let ended = event.map_or(Ok(()), |event| event.end(stop));
            match outcome.and_then(|result| ended.map(|()| result)) {
                Ok(result) => {
                    folder.keep(&result)?;
                    gathered.add(&result);
                    bars.end(&result, procedure.outlook(gathered.trials()));
                }
                Err(error) => return Ok(Some(error)),
            }
            // Of many short trials, writing them would take longer than measuring.
            if gathered.trials().len() <= FEW_TRIALS || saved.elapsed() > SAVE_AGAIN {
                self.note_findings(header, gathered);
                folder.save(header.clone(), gathered)?;
                saved = Instant::now();
            }
        }
        Ok(None)
    }

    /// Says in the head what a suite has found so far.
    fn note_findings(&self, header: &mut Header, gathered: &Gathered) {
        let findings = self.procedure().findings(gathered.trials());
        header.rfc2544 = self.suite.clone().zip(findings).map(|(suite, findings)| SuiteRecord { suite, findings });
    }

    /// What it tries, one trial after another.
    fn procedure(&self) -> Box<dyn Procedure> {
        match &self.suite {
            Some(suite) => Box::new(Rfc2544::new(suite.clone(), self.scenario.clients.clone())),
            None => Box::new(self.compared()),
        }
    }

    fn compared(&self) -> CompareProcedure {
        let mut procedure = CompareProcedure::new(&self.scenario, &self.protocol);
        if self.within_ns.is_some() {
            procedure = procedure.keeping_samples();
        }
        if self.goes_on {
            procedure = procedure.going_on();
        }
        match self.frames {
            Some((warmup, frames)) => procedure.with_frames(warmup, frames),
            None => procedure,
        }
    }
}

/// Prints a stored run: as JSON alone, or its table and where its page is.
pub(crate) fn show(stored: &StoredRun, folder: &Path, json: bool) -> Result<()> {
    if json {
        return say(serde_json::to_string_pretty(&stored.run)?);
    }
    crate::say_table(&stored.run)?;
    say(format!("report: {}", folder.join("report.html").display()))
}

/// What a session begins with.
struct Begun {
    folder: RunFolder,
    before: Option<Header>,
    gathered: Gathered,
}

/// Goes on with a run that was interrupted, on the host that it was begun on.
pub(crate) fn go_on(header: &mut Header, here: &Environment) -> Result<()> {
    if Fingerprint::of(&header.environment) != Fingerprint::of(here) {
        bail!("{} was begun on another host, or under another kernel: begin anew", header.id);
    }
    header.resumed.push(now_in_words());
    header.partial = Some(UNFINISHED.into());
    Ok(())
}

/// How long each core is watched before any traffic: a tenth of what is measured then.
fn platform(protocol: &Protocol, scenario: &Scenario) -> Duration {
    let trials = protocol.runs as usize * scenario.clients.len() * scenario.vary.cases().len();
    let measured = Duration::from_secs_f64(protocol.duration_s).saturating_mul(trials as u32);
    (measured / 10).clamp(PLATFORM_LEAST, PLATFORM_MOST)
}

/// The head of a run that begins: named, of a protocol and a scenario, on the host that a rig is on.
pub(crate) fn head(
    procedure: &str,
    id: &str,
    quick: bool,
    protocol: Protocol,
    scenario: &Scenario,
    rig: &Rig,
) -> Header {
    Header {
        schema: SCHEMA.into(),
        usect: env!("CARGO_PKG_VERSION").into(),
        id: id.into(),
        procedure: procedure.into(),
        created: now_in_words(),
        quick,
        partial: Some(UNFINISHED.into()),
        protocol,
        scenario: scenario.clone(),
        environment: rig.environment(),
        within_ns: None,
        platform: rig.platform(platform(&protocol, scenario)),
        calibrations: Vec::new(),
        notes: Vec::new(),
        profiles: Vec::new(),
        rfc2544: None,
        dissect: None,
        matrix: None,
        resumed: Vec::new(),
    }
}

pub(crate) fn now_in_words() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Where calibrations are kept, where nobody names another file.
fn kept_calibration(folder: &Path) -> PathBuf {
    folder.join("calibration.json")
}

/// The calibrations of instruments on this host, and why others can't be used, or are old: from the file that the user named, which
/// must have all of them, or else from what is kept in a folder.
pub(crate) fn known(
    named: Option<&Path>,
    folder: &Path,
    instruments: &[Key],
    environment: &Environment,
) -> Result<(Vec<Calibration>, Vec<String>)> {
    let path = named.map_or_else(|| kept_calibration(folder), Path::to_owned);
    if named.is_none() && !path.exists() {
        return Ok(Default::default());
    }
    let (all, here) = (store::read_calibrations(&path)?, Fingerprint::of(environment));
    let (mut found, mut refused): (Vec<Calibration>, Vec<String>) = Default::default();
    for key in instruments {
        match all.find(key, &here) {
            Ok(None) if named.is_some() => refused.push(format!("it has no calibration of {key}")),
            Ok(calibration) => found.extend(calibration),
            Err(why) => refused.push(why),
        }
    }
    match refused.first() {
        Some(why) if named.is_some() => bail!("{}: {why}", path.display()),
        _ => {
            let now = jiff::Timestamp::now();
            refused.extend(found.iter().filter_map(|calibration| calibration.aged(now)));
            Ok((found, refused))
        }
    }
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; a second one ends the process at once, and its
/// survivor cleans up after it.
pub(crate) fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
