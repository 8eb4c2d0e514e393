//! The truth: passive taps where frames enter and leave the DUT.
//!
//! A tap sits at the entry of the veth driver's transmit functions (`fentry`), so it stamps a frame at
//! the moment it goes onto the wire, as an optical tap at the DUT's ports would: waiting in the DUT's
//! receive queue counts as the DUT's time, the sender's and receiver's own stacks do not.

use crate::error::XdpError;
use crate::mapped::{Mapped, Shared};
use crate::skel::tap::TapSkelBuilder;
use crate::stamps::{Stamps, network_order};
use libbpf_rs::MapCore;
use libbpf_rs::ProgramMut;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use usect_core::frame::Flow;
use usect_core::histogram::Histogram;
use usect_core::measurement::Measurement;
use usect_core::stall::SpanLog;
use usect_port::client::Probe;

/// An interface by what the kernel knows it by everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Index in its namespace.
    pub ifindex: u32,
    /// Inode of its namespace.
    pub netns: u32,
}

/// What in a frame tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The IP identification: 16 bits, payload unread.
    Identification,
    /// The sequence number of the signature in the payload: 32 bits.
    Signature,
}

/// Where and what to tap.
#[derive(Debug, Clone, Copy)]
pub struct Wiretap {
    /// The interface that transmits into the DUT.
    pub into: Point,
    /// The interface that transmits what leaves it.
    pub out: Point,
    /// The flow as it enters.
    pub flow: Flow,
    /// The flow as it leaves: the same, or reversed where a round trip is tapped.
    pub leaving: Flow,
    /// How frames are told apart.
    pub key: Key,
    /// Frames below this number are the warm-up.
    pub measure_from: u64,
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
}

/// Attached taps; detached when dropped.
pub struct Tap {
    _links: [OwnedFd; 2],
    state: Arc<Mapped<State>>,
    measure_from: u64,
}

impl Tap {
    /// Loads and attaches the taps. They count from now on.
    pub fn attach(what: &Wiretap) -> Result<Tap, XdpError> {
        let mut object = MaybeUninit::uninit();
        let mut open = TapSkelBuilder::default().open(&mut object).map_err(|e| XdpError::bpf("opening the tap", e))?;
        let config = &mut open.maps.rodata_data.as_mut().expect("the tap has constants").config;
        (config.r#in.ifindex, config.r#in.netns) = (what.into.ifindex, what.into.netns);
        (config.out.ifindex, config.out.netns) = (what.out.ifindex, what.out.netns);
        for (slot, flow) in [(&mut config.in_flow, &what.flow), (&mut config.out_flow, &what.leaving)] {
            (slot.source, slot.destination, slot.source_port, slot.destination_port) = network_order(flow);
        }
        config.key_is_id = u32::from(what.key == Key::Identification);
        config.measure_from = what.measure_from;
        let skel = open.load().map_err(|e| XdpError::bpf("loading the tap (it needs a kernel with BTF)", e))?;
        let links = [attach(&skel.progs.tap_skb)?, attach(&skel.progs.tap_xdp)?];
        let state = Arc::new(Mapped::new(skel.maps.bss.as_fd(), skel.maps.bss.value_size() as usize)?);
        Ok(Tap { _links: links, state, measure_from: what.measure_from })
    }

    /// A window on what it sees.
    pub fn probe(&self) -> Arc<dyn Probe> {
        self.state.clone()
    }

    /// What it saw, and the slow samples among it on `CLOCK_MONOTONIC`.
    pub fn finish(self) -> (Measurement, SpanLog) {
        let stamps = &self.state.stamps;
        let measurement = Measurement {
            counts: stamps.counts(self.measure_from),
            latency: Histogram::from_counts(&stamps.latency()),
            notes: vec!["eBPF taps at both of the DUT's interfaces, every frame, CLOCK_MONOTONIC".into()],
            ..Measurement::default()
        };
        (measurement, stamps.slow())
    }
}

fn attach(program: &ProgramMut<'_>) -> Result<OwnedFd, XdpError> {
    let what = "attaching the tap to the veth driver (it needs CONFIG_FUNCTION_TRACER and the veth module)";
    let link = program.attach().map_err(|e| XdpError::bpf(what, e))?;
    link.as_fd().try_clone_to_owned().map_err(|e| XdpError::os(what, &e))
}
