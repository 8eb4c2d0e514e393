//! The log of a monitor: a folder with a file per day (UTC), a line of JSON per entry, only ever appended to.
//!
//! A line is there whole or not at all: what a full disk or a killed process left of one is cut off again, and what could
//! not be written is kept and tried again with the next entry.

use crate::store::{StoreError, one_line};
use crate::sudo;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use usect_core::monitor::{Entry, SCHEMA};
use usect_core::stored;

/// How names of its files end.
const SUFFIX: &str = ".jsonl";
/// Entries that wait for room on the disk: a week of minutes.
const MOST_WAITING: usize = 10_000;
/// Entries that are written at once: each is synced to the disk, while nothing else is looked at.
const AT_ONCE: usize = 50;
/// Entries that are read to know what was usual before a restart, besides every start.
const LATEST: usize = 400;
/// How lines of starts begin.
const START: &[u8] = b"{\"kind\":\"start\"";
/// Days that are read to know what was usual before a restart.
const RECENT_DAYS: usize = 2;

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    waiting: VecDeque<(PathBuf, String)>,
    dropped: u64,
    /// The line of the last start, which every file begins with.
    start: Option<String>,
}

/// What a log holds already.
#[derive(Debug)]
pub struct Before {
    /// Its latest entries, and every start of the last days.
    pub entries: Vec<Entry>,
    /// What is wrong with it, in one sentence: a line that was cut short, or one that can't be read, so that nothing is
    /// known of what was before.
    pub trouble: Option<String>,
}

impl Log {
    /// Opens a log, or begins one.
    pub fn open(folder: &Path) -> Result<(Log, Before), StoreError> {
        sudo::create_dir_all(folder).map_err(|reason| StoreError::Create { path: folder.to_owned(), reason })?;
        let files = files(folder)?;
        let torn = files.last().map(|last| mend(last)).transpose()?.flatten();
        let log = Log { folder: folder.to_owned(), waiting: VecDeque::new(), dropped: 0, start: None };
        // Now, and not when the first minute is over, it is found out that nothing can be written.
        log.probe()?;
        // What was before is a help, and no reason not to go on.
        let (entries, unread) = match latest(&files[files.len().saturating_sub(RECENT_DAYS)..]) {
            Ok(entries) => (entries, None),
            Err(error) => (Vec::new(), Some(format!("{error}; what was usual before is not known"))),
        };
        Ok((log, Before { entries, trouble: torn.or(unread) }))
    }

    fn probe(&self) -> Result<(), StoreError> {
        let path = self.today();
        let is_new = !path.exists();
        let opened = append_to(&path);
        if is_new {
            let _ = fs::remove_file(&path);
        }
        opened.map(drop).map_err(|reason| StoreError::Write { path, reason })
    }

