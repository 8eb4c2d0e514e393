//! From flags to what is monitored, and when.

use crate::args::Monitor as Args;
use crate::{asked, trains};
use anyhow::{Result, bail};
use jiff::SignedDuration;
use usect_core::calibration::Key;
use usect_core::frame::FrameSize;
use usect_core::pattern::Pattern;
use usect_core::port_name::Engine;
use usect_core::scenario::{ClientSpec, Mode, Protocol, Scenario};
use usect_core::trial::{Traffic, Trial};
use usect_procedure::monitor::Calendar;

/// Frames before those that are measured in each interval: the first ones find everything cold.
const WARMUP: u64 = 10;
/// Fewer make no median of a second.
const SLOWEST: f64 = 10.0;
/// Lengths of an interval, in nanoseconds. In a longer one, steps would be longer than a second.
const INTERVALS: std::ops::RangeInclusive<u64> = 2_000_000_000..=600_000_000_000;

/// What is monitored.
pub(super) struct Asked {
    /// The path, one client, its frames at a low rate.
    pub(super) latency: Scenario,
    /// The same with trains, and how many frames: of the warm-up, and measured.
    pub(super) convoy: (Scenario, u64, u64),
    /// How often a line is logged.
    pub(super) interval: SignedDuration,
    /// When convoys leave.
    pub(super) calendar: Option<Calendar>,
    /// How long all of it lasts.
    pub(super) lasts: Option<SignedDuration>,
}

/// Checks all that can be checked before anything is opened.
pub(super) fn asked(args: &Args) -> Result<Asked> {
    let latency = latency(args)?;
    let mut convoy = latency.clone();
    convoy.traffic.frame_size = args.convoy_size.unwrap_or(convoy.traffic.frame_size);
    let convoy = trains::in_trains(convoy, &args.shape, true)?;
    convoy.0.check().map_err(|(_, message)| anyhow::anyhow!("convoys: {message}"))?;
    let time = |ns: u64| SignedDuration::from_nanos(ns.min(i64::MAX as u64) as i64);
    Ok(Asked {
        latency,
        convoy,
        interval: time(args.interval),
        calendar: args.convoys.clone(),
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
    if !INTERVALS.contains(&args.interval) {
        bail!("--interval runs from 2s to 10min");
    }
    let duration_s = args.interval as f64 / 1e9;
    scenario.protocol = Protocol { warmup_s: 0.0, duration_s, runs: 1 };
    scenario.check().map_err(|(_, message)| anyhow::anyhow!(message))?;
    check(&scenario)?;
    Ok(scenario)
}

/// Refuses what can't be measured all the time.
fn check(scenario: &Scenario) -> Result<()> {
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
    if rate < SLOWEST {
        bail!("--rate {rate} is too low to tell a shift within seconds: use {SLOWEST} frames a second, or more");
    }
    Ok(())
}

impl Asked {
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

    /// A convoy.
    pub(super) fn convoy_trial(&self) -> Trial {
        let (scenario, warmup_frames, frames) = &self.convoy;
        let traffic = Traffic::of(&scenario.traffic, &scenario.protocol);
        Trial::once(
            self.client().clone(),
            Traffic { warmup_frames: *warmup_frames, frames: *frames, ..traffic },
        )
    }

    /// How latency is measured.
    pub(super) fn instrument(&self) -> Key {
        Key::of(&self.trial(), &self.latency)
    }
}
