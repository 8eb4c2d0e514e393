//! The log of a monitor: a folder with a file per day (UTC), a line of JSON per entry, only ever appended to.
//!
//! A line is there whole or not at all: what a full disk or a killed process left of one is cut off again, and what could
//! not be written is kept and tried again with the next entry.

use crate::store::StoreError;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use usect_core::monitor::{Entry, SCHEMA};

/// How names of its files end.
const SUFFIX: &str = ".jsonl";
/// Entries that wait for room on the disk: a week of minutes.
const MOST_WAITING: usize = 10_000;
/// Days that are read to know what was usual before a restart.
const RECENT_DAYS: usize = 2;

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    waiting: VecDeque<(PathBuf, String)>,
    dropped: u64,
}

impl Log {
    /// Opens a log, or begins one. Returns what the last days' files hold, and says what was left of a line that was cut
    /// short.
    pub fn open(folder: &Path) -> Result<(Log, Vec<Entry>, Option<String>), StoreError> {
        fs::create_dir_all(folder).map_err(|reason| StoreError::Create { path: folder.to_owned(), reason })?;
        let files = files(folder)?;
        let mended = files.last().map(|last| mend(last)).transpose()?.flatten();
        let recent = &files[files.len().saturating_sub(RECENT_DAYS)..];
        let log = Log { folder: folder.to_owned(), waiting: VecDeque::new(), dropped: 0 };
        // Now, and not when the first minute is over, it is found out that nothing can be written.
        log.probe()?;
        Ok((log, read_files(recent)?, mended))
    }

    fn probe(&self) -> Result<(), StoreError> {
        let path = self.folder.join(format!("{}{SUFFIX}", day(Timestamp::now())));
        let is_new = !path.exists();
        let opened = append_to(&path);
        if is_new {
            let _ = fs::remove_file(&path);
        }
        opened.map(drop).map_err(|reason| StoreError::Write { path, reason })
    }

    /// Appends an entry, and before it those that wait. What can't be written waits.
    pub fn write(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let mut line = serde_json::to_string(entry).expect("entries have string keys and finite figures");
        line.push('\n');
        self.waiting.push_back((self.folder.join(format!("{}{SUFFIX}", day(Timestamp::now()))), line));
        if self.waiting.len() > MOST_WAITING {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        while let Some((path, line)) = self.waiting.front() {
            append(path, line)?;
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Entries that wait to be written.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Entries that waited for too long, and are lost.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Whether a folder holds a log.
pub fn is_log(folder: &Path) -> bool {
    files(folder).is_ok_and(|files| !files.is_empty())
}

/// Everything in a log, in the order in which it was written. A last line that is cut short, because it is being
/// written, is left out.
pub fn read(folder: &Path) -> Result<Vec<Entry>, StoreError> {
    read_files(&files(folder)?)
}

fn day(at: Timestamp) -> jiff::civil::Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// Its files, the oldest first.
fn files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let listed = listed.map_err(|reason| StoreError::Read { path: folder.to_owned(), reason })?;
    let is_day = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SUFFIX));
        name.is_some_and(|name| name.parse::<jiff::civil::Date>().is_ok())
    };
    let mut files: Vec<PathBuf> = listed.into_iter().map(|entry| entry.path()).filter(is_day).collect();
    files.sort_unstable();
    Ok(files)
}

fn read_files(files: &[PathBuf]) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).map_err(|reason| StoreError::Read { path: path.clone(), reason })?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (number, line) in (1..).zip(whole.lines()) {
            entries.push(entry(line).map_err(|reason| StoreError::Damaged {
                path: path.clone(),
                reason: format!("line {number}: {reason}"),
            })?);
        }
    }
    Ok(entries)
}

fn entry(line: &str) -> Result<Entry, String> {
    let entry: Entry = serde_json::from_str(line).map_err(|e| e.to_string())?;
    match &entry {
        Entry::Start(start) if start.schema != SCHEMA => {
            Err(format!("it has schema `{}`, and this version reads `{SCHEMA}`", start.schema))
        }
        _ => Ok(entry),
    }
}

