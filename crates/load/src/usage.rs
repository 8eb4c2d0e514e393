//! What cores and processes did between two moments, as the kernel accounts for it (proc(5)), in ticks of 10 ms.

use std::fs;
use std::time::Instant;
use usect_core::matrix::Used;
use usect_lab::audit::CpuTimes;

/// Ticks in a second: USER_HZ, the same on every x86-64.
const TICKS: f64 = 100.0;

/// A process that is watched.
#[derive(Debug, Clone)]
pub struct Who {
    /// Its name for the reader.
    pub name: String,
    /// Its process.
    pub pid: u32,
}

/// What was so at the beginning.
pub struct Usage {
    begun: Instant,
    cores: CpuTimes,
    processes: Vec<(Who, u64)>,
}

impl Usage {
    /// From now on, of all cores and of some processes.
    pub fn begin(processes: Vec<Who>) -> Usage {
        let processes = processes
            .into_iter()
            .map(|who| {
                let ticks = ticks(who.pid).unwrap_or(0);
                (who, ticks)
            })
            .collect();
        Usage { begun: Instant::now(), cores: CpuTimes::now(), processes }
    }

    /// Up to now: of the cores, and of the processes that are still there.
    pub fn end(self) -> (Vec<Used>, Vec<Used>) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let cores = CpuTimes::now().busy_since(&self.cores);
        let cores = cores.into_iter().map(|(core, share)| Used { who: core.to_string(), share }).collect();
        let used = |(who, before): (Who, u64)| {
            let spent = ticks(who.pid)?.saturating_sub(before) as f64 / TICKS;
            Some(Used { who: who.name, share: spent / seconds })
        };
        (cores, self.processes.into_iter().filter_map(used).collect())
    }
}

/// Ticks that a process spent, in user space and in the kernel.
fn ticks(pid: u32) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 14 and 15 of a `/proc/PID/stat`, counted from behind the name, which may hold anything.
fn parse(stat: &str) -> Option<u64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_that_spins_is_seen() {
        let usage = Usage::begin(vec![
            Who { name: "us".into(), pid: std::process::id() },
            Who { name: "nobody".into(), pid: 0 },
        ]);
        let (begun, before) = (Instant::now(), ticks(std::process::id()).unwrap());
        while ticks(std::process::id()).unwrap() < before + 20 && begun.elapsed().as_secs() < 60 {
            std::hint::black_box(0);
        }
        let (cores, processes) = usage.end();
        assert!(processes.len() == 1 && processes[0].who == "us" && processes[0].share > 0.0, "{processes:?}");
        assert!(
            cores.iter().all(|core| (0.0..=1.0).contains(&core.share)) && cores.iter().any(|core| core.share > 0.0),
            "{cores:?}"
        );
    }

    #[test]
    fn names_may_hold_anything() {
        assert_eq!(parse("7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 40 2 0 0 20 0 1 0 30 4096"), Some(42));
        assert_eq!(parse("7 (a"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            let _ = parse(&text);
        }
    }
}
