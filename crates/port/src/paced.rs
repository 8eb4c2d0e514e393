//! The paced loop: one half sends each frame when it is due, the other ([`crate::arrivals`]) takes and classifies what
//! arrives. One thread turns either half or both; nothing here allocates, locks or prints.

use crate::error::STUCK_NS;
use crate::late::Patience;
use crate::live::{Live, Plan};
use crate::{Beside, ClientError, Transmit};
use std::iter::Peekable;
use std::sync::atomic::Ordering::Relaxed;
use usect_clock::Clock;
use usect_clock::watch::Watch;
use usect_core::buckets::Recorder;
use usect_core::instant::Tsc;
use usect_core::scenario::Mode;
use usect_core::schedule::Schedule;
use usect_core::tracker::Departure;
use usect_core::trains;
use usect_core::trial::Traffic;

/// How long after the last departure its stamps by others are waited for, unless they are all there.
const LINGER_NS: u64 = 50_000_000;
/// How long a sender that found no stamps of departures leaves the port alone.
const REAP_NS: u64 = 20_000;
/// A sender that is never ahead of its schedule looks for stamps once in so many frames.
const REAP_FRAMES: u64 = 64;

/// How long ping-pong waits for a frame before it sends the next.
const GIVEN_UP_NS: u64 = 100_000_000;

/// How many frames in a row ping-pong gives up before it ends: RFC 2544's two seconds.
const GIVEN_UP_FRAMES: u64 = 20;

/// What one turn of a half did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// Frames received.
    pub(crate) received: usize,
    /// Frames sent.
    pub(crate) sent: usize,
    /// The half has nothing left to do.
    pub(crate) done: bool,
    /// The measured part began in this turn.
    pub(crate) begins: bool,
}

/// A half, or both, of a measurement: turned again and again by [`drive`].
pub(crate) trait Half {
    fn turn(&mut self, now: Tsc, stalled: bool) -> Result<Turn, ClientError>;
}

impl<A: Half, B: Half> Half for (A, B) {
    #[inline]
    fn turn(&mut self, now: Tsc, stalled: bool) -> Result<Turn, ClientError> {
        let (a, b) = (self.0.turn(now, stalled)?, self.1.turn(now, stalled)?);
        let (received, sent) = (a.received + b.received, a.sent + b.sent);
        Ok(Turn { received, sent, done: a.done && b.done, begins: a.begins || b.begins })
    }
}

/// What the receiving thread does besides receiving.
impl Half for &mut Option<Box<dyn Beside>> {
    #[inline]
    fn turn(&mut self, _now: Tsc, _stalled: bool) -> Result<Turn, ClientError> {
        let Some(beside) = self else { return Ok(Turn { done: true, ..Turn::default() }) };
        let moved = beside.turn().map_err(|e| ClientError::io("the device under test beside the receiver", e))?;
        Ok(Turn { received: moved, sent: moved, done: true, begins: false })
    }
}

/// Turns a half until it is done. A thread that spins gets a watch on its stalls; one that blocks
/// can't tell a stall from a wait and has none.
pub(crate) fn drive(clock: &Clock, half: &mut impl Half, mut watch: Option<&mut Watch>) -> Result<(), ClientError> {
    let mut last = Turn::default();
    while !last.done {
        let now = clock.now();
        if last.begins
            && let Some(watch) = &mut watch
        {
            watch.restart();
        }
        let stalled = watch.as_mut().is_some_and(|w| w.turn(now, last.received, last.sent));
        last = half.turn(now, stalled)?;
    }
    Ok(())
}

