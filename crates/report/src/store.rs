//! Runs on disk: a folder per run with `run.json`, `histograms/*.hlog` and `report.html`. The format
//! is documented in `docs/run-json.md`.

use crate::hlog::{self, Log};
use crate::page::{self, PageError};
use crate::sudo;
use crate::suite::csv;
use crate::{ClientHistograms, Histograms};
use jiff::{Timestamp, Zoned};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use usect_core::calibration::{self, Calibration, Calibrations};
use usect_core::gathered::Gathered;
use usect_core::measurement::Measurement;
use usect_core::run::{Header, Record, Run, SCHEMA, TrialRecord};
use usect_core::stored;
use usect_core::trial::{INTERRUPTED, Trial, TrialResult};

const RUN_JSON: &str = "run.json";
const HISTOGRAMS: &str = "histograms";
const REPORT: &str = "report.html";
const SUITE_CSV: &str = "rfc2544.csv";

/// A run read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// The run as `run.json` has it.
    pub run: Run,
    /// Its distributions, pooled per client.
    pub histograms: Histograms,
}

/// Why a run can't be stored or read, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No folder could be made.
    #[error("can't make a folder for the run in {}: {reason}", .path.display())]
    Create {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file could not be written; nothing of it is left.
    #[error("can't write {}: {reason}", .path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file could not be read.
    #[error("can't read {}: {reason}", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The run was stored by another version.
    #[error("{} has schema `{found}`, and this version reads `{SCHEMA}`", .path.display())]
    Schema {
        /// Which file.
        path: PathBuf,
        /// What it says it is.
        found: String,
    },
    /// A file is not what it should be.
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The page could not be made.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// A run's folder, while the run is written. Dropped before anything was saved, it removes itself.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    id: String,
    saved: AtomicBool,
}

/// Makes `runs/<id>` under `root`, which is made too where it lacks. The id is the local time and
/// `slug` (`20261121-023212-forwarder`), with a number behind it where that is taken.
pub fn create(root: &Path, slug: &str) -> Result<RunFolder, StoreError> {
    let runs = root.join("runs");
    sudo::create_dir_all(&runs).map_err(|reason| StoreError::Create { path: runs.clone(), reason })?;
    let stem = format!("{}-{}", Zoned::now().strftime("%Y%m%d-%H%M%S"), plain(slug));
    let mut id = stem.clone();
    for number in 2.. {
        let path = runs.join(&id);
        match sudo::create_dir(&path) {
            Ok(()) => return Ok(RunFolder { path, id, saved: AtomicBool::new(false) }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => id = format!("{stem}-{number}"),
            Err(reason) => return Err(StoreError::Create { path: runs, reason }),
        }
    }
    unreachable!("numbers don't end")
}

/// Letters, digits and single hyphens; `run` where nothing is left.
fn plain(slug: &str) -> String {
    let spaced: String =
        slug.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).take(60).collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if words.is_empty() { "run".to_owned() } else { words.join("-") }
}

impl RunFolder {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, which is the run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Writes the distributions of a trial, which is to be done before a run that has it is saved.
    pub fn keep(&self, result: &TrialResult) -> Result<(), StoreError> {
        write(&self.path.join(HISTOGRAMS), &hlog_name(&result.trial), log(result).write().as_bytes())
    }

