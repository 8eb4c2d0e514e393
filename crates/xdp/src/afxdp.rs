//! The `xdp` engine: AF_XDP rings of our own, polled.

use crate::error::XdpError;
use crate::pattern;
use crate::ring::{Consumer, Producer};
use crate::skel::xsk::{XskSkel, XskSkelBuilder};
use crate::socket::{self, Bound, CHUNK, CHUNKS, Umem};
use crate::sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use usect_core::scenario::Stamp;
use usect_core::stages::Point;
use usect_core::template::Word;
use usect_port::{BATCH, Caps, Found, Outward, Port, Receive, Take, Transmit};

/// Headroom that the kernel leaves before a received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Largest frame, without FCS, that fits a chunk.
pub const LARGEST: usize = CHUNK - HEADROOM;
/// Where a frame to be sent begins in its chunk: behind what the card is told and tells.
const SEND_AT: usize = 64;
/// `struct stamps` of bpf/xsk.bpf.c, before a received frame.
const STAMPS: usize = 16;
/// Longest wait for the kernel to take a batch, before the interface is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens a port on queue 0 of an interface of the calling thread's namespace. The stack gets the frames that
/// it doesn't take; if it takes none, no program is attached. `stamp` says who is to stamp frames besides this
/// process: the XDP program, or that and the card.
pub fn open(ifindex: u32, take: Take, stamp: Stamp) -> Result<Port<XdpTx, XdpRx>, XdpError> {
    let bound = socket::bind(ifindex, 0, stamp == Stamp::Nic).map_err(|e| bind_failed(&e))?;
    let (program, mode) = match &take {
        Take::Nothing => (None, None),
        Take::Only(words) => attach(&bound, ifindex, words, stamp)?,
        Take::All => attach(&bound, ifindex, &[], stamp)?,
    };
    let copies = if bound.zero_copy { "zero-copy" } else { "copy mode" };
    let hook = mode.map_or(String::new(), |mode| format!(", {mode} XDP"));
    let note = format!("AF_XDP, {copies}{hook}");
    let (outward, inward) = match stamp {
        Stamp::App | Stamp::Socket => (Vec::new(), Vec::new()),
        Stamp::Xdp => (Vec::new(), vec![Point::DriverIn]),
        Stamp::Nic if bound.metadata => (vec![Point::CardOut], vec![Point::CardIn, Point::DriverIn]),
        Stamp::Nic => (Vec::new(), vec![Point::CardIn, Point::DriverIn]),
    };
    let caps = |stamps| Caps { frames: true, blocks: false, note: note.clone(), stamps };
    Ok(split(bound, program, caps(outward), caps(inward)))
}

fn bind_failed(error: &io::Error) -> XdpError {
    let what = "opening an AF_XDP socket";
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => XdpError::refused(what, "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)"),
        Some(libc::EBUSY) => {
            XdpError::refused(what, "another AF_XDP socket has queue 0 of the interface; stop its program")
        }
        _ => XdpError::os(what, error),
    }
}

type Attached = (Option<OwnedFd>, Option<sys::XdpMode>);

fn attach(bound: &Bound, ifindex: u32, wanted: &[Word], stamp: Stamp) -> Result<Attached, XdpError> {
    let mut object = MaybeUninit::uninit();
    let skel = load(&mut object, ifindex, wanted, stamp)?;
    let queue = 0_u32.to_ne_bytes();
    skel.maps
        .sockets
        .update(&queue, &bound.fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
        .map_err(|e| XdpError::bpf("handing the queue to the AF_XDP socket", e))?;
    let by_card = stamp == Stamp::Nic;
    let program = if by_card { skel.progs.to_socket_by_card.as_fd() } else { skel.progs.to_socket.as_fd() };
    let (link, mode) = sys::attach_xdp(program, ifindex)
        .map_err(|e| XdpError::os(format!("attaching the AF_XDP program to interface {ifindex}"), &e))?;
    Ok((Some(link), Some(mode)))
}

fn load<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    ifindex: u32,
    wanted: &[Word],
    stamp: Stamp,
) -> Result<XskSkel<'o>, XdpError> {
    let mut open =
        XskSkelBuilder::default().open(object).map_err(|e| XdpError::bpf("opening the AF_XDP program", e))?;
    let constants = open.maps.rodata_data.as_mut().expect("the program has constants");
    pattern::fill!(constants.wanted, wanted);
    constants.stamp = u32::from(stamp != Stamp::App);
    let by_card = stamp == Stamp::Nic;
    open.progs.to_socket.set_autoload(!by_card);
    open.progs.to_socket_by_card.set_autoload(by_card);
    if by_card {
        // What a driver knows of a frame is for programs that are bound to its device.
        open.progs.to_socket_by_card.set_ifindex(ifindex);
        open.progs.to_socket_by_card.set_flags(libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
    }
    open.load().map_err(|e| match by_card {
        true => XdpError::refused(
            "loading the AF_XDP program that asks the driver for the card's stamps",
            format!("probably the driver has no XDP metadata ({e})"),
        ),
        false => XdpError::bpf("loading the AF_XDP program", e),
    })
}

