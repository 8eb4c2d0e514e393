//! Procedures: what to try next, decided from what was measured so far. Pure: nothing here sends a
//! frame, so that each procedure is tested against arithmetic instead of a network.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod compare;
pub mod host;
pub mod monitor;
pub mod rfc2544;
pub mod search;

use usect_core::findings::Findings;
use usect_core::run::TrialRecord;
use usect_core::trial::Trial;

/// What a procedure wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// One more trial.
    Run(Box<Trial>),
    /// Nothing more: the results are complete.
    Done,
}

/// How a procedure goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// What is known so far of what it looks for at the moment.
    pub bounds: Option<String>,
    /// About how many seconds it still takes.
    pub left_s: f64,
}

/// A state machine over trials.
pub trait Procedure {
    /// What to do after these trials, which are all so far, in order. It depends on nothing else, so that a run that was
    /// interrupted goes on from what is stored of it.
    fn next(&self, trials: &[TrialRecord]) -> Step;

    /// What came out so far of benchmarks.
    fn findings(&self, trials: &[TrialRecord]) -> Option<Findings> {
        let _ = trials;
        None
    }

    /// How it goes on, where that isn't known from the start.
    fn outlook(&self, trials: &[TrialRecord]) -> Option<Outlook> {
        let _ = trials;
        None
    }

    /// How many trials it will run in all, where that is known from the start.
    fn trials(&self) -> Option<usize> {
        None
    }
}
