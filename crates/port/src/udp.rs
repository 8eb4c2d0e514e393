//! UDP sockets of the kernel's own stack: what a program that doesn't bypass the kernel sees.
//! Connected, so that the kernel keeps foreign datagrams away and numbers the IP identification.

use crate::{BATCH, Caps, Found, Outward, Port, Receive, Transmit, sockopt, stamping};
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use usect_core::scenario::Stamp;
use usect_core::stages::Point;

/// Longest wait of a blocking receive, so that its thread sees the end of a trial.
const WAIT: Duration = Duration::from_millis(50);
/// Longest wait for room in the send buffer, before the interface is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Largest datagram of any frame size.
const LARGEST: usize = 9216;

/// Opens a socket at `local`, in the calling thread's namespace, connected to `remote`.
///
/// With `block`, [`Receive::recv`] waits in the kernel; otherwise it polls. `stamp` says who is to stamp datagrams
/// besides this process.
pub fn open(local: SocketAddrV4, remote: SocketAddrV4, block: bool, stamp: Stamp) -> io::Result<Port<UdpTx, UdpRx>> {
    let socket = UdpSocket::bind(local)?;
    socket.connect(remote)?;
    socket.set_read_timeout(Some(WAIT))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    sockopt::enlarge_receive_buffer(&socket)?;
    stamping::enable(&socket, stamp)?;
    let caps = Caps {
        frames: false,
        blocks: block,
        note: if block { "UDP socket, blocking" } else { "UDP socket, polled" }.into(),
        stamps: stamping::outward(stamp, true),
    };
    let inward = match stamp {
        Stamp::Socket => vec![Point::KernelIn],
        Stamp::Nic => vec![Point::CardIn, Point::KernelIn],
        Stamp::App | Stamp::Xdp => Vec::new(),
    };
    let socket = Arc::new(socket);
    Ok(Port {
        tx: UdpTx { socket: socket.clone(), buffer: vec![0; LARGEST], caps: caps.clone() },
        rx: UdpRx { socket, buffer: vec![0; LARGEST], caps: Caps { stamps: inward, ..caps } },
    })
}

/// The sending half.
pub struct UdpTx {
    socket: Arc<UdpSocket>,
    buffer: Vec<u8>,
    caps: Caps,
}

/// The receiving half.
pub struct UdpRx {
    socket: Arc<UdpSocket>,
    buffer: Vec<u8>,
    caps: Caps,
}

impl Transmit for UdpTx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn prepare(&mut self, template: &[u8]) {
        self.buffer[..template.len()].copy_from_slice(template);
    }

    /// One system call per datagram: what it costs is part of what is measured. A full send buffer
    /// makes it wait, never lose.
    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let mut sent = 0;
        while sent < BATCH {
            let Some(len) = fill(&mut self.buffer) else { break };
            self.socket.send(&self.buffer[..len]).map_err(no_room)?;
            sent += 1;
        }
        Ok(sent)
    }

    fn reap(&mut self, each: &mut dyn FnMut(u32, Outward)) -> io::Result<usize> {
        stamping::reap(&self.socket, each)
    }
}

impl Receive for UdpRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn recv_some(&mut self, most: usize, mut each: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        let mut received = 0;
        while received < most.min(BATCH) {
            let wait = self.caps.blocks && received == 0;
            match self.receive(wait) {
                Ok((len, found)) => each(&self.buffer[..len], found),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => break,
                Err(e) => return Err(e),
            }
            received += 1;
        }
        Ok(received)
    }

    fn overruns(&mut self) -> Option<u64> {
        // The last of linux/sock_diag.h's SK_MEMINFO_*: SK_MEMINFO_DROPS.
        let memory: [u32; 9] = sockopt::get(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO).ok()?;
        Some(memory[8].into())
    }
}

impl UdpRx {
    /// One datagram; std can't poll one call of a socket that blocks in others.
    #[inline]
    fn receive(&mut self, wait: bool) -> io::Result<(usize, Found)> {
        let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
        if self.caps.stamps.is_empty() {
            let (at, length) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
            // SAFETY: the buffer is valid for writes of its length and the descriptor is open.
            let len = unsafe { libc::recv(self.socket.as_raw_fd(), at, length, flags) };
            let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
            return Ok((len, Found::at(usect_clock::tsc())));
        }
        let (len, report) = stamping::receive(&self.socket, &mut self.buffer, flags)?;
        Ok((len, Found { card: report.card, kernel: report.kernel, ..Found::at(usect_clock::tsc()) }))
    }
}

/// A wait for room that was too long.
fn no_room(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("the interface takes no more frames; is it up?"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn connected(block: bool, stamp: Stamp) -> (Port<UdpTx, UdpRx>, Port<UdpTx, UdpRx>) {
        let free = || match UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap() {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(_) => unreachable!("bound to an IPv4 address"),
        };
        let (a, b) = (free(), free());
        (open(a, b, block, stamp).unwrap(), open(b, a, block, stamp).unwrap())
    }

    #[test]
    fn conforms() {
        for (block, stamp) in [(false, Stamp::App), (true, Stamp::App), (false, Stamp::Socket)] {
            let (mut a, mut b) = connected(block, stamp);
            crate::conformance::check(&mut a.tx, &mut b.rx);
            crate::conformance::check(&mut b.tx, &mut a.rx);
            crate::conformance::check_overruns(&mut a.tx, &mut b.rx);
        }
    }
}
