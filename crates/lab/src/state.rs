//! The directory that remembers what this host owes usect. Whoever can write to it can have settings of the host changed, and whoever can
//! open a lock in it can hold that lock: so it is the user's alone.

use crate::error::LabError;
use nix::libc::{O_DIRECTORY, O_NOFOLLOW};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DEFAULT: &str = "/run/usect";
const LABS: &str = "usect-labs";
const SETTINGS: &str = "usect-settings";
/// Of files for their owner alone, and of folders.
const PRIVATE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;
const OTHERS: u32 = 0o077;
const ROOT: u32 = 0;

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
        self.directory.join(LABS)
    }

    /// Where the journal files of changed settings are.
    pub(crate) fn settings(&self) -> PathBuf {
        self.directory.join(SETTINGS)
    }

    /// The journal files of labs; none where nothing was ever written down.
    ///
    /// Errors: somebody else can write there; it can't be read.
    pub(crate) fn lab_files(&self) -> Result<Vec<PathBuf>, LabError> {
        if self.is_there()? { files(self.labs()) } else { Ok(Vec::new()) }
    }

    /// The same of settings.
    pub(crate) fn setting_files(&self) -> Result<Vec<PathBuf>, LabError> {
        if self.is_there()? { files(self.settings()) } else { Ok(Vec::new()) }
    }

    /// A file of the directory, for its owner alone; both are made if they aren't there.
    pub(crate) fn file(&self, name: &str) -> Result<(PathBuf, File), LabError> {
        self.make()?;
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE).custom_flags(O_NOFOLLOW);
        let file = options.open(&path).map_err(|e| LabError::file("create", &path, e))?;
        make_private(&file, PRIVATE).map_err(|e| LabError::file("close to others", &path, e))?;
        Ok((path, file))
    }

    fn make(&self) -> Result<(), LabError> {
        if !self.is_there()? {
            let mut folder = DirBuilder::new();
            let made = folder.recursive(true).mode(PRIVATE_FOLDER).create(&self.directory);
            made.map_err(|e| LabError::file("create", &self.directory, e))?;
            // Somebody else may have been quicker.
            self.is_there()?;
        }
        fs::create_dir_all(self.labs()).map_err(|e| LabError::file("create", self.labs(), e))
    }

    /// Whether the directory is there, closed to others from now on.
    ///
    /// Errors: it is somebody else's, or something in it is; others may use it, and it has more in it than what is usect's.
    pub(crate) fn is_there(&self) -> Result<bool, LabError> {
        let failed = |e| LabError::file("use", &self.directory, e);
        let folder = match OpenOptions::new().read(true).custom_flags(O_DIRECTORY | O_NOFOLLOW).open(&self.directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            folder => folder.map_err(failed)?,
        };
        let found = folder.metadata().map_err(failed)?;
        let (own, refused) = (geteuid().as_raw(), |why: String| self.refused(why));
        if ![own, ROOT].contains(&found.uid()) {
            return Err(refused(format!("it belongs to user {}, who could have anything put back", found.uid())));
        }
        let shared = found.uid() == own && found.mode() & OTHERS != 0;
        self.check(shared)?;
        if shared {
            make_private(&folder, PRIVATE_FOLDER).map_err(failed)?;
            self.check(false)?;
        }
        Ok(true)
    }

    /// Nothing in it is somebody else's; and, where others can look into it, nothing is there that they may need.
    fn check(&self, shared: bool) -> Result<(), LabError> {
        let own = [geteuid().as_raw(), ROOT];
        for path in files(self.directory.clone())? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if shared && !is_ours(&name) {
                return Err(self.refused(format!("others may use it, and it has {name:?} in it, which isn't usect's")));
            }
            match path.symlink_metadata() {
                Ok(found) if !own.contains(&found.uid()) => {
                    return Err(self.refused(format!("user {} put {name:?} there", found.uid())));
                }
                // It may be gone by now.
                _ => {}
            }
        }
        Ok(())
    }

    fn refused(&self, why: String) -> LabError {
        LabError::Unsafe { directory: self.directory.clone(), why }
    }
}

/// Whether usect gives files of its directory such names.
fn is_ours(name: &str) -> bool {
    name == "lock"
        || name == "module"
        || name.ends_with(".lock")
        || ["usect-", "ovs."].iter().any(|own| name.starts_with(own))
}

/// Closes a file or folder of ours to others, where it is open to them.
fn make_private(file: &File, mode: u32) -> io::Result<()> {
    let found = file.metadata()?;
    let open = found.uid() == geteuid().as_raw() && found.mode() & OTHERS != 0;
    if open { file.set_permissions(Permissions::from_mode(mode)) } else { Ok(()) }
}

/// The files of a folder; none where there is no folder.
pub(crate) fn files(folder: PathBuf) -> Result<Vec<PathBuf>, LabError> {
    match fs::read_dir(&folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(LabError::file("read", folder, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    fn open_to_all(path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }

    #[test]
    fn what_is_made_and_what_stood_open_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path().join("above").join("state"));
        assert!(state.lab_files().unwrap().is_empty() && !state.directory().exists(), "reading makes nothing");
        let (lock, _) = state.file("lock").unwrap();
        assert_eq!((mode(state.directory()), mode(&lock)), (0o700, 0o600));
        for path in [&lock, state.directory()] {
            open_to_all(path);
        }
        state.setting_files().unwrap();
        assert_eq!(mode(state.directory()), 0o700, "also by who only reads");
        state.file("lock").unwrap();
        assert_eq!(mode(&lock), 0o600);
    }

    #[test]
    fn a_directory_that_others_need_is_not_taken_from_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("theirs"), "").unwrap();
        open_to_all(folder.path());
        let said = State::at(folder.path()).file("lock").unwrap_err().to_string();
        assert!(said.contains("\"theirs\"") && said.contains("USECT_STATE"), "{said}");
        assert_eq!((mode(folder.path()), fs::read_dir(folder.path()).unwrap().count()), (0o777, 1));
    }

    #[test]
    fn a_link_in_its_place_or_in_that_of_a_lock_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        symlink(folder.path(), &link).unwrap();
        assert!(State::at(&link).file("lock").is_err());
        let state = State::at(folder.path().join("state"));
        state.file("lock").unwrap();
        symlink(&target, state.directory().join("journal.lock")).unwrap();
        assert!(state.file("journal.lock").is_err() && !target.exists());
    }

    #[test]
    fn what_somebody_else_owns_is_refused_and_nothing_in_it_believed() {
        if !usect_testing::root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path().join("state"));
        state.file("lock").unwrap();
        let planted = state.settings();
        fs::create_dir(&planted).unwrap();
        for path in [&planted, state.directory()] {
            chown(path, Some(65534), Some(65534)).unwrap();
            let refused = [state.file("lock").map(drop), state.lab_files().map(drop), state.setting_files().map(drop)];
            for refused in refused {
                let said = refused.unwrap_err().to_string();
                assert!(said.contains("user 65534") && !said.contains('\n'), "{said}");
            }
            chown(path, Some(0), Some(0)).unwrap();
        }
        state.setting_files().unwrap();
    }
}
