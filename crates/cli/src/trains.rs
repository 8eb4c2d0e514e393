//! `usect convoy` and `usect train`: from flags to a scenario whose frames leave in trains.

use crate::args::{Shape, Trains};
use crate::asked;
use crate::session::Session;
use anyhow::{Result, bail};
use usect_core::frame::FrameSize;
use usect_core::pattern::{MOST_TRAINS, Pattern, Train};
use usect_core::rate::RateSpec;
use usect_core::scenario::Case;
use usect_core::scenario::Scenario;

/// Frames of a train, where nobody says how many (paper 003 §5).
const LENGTH: u32 = 100;
/// Trains before those that are measured.
const WARMUP: u64 = 10;
/// How long before the heads of a convoy's trains a frame leaves, where nobody says.
const LEAD_NS: u64 = 50_000;
/// Shortest pause between trains, where the user names none.
const PAUSE_NS: u64 = 100_000;
/// Longest time from train to train.
const LONGEST_PERIOD_NS: u64 = 3_600_000_000_000;
/// Times as long as a train takes on the line until the next one begins.
const SPACIOUS: f64 = 2.0;

/// `usect convoy`.
pub(crate) fn convoy(args: &Trains) -> Result<Session> {
    session("convoy", args)
}

/// `usect train`.
pub(crate) fn train(args: &Trains) -> Result<Session> {
    session("train", args)
}

fn session(procedure: &'static str, args: &Trains) -> Result<Session> {
    let size = args.sizes.first().copied().unwrap_or(FrameSize::MIN);
    let (mut scenario, slug) = asked::between(&args.over.between, args.over.fiber, size, procedure)?;
    if !args.sizes.is_empty() {
        scenario.vary.frame_size = args.sizes.clone();
    }
    let (scenario, warmup, frames) = in_trains(scenario, &args.shape, procedure == "convoy")?;
    let session = Session::new(procedure, slug, briefly(scenario), &args.over.output)?;
    Ok(session.with_frames(warmup, frames))
}

/// A scenario whose frames leave in trains, and how many do: of the warm-up, and measured.
pub(crate) fn in_trains(mut scenario: Scenario, shape: &Shape, heads_only: bool) -> Result<(Scenario, u64, u64)> {
    // It must have passed the line before the head comes.
    let own = || LEAD_NS.max((slot_ns(&scenario) * SPACIOUS) as u64);
    let lead_ns = shape.lead.unwrap_or_else(|| if heads_only { own() } else { 0 });
    let train = Train { heads_only, lead_ns, ..asked_for(&scenario, shape) };
    train.check_length().map_err(anyhow::Error::msg)?;
    let rate = pace(&scenario, &train, shape)?;
    scenario.traffic.pattern = Pattern::Trains(train);
    scenario.traffic.rate = Some(rate);
    scenario.vary.rate.clear();
    let length = u64::from(train.length);
    let frames = shape.trains * length;
    if frames > u64::from(u32::MAX) {
        bail!("{frames} frames are more than a trial numbers, {}: use fewer or shorter trains", u32::MAX);
    }
    Ok((scenario, WARMUP * length, frames))
}

/// The train that the flags name, or else the scenario.
fn asked_for(scenario: &Scenario, args: &Shape) -> Train {
    let asked = scenario.traffic.pattern.train();
    Train {
        length: args.length.or(asked.map(|train| train.length)).unwrap_or(LENGTH),
        spacing_ns: args.spacing.or(asked.map(|train| train.spacing_ns)).unwrap_or(0),
        lead_ns: 0,
        heads_only: false,
    }
}

/// With a duration that is of no effect, because the number of trains says how long it takes.
fn briefly(mut scenario: Scenario) -> Scenario {
    for protocol in [&mut scenario.protocol, &mut scenario.quick] {
        (protocol.warmup_s, protocol.duration_s) = (0.0, 1e-3);
    }
    scenario
}

/// The mean rate of trains with the pause that was asked for, or one that is long enough.
fn pace(scenario: &Scenario, train: &Train, args: &Shape) -> Result<RateSpec> {
    if args.trains == 0 || args.trains > MOST_TRAINS {
        bail!("--trains runs from 1 to {MOST_TRAINS}");
    }
    let lasts_ns = train.lasts_ns();
    let on_line = on_line_ns(scenario, train).max(lasts_ns as f64);
    let pause_ns = args.pause.unwrap_or((on_line * SPACIOUS) as u64 - lasts_ns + PAUSE_NS);
    let period_ns = lasts_ns.saturating_add(pause_ns);
    if (period_ns as f64) < on_line {
        bail!(
            "a train of {} frames takes {:.0} us on this line, and the next one would begin after {} us: its head would wait \
             behind it; use a longer --pause",
            train.length,
            on_line / 1e3,
            period_ns / 1000
        );
    }
    if !(1..=LONGEST_PERIOD_NS).contains(&period_ns) {
        bail!(
            "a train every {} s is none that is waited for: a train, its --lead and its --pause last an hour at most",
            period_ns / 1_000_000_000
        );
    }
    Ok(RateSpec::Per(train.length.into(), period_ns))
}

/// What the longest train of all cases takes on the line, in nanoseconds; 0 where no line is known.
fn on_line_ns(scenario: &Scenario, train: &Train) -> f64 {
    slot_ns(scenario) * f64::from(train.length)
}

/// What the frame of all cases that takes longest takes on the line; 0 where no line is known.
fn slot_ns(scenario: &Scenario) -> f64 {
    let of = |case: Case| {
        let size = case.traffic(&scenario.traffic).frame_size;
        case.dut(&scenario.dut).fiber().map_or(0.0, |fiber| fiber.line_rate.slot_ns(size))
    };
    scenario.vary.cases().into_iter().map(of).fold(0.0, f64::max)
}
