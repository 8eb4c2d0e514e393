//! Numbers as people read them: three significant digits, units that adapt.

use usect_core::run::Header;
use usect_core::scenario::{Mode, TrafficSpec};
use usect_core::stats::Interval;
use usect_core::trial::Traffic;

/// `812 ns`, `61.2 µs`, `1.20 ms`: below 1 µs whole nanoseconds, above it three digits.
pub(crate) fn ns(value: impl Into<i128>) -> String {
    let value = value.into();
    let sign = if value < 0 { "−" } else { "" };
    let size = value.unsigned_abs();
    if size < 1_000 {
        return format!("{sign}{size} ns");
    }
    let size = size as f64;
    let (scaled, unit) = [(1e3, "µs"), (1e6, "ms"), (1e9, "s")]
        .into_iter()
        .map(|(scale, unit)| (size / scale, unit))
        .find(|&(scaled, unit)| scaled < 999.5 || unit == "s")
        .expect("seconds take any size");
    format!("{sign}{} {unit}", three_digits(scaled))
}

/// The same with a sign for what is above zero, as a difference needs.
pub(crate) fn signed_ns(value: i64) -> String {
    let plus = if value > 0 { "+" } else { "" };
    format!("{plus}{}", ns(value))
}

/// An error: with its sign, or, where it is below what the buckets tell apart, as what it is less than.
pub(crate) fn error(value: &Interval) -> String {
    match (value.ns, value.bound_ns()) {
        (0, bound) if bound > 0 => format!("<{}", ns(bound)),
        (error, _) => signed_ns(error),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// `1 µs`, `200 µs`: a round figure, without the digits that it doesn't have.
pub(crate) fn bound(round_ns: u64) -> String {
    match round_ns {
        n if n >= 1_000_000_000 => format!("{} s", n / 1_000_000_000),
        n if n >= 1_000_000 => format!("{} ms", n / 1_000_000),
        n if n >= 1_000 => format!("{} µs", n / 1_000),
        n => format!("{n} ns"),
    }
}

/// `3,688,878`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A share as a percentage; never rounded to 0 or to 100 when it is neither.
pub(crate) fn share(value: f64) -> String {
    let percent = value * 100.0;
    match percent {
        p if p == 0.0 || p == 100.0 => format!("{p:.0} %"),
        p if p < 0.0001 => "<0.0001 %".to_owned(),
        p if p < 0.01 => format!("{p:.4} %"),
        p if p < 1.0 => format!("{p:.3} %"),
        p if p > 99.99 && p < 100.0 => format!("{} %", (p * 1e4).floor() / 1e4),
        p if p < 10.0 => format!("{p:.2} %"),
        p if p < 99.0 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}

/// A difference as a percentage of what it differs from, with its sign.
pub(crate) fn signed_share(value: f64) -> String {
    let digits = if value.abs() < 0.0995 { 2 } else { 1 };
    format!("{:+.digits$} %", value * 100.0).replace('-', "−")
}

/// Bits per second: `7.143 Gbit/s`.
pub(crate) fn bits(per_second: f64) -> String {
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let (scale, unit) = units.into_iter().find(|&(scale, _)| per_second >= scale).unwrap_or((1.0, "bit/s"));
    let scaled = per_second / scale;
    let decimals = if scaled < 9.9995 {
        3
    } else if scaled < 99.995 {
        2
    } else {
        1
    };
    format!("{scaled:.decimals$} {unit}")
}

/// A part of a whole as a percentage; `–` of nothing.
pub(crate) fn part(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { share(part as f64 / whole as f64) }
}

/// Frames per second: `20 kpps`, `19.998 kpps`.
pub(crate) fn rate(frames_per_second: f64) -> String {
    let (scaled, unit) = match frames_per_second {
        r if r >= 1e6 => (r / 1e6, "Mpps"),
        r if r >= 1e3 => (r / 1e3, "kpps"),
        r => (r, "pps"),
    };
    let text = format!("{scaled:.3}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `8 s`, `0.5 s`.
pub(crate) fn seconds(value: f64) -> String {
    format!("{value} s")
}

/// `61.0 to 61.4 µs`, each end written by `write`; the unit once where both ends have the same.
pub(crate) fn interval(value: &Interval, write: fn(i64) -> String) -> String {
    bounded(&write(value.low_ns), &write(value.high_ns))
}

/// The ends of an interval, both written, the unit once where both have the same.
pub(crate) fn bounded(low: &str, high: &str) -> String {
    let unit = high.rsplit(' ').next().unwrap_or_default();
    let low = low.strip_suffix(unit).map_or(low, str::trim_end);
    format!("{low} to {high}")
}

/// `64-byte frames at 20 kpps, one-way`, and what of the scenario's traffic isn't plain.
pub(crate) fn traffic(traffic: &Traffic, asked: &TrafficSpec) -> String {
    let size = traffic.frame_size.with_fcs();
    let mut parts = vec![match traffic.mode {
        Mode::PingPong => format!("{size}-byte frames one at a time, up to {}, ping-pong", count(traffic.frames)),
        mode => format!("{size}-byte frames at {}, {mode}", rate(traffic.rate.frames_per_second())),
    }];
    parts.extend((!traffic.pattern.is_constant()).then(|| traffic.pattern.to_string()));
    parts.extend(asked.both.then(|| "both directions at once".to_owned()));
    parts.extend((asked.flows > 1).then(|| format!("{} flows in turn", asked.flows)));
    parts.extend((!asked.frame.is_plain()).then(|| asked.frame.to_string()));
    parts.join(", ")
}

/// How often and how long each client measured.
pub(crate) fn protocol(header: &Header) -> String {
    let p = &header.protocol;
    if header.rfc2544.is_some() {
        return "RFC 2544".to_owned();
    }
    if header.dissect.is_some() {
        return format!("dissect: {} a row", seconds(p.duration_s));
    }
    let of = if header.matrix.is_some() { "combination" } else { "client" };
    let runs = if p.runs == 1 { "one run".to_owned() } else { format!("{} runs", p.runs) };
    // Of some the number of frames says how long they take.
    let each = match header.procedure.as_str() {
        "sweep" => ", size and gap".to_owned(),
        "loads" => format!(", size and rate, {} each", seconds(p.duration_s)),
        "convoy" | "train" => String::new(),
        _ => format!(", {} each after {} of warm-up", seconds(p.duration_s), seconds(p.warmup_s)),
    };
    format!("{}: {runs} per {of}{each}", header.procedure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_adapt_and_digits_stay() {
        let texts: Vec<String> =
            [0, 7, 999, 1_000, 9_994, 9_996, 61_234, 99_960, 999_499, 999_600, 1_234_567, 60_000_000_000]
                .map(|v: i64| ns(v))
                .into();
        assert_eq!(
            texts,
            [
                "0 ns", "7 ns", "999 ns", "1.00 µs", "9.99 µs", "10.0 µs", "61.2 µs", "100 µs", "999 µs", "1.00 ms",
                "1.23 ms", "60.0 s"
            ]
        );
        assert_eq!(
            (signed_ns(1_500), signed_ns(-12), signed_ns(0)),
            ("+1.50 µs".into(), "−12 ns".into(), "0 ns".into())
        );
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_nothing() {
        assert_eq!((share(0.0), share(1.0)), ("0 %".into(), "100 %".into()));
        assert_eq!((share(0.999_999_9), share(1e-9)), ("99.9999 %".into(), "<0.0001 %".into()));
        assert_eq!((share(0.001), share(0.0105), share(0.5)), ("0.100 %".into(), "1.05 %".into(), "50.0 %".into()));
    }

    #[test]
    fn bits_and_differences_have_their_units() {
        assert_eq!(
            (bits(7.142_857e9), bits(98.76e6), bits(512.0)),
            ("7.143 Gbit/s".into(), "98.76 Mbit/s".into(), "512.0 bit/s".into())
        );
        assert_eq!((signed_share(-0.0014), signed_share(0.25)), ("−0.14 %".into(), "+25.0 %".into()));
        assert_eq!(bounded("7.1 Gbit/s", "7.2 Gbit/s"), "7.1 to 7.2 Gbit/s");
    }

    #[test]
    fn an_interval_names_a_unit_once() {
        let of = |low_ns, high_ns| interval(&Interval { ns: low_ns, low_ns, high_ns }, signed_ns);
        assert_eq!((of(61_000, 61_400), of(5, 7)), ("+61.0 to +61.4 µs".into(), "+5 to +7 ns".into()));
        assert_eq!(
            (of(-900, 1_500), of(900_000, 1_500_000)),
            ("−900 ns to +1.50 µs".into(), "+900 µs to +1.50 ms".into())
        );
    }

    #[test]
    fn counts_bounds_and_rates() {
        assert_eq!((count(3_688_878), count(999), count(1_000)), ("3,688,878".into(), "999".into(), "1,000".into()));
        assert_eq!(
            (bound(100), bound(200_000), bound(1_000_000_000)),
            ("100 ns".into(), "200 µs".into(), "1 s".into())
        );
        assert_eq!(
            (rate(20_000.0), rate(19_998.04), rate(1_488_095.2)),
            ("20 kpps".into(), "19.998 kpps".into(), "1.488 Mpps".into())
        );
    }
}
