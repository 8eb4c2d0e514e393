//! What limits this process, what else runs, and what kind of machine it all runs on.

use super::kernel::field;
use super::{exists, read, set_from_files, set_or, squeezed};
use crate::processes::{Process, numbers};
use sha2::{Digest, Sha256};
use std::path::Path;
use usect_core::environment::Environment;

const DMI: &[(&str, &str)] = &[
    ("host.dmi.vendor", "/sys/class/dmi/id/sys_vendor"),
    ("host.dmi.product", "/sys/class/dmi/id/product_name"),
    ("host.dmi.board", "/sys/class/dmi/id/board_name"),
    ("host.dmi.bios", "/sys/class/dmi/id/bios_version"),
    ("host.dmi.bios_date", "/sys/class/dmi/id/bios_date"),
];

pub(super) fn audit(facts: &mut Environment) {
    machine(facts);
    facts.set("host.container", container());
    for daemon in ["irqbalance", "auditd", "tuned"] {
        facts.set(format!("host.{daemon}"), if runs(daemon) { "running" } else { "not running" });
    }
    set_or(facts, "host.load", read("/proc/loadavg"), "/proc/loadavg is not readable");
    let uptime = read("/proc/uptime").and_then(|text| text.split(' ').next().map(str::to_owned));
    set_or(facts, "host.uptime_s", uptime, "/proc/uptime is not readable");
    for (key, name) in [("process.affinity", "Cpus_allowed_list"), ("process.memory_nodes", "Mems_allowed_list")] {
        set_or(facts, key, field("/proc/self/status", name), "not in /proc/self/status");
    }
    limits(facts);
    control_groups(facts);
}

fn machine(facts: &mut Environment) {
    set_from_files(facts, DMI);
    let dmi = |key| facts.get(key).unwrap_or_default().to_owned();
    let hints = [
        read("/sys/hypervisor/type").unwrap_or_default(),
        dmi("host.dmi.vendor"),
        dmi("host.dmi.product"),
        read("/sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default(),
    ];
    let virtual_cpu = read("/proc/cpuinfo").unwrap_or_default().contains(" hypervisor");
    let hypervisor = hypervisor(&hints.join(" "), virtual_cpu);
    facts.set("host.hypervisor", hypervisor);
    facts.set("host.id", id());
    if !exists("/sys/class/dmi/id") {
        facts.set("host.dmi.product", "n/a: no DMI tables (typical of small virtual machines)");
    }
}

/// From whatever the machine says of itself; `none` only if the CPU doesn't say that there is one.
fn hypervisor(hints: &str, virtual_cpu: bool) -> &'static str {
    const SIGNS: &[(&str, &str)] = &[
        ("xen", "Xen"),
        ("hyperv", "Hyper-V"),
        ("Microsoft", "Hyper-V"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Amazon EC2", "Nitro"),
        ("Google", "Google Compute Engine"),
        ("Firecracker", "Firecracker"),
        ("QEMU", "QEMU"),
        ("kvm", "KVM"),
        ("KVM", "KVM"),
    ];
    let named = SIGNS.iter().find(|(sign, _)| hints.contains(sign)).map(|(_, name)| *name);
    if virtual_cpu { named.unwrap_or("unknown (the CPU says that there is one)") } else { "none" }
}

fn container() -> String {
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let marked = marks.iter().find(|(path, _)| exists(path)).map(|(_, name)| (*name).to_owned());
    marked.or_else(|| read("/run/systemd/container")).unwrap_or_else(|| "none seen".to_owned())
}

/// Whether a process of this name runs.
fn runs(name: &str) -> bool {
    numbers("/proc").into_iter().filter_map(Process::of).any(|process| process.name == name)
}

/// Limits that decide whether memory can be locked and real-time priority be had.
fn limits(facts: &mut Environment) {
    let text = read("/proc/self/limits").unwrap_or_default();
    for (key, name) in [("locked_memory", "Max locked memory"), ("realtime_priority", "Max realtime priority")] {
        if let Some(rest) = text.lines().find_map(|line| line.strip_prefix(name)) {
            facts.set(format!("process.limit.{key}"), rest.split_whitespace().next().unwrap_or(""));
        }
    }
}

/// The control group of this process in the hierarchy of v2, or of one controller of v1.
fn control_groups(facts: &mut Environment) {
    let text = read("/proc/self/cgroup").unwrap_or_default();
    for (root, files) in [("/sys/fs/cgroup", V2), ("/sys/fs/cgroup/cpu", V1_CPU), ("/sys/fs/cgroup/cpuset", V1_SET)] {
        let controller = Path::new(root).strip_prefix("/sys/fs/cgroup").ok().and_then(Path::to_str).unwrap_or("");
        if let Some(path) = group(&text, controller) {
            facts.set(format!("cgroup.{}path", dotted(controller)), path);
            limits_above(facts, root, path, files);
        }
    }
}

const V2: &[&str] = &["cpu.max", "cpu.weight", "cpuset.cpus.effective", "cpuset.cpus.partition"];
const V1_CPU: &[&str] = &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"];
const V1_SET: &[&str] = &["cpuset.effective_cpus", "cpuset.sched_load_balance"];

fn dotted(controller: &str) -> String {
    if controller.is_empty() { String::new() } else { format!("{controller}.") }
}

/// A limit holds for everything below it, so each is taken at the nearest level that has one, and every
/// `cpu.max` on the way up.
fn limits_above(facts: &mut Environment, root: &str, path: &str, files: &[&str]) {
    let levels: Vec<&Path> = Path::new(path.trim_start_matches('/')).ancestors().collect();
    let values = |file: &&str| levels.iter().filter_map(|level| read(Path::new(root).join(level).join(file))).collect();
    for file in files {
        let values: Vec<String> = values(file);
        let shown = if *file == "cpu.max" { values.join(" < ") } else { values.into_iter().next().unwrap_or_default() };
        if !shown.is_empty() {
            facts.set(format!("cgroup.{file}"), squeezed(&shown));
        }
    }
}

/// The path in a line `ID:CONTROLLERS:PATH` of `/proc/self/cgroup`; v2's has no controllers.
fn group<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// Tells this host from others without telling which it is: machine-id(5) asks for a hash of it.
fn id() -> String {
    let hash = |id: String| Sha256::new().chain_update("usect").chain_update(id).finalize();
    let hex = |id| hash(id)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    read("/etc/machine-id").map_or("n/a: no /etc/machine-id".to_owned(), hex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn groups_of_both_versions() {
        let text = "4:memory:/m\n3:cpu,cpuacct:/c\n0::/u:x\n";
        assert_eq!((group(text, "cpu"), group(text, ""), group(text, "cpuset")), (Some("/c"), Some("/u:x"), None));
    }

    #[test]
    fn hypervisors_by_their_signs() {
        assert_eq!(hypervisor("QEMU Standard PC tsc kvm-clock", true), "QEMU");
        assert_eq!(hypervisor("tsc kvm-clock", true), "KVM");
        assert_eq!(hypervisor("tsc", true), "unknown (the CPU says that there is one)");
        assert_eq!(hypervisor("Dell Inc.", false), "none");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", controller in "[a-z]*") {
            group(&text, &controller);
        }
    }
}
