//! What the kernel does to memory while it is used.

use super::{Host, about, number};
use usect_core::advice::{Advice, Weight};
use usect_core::environment::cpu_list;

pub(super) fn balancing(host: &Host) -> Advice {
    let about = about("NUMA balancing", "paper 000 §3.2");
    let evidence = ["sysctl.kernel.numa_balancing", "numa.nodes"].into_iter().filter_map(|key| host.quote(key));
    let on = host.get("sysctl.kernel.numa_balancing").is_some_and(|value| value != "0");
    let several = host.get("numa.nodes").is_some_and(|nodes| cpu_list(nodes).len() > 1);
    match (on, several) {
        (false, _) => about.fine("off", evidence),
        (true, false) => about.fine("on, with one node to balance", evidence),
        (true, true) => {
            let finding = "the kernel takes pages away to see who uses them: each use is a fault";
            about.costs(
                Weight::Serious,
                finding,
                evidence,
                "usect host tune quiet -- COMMAND, or sysctl kernel.numa_balancing=0",
            )
        }
    }
}

pub(super) fn huge_pages(host: &Host) -> Advice {
    let about = about("transparent huge pages", "paper 000 §3.2; kernel: admin-guide/mm/transhuge");
    let evidence = ["memory.thp.enabled", "memory.thp.defrag"].into_iter().filter_map(|key| host.quote(key));
    match host.get("memory.thp.enabled") {
        None => about.unknown(host.missing("memory.thp.enabled")),
        Some("always") => {
            let finding = "the kernel gathers pages of every process into huge ones, and stops it meanwhile";
            about.costs(
                Weight::Serious,
                finding,
                evidence,
                "usect host tune quiet -- COMMAND, or echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            )
        }
        Some(which) => about.fine(which, evidence),
    }
}

pub(super) fn merging(host: &Host) -> Advice {
    let about = about("same-page merging", "kernel: admin-guide/mm/ksm");
    let evidence = host.quote("memory.ksm");
    if host.get("memory.ksm") == Some("1") {
        let finding = "a thread of the kernel compares pages, and writing to one that it merged is a fault";
        return about.costs(
            Weight::Slight,
            finding,
            evidence,
            "usect host tune quiet -- COMMAND, or echo 0 > /sys/kernel/mm/ksm/run",
        );
    }
    about.fine("off", evidence)
}

pub(super) fn reserved(host: &Host) -> Advice {
    let about = about("huge pages", "DPDK: linux_gsg/sys_reqs");
    let sizes: Vec<(String, &str)> =
        host.below("memory.hugepages.").map(|(size, count)| (format!("memory.hugepages.{size}"), count)).collect();
    let evidence = sizes.iter().map(|(key, count)| format!("{key} = {count}"));
    // `3 of 4 free`
    if sizes.iter().any(|(_, count)| number(count).is_some_and(|free| free > 0.0)) {
        return about.fine("some are reserved and free", evidence);
    }
    let finding = "none is free: DPDK runs in small pages, with more misses of the TLB";
    about.costs(Weight::Slight, finding, evidence, "sysctl vm.nr_hugepages=512")
}
