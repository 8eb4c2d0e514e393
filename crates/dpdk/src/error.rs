//! Why something of DPDK did not work, one sentence each.

/// Why something of DPDK did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// There was no DPDK when usect was built.
    #[error("this usect was built without DPDK; install libdpdk-dev (`make deps`) and build it again")]
    NotBuilt,
    /// The environment abstraction layer refused to start.
    #[error("DPDK can't start: {0}")]
    Start(String),
    /// It was started before, otherwise.
    #[error("DPDK was started with other arguments before, and can be started once per process only")]
    StartedOtherwise,
    /// A device can't be used.
    #[error("DPDK device `{device}`: {why}")]
    Device {
        /// As it was named.
        device: String,
        /// Why, and what to do.
        why: String,
    },
}

impl DpdkError {
    /// A device that can't be used.
    #[cfg_attr(not(dpdk), expect(dead_code, reason = "only a device can fail"))]
    pub(crate) fn device(device: &str, why: impl Into<String>) -> DpdkError {
        DpdkError::Device { device: device.to_owned(), why: why.into() }
    }
}
