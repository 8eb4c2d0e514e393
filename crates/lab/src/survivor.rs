//! A process that waits for this one to be killed, and puts back at once what that left. What is to be put back is in the journal: where
//! both are killed, the next start does it.
//!
//! It is this program again, and sleeps in read(2) on a pipe whose other end only the process has that it waits for; a program that is
//! started closes that end (`O_CLOEXEC`). It has a session of its own and takes no signals but SIGKILL, so that neither the terminal nor a
//! service manager ends it first; and it has nothing of the user's open, so that nobody waits for it.

use crate::audit::online_cores;
use crate::error::LabError;
use crate::owner::Owner;
use crate::processes::numbers;
use crate::tune::confine;
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::{Pid, close, setsid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process that was killed may take to be dead.
const PATIENCE: Duration = Duration::from_secs(30);
const BLINK: Duration = Duration::from_millis(2);
const PROGRAM: &str = "usect";
const STDERR: u32 = 2;

/// The process that waits. Dropping this ends it: whoever gets so far puts back itself what it changed.
#[derive(Debug)]
#[must_use = "nobody waits any more when this is dropped"]
pub struct Survivor {
    child: Child,
}

impl Survivor {
    /// Starts this program with these arguments and the process that it is to wait for, which call [`outlive`] there.
    ///
    /// Errors: it can't be started.
    pub fn start(args: &[&str]) -> Result<Survivor, LabError> {
        let failed = |why: String| LabError::Failed { command: format!("{PROGRAM} {}", args.join(" ")), why };
        let mut command = Command::new("/proc/self/exe");
        command.arg0(PROGRAM).args(args).arg(Owner::current().pid.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = sheltered(|| command.spawn()).map_err(|e| failed(e.to_string()))?;
        child.map(|child| Survivor { child }).map_err(|e| failed(e.to_string()))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Does something with all signals blocked, on the first core, where most interrupts are and nobody likes to measure: what a process inherits
/// of the thread that starts it, it has from its first instruction on.
fn sheltered<T>(work: impl FnOnce() -> T) -> nix::Result<T> {
    const CALLING_THREAD: Pid = Pid::from_raw(0);
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // Of more than 1024 cores libc's mask is too short.
    let cores = sched_getaffinity(CALLING_THREAD).ok();
    let first = online_cores().first().copied();
    first.filter(|_| cores.is_some()).map_or(Ok(()), |core| confine(0, &[core]))?;
    let done = work();
    cores.map_or(Ok(()), |cores| sched_setaffinity(CALLING_THREAD, &cores))?;
    signals.thread_set_mask()?;
    Ok(done)
}

impl Drop for Survivor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What it does first, with its standard input for the pipe: waits until the process that started it is dead.
///
/// Errors: of the system, before it waits; the process doesn't die.
pub fn outlive(pid: u32) -> io::Result<()> {
    let owner = Owner::of(pid);
    setsid()?;
    for inherited in numbers("/proc/self/fd").into_iter().filter(|fd| *fd > STDERR) {
        // Among them the one that listed them, which is closed.
        let _ = close(inherited as i32);
    }
    // It was started by another name.
    std::fs::write("/proc/self/comm", PROGRAM)?;
    await_death(&owner, io::stdin().lock())
}

/// Waits until a process is dead which has the other end of a pipe. Its files are closed a moment before.
fn await_death(owner: &Owner, mut pipe: impl io::Read) -> io::Result<()> {
    io::copy(&mut pipe, &mut io::sink())?;
    let begun = Instant::now();
    while owner.alive() {
        if begun.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(BLINK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_files_are_closed_is_not_dead_yet() {
        let mut child = Command::new("sleep").arg("1").spawn().unwrap();
        let owner = Owner::of(child.id());
        await_death(&owner, io::empty()).unwrap();
        assert!(!owner.alive());
        child.wait().unwrap();
    }
}
