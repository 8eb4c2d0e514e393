//! A suite of benchmarks of network devices as it is asked for: which of RFC 2544's, for how long, how often; and where
//! that is not what the RFC says.

use crate::fiber::LineRate;
use crate::frame::FrameSize;
use crate::port_name::PortName;
use crate::rate::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Frame sizes for Ethernet (RFC 2544 §9.1).
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Loads at which latency is measured, in percent of the throughput: 100 is that of RFC 2544 §26.2.
pub const LOADS: [u32; 4] = [10, 50, 90, 100];
/// Coarsest step between two loads of the frame loss rate, in percent of the most (RFC 2544 §26.3).
pub const LOSS_STEP: u32 = 10;
/// Overload before a recovery, in percent of the throughput (RFC 2544 §26.5).
pub const OVERLOAD: u32 = 110;

/// What a trial of a suite is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Purpose {
    /// Which benchmark.
    pub benchmark: Benchmark,
    /// Which repetition of it, from 1.
    pub repetition: u32,
    /// Its load, in percent of the throughput (latency) or of the most that is offered (loss).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

/// A benchmark of RFC 2544 §26, or what is found out before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// Whether anything passes at all.
    Check,
    /// How much of the line the sender can offer.
    Offer,
    /// §26.1.
    Throughput,
    /// §26.2.
    Latency,
    /// §26.3.
    Loss,
    /// §26.4.
    BackToBack,
    /// §26.5.
    Recovery,
    /// §26.6.
    Reset,
}

impl Benchmark {
    /// Those of the RFC, in its order.
    pub const ALL: [Benchmark; 6] = [
        Benchmark::Throughput,
        Benchmark::Latency,
        Benchmark::Loss,
        Benchmark::BackToBack,
        Benchmark::Recovery,
        Benchmark::Reset,
    ];

    /// Whether its trials repeat each other: those of a search don't.
    pub fn is_repeated(self) -> bool {
        self == Benchmark::Latency
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Benchmark::Check => "check",
            Benchmark::Offer => "offer",
            Benchmark::Throughput => "throughput",
            Benchmark::Latency => "latency",
            Benchmark::Loss => "frame loss rate",
            Benchmark::BackToBack => "back-to-back frames",
            Benchmark::Recovery => "system recovery",
            Benchmark::Reset => "reset",
        })
    }
}

/// How a throughput is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// Halving (RFC 2544 §26.1).
    Binary,
    /// Halving, where a trial with loss is repeated (ETSI GS NFV-TST 009 §12.3.3).
    Verified,
    /// MLRsearch (RFC 9971): several loss ratios at once, short trials first.
    Mlr,
}

impl fmt::Display for SearchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SearchKind::Binary => "binary search",
            SearchKind::Verified => "binary search with loss verification",
            SearchKind::Mlr => "MLRsearch",
        })
    }
}

/// How long a benchmark's trials last, and how often it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Seconds of traffic of a trial, of a search its final ones; of back-to-back frames the longest burst.
    pub lasts_s: f64,
    /// Repetitions.
    pub times: u32,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// Which benchmarks.
    pub benchmarks: Vec<Benchmark>,
    /// For which frame sizes.
    pub sizes: Vec<FrameSize>,
    /// Rate of the line: the theoretical most.
    pub line: LineRate,
    /// Whether nobody knows that rate, so that it is an assumption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub line_assumed: bool,
    /// Whether both directions are measured at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both: bool,
    /// How a throughput is searched for.
    pub search: SearchKind,
    /// Shares of the frames that may be lost, one throughput for each; the first is the one that other benchmarks use.
    pub loss_ratios: Vec<f64>,
    /// How near the bounds come to each other, as a share of the upper one.
    pub width: f64,
    /// Throughput.
    pub throughput: Extent,
    /// Latency.
    pub latency: Extent,
    /// Frame loss rate.
    pub loss: Extent,
    /// Back-to-back frames.
    pub back_to_back: Extent,
    /// System recovery.
    pub recovery: Extent,
    /// Reset.
    pub reset: Extent,
    /// Loads of latency, in percent of the throughput.
    pub loads: Vec<u32>,
    /// Frames from which the device under test learns where the receiver is, before each trial.
    pub learning_frames: u32,
    /// Seconds that they are given to settle.
    pub settle_s: f64,
    /// Seconds for which residual frames are waited for after each trial.
    pub residual_s: f64,
    /// Seconds for which the device under test is left alone after that.
    pub rest_s: f64,
    /// Whether latency is also measured without the device under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback: Option<Loopback>,
    /// The command that resets the device under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_command: Option<String>,
}

