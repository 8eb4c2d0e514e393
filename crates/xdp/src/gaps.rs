//! Time between two readings of the clock in the kernel: paper 002's experiment 1b, but for the clock, which is `CLOCK_MONOTONIC` and
//! not the bare counter, because an eBPF program can't read that.

use crate::error::XdpError;
use crate::mapped::{Mapped, Shared};
use crate::skel::gaps::GapsSkelBuilder;
use crate::sys;
use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// As in the C program.
const READINGS: usize = 1024;

#[repr(C)]
struct State {
    uninterrupted: AtomicU64,
    readings: [AtomicU64; READINGS],
}

// SAFETY: repr(C), atomics only.
unsafe impl Shared for State {}

/// A loaded program that reads the clock.
pub struct Gaps {
    program: OwnedFd,
    state: Mapped<State>,
}

impl Gaps {
    /// Loads it.
    ///
    /// Errors: the kernel refuses it.
    pub fn load() -> Result<Gaps, XdpError> {
        let mut object = MaybeUninit::uninit();
        let open = GapsSkelBuilder::default().open(&mut object);
        let open = open.map_err(|e| XdpError::bpf("opening the program that reads the clock", e))?;
        let skel = open.load().map_err(|e| XdpError::bpf("loading the program that reads the clock", e))?;
        let state = Mapped::new(skel.maps.bss.as_fd(), skel.maps.bss.value_size() as usize)?;
        let program = skel.progs.gaps.as_fd().try_clone_to_owned();
        Ok(Gaps { program: program.map_err(|e| XdpError::os("keeping the program that reads the clock", &e))?, state })
    }

    /// Runs it once on the calling thread's core, and hands out the gaps between its readings, in nanoseconds.
    ///
    /// Errors: the kernel doesn't run it.
    pub fn read(&self, each: &mut dyn FnMut(u64)) -> Result<(), XdpError> {
        sys::run(self.program.as_fd()).map_err(|e| XdpError::os("running the program that reads the clock", &e))?;
        let reading = |at: usize| self.state.readings[at].load(Relaxed);
        (1..READINGS).for_each(|at| each(reading(at) - reading(at - 1)));
        Ok(())
    }

    /// Whether interrupts were off meanwhile, which takes a kernel of 6.14.
    pub fn was_uninterrupted(&self) -> bool {
        self.state.uninterrupted.load(Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_is_handed_out() {
        if !usect_testing::root() {
            return;
        }
        let gaps = Gaps::load().unwrap();
        let mut found = Vec::new();
        gaps.read(&mut |ns| found.push(ns)).unwrap();
        assert_eq!(found.len(), READINGS - 1);
        // Each is a call of its own, and takes time.
        assert!(found.iter().sum::<u64>() > 0);
    }
}
