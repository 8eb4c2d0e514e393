//! A host without a path: its facts, and what two seconds of watching it add to them.

use std::hint::black_box;
use std::time::Duration;
use usect_clock::Clock;
use usect_core::environment::Environment;
use usect_core::stall::CoreStalls;
use usect_lab::audit::{self, CpuTimes};

/// How long it is watched, once at rest, once while a thread spins on each core.
const WATCHED: Duration = Duration::from_secs(1);

/// Everything known of the host and of interfaces, and below `measured.` what was seen of `cores`: the longest stall of a thread
/// that spins, who else ran before, what a reading of the clock costs, interrupts of the firmware's.
pub fn watch(cores: &[usize], interfaces: &[usect_lab::Link]) -> Environment {
    let mut facts = audit::host();
    interfaces.iter().for_each(|link| facts.extend(audit::interface(link)));
    at_rest(&mut facts, cores);
    // A counter that nobody can measure with is what is to be told.
    let clock = match Clock::calibrate() {
        Ok(clock) => clock,
        Err(why) => {
            facts.set("measured.clock", format!("n/a: {why}"));
            return facts;
        }
    };
    let (times, firmware) = (CpuTimes::now(), cores.iter().map(|core| audit::management_interrupts(*core)));
    let firmware: Vec<Result<u32, String>> = firmware.collect();
    for stalls in platform(&clock, cores, WATCHED) {
        let Some(core) = stalls.core else { continue };
        facts.set(format!("measured.longest_stall_us.cpu{core}"), format!("{:.1}", stalls.longest_ns as f64 / 1e3));
        facts.set(format!("measured.stalls.cpu{core}"), format!("{} over 10 us", stalls.stalls));
        let share = 100.0 * stalls.total_ns as f64 / stalls.observed_ns.max(1) as f64;
        facts.set(format!("measured.stalled_share.cpu{core}"), format!("{share:.2}%"));
    }
    facts.extend(CpuTimes::now().steal_since(&times));
    for (core, before) in cores.iter().zip(firmware) {
        match before.and_then(|before| Ok(audit::management_interrupts(*core)?.wrapping_sub(before))) {
            Ok(count) => facts.set(format!("measured.smi.cpu{core}"), count),
            Err(why) => facts.set("measured.smi", format!("n/a: {why}")),
        }
    }
    facts.set("measured.clock_read_ns", format!("{:.1}", clock_read_ns(&clock)));
    facts
}

/// How much of each core nobody used while usect slept.
fn at_rest(facts: &mut Environment, cores: &[usize]) {
    let before = CpuTimes::now();
    std::thread::sleep(WATCHED);
    let seen = CpuTimes::now().steal_since(&before);
    for core in cores {
        if let Some(share) = seen.get(&format!("idle.cpu{core}")) {
            facts.set(format!("measured.idle.cpu{core}"), share);
        }
    }
}

/// What each core does to a spinning thread while there is no traffic.
pub(crate) fn platform(clock: &Clock, cores: &[usize], lasts: Duration) -> Vec<CoreStalls> {
    let watch = |&core: &usize| {
        let clock = *clock;
        std::thread::spawn(move || {
            // A core that can't be pinned to is watched from wherever the thread is, and says so.
            let pinned = usect_port::pin(core).is_ok();
            usect_clock::watch::platform(&clock, pinned.then_some(core), lasts.as_nanos() as u64).summary()
        })
    };
    let threads: Vec<_> = cores.iter().map(watch).collect();
    threads.into_iter().filter_map(|t| t.join().ok()).collect()
}

/// What a reading of `CLOCK_MONOTONIC` costs: of many small rows of readings the quickest, which nothing disturbed.
fn clock_read_ns(clock: &Clock) -> f64 {
    const READINGS: u64 = 100;
    let row = |_| {
        let before = clock.now();
        (0..READINGS).for_each(|_| _ = black_box(usect_clock::mono()));
        clock.now().0 - before.0
    };
    clock.rate().ns((0..200).map(row).min().unwrap_or(0)) as f64 / READINGS as f64
}
