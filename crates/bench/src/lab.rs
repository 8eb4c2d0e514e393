//! A bare wire of usect's own to measure over.

use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two namespaces joined by a veth pair; taken down when dropped.
pub(crate) struct Lab {
    usect: PathBuf,
}

const NAME: &str = "bench";

impl Lab {
    pub(crate) const TX: &str = "bench-tx";
    pub(crate) const RX: &str = "bench-rx";
    pub(crate) const TX_ADDRESS: &str = "198.18.0.1";
    pub(crate) const RX_ADDRESS: &str = "198.18.0.2";

    pub(crate) fn up(usect: &Path) -> Result<Lab> {
        let status = Command::new(usect).args(["lab", "up", NAME]).stdout(std::process::Stdio::null()).status()?;
        ensure!(status.success(), "`usect lab up {NAME}` failed");
        Ok(Lab { usect: usect.to_owned() })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let taken_down =
            Command::new(&self.usect).args(["lab", "down", NAME]).stdout(std::process::Stdio::null()).status();
        if !taken_down.is_ok_and(|s| s.success()) {
            eprintln!("the lab `{NAME}` is still up; take it down with `usect lab down {NAME}`");
        }
    }
}
