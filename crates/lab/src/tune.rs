//! A profile of settings, in force for as long as it is held.

use crate::change::{self, Change, Outcome};
use crate::cpuset::{self, Others};
use crate::error::LabError;
use crate::lock::wait_for;
use crate::setting::{Of, Setting};
use crate::state::State;
use crate::{privilege, settings, steering};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use usect_core::environment::cpu_list;
use usect_core::profile::{Place, Profile, Wanted};

/// How it is written down.
const KIND: &str = "tune";
const CPU: &str = "/sys/devices/system/cpu";

/// What a profile is about.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The interfaces through which is measured, in this namespace.
    pub interfaces: Vec<String>,
    /// The core for everything else.
    pub others: usize,
}

/// A profile in force; dropping this puts everything back.
#[derive(Debug)]
#[must_use = "the settings are put back when this is dropped"]
pub struct Tuned {
    /// What was done, wish by wish.
    pub wanted: Vec<Wanted>,
    change: Change,
    /// While this is open, no core sleeps deeply; the kernel closes it, however usect ends.
    _awake: Option<File>,
    /// Nobody else changes settings, or puts them back, meanwhile. Dropped last.
    _lock: File,
}

/// The right to change settings, for as long as the file is open; none where a profile is in force.
///
/// Errors: another process keeps the lock without one, and for longer than it takes to put settings back.
fn alone() -> Result<Option<File>, LabError> {
    let (path, file) = State::from_env().file("tune.lock")?;
    wait_for(&file, &path, || holder().is_ok_and(|pid| pid.is_some())).map(|locked| locked.then_some(file))
}

/// The process that holds a profile, if one does.
///
/// Errors: what was written down can't be read.
pub fn holder() -> Result<Option<u32>, LabError> {
    settings::holder(KIND)
}

/// Whether a process that is gone left settings changed.
///
/// Errors: what was written down can't be read.
pub fn is_left_behind() -> Result<bool, LabError> {
    Ok(!settings::stale(KIND)?.is_empty())
}

/// Something that a profile wants.
struct Wish {
    part: &'static str,
    what: String,
    /// Settings and their values, or why there is none.
    settings: Result<Vec<(Setting, String)>, String>,
}

impl Tuned {
    /// Applies a profile. What this host can't do is among the steps, with the reason.
    ///
    /// Errors: this process may not; another holds a profile; it can't be written down.
    pub fn apply(profile: &Profile, scope: &Scope) -> Result<Tuned, LabError> {
        privilege::require("changing the host's settings")?;
        let Some(lock) = alone()? else {
            let by = holder()?.map_or("another process".into(), |pid| format!("process {pid}"));
            return Err(LabError::Tuned { by });
        };
        // What could not be put back would be taken for what was before.
        if is_left_behind()? {
            return Err(LabError::Tuned {
                by: "a killed run (`usect host restore` says why it can't be put back)".into(),
            });
        }
        let wishes = wishes(profile, scope);
        let wanted: Vec<(Setting, String)> =
            wishes.iter().flat_map(|wish| wish.settings.as_deref().unwrap_or_default()).cloned().collect();
        let (change, outcomes) = Change::apply((KIND, None, "host"), &wanted)?;
        let mut outcomes = outcomes.into_iter();
        let mut done: Vec<Wanted> = wishes.into_iter().map(|wish| wish.sum(&mut outcomes)).collect();
        let awake = profile.power.then(stay_awake);
        if let Some(awake) = &awake {
            let (changed, reason) = (usize::from(awake.is_ok()), awake.as_ref().err().cloned());
            let what = "no core sleeps deeply (PM QoS, 0 µs)".to_owned();
            done.push(Wanted { part: "power".into(), what, changed, already: 0, refused: 1 - changed, reason });
        }
        Ok(Tuned { wanted: done, change, _awake: awake.and_then(Result::ok), _lock: lock })
    }

    /// Puts everything back; what can't be, one sentence each, is left to the next start.
    pub fn restore(self) -> Vec<String> {
        self.change.restore()
    }
}

/// Puts back what runs that were killed left changed; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    if !is_left_behind()? {
        return Ok(Vec::new());
    }
    // Whoever holds them puts them back itself.
    match alone()? {
        None => Ok(Vec::new()),
        Some(_lock) => {
            change::recover(KIND, |_| "put the host's settings back, which a killed run had changed".to_owned())
        }
    }
}

