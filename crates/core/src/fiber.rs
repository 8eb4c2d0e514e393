//! The physics of a fiber: what a frame's way through it takes, whoever measures.

use crate::frame::FrameSize;
use crate::rate::{LINE_OVERHEAD, RateSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Speed of light in vacuum, in metres per second.
const C0: f64 = 299_792_458.0;
/// Preamble and start delimiter, which a receiver has had when a frame's first byte comes (IEEE 802.3 §3.1.1).
pub const PREAMBLE: u64 = 8;

/// A fiber between two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fiber {
    /// Its length, in metres.
    pub length_m: f64,
    /// Its refractive index.
    #[serde(default = "usual_index")]
    pub index: f64,
    /// The rate of the line, in bits per second.
    pub line_rate: LineRate,
}

/// Of single-mode fiber (paper 003 §3.2).
fn usual_index() -> f64 {
    1.4444
}

/// Bits per second of a line, as a user writes it: `"10 Gbit/s"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RateSpec", into = "RateSpec")]
pub struct LineRate(pub u64);

/// Why a rate is none of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line has bits per second: \"10 Gbit/s\"")]
pub struct NoLine;

impl TryFrom<RateSpec> for LineRate {
    type Error = NoLine;

    fn try_from(rate: RateSpec) -> Result<LineRate, NoLine> {
        match rate {
            RateSpec::LineBits(bits) => Ok(LineRate(bits)),
            RateSpec::Frames(_) | RateSpec::Per(..) => Err(NoLine),
        }
    }
}

impl From<LineRate> for RateSpec {
    fn from(rate: LineRate) -> RateSpec {
        RateSpec::LineBits(rate.0)
    }
}

impl LineRate {
    /// From the first bit of a frame's preamble to the last of its FCS: the b/r of paper 003's equation 2, in
    /// nanoseconds.
    pub fn transmission_ns(self, size: FrameSize) -> f64 {
        self.ns(u64::from(size.with_fcs()) + PREAMBLE)
    }

    /// From one frame to the next, where they are back to back: the gap is part of it.
    pub fn slot_ns(self, size: FrameSize) -> f64 {
        self.ns(u64::from(size.with_fcs()) + LINE_OVERHEAD)
    }

    /// Frames per second, back to back.
    pub fn frames_per_second(self, size: FrameSize) -> f64 {
        1e9 / self.slot_ns(size)
    }

    fn ns(self, bytes: u64) -> f64 {
        bytes as f64 * 8e9 / self.0 as f64
    }
}

impl Fiber {
    /// n·l/c₀, in nanoseconds.
    pub fn propagation_ns(&self) -> f64 {
        self.index * self.length_m / C0 * 1e9
    }

    /// What a frame that meets no other takes: d = n·l/c₀ + b/r (paper 003, equation 2), in nanoseconds.
    pub fn delay_ns(&self, size: FrameSize) -> f64 {
        self.propagation_ns() + self.line_rate.transmission_ns(size)
    }

    /// What is wrong with it, in one sentence.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=2e8).contains(&self.length_m) {
            return Err("length_m runs from 0 to 200000000 metres, about a second of light".into());
        }
        if !(1.0..=4.0).contains(&self.index) {
            return Err("index is a refractive index, from 1 (vacuum) to 4; glass has 1.4444".into());
        }
        if !(1_000_000..=1_000_000_000_000).contains(&self.line_rate.0) {
            return Err("line_rate runs from 1 Mbit/s to 1000 Gbit/s".into());
        }
        Ok(())
    }
}

/// As keys of a scenario's table: `length_m = 2.0, line_rate = "10 Gbit/s"`.
impl FromStr for Fiber {
    type Err = String;

    fn from_str(keys: &str) -> Result<Fiber, String> {
        let fiber: Fiber = crate::inline::read(keys).map_err(|why| format!("`{keys}` is no fiber: {why}"))?;
        fiber.check().map(|()| fiber)
    }
}

impl fmt::Display for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length_m {
            km if km >= 1_000.0 => write!(f, "{} km", km / 1_000.0)?,
            m => write!(f, "{m} m")?,
        }
        write!(f, " at {}", self.line_rate)
    }
}

impl fmt::Display for LineRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits >= 1_000_000_000 => write!(f, "{} Gbit/s", bits as f64 / 1e9),
            bits => write!(f, "{} Mbit/s", bits as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fiber(length_m: f64) -> Fiber {
        Fiber { length_m, index: usual_index(), line_rate: LineRate(10_000_000_000) }
    }

    #[test]
    fn two_kilometres_of_glass_take_what_physics_says() {
        let (short, long) = (FrameSize::MIN, FrameSize::try_from(1522).unwrap());
        assert!((fiber(2_000.0).propagation_ns() - 9_636.0).abs() < 0.2);
        assert!((fiber(0.0).delay_ns(short) - 57.6).abs() < 1e-9);
        assert!((fiber(0.0).delay_ns(long) - 1_224.0).abs() < 1e-9);
        // The goodput of paper 003 §5, frames counted without FCS: 7.143 and 9.844 Gbit/s.
        let line = LineRate(10_000_000_000);
        let goodput = |size: FrameSize| line.frames_per_second(size) * size.without_fcs() as f64 * 8.0 / 1e9;
        assert!((goodput(short) - 7.143).abs() < 1e-3 && (goodput(long) - 9.844).abs() < 1e-3);
    }

    #[test]
    fn absurd_fibers_are_refused() {
        assert!(fiber(-1.0).check().is_err() && fiber(f64::NAN).check().is_err() && fiber(2.0).check().is_ok());
        assert!(Fiber { index: 0.5, ..fiber(1.0) }.check().is_err());
        assert!(Fiber { line_rate: LineRate(5), ..fiber(1.0) }.check().is_err());
        assert!(toml::from_str::<Fiber>("length_m = 2.0\nline_rate = \"20 kpps\"").is_err());
    }
}
