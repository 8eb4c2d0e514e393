//! The binary `usect`, run as a user runs it, in network namespaces that it makes itself.
//!
//! Tests run one at a time, also across processes and with any number of threads: see
//! [`world::World`]. They need root; elsewhere each says `skipped: REASON` and returns. No test asserts a
//! latency or a duration. What is asserted of counts holds on a noisy host too, but for the fault tests,
//! which need the path to lose nothing by itself and are slow and small for that reason.

mod compare;
mod dissect;
mod faults;
mod functions;
mod hardware;
mod hosts;
mod inside;
mod labs;
mod matrix;
mod monitor;
mod prometheus;
mod refused;
mod reports;
mod signals;
mod stamps;
mod suites;
mod trains;
mod two_hosts;
mod world;
