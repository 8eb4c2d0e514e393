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
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the schema of a file of calibrations.
pub const SCHEMA: &str = "usect.calibrations/2";
/// Days for which a calibration is taken without a word: hosts drift, and are updated.
pub const FRESH_DAYS: i64 = 30;

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

impl Key {
    /// Whether nothing but size and rate of the frames is another.
    fn is_kin(&self, other: &Key) -> bool {
        let alike = Key { frame_size: other.frame_size, rate: other.rate, ..self.clone() };
        alike == *other
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
    /// Measured median less what physics gives, in nanoseconds. The interval is one of 97.5%, as one of two of a difference:
    /// the wider of that of the pooled median and the range of the runs' medians.
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
    /// The correction, in nanoseconds, with an interval of 97.5%.
    pub correction_ns: Bounded,
    /// The median less the correction, in nanoseconds. The interval is the widest that both allow, each by one of 97.5%: so it has
    /// 95% at least, whatever they have to do with each other (Bonferroni).
    pub median_ns: Bounded,
    /// When the calibration was made, RFC 3339.
    pub made: String,
    /// The run that it was made by.
    pub run: String,
}

impl Calibration {
    /// What was measured without what the instrument adds; `None` where there are too few samples for the median.
    pub fn applied_to(&self, measured: &Measurement) -> Option<Calibrated> {
        let median = median_of_two_ns(measured)?;
        let correction = self.correction_ns;
        Some(Calibrated {
            correction_ns: correction,
            median_ns: Bounded {
                value: median.value - correction.value,
                low: median.low - correction.high,
                high: median.high - correction.low,
            },
            made: self.made.clone(),
            run: self.run.clone(),
        })
    }

    /// What to know of its age, where that is more than [`FRESH_DAYS`] or can't be told.
    pub fn aged(&self, now: Timestamp) -> Option<String> {
        let Calibration { key, made, .. } = self;
        match age_days(made, now) {
            Some(days) if days <= FRESH_DAYS => None,
            Some(days) => Some(format!(
                "the calibration of {key} is {days} days old (made {made}): beyond {FRESH_DAYS} days calibrate anew"
            )),
            None => Some(format!("when the calibration of {key} was made can't be told of `{}`", made.escape_debug())),
        }
    }

    fn describe(&self) -> String {
        let (Bounded { low, high, .. }, size) = (self.correction_ns, self.key.frame_size.with_fcs());
        let rate = self.key.rate.frames_per_second();
        format!("{low:+.0} to {high:+.0} ns at {size} bytes and {rate:.0} pps")
    }
}

/// Whole days from when something was made, RFC 3339, to a moment; none where that can't be read.
pub fn age_days(made: &str, at: Timestamp) -> Option<i64> {
    let made: Timestamp = made.parse().ok()?;
    Some(at.duration_since(made).as_hours() / 24)
}

/// What calibrations at several sizes and rates say together of an instrument.
struct Constancy<'a> {
    kin: Vec<&'a Calibration>,
}

