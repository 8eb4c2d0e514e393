//! The receiving half of the paced loop: takes and classifies what arrives.

use crate::live::{Live, Plan};
use crate::paced::{Half, Turn};
use crate::route::{Joined, Joining};
use crate::{BATCH, ClientError, Found, Receive};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use usect_clock::Clock;
use usect_core::buckets::Recorder;
use usect_core::instant::{TickRate, Tsc};
use usect_core::stages::Stages;
use usect_core::stall::{Span, SpanLog, THRESHOLD_NS};
use usect_core::tracker::{Arrival, Flows};
use usect_core::trains;
use usect_core::trial::Tagged;

/// How long it must be quiet, once every frame is in, before nothing more is expected.
const QUIET_NS: u64 = 20_000_000;

/// The receiving half.
pub(crate) struct Arrivals<'a, 'p, R> {
    clock: &'a Clock,
    port: &'a mut R,
    plan: &'p Plan,
    live: &'a Live,
    seen: Seen<'p>,
    last_arrival: Tsc,
}

/// What the receiving half saw.
pub(crate) struct Seen<'p> {
    pub(crate) flows: Flows,
    /// Latency per flow, where there are several.
    pub(crate) per_flow: Vec<Recorder>,
    /// Latency from the scheduled departure.
    pub(crate) scheduled: Recorder,
    /// Latency of samples that were found directly after a stall of this thread.
    pub(crate) touched: Recorder,
    /// Slow samples that were not, on the counter: another thread's stall may have touched them. On
    /// `CLOCK_MONOTONIC` where latency is between the stamps of others.
    pub(crate) slow: SpanLog,
    pub(crate) trains: Option<trains::Arrivals>,
    /// Every latency, where they are to be kept; it grows no further than it was made.
    pub(crate) samples: Vec<u32>,
    /// Latency of the tagged frames.
    pub(crate) tagged: Vec<(u32, u64)>,
    /// When the last measured frame arrived, and the longest time between two of them.
    last: Tsc,
    silence: u64,
    joining: Option<Joining<'p>>,
}

impl<'a, 'p, R: Receive> Arrivals<'a, 'p, R> {
    pub(crate) fn new(clock: &'a Clock, port: &'a mut R, plan: &'p Plan, live: &'a Live) -> Self {
        let seen = Seen {
            flows: Flows::new(plan.flows, plan.traffic.warmup_frames),
            per_flow: (0..plan.flows).filter(|_| plan.flows > 1).map(|_| Recorder::default()).collect(),
            scheduled: Recorder::default(),
            touched: Recorder::default(),
            slow: SpanLog::for_samples(plan.traffic.frames),
            trains: plan.traffic.pattern.train().map(|train| trains::Arrivals::new(train, plan.traffic.frames)),
            samples: Vec::with_capacity(if plan.traffic.keep_samples { plan.traffic.frames as usize } else { 0 }),
            tagged: plan.traffic.tagged.map_or(Vec::new(), |tags| room_for(&tags, plan.traffic.frames)),
            last: Tsc(0),
            silence: 0,
            joining: plan.joint.as_ref().map(|joint| Joining::new(joint, clock.rate())),
        };
        Arrivals { clock, port, plan, live, seen, last_arrival: Tsc(0) }
    }

    pub(crate) fn finish(self) -> Seen<'p> {
        self.seen
    }

    /// Whether nothing more is to be expected.
    fn over(&self, now: Tsc) -> bool {
        if !self.live.sending_done.load(Acquire) {
            return false;
        }
        let since = |then: u64| self.clock.rate().ns(now.0.saturating_sub(then));
        let last_departure = self.live.last_departure.load(Relaxed);
        let sent = self.live.sent.load(Relaxed).saturating_sub(self.plan.traffic.warmup_frames);
        let all_in = self.seen.flows.received() >= sent;
        let quiet = since(self.last_arrival.0.max(last_departure)) > QUIET_NS;
        (all_in && quiet) || self.residual_time_is_over(now)
    }

    /// Whatever still arrives then, it ends: a path that loops frames would go on for ever.
    fn residual_time_is_over(&self, now: Tsc) -> bool {
        let last_departure = self.live.last_departure.load(Relaxed);
        let since = self.clock.rate().ns(now.0.saturating_sub(last_departure));
        self.live.sending_done.load(Acquire) && since > self.plan.traffic.residual_ns
    }
}

/// Room for the latencies of tagged frames.
fn room_for(tags: &Tagged, frames: u64) -> Vec<(u32, u64)> {
    Vec::with_capacity((frames.saturating_sub(tags.from) / tags.every + 1) as usize)
}

