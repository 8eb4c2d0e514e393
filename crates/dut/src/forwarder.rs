//! A port forwarder in user space: two streams in opposite directions between any two ports (paper 000
//! §3.2), with faults on the way out if they are wanted.

use crate::spinning::{Done, Spinning, Work};
use crate::stream::Stream;
use crate::{Dut, DutError, Report};
use std::io;
use usect_clock::Clock;
use usect_core::scenario::Faults;
use usect_port::fault::Faulty;
use usect_port::{Port, Receive, Transmit};

/// The running forwarder: one spinning thread for both streams.
pub struct Forwarder(Spinning);

impl Forwarder {
    /// Starts forwarding between two ports. `faults` hits what goes from `left` to `right`.
    pub fn start<T, R>(
        clock: Clock,
        core: Option<usize>,
        left: Port<T, R>,
        right: Port<T, R>,
        faults: Faults,
    ) -> Forwarder
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let streams = Streams {
            there: Stream::new(left.rx, Faulty::new(right.tx, faults), |_| ()),
            back: Stream::new(right.rx, left.tx, |_| ()),
            returned: 0,
        };
        Forwarder(Spinning::start("forwarder", clock, core, streams))
    }
}

impl Dut for Forwarder {
    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        self.0.stop()
    }
}

struct Streams<T, R> {
    there: Stream<Faulty<T>, R>,
    back: Stream<T, R>,
    returned: usize,
}

impl<T: Transmit + 'static, R: Receive + 'static> Work for Streams<T, R> {
    fn blocks(&self) -> bool {
        self.there.blocks() || self.back.blocks()
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        let back = self.back.turn()?;
        self.returned += back;
        Ok(self.there.turn()? + back)
    }

    fn finish(mut self) -> io::Result<Done> {
        self.there.to.flush()?;
        let there = self.there.to.done();
        let counts = [
            ("forwarded", there.frames),
            ("forwarded back", self.returned as u64),
            ("dropped", there.dropped),
            ("duplicated", there.duplicated),
            ("swapped pairs", there.swapped),
            ("corrupted", there.corrupted),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into();
        Ok(Done { counts, imposed: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_port::mem;

    #[test]
    fn frames_pass_both_ways_and_faults_one_way_only() {
        let clock = Clock::calibrate().unwrap();
        let ((mut outside_a, left), (right, mut outside_b)) = (mem::pair(1514), mem::pair(1514));
        let faults = Faults { drop_every: 4, ..Faults::default() };
        let forwarder = Forwarder::start(clock, None, left, right, faults);
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
        assert_eq!(report.watches.len(), 1);
    }
}
