//! Entering network namespaces, as `ip netns` names them.

use crate::error::LabError;
use crate::processes::{Process, numbers};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

/// Where `ip netns` mounts namespaces.
const DIRECTORY: &str = "/run/netns";

/// Runs `work` in a thread inside a network namespace, or right here if `None`. Sockets that it opens
/// and BPF links that it makes stay in that namespace; a panic in it is passed on.
///
/// Errors: the namespace doesn't exist, or may not be entered.
pub fn within<T: Send>(netns: Option<&str>, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    let Some(netns) = netns else { return Ok(work()) };
    let namespace = open(netns)?;
    let inside = || setns(&namespace, CloneFlags::CLONE_NEWNET).map(|()| work());
    match thread::scope(|scope| scope.spawn(inside).join()) {
        Ok(done) => done.map_err(|errno| refused(netns, errno)),
        Err(panic) => resume_unwind(panic),
    }
}

/// Inode number of a namespace, `net->ns.inum` to the kernel; `None` is the calling thread's.
///
/// Errors: the namespace doesn't exist.
pub fn netns_inum(netns: Option<&str>) -> Result<u32, LabError> {
    let own = "/proc/thread-self/ns/net";
    let inode = match netns {
        Some(netns) => open(netns)?.metadata().map(|m| m.ino()),
        None => fs::metadata(own).map(|m| m.ino()),
    };
    let inode = inode.map_err(|e| LabError::file("read", netns.map_or(PathBuf::from(own), path), e))?;
    // The kernel's ns_common.inum is an unsigned int, so nsfs never has a larger inode.
    Ok(inode as u32)
}

/// Whether `ip netns` has a file of this name, mounted or not.
pub(crate) fn listed(netns: &str) -> bool {
    path(netns).symlink_metadata().is_ok()
}

/// `namespace NAME` or `the host's namespace`, for sentences.
pub(crate) fn place(netns: Option<&str>) -> String {
    netns.map_or("the host's namespace".to_owned(), |name| format!("namespace {name:?}"))
}

/// Processes whose main thread is in the namespace: `123 (name)`.
pub(crate) fn inhabitants(netns: &str) -> Vec<String> {
    let Ok(inum) = netns_inum(Some(netns)) else { return Vec::new() };
    let inside = |pid: u32| {
        let inode = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
        (inode == u64::from(inum)).then_some(())?;
        Some(format!("{pid} ({})", Process::of(pid)?.name))
    };
    numbers("/proc").into_iter().filter_map(inside).collect()
}

fn path(netns: &str) -> PathBuf {
    PathBuf::from(DIRECTORY).join(netns)
}

/// Opens a namespace and makes sure that it is one: a name whose mount is gone is a plain file.
fn open(netns: &str) -> Result<File, LabError> {
    let unknown = || LabError::UnknownNamespace { netns: netns.to_owned() };
    if netns.is_empty() || netns.starts_with('.') || netns.contains(['/', '\0']) {
        return Err(unknown());
    }
    let file = File::open(path(netns)).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => unknown(),
        io::ErrorKind::PermissionDenied => refused(netns, Errno::EPERM),
        _ => LabError::file("open", path(netns), e),
    })?;
    match fstatfs(&file) {
        Ok(found) if found.filesystem_type() == NSFS_MAGIC => Ok(file),
        _ => Err(LabError::DeadNamespace { netns: netns.to_owned() }),
    }
}

fn refused(netns: &str, errno: Errno) -> LabError {
    match errno {
        Errno::EPERM => LabError::NotPermitted { what: format!("entering network namespace {netns:?}") },
        other => LabError::file("enter", path(netns), other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_paths_are_unknown() {
        for bad in ["", "..", "../self/ns/net", "a/b", "no-such-namespace"] {
            let said = within(Some(bad), || ()).unwrap_err().to_string();
            assert!(said.contains("ip netns list") && said.contains("usect lab list"), "{said}");
        }
    }

    #[test]
    fn none_is_here() {
        assert_eq!(within(None, || netns_inum(None).unwrap()).unwrap(), netns_inum(None).unwrap());
    }
}
