//! One measurement at a time.

use crate::error::LabError;
use crate::state::State;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

/// The right to measure on this host, until dropped. The kernel takes it back when the process ends,
/// however it ends.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    /// The next holder must not be mistaken for this one. Closing the file would not do: a child that
    /// another thread has forked and that has yet to exec holds a copy.
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// Takes the lock of the state directory that [`State::from_env`] names; see [`State::lock`].
pub fn lock() -> Result<Lock, LabError> {
    State::from_env().lock()
}

impl State {
    /// Takes the lock (flock(2) on the directory's file `lock`), without waiting.
    ///
    /// Errors: another process measures, which the error names; the directory can't be written.
    pub fn lock(&self) -> Result<Lock, LabError> {
        let (path, mut file) = self.file("lock")?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LabError::Locked { holder: holder(&mut file) }),
            Err(TryLockError::Error(e)) => return Err(LabError::file("lock", path, e)),
        }
        sign(&mut file).map_err(|e| LabError::file("write", path, e))?;
        Ok(Lock { file })
    }
}

fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    write!(file, "{}", std::process::id())
}

/// The process that signed the lock; one that no longer runs signed before the present holder did.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) if Path::new(&format!("/proc/{pid}")).exists() => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}
