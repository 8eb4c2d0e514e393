//! What an instrument adds to a latency, measured where physics says what the latency is, and kept for later (paper 003
//! §4.5).

use crate::capture::Capture;
use crate::environment::Environment;
use crate::fiber::LineRate;
use crate::frame::FrameSize;
use crate::frame_spec::FrameSpec;
use crate::measurement::Measurement;
use crate::pattern::{Pattern, Replay};
use crate::port_name::Engine;
use crate::rate::Rate;
use crate::scenario::{Mode, Scenario, Stamp, Wait};
use crate::stats::{self, Bounded};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the schema of a file of calibrations.
pub const SCHEMA: &str = "usect.calibrations/1";

/// What an instrument's own latency depends on: engine, stamps, frames and their departures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// The client's engine, its way to wait, its stamps and, of DPDK, its driver.
    pub engine: Engine,
    /// How it waits.
    pub wait: Wait,
    /// Whose stamps its latency is between.
    pub stamp: Stamp,
    /// The virtual device of DPDK, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Size of its frames.
    pub frame_size: FrameSize,
    /// Their mean rate.
    pub rate: Rate,
    /// How their departures follow each other.
    pub pattern: Pattern,
    /// Which latency.
    pub mode: Mode,
    /// Tells captures that are replayed apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<u64>,
    /// The kind of device under test: what it adds is not the instrument's, but a software one shares its host.
    pub dut: String,
    /// Rate of a spool's line. Between the user's own ports it is that of the cards, which are part of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_rate: Option<LineRate>,
    /// Flows that take turns.
    pub flows: u16,
    /// Whether the same traffic went the other way.
    pub both: bool,
    /// The frames themselves.
    pub frame: FrameSpec,
}

impl Key {
    /// Of a trial of a scenario.
    pub fn of(trial: &Trial, scenario: &Scenario) -> Key {
        let (client, sent, traffic) = (&trial.client, &trial.traffic, &scenario.traffic);
        Key {
            engine: client.engine,
            wait: client.wait,
            stamp: client.stamp,
            driver: client.driver.clone(),
            frame_size: sent.frame_size,
            rate: sent.rate,
            pattern: without_times(&sent.pattern),
            mode: sent.mode,
            capture: sent.pattern.replay().map(|replay| replay.capture.digest()),
            dut: scenario.dut.name().to_owned(),
            line_rate: trial.case.dut(&scenario.dut).spool().and_then(|spool| spool.line()),
            flows: traffic.flows,
            both: traffic.both,
            frame: traffic.frame.clone(),
        }
    }
}

/// As a file has it, which doesn't keep a capture's times.
fn without_times(pattern: &Pattern) -> Pattern {
    match pattern {
        Pattern::Replay(replay) => Pattern::Replay(Replay { capture: Capture::default(), ..replay.clone() }),
        other => other.clone(),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, rate) = (self.frame_size.with_fcs(), self.rate.frames_per_second());
        write!(f, "{} at {rate:.0} pps of {size} bytes", self.engine)?;
        if let Some(line) = self.line_rate {
            write!(f, " on {line}")?;
        }
        write!(f, ", {}", self.pattern)
    }
}

/// Facts that make an instrument another one: host, kernel, processor, cores, and the interfaces that frames pass.
const HOST: [&str; 18] = [
    "clocksource.current",
    "cores.dut",
    "cores.receiver",
    "cores.sender",
    "cpu.count",
    "cpu.idle.driver",
    "cpu.microcode",
    "cpu.model",
    "cpu.model_number",
    "cpu.smt.active",
    "cpu.stepping",
    "cpu.turbo",
    "host.hypervisor",
    "host.id",
    "kernel.cmdline",
    "kernel.release",
    "kernel.version",
    "usect.version",
];
/// The same of an interface.
const CARD: [&str; 6] = ["bus-info", "coalesce", "driver", "firmware-version", "mac", "speed"];

/// The host on which a calibration holds, as facts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// Of a run's environment.
    pub fn of(environment: &Environment) -> Fingerprint {
        let tells = |key: &str| {
            // What is below is of the other host of a path.
            let key = key.strip_prefix("far.").unwrap_or(key);
            let card = || key.rsplit('.').next().is_some_and(|last| CARD.contains(&last));
            let core = || key.starts_with("cpu.") && key.ends_with(".governor");
            HOST.contains(&key) || core() || key.starts_with("mitigations.") || key.starts_with("interface.") && card()
        };
        let facts = environment.facts().filter(|(key, _)| tells(key));
        Fingerprint(facts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// What is another, in words; `None` where all is the same.
    pub fn differs(&self, here: &Fingerprint) -> Option<String> {
        let keys = self.0.keys().chain(here.0.keys());
        let key = keys.into_iter().find(|key| self.0.get(*key) != here.0.get(*key))?;
        let say = |facts: &Fingerprint| facts.0.get(key).cloned().unwrap_or_else(|| "absent".to_owned());
        Some(format!("{key} was {} and is {}", say(self), say(here)))
    }
}

/// What one instrument adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What it holds for.
    pub key: Key,
    /// Measured median less what physics gives, in nanoseconds. The interval is the wider of that of the pooled median
    /// and the range of the runs' medians.
    pub correction_ns: Bounded,
    /// What physics gave, in nanoseconds.
    pub expected_ns: f64,
    /// The path that it was made over.
    pub path: String,
    /// When it was made, RFC 3339.
    pub made: String,
    /// The run that it was made by.
    pub run: String,
    /// The host that it was made on.
    pub host: Fingerprint,
}

