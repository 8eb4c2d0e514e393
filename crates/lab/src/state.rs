//! The directory that remembers what this host owes usect.

use crate::error::LabError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const DEFAULT: &str = "/run/usect";

/// A state directory: one journal file per lab, and the lock of the measurement that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    directory: PathBuf,
}

impl State {
    /// `USECT_STATE` if it is set, else `/run/usect`.
    pub fn from_env() -> State {
        let chosen = std::env::var_os("USECT_STATE").filter(|path| !path.is_empty());
        State::at(chosen.unwrap_or_else(|| DEFAULT.into()))
    }

    /// Another directory, which is made when it is needed.
    pub fn at(directory: impl Into<PathBuf>) -> State {
        State { directory: directory.into() }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the labs' journal files are.
    pub(crate) fn labs(&self) -> PathBuf {
        self.directory.join("usect-labs")
    }

    /// Where the journal files of changed settings are.
    pub(crate) fn settings(&self) -> PathBuf {
        self.directory.join("usect-settings")
    }

    /// A file of the directory, which is made if it isn't there.
    pub(crate) fn file(&self, name: &str) -> Result<(PathBuf, fs::File), LabError> {
        fs::create_dir_all(self.labs()).map_err(|e| LabError::file("create", self.labs(), e))?;
        let path = self.directory.join(name);
        let mut options = fs::OpenOptions::new();
        let file: io::Result<fs::File> = options.read(true).write(true).create(true).truncate(false).open(&path);
        file.map(|file| (path.clone(), file)).map_err(|e| LabError::file("create", path, e))
    }
}

/// The files of a folder; none where there is no folder.
pub(crate) fn files(folder: PathBuf) -> Result<Vec<PathBuf>, LabError> {
    match fs::read_dir(&folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(LabError::file("read", folder, e)),
    }
}
