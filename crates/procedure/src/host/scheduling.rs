//! Who else gets a core.

use super::{Host, about, number};
use usect_core::advice::{Advice, Weight};
use usect_core::environment::cpu_list;

const ISOLATE: &str = "usect host tune isolated -- COMMAND, or boot with isolcpus=CORES nohz_full=CORES rcu_nocbs=CORES irqaffinity=OTHERS";

/// Facts of a kind about the cores that matter: `KIND.cpuN`.
fn shares(host: &Host, kind: &str) -> Vec<(String, f64)> {
    let of = |core: &usize| format!("{kind}.cpu{core}");
    host.cores.iter().map(of).filter_map(|key| Some((key.clone(), number(host.get(&key)?)?))).collect()
}

fn quoted(host: &Host, found: &[(String, f64)]) -> Vec<String> {
    found.iter().filter_map(|(key, _)| host.quote(key)).collect()
}

/// Lengths of a stall from which it is worth a word, serious, grave.
const STALLS_US: [f64; 3] = [10.0, 50.0, 500.0];

pub(super) fn stalls(host: &Host) -> Advice {
    let about = about("stalls", "measured: a thread that does nothing but read the clock, on each core");
    let longest = shares(host, "measured.longest_stall_us");
    let Some(worst) = longest.iter().map(|(_, us)| *us).reduce(f64::max) else {
        return about.unknown("not measured");
    };
    let keys = host.cores.iter().flat_map(|core| {
        ["longest_stall_us", "stalls", "stalled_share"].map(|name| format!("measured.{name}.cpu{core}"))
    });
    let evidence: Vec<String> = keys.filter_map(|key| host.quote(&key)).collect();
    let weight = match worst {
        us if us < STALLS_US[0] => return about.fine("none over 10 µs", evidence),
        us if us < STALLS_US[1] => Weight::Slight,
        us if us < STALLS_US[2] => Weight::Serious,
        _ => Weight::Grave,
    };
    let finding = format!("a thread that only spins was away for up to {worst:.0} µs");
    about.costs(
        weight,
        finding,
        evidence,
        "the other lines say who takes the core; in a guest it is mostly the hypervisor: measure on the host itself",
    )
}

pub(super) fn steal(host: &Host) -> Advice {
    let about = about("hypervisor", "proc_stat(5): steal; paper 002 §2.2 (1d)");
    let stolen = shares(host, "steal");
    let most = stolen.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let evidence: Vec<String> = host.quote("host.hypervisor").into_iter().chain(quoted(host, &stolen)).collect();
    let mend = "measure on the host itself, or have cores of the guest pinned to idle ones of the host";
    match host.get("host.hypervisor") {
        None | Some("none") => about.fine("none: these are the machine's own cores", evidence),
        Some(name) if most > 0.0 => {
            about.costs(Weight::Grave, format!("{name} gave up to {most} % of a core's time to others"), evidence, mend)
        }
        Some(name) => about.costs(
            Weight::Serious,
            format!("a guest under {name}, which may take a core away without saying so"),
            evidence,
            mend,
        ),
    }
}

pub(super) fn quota(host: &Host) -> Advice {
    let about = about("CPU quota", "kernel: scheduler/sched-bwc");
    let limits = [("cgroup.cpu.max", "max"), ("cgroup.cpu.cfs_quota_us", "-1")];
    let bounded = |(key, none): &(&str, &str)| {
        host.get(key).is_some_and(|value| value.split(" < ").any(|limit| !limit.starts_with(none)))
    };
    let evidence: Vec<String> = limits.iter().filter_map(|(key, _)| host.quote(key)).collect();
    if !limits.iter().any(bounded) {
        return about.fine("this control group has none", evidence);
    }
    let finding = "this control group has one: a thread that spins is stopped for tens of milliseconds";
    about.costs(Weight::Grave, finding, evidence, "measure outside of the container or slice, or lift its quota")
}

/// Which of the cores a list of the kernel's lacks.
fn outside(host: &Host, list: Option<&str>) -> Vec<usize> {
    let listed = cpu_list(list.unwrap_or_default());
    host.cores.iter().copied().filter(|core| !listed.contains(core)).collect()
}

pub(super) fn isolation(host: &Host) -> Advice {
    let about = about("isolation", "paper 003 §4.1; paper 000 §4.2 (isolset)");
    let open = outside(host, host.get("cpu.isolated"));
    let keys = ["cpu.isolated", "cpu.nohz_full", "kernel.boot.isolcpus", "cgroup.cpuset.cpus.partition"];
    let evidence: Vec<String> = keys.into_iter().filter_map(|key| host.quote(key)).collect();
    if open.is_empty() {
        return about.fine("the scheduler leaves these cores alone", evidence);
    }
    let finding = format!("the scheduler may put anything on core {}", listed(&open));
    about.costs(Weight::Serious, finding, evidence, ISOLATE)
}

