//! What the kernel was built with, and what it does at every entry.

use super::{Host, about, number};
use usect_core::advice::{Advice, Weight};

/// Options for finding faults of the kernel's.
const DEBUGGING: [&str; 2] = ["KASAN", "PROVE_LOCKING"];
/// Those that cost less, or something only where they are used.
const TRACING: [&str; 3] = ["DEBUG_PREEMPT", "PREEMPT_TRACER", "IRQSOFF_TRACER"];

pub(super) fn build(host: &Host) -> Advice {
    let about = about("kernel build", "kernel: dev-tools");
    if host.get("kernel.hz").is_none() {
        return about.unknown(host.missing("kernel.hz"));
    }
    let set = |names: &[&str]| -> Vec<String> {
        let keys = names.iter().map(|name| format!("kernel.config.{name}"));
        keys.filter(|key| host.get(key) == Some("y")).filter_map(|key| host.quote(&key)).collect()
    };
    let (checked, traced) = (set(&DEBUGGING), set(&TRACING));
    let mend = "boot the distribution's usual kernel";
    match (checked.is_empty(), traced.is_empty()) {
        (false, _) => about.costs(
            Weight::Grave,
            "it checks itself: every path of the kernel is many times as long",
            checked,
            mend,
        ),
        (true, false) => {
            let finding = "it has hooks for finding its own faults where interrupts and preemption go off and on";
            about.costs(Weight::Slight, finding, traced, mend)
        }
        (true, true) => about.fine("no checks of its own that cost time", host.quote("kernel.preemption")),
    }
}

pub(super) fn audit(host: &Host) -> Advice {
    let about = about("audit", "paper 000 §3.2 (kernel audit); auditctl(8)");
    let evidence = ["kernel.audit", "host.auditd", "kernel.boot.audit"].into_iter().filter_map(|key| host.quote(key));
    match host.get("kernel.audit") {
        None => about.unknown(host.missing("kernel.audit")),
        Some("enabled" | "locked") => {
            let finding = "every call of the kernel is looked at, and some are written down";
            about.costs(
                Weight::Slight,
                finding,
                evidence,
                "usect host tune quiet -- COMMAND, or auditctl -e 0, or boot with audit=0",
            )
        }
        Some(state) => about.fine(state, evidence),
    }
}

pub(super) fn mitigations(host: &Host) -> Advice {
    let about = about("mitigations", "kernel: admin-guide/hw-vuln");
    let on: Vec<String> = host
        .below("mitigations.")
        .filter(|(_, state)| state.starts_with("Mitigation"))
        .map(|(name, state)| format!("mitigations.{name} = {state}"))
        .collect();
    if on.is_empty() {
        return about.fine("none is on", host.quote("kernel.boot.mitigations"));
    }
    let finding = format!("{} are on: each entry of the kernel and each indirect branch costs more", on.len());
    about.costs(Weight::Slight, finding, on, "boot with mitigations=off where no code is run that you don't trust")
}

pub(super) fn microcode(host: &Host) -> Advice {
    let about = about("microcode", "kernel: arch/x86/microcode");
    let evidence = ["cpu.microcode", "mitigations.old_microcode"].into_iter().filter_map(|key| host.quote(key));
    match (host.get("cpu.microcode"), host.get("mitigations.old_microcode")) {
        (None, _) => about.unknown(host.missing("cpu.microcode")),
        (Some(revision), Some(state)) if state.starts_with("Vulnerable") => {
            let finding = format!(
                "revision {revision}, older than the kernel knows of: the kernel may mitigate more than it must"
            );
            about.costs(Weight::Slight, finding, evidence, "install the distribution's microcode package, and restart")
        }
        (Some(revision), _) => about.fine(format!("revision {revision}"), evidence),
    }
}

pub(super) fn management(host: &Host) -> Advice {
    let about = about("system management interrupts", "Intel SDM vol. 4 (MSR_SMI_COUNT); hwlatdetect(8)");
    let counts: Vec<(String, f64)> =
        host.below("measured.smi.").filter_map(|(cpu, n)| Some((format!("measured.smi.{cpu}"), number(n)?))).collect();
    let most = counts.iter().map(|(_, n)| *n).reduce(f64::max);
    let evidence: Vec<String> = counts.iter().filter_map(|(key, _)| host.quote(key)).collect();
    match most {
        None => about.unknown(host.missing("measured.smi")),
        Some(0.0) => about.fine("none within a second", evidence),
        Some(n) => {
            let finding =
                format!("{n:.0} within a second: the firmware stops all cores, for tens of microseconds or more");
            about.costs(
                Weight::Grave,
                finding,
                evidence,
                "switch off in the firmware: USB legacy support, power capping, hardware monitoring",
            )
        }
    }
}

pub(super) fn bpf(host: &Host) -> Advice {
    let about = about("eBPF", "kernel: admin-guide/sysctl/net (bpf_jit_enable)");
    let keys = ["sysctl.net.core.bpf_jit_enable", "sysctl.net.core.bpf_jit_harden", "sysctl.kernel.bpf_stats_enabled"];
    let evidence = keys.into_iter().filter_map(|key| host.quote(key));
    if host.get(keys[0]).is_none() {
        return about.unknown(host.missing(keys[0]));
    }
    if host.get(keys[0]) == Some("0") {
        let finding = "programs are interpreted: clients xdp and kernel, and every tap, are many times slower";
        return about.costs(Weight::Serious, finding, evidence, "sysctl net.core.bpf_jit_enable=1");
    }
    if host.get(keys[1]) == Some("2") || host.get(keys[2]) == Some("1") {
        let finding = "programs are hardened or timed, which each run of them pays for";
        return about.costs(
            Weight::Slight,
            finding,
            evidence,
            "sysctl net.core.bpf_jit_harden=0 kernel.bpf_stats_enabled=0",
        );
    }
    about.fine("compiled, neither hardened nor timed", evidence)
}

pub(super) fn busy_polling(host: &Host) -> Advice {
    let about = about("busy polling", "kernel: networking/napi (busy polling)");
    let keys = ["sysctl.net.core.busy_read", "sysctl.net.core.busy_poll"];
    let evidence = keys.into_iter().filter_map(|key| host.quote(key));
    match host.get(keys[0]) {
        None => about.unknown(host.missing(keys[0])),
        Some("0") => {
            let finding = "a socket that waits sleeps until the card's interrupt, instead of asking the card itself";
            about.costs(
                Weight::Slight,
                finding,
                evidence,
                "usect host tune busypoll -- COMMAND, or sysctl net.core.busy_read=50 net.core.busy_poll=50",
            )
        }
        Some(us) => about.fine(format!("{us} µs"), evidence),
    }
}
