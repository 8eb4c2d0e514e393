//! `usect dissect`: one experiment after another, each a row or several, stored after each.

mod itself;
mod paths;
mod served;

use crate::args::Dissect;
use crate::session::{self, INTERRUPTED, alone, stop_on_signal};
use crate::{complain, progress};
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::buckets::Recorder;
use usect_core::dissect::{Dissection, Row};
use usect_core::gathered::Gathered;
use usect_core::histogram::Histogram;
use usect_core::run::Header;
use usect_core::scenario::{Protocol, Scenario};
use usect_core::stall::{CoreStalls, DISTURBED};
use usect_core::topology::Topology;
use usect_lab::audit;
use usect_lab::processes::{Meanwhile, Taken};
use usect_parts::{Clock, Observation};
use usect_report::store;
use usect_rig::Rig;

/// The experiments, by the paper's numbers, and who does them: each makes its rows, or says why there are none.
const EXPERIMENTS: [(&str, Experiment); 14] = [
    ("1a", itself::cold_start),
    ("1b", itself::kernel),
    ("1c", itself::user_space),
    ("1d", itself::guest),
    ("2a", itself::same_core),
    ("2b", itself::other_core),
    ("3", itself::bus),
    ("4", paths::host),
    ("5", paths::bypass),
    ("6a", paths::client_server),
    ("6b", served::memcached),
    ("7", paths::card),
    ("8", paths::switch),
    // None of the paper's table.
    ("cable", paths::cable),
];

type Experiment = fn(&mut Bench) -> Result<Vec<Row>>;

/// How often what came out so far is shown.
const SHOWN: Duration = Duration::from_millis(250);
/// How long a row is observed.
const LASTS: Duration = Duration::from_secs(60);
const QUICK: Duration = Duration::from_secs(4);

/// What experiments need.
struct Bench<'a> {
    args: &'a Dissect,
    clock: Clock,
    lasts: Duration,
    stop: Arc<AtomicBool>,
    /// The cores that usect may run on.
    cores: Vec<usize>,
    /// The hypervisor that this host is a guest of.
    hypervisor: Option<String>,
    bar: ProgressBar,
}

