//! From flags to what is monitored, and when.

use crate::args::{Monitor as Args, Shape};
use crate::scrape;
use crate::{asked, trains};
use anyhow::{Result, bail};
use jiff::SignedDuration;
use std::time::Duration;
use usect_core::calibration::Key;
use usect_core::frame::FrameSize;
use usect_core::pattern::Pattern;
use usect_core::port_name::Engine;
use usect_core::scenario::{ClientSpec, Mode, Protocol, Scenario};
use usect_core::trial::{Traffic, Trial};
use usect_procedure::monitor::Calendar;
use usect_rig::place;

/// Frames before those that are measured in each interval: the first ones find everything cold.
const WARMUP: u64 = 10;
/// Fewer frames make no median of a step.
const FEWEST: f64 = 10.0;
/// Lengths of a step, in nanoseconds: what watches the trial wakes several times in each.
const STEPS: std::ops::RangeInclusive<u64> = 100_000_000..=10_000_000_000;
/// Lengths of an interval, in steps. In a longer one, steps would be longer than they are asked to be.
const INTERVALS: std::ops::RangeInclusive<f64> = 2.0..=600.0;

/// What is monitored.
pub(super) struct Asked {
    /// The path, one client, its frames at a low rate.
    pub(super) latency: Scenario,
    /// How often a line is logged.
    pub(super) interval: SignedDuration,
    /// How often a median is taken.
    pub(super) step: Duration,
    /// Convoys, where the user wants them, and when they leave.
    pub(super) convoys: Option<(Convoys, Calendar)>,
    /// How long all of it lasts.
    pub(super) lasts: Option<SignedDuration>,
}

/// The same path, in trains.
pub(super) struct Convoys {
    pub(super) scenario: Scenario,
    warmup_frames: u64,
    frames: u64,
}

/// Checks all that can be checked before anything is opened.
pub(super) fn asked(args: &Args) -> Result<Asked> {
    let latency = latency(args)?;
    let Shape { length, spacing, pause, lead, .. } = &args.shape;
    let shaped = length.is_some() || spacing.or(*pause).or(*lead).is_some();
    if args.convoys.is_none() && shaped {
        bail!("--length, --spacing, --pause and --lead are those of convoys: say when these leave with --convoys");
    }
    let convoys = args.convoys.clone().map(|calendar| Ok::<_, anyhow::Error>((convoys(args, &latency)?, calendar)));
    if args.above == Some(0) || args.lasts.is_some_and(|lasts| lasts < 2_000_000_000) {
        bail!("--above is above 0, and --for is 2s or more");
    }
    if let Some(calendar) = args.convoys.as_ref().filter(|calendar| calendar.next(&jiff::Zoned::now()).is_none()) {
        bail!("--convoys {calendar} names no time that is still to come");
    }
    let time = |ns: u64| SignedDuration::from_nanos(ns.min(i64::MAX as u64) as i64);
    Ok(Asked {
        latency,
        interval: time(args.interval),
        step: Duration::from_nanos(args.step),
        convoys: convoys.transpose()?,
        lasts: args.lasts.map(time),
    })
}

fn latency(args: &Args) -> Result<Scenario> {
    let size = args.size.unwrap_or(FrameSize::MIN);
    let (mut scenario, _) = asked::between(&args.between, None, size, "monitor")?;
    if args.between.tx.is_some() {
        let client = &mut scenario.clients[0];
        (client.wait, client.stamp) = (args.wait.into(), args.stamp.into());
        scenario.traffic.mode = if args.round_trip { Mode::RoundTrip } else { Mode::OneWay };
    }
    scenario.traffic.frame_size = args.size.unwrap_or(scenario.traffic.frame_size);
    scenario.traffic.rate = Some(args.rate);
    if !STEPS.contains(&args.step) {
        bail!("--step runs from 100ms to 10s");
    }
    if !INTERVALS.contains(&(args.interval as f64 / args.step as f64)) {
        bail!("--interval is 2 to 600 times --step: with one of 1s, 2s to 10min");
    }
    let duration_s = args.interval as f64 / 1e9;
    scenario.protocol = Protocol { warmup_s: 0.0, duration_s, runs: 1 };
    scenario.check().map_err(|(_, message)| anyhow::anyhow!(message))?;
    check(&scenario, args.step)?;
    Ok(scenario)
}

