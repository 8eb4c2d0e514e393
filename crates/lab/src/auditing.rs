//! Whether the kernel audits, over its socket (linux/audit.h; auditctl(8) does the same).

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};
use nix::sys::time::{TimeVal, TimeValLike};
use std::os::fd::AsRawFd;

/// Kinds of messages.
const GET: u16 = 1000;
const SET: u16 = 1001;
const ERROR: u16 = 2;
/// Flags: it asks; it wants to know whether it was done.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// Of a status: what of it is to be set.
const ENABLED: u32 = 1;
/// Bytes of a header, and of a status (ten words).
const HEADER: usize = 16;
const STATUS: usize = 40;
/// Names of what the second word of a status says.
const STATES: [&str; 3] = ["disabled", "enabled", "locked"];

/// What it is: `disabled`, `enabled`, or `locked` until the next start.
///
/// Errors: why nothing tells.
pub(crate) fn state() -> Result<&'static str, String> {
    let answer = ask(GET, REQUEST, &[0; STATUS])?;
    let enabled = word(&answer, HEADER + 4).ok_or("the kernel's answer is too short")?;
    STATES.get(enabled as usize).copied().ok_or_else(|| format!("the kernel says {enabled}, which nobody knows"))
}

/// Switches it on or off.
///
/// Errors: it is locked, or this process may not.
pub(crate) fn set(state: &str) -> Result<(), String> {
    let wanted = STATES.iter().position(|name| *name == state).ok_or_else(|| format!("there is no state {state:?}"))?;
    let mut status = [0; STATUS];
    status[..4].copy_from_slice(&ENABLED.to_ne_bytes());
    status[4..8].copy_from_slice(&(wanted as u32).to_ne_bytes());
    let answer = ask(SET, REQUEST | ACKNOWLEDGE, &status)?;
    match word(&answer, HEADER) {
        Some(0) => Ok(()),
        Some(code) => Err(std::io::Error::from_raw_os_error((code as i32).wrapping_neg()).to_string()),
        None => Err("the kernel's answer is too short".into()),
    }
}

/// Sends a message and returns the answer, which is of the same kind or, to one that sets, an error code.
fn ask(kind: u16, flags: u16, body: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |e: nix::Error| match e {
        nix::Error::EPROTONOSUPPORT => "this kernel was built without it".to_owned(),
        nix::Error::ECONNREFUSED => "it can't be asked from inside a container".to_owned(),
        nix::Error::EPERM => "asking needs root (CAP_AUDIT_CONTROL)".to_owned(),
        e => e.desc().to_owned(),
    };
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkAudit);
    let kernel = kernel.map_err(failed)?;
    setsockopt(&kernel, ReceiveTimeout, &TimeVal::seconds(1)).map_err(failed)?;
    let length = ((HEADER + body.len()) as u32).to_ne_bytes();
    let message = [&length[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat();
    sendto(kernel.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty()).map_err(failed)?;
    loop {
        let mut answer = vec![0; 512];
        let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(failed)?;
        answer.truncate(length);
        match answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]])) {
            // One that asks may be refused.
            Some(ERROR) if kind == GET => {
                let code = word(&answer, HEADER).unwrap_or(0) as i32;
                if code != 0 {
                    return Err(failed(nix::Error::from_raw(code.wrapping_neg())));
                }
            }
            Some(got) if got == kind || got == ERROR => return Ok(answer),
            // What it tells everyone who listens is none of ours.
            Some(_) => {}
            None => return Err("the kernel's answer is too short".into()),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_state_is_known_or_why_not() {
        match super::state() {
            Ok(state) => assert!(super::STATES.contains(&state)),
            Err(why) => assert!(!why.is_empty()),
        }
        assert!(super::set("perhaps").is_err());
    }
}