/// Cuts off what is left of a last line that was not written whole, and says so.
fn mend(path: &Path) -> Result<Option<String>, StoreError> {
    let cut = || -> io::Result<u64> {
        let mut file = File::options().read(true).write(true).open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let whole = length_of_lines(&mut file, length)?;
        if whole < length {
            file.set_len(whole)?;
        }
        Ok(length - whole)
    };
    let bytes = cut().map_err(|reason| StoreError::Write { path: path.to_owned(), reason })?;
    Ok((bytes > 0)
        .then(|| format!("the last line of {} was cut short: its {bytes} bytes are left out", path.display())))
}

/// How far whole lines reach.
fn length_of_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut block = [0; 4096];
    while end > 0 {
        let size = end.min(block.len() as u64);
        file.seek(SeekFrom::Start(end - size))?;
        let block = &mut block[..size as usize];
        file.read_exact(block)?;
        if let Some(at) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(end - size + at as u64 + 1);
        }
        end -= size;
    }
    Ok(0)
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Appends a line so that it survives a loss of power, behind what is whole of those before.
fn append(path: &Path, line: &str) -> Result<(), StoreError> {
    let failed = |reason| StoreError::Write { path: path.to_owned(), reason };
    let mut file = append_to(path).map_err(failed)?;
    mend(path)?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(n: u32) -> Entry {
        Entry::Failure { at: Timestamp::from_second(1_800_000_000 + i64::from(n)).unwrap(), why: format!("number {n}") }
    }

    #[test]
    fn a_log_goes_on_after_a_restart_and_what_was_cut_short_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, before, mended) = Log::open(folder.path()).unwrap();
        assert!(before.is_empty() && mended.is_none() && !is_log(folder.path()));
        (0..3).for_each(|n| log.write(&failure(n)).unwrap());
        let file = files(folder.path()).unwrap().pop().unwrap();
        let whole = fs::read(&file).unwrap();
        // Killed at any byte of the third line.
        let third = whole[..whole.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
        for cut in third + 1..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            let (mut log, before, mended) = Log::open(folder.path()).unwrap();
            assert_eq!(before, [failure(0), failure(1)]);
            assert!(mended.unwrap().contains(&format!("its {} bytes", cut - third)));
            log.write(&failure(7)).unwrap();
            assert_eq!(read(folder.path()).unwrap(), [failure(0), failure(1), failure(7)]);
        }
    }

    #[test]
    fn what_can_not_be_written_waits_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, ..) = Log::open(folder.path()).unwrap();
        log.write(&failure(0)).unwrap();
        let file = files(folder.path()).unwrap().pop().unwrap();
        let (aside, full) = (folder.path().join("aside"), Path::new("/dev/full"));
        // A disk that is full: every write to it fails.
        fs::rename(&file, &aside).unwrap();
        std::os::unix::fs::symlink(full, &file).unwrap();
        for n in 1..4 {
            let why = log.write(&failure(n)).unwrap_err().to_string();
            assert!(why.contains("No space left"), "{why}");
        }
        assert_eq!(log.waiting(), 3);
        fs::remove_file(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        log.write(&failure(4)).unwrap();
        assert_eq!((log.waiting(), log.dropped()), (0, 0));
        assert_eq!(read(folder.path()).unwrap(), (0..5).map(failure).collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_line_is_named_and_a_foreign_schema_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("2026-11-21.jsonl"), "{\"kind\":\"stop\",\"at\":\"2026-11-21T00:00:00Z\"}\n{]\n")
            .unwrap();
        let why = read(folder.path()).unwrap_err().to_string();
        assert!(why.contains("2026-11-21.jsonl is damaged: line 2"), "{why}");
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("2026-11-21.jsonl"), &bytes).unwrap();
            let _ = Log::open(folder.path());
            let _ = read(folder.path());
        }
    }
}
