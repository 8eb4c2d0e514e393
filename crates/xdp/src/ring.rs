//! The four rings of an AF_XDP socket: single-producer, single-consumer queues in memory shared with
//! the kernel (Documentation/networking/af_xdp.rst, "Rings").

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A ring's memory, mapped.
struct Memory {
    at: NonNull<u8>,
    length: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and the ring that used it is gone.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// One ring of entries `T`, from our side. Which side we are is a matter of which methods are called;
/// `Producer` and `Consumer` see to that.
struct Ring<T> {
    memory: Memory,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    kind: std::marker::PhantomData<T>,
}

// SAFETY: a ring is used by one thread at a time (its methods that move entries take &mut self), and its
// memory is valid in every thread.
unsafe impl<T: Copy> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `count` entries, a power of two, that was created on `socket` before.
    fn map(socket: RawFd, page_offset: i64, offsets: libc::xdp_ring_offset, count: u32) -> io::Result<Ring<T>> {
        assert!(count.is_power_of_two());
        let length = offsets.desc as usize + count as usize * size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket,
                page_offset,
            )
        };
        let at = match NonNull::new(at) {
            Some(at) if at.as_ptr() != libc::MAP_FAILED => at.cast(),
            _ => return Err(io::Error::last_os_error()),
        };
        Ok(Ring {
            memory: Memory { at, length },
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags as usize,
            entries: offsets.desc as usize,
            mask: count - 1,
            kind: std::marker::PhantomData,
        })
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the kernel gave the offset of an aligned 32-bit word inside the mapping, which both sides
        // access atomically and which lives as long as self.
        unsafe { self.memory.at.add(offset).cast::<AtomicU32>().as_ref() }
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the index is masked, so the entry lies inside the mapping.
        unsafe { self.memory.at.add(self.entries).cast::<T>().add((index & self.mask) as usize) }.as_ptr()
    }
}

/// A ring that we fill and the kernel empties: fill, transmit.
pub(crate) struct Producer<T>(Ring<T>);

impl<T: Copy> Producer<T> {
    pub(crate) fn map(socket: RawFd, page_offset: i64, offsets: libc::xdp_ring_offset, count: u32) -> io::Result<Self> {
        Ring::map(socket, page_offset, offsets, count).map(Producer)
    }

    /// Entries that fit.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        let used = self.0.word(self.0.producer).load(Relaxed).wrapping_sub(self.0.word(self.0.consumer).load(Acquire));
        self.0.mask + 1 - used
    }

    /// Hands entries to the kernel; there must be room for them.
    #[inline]
    pub(crate) fn push(&mut self, entries: &[T]) {
        debug_assert!(entries.len() as u32 <= self.room());
        let begin = self.0.word(self.0.producer).load(Relaxed);
        for (i, entry) in (0..).zip(entries) {
            // SAFETY: the entry is inside the mapping, and between consumer and producer + room it is ours
            // to write; the kernel reads it only after the release below.
            unsafe { self.0.entry(begin.wrapping_add(i)).write(*entry) };
        }
        self.0.word(self.0.producer).store(begin.wrapping_add(entries.len() as u32), Release);
    }

    /// Whether the kernel has taken everything.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.0.word(self.0.consumer).load(Acquire) == self.0.word(self.0.producer).load(Relaxed)
    }

    /// Whether the kernel asks for a system call before it looks at the ring (`XDP_RING_NEED_WAKEUP`).
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.0.word(self.0.flags).load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills and we empty: receive, completion.
pub(crate) struct Consumer<T>(Ring<T>);

impl<T: Copy> Consumer<T> {
    pub(crate) fn map(socket: RawFd, page_offset: i64, offsets: libc::xdp_ring_offset, count: u32) -> io::Result<Self> {
        Ring::map(socket, page_offset, offsets, count).map(Consumer)
    }

    /// Takes what is there, at most as many entries as `out` holds. Returns how many.
    #[inline]
    pub(crate) fn pop(&mut self, out: &mut [T]) -> usize {
        let begin = self.0.word(self.0.consumer).load(Relaxed);
        let there = self.0.word(self.0.producer).load(Acquire).wrapping_sub(begin);
        let taken = (there as usize).min(out.len());
        for (i, slot) in (0..).zip(&mut out[..taken]) {
            // SAFETY: the entry is inside the mapping and, between consumer and producer, written by the kernel
            // before the acquire above.
            *slot = unsafe { self.0.entry(begin.wrapping_add(i)).read() };
        }
        self.0.word(self.0.consumer).store(begin.wrapping_add(taken as u32), Release);
        taken
    }
}
