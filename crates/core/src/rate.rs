//! Frame rates, kept as an exact ratio so that no rounding accumulates in a schedule.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes a frame occupies on an Ethernet line beyond itself: preamble, delimiter and gap (RFC 1242
/// §3.15, IEEE 802.3).
pub const LINE_OVERHEAD: u64 = 20;

/// `frames` departures in every `per_ns` nanoseconds; in none, where nothing is to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Rate {
    frames: u64,
    per_ns: u64,
}

/// A rate as it is stored.
#[derive(Deserialize)]
struct Parts {
    frames: u64,
    per_ns: u64,
}

impl TryFrom<Parts> for Rate {
    type Error = &'static str;

    fn try_from(Parts { frames, per_ns }: Parts) -> Result<Rate, &'static str> {
        if frames > 0 { Ok(Rate { frames, per_ns }) } else { Err("a rate of no frames is none") }
    }
}

impl Rate {
    /// `frames` per second; `None` for zero.
    pub fn per_second(frames: u64) -> Option<Rate> {
        (frames > 0).then_some(Rate { frames, per_ns: 1_000_000_000 })
    }

    /// `frames` in every `per_ns` nanoseconds; `None` where either is zero.
    pub fn ratio(frames: u64, per_ns: u64) -> Option<Rate> {
        (frames > 0 && per_ns > 0).then_some(Rate { frames, per_ns })
    }

    /// One departure where this has `times` as many.
    pub fn slower(self, times: u64) -> Rate {
        let divisor = greatest_common_divisor(self.frames, times);
        Rate { frames: self.frames / divisor, per_ns: self.per_ns * (times / divisor) }
    }

    /// `multiplier / divisor` times as many, both above 0; exact unless the parts don't fit.
    pub fn times(self, multiplier: u64, divisor: u64) -> Rate {
        let (mut frames, mut per_ns) =
            (u128::from(self.frames) * u128::from(multiplier), u128::from(self.per_ns) * u128::from(divisor));
        let common = greatest_common_divisor(frames, per_ns).max(1);
        (frames, per_ns) = (frames / common, per_ns / common);
        while frames.max(per_ns) > u128::from(u64::MAX) {
            (frames, per_ns) = (frames / 2, per_ns / 2);
        }
        Rate { frames: frames.max(1) as u64, per_ns: per_ns as u64 }
    }

    /// As fast as it goes: everything is due at once.
    pub const UNPACED: Rate = Rate { frames: 1, per_ns: 0 };

    /// Whether departures have times at all.
    pub fn is_paced(self) -> bool {
        self.per_ns > 0
    }

    /// The rate at which frames of `frame_size` bytes (with FCS) fill `bits` per second of a line.
    pub fn of_line(bits: u64, frame_size: u16) -> Option<Rate> {
        let bits_per_frame = (u64::from(frame_size) + LINE_OVERHEAD) * 8;
        (bits > 0).then_some(Rate { frames: bits, per_ns: bits_per_frame * 1_000_000_000 })
    }

    /// When the `index`th frame is due after the first, in nanoseconds, rounded down.
    #[inline]
    pub fn offset_ns(self, index: u64) -> u64 {
        (u128::from(index) * u128::from(self.per_ns) / u128::from(self.frames)) as u64
    }

    /// The gap between departures as a fraction of nanoseconds in lowest terms: numerator, denominator.
    pub fn gap(self) -> (u64, u64) {
        let divisor = greatest_common_divisor(self.frames, self.per_ns);
        (self.per_ns / divisor, self.frames / divisor)
    }

    /// Frames due in `ns` nanoseconds; without a pace, as many as there can be.
    pub fn frames_in(self, ns: u64) -> u64 {
        if !self.is_paced() {
            return u64::MAX;
        }
        (u128::from(ns) * u128::from(self.frames) / u128::from(self.per_ns)) as u64
    }

    /// Frames per second, for display and comparison only.
    pub fn frames_per_second(self) -> f64 {
        self.frames as f64 * 1e9 / self.per_ns as f64
    }
}

fn greatest_common_divisor<T: Copy + Default + PartialEq + std::ops::Rem<Output = T>>(a: T, b: T) -> T {
    if b == T::default() { a } else { greatest_common_divisor(b, a % b) }
}

/// A rate as a user writes it, before the frame size is known: `20000`, `"20 kpps"`, `"1 Gbit/s"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawRate", into = "String")]
pub enum RateSpec {
    /// Frames per second.
    Frames(u64),
    /// Bits per second on the line, preamble and inter-frame gap included.
    LineBits(u64),
    /// Frames in so many nanoseconds, exactly: `"3 per 1000 ns"`.
    Per(u64, u64),
}

impl RateSpec {
    /// The exact rate for frames of `frame_size` bytes (with FCS).
    pub fn resolve(self, frame_size: u16) -> Rate {
        match self {
            RateSpec::Frames(frames) => Rate::per_second(frames),
            RateSpec::LineBits(bits) => Rate::of_line(bits, frame_size),
            RateSpec::Per(frames, ns) => Rate::ratio(frames, ns),
        }
        .expect("a RateSpec is never zero")
    }
}

