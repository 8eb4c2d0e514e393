//! Every process but ours, and what it starts, confined to some cores, by the kernel's control groups: what isolcpus= does at boot,
//! while the host runs. Taken back, each process may run where it could before: the affinities of those that had one of their own are
//! written down, because kernels before 6.2 forget them when groups change.
//!
//! Version 1: the processes of the root group move into one of ours that has those cores. Version 2: the groups at the top are given
//! those cores, and we move into one of ours that isn't. Threads of the kernel stay where they are, and so do processes in groups that
//! aren't reached: those of further groups in version 1, and of the root group in version 2.

use crate::processes::{Process, numbers};
use crate::tune::confine;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use usect_core::environment::cpu_list;

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
        /// Who had an affinity of its own.
        pinned: Vec<Pinned>,
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
        /// Who had an affinity of its own.
        pinned: Vec<Pinned>,
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
                pinned: pinned(),
            });
        }
        if Path::new(V1).join("cpuset.cpus").exists() {
            return Ok(Others::V1 { root: V1.into(), except: std::process::id(), pinned: pinned() });
        }
        Err("no control groups that confine processes to cores are mounted".into())
    }

    /// The cores that others are confined to, or [`ANYWHERE`].
    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Others::V1 { root, .. } if root.join(OURS).exists() => text(&root.join(OURS).join("cpuset.cpus")),
            Others::V2 { root, groups, controlled, .. } => {
                let cores = |name: &str| text(&root.join(name).join("cpuset.cpus")).ok();
                // One that can't be given nothing again has been given all.
                let all = text(&root.join("cpuset.cpus.effective")).ok();
                let as_before =
                    |now: &String, before: &String| now == before || (before.is_empty() && Some(now) == all.as_ref());
                let confined =
                    groups.iter().find_map(|(name, before)| cores(name).filter(|now| !as_before(now, before)));
                let ours = || (root.join(OURS).exists() || controls(root) != *controlled).then(|| "none".to_owned());
                Ok(confined.or_else(ours).unwrap_or_else(|| ANYWHERE.into()))
            }
            Others::V1 { .. } => Ok(ANYWHERE.into()),
        }
    }

    /// Confines them, or lets them go.
    pub(crate) fn write(&self, cores: &str) -> Result<(), String> {
        match self {
            Others::V1 { root, pinned, .. } if cores == ANYWHERE => {
                leave(&root.join(OURS), root)?;
                pinned.iter().for_each(Pinned::again);
                Ok(())
            }
            Others::V1 { root, except, .. } => {
                let ours = made(root)?;
                put(&ours.join("cpuset.mems"), &text(&root.join("cpuset.mems"))?)?;
                put(&ours.join("cpuset.cpus"), cores)?;
                // What was started in the first round is moved in the second.
                (0..2).for_each(|_| move_all(root, &ours, *except));
                Ok(())
            }
            Others::V2 { root, home, groups, controlled, pinned } if cores == ANYWHERE => {
                // Their cores first: whatever else fails, nobody is confined.
                let freed = set_free(root, groups, *controlled);
                let left = leave(&root.join(OURS), &nearest(&root.join(home)));
                pinned.iter().for_each(Pinned::again);
                freed.and(left)
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

/// Gives groups the cores that they had.
fn set_free(root: &Path, groups: &[(String, String)], controlled: bool) -> Result<(), String> {
    // Where they had no say in cores, it goes with all that they were given, unless somebody else wants it meanwhile.
    if !controlled && put(&root.join("cgroup.subtree_control"), "-cpuset").is_ok() {
        return Ok(());
    }
    let all = text(&root.join("cpuset.cpus.effective"))?;
    let there = groups.iter().filter(|(name, _)| root.join(name).exists());
    let done = there.map(|(name, before)| {
        let cores = root.join(name).join("cpuset.cpus");
        // A group with processes can't be given nothing again: all is the same to it.
        put(&cores, before).or_else(|why| if before.is_empty() { put(&cores, &all) } else { Err(why) })
    });
    done.collect::<Vec<_>>().into_iter().collect()
}

/// A group, or the nearest above it that is still there.
fn nearest(group: &Path) -> PathBuf {
    group.ancestors().find(|group| group.exists()).unwrap_or(group).to_owned()
}

/// A thread that had an affinity of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pinned {
    thread: u32,
    /// When it was started, in ticks since boot.
    started: u64,
    /// Its cores.
    cores: String,
}

impl Pinned {
    /// Gives it its affinity again, unless it has it, or is gone.
    fn again(&self) {
        if Process::living(self.thread).is_none_or(|now| now.started != self.started)
            || allowed(self.thread).as_ref() == Some(&self.cores)
        {
            return;
        }
        // It may end meanwhile, or be the kernel's.
        let _ = confine(self.thread, &cpu_list(&self.cores));
    }
}

/// The cores that a thread may run on.
fn allowed(thread: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
}

/// Processes but this one.
fn processes() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    numbers("/proc").into_iter().filter(move |pid| *pid != own)
}

/// The processes that were to run on these cores, and may run elsewhere all the same: those of groups that aren't reached.
pub(crate) fn elsewhere(cores: &str) -> Vec<String> {
    let cores = cpu_list(cores);
    let may = |pid: &u32| allowed(*pid).is_some_and(|own| cpu_list(&own).iter().any(|core| !cores.contains(core)));
    let name = |pid: u32| Some(format!("{} ({pid}) is in a control group that isn't reached", Process::of(pid)?.name));
    processes().filter(may).filter(|pid| !is_kernel(&pid.to_string())).filter_map(name).collect()
}

/// The threads of other processes that may not run everywhere.
fn pinned() -> Vec<Pinned> {
    let everywhere = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim().to_owned();
    let threads = processes().flat_map(|pid| numbers(&format!("/proc/{pid}/task")));
    let of = |thread: u32| {
        let cores = allowed(thread).filter(|cores| *cores != everywhere)?;
        Some(Pinned { thread, started: Process::living(thread)?.started, cores })
    };
    threads.filter_map(of).collect()
}

/// Whether a process is a thread of the kernel's: those have no memory of their own.
fn is_kernel(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty())
        && fs::read_link(format!("/proc/{pid}/exe")).is_err()
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
    for pid in listed.lines().filter(|pid| *pid != except && !is_kernel(pid)) {
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
