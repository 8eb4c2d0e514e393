//! What the tests of several crates share: saying that a test could not run, so that nobody takes it for
//! passed; and which of many like cases a test tries.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Names a file to which every test that could not run adds a line; `make test` prints it at the end.
const LIST: &str = "USECT_SKIPPED";
/// Set where every test must run, as in CI.
const FORBIDDEN: &str = "USECT_NO_SKIP";
/// Names a file to which tests add how long they took.
const TIMES: &str = "USECT_TIMES";
/// Set where tests try every case, as `make test-all` does.
const THOROUGH: &str = "USECT_THOROUGH";

/// Says that the running test, or a part of it, can't run here, and why.
///
/// # Panics
/// Where `USECT_NO_SKIP` is set.
pub fn skip(reason: &str) {
    let name = name();
    assert!(std::env::var_os(FORBIDDEN).is_none(), "{name} could not run, and {FORBIDDEN} is set: {reason}");
    eprintln!("skipped: {reason}");
    note(LIST, &format!("{name}: {reason}"));
}

/// Notes how long the running test took, without what it waited for others.
pub fn took(time: Duration) {
    note(TIMES, &format!("{:7.1} {}", time.as_secs_f64(), name()));
}

fn name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// Adds a line to the file that a variable names, where it does.
fn note(variable: &str, line: &str) {
    let Some(list) = std::env::var_os(variable) else { return };
    let list = std::fs::OpenOptions::new().create(true).append(true).open(list);
    list.and_then(|mut list| writeln!(list, "{line}")).expect("a list of tests can be written");
}

/// Of cases that protect the same thing, those that are tried: all of them in `make test-all`, elsewhere the first.
pub fn cases<T>(all: &[T]) -> &[T] {
    if std::env::var_os(THOROUGH).is_some() { all } else { &all[..1] }
}

/// Whether this process is root; says `skipped` if not.
pub fn root() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !root {
        skip("it needs root");
    }
    root
}
