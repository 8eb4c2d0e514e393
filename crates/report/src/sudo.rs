//! Results that sudo made belong to whoever called it, as far as the folder is theirs: nobody should need root to remove what they measured.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

const ROOT: u32 = 0;

/// Who called sudo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller {
    user: u32,
    group: u32,
}

impl Caller {
    fn from_env() -> Option<Caller> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        Some(Caller { user: number("SUDO_UID")?, group: number("SUDO_GID")? })
    }
}

/// Makes a folder, and those above it that lack.
pub(crate) fn create_dir_all(folder: &Path) -> io::Result<()> {
    match create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_dir_all(folder.parent().ok_or(e)?)?;
            create_dir(folder)
        }
        made => made,
    }
}

/// Makes a folder, which must not be there.
pub(crate) fn create_dir(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    hand_over(&File::open(folder)?, folder);
    Ok(())
}

/// Hands over what this process has just made at a path. Where that can't be, it is root's, as without this.
pub(crate) fn hand_over(made: &File, path: &Path) {
    if let Some(caller) = Caller::from_env() {
        let _ = hand_over_to(caller, made, path);
    }
}

/// All of it by open files: whoever owns the folder may exchange what is in it, and the folder itself, at any time.
fn hand_over_to(caller: Caller, made: &File, path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder)?;
    let inside = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    let inside = fs::symlink_metadata(inside.join(path.file_name().unwrap_or_default()))?;
    let own = made.metadata()?;
    let is_inside = (inside.dev(), inside.ino()) == (own.dev(), own.ino());
    if own.uid() == ROOT && folder.metadata()?.uid() == caller.user && is_inside {
        fchown(made, Some(caller.user), Some(caller.group))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    const CALLER: Caller = Caller { user: 12_345, group: 12_346 };

    fn owner(path: &Path) -> (u32, u32) {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.gid())
    }

    #[test]
    fn what_is_made_in_a_folder_of_the_callers_is_theirs_and_elsewhere_it_is_not() {
        if !usect_testing::root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for (user, expected) in [(CALLER.user, (CALLER.user, CALLER.group)), (54_321, (0, 0)), (0, (0, 0))] {
            chown(folder.path(), Some(user), Some(user)).unwrap();
            let path = folder.path().join(user.to_string());
            hand_over_to(CALLER, &File::create(&path).unwrap(), &path).unwrap();
            assert_eq!(owner(&path), expected, "in a folder of user {user}");
        }
    }

    #[test]
    fn what_is_not_in_the_folder_any_more_or_was_not_ours_stays_whose_it_is() {
        if !usect_testing::root() {
            return;
        }
        let (theirs, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        chown(theirs.path(), Some(CALLER.user), None).unwrap();
        let (file, link) = (elsewhere.path().join("made"), theirs.path().join("made"));
        let made = File::create(&file).unwrap();
        symlink(&file, &link).unwrap();
        hand_over_to(CALLER, &made, &link).unwrap();
        assert_eq!((owner(&file), owner(&link)), ((0, 0), (0, 0)), "a link is not followed");
        let others = theirs.path().join("others");
        let made = File::create(&others).unwrap();
        chown(&others, Some(54_321), Some(54_321)).unwrap();
        hand_over_to(CALLER, &made, &others).unwrap();
        assert_eq!(owner(&others), (54_321, 54_321));
    }
}
