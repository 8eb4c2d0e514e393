//! Pinning a thread to a core.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

/// Pins the calling thread to a core.
pub fn pin(core: usize) -> io::Result<()> {
    const CALLING_THREAD: Pid = Pid::from_raw(0);
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(CALLING_THREAD, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::sched_getaffinity;
    use std::thread;

    #[test]
    fn a_thread_is_pinned_alone() {
        let cores =
            || (0..CpuSet::count()).filter(|c| sched_getaffinity(Pid::from_raw(0)).unwrap().is_set(*c).unwrap());
        let last = cores().next_back().unwrap();
        let seen = thread::spawn(move || {
            pin(last).unwrap();
            cores().collect::<Vec<_>>()
        });
        assert_eq!(seen.join().unwrap(), [last]);
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        thread::spawn(|| assert!(pin(1000).is_err() && pin(usize::MAX).is_err())).join().unwrap();
    }
}
