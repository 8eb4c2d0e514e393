//! Parts of a host, measured by themselves, without a network (paper 002 §2): how long it takes to read time, to pass a message
//! between two processes, to read a device across its bus, to ask a server on the same host. Each takes the time with the counter
//! of the processor, and keeps what it found in buckets, so that an observation may last for hours.
#![forbid(unsafe_code)]

pub mod cold;
pub mod ipc;
pub mod memcached;
pub mod pci;
pub mod tsc;

pub use usect_clock::Clock;
pub use usect_port::pin;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use usect_core::buckets::Recorder;
use usect_core::histogram::Histogram;

/// How long is observed, and where what is found goes.
pub struct Observation<'a> {
    /// The clock.
    pub clock: &'a Clock,
    /// How long.
    pub lasts: Duration,
    /// Ends it early.
    pub stop: &'a AtomicBool,
    /// What was found so far, which others may look at meanwhile.
    pub recorder: &'a Recorder,
}

impl Observation<'_> {
    /// Calls `batch` until the time is over. A batch records what it measured.
    ///
    /// Errors: those of `batch`.
    fn observe<E>(&self, mut batch: impl FnMut(&Recorder) -> Result<(), E>) -> Result<Histogram, E> {
        let begun = self.clock.now().0;
        let lasts = self.clock.rate().ticks(self.lasts.as_nanos() as u64);
        while self.clock.now().0 - begun < lasts && !self.stop.load(Relaxed) {
            batch(self.recorder)?;
        }
        Ok(Histogram::from_counts(&self.recorder.counts()))
    }
}
