//! Flags of the commands that take a scenario, or two ports: `convoy`, `train`, `sweep`.

use super::{Dpdk, Output, frame_size};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use usect_core::fiber::Fiber;
use usect_core::frame::FrameSize;
use usect_core::port_name::PortName;
use usect_core::rate::RateSpec;

/// Between which ports: a scenario's, or the user's own.
#[derive(Debug, ClapArgs)]
pub(crate) struct Between {
    /// A scenario in TOML; or name the ports.
    #[arg(conflicts_with_all = ["tx", "rx"])]
    pub(crate) scenario: Option<PathBuf>,
    /// Only these clients of the scenario.
    #[arg(long = "client", value_name = "NAME", conflicts_with_all = ["tx", "rx"])]
    pub(crate) clients: Vec<String>,
    /// The port that sends.
    #[arg(long, value_name = "PORT")]
    pub(crate) tx: Option<PortName>,
    /// The port that receives.
    #[arg(long, value_name = "PORT")]
    pub(crate) rx: Option<PortName>,
    /// Core of the sending thread.
    #[arg(long, value_name = "CORE", conflicts_with = "scenario")]
    pub(crate) tx_core: Option<usize>,
    /// Core of the receiving thread.
    #[arg(long, value_name = "CORE", conflicts_with = "scenario")]
    pub(crate) rx_core: Option<usize>,
    #[command(flatten)]
    pub(crate) dpdk: Dpdk,
    /// Yes, what a scenario, a stored run or --reset asks to run may run: arguments that load code into DPDK, the command that resets
    /// the device.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What is measured, and with what.
#[derive(Debug, ClapArgs)]
pub(crate) struct Over {
    #[command(flatten)]
    pub(crate) between: Between,
    /// The fiber between the ports, where there is nothing else, as keys of a scenario's dut.fiber table:
    /// `length_m = 2.0, line_rate = "10 Gbit/s"`. Errors are then against physics.
    #[arg(long, value_name = "TOML", conflicts_with = "scenario")]
    pub(crate) fiber: Option<Fiber>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) const CONVOY_HELP: &str = "\
Trains rather than pairs of frames: a link that is several (LACP) may send both frames of a pair through one of
its members, or through two, and a pair then shows any multiple or part of what the link has. A train fills all.

Examples:
  usect convoy scenarios/fiber.toml --quick     two lengths of fiber and two frame sizes, inside the process
  usect convoy scenarios/fiber-xdp.toml         the same between veth interfaces
  usect convoy --tx xdp:eth1 --rx xdp:eth2 --size 64 --size 1522 --length 100 --trains 100 --pause 1ms";

pub(crate) const TRAIN_HELP: &str = "\
Examples:
  usect train scenarios/fiber.toml --quick
  usect train --tx xdp:eth1 --rx xdp:eth2 --length 256 --trains 1000 --pause 1ms
  usect train --tx packet:eth1 --rx packet:eth2 --length 20 --spacing 15us";

#[derive(Debug, ClapArgs)]
pub(crate) struct Trains {
    #[command(flatten)]
    pub(crate) over: Over,
    /// Frame size in bytes, FCS included; may be repeated [default: the scenario's, or 64].
    #[arg(long = "size", value_name = "BYTES", value_parser = frame_size)]
    pub(crate) sizes: Vec<FrameSize>,
    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// What trains are like, and how many there are.
#[derive(Debug, ClapArgs)]
pub(crate) struct Shape {
    /// Frames of a train, 2 to 65536 [default: the scenario's, or 100].
    #[arg(long, value_name = "N")]
    pub(crate) length: Option<u32>,
    /// Time between the departures of two frames of a train (15us, 200ns) [default: back to back].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) spacing: Option<u64>,
    /// Time between the last frame of a train and the first of the next [default: long enough for the line to empty,
    /// where it is known, and 100us at least].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) pause: Option<u64>,
    /// How long before its head a frame of each train leaves alone, to wake and warm what idled in the pause
    /// [default: convoy 50us, or two frames of a line that is slower; train 0s].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) lead: Option<u64>,
    /// Trains measured in each run.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) trains: u64,
}

/// A time as people write it: `15us`, `1.5 ms`.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a time: write 200ns, 15us, 1ms or 2s");
    let time: jiff::SignedDuration = text.parse().map_err(|_| bad())?;
    u64::try_from(time.as_nanos()).map_err(|_| bad())
}

/// Any number.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number: write 3 or 0.5"))
}

