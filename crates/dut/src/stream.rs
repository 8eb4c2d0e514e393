//! One direction of a forwarder or reflector: bursts from a receiving half to a sending half.

use std::io;
use usect_port::{BATCH, Found, Receive, Transmit};

/// Largest frame of any port.
const LARGEST: usize = 9216;

/// Moves frames, altering each on its way.
pub(crate) struct Stream<T, R> {
    from: R,
    pub(crate) to: T,
    burst: Vec<Vec<u8>>,
    alter: fn(&mut [u8]),
}

impl<T: Transmit, R: Receive> Stream<T, R> {
    pub(crate) fn new(from: R, to: T, alter: fn(&mut [u8])) -> Stream<T, R> {
        Stream { from, to, burst: (0..BATCH).map(|_| Vec::with_capacity(LARGEST)).collect(), alter }
    }

    /// Whether a turn may wait in the kernel.
    pub(crate) fn blocks(&self) -> bool {
        self.from.caps().blocks
    }

    /// Moves one burst and returns its size.
    #[inline]
    pub(crate) fn turn(&mut self) -> io::Result<usize> {
        self.turn_and_show(|_, _| ())
    }

    /// The same, and shows each frame as it came.
    #[inline]
    pub(crate) fn turn_and_show(&mut self, mut show: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        let Stream { from, to, burst, alter } = self;
        let mut waiting = burst.iter_mut();
        let count = from.recv(|frame, found| {
            show(frame, found);
            let copy = waiting.next().expect("a batch is at most BATCH frames");
            copy.clear();
            copy.extend_from_slice(frame);
            alter(copy);
        })?;
        let mut left = burst[..count].iter().peekable();
        while left.peek().is_some() {
            to.send(|buffer| {
                let frame = left.next()?;
                buffer[..frame.len()].copy_from_slice(frame);
                Some(frame.len())
            })?;
        }
        Ok(count)
    }
}
