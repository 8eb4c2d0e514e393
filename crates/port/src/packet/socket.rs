//! AF_PACKET sockets and their options (packet(7)).

use crate::sockopt::set;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A raw packet socket, TPACKET_V2, that belongs to no interface yet and so receives nothing.
pub(crate) fn raw() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
    Ok(socket)
}

/// Binds to an interface; from now on frames of `protocol` (0: none) arrive.
pub(crate) fn bind(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: the structure is plain integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_ll of the size given.
    let failed = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel send what is in the ring.
#[inline]
pub(super) fn kick(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: an empty message; no memory is read.
    let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends one frame on a socket that is bound to an interface.
pub(crate) fn send(socket: &OwnedFd, frame: &[u8]) -> io::Result<()> {
    // SAFETY: the frame is valid for reads of its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_NOSIGNAL) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
