//! What the sending thread knows of frames and the receiving thread needs, by their numbers.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

/// Frames that are kept by default: all that two bytes tell apart.
const SLOTS: usize = 1 << 16;

/// Three words for each of the last 65,536 frames, or as many as were asked for, written by one thread and read by others.
pub(crate) struct Numbered {
    slots: Box<[Slot]>,
    /// Frames that nobody had marked when another took their place.
    overwritten: AtomicU64,
}

/// The number of its frame, plus one; 0 while it is being written.
#[derive(Default)]
struct Slot {
    number: AtomicU64,
    words: [AtomicU64; 3],
}

impl Default for Numbered {
    fn default() -> Numbered {
        Numbered::with_room(SLOTS)
    }
}

impl Numbered {
    /// For so many frames, a power of two.
    pub(crate) fn with_room(frames: usize) -> Numbered {
        Numbered { slots: (0..frames).map(|_| Slot::default()).collect(), overwritten: AtomicU64::new(0) }
    }

    #[inline]
    fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize % self.slots.len()]
    }

    /// Writes a word of a frame; its others are 0 until they are written. It takes the place of the frame that has the
    /// same low 16 bits.
    #[inline]
    pub(crate) fn put(&self, number: u32, word: usize, value: u64) {
        let (slot, owner) = (self.slot(number), u64::from(number) + 1);
        if slot.number.load(Relaxed) != owner {
            slot.number.store(0, Relaxed);
            // Nobody may find the new words under the old number.
            fence(Release);
            slot.words.iter().for_each(|word| word.store(0, Relaxed));
            slot.number.store(owner, Release);
        }
        slot.words[word].store(value, Release);
    }

    /// Counts the frame whose place another is about to take, unless one of its words was marked.
    #[inline]
    pub(crate) fn note_overwritten(&self, number: u32, word: usize) {
        let slot = self.slot(number);
        let owner = slot.number.load(Relaxed);
        if owner != 0 && owner != u64::from(number) + 1 && slot.words[word].load(Acquire) == 0 {
            self.overwritten.store(self.overwritten.load(Relaxed) + 1, Relaxed);
        }
    }

    /// How many were counted so.
    pub(crate) fn overwritten(&self) -> u64 {
        self.overwritten.load(Relaxed)
    }

    /// Marks a word of a frame that still has its place; for the reading thread.
    #[inline]
    pub(crate) fn mark(&self, number: u32, word: usize) {
        let slot = self.slot(number);
        if slot.number.load(Acquire) == u64::from(number) + 1 {
            slot.words[word].store(1, Release);
        }
    }

    /// The words of a frame; zeros where none were written, or its place is another's.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> [u64; 3] {
        let slot = self.slot(number);
        let is_its = || slot.number.load(Acquire) == u64::from(number) + 1;
        let found = is_its().then(|| [0, 1, 2].map(|word: usize| slot.words[word].load(Acquire)));
        found.filter(|_| is_its()).unwrap_or_default()
    }

    /// Whether a later frame has a frame's place.
    pub(crate) fn is_gone(&self, number: u32) -> bool {
        let owner = self.slot(number).number.load(Acquire);
        owner > 0 && ((owner - 1) as u32).wrapping_sub(number) as i32 > 0
    }

    /// Frames that are kept.
    pub(crate) fn room(&self) -> usize {
        self.slots.len()
    }

    /// The frame that has a place, by the low 16 bits of its number.
    #[inline]
    pub(crate) fn owner(&self, low: u16) -> Option<u32> {
        self.slots[usize::from(low)].number.load(Acquire).checked_sub(1).map(|number| number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_number_is_not_found_in_its_successors_place() {
        let table = Numbered::default();
        assert_eq!((table.owner(5), table.find(5)), (None, [0, 0, 0]));
        table.put(5, 1, 11);
        table.put(5, 2, 12);
        assert_eq!((table.owner(5), table.find(5)), (Some(5), [0, 11, 12]));
        let next = 5 + (1 << 16);
        table.note_overwritten(next, 0);
        table.put(next, 0, 13);
        table.mark(next, 0);
        table.note_overwritten(5, 0);
        assert_eq!(table.overwritten(), 1);
        assert!(table.is_gone(5) && !table.is_gone(next) && !table.is_gone(6));
        assert_eq!((table.owner(5), table.find(5), table.find(next)), (Some(next), [0, 0, 0], [1, 0, 0]));
    }
}
