//! The cores that a thread may be pinned to.

use super::read;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use usect_core::environment::cpu_list;

/// The cores that this process may run on, ascending: those of its main thread, so ask before pinning
/// that one.
pub fn online_cores() -> Vec<usize> {
    match sched_getaffinity(Pid::this()) {
        Ok(set) => (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect(),
        // More than 1024 possible cores: the mask that libc knows is too short.
        Err(_) => cpu_list(&read("/sys/devices/system/cpu/online").unwrap_or_default()),
    }
}
