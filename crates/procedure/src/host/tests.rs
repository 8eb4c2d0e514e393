use super::*;
use proptest::prelude::*;
use usect_core::environment::cpu_list;

/// What an audit brings of a bare machine that somebody has tuned.
const TUNED: &[(&str, &str)] = &[
    ("cpu.flags.constant_tsc", "yes"),
    ("cpu.flags.nonstop_tsc", "yes"),
    ("clocksource.current", "tsc"),
    ("measured.clock_read_ns", "22.1"),
    ("cpu.1.governor", "performance"),
    ("cpu.turbo.intel_pstate_no_turbo", "1"),
    ("cpu.1.idle.POLL", "0 us"),
    ("cpu.1.idle.C6", "133 us, disabled"),
    ("pci.aspm.policy", "performance"),
    ("pci.aspm.links", "none"),
    ("cpu.smt.active", "0"),
    ("cpu.1.siblings", "1"),
    ("measured.longest_stall_us.cpu1", "3.2"),
    ("host.hypervisor", "none"),
    ("steal.cpu1", "0.00%"),
    ("cgroup.cpu.max", "max 100000"),
    ("cpu.isolated", "1-3"),
    ("cpu.nohz_full", "1-3"),
    ("interrupts.cpu1.LOC", "1.0/s"),
    ("measured.idle.cpu1", "99.80%"),
    ("host.irqbalance", "not running"),
    ("sysctl.kernel.nmi_watchdog", "0"),
    ("sysctl.kernel.watchdog", "0"),
    ("sysctl.kernel.numa_balancing", "0"),
    ("memory.thp.enabled", "never"),
    ("memory.ksm", "0"),
    ("memory.hugepages.2048kB", "512 of 512 free"),
    ("kernel.hz", "250"),
    ("kernel.audit", "disabled"),
    ("cpu.microcode", "0x5003605"),
    ("measured.smi.cpu1", "0"),
    ("sysctl.net.core.bpf_jit_enable", "1"),
    ("sysctl.net.core.busy_read", "50"),
    ("numa.node0.cpus", "0-3"),
    ("interface.host.eth1.coalesce.adaptive-rx", "off"),
    ("interface.host.eth1.coalesce.rx-usecs", "0"),
    ("interface.host.eth1.offload.generic-receive-offload", "off"),
    ("interface.host.eth1.numa_node", "0"),
    ("interface.host.eth1.irq.40", "eth1-rx-0, cores 1, delivered to 1"),
    ("interface.host.eth1.eee", "disabled"),
    ("interface.host.eth1.pause.rx", "off"),
    ("interface.host.eth1.qdisc", "mq 0: root"),
];

fn host(changes: &[(&str, &str)]) -> Environment {
    let mut facts = Environment::default();
    TUNED.iter().chain(changes).for_each(|(key, value)| facts.set(*key, value));
    facts
}

fn judged(changes: &[(&str, &str)]) -> Vec<Advice> {
    check(&host(changes), &[1], &["host.eth1".to_owned()])
}

#[test]
fn a_tuned_host_is_fine() {
    let found = judged(&[]);
    assert_eq!(found.len(), RULES.len() + OF_INTERFACES.len());
    let costs: Vec<&Advice> = found.iter().filter(|advice| advice.weight != Weight::Fine).collect();
    assert!(costs.is_empty(), "{costs:#?}");
}

/// Each change of a tuned host, and what it costs.
const SPOILED: &[(&str, &str, &str, Weight)] = &[
    ("cpu.flags.nonstop_tsc", "no", "time stamp counter", Weight::Grave),
    ("clocksource.current", "hpet", "clock source", Weight::Grave),
    ("measured.clock_read_ns", "480", "clock source", Weight::Serious),
    ("cpu.1.governor", "powersave", "frequency governor", Weight::Serious),
    ("cpu.turbo.intel_pstate_no_turbo", "0", "turbo", Weight::Slight),
    ("cpu.1.idle.C6", "133 us", "c-states", Weight::Serious),
    ("cpu.1.idle.C1E", "4 us", "c-states", Weight::Slight),
    ("cpu.1.siblings", "1,5", "SMT siblings", Weight::Slight),
    ("measured.longest_stall_us.cpu1", "21.0", "stalls", Weight::Slight),
    ("measured.longest_stall_us.cpu1", "714.0", "stalls", Weight::Grave),
    ("host.hypervisor", "KVM", "hypervisor", Weight::Serious),
    ("cgroup.cpu.max", "max 100000 < 50000 100000", "CPU quota", Weight::Grave),
    ("cgroup.cpu.cfs_quota_us", "200000", "CPU quota", Weight::Grave),
    ("cpu.isolated", "2-3", "isolation", Weight::Serious),
    ("interrupts.cpu1.LOC", "250.0/s", "timer tick", Weight::Slight),
    ("cpu.nohz_full", "none", "RCU callbacks", Weight::Slight),
    ("measured.idle.cpu1", "60.00%", "other processes", Weight::Serious),
    ("interrupts.cpu1.40", "7.0/s", "interrupts of devices", Weight::Slight),
    ("interrupts.cpu1.40", "7000.0/s", "interrupts of devices", Weight::Serious),
    ("host.irqbalance", "running", "irqbalance", Weight::Serious),
    ("sysctl.kernel.nmi_watchdog", "1", "watchdogs", Weight::Slight),
    ("memory.thp.enabled", "always", "transparent huge pages", Weight::Serious),
    ("memory.ksm", "1", "same-page merging", Weight::Slight),
    ("memory.hugepages.2048kB", "0 of 512 free", "huge pages", Weight::Slight),
    ("kernel.config.KASAN", "y", "kernel build", Weight::Grave),
    ("kernel.config.DEBUG_PREEMPT", "y", "kernel build", Weight::Slight),
    ("measured.clock", "n/a: the kernel has dropped it", "time stamp counter", Weight::Grave),
    ("kernel.audit", "enabled", "audit", Weight::Slight),
    ("mitigations.meltdown", "Mitigation: PTI", "mitigations", Weight::Slight),
    ("mitigations.old_microcode", "Vulnerable", "microcode", Weight::Slight),
    ("measured.smi.cpu1", "2", "system management interrupts", Weight::Grave),
    ("sysctl.net.core.bpf_jit_enable", "0", "eBPF", Weight::Serious),
    ("sysctl.kernel.bpf_stats_enabled", "1", "eBPF", Weight::Slight),
    ("sysctl.net.core.busy_read", "0", "busy polling", Weight::Slight),
    ("interface.host.eth1.coalesce.adaptive-rx", "on", "coalescing of eth1", Weight::Serious),
    ("interface.host.eth1.coalesce.rx-usecs", "3", "coalescing of eth1", Weight::Slight),
    ("interface.host.eth1.coalesce.rx-usecs", "50", "coalescing of eth1", Weight::Serious),
    ("interface.host.eth1.offload.generic-receive-offload", "on", "offloads of eth1", Weight::Slight),
    ("interface.host.eth1.offload.large-receive-offload", "on", "offloads of eth1", Weight::Serious),
    ("interface.host.eth1.irq.40", "eth1-rx-0, cores 0-3, delivered to 2", "interrupts of eth1", Weight::Slight),
    ("interface.host.eth1.eee", "enabled - active", "energy-efficient Ethernet of eth1", Weight::Serious),
    ("interface.host.eth1.pause.rx", "on", "pause frames of eth1", Weight::Slight),
    ("interface.host.eth1.qdisc", "netem 8001: root delay 100us", "queueing discipline of eth1", Weight::Grave),
];