impl Seen<'_> {
    /// Puts one arrival into its class and, if it is to be measured, into the distributions. `stall_end` is
    /// when a stall of this thread ended that came directly before, or 0.
    #[inline]
    fn classify(&mut self, clock: &Clock, plan: &Plan, live: &Live, frame: &[u8], found: Found, stall_end: Tsc) {
        let Some(signature) = plan.read(frame) else {
            return if plan.owns(frame) { self.flows.corrupted() } else { self.flows.foreign() };
        };
        let sent = || live.may_have_left().min(plan.traffic.warmup_frames + plan.traffic.frames);
        let (Arrival::Measured, flow) = self.flows.arrived(signature.sequence, sent) else { return };
        if self.last.0 > 0 {
            self.silence = self.silence.max(found.at.0.saturating_sub(self.last.0));
        }
        self.last = found.at;
        let departure = signature.departure;
        let number = signature.sequence.wrapping_sub(plan.traffic.warmup_frames as u32);
        let timed = self.trains.as_mut().is_none_or(|trains| trains.arrived(number, found.at.0));
        if departure.at == 0 || !timed {
            return;
        }
        if let Some(joining) = &mut self.joining {
            joining.arrived((signature.sequence, flow), departure, found);
            if plan.joint.as_ref().is_some_and(|joint| joint.decides()) {
                return;
            }
        }
        // The counter is one for the whole host; an arrival before its departure gets no stamp, so
        // that the share of stamped frames shows it.
        let Some(ticks) = found.at.0.checked_sub(departure.at) else { return };
        let ns = clock.rate().ns(ticks);
        self.stamped(live, flow, ns);
        self.tag(plan, signature.sequence, ns);
        if let Some(trains) = &mut self.trains {
            trains.stamped(number, ns);
        }
        self.scheduled.record(ns + departure.lateness_ns);
        if departure.at < stall_end.0 {
            self.touched.record(ns);
        } else if ns >= THRESHOLD_NS {
            self.slow.push(Span { from: departure.at, to: found.at.0 });
        }
    }

    /// Keeps the latency of a frame that is one of the tagged.
    #[inline]
    fn tag(&mut self, plan: &Plan, sequence: u32, ns: u64) {
        let Some(tags) = plan.traffic.tagged else { return };
        let number = u64::from(sequence).checked_sub(plan.traffic.warmup_frames);
        if let Some(which) = number.and_then(|number| tags.which(number))
            && self.tagged.len() < self.tagged.capacity()
        {
            self.tagged.push((which, ns));
        }
    }

    #[inline]
    fn stamped(&mut self, live: &Live, flow: usize, ns: u64) {
        self.flows.stamped(flow);
        live.latency.record(ns);
        if self.samples.len() < self.samples.capacity() {
            self.samples.push(u32::try_from(ns).unwrap_or(u32::MAX));
        }
        if let Some(own) = self.per_flow.get(flow) {
            own.record(ns);
        }
    }

    /// Joins what waits for its stamps, `most` frames at the most.
    #[inline]
    fn join(&mut self, plan: &Plan, live: &Live, most: usize, last: bool) -> Result<(), ClientError> {
        for _ in 0..most {
            let Some(joining) = &mut self.joining else { break };
            let Some(joined) = joining.turn(last)? else { break };
            let Some(Joined { sequence, flow, latency_ns, scheduled_ns, from }) = joined else { continue };
            self.stamped(live, flow, latency_ns);
            self.tag(plan, sequence, latency_ns);
            self.scheduled.record(scheduled_ns);
            if latency_ns >= THRESHOLD_NS {
                self.slow.push(Span { from, to: from + latency_ns });
            }
        }
        Ok(())
    }

    /// Longest time between two arrivals, in nanoseconds.
    pub(crate) fn silence_ns(&self, clock: TickRate) -> Option<u64> {
        (self.silence > 0).then(|| clock.ns(self.silence))
    }

    /// Whether latency is between the stamps of others.
    pub(crate) fn decided_by_others(&self) -> bool {
        self.joining.as_ref().is_some_and(Joining::decides)
    }

    /// Joins everything, once no more stamps will come, and returns the stages.
    pub(crate) fn join_the_rest(&mut self, plan: &Plan, live: &Live) -> Result<Option<Stages>, ClientError> {
        if let Some(joining) = &mut self.joining {
            joining.close()?;
        }
        self.join(plan, live, usize::MAX, true)?;
        self.joining.take().map(Joining::finish).transpose()
    }
}

impl<R: Receive> Half for Arrivals<'_, '_, R> {
    #[inline]
    fn turn(&mut self, now: Tsc, stalled: bool) -> Result<Turn, ClientError> {
        let Arrivals { clock, port, plan, live, seen, last_arrival } = self;
        let before = seen.flows.received();
        // What left before a stall ended and is found now was touched by it.
        let stall_end = if stalled { now } else { Tsc(0) };
        if let Some(joining) = &mut seen.joining {
            joining.batch();
        }
        let handled = port.recv(|frame, found| {
            *last_arrival = found.at;
            seen.classify(clock, plan, live, frame, found, stall_end);
        });
        let handled = handled.map_err(ClientError::receiving)?;
        let received = seen.flows.received();
        if handled > 0 {
            live.received.store(received, Relaxed);
            live.arrived.store(seen.flows.next(), Relaxed);
        }
        // Beside the next frame: one at a time where this thread polls.
        match (handled, port.caps().blocks) {
            (0, false) => seen.join(plan, live, 1, false)?,
            (_, true) => seen.join(plan, live, BATCH, false)?,
            _ => {}
        }
        let begins = before == 0 && received > 0;
        let done = if handled == 0 { self.over(now) } else { self.residual_time_is_over(now) };
        Ok(Turn { received: handled, sent: 0, done, begins })
    }
}
