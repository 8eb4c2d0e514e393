//! A matrix of settings of a network, and of the load on it (paper 004): every combination is a cell, in which the latency of a light
//! flow beside the load, the load's throughput and what both cost are measured at once.

mod load;
mod response;
mod seen;

pub use load::{Load, Transport};
pub use response::{FIRST_END, LATENCIES, Moved, RESPONSES, Response, SECOND_END, Step, WAYS};
pub use seen::{Apart, Arrived, Became, Distribution, Loaded, Measured, Pinged, Probed, Queue, Seen, Tried, Used};

use crate::frame::FrameSize;
use crate::rate::RateSpec;
use crate::scenario::{MOST_RUNS, Protocol};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most cells: each takes the seconds of a trial, several times.
const MOST_CELLS: usize = 5_000;

/// The MTU of an interface of which nothing is said.
const USUAL_MTU: usize = 1500;

/// Longest time that is measured, in seconds: a day.
const LONGEST_S: f64 = 86_400.0;
/// Longest warm-up, in seconds: iperf3's.
const LONGEST_WARMUP_S: f64 = 60.0;
/// An echo comes back within a second, so that it is waited for.
const LONGEST_SPOOL_NS: u64 = 400_000_000;

/// What is asked: a whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// One line for the reader of the report.
    #[serde(default = "untitled")]
    pub title: String,
    /// Of the order in which cells are measured.
    #[serde(default = "one")]
    pub seed: u64,
    /// How long each cell is measured, and how often.
    #[serde(default)]
    pub protocol: Protocol,
    /// The same for `--quick`.
    #[serde(default = "quick")]
    pub quick: Protocol,
    /// The light flow.
    #[serde(default)]
    pub probe: Probe,
    /// What is tried in several ways.
    pub vary: Factors,
}

fn one() -> u64 {
    1
}

fn untitled() -> String {
    "A matrix".into()
}

fn quick() -> Protocol {
    Protocol { warmup_s: 1.0, duration_s: 4.0, runs: 2 }
}

/// The flow whose latency is measured beside the load, there and back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// How many leave, by usect.
    pub rate: RateSpec,
    /// Their size, with FCS.
    pub frame_size: FrameSize,
    /// Milliseconds between two echoes of `ping` (paper 004 §2.1: 200).
    pub ping_ms: u32,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { rate: RateSpec::Frames(1_000), frame_size: FrameSize::MIN, ping_ms: 200 }
    }
}

/// The factors, each with its levels; the first is what the others are seen against. A factor without levels isn't varied.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Factors {
    /// What `ethtool -K` switches at both ends: `tso on gso on gro off`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offloads: Vec<Words>,
    /// The queueing discipline of both ends' interfaces, in the words of `tc qdisc replace dev … root`: `pfifo limit 1000`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<Words>,
    /// The MTU of both ends, and of what is between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mtu: Vec<u16>,
    /// What `ethtool -C` sets at both ends: `rx-usecs 0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coalescing: Vec<Words>,
    /// What stands between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Way>,
    /// The load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<Load>,
    /// Which way the load goes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub direction: Vec<Direction>,
}

/// Words for a program, under a name for the reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a level is words in quotes, or { name = \"…\", is = \"…\" } with both of them and nothing else"
)]
pub enum Words {
    /// They are their own name.
    Plain(String),
    /// With another one.
    Named {
        /// The name.
        name: String,
        /// The words.
        is: String,
    },
}

impl Words {
    /// For the program, as they are written.
    pub fn text(&self) -> &str {
        let (Words::Plain(words) | Words::Named { is: words, .. }) = self;
        words
    }

    /// One by one.
    pub fn words(&self) -> Vec<&str> {
        self.text().split_whitespace().collect()
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Words::Plain(name) | Words::Named { name, .. }) = self;
        f.write_str(name)
    }
}