/// What joins sender and receiver without the device under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loopback {
    /// A bare wire of the lab's, or inside the process.
    Wire,
    /// Two ports of the user's own.
    Ports {
        /// The one that sends.
        tx: PortName,
        /// The one that receives.
        rx: PortName,
    },
}

impl Suite {
    /// As RFC 2544 has it.
    pub fn by_the_book(line: LineRate) -> Suite {
        let times = |lasts_s: f64, times: u32| Extent { lasts_s, times };
        Suite {
            benchmarks: Benchmark::ALL.to_vec(),
            sizes: SIZES.map(|bytes| FrameSize::try_from(bytes).expect("Ethernet's")).to_vec(),
            line,
            line_assumed: false,
            both: false,
            search: SearchKind::Binary,
            loss_ratios: vec![0.0],
            width: 0.005,
            throughput: times(60.0, 1),
            latency: times(120.0, 20),
            loss: times(60.0, 1),
            back_to_back: times(2.0, 50),
            recovery: times(60.0, 3),
            reset: times(120.0, 3),
            loads: LOADS.to_vec(),
            learning_frames: 10,
            settle_s: 2.0,
            residual_s: 2.0,
            rest_s: 5.0,
            loopback: None,
            reset_command: None,
        }
    }

    /// For demonstrations: the same steps, all of them short.
    pub fn quick(line: LineRate) -> Suite {
        let times = |lasts_s: f64, times: u32| Extent { lasts_s, times };
        Suite {
            search: SearchKind::Mlr,
            width: 0.02,
            throughput: times(1.0, 1),
            latency: times(1.0, 3),
            loss: times(0.5, 1),
            back_to_back: times(0.25, 1),
            recovery: times(1.0, 1),
            reset: times(8.0, 1),
            settle_s: 0.02,
            residual_s: 0.2,
            rest_s: 0.0,
            ..Suite::by_the_book(line)
        }
    }

    /// How long and how often a benchmark is run.
    pub fn extent(&mut self, benchmark: Benchmark) -> Option<&mut Extent> {
        match benchmark {
            Benchmark::Throughput => Some(&mut self.throughput),
            Benchmark::Latency => Some(&mut self.latency),
            Benchmark::Loss => Some(&mut self.loss),
            Benchmark::BackToBack => Some(&mut self.back_to_back),
            Benchmark::Recovery => Some(&mut self.recovery),
            Benchmark::Reset => Some(&mut self.reset),
            Benchmark::Check | Benchmark::Offer => None,
        }
    }

    /// Frames per second that fill the line (RFC 2544 appendix B).
    pub fn line_fps(&self, size: FrameSize) -> f64 {
        Rate::of_line(self.line.0, size.with_fcs()).map_or(0.0, Rate::frames_per_second)
    }

    /// Whether a benchmark was asked for.
    pub fn has(&self, benchmark: Benchmark) -> bool {
        self.benchmarks.contains(&benchmark)
    }

    /// What is wrong with it, in one sentence.
    pub fn check(&self) -> Result<(), String> {
        let Suite { throughput, latency, loss, back_to_back, recovery, reset, .. } = self;
        for (name, extent, longest) in [
            ("throughput", throughput, 3_600.0),
            ("latency", latency, 3_600.0),
            ("loss", loss, 3_600.0),
            ("back-to-back", back_to_back, 60.0),
            ("recovery", recovery, 3_600.0),
            ("reset", reset, 3_600.0),
        ] {
            if !(0.01..=longest).contains(&extent.lasts_s) {
                return Err(format!("trials of {name} last from 0.01 to {longest} s"));
            }
            if !(1..=10_000).contains(&extent.times) {
                return Err(format!("{name} is repeated 1 to 10000 times"));
            }
        }
        let pauses = [self.settle_s, self.residual_s, self.rest_s];
        if pauses.iter().any(|seconds| !(0.0..=3_600.0).contains(seconds)) || self.residual_s < 0.02 {
            return Err("pauses last up to an hour, and residual frames are waited for 0.02 s at least".into());
        }
        if reset.lasts_s < 4.0 {
            return Err("trials of the reset last 4 s at least: it begins after a quarter of them".into());
        }
        if !(0.0001..=0.5).contains(&self.width) {
            return Err("the width of a search runs from 0.0001 to 0.5 of the rate".into());
        }
        if self.benchmarks.is_empty() || self.sizes.is_empty() || self.loads.is_empty() {
            return Err("a suite has a benchmark, a frame size and a load at least".into());
        }
        if self.loss_ratios.is_empty() || self.loss_ratios.iter().any(|ratio| !(0.0..1.0).contains(ratio)) {
            return Err("a loss ratio is a share of the frames, from 0 to below 1".into());
        }
        if self.search != SearchKind::Mlr && self.loss_ratios.len() > 1 {
            return Err("several loss ratios are searched for by MLRsearch alone: --search mlr".into());
        }
        if self.loads.iter().any(|load| !(1..=100).contains(load)) {
            return Err("a load of latency is 1 to 100 percent of the throughput".into());
        }
        Ok(())
    }
}

