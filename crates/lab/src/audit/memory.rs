//! Memory: how much, in which pages, on which nodes.

use super::kernel::field;
use super::text::chosen;
use super::{names, read, set_from_files, set_or};
use usect_core::environment::Environment;

const FILES: &[(&str, &str)] = &[
    ("memory.ksm", "/sys/kernel/mm/ksm/run"),
    ("memory.thp.khugepaged_defrag", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"),
    ("numa.nodes", "/sys/devices/system/node/online"),
];

pub(super) fn audit(facts: &mut Environment) {
    set_from_files(facts, FILES);
    for (key, name) in
        [("memory.total", "MemTotal"), ("memory.available", "MemAvailable"), ("memory.swap", "SwapTotal")]
    {
        set_or(facts, key, field("/proc/meminfo", name), "not in /proc/meminfo");
    }
    for key in ["enabled", "defrag"] {
        let setting = read(format!("/sys/kernel/mm/transparent_hugepage/{key}")).map(|text| chosen(&text));
        set_or(facts, &format!("memory.thp.{key}"), setting, "kernel without transparent huge pages");
    }
    huge_pages(facts);
    for node in names("/sys/devices/system/node").iter().filter(|name| name.starts_with("node")) {
        if let Some(cpus) = read(format!("/sys/devices/system/node/{node}/cpulist")) {
            facts.set(format!("numa.{node}.cpus"), cpus);
        }
    }
}

/// Bytes of memory that programs may take before others are pushed out, where the kernel says so.
pub fn available_bytes() -> Option<u64> {
    let text = field("/proc/meminfo", "MemAvailable")?;
    let kib: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// `memory.hugepages.2048kB = 0 of 0 free`.
fn huge_pages(facts: &mut Environment) {
    for size in names("/sys/kernel/mm/hugepages") {
        let count = |which| read(format!("/sys/kernel/mm/hugepages/{size}/{which}"));
        if let (Some(free), Some(all)) = (count("free_hugepages"), count("nr_hugepages")) {
            let size = size.trim_start_matches("hugepages-");
            facts.set(format!("memory.hugepages.{size}"), format!("{free} of {all} free"));
        }
    }
}
