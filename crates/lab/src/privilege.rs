//! Whether this process may make namespaces and links.

use crate::error::LabError;
use std::fs;

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// Fails unless the process can administer networks and enter namespaces.
pub(crate) fn require(what: &str) -> Result<(), LabError> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let held = effective(&status);
    let needed = 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN;
    if held & needed == needed { Ok(()) } else { Err(LabError::NotPermitted { what: what.to_owned() }) }
}

/// The effective capabilities in a `/proc/PID/status`.
fn effective(status: &str) -> u64 {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_status() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000201000\n"), 1 << 21 | 1 << 12);
        assert_eq!(effective("CapEff:\tnothing"), 0);
        assert_eq!(effective(""), 0);
    }
}
