//! A delay line: a fiber of a length, or a fixed time, and what else it does to frames.

use super::default_forwarder_engine;
use crate::fiber::{Fiber, LineRate};
use crate::frame::FrameSize;
use crate::port_name::Engine;
use crate::rate::RateSpec;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest time for which a spool holds a frame: RFC 2544 waits for residual frames for two seconds.
const LONGEST_DELAY_NS: u64 = 1_000_000_000;

/// A delay line between two ports: every frame leaves a time after it came that is known beforehand, and, where it is a
/// fiber, no sooner than the one before has passed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpoolSpec {
    /// Engine of its two ports.
    #[serde(default = "default_forwarder_engine")]
    pub engine: Engine,
    /// How long it holds each frame, in nanoseconds; or:
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<u64>,
    /// The fiber that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fiber: Option<Fiber>,
    /// How many frames it lets pass, each way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// What it does to frames on their way from sender to receiver.
    #[serde(default, skip_serializing_if = "Impairments::are_none")]
    pub impair: Impairments,
}

/// A token bucket: a device whose throughput and buffer are known. Of frames that come faster, `depth` pass at once, `queue`
/// wait for their turn, and the others are lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Frames that pass in the long run.
    pub rate: RateSpec,
    /// Tokens that it holds, one for each frame.
    #[serde(default = "one")]
    pub depth: u32,
    /// Frames that it lets wait for a token.
    #[serde(default)]
    pub queue: u32,
}

fn one() -> u32 {
    1
}

impl Bucket {
    /// Most frames that it holds, of either kind.
    const MOST: u32 = 1 << 16;

    fn check(&self) -> Result<(), String> {
        if self.depth == 0 || self.depth > Bucket::MOST || self.queue > Bucket::MOST / 2 {
            return Err(format!(
                "bucket.depth runs from 1 to {}, and bucket.queue to {}",
                Bucket::MOST,
                Bucket::MOST / 2
            ));
        }
        Ok(())
    }
}

/// What a spool does to frames at random, the same for the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Impairments {
    /// Share of the frames that it loses.
    pub loss: f64,
    /// Share of the frames that it sends twice.
    pub duplicate: f64,
    /// Share of the frames that it lets the next one overtake.
    pub reorder: f64,
    /// What it holds each frame for besides; frames stay in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// A longer way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detour: Option<Detour>,
    /// Of its random numbers.
    pub seed: u64,
}

/// A longer way for a while, as when an operator takes a fiber over another path (paper 003 §1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detour {
    /// When it begins, in seconds after the spool's first frame.
    pub after_s: f64,
    /// How long it lasts, in seconds; to the end, where that isn't said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_s: Option<f64>,
    /// What it adds, in nanoseconds.
    pub by_ns: u64,
}

/// A distribution of additional delays, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Jitter {
    /// Anything from 0 to `most_ns`, alike.
    Uniform {
        /// Upper end.
        most_ns: f64,
    },
    /// Normal; what would be below 0 is 0.
    Normal {
        /// Mean.
        mean_ns: f64,
        /// Standard deviation.
        stdev_ns: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean_ns: f64,
    },
    /// Pareto from 0 on (Lomax): a heavy tail.
    Pareto {
        /// Half of the frames are held for less than this times 2^(1/shape) − 1.
        scale_ns: f64,
        /// The smaller, the heavier the tail; above 0.
        shape: f64,
    },
}

impl Impairments {
    /// Whether it does nothing to frames.
    pub fn are_none(&self) -> bool {
        *self == Impairments { seed: self.seed, ..Impairments::default() }
    }

    /// Whether frames are held for different times.
    pub fn vary(&self) -> bool {
        self.jitter.is_some() || self.detour.is_some()
    }

    fn check(&self) -> Result<(), String> {
        let time = |seconds: f64| (0.0..=1e6).contains(&seconds);
        let bad = |d: Detour| !time(d.after_s) || !d.for_s.is_none_or(time) || d.by_ns > LONGEST_DELAY_NS;
        if self.detour.is_some_and(bad) {
            return Err(
                "impair.detour lasts from after_s for for_s, 0 to 1000000 s, and adds by_ns, up to 1000000000".into()
            );
        }
        for (name, share) in [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("impair.{name} is a share of the frames, from 0 to 1"));
            }
        }
        let fits = |ns: f64| (0.0..=LONGEST_DELAY_NS as f64).contains(&ns);
        let good = match self.jitter {
            None => true,
            Some(Jitter::Uniform { most_ns }) => fits(most_ns),
            Some(Jitter::Normal { mean_ns, stdev_ns }) => fits(mean_ns) && fits(stdev_ns),
            Some(Jitter::Exponential { mean_ns }) => fits(mean_ns) && mean_ns > 0.0,
            Some(Jitter::Pareto { scale_ns, shape }) => fits(scale_ns) && scale_ns > 0.0 && shape > 0.0,
        };
        if good { Ok(()) } else { Err("the times of impair.jitter run from 0 to 1000000000 ns".into()) }
    }
}

