//! Why something of eBPF or AF_XDP did not work, one sentence each.

use std::io;

/// Why something of eBPF or AF_XDP did not work.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The kernel refused a program, a map or an attachment.
    #[error("{what}: {why}")]
    Refused {
        /// What was being done.
        what: String,
        /// Why it failed and what to do.
        why: String,
    },
}

impl XdpError {
    /// From an error of libbpf, with advice for the common causes.
    pub(crate) fn bpf(what: impl Into<String>, error: libbpf_rs::Error) -> XdpError {
        let kind = error.kind();
        let why = match kind {
            libbpf_rs::ErrorKind::PermissionDenied => "permission denied; run as root (sudo)".to_owned(),
            _ => format!("{error:#}").replace('\n', " "),
        };
        XdpError::Refused { what: what.into(), why }
    }

    /// From a failed system call.
    pub(crate) fn os(what: impl Into<String>, error: &io::Error) -> XdpError {
        let why = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "permission denied; run as root (sudo)".to_owned(),
            Some(libc::EBUSY | libc::EEXIST) => {
                "another program holds that place; detach it (for XDP: `ip link set dev IFACE xdp off`)".to_owned()
            }
            Some(libc::ERANGE) => {
                "its MTU is larger than XDP takes there (some 3500 bytes): lower it with `ip link set dev \
                 IFACE mtu 1500`, at the other end too"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        XdpError::Refused { what: what.into(), why }
    }

    pub(crate) fn refused(what: impl Into<String>, why: impl Into<String>) -> XdpError {
        XdpError::Refused { what: what.into(), why: why.into() }
    }
}
