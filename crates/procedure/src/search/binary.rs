//! The search of RFC 2544 §26.1, halving: every trial in full length.

use super::{Ask, Bounds, Found, Goal, Range, Search, Tried, found, middle, passes_nothing, undecided};

/// Halves the distance between a load that is too much and one that isn't.
#[derive(Debug, Clone, Copy)]
pub struct Binary {
    /// What is sought.
    pub goal: Goal,
    /// Where.
    pub range: Range,
}

impl Search for Binary {
    fn next(&self, tried: &[Tried]) -> Option<Ask> {
        let Binary { goal, range } = self;
        let bounds = Bounds::of(goal, tried);
        if bounds.are_near(goal.width, *range) {
            return None;
        }
        let again = undecided(goal, tried, &bounds).next();
        let load = again.unwrap_or_else(|| match bounds {
            Bounds { upper: None, .. } => range.most,
            Bounds { lower: None, .. } if passes_nothing(tried) => range.least,
            Bounds { lower: None, upper: Some(upper) } if upper - range.least <= 1 => range.least,
            Bounds { lower, upper: Some(upper) } => middle(lower.unwrap_or(range.least), upper),
        });
        Some(Ask { load, lasts_ns: goal.final_ns })
    }

    fn found(&self, tried: &[Tried]) -> Vec<Found> {
        vec![found(&self.goal, tried)]
    }
}
