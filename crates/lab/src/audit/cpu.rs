//! Cores: model, frequency, sleep, isolation, mitigations.

use super::text::value_of;
use super::{exists, names, read, set_from_files, set_or};
use usect_core::environment::{Environment, cpu_list};

const ROOT: &str = "/sys/devices/system/cpu";

const FILES: &[(&str, &str)] = &[
    ("cpu.online", "/sys/devices/system/cpu/online"),
    ("cpu.possible", "/sys/devices/system/cpu/possible"),
    ("cpu.isolated", "/sys/devices/system/cpu/isolated"),
    ("cpu.nohz_full", "/sys/devices/system/cpu/nohz_full"),
    ("cpu.smt.active", "/sys/devices/system/cpu/smt/active"),
    ("cpu.smt.control", "/sys/devices/system/cpu/smt/control"),
    ("cpu.turbo.intel_pstate_no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("cpu.turbo.cpufreq_boost", "/sys/devices/system/cpu/cpufreq/boost"),
    ("cpu.pstate.intel", "/sys/devices/system/cpu/intel_pstate/status"),
    ("cpu.pstate.amd", "/sys/devices/system/cpu/amd_pstate/status"),
    ("cpu.idle.governor", "/sys/devices/system/cpu/cpuidle/current_governor"),
    ("cpu.0.resume_latency_limit_us", "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"),
];

/// Whether the time stamp counter can be trusted.
const FLAGS: &[&str] =
    &["constant_tsc", "nonstop_tsc", "tsc_reliable", "tsc_known_freq", "tsc_adjust", "rdtscp", "hypervisor", "arat"];

pub(super) fn audit(facts: &mut Environment) {
    model(facts, &read("/proc/cpuinfo").unwrap_or_default());
    set_from_files(facts, FILES);
    for (key, default) in [("cpu.isolated", "none"), ("cpu.nohz_full", "none")] {
        if facts.get(key).is_none_or(|value| value == "(null)") {
            facts.set(key, default);
        }
    }
    let no_boost = facts.get("cpu.turbo.intel_pstate_no_turbo").or(facts.get("cpu.turbo.cpufreq_boost")).is_none();
    if no_boost {
        facts.set("cpu.turbo", "n/a: no control for it (typical of virtual machines)");
    }
    let idle = read(format!("{ROOT}/cpuidle/current_driver")).filter(|driver| driver != "none");
    set_or(facts, "cpu.idle.driver", idle, "no cpuidle driver (typical of virtual machines)");
    for name in names(format!("{ROOT}/vulnerabilities")) {
        let state = read(format!("{ROOT}/vulnerabilities/{name}"));
        set_or(facts, &format!("mitigations.{name}"), state, "not readable");
    }
    let cores = cpu_list(&read(format!("{ROOT}/online")).unwrap_or_default());
    cores.into_iter().for_each(|core| audit_core(facts, core));
}

/// From `/proc/cpuinfo`, whose first block stands for all: hosts with unlike cores show it per core.
fn model(facts: &mut Environment, cpuinfo: &str) {
    let fields = [
        ("cpu.model", "model name"),
        ("cpu.vendor", "vendor_id"),
        ("cpu.family", "cpu family"),
        ("cpu.model_number", "model"),
        ("cpu.stepping", "stepping"),
        ("cpu.microcode", "microcode"),
    ];
    for (key, name) in fields {
        set_or(facts, key, value_of(cpuinfo, name), "not in /proc/cpuinfo");
    }
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    facts.set("cpu.count", count);
    let flags = value_of(cpuinfo, "flags").or_else(|| value_of(cpuinfo, "Features")).unwrap_or_default();
    for flag in FLAGS {
        let there = flags.split(' ').any(|f| f == *flag);
        facts.set(format!("cpu.flags.{flag}"), if there { "yes" } else { "no" });
    }
    let siblings = read(format!("{ROOT}/cpu0/topology/thread_siblings_list"));
    set_or(facts, "cpu.threads_per_core", siblings.map(|list| cpu_list(&list).len()), "no topology in sysfs");
}

fn audit_core(facts: &mut Environment, core: usize) {
    let directory = format!("{ROOT}/cpu{core}");
    frequency(facts, core, &format!("{directory}/cpufreq"));
    idle_states(facts, core, &format!("{directory}/cpuidle"));
    for (key, file) in [("siblings", "thread_siblings_list"), ("socket", "physical_package_id"), ("core", "core_id")] {
        if let Some(value) = read(format!("{directory}/topology/{file}")) {
            facts.set(format!("cpu.{core}.{key}"), value);
        }
    }
    for cache in names(format!("{directory}/cache")) {
        let of = |file| read(format!("{directory}/cache/{cache}/{file}"));
        if let (Some(level), Some(kind), Some(size)) = (of("level"), of("type"), of("size")) {
            let shared = of("shared_cpu_list").unwrap_or_default();
            facts.set(format!("cpu.{core}.cache.l{level}.{}", kind.to_lowercase()), format!("{size}, cores {shared}"));
        }
    }
}

fn frequency(facts: &mut Environment, core: usize, directory: &str) {
    if !exists(directory) {
        facts.set(format!("cpu.{core}.governor"), "n/a: no cpufreq driver (typical of virtual machines)");
        return;
    }
    let files = [
        ("governor", "scaling_governor"),
        ("frequency.driver", "scaling_driver"),
        ("frequency.min_khz", "scaling_min_freq"),
        ("frequency.max_khz", "scaling_max_freq"),
        ("frequency.cur_khz", "scaling_cur_freq"),
        ("frequency.hardware_max_khz", "cpuinfo_max_freq"),
        ("frequency.preference", "energy_performance_preference"),
    ];
    for (key, file) in files {
        if let Some(value) = read(format!("{directory}/{file}")) {
            facts.set(format!("cpu.{core}.{key}"), value);
        }
    }
}

/// `cpu.0.idle.C6 = 133 us` to wake up, with `, disabled` if it is.
fn idle_states(facts: &mut Environment, core: usize, directory: &str) {
    for state in names(directory).iter().filter(|name| name.starts_with("state")) {
        let of = |file| read(format!("{directory}/{state}/{file}"));
        if let (Some(name), Some(latency)) = (of("name"), of("latency")) {
            let disabled = if of("disable").is_some_and(|flag| flag != "0") { ", disabled" } else { "" };
            facts.set(format!("cpu.{core}.idle.{name}"), format!("{latency} us{disabled}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPUINFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.50GHz\n\
        microcode\t: 0x1\nflags\t\t: fpu rdtscp constant_tsc hypervisor\n\nprocessor\t: 1\nmodel name\t: Some CPU\n";

    #[test]
    fn the_model_is_the_first_cores() {
        let mut facts = Environment::default();
        model(&mut facts, CPUINFO);
        assert_eq!(facts.get("cpu.model"), Some("Some CPU @ 2.50GHz"));
        assert_eq!(facts.get("cpu.model_number"), Some("85"));
        assert_eq!(facts.get("cpu.count"), Some("2"));
        assert_eq!((facts.get("cpu.flags.rdtscp"), facts.get("cpu.flags.nonstop_tsc")), (Some("yes"), Some("no")));
        assert_eq!(facts.get("cpu.stepping"), Some("n/a: not in /proc/cpuinfo"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(processor|flags|model name|[a-z\t :\n])*") {
            model(&mut Environment::default(), &text);
        }
    }
}
