//! Runs that look like real ones, made from formulas: every figure in them is invented.
#![allow(dead_code, unreachable_pub, missing_docs)]

use usect_core::buckets;
use usect_core::environment::Environment;
use usect_core::histogram::Histogram;
use usect_core::measurement::{Measurement, Pace};
use usect_core::run::{Header, SCHEMA};
use usect_core::scenario::Scenario;
use usect_core::series::Point;
use usect_core::stall::{CoreStalls, Gaps};
use usect_core::tracker::Counts;
use usect_core::trial::{Trial, TrialResult};

const SCENARIO: &str = r#"
title = "A forwarder in user space, as four clients see it"
[traffic]
frame_size = 64
rate = "20 kpps"
[dut]
kind = "forwarder"
faults = { drop_every = 10000 }
[[client]]
name = "udp-blocking"
engine = "udp"
wait = "block"
[[client]]
name = "udp-polling"
engine = "udp"
[[client]]
name = "xdp"
engine = "xdp"
[[client]]
name = "kernel"
engine = "kernel"
"#;

/// A deterministic source of draws.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Roughly normal.
    pub fn normal(&mut self) -> f64 {
        (0..4).map(|_| self.uniform()).sum::<f64>() * 3.0_f64.sqrt() - 2.0 * 3.0_f64.sqrt()
    }
}

/// How one client sees the path.
#[derive(Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub samples: u64,
    /// Median in nanoseconds.
    pub median: f64,
    /// Spread of the body, as a share.
    pub sigma: f64,
    /// Chance that a stall touches a sample, and the mean of what it adds.
    pub stall: (f64, f64),
    pub truth: f64,
    pub spins: bool,
}

pub const SHAPES: [Shape; 4] = [
    Shape {
        name: "udp-blocking",
        samples: 40_000,
        median: 60_000.0,
        sigma: 0.14,
        stall: (0.0008, 90_000.0),
        truth: 980.0,
        spins: false,
    },
    Shape {
        name: "udp-polling",
        samples: 160_000,
        median: 2_300.0,
        sigma: 0.06,
        stall: (0.006, 14_000.0),
        truth: 760.0,
        spins: true,
    },
    Shape {
        name: "xdp",
        samples: 160_000,
        median: 3_000.0,
        sigma: 0.05,
        stall: (0.002, 18_000.0),
        truth: 720.0,
        spins: true,
    },
    Shape {
        name: "kernel",
        samples: 1_300_000,
        median: 800.0,
        sigma: 0.07,
        stall: (0.0001, 9_000.0),
        truth: 640.0,
        spins: true,
    },
];

fn distributions(dice: &mut Dice, shape: &Shape, median: f64) -> (Histogram, Histogram, Histogram) {
    let mut counts = [(); 3].map(|()| vec![0_u64; buckets::LEN]);
    for _ in 0..shape.samples {
        let calm = median * (shape.sigma * dice.normal()).exp();
        let stalled = dice.uniform() < shape.stall.0;
        let extra = if stalled { 6_000.0 - shape.stall.1 * dice.uniform().ln() } else { 0.0 };
        let late = if dice.uniform() < 0.01 { -2_000.0 * dice.uniform().ln() } else { 40.0 + 20.0 * dice.uniform() };
        let latency = (calm + extra) as u64;
        counts[0][buckets::index(latency)] += 1;
        counts[1][buckets::index(latency)] += u64::from(stalled && latency >= 10_000);
        counts[2][buckets::index(late as u64)] += 1;
    }
    let [latency, touched, lateness] = counts.map(|c| Histogram::from_counts(&c));
    (latency, touched, lateness)
}

fn counts(samples: u64) -> Counts {
    let lost = samples / 10_000;
    Counts {
        sent: samples + lost,
        received: samples,
        reordered: 2,
        stamped: samples,
        lost,
        duplicates: 3,
        corrupted: 0,
        stale: 0,
        foreign: 1,
        arrivals: samples + 4 + samples / 8,
        warmup_sent: samples / 8,
        warmup_arrivals: samples / 8,
    }
}

fn series(dice: &mut Dice, shape: &Shape, median: f64) -> Vec<Point> {
    let point = |i: u32, dice: &mut Dice| Point {
        at_s: f64::from(i) * 0.5,
        samples: shape.samples / 18,
        p50_ns: Some((median * (1.0 + 0.01 * dice.normal())) as i64),
        p99_ns: (i != 7).then(|| (median * (1.0 + 3.0 * shape.sigma + 0.1 * dice.uniform())) as i64),
        max_ns: (median + 5_000.0 - shape.stall.1 * 2.0 * dice.uniform().ln()) as u64,
    };
    (0..18).map(|i| point(i, dice)).collect()
}

fn stalls(dice: &mut Dice, thread: &str, core: usize) -> CoreStalls {
    let stalls = 2_800 + (400.0 * dice.uniform()) as u64;
    CoreStalls {
        thread: thread.to_owned(),
        core: Some(core),
        threshold_ns: 10_000,
        observed_ns: 8_000_000_000,
        stalls,
        total_ns: stalls * 28_000,
        median_ns: 21_500 + (1_000.0 * dice.uniform()) as u64,
        longest_ns: 150_000 + (1_200_000.0 * dice.uniform()) as u64,
        busy: Gaps { count: 310, total_ns: 310 * 15_000, longest_ns: 90_000 },
    }
}

