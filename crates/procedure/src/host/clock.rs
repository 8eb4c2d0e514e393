//! Whether time can be read, and at what cost.

use super::{Host, about, number};
use usect_core::advice::{Advice, Weight};

pub(super) fn tsc(host: &Host) -> Advice {
    let about = about("time stamp counter", "Intel SDM vol. 3 §18.17 (invariant TSC); paper 002 §2.2");
    let flags = ["constant_tsc", "nonstop_tsc"].map(|flag| format!("cpu.flags.{flag}"));
    let evidence = flags.iter().filter_map(|key| host.quote(key));
    if let Some(why) = host.facts.get("measured.clock").and_then(|value| value.strip_prefix("n/a: ")) {
        let mend = "look for `tsc` in the kernel's log; measure on another host";
        let evidence = ["measured.clock", "clocksource.available"].into_iter().filter_map(|key| host.quote(key));
        return about.costs(Weight::Grave, why, evidence, mend);
    }
    if flags.iter().all(|key| host.get(key) == Some("yes")) {
        return about.fine("it counts at one rate in every state of the processor", evidence);
    }
    let finding =
        "its rate changes with the processor's, or it stops when that sleeps: no latency can be measured with it";
    about.costs(
        Weight::Grave,
        finding,
        evidence,
        "measure on another host; in a guest, have the hypervisor pass invtsc on",
    )
}

/// From this cost on, a reading of the clock is a call of the kernel.
const CALL_NS: f64 = 150.0;

pub(super) fn clocksource(host: &Host) -> Advice {
    let about = about("clock source", "kernel: timers/timekeeping");
    let Some(source) = host.get("clocksource.current") else {
        return about.unknown(host.missing("clocksource.current"));
    };
    let cost = host.get("measured.clock_read_ns").and_then(number);
    let said = cost.map_or(String::new(), |ns| format!(", {ns:.0} ns a reading"));
    let evidence = ["clocksource.current", "clocksource.available", "measured.clock_read_ns"];
    let evidence = evidence.into_iter().filter_map(|key| host.quote(key));
    let mend =
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, or boot with clocksource=tsc";
    match source {
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => about.costs(
            Weight::Grave,
            format!("{source}{said}: reading it costs a microsecond or is too coarse"),
            evidence,
            mend,
        ),
        _ if cost.is_some_and(|ns| ns > CALL_NS) => {
            about.costs(Weight::Serious, format!("{source}{said}: it is read by a call of the kernel"), evidence, mend)
        }
        _ => about.fine(format!("{source}{said}"), evidence),
    }
}
