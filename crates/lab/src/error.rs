//! What can go wrong, each in one sentence that says what to do.

use std::io;
use std::path::PathBuf;

/// All failures of the crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A lab's name is not one.
    #[error("{name:?} is no name for a lab: use 1 to 32 letters, digits, '-' and '_', the first a letter or digit")]
    BadName {
        /// What was given.
        name: String,
    },
    /// Interrupts and queues of an interface can't be sent to a core.
    #[error("interface `{interface}` can't be steered to a core: {why}")]
    Unsteerable {
        /// The interface.
        interface: String,
        /// Why.
        why: String,
    },
    /// Somebody holds a profile already.
    #[error("{by} has changed the host's settings already: they must be put back first")]
    Tuned {
        /// Who.
        by: String,
    },
    /// An MTU that veth doesn't take.
    #[error("a lab's MTU can't be {mtu}: use 68 to 65535 bytes")]
    BadMtu {
        /// What was given.
        mtu: usize,
    },
    /// The lab stands already.
    #[error("lab {name:?} is in use: {holder}")]
    InUse {
        /// The lab.
        name: String,
        /// Who has it, and what to do about it.
        holder: String,
    },
    /// A namespace of the lab's name that no journal knows.
    #[error(
        "network namespace {netns:?} exists and was not made by usect: choose another lab name or remove it with `ip netns del {netns}`"
    )]
    NamespaceTaken {
        /// The namespace.
        netns: String,
    },
    /// No such lab.
    #[error("there is no lab {name:?}; {known}")]
    UnknownLab {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// No such namespace.
    #[error("there is no network namespace {netns:?}: see `ip netns list` and `usect lab list`")]
    UnknownNamespace {
        /// What was asked for.
        netns: String,
    },
    /// The file of a namespace whose mount is gone.
    #[error("network namespace {netns:?} is a file without its namespace: remove it with `ip netns del {netns}`")]
    DeadNamespace {
        /// What was asked for.
        netns: String,
    },
    /// No such interface.
    #[error("there is no interface {interface:?} in {place}, which has {known}")]
    UnknownInterface {
        /// What was asked for.
        interface: String,
        /// The namespace.
        place: String,
        /// Those there are.
        known: String,
    },
    /// Capabilities are missing.
    #[error("{what} needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run it with sudo")]
    NotPermitted {
        /// What was tried.
        what: String,
    },
    /// A program is not installed.
    #[error("the program `{program}` is not installed: `apt install {package}`")]
    MissingProgram {
        /// The program.
        program: String,
        /// Debian's package.
        package: String,
    },
    /// A program failed.
    #[error("`{command}` failed: {why}")]
    Failed {
        /// The command line.
        command: String,
        /// The first line of its standard error.
        why: String,
    },
    /// A program said something unexpected.
    #[error("`{command}` printed what usect can't read ({why}): install a newer version of it")]
    Output {
        /// The command line.
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file under the state directory (or in /proc) can't be used.
    #[error("can't {action} {path}: {source}; {advice}", path = path.display())]
    File {
        /// `create`, `write`, `read`, `remove`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The state directory is not this user's alone, or can't be made so.
    #[error("{directory} can't hold usect's state, since {why}: look into it and remove it, or point USECT_STATE at a directory of your own", directory = directory.display())]
    Unsafe {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A lock that is held for moments only is held for longer.
    #[error("{holder} has kept {path} locked for {patience_s} s, which usect does for moments only: wait for it or stop it", path = path.display())]
    Held {
        /// The lock.
        path: PathBuf,
        /// `process 123 (name)`.
        holder: String,
        /// How long it was waited for, in seconds.
        patience_s: u64,
    },
    /// An interface without an IPv4 address where one is needed.
    #[error("{interface} has no IPv4 address, which load and probes need: `ip addr add` gives it one")]
    NoAddress {
        /// Which.
        interface: String,
    },
    /// What is sent to an address takes another interface.
    #[error(
        "what is sent to {to} leaves by {dev}, not by {interface}: give both ends addresses of a network of their own, or, on one host, namespaces of their own"
    )]
    OtherWay {
        /// The one that it should leave by.
        interface: String,
        /// Where to.
        to: std::net::Ipv4Addr,
        /// The one that it leaves by.
        dev: String,
    },
    /// Another measurement is running.
    #[error("{holder} is measuring on this host, and two at once would disturb each other: wait for it or stop it")]
    Locked {
        /// `process 123 (name)`.
        holder: String,
    },
}

impl LabError {
    /// A failed operation on a file, with advice that fits the reason.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> LabError {
        let advice = match source.kind() {
            io::ErrorKind::PermissionDenied => "run usect with sudo, or point USECT_STATE at a directory of yours",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
            io::ErrorKind::ReadOnlyFilesystem => "point USECT_STATE at a directory that can be written",
            _ => "USECT_STATE can point at another directory",
        };
        LabError::File { action, path: path.into(), advice, source }
    }

    /// The bare reason, for a fact that says why it is missing.
    pub(crate) fn reason(&self) -> String {
        match self {
            LabError::Failed { why, .. } => why.trim_start_matches("netlink error: ").to_owned(),
            other => other.to_string(),
        }
    }
}

/// `a, b and c`, for sentences; `none` for nothing.
pub(crate) fn enumerate(items: &[String]) -> String {
    match items {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
