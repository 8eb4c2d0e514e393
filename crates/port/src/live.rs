//! What the threads of a packet client share: the plan of the trial, and its counters as it runs.

use crate::route::Joint;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, Release},
};
use usect_core::buckets::Recorder;
use usect_core::frame::{Flow, HeaderSum};
use usect_core::instant::Tsc;
use usect_core::trial::Traffic;

/// A window on a running measurement, read by another thread.
pub trait Probe: Send + Sync {
    /// Frames sent so far, warm-up included.
    fn sent(&self) -> u64;
    /// Measured frames received so far.
    fn received(&self) -> u64;
    /// Latency so far, as counts per bucket.
    fn latency(&self) -> Vec<u64>;
}

/// Counters of a running packet client, shared between its threads and its probe.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) latency: Recorder,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// One past the highest frame number that arrived: what ping-pong waits for.
    pub(crate) arrived: AtomicU64,
    pub(crate) last_departure: AtomicU64,
    pub(crate) sending_done: AtomicBool,
    /// Nobody receives any more, so nothing more need be sent.
    pub(crate) receiver_gone: AtomicBool,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Live {
    /// Whether sending should end before the schedule does.
    #[inline]
    pub(crate) fn cut_short(&self) -> bool {
        self.stop.load(Relaxed) || self.receiver_gone.load(Relaxed)
    }

    /// Nothing more will leave: the wait for residual frames begins. Only the first call counts.
    pub(crate) fn end_of_sending(&self, now: Tsc) {
        if !self.sending_done.load(Relaxed) {
            self.last_departure.store(now.0, Relaxed);
            self.sending_done.store(true, Release);
        }
    }
}

impl Probe for Live {
    fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    fn latency(&self) -> Vec<u64> {
        self.latency.counts()
    }
}

/// What both halves of the paced loop need to know.
pub(crate) struct Plan {
    /// What is sent.
    pub(crate) flow: Flow,
    /// What is expected to arrive: the same, or the way back.
    pub(crate) expected: Flow,
    pub(crate) traffic: Traffic,
    /// Tells this trial's frames from another's.
    pub(crate) nonce: u16,
    pub(crate) payload_at: usize,
    /// Of the header that every frame begins with.
    pub(crate) sum: HeaderSum,
    /// Stamps of others than the client.
    pub(crate) joint: Option<Joint>,
}
