//! `usect sweep`: from flags to a scenario with many cases.

use crate::args::Sweep;
use crate::asked;
use crate::session::Session;
use anyhow::Result;
use usect_core::pattern::Pattern;
use usect_core::rate::RateSpec;

/// Frames of each case before those that are measured.
const WARMUP: u64 = 100;

/// Single frames, evenly, of every size at every gap.
pub(crate) fn sweep(args: &Sweep) -> Result<Session> {
    let (mut scenario, slug) = asked::between(&args.over.between, args.over.fiber, args.sizes.0[0], "sweep")?;
    let rate = |gap: &u64| RateSpec::Per(1, *gap);
    scenario.traffic.pattern = Pattern::default();
    scenario.traffic.frame_size = args.sizes.0[0];
    scenario.traffic.rate = args.gaps.0.first().map(rate);
    scenario.vary.frame_size = args.sizes.0.clone();
    scenario.vary.rate = if args.gaps.0.len() > 1 { args.gaps.0.iter().map(rate).collect() } else { Vec::new() };
    Ok(Session::new("sweep", slug, scenario, &args.over.output)?.with_frames(WARMUP, args.frames))
}