/// Where a suite is not what an RFC says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    /// Which section: `RFC 2544 §24`.
    pub section: String,
    /// What is different, in one sentence.
    pub what: String,
}

impl Deviation {
    /// Of RFC 2544.
    pub fn new(section: &str, what: impl Into<String>) -> Deviation {
        Deviation { section: format!("RFC 2544 §{section}"), what: what.into() }
    }
}

impl Deviation {
    /// Its place in the order of sections.
    pub fn place(&self) -> (bool, Vec<u32>) {
        let number = self.section.rsplit('§').next().unwrap_or_default();
        let parts = number.split('.').filter_map(|part| part.parse().ok()).collect();
        (!self.section.starts_with("RFC 2544"), parts)
    }
}

impl Suite {
    /// Where what is asked is not what RFC 2544 says, in the order of its sections.
    pub fn deviations(&self) -> Vec<Deviation> {
        [self.of_traffic(), self.of_pauses(), self.of_rates(), self.of_latency(), self.of_bursts(), self.of_the_rest()]
            .concat()
    }

    /// In frames, line and directions.
    fn of_traffic(&self) -> Vec<Deviation> {
        let mut found = Vec::new();
        let mut say = |section: &str, what: String| found.push(Deviation::new(section, what));
        let left_out = SIZES.iter().filter(|bytes| self.sizes.iter().all(|size| size.with_fcs() != **bytes));
        let left_out: Vec<String> = left_out.map(u16::to_string).collect();
        if !left_out.is_empty() {
            say("9.1", format!("frame sizes left out: {}", left_out.join(", ")));
        }
        say("11", "no broadcasts, management, routing updates or filters among the traffic".into());
        say("12", "all frames have one source and one destination, not random ones of 256 networks".into());
        if self.line_assumed {
            let bits = self.line.0 as f64 / 1e9;
            say("20", format!("nobody says what the line has: {bits} Gbit/s is an assumption (--line-rate)"));
        }
        if self.both {
            say("14", "latency, recovery and reset are those of one of the two directions".into());
            say("23", "no learning frames where both directions are sent at once".into());
        } else {
            say("14", "one direction, not both at once (--both)".into());
        }
        found
    }

    /// In what is waited for around a trial.
    fn of_pauses(&self) -> Vec<Deviation> {
        let pauses = [
            (self.settle_s, 2.0, "learning frames settle for"),
            (self.residual_s, 2.0, "residual frames are waited for"),
            (self.rest_s, 5.0, "the device rests between trials for"),
        ];
        let short = pauses.into_iter().filter(|(asked, book, _)| asked < book);
        short.map(|(asked, book, what)| Deviation::new("23", format!("{what} {asked} s instead of {book}"))).collect()
    }

    /// In throughput and frame loss rate.
    fn of_rates(&self) -> Vec<Deviation> {
        let mut found = Vec::new();
        let mut say = |section: &str, what: String| found.push(Deviation::new(section, what));
        for (benchmark, extent) in [(Benchmark::Throughput, self.throughput), (Benchmark::Loss, self.loss)] {
            if self.has(benchmark) && extent.lasts_s < 60.0 {
                say("24", format!("trials of the {benchmark} last {} s instead of 60", extent.lasts_s));
            }
        }
        if let Some(ratio) = self.loss_ratios.first().filter(|ratio| **ratio > 0.0) {
            say("26.1", format!("the throughput that other benchmarks use may lose {} % of the frames", ratio * 100.0));
        }
        if self.has(Benchmark::Throughput) && self.search == SearchKind::Verified {
            say("26.1", "a load passes where one of two trials lost nothing (ETSI GS NFV-TST 009 §12.3.3)".into());
        }
        found
    }

