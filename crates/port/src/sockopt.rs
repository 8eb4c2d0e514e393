//! Options of sockets of any family.

use std::io;
use std::os::fd::AsRawFd;

/// Sets an option of plain data.
pub(crate) fn set<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (at, size) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is valid for reads of its size; what it points to, if anything, its callers keep alive.
    let failed = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, size) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of plain data.
pub(crate) fn get<T: Copy + Default>(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    let (mut value, mut size) = (T::default(), size_of::<T>() as libc::socklen_t);
    let at = std::ptr::from_mut(&mut value).cast();
    // SAFETY: `value` is valid for writes of its size, and its callers ask for integers alone.
    let failed = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &raw mut size) };
    if failed == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Lets only what `program` accepts into a socket.
pub(crate) fn filter(socket: &impl AsRawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Receive buffer asked for: so that a stalled reader does not lose datagrams, nor stamps of departures.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;

/// `SO_RCVBUFFORCE` needs CAP_NET_ADMIN; without it the system's limit holds.
pub(crate) fn enlarge_receive_buffer(socket: &impl AsRawFd) -> io::Result<()> {
    let set = |option| set(socket, libc::SOL_SOCKET, option, &RECEIVE_BUFFER);
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
}
