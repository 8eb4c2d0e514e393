//! When the frames of a traffic leave, as a user asks for it.

use crate::capture::Capture;
use crate::rate::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest train: its frames' stamps are kept in tables of this size.
pub const LONGEST_TRAIN: u32 = 1 << 16;
/// Most trains of a trial, each of which is kept.
pub const MOST_TRAINS: u64 = 1 << 20;

/// How departures follow each other. The traffic's rate is their mean rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// One after another, evenly (RFC 1242 §3.5).
    Constant {},
    /// At random moments, independent of each other (RFC 2330 §11.1.1).
    Poisson {
        /// The same seed gives the same moments.
        #[serde(default)]
        seed: u64,
    },
    /// In trains, evenly: bursts as in RFC 2544 §21 where the frames of a train are back to back.
    Trains(Train),
    /// Evenly, and after so many frames at half the rate, as RFC 2544 §26.5 ends an overload.
    Halves {
        /// Frames at the full rate.
        after: u64,
    },
    /// At the moments at which the packets of a capture file were captured, which comes round again when it ends.
    Replay(Replay),
}

/// A train of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Its frames.
    pub length: u32,
    /// Between the departures of two of them; 0 for back to back, as fast as the port takes them.
    #[serde(default)]
    pub spacing_ns: u64,
    /// How long before the head a frame of the train leaves alone, so that the head finds nothing asleep or cold that idled
    /// in the pause: instruments show microseconds of that, which are not the path's; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lead_ns: u64,
    /// Whether only the head of each train has a latency, because the others wait in queues behind it (the convoy of
    /// paper 003 §5).
    #[serde(default)]
    pub heads_only: bool,
}

/// A capture to be replayed: its times, not its frames, which would carry no signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// A pcap or pcapng file of an Ethernet link.
    pub file: String,
    /// How many times as fast as it was captured.
    #[serde(default = "as_captured")]
    pub speed: f64,
    /// Its times, once they were read.
    #[serde(skip)]
    pub capture: Capture,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

fn as_captured() -> f64 {
    1.0
}

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern::Constant {}
    }
}

/// As keys of a scenario's `traffic.pattern` table: `kind = "poisson", seed = 7`.
impl FromStr for Pattern {
    type Err = String;

    fn from_str(keys: &str) -> Result<Pattern, String> {
        crate::inline::read(keys).map_err(|why| format!("`{keys}` is not a pattern: {why}"))
    }
}

impl Pattern {
    /// Whether frames follow each other evenly.
    pub fn is_constant(&self) -> bool {
        *self == Pattern::Constant {}
    }

    /// Its trains, if frames leave in trains.
    pub fn train(&self) -> Option<&Train> {
        match self {
            Pattern::Trains(train) => Some(train),
            _ => None,
        }
    }

    /// Its capture, if it replays one.
    pub fn replay(&self) -> Option<&Replay> {
        match self {
            Pattern::Replay(replay) => Some(replay),
            _ => None,
        }
    }

    /// What is wrong with it at a mean rate, in one sentence.
    pub fn check(&self, rate: Option<Rate>) -> Result<(), String> {
        match self {
            Pattern::Trains(train) => train.check(rate),
            Pattern::Replay(Replay { speed, .. }) if !(1e-6..=1e6).contains(speed) => {
                Err("speed runs from 0.000001 to 1000000".into())
            }
            Pattern::Replay(_) if rate.is_some() => {
                Err("a capture has times of its own: leave rate out, and use speed to scale them".into())
            }
            Pattern::Replay(_) => Ok(()),
            _ if rate.is_none() => {
                Err("rate is missing: frames per second (20000, \"20 kpps\") or \"1 Gbit/s\"".into())
            }
            _ => Ok(()),
        }
    }
}

impl Train {
    fn check(&self, rate: Option<Rate>) -> Result<(), String> {
        self.check_length()?;
        if self.lead_ns > 0 && self.length == 2 {
            return Err("a train with a frame ahead has 3 frames at least".into());
        }
        let rate = rate.ok_or("rate is missing: the mean rate of the trains' frames")?;
        let (lasts, period) = (self.lasts_ns(), rate.offset_ns(u64::from(self.length)));
        if lasts >= period {
            return Err(format!(
                "a train of {} frames, {} ns apart, takes {lasts} ns, and at this rate the next begins after {period} ns: \
                 lower the rate, or the spacing",
                self.length, self.spacing_ns
            ));
        }
        Ok(())
    }