/// A median with what the instrument adds taken off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The correction, in nanoseconds.
    pub correction_ns: Bounded,
    /// The median less the correction, in nanoseconds; the interval is the widest that both allow.
    pub median_ns: Bounded,
    /// When the calibration was made, RFC 3339.
    pub made: String,
    /// The run that it was made by.
    pub run: String,
}

impl Calibration {
    /// A median without what the instrument adds.
    pub fn applied_to(&self, median: Bounded) -> Calibrated {
        let correction = self.correction_ns;
        Calibrated {
            correction_ns: correction,
            median_ns: Bounded {
                value: median.value - correction.value,
                low: median.low - correction.high,
                high: median.high - correction.low,
            },
            made: self.made.clone(),
            run: self.run.clone(),
        }
    }
}

/// The median latency that a calibration is about: of the heads, where frames left in trains.
pub fn median_ns(measured: &Measurement) -> Option<Bounded> {
    match &measured.trains {
        Some(trains) => trains.head_ns(),
        None => {
            let value = stats::estimates(&measured.latency).first()?.value?;
            Some(Bounded { value: value.ns as f64, low: value.low_ns as f64, high: value.high_ns as f64 })
        }
    }
}

/// A file of calibrations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrations {
    /// [`SCHEMA`].
    pub schema: String,
    /// One for each instrument.
    pub calibrations: Vec<Calibration>,
}

impl Default for Calibrations {
    fn default() -> Calibrations {
        Calibrations { schema: SCHEMA.to_owned(), calibrations: Vec::new() }
    }
}

impl Calibrations {
    /// Adds new ones, which take the place of those for the same on the same host.
    pub fn add(&mut self, new: Vec<Calibration>) {
        for calibration in new {
            self.calibrations.retain(|old| old.key != calibration.key || old.host != calibration.host);
            self.calibrations.push(calibration);
        }
    }

    /// The one for a key on this host; why one that was made elsewhere is of no use here.
    pub fn find(&self, key: &Key, here: &Fingerprint) -> Result<Option<&Calibration>, String> {
        let mut foreign = None;
        for calibration in self.calibrations.iter().filter(|c| c.key == *key) {
            match calibration.host.differs(here) {
                None => return Ok(Some(calibration)),
                Some(difference) => foreign = Some((calibration, difference)),
            }
        }
        match foreign {
            None => Ok(None),
            Some((calibration, difference)) => Err(format!(
                "the calibration of {key} of {} is of another host, kernel or card ({difference}): calibrate anew",
                calibration.made
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(kernel: &str) -> Fingerprint {
        let mut environment = Environment::default();
        environment.set("kernel.release", kernel);
        environment.set("host.load", "changes all the time");
        environment.set("interface.a.eth0.mac", "02:00:00:00:00:01");
        environment.set("interface.a.eth0.napi.threaded", "0");
        Fingerprint::of(&environment)
    }

    fn calibration(size: u16, kernel: &str) -> Calibration {
        let scenario = crate::scenario::Scenario::parse(
            "title = \"t\"\ntraffic = { frame_size = 64, rate = 1000 }\ndut = { kind = \"wire\" }\n[[client]]\nname = \"mem\"\nengine = \"mem\"",
        )
        .unwrap();
        let mut traffic = scenario.traffic.clone();
        traffic.frame_size = FrameSize::try_from(size).unwrap();
        let trial = Trial::once(
            scenario.clients[0].clone(),
            crate::trial::Traffic::of(&traffic, &crate::scenario::Protocol::quick()),
        );
        Calibration {
            key: Key::of(&trial, &Scenario { traffic, ..scenario }),
            correction_ns: Bounded { value: 300.0, low: 290.0, high: 320.0 },
            expected_ns: 67.2,
            path: "wire".into(),
            made: "2026".into(),
            run: "r".into(),
            host: fingerprint(kernel),
        }
    }

    #[test]
    fn a_calibration_is_found_by_what_it_holds_for_and_refused_elsewhere() {
        let mut all = Calibrations::default();
        all.add(vec![calibration(64, "6.1"), calibration(128, "6.1")]);
        all.add(vec![Calibration { made: "later".into(), ..calibration(64, "6.1") }]);
        assert_eq!(all.calibrations.len(), 2, "a new one takes the old one's place");
        let key = calibration(64, "6.1").key;
        assert_eq!(all.find(&key, &fingerprint("6.1")).unwrap().unwrap().made, "later");
        let refused = all.find(&key, &fingerprint("6.2")).unwrap_err();
        assert!(refused.contains("kernel.release was 6.1 and is 6.2"), "{refused}");
        assert_eq!(all.find(&calibration(256, "6.1").key, &fingerprint("6.1")), Ok(None));
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Calibrations>(&text).unwrap(), all);
    }

    #[test]
    fn a_corrected_median_has_the_widest_interval_of_both() {
        let median = Bounded { value: 1_000.0, low: 990.0, high: 1_010.0 };
        let calibrated = calibration(64, "6.1").applied_to(median);
        assert_eq!(calibrated.median_ns, Bounded { value: 700.0, low: 670.0, high: 720.0 });
    }
}
