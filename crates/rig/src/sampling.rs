//! Watching a running trial from outside: progress for the user, the time series, the clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::series::{Interval, Point, Sampler};
use usect_core::trial::Traffic;
use usect_port::Cards;
use usect_port::client::{Control, Probe};

/// How often the user hears of progress.
const TICK: Duration = Duration::from_millis(250);
/// How long an interval of a time series is, unless it is told otherwise; a series has at most [`POINTS`] intervals.
pub(crate) const STEP: Duration = Duration::from_secs(1);
const POINTS: u32 = 600;

/// How far a trial is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Seconds since it began.
    pub elapsed_s: f64,
    /// Seconds that its traffic takes.
    pub expected_s: f64,
    /// Frames sent, warm-up included.
    pub sent: u64,
    /// Measured frames received.
    pub received: u64,
    /// The interval of the time series that has just ended, if one has.
    pub closed: Option<&'a Interval>,
}

/// Watches until `done`; returns the series of the client and of the truth.
///
/// What it does beside the measurement it does seldom and briefly: a reading takes some 50 µs.
pub(crate) fn watch(
    done: &AtomicBool,
    (traffic, step): (&Traffic, Duration),
    probes: (&Arc<dyn Probe>, Option<&Arc<dyn Probe>>),
    (control, cards): (&Control, Option<&Cards>),
    progress: &mut dyn FnMut(&Progress),
) -> (Vec<Point>, Vec<Point>) {
    let expected = Duration::from_nanos(traffic.rate.offset_ns(traffic.warmup_frames + traffic.frames));
    let interval = step.max(expected / POINTS);
    let (mut client, mut truth) = (Sampler::default(), Sampler::default());
    let begun = Instant::now();
    let mut next = interval;
    loop {
        let over = done.load(Relaxed);
        let elapsed = begun.elapsed();
        let mut closed = None;
        if elapsed >= next || over {
            closed = Some(client.sample(elapsed.as_secs_f64(), probes.0.latency()));
            if let Some(probe) = probes.1 {
                truth.sample(elapsed.as_secs_f64(), probe.latency());
            }
            control.bridge.lock().expect("no holder panics").add(usect_clock::correlate());
            next += interval;
        }
        if let Some(cards) = cards {
            // One that can't be read any more is found out when the trial ends.
            let _ = cards.read();
        }
        progress(&Progress {
            elapsed_s: elapsed.as_secs_f64(),
            expected_s: expected.as_secs_f64(),
            sent: probes.0.sent(),
            received: probes.0.received(),
            closed,
        });
        if over {
            return (client.finish(), truth.finish());
        }
        std::thread::park_timeout(TICK.min(interval / 4));
    }
}
