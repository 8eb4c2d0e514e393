//! The Linux bridge.

use crate::{Dut, DutError, Report};
use usect_lab::{Link, await_forwarding, run};

/// A bridge over two interfaces of one namespace.
#[derive(Debug)]
pub struct Bridge {
    netns: Option<String>,
}

const NAME: &str = "br0";

impl Bridge {
    /// Builds the bridge: no spanning tree, no snooping, so that no frame is its own.
    pub fn start(left: &Link, right: &Link) -> Result<Bridge, DutError> {
        let bridge = Bridge { netns: left.netns.clone() };
        let ip = |args: &str| run(bridge.netns.as_deref(), "ip", &args.split(' ').collect::<Vec<_>>());
        ip(&format!("link add {NAME} type bridge stp_state 0 mcast_snooping 0 forward_delay 0"))?;
        for link in [left, right] {
            ip(&format!("link set {} master {NAME}", link.interface))?;
        }
        ip(&format!("link set {NAME} up"))?;
        await_forwarding(bridge.netns.as_deref(), 2)?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // The namespace's end would take it too; a failure here leaves it to that.
        let _ = run(self.netns.as_deref(), "ip", &["link", "del", NAME]);
    }
}

impl Dut for Bridge {
    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        Ok(Report::default())
    }
}
