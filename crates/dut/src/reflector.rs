//! The far end of a round trip: sends every frame or datagram of a port straight back.

use crate::spinning::{Done, Seat, Spinning, Work};
use crate::stream::Stream;
use crate::{Dut, DutError, Report};
use std::io;
use usect_clock::Clock;
use usect_port::{Port, Receive, Transmit};

/// The running reflector, one thread; it spins or blocks as its port does.
pub struct Reflector(Spinning);

impl Reflector {
    /// Starts reflecting.
    pub fn start<T, R>(clock: Clock, core: Option<usize>, port: Port<T, R>) -> Reflector
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let alter = if port.rx.caps().frames { turn_round } else { |_: &mut [u8]| () };
        let echo = Echo { stream: Stream::new(port.rx, port.tx, alter), reflected: 0 };
        Reflector(Spinning::start("reflector", clock, Seat::Own(core), echo))
    }
}

impl Dut for Reflector {
    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        self.0.stop()
    }
}

struct Echo<T, R> {
    stream: Stream<T, R>,
    reflected: u64,
}

impl<T: Transmit + 'static, R: Receive + 'static> Work for Echo<T, R> {
    fn blocks(&self) -> bool {
        self.stream.blocks()
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        let count = self.stream.turn()?;
        self.reflected += count as u64;
        Ok(count)
    }

    fn finish(self) -> io::Result<Done> {
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
