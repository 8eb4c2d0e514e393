//! `struct pattern` of bpf/pattern.bpf.h: every object that includes it has a type of its own for it.

use usect_core::template::Word;

/// A word with mask and value in network byte order.
pub(crate) fn network_order(word: &Word) -> (u16, u16, u16) {
    (word.at, word.mask.to_be(), word.value.to_be())
}

/// Fills a pattern of any of those types in.
macro_rules! fill {
    ($pattern:expr, $words:expr) => {{
        let (pattern, words): (_, &[usect_core::template::Word]) = (&mut $pattern, $words);
        pattern.count = words.len() as u32;
        for (slot, word) in pattern.words.iter_mut().zip(words) {
            (slot.at, slot.mask, slot.value) = crate::pattern::network_order(word);
        }
    }};
}

pub(crate) use fill;