/// The sending half.
pub(crate) struct Departures<'a, T> {
    clock: &'a Clock,
    port: &'a mut T,
    plan: &'a Plan,
    live: &'a Live,
    schedule: Peekable<Schedule>,
    trains: Option<trains::Departures>,
    /// When the next frame of the schedule is due, once that was worked out.
    next_due: Option<Tsc>,
    start: Tsc,
    blocking: bool,
    index: u64,
    /// Frames that the port has sent in runs before this one.
    before: u32,
    /// Frames whose stamps by others are all in.
    stamped: u64,
    reap_again: Tsc,
    /// How long it may be late.
    patience: Patience,
    lateness: Recorder,
    first: Tsc,
    last: Tsc,
}

/// What the sending half did.
pub(crate) struct Sent {
    pub(crate) warmup: u64,
    pub(crate) measured: u64,
    pub(crate) lateness: Vec<u64>,
    /// Between the first and the last measured departure, in nanoseconds.
    pub(crate) span_ns: u64,
    pub(crate) trains: Option<trains::Departures>,
}

impl<'a, T: Transmit> Departures<'a, T> {
    pub(crate) fn new(clock: &'a Clock, port: &'a mut T, plan: &'a Plan, live: &'a Live, blocking: bool) -> Self {
        port.prepare(plan.sent.bytes(plan.from));
        let Traffic { warmup_frames, frames, .. } = plan.traffic;
        Departures {
            clock,
            port,
            plan,
            live,
            schedule: plan.traffic.schedule().peekable(),
            trains: plan.traffic.pattern.train().map(|train| trains::Departures::new(train, warmup_frames, frames)),
            next_due: None,
            start: Tsc(0),
            blocking,
            index: 0,
            before: 0,
            stamped: 0,
            reap_again: Tsc(0),
            patience: Patience::default(),
            lateness: Recorder::default(),
            first: Tsc(0),
            last: Tsc(0),
        }
    }

    /// Over a port that has sent so many frames before: it numbers departures from the first of all.
    pub(crate) fn behind(self, before: u32) -> Self {
        Departures { before, ..self }
    }

    pub(crate) fn finish(self) -> Sent {
        let warmup = self.index.min(self.plan.traffic.warmup_frames);
        Sent {
            warmup,
            measured: self.index - warmup,
            lateness: self.lateness.counts(),
            span_ns: self.clock.rate().ns(self.last.0.saturating_sub(self.first.0)),
            trains: self.trains,
        }
    }

    /// When the next frame is due; `None` when there is none left.
    fn due(&mut self, now: Tsc) -> Option<Tsc> {
        let offset = *self.schedule.peek()?;
        if self.plan.traffic.mode != Mode::PingPong {
            let due = || Tsc(self.start.0 + self.clock.rate().ticks(offset));
            let paced = self.plan.traffic.rate.is_paced();
            return Some(if paced { *self.next_due.get_or_insert_with(due) } else { now });
        }
        let back = self.live.arrived.load(Relaxed) >= self.index;
        if self.index >= self.live.arrived.load(Relaxed) + GIVEN_UP_FRAMES {
            return None;
        }
        Some(if back { now } else { Tsc(self.last.0 + self.clock.rate().ticks(GIVEN_UP_NS)) })
    }

    /// Everything that is due, each frame stamped as its buffer is filled; one frame if `first_due` is when
    /// it may leave and the schedule doesn't count, or if it is the head of a train, so that no other's making
    /// comes between its stamp and its departure.
    fn send_due(&mut self, first_due: Tsc) -> Result<usize, ClientError> {
        let Departures { clock, port, plan, live, schedule, trains, start, index, lateness, first, last, .. } = self;
        let before = *index;
        let mut alone = false;
        let sent = port.send(|buffer| {
            let offset = *schedule.peek()?;
            let heads = trains.as_ref().is_some_and(|trains| trains.at_head());
            if alone || heads && *index > before {
                return None;
            }
            alone = heads;
            let now = clock.now();
            let due = match plan.traffic.mode {
                Mode::PingPong if *index > before => return None,
                Mode::PingPong => first_due.0.min(now.0),
                _ if !plan.traffic.rate.is_paced() => now.0,
                _ => start.0 + clock.rate().ticks(offset),
            };
            if now.0 < due {
                return None;
            }
            let late_ns = clock.rate().ns(now.0 - due);
            schedule.next();
            plan.write(buffer, *index, Departure { at: now.0, lateness_ns: late_ns });
            if *index >= plan.traffic.warmup_frames {
                lateness.record(late_ns);
                if *index == plan.traffic.warmup_frames {
                    *first = now;
                }
            }
            if let Some(trains) = trains {
                trains.left(now.0);
            }
            *last = now;
            *index += 1;
            Some(plan.length())
        });
        live.sent.store(*index, Relaxed);
        sent.map_err(ClientError::sending)
    }

