//! `usect monitor`: a path measured all the time.

mod asked;
mod metrics;

use crate::args::Monitor as Args;
use crate::progress::Spinner;
use crate::session::{alone, known, stop_on_signal};
use crate::{complain, say};
use anyhow::{Result, bail};
use asked::Asked;
use jiff::{SignedDuration, Timestamp, Zoned};
use metrics::Metrics;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use usect_core::histogram::Histogram;
use usect_core::measurement::Measurement;
use usect_core::monitor::{Convoy, Entry, Interval, SCHEMA, Start};
use usect_core::series::Point;
use usect_core::tracker::Counts;
use usect_core::trains::TrainsRecord;
use usect_core::trial::Traffic;
use usect_lab::audit::Waited;
use usect_procedure::monitor::{Duty, Rota, Seen, Watchman, memory};
use usect_report::monitor::{log::Log, words};
use usect_rig::{Progress, Rig, RigError, Standing};

/// How long to wait before a path that failed is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Share of its length that makes a step.
const SHORTEST_STEP: f64 = 0.5;
const BLINK: Duration = Duration::from_millis(100);

/// `usect monitor`.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let asked = asked::asked(args)?;
    let _lock = alone()?;
    let stop = stop_on_signal()?;
    let rig = Rig::new(&asked.latency, stop.clone())?;
    let start = start(args, &asked, &rig)?;
    let metrics = Arc::new(Mutex::new(Metrics::new(&start)));
    if let Some(address) = args.listen {
        let address = metrics::serve(address, asked.beside()?, metrics.clone())?;
        complain(format_args!("usect: metrics are at http://{address}/metrics"));
    }
    let (log, before) = Log::open(&args.log)?;
    if let Some(sentence) = before.trouble {
        complain(format_args!("usect: {sentence}"));
    }
    let mut watchman = Watchman::new(args.above);
    memory(&before.entries, &start).into_iter().for_each(|interval| watchman.recall(interval));
    let calendar = asked.convoys.as_ref().map(|(_, calendar)| calendar.clone());
    let rota = Rota::new(asked.interval, calendar, asked.lasts, &Zoned::now());
    let (waited, spinner) = (Waited::default(), Spinner::new());
    let asked_at = Instant::now();
    let mut monitor = Monitor {
        asked_at,
        asked,
        json: args.json,
        log,
        metrics,
        watchman,
        start,
        rota,
        waited,
        stop,
        spinner,
        worked: false,
        failing: None,
    };
    monitor.run(rig)?;
    monitor.end(&args.log)
}

fn start(args: &Args, asked: &Asked, rig: &Rig) -> Result<Start> {
    let environment = rig.environment();
    let instrument = asked.instrument();
    let file = args.calibration.as_deref();
    let (calibrations, refused) = known(file, Path::new("."), std::slice::from_ref(&instrument), &environment)?;
    refused.iter().for_each(|why| complain(format_args!("usect: not calibrated: {why}")));
    Ok(Start {
        schema: SCHEMA.into(),
        usect: env!("CARGO_PKG_VERSION").into(),
        at: Timestamp::now(),
        scenario: asked.latency.clone(),
        instrument,
        writes: args.writes,
        calibration: calibrations.into_iter().next(),
        environment,
    })
}

/// What went wrong.
enum Trouble {
    /// The path, or what it is measured with: it may work again.
    Path(RigError),
    /// Nobody can be told.
    Output(anyhow::Error),
}

impl From<RigError> for Trouble {
    fn from(error: RigError) -> Trouble {
        Trouble::Path(error)
    }
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Trouble {
        Trouble::Output(error)
    }
}

/// What a running interval has shown so far.
#[derive(Default)]
struct Shown {
    lasted_s: f64,
    counts: Counts,
    latency: Histogram,
    series: Vec<Point>,
}

impl Shown {
    /// A step more: all frames sent and received until its end, and its samples. Returns how many frames it had.
    fn add(&mut self, sent: u64, received: u64, fresh: &Histogram, point: Point) -> (u64, u64) {
        let before = (self.counts.sent, self.counts.received);
        (self.counts.sent, self.counts.received) = (sent, received);
        self.latency.add(fresh);
        self.series.push(point);
        (sent - before.0, received - before.1)
    }

    /// As a measurement that was cut short: what had not arrived by then is lost.
    fn measured(self) -> Measurement {
        let Counts { sent, received, .. } = self.counts;
        let counts =
            Counts { lost: sent.saturating_sub(received), stamped: received, arrivals: received, ..self.counts };
        Measurement { counts, latency: self.latency, series: self.series, ..Measurement::default() }
    }
}

