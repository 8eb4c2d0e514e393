//! What about a host costs microseconds, and what mends it.

use serde::Serialize;
use std::fmt;

/// How much a property of a host costs what is measured on it. Ordered: the last is the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Nothing.
    Fine,
    /// It could not be found out.
    Unknown,
    /// Less than a microsecond, single microseconds in the tail, or something to some engines only.
    Slight,
    /// Microseconds of a usual latency, or tens of them in the tail.
    Serious,
    /// Hundreds of microseconds in the tail, or figures that can't be trusted.
    Grave,
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Weight::Fine => "fine",
            Weight::Unknown => "unknown",
            Weight::Slight => "slight",
            Weight::Serious => "serious",
            Weight::Grave => "grave",
        })
    }
}

/// One property of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What it is about: `c-states`, `coalescing of eth1`.
    pub subject: String,
    /// What it costs.
    pub weight: Weight,
    /// What was found, in a sentence.
    pub finding: String,
    /// The facts that it rests on, as `key = value`.
    pub evidence: Vec<String>,
    /// What to do about it; none where it is fine.
    pub mend: Option<String>,
    /// Who says so.
    pub source: &'static str,
}