/// What stands between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Way {
    /// A cable.
    Direct,
    /// A Linux bridge.
    Bridge,
    /// Open vSwitch, as an OpenFlow switch.
    Ovs,
    /// A delay line that holds every frame for so many nanoseconds, either way.
    Spool(u64),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Direct => f.write_str("direct"),
            Way::Bridge => f.write_str("bridge"),
            Way::Ovs => f.write_str("ovs"),
            Way::Spool(ns) => write!(f, "spool {ns}ns"),
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        let spool = |rest: &str| rest.strip_suffix("ns")?.trim().parse().ok().filter(|ns| *ns <= LONGEST_SPOOL_NS);
        match text {
            "direct" => Ok(Way::Direct),
            "bridge" => Ok(Way::Bridge),
            "ovs" => Ok(Way::Ovs),
            _ => text.strip_prefix("spool ").and_then(spool).map(Way::Spool).ok_or_else(|| {
                format!(
                    "there is no path {text:?}: use direct, bridge, ovs, or spool with nanoseconds, {LONGEST_SPOOL_NS} at the most (`spool 100000ns`)"
                )
            }),
        }
    }
}

impl TryFrom<String> for Way {
    type Error = String;

    fn try_from(text: String) -> Result<Way, String> {
        text.parse()
    }
}

impl From<Way> for String {
    fn from(way: Way) -> String {
        way.to_string()
    }
}

/// Which way a load goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the first end to the second, as the probe's request does.
    Forward,
    /// The other way.
    Back,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Forward => "forward",
            Direction::Back => "back",
        })
    }
}

/// A factor that is varied, by name, and its levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its levels' names.
    pub levels: Vec<String>,
}

/// What holds in a cell; a factor that isn't varied leaves things as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// For `ethtool -K`.
    pub offloads: Option<Words>,
    /// For `tc`.
    pub queue: Option<Words>,
    /// The MTU.
    pub mtu: Option<u16>,
    /// For `ethtool -C`.
    pub coalescing: Option<Words>,
    /// What stands between.
    pub path: Way,
    /// The load.
    pub load: Load,
    /// Which way it goes.
    pub direction: Direction,
}

/// A trial: a cell, as a level of each factor that is varied, and which repetition of it, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The levels' numbers, in the order of [`Matrix::factors`].
    pub cell: Vec<usize>,
    /// The repetition.
    pub repetition: u32,
}

