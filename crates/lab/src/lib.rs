//! The bench: network namespaces joined by veth pairs, and what there is to know about the host.
//!
//! Everything that is made here is journalled before it exists, so that a run that was killed leaves
//! nothing that [`recover`] can't remove. Namespaces are those of `ip netns`, by its names, and are
//! made by iproute2 and ethtool, whose commands a user can repeat by hand.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod audit;
mod auditing;
mod change;
pub mod companion;
mod cpuset;
pub mod ends;
mod error;
mod group;
mod journal;
mod lab;
mod link;
mod lock;
pub mod module;
mod name;
mod netns;
mod owner;
mod privilege;
pub mod processes;
mod program;
mod setting;
pub mod settings;
mod state;
pub mod steering;
pub mod survivor;
mod topology;
pub mod tune;

pub use error::LabError;
pub use lab::{Lab, LabInfo, TapLinks, down, list, recover};
pub use link::{Link, cards, check_route, line_bits, link, named, peer, receive_queues};
pub use lock::{Lock, lock, recovering};
pub use netns::{netns_inum, within};
pub use program::run;
pub use state::State;
pub use topology::{MOST_FUNCTIONS, Shape, await_forwarding};
