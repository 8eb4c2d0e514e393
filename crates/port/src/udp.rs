//! UDP sockets of the kernel's own stack: what a program that doesn't bypass the kernel sees.
//! Connected, so that the kernel keeps foreign datagrams away and numbers the IP identification.

use crate::{BATCH, Caps, Port, Receive, Transmit};
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use usect_core::instant::Tsc;

/// Longest wait of a blocking receive, so that its thread sees the end of a trial.
const WAIT: Duration = Duration::from_millis(50);
/// Receive buffer asked for, so that a stalled reader of the platform does not lose datagrams.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// Largest datagram of any frame size.
const LARGEST: usize = 9216;

/// Opens a socket at `local`, in the calling thread's namespace, connected to `remote`.
///
/// With `block`, [`Receive::recv`] waits in the kernel; otherwise it polls.
pub fn open(local: SocketAddrV4, remote: SocketAddrV4, block: bool) -> io::Result<Port<UdpTx, UdpRx>> {
    let socket = UdpSocket::bind(local)?;
    socket.connect(remote)?;
    socket.set_read_timeout(Some(WAIT))?;
    enlarge_receive_buffer(&socket)?;
    let caps = Caps {
        payload_at: 0,
        blocks: block,
        note: if block { "UDP socket, blocking" } else { "UDP socket, polled" }.into(),
    };
    let socket = Arc::new(socket);
    Ok(Port {
        tx: UdpTx { socket: socket.clone(), buffer: vec![0; LARGEST], caps: caps.clone() },
        rx: UdpRx { socket, buffer: vec![0; LARGEST], caps },
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
            self.socket.send(&self.buffer[..len])?;
            sent += 1;
        }
        Ok(sent)
    }
}

impl Receive for UdpRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn recv(&mut self, mut each: impl FnMut(&[u8], Tsc)) -> io::Result<usize> {
        let mut received = 0;
        while received < BATCH {
            let wait = self.caps.blocks && received == 0;
            match receive(&self.socket, &mut self.buffer, wait) {
                Ok(len) => each(&self.buffer[..len], usect_clock::tsc()),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => break,
                Err(e) => return Err(e),
            }
            received += 1;
        }
        Ok(received)
    }
}

/// `recv(2)`; std can't poll one call of a socket that blocks in others.
fn receive(socket: &UdpSocket, buffer: &mut [u8], wait: bool) -> io::Result<usize> {
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the buffer is valid for writes of its length and the descriptor is open.
    let len = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// `SO_RCVBUFFORCE` needs CAP_NET_ADMIN; without it the system's limit holds.
fn enlarge_receive_buffer(socket: &UdpSocket) -> io::Result<()> {
    let bytes = RECEIVE_BUFFER;
    let set = |option| {
        // SAFETY: the value is a c_int, as both options take.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        }
    };
    if set(libc::SO_RCVBUFFORCE) == 0 || set(libc::SO_RCVBUF) == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn connected(block: bool) -> (Port<UdpTx, UdpRx>, Port<UdpTx, UdpRx>) {
        let free = || match UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap() {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(_) => unreachable!("bound to an IPv4 address"),
        };
        let (a, b) = (free(), free());
        (open(a, b, block).unwrap(), open(b, a, block).unwrap())
    }

    #[test]
    fn conforms() {
        for block in [false, true] {
            let (mut a, mut b) = connected(block);
            crate::conformance::check(&mut a.tx, &mut b.rx);
            crate::conformance::check(&mut b.tx, &mut a.rx);
        }
    }
}
