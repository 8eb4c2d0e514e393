//! Ports: the way in and out of the host, and the one paced loop that measures through any of them.
//!
//! A port has two independent halves, because every engine has (two rings, two queues, two
//! directions of a socket) and because the two ends of a measurement sit in different threads.

mod arrivals;
pub mod card;
pub mod client;
pub mod conformance;
mod error;
pub mod fault;
pub mod flood;
pub mod lanes;
pub mod late;
mod live;
pub mod mem;
mod numbered;
mod paced;
pub mod packet;
mod pin;
pub mod probes;
mod route;
mod sockopt;
mod stamping;
pub mod udp;

pub use error::ClientError;
pub use pin::pin;
pub use route::{Cards, Route, Taps};
use std::io;
use usect_core::instant::Tsc;
use usect_core::stages::Point;
use usect_core::template::Word;

/// Frames that a half hands over in one call, at the most.
pub const BATCH: usize = 32;

/// What a half was proved to be able to do when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Whether `fill` and `each` see whole frames, without FCS, or the payload of datagrams.
    pub frames: bool,
    /// Whether [`Receive::recv`] waits in the kernel: its thread can't tell a stall from a wait.
    pub blocks: bool,
    /// What a reader of the result should know (`AF_XDP, copy mode`).
    pub note: String,
    /// Where frames through this half are stamped besides the engine's own stamp.
    pub stamps: Vec<Point>,
}

/// Which frames of an interface a port receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// None: the port only sends.
    Nothing,
    /// Those that have these words.
    Only(Vec<Word>),
    /// All of them.
    All,
}

/// When a frame was found, and who else stamped it on its way in: each in nanoseconds of its own clock, 0 where
/// nobody did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// By the engine.
    pub at: Tsc,
    /// By the card, on its own clock.
    pub card: u64,
    /// By the XDP program, on `CLOCK_MONOTONIC`.
    pub driver: u64,
    /// By the stack, on `CLOCK_REALTIME`.
    pub kernel: u64,
}

impl Found {
    /// By the engine alone.
    #[inline]
    pub fn at(at: Tsc) -> Found {
        Found { at, card: 0, driver: 0, kernel: 0 }
    }
}

/// A stamp that a frame got on its way out, after the engine's own, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outward {
    /// At the entry of the queueing discipline, on `CLOCK_REALTIME`.
    Queued(u64),
    /// By the driver, on `CLOCK_REALTIME`.
    Driver(u64),
    /// By the card, on its own clock.
    Card(u64),
}

/// The sending half of a port.
pub trait Transmit: Send {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// Puts `template` into every send buffer, so that `fill` need only write what changes.
    fn prepare(&mut self, template: &[u8]);

    /// Sends what `fill` writes: it is called with a buffer as long as there is room and it returns
    /// a length, at most [`BATCH`] times. Returns how many left. Every frame that was filled leaves,
    /// in order, directly after it was filled or with the rest of the batch.
    fn send(&mut self, fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize>;

    /// Hands over stamps of frames that have left, each with the frame's number in order of sending, from 0 since the
    /// port was opened, and wrapping. Returns how many. They may come late, in any order, or not at all.
    fn reap(&mut self, each: &mut dyn FnMut(u32, Outward)) -> io::Result<usize> {
        let _ = each;
        Ok(0)
    }
}

/// The receiving half of a port.
pub trait Receive: Send {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// Hands over what has arrived, at most [`BATCH`] frames, each with the instant at which it was
    /// found. Returns how many. A blocking half waits for the first, up to 50 ms.
    fn recv(&mut self, each: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        self.recv_some(BATCH, each)
    }

    /// The same, at most so many frames; drivers of DPDK may want four or more.
    fn recv_some(&mut self, most: usize, each: impl FnMut(&[u8], Found)) -> io::Result<usize>;

    /// Frames that came this far and found no room in the port's own queue, since it was opened; `None` where
    /// nobody counts them.
    fn overruns(&mut self) -> Option<u64> {
        None
    }
}

/// Work that a receiving thread does between its turns: a device under test that has no core of its own.
pub trait Beside: Send {
    /// Handles what is there and returns how many frames that were.
    fn turn(&mut self) -> io::Result<usize>;
}

/// Both halves of an open port.
pub struct Port<T, R> {
    /// To send through.
    pub tx: T,
    /// To receive through.
    pub rx: R,
}
