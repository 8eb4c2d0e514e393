//! Loads a path, and watches what that costs, by the programs that users trust: iperf3 sends and receives, ping asks; and by
//! the kernel's own accounts of queues, cores and processes. What programs print is read by parsers that survive anything.
#![forbid(unsafe_code)]

pub mod iperf;
pub mod ping;
pub mod queue;
pub mod usage;

use usect_lab::LabError;

/// Why a load or a watch failed. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A program that is not there, a namespace.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A program said that it failed.
    #[error("{program}: {}", .why.strip_prefix(program).and_then(|why| why.strip_prefix(": ")).unwrap_or(.why))]
    Said {
        /// Which.
        program: &'static str,
        /// Its own words.
        why: String,
    },
    /// What it printed isn't what it should be.
    #[error("what {program} printed can't be read: {why}")]
    Unreadable {
        /// Which.
        program: &'static str,
        /// What is wrong.
        why: String,
    },
}