    /// Writes the run: `run.json`, then the page. Each file is complete
    /// or not there at all. Called again as the run goes on, it replaces what was there. The header's
    /// id is set to the folder's. When it fails before `run.json` was ever written, the folder goes
    /// on drop; when only the page fails, the run is kept.
    pub fn save(&self, header: Header, gathered: &Gathered) -> Result<StoredRun, StoreError> {
        let header = Header { id: self.id.clone(), ..header };
        let stored = StoredRun { histograms: Histograms::of(gathered.pooled()), run: Run::of(header, gathered) };
        let json = serde_json::to_string_pretty(&stored.run).map_err(io::Error::from);
        let json = json.map_err(|reason| StoreError::Write { path: self.path.join(RUN_JSON), reason })?;
        write(&self.path, RUN_JSON, json.as_bytes())?;
        self.saved.store(true, Ordering::Relaxed);
        if let Some(record) = &stored.run.header.rfc2544 {
            write(&self.path, SUITE_CSV, csv::of(&record.findings).as_bytes())?;
        }
        write(&self.path, REPORT, page::html(std::slice::from_ref(&stored))?.as_bytes())?;
        Ok(stored)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !*self.saved.get_mut() {
            // Nothing more can be done about a folder that can't be removed.
            let _ = fs::remove_dir_all(&self.path);
            // That of all runs goes, too, where this would have been its first.
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}

fn hlog_name(trial: &Trial) -> String {
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { Some(c) } else { (c == ' ').then_some('-') };
    format!("{}.{}.hlog", trial.label().chars().filter_map(plain).collect::<String>(), trial.run)
}

fn log(result: &TrialResult) -> Log<'_> {
    let traffic = &result.trial.traffic;
    Log {
        began_s: result.started.parse::<Timestamp>().ok().map(|t| t.as_millisecond() as f64 / 1e3),
        seconds: traffic.frames as f64 / traffic.rate.frames_per_second(),
        client: &result.client,
        truth: result.truth.as_ref(),
    }
}

/// Writes a page of its own: whole, or not at all.
pub fn write_page(path: &Path, page: &str) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(StoreError::Write { path: path.to_owned(), reason: io::ErrorKind::NotFound.into() });
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(REPORT);
    write(folder, name, page.as_bytes())
}

/// Writes beside the target and renames, so that the target is never half-written.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let path = folder.join(name);
    let attempt = || {
        sudo::create_dir_all(folder)?;
        let mut file = tempfile::Builder::new().prefix(".unfinished-").permissions(readable()).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        sudo::hand_over(file.as_file(), file.path());
        file.persist(&path)?;
        Ok(())
    };
    attempt().map_err(|reason| StoreError::Write { path: path.clone(), reason })
}

/// As any other file, less the umask; temporary files are private otherwise.
fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}

/// Reads a file of calibrations.
pub fn read_calibrations(path: &Path) -> Result<Calibrations, StoreError> {
    let damaged = |reason: String| StoreError::Damaged {
        path: path.to_owned(),
        reason: format!("{reason}; without the file nothing is calibrated, and `usect calibrate` makes it anew"),
    };
    let json = read_json(path)?;
    match json.get("schema").and_then(Value::as_str) {
        Some(calibration::SCHEMA) => {}
        found => {
            return Err(damaged(format!(
                "its schema is `{}`, and this version reads `{}`",
                one_line(found.unwrap_or("none")),
                calibration::SCHEMA
            )));
        }
    }
    stored::read(json).map_err(|why| damaged(one_line(&why)))
}

/// Adds calibrations to a file, which is made if it lacks, and returns all that it has then.
pub fn add_calibrations(path: &Path, new: Vec<Calibration>) -> Result<Calibrations, StoreError> {
    let mut all = if path.exists() { read_calibrations(path)? } else { Calibrations::default() };
    all.add(new);
    let failed = |reason| StoreError::Write { path: path.to_owned(), reason };
    let json = serde_json::to_string_pretty(&all).map_err(io::Error::from).map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| failed(io::Error::other("that is no file's name")))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write(folder, name, json.as_bytes())?;
    Ok(all)
}

/// Reads a run from its folder or its `run.json`, distributions included.
pub fn open(path: &Path) -> Result<StoredRun, StoreError> {
    let run = read_run(path)?;
    let gathered = gather(path, &run, |_| true)?;
    Ok(StoredRun { histograms: Histograms::of(gathered.pooled()), run })
}