/// `usect dissect`.
pub(crate) fn run(args: &Dissect) -> Result<ExitCode> {
    let wanted = wanted(&args.only)?;
    check(args, &wanted)?;
    let topology = args.topology.as_ref().map(|path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
        Topology::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
    });
    let topology = topology.transpose()?;
    let _lock = alone()?;
    let folder = store::create(&args.out, "dissect")?;
    let stop = stop_on_signal()?;
    let mut header = header(args, folder.id(), &stop)?;
    let mut bench = Bench::new(args, &header, stop.clone())?;
    let mut dissection = Dissection::default();
    for (number, experiment) in wanted {
        crate::progress::entitle(&bench.bar, &format!("experiment {number}"));
        let rows = bench.rows(number, experiment);
        rows.iter().for_each(|row| bench.told(row));
        dissection.rows.extend(rows);
        dissection.shares = dissection.shares_of_a_request();
        dissection.networks = topology.as_ref().map_or(Vec::new(), |topology| topology.networks(&dissection));
        header.dissect = Some(dissection.clone());
        folder.save(header.clone(), &Gathered::default())?;
    }
    let left_out = topology.map_or(Vec::new(), |topology| topology.left_out(&dissection));
    left_out.iter().for_each(|row| bench.told(row));
    dissection.rows.extend(left_out);
    header.dissect = Some(dissection.clone());
    bench.bar.finish_and_clear();
    header.partial = stop.load(Relaxed).then(|| "interrupted by the user".to_owned());
    let stored = folder.save(header, &Gathered::default())?;
    session::show(&stored, folder.path(), args.json)?;
    let measured = |row: &Row| row.latency.is_some() || (row.account.is_some() && row.unavailable.is_none());
    let any = stored.run.header.dissect.as_ref().is_some_and(|dissection| dissection.rows.iter().any(measured));
    if stop.load(Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if !any {
        bail!("nothing was measured: each row says why");
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails where what was asked for can't be done, or goes nowhere.
fn check(args: &Dissect, wanted: &[(&'static str, Experiment)]) -> Result<()> {
    if args.lasts == Some(0) {
        bail!("--lasts 0 observes nothing: give it a second or more");
    }
    for (flag, given, number) in [
        ("--cold-start", args.cold_start.is_some(), "1a"),
        ("--no-module", args.no_module, "1b"),
        ("--pci", args.pci.is_some(), "3"),
        ("--memcached", args.memcached.is_some(), "6b"),
        ("--nic-tx", args.nic_tx.is_some(), "7"),
        ("--switch-tx", args.switch_tx.is_some(), "8"),
        ("--cables", !args.cables.is_empty(), "cable"),
    ] {
        // The ports of a card are those of the cables too.
        let goes = |(wanted, _): &(&str, Experiment)| *wanted == number || (number == "7" && *wanted == "cable");
        if given && !wanted.iter().any(goes) {
            bail!("{flag} is for experiment {number}, which --only leaves out");
        }
    }
    if let Some(path) = &args.cold_start {
        std::fs::metadata(path).with_context(|| format!("{} can't be read", path.display()))?;
    }
    if !(0.0..=1e6).contains(&args.nic_cable) {
        bail!("--nic-cable is a length in metres, from 0");
    }
    let mut lengths = args.cables.clone();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    if lengths.len() == 1 || lengths.iter().any(|length| !(0.0..=1e6).contains(length)) {
        bail!("--cables are two or more different lengths in metres, from 0");
    }
    Ok(())
}

/// What others took, and threads that spin were without, in words; nothing where it is little.
fn much(taken: &Taken, stalls: &[CoreStalls]) -> Option<String> {
    let share = |share: f64| Some(format!("{:.0} %", 100.0 * share)).filter(|_| share > DISTURBED);
    let most = taken.most.iter().map(|name| format!(" (most: {name})")).collect::<String>();
    let processes = share(taken.processes).map(|share| format!("other processes took {share} of a core{most}"));
    let stolen = taken
        .stolen
        .and_then(|(core, stolen)| share(stolen).map(|share| format!("the hypervisor took {share} of core {core}")));
    let away = stalls.iter().map(CoreStalls::share).max_by(f64::total_cmp);
    let away = away.and_then(share).map(|share| format!("a thread that spins was away for {share} of its time"));
    let all: Vec<String> = [processes, stolen, away].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The other process of experiment 2.
pub(crate) fn echo(core: usize) -> Result<ExitCode> {
    usect_parts::pin(core)?;
    usect_parts::ipc::echo()?;
    Ok(ExitCode::SUCCESS)
}

/// The experiments that were named, in order; `2` names 2a and 2b.
fn wanted(only: &[String]) -> Result<Vec<(&'static str, Experiment)>> {
    // By its number, by a row's of it (8a of 8), or all of one number (2).
    let named = |number: &str, name: &str| {
        let letters = |rest: Option<&str>| rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_lowercase()));
        letters(number.strip_prefix(name))
            || (number.len() == 1 && letters(name.strip_prefix(number)) && name.len() == 2)
    };
    if let Some(unknown) =
        only.iter().find(|name| name.is_empty() || !EXPERIMENTS.iter().any(|(number, _)| named(number, name)))
    {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|(number, _)| *number).collect();
        bail!("there is no experiment {unknown:?}: there are {}", known.join(", "));
    }
    let asked = |number: &str| only.is_empty() || only.iter().any(|name| named(number, name));
    Ok(EXPERIMENTS.into_iter().filter(|(number, _)| asked(number)).collect())
}

/// The head of the run. Its scenario is that of experiments 4 and 5.
fn header(args: &Dissect, id: &str, stop: &Arc<AtomicBool>) -> Result<Header> {
    let mut scenario = Scenario::parse(paths::HOST).map_err(|e| anyhow::anyhow!("experiment 4: {e}"))?;
    scenario.title = "Where has my time gone?".into();
    let plain = Scenario { dut: usect_core::scenario::DutSpec::Wire {}, ..paths::inside()? };
    let rig = Rig::new(&plain, stop.clone())?;
    let protocol = Protocol { warmup_s: 0.0, duration_s: lasts(args).as_secs_f64(), runs: 1 };
    Ok(session::head("dissect", id, args.quick, protocol, &scenario, &rig))
}

fn lasts(args: &Dissect) -> Duration {
    args.lasts.map_or(if args.quick { QUICK } else { LASTS }, Duration::from_nanos)
}

impl Bench<'_> {
    fn new<'a>(args: &'a Dissect, header: &Header, stop: Arc<AtomicBool>) -> Result<Bench<'a>> {
        let hypervisor = header.environment.get("host.hypervisor").filter(|name| *name != "none");
        Ok(Bench {
            args,
            clock: Clock::calibrate()?,
            lasts: lasts(args),
            stop,
            cores: audit::online_cores(),
            hypervisor: hypervisor.map(str::to_owned),
            bar: progress::bar(!std::io::stderr().is_terminal()),
        })
    }

    /// Does something on a thread of its own, pinned to a core, while this thread shows what came out so far. Returns what was
    /// done, and what others took meanwhile.
    fn watched<T: Send>(
        &self,
        core: usize,
        work: impl FnOnce(Observation<'_>) -> T + Send,
    ) -> Result<(T, Option<String>)> {
        let meanwhile = Meanwhile::begin();
        let (recorder, begun, watcher) = (Recorder::default(), Instant::now(), std::thread::current());
        let done = std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let (clock, lasts, stop) = (&self.clock, self.lasts, &*self.stop);
                let done =
                    usect_parts::pin(core).map(|()| work(Observation { clock, lasts, stop, recorder: &recorder }));
                watcher.unpark();
                done
            });
            while !running.is_finished() {
                std::thread::park_timeout(SHOWN);
                self.show(begun.elapsed(), &recorder);
            }
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let done = done.with_context(|| format!("core {core} can't be used"))?;
        Ok((done, much(&meanwhile.taken(), &[])))
    }

    /// What an experiment comes to. What is interrupted says so.
    fn rows(&mut self, number: &str, experiment: Experiment) -> Vec<Row> {
        let none = |why: String| vec![Row::of(number, "", "").unavailable(why)];
        if self.stop.load(Relaxed) {
            return none("the run was interrupted before it".into());
        }
        let mut rows = experiment(self).unwrap_or_else(|error| none(crate::sentence(&error)));
        if self.stop.load(Relaxed)
            && let Some(cut) = rows.last_mut()
        {
            cut.unavailable.get_or_insert("it was interrupted before its time".into());
        }
        rows
    }

    /// How far it is, and what came out so far.
    fn show(&self, elapsed: Duration, recorder: &Recorder) {
        if self.bar.is_hidden() {
            return;
        }
        let so_far = Histogram::from_counts(&recorder.counts());
        self.bar.set_position((1000.0 * elapsed.as_secs_f64() / self.seconds().max(1e-9)).min(1000.0) as u64);
        self.bar.set_message(format!("{} samples, {} to {} ns", so_far.samples(), so_far.min(), so_far.max()));
    }

    /// The core that measures: the last, which the kernel uses least.
    fn core(&self) -> usize {
        self.cores.last().copied().unwrap_or(0)
    }

    /// The cores for what is measured against: the others, where there are any.
    fn beside(&self) -> Vec<usize> {
        let own = self.core();
        let others: Vec<usize> = self.cores.iter().copied().filter(|core| *core != own).collect();
        if others.is_empty() { vec![own] } else { others }
    }

    fn seconds(&self) -> f64 {
        self.lasts.as_secs_f64()
    }

    /// Says what became of a row.
    fn told(&self, row: &Row) {
        let became = match (&row.unavailable, row.median_ns()) {
            (Some(why), None) => format!("not measured: {why}"),
            (Some(why), Some(median)) => format!("median {median:.0} ns, but {why}"),
            (None, Some(median)) => format!("median {median:.0} ns"),
            (None, None) => row.account.clone().unwrap_or_default(),
        };
        let disturbed = row.disturbed.iter().map(|what| format!("; DISTURBED: {what}")).collect::<String>();
        self.bar.suspend(|| complain(format_args!("{}: {became}{disturbed}", row.label())));
    }
}