/// Whether a program can ask the driver of an interface of the calling thread's namespace for what the card knows of a
/// frame. It is loaded, and not attached.
pub fn has_metadata(ifindex: u32) -> bool {
    load(&mut MaybeUninit::uninit(), ifindex, &[], Stamp::Nic).is_ok()
}

fn split(bound: Bound, program: Option<OwnedFd>, out: Caps, inward: Caps) -> Port<XdpTx, XdpRx> {
    let Bound { fd, umem, mut fill, completion, rx, tx, metadata, .. } = bound;
    let receive: Vec<u64> = (CHUNKS..2 * CHUNKS).map(|chunk| (chunk * CHUNK) as u64).collect();
    fill.push(&receive);
    Port {
        tx: XdpTx {
            fd: fd.clone(),
            umem: umem.clone(),
            tx,
            completion,
            free: (0..CHUNKS).map(|chunk| (chunk * CHUNK + SEND_AT) as u64).collect(),
            cards: metadata.then(ByCard::default),
            caps: out,
        },
        rx: XdpRx { fd, umem, rx, fill, _program: program, caps: inward },
    }
}

/// The sending half.
pub struct XdpTx {
    fd: Arc<OwnedFd>,
    umem: Arc<Umem>,
    tx: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    /// Chunks that no ring holds.
    free: Vec<u64>,
    cards: Option<ByCard>,
    caps: Caps,
}

/// Stamps of departures by the card: it writes them before the frame, and they are read when the chunk comes back.
struct ByCard {
    /// Frames sent so far.
    sent: u32,
    /// The number of the frame in each chunk.
    numbers: Vec<u32>,
    taken: Vec<(u32, u64)>,
}

impl Default for ByCard {
    fn default() -> ByCard {
        ByCard { sent: 0, numbers: vec![0; CHUNKS], taken: Vec::with_capacity(CHUNKS) }
    }
}

/// The receiving half.
pub struct XdpRx {
    fd: Arc<OwnedFd>,
    umem: Arc<Umem>,
    rx: Consumer<libc::xdp_desc>,
    fill: Producer<u64>,
    /// Keeps the XDP program attached.
    _program: Option<OwnedFd>,
    caps: Caps,
}

impl XdpTx {
    /// Takes back the chunks of frames that have left.
    fn reclaim(&mut self) {
        let mut done = [0; BATCH];
        loop {
            let n = self.completion.pop(&mut done);
            self.free.extend_from_slice(&done[..n]);
            if let Some(cards) = &mut self.cards {
                for &address in &done[..n] {
                    // SAFETY: the chunk has come back, so it is in no ring.
                    let stamp = socket::card_stamp(unsafe { self.umem.before(address, socket::TX_METADATA) });
                    if stamp > 0 {
                        cards.taken.push((cards.numbers[address as usize / CHUNK], stamp));
                    }
                }
            }
            if n < done.len() {
                return;
            }
        }
    }

