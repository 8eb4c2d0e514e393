//! The scripts of `hw/` run nothing that somebody else may have put where they look for it.
#![allow(missing_docs)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// Each as it is called; `DIR` is the folder that it runs things from.
const SCRIPTS: &[&[&str]] =
    &[&["run", "-L", "DIR", "true"], &["prepare", "DIR"], &["cold", "/none"], &["module", "/none"], &["pmd", "/none"]];

fn call(script: &[&str], folder: &Path) -> Output {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hw");
    let folder = folder.to_str().unwrap();
    let args = script[1..].iter().map(|arg| if *arg == "DIR" { folder } else { arg });
    Command::new(scripts.join(script[0])).args(args).env("USECT_HW", folder).output().unwrap()
}

fn refused(folder: &Path, said: &Path) {
    for script in SCRIPTS {
        let Output { status, stderr, .. } = call(script, folder);
        let stderr = String::from_utf8(stderr).unwrap();
        let sentence = stderr.lines().next().unwrap_or_default();
        let named = [script[0], said.to_str().unwrap(), "USECT_HW"].iter().all(|word| sentence.contains(word));
        assert!(!status.success() && named, "{script:?}: {stderr}");
    }
}

#[test]
fn what_others_can_have_put_there_is_not_run() {
    if !usect_testing::root() {
        return;
    }
    let above = tempfile::tempdir().unwrap();
    let (folder, link, marked) = (above.path().join("lab"), above.path().join("link"), above.path().join("marked"));
    let bin = folder.join("qemu/usr/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(folder.join("ready"), "").unwrap();
    let qemu = bin.join("qemu-system-x86_64");
    fs::write(&qemu, format!("#!/bin/sh\necho > {}\n", marked.display())).unwrap();
    fs::set_permissions(&qemu, Permissions::from_mode(0o755)).unwrap();
    for path in [&folder, &qemu] {
        chown(path, Some(65534), Some(65534)).unwrap();
        refused(&folder, path);
        chown(path, Some(0), Some(0)).unwrap();
    }
    fs::set_permissions(&bin, Permissions::from_mode(0o777)).unwrap();
    refused(&folder, &bin);
    fs::set_permissions(&bin, Permissions::from_mode(0o755)).unwrap();
    symlink(&folder, &link).unwrap();
    refused(&link, &link);
    assert!(!marked.exists());
    // Where it is nobody else's, it is run.
    call(&["run", "-L", "DIR", "true"], &folder);
    assert!(marked.exists());
}
