//! `usect matrix`: every combination of settings, one after another, stored after each.

use crate::args::Matrix as Args;
use crate::session::{self, INTERRUPTED, alone, stop_on_signal};
use crate::{complain, progress};
use anyhow::{Context, Result, bail};
use indicatif::{HumanDuration, ProgressBar};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::environment::Environment;
use usect_core::gathered::Gathered;
use usect_core::inventory::Inventory;
use usect_core::matrix::{Became, Load, Matrix, Measured, Tried, Turn};
use usect_core::run::Header;
use usect_core::scenario::{Protocol, Scenario};
use usect_report::StoredRun;
use usect_report::store::{self, RunFolder};
use usect_rig::Rig;
use usect_rig::matrix::{Cell, Own, PROGRAMS, Site};

/// What the head of such a run has for a path: each cell has one of its own.
const NO_PATH: &str = "title = \"\"\ntraffic = { frame_size = 64, rate = \"1 kpps\" }\ndut = { kind = \"wire\" }\n[[client]]\nname = \"mem\"\nengine = \"mem\"\n";
/// What a trial takes beside its traffic, before it is known.
const BESIDE: Duration = Duration::from_secs(3);

/// A run, as far as it is.
struct Run {
    folder: RunFolder,
    header: Header,
    measured: Measured,
    /// Of the trials that are made now.
    session: u32,
    site: Site,
}

/// `usect agent`: the far end, until the near one is gone.
pub(crate) fn serve(interface: &str) -> Result<ExitCode> {
    let _lock = alone()?;
    usect_rig::matrix::serve(interface, &*stop_on_signal()?)?;
    Ok(ExitCode::SUCCESS)
}

/// `usect matrix`.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let matrix = args.scenario.as_deref().map(|path| asked(args, path)).transpose()?;
    let inventory = args.inventory.as_deref().map(inventory).transpose()?;
    let _lock = alone()?;
    let stop = stop_on_signal()?;
    let mut run = match (matrix, &args.resume) {
        (Some(matrix), _) => Run::begin(args, matrix, inventory, &stop)?,
        (None, Some(folder)) => Run::again(folder, inventory, &stop)?,
        (None, None) => bail!("name a file, such as scenarios/datacenter.toml"),
    };
    check_programs(&run.measured.matrix)?;
    run.all(&stop)?;
    let interrupted = stop.load(Relaxed);
    run.header.partial = interrupted.then(|| {
        let (done, all) = (run.measured.trials.len(), run.measured.matrix.order(run.protocol().runs).len());
        format!("interrupted by the user after {done} of {all} trials")
    });
    let stored = run.store()?;
    session::show(&stored, run.folder.path(), args.json)?;
    if interrupted {
        complain(format_args!("usect: go on with `usect matrix --resume {}`", run.again_with(args)));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    run.verdict(args)
}

/// The file, with what flags say of it.
fn asked(args: &Args, path: &Path) -> Result<Matrix> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let file = path.display();
    let mut matrix = Matrix::parse(&text).map_err(|why| match Scenario::parse(&text) {
        Ok(_) => anyhow::anyhow!("{file} is a scenario, not a matrix of settings: `usect compare {file}` measures it"),
        Err(_) => anyhow::anyhow!("{file}: {why}"),
    })?;
    let whole = matrix.protocol;
    let protocol = if args.quick { &mut matrix.quick } else { &mut matrix.protocol };
    if args.quick {
        // Never longer than what it is to be quicker than.
        protocol.warmup_s = protocol.warmup_s.min(whole.warmup_s);
        protocol.duration_s = protocol.duration_s.min(whole.duration_s);
        protocol.runs = protocol.runs.min(whole.runs);
    }
    protocol.runs = args.runs.unwrap_or(protocol.runs);
    protocol.duration_s = args.duration.unwrap_or(protocol.duration_s);
    matrix.check().map_err(anyhow::Error::msg)?;
    Ok(matrix)
}

fn inventory(path: &Path) -> Result<Inventory> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    Inventory::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

