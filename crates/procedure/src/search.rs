//! Searches for a throughput: which load to try next, and for how long, decided from every trial so far.
//!
//! A search keeps no state of its own, so one that was interrupted goes on from its trials. A load is in frames per second.

mod binary;
mod goal;
mod mlr;

pub use binary::Binary;
pub use goal::{Class, Goal, Tried, classify, conditional_throughput};
pub use mlr::Mlr;

/// A trial that a search asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Frames per second.
    pub load: u64,
    /// How long, in nanoseconds.
    pub lasts_ns: u64,
}

/// Which loads are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The smallest that is of interest.
    pub least: u64,
    /// The largest that there is: that of the line.
    pub most: u64,
}

/// What is known of a goal at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The largest load that is below every one that is too much (the Relevant Lower Bound of RFC 9971): none, where the
    /// least is too much.
    pub lower: Option<u64>,
    /// The smallest that is too much (the Relevant Upper Bound): none, where the line itself isn't.
    pub upper: Option<u64>,
    /// What is forwarded at the lower bound, in frames per second (RFC 9971 §4.6.2).
    pub throughput: Option<f64>,
}

/// Decides what to try.
pub trait Search {
    /// The next trial; none, when every goal is reached.
    fn next(&self, tried: &[Tried]) -> Option<Ask>;

    /// What is known of each goal.
    fn found(&self, tried: &[Tried]) -> Vec<Found>;
}

/// The bounds of a goal, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    lower: Option<u64>,
    upper: Option<u64>,
}

/// Every load that was tried, each once, ascending.
fn loads(tried: &[Tried]) -> Vec<u64> {
    let mut loads: Vec<u64> = tried.iter().map(|trial| trial.load).collect();
    loads.sort_unstable();
    loads.dedup();
    loads
}

impl Bounds {
    fn of(goal: &Goal, tried: &[Tried]) -> Bounds {
        let classes: Vec<(u64, Class)> =
            loads(tried).into_iter().map(|load| (load, classify(goal, load, tried))).collect();
        let upper = classes.iter().find(|(_, class)| *class == Class::Upper).map(|(load, _)| *load);
        let below =
            classes.iter().filter(|(load, class)| *class == Class::Lower && upper.is_none_or(|upper| *load < upper));
        Bounds { lower: below.map(|(load, _)| *load).next_back(), upper }
    }

    /// Whether nothing more is to be learnt: both are near each other, or beyond the range.
    fn are_near(&self, width: f64, range: Range) -> bool {
        match *self {
            Bounds { lower: Some(lower), upper: Some(upper) } => {
                upper - lower <= 1 || (upper - lower) as f64 <= width * upper as f64
            }
            Bounds { lower: Some(lower), upper: None } => lower >= range.most,
            Bounds { lower: None, upper: Some(upper) } => upper <= range.least,
            Bounds { lower: None, upper: None } => false,
        }
    }
}

/// Loads between the bounds that were tried, and not for long enough to say; ascending.
fn undecided<'a>(goal: &'a Goal, tried: &'a [Tried], bounds: &Bounds) -> impl DoubleEndedIterator<Item = u64> + 'a {
    let Bounds { lower, upper } = *bounds;
    let between = move |load: &u64| lower.is_none_or(|l| *load > l) && upper.is_none_or(|u| *load < u);
    let open = move |load: &u64| classify(goal, *load, tried) == Class::Undecided;
    loads(tried).into_iter().filter(between).filter(open)
}

fn middle(lower: u64, upper: u64) -> u64 {
    lower + (upper - lower) / 2
}

/// Whether everything was lost in every trial: then the least load is the one to try, and no time to be lost on others.
fn passes_nothing(tried: &[Tried]) -> bool {
    !tried.is_empty() && tried.iter().all(|trial| trial.loss >= 1.0)
}

/// What is known of a goal.
fn found(goal: &Goal, tried: &[Tried]) -> Found {
    let Bounds { lower, upper } = Bounds::of(goal, tried);
    Found { lower, upper, throughput: lower.map(|load| conditional_throughput(goal, load, tried)) }
}

#[cfg(test)]
mod arithmetic;