fn measurement(dice: &mut Dice, shape: &Shape, tapped: bool) -> Measurement {
    let median = if tapped { shape.truth } else { shape.median } * (1.0 + 0.02 * dice.normal());
    let (latency, touched, lateness) = distributions(dice, shape, median);
    let mut scheduled = latency.clone();
    (0..shape.samples / 2_000).for_each(|i| scheduled.record((median as u64) + 500 * i));
    Measurement {
        tagged: Vec::new(),
        last_lost: None,
        silence_ns: None,
        counts: counts(shape.samples),
        latency,
        touched: if shape.spins { touched } else { Histogram::default() },
        scheduled: (!tapped).then_some(scheduled),
        stages: None,
        trains: None,
        samples: Vec::new(),
        streams: Vec::new(),
        lateness: (!tapped).then_some(lateness),
        pace: (!tapped).then_some(Pace { requested: 20_000.0, achieved: 19_998.0 }),
        stalls: if shape.spins { vec![stalls(dice, "sender", 0), stalls(dice, "receiver", 1)] } else { Vec::new() },
        unattributed: 0,
        overwritten: 0,
        ambiguous: 0,
        overruns: None,
        series: series(dice, shape, median),
        notes: if shape.name == "xdp" && !tapped { vec!["AF_XDP in copy mode".to_owned()] } else { Vec::new() },
    }
}

pub fn trial(scenario: &Scenario, shape: &Shape, run: u32) -> TrialResult {
    let mut dice = Dice::new(u64::from(run) * 31 + shape.median as u64);
    let client = scenario.clients.iter().find(|c| c.name == shape.name).unwrap().clone();
    let client_saw = measurement(&mut dice, shape, false);
    let truth_shape = Shape { stall: (shape.stall.0 / 10.0, 6_000.0), ..*shape };
    TrialResult {
        trial: Trial { run, ..Trial::once(client, usect_core::trial::Traffic::of(&scenario.traffic, &scenario.quick)) },
        started: format!("2026-11-21T02:3{run}:12Z"),
        truth: Some(measurement(&mut dice, &truth_shape, true)),
        client: client_saw,
        known_delay_ns: None,
        dut: vec![("dropped".to_owned(), shape.samples / 10_000)],
        partial: (shape.name == "udp-blocking" && run == 3).then(|| "interrupted after 2.1 s".to_owned()),
    }
}

pub fn scenario() -> Scenario {
    Scenario::parse(SCENARIO).unwrap()
}

pub fn environment() -> Environment {
    let mut environment = Environment::default();
    for (key, value) in [
        ("cpu.model", "Intel(R) Xeon(R) Processor @ 2.60GHz"),
        ("cpu.cores", "2"),
        ("cpu.0.governor", "n/a: no cpufreq driver"),
        ("cpu.1.governor", "n/a: no cpufreq driver"),
        ("clock.tsc", "invariant, 2599.998 MHz"),
        ("clock.error", "±41 ns between TSC and CLOCK_MONOTONIC"),
        ("host.hypervisor", "KVM"),
        ("interface.usect0.driver", "veth"),
        ("interface.usect0.offloads", "tx off, gro off"),
        ("kernel.cmdline", "root=/dev/vda1 quiet"),
        ("kernel.release", "6.18.0"),
        ("kernel.mitigations", "retpoline; ibrs"),
    ] {
        environment.set(key, value);
    }
    environment
}

pub fn header() -> Header {
    let scenario = scenario();
    let mut dice = Dice::new(7);
    Header {
        calibrations: Vec::new(),
        within_ns: None,
        notes: Vec::new(),
        profiles: Vec::new(),
        rfc2544: None,
        dissect: None,
        matrix: None,
        resumed: Vec::new(),
        schema: SCHEMA.to_owned(),
        usect: "0.1.0".to_owned(),
        id: "20261121-023212-forwarder".to_owned(),
        procedure: "compare".to_owned(),
        created: "2026-11-21T02:32:12Z".to_owned(),
        quick: true,
        partial: None,
        protocol: scenario.quick,
        platform: vec![stalls(&mut dice, "platform", 0), stalls(&mut dice, "platform", 1)],
        environment: environment(),
        scenario,
    }
}

/// Four clients, three runs each.
pub fn results() -> Vec<TrialResult> {
    let scenario = scenario();
    (1..=3)
        .flat_map(|run| SHAPES.iter().map(move |shape| (shape, run)))
        .map(|(s, run)| trial(&scenario, s, run))
        .collect()
}

/// One run of few samples per client: quick to make, and most of the ladder is `n/a`.
pub fn small_results() -> Vec<TrialResult> {
    let scenario = scenario();
    SHAPES.iter().map(|shape| trial(&scenario, &Shape { samples: 5_000, ..*shape }, 1)).collect()
}
