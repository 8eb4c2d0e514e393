//! What saves power, and wakes up late for it.

use super::{Host, about, number};
use usect_core::advice::{Advice, Weight};
use usect_core::environment::cpu_list;

pub(super) fn governor(host: &Host) -> Advice {
    let about = about("frequency governor", "paper 000 §3.2 (P-states); paper 003 §4.2");
    let found = host.of_cores("governor");
    if found.is_empty() {
        let first = host.cores.first().copied().unwrap_or(0);
        return about.unknown(host.missing(&format!("cpu.{first}.governor")));
    }
    let slow: Vec<&(String, &str)> = found.iter().filter(|(_, governor)| *governor != "performance").collect();
    let preference = host.of_cores("frequency.preference");
    let saves = preference.iter().filter(|(_, preference)| *preference != "performance");
    let evidence: Vec<String> =
        slow.iter().copied().chain(saves).map(|(key, value)| format!("{key} = {value}")).collect();
    if slow.is_empty() {
        return about.fine("performance on every core that matters", found.iter().map(|(k, v)| format!("{k} = {v}")));
    }
    let finding = format!("{} on {} cores: the clock is low when a frame comes", slow[0].1, slow.len());
    about.costs(
        Weight::Serious,
        finding,
        evidence,
        "usect host tune power -- COMMAND, or cpupower frequency-set -g performance",
    )
}

pub(super) fn turbo(host: &Host) -> Advice {
    let about = about("turbo", "paper 000 §3.2 (nominal frequency, no TurboBoost)");
    let states = [("cpu.turbo.intel_pstate_no_turbo", "0"), ("cpu.turbo.cpufreq_boost", "1")];
    let Some((key, on)) = states.into_iter().find(|(key, _)| host.get(key).is_some()) else {
        return about.unknown(host.missing("cpu.turbo"));
    };
    let evidence = host.quote(key);
    if host.get(key) == Some(on) {
        let finding = "the clock changes with heat and with what other cores do, so that runs differ";
        return about.costs(Weight::Slight, finding, evidence, "usect host tune power -- COMMAND");
    }
    about.fine("off", evidence)
}

/// Latencies from which a state is worth a word, and is serious.
const LATE_US: f64 = 2.0;
const VERY_LATE_US: f64 = 10.0;

pub(super) fn idle_states(host: &Host) -> Advice {
    let about = about("c-states", "paper 000 §3.2, §4.2; kernel: admin-guide/pm/cpuidle");
    let limit = host.get("cpu.dma_latency_us").and_then(number);
    let used = |(key, value): (&str, &str)| {
        let (core, state) = key.split_once(".idle.")?;
        let mine = core.parse().is_ok_and(|core: usize| host.cores.contains(&core));
        let latency = number(value).filter(|_| mine && !value.ends_with("disabled"))?;
        (limit.is_none_or(|limit| latency <= limit))
            .then(|| (latency, format!("cpu.{key} = {value}"), state.to_owned()))
    };
    let states: Vec<(f64, String, String)> = host.below("cpu.").filter_map(used).collect();
    let Some((latency, _, name)) = states.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return about.unknown(host.missing("cpu.idle.driver"));
    };
    let evidence: Vec<String> =
        states.iter().filter(|(us, ..)| us == latency).map(|(_, fact, _)| fact.clone()).collect();
    let weight = match *latency {
        us if us < LATE_US => return about.fine(format!("the deepest, {name}, takes {latency} µs to leave"), evidence),
        us if us < VERY_LATE_US => Weight::Slight,
        _ => Weight::Serious,
    };
    let finding = format!("an idle core may sleep in {name}, which takes {latency} µs to leave");
    about.costs(
        weight,
        finding,
        evidence,
        "usect host tune power -- COMMAND, or boot with processor.max_cstate=1 intel_idle.max_cstate=0",
    )
}

pub(super) fn aspm(host: &Host) -> Advice {
    let about = about("PCIe power saving (ASPM)", "paper 000 §4.2");
    let Some(policy) = host.get("pci.aspm.policy") else { return about.unknown(host.missing("pci.aspm.policy")) };
    let Some(links) = host.get("pci.aspm.links") else { return about.unknown(host.missing("pci.aspm.links")) };
    let evidence = ["pci.aspm.policy", "pci.aspm.links"].into_iter().filter_map(|key| host.quote(key));
    if policy == "performance" || links == "none" {
        return about.fine(format!("policy {policy}, no link saves power"), evidence);
    }
    let finding = format!("policy {policy}: these links may sleep, and take microseconds to wake: {links}");
    about.costs(Weight::Serious, finding, evidence, "usect host tune power -- COMMAND, or boot with pcie_aspm=off")
}

pub(super) fn siblings(host: &Host) -> Advice {
    let about = about("SMT siblings", "paper 000 §3.1 (hyperthreading disabled)");
    let shared: Vec<(String, &str)> =
        host.of_cores("siblings").into_iter().filter(|(_, list)| cpu_list(list).len() > 1).collect();
    if host.get("cpu.smt.active") != Some("1") && shared.is_empty() {
        return about.fine("no core is shared between threads", host.quote("cpu.smt.active"));
    }
    let evidence = shared.iter().map(|(key, list)| format!("{key} = {list}"));
    let finding = "two threads share a core's units: what runs on the sibling slows a measuring one down";
    about.costs(
        Weight::Slight,
        finding,
        evidence,
        "keep siblings idle (offline them, or echo off > /sys/devices/system/cpu/smt/control)",
    )
}
