//! What an interface does to a frame. `interface` is its name below `interface.` of the facts: `host.eth1`.

use super::{About, Host, about, number};
use usect_core::advice::{Advice, Weight};
use usect_core::environment::cpu_list;

/// What is said about an interface.
fn of(what: &str, interface: &str, source: &'static str) -> About {
    about(format!("{what} of {}", interface.strip_prefix("host.").unwrap_or(interface)), source)
}

fn key(interface: &str, name: &str) -> String {
    format!("interface.{interface}.{name}")
}

/// The name for commands: `host.eth1` is eth1.
fn plain(interface: &str) -> &str {
    interface.split_once('.').map_or(interface, |(_, name)| name)
}

/// Microseconds from which an interrupt comes seriously late.
const LATE_US: f64 = 5.0;

pub(super) fn coalescing(host: &Host, interface: &str) -> Advice {
    let about = of("coalescing", interface, "paper 000 §3.2 (interrupt moderation); ethtool(8)");
    let [adaptive, late] = ["coalesce.adaptive-rx", "coalesce.rx-usecs"].map(|name| key(interface, name));
    let evidence = [&adaptive, &late].into_iter().filter_map(|key| host.quote(key));
    let mend = format!(
        "usect host tune quiet --interface {0} -- COMMAND, or ethtool -C {0} adaptive-rx off rx-usecs 0",
        plain(interface)
    );
    if host.get(&adaptive) == Some("on") {
        return about.costs(
            Weight::Serious,
            "adaptive: the card waits as long as its driver thinks best",
            evidence,
            mend,
        );
    }
    match host.get(&late).and_then(number) {
        None => about.unknown(host.missing(&key(interface, "coalesce"))),
        Some(0.0) => about.fine("the card interrupts at once", evidence),
        Some(us) => {
            let weight = if us < LATE_US { Weight::Slight } else { Weight::Serious };
            about.costs(weight, format!("the card may wait {us} µs before it interrupts"), evidence, mend)
        }
    }
}

pub(super) fn offloads(host: &Host, interface: &str) -> Advice {
    let about = of("offloads", interface, "paper 004 §2; kernel: networking/segmentation-offloads");
    let names = ["large-receive-offload", "rx-gro-hw", "generic-receive-offload"];
    let on: Vec<&str> = names
        .into_iter()
        .filter(|name| {
            host.get(&key(interface, &format!("offload.{name}"))).is_some_and(|state| state.starts_with("on"))
        })
        .collect();
    let evidence: Vec<String> =
        names.iter().filter_map(|name| host.quote(&key(interface, &format!("offload.{name}")))).collect();
    if evidence.is_empty() {
        return about.unknown(host.missing(&key(interface, "offload")));
    }
    let mend = |what: &str| format!("ethtool -K {} {what} off", plain(interface));
    match on.first() {
        None => about.fine("none holds received frames back", evidence),
        Some(&"generic-receive-offload") => about.costs(
            Weight::Slight,
            "frames of a stream are merged before they are handed on",
            evidence,
            mend("gro"),
        ),
        Some(which) => {
            let short = if *which == "rx-gro-hw" { "rx-gro-hw" } else { "lro" };
            about.costs(
                Weight::Serious,
                format!("{which}: the card holds frames back to merge them"),
                evidence,
                mend(short),
            )
        }
    }
}

pub(super) fn node(host: &Host, interface: &str) -> Advice {
    let about = of("NUMA node", interface, "paper 000 §4.2 (local, remote)");
    let key = key(interface, "numa_node");
    let Some(node) = host.get(&key).filter(|node| *node != "-1") else {
        return about.fine("it belongs to none", host.quote(&key));
    };
    let near = cpu_list(host.get(&format!("numa.node{node}.cpus")).unwrap_or_default());
    let far: Vec<String> = host.cores.iter().filter(|core| !near.contains(core)).map(usize::to_string).collect();
    let evidence = [host.quote(&key), host.quote(&format!("numa.node{node}.cpus"))].into_iter().flatten();
    if far.is_empty() {
        return about.fine(format!("node {node}, as the cores that matter"), evidence);
    }
    let finding =
        format!("node {node}; core {} is on another, and every access of the card crosses between", far.join(", "));
    about.costs(
        Weight::Serious,
        finding,
        evidence,
        format!("usect host tune local --interface {} -- COMMAND, or name cores of node {node}", plain(interface)),
    )
}

