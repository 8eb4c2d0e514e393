//! One of the cases of a scenario: what a trial varies of it.

use super::{DutSpec, Scenario, SpoolSpec, TrafficSpec};
use crate::fiber::{Fiber, LineRate};
use crate::frame::FrameSize;
use crate::profile::Profile;
use crate::rate::RateSpec;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most cases of a scenario: each is a trial for every client and run.
const MOST_CASES: usize = 20_000;

/// What a scenario varies: every combination is a case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vary {
    /// Profiles of the host's settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<Profile>,
    /// Frame sizes, with FCS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame_size: Vec<FrameSize>,
    /// Rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate: Vec<RateSpec>,
    /// Lengths of the fiber, in metres.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub length_m: Vec<f64>,
    /// Rates of the fiber's line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub line_rate: Vec<LineRate>,
    /// Whether everything is also measured over a bare wire, without the device under test.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
}

/// What is different in a case; nothing is, where a scenario varies nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Case {
    /// Settings of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Another fiber length, in metres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_m: Option<f64>,
    /// Another rate of its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_rate: Option<LineRate>,
    /// Another frame size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_size: Option<FrameSize>,
    /// Another rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// Whether sender and receiver are joined by a bare wire, without the device under test.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
}

impl Vary {
    /// Whether it varies nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Vary::default()
    }

    /// Every combination, that without the device last, then profiles outermost.
    pub fn cases(&self) -> Vec<Case> {
        let through = self.through();
        let without = through.iter().filter(|_| self.loopback).map(|case| Case { loopback: true, ..*case });
        let without: Vec<Case> = without.collect();
        [through, without].concat()
    }

    /// Every combination through the device under test.
    fn through(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for profile in each(&self.profile) {
            for length_m in each(&self.length_m) {
                for line_rate in each(&self.line_rate) {
                    for frame_size in each(&self.frame_size) {
                        let of = |rate| Case { profile, length_m, line_rate, frame_size, rate, loopback: false };
                        cases.extend(each(&self.rate).map(of));
                    }
                }
            }
        }
        cases
    }

    /// What is wrong with it in a scenario, in one sentence.
    pub fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let each =
            [self.profile.len(), self.frame_size.len(), self.rate.len(), self.length_m.len(), self.line_rate.len()];
        let number = each.iter().fold(1 + usize::from(self.loopback), |all, &values| all.saturating_mul(values.max(1)));
        if number > MOST_CASES {
            return Err(format!("it makes {number} cases, and {MOST_CASES} are the most: take larger steps"));
        }
        if self.loopback && (scenario.dut.is_external() || scenario.dut == DutSpec::Wire {}) {
            return Err(
                "vary.loopback needs a dut of ours: a wire is a loopback itself, and what is external has none".into(),
            );
        }
        let cases = self.cases();
        let mut names: Vec<String> = cases.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("`{}` is there twice: name each value once", twice[0]));
        }
        let place = self.profile.iter().any(|profile| profile.place.is_some());
        if place && scenario.host.interfaces.is_empty() {
            return Err(
                "profiles local and remote are as seen from a card: name it (--interface, or interfaces in [host])"
                    .into(),
            );
        }
        let fiber = !self.length_m.is_empty() || !self.line_rate.is_empty();
        if fiber && scenario.dut.spool().and_then(|spool| spool.fiber).is_none() {
            return Err("length_m and line_rate are those of a fiber: use dut kind \"spool\" with a fiber".into());
        }
        if !self.rate.is_empty() && scenario.traffic.pattern.replay().is_some() {
            return Err("a capture has its own rate: leave rate out, here too".into());
        }
        Ok(())
    }
}

/// Each of some values, or none of them once.
fn each<T: Copy>(values: &[T]) -> impl Iterator<Item = Option<T>> {
    let none = values.is_empty().then_some(None);
    none.into_iter().chain(values.iter().copied().map(Some))
}

impl Case {
    /// Whether nothing is different.
    pub fn is_plain(&self) -> bool {
        *self == Case::default()
    }

    /// A traffic in this case.
    pub fn traffic(&self, spec: &TrafficSpec) -> TrafficSpec {
        let mut spec = spec.clone();
        spec.frame_size = self.frame_size.unwrap_or(spec.frame_size);
        spec.rate = self.rate.or(spec.rate);
        spec
    }

    /// A device under test in this case.
    pub fn dut(&self, dut: &DutSpec) -> DutSpec {
        if self.loopback && !dut.is_external() {
            return DutSpec::Wire {};
        }
        let Some(spool) = dut.spool() else { return dut.clone() };
        let fiber = spool.fiber.map(|fiber| Fiber {
            length_m: self.length_m.unwrap_or(fiber.length_m),
            line_rate: self.line_rate.unwrap_or(fiber.line_rate),
            ..fiber
        });
        DutSpec::Spool(SpoolSpec { fiber, ..*spool })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = self.profile.map(|profile| profile.to_string());
        let length = self.length_m.map(|m| if m < 1_000.0 { format!("{m} m") } else { format!("{} km", m / 1_000.0) });
        let line = self.line_rate.map(|rate| rate.to_string());
        let size = self.frame_size.map(|size| format!("{} bytes", size.with_fcs()));
        let rate = self.rate.map(|rate| rate.to_string());
        let loopback = self.loopback.then(|| "loopback".to_owned());
        let parts: Vec<String> = [profile, length, line, size, rate, loopback].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        title = "t"
        traffic = { frame_size = 64, rate = 1000 }
        dut = { kind = "spool", engine = "mem", fiber = { length_m = 2.0, line_rate = "10 Gbit/s" } }
        vary = { frame_size = [64, 1522], length_m = [2.0, 2000.0] }
        [[client]]
        name = "mem"
        engine = "mem"
    "#;

    #[test]
    fn every_combination_is_a_case() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let cases = scenario.vary.cases();
        let names: Vec<String> = cases.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["2 m, 64 bytes", "2 m, 1522 bytes", "2 km, 64 bytes", "2 km, 1522 bytes"]);
        let last = cases[3];
        assert_eq!(last.traffic(&scenario.traffic).frame_size.with_fcs(), 1522);
        assert_eq!(last.dut(&scenario.dut).spool().unwrap().fiber.unwrap().length_m, 2_000.0);
        assert_eq!(Vary::default().cases(), [Case::default()]);
        let with = Vary { loopback: true, ..scenario.vary.clone() }.cases();
        assert_eq!((with.len(), with[4].to_string()), (8, "2 m, 64 bytes, loopback".to_owned()));
        assert_eq!(with[4].dut(&scenario.dut), DutSpec::Wire {});
    }

    #[test]
    fn what_can_not_vary_is_refused() {
        let refused = |from: &str, to: &str| Scenario::parse(&SCENARIO.replace(from, to)).unwrap_err().message;
        let plain = "delay_ns = 5 }\n #";
        assert!(refused("fiber = {", plain).contains("are those of a fiber"));
        assert!(refused("[64, 1522]", "[64, 10]").contains("64 to 9018"));
        assert!(refused("[2.0, 2000.0]", "[2.0, -1.0]").contains("length_m runs from 0"));
        let many = format!("[{}]", "64, ".repeat(10_001));
        assert!(refused("[64, 1522]", &many).contains("20002 cases"));
        assert!(refused("[64, 1522]", "[64, 64]").contains("is there twice"));
    }
}
