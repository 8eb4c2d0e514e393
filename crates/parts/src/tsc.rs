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

/// Gaps between readings that somebody else makes, one right after the other, and hands out with each call.
///
/// Errors: those of `read`.
pub fn of_readings<E>(
    observation: Observation<'_>,
    mut read: impl FnMut(&mut dyn FnMut(u64)) -> Result<(), E>,
) -> Result<Histogram, E> {
    let rate = observation.clock.rate();
    observation.observe(|recorder| {
        let mut last = None;
        read(&mut |reading| {
            if let Some(last) = last.replace(reading) {
                // A counter that goes back, as an emulated one may, has no gap.
                recorder.record(rate.ns(reading.saturating_sub(last)));
            }
        })
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
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    fn gaps_of_readings_are_within_a_call() {
        let (clock, stop, recorder) = (Clock::calibrate().unwrap(), AtomicBool::new(false), Recorder::default());
        let second = clock.rate().ticks(1_000_000_000);
        let lasts = Duration::from_secs(3600);
        let observation = Observation { clock: &clock, lasts, stop: &stop, recorder: &recorder };
        let mut calls = 0;
        let found = of_readings(observation, |each| {
            calls += 1;
            [calls * 5 * second, calls * 5 * second + second, calls].into_iter().for_each(each);
            stop.store(calls == 2, Relaxed);
            Ok::<(), Infallible>(())
        });
        let found = found.unwrap();
        // A second, and one that goes back, twice; none between two calls.
        assert_eq!((found.samples(), found.min()), (4, 0));
        assert!(found.max().abs_diff(1_000_000_000) < 1_000_000);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        assert_eq!(gaps_of(Duration::from_secs(3600), true).samples(), 0);
    }
}
