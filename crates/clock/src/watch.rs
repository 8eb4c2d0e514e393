//! Watching for gaps: a spinning thread that finds itself away for too long was taken off its core, or was
//! held up in what it did; see [`usect_core::stall`].

use crate::Clock;
use usect_core::instant::{Bridge, TickRate, Tsc};
use usect_core::stall::{Gap, Gaps, Rule, Span, SpanLog, THRESHOLD_NS, Watched};

/// The gaps between the iterations of one spinning thread. Nothing is allocated while it watches.
#[derive(Debug)]
pub struct Watch {
    rate: TickRate,
    rule: Rule,
    began: Option<Tsc>,
    last: Tsc,
    log: SpanLog,
    busy: Gaps,
}

impl Watch {
    /// Watches from the first call of [`Watch::turn`].
    pub fn new(clock: &Clock) -> Watch {
        Watch {
            rate: clock.rate(),
            rule: Rule::new(clock.rate().ticks(THRESHOLD_NS)),
            began: None,
            last: Tsc(0),
            log: SpanLog::default(),
            busy: Gaps::default(),
        }
    }

    /// An iteration begins at `now`, after one that received and sent so many frames. Returns whether the
    /// time between the two was a stall.
    #[inline]
    pub fn turn(&mut self, now: Tsc, received: usize, sent: usize) -> bool {
        let (from, to) = (self.last.0, now.0);
        self.last = now;
        if self.began.is_none() {
            self.began = Some(now);
            return false;
        }
        let gap = to.saturating_sub(from);
        match self.rule.judge(gap, received, sent) {
            Gap::Usual => return false,
            Gap::Busy => self.busy.add(self.rate.ns(gap)),
            Gap::Stall => self.log.push(Span { from, to }),
        }
        sent == 0
    }

    /// Forgets what came before, but not what frames take: the measured part begins.
    pub fn restart(&mut self) {
        self.began = None;
        self.log.clear();
        self.busy = Gaps::default();
    }

    /// What was seen, on `CLOCK_MONOTONIC`.
    pub fn finish(self, thread: &str, core: Option<usize>, bridge: &Bridge) -> Watched {
        let began = self.began.unwrap_or(self.last);
        let observed_ns = bridge.mono(self.last).0 - bridge.mono(began).0;
        let log = self.log.map(|at| bridge.mono(Tsc(at)).0);
        Watched { thread: thread.to_owned(), core, observed_ns, log, busy: self.busy }
    }
}

/// Spins on the calling thread's core and reports what the platform did to it.
pub fn platform(clock: &Clock, core: Option<usize>, ns: u64) -> Watched {
    let mut bridge = clock.bridge();
    let mut watch = Watch::new(clock);
    let end = Tsc(clock.now().0 + clock.rate().ticks(ns));
    loop {
        let now = clock.now();
        watch.turn(now, 0, 0);
        if now >= end {
            break;
        }
    }
    bridge.add(crate::correlate());
    watch.finish("platform", core, &bridge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        Watch {
            rate: TickRate::from_hz(1_000_000_000),
            rule: Rule::new(10),
            began: None,
            last: Tsc(0),
            log: SpanLog::default(),
            busy: Gaps::default(),
        }
    }

    #[test]
    fn long_gaps_are_stalls_where_nothing_was_sent_and_busy_otherwise() {
        let mut watch = watch();
        let turns =
            [(500, 9, 9), (505, 0, 0), (520, 0, 0), (524, 2, 0), (528, 0, 2), (560, 2, 1), (574, 2, 0), (589, 2, 0)];
        let stalls: Vec<bool> = turns.iter().map(|&(at, r, s)| watch.turn(Tsc(at), r, s)).collect();
        assert_eq!(stalls, [false, false, true, false, false, false, false, true]);
        assert_eq!(watch.log.spans(), [Span { from: 505, to: 520 }, Span { from: 574, to: 589 }]);
        assert_eq!(watch.busy, Gaps { count: 1, total_ns: 32, longest_ns: 32 });
    }

    #[test]
    fn what_frames_take_is_learned_before_the_measured_part() {
        let mut watch = watch();
        for n in 0..2_000 {
            watch.turn(Tsc(2 * n), 1, 0);
        }
        watch.restart();
        let stalls: Vec<bool> = [0, 70, 144].map(|at| watch.turn(Tsc(5_000 + at), 32, 0)).to_vec();
        assert_eq!(stalls, [false, false, false], "32 frames of 2 ticks, and 10");
        assert!(watch.turn(Tsc(5_300), 32, 0));
    }

    #[test]
    fn a_restart_forgets() {
        let mut watch = watch();
        watch.turn(Tsc(1), 0, 0);
        watch.turn(Tsc(100), 0, 0);
        watch.turn(Tsc(200), 0, 1);
        watch.restart();
        watch.turn(Tsc(300), 0, 0);
        assert!(watch.log.spans().is_empty());
        assert_eq!(watch.busy, Gaps::default());
    }
}
