//! One trial: one run of one traffic over one path, by one client.

use crate::frame::FrameSize;
use crate::measurement::Measurement;
use crate::pattern::{MOST_TRAINS, Pattern};
use crate::rate::Rate;
use crate::scenario::Case;
use crate::scenario::{ClientSpec, Mode, Protocol, TrafficSpec};
use crate::schedule::Schedule;
use crate::suite::Purpose;
use serde::{Deserialize, Serialize};

/// The frames of a trial, resolved to exact numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Size of every frame.
    pub frame_size: FrameSize,
    /// Mean departure rate.
    pub rate: Rate,
    /// How departures follow each other.
    #[serde(default, skip_serializing_if = "Pattern::is_constant")]
    pub pattern: Pattern,
    /// Frames sent first, at the same rate, and not measured.
    pub warmup_frames: u64,
    /// Frames measured.
    pub frames: u64,
    /// One way, or there and back.
    pub mode: Mode,
    /// Whether every latency is kept, in order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_samples: bool,
    /// How long residual frames are waited for after the last departure, in nanoseconds.
    #[serde(default = "residual", skip_serializing_if = "is_usual")]
    pub residual_ns: u64,
    /// Measured frames whose latency is kept one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tagged: Option<Tagged>,
}

/// How long residual frames are waited for (RFC 2544 §23).
pub const RESIDUAL_NS: u64 = 2_000_000_000;

fn residual() -> u64 {
    RESIDUAL_NS
}

fn is_usual(ns: &u64) -> bool {
    *ns == RESIDUAL_NS
}

/// Frames that are picked out (the tagged frames of RFC 2544 §26.2 and RFC 8219 §7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tagged {
    /// Number of the first, from 0, the warm-up left out.
    pub from: u64,
    /// Every how manieth from there on; at least 1.
    pub every: u64,
}

impl Tagged {
    /// Which of them a measured frame is, from 0; none, if it isn't one.
    #[inline]
    pub fn which(&self, number: u64) -> Option<u32> {
        let beyond = number.checked_sub(self.from)?;
        beyond.is_multiple_of(self.every).then_some((beyond / self.every) as u32)
    }
}

impl Traffic {
    /// `frames` frames one after another, one way, all measured.
    pub fn evenly(frame_size: FrameSize, rate: Rate, frames: u64) -> Traffic {
        Traffic {
            frame_size,
            rate,
            pattern: Pattern::default(),
            warmup_frames: 0,
            frames,
            mode: Mode::OneWay,
            keep_samples: false,
            residual_ns: RESIDUAL_NS,
            tagged: None,
        }
    }

    /// Exact numbers of frames under a protocol; at least one, or one train, is measured, and trains are whole. The
    /// spec was checked, and the capture that it replays, read.
    pub fn of(spec: &TrafficSpec, protocol: &Protocol) -> Traffic {
        let rate = spec.mean_rate().expect("a checked traffic has a rate");
        let unit = spec.pattern.train().map_or(1, |train| u64::from(train.length));
        let frames = |seconds: f64| {
            let frames = rate.frames_in((seconds * 1e9) as u64);
            if unit > 1 { (frames + unit / 2) / unit * unit } else { frames }
        };
        Traffic {
            frame_size: spec.frame_size,
            rate,
            pattern: spec.pattern.clone(),
            warmup_frames: frames(protocol.warmup_s),
            frames: frames(protocol.duration_s).max(unit),
            mode: spec.mode,
            keep_samples: false,
            residual_ns: RESIDUAL_NS,
            tagged: None,
        }
    }

    /// What is too much of it to be kept, in one sentence.
    pub fn check(&self) -> Result<(), String> {
        let Some(train) = self.pattern.train() else { return Ok(()) };
        let (frames, trains) = (self.warmup_frames.saturating_add(self.frames), self.frames / u64::from(train.length));
        if trains > MOST_TRAINS || frames > u64::from(u32::MAX) {
            return Err(format!(
                "{trains} trains, {frames} frames, are more than a trial keeps: {MOST_TRAINS} trains and {} frames; measure for a \
                 shorter time",
                u32::MAX
            ));
        }
        Ok(())
    }

    /// Its departures.
    pub fn schedule(&self) -> Schedule {
        Schedule::new(&self.pattern, self.rate, self.warmup_frames + self.frames)
    }
}

/// What a procedure asks the rig to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Who measures.
    pub client: ClientSpec,
    /// Which repetition, from 1.
    pub run: u32,
    /// What is different from the scenario.
    #[serde(default, skip_serializing_if = "Case::is_plain")]
    pub case: Case,
    /// What is sent.
    pub traffic: Traffic,
    /// What it is for, in a suite of benchmarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// What is done before and after.
    #[serde(default, skip_serializing_if = "Around::is_nothing")]
    pub around: Around,
    /// Whether a rate that the sender can't reach is a result, and not the end of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

/// What is done before and after the traffic of a trial (RFC 2544 §23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Around {
    /// Frames that leave the receiver's port first, so that the device under test learns where it is.
    pub learning_frames: u32,
    /// How long they are given to settle, in nanoseconds.
    pub settle_ns: u64,
    /// How long the device under test is left alone afterwards, in nanoseconds.
    pub rest_ns: u64,
}

impl Around {
    /// Whether nothing is done.
    pub fn is_nothing(&self) -> bool {
        *self == Around::default()
    }
}

impl Trial {
    /// A single one, as the scenario says.
    pub fn once(client: ClientSpec, traffic: Traffic) -> Trial {
        Trial {
            client,
            run: 1,
            case: Case::default(),
            traffic,
            purpose: None,
            around: Around::default(),
            goes_on: false,
        }
    }

    /// The name of what it is a repetition of: the client, in its case, for a purpose.
    pub fn label(&self) -> String {
        let case = (!self.case.is_plain()).then(|| self.case.to_string());
        let purpose = self.purpose.map(|purpose| purpose.benchmark.to_string());
        let parts: Vec<String> = [Some(self.client.name.clone()), case, purpose].into_iter().flatten().collect();
        parts.join(", ")
    }

    /// Whether it repeats others of its label, so that their distributions can be pooled: the trials of a search don't.
    pub fn is_repetition(&self) -> bool {
        self.purpose.is_none_or(|purpose| purpose.benchmark.is_repeated())
    }
}

/// What a trial that the user ended says of itself.
pub const INTERRUPTED: &str = "interrupted";

/// What became of a trial.
#[derive(Debug, Clone)]
pub struct TrialResult {
    /// What was asked.
    pub trial: Trial,
    /// When it began, RFC 3339, for the reader's orientation only.
    pub started: String,
    /// What the client measured.
    pub client: Measurement,
    /// What the taps at the DUT's interfaces measured, where there are any.
    pub truth: Option<Measurement>,
    /// Delay that the path is known to impose, in nanoseconds, where it is known.
    pub known_delay_ns: Option<u64>,
    /// What the DUT says it did, for example the faults that it imposed: name and number.
    pub dut: Vec<(String, u64)>,
    /// Why the trial ended before its time, if it did.
    pub partial: Option<String>,
}