/// Where a matrix is measured.
fn site(inventory: Option<Inventory>, matrix: &Matrix) -> Result<Site> {
    let own = inventory.map(|inventory| Own::reach(inventory, matrix)).transpose()?;
    Ok(own.map_or(Site::Lab, |own| Site::Own(Box::new(own))))
}

/// What a run's head has besides a path, and what is known of its ends.
fn scene(site: &Site, stop: &Arc<AtomicBool>) -> Result<(Rig, Scenario, Environment, Vec<String>)> {
    let scenario = Scenario::parse(NO_PATH).map_err(|e| anyhow::anyhow!("{e}"))?;
    let rig = Rig::new(&scenario, stop.clone())?;
    let mut environment = rig.environment();
    let Site::Own(own) = site else { return Ok((rig, scenario, environment, Vec::new())) };
    environment.extend(own.environment());
    Ok((rig, scenario, environment, own.ends()))
}

/// Fails where the programs aren't there that every cell takes.
fn check_programs(matrix: &Matrix) -> Result<()> {
    let loads = matrix.cells().iter().any(|cell| matrix.settings(cell).load != Load::None);
    for program in PROGRAMS.iter().filter(|program| loads || **program != "iperf3") {
        let version = if *program == "ping" { "-V" } else { "--version" };
        usect_lab::run(None, program, &[version])?;
    }
    Ok(())
}

impl Run {
    fn begin(args: &Args, matrix: Matrix, inventory: Option<Inventory>, stop: &Arc<AtomicBool>) -> Result<Run> {
        let site = site(inventory, &matrix)?;
        let (rig, mut scenario, environment, ends) = scene(&site, stop)?;
        let folder = store::create(&args.out, "matrix")?;
        scenario.title.clone_from(&matrix.title);
        let protocol = if args.quick { matrix.quick } else { matrix.protocol };
        let header = session::head("matrix", folder.id(), args.quick, protocol, &scenario, &rig);
        let header = Header { environment, ..header };
        Ok(Run { folder, header, measured: Measured::of(matrix, ends), session: 1, site })
    }

    /// One that was interrupted, with what it has so far.
    fn again(path: &Path, inventory: Option<Inventory>, stop: &Arc<AtomicBool>) -> Result<Run> {
        let (folder, mut header, _) = store::resume(path)?;
        let Some(mut measured) = header.matrix.take() else {
            bail!("{} is no matrix, and others can't be gone on with here", path.display());
        };
        let failed = |tried: &Tried| matches!(tried.became, Became::Failed(_));
        if header.partial.is_none() && !measured.trials.iter().any(failed) {
            bail!("{} was not interrupted, and no trial failed: there is nothing to go on with", path.display());
        }
        let session = 1 + measured.trials.iter().map(|tried| tried.session).max().unwrap_or(0);
        // Whatever made them fail may be over.
        measured.trials.retain(|tried| !failed(tried));
        let site = site(inventory, &measured.matrix)?;
        let (_, _, environment, ends) = scene(&site, stop)?;
        if measured.ends != ends {
            let words = |ends: &[String]| if ends.is_empty() { "a lab".to_owned() } else { ends.join(" to ") };
            bail!(
                "it was begun over {}, and this is {}: name the same --inventory",
                words(&measured.ends),
                words(&ends)
            );
        }
        session::go_on(&mut header, &environment)?;
        Ok(Run { folder, header, measured, session, site })
    }

    fn protocol(&self) -> Protocol {
        self.header.protocol
    }