/// Reads the distributions of some trials of a run.
fn gather(path: &Path, run: &Run, these: impl Fn(&TrialRecord) -> bool) -> Result<Gathered, StoreError> {
    let folder = run_json(path).with_file_name(HISTOGRAMS);
    let (mut gathered, mut samples) = (Gathered::default(), 0);
    for record in run.trials.iter().filter(|record| these(record)) {
        let label = record.trial.label();
        let client = run.clients.iter().find(|client| client.client == label);
        let known_delay_ns = client.and_then(|client| client.known_delay_ns);
        gathered.restore(record.clone(), &TrialResult { known_delay_ns, ..restored(record, &folder, &mut samples)? });
    }
    Ok(gathered)
}

/// Opens the folder of a run that was interrupted, to go on with it: what was measured whole is there again.
pub fn resume(path: &Path) -> Result<(RunFolder, Header, Gathered), StoreError> {
    let run = read_run(path)?;
    let folder = run_json(path).parent().unwrap_or(Path::new("")).to_owned();
    let gathered = gather(path, &run, |trial| trial.partial.as_deref() != Some(INTERRUPTED))?;
    Ok((RunFolder { path: folder, id: run.header.id.clone(), saved: AtomicBool::new(true) }, run.header, gathered))
}

/// Reads a run without its distributions, which the table doesn't need.
pub fn read_run(path: &Path) -> Result<Run, StoreError> {
    let path = run_json(path);
    let damaged = |reason: String| StoreError::Damaged { path: path.clone(), reason };
    let json = read_json(&path)?;
    match json.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => return Err(StoreError::Schema { path, found: one_line(other) }),
        None => return Err(damaged("it does not say its schema".to_owned())),
    }
    stored::read(json).map_err(|why| damaged(one_line(&why)))
}

fn run_json(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RUN_JSON) } else { path.to_owned() }
}

fn read_json(path: &Path) -> Result<Value, StoreError> {
    let damaged = |e| StoreError::Damaged { path: path.to_owned(), reason: format!("it is not JSON ({e})") };
    serde_json::from_str(&read_text(path)?).map_err(damaged)
}

fn read_text(path: &Path) -> Result<String, StoreError> {
    let bytes = fs::read(path).map_err(|reason| StoreError::Read { path: path.to_owned(), reason })?;
    String::from_utf8(bytes)
        .map_err(|_| StoreError::Damaged { path: path.to_owned(), reason: "it is not UTF-8 text".to_owned() })
}

/// Foreign text in our sentence: on one line, and short.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// What is left of a trial that was stored: its counts and distributions. Those of flows, pairs and stages are in its
/// record alone.
fn restored(record: &TrialRecord, folder: &Path, samples: &mut u64) -> Result<TrialResult, StoreError> {
    let path = folder.join(hlog_name(&record.trial));
    let read = hlog::read(&read_text(&path)?, samples).map_err(|reason| StoreError::Damaged { path, reason });
    let (client, truth) = read?;
    let with = |measured: Measurement, seen: &Record| Measurement {
        counts: seen.counts,
        last_lost: seen.last_lost,
        silence_ns: seen.silence_ns,
        pace: seen.pace,
        stalls: seen.stalls.clone(),
        unattributed: seen.unattributed,
        overwritten: seen.overwritten,
        ambiguous: seen.ambiguous,
        overruns: seen.overruns,
        series: seen.series.clone(),
        notes: seen.notes.clone(),
        ..measured
    };
    Ok(TrialResult {
        trial: record.trial.clone(),
        started: record.started.clone(),
        client: with(client, &record.measured),
        truth: truth.zip(record.truth.as_ref()).map(|(truth, seen)| with(truth, seen)),
        known_delay_ns: None,
        dut: record.dut.clone(),
        partial: record.partial.clone(),
    })
}

impl StoredRun {
    /// A client's distributions; empty ones where the run has none of that name.
    pub(crate) fn of_client(&self, client: &str) -> ClientHistograms {
        self.histograms.get(client).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_names_a_folder_whatever_it_was() {
        assert_eq!(plain("Forwarder, in user space"), "forwarder-in-user-space");
        assert_eq!((plain("../.."), plain("µ")), ("run".into(), "run".into()));
    }
}