    /// Whether it has as many frames as a train can have.
    pub fn check_length(&self) -> Result<(), String> {
        if (2..=LONGEST_TRAIN).contains(&self.length) {
            return Ok(());
        }
        Err(format!(
            "a train has 2 to {LONGEST_TRAIN} frames, as many as the table of their stamps, not {}",
            self.length
        ))
    }

    /// From its first departure to its last, as scheduled.
    pub fn lasts_ns(&self) -> u64 {
        let spaced = u64::from(self.length.saturating_sub(1 + self.head()));
        self.spacing_ns.saturating_mul(spaced).saturating_add(self.lead_ns)
    }

    /// The head's place among its frames.
    pub fn head(&self) -> u32 {
        u32::from(self.lead_ns > 0)
    }
}

impl Replay {
    /// Mean rate, the way from its end to its beginning included; `None` before its times were read, and where it would
    /// come round more often than once in a microsecond.
    pub fn rate(&self) -> Option<Rate> {
        let (frames, period_ns) = self.capture.rate()?;
        let period_ns = (period_ns as f64 / self.speed).round() as u64;
        Rate::ratio(frames, period_ns).filter(|_| period_ns >= 1_000)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Constant {} => f.write_str("evenly"),
            Pattern::Poisson { .. } => f.write_str("at random moments (Poisson)"),
            Pattern::Halves { after } => write!(f, "evenly, after {after} frames at half the rate"),
            Pattern::Trains(train) => {
                write!(f, "in trains of {}, ", train.length)?;
                match train.spacing_ns {
                    0 => f.write_str("back to back")?,
                    ns => write!(f, "{ns} ns apart")?,
                }
                if train.lead_ns > 0 {
                    write!(f, ", one {} µs ahead", train.lead_ns as f64 / 1e3)?;
                }
                f.write_str(if train.heads_only { ", latency of heads only" } else { "" })
            }
            Pattern::Replay(replay) if replay.speed == 1.0 => write!(f, "as captured in {}", replay.file),
            Pattern::Replay(replay) => write!(f, "as captured in {}, {} times as fast", replay.file, replay.speed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pattern: &str, rate: Option<u64>) -> String {
        let pattern: Pattern = toml::from_str(pattern).unwrap();
        pattern.check(rate.and_then(Rate::per_second)).unwrap_err()
    }

    #[test]
    fn a_train_must_fit_its_table_and_its_period() {
        assert!(refused("kind = \"trains\"\nlength = 65537", Some(1)).contains("2 to 65536 frames"));
        assert!(refused("kind = \"trains\"\nlength = 1", Some(1)).contains("2 to 65536 frames"));
        let late = refused("kind = \"trains\"\nlength = 100\nspacing_ns = 15000", Some(100_000));
        assert!(late.contains("takes 1485000 ns") && late.contains("after 1000000 ns"), "{late}");
        assert!(refused("kind = \"trains\"\nlength = 2", None).contains("rate is missing"));
    }

    #[test]
    fn a_capture_has_its_own_times() {
        assert!(refused("kind = \"replay\"\nfile = \"x\"", Some(5)).contains("leave rate out"));
        assert!(refused("kind = \"replay\"\nfile = \"x\"\nspeed = 0.0", None).contains("speed runs"));
        assert!(refused("kind = \"constant\"", None).contains("rate is missing"));
    }

    #[test]
    fn patterns_say_what_they_are() {
        let train = Train { length: 100, spacing_ns: 0, lead_ns: 0, heads_only: true };
        assert_eq!(Pattern::Trains(train).to_string(), "in trains of 100, back to back, latency of heads only");
        assert_eq!(Pattern::default().to_string(), "evenly");
        assert_eq!("kind = \"poisson\", seed = 3".parse(), Ok(Pattern::Poisson { seed: 3 }));
        let refused = "kind = \"comet\"".parse::<Pattern>().unwrap_err();
        assert!(refused.contains("unknown variant `comet`") && !refused.contains('\n'), "{refused}");
    }
}
