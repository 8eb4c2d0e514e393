//! What the tests of several crates share: saying that a test could not run, so that nobody takes it for
//! passed.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::fs::MetadataExt;

/// Names a file to which every test that could not run adds a line; `make test` prints it at the end.
const LIST: &str = "USECT_SKIPPED";
/// Set where every test must run, as in CI.
const FORBIDDEN: &str = "USECT_NO_SKIP";

/// Says that the running test, or a part of it, can't run here, and why.
///
/// # Panics
/// Where `USECT_NO_SKIP` is set.
pub fn skip(reason: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(std::env::var_os(FORBIDDEN).is_none(), "{name} could not run, and {FORBIDDEN} is set: {reason}");
    eprintln!("skipped: {reason}");
    let Some(list) = std::env::var_os(LIST) else { return };
    let list = std::fs::OpenOptions::new().create(true).append(true).open(list);
    list.and_then(|mut list| writeln!(list, "{name}: {reason}")).expect("the list of skipped tests can be written");
}

/// Whether this process is root; says `skipped` if not.
pub fn root() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !root {
        skip("it needs root");
    }
    root
}
