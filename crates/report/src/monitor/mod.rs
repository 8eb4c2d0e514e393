//! What becomes of what a monitor finds out: its log, and the page of it.

pub mod log;
pub mod words;
