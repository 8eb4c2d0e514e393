//! One-way latencies of frames that went there and back between two hosts whose clocks nobody set alike.
//!
//! A frame arrives after it left. One that left at L and was back at B by the near clock, and was there at T by the far one, says so of
//! that moment: the far clock was ahead by T − B at the least and by T − L at the most (the bound behind RFC 5905 §10's δ/2). All
//! frames of some seconds together leave little room to a straight line between these bounds, which is what two steady clocks are to each other
//! (Moon, Skelly and Towsley, "Estimation and removal of clock skew from network delay measurements", 1999): whatever is inside could be true,
//! and nothing else. Where no line is, the clocks weren't steady, and shorter times are looked at.

use crate::histogram::Histogram;

/// Clocks are taken to be steady for so long.
const STEADY_NS: u64 = 10_000_000_000;
/// Fewer frames say too little of how fast one clock runs beside the other.
const FEWEST: usize = 50;
/// Most that one clock gains on the other, a share: quartz is off by 10⁻⁴ at the most, and the kernel changes its pace by 5·10⁻⁴.
const MOST_SKEW: f64 = 1e-3;
/// Stamps are whole nanoseconds.
const ROUNDING_NS: f64 = 1.0;
/// Halvings and thirdings of an interval of skews: what is left moves a bound over ten seconds by less than a nanosecond.
const STEPS: usize = 64;

/// A frame that went there and back, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When it left, by the near clock.
    pub left: u64,
    /// When it was there, by the far clock.
    pub there: u64,
    /// When it was back, by the near clock.
    pub back: u64,
}

/// The two ways apart.
#[derive(Debug, Clone, Default)]
pub struct OneWay {
    /// Latency there, in nanoseconds.
    pub forward: Histogram,
    /// Latency back, the far end's own work included.
    pub back: Histogram,
    /// How wrong each latency can be at the most, in nanoseconds: what is too much there is too little back.
    pub bound_ns: u64,
    /// Frames that are in neither, because no steady clocks explain those of their time.
    pub left_out: u64,
}

/// Splits round trips between two clocks; none where too little is known. `beside` are others that say of the clocks what they can, and are not
/// wanted themselves: those of a quiet path say most.
pub fn split(wanted: &[Exchange], beside: &[Exchange]) -> Option<OneWay> {
    let mut all: Vec<(Exchange, bool)> = wanted.iter().map(|exchange| (*exchange, true)).collect();
    all.extend(beside.iter().map(|exchange| (*exchange, false)));
    all.sort_unstable_by_key(|(exchange, _)| exchange.there);
    let mut apart = OneWay::default();
    let begin = all.first()?.0.there;
    // In equal parts: a short one at the end would say little.
    let span = u128::from(all.last()?.0.there - begin) + 1;
    let parts = span.div_ceil(STEADY_NS.into());
    let part = |(exchange, _): &(Exchange, bool)| u128::from(exchange.there - begin) * parts / span;
    all.chunk_by(|a, b| part(a) == part(b)).for_each(|together| apart.add(together));
    (apart.forward.samples() > 0).then_some(apart)
}

/// The same where both ends have one clock: nothing is unknown.
pub fn split_by_one_clock(exchanges: &[Exchange]) -> Option<OneWay> {
    let mut apart = OneWay::default();
    for exchange in exchanges {
        match (exchange.there.checked_sub(exchange.left), exchange.back.checked_sub(exchange.there)) {
            (Some(forward), Some(back)) => {
                apart.forward.record(forward);
                apart.back.record(back);
            }
            _ => apart.left_out += 1,
        }
    }
    (apart.forward.samples() > 0).then_some(apart)
}

impl OneWay {
    /// Adds the wanted frames of some seconds.
    fn add(&mut self, together: &[(Exchange, bool)]) {
        let wanted = || together.iter().filter(|(_, wanted)| *wanted).map(|(exchange, _)| exchange);
        if together.len() < FEWEST || wanted().next().is_none() {
            self.left_out += wanted().count() as u64;
            return;
        }
        let Some(lead) = Lead::of(together.iter().map(|(exchange, _)| exchange)) else {
            let (first, second) = together.split_at(together.len() / 2);
            self.add(first);
            return self.add(second);
        };
        self.bound_ns = self.bound_ns.max(lead.bound.ceil() as u64);
        for exchange in wanted() {
            let bounds = lead.from.bounds(exchange);
            let (least, most, is) = (bounds.least, bounds.most, lead.line.at(bounds.x));
            self.forward.record((most - is).max(0.0).round() as u64);
            self.back.record((is - least).max(0.0).round() as u64);
        }
    }
}

