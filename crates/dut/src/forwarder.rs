//! A port forwarder in user space: two streams in opposite directions between any two ports (paper 000
//! §3.2), with faults on the way out if they are wanted.

use crate::spinning::{Done, Seat, Spinning, Work};
use crate::stream::Stream;
use crate::{Dut, DutError, Report};
use std::io;
use usect_clock::Clock;
use usect_core::scenario::Faults;
use usect_port::fault::Faulty;
use usect_port::{Beside, Port, Receive, Transmit};

/// Who turns the two streams of a forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seats {
    /// One for both.
    One(Seat),
    /// A thread on a core for what goes from left to right, and one for what comes back.
    Two(Option<usize>, Option<usize>),
}

/// The running forwarder: one spinning thread for both streams, or one for each.
pub struct Forwarder(Vec<Spinning>);

impl Forwarder {
    /// Starts forwarding between two ports. `faults` hits what goes from `left` to `right`.
    pub fn start<T, R>(clock: Clock, seats: Seats, left: Port<T, R>, right: Port<T, R>, faults: Faults) -> Forwarder
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let there = There(Stream::new(left.rx, Faulty::new(right.tx, faults), |_| ()));
        let back = Back { stream: Stream::new(right.rx, left.tx, |_| ()), returned: 0 };
        Forwarder(match seats {
            Seats::Two(core, of_back) => vec![
                Spinning::start("forwarder", clock, Seat::Own(core), there),
                Spinning::start("forwarder back", clock, Seat::Own(of_back), back),
            ],
            Seats::One(seat) => vec![Spinning::start("forwarder", clock, seat, (there, back))],
        })
    }
}

impl Dut for Forwarder {
    fn guest(&mut self) -> Option<Box<dyn Beside>> {
        self.0.iter_mut().find_map(Spinning::guest)
    }

    fn has_ended(&self) -> bool {
        self.0.iter().any(Spinning::has_ended)
    }

    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        let mut whole = Report::default();
        for thread in self.0 {
            let mut report = thread.stop()?;
            whole.done.append(&mut report.done);
            whole.watches.append(&mut report.watches);
        }
        Ok(whole)
    }
}

/// From left to right.
struct There<T, R>(Stream<Faulty<T>, R>);

impl<T: Transmit + 'static, R: Receive + 'static> Work for There<T, R> {
    fn blocks(&self) -> bool {
        self.0.blocks()
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        self.0.turn()
    }

    fn finish(mut self) -> io::Result<Done> {
        self.0.to.flush()?;
        let done = self.0.to.done();
        let counts = [
            ("forwarded", done.frames),
            ("dropped", done.dropped),
            ("duplicated", done.duplicated),
            ("swapped pairs", done.swapped),
            ("corrupted", done.corrupted),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into();
        Ok(Done { counts, imposed: None })
    }
}

/// From right to left.
struct Back<T, R> {
    stream: Stream<T, R>,
    returned: u64,
}

impl<T: Transmit + 'static, R: Receive + 'static> Work for Back<T, R> {
    fn blocks(&self) -> bool {
        self.stream.blocks()
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        let back = self.stream.turn()?;
        self.returned += back as u64;
        Ok(back)
    }

    fn finish(self) -> io::Result<Done> {
        Ok(Done { counts: vec![("forwarded back".to_owned(), self.returned)], imposed: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_port::mem;

    #[test]
    fn frames_pass_both_ways_and_faults_one_way_only() {
        for seats in [Seats::One(Seat::Own(None)), Seats::Two(None, None)] {
            passes_both_ways(seats);
        }
    }

    fn passes_both_ways(seats: Seats) {
        let clock = Clock::calibrate().unwrap();
        let ((mut outside_a, left), (right, mut outside_b)) = (mem::pair(1514), mem::pair(1514));
        let faults = Faults { drop_every: 4, ..Faults::default() };
        let forwarder = Forwarder::start(clock, seats, left, right, faults);
        let send = |tx: &mut mem::MemTx| {
            for n in 0..8_u8 {
                let mut once = Some(());
                tx.send(|b| once.take().map(|()| b[..60].fill(n)).map(|()| 60)).unwrap();
            }
        };
        send(&mut outside_a.tx);
        send(&mut outside_b.tx);
        let receive = |rx: &mut mem::MemRx, count: usize| {
            let mut got = Vec::new();
            while got.len() < count {
                rx.recv(|f, _| got.push(f[0])).unwrap();
            }
            got
        };
        assert_eq!(receive(&mut outside_b.rx, 6), [0, 2, 3, 4, 6, 7]);
        assert_eq!(receive(&mut outside_a.rx, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        let report = Box::new(forwarder).stop().unwrap();
        assert!(report.done.contains(&("dropped".into(), 2)) && report.done.contains(&("forwarded".into(), 8)));
        assert!(report.done.contains(&("forwarded back".into(), 8)));
        assert_eq!(report.watches.len(), if matches!(seats, Seats::One(_)) { 1 } else { 2 });
    }
}
