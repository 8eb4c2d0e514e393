//! Which process a lab belongs to, so that a pid that was used again isn't mistaken for it.

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
        let pid = process::id();
        Owner { pid, started: start_of(pid).unwrap_or(0), boot: boot_id() }
    }

    /// Whether it still runs; a zombie doesn't.
    pub(crate) fn alive(&self) -> bool {
        self.since_boot() && start_of(self.pid) == Some(self.started)
    }

    /// Whether the host has not been restarted since.
    pub(crate) fn since_boot(&self) -> bool {
        self.boot == boot_id()
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// When a process that is not dead was started.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    state_of(pid).map(|(_, started)| started)
}

/// Its state as proc_pid_stat(5) has it, and when it was started; none where it is dead.
pub(crate) fn state_of(pid: u32) -> Option<(char, u64)> {
    running_since(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// State and start time in a `/proc/PID/stat`, unless the process is dead. The name in parentheses may itself
/// hold spaces and parentheses, so fields are counted from the last one.
fn running_since(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    if matches!(state, 'Z' | 'X' | 'x') { None } else { Some((state, fields.nth(18)?.parse().ok()?)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "8458 (a ) b) R 8443 8443 5579 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 183015 3133440 416";

    #[test]
    fn the_start_is_field_22_whatever_the_name() {
        assert_eq!(running_since(STAT), Some(('R', 183_015)));
        assert_eq!(running_since(&STAT.replace(" R ", " Z ")), None);
    }

    #[test]
    fn a_pid_that_was_used_again_is_another_process() {
        let own = Owner::current();
        assert!(own.alive());
        assert!(!Owner { started: own.started + 1, ..own.clone() }.alive());
        assert!(!Owner { boot: "another".to_owned(), ..own }.alive());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            running_since(&text);
        }
    }
}
