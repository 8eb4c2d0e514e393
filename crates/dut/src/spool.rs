//! A delay line between any two ports: every frame leaves a fixed time after it was found, each way. It
//! says what it really imposed.

use crate::spinning::{Done, Spinning, Work};
use crate::{Dut, DutError, Imposed, Report};
use std::collections::VecDeque;
use std::io;
use usect_clock::Clock;
use usect_core::buckets::Recorder;
use usect_core::histogram::Histogram;
use usect_core::instant::Tsc;
use usect_core::stall::{Span, SpanLog, THRESHOLD_NS};
use usect_port::{Port, Receive, Transmit};

/// The running delay line: one spinning thread for both ways.
pub struct Spool {
    thread: Spinning,
    delay_ns: u64,
}

impl Spool {
    /// Starts holding frames between two ports for `delay_ns` each.
    /// The first `warmup` frames from left to right are not in what it says that it imposed.
    pub fn start<T, R>(
        clock: Clock,
        core: Option<usize>,
        (left, right): (Port<T, R>, Port<T, R>),
        delay_ns: u64,
        warmup: u64,
    ) -> Spool
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let line = |from, to| Line {
            clock,
            from,
            to,
            ticks: clock.rate().ticks(delay_ns),
            held: VecDeque::new(),
            spare: Vec::new(),
            passed: 0,
            record: None,
        };
        let record = Record { warmup, latency: Recorder::default(), slow: SpanLog::for_samples(u64::MAX) };
        let there = Line { record: Some(record), ..line(left.rx, right.tx) };
        let lines = Lines { there, back: line(right.rx, left.tx) };
        Spool { thread: Spinning::start("spool", clock, core, lines), delay_ns }
    }
}

impl Dut for Spool {
    fn known_delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }

    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        self.thread.stop()
    }
}

/// A frame on its way: when it was found, and when it leaves.
struct Held {
    since: Tsc,
    due: Tsc,
    frame: Vec<u8>,
}

/// One way of the delay line.
struct Line<T, R> {
    clock: Clock,
    from: R,
    to: T,
    ticks: u64,
    held: VecDeque<Held>,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
    passed: u64,
    record: Option<Record>,
}

/// What frames were really given on one way, those of the warm-up left out.
struct Record {
    warmup: u64,
    latency: Recorder,
    slow: SpanLog,
}

impl Record {
    #[inline]
    fn add(&mut self, clock: &Clock, passed: u64, span: Span) {
        if passed <= self.warmup {
            return;
        }
        let ns = clock.rate().ns(span.len());
        self.latency.record(ns);
        if ns >= THRESHOLD_NS {
            self.slow.push(span);
        }
    }
}

impl<T: Transmit, R: Receive> Line<T, R> {
    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        let Line { clock, from, to, ticks, held, spare, passed, record } = self;
        let found = from.recv(|frame, found| {
            let mut copy = spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame);
            let since = found.at;
            held.push_back(Held { since, due: Tsc(since.0 + *ticks), frame: copy });
        })?;
        if held.front().is_none_or(|first| clock.now() < first.due) {
            return Ok(found);
        }
        let left = to.send(|buffer| {
            let first = held.front().filter(|first| clock.now() >= first.due)?;
            let length = first.frame.len();
            buffer[..length].copy_from_slice(&first.frame);
            let span = Span { from: first.since.0, to: clock.now().0 };
            *passed += 1;
            if let Some(record) = record {
                record.add(clock, *passed, span);
            }
            spare.extend(held.pop_front().map(|h| h.frame));
            Some(length)
        })?;
        Ok(found.max(left))
    }
}

struct Lines<T, R> {
    there: Line<T, R>,
    back: Line<T, R>,
}

impl<T: Transmit + 'static, R: Receive + 'static> Work for Lines<T, R> {
    fn blocks(&self) -> bool {
        self.there.from.caps().blocks || self.back.from.caps().blocks
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        Ok(self.there.turn()? + self.back.turn()?)
    }

    fn finish(self) -> io::Result<Done> {
        let counts = vec![("held there".to_owned(), self.there.passed), ("held back".to_owned(), self.back.passed)];
        let imposed = |r: Record| Imposed { latency: Histogram::from_counts(&r.latency.counts()), slow: r.slow };
        Ok(Done { counts, imposed: self.there.record.map(imposed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_port::mem;

    #[test]
    fn every_frame_is_held_for_the_delay_at_least_and_in_order() {
        let clock = Clock::calibrate().unwrap();
        let ((mut outside_a, left), (right, mut outside_b)) = (mem::pair(60), mem::pair(60));
        let delay_ns = 200_000;
        let spool = Spool::start(clock, None, (left, right), delay_ns, 5);
        let begun = clock.now();
        let mut next = 0_u8;
        outside_a
            .tx
            .send(|room| {
                (next < 20).then(|| {
                    room[..60].fill(next);
                    next += 1;
                    60
                })
            })
            .unwrap();
        let mut expected = 0;
        while expected < 20 {
            outside_b
                .rx
                .recv(|frame, found| {
                    assert_eq!(frame, [expected; 60]);
                    assert!(clock.rate().ns(found.at.0 - begun.0) >= delay_ns);
                    expected += 1;
                })
                .unwrap();
        }
        assert_eq!(spool.known_delay_ns(), Some(delay_ns));
        let report = Box::new(spool).stop().unwrap();
        assert!(report.done.contains(&("held there".into(), 20)), "{:?}", report.done);
        let imposed = report.imposed.unwrap().latency;
        assert_eq!(imposed.samples(), 15, "without the warm-up");
        assert!(imposed.min() >= delay_ns * 999 / 1000, "{}", imposed.min());
    }
}
