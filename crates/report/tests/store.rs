//! Runs on disk.
#![allow(missing_docs)]

mod common;

use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use usect_core::gathered::Gathered;
use usect_core::monitor::Entry;
use usect_core::run::Run;
use usect_core::trial::TrialResult;
use usect_report::StoredRun;
use usect_report::monitor::log::Log;
use usect_report::store::{self, RunFolder, StoreError};

fn saved(root: &Path) -> (PathBuf, usect_report::StoredRun) {
    let folder = store::create(root, "forwarder").unwrap();
    let stored = save(&folder, &common::small_results()).unwrap();
    (folder.path().to_owned(), stored)
}

/// Keeps each trial, then saves the run.
fn save(folder: &RunFolder, results: &[TrialResult]) -> Result<StoredRun, StoreError> {
    results.iter().try_for_each(|result| folder.keep(result))?;
    folder.save(common::header(), &Gathered::of(results))
}

#[test]
fn an_interrupted_run_is_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let folder = store::create(root.path(), "suite").unwrap();
    let mut results = common::small_results();
    results[3].partial = Some("interrupted".to_owned());
    save(&folder, &results[..4]).unwrap();
    let (again, header, mut gathered) = store::resume(folder.path()).unwrap();
    assert_eq!(again.id(), folder.id());
    assert_eq!(gathered.trials().len(), 3, "a trial that was cut short is done again");
    results[3].partial = None;
    results[3..].iter().for_each(|result| {
        again.keep(result).unwrap();
        gathered.add(result);
    });
    let stored = again.save(header, &gathered).unwrap();
    let at_once = save(&store::create(root.path(), "at once").unwrap(), &results).unwrap();
    assert_eq!(stored.histograms, at_once.histograms);
    assert_eq!(stored.run.clients, at_once.run.clients);
}

#[test]
fn a_run_is_read_as_it_was_written() {
    let root = tempfile::tempdir().unwrap();
    let folder = store::create(root.path(), "forwarder").unwrap();
    let results = common::results();
    let first = save(&folder, &results[..4]).unwrap();
    assert_eq!(first.run.trials.len(), 4);
    let stored = save(&folder, &results).unwrap();
    assert_eq!(store::open(folder.path()).unwrap(), stored);
    assert_eq!(store::open(&folder.path().join("run.json")).unwrap(), stored);
    assert_eq!(store::read_run(folder.path()).unwrap(), stored.run);
    assert_eq!(stored.run.header.id, folder.id());
    let samples = stored.histograms.get("kernel").unwrap().latency.samples();
    assert_eq!(samples, 3 * common::SHAPES[3].samples);
}

#[test]
fn two_runs_within_a_second_have_two_folders_and_an_unused_one_goes() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (store::create(root.path(), "a b").unwrap(), store::create(root.path(), "a b").unwrap());
    assert_ne!(one.path(), two.path());
    assert!(one.id().contains("-a-b"));
    let path = two.path().to_owned();
    drop(two);
    assert!(!path.exists() && one.path().exists());
}

#[test]
fn a_root_that_is_no_folder_is_refused_in_one_sentence() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = store::create(file.path(), "x").unwrap_err().to_string();
    assert!(error.starts_with("can't make a folder for the run in ") && !error.contains('\n'), "{error}");
}

fn refused(path: &Path) -> String {
    let error = store::open(path).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.len() < 600, "{error}");
    error
}

