//! Every process but ours, and what it starts, confined to some cores, by the kernel's control groups: what isolcpus= does at boot,
//! while the host runs. Taken back, each process may run where it could before.
//!
//! Version 1: all processes of the root group move into one of ours that has those cores. Version 2: the groups at the top are given
//! those cores, and we move into one of ours that isn't. Threads of the kernel that belong to one core stay there.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where control groups are, and how they work there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Others {
    /// A hierarchy of version 1.
    V1 {
        /// Its root.
        root: PathBuf,
        /// Who is not confined: us.
        except: u32,
    },
    /// The hierarchy of version 2.
    V2 {
        /// Its root.
        root: PathBuf,
        /// The group that we come from and go back to.
        home: PathBuf,
        /// The groups at the top, and the cores that each was given before.
        groups: Vec<(String, String)>,
        /// Whether they had a say in cores before.
        controlled: bool,
    },
}

/// Our group, in either.
const OURS: &str = "usect";
/// Nobody is confined.
pub(crate) const ANYWHERE: &str = "any";
/// Where hierarchies are mounted.
const V1: &str = "/sys/fs/cgroup/cpuset";
const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

impl Others {
    /// What this host has.
    ///
    /// Errors: it has no control groups that confine to cores.
    pub(crate) fn find() -> Result<Others, String> {
        let has = |root: &&Path| words(&root.join("cgroup.controllers")).any(|name| name == "cpuset");
        if let Some(root) = V2.into_iter().map(Path::new).find(has) {
            let given = |name: String| {
                let cores = text(&root.join(&name).join("cpuset.cpus")).unwrap_or_default();
                (name, cores)
            };
            return Ok(Others::V2 {
                root: root.into(),
                home: home()?,
                groups: groups(root).map(given).collect(),
                controlled: controls(root),
            });
        }
        if Path::new(V1).join("cpuset.cpus").exists() {
            return Ok(Others::V1 { root: V1.into(), except: std::process::id() });
        }
        Err("no control groups that confine processes to cores are mounted".into())
    }

    /// The cores that others are confined to, or [`ANYWHERE`].
    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Others::V1 { root, .. } if root.join(OURS).exists() => text(&root.join(OURS).join("cpuset.cpus")),
            Others::V2 { root, groups, controlled, .. }
                if root.join(OURS).exists() || controls(root) != *controlled =>
            {
                groups.first().map_or(Ok("0".into()), |(name, _)| text(&root.join(name).join("cpuset.cpus")))
            }
            _ => Ok(ANYWHERE.into()),
        }
    }

    /// Confines them, or lets them go.
    pub(crate) fn write(&self, cores: &str) -> Result<(), String> {
        match self {
            Others::V1 { root, .. } if cores == ANYWHERE => leave(&root.join(OURS), root),
            Others::V1 { root, except } => {
                let ours = made(root)?;
                put(&ours.join("cpuset.mems"), &text(&root.join("cpuset.mems"))?)?;
                put(&ours.join("cpuset.cpus"), cores)?;
                // What was started in the first round is moved in the second.
                (0..2).for_each(|_| move_all(root, &ours, *except));
                Ok(())
            }
            Others::V2 { root, home, groups, controlled } if cores == ANYWHERE => {
                leave(&root.join(OURS), &root.join(home))?;
                if !controlled {
                    // It takes the groups' own cores along.
                    return put(&root.join("cgroup.subtree_control"), "-cpuset");
                }
                let all = text(&root.join("cpuset.cpus.effective"))?;
                for (name, before) in groups.iter().filter(|(name, _)| root.join(name).exists()) {
                    let cores = root.join(name).join("cpuset.cpus");
                    // A group with processes can't be given nothing again: all is the same to it.
                    put(&cores, before).or_else(|why| if before.is_empty() { put(&cores, &all) } else { Err(why) })?;
                }
                Ok(())
            }
            Others::V2 { root, groups, .. } => {
                put(&root.join("cgroup.subtree_control"), "+cpuset")?;
                let ours = made(root)?;
                put(&ours.join("cgroup.procs"), &std::process::id().to_string())?;
                groups.iter().try_for_each(|(name, _)| put(&root.join(name).join("cpuset.cpus"), cores))
            }
        }
    }
}

/// Whether groups at the top have a say in cores.
fn controls(root: &Path) -> bool {
    words(&root.join("cgroup.subtree_control")).any(|name| name == "cpuset")
}

/// The groups at the top but ours.
fn groups(root: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name != OURS)
}

/// Makes our group.
fn made(root: &Path) -> Result<PathBuf, String> {
    let ours = root.join(OURS);
    fs::create_dir(&ours).map_err(|e| said(&ours, e)).map(|()| ours)
}

fn words(path: &Path) -> impl Iterator<Item = String> {
    let words = text(path).unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The group of this process in the hierarchy of version 2, below its root.
fn home() -> Result<PathBuf, String> {
    let text = text(Path::new("/proc/self/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    path.map(PathBuf::from).ok_or_else(|| "this process is in no control group of version 2".into())
}

/// Moves everything out of our group, and removes it.
fn leave(ours: &Path, home: &Path) -> Result<(), String> {
    // What is started meanwhile is moved in the next round.
    for _ in 0..10 {
        if !ours.exists() {
            return Ok(());
        }
        move_all(ours, home, 0);
        match fs::remove_dir(ours) {
            Err(e) if e.raw_os_error() != Some(nix::libc::EBUSY) => return Err(said(ours, e)),
            _ => {}
        }
    }
    if ours.exists() { Err(format!("{} can't be emptied", ours.display())) } else { Ok(()) }
}

/// Moves the processes of a group but one, as far as they can be: threads of the kernel's that belong to a core can't.
fn move_all(from: &Path, to: &Path, except: u32) {
    let except = except.to_string();
    let listed = text(&from.join("cgroup.procs")).unwrap_or_default();
    for pid in listed.lines().filter(|pid| *pid != except) {
        let _ = put(&to.join("cgroup.procs"), pid);
    }
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|e| said(path, e))
}

fn put(path: &Path, value: &str) -> Result<(), String> {
    // A line, so that nothing is something that can be written.
    fs::write(path, format!("{value}\n")).map_err(|e| said(path, e))
}

fn said(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}
