//! A receiving thread in arithmetic, with stalls planted at random.

use super::*;
use rand_distr::{Distribution, Exp1, LogNormal, StandardUniform};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::collections::VecDeque;

/// Frames that an engine hands out at once.
const BATCH: usize = 32;
const THRESHOLD_NS: u64 = 10_000;
/// Planted stalls, in nanoseconds, and how far they are apart on average.
const STALLS_NS: (f64, f64) = (15_000.0, 2_000_000.0);
const APART_NS: f64 = 3_000_000.0;
/// How many are planted.
const STALLS: usize = 200;
/// Of the planted stalls so many are found, and of what is found so much was planted.
const RECALL: f64 = 0.99;
const PRECISION: f64 = 0.99;

/// A poll loop: what an empty look at the queue and a frame take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Loop {
    poll_ns: f64,
    frame_ns: f64,
}

/// Rings in shared memory; a system call for each frame.
const LOOPS: [Loop; 2] = [Loop { poll_ns: 60.0, frame_ns: 70.0 }, Loop { poll_ns: 250.0, frame_ns: 600.0 }];

/// What one rule made of it, in stalls.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    planted: usize,
    found: usize,
    said: usize,
}

impl Score {
    fn recall(self) -> f64 {
        self.found as f64 / self.planted as f64
    }

    fn precision(self) -> f64 {
        self.found as f64 / self.said as f64
    }
}

/// One iteration: what it took, what it received, and whether a stall was planted in it.
struct Iteration {
    gap_ns: u64,
    received: usize,
    stalled: bool,
}

/// Turns the loop at a rate until all stalls were planted; each iteration goes to `each`.
fn turn(spins: Loop, rate_fps: f64, mut each: impl FnMut(Iteration)) {
    let mut random = Pcg64Mcg::seed_from_u64(rate_fps as u64);
    let noise = LogNormal::new(0.0, 0.3).expect("it is one");
    let uniform = |random: &mut Pcg64Mcg| -> f64 { StandardUniform.sample(random) };
    let apart = |random: &mut Pcg64Mcg, mean: f64| -> f64 {
        let exp: f64 = Exp1.sample(random);
        exp * mean
    };
    let (mut now, mut queue, mut planted) = (0.0, VecDeque::new(), 0);
    // The warm-up goes before the first stall.
    let (mut arrives, mut stalls) = (0.0, 2_000.0 * 1e9 / rate_fps + APART_NS);
    while planted < STALLS {
        let began: f64 = now;
        let mut stalled = false;
        let mut goes_on = |now: &mut f64, takes: f64, random: &mut Pcg64Mcg| {
            *now += takes;
            if *now > stalls {
                let (least, most) = STALLS_NS;
                *now += least * (most / least).powf(uniform(random));
                stalls = *now + apart(random, APART_NS);
                (stalled, planted) = (true, planted + 1);
            }
        };
        // Empty looks are many and alike: up to a microsecond of them at once.
        let empty = if queue.is_empty() { (arrives - now).clamp(0.0, 1_000.0) } else { 0.0 };
        goes_on(&mut now, empty.max(spins.poll_ns * noise.sample(&mut random)), &mut random);
        // What comes just after the last of them is for the next.
        while arrives < now {
            queue.push_back(arrives);
            arrives += apart(&mut random, 1e9 / rate_fps);
        }
        let received = queue.len().min(BATCH);
        queue.drain(..received);
        for _ in 0..received {
            goes_on(&mut now, spins.frame_ns * noise.sample(&mut random), &mut random);
        }
        // A clock's tick, a cache that went cold: too short for a stall.
        let hiccup = if uniform(&mut random) < 0.001 { 5_000.0 * uniform(&mut random) } else { 0.0 };
        now += hiccup;
        each(Iteration { gap_ns: (now - began) as u64, received, stalled });
    }
}

/// How a rule does at a rate: it is given a gap and its frames, and says whether that was a stall.
fn score(spins: Loop, rate_fps: f64, mut is_stall: impl FnMut(u64, usize) -> bool) -> Score {
    let mut score = Score::default();
    turn(spins, rate_fps, |iteration| {
        let said = is_stall(iteration.gap_ns, iteration.received);
        score.planted += usize::from(iteration.stalled);
        score.said += usize::from(said);
        score.found += usize::from(iteration.stalled && said);
    });
    score
}

#[test]
fn stalls_are_found_at_every_rate_and_nothing_else_is() {
    for spins in LOOPS {
        for rate_fps in [20e3, 100e3, 500e3, 1e6] {
            let mut rule = Rule::new(THRESHOLD_NS);
            let score = score(spins, rate_fps, |gap, received| rule.judge(gap, received, 0) == Gap::Stall);
            assert!(score.recall() >= RECALL, "{spins:?}, {rate_fps}: {score:?}");
            assert!(score.precision() >= PRECISION, "{spins:?}, {rate_fps}: {score:?}");
        }
    }
}

/// The threshold itself for each frame, however little it takes: a batch of 32 hides 320 µs.
#[test]
fn a_threshold_for_each_frame_would_miss_them() {
    for spins in LOOPS {
        for rate_fps in [500e3, 1e6] {
            let score = score(spins, rate_fps, |gap, received| gap > THRESHOLD_NS * received.max(1) as u64);
            assert!(score.recall() < 0.8, "{spins:?}, {rate_fps}: {score:?}");
        }
    }
}

#[test]
fn a_cost_is_learned_from_wherever_it_begins() {
    for (first, then) in [(7_000_u64, 40_u64), (40, 7_000), (1, 200), (500_000, 90)] {
        let mut cost = FrameCost { scaled: 0, most: THRESHOLD_NS << SCALE };
        cost.learn(first, 1);
        (0..1_000).for_each(|n| cost.learn(then * (1 + n % 4), 1 + n % 4));
        assert!(cost.of(100).abs_diff(100 * then) <= then * 100 / 50 + 1, "{cost:?} for {then}");
    }
}

#[test]
fn sending_has_a_cost_of_its_own() {
    let mut rule = Rule::new(THRESHOLD_NS);
    for _ in 0..2_000 {
        rule.judge(100, 1, 0);
        rule.judge(4_000, 0, 1);
    }
    assert_eq!(rule.judge(31_000, 0, 8), Gap::Usual, "the path's own work, eight times");
    assert_eq!(rule.judge(45_000, 0, 8), Gap::Busy);
    assert_eq!(rule.judge(31_000, 8, 0), Gap::Stall);
    assert_eq!(rule.judge(31_000, 0, 0), Gap::Stall);
}