/// Why a rate could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate: write frames per second (20000, 20 kpps, 1.5 Mpps) or line bits per second (1 Gbit/s)")]
pub struct BadRate(String);

impl FromStr for RateSpec {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<RateSpec, BadRate> {
        let bad = || BadRate(text.to_owned());
        let trimmed = text.trim();
        if let Some((frames, ns)) = trimmed.strip_suffix("ns").and_then(|rest| rest.split_once(" per ")) {
            let number = |text: &str| text.trim().parse::<u64>().ok().filter(|n| (1..1 << 50).contains(n));
            let both = number(frames).zip(number(ns));
            return both.map(|(frames, ns)| RateSpec::Per(frames, ns)).ok_or_else(bad);
        }
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let (scale, bits) = unit_of(unit.trim()).ok_or_else(bad)?;
        let number: f64 = number.replace('_', "").parse().map_err(|_| bad())?;
        let value = (number * scale).round();
        if !(1.0..=1e15).contains(&value) {
            return Err(bad());
        }
        Ok(if bits { RateSpec::LineBits(value as u64) } else { RateSpec::Frames(value as u64) })
    }
}

fn unit_of(unit: &str) -> Option<(f64, bool)> {
    Some(match unit {
        "" | "pps" | "fps" | "/s" | "frames/s" => (1.0, false),
        "k" | "kpps" => (1e3, false),
        "M" | "Mpps" => (1e6, false),
        "bit/s" | "bps" => (1.0, true),
        "kbit/s" | "kbps" => (1e3, true),
        "Mbit/s" | "Mbps" => (1e6, true),
        "Gbit/s" | "Gbps" => (1e9, true),
        _ => return None,
    })
}

impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RateSpec::Frames(n) => write!(f, "{n} pps"),
            RateSpec::LineBits(n) => write!(f, "{n} bit/s"),
            RateSpec::Per(frames, ns) => write!(f, "{frames} per {ns} ns"),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a rate is a number of frames per second or a text such as \"20 kpps\" or \"1 Gbit/s\"")]
enum RawRate {
    Number(u64),
    Text(String),
}

impl TryFrom<RawRate> for RateSpec {
    type Error = BadRate;

    fn try_from(raw: RawRate) -> Result<RateSpec, BadRate> {
        match raw {
            RawRate::Number(n) => n.to_string().parse(),
            RawRate::Text(text) => text.parse(),
        }
    }
}

impl From<RateSpec> for String {
    fn from(rate: RateSpec) -> String {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gigabit_of_64_byte_frames_is_1_488_mpps() {
        let rate = "1 Gbit/s".parse::<RateSpec>().unwrap().resolve(64);
        assert_eq!(rate.frames_in(1_000_000_000), 1_488_095);
        assert_eq!((rate.offset_ns(1), rate.gap()), (672, (672, 1)));
    }

    #[test]
    fn without_a_pace_everything_is_due_at_once() {
        let rate = Rate::UNPACED;
        assert!(!rate.is_paced());
        assert_eq!((rate.offset_ns(1_000_000), rate.gap(), rate.frames_in(5)), (0, (0, 1), u64::MAX));
        assert_eq!(rate.frames_per_second(), f64::INFINITY);
    }

    #[test]
    fn units_are_read_and_nonsense_is_refused() {
        assert_eq!("1.5 Mpps".parse(), Ok(RateSpec::Frames(1_500_000)));
        assert_eq!("20_000".parse(), Ok(RateSpec::Frames(20_000)));
        assert_eq!("2 per 700000000 ns".parse(), Ok(RateSpec::Per(2, 700_000_000)));
        for bad in ["0 per 5 ns", "1 per 0 ns", " per ns", "", "0", "-3", "fast", "1 furlong/s", "1e99", "NaN", "."] {
            assert!(bad.parse::<RateSpec>().is_err(), "{bad:?} was taken for a rate");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(n in 1_u64..1_000_000_000_000, bits: bool) {
            let spec = if bits { RateSpec::LineBits(n) } else { RateSpec::Frames(n) };
            prop_assert_eq!(spec.to_string().parse(), Ok(spec));
            prop_assert_eq!(RateSpec::Per(n, n + 1).to_string().parse(), Ok(RateSpec::Per(n, n + 1)));
        }

        #[test]
        fn any_text_is_refused_or_read_without_panic(text in ".*") {
            let _ = text.parse::<RateSpec>();
        }

        #[test]
        fn offsets_never_accumulate_rounding(frames in 1_u64..20_000_000, seconds in 1_u64..4_000) {
            let rate = Rate::per_second(frames).unwrap();
            prop_assert_eq!(rate.offset_ns(frames * seconds), seconds * 1_000_000_000);
        }
    }
}
