//! What the host is and how it is tuned, as flat facts: enough to tell from two files alone why two
//! runs differ. Nothing is changed here.
//!
//! A fact that doesn't apply is left out; one whose absence says something is `n/a: ` and the reason.

mod cores;
mod cpu;
mod devices;
mod interface;
mod kernel;
mod memory;
mod process;
mod text;
mod times;
mod waited;

pub use cores::online_cores;
pub use devices::management_interrupts;
pub use interface::interface;
pub use memory::available_bytes;
pub(crate) use text::{chosen, coalescing};
pub use times::CpuTimes;
pub(crate) use times::TICKS;
pub use waited::Waited;

use std::fs;
use std::path::Path;
use usect_core::environment::Environment;

/// Kernel, cores, clocks, memory, settings and load of this host. Takes some milliseconds.
pub fn host() -> Environment {
    let mut facts = Environment::default();
    kernel::audit(&mut facts);
    cpu::audit(&mut facts);
    memory::audit(&mut facts);
    process::audit(&mut facts);
    devices::audit(&mut facts);
    facts
}

/// A file's text without surrounding space; `None` if it can't be read or is empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether a file or directory is there.
fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// Sets each fact whose file can be read.
fn set_from_files(facts: &mut Environment, files: &[(&str, &str)]) {
    for (key, path) in files {
        if let Some(text) = read(path) {
            facts.set(*key, squeezed(&text));
        }
    }
}

/// Sets a fact to what was found, or to the reason why there is nothing.
fn set_or(facts: &mut Environment, key: &str, found: Option<impl ToString>, reason: &str) {
    match found {
        Some(value) => facts.set(key, value.to_string()),
        None => facts.set(key, format!("n/a: {reason}")),
    }
}

/// On one line, with single spaces.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names of a directory's entries, sorted; empty if it can't be read.
fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}