pub(crate) const SWEEP_HELP: &str = "\
Examples:
  usect sweep scenarios/fiber.toml --sizes 64..1522:54                      dispersion by size, peaks named
  usect sweep scenarios/fiber.toml --sizes 64..1522:243 --gaps 200ns..2us:200ns   heat map of sizes and gaps
  usect sweep --tx xdp:eth1 --rx xdp:eth2 --sizes 64..1518:32 --gaps 1us..20us:1us --frames 1000
  usect sweep scenarios/metherxis.toml --sizes 128 --rates 100k..1000k:100k              share of frames stamped, by rate
  usect sweep scenarios/metherxis.toml --sizes 64,128,256,512,1024,1280,1518 --rates 500k    the same by size

A value is a number, and a range is FIRST..LAST:STEP; sizes and rates may be several, with commas.";

#[derive(Debug, ClapArgs)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub(crate) over: Over,
    /// Frame sizes in bytes, FCS included.
    #[arg(long, value_name = "RANGE", value_parser = sizes, default_value = "64..1518:32")]
    pub(crate) sizes: Sizes,
    /// Times between the departures of two frames.
    #[arg(long, value_name = "RANGE", value_parser = gaps, default_value = "15us")]
    pub(crate) gaps: Gaps,
    /// Frames of each size and gap, in each run.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) frames: u64,
    /// Rates instead of gaps: drops, share of the frames stamped, and latency of each size at each, over 30 runs
    /// [quick: 3].
    #[arg(long, value_name = "RANGE", value_parser = rates, conflicts_with_all = ["gaps", "frames"])]
    pub(crate) rates: Option<Rates>,
    /// How long each size is sent at each of --rates, in each run [default: 1s, quick: 200ms].
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, requires = "rates")]
    pub(crate) lasts: Option<u64>,
    /// Measure each size at each of --rates without the device, too, over a bare wire.
    #[arg(long, requires = "rates")]
    pub(crate) loopback: bool,
}

/// A range of frame sizes.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(pub(crate) Vec<FrameSize>);

/// Rates.
#[derive(Debug, Clone)]
pub(crate) struct Rates(pub(crate) Vec<RateSpec>);

/// A range of times between frames, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Gaps(pub(crate) Vec<u64>);

fn sizes(text: &str) -> Result<Sizes, String> {
    let bytes = |text: &str| frame_size(text).map(|size| u64::from(size.with_fcs()));
    let step = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number of bytes"));
    let all = text.split(',').map(|part| range(part, bytes, step)).collect::<Result<Vec<_>, _>>()?;
    all.into_iter().flatten().map(|bytes| frame_size(&bytes.to_string())).collect::<Result<_, _>>().map(Sizes)
}

/// Rates in frames per second, and single ones in bits per second on the line.
fn rates(text: &str) -> Result<Rates, String> {
    let rate = |text: &str| text.parse::<RateSpec>().map_err(|e| e.to_string());
    let frames = |text: &str| match rate(text)? {
        RateSpec::Frames(frames) => Ok(frames),
        _ => Err(format!("`{text}` is no number of frames per second, as a range of rates has")),
    };
    let part = |part: &str| match part.contains("..") {
        true => range(part, frames, frames).map(|all| all.into_iter().map(RateSpec::Frames).collect()),
        false => rate(part).map(|rate| vec![rate]),
    };
    let all: Vec<Vec<RateSpec>> = text.split(',').map(part).collect::<Result<_, _>>()?;
    Ok(Rates(all.concat()))
}

fn gaps(text: &str) -> Result<Gaps, String> {
    let all = range(text, nanoseconds, nanoseconds)?;
    if all.iter().any(|gap| !(1..=1_000_000_000).contains(gap)) {
        return Err("gaps run from 1ns to 1s".to_owned());
    }
    Ok(Gaps(all))
}

/// Most values of a range.
const MOST_VALUES: u64 = 20_000;

/// `FIRST..LAST:STEP`, or one value.
fn range(
    text: &str,
    value: impl Fn(&str) -> Result<u64, String>,
    step: impl Fn(&str) -> Result<u64, String>,
) -> Result<Vec<u64>, String> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(vec![value(text)?]) };
    let (last, by) = rest.split_once(':').ok_or_else(|| format!("`{text}` lacks its step: write FIRST..LAST:STEP"))?;
    let (first, last, by) = (value(first)?, value(last)?, step(by)?);
    if by == 0 || first > last {
        return Err(format!("`{text}` goes nowhere: write FIRST..LAST:STEP, the smaller one first"));
    }
    let values = (last - first) / by + 1;
    if values > MOST_VALUES {
        return Err(format!("`{text}` has {values} values, and {MOST_VALUES} are the most: take larger steps"));
    }
    Ok((first..=last).step_by(by as usize).collect())
}
