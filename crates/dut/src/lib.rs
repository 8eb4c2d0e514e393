//! What is measured: forwarders, the bridge, reflectors. Each is started, watched while it runs, and
//! stopped by its guard.

mod bridge;
mod forwarder;
pub mod ovs;
mod redirect;
mod reflector;
mod spinning;
mod spool;
mod stream;

pub use bridge::Bridge;
pub use forwarder::{Forwarder, Seats};
pub use ovs::OpenVSwitch;
pub use redirect::Redirect;
pub use reflector::{Passed, Reflector, Remember};
pub use spinning::Seat;
pub use spool::{Selection, Spool};

use usect_clock::watch::Watch;
use usect_core::histogram::Histogram;
use usect_core::stall::SpanLog;
use usect_port::Beside;

/// A running device under test. Dropping it stops it.
pub trait Dut {
    /// Its work, where the client's receiving thread is to do it; to be dropped before it is stopped.
    fn guest(&mut self) -> Option<Box<dyn Beside>> {
        None
    }

    /// Whether its thread has ended by itself, which it does only where it failed: stopping it says why.
    fn has_ended(&self) -> bool {
        false
    }

    /// Stops it, and returns what it did and what its threads saw.
    fn stop(self: Box<Self>) -> Result<Report, DutError>;
}

/// What a DUT did while it ran.
#[derive(Debug, Default)]
pub struct Report {
    /// Name and number: frames forwarded, faults imposed.
    pub done: Vec<(String, u64)>,
    /// What its spinning threads saw of the platform since they were started.
    pub watches: Vec<ThreadWatch>,
    /// The delay that it gave each frame from sender to receiver, where it knows.
    pub imposed: Option<Imposed>,
}

/// The delay that a DUT gave each frame.
#[derive(Debug)]
pub struct Imposed {
    /// In nanoseconds.
    pub latency: Histogram,
    /// Frames that it held for 10 µs and more, on the counter: a stall may have touched them.
    pub slow: SpanLog,
}

/// A spinning thread's watch, still on the counter.
#[derive(Debug)]
pub struct ThreadWatch {
    /// The thread: `forwarder`, `reflector`.
    pub thread: &'static str,
    /// The core it was pinned to, if it was.
    pub core: Option<usize>,
    /// What it saw.
    pub watch: Watch,
}

/// Why a DUT could not be started or failed. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum DutError {
    /// Setting up its interfaces failed.
    #[error(transparent)]
    Lab(#[from] usect_lab::LabError),
    /// The kernel refused its program.
    #[error("the XDP forwarder could not be {doing}: {why}")]
    Program {
        /// What was being done.
        doing: &'static str,
        /// The kernel's or libbpf's answer.
        why: String,
    },
    /// A port failed while it ran.
    #[error("the {what} stopped: {source}")]
    Stopped {
        /// Which DUT.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// A bare wire: nothing at all between the two taps of an interface pair.
#[derive(Debug)]
pub struct Wire;

impl Dut for Wire {
    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        Ok(Report::default())
    }
}
