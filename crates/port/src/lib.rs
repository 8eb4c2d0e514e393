//! Ports: the way in and out of the host, and the one paced loop that measures through any of them.
//!
//! A port has two independent halves, because every engine has (two rings, two queues, two
//! directions of a socket) and because the two ends of a measurement sit in different threads.

pub mod client;
pub mod conformance;
mod error;
pub mod fault;
pub mod flood;
mod live;
pub mod mem;
mod paced;
pub mod packet;
mod pin;
pub mod udp;

pub use error::ClientError;
pub use pin::pin;
use std::io;
use usect_core::instant::Tsc;

/// Frames that a half hands over in one call, at the most.
pub const BATCH: usize = 32;

/// What a half was proved to be able to do when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Where the payload begins in what `fill` and `each` see: 0 for datagrams, 42 for whole frames.
    pub payload_at: usize,
    /// Whether [`Receive::recv`] waits in the kernel: its thread can't tell a stall from a wait.
    pub blocks: bool,
    /// What a reader of the result should know (`AF_XDP, copy mode`).
    pub note: String,
}

impl Caps {
    /// Whether the half carries whole frames rather than datagrams.
    pub fn frames(&self) -> bool {
        self.payload_at > 0
    }
}

/// Which frames of an interface a port receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// None: the port only sends.
    Nothing,
    /// Those to one UDP port.
    UdpPort(u16),
    /// All of them.
    All,
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
}

/// The receiving half of a port.
pub trait Receive: Send {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// Hands over what has arrived, at most [`BATCH`] frames, each with the instant at which it was
    /// found. Returns how many. A blocking half waits for the first, up to 50 ms.
    fn recv(&mut self, each: impl FnMut(&[u8], Tsc)) -> io::Result<usize>;
}

/// Both halves of an open port.
pub struct Port<T, R> {
    /// To send through.
    pub tx: T,
    /// To receive through.
    pub rx: R,
}
