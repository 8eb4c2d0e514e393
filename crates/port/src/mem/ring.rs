//! A ring of frames between two threads: one puts in, one takes out, nobody waits or locks.

use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Slots of a ring.
const SLOTS: usize = 1024;
/// Bytes before a frame that hold its length; with a frame of 64 bytes (FCS included) they fill a cache line.
const LENGTH: usize = 4;
/// Slots begin at multiples of this: two cache lines, which processors fetch in pairs.
const LINE: usize = 128;

/// How many frames ahead of the one that is taken the taker fetches.
const AHEAD: usize = 3;

/// Keeps what one thread writes off the cache lines that the other writes.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    memory: Box<[Apart<UnsafeCell<[u8; LINE]>>]>,
    /// Bytes of a slot.
    slot: usize,
    /// Frames put in so far.
    put: Apart<AtomicUsize>,
    /// Frames taken out so far.
    taken: Apart<AtomicUsize>,
}

// SAFETY: the slots from `taken` to `put` are the taker's, the others the putter's, and there is one of each;
// the counters are handed over with release and acquire.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    #[inline]
    fn slot(&self, number: usize) -> *mut u8 {
        let first = number % SLOTS * (self.slot / LINE);
        // SAFETY: the slot, all of it, lies inside the memory.
        unsafe { self.memory.as_ptr().add(first) }.cast::<u8>().cast_mut()
    }
}

/// The end that puts frames in.
pub(super) struct Putter {
    shared: Arc<Shared>,
    next: usize,
    /// Frames taken out when last looked.
    taken: usize,
}

/// The end that takes frames out.
pub(super) struct Taker {
    shared: Arc<Shared>,
    next: usize,
}

/// A ring for frames of up to `largest` bytes.
pub(super) fn ring(largest: usize) -> (Putter, Taker) {
    let slot = (largest + LENGTH).next_multiple_of(LINE);
    let shared = Arc::new(Shared {
        memory: (0..slot / LINE * SLOTS).map(|_| Apart(UnsafeCell::new([0; LINE]))).collect(),
        slot,
        put: Apart(AtomicUsize::new(0)),
        taken: Apart(AtomicUsize::new(0)),
    });
    (Putter { shared: shared.clone(), next: 0, taken: 0 }, Taker { shared, next: 0 })
}

impl Putter {
    /// The room for the next frame; `None` while the ring is full.
    #[inline]
    pub(super) fn free(&mut self) -> Option<&mut [u8]> {
        if self.next - self.taken == SLOTS {
            self.taken = self.shared.taken.0.load(Acquire);
            if self.next - self.taken == SLOTS {
                return None;
            }
        }
        // SAFETY: the slot is the putter's until `put`, and the room lies inside it.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.shared.slot(self.next).add(LENGTH), self.shared.slot - LENGTH)
        })
    }

    /// Hands over the room that [`Putter::free`] returned, with a frame of `length` bytes.
    #[inline]
    pub(super) fn put(&mut self, length: usize) {
        // SAFETY: the slot is the putter's until the store below, and begins with an aligned length.
        unsafe { self.shared.slot(self.next).cast::<u32>().write(length as u32) };
        self.next += 1;
        self.shared.put.0.store(self.next, Release);
        // The taker had the next slot last: fetched now, it is ours when the next frame is written.
        // SAFETY: a hint about an address inside the ring.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.shared.slot(self.next).cast()) };
    }

    /// Writes the same bytes into every slot of a ring that nothing is in.
    pub(super) fn prepare(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.largest(), "the ring was made for smaller frames");
        self.taken = self.shared.taken.0.load(Acquire);
        for number in self.next..self.taken + SLOTS {
            // SAFETY: the slot is the putter's, and has the room.
            unsafe {
                self.shared.slot(number).add(LENGTH).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
    }

    /// Largest frame.
    pub(super) fn largest(&self) -> usize {
        self.shared.slot - LENGTH
    }
}

impl Taker {
    /// How many frames are there, `most` at the most.
    #[inline]
    pub(super) fn waiting(&self, most: usize) -> usize {
        (self.shared.put.0.load(Acquire) - self.next).min(most)
    }

    /// Hands the next `count` frames, which must be [`Taker::waiting`], to `each`, and gives their slots back.
    #[inline]
    pub(super) fn take(&mut self, count: usize, mut each: impl FnMut(&[u8])) {
        assert!(count <= self.shared.put.0.load(Relaxed) - self.next, "not so many frames are there");
        let end = self.next + count;
        for number in self.next..end {
            // The putter's core has the lines of a frame, and fetching them takes longer than handling the one before; those
            // that aren't there yet, the putter is writing.
            if number + AHEAD < end {
                // SAFETY: a hint about an address inside the ring.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.shared.slot(number + AHEAD).cast()) };
            }
            let slot = self.shared.slot(number);
            // SAFETY: the slot is the taker's until the store below; the putter wrote a length that fits and as
            // many bytes.
            let frame = unsafe {
                let length = slot.cast::<u32>().read() as usize;
                std::slice::from_raw_parts(slot.add(LENGTH), length.min(self.shared.slot - LENGTH))
            };
            each(frame);
        }
        self.next = end;
        self.shared.taken.0.store(self.next, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_holds_what_it_says_and_no_more() {
        let (mut putter, mut taker) = ring(60);
        putter.prepare(&[7; 60]);
        for round in 0..3_u8 {
            for _ in 0..SLOTS {
                putter.free().unwrap()[0] = round;
                putter.put(60);
            }
            assert!(putter.free().is_none());
            assert_eq!(taker.waiting(5), 5);
            let mut seen = 0;
            taker.take(taker.waiting(usize::MAX), |frame| {
                assert_eq!((frame.len(), frame[0], frame[59]), (60, round, 7));
                seen += 1;
            });
            assert_eq!((seen, taker.waiting(1)), (SLOTS, 0));
        }
    }
}
