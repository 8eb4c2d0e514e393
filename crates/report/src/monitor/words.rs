//! Entries of a log as sentences and lines.

use crate::format;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use usect_core::monitor::{Alarm, Convoy, Interval, Start};
use usect_core::stats::Quantile;

/// Percentiles of a line.
const SHOWN: [f64; 3] = [0.5, 0.99, 0.999];

/// Share of the time for which threads may wait for a core without a word.
const WAITED: f64 = 0.05;

/// The time of day, in this host's time zone.
fn time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

fn nanoseconds(ns: f64) -> String {
    format::ns(ns.round() as i64)
}

fn whole(value: f64) -> String {
    format::count(value as u64)
}

/// What somebody should know: when, what, and by how much.
pub fn alarm(alarm: &Alarm, start: &Start) -> String {
    match alarm {
        Alarm::Shift { at, seen_at, from_ns, to_ns, waited } => {
            let waited = (*waited > WAITED).then(|| {
                format!(
                    "; its threads waited for a core {} of that time, so this host may be the reason",
                    format::share(*waited)
                )
            });
            let bound = |ns| start.most_writes(ns).map(whole);
            let writes = bound(*from_ns).zip(bound(*to_ns));
            let writes = writes.map(|(from, to)| format!("; writes are now bound by {to} a second, before by {from}"));
            format!(
                "latency has shifted by {}, from {} to {}, at {} (certain {:.0} s later){}{}",
                format::signed_ns((to_ns - from_ns).round() as i64),
                nanoseconds(*from_ns),
                nanoseconds(*to_ns),
                time(*at),
                seen_at.duration_since(*at).as_secs_f64(),
                writes.unwrap_or_default(),
                waited.unwrap_or_default()
            )
        }
        Alarm::High { at, threshold_ns, median_ns } => {
            format!("latency is above {} since {}: {}", format::ns(*threshold_ns), time(*at), nanoseconds(*median_ns))
        }
        Alarm::HighOver { at, threshold_ns } => {
            format!("latency is no longer above {}, since {}", format::ns(*threshold_ns), time(*at))
        }
        Alarm::Silent { at } => format!("nothing arrives since {}", time(*at)),
        Alarm::SilentOver { at, after_s } => format!("frames arrive again since {}, after {after_s:.0} s", time(*at)),
    }
}

/// What is usual, with and without what the instrument is known to add.
pub(crate) fn level(ns: f64, start: &Start) -> String {
    let corrected =
        start.calibration.as_ref().map(|_| format!(" ({} calibrated)", nanoseconds(start.calibrated_ns(ns))));
    format!("{}{}", nanoseconds(ns), corrected.unwrap_or_default())
}

/// An interval in a line.
pub fn interval(interval: &Interval, start: &Start) -> String {
    let Interval { at, lasted_s, counts, latency, level_ns, .. } = interval;
    let shown = SHOWN.map(|share| {
        let quantile = Quantile::new(share).expect("constant share");
        let estimate = latency.quantiles.iter().find(|estimate| estimate.quantile == quantile);
        let value = estimate.and_then(|estimate| estimate.value);
        format!("{quantile} {}", value.map_or_else(|| "n/a".to_owned(), |value| format::ns(value.ns)))
    });
    let level = level_ns.map(|ns| format!("  level {}", level(ns, start)));
    let bound = interval.median_ns().and_then(|ns| start.most_writes(ns));
    let bound = bound.map(|bound| format!("  writes < {}/s", whole(bound)));
    format!(
        "{}  {lasted_s:.0} s  {} sent, {} lost  {}  largest {}{}{}",
        time(*at),
        format::count(counts.sent),
        format::count(counts.lost),
        shown.join("  "),
        if latency.samples == 0 { "n/a".to_owned() } else { format::ns(latency.max_ns) },
        level.unwrap_or_default(),
        bound.unwrap_or_default(),
    )
}

/// A convoy in a line.
pub fn convoy(convoy: &Convoy) -> String {
    let Convoy { at, frame_size, trains, .. } = convoy;
    let [capacity, ..] = trains.bits(*frame_size).map_or([None; 3], |bits| bits.map(Some));
    let bound = if trains.sender_bound { " or more, the sender is the bottleneck" } else { "" };
    format!(
        "{}  convoy of {} trains, {} bytes: capacity {}{bound}, heads {}, {} lost",
        time(*at),
        trains.trains,
        frame_size.with_fcs(),
        capacity.map_or_else(|| "n/a".to_owned(), |bits| format::bits(bits.value)),
        trains.head_ns.map_or_else(|| "n/a".to_owned(), |head| nanoseconds(head.value)),
        trains.loss.map_or_else(|| "n/a".to_owned(), |loss| format::share(loss.value)),
    )
}

/// What a running interval shows: the last second's median, what is usual, and how long until its line.
pub fn now(median_ns: Option<f64>, level_ns: Option<f64>, left_s: f64) -> String {
    let median = median_ns.map_or_else(|| "nothing measured".to_owned(), nanoseconds);
    let level = level_ns.map_or_else(|| "not known yet".to_owned(), nanoseconds);
    format!("now {median}, usual {level}; next line in {:.0} s", left_s.max(0.0))
}
