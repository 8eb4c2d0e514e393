//! The `packet` engine: AF_PACKET with rings of our own, polled. Frames leave past the queueing discipline;
//! those that arrive are seen before the stack sees them, which sees them all the same.

mod ring;
pub(crate) mod socket;

use crate::{BATCH, Caps, Found, Outward, Port, Receive, Take, Transmit, sockopt, stamping};
use ring::Ring;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use usect_core::scenario::Stamp;
use usect_core::stages::Point;
use usect_core::template::Word;

const ETH_P_ALL: u16 = 3;
const ETH_P_IP: u16 = 0x0800;
/// Longest wait for the kernel to take a batch, before the interface is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens a port on an interface of the calling thread's namespace, for frames of up to `largest` bytes
/// without FCS. `stamp` says who is to stamp them besides this process.
pub fn open(ifindex: u32, take: Take, largest: usize, stamp: Stamp) -> io::Result<Port<PacketTx, PacketRx>> {
    let note = "AF_PACKET, TPACKET_V2 rings, past the queueing discipline".to_owned();
    let caps = |stamps| Caps { frames: true, blocks: false, note: note.clone(), stamps };
    let inward = match stamp {
        Stamp::Socket => vec![Point::KernelIn],
        // A slot has room for one stamp.
        Stamp::Nic => vec![Point::CardIn],
        Stamp::App | Stamp::Xdp => Vec::new(),
    };
    let tx = sender(ifindex, largest, stamp, caps(stamping::outward(stamp, false)))?;
    Ok(Port { tx, rx: receiver(ifindex, take, largest, stamp, caps(inward))? })
}

fn sender(ifindex: u32, largest: usize, stamp: Stamp, caps: Caps) -> io::Result<PacketTx> {
    let socket = socket::raw()?;
    stamping::enable(&socket, stamp)?;
    sockopt::enlarge_receive_buffer(&socket)?;
    sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
    let ring = Ring::map(&socket, libc::PACKET_TX_RING, largest)?;
    socket::bind(&socket, ifindex, 0)?;
    Ok(PacketTx { ring, socket, caps })
}

fn receiver(ifindex: u32, take: Take, largest: usize, stamp: Stamp, caps: Caps) -> io::Result<PacketRx> {
    let socket = socket::raw()?;
    stamping::enable(&socket, stamp)?;
    if stamp == Stamp::Nic {
        let by = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &by)?;
    }
    let ring = Ring::map(&socket, libc::PACKET_RX_RING, largest)?;
    sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
    if let Take::Only(words) = &take {
        sockopt::filter(&socket, &only(words))?;
    }
    socket::bind(&socket, ifindex, if take == Take::Nothing { 0 } else { ETH_P_ALL })?;
    Ok(PacketRx { ring, socket, caps, overruns: 0 })
}

/// Keeps the stack of the calling thread's namespace, which gets every frame too, from answering datagrams to a
/// port where nobody listens with ICMP messages: a socket that lets nothing in. `None` where somebody listens.
pub fn sink(port: u16) -> io::Result<Option<UdpSocket>> {
    match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(socket) => {
            sockopt::filter(&socket, &[instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)])?;
            Ok(Some(socket))
        }
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(e) => Err(e),
    }
}

/// A socket whose filter, an eBPF program, looks at every IPv4 packet that arrives at an interface of the calling thread's namespace, for as
/// long as it is open. Whatever the program lets in, nobody reads.
pub fn watch(ifindex: u32, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let socket = socket::raw()?;
    sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program.as_raw_fd())?;
    socket::bind(&socket, ifindex, ETH_P_IP)?;
    Ok(socket)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Accepts frames that have these words (classic BPF, Documentation/networking/filter.rst). The kernel has taken the
/// outermost VLAN tag out of a frame when a filter sees it.
fn only(words: &[Word]) -> Vec<libc::sock_filter> {
    let op = instruction;
    let (load, and, jump) =
        (libc::BPF_LD | libc::BPF_ABS | libc::BPF_H, libc::BPF_ALU | libc::BPF_AND, libc::BPF_JMP | libc::BPF_JEQ);
    let is_tagged = words.first().is_some_and(|word| word.at == 12 && [0x8100, 0x88a8].contains(&word.value));
    let seen = |word: &&Word| !is_tagged || word.at > 14;
    let shift = if is_tagged { 4 } else { 0 };
    let checks: Vec<_> = words.iter().filter(seen).collect();
    let mut program = Vec::new();
    for (i, word) in checks.iter().enumerate() {
        // To the last instruction, over this one's and three for each check that is left, and the one that accepts.
        let away = (3 * (checks.len() - 1 - i) + 1) as u8;
        program.push(op(load, 0, 0, u32::from(word.at - shift)));
        program.push(op(and | libc::BPF_K, 0, 0, u32::from(word.mask)));
        program.push(op(jump | libc::BPF_K, 0, away, u32::from(word.value)));
    }
    program.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX));
    program.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, 0));
    program
}

/// The sending half.
pub struct PacketTx {
    // Before the socket: unmapped before it is closed.
    ring: Ring,
    socket: OwnedFd,
    caps: Caps,
}

/// The receiving half.
pub struct PacketRx {
    ring: Ring,
    socket: OwnedFd,
    caps: Caps,
    overruns: u64,
}

impl PacketTx {
    /// Sees to it that the kernel takes the whole batch: it stops at a frame for which the driver has no room
    /// just now (`ENOBUFS`, `EAGAIN`) and wants to be called again.
    fn flush(&mut self) -> io::Result<()> {
        let mut begun = None;
        loop {
            match socket::kick(&self.socket) {
                Err(_) if self.ring.was_refused() => {
                    return Err(io::Error::other("the interface refuses frames of this size or form"));
                }
                Err(e) if !matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => {
                    return Err(e);
                }
                _ if self.ring.is_taken() => return Ok(()),
                _ if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE => {
                    return Err(io::Error::other("the interface takes no more frames; is it up?"));
                }
                _ => {}
            }
        }
    }
}

impl Transmit for PacketTx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn prepare(&mut self, template: &[u8]) {
        self.ring.prepare(template);
    }

    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let mut filled = 0;
        while filled < BATCH {
            let Some(length) = self.ring.free().and_then(&mut fill) else { break };
            self.ring.push(length);
            filled += 1;
        }
        if filled > 0 {
            self.flush()?;
        }
        Ok(filled)
    }

    fn reap(&mut self, each: &mut dyn FnMut(u32, Outward)) -> io::Result<usize> {
        stamping::reap(&self.socket, each)
    }
}

impl Receive for PacketRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn recv_some(&mut self, most: usize, mut each: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        // All that are there, then the clock: one that comes meanwhile would be stamped too early.
        let waiting = self.ring.waiting(most.min(BATCH));
        if waiting == 0 {
            return Ok(0);
        }
        let now = usect_clock::tsc();
        for _ in 0..waiting {
            let arrived = self.ring.arrived();
            let found = Found { card: arrived.card, kernel: arrived.kernel, ..Found::at(now) };
            each(self.ring.bytes(&arrived), found);
            self.ring.give_back();
        }
        Ok(waiting)
    }

    fn overruns(&mut self) -> Option<u64> {
        // tpacket_stats: packets, drops; reading sets them to 0.
        let [_, drops]: [u32; 2] = sockopt::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS).ok()?;
        self.overruns += u64::from(drops);
        Some(self.overruns)
    }
}
