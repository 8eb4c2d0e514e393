//! Buses and the cards on them; what the firmware does behind the kernel's back.

use super::text::chosen;
use super::{names, read, set_or};
use crate::auditing;
use std::fs::File;
use std::os::unix::fs::FileExt;
use usect_core::environment::Environment;

const DEVICES: &str = "/sys/bus/pci/devices";

pub(super) fn audit(facts: &mut Environment) {
    power_saving(facts);
    let state = auditing::state();
    set_or(facts, "kernel.audit", state.as_ref().ok(), state.as_ref().err().map_or("", String::as_str));
    // A limit that somebody set on how late a core may wake up holds for all.
    if let Some(us) = dma_latency() {
        facts.set("cpu.dma_latency_us", us);
    }
}

/// The policy of PCIe's power saving, and the links that may.
fn power_saving(facts: &mut Environment) {
    let policy = read("/sys/module/pcie_aspm/parameters/policy").map(|text| chosen(&text));
    set_or(facts, "pci.aspm.policy", policy, "no PCI Express, or a kernel without its power saving");
    let states = |device: &String| {
        let folder = format!("{DEVICES}/{device}/link");
        let value = move |state: &String| read(format!("{folder}/{state}"));
        names(format!("{DEVICES}/{device}/link")).into_iter().filter_map(move |state| Some((value(&state)?, state)))
    };
    let (mut known, mut links) = (false, Vec::new());
    for device in names(DEVICES) {
        let states: Vec<(String, String)> = states(&device).collect();
        known |= !states.is_empty();
        let on: Vec<&str> = states.iter().filter(|(value, _)| value == "1").map(|(_, state)| state.as_str()).collect();
        links.extend((!on.is_empty()).then(|| format!("{device} {}", on.join(" "))));
    }
    let links = if links.is_empty() { "none".to_owned() } else { links.join(", ") };
    set_or(facts, "pci.aspm.links", known.then_some(links), "no link tells; the firmware may keep it to itself");
}

/// PM QoS: the limit that holds, in microseconds; none where nobody has set one.
fn dma_latency() -> Option<i32> {
    /// What the kernel says where there is no limit (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
    const NONE: i32 = 2_000_000_000;
    let mut value = [0; 4];
    File::open("/dev/cpu_dma_latency").ok()?.read_exact_at(&mut value, 0).ok()?;
    Some(i32::from_ne_bytes(value)).filter(|us| *us != NONE)
}

/// How many system management interrupts a core has had since it was switched on (MSR_SMI_COUNT, Intel only).
///
/// Errors: why nothing tells.
pub fn management_interrupts(core: usize) -> Result<u32, String> {
    const SMI_COUNT: u64 = 0x34;
    let path = format!("/dev/cpu/{core}/msr");
    let file =
        File::open(&path).map_err(|e| format!("{path} can't be read ({e}): modprobe msr, on a machine of its own"))?;
    let mut value = [0; 8];
    file.read_exact_at(&mut value, SMI_COUNT).map_err(|_| "this processor doesn't count them".to_owned())?;
    Ok(u64::from_ne_bytes(value) as u32)
}
