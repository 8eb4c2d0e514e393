//! A wrapper that loses, doubles, swaps and damages frames by number, so that every counter of a
//! measurement can be checked against what was really done to the frames.

use crate::{BATCH, Caps, Transmit};
use std::io;
use usect_core::scenario::Faults;

/// What was done to the frames that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Frames handed in.
    pub frames: u64,
    /// Of those, not sent.
    pub dropped: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Pairs of neighbours sent in the other order.
    pub swapped: u64,
    /// Sent with one bit flipped.
    pub corrupted: u64,
}

/// Imposes [`Faults`] on what is sent through it.
///
/// Frames are numbered from 0. With a period p, frame i is dropped when i mod p = p/2 − 1, doubled
/// when i mod p = p/2 − 1 likewise of its own period, corrupted when i mod p = p/4; pair j (frames
/// 2j and 2j + 1) is swapped when j mod p = p − 1. A frame that is due for several faults gets the
/// first of: swap, drop, duplicate, corrupt. For the periods 1000, 1500 and 2000 no two coincide.
pub struct Faulty<T> {
    inner: T,
    faults: Faults,
    done: Done,
    scratch: Vec<u8>,
    /// The first of a pair that is being swapped, until the second has left.
    held: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Hold,
    OvertakeHeld,
    Drop,
    Duplicate,
    Corrupt,
}

impl<T: Transmit> Faulty<T> {
    /// Wraps a sender.
    pub fn new(inner: T, faults: Faults) -> Faulty<T> {
        Faulty { inner, faults, done: Done::default(), scratch: Vec::new(), held: Vec::new() }
    }

    /// What was done so far. A first of a pair whose second never came is still held.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Sends what is still held.
    pub fn flush(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() { Ok(()) } else { put(&mut self.inner, &held) }
    }

    fn pass(&mut self) -> io::Result<()> {
        let fate = fate(&self.faults, self.done.frames);
        self.done.frames += 1;
        match fate {
            Fate::Pass => put(&mut self.inner, &self.scratch),
            Fate::Drop => {
                self.done.dropped += 1;
                Ok(())
            }
            Fate::Duplicate => {
                self.done.duplicated += 1;
                put(&mut self.inner, &self.scratch)?;
                put(&mut self.inner, &self.scratch)
            }
            Fate::Corrupt => {
                self.done.corrupted += 1;
                // In the payload, where only a UDP checksum tells: a frame that a socket sent has one, so the
                // receiving stack drops it, and a socket client counts it as lost.
                *self.scratch.last_mut().expect("frames are not empty") ^= 0x10;
                put(&mut self.inner, &self.scratch)
            }
            Fate::Hold => {
                self.held = self.scratch.clone();
                Ok(())
            }
            Fate::OvertakeHeld => {
                self.done.swapped += 1;
                put(&mut self.inner, &self.scratch)?;
                self.flush()
            }
        }
    }
}

fn fate(faults: &Faults, index: u64) -> Fate {
    let hits = |period: u64, index: u64, phase: u64| period > 0 && index % period == phase;
    let half = |period: u64| (period / 2).saturating_sub(1);
    if hits(faults.swap_every, index / 2, faults.swap_every.wrapping_sub(1)) {
        return if index.is_multiple_of(2) { Fate::Hold } else { Fate::OvertakeHeld };
    }
    if hits(faults.drop_every, index, half(faults.drop_every)) {
        return Fate::Drop;
    }
    if hits(faults.duplicate_every, index, half(faults.duplicate_every)) {
        return Fate::Duplicate;
    }
    if hits(faults.corrupt_every, index, faults.corrupt_every / 4) {
        return Fate::Corrupt;
    }
    Fate::Pass
}

/// Sends one frame, waiting for room.
fn put(tx: &mut impl Transmit, frame: &[u8]) -> io::Result<()> {
    let mut left = Some(frame);
    while left.is_some() {
        tx.send(|buffer| {
            let frame = left.take()?;
            buffer[..frame.len()].copy_from_slice(frame);
            Some(frame.len())
        })?;
    }
    Ok(())
}

impl<T: Transmit> Transmit for Faulty<T> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn prepare(&mut self, template: &[u8]) {
        self.scratch = template.to_vec();
    }

    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let mut taken = 0;
        while taken < BATCH {
            self.scratch.resize(9216, 0);
            let Some(len) = fill(&mut self.scratch) else { break };
            self.scratch.truncate(len);
            self.pass()?;
            taken += 1;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Receive, mem};

    fn through(faults: Faults, frames: u32) -> (Vec<u32>, Done) {
        let (a, mut b) = mem::pair(1514);
        let mut faulty = Faulty::new(a.tx, faults);
        let (mut next, mut out) = (0, Vec::new());
        let mut drain = |out: &mut Vec<u32>| {
            while b.rx.recv(|f, _| out.push(u32::from_le_bytes(f.try_into().unwrap()))).unwrap() > 0 {}
        };
        while next < frames {
            drain(&mut out);
            faulty
                .send(|buffer| {
                    (next < frames).then(|| {
                        buffer[..4].copy_from_slice(&next.to_le_bytes());
                        next += 1;
                        4
                    })
                })
                .unwrap();
        }
        faulty.flush().unwrap();
        drain(&mut out);
        (out, faulty.done())
    }

    #[test]
    fn each_fault_hits_its_frames_only() {
        let (out, done) = through(Faults { drop_every: 4, ..Faults::default() }, 8);
        assert_eq!((out, done.dropped), (vec![0, 2, 3, 4, 6, 7], 2));
        let (out, done) = through(Faults { duplicate_every: 4, ..Faults::default() }, 5);
        assert_eq!((out, done.duplicated), (vec![0, 1, 1, 2, 3, 4], 1));
        let (out, done) = through(Faults { swap_every: 2, ..Faults::default() }, 9);
        assert_eq!((out, done.swapped), (vec![0, 1, 3, 2, 4, 5, 7, 6, 8], 2));
        let (out, done) = through(Faults { corrupt_every: 4, ..Faults::default() }, 3);
        assert_eq!((out, done.corrupted), (vec![0, 1 ^ (0x10 << 24), 2], 1));
    }

    #[test]
    fn a_pair_cut_short_is_sent_all_the_same() {
        let (out, done) = through(Faults { swap_every: 1, ..Faults::default() }, 3);
        assert_eq!((out, done.swapped), (vec![1, 0, 2], 1));
    }

    #[test]
    fn the_documented_periods_never_coincide() {
        let faults = Faults { drop_every: 1000, duplicate_every: 1500, swap_every: 2000, corrupt_every: 0 };
        let (out, done) = through(faults, 60_000);
        assert_eq!((done.dropped, done.duplicated, done.swapped), (60, 40, 15));
        assert_eq!(out.len(), 60_000 - 60 + 40);
    }
}
