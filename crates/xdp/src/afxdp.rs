//! The `xdp` engine: AF_XDP rings of our own, polled.

use crate::error::XdpError;
use crate::ring::{Consumer, Producer};
use crate::skel::xsk::XskSkelBuilder;
use crate::socket::{self, Bound, CHUNK, CHUNKS, Umem};
use crate::sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use usect_core::frame::HEADERS;
use usect_core::instant::Tsc;
use usect_port::{BATCH, Caps, Port, Receive, Take, Transmit};

/// Headroom that the kernel leaves before a received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Largest frame, without FCS, that fits a chunk.
pub const LARGEST: usize = CHUNK - HEADROOM;
/// Longest wait for the kernel to take a batch, before the interface is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens a port on queue 0 of an interface of the calling thread's namespace. The stack gets the frames that
/// it doesn't take; if it takes none, no program is attached.
pub fn open(ifindex: u32, take: Take) -> Result<Port<XdpTx, XdpRx>, XdpError> {
    let bound = socket::bind(ifindex, 0).map_err(|e| bind_failed(&e))?;
    let (program, mode) = match take {
        Take::Nothing => (None, None),
        Take::UdpPort(port) => attach(&bound, ifindex, u32::from(port))?,
        Take::All => attach(&bound, ifindex, 0)?,
    };
    let copies = if bound.zero_copy { "zero-copy" } else { "copy mode" };
    let hook = mode.map_or(String::new(), |mode| format!(", {mode} XDP"));
    let caps = Caps { payload_at: HEADERS, blocks: false, note: format!("AF_XDP, {copies}{hook}") };
    Ok(split(bound, program, caps))
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

fn attach(bound: &Bound, ifindex: u32, udp_port: u32) -> Result<Attached, XdpError> {
    let mut object = MaybeUninit::uninit();
    let mut open =
        XskSkelBuilder::default().open(&mut object).map_err(|e| XdpError::bpf("opening the AF_XDP program", e))?;
    open.maps.rodata_data.as_mut().expect("the program has constants").udp_port = udp_port;
    let skel = open.load().map_err(|e| XdpError::bpf("loading the AF_XDP program", e))?;
    let queue = 0_u32.to_ne_bytes();
    skel.maps
        .sockets
        .update(&queue, &bound.fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
        .map_err(|e| XdpError::bpf("handing the queue to the AF_XDP socket", e))?;
    let (link, mode) = sys::attach_xdp(skel.progs.to_socket.as_fd(), ifindex)
        .map_err(|e| XdpError::os(format!("attaching the AF_XDP program to interface {ifindex}"), &e))?;
    Ok((Some(link), Some(mode)))
}

fn split(bound: Bound, program: Option<OwnedFd>, caps: Caps) -> Port<XdpTx, XdpRx> {
    let Bound { fd, umem, mut fill, completion, rx, tx, .. } = bound;
    let receive: Vec<u64> = (CHUNKS..2 * CHUNKS).map(|chunk| (chunk * CHUNK) as u64).collect();
    fill.push(&receive);
    Port {
        tx: XdpTx {
            fd: fd.clone(),
            umem: umem.clone(),
            tx,
            completion,
            free: (0..CHUNKS).map(|chunk| (chunk * CHUNK) as u64).collect(),
            caps: caps.clone(),
        },
        rx: XdpRx { fd, umem, rx, fill, _program: program, caps },
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
    caps: Caps,
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
            batch[filled] = libc::xdp_desc { addr: address, len: len as u32, options: 0 };
            filled += 1;
        }
        if filled > 0 {
            self.tx.push(&batch[..filled]);
            self.flush()?;
        }
        Ok(filled)
    }
}

impl Receive for XdpRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn recv(&mut self, mut each: impl FnMut(&[u8], Tsc)) -> io::Result<usize> {
        let mut batch = [libc::xdp_desc { addr: 0, len: 0, options: 0 }; BATCH];
        let arrived = self.rx.pop(&mut batch);
        if arrived == 0 {
            if self.fill.needs_wakeup() {
                self.wake()?;
            }
            return Ok(0);
        }
        let now = usect_clock::tsc();
        let mut used = [0; BATCH];
        for (descriptor, used) in batch[..arrived].iter().zip(&mut used) {
            // SAFETY: the kernel handed the chunk over through the receive ring, so it is ours until it goes
            // back into the fill ring below.
            each(unsafe { self.umem.chunk(descriptor.addr, descriptor.len as usize) }, now);
            *used = descriptor.addr - descriptor.addr % CHUNK as u64;
        }
        // There is always room, see FILL_RING.
        self.fill.push(&used[..arrived]);
        Ok(arrived)
    }
}

impl XdpRx {
    /// Lets a driver without copies look at the fill ring again.
    fn wake(&self) -> io::Result<()> {
        socket::wake_receiver(&self.fd)
    }
}