    /// Fetches stamps of departures, where there are any to come.
    fn reap(&mut self, now: Tsc) -> Result<(), ClientError> {
        let Departures { port, plan, stamped, index, before, .. } = self;
        let Some(joint) = plan.joint.as_ref().filter(|joint| joint.reaps()) else { return Ok(()) };
        if now < self.reap_again || *stamped >= *index {
            return Ok(());
        }
        let mut beyond = false;
        let taken = port.reap(&mut |number, stamp| {
            let number = number.wrapping_sub(*before);
            // Of a run before.
            if (number as i32) < 0 && *before != 0 {
                return;
            }
            beyond |= (*index as u32).wrapping_sub(number) as i32 <= 0;
            *stamped += u64::from(joint.departed(number, stamp));
        });
        if beyond {
            return Err(ClientError::Shifted);
        }
        if taken.map_err(|e| ClientError::io("fetching the stamps of departures", e))? == 0 {
            self.reap_again = Tsc(now.0 + self.clock.rate().ticks(REAP_NS));
        }
        Ok(())
    }

    /// Whether stamps of departures are still to be waited for.
    fn lingers(&self, now: Tsc) -> bool {
        let reaps = self.plan.joint.as_ref().is_some_and(|joint| joint.reaps());
        reaps && self.stamped < self.index && self.clock.rate().ns(now.0 - self.last.0) < LINGER_NS
    }

    /// Fails where a frame that was due at `due` shows that the rate can't be kept, whether or not the port
    /// has room for it now; without a pace, where the port has long had none.
    fn check_rate(&mut self, due: Tsc, now: Tsc) -> Result<(), ClientError> {
        if self.clock.rate().ns(now.0 - self.last.max(self.start).0) > STUCK_NS && !self.plan.traffic.rate.is_paced() {
            return Err(ClientError::stuck());
        }
        let offset = self.schedule.peek().copied().unwrap_or(0);
        let late_ns = self.clock.rate().ns(now.0 - due.0);
        let hopeless = self.patience.ends(self.clock, now, late_ns, offset);
        if hopeless { Err(self.plan.unreachable(self.index, offset + late_ns)) } else { Ok(()) }
    }
}

impl<T: Transmit> Half for Departures<'_, T> {
    #[inline]
    fn turn(&mut self, now: Tsc, _stalled: bool) -> Result<Turn, ClientError> {
        if self.start == Tsc(0) {
            self.start = now;
        }
        let due = match self.due(now) {
            Some(due) if !self.live.cut_short() => due,
            _ => {
                self.live.end_of_sending(now);
                self.reap(now)?;
                return Ok(Turn { done: !self.lingers(now), ..Turn::default() });
            }
        };
        if now < due {
            self.reap(now)?;
            if self.blocking {
                self.clock.sleep_until(due);
            }
            return Ok(Turn::default());
        }
        self.check_rate(due, now)?;
        let before = self.index;
        self.next_due = None;
        let sent = self.send_due(due)?;
        if self.index >= self.stamped + REAP_FRAMES {
            self.reap(now)?;
        }
        let boundary = self.plan.traffic.warmup_frames;
        Ok(Turn { sent, begins: before <= boundary && self.index > boundary, ..Turn::default() })
    }
}
