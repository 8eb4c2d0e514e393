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

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use usect_core::buckets::Recorder;
use usect_core::histogram::Histogram;

/// How long is observed, and who looks on.
pub struct Observation<'a> {
    /// The clock.
    pub clock: &'a Clock,
    /// How long.
    pub lasts: Duration,
    /// Ends it early.
    pub stop: &'a AtomicBool,
    /// Told several times a second: the share that is over, and what was found so far.
    pub progress: &'a mut (dyn FnMut(f64, &Recorder) + Send),
}

/// Does something on a thread of its own that is pinned to a core.
///
/// Errors: there is no such core for this process.
pub fn on_core<T: Send>(core: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let pinned = || usect_port::pin(core).map(|()| work());
        scope.spawn(pinned).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How often somebody who looks on is told.
const TOLD: Duration = Duration::from_millis(250);

impl Observation<'_> {
    /// Calls `batch` until the time is over. A batch records what it measured; looking on happens between two of them, where nothing is
    /// measured.
    ///
    /// Errors: those of `batch`.
    fn observe<E>(&mut self, mut batch: impl FnMut(&Recorder) -> Result<(), E>) -> Result<Histogram, E> {
        let recorder = Recorder::default();
        let rate = self.clock.rate();
        let begun = self.clock.now().0;
        let (end, mut told) = (rate.ticks(self.lasts.as_nanos() as u64), 0);
        loop {
            let elapsed = self.clock.now().0 - begun;
            if elapsed - told > rate.ticks(TOLD.as_nanos() as u64) {
                told = elapsed;
                (self.progress)((elapsed as f64 / end.max(1) as f64).min(1.0), &recorder);
            }
            if elapsed >= end || self.stop.load(Relaxed) {
                return Ok(Histogram::from_counts(&recorder.counts()));
            }
            batch(&recorder)?;
        }
    }
}