fn convoys(args: &Args, latency: &Scenario) -> Result<Convoys> {
    let mut scenario = latency.clone();
    let traffic = &mut scenario.traffic;
    traffic.frame_size = args.convoy_size.unwrap_or(traffic.frame_size);
    // Trains go one way, in one flow, also where latency is that of the way there and back.
    (traffic.mode, traffic.flows, traffic.both) = (Mode::OneWay, 1, false);
    let (scenario, warmup_frames, frames) = trains::in_trains(scenario, &args.shape, true)?;
    scenario.check().map_err(|(_, message)| anyhow::anyhow!("convoys: {message}"))?;
    Ok(Convoys { scenario, warmup_frames, frames })
}

/// Refuses what can't be measured all the time, in steps of so many nanoseconds.
fn check(scenario: &Scenario, step: u64) -> Result<()> {
    let names: Vec<&str> = scenario.clients.iter().map(|client| client.name.as_str()).collect();
    if names.len() > 1 {
        bail!("a monitor has one client: choose it with --client ({})", names.join(", "));
    }
    if scenario.clients[0].engine == Engine::Kernel {
        bail!("the kernel engine sends in bursts of its own: monitor with udp, packet, xdp, dpdk or mem");
    }
    if !scenario.vary.is_nothing() {
        bail!("a monitor watches one path, and this scenario varies it: use one without [vary]");
    }
    if scenario.traffic.mode == Mode::PingPong {
        bail!("ping-pong has no low rate: use mode \"round-trip\"");
    }
    if !matches!(scenario.traffic.pattern, Pattern::Constant {} | Pattern::Poisson { .. }) {
        bail!("a monitor's frames leave one by one, and convoys are sent with --convoys: leave traffic.pattern out");
    }
    let rate = scenario.traffic.mean_rate().map_or(0.0, |rate| rate.frames_per_second());
    let slowest = FEWEST * 1e9 / step as f64;
    if rate < slowest {
        bail!("--rate {rate} is too low for a median of every step: use {slowest} frames a second, or more");
    }
    Ok(())
}

impl Asked {
    /// The cores on which nothing of it is measured, convoys included; all, where there are no others.
    pub(super) fn beside(&self) -> Result<Vec<usize>> {
        let online = usect_lab::audit::online_cores();
        let convoys = self.convoys.iter().map(|(convoys, _)| &convoys.scenario);
        let each = std::iter::once(&self.latency).chain(convoys).map(|scenario| place::measuring(scenario, &online));
        let measuring = each.collect::<Result<Vec<_>, String>>().map_err(anyhow::Error::msg)?.concat();
        Ok(scrape::beside(&online, &measuring))
    }

    /// Its only client.
    fn client(&self) -> &ClientSpec {
        &self.latency.clients[0]
    }

    /// Latency for so long.
    pub(super) fn traffic(&self, lasts: SignedDuration) -> Traffic {
        let protocol = Protocol { duration_s: lasts.as_secs_f64(), ..self.latency.protocol };
        Traffic { warmup_frames: WARMUP, ..Traffic::of(&self.latency.traffic, &protocol) }
    }

    /// What a path is opened for.
    pub(super) fn trial(&self) -> Trial {
        Trial::once(self.client().clone(), self.traffic(self.interval))
    }

    /// How latency is measured.
    pub(super) fn instrument(&self) -> Key {
        Key::of(&self.trial(), &self.latency)
    }
}

impl Convoys {
    /// One of them.
    pub(super) fn trial(&self) -> Trial {
        let traffic = Traffic::of(&self.scenario.traffic, &self.scenario.protocol);
        let traffic = Traffic { warmup_frames: self.warmup_frames, frames: self.frames, ..traffic };
        Trial::once(self.scenario.clients[0].clone(), traffic)
    }
}
