//! Which process a lab belongs to, so that a pid that was used again isn't mistaken for it.

use crate::processes::Process;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process;

/// A process, told apart from every other that ever had its pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Clock ticks between boot and its start (field 22 of proc_pid_stat(5)).
    started: u64,
    /// The kernel's boot_id: pids and ticks begin again at every boot.
    boot: String,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Owner {
        Owner::of(process::id())
    }

    /// The process that has a pid now, if one does.
    pub(crate) fn of(pid: u32) -> Owner {
        Owner { pid, started: Process::living(pid).map_or(0, |own| own.started), boot: boot_id() }
    }

    /// Whether it still runs; a zombie doesn't.
    pub(crate) fn alive(&self) -> bool {
        self.since_boot() && Process::living(self.pid).is_some_and(|found| found.started == self.started)
    }

    /// Whether the host has not been restarted since.
    pub(crate) fn since_boot(&self) -> bool {
        self.boot == boot_id()
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_that_was_used_again_is_another_process() {
        let own = Owner::current();
        assert!(own.alive());
        assert!(!Owner { started: own.started + 1, ..own.clone() }.alive());
        assert!(!Owner { boot: "another".to_owned(), ..own }.alive());
    }
}
