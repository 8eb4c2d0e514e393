//! A piece of work that is turned round and round until it is told to stop: by a thread of its own, or by a client's
//! receiving thread beside its own work.

use crate::{DutError, Imposed, Report, ThreadWatch};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::JoinHandle;
use usect_clock::Clock;
use usect_clock::watch::Watch;
use usect_port::Beside;

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
    /// Says what was done; what a fault held back is sent, what is still on its way is not.
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

/// Who turns the work of a DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// A thread of its own, on a core or wherever the scheduler likes.
    Own(Option<usize>),
    /// The client's receiving thread, between its own turns.
    Receiver,
}

/// The running work; dropping it stops it.
pub(crate) struct Spinning {
    what: &'static str,
    place: Place,
}

enum Place {
    Thread { stop: Arc<AtomicBool>, thread: Option<JoinHandle<io::Result<Report>>> },
    Guest { guest: Option<Box<dyn Beside>>, report: mpsc::Receiver<io::Result<Report>> },
}

impl Spinning {
    /// Starts turning, or leaves that to whoever takes [`Spinning::guest`].
    pub(crate) fn start(what: &'static str, clock: Clock, seat: Seat, work: impl Work) -> Spinning {
        let Seat::Own(core) = seat else {
            let (sender, report) = mpsc::channel();
            let guest: Box<dyn Beside> = Box::new(Guest { work: Some(work), report: sender });
            return Spinning { what, place: Place::Guest { guest: Some(guest), report } };
        };
        let stop: Arc<AtomicBool> = Arc::default();
        let watched_stop = stop.clone();
        let thread = std::thread::spawn(move || spin(what, &clock, core, work, &watched_stop));
        Spinning { what, place: Place::Thread { stop, thread: Some(thread) } }
    }

    /// The work, where another thread is to turn it; it reports when it is dropped.
    pub(crate) fn guest(&mut self) -> Option<Box<dyn Beside>> {
        match &mut self.place {
            Place::Thread { .. } => None,
            Place::Guest { guest, .. } => guest.take(),
        }
    }

    /// Whether its thread has ended without being told to.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&self.place, Place::Thread { thread: Some(thread), .. } if thread.is_finished())
    }

    /// Stops it and returns what it did. A guest was dropped before.
    pub(crate) fn stop(mut self) -> Result<Report, DutError> {
        let result = match &mut self.place {
            Place::Thread { stop, thread } => {
                stop.store(true, Relaxed);
                let thread = thread.take().expect("only stop and drop take it");
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Place::Guest { guest, report } => {
                drop(guest.take());
                report.recv().expect("a guest that is dropped reports")
            }
        };
        result.map_err(|source| DutError::Stopped { what: self.what, source })
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        if let Place::Thread { stop, thread } = &mut self.place {
            stop.store(true, Relaxed);
            // Its result is of no interest to whoever drops it instead of stopping it.
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

/// Work in another's thread.
struct Guest<W: Work> {
    work: Option<W>,
    report: mpsc::Sender<io::Result<Report>>,
}

impl<W: Work> Beside for Guest<W> {
    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        self.work.as_mut().map_or(Ok(0), Work::turn)
    }
}

impl<W: Work> Drop for Guest<W> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // Its thread is the client's, and so is the watch on it.
        let report =
            work.finish().map(|Done { counts, imposed }| Report { done: counts, watches: Vec::new(), imposed });
        // Nobody listens where the trial failed.
        let _ = self.report.send(report);
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