#[test]
fn damage_is_told_in_one_sentence() {
    let root = tempfile::tempdir().unwrap();
    let (folder, _) = saved(root.path());
    let json = folder.join("run.json");
    let good = fs::read_to_string(&json).unwrap();
    for (bad, part) in [
        (good[..good.len() / 2].to_owned(), "it is not JSON"),
        (good.replace("usect.run/1", "usect.run/9"), "has schema `usect.run/9`"),
        (good.replace("\"clients\"", "\"client_s\""), "missing field `clients`"),
        ("{}".to_owned(), "does not say its schema"),
        ("\u{0}".to_owned(), "it is not JSON"),
        (good.replace("\"name\": \"xdp\"", "\"name\": \"../../etc/xdp\""), "can't name a client"),
    ] {
        fs::write(&json, bad).unwrap();
        let error = refused(&folder);
        assert!(error.contains(part), "{error}");
    }
    fs::write(&json, [0xFF, 0xFE]).unwrap();
    assert!(refused(&folder).contains("not UTF-8"));
    fs::write(&json, &good).unwrap();
    let log = folder.join("histograms/xdp.1.hlog");
    fs::write(&log, "Tag=latency,0.000,1.000,0.1,AAAA\n").unwrap();
    assert!(refused(&folder).contains("xdp.1.hlog is damaged"));
    fs::remove_file(&log).unwrap();
    assert!(refused(&folder).contains("can't read"));
    assert!(refused(&root.path().join("nothing")).contains("can't read"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_run_with_any_byte_changed_is_refused_or_read(at in any::<prop::sample::Index>(), with: u8) {
        use std::sync::OnceLock;
        static GOOD: OnceLock<(tempfile::TempDir, PathBuf, Vec<u8>)> = OnceLock::new();
        let (_, folder, good) = GOOD.get_or_init(|| {
            let root = tempfile::tempdir().unwrap();
            let folder = saved(root.path()).0;
            let bytes = fs::read(folder.join("run.json")).unwrap();
            (root, folder, bytes)
        });
        let mut bytes = good.clone();
        bytes[at.index(good.len())] = with;
        fs::write(folder.join("run.json"), bytes).unwrap();
        let _ = store::open(folder).map(|stored| (usect_report::table(&stored.run, true), usect_report::html(&[stored])));
    }
}

/// A file system of a few hundred KiB, unmounted when dropped.
struct Tiny(tempfile::TempDir);

impl Tiny {
    fn mount(kib: u32) -> Result<Tiny, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let size = format!("size={kib}k");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        match done {
            Ok(out) if out.status.success() => Ok(Tiny(folder)),
            Ok(out) => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn a_full_disk_leaves_no_half_written_file() {
    for (kib, run_fits) in [(40, false), (700, true)] {
        let disk = match Tiny::mount(kib) {
            Ok(disk) => disk,
            Err(why) => return usect_testing::skip(&format!("no small file system could be mounted ({why})")),
        };
        let folder = store::create(disk.0.path(), "full").unwrap();
        let path = folder.path().to_owned();
        let error = save(&folder, &common::small_results()).unwrap_err().to_string();
        assert!(error.starts_with("can't write ") && error.contains("No space left"), "{error}");
        let left = files(&path);
        assert!(left.iter().all(|name| !name.contains("unfinished") && name != "report.html"), "{left:?}");
        drop(folder);
        assert_eq!(path.exists(), run_fits, "{left:?}");
        if run_fits {
            assert_eq!(store::open(&path).unwrap().run.clients.len(), 4, "the run is kept, only its page is lacking");
        }
    }
}

/// Where `as_sudo` stores.
const FOLDER: &str = "USECT_REPORT_TEST_FOLDER";

/// Not a test: what another one has a process do that thinks that sudo started it.
#[test]
fn as_sudo() {
    let Some(root) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    saved(&root.join("new").join("newer"));
    store::write_page(&root.join("page.html"), "page").unwrap();
    store::add_calibrations(&root.join("calibration.json"), Vec::new()).unwrap();
    let (mut log, _) = Log::open(&root.join("log")).unwrap();
    log.write(&Entry::Failure { at: "2026-11-21T00:00:00Z".parse().unwrap(), why: "a test".into() }).unwrap();
}

/// Owners of what is in a folder.
fn owners(folder: &Path) -> Vec<(PathBuf, u32)> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let with_inside = |path: PathBuf| {
        let own = (path.clone(), path.symlink_metadata().unwrap().uid());
        let inside = if path.is_dir() { owners(&path) } else { Vec::new() };
        [vec![own], inside].concat()
    };
    paths.flat_map(with_inside).collect()
}

#[test]
fn what_sudo_stored_belongs_to_its_caller_where_the_folder_does() {
    const CALLER: &str = "12345";
    if !usect_testing::root() {
        return;
    }
    for (owner, expected) in [(12_345, 12_345), (54_321, 0)] {
        let root = tempfile::tempdir().unwrap();
        chown(root.path(), Some(owner), Some(owner)).unwrap();
        let mut sudo = Command::new(std::env::current_exe().unwrap());
        sudo.args(["as_sudo", "--exact"]).env(FOLDER, root.path()).env("SUDO_UID", CALLER).env("SUDO_GID", CALLER);
        assert!(sudo.output().unwrap().status.success());
        let owners = owners(root.path());
        // Folders, the run, its page and distributions, another page, calibrations, a day of a log.
        assert!(owners.len() > 12 && owners.iter().all(|(_, user)| *user == expected), "{owners:?}");
    }
}

#[test]
fn every_field_is_documented() {
    fn keys<'a>(json: &'a serde_json::Value, found: &mut Vec<&'a str>) {
        match json {
            serde_json::Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                found.push(key);
                if key != "environment" {
                    keys(value, found);
                }
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run-json.md")).unwrap();
    let json = serde_json::to_value(Run::of(common::header(), &Gathered::of(&common::small_results()))).unwrap();
    let mut found = Vec::new();
    keys(&json, &mut found);
    assert!(found.len() > 100);
    for key in found {
        assert!(docs.contains(&format!("`{key}`")), "docs/run-json.md doesn't mention `{key}`");
    }
    for word in ["usect.run/1", "latency", "touched", "scheduled", "lateness", "truth", "truth-touched"] {
        assert!(docs.contains(&format!("`{word}`")), "docs/run-json.md doesn't mention `{word}`");
    }
}
