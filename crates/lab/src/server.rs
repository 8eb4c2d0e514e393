//! A program that serves for as long as something is measured: memcached and its like. It ends when what holds it is dropped; after a kill,
//! the next start ends it.

use crate::error::LabError;
use crate::owner::Owner;
use crate::program::unstarted;
use crate::settings::{self, Noted};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How it is written down.
const KIND: &str = "server";
/// The variable by which a program, and whatever it starts, is known again.
const MARK: &str = "USECT_SERVER";
/// How long it may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running program.
#[derive(Debug)]
#[must_use = "the program is ended when this is dropped"]
pub struct Server {
    child: Child,
    mark: String,
    _noted: Noted,
}

impl Server {
    /// Starts a program under a name that says what it is for. It has no input, and nobody reads what it prints.
    ///
    /// Errors: it isn't installed, or can't be started.
    pub fn start(name: &str, program: &str, args: &[&str]) -> Result<Server, LabError> {
        let owner = Owner::current();
        let mark = format!("{name}.{}", owner.pid);
        // Before it is there: the mark is all that it takes to find it.
        let noted = settings::note(KIND, None, &mark, &mark)?;
        let mut command: Command = crate::program::command(program, args);
        command.env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A Ctrl-C at the terminal is for us, who end it.
        command.process_group(0);
        let child = command.spawn().map_err(|e| unstarted(program, args, e))?;
        Ok(Server { child, mark, _noted: noted })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself, and how.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let begun = Instant::now();
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        end(&self.mark);
    }
}

/// Ends what runs that were killed left running; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    let mut said = Vec::new();
    for stale in settings::stale(KIND)? {
        if end(stale.value()) > 0 {
            let name = stale.value().split('.').next().unwrap_or_default().to_owned();
            said.push(format!("ended a {name} that a killed run had started"));
        }
        stale.strike_out()?;
    }
    Ok(said)
}

/// Ends every process that has a mark; how many.
fn end(mark: &str) -> usize {
    let marked = format!("{MARK}={mark}\0");
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(marked.len()).any(|bytes| bytes == marked.as_bytes())
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).filter(has);
    pids.filter(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether somebody runs under a name of a test's.
    fn runs(name: &str) -> bool {
        let marked = format!("{MARK}={name}.");
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.windows(marked.len()).any(|bytes| bytes == marked.as_bytes())
        })
    }

    #[test]
    fn it_ends_with_what_holds_it_and_so_does_what_it_started() {
        let mut server = Server::start("sleeper", "sh", &["-c", "sleep 600 & sleep 600 & wait"]).unwrap();
        assert!(server.ended().is_none());
        while !runs("sleeper") {
            std::thread::yield_now();
        }
        drop(server);
        let begun = Instant::now();
        while runs("sleeper") {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still there");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_not_installed_is_told_by_its_package() {
        let said = Server::start("x", "no-such-program", &[]).unwrap_err().to_string();
        assert!(said.contains("apt install no-such-program"), "{said}");
    }
}
