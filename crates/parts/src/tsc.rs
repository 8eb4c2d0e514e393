//! Time between two readings of the counter, one right after the other: what an application can't measure any finer, and every
//! interruption of a thread that does nothing else (paper 002 §2.2, experiments 1c and 1d).

use crate::Observation;
use std::convert::Infallible;
use usect_core::histogram::Histogram;
use usect_xdp::XdpError;
use usect_xdp::gaps::Gaps;

/// Readings between two looks at the clock on the wall. They fit the second-level cache of any host.
const READINGS: usize = 1 << 15;

/// Reads the counter again and again on this thread, which the caller has pinned. Readings go into a buffer made before; what
/// is between them is worked out after, outside of what is measured.
pub fn gaps(mut observation: Observation<'_>) -> Histogram {
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

/// The same in the kernel, by an eBPF program, which reads `CLOCK_MONOTONIC` instead of the bare counter; and whether interrupts were
/// off meanwhile.
///
/// Errors: the kernel refuses the program.
pub fn in_kernel(mut observation: Observation<'_>) -> Result<(Histogram, bool), XdpError> {
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

    #[test]
    fn every_gap_of_every_batch_is_counted() {
        let clock = Clock::calibrate().unwrap();
        let stop = AtomicBool::new(false);
        let mut told = 0;
        let mut progress = |share: f64, _: &_| {
            assert!(share <= 1.0);
            told += 1;
        };
        let lasts = Duration::from_millis(600);
        let found = gaps(Observation { clock: &clock, lasts, stop: &stop, progress: &mut progress });
        assert!(found.samples() > 0 && found.samples().is_multiple_of(READINGS as u64 - 1));
        assert!(told >= 1);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let clock = Clock::calibrate().unwrap();
        let stop = AtomicBool::new(true);
        let lasts = Duration::from_secs(3600);
        let found = gaps(Observation { clock: &clock, lasts, stop: &stop, progress: &mut |_, _| {} });
        assert_eq!(found.samples(), 0);
    }
}
