//! A delay line between any two ports, such as a fiber: every frame leaves a known time after it was found, each way,
//! and behind the one before it. It says what it really imposed.

mod bucket;
mod impair;

use crate::spinning::{Done, Seat, Spinning, Work};
use crate::{Dut, DutError, Imposed, Report};
use bucket::TokenBucket;
use impair::{Fate, Impairing};
use std::collections::VecDeque;
use std::io;
use usect_clock::Clock;
use usect_core::buckets::Recorder;
use usect_core::fiber::{LineRate, PREAMBLE};
use usect_core::frame::FCS;
use usect_core::histogram::Histogram;
use usect_core::instant::Tsc;
use usect_core::rate::LINE_OVERHEAD;
use usect_core::scenario::SpoolSpec;
use usect_core::stall::{Span, SpanLog, THRESHOLD_NS};
use usect_core::template::{Tag, Template};
use usect_port::{BATCH, Beside, Port, Receive, Transmit};

/// Parts of a tick in which lines are reckoned, as a power of two.
const FINE: u32 = 24;
/// Bytes taken before it is looked again whether a frame is due.
const SOME_BYTES: usize = 1024;
/// Nothing is begun this long before a head leaves.
const SOON_NS: u64 = 200;
/// Most frames on their way: a line that is offered more than it carries holds no more, and drops the others.
const MOST_HELD: usize = 1 << 16;
/// How long a frame waits for the one that is to overtake it.
const PATIENCE_NS: u64 = 5_000_000;

/// The running delay line, both ways.
pub struct Spool(Spinning);

/// The frames whose delays a spool keeps a record of.
pub struct Selection {
    /// Frames of this flow, from sender to receiver.
    pub template: Template,
    /// Where they carry their number.
    pub tag: Tag,
    /// From this number on.
    pub from: u64,
    /// Below this one: a higher one was never sent, so the frame is damaged.
    pub until: u64,
    /// One in so many.
    pub every: u64,
}

impl Spool {
    /// Starts holding frames between two ports.
    pub fn start<T, R>(
        clock: Clock,
        seat: Seat,
        (left, right): (Port<T, R>, Port<T, R>),
        spec: &SpoolSpec,
        selection: Selection,
    ) -> Spool
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let there = Line {
            record: Some(Record::new(selection)),
            impairing: (!spec.impair.are_none()).then(|| Impairing::new(&spec.impair, clock.rate())),
            ..Line::new(clock, left.rx, right.tx, spec)
        };
        let lines = Lines { there, back: Line::new(clock, right.rx, left.tx, spec) };
        Spool(Spinning::start("spool", clock, seat, lines))
    }
}

impl Dut for Spool {
    fn guest(&mut self) -> Option<Box<dyn Beside>> {
        self.0.guest()
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        self.0.stop()
    }
}

/// A frame on its way: when it was found, and when it leaves.
struct Held {
    since: Tsc,
    due: Tsc,
    /// Whether its delay is to be kept.
    kept: bool,
    frame: Vec<u8>,
}

/// When frames of a line leave: n·l/c₀ after they came, and b/r more, which they spend one after another.
struct Physics {
    propagation: u64,
    /// Fine ticks of a byte on the line; 0 without a line.
    per_byte: u128,
    /// When the line is free again, in fine ticks.
    free: u128,
}

impl Physics {
    fn new(clock: &Clock, spec: &SpoolSpec) -> Physics {
        let hz = u128::from(clock.rate().hz);
        let per_byte = spec.line().map_or(0, |LineRate(bits)| (hz << FINE) * 8 / u128::from(bits));
        let propagation = (spec.propagation_ns() * clock.rate().hz as f64 / 1e9).round() as u64;
        Physics { propagation, per_byte, free: 0 }
    }

    #[inline]
    fn due(&mut self, since: Tsc, length: usize) -> Tsc {
        // Engines hand frames over without their FCS.
        let bytes = length as u64 + u64::from(FCS);
        let starts = self.free.max(u128::from(since.0) << FINE);
        self.free = starts + u128::from(bytes + LINE_OVERHEAD) * self.per_byte;
        let sent = starts + u128::from(bytes + PREAMBLE) * self.per_byte;
        Tsc((sent >> FINE) as u64 + self.propagation)
    }
}

/// One way of the delay line.
struct Line<T, R> {
    clock: Clock,
    from: R,
    to: T,
    physics: Physics,
    bucket: Option<TokenBucket>,
    impairing: Option<Impairing>,
    held: VecDeque<Held>,
    /// A frame that leaves behind the next one.
    waiting: Option<Held>,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
    passed: u64,
    /// Frames that found no token and no room to wait, or [`MOST_HELD`] before them.
    dropped: u64,
    record: Option<Record>,
    last_length: usize,
    /// [`SOON_NS`] in ticks.
    soon: u64,
}

/// What frames were really given on one way.
struct Record {
    selection: Selection,
    /// One past the highest number seen.
    next: u64,
    latency: Recorder,
    slow: SpanLog,
}

impl Record {
    fn new(selection: Selection) -> Record {
        Record { selection, next: 0, latency: Recorder::default(), slow: SpanLog::for_samples(u64::MAX) }
    }

    #[inline]
    fn keeps(&mut self, frame: &[u8]) -> bool {
        let Selection { template, tag, from, until, every } = &self.selection;
        if !template.owns(frame) {
            return false;
        }
        let Some(number) = tag.number(frame, self.next).filter(|number| number < until) else { return false };
        self.next = self.next.max(number + 1);
        number >= *from && (*every == 1 || (number - from).is_multiple_of(*every))
    }

