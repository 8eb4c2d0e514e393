//! Imports between the crates go only the way that ARCHITECTURE.md says, and the crates that can't do
//! I/O stay so.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Each crate of the workspace, and the crates of the workspace that it may use directly.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("clock", &["core"]),
    ("port", &["clock", "core"]),
    ("parts", &["xdp", "port", "clock", "core"]),
    ("xdp", &["port", "clock", "core"]),
    ("dpdk", &["port", "clock", "core"]),
    ("lab", &["core"]),
    ("load", &["lab", "core"]),
    ("dut", &["port", "clock", "lab", "core"]),
    ("rig", &["lab", "load", "dut", "xdp", "dpdk", "port", "clock", "core"]),
    ("procedure", &["core"]),
    ("report", &["core"]),
    ("cli", &["rig", "parts", "procedure", "report", "lab", "core"]),
    ("bench", &["report", "core"]),
    ("testing", &[]),
];

/// Crates that decide, count or print, and must not reach the system below the standard library.
const PURE: &[&str] = &["core", "procedure", "report"];

/// Ways to the system, to sockets and to other threads' executors.
const SYSTEM: &[&str] = &[
    "async-std",
    "libbpf-cargo",
    "libbpf-rs",
    "libbpf-sys",
    "libc",
    "mio",
    "nix",
    "pcap",
    "pnet",
    "rtnetlink",
    "rustix",
    "signal-hook",
    "smol",
    "socket2",
    "tokio",
    "xsk-rs",
];

/// The packages of the workspace, as `cargo metadata` has them.
fn packages() -> Vec<Value> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// A crate's name within the house: without the prefix that all of them share.
fn short(package: &str) -> Option<&str> {
    package.strip_prefix("usect-")
}

/// Direct dependencies, those of the build script included and those of the tests not.
fn dependencies(package: &Value) -> BTreeSet<&str> {
    let listed = package["dependencies"].as_array().unwrap().iter();
    listed.filter(|d| d["kind"] != "dev").map(|d| d["name"].as_str().unwrap()).collect()
}

#[test]
fn imports_go_only_downwards() {
    let packages = packages();
    let (mut arrows, mut wrong) = (0, Vec::new());
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let row = ALLOWED.iter().find(|(known, _)| Some(*known) == short(name));
        let Some((_, allowed)) = row else {
            wrong.push(format!("{name} is in no row of the table"));
            continue;
        };
        for used in dependencies(package).into_iter().filter_map(short) {
            arrows += 1;
            if !allowed.contains(&used) {
                wrong.push(format!("{name} may not use usect-{used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
    assert!(arrows > 10, "only {arrows} arrows were found: is the metadata still what it was?");
}

#[test]
fn what_decides_can_not_reach_the_system() {
    let packages = packages();
    for name in PURE {
        let package = packages.iter().find(|p| p["name"].as_str().and_then(short) == Some(name)).unwrap();
        let forbidden: Vec<&str> = dependencies(package).into_iter().filter(|d| SYSTEM.contains(d)).collect();
        assert!(forbidden.is_empty(), "{name} depends on {forbidden:?}");
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let library = std::fs::read_to_string(manifest.with_file_name("src").join("lib.rs")).unwrap();
        assert!(library.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]"), "{name} allows unsafe code");
    }
}
