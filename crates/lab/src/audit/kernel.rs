//! The kernel: release, build, command line, clock source, settings of its scheduler and its network.

use super::text::{boot_options, chosen, kernel_config, value_of};
use super::{exists, read, set_from_files, set_or, squeezed};
use crate::program::run;
use usect_core::environment::Environment;

const FILES: &[(&str, &str)] = &[
    ("kernel.release", "/proc/sys/kernel/osrelease"),
    ("kernel.version", "/proc/sys/kernel/version"),
    ("kernel.cmdline", "/proc/cmdline"),
    ("kernel.tainted", "/proc/sys/kernel/tainted"),
    ("clocksource.current", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("clocksource.available", "/sys/devices/system/clocksource/clocksource0/available_clocksource"),
];

/// Options of the command line that decide who runs on a core, and when.
const BOOT_OPTIONS: &[&str] = &[
    "isolcpus",
    "nohz",
    "rcu_",
    "rcutree",
    "irqaffinity",
    "kthread_cpus",
    "intel_idle",
    "processor.",
    "idle",
    "intel_pstate",
    "amd_pstate",
    "mitigations",
    "nosmt",
    "tsc",
    "clocksource",
    "preempt",
    "skew_tick",
    "nowatchdog",
    "nmi_watchdog",
    "nosoftlockup",
    "hugepages",
    "default_hugepagesz",
    "transparent_hugepage",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "audit",
    "threadirqs",
    "cpuidle.",
    "swiotlb",
    "nopti",
    "spectre",
];

/// Build options with an influence on latency.
const BUILD_OPTIONS: &[&str] = &[
    "HZ",
    "PREEMPT_NONE",
    "PREEMPT_VOLUNTARY",
    "PREEMPT",
    "PREEMPT_LAZY",
    "PREEMPT_RT",
    "PREEMPT_DYNAMIC",
    "NO_HZ_IDLE",
    "NO_HZ_FULL",
    "HIGH_RES_TIMERS",
    "RCU_NOCB_CPU",
    "XDP_SOCKETS",
    "BPF_JIT",
    "VETH",
    "NET_RX_BUSY_POLL",
    "PARAVIRT",
    "PREEMPT_TRACER",
    "IRQSOFF_TRACER",
    "KASAN",
    "PROVE_LOCKING",
    "DEBUG_PREEMPT",
];

/// Settings by their name in sysctl(8).
const SYSCTLS: &[&str] = &[
    "kernel.bpf_stats_enabled",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_period_us",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_rr_timeslice_ms",
    "kernel.soft_watchdog",
    "kernel.split_lock_mitigate",
    "kernel.timer_migration",
    "kernel.unprivileged_bpf_disabled",
    "kernel.watchdog",
    "kernel.watchdog_cpumask",
    "kernel.perf_event_paranoid",
    "net.core.bpf_jit_enable",
    "net.core.bpf_jit_harden",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.dev_weight_rx_bias",
    "net.core.dev_weight_tx_bias",
    "net.core.gro_normal_batch",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.netdev_tstamp_prequeue",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_default_mask",
    "net.core.rps_sock_flow_entries",
    "net.core.skb_defer_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_forward",
    "net.ipv4.udp_early_demux",
    "net.ipv4.ip_early_demux",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.udp_mem",
    "vm.swappiness",
    "vm.stat_interval",
    "vm.zone_reclaim_mode",
    "vm.compaction_proactiveness",
];

pub(super) fn audit(facts: &mut Environment) {
    set_from_files(facts, FILES);
    facts.set("os.name", os_name());
    preemption(facts);
    build(facts);
    let cmdline = read("/proc/cmdline").unwrap_or_default();
    for (key, value) in boot_options(&cmdline, BOOT_OPTIONS) {
        facts.set(format!("kernel.boot.{key}"), value);
    }
    for name in SYSCTLS {
        if let Some(value) = read(format!("/proc/sys/{}", name.replace('.', "/"))) {
            facts.set(format!("sysctl.{name}"), squeezed(&value));
        }
    }
}

fn os_name() -> String {
    let release = read("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("n/a: no /etc/os-release".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// The model in force where the kernel tells, else what it was built with.
fn preemption(facts: &mut Environment) {
    let dynamic = read("/sys/kernel/debug/sched/preempt").map(|text| chosen(&text));
    let version = read("/proc/sys/kernel/version").unwrap_or_default();
    let built = if exists("/sys/kernel/realtime") { "PREEMPT_RT".to_owned() } else { built_preemption(&version) };
    facts.set("kernel.preemption", dynamic.unwrap_or(built));
}

/// From a version such as `#1 SMP PREEMPT_DYNAMIC Debian 6.1.0-1`.
fn built_preemption(version: &str) -> String {
    let model = version.split_whitespace().find(|word| word.starts_with("PREEMPT"));
    let model = model.map(|word| word.trim_end_matches(','));
    match model {
        Some("PREEMPT_DYNAMIC") => {
            "PREEMPT_DYNAMIC (the model in force is in debugfs, which is not readable)".to_owned()
        }
        Some(model) => model.to_owned(),
        None => "none or voluntary".to_owned(),
    }
}

fn build(facts: &mut Environment) {
    let config = build_config();
    for (key, value) in kernel_config(config.as_deref().unwrap_or_default(), BUILD_OPTIONS) {
        facts.set(format!("kernel.config.{key}"), value);
    }
    let hz = config.as_deref().and_then(|text| kernel_config(text, &["HZ"]).pop()).map(|(_, hz)| hz);
    set_or(facts, "kernel.hz", hz, "neither /boot/config-RELEASE nor /proc/config.gz is readable");
}

fn build_config() -> Option<String> {
    let release = read("/proc/sys/kernel/osrelease")?;
    let installed = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let packed = || run(None, "gzip", &["-dc", "/proc/config.gz"]).ok().filter(|text| !text.is_empty());
    installed.iter().find_map(read).or_else(packed)
}

/// A field of `/proc/meminfo`, `/proc/self/status` and their like.
pub(super) fn field(path: &str, key: &str) -> Option<String> {
    value_of(&read(path)?, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemption_as_built() {
        assert_eq!(built_preemption("#1 SMP PREEMPT_RT Debian 6.1"), "PREEMPT_RT");
        assert!(built_preemption("#1 SMP PREEMPT_DYNAMIC @0").starts_with("PREEMPT_DYNAMIC"));
        assert_eq!(built_preemption("#1 SMP Debian 5.10"), "none or voluntary");
    }
}
