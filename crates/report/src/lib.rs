//! What becomes of a run: the folder that keeps it, the table for the terminal, the page to read.
//!
//! Nothing here measures or judges: every figure, interval and `n/a` comes from [`usect_core`], and is
//! shown as it stands. A run is written by [`store::create`] and [`store::RunFolder::save`], read by
//! [`store::open`] (or, without its distributions, [`store::read_run`]), shown by [`table()`] and
//! [`html()`]. What is to be read while it is measured is in [`exposition`].
#![forbid(unsafe_code)]

mod calibrated;
mod converge;
mod curve;
mod dissect;
pub mod exposition;
mod format;
mod grid;
mod grids;
mod head;
mod histograms;
mod hlog;
pub mod host;
mod loads;
mod matrix;
pub mod monitor;
mod page;
mod plots;
mod series;
pub mod store;
mod sudo;
mod suite;
mod sweep;
mod table;
mod trains;
mod verdict;
mod view;

pub use histograms::{ClientHistograms, Histograms};
pub use page::{PageError, html};
pub use store::StoredRun;
pub use table::table;