    fn today(&self) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", day(Timestamp::now())))
    }

    /// Appends an entry, and before it those that wait. What can't be written waits.
    pub fn write(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let mut line = serde_json::to_string(entry).expect("entries have string keys and finite figures");
        line.push('\n');
        let path = self.today();
        match (entry, &self.start) {
            (Entry::Start(_), _) => self.start = Some(line.clone()),
            // A file says what it is of, also when those before it are gone.
            (_, Some(start)) if !path.exists() && self.waiting.is_empty() => {
                self.waiting.push_back((path.clone(), start.clone()));
            }
            _ => {}
        }
        self.waiting.push_back((path, line));
        if self.waiting.len() > MOST_WAITING {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        for _ in 0..AT_ONCE {
            let Some((path, line)) = self.waiting.front() else { break };
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

    /// Writes what waits, as far as there is room for it.
    pub fn flush(&mut self) {
        while let Some((path, line)) = self.waiting.front() {
            if append(path, line).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
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

/// How many days a log has, and in how many bytes.
///
/// Errors: the folder can't be read.
pub fn extent(folder: &Path) -> Result<(usize, u64), StoreError> {
    let files = files(folder)?;
    let bytes = files.iter().map(|path| {
        fs::metadata(path).map(|file| file.len()).map_err(|reason| StoreError::Read { path: path.clone(), reason })
    });
    Ok((files.len(), bytes.sum::<Result<u64, StoreError>>()?))
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
    let (mut entries, mut reader) = (Vec::new(), LogReader::default());
    for path in files {
        for (number, line) in (1..).zip(lines(&whole(path)?)) {
            entries.push(reader.entry(path, number, line)?);
        }
    }
    Ok(entries)
}

/// The latest entries of some files, and every start before them.
fn latest(files: &[PathBuf]) -> Result<Vec<Entry>, StoreError> {
    let texts = files.iter().map(|path| Ok((path, whole(path)?))).collect::<Result<Vec<_>, StoreError>>()?;
    let all: Vec<_> =
        texts.iter().flat_map(|(path, text)| (1..).zip(lines(text)).map(move |line| (path, line))).collect();
    let early = all.len().saturating_sub(LATEST);
    let wanted = all.iter().enumerate().filter(|(index, (_, (_, line)))| *index >= early || line.starts_with(START));
    let mut reader = LogReader::default();
    wanted.map(|(_, (path, (number, line)))| reader.entry(path, *number, line)).collect()
}

/// The whole lines of a file: the last one may be being written.
fn whole(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = fs::read(path).map_err(|reason| StoreError::Read { path: path.to_owned(), reason })?;
    bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
    Ok(bytes)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
}

/// Most samples of all intervals of a log: those of half a year at 1 Mpps.
const MOST_SAMPLES: u64 = 1 << 44;

/// Reads entry after entry of a log.
#[derive(Default)]
struct LogReader {
    stored: stored::Reader,
    samples: u64,
}

impl LogReader {
    fn entry(&mut self, path: &Path, number: usize, line: &[u8]) -> Result<Entry, StoreError> {
        let damaged =
            |reason: String| StoreError::Damaged { path: path.to_owned(), reason: format!("line {number}: {reason}") };
        let json = serde_json::from_slice(line).map_err(|e| damaged(e.to_string()))?;
        let entry: Entry = self.stored.read(json).map_err(|why| damaged(one_line(&why)))?;
        match &entry {
            Entry::Start(start) if start.schema != SCHEMA => {
                let schema = one_line(&start.schema);
                return Err(damaged(format!("it has schema `{schema}`, and this version reads `{SCHEMA}`")));
            }
            Entry::Interval(interval) => self.samples = self.samples.saturating_add(interval.latency.samples),
            _ => {}
        }
        if self.samples > MOST_SAMPLES {
            return Err(damaged(format!("with it the log has more samples than can be, over {MOST_SAMPLES}")));
        }
        Ok(entry)
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
    // What is there already isn't ours to hand over.
    match File::options().append(true).create_new(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => File::options().append(true).create(true).open(path),
        made => made.inspect(|made| sudo::hand_over(made, path)),
    }
}

/// Appends a line so that it survives a loss of power, behind what is whole of those before; or not at all.
fn append(path: &Path, line: &str) -> Result<(), StoreError> {
    let failed = |reason| StoreError::Write { path: path.to_owned(), reason };
    let is_new = !path.exists();
    let mut file = append_to(path).map_err(failed)?;
    mend(path)?;
    let length = file.metadata().map_err(failed)?.len();
    let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
    if written.is_err() {
        // It is tried again. What this can't take back is mended then, unless it is whole, and there twice.
        let _ = file.set_len(length);
    }
    written.map_err(failed)?;
    let folder = path.parent().filter(|_| is_new).map(File::open);
    folder.map_or(Ok(()), |folder| folder?.sync_all()).map_err(failed)
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
        let (mut log, before) = Log::open(folder.path()).unwrap();
        assert!(before.entries.is_empty() && before.trouble.is_none() && !is_log(folder.path()));
        (0..3).for_each(|n| log.write(&failure(n)).unwrap());
        let file = files(folder.path()).unwrap().pop().unwrap();
        let whole = fs::read(&file).unwrap();
        // Killed at any byte of the third line.
        let third = whole[..whole.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
        for cut in third + 1..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            let (mut log, before) = Log::open(folder.path()).unwrap();
            assert_eq!(before.entries, [failure(0), failure(1)]);
            assert!(before.trouble.unwrap().contains(&format!("its {} bytes", cut - third)));
            log.write(&failure(7)).unwrap();
            assert_eq!(read(folder.path()).unwrap(), [failure(0), failure(1), failure(7)]);
        }
    }

    #[test]
    fn what_can_not_be_written_waits_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(folder.path()).unwrap();
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

    #[test]
    fn a_damaged_past_is_no_reason_not_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("2026-11-21.jsonl"), "{]\n").unwrap();
        let (mut log, before) = Log::open(folder.path()).unwrap();
        assert!(before.entries.is_empty() && before.trouble.unwrap().contains("what was usual before is not known"));
        log.write(&failure(1)).unwrap();
    }

    #[test]
    fn only_the_latest_entries_are_recalled() {
        let folder = tempfile::tempdir().unwrap();
        let line = |n| serde_json::to_string(&failure(n)).unwrap() + "\n";
        let text: String = (0..1_000).map(line).collect();
        fs::write(folder.path().join("2026-11-21.jsonl"), text).unwrap();
        let (_, before) = Log::open(folder.path()).unwrap();
        assert_eq!((before.entries.len(), &before.entries[0]), (LATEST, &failure(600)));
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read_or_refused(
            at in 0_usize..300, byte: u8, cut in 0_usize..300, rubbish in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut bytes: Vec<u8> = (0..3).flat_map(|n| (serde_json::to_string(&failure(n)).unwrap() + "\n").into_bytes()).collect();
            let last = bytes.len() - 1;
            bytes[at.min(last)] = byte;
            bytes.truncate(bytes.len() - cut.min(last));
            bytes.extend(rubbish);
            fs::write(folder.path().join("2026-11-21.jsonl"), &bytes).unwrap();
            let (mut log, _) = Log::open(folder.path()).unwrap();
            log.write(&failure(9)).unwrap();
            let _ = read(folder.path());
        }
    }
}
