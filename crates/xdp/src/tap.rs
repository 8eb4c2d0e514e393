//! The truth: passive taps in the wires into and out of the DUT.
//!
//! Each tap is a pair of interfaces in a namespace of its own, whose XDP program passes every frame on to
//! the other one. A frame is stamped as the last thing before it goes on towards the DUT, and as the first
//! thing after it came from there, as an optical tap at the DUT's ports would: waiting in the DUT's
//! receive queue counts as the DUT's time, the sender's and receiver's own stacks do not.

use crate::error::XdpError;
use crate::mapped::{Mapped, Shared};
use crate::pattern;
use crate::skel::tap::{TapSkelBuilder, types};
use crate::stamps::Stamps;
use crate::sys;
use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use usect_core::histogram::Histogram;
use usect_core::measurement::Measurement;
use usect_core::signature::SEQUENCE_OFFSET;
use usect_core::stall::SpanLog;
use usect_core::template::{Tag, Word};
use usect_port::Taps;
use usect_port::client::Probe;

/// The two interfaces of a cut-open wire, by their indices in the tap's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Towards the sender.
    pub left: u32,
    /// Towards the receiver.
    pub right: u32,
}

/// Where and what to tap.
#[derive(Debug, Clone)]
pub struct Wiretap {
    /// In the wire between sender and DUT.
    pub near: Cut,
    /// In the wire between DUT and receiver, where there is one.
    pub far: Option<Cut>,
    /// Whether what leaves the DUT is stamped where it comes back, in the near wire.
    pub comes_back: bool,
    /// Frames as they enter.
    pub entering: Vec<Word>,
    /// Frames as they leave: the same, or those of the way back where a round trip is tapped.
    pub leaving: Vec<Word>,
    /// Where frames carry their number.
    pub tag: Tag,
    /// Frames below this number are the warm-up.
    pub measure_from: u64,
    /// No frame has this number or a higher one.
    pub until: u64,
}

#[repr(C)]
struct State {
    stamps: Stamps,
    next_departure: AtomicU64,
}

// SAFETY: repr(C), atomics only.
unsafe impl Shared for State {}

impl Probe for Mapped<State> {
    fn sent(&self) -> u64 {
        self.stamps.departed.load(Relaxed)
    }

    fn received(&self) -> u64 {
        self.stamps.received.load(Relaxed)
    }

    fn latency(&self) -> Vec<u64> {
        self.stamps.latency()
    }

    /// Only its user space knows.
    fn has_sent_all(&self) -> bool {
        false
    }
}

impl Taps for Mapped<State> {
    fn passed(&self, sequence: u32) -> Option<(u64, u64)> {
        self.stamps.passed(sequence)
    }
}

/// Attached taps; detached when dropped.
pub struct Tap {
    links: Vec<OwnedFd>,
    state: Arc<Mapped<State>>,
    measure_from: u64,
    /// Whether frames have numbers of 16 bits.
    comes_round: bool,
}

impl Tap {
    /// Loads the taps and attaches them in the calling thread's namespace. Frames pass from now on.
    pub fn attach(what: &Wiretap) -> Result<Tap, XdpError> {
        let (program, state) = load(what)?;
        let attach = |ifindex: u32| match sys::attach_xdp(program.as_fd(), ifindex) {
            Ok((link, _)) => Ok(link),
            Err(e) => Err(XdpError::os(format!("attaching the tap to interface {ifindex}"), &e)),
        };
        let cuts = [Some(what.near), what.far].into_iter().flatten();
        let links = cuts.flat_map(|cut| [cut.left, cut.right]).map(attach).collect::<Result<_, _>>()?;
        let comes_round = matches!(what.tag, Tag::Number { width: 2, .. });
        Ok(Tap { links, state, measure_from: what.measure_from, comes_round })
    }

    /// A window on what it sees.
    pub fn probe(&self) -> Arc<dyn Probe> {
        self.state.clone()
    }

    /// The stamps of single frames, as long as their places aren't taken by later ones.
    pub fn stamps(&self) -> Arc<dyn Taps> {
        self.state.clone()
    }

    /// What it saw, and the slow samples among it on `CLOCK_MONOTONIC`.
    pub fn finish(self) -> (Measurement, SpanLog) {
        // Nothing may arrive while the counts are read.
        drop(self.links);
        let stamps = &self.state.stamps;
        let (counts, overwritten) = (stamps.counts(self.measure_from), stamps.overwritten());
        let measurement = Measurement {
            counts,
            latency: Histogram::from_counts(&stamps.latency()),
            overwritten,
            ambiguous: if self.comes_round { counts.confusable(overwritten) } else { 0 },
            notes: vec!["eBPF taps in the wires at both of the DUT's interfaces, every frame, CLOCK_MONOTONIC; payload not checked".into()],
            ..Measurement::default()
        };
        (measurement, stamps.slow())
    }
}

