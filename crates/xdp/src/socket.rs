//! An AF_XDP socket with its packet memory (umem), over libc.

use crate::ring::{Consumer, Producer};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a frame's place in the umem.
pub(crate) const CHUNK: usize = 4096;
/// Entries of each ring.
pub(crate) const RING: u32 = 2048;
/// Entries of the fill ring: twice the chunks that go round in it. In copy mode the kernel hands over a frame
/// before it gives back the fill ring's entry, and it gives back at the latest when it has used up all that
/// it saw there (xskq_cons_peek_addr_unchecked), so up to a ring of entries may be used and still taken.
pub(crate) const FILL_RING: u32 = 2 * RING;
/// Chunks for sending, and as many for receiving.
pub(crate) const CHUNKS: usize = RING as usize;

/// Longest wait for a queue: the kernel lets go of one in the background when its socket is closed (`xp_put_pool`), so
/// that of the trial before may have it for as long as a busy host keeps that work waiting.
const RELEASE: Duration = Duration::from_secs(5);

/// Packet memory shared with the kernel: the first half of the chunks is for sending, the second for
/// receiving.
pub(crate) struct Umem {
    at: NonNull<u8>,
}

// SAFETY: the memory is valid in every thread; who may touch which chunk is ruled by the rings, and the two
// halves of a port own disjoint chunks.
unsafe impl Send for Umem {}
// SAFETY: as above; access goes through `chunk`, whose caller vouches for owning the chunk.
unsafe impl Sync for Umem {}

impl Umem {
    const LENGTH: usize = 2 * CHUNKS * CHUNK;

    fn new() -> io::Result<Umem> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), Umem::LENGTH, protection, flags, -1, 0) };
        match NonNull::new(at) {
            Some(at) if at.as_ptr() != libc::MAP_FAILED => Ok(Umem { at: at.cast() }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The bytes from `address` on, at most to the end of its chunk.
    ///
    /// # Safety
    /// The caller owns the chunk: it is in no ring and no other reference to it exists.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "chunks are owned by whoever took them from a ring, not by the umem")]
    pub(crate) unsafe fn chunk(&self, address: u64, length: usize) -> &mut [u8] {
        let address = address as usize;
        assert!(address + length <= Umem::LENGTH && address % CHUNK + length <= CHUNK, "a descriptor outside the umem");
        // SAFETY: inside the mapping by the assertion; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().add(address), length) }
    }

    /// The `length` bytes before `address`, in the same chunk: metadata.
    ///
    /// # Safety
    /// As for [`Umem::chunk`].
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "as for chunk")]
    pub(crate) unsafe fn before(&self, address: u64, length: usize) -> &mut [u8] {
        assert!(address as usize % CHUNK >= length, "metadata outside the chunk");
        // SAFETY: by the caller's promise.
        unsafe { self.chunk(address - length as u64, length) }
    }
}

/// Bytes before a frame to be sent in which the card is told what to do and says what it did
/// (`struct xsk_tx_metadata`, which grew to this with Linux 6.14).
pub(crate) const TX_METADATA: usize = 24;

/// Asks for the stamp of a departure: flags at 0, and the stamp's place at 8 cleared.
pub(crate) fn ask_for_stamp(metadata: &mut [u8]) {
    metadata.fill(0);
    metadata[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_TIMESTAMP).to_ne_bytes());
}

/// The stamp that the card left; 0 if it left none.
pub(crate) fn card_stamp(metadata: &[u8]) -> u64 {
    u64::from_ne_bytes(metadata[8..16].try_into().expect("eight bytes"))
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and both halves of the port are gone.
        unsafe { libc::munmap(self.at.as_ptr().cast(), Umem::LENGTH) };
    }
}

/// A socket bound to a queue of an interface, and its rings.
pub(crate) struct Bound {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) umem: Arc<Umem>,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) rx: Consumer<libc::xdp_desc>,
    pub(crate) tx: Producer<libc::xdp_desc>,
    pub(crate) zero_copy: bool,
    /// Whether frames to be sent have metadata before them.
    pub(crate) metadata: bool,
}

