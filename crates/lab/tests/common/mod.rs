//! Labs of a test's own: names that no other test has, in a state directory of its own.
#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use usect_lab::State;
pub use usect_testing::root;

/// What a child of a test is to do; see `as_child` in the tests.
pub const CHILD: &str = "USECT_LAB_TEST_CHILD";

pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn state() -> (TempDir, State) {
    let directory = tempfile::tempdir().unwrap();
    let state = State::at(directory.path());
    (directory, state)
}

/// Files that `ip netns` has for a lab.
pub fn namespaces(lab: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&format!("{lab}-"))).collect();
    names.sort();
    names
}

/// Everything left in the journal's directory.
pub fn journal(state: &State) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(state.directory().join("usect-labs")) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// This test binary again, as a process that runs `as_child` only.
pub fn child_command(task: &str, state: &State, lab: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["as_child", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{task} {lab}")).env("USECT_STATE", state.directory()).stdout(Stdio::piped());
    command
}

/// Starts a child and waits until it says that it is ready. It dies with the returned guard.
pub fn child(task: &str, state: &State, lab: &str) -> Killed {
    let mut child = child_command(task, state, lab).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended: {line}");
    }
    Killed { child, _output: output }
}

/// A child that gets SIGKILL when dropped, and is not reaped before `reap`.
pub struct Killed {
    pub child: Child,
    _output: BufReader<ChildStdout>,
}

impl Killed {
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the process's main thread is a zombie: killed, but not reaped. Its other threads may have
/// their files open for a moment more.
pub fn wait_for_zombie(pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    while !std::fs::read_to_string(Path::new(&stat)).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
}
