//! Multiple Loss Ratio search (RFC 9971): several goals at once, and short trials where they are enough.
//!
//! Each goal is approached in phases. The first has short trials and a wide goal, the last is the goal itself; each begins
//! at the bounds that the one before has found, so that a long trial is spent on little but the lower bound. Where a
//! single frame too many decides (a Goal Exceed Ratio of 0), a short trial is enough to tell that a load is too much.
//! Goals are approached in the order of their loss, the largest first: its lower bound is where the next one begins.

use super::{Ask, Bounds, Found, Goal, Range, Search, Tried, found, loads, middle, passes_nothing, undecided};

/// Trials of the first phase, in nanoseconds (Goal Initial Trial Duration).
const SHORT_NS: u64 = 1_000_000_000;
/// Phases of a goal whose trials are longer than that.
const PHASES: u32 = 3;
/// Times as wide the goal of a phase is as that of the next one.
const WIDER: f64 = 2.0;

/// Searches for several goals.
#[derive(Debug, Clone)]
pub struct Mlr {
    goals: Vec<Goal>,
    /// Their numbers, the largest loss first.
    order: Vec<usize>,
    range: Range,
    short_ns: u64,
}

impl Mlr {
    /// For these goals.
    pub fn new(goals: Vec<Goal>, range: Range) -> Mlr {
        let mut order: Vec<usize> = (0..goals.len()).collect();
        order.sort_by(|&a, &b| goals[b].loss.total_cmp(&goals[a].loss));
        let shortest = goals.iter().map(|goal| goal.final_ns).min().unwrap_or(SHORT_NS);
        Mlr { goals, order, range, short_ns: SHORT_NS.min(shortest) }
    }

    /// The same with a first phase of trials of this length, in nanoseconds.
    pub fn beginning_with(self, short_ns: u64) -> Mlr {
        Mlr { short_ns, ..self }
    }

    /// A goal's phases, the last of which is the goal itself. Lengths of trials grow by the same factor.
    fn phases(&self, goal: &Goal) -> impl Iterator<Item = Goal> + use<> {
        let (goal, short) = (*goal, self.short_ns as f64);
        let phases = if goal.final_ns > self.short_ns { PHASES } else { 1 };
        let growth = goal.final_ns as f64 / short;
        (0..phases).map(move |phase| {
            let left = phases - 1 - phase;
            if left == 0 {
                return goal;
            }
            let lasts_ns = (short * growth.powf(f64::from(phase) / f64::from(phases - 1))) as u64;
            Goal { final_ns: lasts_ns, sum_ns: lasts_ns, width: goal.width * WIDER.powi(left as i32), ..goal }
        })
    }

    /// What a phase asks for, given what the one before has found; nothing, when it is done.
    fn approach(&self, phase: &Goal, hint: &Bounds, tried: &[Tried]) -> Option<Ask> {
        let range = self.range;
        let bounds = Bounds::of(phase, tried);
        if bounds.are_near(phase.width, range) {
            return None;
        }
        // A load that was only tried for a short time is what the hint is about: it is tried again where it is the hint.
        let begun = |load: &u64| tried.iter().any(|t| t.load == *load && t.lasted_ns >= phase.final_ns);
        let again = undecided(phase, tried, &bounds).find(begun);
        let load = again.unwrap_or_else(|| match bounds {
            Bounds { lower: None, upper: Some(_) } if passes_nothing(tried) => range.least,
            Bounds { lower, upper } => self.new_load(phase, (lower, upper), hint, tried),
        });
        Some(Ask { load, lasts_ns: phase.final_ns })
    }

    fn new_load(
        &self,
        phase: &Goal,
        (lower, upper): (Option<u64>, Option<u64>),
        hint: &Bounds,
        tried: &[Tried],
    ) -> u64 {
        let range = self.range;
        let inside = |load: &u64| lower.is_none_or(|l| *load > l) && upper.is_none_or(|u| *load < u);
        let hinted = |load: Option<u64>| load.filter(inside);
        match (lower, upper) {
            (None, Some(upper)) => hinted(hint.lower)
                .or_else(|| forwarded(upper, tried).filter(|load| inside(load) && *load >= range.least))
                .unwrap_or_else(|| self.below(phase, upper, tried)),
            (Some(lower), None) => hinted(hint.upper).unwrap_or_else(|| self.above(phase, lower, tried)),
            (Some(lower), Some(upper)) => {
                hinted(hint.upper).or(hinted(hint.lower)).unwrap_or_else(|| middle(lower, upper))
            }
            (None, None) => hinted(hint.lower).unwrap_or(range.most),
        }
    }

    /// A load below one that is too much: by twice the width, and each time by twice as much as the last.
    fn below(&self, phase: &Goal, upper: u64, tried: &[Tried]) -> u64 {
        let near = (upper as f64 * phase.width * WIDER) as u64;
        // The largest of all is no step of ours.
        let last = match loads(tried).into_iter().filter(|load| *load > upper).collect::<Vec<u64>>()[..] {
            [next, _, ..] => next - upper,
            _ => 0,
        };
        upper.saturating_sub(near.max(2 * last).max(1)).max(self.range.least)
    }

    /// A load above one that isn't.
    fn above(&self, phase: &Goal, lower: u64, tried: &[Tried]) -> u64 {
        let near = lower + ((lower as f64 * phase.width * WIDER) as u64).max(1);
        let largest = tried.iter().map(|t| t.load).max().unwrap_or(self.range.most);
        if largest > lower { near.min(largest) } else { near }.min(self.range.most)
    }
}

/// Frames per second that arrived of the largest load, if it is this, in the longest trial of it: there the limit is, if loss
/// is all that happens above. If that is too much, too, it isn't.
fn forwarded(load: u64, tried: &[Tried]) -> Option<u64> {
    if tried.iter().any(|t| t.load > load) {
        return None;
    }
    let longest = tried.iter().filter(|t| t.load == load).max_by_key(|t| t.lasted_ns)?;
    Some((load as f64 * (1.0 - longest.loss)) as u64)
}

impl Search for Mlr {
    fn next(&self, tried: &[Tried]) -> Option<Ask> {
        let mut hint = Bounds { lower: None, upper: None };
        for &goal in &self.order {
            for phase in self.phases(&self.goals[goal]) {
                if let Some(ask) = self.approach(&phase, &hint, tried) {
                    return Some(ask);
                }
                hint = Bounds::of(&phase, tried);
            }
        }
        None
    }

    fn found(&self, tried: &[Tried]) -> Vec<Found> {
        self.goals.iter().map(|goal| found(goal, tried)).collect()
    }
}