/// Binds a socket to a queue of an interface of the calling thread's namespace, without copies where the
/// driver can. `by_card` asks for metadata before frames to be sent. With copies there is none: in its place for the
/// card's stamp the kernel would leave the time at which it let go of the frame (`xsk_destruct_skb`).
///
/// A queue that is taken is waited for, for as long as [`RELEASE`].
pub(crate) fn bind(ifindex: u32, queue: u32, by_card: bool) -> io::Result<Bound> {
    let until = Instant::now() + RELEASE;
    loop {
        match bind_once(ifindex, queue, by_card) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => thread::sleep(RELEASE / 100),
            result => return result,
        }
    }
}

fn bind_once(ifindex: u32, queue: u32, by_card: bool) -> io::Result<Bound> {
    match bind_as(ifindex, queue, libc::XDP_ZEROCOPY, by_card) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EINVAL)) => {
            bind_as(ifindex, queue, libc::XDP_COPY, false)
        }
        result => result,
    }
}

fn bind_as(ifindex: u32, queue: u32, mode: u16, by_card: bool) -> io::Result<Bound> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let umem = Umem::new()?;
    register(&fd, &umem, by_card)?;
    let raw = fd.as_raw_fd();
    let offsets = mmap_offsets(&fd)?;
    let bound = Bound {
        fill: Producer::map(raw, libc::XDP_UMEM_PGOFF_FILL_RING as i64, offsets.fr, FILL_RING)?,
        completion: Consumer::map(raw, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, offsets.cr, RING)?,
        rx: Consumer::map(raw, libc::XDP_PGOFF_RX_RING, offsets.rx, RING)?,
        tx: Producer::map(raw, libc::XDP_PGOFF_TX_RING, offsets.tx, RING)?,
        fd: Arc::new(fd),
        umem: Arc::new(umem),
        zero_copy: mode == libc::XDP_ZEROCOPY,
        metadata: by_card,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: mode | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: `address` is a sockaddr_xdp of the size given.
    let failed = unsafe { libc::bind(raw, (&raw const address).cast(), size_of_val(&address) as u32) };
    if failed == 0 { Ok(bound) } else { Err(io::Error::last_os_error()) }
}

fn register(fd: &OwnedFd, umem: &Umem, by_card: bool) -> io::Result<()> {
    let registration = libc::xdp_umem_reg {
        addr: umem.at.as_ptr() as u64,
        len: Umem::LENGTH as u64,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: if by_card { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 },
        tx_metadata_len: if by_card { TX_METADATA as u32 } else { 0 },
    };
    set(fd, libc::XDP_UMEM_REG, &registration)?;
    for ring in [libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
        set(fd, ring, &RING)?;
    }
    set(fd, libc::XDP_UMEM_FILL_RING, &FILL_RING)
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let (at, size) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is valid for reads of its size.
    let failed = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, at, size) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// # Safety
/// `T` is what the kernel gives for `option`, and zero is a value of it.
unsafe fn get<T>(fd: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: as the caller promises.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut size = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: `value` is valid for writes of `size` bytes.
    let failed = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, at, &raw mut size) };
    if failed == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Frames that were redirected to a socket and that it could not take: its ring was full, or it had no chunk.
pub(crate) fn overruns(fd: &OwnedFd) -> io::Result<u64> {
    // SAFETY: the option's structure, plain integers.
    let seen: libc::xdp_statistics = unsafe { get(fd, libc::XDP_STATISTICS) }?;
    // A frame without a chunk is dropped, and counted as an empty fill ring too (`__xsk_rcv`).
    Ok(seen.rx_dropped + seen.rx_ring_full)
}

fn mmap_offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: the option's structure, plain integers.
    unsafe { get(fd, libc::XDP_MMAP_OFFSETS) }
}

/// Asks the kernel to look at the transmit ring.
#[inline]
pub(crate) fn kick(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: an empty message; no memory is read.
    let sent = unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the kernel to look at the fill ring.
pub(crate) fn wake_receiver(fd: &OwnedFd) -> io::Result<()> {
    let (none, flags) = (std::ptr::null_mut(), libc::MSG_DONTWAIT);
    // SAFETY: no buffer is given, so none is written.
    let received =
        unsafe { libc::recvfrom(fd.as_raw_fd(), none, 0, flags, std::ptr::null_mut(), std::ptr::null_mut()) };
    let error = io::Error::last_os_error();
    let passing = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR));
    if received >= 0 || passing { Ok(()) } else { Err(error) }
}
