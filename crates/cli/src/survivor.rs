//! `usect put-back`: what survives a kill of another usect, and puts back what that left.

use anyhow::Result;
use std::process::ExitCode;
use usect_lab::survivor::{Survivor, outlive};

/// As the command line names it.
const COMMAND: &str = "put-back";

/// Has another process put back what this one changes, should it be killed before that is dropped.
pub(crate) fn start() -> Result<Survivor> {
    Ok(Survivor::start(&[COMMAND])?)
}

/// That process. Nobody listens to it: what can't be put back stays written down, and the next start says why.
pub(crate) fn run(pid: u32) -> Result<ExitCode> {
    outlive(pid)?;
    usect_rig::recover()?;
    Ok(ExitCode::SUCCESS)
}
