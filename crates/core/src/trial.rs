//! One trial: one run of one traffic over one path, by one client.

use crate::frame::FrameSize;
use crate::measurement::Measurement;
use crate::pattern::{MOST_TRAINS, Pattern};
use crate::rate::Rate;
use crate::scenario::Case;
use crate::scenario::{ClientSpec, Mode, Protocol, TrafficSpec};
use crate::schedule::Schedule;
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
}

impl Trial {
    /// A single one, as the scenario says.
    pub fn once(client: ClientSpec, traffic: Traffic) -> Trial {
        Trial { client, run: 1, case: Case::default(), traffic }
    }

    /// The name of what it is a repetition of: the client, in its case.
    pub fn label(&self) -> String {
        if self.case.is_plain() { self.client.name.clone() } else { format!("{}, {}", self.client.name, self.case) }
    }
}

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
