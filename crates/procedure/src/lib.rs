//! Procedures: what to try next, decided from what was measured so far. Pure: nothing here sends a
//! frame, so that each procedure is tested against arithmetic instead of a network.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod compare;
pub mod monitor;
pub mod search;

use usect_core::trial::{Trial, TrialResult};

/// What a procedure wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// One more trial.
    Run(Box<Trial>),
    /// Nothing more: the results are complete.
    Done,
}

/// A state machine over trials.
pub trait Procedure {
    /// What to do after `results`, which holds every trial so far in order.
    fn next(&mut self, results: &[TrialResult]) -> Step;

    /// How many trials it will run in all, where that is known from the start.
    fn trials(&self) -> Option<usize> {
        None
    }
}