fn listed(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// A core whose thread spins undisturbed has fewer.
const TICKS: f64 = 10.0;

pub(super) fn tick(host: &Host) -> Advice {
    let about = about("timer tick", "paper 003 §4.1; kernel: timers/no_hz");
    let found = |core: &usize| {
        let key = format!("interrupts.cpu{core}.LOC");
        Some((key.clone(), number(host.get(&key)?)?))
    };
    let rates: Vec<(String, f64)> = host.cores.iter().filter_map(found).collect();
    let evidence: Vec<String> = ["kernel.hz", "cpu.nohz_full"]
        .into_iter()
        .filter_map(|key| host.quote(key))
        .chain(quoted(host, &rates))
        .collect();
    if rates.is_empty() {
        return about.unknown("the kernel counts no LOC interrupts (some hypervisors have timers of their own)");
    }
    let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    if most < TICKS {
        return about.fine("it is off while one thread runs", evidence);
    }
    let finding = format!("{most:.0} a second, each of them some microseconds of a thread that spins");
    about.costs(
        Weight::Slight,
        finding,
        evidence,
        "boot with nohz_full=CORES, on a kernel built with CONFIG_NO_HZ_FULL",
    )
}

pub(super) fn callbacks(host: &Host) -> Advice {
    let about = about("RCU callbacks", "kernel: admin-guide/kernel-parameters (rcu_nocbs)");
    // What has no tick gives its callbacks away, too.
    let lists = [host.get("kernel.boot.rcu_nocbs"), host.get("cpu.nohz_full")];
    let evidence: Vec<String> = ["kernel.boot.rcu_nocbs", "cpu.nohz_full", "kernel.config.RCU_NOCB_CPU"]
        .into_iter()
        .filter_map(|key| host.quote(key))
        .collect();
    if lists.into_iter().any(|list| list == Some("all") || outside(host, list).is_empty()) {
        return about.fine("other cores run them", evidence);
    }
    about.costs(Weight::Slight, "they run on the measuring cores, too", evidence, "boot with rcu_nocbs=CORES")
}

/// Share of a core that may be taken by others before it is worth a word, in percent.
const IDLE_PERCENT: f64 = 95.0;

pub(super) fn others(host: &Host) -> Advice {
    let about = about("other processes", "paper 003 §4.1");
    let idle = shares(host, "measured.idle");
    let Some(least) = idle.iter().map(|(_, share)| *share).reduce(f64::min) else {
        return about.unknown("not measured");
    };
    let evidence: Vec<String> = quoted(host, &idle).into_iter().chain(host.quote("host.load")).collect();
    if least >= IDLE_PERCENT {
        return about.fine(format!("these cores are idle for at least {least} % of the time"), evidence);
    }
    let finding = format!("something else runs: a core is idle for {least} % of the time");
    about.costs(
        Weight::Serious,
        finding,
        evidence,
        "see who in top(1), and stop it, or move it: usect host tune isolated -- COMMAND",
    )
}

/// Interrupts of devices per second that are worth more than a word.
const MANY: f64 = 100.0;

pub(super) fn interrupts(host: &Host) -> Advice {
    let about = about("interrupts of devices", "paper 001 §2; kernel: core-api/irq/irq-affinity");
    let mut struck: Vec<(String, f64)> = Vec::new();
    for core in host.cores {
        let prefix = format!("interrupts.cpu{core}.");
        let device = |(source, rate): (&str, &str)| {
            let of_device = source.starts_with(|c: char| c.is_ascii_digit());
            number(rate).filter(|_| of_device).map(|rate| (format!("{prefix}{source}"), rate))
        };
        struck.extend(host.below(&prefix).filter_map(device));
    }
    let evidence = quoted(host, &struck);
    let all: f64 = struck.iter().map(|(_, rate)| rate).sum();
    if struck.is_empty() {
        return about.fine("none came to these cores within a second", evidence);
    }
    let weight = if all < MANY { Weight::Slight } else { Weight::Serious };
    let finding = format!("{all:.0} a second came to these cores");
    about.costs(
        weight,
        finding,
        evidence,
        "usect host tune isolated -- COMMAND, or write other cores to /proc/irq/N/smp_affinity_list",
    )
}

pub(super) fn irqbalance(host: &Host) -> Advice {
    let about = about("irqbalance", "irqbalance(1); paper 001 §2");
    let evidence = host.quote("host.irqbalance");
    match host.get("host.irqbalance") {
        None => about.unknown(host.missing("host.irqbalance")),
        Some("running") => {
            let finding = "it moves interrupts between cores, back onto those that were cleared, too";
            about.costs(
                Weight::Serious,
                finding,
                evidence,
                "usect host tune isolated -- COMMAND, or systemctl stop irqbalance",
            )
        }
        Some(_) => about.fine("not running", evidence),
    }
}

pub(super) fn watchdog(host: &Host) -> Advice {
    let about = about("watchdogs", "kernel: admin-guide/lockup-watchdogs");
    let keys = ["sysctl.kernel.nmi_watchdog", "sysctl.kernel.watchdog"];
    let evidence = keys.into_iter().filter_map(|key| host.quote(key));
    if keys.into_iter().all(|key| host.get(key).is_none_or(|value| value == "0")) {
        return about.fine("none runs", evidence);
    }
    about.costs(
        Weight::Slight,
        "a timer, or an NMI, looks after each core",
        evidence,
        "usect host tune quiet -- COMMAND, or boot with nowatchdog",
    )
}
