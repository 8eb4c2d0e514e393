//! Time between two readings of the counter, one right after the other: what an application can't measure any finer, and every
//! interruption of a thread that does nothing else (paper 002 §2.2, experiments 1c and 1d).

use crate::Observation;
use crate::module::Module;
use std::convert::Infallible;
use std::io;
use usect_core::histogram::Histogram;
use usect_xdp::XdpError;
use usect_xdp::gaps::Gaps;

/// Readings between two looks at the clock on the wall. They fit the second-level cache of any host.
const READINGS: usize = 1 << 15;

/// Reads the counter again and again on this thread, which the caller has pinned. Readings go into a buffer made before; what
/// is between them is worked out after, outside of what is measured.
pub fn gaps(observation: Observation<'_>) -> Histogram {
    let clock = *observation.clock;
    // Written once, so that no page of it is touched first while it is measured.
    let mut readings = vec![u64::MAX; READINGS];
    let batch = observation.observe(|recorder| {
        for reading in &mut readings {
            *reading = clock.now().0;
        }
        for pair in readings.windows(2) {
            recorder.record(clock.rate().ns(pair[1] - pair[0]));
        }
        Ok::<(), Infallible>(())
    });
    batch.unwrap_or_else(|never| match never {})
}

/// The same in the kernel with interrupts off, by a module of ours.
///
/// Errors: of the kernel.
pub fn in_module(observation: Observation<'_>, mut module: Module) -> io::Result<Histogram> {
    let rate = observation.clock.rate();
    observation.observe(|recorder| {
        let mut last = None;
        for reading in module.read()? {
            if let Some(last) = last.replace(reading) {
                recorder.record(rate.ns(reading - last));
            }
        }
        Ok(())
    })
}

/// The same in the kernel, by an eBPF program, which reads `CLOCK_MONOTONIC` instead of the bare counter; and whether interrupts were
/// off meanwhile.
///
/// Errors: the kernel refuses the program.
pub fn in_kernel(observation: Observation<'_>) -> Result<(Histogram, bool), XdpError> {
    let program = Gaps::load()?;
    let found = observation.observe(|recorder| program.read(&mut |ns| recorder.record(ns)))?;
    Ok((found, program.was_uninterrupted()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;
    use usect_clock::Clock;
    use usect_core::buckets::Recorder;

    fn gaps_of(lasts: Duration, stop: bool) -> Histogram {
        let (clock, stop, recorder) = (Clock::calibrate().unwrap(), AtomicBool::new(stop), Recorder::default());
        let found = gaps(Observation { clock: &clock, lasts, stop: &stop, recorder: &recorder });
        assert_eq!(found, Histogram::from_counts(&recorder.counts()), "others see the same");
        found
    }

    #[test]
    fn every_gap_of_every_batch_is_counted() {
        let found = gaps_of(Duration::from_millis(300), false);
        assert!(found.samples() > 0 && found.samples().is_multiple_of(READINGS as u64 - 1));
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        assert_eq!(gaps_of(Duration::from_secs(3600), true).samples(), 0);
    }
}
