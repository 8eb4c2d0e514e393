//! A program that runs for as long as something is measured: memcached, iperf3 and their like. It ends when what holds it is dropped, or after
//! a kill.

use crate::error::LabError;
use crate::group::Group;
use crate::netns::within;
use crate::owner::Owner;
use crate::processes::numbers;
use crate::program::unstarted;
use crate::settings::{self, Noted};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How it is written down.
const KIND: &str = "companion";
/// The variable by which a program, and whatever it starts, is known again.
const MARK: &str = "USECT_COMPANION";
/// How long it may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);
const BLINK: Duration = Duration::from_millis(5);
/// Tells those of one process apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A running program.
#[derive(Debug)]
#[must_use = "the program is ended when this is dropped"]
pub struct Companion {
    group: Group,
    /// Read all the time: a program whose output nobody takes stops.
    output: Option<Output>,
    complaints: Option<Output>,
    mark: String,
    _noted: Noted,
}

impl Companion {
    /// Starts a program in a namespace (`None`: the caller's). It has no input.
    ///
    /// Errors: it isn't installed, or can't be started; there is no such namespace.
    pub fn start(netns: Option<&str>, program: &str, args: &[&str]) -> Result<Companion, LabError> {
        Companion::start_with(netns, program, args, &[])
    }

    /// The same with variables of its environment.
    pub fn start_with(
        netns: Option<&str>,
        program: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Companion, LabError> {
        let mark = format!("{program}.{}.{}", Owner::current().pid, NEXT.fetch_add(1, Relaxed));
        // Before it is there: the mark is all that it takes to find it.
        let noted = settings::note(KIND, None, &mark, &mark)?;
        let mut command = crate::program::command(program, args);
        command
            .env(MARK, &mark)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = within(netns, || Group::start(&mut command))?.map_err(|e| unstarted(program, args, e))?;
        let (output, complaints) = group.outputs();
        let (output, complaints) = (output.map(Output::read), complaints.map(Output::read));
        Ok(Companion { group, output, complaints, mark, _noted: noted })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.group.pid()
    }

    /// Whether it has ended by itself, and how.
    pub fn ended(&mut self) -> Option<String> {
        self.group.ended().ok().flatten().map(|status| status.to_string())
    }

    /// What it printed, and the line that it complained with, once it has ended: the first one that tells of an error, or the last. At that
    /// time it is interrupted, on which programs like `ping` tell what they saw so far.
    pub fn output(mut self, due: Instant) -> (String, Option<String>) {
        self.wait(due.saturating_duration_since(Instant::now()));
        if self.ended().is_none() {
            self.group.signal(Signal::SIGINT);
            self.wait(PATIENCE);
        }
        self.end();
        let text = |output: Option<Output>| output.map_or(String::new(), Output::so_far);
        let complaints = text(self.complaints.take());
        let mut lines = complaints.lines().filter(|line| !line.trim().is_empty());
        let complaint =
            lines.clone().find(|line| line.contains("error")).or_else(|| lines.next_back()).map(str::to_owned);
        (text(self.output.take()), complaint)
    }

    fn wait(&self, patience: Duration) {
        let begun = Instant::now();
        while self.group.ended().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < patience {
            std::thread::sleep(BLINK);
        }
    }

    /// Ends it, and whatever it started.
    fn end(&mut self) {
        if self.group.ended().is_ok_and(|ended| ended.is_none()) {
            self.group.signal(Signal::SIGTERM);
            self.wait(PATIENCE);
        }
        let _ = self.group.end();
        end(&self.mark);
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a program prints, as it comes.
#[derive(Debug)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
}

impl Output {
    fn read(mut stream: impl Read + Send + 'static) -> Output {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let into = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Output { bytes, reader }
    }

    /// All of it, unless somebody whom nobody found keeps it open.
    fn so_far(self) -> String {
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < PATIENCE {
            std::thread::sleep(BLINK);
        }
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Ends what runs that were killed left running; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    let mut said = Vec::new();
    for stale in settings::stale(KIND)? {
        if end(stale.value()) > 0 {
            let name = stale.value().split('.').next().unwrap_or_default().to_owned();
            said.push(format!("ended {name}, which a killed run had started"));
        }
        stale.strike_out()?;
    }
    Ok(said)
}

/// Ends every process that has a mark; how many.
fn end(mark: &str) -> usize {
    marked(mark).filter(|pid| kill(Pid::from_raw(*pid as i32), Signal::SIGKILL).is_ok()).count()
}

/// The processes that have a mark.
fn marked(mark: &str) -> impl Iterator<Item = u32> {
    let marked = format!("{MARK}={mark}\0");
    let has = move |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(marked.len()).any(|bytes| bytes == marked.as_bytes())
    };
    numbers("/proc").into_iter().filter(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether what a companion of ours started runs.
    fn runs(mark: &str) -> bool {
        marked(mark).next().is_some()
    }

    #[test]
    fn it_ends_with_what_holds_it_and_so_does_what_it_started_but_no_other() {
        let sleeps = ["-c", "sleep 600 & sleep 600 & wait"];
        let mut one = Companion::start(None, "sh", &sleeps).unwrap();
        let other = Companion::start(None, "sh", &sleeps).unwrap();
        assert!(one.ended().is_none());
        let (mark, others) = (one.mark.clone(), other.mark.clone());
        while !runs(&mark) || !runs(&others) {
            std::thread::yield_now();
        }
        drop(one);
        let begun = Instant::now();
        while runs(&mark) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still there");
            std::thread::yield_now();
        }
        assert!(runs(&others));
    }

    #[test]
    fn what_it_printed_is_handed_out() {
        let much = Companion::start(None, "sh", &["-c", "yes 1234567 | head -n 100000; echo end"]).unwrap();
        let (printed, complaint) = much.output(Instant::now() + Duration::from_secs(60));
        assert!(printed.len() == 800_004 && printed.ends_with("end\n"), "{}", printed.len());
        assert_eq!(complaint, None);
        let endless = Companion::start(None, "sh", &["-c", "echo begun; echo no >&2; sleep 600"]).unwrap();
        // It is ended when its time is over; long enough for a shell to begin.
        let (printed, complaint) = endless.output(Instant::now() + Duration::from_secs(3));
        assert_eq!((printed.as_str(), complaint.as_deref()), ("begun\n", Some("no")));
    }

    #[test]
    fn what_is_not_installed_is_told_by_its_package() {
        let said = Companion::start(None, "no-such-program", &[]).unwrap_err().to_string();
        assert!(said.contains("apt install no-such-program"), "{said}");
    }
}