    #[inline]
    fn add(&mut self, clock: &Clock, span: Span) {
        let ns = clock.rate().ns(span.len());
        self.latency.record(ns);
        if ns >= THRESHOLD_NS {
            self.slow.push(span);
        }
    }
}

impl<T: Transmit, R: Receive> Line<T, R> {
    fn new(clock: Clock, from: R, to: T, spec: &SpoolSpec) -> Line<T, R> {
        Line {
            clock,
            from,
            to,
            physics: Physics::new(&clock, spec),
            bucket: spec.bucket.map(|bucket| TokenBucket::new(&bucket, clock.rate())),
            impairing: None,
            held: VecDeque::new(),
            waiting: None,
            spare: Vec::new(),
            passed: 0,
            dropped: 0,
            record: None,
            last_length: 64,
            soon: clock.rate().ticks(SOON_NS),
        }
    }

    #[inline]
    fn turn(&mut self) -> io::Result<usize> {
        if let Some(due) = self.head_is_near() {
            while self.clock.now() < due {
                std::hint::spin_loop();
            }
            return self.release();
        }
        let found = self.take()?;
        if self.waiting.is_some() {
            self.give_up_waiting();
        }
        Ok(found.max(self.release()?))
    }

    /// When the next frame leaves, if it is one of the few whose delay is kept, and so soon that nothing else should be
    /// done before: taking large frames takes a nanosecond for each byte of one.
    #[inline]
    fn head_is_near(&self) -> Option<Tsc> {
        let sparse = self.record.as_ref().is_some_and(|record| record.selection.every > 1);
        let head = self.held.front().filter(|first| sparse && first.kept)?;
        let soon = self.soon * (SOON_NS + self.last_length as u64) / SOON_NS;
        (head.due.0 <= self.clock.now().0 + soon).then_some(head.due)
    }

    /// Takes what has come, and works out when it leaves.
    #[inline]
    fn take(&mut self) -> io::Result<usize> {
        let Line { from, physics, bucket, impairing, held, waiting, spare, record, last_length, dropped, .. } = self;
        // Few large ones, before it is looked again whether one is due.
        let most = (SOME_BYTES / *last_length).clamp(4, BATCH);
        from.recv_some(most, |frame, found| {
            *last_length = frame.len().max(64);
            let passes = match bucket {
                Some(bucket) => bucket.passes(found.at, frame.len()),
                None => Some(found.at),
            };
            let Some(since) = passes.filter(|_| held.len() < MOST_HELD) else {
                *dropped += 1;
                return;
            };
            let kept = record.as_mut().is_some_and(|record| record.keeps(frame));
            let mut copy = |due, kept| {
                let mut copy = spare.pop().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(frame);
                Held { since: found.at, due, kept, frame: copy }
            };
            let Some(impairing) = impairing else {
                return held.push_back(copy(physics.due(since, frame.len()), kept));
            };
            let fate = impairing.fate(waiting.is_some());
            if fate == Fate::Lost {
                return;
            }
            let due = impairing.delayed(physics.due(since, frame.len()));
            if fate == Fate::Overtaken {
                *waiting = Some(copy(due, kept));
                return;
            }
            held.push_back(copy(due, kept));
            if fate == Fate::Doubled {
                let due = impairing.delayed(physics.due(since, frame.len()));
                held.push_back(copy(due, false));
            }
            if let Some(late) = waiting.take() {
                let due = impairing.delayed(due);
                held.push_back(Held { due, ..late });
            }
        })
    }

    /// A frame that was to be overtaken, and behind which none comes, leaves all the same.
    fn give_up_waiting(&mut self) {
        let Line { clock, waiting, held, impairing, .. } = self;
        let patience = clock.rate().ticks(PATIENCE_NS);
        let Some(impairing) = impairing else { return };
        if let Some(late) = waiting.take_if(|late| clock.now().0 > late.due.0 + patience) {
            impairing.not_overtaken();
            let due = impairing.delayed(late.due);
            held.push_back(Held { due, ..late });
        }
    }

    /// Sends what is due.
    #[inline]
    fn release(&mut self) -> io::Result<usize> {
        let Line { clock, to, held, spare, passed, record, .. } = self;
        let Some(first) = held.front() else { return Ok(0) };
        let mut now = clock.now();
        if now < first.due {
            return Ok(0);
        }
        to.send(|buffer| {
            let first = held.front()?;
            // Reading the clock takes as long as handling a small frame: once more only where it matters.
            if now < first.due || first.kept {
                now = clock.now();
            }
            if now < first.due {
                return None;
            }
            let length = first.frame.len();
            buffer[..length].copy_from_slice(&first.frame);
            *passed += 1;
            if let Some(record) = record.as_mut().filter(|_| first.kept) {
                record.add(clock, Span { from: first.since.0, to: now.0 });
            }
            spare.extend(held.pop_front().map(|h| h.frame));
            Some(length)
        })
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
        let mut counts = vec![("held there".to_owned(), self.there.passed), ("held back".to_owned(), self.back.passed)];
        let dropped = self.there.dropped + self.back.dropped;
        counts.extend((dropped > 0).then(|| ("dropped, no room".to_owned(), dropped)));
        counts.extend(self.there.impairing.into_iter().flat_map(Impairing::done));
        let imposed = |r: Record| Imposed { latency: Histogram::from_counts(&r.latency.counts()), slow: r.slow };
        Ok(Done { counts, imposed: self.there.record.map(imposed) })
    }
}

#[cfg(test)]
mod tests;
