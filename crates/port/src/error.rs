//! Why a trial failed.

use std::io;
use usect_core::scenario::Stamp;

/// How long a port may take nothing at all of a sender without a pace.
pub(crate) const STUCK_NS: u64 = 2_000_000_000;

/// Why a trial failed. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The sender can't keep the rate.
    #[error(
        "the rate can't be reached: {requested:.0} frames/s were asked for and {reached:.0} came out; lower the rate, choose a \
         faster engine, or keep other work off the host"
    )]
    Rate {
        /// Frames per second asked for.
        requested: f64,
        /// Frames per second that left.
        reached: f64,
    },
    /// An operation on a port failed.
    #[error("{what} failed: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The frames that were asked for can't be made or sent.
    #[error("{0}")]
    Frame(String),
    /// Nobody took the stamps that were asked for.
    #[error(
        "no frame got the {stamp} stamps that were asked for ({missing}): `usect engines --interface IF` says who stamps there; \
         the app stamps are always there"
    )]
    Unstamped {
        /// Whose stamps.
        stamp: Stamp,
        /// Where they lacked.
        missing: String,
    },
    /// The kernel numbered departures otherwise than they were sent.
    #[error(
        "the interface had no room for a frame, and the kernel counts its second try as another frame, so that stamps \
         can't be told apart from there on: lower the rate, or use the app stamps"
    )]
    Shifted,
    /// The time of day was set while frames were stamped by it.
    #[error("somebody set the host's clock during the trial, and the kernel stamps frames by it: measure again")]
    ClockSet,
    /// The counts of a trial do not add up.
    #[error(transparent)]
    Unbalanced(#[from] usect_core::tracker::Unbalanced),
}

impl ClientError {
    /// An operation failed.
    pub fn io(what: impl Into<String>, source: io::Error) -> ClientError {
        ClientError::Io { what: what.into(), source }
    }

    pub(crate) fn sending(source: io::Error) -> ClientError {
        ClientError::io("sending", source)
    }

    /// A port took nothing at all for [`STUCK_NS`], where no pace says what is late.
    pub(crate) fn stuck() -> ClientError {
        ClientError::sending(io::Error::other("the port takes no more frames"))
    }

    pub(crate) fn receiving(source: io::Error) -> ClientError {
        ClientError::io("receiving", source)
    }
}