/// By how much the far clock is ahead: a line in the middle of all that could be true, and how far away from it they get.
struct Lead {
    from: Origin,
    line: Line,
    bound: f64,
}

/// The first of some frames: clocks count from whenever they like, and differences are small.
#[derive(Clone, Copy)]
struct Origin(Exchange);

/// What a frame says of the lead at a moment, all in nanoseconds from an origin.
#[derive(Clone, Copy)]
struct Bounds {
    x: f64,
    least: f64,
    most: f64,
}

#[derive(Clone, Copy)]
struct Line {
    at_begin: f64,
    skew: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.at_begin + self.skew * x
    }
}

impl Origin {
    fn bounds(self, exchange: &Exchange) -> Bounds {
        let since = |now: u64, then: u64| now.wrapping_sub(then) as i64 as f64;
        let x = since(exchange.there, self.0.there);
        Bounds { x, least: x - since(exchange.back, self.0.left), most: x - since(exchange.left, self.0.left) }
    }
}

impl Lead {
    /// Of frames, in the order in which they were there; none where no line lies between all of their bounds.
    fn of<'a>(mut exchanges: impl Iterator<Item = &'a Exchange> + Clone) -> Option<Lead> {
        let from = Origin(*exchanges.clone().next()?);
        let all: Vec<Bounds> = exchanges.by_ref().map(|exchange| from.bounds(exchange)).collect();
        let end = all.last()?.x;
        // The highest and the lowest that a line of some skew can be at a moment.
        let highest =
            |skew: f64, x: f64| all.iter().map(|b| b.most + skew * (x - b.x)).fold(f64::MAX, f64::min) + ROUNDING_NS;
        let lowest =
            |skew: f64, x: f64| all.iter().map(|b| b.least + skew * (x - b.x)).fold(f64::MIN, f64::max) - ROUNDING_NS;
        let room = |skew: f64| highest(skew, end / 2.0) - lowest(skew, end / 2.0);
        let widest = greatest(room, -MOST_SKEW, MOST_SKEW);
        if room(widest) < 0.0 {
            return None;
        }
        // Between these two skews, and only there, is a line: room is concave.
        let (least, most) = (edge(room, widest, -MOST_SKEW), edge(room, widest, MOST_SKEW));
        // Lines that could be true are between these at either end, and so between the chords in the middle.
        let extremes = |x: f64| {
            let (up, down) =
                (greatest(|skew| highest(skew, x), least, most), greatest(|skew| -lowest(skew, x), least, most));
            (highest(up, x), lowest(down, x))
        };
        let ((high, low), (end_high, end_low)) = (extremes(0.0), extremes(end));
        let (at_begin, at_end) = ((high + low) / 2.0, (end_high + end_low) / 2.0);
        let line = Line { at_begin, skew: if end > 0.0 { (at_end - at_begin) / end } else { 0.0 } };
        Some(Lead { from, line, bound: ((high - low) / 2.0).max((end_high - end_low) / 2.0) })
    }
}

/// Where a concave function is greatest.
fn greatest(of: impl Fn(f64) -> f64, mut from: f64, mut to: f64) -> f64 {
    for _ in 0..STEPS {
        let third = (to - from) / 3.0;
        if of(from + third) < of(to - third) { from += third } else { to -= third }
    }
    (from + to) / 2.0
}