struct Monitor {
    /// When it was asked the last time what to do.
    asked_at: Instant,
    asked: Asked,
    json: bool,
    log: Log,
    metrics: Arc<Mutex<Metrics>>,
    watchman: Watchman,
    start: Start,
    rota: Rota,
    waited: Waited,
    stop: Arc<AtomicBool>,
    spinner: Spinner,
    /// Whether anything was measured yet.
    worked: bool,
    /// Why the path can't be measured, while it can't.
    failing: Option<String>,
}

impl Monitor {
    /// Measures until it is told to stop, or its time is over. A path that fails before anything arrived is an error; one
    /// that fails later is tried again.
    fn run(&mut self, rig: Rig) -> Result<()> {
        self.tell(Entry::Start(Box::new(self.start.clone())))?;
        let mut rig = Some(rig);
        let mut duty = self.next();
        while let Some(due) = duty {
            let done = match due {
                Duty::Latency(lasts) => self.latency(rig.take(), lasts),
                Duty::Convoy => {
                    drop(rig.take());
                    self.convoy()
                }
            };
            duty = match done {
                Ok(next) => next,
                Err(Trouble::Output(error)) => return Err(error),
                Err(Trouble::Path(error)) if !self.worked => return Err(error.into()),
                Err(Trouble::Path(error)) => {
                    self.failed(&error)?;
                    self.next()
                }
            };
        }
        self.tell(Entry::Stop { at: Timestamp::now() })
    }

    /// What to do now; nothing more, when it is over.
    fn next(&mut self) -> Option<Duty> {
        let passed = std::mem::replace(&mut self.asked_at, Instant::now()).elapsed();
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        if self.stop.load(Relaxed) { None } else { self.rota.next(&Zoned::now(), passed) }
    }

    /// Keeps the path open for as long as its latency is measured; returns what comes then.
    fn latency(&mut self, rig: Option<Rig>, first: SignedDuration) -> Result<Option<Duty>, Trouble> {
        let rig = rig.map_or_else(|| Rig::new(&self.asked.latency, self.stop.clone()), Ok)?;
        let mut standing = rig.open(&self.asked.trial())?.in_steps(self.asked.step);
        let mut lasts = first;
        loop {
            let traffic = self.asked.traffic(lasts);
            let interval = self.interval(&mut standing, &traffic)?;
            if self.failing.take().is_some() {
                self.spinner.complain("usect: the path is measured again");
            }
            let Counts { sent, received, .. } = interval.counts;
            if sent > 0 {
                self.tell(Entry::Interval(Box::new(interval)))?;
            }
            match self.next() {
                // Where nothing arrives, the path is opened anew: it may be what is at fault.
                Some(Duty::Latency(next)) if received > 0 => lasts = next,
                other => return Ok(other),
            }
        }
    }

    fn interval(&mut self, standing: &mut Standing, traffic: &Traffic) -> Result<Interval, Trouble> {
        let (at, mut told) = (Timestamp::now(), Ok(()));
        let mut shown = Shown::default();
        let measured = standing.again(traffic, &mut |progress| {
            if told.is_ok() {
                told = self.step(progress, traffic.warmup_frames, &mut shown);
            }
            if told.is_err() {
                self.stop.store(true, Relaxed);
            }
        });
        told?;
        self.worked |= shown.counts.received > 0;
        let of = |lasted_s, measured| Interval::of(at, lasted_s, measured, self.watchman.level_ns());
        match measured {
            Ok(measured) => Ok(of(shown.lasted_s, measured)),
            // What it showed until then is kept.
            Err(error) => {
                if shown.counts.received > 0 {
                    let interval = of(shown.lasted_s, shown.measured());
                    self.tell(Entry::Interval(Box::new(interval)))?;
                }
                Err(error.into())
            }
        }
    }