#[test]
fn each_rule_finds_what_spoils_a_tuned_host_and_nothing_else() {
    for (key, value, subject, weight) in SPOILED {
        let found = judged(&[(key, value)]);
        let first = &found[0];
        assert_eq!((first.subject.as_str(), first.weight), (*subject, *weight), "{key} = {value}");
        assert!(first.mend.is_some() && !first.evidence.is_empty(), "{first:?}");
        assert!(first.evidence.contains(&format!("{key} = {value}")), "{first:?}");
        assert_eq!(found[1].weight, Weight::Fine, "{:?}", found[1]);
    }
}

#[test]
fn what_takes_two_facts_is_found() {
    let two = |changes: &[(&str, &str)], subject: &str, weight: Weight| {
        let found = judged(changes);
        let one = found.iter().find(|advice| advice.subject == subject).unwrap();
        assert_eq!(one.weight, weight, "{one:?}");
    };
    two(&[("sysctl.kernel.numa_balancing", "1"), ("numa.nodes", "0-1")], "NUMA balancing", Weight::Serious);
    two(&[("sysctl.kernel.numa_balancing", "1"), ("numa.nodes", "0")], "NUMA balancing", Weight::Fine);
    two(&[("interface.host.eth1.numa_node", "1"), ("numa.node1.cpus", "4-7")], "NUMA node of eth1", Weight::Serious);
    let link = ("pci.aspm.links", "0000:01:00.0 l1");
    two(&[("pci.aspm.policy", "default"), link], "PCIe power saving (ASPM)", Weight::Serious);
    two(&[("host.hypervisor", "KVM"), ("steal.cpu1", "1.25%")], "hypervisor", Weight::Grave);
    // A limit on how late a core may wake leaves its deep states unused.
    two(&[("cpu.1.idle.C6", "133 us"), ("cpu.dma_latency_us", "0")], "c-states", Weight::Fine);
}

#[test]
fn what_nothing_tells_is_unknown_and_not_fine() {
    let mut facts = Environment::default();
    facts.set("cpu.1.governor", "n/a: no cpufreq driver (typical of virtual machines)");
    let found = check(&facts, &[1], &[]);
    let of = |subject: &str| found.iter().find(|advice| advice.subject == subject).unwrap();
    let governor = of("frequency governor");
    assert_eq!(
        (governor.weight, governor.finding.as_str()),
        (Weight::Unknown, "no cpufreq driver (typical of virtual machines)")
    );
    for subject in
        ["stalls", "clock source", "c-states", "transparent huge pages", "audit", "system management interrupts"]
    {
        assert_eq!(of(subject).weight, Weight::Unknown, "{subject}");
    }
}

#[test]
fn the_worst_comes_first() {
    let found = judged(&[("kernel.config.KASAN", "y"), ("memory.thp.enabled", "always"), ("memory.ksm", "1")]);
    let subjects: Vec<&str> = found.iter().take(3).map(|advice| advice.subject.as_str()).collect();
    assert_eq!(subjects, ["kernel build", "transparent huge pages", "same-page merging"]);
}

#[test]
fn lists_of_cores() {
    assert_eq!(cpu_list("0-2,5"), [0, 1, 2, 5]);
    assert_eq!(cpu_list("none"), [0; 0]);
    assert_eq!((number("133 us"), number("0.40%"), number("us")), (Some(133.0), Some(0.4), None));
}

proptest! {
    #[test]
    fn any_facts_are_survived(facts in proptest::collection::vec((0..TUNED.len(), "[0-9a-z,:% -]{0,12}"), 0..20)) {
        let mut host = host(&[]);
        facts.iter().for_each(|(which, value)| host.set(TUNED[*which].0, value));
        check(&host, &[0, 1], &["host.eth1".to_owned()]);
    }
}
