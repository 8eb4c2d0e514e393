//! The two ways of probes, told apart by when the far end saw them.

use super::end::{Answer, End, MOST_REMEMBERED, Order, Passed, Reflect};
use super::site::{done, unexpected};
use crate::Standing;
use crate::path::RX_PORT;
use std::collections::HashMap;
use std::net::SocketAddrV4;
use usect_core::instant::TickRate;
use usect_core::matrix::{Apart, Became};
use usect_core::one_way::{self, Exchange};
use usect_core::trial::{Tagged, Traffic};

/// Probes whose two ways are told apart, of a trial; every so manieth of more.
const APART: u64 = MOST_REMEMBERED as u64;
/// How long probes go without a load, before and after it.
const QUIET_NS: u64 = 300_000_000;

/// Probes whose two ways are told apart: the first's number in its flow, and every how manieth from there on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picked {
    from: u32,
    every: u32,
}

impl Picked {
    /// Those of a traffic, which are picked out by it as well.
    pub(super) fn of(traffic: &mut Traffic) -> Picked {
        let every = traffic.frames.div_ceil(APART).max(1);
        traffic.tagged = Some(Tagged { from: 0, every });
        Picked { from: traffic.warmup_frames as u32, every: every as u32 }
    }

    pub(super) fn reflect(self, to: SocketAddrV4) -> Reflect {
        Reflect { port: RX_PORT, to, from: self.from, every: self.every, most: MOST_REMEMBERED }
    }
}

/// What is known of probes at either end.
pub(super) struct Known {
    /// At the near one: which came back, after how many nanoseconds.
    pub(super) tagged: Vec<(u32, u64)>,
    pub(super) passed: Passed,
    pub(super) picked: Picked,
}

/// Probes over the same path without a load.
pub(super) fn quiet(path: &mut Standing<'_>, far: &mut End, to: SocketAddrV4, like: &Traffic) -> Result<Known, Became> {
    let frames = like.rate.frames_in(QUIET_NS).max(1);
    let mut traffic = Traffic { warmup_frames: 0, frames, ..like.clone() };
    let picked = Picked::of(&mut traffic);
    far.ask(Order::Reflect(picked.reflect(to))).and_then(done)?;
    let measured = path.again(&traffic, &mut |_| ())?;
    match far.ask(Order::Recall)? {
        Answer::Passed(passed) => Ok(Known { tagged: measured.tagged, passed, picked }),
        other => Err(unexpected(&other)),
    }
}

/// Tells the two ways of probes apart, by when the far end saw them. `beside` are those of the quiet path; none where both ends have one
/// clock, of which `near` is the rate.
pub(super) fn split(known: &Known, beside: &[Known], near: TickRate) -> Option<Apart> {
    if beside.is_empty() {
        return Apart::of(&one_way::split_by_one_clock(&known.exchanges(near, near))?);
    }
    // Each time it was asked, the far end found another rate of its counter, by a little: one serves for all.
    let far = known.passed.rate()?;
    let beside: Vec<Exchange> = beside.iter().flat_map(|known| known.exchanges(near, far)).collect();
    Apart::of(&one_way::split(&known.exchanges(near, far), &beside)?)
}

impl Known {
    /// Joins what came back with what passed at the far end, by number; `near` and `far` are the rates of their counters.
    fn exchanges(&self, near: TickRate, far: TickRate) -> Vec<Exchange> {
        let Known { tagged, passed, picked: Picked { from, every } } = self;
        let seen: HashMap<u32, (u64, u64)> =
            passed.frames.iter().map(|(number, left, there)| (*number, (*left, *there))).collect();
        let exchange = |(which, rtt_ns): &(u32, u64)| {
            let (left, there) = seen.get(&from.wrapping_add(which.wrapping_mul(*every)))?;
            let left = near.ns(*left);
            Some(Exchange { left, there: far.ns(*there), back: left.checked_add(*rtt_ns)? })
        };
        tagged.iter().filter_map(exchange).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_is_joined_with_what_passed_by_its_number() {
        let (near, far) = (TickRate::from_hz(2_000_000_000), TickRate::nanoseconds());
        // Every third from the tenth on; the 13th was never seen there, the 16th never came back.
        let passed = Passed { hz: far.hz, frames: vec![(10, 2_000, 5_000), (16, 4_000, 6_000), (19, 6_000, 7_000)] };
        let tagged = vec![(0, 300), (1, 400), (3, 500)];
        let found = Known { tagged, passed, picked: Picked { from: 10, every: 3 } }.exchanges(near, far);
        let exchange = |left, there, back| Exchange { left, there, back };
        assert_eq!(found, [exchange(1_000, 5_000, 1_300), exchange(3_000, 7_000, 3_500)]);
    }
}
