//! What a run depended on, as flat facts, so that two runs can be told apart line by line.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about host, kernel, cores, clocks and interfaces: dotted key (`cpu.0.governor`) to value. A
/// fact that could not be read is present, with `n/a: ` and the reason as its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(BTreeMap<String, String>);

/// A fact in which two environments differ; `None` where one lacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The fact's key.
    pub key: &'a str,
    /// Its value in the first.
    pub first: Option<&'a str>,
    /// Its value in the second.
    pub second: Option<&'a str>,
}

/// Kinds of facts, and facts, that are readings.
const READINGS: [&str; 17] = [
    "clock.tsc_hz",
    "clock.tsc_to_monotonic_error_ns",
    "context_switches",
    "guest",
    "host.load",
    "host.uptime_s",
    "idle",
    "interrupts",
    "iowait",
    "irq",
    "measured",
    "memory.available",
    "softirq",
    "softirqs",
    "steal",
    "system",
    "user",
];

impl Environment {
    /// Adds or replaces a fact. Part of a key may be a name that a kernel or a driver chose (`haltpoll idle`): what keys don't have,
    /// white space and control characters, becomes `_`.
    pub fn set(&mut self, key: impl Into<String>, value: impl ToString) {
        let of_key = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        self.0.insert(key.into().chars().map(of_key).collect(), value.to_string());
    }

    /// A fact's value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All facts in order of their keys.
    pub fn facts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Adds every fact of another, which wins where both have one.
    pub fn extend(&mut self, other: Environment) {
        self.0.extend(other.0);
    }

    /// Whether a fact is a reading of what went on, which never is the same twice, rather than a property or a
    /// setting.
    pub fn is_reading(key: &str) -> bool {
        // What is below is another host's.
        let key = key.strip_prefix("far.").unwrap_or(key);
        let kind = key.split('.').next().unwrap_or(key);
        READINGS.contains(&kind) || READINGS.contains(&key)
    }

    /// Where the two differ, in order of the keys.
    pub fn differences<'a>(&'a self, other: &'a Environment) -> Vec<Difference<'a>> {
        let keys: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        keys.into_iter()
            .map(|key| Difference { key, first: self.get(key), second: other.get(key) })
            .filter(|d| d.first != d.second)
            .collect()
    }
}

/// A list of cores as the kernel writes it: `0-2,5`. Ranges that no host has are ignored.
pub fn cpu_list(text: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n < 1 << 16);
    let range = |part: &str| match part.split_once('-') {
        Some((from, to)) => Some(number(from)?..=number(to)?),
        None => number(part).map(|n| n..=n),
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_become_keys() {
        let mut facts = Environment::default();
        facts.set("cpu.0.idle.haltpoll idle", "0 us");
        facts.set("softirqs.a\tb\u{7}.eth0.100", 1);
        let keys: Vec<&str> = facts.facts().map(|(key, _)| key).collect();
        assert_eq!(keys, ["cpu.0.idle.haltpoll_idle", "softirqs.a_b_.eth0.100"]);
    }

    #[test]
    fn only_what_differs_is_listed() {
        let (mut a, mut b) = (Environment::default(), Environment::default());
        a.set("cpu.model", "x");
        b.set("cpu.model", "x");
        a.set("cpu.0.governor", "performance");
        b.set("cpu.0.governor", "powersave");
        b.set("kernel.release", "6.1");
        let found: Vec<&str> = a.differences(&b).iter().map(|d| d.key).collect();
        assert_eq!(found, ["cpu.0.governor", "kernel.release"]);
        assert!(
            Environment::is_reading("steal.cpu0")
                && Environment::is_reading("far.host.load")
                && !Environment::is_reading("cpu.0.governor")
        );
    }

    #[test]
    fn lists_of_cores() {
        assert_eq!(cpu_list("0-2,5,7-7\n"), [0, 1, 2, 5, 7]);
        assert!(cpu_list("").is_empty() && cpu_list("(null)").is_empty() && cpu_list("3-1").is_empty());
    }
}