impl SpoolSpec {
    /// What it imposes on a frame that meets no other, in nanoseconds, to the nearest; `None` where that is different for
    /// each.
    pub fn known_delay_ns(&self, size: FrameSize) -> Option<u64> {
        (!self.impair.vary() && self.bucket.is_none())
            .then(|| self.delay_ns.unwrap_or_else(|| self.fiber.map_or(0, |f| f.delay_ns(size).round() as u64)))
    }

    /// The time that it adds to every frame, whatever its size, in nanoseconds.
    pub fn propagation_ns(&self) -> f64 {
        self.delay_ns.map_or_else(|| self.fiber.map_or(0.0, |fiber| fiber.propagation_ns()), |ns| ns as f64)
    }

    /// The line that frames pass one after another, if there is one.
    pub fn line(&self) -> Option<LineRate> {
        self.fiber.map(|fiber| fiber.line_rate)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.impair.check()?;
        self.bucket.map_or(Ok(()), |bucket| bucket.check())?;
        match (self.delay_ns, self.fiber) {
            (Some(_), Some(_)) | (None, None) => {
                Err("a spool has either delay_ns or fiber = { length_m = 2000, line_rate = \"10 Gbit/s\" }".into())
            }
            (Some(delay_ns), None) if delay_ns > LONGEST_DELAY_NS => {
                Err("delay_ns is at most 1000000000, one second: frames are waited for no longer".into())
            }
            (_, Some(fiber)) => fiber.check(),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for SpoolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fiber, self.delay_ns) {
            (Some(fiber), _) => write!(f, "fiber of {fiber}"),
            (None, delay) => write!(f, "delay of {} ns", delay.unwrap_or(0)),
        }?;
        match self.bucket {
            None => Ok(()),
            Some(Bucket { rate, depth, queue }) => {
                write!(f, " behind a token bucket of {rate}, {depth} at once, {queue} waiting")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(toml: &str) -> String {
        toml::from_str::<SpoolSpec>(toml).unwrap().check().unwrap_err()
    }

    #[test]
    fn a_spool_is_a_fiber_or_a_delay() {
        let fiber = "fiber = { length_m = 2.0, line_rate = \"10 Gbit/s\" }";
        let spool: SpoolSpec = toml::from_str(fiber).unwrap();
        spool.check().unwrap();
        assert_eq!(spool.known_delay_ns(FrameSize::MIN), Some(67), "9.6 ns of glass and 57.6 ns of frame");
        assert!(refused("").contains("either delay_ns or fiber"));
        assert!(refused(&format!("delay_ns = 5\n{fiber}")).contains("either delay_ns or fiber"));
        assert!(refused("delay_ns = 1000000001").contains("at most 1000000000"));
        assert!(refused("delay_ns = 1\nimpair = { loss = 1.5 }").contains("impair.loss is a share"));
        let jitter = "delay_ns = 1\nimpair = { jitter = { distribution = \"pareto\", scale_ns = 100.0, shape = 0.0 } }";
        assert!(refused(jitter).contains("impair.jitter"));
        let jitter = "delay_ns = 1\nimpair = { jitter = { distribution = \"uniform\", most_ns = 100.0 } }";
        assert_eq!(toml::from_str::<SpoolSpec>(jitter).unwrap().known_delay_ns(FrameSize::MIN), None);
        assert!(refused("delay_ns = 1\nbucket = { rate = 1000, depth = 0 }").contains("bucket.depth runs from 1"));
        let bucket: SpoolSpec = toml::from_str("delay_ns = 1\nbucket = { rate = 1000, queue = 5 }").unwrap();
        assert_eq!(bucket.to_string(), "delay of 1 ns behind a token bucket of 1000 pps, 1 at once, 5 waiting");
        let detour = "delay_ns = 1\nimpair = { detour = { after_s = -1.0, by_ns = 100 } }";
        assert!(refused(detour).contains("impair.detour lasts from after_s"));
    }
}