    fn of_latency(&self) -> Vec<Deviation> {
        let Extent { lasts_s, times } = self.latency;
        let mut found = Vec::new();
        let mut say = |what: String| found.push(Deviation::new("26.2", what));
        if !self.has(Benchmark::Latency) {
            return found;
        }
        if lasts_s < 120.0 {
            let middle = lasts_s / 2.0;
            say(format!("streams of {lasts_s} s instead of 120, the tagged frame after {middle} s instead of 60"));
        }
        if !self.loads.contains(&100) {
            say("not at the throughput itself".into());
        }
        if times < 20 {
            say(format!("{times} instead of 20 repetitions"));
        }
        found
    }

    fn of_bursts(&self) -> Vec<Deviation> {
        let Extent { lasts_s, times } = self.back_to_back;
        let mut found = Vec::new();
        let mut say = |what: String| found.push(Deviation::new("26.4", what));
        if !self.has(Benchmark::BackToBack) {
            return found;
        }
        if self.search == SearchKind::Verified {
            say("a burst passes where one of two lost nothing (RFC 9004 §5.4)".into());
        }
        if lasts_s < 2.0 {
            say(format!("bursts of up to {lasts_s} s instead of 2"));
        }
        if times < 50 {
            say(format!("{times} instead of 50 repetitions"));
        }
        found
    }

    /// In recovery and reset, and benchmarks that were left out.
    fn of_the_rest(&self) -> Vec<Deviation> {
        let short = self.has(Benchmark::Recovery) && self.recovery.lasts_s < 60.0;
        let what = format!("overload for {} s instead of 60", self.recovery.lasts_s);
        let short = short.then(|| Deviation::new("26.5", what));
        let left_out = Benchmark::ALL.into_iter().filter(|benchmark| !self.has(*benchmark));
        let left_out =
            left_out.map(|benchmark| Deviation::new(benchmark.section(), format!("not measured: {benchmark}")));
        let unable = self.has(Benchmark::Reset) && self.reset_command.is_none();
        let unable = unable.then(|| Deviation::new("26.6", "no command that resets the device was given"));
        short.into_iter().chain(left_out).chain(unable).collect()
    }
}

impl Benchmark {
    /// Its section of RFC 2544.
    pub fn section(self) -> &'static str {
        match self {
            Benchmark::Check | Benchmark::Offer => "23",
            Benchmark::Throughput => "26.1",
            Benchmark::Latency => "26.2",
            Benchmark::Loss => "26.3",
            Benchmark::BackToBack => "26.4",
            Benchmark::Recovery => "26.5",
            Benchmark::Reset => "26.6",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_deviates_in_what_is_never_done_alone() {
        let book = Suite::by_the_book(LineRate(1_000_000_000));
        book.check().unwrap();
        let sections = |suite: &Suite| suite.deviations().into_iter().map(|d| d.section).collect::<Vec<_>>();
        let never = ["11", "12", "14"].map(|section| format!("RFC 2544 §{section}"));
        assert_eq!(sections(&book), [&never[..], &["RFC 2544 §26.6".to_owned()]].concat());
        assert_eq!(sections(&Suite { reset_command: Some("true".into()), ..book }), never);
        let quick = Suite::quick(LineRate(1_000_000_000));
        quick.check().unwrap();
        let all = ["11", "12", "14", "23", "23", "23", "24", "24", "26.2", "26.2", "26.4", "26.4", "26.5", "26.6"];
        assert_eq!(sections(&quick), all.map(|section| format!("RFC 2544 §{section}")));
    }

    #[test]
    fn the_most_frames_of_a_line_are_those_of_appendix_b() {
        let suite = Suite::by_the_book(LineRate(10_000_000));
        let most: Vec<u64> = suite.sizes.iter().map(|size| suite.line_fps(*size) as u64).collect();
        assert_eq!(most, [14_880, 8_445, 4_528, 2_349, 1_197, 961, 812]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |change: fn(&mut Suite)| {
            let mut suite = Suite::quick(LineRate(1_000_000_000));
            change(&mut suite);
            suite.check().unwrap_err()
        };
        assert!(refused(|s| s.throughput.lasts_s = 0.0).contains("trials of throughput last"));
        assert!(refused(|s| s.latency.times = 0).contains("latency is repeated"));
        assert!(refused(|s| s.sizes.clear()).contains("a frame size"));
        assert!(refused(|s| s.loads = vec![101]).contains("1 to 100 percent"));
        assert!(refused(|s| s.loss_ratios = vec![1.0]).contains("loss ratio"));
        let both = |s: &mut Suite| (s.search, s.loss_ratios) = (SearchKind::Binary, vec![0.0, 0.005]);
        assert!(refused(both).contains("--search mlr"));
    }
}