/// The cores on which a profile wants a measurement to run, of those there are; all where it wants none in particular.
///
/// Errors: why this host can't do it.
pub fn cores(profile: &Profile, scope: &Scope, online: &[usize]) -> Result<Vec<usize>, String> {
    let (interface, others) = (scope.interfaces.first(), scope.others);
    let Some(place) = profile.place else {
        // What is isolated has cores of its own, where there are enough for a sender and a receiver.
        let own = online.iter().copied().filter(|core| !profile.isolated || *core != others);
        let own: Vec<usize> = own.collect();
        return match (profile.isolated, online.len()) {
            (true, 1) => Err("nothing can be isolated on one core".into()),
            (true, 2) | (false, _) => Ok(online.to_vec()),
            _ => Ok(own),
        };
    };
    let Some(interface) = interface else { return Err("whose node? name the card with --interface".into()) };
    let node = fs::read_to_string(format!("/sys/class/net/{interface}/device/numa_node"));
    let node: i32 = node.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(-1);
    if node < 0 {
        return Err(format!("{interface} belongs to no node"));
    }
    let list = fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).unwrap_or_default();
    let near = cpu_list(&list);
    let chosen: Vec<usize> =
        online.iter().copied().filter(|core| near.contains(core) == (place == Place::Local)).collect();
    if chosen.is_empty() {
        return Err(format!(
            "no core of this process is {} node {node}",
            if place == Place::Local { "on" } else { "outside of" }
        ));
    }
    Ok(chosen)
}

/// Confines this thread, and what it starts, to cores.
///
/// Errors: the kernel refuses.
pub fn run_on(cores: &[usize]) -> Result<(), LabError> {
    const CALLING_THREAD: u32 = 0;
    confine(CALLING_THREAD, cores)
        .map_err(|e| LabError::Failed { command: format!("sched_setaffinity {cores:?}"), why: e.desc().to_owned() })
}

/// Confines a thread to cores.
pub(crate) fn confine(thread: u32, cores: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core))?;
    sched_setaffinity(Pid::from_raw(thread as i32), &set)
}

/// Sends a signal to a process that we started.
pub fn signal(pid: u32, signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        // It may have ended.
        let _ = kill(Pid::from_raw(pid as i32), signal);
    }
}

impl Wish {
    fn new(part: &'static str, what: impl Into<String>, settings: Vec<(Setting, String)>) -> Wish {
        Wish { part, what: what.into(), settings: Ok(settings) }
    }

    fn file(part: &'static str, what: &str, path: &str, value: &str) -> Wish {
        Wish::new(part, what, vec![(Setting::file(path), value.to_owned())])
    }

    /// Whether nothing is to be done.
    fn is_empty(&self) -> bool {
        self.settings.as_ref().is_ok_and(Vec::is_empty)
    }

    /// Sums up what became of its settings, which are the next of all.
    fn sum(self, outcomes: &mut dyn Iterator<Item = Outcome>) -> Wanted {
        let Wish { part, what, settings } = self;
        let mut wanted = Wanted { part: part.into(), what, changed: 0, already: 0, refused: 0, reason: None };
        let own: Vec<Outcome> = match settings {
            Err(why) => vec![Outcome::Refused(why)],
            Ok(settings) => {
                // Of several, which one it was.
                let placed = |((setting, _), outcome): (&(Setting, String), Outcome)| match outcome {
                    Outcome::Refused(why) if settings.len() > 1 => Outcome::Refused(format!("{setting}: {why}")),
                    other => other,
                };
                // In this order, zip takes no outcome too many.
                let mut own: Vec<Outcome> = settings.iter().zip(outcomes).map(placed).collect();
                if let ([(Setting::Others(_), cores)], [Outcome::Changed | Outcome::Already]) =
                    (&settings[..], &own[..])
                {
                    own.extend(cpuset::elsewhere(cores).into_iter().map(Outcome::Refused));
                }
                own
            }
        };
        for outcome in own {
            match outcome {
                Outcome::Changed => wanted.changed += 1,
                Outcome::Already => wanted.already += 1,
                Outcome::Refused(why) => {
                    wanted.refused += 1;
                    wanted.reason.get_or_insert(why);
                }
            }
        }
        wanted
    }
}

fn wishes(profile: &Profile, scope: &Scope) -> Vec<Wish> {
    let mut wishes = Vec::new();
    if profile.isolated {
        wishes.extend(isolated(scope.others));
    }
    if profile.power {
        wishes.extend(power());
    }
    if profile.quiet {
        wishes.extend(quiet(&scope.interfaces));
    }
    if profile.busypoll {
        let settings =
            ["busy_read", "busy_poll"].map(|name| (Setting::file(format!("/proc/sys/net/core/{name}")), "50".into()));
        wishes.push(Wish::new("busypoll", "sockets ask the card for 50 µs", settings.to_vec()));
    }
    wishes.retain(|wish| !wish.is_empty());
    wishes
}