    /// Makes the trials that are not made yet.
    fn all(&mut self, stop: &Arc<AtomicBool>) -> Result<()> {
        let order = self.measured.matrix.order(self.protocol().runs);
        let all = order.len();
        let left: Vec<Turn> =
            order.into_iter().filter(|turn| !self.measured.trials.iter().any(|tried| tried.turn == *turn)).collect();
        let all_time = time_left(self.protocol(), Duration::ZERO, 0, left.len());
        let what = if left.len() == 1 { "1 trial".to_owned() } else { format!("{} trials", left.len()) };
        complain(format_args!("{what}, about {}", HumanDuration(all_time)));
        let (bar, begun, before) = (progress::bar(!std::io::stderr().is_terminal()), Instant::now(), all - left.len());
        for (done, turn) in left.iter().enumerate() {
            if stop.load(Relaxed) {
                break;
            }
            let label = self.measured.matrix.label(&turn.cell);
            let time_left = time_left(self.protocol(), begun.elapsed(), done, left.len());
            let number = before + done + 1;
            progress::entitle(&bar, &format!("{number} of {all}, about {} left: {label}", HumanDuration(time_left)));
            let Some(became) = self.tried(turn, stop, &bar) else { break };
            let mut said = in_words(&became);
            self.measured.add(Tried { turn: turn.clone(), session: self.session, became });
            // On a full disk what was stored before stays, and a trial that can't be stored is none.
            if let Err(error) = self.store() {
                let became = Became::Failed(format!("it could not be stored: {}", crate::sentence(&error)));
                said = in_words(&became);
                self.measured.trials.pop();
                self.measured.add(Tried { turn: turn.clone(), session: self.session, became });
            }
            bar.suspend(|| complain(format_args!("{number} of {all}: {label}: {said}")));
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn tried(&mut self, turn: &Turn, stop: &Arc<AtomicBool>, bar: &ProgressBar) -> Option<Became> {
        let cell = Cell { matrix: &self.measured.matrix, levels: &turn.cell, protocol: self.header.protocol };
        cell.measure(&mut self.site, stop, &mut |now| {
            bar.set_position((1000.0 * now.elapsed_s / now.expected_s.max(1e-9)).min(1000.0) as u64);
            bar.set_message(format!("{} probes sent, {} back", now.sent, now.received));
        })
    }

    fn store(&mut self) -> Result<StoredRun> {
        self.header.matrix = Some(self.measured.clone());
        Ok(self.folder.save(self.header.clone(), &Gathered::default())?)
    }

    /// What goes on with it, behind --resume.
    fn again_with(&self, args: &Args) -> String {
        let inventory = args.inventory.as_ref().map(|path| format!(" --inventory {}", path.display()));
        format!("{}{}", self.folder.path().display(), inventory.unwrap_or_default())
    }

    /// Whether all that could be measured was.
    fn verdict(&self, args: &Args) -> Result<ExitCode> {
        let trials = &self.measured.trials;
        let of = |is: fn(&Became) -> bool| trials.iter().filter(|tried| is(&tried.became)).count();
        let failed = of(|became| matches!(became, Became::Failed(_)));
        if failed > 0 {
            let (all, again) = (trials.len(), self.again_with(args));
            bail!(
                "{failed} of {all} trials failed, and each says why: `usect matrix --resume {again}` tries them again"
            );
        }
        if of(|became| matches!(became, Became::Seen(_))) == 0 {
            bail!("nothing was measured: each cell says what this host lacks");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// By what trials took so far.
fn time_left(protocol: Protocol, elapsed: Duration, done: usize, all: usize) -> Duration {
    let planned = Duration::from_secs_f64(protocol.warmup_s + protocol.duration_s) + BESIDE;
    let each = if done == 0 { planned } else { elapsed / done as u32 };
    Duration::from_secs((each * (all - done) as u32).as_secs())
}

/// What became of a trial, in a line.
fn in_words(became: &Became) -> String {
    match became {
        Became::Unavailable(why) => format!("not available: {why}"),
        Became::Failed(why) => format!("failed: {why}"),
        Became::Seen(seen) => {
            let median = seen.probe.latency.as_ref().and_then(|latency| latency.summary.median_ns());
            let median = median.map_or("too few probes came back".into(), |ns| format!("median {:.1} µs", ns / 1e3));
            let load = seen.load.as_ref().map(|load| format!(", {:.0} Mbit/s", load.bits_per_second / 1e6));
            format!("{median}{}", load.unwrap_or_default())
        }
    }
}
