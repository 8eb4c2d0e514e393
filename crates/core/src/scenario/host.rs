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

impl DpdkSpec {
    pub(super) fn is_default(&self) -> bool {
        *self == DpdkSpec::default()
    }
}