impl Matrix {
    /// Reads and checks it.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Result<Matrix, String> {
        let matrix: Matrix = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            format!(
                "{}{}",
                line.map_or(String::new(), |line| format!("line {line}: ")),
                e.message().replace('\n', "; ")
            )
        })?;
        matrix.check()?;
        Ok(matrix)
    }

    /// Checks it.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        self.check_times()?;
        self.check_levels()?;
        self.check_words()?;
        self.check_sizes()
    }

    /// How long is measured, and how often is asked.
    fn check_times(&self) -> Result<(), String> {
        for (section, protocol) in [("protocol", self.protocol), ("quick", self.quick)] {
            let whole =
                |seconds: f64, least: f64, most: f64| (least..=most).contains(&seconds) && seconds.fract() == 0.0;
            if !whole(protocol.duration_s, 1.0, LONGEST_S) {
                return Err(format!(
                    "a duration of {} s ({section}.duration_s, or --duration) can't be: iperf3 counts in whole seconds, from 1 to {LONGEST_S}",
                    protocol.duration_s
                ));
            }
            if !whole(protocol.warmup_s, 0.0, LONGEST_WARMUP_S) {
                return Err(format!(
                    "a warm-up of {} s ({section}.warmup_s) can't be: iperf3 counts in whole seconds, and waits for {LONGEST_WARMUP_S} at the most",
                    protocol.warmup_s
                ));
            }
            if protocol.runs == 0 || protocol.runs > MOST_RUNS {
                return Err(format!(
                    "{} runs ({section}.runs, or --runs) can't be: use 1 to {MOST_RUNS}",
                    protocol.runs
                ));
            }
        }
        if self.probe.ping_ms < 2 {
            return Err("ping_ms is 2 or more: `ping` sends no faster".into());
        }
        Ok(())
    }

    /// That there are levels, each of them once, and not too many.
    fn check_levels(&self) -> Result<(), String> {
        let factors = self.factors();
        if factors.is_empty() {
            return Err("vary names no levels of any factor: name some of offloads, queue, mtu, coalescing, path, load, direction".into());
        }
        for factor in &factors {
            // However many blanks there are between its words.
            let plain = |name: &String| name.split_whitespace().collect::<Vec<_>>().join(" ");
            let mut names: Vec<String> = factor.levels.iter().map(plain).collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(format!("{} has {:?} twice: name each level once", factor.name, twice[0]));
            }
        }
        let cells: usize = factors.iter().fold(1, |all: usize, factor| all.saturating_mul(factor.levels.len()));
        if cells > MOST_CELLS {
            return Err(format!("it has {cells} cells, and {MOST_CELLS} are the most"));
        }
        Ok(())
    }

    /// What programs are to be told, as far as their words are known here.
    fn check_words(&self) -> Result<(), String> {
        let switch = |value: &str| value == "on" || value == "off";
        check_pairs("offloads", "gro off", &self.vary.offloads, switch, "on or off")?;
        let number = |value: &str| switch(value) || value.parse::<u32>().is_ok();
        check_pairs("coalescing", "rx-usecs 0", &self.vary.coalescing, number, "a number, on or off")?;
        if let Some(place) = self.vary.queue.iter().position(|words| words.words().is_empty()) {
            return Err(format!("level {} of queue is empty: it needs at least a name, such as pfifo", place + 1));
        }
        Ok(())
    }

    /// That the probe fits into every MTU.
    fn check_sizes(&self) -> Result<(), String> {
        if let Some(mtu) = self.vary.mtu.iter().find(|mtu| !(576..=9_000).contains(*mtu)) {
            return Err(format!("an MTU of {mtu} is none: use 576 to 9000"));
        }
        let needed = self.probe.frame_size.mtu();
        if let Some(mtu) = self.vary.mtu.iter().find(|mtu| usize::from(**mtu) < needed) {
            let size = self.probe.frame_size.with_fcs();
            return Err(format!(
                "the probe's frames of {size} bytes need an MTU of {needed}, and one of {mtu} is asked for"
            ));
        }
        if self.vary.mtu.is_empty() && needed > USUAL_MTU {
            let size = self.probe.frame_size.with_fcs();
            return Err(format!("the probe's frames of {size} bytes need an MTU of {needed}: name one under mtu"));
        }
        Ok(())
    }

    /// The factors that are varied: those with levels, in this order.
    pub fn factors(&self) -> Vec<Factor> {
        fn named<T: fmt::Display>(name: &str, levels: &[T]) -> Factor {
            Factor { name: name.into(), levels: levels.iter().map(T::to_string).collect() }
        }
        let vary = &self.vary;
        let all = [
            named("offloads", &vary.offloads),
            named("queue", &vary.queue),
            named("mtu", &vary.mtu),
            named("coalescing", &vary.coalescing),
            named("path", &vary.path),
            named("load", &vary.load),
            named("direction", &vary.direction),
        ];
        all.into_iter().filter(|factor| !factor.levels.is_empty()).collect()
    }

    /// What holds in a cell, whose levels are in the order of [`Matrix::factors`].
    pub fn settings(&self, cell: &[usize]) -> Settings {
        let mut levels = cell.iter().copied();
        fn level<T: Clone>(of: &[T], levels: &mut impl Iterator<Item = usize>) -> Option<T> {
            if of.is_empty() { None } else { levels.next().and_then(|level| of.get(level).cloned()) }
        }
        let (vary, levels) = (&self.vary, &mut levels);
        Settings {
            offloads: level(&vary.offloads, levels),
            queue: level(&vary.queue, levels),
            mtu: level(&vary.mtu, levels),
            coalescing: level(&vary.coalescing, levels),
            path: level(&vary.path, levels).unwrap_or(Way::Direct),
            load: level(&vary.load, levels).unwrap_or(Load::None),
            direction: level(&vary.direction, levels).unwrap_or(Direction::Forward),
        }
    }

    /// A cell in words: the names of its levels, of factors that have several.
    pub fn label(&self, cell: &[usize]) -> String {
        let factors = self.factors();
        let several = factors.iter().any(|factor| factor.levels.len() > 1);
        let told = factors.iter().zip(cell).filter(|(factor, _)| !several || factor.levels.len() > 1);
        let names: Vec<&str> =
            told.filter_map(|(factor, level)| factor.levels.get(*level)).map(String::as_str).collect();
        names.join(", ")
    }

    /// Every trial in the order in which they are made: all cells once, shuffled, then all again in another order, so that a drift of
    /// the host falls on all cells alike. The seed settles it.
    pub fn order(&self, runs: u32) -> Vec<Turn> {
        let mut random = Pcg64::seed_from_u64(self.seed);
        let cells = self.cells();
        let mut turns = Vec::new();
        for repetition in 1..=runs {
            let mut shuffled = cells.clone();
            // Fisher and Yates; the modulo's bias is far below what an order could show.
            for last in (1..shuffled.len()).rev() {
                shuffled.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
            }
            turns.extend(shuffled.into_iter().map(|cell| Turn { cell, repetition }));
        }
        turns
    }

    /// Every combination; without a load, in one direction only.
    pub fn cells(&self) -> Vec<Vec<usize>> {
        let mut cells = vec![Vec::new()];
        for factor in self.factors() {
            let levels = 0..factor.levels.len();
            cells = cells
                .into_iter()
                .flat_map(|cell| levels.clone().map(move |level| [&cell[..], &[level]].concat()))
                .collect();
        }
        let first = self.vary.direction.first().copied().unwrap_or(Direction::Forward);
        cells.retain(|cell| {
            let settings = self.settings(cell);
            settings.load != Load::None || settings.direction == first
        });
        cells
    }
}

