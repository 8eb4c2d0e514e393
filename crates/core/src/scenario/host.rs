//! What a scenario asks of the host: cores, interrupts, settings, DPDK.

use serde::{Deserialize, Serialize};

/// Cores to pin threads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoreSpec {
    /// The sending thread.
    pub sender: Option<usize>,
    /// The receiving thread; one thread does both where it is the sender's core.
    pub receiver: Option<usize>,
    /// The DUT's thread, where it has one, or the reflector's.
    pub dut: Option<usize>,
    /// The thread of a forwarder's second stream; one thread has both where it is not named and there is no core to spare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dut_back: Option<usize>,
    /// The thread of the other direction, where both are sent at once; the receiver's core, if it isn't named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<usize>,
}

/// An interface whose interrupts and queues are sent to a core, and put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteerSpec {
    /// The interface.
    pub interface: String,
    /// Its namespace, where it isn't the one that usect is started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The core.
    pub core: usize,
}

/// What profiles of the host's settings are about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Interfaces through which is measured, in the namespace that usect is started in: for their moderation and node.
    pub interfaces: Vec<String>,
    /// The core for everything else, where a profile isolates; by default the first.
    pub others: Option<usize>,
}

/// An option's name and value: `--log-level=8`, `-n4`.
fn parts(word: &str) -> (&str, &str) {
    match word.split_once('=') {
        Some(parts) if word.starts_with("--") => parts,
        _ if word.starts_with("--") => (word, ""),
        _ => word.split_at_checked(2).unwrap_or((word, "")),
    }
}

fn is_harmless(option: &str, value: &str) -> bool {
    if option == "--vdev" {
        return value.is_empty()
            || HARMLESS_DEVICES.iter().any(|device| value.starts_with(device)) && !value.contains('/');
    }
    HARMLESS.contains(&option) && !value.contains(['/', '='])
}

impl HostSpec {
    pub(super) fn is_default(&self) -> bool {
        *self == HostSpec::default()
    }
}

/// How DPDK is started, once for the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DpdkSpec {
    /// Whether its memory is in hugepages, which must then be there.
    pub hugepages: bool,
    /// Further arguments of its environment abstraction layer (EAL).
    pub eal: Vec<String>,
}

/// Options of EAL with values that name neither code nor files.
const HARMLESS: [&str; 18] = [
    "--allow",
    "-a",
    "--block",
    "-b",
    "--iova-mode",
    "-l",
    "--lcores",
    "--legacy-mem",
    "--log-level",
    "-m",
    "--main-lcore",
    "--match-allocations",
    "-n",
    "--no-hpet",
    "--no-pci",
    "--no-telemetry",
    "-r",
    "--single-file-segments",
];
/// Virtual devices with arguments that don't, either.
const HARMLESS_DEVICES: [&str; 4] = ["net_af_packet", "net_null", "net_ring", "net_tap"];

impl DpdkSpec {
    /// Arguments by which EAL could be made to load code or touch files (`-d`, `--vdev=net_pcap…`): all that aren't known not to.
    pub fn could_run(&self) -> Vec<&str> {
        let mut found = Vec::new();
        // A word that is no option is the value of the one before.
        let mut option = "";
        for word in self.eal.iter().map(String::as_str) {
            let value = if word.starts_with('-') {
                let (name, value) = parts(word);
                option = name;
                value
            } else {
                word
            };
            if !is_harmless(option, value) {
                // With its option, where that alone said nothing.
                if !word.starts_with('-') && found.last() != Some(&option) && !option.is_empty() {
                    found.push(option);
                }
                found.push(word);
            }
        }
        found
    }

    pub(super) fn is_default(&self) -> bool {
        *self == DpdkSpec::default()
    }
}
