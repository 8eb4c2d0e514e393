//! The `mem` engine: rings inside the process, lossless and in order. No kernel, no interface: what is left of
//! a measurement is the instrument itself, so this is the reference for all others.

mod ring;

use crate::{BATCH, Caps, Found, Port, Receive, Transmit};
use ring::{Putter, Taker};
use std::io;

/// The sending end of a wire.
pub struct MemTx {
    ring: Putter,
    caps: Caps,
}

/// The receiving end of a wire.
pub struct MemRx {
    ring: Taker,
    caps: Caps,
}

/// A port of this engine.
pub type MemPort = Port<MemTx, MemRx>;

/// Two ports, each of which receives what the other sends, for frames of up to `largest` bytes without FCS.
pub fn pair(largest: usize) -> (MemPort, MemPort) {
    let ((there_in, there_out), (back_in, back_out)) = (ring::ring(largest), ring::ring(largest));
    let port = |tx, rx| Port { tx: MemTx { ring: tx, caps: caps() }, rx: MemRx { ring: rx, caps: caps() } };
    (port(there_in, back_out), port(back_in, there_out))
}

fn caps() -> Caps {
    Caps { frames: true, blocks: false, note: "ring inside the process".into(), stamps: Vec::new() }
}

impl Transmit for MemTx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn prepare(&mut self, template: &[u8]) {
        self.ring.prepare(template);
    }

    #[inline]
    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let mut sent = 0;
        while sent < BATCH {
            let Some(length) = self.ring.free().and_then(&mut fill) else { break };
            self.ring.put(length);
            sent += 1;
        }
        Ok(sent)
    }
}

impl Receive for MemRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn recv_some(&mut self, most: usize, mut each: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        let waiting = self.ring.waiting(most.min(BATCH));
        if waiting > 0 {
            let now = Found::at(usect_clock::tsc());
            self.ring.take(waiting, |frame| each(frame, now));
        }
        Ok(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        let (mut a, mut b) = pair(1514);
        crate::conformance::check(&mut a.tx, &mut b.rx);
        crate::conformance::check(&mut b.tx, &mut a.rx);
    }

    #[test]
    fn every_frame_passes_between_two_threads() {
        let (a, mut b) = pair(60);
        let mut tx = a.tx;
        let total = 200_000_u32;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                while next < total {
                    tx.send(|room| {
                        (next < total).then(|| {
                            room[..4].copy_from_slice(&next.to_le_bytes());
                            next += 1;
                            60
                        })
                    })
                    .unwrap();
                    std::thread::yield_now();
                }
            });
            let mut expected = 0;
            while expected < total {
                b.rx.recv(|frame, _| {
                    assert_eq!(frame[..4], expected.to_le_bytes());
                    expected += 1;
                })
                .unwrap();
            }
        });
    }
}
