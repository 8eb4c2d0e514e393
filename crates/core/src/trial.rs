//! One trial: one run of one traffic over one path, by one client.

use crate::frame::FrameSize;
use crate::measurement::Measurement;
use crate::rate::Rate;
use crate::scenario::{ClientSpec, Mode, Protocol, TrafficSpec};
use serde::{Deserialize, Serialize};

/// The frames of a trial, resolved to exact numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Size of every frame.
    pub frame_size: FrameSize,
    /// Constant departure rate.
    pub rate: Rate,
    /// Frames sent first, at the same rate, and not measured.
    pub warmup_frames: u64,
    /// Frames measured.
    pub frames: u64,
    /// One way, or there and back.
    pub mode: Mode,
}

impl Traffic {
    /// Exact numbers of frames under a protocol; at least one is measured.
    pub fn of(spec: &TrafficSpec, protocol: &Protocol) -> Traffic {
        let rate = spec.rate.resolve(spec.frame_size.with_fcs());
        let frames = |seconds: f64| rate.frames_in((seconds * 1e9) as u64);
        Traffic {
            frame_size: spec.frame_size,
            rate,
            warmup_frames: frames(protocol.warmup_s),
            frames: frames(protocol.duration_s).max(1),
            mode: spec.mode,
        }
    }
}

/// What a procedure asks the rig to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Who measures.
    pub client: ClientSpec,
    /// Which repetition, from 1.
    pub run: u32,
    /// What is sent.
    pub traffic: Traffic,
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