/// The program of every interface, and what it keeps.
fn load(what: &Wiretap) -> Result<(OwnedFd, Arc<Mapped<State>>), XdpError> {
    let mut object = MaybeUninit::uninit();
    let mut open = TapSkelBuilder::default().open(&mut object).map_err(|e| XdpError::bpf("opening the tap", e))?;
    write_config(&mut open.maps.rodata_data.as_mut().expect("the tap has constants").config, what);
    let skel = open.load().map_err(|e| XdpError::bpf("loading the tap", e))?;
    let program = skel.progs.tap.as_fd().try_clone_to_owned();
    let program = program.map_err(|e| XdpError::os("keeping the tap's program", &e))?;
    Ok((program, Arc::new(Mapped::new(skel.maps.bss.as_fd(), skel.maps.bss.value_size() as usize)?)))
}

fn write_config(config: &mut types::config, what: &Wiretap) {
    pattern::fill!(config.in_flow, &what.entering);
    pattern::fill!(config.out_flow, &what.leaving);
    config.r#in = what.near.left;
    // No interface has the index 0.
    let far = what.far.unwrap_or(Cut { left: 0, right: 0 });
    config.out = if what.comes_back { what.near.right } else { far.left };
    (config.near_left, config.near_right) = (what.near.left, what.near.right);
    (config.far_left, config.far_right) = (far.left, far.right);
    let (at, width, is_little) = match what.tag {
        Tag::Signature(at) => (at + SEQUENCE_OFFSET, 4, 1),
        Tag::Number { at, width } => (at, width, 0),
    };
    (config.key_at, config.key_width, config.key_is_little) = (at as u32, width as u32, is_little);
    (config.measure_from, config.until) = (what.measure_from, what.until);
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::tracker::Counts;

    /// Frames of 64 bytes that begin with this enter, and with the other leave; behind it stands their number.
    const ENTERS: u8 = 1;
    const LEAVES: u8 = 2;

    /// A tap at the loopback interface, without being attached to it.
    struct Dry {
        program: OwnedFd,
        state: Arc<Mapped<State>>,
        measure_from: u64,
    }

    impl Dry {
        fn new(width: usize, measure_from: u64, until: u64) -> Dry {
            let is = |value: u8| vec![Word { at: 0, mask: 0xff00, value: u16::from(value) << 8 }];
            let lo = Cut { left: 1, right: 1 };
            let (program, state) = load(&Wiretap {
                near: lo,
                far: None,
                comes_back: true,
                entering: is(ENTERS),
                leaving: is(LEAVES),
                tag: Tag::Number { at: 2, width },
                measure_from,
                until,
            })
            .expect("root may load eBPF");
            Dry { program, state, measure_from }
        }

        fn sees(&self, way: u8, number: &[u8]) {
            let mut frame = [0; 64];
            frame[0] = way;
            frame[2..2 + number.len()].copy_from_slice(number);
            sys::dry(self.program.as_fd(), &frame, 1, 1).unwrap();
        }

        fn counts(&self) -> Counts {
            self.state.stamps.counts(self.measure_from)
        }
    }

    #[test]
    fn a_damaged_number_ends_no_truth() {
        if !usect_testing::root() {
            return;
        }
        let long = Dry::new(4, 1, 100);
        for n in 0_u32..100 {
            let damage = |at: u32, bit: u32| if n == at { n ^ bit } else { n };
            long.sees(ENTERS, &damage(20, 1 << 31).to_be_bytes());
            long.sees(LEAVES, &damage(30, 1 << 28).to_be_bytes());
            // Of the future, and like one of those before.
            long.sees(LEAVES, &(n + 1).to_be_bytes());
        }
        let counts = long.counts();
        counts.balance().unwrap();
        assert_eq!((counts.stale, counts.sent, counts.received, counts.foreign), (0, 99, 97, 102), "{counts:?}");
        let short = Dry::new(2, 60, 100_000);
        for n in 0_u32..100 {
            let damaged = if n == 50 { n ^ 0x8000 } else { n };
            short.sees(ENTERS, &(damaged as u16).to_be_bytes());
            short.sees(LEAVES, &(n as u16).to_be_bytes());
        }
        let counts = short.counts();
        counts.balance().unwrap();
        let seen = (counts.warmup_sent, counts.warmup_arrivals, counts.sent, counts.received, counts.foreign);
        assert_eq!(seen, (60, 59, 40, 40, 1), "{counts:?}");
    }
    #[test]
    fn a_frame_that_is_later_than_numbers_last_makes_a_truth_ambiguous() {
        if !usect_testing::root() {
            return;
        }
        let delayed = |width: usize| {
            let dry = Dry::new(width, 0, 100_000);
            let number = |n: u32| n.to_be_bytes()[4 - width..].to_vec();
            for n in 0..=1 << 16 {
                dry.sees(ENTERS, &number(n));
                if n > 0 && n < 1 << 16 {
                    dry.sees(LEAVES, &number(n));
                }
            }
            dry.sees(LEAVES, &number(0));
            dry.sees(LEAVES, &number(1 << 16));
            Tap { links: Vec::new(), state: dry.state, measure_from: 0, comes_round: width == 2 }.finish().0
        };
        let short = delayed(2);
        assert_eq!((short.counts.received, short.counts.duplicates, short.ambiguous), (1 << 16, 1, 2));
        let long = delayed(4);
        assert_eq!((long.counts.received, long.counts.stale, long.ambiguous), (1 << 16, 1, 0));
    }
}
