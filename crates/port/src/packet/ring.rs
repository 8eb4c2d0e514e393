//! A ring of frames in memory shared with an AF_PACKET socket, TPACKET_V2: every slot has a status word
//! that says whose it is (Documentation/networking/packet_mmap.rst).

use crate::sockopt::set;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Slots of a ring.
const SLOTS: usize = 2048;
/// What a slot needs beside the frame: header, address, alignment, and 4 bytes for a VLAN tag.
const OVERHEAD: usize = 96;
/// Who took the stamp of a slot (`TP_STATUS_TS_RAW_HARDWARE`, `TP_STATUS_TS_SOFTWARE`).
const BY_CARD: u32 = libc::TP_STATUS_TS_RAW_HARDWARE;
const BY_STACK: u32 = libc::TP_STATUS_TS_SOFTWARE;
/// Where a frame to be sent begins in its slot: behind the header, which is 32 bytes.
const SEND_AT: usize = size_of::<libc::tpacket2_hdr>();

/// A mapped ring, walked slot by slot.
pub(super) struct Ring {
    at: NonNull<u8>,
    slot: usize,
    next: usize,
}

// SAFETY: a ring is used by one thread at a time, as its methods take &mut self or happen under it, and its
// memory is valid in every thread.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.slot * SLOTS) };
    }
}

/// A frame that has arrived.
pub(super) struct Arrived {
    from: usize,
    length: usize,
    /// Stamp of the card, on its clock; 0 if it took none.
    pub(super) card: u64,
    /// Stamp of the stack, on `CLOCK_REALTIME`; 0 if it took none.
    pub(super) kernel: u64,
}

impl Ring {
    /// Makes a ring of `option` (`PACKET_RX_RING`, `PACKET_TX_RING`) for frames up to `largest` bytes.
    pub(super) fn map(socket: &OwnedFd, option: libc::c_int, largest: usize) -> io::Result<Ring> {
        let slot = (largest + OVERHEAD).next_power_of_two().max(2048);
        let block = slot.max(1 << 16);
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (slot * SLOTS / block) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: SLOTS as u32,
        };
        set(socket, libc::SOL_PACKET, option, &request)?;
        let (length, protection) = (slot * SLOTS, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, socket.as_raw_fd(), 0) };
        match NonNull::new(at) {
            Some(at) if at.as_ptr() != libc::MAP_FAILED => Ok(Ring { at: at.cast(), slot, next: 0 }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Largest frame that a slot holds.
    pub(super) fn largest(&self) -> usize {
        self.slot - OVERHEAD
    }

    #[inline]
    fn header(&self, slot: usize) -> *mut libc::tpacket2_hdr {
        // SAFETY: the slot is inside the mapping.
        unsafe { self.at.add(slot % SLOTS * self.slot) }.as_ptr().cast()
    }

    #[inline]
    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: the status is the first word of a slot, aligned, accessed atomically by both sides, and lives
        // as long as self.
        unsafe { AtomicU32::from_ptr((&raw mut (*self.header(slot)).tp_status).cast()) }
    }

    /// The room of the next slot to send from, if the kernel is done with it.
    #[inline]
    pub(super) fn free(&mut self) -> Option<&mut [u8]> {
        if self.status(self.next).load(Acquire) != libc::TP_STATUS_AVAILABLE {
            return None;
        }
        let length = self.largest();
        // SAFETY: the slot is ours while its status is AVAILABLE, and the room lies inside it.
        Some(unsafe { std::slice::from_raw_parts_mut(self.header(self.next).cast::<u8>().add(SEND_AT), length) })
    }

    /// Every slot's room, for a ring through which nothing was sent yet.
    pub(super) fn prepare(&mut self, template: &[u8]) {
        for _ in 0..SLOTS {
            if let Some(room) = self.free() {
                room[..template.len()].copy_from_slice(template);
            }
            self.next += 1;
        }
    }

    /// Gives the slot that [`Ring::free`] returned to the kernel with a frame of `length` bytes.
    #[inline]
    pub(super) fn push(&mut self, length: usize) {
        // SAFETY: the slot is ours until the store below.
        unsafe { (*self.header(self.next)).tp_len = length as u32 };
        self.status(self.next).store(libc::TP_STATUS_SEND_REQUEST, Release);
        self.next += 1;
    }

    /// Whether the kernel has taken every frame that was pushed.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.status(self.next + SLOTS - 1).load(Acquire) != libc::TP_STATUS_SEND_REQUEST
    }

    /// How many frames have arrived, `most` at the most.
    #[inline]
    pub(super) fn waiting(&self, most: usize) -> usize {
        let is_ours = |&n: &usize| self.status(self.next + n).load(Acquire) & libc::TP_STATUS_USER != 0;
        (0..most).take_while(is_ours).count()
    }

    /// The next frame, one that is [`Ring::waiting`]. A tag that the kernel took out is put back, into the space
    /// before the frame.
    #[inline]
    pub(super) fn arrived(&mut self) -> Arrived {
        let status = self.status(self.next).load(Relaxed);
        assert!(status & libc::TP_STATUS_USER != 0, "the slot is the kernel's");
        // SAFETY: the slot is ours while its status is USER.
        let header = unsafe { &*self.header(self.next) };
        let ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let stamped_by = |who| if status & who != 0 { ns } else { 0 };
        let whole = Arrived {
            from: usize::from(header.tp_mac),
            length: header.tp_snaplen as usize,
            card: stamped_by(BY_CARD),
            kernel: stamped_by(BY_STACK),
        };
        if status & libc::TP_STATUS_VLAN_VALID == 0 {
            return whole;
        }
        let (protocol, tag) = (header.tp_vlan_tpid, header.tp_vlan_tci);
        let tagged = Arrived { from: whole.from - 4, length: whole.length + 4, ..whole };
        let frame = self.bytes_mut(&tagged);
        frame.copy_within(4..16, 0);
        frame[12..14].copy_from_slice(&protocol.to_be_bytes());
        frame[14..16].copy_from_slice(&tag.to_be_bytes());
        tagged
    }

    #[inline]
    fn bytes_mut(&mut self, arrived: &Arrived) -> &mut [u8] {
        assert!(arrived.from + arrived.length <= self.slot, "the kernel's lengths lie inside the slot");
        // SAFETY: inside the slot, which is ours until it is given back.
        unsafe { std::slice::from_raw_parts_mut(self.header(self.next).cast::<u8>().add(arrived.from), arrived.length) }
    }

    /// A frame's bytes.
    #[inline]
    pub(super) fn bytes(&mut self, arrived: &Arrived) -> &[u8] {
        self.bytes_mut(arrived)
    }

    /// Gives the slot of the frame that [`Ring::arrived`] returned back.
    #[inline]
    pub(super) fn give_back(&mut self) {
        self.status(self.next).store(libc::TP_STATUS_KERNEL, Release);
        self.next += 1;
    }

    /// What the kernel says of the frame that it would not send.
    pub(super) fn was_refused(&self) -> bool {
        self.status(self.next + SLOTS - 1).load(Relaxed) & libc::TP_STATUS_WRONG_FORMAT != 0
    }
}
