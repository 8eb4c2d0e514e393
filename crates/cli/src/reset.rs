//! The reset of the device under test in the middle of a trial (RFC 2544 §26.6), by a command of the user's.

use crate::confirm::{self, Asked};
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::suite::{Benchmark, Suite};
use usect_core::trial::Trial;

/// Longest time from the beginning of a trial to its reset, in seconds.
const AFTER_S: f64 = 10.0;
/// How long the command may go on after its trial.
const PATIENCE: Duration = Duration::from_secs(30);
const BLINK: Duration = Duration::from_millis(20);

/// A command that is to run in the middle of a trial.
pub(crate) struct Event {
    command: String,
    after_s: f64,
    child: Option<Result<Child>>,
}

impl Event {
    /// That of a trial, if it has one.
    pub(crate) fn of(suite: &Suite, trial: &Trial) -> Option<Event> {
        let command = suite.reset_command.clone()?;
        let resets = trial.purpose.is_some_and(|purpose| purpose.benchmark == Benchmark::Reset);
        resets.then(|| Event { command, after_s: AFTER_S.min(suite.reset.lasts_s / 4.0), child: None })
    }

    /// So many seconds have passed since the trial began.
    pub(crate) fn tick(&mut self, elapsed_s: f64) {
        if self.child.is_none() && elapsed_s >= self.after_s {
            let mut command = Command::new("sh");
            // What it prints is not ours to print.
            command.args(["-c", &self.command]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            self.child = Some(command.spawn().context("the reset command could not be started"));
        }
    }

    /// The trial is over: the command must have run, and end well; `stop` ends the wait for it.
    pub(crate) fn end(self, stop: &AtomicBool) -> Result<()> {
        let Some(child) = self.child else {
            if stop.load(Relaxed) {
                return Ok(());
            }
            bail!("the trial was over before the reset command ran");
        };
        let (mut child, begun) = (child?, Instant::now());
        loop {
            match child.try_wait().context("the reset command could not be waited for")? {
                Some(ended) if ended.success() => return Ok(()),
                Some(ended) => {
                    bail!("the reset command `{}` failed ({ended}), so that nothing was reset", self.command)
                }
                None if begun.elapsed() < PATIENCE && !stop.load(Relaxed) => std::thread::sleep(BLINK),
                None => {
                    // With what it started.
                    let group = format!("-{}", child.id());
                    let _ = Command::new("kill").args(["--", &group]).stderr(Stdio::null()).status();
                    let _ = child.wait();
                    bail!("the reset command `{}` did not end, and was ended", self.command);
                }
            }
        }
    }
}

/// Asks whether the device may be reset, where nobody said so beforehand.
///
/// Errors: as [`confirm::confirm`].
pub(crate) fn confirm(suite: &Suite, yes: bool) -> Result<()> {
    let Some(what) = suite.reset_command.as_deref().filter(|_| suite.has(Benchmark::Reset)) else { return Ok(()) };
    let does = format!("will run {} times, to reset the device", suite.reset.times);
    confirm::confirm(&Asked { what, does, instead: "leave the reset out with --benchmark" }, yes)
}