pub(super) fn affinity(host: &Host, interface: &str) -> Advice {
    let about = of("interrupts", interface, "paper 001 §2");
    let prefix = key(interface, "irq.");
    // `eth1-rx-0, cores 0-3, delivered to 2`
    let several = |facts: &str| {
        facts
            .split_once(", cores ")
            .is_some_and(|(_, rest)| cpu_list(rest.split(", delivered").next().unwrap_or("")).len() > 1)
    };
    let found: Vec<(&str, &str)> = host.below(&prefix).collect();
    let spread: Vec<String> = found
        .iter()
        .filter(|(_, facts)| several(facts))
        .map(|(number, facts)| format!("{prefix}{number} = {facts}"))
        .collect();
    if found.is_empty() {
        return about.fine("it has none of its own", []);
    }
    if spread.is_empty() {
        return about
            .fine("each goes to one core", found.iter().map(|(number, facts)| format!("{prefix}{number} = {facts}")));
    }
    let finding = format!("{} of {} may go to more than one core", spread.len(), found.len());
    about.costs(Weight::Slight, finding, spread, "steer them to the core that measures: `steer` in a scenario")
}

pub(super) fn energy(host: &Host, interface: &str) -> Advice {
    let about = of("energy-efficient Ethernet", interface, "IEEE 802.3az; ethtool(8)");
    let key = key(interface, "eee");
    match host.get(&key) {
        Some(state) if state.starts_with("enabled") && !state.ends_with("inactive") => {
            let mend = format!("ethtool --set-eee {} eee off", plain(interface));
            about.costs(Weight::Serious, "an idle link sleeps, and takes microseconds to wake", host.quote(&key), mend)
        }
        Some(state) => about.fine(state, host.quote(&key)),
        None => about.fine("the driver has none", host.quote(&key)),
    }
}

pub(super) fn pause(host: &Host, interface: &str) -> Advice {
    let about = of("pause frames", interface, "IEEE 802.3x; RFC 2544 §11.1");
    let keys = ["pause.rx", "pause.tx"].map(|name| key(interface, name));
    let evidence = keys.iter().filter_map(|key| host.quote(key));
    if keys.iter().all(|key| host.get(key).is_none_or(|state| !state.starts_with("on"))) {
        return about.fine("off", evidence);
    }
    let finding = "the other end may stop this one: frames wait where they would be lost";
    about.costs(Weight::Slight, finding, evidence, format!("ethtool -A {} rx off tx off autoneg off", plain(interface)))
}

/// Disciplines that hold frames back on purpose.
const HOLD_BACK: [&str; 8] = ["netem", "tbf", "htb", "cbs", "etf", "taprio", "hfsc", "cake"];

pub(super) fn discipline(host: &Host, interface: &str) -> Advice {
    let about = of("queueing discipline", interface, "tc(8)");
    let key = key(interface, "qdisc");
    let Some(found) = host.get(&key) else { return about.unknown(host.missing(&key)) };
    let evidence = host.quote(&key);
    match HOLD_BACK.into_iter().find(|name| found.split("; ").any(|one| one.starts_with(*name))) {
        Some(name) => {
            let mend = format!("tc qdisc del dev {} root, if nobody needs it", plain(interface));
            about.costs(Weight::Grave, format!("{name} holds frames back on purpose"), evidence, mend)
        }
        None => about.fine(found.split(' ').next().unwrap_or(found), evidence),
    }
}
