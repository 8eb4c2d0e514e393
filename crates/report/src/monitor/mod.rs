//! What becomes of what a monitor finds out: its log, and the page of it.

pub mod log;
mod page;
pub mod words;

pub use page::html;
