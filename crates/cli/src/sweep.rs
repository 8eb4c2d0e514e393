//! `usect sweep`: from flags to a scenario with many cases.

use crate::args::Sweep;
use crate::asked;
use crate::session::Session;
use anyhow::Result;
use usect_core::pattern::Pattern;
use usect_core::rate::RateSpec;
use usect_core::scenario::Protocol;

/// Frames of each case before those that are measured.
const WARMUP: u64 = 100;

/// Runs of a sweep over rates, as in paper 001; quick.
const RUNS: (u32, u32) = (30, 3);
/// How long each lasts, in seconds; quick.
const LASTS_S: (f64, f64) = (1.0, 0.2);

/// Single frames, evenly, of every size at every gap or rate.
pub(crate) fn sweep(args: &Sweep) -> Result<Session> {
    let (mut scenario, slug) = asked::between(&args.over.between, args.over.fiber, args.sizes.0[0], "sweep")?;
    scenario.traffic.pattern = Pattern::default();
    scenario.traffic.frame_size = args.sizes.0[0];
    scenario.vary.frame_size = args.sizes.0.clone();
    let gaps = || args.gaps.0.iter().map(|gap| RateSpec::Per(1, *gap)).collect();
    let rates: Vec<RateSpec> = args.rates.as_ref().map_or_else(gaps, |rates| rates.0.clone());
    scenario.traffic.rate = rates.first().copied();
    scenario.vary.rate = if rates.len() > 1 { rates } else { Vec::new() };
    if args.rates.is_none() {
        return Ok(Session::new("sweep", slug, scenario, &args.over.output)?.with_frames(WARMUP, args.frames));
    }
    scenario.vary.loopback = args.loopback;
    let seconds = |usual: f64| args.lasts.map_or(usual, |ns| ns as f64 / 1e9);
    scenario.protocol = Protocol { warmup_s: 0.0, duration_s: seconds(LASTS_S.0), runs: RUNS.0 };
    scenario.quick = Protocol { warmup_s: 0.0, duration_s: seconds(LASTS_S.1), runs: RUNS.1 };
    Ok(Session::new("loads", slug, scenario, &args.over.output)?.going_on())
}
