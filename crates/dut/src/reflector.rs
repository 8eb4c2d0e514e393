//! The far end of a round trip: sends every frame or datagram of a port straight back.

use crate::spinning::{Done, Seat, Spinning, Work};
use crate::stream::Stream;
use crate::{Dut, DutError, Report};
use std::io;
use std::sync::mpsc;
use usect_clock::Clock;
use usect_core::frame::HEADERS;
use usect_core::instant::Tsc;
use usect_core::signature::Signature;
use usect_port::{Found, Port, Receive, Transmit};

/// The running reflector, one thread; it spins or blocks as its port does.
pub struct Reflector {
    running: Spinning,
    passed: mpsc::Receiver<Vec<Passed>>,
}

/// A frame that was sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Its number.
    pub sequence: u32,
    /// When it had left, on its sender's clock: what it carries.
    pub departure: u64,
    /// When it was found here.
    pub at: Tsc,
}

/// Frames that are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remember {
    /// Number of the first.
    pub from: u32,
    /// Every how manieth from there on; at least 1.
    pub every: u32,
    /// How many at the most.
    pub most: usize,
}

impl Reflector {
    /// Starts reflecting.
    pub fn start<T, R>(clock: Clock, core: Option<usize>, port: Port<T, R>) -> Reflector
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        Reflector::remembering(clock, core, port, Remember { from: 0, every: 1, most: 0 })
    }

    /// The same, and remembers when some frames passed.
    pub fn remembering<T, R>(clock: Clock, core: Option<usize>, port: Port<T, R>, remember: Remember) -> Reflector
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let frames = port.rx.caps().frames;
        let (home, passed) = mpsc::channel();
        let memory = Memory {
            remember,
            payload: if frames { HEADERS } else { 0 },
            passed: Vec::with_capacity(remember.most),
            home,
        };
        let alter = if frames { turn_round } else { |_: &mut [u8]| () };
        let echo = Echo { stream: Stream::new(port.rx, port.tx, alter), reflected: 0, memory };
        Reflector { running: Spinning::start("reflector", clock, Seat::Own(core), echo), passed }
    }

    /// Stops it, and returns what it remembers.
    ///
    /// Errors: its port failed.
    pub fn recall(self) -> Result<Vec<Passed>, DutError> {
        self.running.stop()?;
        Ok(self.passed.recv().unwrap_or_default())
    }
}

impl Dut for Reflector {
    fn has_ended(&self) -> bool {
        self.running.has_ended()
    }

    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        self.running.stop()
    }
}

/// What passed, as far as it is remembered.
struct Memory {
    remember: Remember,
    /// Where a frame's payload begins.
    payload: usize,
    passed: Vec<Passed>,
    home: mpsc::Sender<Vec<Passed>>,
}

impl Memory {
    #[inline]
    fn saw(&mut self, frame: &[u8], found: Found) {
        let Memory { remember: Remember { from, every, most }, payload, passed, .. } = self;
        if passed.len() >= *most {
            return;
        }
        let Some(signature) = frame.get(*payload..).and_then(Signature::read_unchecked) else { return };
        if signature.sequence.checked_sub(*from).is_some_and(|beyond| beyond.is_multiple_of(*every)) {
            let Signature { sequence, departure } = signature;
            passed.push(Passed { sequence, departure: departure.at, at: found.at });
        }
    }
}

struct Echo<T, R> {
    stream: Stream<T, R>,
    reflected: u64,
    memory: Memory,
}

impl<T: Transmit + 'static, R: Receive + 'static> Work for Echo<T, R> {
    fn blocks(&self) -> bool {
        self.stream.blocks()
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        let Echo { stream, memory, .. } = self;
        match stream.turn_and_show(|frame, found| memory.saw(frame, found)) {
            Ok(count) => {
                self.reflected += count as u64;
                Ok(count)
            }
            // What was sent back came when nobody waited for it any more.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(0),
            Err(e) => Err(e),
        }
    }

    fn finish(self) -> io::Result<Done> {
        // Nobody listens where nobody asks.
        let _ = self.memory.home.send(self.memory.passed);
        Ok(Done { counts: vec![("reflected".into(), self.reflected)], imposed: None })
    }
}

/// Swaps source and destination of an Ethernet, IPv4, UDP frame. Sums don't depend on the order of words,
/// so no checksum changes.
fn turn_round(frame: &mut [u8]) {
    if frame.len() < 42 {
        return;
    }
    let (destination, source) = frame.split_at_mut(6);
    destination.swap_with_slice(&mut source[..6]);
    let (source, destination) = frame[26..34].split_at_mut(4);
    source.swap_with_slice(destination);
    let (source, destination) = frame[34..38].split_at_mut(2);
    source.swap_with_slice(destination);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;
    use usect_core::frame::{Endpoint, Flow, FrameSize};
    use usect_core::template::Template;

    #[test]
    fn a_reflected_frame_belongs_to_the_way_back() {
        let end =
            |n: u8| Endpoint { mac: [n; 6], address: SocketAddrV4::new([198, 18, 0, n].into(), 9000 + u16::from(n)) };
        let flow = Flow { source: end(1), destination: end(2) };
        let mut frame = Template::plain(&flow, FrameSize::MIN);
        turn_round(&mut frame);
        assert_eq!(frame, Template::plain(&flow.reversed(), FrameSize::MIN));
        turn_round(&mut [0; 20]);
    }
}
