//! A program that leads a process group of its own.
//!
//! The number of a group is free for others once its leader is reaped and nobody is left in it. So its leader is looked at
//! without being reaped, and reaped only after the group was signalled: [`Group::end`] does both, once.

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};

/// A running program and what it starts; ended when dropped.
#[derive(Debug)]
#[must_use = "the program is ended when this is dropped"]
pub(crate) struct Group {
    leader: Child,
    /// How the leader ended, once it is reaped: from then on its number is not ours.
    reaped: Option<ExitStatus>,
}

impl Group {
    /// Starts a command in a group of its own: a Ctrl-C at the terminal is for us, who end it.
    ///
    /// Errors: it can't be started.
    pub(crate) fn start(command: &mut Command) -> io::Result<Group> {
        Ok(Group { leader: command.process_group(0).spawn()?, reaped: None })
    }

    /// The leader's process, which is the group's number, too.
    pub(crate) fn pid(&self) -> u32 {
        self.leader.id()
    }

    /// What the leader prints and complains of, where they are pipes; once.
    pub(crate) fn outputs(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.leader.stdout.take(), self.leader.stderr.take())
    }

    /// How the leader has ended, if it has. It is not reaped by that.
    ///
    /// Errors: of `waitid`.
    pub(crate) fn ended(&self) -> io::Result<Option<ExitStatus>> {
        if self.reaped.is_some() {
            return Ok(self.reaped);
        }
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(status(waitid(Id::Pid(self.number()), look)?))
    }

    /// Signals the leader; one that is reaped is left alone.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.reaped.is_none() {
            let _ = kill(self.number(), signal);
        }
    }

    /// Kills all that is left of the group, and reaps the leader; how that ended.
    ///
    /// Errors: of `wait`.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.reaped {
            return Ok(status);
        }
        let _ = killpg(self.number(), Signal::SIGKILL);
        let status = self.leader.wait()?;
        self.reaped = Some(status);
        Ok(status)
    }

    fn number(&self) -> Pid {
        Pid::from_raw(self.leader.id() as i32)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// As `wait` has it.
fn status(seen: WaitStatus) -> Option<ExitStatus> {
    match seen {
        WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw(code << 8)),
        WaitStatus::Signaled(_, signal, dumped) => {
            Some(ExitStatus::from_raw(signal as i32 | if dumped { 0x80 } else { 0 }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::numbers;
    use std::fs;

    fn shell(script: &str) -> Group {
        Group::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    fn until_it_ended(group: &Group) -> ExitStatus {
        loop {
            if let Some(status) = group.ended().unwrap() {
                return status;
            }
            std::thread::yield_now();
        }
    }

    /// Fields of `/proc/PID/stat` behind the name: the state first, the group third.
    fn stat(pid: u32) -> Option<Vec<String>> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
    }

    fn members(group: u32) -> Vec<u32> {
        let group = group.to_string();
        numbers("/proc").into_iter().filter(|pid| stat(*pid).is_some_and(|stat| stat[2] == group)).collect()
    }

    #[test]
    fn a_leader_that_ended_keeps_its_number_until_the_group_was_signalled() {
        let mut group = shell("sleep 600 & exit 3");
        let pid = group.pid();
        for _ in 0..3 {
            assert_eq!(until_it_ended(&group).code(), Some(3));
            assert_eq!(stat(pid).unwrap()[0], "Z", "it is seen to have ended, and not reaped");
        }
        assert_eq!(members(pid).len(), 2, "what it started is still there");
        assert_eq!(group.end().unwrap().code(), Some(3));
        assert_eq!(stat(pid), None, "reaped");
        // What was killed may take a moment to go.
        while members(pid).iter().any(|pid| stat(*pid).is_some_and(|stat| stat[0] != "Z")) {
            std::thread::yield_now();
        }
        assert_eq!((group.end().unwrap().code(), group.ended().unwrap().unwrap().code()), (Some(3), Some(3)));
    }

    #[test]
    fn how_it_ended_is_told_as_wait_does() {
        let mut killed = shell("kill -TERM $$");
        let seen = until_it_ended(&killed);
        assert_eq!((seen.signal(), seen), (Some(Signal::SIGTERM as i32), killed.end().unwrap()));
        let mut running = shell("sleep 600");
        assert_eq!(running.ended().unwrap(), None);
        assert_eq!(running.end().unwrap().signal(), Some(Signal::SIGKILL as i32));
    }
}
