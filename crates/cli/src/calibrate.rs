//! `usect calibrate`: what an instrument adds, over a path whose latency physics tells.

use crate::args::Measuring;
use crate::session::Session;
use crate::{asked, trains};
use anyhow::{Result, bail};
use std::process::ExitCode;
use usect_procedure::calibrate;
use usect_report::store;

/// Measures as another command does, and keeps what comes out beyond physics.
pub(crate) fn run(with: &Measuring) -> Result<ExitCode> {
    let session: Session = match with {
        Measuring::Compare(args) => asked::compare(args)?,
        Measuring::Measure(args) => asked::measure(args)?,
        Measuring::Convoy(args) => trains::convoy(args)?,
        Measuring::Train(args) => trains::train(args)?,
    };
    session.check_physics()?;
    let path = session.calibration();
    // What can't be added to is better known before anything is measured.
    if path.exists() {
        store::read_calibrations(&path)?;
    }
    session.uncalibrated().run_with(|run, pooled| {
        let found = calibrate::of_run(run, pooled);
        if found.is_empty() {
            bail!("too few samples for a median: measure for longer, or more trains");
        }
        for one in &found {
            let ns = one.correction_ns;
            let (path, key) = (&one.path, &one.key);
            crate::complain(format_args!(
                "{key}: {:+.0} ns ({:+.0} to {:+.0}), over {path}, where physics gives {:.0} ns",
                ns.value, ns.low, ns.high, one.expected_ns
            ));
        }
        let all = store::add_calibrations(&path, found.clone())?;
        all.constancy(&found).iter().for_each(|sentence| crate::complain(format_args!("{sentence}")));
        crate::complain(format_args!("kept in {}", path.display()));
        Ok(())
    })
}
