//! AF_PACKET sockets and their options (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A raw packet socket, TPACKET_V2, that belongs to no interface yet and so receives nothing.
pub(super) fn raw() -> io::Result<OwnedFd> {
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

/// Sets an option of plain data.
pub(super) fn set<T: Copy>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let (at, size) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is valid for reads of its size; what it points to, if anything, its callers keep alive.
    let failed = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, size) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds to an interface; from now on frames of `protocol` (0: none) arrive.
pub(super) fn bind(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
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

/// Lets only what `program` accepts into a socket, of any family.
pub(crate) fn filter(socket: &impl AsRawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let size = size_of_val(&program) as libc::socklen_t;
    // SAFETY: the kernel reads `len` instructions, and writes nothing through the pointer.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