/// That levels of a factor are pairs of a name and a value, each name once.
fn check_pairs(
    factor: &str,
    such_as: &str,
    levels: &[Words],
    is_value: impl Fn(&str) -> bool,
    values: &str,
) -> Result<(), String> {
    for level in levels {
        let (text, words) = (level.text(), level.words());
        if words.is_empty() || !words.len().is_multiple_of(2) {
            return Err(format!("{factor}, {text:?}: a level is pairs of a name and a value, such as `{such_as}`"));
        }
        let mut named = Vec::new();
        for pair in words.chunks(2) {
            let (name, value) = (pair[0], pair[1]);
            if !is_value(value) {
                return Err(format!("{factor}, {text:?}: {name} is {values}, and {value:?} is not"));
            }
            if named.contains(&name) {
                return Err(format!("{factor}, {text:?}: {name} is named twice, and can be only one of both"));
            }
            named.push(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MATRIX: &str = r#"
        title = "offloads and queues"
        [probe]
        rate = "2 kpps"
        [vary]
        offloads = [{ name = "all on", is = "tso on gso on gro on" }, "gro off"]
        queue = ["pfifo limit 1000", "sfq", "fq_codel"]
        path = ["direct", "ovs", "spool 100000ns"]
        load = ["none", "tcp 4", "udp 500M"]
    "#;

    #[test]
    fn every_combination_is_a_cell() {
        let matrix = Matrix::parse(MATRIX).unwrap();
        let names: Vec<String> = matrix.factors().into_iter().map(|factor| factor.name).collect();
        assert_eq!(names, ["offloads", "queue", "path", "load"]);
        assert_eq!(matrix.cells().len(), 2 * 3 * 3 * 3);
        assert_eq!(matrix.label(&[0, 2, 2, 1]), "all on, fq_codel, spool 100000ns, tcp 4");
        let settings = matrix.settings(&[0, 2, 2, 1]);
        assert_eq!(settings.offloads.unwrap().words(), ["tso", "on", "gso", "on", "gro", "on"]);
        assert_eq!((settings.mtu, settings.path, settings.direction), (None, Way::Spool(100_000), Direction::Forward));
        assert_eq!(settings.load, Load::Flows { transport: Transport::Tcp, flows: 4 });
    }

    #[test]
    fn nothing_goes_no_way() {
        let matrix =
            Matrix::parse("title = \"\"\n[vary]\nload = [\"none\", \"tcp\"]\ndirection = [\"back\", \"forward\"]\n")
                .unwrap();
        assert_eq!(matrix.cells(), [[0, 0], [1, 0], [1, 1]]);
    }

    #[test]
    fn each_repetition_has_every_cell_once_in_an_order_of_its_own() {
        let matrix = Matrix::parse(MATRIX).unwrap();
        let order = matrix.order(3);
        assert_eq!(order, matrix.order(3), "the seed settles it");
        let of =
            |repetition| order.iter().filter(move |turn| turn.repetition == repetition).map(|turn| turn.cell.clone());
        for repetition in 1..=3 {
            let mut cells: Vec<Vec<usize>> = of(repetition).collect();
            cells.sort_unstable();
            assert_eq!(cells, matrix.cells());
        }
        assert!(!of(1).eq(of(2)) && !of(1).eq(matrix.cells()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |from: &str, to: &str| Matrix::parse(&MATRIX.replace(from, to)).unwrap_err();
        assert!(refused("\"gro off\"", "\"gro\"").contains("offloads, \"gro\": a level is pairs"));
        assert!(refused("\"gro off\"", "\"gro maybe\"").contains("gro is on or off"));
        assert!(refused("\"gro off\"", "\"gro on tso on gro off\"").contains("gro is named twice"));
        assert!(refused("[vary]", "[vary]\ncoalescing = [\"rx-usecs few\"]").contains("a number, on or off"));
        assert!(refused("\"sfq\"", "\" \"").contains("level 2 of queue is empty"));
        assert!(refused("name = \"all on\"", "nam = \"all on\"").contains("with both of them"));
        assert!(refused("name = \"all on\"", "name = \"all on\", so = \"x\"").contains("nothing else"));
        assert!(refused("\"sfq\"", "\"fq_codel\"").contains("twice"));
        assert!(refused("\"ovs\"", "\"wifi\"").contains("no path"));
        assert!(refused("\"none\"", "\"sctp\"").contains("no load"));
        assert!(refused("2 kpps", "fast").contains("rate"));
        assert!(refused("[vary]", "[vary]\nmtu = [68]").contains("MTU of 68"));
        assert!(refused("[vary]", "frame_size = 1518\n[vary]\nmtu = [1500, 576]").contains("one of 576"));
        assert!(refused("[vary]", "frame_size = 9000\n[vary]").contains("name one under mtu"));
        assert!(
            refused("[probe]", "[quick]\nwarmup_s = 0.5\nduration_s = 1\nruns = 1\n[probe]").contains("whole seconds")
        );
        assert!(
            refused("[probe]", "[quick]\nwarmup_s = 61\nduration_s = 1\nruns = 1\n[probe]").contains("quick.warmup_s")
        );
        assert!(
            refused("[probe]", "[protocol]\nwarmup_s = 0\nduration_s = nan\nruns = 1\n[probe]").contains("of NaN s")
        );
        assert!(refused("[probe]", "[protocol]\nwarmup_s = 0\nduration_s = 1\nruns = 0\n[probe]").contains("--runs"));
        assert!(refused("[vary]", "[vary]\ncolour = [1]").contains("colour"));
        assert!(Matrix::parse("title = \"\"\n[vary]\n").unwrap_err().contains("no levels"));
        let many: Vec<String> = (2000..2400).map(|n| format!("\"pfifo limit {n}\"")).collect();
        assert!(refused("\"sfq\"", &many.join(", ")).contains("cells"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", words in "(title|vary|load|\\[|\\]|=|\"tcp\"|\"|[0-9]|\n| )*") {
            let _ = (Matrix::parse(&text), Matrix::parse(&words), text.parse::<Way>());
        }
    }
}