impl Constancy<'_> {
    /// Whether all may be of one figure: there is one inside every interval.
    fn is_constant(&self) -> bool {
        let range = self.range();
        let lowest_high = self.corrections().map(|c| c.high).fold(f64::INFINITY, f64::min);
        let highest_low = self.corrections().map(|c| c.low).fold(f64::NEG_INFINITY, f64::max);
        range.low.is_finite() && highest_low <= lowest_high
    }

    fn corrections(&self) -> impl Iterator<Item = Bounded> {
        self.kin.iter().map(|c| c.correction_ns)
    }

    /// From the lowest to the highest that any of them allows, with the mean of all.
    fn range(&self) -> Bounded {
        Bounded {
            value: self.corrections().map(|c| c.value).sum::<f64>() / self.kin.len() as f64,
            low: self.corrections().map(|c| c.low).fold(f64::INFINITY, f64::min),
            high: self.corrections().map(|c| c.high).fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Whether the size and the rate of a key lie between those that were measured.
    fn surrounds(&self, key: &Key) -> bool {
        let within = |of: fn(&Key) -> f64| {
            let all = || self.kin.iter().map(|c| of(&c.key));
            all().any(|one| one <= of(key)) && all().any(|one| one >= of(key))
        };
        self.kin.len() > 1 && within(|k| f64::from(k.frame_size.with_fcs())) && within(|k| k.rate.frames_per_second())
    }

    fn describe(&self) -> String {
        let each: Vec<String> = self.kin.iter().map(|c| c.describe()).collect();
        each.join(", ")
    }

    /// For frames between those that were measured: the whole range, where what is added is constant; why not, where it isn't.
    fn between(&self, key: &Key) -> Result<Calibration, String> {
        if !self.is_constant() {
            return Err(format!(
                "what {} adds is not constant ({}), so that nobody knows it for {key}: calibrate with these frames",
                key.engine,
                self.describe()
            ));
        }
        let oldest = self.kin.iter().min_by_key(|c| c.made.parse::<Timestamp>().ok());
        let oldest = oldest.expect("it surrounds the key");
        Ok(Calibration { key: key.clone(), correction_ns: self.range(), ..(*oldest).clone() })
    }
}

/// The median latency that a calibration is about: of the heads, where frames left in trains.
pub fn median_ns(measured: &Measurement) -> Option<Bounded> {
    match &measured.trains {
        Some(trains) => trains.head_ns(),
        None => stats::estimates(&measured.latency).first()?.value.map(Bounded::from),
    }
}

/// The same with an interval of 97.5%, as one of two medians of a difference.
pub fn median_of_two_ns(measured: &Measurement) -> Option<Bounded> {
    match &measured.trains {
        Some(trains) => stats::median_of_two(trains.heads_ns()),
        None => stats::median_of_two_ns(&measured.latency).map(Bounded::from),
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

    /// The one for a key on this host, or what those for other sizes and rates around it come to; why one that was made elsewhere, or
    /// those around it, are of no use here.
    pub fn find(&self, key: &Key, here: &Fingerprint) -> Result<Option<Calibration>, String> {
        let mut foreign = None;
        for calibration in self.calibrations.iter().filter(|c| c.key == *key) {
            match calibration.host.differs(here) {
                None => return Ok(Some(calibration.clone())),
                Some(difference) => foreign = Some((calibration, difference)),
            }
        }
        let around = self.kin(key, here);
        if around.surrounds(key) {
            return around.between(key).map(Some);
        }
        match foreign {
            None => Ok(None),
            Some((calibration, difference)) => Err(format!(
                "the calibration of {key} of {} is of another host, kernel or card ({difference}): calibrate anew",
                calibration.made
            )),
        }
    }

    /// Those of an instrument on a host, at whatever size and rate.
    fn kin(&self, key: &Key, host: &Fingerprint) -> Constancy<'_> {
        let alike = self.calibrations.iter().filter(|c| c.key.is_kin(key) && c.host.differs(host).is_none());
        Constancy { kin: alike.collect() }
    }

    /// Whether what new ones say is constant over sizes and rates, a sentence for each instrument of which there are several.
    pub fn constancy(&self, new: &[Calibration]) -> Vec<String> {
        let mut said = Vec::new();
        for one in new {
            let kin = self.kin(&one.key, &one.host);
            let consequence = match kin.is_constant() {
                true => "is constant, so that it is taken for sizes and rates between them, too",
                false => "is not constant: it holds for these sizes and rates alone",
            };
            let sentence = format!("what {} adds {consequence} ({})", one.key.engine, kin.describe());
            if kin.kin.len() > 1 && !said.contains(&sentence) {
                said.push(sentence);
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Train;
    use crate::trains::{Seen, Trains};

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
        assert_eq!(all.find(&calibration(256, "6.1").key, &fingerprint("6.1")), Ok(None), "larger than any");
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Calibrations>(&text).unwrap(), all);
    }

    #[test]
    fn between_sizes_it_is_as_wide_as_all_or_refused_where_it_is_not_constant() {
        let at = |size, low, high| Calibration {
            correction_ns: Bounded { value: (low + high) / 2.0, low, high },
            ..calibration(size, "6.1")
        };
        let find = |largest: Calibration| {
            let mut all = Calibrations::default();
            all.add(vec![at(64, 290.0, 320.0), largest]);
            (all.find(&calibration(512, "6.1").key, &fingerprint("6.1")), all.constancy(&all.calibrations))
        };
        let (found, said) = find(at(1518, 310.0, 400.0));
        let found = found.unwrap().unwrap();
        assert_eq!(
            (found.correction_ns, found.key.frame_size.with_fcs()),
            (Bounded { value: 330.0, low: 290.0, high: 400.0 }, 512)
        );
        assert!(said.len() == 1 && said[0].contains("is constant"), "{said:?}");
        let (found, said) = find(at(1518, 600.0, 700.0));
        let why = found.unwrap_err();
        assert!(why.contains("is not constant") && why.contains("+600 to +700 ns at 1518 bytes"), "{why}");
        assert!(said.len() == 1 && said[0].contains("is not constant"), "{said:?}");
        let (found, said) = find(Calibration { host: fingerprint("6.2"), ..at(1518, 310.0, 400.0) });
        assert_eq!((found, said), (Ok(None), Vec::new()), "of another host");
    }

    #[test]
    fn an_old_calibration_is_told() {
        let made = |made: &str| Calibration { made: made.into(), ..calibration(64, "6.1") };
        let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
        assert_eq!(made("2026-10-24T12:00:00+02:00").aged(now), None, "30 days");
        let old = made("2026-10-23T09:00:00Z").aged(now).unwrap();
        assert!(old.contains("is 31 days old (made 2026-10-23T09:00:00Z)"), "{old}");
        assert!(made("lately").aged(now).unwrap().contains("can't be told of `lately`"));
    }

    /// Trains whose heads had these latencies: they are exact, where a histogram has buckets.
    fn measured(latencies: impl Iterator<Item = f64>) -> Measurement {
        let train = Train { length: 2, spacing_ns: 0, lead_ns: 0, heads_only: true };
        let nothing =
            Seen { at_ns: 0, received: 2, head_ns: None, mean_ns: None, sent_ns: 0, arrived_ns: None, counted: None };
        let seen = latencies.map(|ns| Seen { head_ns: Some(ns.round() as u64), ..nothing }).collect();
        Measurement { trains: Some(Trains { train, seen, runs: vec![0] }), ..Measurement::default() }
    }

    /// Two medians that err by chance, but always together in the worst way: whatever puts either near the end of its interval puts
    /// the other beyond its own. Two intervals of 95% then miss one time in ten.
    #[test]
    fn a_corrected_median_has_95_percent_however_its_two_parts_hang_together() {
        use statrs::distribution::{ContinuousCDF, Normal};
        const SAMPLES: i32 = 6_000;
        const WIDTH: f64 = 1e6;
        // Of the median of so many of a uniform distribution.
        let deviation = WIDTH / (2.0 * f64::from(SAMPLES).sqrt());
        let around = |median: f64| {
            let places = (0..SAMPLES).map(|i| (f64::from(i) + 0.5) / f64::from(SAMPLES) - 0.5);
            measured(places.map(|place| median + place * WIDTH))
        };
        let normal = Normal::new(0.0, deviation).unwrap();
        for tail in [0.025, 0.05, 0.1] {
            let holds = |i: &i32| {
                let share = (f64::from(*i) + 0.5) / 400.0;
                let other = match share {
                    low if low < tail => tail - low,
                    high if high > 1.0 - tail => 2.0 - tail - high,
                    middle => middle,
                };
                let (first, second) = (-normal.inverse_cdf(other), normal.inverse_cdf(share));
                // The instrument adds 1 ms to 1 ms, and then to 2 ms.
                let correction_ns = median_of_two_ns(&around(2e6 + first)).unwrap().minus(1e6);
                let found = Calibration { correction_ns, ..calibration(64, "6.1") };
                let median = found.applied_to(&around(3e6 + second)).unwrap().median_ns;
                median.low <= 2e6 && 2e6 <= median.high
            };
            let held = (0..400).filter(holds).count();
            assert!(held >= 380, "{held} of 400, {tail}");
        }
    }
}
