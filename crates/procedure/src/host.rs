//! What about a host costs microseconds: a rule for each property, decided from the facts that an audit of the host and a second of
//! watching it brought. A rule always answers, also that all is fine or that nothing tells.

mod clock;
mod kernel;
mod memory;
mod network;
mod power;
mod scheduling;
#[cfg(test)]
mod tests;

use usect_core::advice::{Advice, Weight};
use usect_core::environment::Environment;

/// What the host's own properties are judged by.
const RULES: &[fn(&Host) -> Advice] = &[
    clock::tsc,
    clock::clocksource,
    power::governor,
    power::turbo,
    power::idle_states,
    power::aspm,
    power::siblings,
    scheduling::stalls,
    scheduling::steal,
    scheduling::quota,
    scheduling::isolation,
    scheduling::tick,
    scheduling::callbacks,
    scheduling::others,
    scheduling::interrupts,
    scheduling::irqbalance,
    scheduling::watchdog,
    memory::balancing,
    memory::huge_pages,
    memory::merging,
    memory::reserved,
    kernel::build,
    kernel::audit,
    kernel::mitigations,
    kernel::microcode,
    kernel::management,
    kernel::bpf,
    kernel::busy_polling,
];

/// What an interface is judged by.
const OF_INTERFACES: &[fn(&Host, &str) -> Advice] = &[
    network::coalescing,
    network::offloads,
    network::node,
    network::affinity,
    network::energy,
    network::pause,
    network::discipline,
];

/// Judges a host for measuring on `cores` through `interfaces`, which are the names below `interface.` of its facts
/// (`host.eth1`). The worst comes first.
pub fn check(facts: &Environment, cores: &[usize], interfaces: &[String]) -> Vec<Advice> {
    let host = Host { facts, cores };
    let own = RULES.iter().map(|rule| rule(&host));
    let of = |interface: &String| OF_INTERFACES.iter().map(|rule| rule(&host, interface)).collect::<Vec<_>>();
    let mut found: Vec<Advice> = own.chain(interfaces.iter().flat_map(of)).collect();
    found.sort_by_key(|advice| std::cmp::Reverse(advice.weight));
    found
}

/// The facts, and the cores that matter.
struct Host<'a> {
    facts: &'a Environment,
    cores: &'a [usize],
}

impl Host<'_> {
    /// A fact that was found.
    fn get(&self, key: &str) -> Option<&str> {
        self.facts.get(key).filter(|value| !value.starts_with("n/a"))
    }

    /// Why there is no such fact.
    fn missing(&self, key: &str) -> String {
        match self.facts.get(key).and_then(|value| value.strip_prefix("n/a: ")) {
            Some(why) => why.to_owned(),
            None => "this kernel doesn't tell".to_owned(),
        }
    }

    /// Facts of the cores that matter, by the name behind their number: `cpu.N.NAME`.
    fn of_cores(&self, name: &str) -> Vec<(String, &str)> {
        let of = |core: &usize| format!("cpu.{core}.{name}");
        self.cores.iter().map(of).filter_map(|key| Some((key.clone(), self.get(&key)?))).collect()
    }

    /// Facts whose keys begin so, with the rest of the key.
    fn below<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
        let rest = move |(key, value): (&'s str, &'s str)| Some((key.strip_prefix(prefix)?, value));
        self.facts.facts().filter_map(rest).filter(|(_, value)| !value.starts_with("n/a"))
    }

    /// `key = value`, as evidence.
    fn quote(&self, key: &str) -> Option<String> {
        self.facts.get(key).map(|value| format!("{key} = {value}"))
    }
}

/// The number that a value begins with: `133 us`, `0.40%`.
fn number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value[..end].parse().ok()
}

/// A subject and who says that it matters; what was found makes advice of it.
struct About {
    subject: String,
    source: &'static str,
}

fn about(subject: impl Into<String>, source: &'static str) -> About {
    About { subject: subject.into(), source }
}

impl About {
    fn fine(self, finding: impl Into<String>, evidence: impl IntoIterator<Item = String>) -> Advice {
        self.advice(Weight::Fine, finding.into(), evidence, None)
    }

    fn unknown(self, why: impl Into<String>) -> Advice {
        self.advice(Weight::Unknown, why.into(), [], None)
    }

    fn costs(
        self,
        weight: Weight,
        finding: impl Into<String>,
        evidence: impl IntoIterator<Item = String>,
        mend: impl Into<String>,
    ) -> Advice {
        self.advice(weight, finding.into(), evidence, Some(mend.into()))
    }

    fn advice(
        self,
        weight: Weight,
        finding: String,
        evidence: impl IntoIterator<Item = String>,
        mend: Option<String>,
    ) -> Advice {
        let About { subject, source } = self;
        Advice { subject, weight, finding, evidence: evidence.into_iter().collect(), mend, source }
    }
}
