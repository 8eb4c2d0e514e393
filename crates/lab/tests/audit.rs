//! What the audit says of the host that runs the tests.

mod common;

use common::{root, state, unique};
use std::thread;
use std::time::Duration;
use usect_lab::audit::{CpuTimes, host, interface, online_cores};
use usect_lab::{Shape, link};

#[test]
fn a_host_has_what_every_host_has() {
    let facts = host();
    let wanted = "kernel.release kernel.version kernel.cmdline kernel.preemption kernel.hz os.name host.hypervisor \
        host.container host.irqbalance host.load cpu.model cpu.vendor cpu.microcode cpu.count cpu.threads_per_core \
        cpu.flags.constant_tsc cpu.0.governor cpu.online cpu.isolated cpu.nohz_full cpu.idle.driver \
        clocksource.current memory.total memory.thp.enabled process.affinity sysctl.net.core.busy_poll \
        sysctl.kernel.sched_rt_runtime_us";
    for key in wanted.split_whitespace() {
        assert!(facts.get(key).is_some_and(|value| !value.is_empty()), "{key}");
    }
    for (key, value) in facts.facts() {
        assert!(!value.contains('\n') && key.chars().all(|c| !c.is_whitespace()), "{key:?} = {value:?}");
        eprintln!("{key} = {value}");
    }
}

#[test]
fn two_audits_differ_in_what_moves_only() {
    let (first, second) = (host(), host());
    let settled = ["cpu.", "kernel.", "mitigations.", "os.", "clocksource."];
    let fixed = |key: &str| settled.iter().any(|prefix| key.starts_with(prefix)) && !key.ends_with(".cur_khz");
    let differences = first.differences(&second);
    assert!(differences.iter().all(|difference| !fixed(difference.key)), "{differences:?}");
}

#[test]
fn a_veth_is_described_in_its_namespace() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Wire, 1500).unwrap();
    let facts = interface(lab.tx());
    let of = |key: &str| facts.get(&format!("interface.{}-tx.t0.{key}", lab.name()));
    assert_eq!((of("driver"), of("mtu"), of("ip.xdp")), (Some("veth"), Some("1500"), Some("none")));
    assert!(of("qdisc").is_some_and(|qdisc| qdisc.starts_with("noqueue")), "{:?}", of("qdisc"));
    assert_eq!(of("napi.threaded"), Some("0"));
    assert!(of("timestamping.capabilities").is_some_and(|list| list.contains("software-receive")));
    facts.facts().for_each(|(key, value)| eprintln!("{key} = {value}"));
}

#[test]
fn an_interface_of_the_host_is_filed_under_host() {
    let facts = interface(&link(None, "lo").unwrap());
    assert!(facts.facts().all(|(key, _)| key.starts_with("interface.host.lo.")));
}

#[test]
fn the_time_between_two_readings_is_told_per_core() {
    let first = CpuTimes::now();
    thread::sleep(Duration::from_millis(50));
    let facts = CpuTimes::now().steal_since(&first);
    for core in online_cores() {
        assert!(facts.get(&format!("steal.cpu{core}")).is_some());
        assert!(facts.get(&format!("interrupts.cpu{core}")).is_some_and(|rate| rate.ends_with("/s")));
    }
}