    /// Looks at what a running interval shows, once a step.
    fn step(&mut self, progress: &Progress, warmup: u64, shown: &mut Shown) -> Result<()> {
        shown.lasted_s = progress.elapsed_s;
        let Some(closed) = progress.closed else { return Ok(()) };
        let fresh = closed.histogram();
        self.metrics().step(&fresh, &self.watchman, &self.start);
        let all_sent = progress.sent.saturating_sub(warmup);
        let (sent, received) = shown.add(all_sent, progress.received, &fresh, closed.point());
        // What is left at the end of an interval says too little to be a step.
        if closed.to_s - closed.from_s < SHORTEST_STEP * self.asked.step.as_secs_f64() {
            return Ok(());
        }
        let median_ns = closed.point().p50_ns.map(|ns| ns as f64);
        let lasted = SignedDuration::try_from_secs_f64(closed.to_s - closed.from_s).unwrap_or_default();
        let waited = self.waited.share();
        let seen = Seen { at: Timestamp::now() - lasted, median_ns, sent, received, waited };
        let alarms = self.watchman.next(&seen);
        self.spinner.show(|| words::now(median_ns, self.watchman.level_ns(), progress.expected_s - progress.elapsed_s));
        alarms.into_iter().try_for_each(|alarm| self.tell(Entry::Alarm(alarm)))
    }

    /// Sends a convoy, over the path opened anew: its frames, and who runs where, are others.
    fn convoy(&mut self) -> Result<Option<Duty>, Trouble> {
        let at = Timestamp::now();
        let (convoys, _) = self.asked.convoys.as_ref().expect("they are due only where there are some");
        let (mut rig, trial) = (Rig::new(&convoys.scenario, self.stop.clone())?, convoys.trial());
        let measured = rig.run(&trial, &mut |_| self.spinner.show(|| "a convoy".to_owned()))?.client;
        drop(rig);
        // One that was cut short says too little.
        let whole = measured.counts.sent == trial.traffic.frames;
        if let Some(trains) = measured.trains.filter(|_| whole) {
            let trains = TrainsRecord { seen: Vec::new(), ..TrainsRecord::of(&trains) };
            let convoy = Convoy { at, frame_size: trial.traffic.frame_size, counts: measured.counts, trains };
            self.tell(Entry::Convoy(Box::new(convoy)))?;
        }
        Ok(self.next())
    }

    /// Says why, once until it is something else, and waits before the next attempt.
    fn failed(&mut self, error: &RigError) -> Result<()> {
        let why = error.to_string().replace('\n', " ");
        self.metrics().failed();
        if self.failing.as_ref() != Some(&why) {
            self.tell(Entry::Failure { at: Timestamp::now(), why: why.clone() })?;
            self.failing = Some(why);
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !self.stop.load(Relaxed) {
            std::thread::sleep(BLINK);
        }
        Ok(())
    }

    fn metrics(&self) -> std::sync::MutexGuard<'_, Metrics> {
        self.metrics.lock().expect("no holder panics")
    }

    /// Logs an entry and shows it.
    fn tell(&mut self, entry: Entry) -> Result<()> {
        let (waited, dropped) = (self.log.waiting(), self.log.dropped());
        let written = self.log.write(&entry);
        match &written {
            // Said once; what waits is tried again with every entry.
            Err(error) if waited == 0 => self.spinner.complain(format_args!(
                "usect: {error}; what should be in the log waits for room, and is tried again with every entry"
            )),
            Err(_) if dropped == 0 && self.log.dropped() > 0 => {
                self.spinner.complain("usect: too many entries wait for the log: the oldest are lost from now on")
            }
            Ok(()) if waited > 0 && self.log.waiting() == 0 => {
                self.spinner.complain(format_args!("usect: the log is written again; {dropped} entries were lost"))
            }
            _ => {}
        }
        self.metrics().entry(&entry, &self.log);
        self.show(&entry)
    }

    fn show(&self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Alarm(alarm) => {
                self.spinner.complain(format_args!("usect: ALARM: {}", words::alarm(alarm, &self.start)))
            }
            Entry::Failure { why, .. } => {
                self.spinner.complain(format_args!("usect: ALARM: not measured, and tried again: {why}"))
            }
            _ => {}
        }
        let line = match entry {
            _ if self.json => serde_json::to_string(entry)?,
            Entry::Interval(interval) => words::interval(interval, &self.start),
            Entry::Convoy(convoy) => words::convoy(convoy),
            _ => return Ok(()),
        };
        self.spinner.suspend(|| say(line))
    }

    /// Whether all of it is in the log.
    fn end(mut self, folder: &Path) -> Result<ExitCode> {
        self.log.flush();
        let missing = self.log.waiting() as u64 + self.log.dropped();
        if missing > 0 {
            bail!("{missing} entries are missing in the log in {}: there was no room for them", folder.display());
        }
        complain(format_args!("usect: the log is in {0} (`usect report {0}` draws it)", folder.display()));
        Ok(ExitCode::SUCCESS)
    }
}