/// The last place from `inside`, where a concave function is at least 0, towards `outside`, where it still is.
fn edge(of: impl Fn(f64) -> f64, mut inside: f64, mut outside: f64) -> f64 {
    if of(outside) >= 0.0 {
        return outside;
    }
    for _ in 0..STEPS {
        let middle = (inside + outside) / 2.0;
        if of(middle) >= 0.0 { inside = middle } else { outside = middle }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two clocks, and frames of a millisecond's distance with these latencies there and back.
    fn exchanges(ahead: i64, skew: f64, ways: &[(u64, u64)]) -> Vec<Exchange> {
        let far = |near: u64| (near as i64 + ahead + (skew * (near - 1_000_000_000) as f64).round() as i64) as u64;
        let exchange = |(number, (forward, back)): (usize, &(u64, u64))| {
            let left = 1_000_000_000 + number as u64 * 1_000_000;
            Exchange { left, there: far(left + forward), back: left + forward + back }
        };
        ways.iter().enumerate().map(exchange).collect()
    }

    #[test]
    fn a_queue_on_one_way_is_found_there() {
        let ways: Vec<(u64, u64)> =
            (0..5_000).map(|n: u64| if n.is_multiple_of(3) { (900_000, 12_000) } else { (10_000, 12_000) }).collect();
        let OneWay { forward, back, bound_ns, left_out } =
            split(&exchanges(-77_000_000_000_000, 4.2e-5, &ways), &[]).unwrap();
        assert!(bound_ns <= 11_002 && left_out == 0, "{bound_ns}, {left_out}");
        // A bucket of a histogram is a thousandth wide.
        assert!(forward.max().abs_diff(900_000) <= bound_ns + 1_000, "{}", forward.max());
        assert!(back.max() <= 12_000 + bound_ns + 100, "{}", back.max());
    }

    #[test]
    fn a_clock_that_jumps_is_looked_at_in_parts() {
        let ways = vec![(10_000, 12_000); 2_000];
        let mut all = exchanges(5, 0.0, &ways[..1_000]);
        let after = exchanges(400_000_000, 0.0, &ways).split_off(1_000);
        all.extend(after);
        let OneWay { forward, bound_ns, left_out, .. } = split(&all, &[]).unwrap();
        assert!(forward.max() <= 22_100 && bound_ns <= 11_002, "{}, {bound_ns}", forward.max());
        assert!(left_out < 200 && forward.samples() + left_out == 2_000, "{left_out}");
    }

    #[test]
    fn a_queue_that_never_empties_is_told_by_quiet_moments_beside_it() {
        let quiet = (10_000, 12_000);
        let ways: Vec<(u64, u64)> =
            (0..5_000).map(|n| if (300..4_700).contains(&n) { (2_000_000, 12_000) } else { quiet }).collect();
        let all = exchanges(33_000_000, -2e-5, &ways);
        let beside = [&all[..300], &all[4_700..]].concat();
        let without = split(&all[300..4_700], &[]).unwrap();
        let with = split(&all[300..4_700], &beside).unwrap();
        assert!(without.bound_ns > 900_000 && with.bound_ns < 13_000, "{} {}", without.bound_ns, with.bound_ns);
        assert!(with.forward.min().abs_diff(2_000_000) <= with.bound_ns + 2_000, "{}", with.forward.min());
        assert_eq!((with.forward.samples(), with.left_out), (4_400, 0));
    }

    #[test]
    fn one_clock_knows_all() {
        let mut all = exchanges(0, 0.0, &[(10, 20), (30, 40)]);
        all.push(Exchange { left: 5, there: 4, back: 6 });
        let apart = split_by_one_clock(&all).unwrap();
        assert_eq!((apart.bound_ns, apart.left_out, apart.forward.max(), apart.back.max()), (0, 1, 30, 40));
        assert!(split(&exchanges(0, 0.0, &[(1, 1); 10]), &[]).is_none(), "too few");
        assert!(split(&[], &[]).is_none() && split_by_one_clock(&[]).is_none());
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_bound(
            ahead in -1_000_000_000_i64..1_000_000_000_000_000,
            skew in -2e-4..2e-4,
            ways in proptest::collection::vec((1_000_u64..2_000_000, 1_000_u64..2_000_000), FEWEST..400),
        ) {
            let all = exchanges(ahead, skew, &ways);
            let lead = Lead::of(all.iter()).expect("steady clocks are explained");
            for (exchange, (forward, _)) in all.iter().zip(&ways) {
                let bounds = lead.from.bounds(exchange);
                let found = bounds.most - lead.line.at(bounds.x);
                prop_assert!((found - *forward as f64).abs() <= lead.bound + 2.0, "{found} for {forward}, bound {}", lead.bound);
            }
        }

        #[test]
        fn any_stamps_are_survived(all in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..200)) {
            let all: Vec<Exchange> = all.into_iter().map(|(left, there, back)| Exchange { left, there, back }).collect();
            let _ = (split_by_one_clock(&all), split(&all, &all[..all.len() / 2]));
        }
    }
}
