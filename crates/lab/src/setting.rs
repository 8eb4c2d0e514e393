//! One setting of the host: what it is called, how it is read and written. Its value is a text, so that it can be written down.

mod interface;

use crate::audit;
use crate::auditing;
use crate::cpuset;
use crate::link::link;
use crate::processes::{Process, numbers};
use crate::program::run;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::PathBuf;

pub(crate) use interface::{BY_DEFAULT, Of, UNKNOWN};

/// Which setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setting {
    /// A file of the kernel's. Of several words with one in brackets, that is its value.
    File {
        /// Its path.
        path: PathBuf,
        /// The namespace that has it, where it is one of an interface's below `/sys/class/net`.
        netns: Option<String>,
    },
    /// What programs read and write of an interface.
    Interface {
        /// Its namespace.
        netns: Option<String>,
        /// Its name.
        interface: String,
        /// Which of its settings.
        of: Of,
    },
    /// Whether the kernel audits.
    Audit,
    /// Whether a process that isn't ours goes on: `running` or `stopped`.
    Process {
        /// Its number.
        pid: u32,
        /// When it was started, in ticks since boot.
        started: u64,
        /// Its name.
        name: String,
    },
    /// Cores that every process but ours is confined to.
    Others(cpuset::Others),
}

impl Setting {
    /// A file of the kernel's in the host's namespace.
    pub(crate) fn file(path: impl Into<PathBuf>) -> Setting {
        Setting::File { path: path.into(), netns: None }
    }

    /// The processes of a name.
    pub(crate) fn processes(name: &str) -> Vec<Setting> {
        let of = |pid: u32| {
            let started = Process::living(pid).filter(|process| process.name == name)?.started;
            Some(Setting::Process { pid, started, name: name.to_owned() })
        };
        numbers("/proc").into_iter().filter_map(of).collect()
    }

    /// What it is now.
    ///
    /// Errors: why it can't be read.
    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Setting::File { path, netns } => {
                let path = path.display().to_string();
                let text = match netns {
                    None => fs::read_to_string(&path).map_err(|e| plain(&e))?,
                    Some(netns) => within_sysfs(netns, "cat \"$0\"", &path, "")?,
                };
                Ok(audit::chosen(text.trim()))
            }
            Setting::Interface { netns, interface, of } => of.read(netns.as_deref(), interface),
            Setting::Audit => auditing::state().map(str::to_owned),
            Setting::Process { pid, started, .. } => match Process::living(*pid) {
                Some(process) if process.started == *started => {
                    Ok(if matches!(process.state, 'T' | 't') { "stopped" } else { "running" }.to_owned())
                }
                _ => Err("it is gone".into()),
            },
            Setting::Others(others) => others.read(),
        }
    }

    /// Whether what has it is there at all, so that not to be able to read it is an error.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Setting::File { path, netns } => match netns {
                None => path.exists(),
                Some(netns) => within_sysfs(netns, "test -e \"$0\"", &path.display().to_string(), "").is_ok(),
            },
            Setting::Interface { netns, interface, .. } => link(netns.as_deref(), interface).is_ok(),
            Setting::Audit | Setting::Process { .. } | Setting::Others(_) => false,
        }
    }

    /// Whether the kernel chooses it by what other settings are at that moment: a discipline that it takes by itself has the MTU in it.
    pub(crate) fn follows_others(&self) -> bool {
        matches!(self, Setting::Interface { of: Of::Queue, .. })
    }

    /// Settings that setting this one changes as well.
    pub(crate) fn members(&self) -> Vec<Setting> {
        let Setting::Interface { netns, interface, of } = self else { return Vec::new() };
        let member = |of| Setting::Interface { netns: netns.clone(), interface: interface.clone(), of };
        of.members(netns.as_deref(), interface).into_iter().map(member).collect()
    }

    /// Sets it.
    ///
    /// Errors: why it can't be set.
    pub(crate) fn write(&self, value: &str) -> Result<(), String> {
        match self {
            Setting::File { path, netns: None } => fs::write(path, format!("{value}\n")).map_err(|e| plain(&e)),
            Setting::File { path, netns: Some(netns) } => {
                within_sysfs(netns, "echo \"$1\" > \"$0\"", &path.display().to_string(), value).map(drop)
            }
            Setting::Interface { netns, interface, of } => of.write(netns.as_deref(), interface, value),
            Setting::Audit => auditing::set(value),
            Setting::Process { pid, .. } => {
                self.read()?;
                use nix::sys::signal::{Signal, kill};
                let signal = if value == "stopped" { Signal::SIGSTOP } else { Signal::SIGCONT };
                kill(nix::unistd::Pid::from_raw(*pid as i32), signal).map_err(|e| e.desc().to_owned())
            }
            Setting::Others(others) => others.write(value),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::File { path, .. } => write!(f, "{}", path.display()),
            Setting::Interface { interface, of, .. } => write!(f, "{of} of {interface}"),
            Setting::Audit => f.write_str("audit"),
            Setting::Process { pid, name, .. } => write!(f, "process {pid} ({name})"),
            Setting::Others(_) => f.write_str("cores of all other processes"),
        }
    }
}

/// Runs a line of shell in a namespace's view of `/sys`.
fn within_sysfs(netns: &str, script: &str, path: &str, value: &str) -> Result<String, String> {
    run(None, "ip", &["netns", "exec", netns, "sh", "-c", script, path, value]).map_err(|e| e.reason())
}

/// An error without its number.
fn plain(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::ENOENT) => "this kernel, or this namespace, has no such setting".to_owned(),
        Some(code) => nix::Error::from_raw(code).desc().to_lowercase(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_says_in_brackets() {
        let folder = tempfile::tempdir().unwrap();
        let setting = Setting::file(folder.path().join("enabled"));
        assert!(setting.read().unwrap_err().contains("no such setting"));
        setting.write("always [madvise] never").unwrap();
        assert_eq!(setting.read().unwrap(), "madvise");
    }

    #[test]
    fn a_process_is_stopped_and_goes_on_and_another_of_its_number_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let started = Process::living(pid).unwrap().started;
        let setting = Setting::Process { pid, started, name: "sleep".into() };
        setting.write("stopped").unwrap();
        while setting.read().unwrap() != "stopped" {
            std::thread::yield_now();
        }
        setting.write("running").unwrap();
        while setting.read().unwrap() != "running" {
            std::thread::yield_now();
        }
        let later = Setting::Process { pid, started: started + 1, name: "sleep".into() };
        assert_eq!(later.write("stopped").unwrap_err(), "it is gone");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(setting.read().is_err());
    }
}
