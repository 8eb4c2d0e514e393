//! The processes of this host, as proc(5) lists them, and what those that aren't ours took of its cores meanwhile.

use crate::audit::{CpuTimes, TICKS};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

/// The parent of every thread of the kernel's.
const KTHREADD: u32 = 2;

/// What `/proc/PID/stat` says of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// What it runs.
    pub name: String,
    /// `R`, `S`, `T` and so on.
    pub(crate) state: char,
    /// Clock ticks between boot and its start: of all that have the same number one day, this one.
    pub(crate) started: u64,
    parent: u32,
    own: u64,
    reaped: u64,
}

/// The entries of a folder whose names are numbers: processes of `/proc`, threads of `/proc/PID/task`.
pub(crate) fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl Process {
    /// What is known of one, or of a thread, now; nothing of one that isn't there.
    pub fn of(pid: u32) -> Option<Process> {
        // A name may be anything, in any encoding.
        Process::parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// The same, unless it is dead.
    pub fn living(pid: u32) -> Option<Process> {
        Process::of(pid).filter(|process| !matches!(process.state, 'Z' | 'X' | 'x'))
    }

    /// Fields are counted from behind the name, which may hold anything.
    fn parse(stat: &str) -> Option<Process> {
        let (open, close) = (stat.find('(')?, stat.rfind(')')?);
        let fields: Vec<&str> = stat[close + 1..].split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Process {
            name: stat.get(open + 1..close)?.to_owned(),
            state: fields.first()?.chars().next()?,
            started: number(22)?,
            parent: number(4)? as u32,
            own: number(14)?.checked_add(number(15)?)?,
            reaped: number(16)?.saturating_add(number(17)?),
        })
    }

    /// Seconds that it worked so far, in user space and in the kernel, to the tick (10 ms).
    pub fn worked(&self) -> f64 {
        self.own as f64 / TICKS
    }

    /// The same with what children did that have ended: over all processes, nothing of that is lost when one ends.
    fn all(&self) -> u64 {
        self.own.saturating_add(self.reaped)
    }
}

/// The cores and the processes at some moment.
pub struct Meanwhile {
    begun: Instant,
    cores: CpuTimes,
    processes: BTreeMap<u32, Process>,
}

/// What was taken of a host's cores by others than this process, what it started, and the kernel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Taken {
    /// By other processes, as a share of one core's time.
    pub processes: f64,
    /// Which of them took most.
    pub most: Option<String>,
    /// By the hypervisor, as a share of that core's time, of the core that lost most.
    pub stolen: Option<(usize, f64)>,
}

impl Meanwhile {
    /// From now on. Takes some milliseconds, as does looking again.
    pub fn begin() -> Meanwhile {
        Meanwhile { begun: Instant::now(), cores: CpuTimes::now(), processes: others() }
    }

    /// Up to now.
    pub fn taken(&self) -> Taken {
        let seconds = self.begun.elapsed().as_secs_f64();
        let stolen = CpuTimes::now().stolen_since(&self.cores);
        let (spent, most) = since(&self.processes, &others());
        Taken {
            processes: spent as f64 / TICKS / seconds,
            most,
            stolen: stolen.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }
}

/// Ticks that processes spent between two looks, and who spent most.
fn since(then: &BTreeMap<u32, Process>, now: &BTreeMap<u32, Process>) -> (u64, Option<String>) {
    let sum = |all: &BTreeMap<u32, Process>| all.values().map(Process::all).fold(0, u64::saturating_add);
    let spent = |(pid, process): (&u32, &Process)| {
        let before = then.get(pid).filter(|before| before.started == process.started).map_or(0, Process::all);
        (process.all().saturating_sub(before), process.name.clone())
    };
    let most = now.iter().map(spent).max_by_key(|(ticks, _)| *ticks).filter(|(ticks, _)| *ticks > 0);
    (sum(now).saturating_sub(sum(then)), most.map(|(_, name)| name))
}

/// All but this one, those that come of it, and the kernel's.
fn others() -> BTreeMap<u32, Process> {
    let all = numbers("/proc").into_iter().filter_map(|pid| Some((pid, Process::of(pid)?)));
    but_family(all.collect(), std::process::id())
}

fn but_family(mut all: BTreeMap<u32, Process>, own: u32) -> BTreeMap<u32, Process> {
    let mut family = BTreeSet::from([own, KTHREADD]);
    loop {
        let children = all.iter().filter(|(_, process)| family.contains(&process.parent)).map(|(pid, _)| *pid);
        let before = family.len();
        family.extend(children.collect::<Vec<_>>());
        if family.len() == before {
            break;
        }
    }
    all.retain(|pid, _| !family.contains(pid));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process(name: &str, parent: u32, own: u64, reaped: u64) -> Process {
        Process { name: name.into(), state: 'S', started: 30, parent, own, reaped }
    }

    #[test]
    fn names_may_hold_anything() {
        let found = Process::parse("7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 40 2 5 6 20 0 1 0 30 4096");
        assert_eq!(found, Some(process("a ) b", 1, 42, 11)));
        assert_eq!((Process::parse("7 (a"), Process::parse(") 7 (")), (None, None));
    }

    #[test]
    fn this_one_works_and_is_none_of_the_others() {
        let own = std::process::id();
        let (begun, before) = (Instant::now(), Process::of(own).unwrap().worked());
        while Process::of(own).unwrap().worked() < before + 0.05 {
            assert!(begun.elapsed().as_secs() < 60, "it works");
        }
        assert!(!others().contains_key(&own) && !others().contains_key(&KTHREADD));
    }

    #[test]
    fn what_comes_of_one_is_its_family() {
        let all = [(1, 0), (2, 0), (3, 2), (7, 1), (8, 7), (9, 8), (10, 1)];
        let all = all.into_iter().map(|(pid, parent)| (pid, process("x", parent, 0, 0)));
        let left: Vec<u32> = but_family(all.collect(), 7).into_keys().collect();
        assert_eq!(left, [1, 10]);
    }

    /// A shell's child works on, ends and is waited for, another comes and goes: each tick is counted once.
    #[test]
    fn what_ends_meanwhile_is_counted_too() {
        let then = BTreeMap::from([(5, process("make", 1, 10, 100)), (6, process("cc", 5, 50, 0))]);
        let now = BTreeMap::from([(5, process("make", 1, 11, 100 + 70 + 30)), (8, process("sh", 1, 4, 0))]);
        assert_eq!(since(&then, &now), (1 + 20 + 30 + 4, Some("make".to_owned())));
        assert_eq!(since(&now, &now), (0, None));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", words in "7 \\([a-z]*\\)( -?[0-9]{1,20}){0,20}") {
            let _ = (Process::parse(&text), Process::parse(&words));
        }
    }
}