    /// Sees to it that the kernel takes the whole batch: in copy mode a call takes 32 frames at most, and
    /// answers EAGAIN, EBUSY or ENOBUFS when it should be made again (af_xdp.rst, "TX Ring").
    fn flush(&mut self) -> io::Result<()> {
        if !self.tx.needs_wakeup() {
            return Ok(());
        }
        let mut begun = None;
        loop {
            match socket::kick(&self.fd) {
                Err(e)
                    if !matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)) =>
                {
                    return Err(e);
                }
                _ if self.tx.is_drained() => return Ok(()),
                _ if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE => {
                    return Err(io::Error::other("the interface takes no more frames; is it up?"));
                }
                _ => self.reclaim(),
            }
        }
    }
}

impl Transmit for XdpTx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn prepare(&mut self, template: &[u8]) {
        for &address in &self.free {
            // SAFETY: the chunk is on the free list, so in no ring, and &mut self excludes other users.
            unsafe { self.umem.chunk(address, template.len()) }.copy_from_slice(template);
        }
    }

    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let mut batch = [libc::xdp_desc { addr: 0, len: 0, options: 0 }; BATCH];
        self.reclaim();
        let room = (self.tx.room() as usize).min(self.free.len()).min(BATCH);
        let mut filled = 0;
        while filled < room {
            let address = self.free[self.free.len() - 1];
            // SAFETY: as in `prepare`.
            let Some(len) = fill(unsafe { self.umem.chunk(address, LARGEST) }) else { break };
            self.free.pop();
            let mut options = 0;
            if let Some(cards) = &mut self.cards {
                // SAFETY: as above.
                socket::ask_for_stamp(unsafe { self.umem.before(address, socket::TX_METADATA) });
                cards.numbers[address as usize / CHUNK] = cards.sent;
                cards.sent = cards.sent.wrapping_add(1);
                options = libc::XDP_TX_METADATA;
            }
            batch[filled] = libc::xdp_desc { addr: address, len: len as u32, options };
            filled += 1;
        }
        if filled > 0 {
            self.tx.push(&batch[..filled]);
            self.flush()?;
        }
        Ok(filled)
    }

    fn reap(&mut self, each: &mut dyn FnMut(u32, Outward)) -> io::Result<usize> {
        self.reclaim();
        let taken = self.cards.as_mut().map_or(&mut [][..], |cards| &mut cards.taken);
        taken.iter().for_each(|&(number, stamp)| each(number, Outward::Card(stamp)));
        let count = taken.len();
        if let Some(cards) = &mut self.cards {
            cards.taken.clear();
        }
        Ok(count)
    }
}

impl Receive for XdpRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn recv_some(&mut self, most: usize, mut each: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        let mut batch = [libc::xdp_desc { addr: 0, len: 0, options: 0 }; BATCH];
        let arrived = self.rx.pop(&mut batch[..most.min(BATCH)]);
        if arrived == 0 {
            if self.fill.needs_wakeup() {
                self.wake()?;
            }
            return Ok(0);
        }
        let now = Found::at(usect_clock::tsc());
        let stamped = !self.caps.stamps.is_empty();
        let mut used = [0; BATCH];
        for (descriptor, used) in batch[..arrived].iter().zip(&mut used) {
            // SAFETY: the kernel handed the chunk over through the receive ring, so it is ours until it goes
            // back into the fill ring below.
            let frame = unsafe { self.umem.chunk(descriptor.addr, descriptor.len as usize) };
            let found = if stamped {
                // SAFETY: as above; the program leaves this much before every frame.
                let stamps = unsafe { self.umem.before(descriptor.addr, STAMPS) };
                let word = |at: usize| u64::from_ne_bytes(stamps[at..at + 8].try_into().expect("eight bytes"));
                Found { driver: word(0), card: word(8), ..now }
            } else {
                now
            };
            each(frame, found);
            *used = descriptor.addr - descriptor.addr % CHUNK as u64;
        }
        // There is always room, see FILL_RING.
        self.fill.push(&used[..arrived]);
        Ok(arrived)
    }

    fn overruns(&mut self) -> Option<u64> {
        socket::overruns(&self.fd).ok()
    }
}

impl XdpRx {
    /// Lets a driver without copies look at the fill ring again.
    fn wake(&self) -> io::Result<()> {
        socket::wake_receiver(&self.fd)
    }
}
