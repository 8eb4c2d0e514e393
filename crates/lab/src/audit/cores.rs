//! Cores, and pinning threads to them.

use super::read;
use super::text::cpu_list;
use crate::error::{LabError, enumerate};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The cores that this process may run on, ascending: those of its main thread, so ask before pinning
/// that one.
pub fn online_cores() -> Vec<usize> {
    match sched_getaffinity(Pid::this()) {
        Ok(set) => (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect(),
        // More than 1024 possible cores: the mask that libc knows is too short.
        Err(_) => cpu_list(&read("/sys/devices/system/cpu/online").unwrap_or_default()),
    }
}

/// Pins the calling thread to a core.
///
/// Errors: this process may not run there; the error lists the cores where it may.
pub fn pin(core: usize) -> Result<(), LabError> {
    let mut set = CpuSet::new();
    let pinned = set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.map_err(|_| LabError::NoCore { core, cores: cores() })
}

fn cores() -> String {
    let cores: Vec<String> = online_cores().iter().map(usize::to_string).collect();
    if cores.len() == 1 { format!("core {}", cores[0]) } else { format!("cores {}", enumerate(&cores)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_is_pinned_alone() {
        let cores = online_cores();
        let last = *cores.last().unwrap();
        let seen = thread::spawn(move || {
            pin(last).unwrap();
            let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
            (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert_eq!(online_cores(), cores);
    }

    #[test]
    fn a_core_that_is_not_there_is_named_with_those_that_are() {
        for core in [1000, 100_000] {
            let said = pin(core).unwrap_err().to_string();
            assert!(said.contains(&format!("core {core}:")) && said.contains('0'), "{said}");
        }
    }
}