fn isolated(core: usize) -> Vec<Wish> {
    const PART: &str = "isolated";
    let (list, mask) = (core.to_string(), steering::mask(core));
    let each = |paths: Vec<String>, value: &str| {
        paths.into_iter().map(|path| (Setting::file(path), value.to_owned())).collect::<Vec<_>>()
    };
    let stopped = Setting::processes("irqbalance").into_iter().map(|process| (process, "stopped".to_owned()));
    let others = Others::find().map(|others| vec![(Setting::Others(others), list.clone())]);
    let mut interrupts = each(below("/proc/irq", "smp_affinity_list"), &list);
    interrupts.push((Setting::file("/proc/irq/default_smp_affinity"), mask.clone()));
    vec![
        Wish::new(PART, "irqbalance is stopped", stopped.collect()),
        Wish { part: PART, what: format!("other processes run on core {core}"), settings: others },
        Wish::new(PART, format!("interrupts go to core {core}"), interrupts),
        Wish::new(
            PART,
            format!("the kernel's work queues run on core {core}"),
            each(vec!["/sys/devices/virtual/workqueue/cpumask".into()], &mask),
        ),
        Wish::new(
            PART,
            format!("the watchdog is on core {core}"),
            each(vec!["/proc/sys/kernel/watchdog_cpumask".into()], &list),
        ),
    ]
}

/// The files of a name in the folders below one.
fn below(folder: &str, name: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<String> = entries
        .map(|entry| entry.path().join(name))
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    paths.sort();
    paths
}

fn power() -> Vec<Wish> {
    const PART: &str = "power";
    let frequency = |file: &str| -> Vec<(Setting, String)> {
        let files = below(CPU, &format!("cpufreq/{file}")).into_iter();
        files.map(|path| (Setting::file(path), "performance".to_owned())).collect()
    };
    let governors = frequency("scaling_governor");
    let governors = if governors.is_empty() {
        Err("no cpufreq driver (typical of virtual machines)".to_owned())
    } else {
        Ok(governors)
    };
    let turbo = [("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")];
    let turbo = turbo
        .into_iter()
        .map(|(file, value)| (format!("{CPU}/{file}"), value))
        .find(|(path, _)| Path::new(path).exists());
    let turbo = turbo.map(|(path, value)| vec![(Setting::file(path), value.to_owned())]);
    vec![
        // Before the governors, and so put back after them: under `performance` the kernel refuses any other preference.
        Wish::new(PART, "energy preference performance", frequency("energy_performance_preference")),
        Wish { part: PART, what: "governor performance".into(), settings: governors },
        Wish {
            part: PART,
            what: "no turbo".into(),
            settings: turbo.ok_or("no control for it (typical of virtual machines)".into()),
        },
        Wish::file(PART, "links of PCIe don't sleep", "/sys/module/pcie_aspm/parameters/policy", "performance"),
    ]
}

/// Files of the kernel's own work, and what stops it.
const QUIET: [(&str, &str, &str); 10] = [
    ("no NUMA balancing", "/proc/sys/kernel/numa_balancing", "0"),
    ("no transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled", "never"),
    ("no gathering of huge pages", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0"),
    ("no merging of pages", "/sys/kernel/mm/ksm/run", "0"),
    // Both before the switch for both, which would otherwise put back one that was off.
    ("no watchdog by NMI", "/proc/sys/kernel/nmi_watchdog", "0"),
    ("no watchdog by thread", "/proc/sys/kernel/soft_watchdog", "0"),
    ("no watchdog", "/proc/sys/kernel/watchdog", "0"),
    ("statistics of memory every 2 minutes", "/proc/sys/vm/stat_interval", "120"),
    ("no compaction of memory ahead", "/proc/sys/vm/compaction_proactiveness", "0"),
    ("timers stay where they are", "/proc/sys/kernel/timer_migration", "0"),
];

fn quiet(interfaces: &[String]) -> Vec<Wish> {
    const PART: &str = "quiet";
    let files = QUIET.into_iter().map(|(what, path, value)| Wish::file(PART, what, path, value));
    let audit = Wish::new(PART, "no audit", vec![(Setting::Audit, "disabled".into())]);
    let moderation = interfaces.iter().flat_map(|interface| {
        let each = [("adaptive-rx", "off"), ("adaptive-tx", "off"), ("rx-usecs", "0"), ("tx-usecs", "0")];
        each.map(|(parameter, value)| {
            let of = Of::Coalescing(parameter.into());
            let setting = Setting::Interface { netns: None, interface: interface.clone(), of };
            Wish::new(PART, format!("{parameter} {value} at {interface}"), vec![(setting, value.into())])
        })
    });
    files.chain([audit]).chain(moderation).collect()
}

/// Asks that no core takes long to wake up, for as long as the file is open (kernel: power/pm_qos_interface).
fn stay_awake() -> Result<File, String> {
    let open = || -> std::io::Result<File> {
        let mut file = File::options().read(true).write(true).open("/dev/cpu_dma_latency")?;
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    };
    open().map_err(|e| format!("/dev/cpu_dma_latency: {e}"))
}
