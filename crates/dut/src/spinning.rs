//! A thread that turns a piece of work round and round on its core until it is told to stop.

use crate::{DutError, Imposed, Report, ThreadWatch};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use usect_clock::Clock;
use usect_clock::watch::Watch;

/// What a DUT's thread did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Name and number.
    pub(crate) counts: Vec<(String, u64)>,
    pub(crate) imposed: Option<Imposed>,
}

/// What a DUT's thread does.
pub(crate) trait Work: Send + 'static {
    /// Whether a turn may wait in the kernel, so that a long one is no stall.
    fn blocks(&self) -> bool;
    /// Handles what is there and returns how many frames that were.
    fn turn(&mut self) -> io::Result<usize>;
    /// Sends what is still held back and says what was done.
    fn finish(self) -> io::Result<Done>;
}

/// Two pieces of work in one thread.
impl<A: Work, B: Work> Work for (A, B) {
    fn blocks(&self) -> bool {
        self.0.blocks() || self.1.blocks()
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        Ok(self.0.turn()? + self.1.turn()?)
    }

    fn finish(self) -> io::Result<Done> {
        let (mut first, mut second) = (self.0.finish()?, self.1.finish()?);
        first.counts.append(&mut second.counts);
        Ok(Done { imposed: first.imposed.or(second.imposed), ..first })
    }
}

/// The running thread; dropping it stops it.
pub(crate) struct Spinning {
    what: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

impl Spinning {
    /// Starts turning on a core, or wherever the scheduler likes.
    pub(crate) fn start(what: &'static str, clock: Clock, core: Option<usize>, work: impl Work) -> Spinning {
        let stop: Arc<AtomicBool> = Arc::default();
        let watched_stop = stop.clone();
        let thread = std::thread::spawn(move || spin(what, &clock, core, work, &watched_stop));
        Spinning { what, stop, thread: Some(thread) }
    }

    /// Stops it and returns what it did.
    pub(crate) fn stop(mut self) -> Result<Report, DutError> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().expect("only stop and drop take it");
        let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(|source| DutError::Stopped { what: self.what, source })
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its result is of no interest to whoever drops it instead of stopping it.
            let _ = thread.join();
        }
    }
}

fn spin(
    what: &'static str,
    clock: &Clock,
    core: Option<usize>,
    mut work: impl Work,
    stop: &AtomicBool,
) -> io::Result<Report> {
    core.map_or(Ok(()), usect_port::pin)?;
    let mut watch = Watch::new(clock);
    let mut handled = 0;
    while !stop.load(Relaxed) {
        // What it handles, it receives and sends on.
        watch.turn(clock.now(), handled, handled);
        handled = work.turn()?;
    }
    let spins = !work.blocks();
    let watches = spins.then_some(ThreadWatch { thread: what, core, watch }).into_iter().collect();
    let Done { counts, imposed } = work.finish()?;
    Ok(Report { done: counts, watches, imposed })
}
