//! What the sending thread knows of frames and the receiving thread needs, by their numbers.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

const SLOTS: usize = 1 << 16;

/// Three words for each of the last 65,536 frames, written by one thread and read by others.
pub(crate) struct Numbered(Box<[Slot]>);

/// The number of its frame, plus one; 0 while it is being written.
#[derive(Default)]
struct Slot {
    number: AtomicU64,
    words: [AtomicU64; 3],
}

impl Default for Numbered {
    fn default() -> Numbered {
        Numbered((0..SLOTS).map(|_| Slot::default()).collect())
    }
}

impl Numbered {
    /// Writes a word of a frame; its others are 0 until they are written. It takes the place of the frame that has the
    /// same low 16 bits.
    #[inline]
    pub(crate) fn put(&self, number: u32, word: usize, value: u64) {
        let (slot, owner) = (&self.0[number as usize % SLOTS], u64::from(number) + 1);
        if slot.number.load(Relaxed) != owner {
            slot.number.store(0, Relaxed);
            // Nobody may find the new words under the old number.
            fence(Release);
            slot.words.iter().for_each(|word| word.store(0, Relaxed));
            slot.number.store(owner, Release);
        }
        slot.words[word].store(value, Release);
    }

    /// The words of a frame; zeros where none were written, or its place is another's.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> [u64; 3] {
        let slot = &self.0[number as usize % SLOTS];
        let is_its = || slot.number.load(Acquire) == u64::from(number) + 1;
        let found = is_its().then(|| [0, 1, 2].map(|word: usize| slot.words[word].load(Acquire)));
        found.filter(|_| is_its()).unwrap_or_default()
    }

    /// The frame that has a place, by the low 16 bits of its number.
    #[inline]
    pub(crate) fn owner(&self, low: u16) -> Option<u32> {
        self.0[usize::from(low)].number.load(Acquire).checked_sub(1).map(|number| number as u32)
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
        table.put(next, 0, 13);
        assert_eq!((table.owner(5), table.find(5), table.find(next)), (Some(next), [0, 0, 0], [13, 0, 0]));
    }
}
