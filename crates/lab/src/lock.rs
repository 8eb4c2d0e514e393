//! One measurement at a time, and who has a lock that can't be had.

use crate::error::LabError;
use crate::processes::{Process, numbers};
use crate::state::State;
use std::fs::{self, File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a lock is waited for that others hold for moments only: to make or remove a lab, to put settings back.
const PATIENCE: Duration = Duration::from_secs(30);
const BLINK: Duration = Duration::from_millis(5);

/// The right to measure on this host, or to put back what others left, until dropped. The kernel takes it back when the process ends,
/// however it ends.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file would not do: a child that another thread has forked and that has yet to exec holds a copy.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Takes the lock of the state directory that [`State::from_env`] names; see [`State::lock`].
pub fn lock() -> Result<Lock, LabError> {
    State::from_env().lock()
}

/// The right to put back what killed runs left, which one process has at a time and the others wait for; see [`State::recovering`].
pub fn recovering() -> Result<Option<Lock>, LabError> {
    State::from_env().recovering()
}

impl State {
    /// Waits until no other process puts anything back. `None` where nothing was ever written down.
    ///
    /// Errors: another process takes too long, which the error names; the directory can't be used, or isn't this user's alone.
    pub fn recovering(&self) -> Result<Option<Lock>, LabError> {
        if !self.is_there()? {
            return Ok(None);
        }
        let (path, file) = self.file("recovery.lock")?;
        wait_for(&file, &path, || false)?;
        Ok(Some(Lock { file }))
    }

    /// Takes the lock (flock(2) on the directory's file `lock`), without waiting.
    ///
    /// Errors: another process measures, which the error names; the directory can't be written, or isn't this user's alone.
    pub fn lock(&self) -> Result<Lock, LabError> {
        let (path, file) = self.file("lock")?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(LabError::Locked { holder: holder(&file) }),
            Err(TryLockError::Error(e)) => Err(LabError::file("lock", path, e)),
        }
    }
}

/// Waits for a lock that others hold for moments; whether it is had in the end, and not `given_up` before.
///
/// Errors: somebody holds it for longer, who is named.
pub(crate) fn wait_for(file: &File, path: &Path, given_up: impl Fn() -> bool) -> Result<bool, LabError> {
    try_for(PATIENCE, file, path, given_up)
}

fn try_for(patience: Duration, file: &File, path: &Path, given_up: impl Fn() -> bool) -> Result<bool, LabError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(e)) => return Err(LabError::file("lock", path, e)),
            Err(TryLockError::WouldBlock) if given_up() => return Ok(false),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(BLINK),
            Err(TryLockError::WouldBlock) => {
                let patience_s = patience.as_secs();
                return Err(LabError::Held { path: path.to_owned(), holder: holder(file), patience_s });
            }
        }
    }
}

/// Who has a lock on a file: `process 123 (name)`. Where whoever took it is gone, a child has it that it was handed to.
pub(crate) fn holder(file: &File) -> String {
    let Ok(file) = file.metadata() else { return "another process".to_owned() };
    let lockers = lockers(&fs::read_to_string("/proc/locks").unwrap_or_default(), file.ino());
    let other = |pid: &u32| *pid != std::process::id() && has_open(*pid, &file);
    let found = lockers.into_iter().find(|pid| has_open(*pid, &file));
    found.or_else(|| numbers("/proc").into_iter().find(other)).map_or("another process".to_owned(), |pid| {
        let name = Process::of(pid).map_or("?".to_owned(), |process| process.name);
        format!("process {pid} ({})", name.escape_debug())
    })
}

/// Who has locked a file of this number, on whatever file system, as proc_locks(5) lists them: `1: FLOCK ADVISORY WRITE 123 00:1a:456 0 EOF`.
/// Devices are not those that stat(2) tells on file systems with volumes or layers.
fn lockers(locks: &str, inode: u64) -> Vec<u32> {
    let locker = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let at = words.iter().position(|word| *word == "FLOCK")?;
        let number: u64 = words.get(at + 4)?.rsplit(':').next()?.parse().ok()?;
        // One that waits is marked by an arrow.
        (number == inode && !words.contains(&"->")).then(|| words[at + 3].parse().ok())?
    };
    locks.lines().filter_map(locker).collect()
}

fn has_open(pid: u32, file: &Metadata) -> bool {
    let open = numbers(&format!("/proc/{pid}/fd"))
        .into_iter()
        .filter_map(|fd| fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok());
    open.into_iter().any(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn who_keeps_a_lock_is_told_also_where_it_was_handed_on() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        let (path, held) = state.file("journal.lock").unwrap();
        let (_, file) = state.file("journal.lock").unwrap();
        let refused = |pid: u32| {
            let said = try_for(Duration::ZERO, &file, &path, || false).unwrap_err().to_string();
            assert!(said.starts_with(&format!("process {pid} (")) && said.contains("journal.lock"), "{said}");
        };
        held.lock().unwrap();
        refused(std::process::id());
        held.unlock().unwrap();
        // Who took it ends at once; who was given it goes on.
        let script = "exec 9<>\"$0\"; flock 9; echo; exec sleep 600";
        let mut child = Command::new("sh").args(["-c", script]).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        refused(child.id());
        assert!(!wait_for(&file, &path, || true).unwrap(), "it isn't waited for");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(wait_for(&file, &path, || false).unwrap());
    }

    #[test]
    fn who_waits_holds_nothing() {
        let locks = "1: FLOCK  ADVISORY  WRITE 7 00:1a:456 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 8 00:1a:456 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 9 00:1a:456 0 EOF\n3: FLOCK  ADVISORY  WRITE 10 08:01:457 0 EOF\n";
        assert_eq!(lockers(locks, 456), [7]);
    }

    proptest! {
        #[test]
        fn any_list_is_survived(text in ".*", words in "1: (-> )?FLOCK( [0-9:A-Z]{1,9}){0,6}") {
            let _ = (lockers(&text, 1), lockers(&words, 1));
        }
    }
}
