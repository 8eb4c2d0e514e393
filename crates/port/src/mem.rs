//! A port inside the process, lossless and in order: what the paced loop, the wrappers and the
//! forwarder are tested with.

use crate::{BATCH, Caps, Port, Receive, Transmit};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use usect_core::frame::HEADERS;
use usect_core::instant::Tsc;

type Wire = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// The sending end of a wire.
pub struct MemTx {
    wire: Wire,
    buffer: Vec<u8>,
    caps: Caps,
}

/// The receiving end of a wire.
pub struct MemRx {
    wire: Wire,
    caps: Caps,
}

/// Two ports, each of which receives what the other sends.
pub fn pair() -> (Port<MemTx, MemRx>, Port<MemTx, MemRx>) {
    let (there, back) = (Wire::default(), Wire::default());
    let port = |tx: &Wire, rx: &Wire| Port {
        tx: MemTx { wire: tx.clone(), buffer: vec![0; 9216], caps: caps() },
        rx: MemRx { wire: rx.clone(), caps: caps() },
    };
    (port(&there, &back), port(&back, &there))
}

fn caps() -> Caps {
    Caps { payload_at: HEADERS, blocks: false, note: "in-process ring".into() }
}

impl Transmit for MemTx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn prepare(&mut self, template: &[u8]) {
        self.buffer[..template.len()].copy_from_slice(template);
    }

    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        let mut sent = 0;
        while sent < BATCH {
            let Some(len) = fill(&mut self.buffer) else { break };
            self.wire.lock().expect("no holder panics").push_back(self.buffer[..len].to_vec());
            sent += 1;
        }
        Ok(sent)
    }
}

impl Receive for MemRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn recv(&mut self, mut each: impl FnMut(&[u8], Tsc)) -> io::Result<usize> {
        let mut wire = self.wire.lock().expect("no holder panics");
        let now = usect_clock::tsc();
        let arrived = wire.len().min(BATCH);
        wire.drain(..arrived).for_each(|frame| each(&frame, now));
        Ok(arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        let (mut a, mut b) = pair();
        crate::conformance::check(&mut a.tx, &mut b.rx);
        crate::conformance::check(&mut b.tx, &mut a.rx);
    }
}
