//! A matrix of settings, in words: its cells, what moves which figure, and what wasn't measured.

pub(crate) mod page;

use std::collections::BTreeMap;
use usect_core::matrix::{Became, LATENCIES, Measured, Moved, RESPONSES, Response, WAYS};
use usect_core::stats::Bounded;

/// The figures that stand in the table, by their places in [`RESPONSES`], and their columns' names.
const SHOWN: [(usize, &str); 7] =
    [(0, "probe p50"), (1, "p99"), (11, "lost %"), (2, "ping"), (3, "Mbit/s"), (4, "CPU 1st"), (5, "CPU 2nd")];

/// What the columns mean.
pub(crate) const READING: &str = "probe: median and 99th percentile of a light flow of usect's, there and back beside the load, µs, of those that came back; lost: the others; ping: the mean of its echoes, µs; Mbit/s: \
    the load's throughput at its receiver; CPU: what iperf3 worked at the first and the second end, % of a core. Means over the repetitions; the \
    interval, cut at 0, covers the mean in 95 of 100 repetitions of the whole; of two repetitions it is wide, of one trial, or where all are alike, it has no width and isn't shown. n/a: not measured, or too few samples.";

/// What the columns of all latencies mean.
pub(crate) const LATENCIES_READING: &str = "Latencies of the probe, there and back, µs, and the standard deviation of ping's echoes: means over the repetitions, and the interval \
    that covers the mean in 95 of 100 repetitions of the whole.";

/// What the columns of the two ways mean.
pub(crate) const WAYS_READING: &str = "The probe's way there and its way back, µs: from when it left to when the program at the other end had it, and from then on to when it was \
    back. Known to: each figure is wrong by this at the most, and what is too much of one way is too little of the other. Between hosts it follows from round trips alone: \
    no frame arrives before it left. 0: both ends have one clock.";

/// What the list of effects means.
pub(crate) const MOVES: &str = "A difference of means over all combinations of the other settings that were measured, with its 95% interval. Told here is what is no noise: a false alarm \
    among all effects on a figure has a probability of 5% (Holm). Under: how the difference differs under another setting; where that is as large as the difference itself, no single \
    combination need have it: look at the cells.";

/// Names of the table's columns.
pub(crate) fn heads() -> impl Iterator<Item = String> {
    SHOWN.iter().map(|(_, head)| (*head).to_owned())
}

fn shown() -> impl Iterator<Item = &'static Response> + Clone {
    SHOWN.iter().map(|(place, _)| &RESPONSES[*place])
}

/// Names of the columns of the two ways.
pub(crate) fn heads_of_ways() -> impl Iterator<Item = String> {
    WAYS.iter().map(|way| way.name.to_owned()).chain(["known to ±".to_owned()])
}

/// A cell that was measured at least once.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) figures: Vec<Option<Bounded>>,
    /// Trials that were measured.
    pub(crate) trials: usize,
}

/// The cells in the file's order.
pub(crate) fn rows(measured: &Measured) -> Vec<Row> {
    rows_of(measured, shown())
}

/// The same with all latencies.
pub(crate) fn latencies(measured: &Measured) -> Vec<Row> {
    rows_of(measured, LATENCIES.iter())
}

/// Names of their columns.
pub(crate) fn heads_of_latencies() -> impl Iterator<Item = String> {
    LATENCIES.iter().map(|latency| latency.name.to_owned())
}

fn rows_of(measured: &Measured, responses: impl Iterator<Item = &'static Response> + Clone) -> Vec<Row> {
    let Measured { matrix, trials, .. } = measured;
    let row = |cell: Vec<usize>| {
        let seen =
            |tried: &&usect_core::matrix::Tried| tried.turn.cell == cell && matches!(tried.became, Became::Seen(_));
        let seen = trials.iter().filter(seen).count();
        let figures = responses.clone().map(|response| response.mean(trials, &cell)).collect();
        (seen > 0).then(|| Row { label: matrix.label(&cell), figures, trials: seen })
    };
    matrix.cells().into_iter().filter_map(row).collect()
}

/// The cells again, with the two ways of their probes; and how well they are known, in microseconds. Only those of which that is known.
pub(crate) fn ways(measured: &Measured) -> Vec<(Row, f64)> {
    let Measured { matrix, trials, .. } = measured;
    let way = |cell: Vec<usize>| {
        let own = trials.iter().filter(|tried| tried.turn.cell == cell);
        let apart = |tried: &usect_core::matrix::Tried| match &tried.became {
            Became::Seen(seen) => seen.probe.apart.as_ref().map(|apart| apart.bound_ns),
            _ => None,
        };
        let bounds: Vec<u64> = own.filter_map(apart).collect();
        let figures = WAYS.iter().map(|way| way.mean(trials, &cell)).collect();
        let row = Row { label: matrix.label(&cell), figures, trials: bounds.len() };
        Some((row, bounds.into_iter().max()? as f64 / 1e3))
    };
    matrix.cells().into_iter().filter_map(way).collect()
}

/// A number of about three digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    // Nothing is negative about a zero.
    if text.trim_start_matches(['-', '0', '.']).is_empty() { text.trim_start_matches('-').to_owned() } else { text }
}

/// An interval, where it has a width.
pub(crate) fn interval(value: &Bounded) -> Option<String> {
    (value.low < value.high).then(|| format!("{} to {}", number(value.low), number(value.high)))
}

/// `path ovs against direct, under load tcp against none`.
pub(crate) fn step(moved: &Moved) -> String {
    let words = |step: &usect_core::matrix::Step| format!("{} {} against {}", step.factor, step.level, step.against);
    let under = moved.under.as_ref().map(|under| format!(", under {}", words(under)));
    format!("{}{}", words(&moved.by), under.unwrap_or_default())
}

/// `+35.2 ± 1.1 µs`, and of how many combinations, where some weren't measured.
pub(crate) fn amount(moved: &Moved) -> String {
    let (some, all) = (moved.combinations, moved.of_combinations);
    let of = if some < all { format!(", in {some} of {all} combinations") } else { String::new() };
    let margin = moved.margin.map_or(String::new(), |margin| format!(" ± {}", number(margin)));
    let sign = if moved.estimate > 0.0 { "+" } else { "" };
    format!("{sign}{}{margin} {}{of}", number(moved.estimate), moved.unit)
}

/// What is no noise: of each figure, the settings that move it, those of most weight first, main effects before interactions.
pub(crate) fn told(measured: &Measured) -> Vec<&Moved> {
    let of = |response: &Response| {
        let own = measured.moved.iter().filter(|moved| moved.figure == response.name && moved.significant);
        let mut own: Vec<&Moved> = own.collect();
        own.sort_by(|a, b| {
            let kinds = a.under.is_some().cmp(&b.under.is_some());
            kinds.then(b.estimate.abs().total_cmp(&a.estimate.abs()))
        });
        own
    };
    RESPONSES.iter().flat_map(of).collect()
}

/// Why there is nothing to tell.
pub(crate) fn nothing(measured: &Measured) -> &'static str {
    match measured.moved.iter().any(|moved| moved.margin.is_some()) {
        true => "no setting moves any figure by more than noise",
        false => "nothing tells yet what is noise: that takes two trials of each combination, and several are better",
    }
}

/// What wasn't measured: which cells, and why.
pub(crate) fn missing(measured: &Measured) -> Vec<(String, String)> {
    let mut all: BTreeMap<(&str, &str), BTreeMap<Vec<usize>, usize>> = BTreeMap::new();
    for tried in &measured.trials {
        let (what, why) = match &tried.became {
            Became::Seen(_) => continue,
            Became::Unavailable(why) => ("not available", why),
            Became::Failed(why) => ("failed", why),
        };
        *all.entry((what, why)).or_default().entry(tried.turn.cell.clone()).or_default() += 1;
    }
    let told = |((what, why), cells): ((&str, &str), BTreeMap<Vec<usize>, usize>)| {
        let trials: usize = cells.values().sum();
        let times = if trials == 1 { String::new() } else { format!(", in {trials} trials") };
        (together(measured, &cells.into_keys().collect::<Vec<_>>()), format!("{what}{times}: {why}"))
    };
    all.into_iter().map(told).collect()
}

/// Cells in words: by the level that all of them have and no other has, or one by one.
fn together(measured: &Measured, cells: &[Vec<usize>]) -> String {
    const FEW: usize = 3;
    let (matrix, all) = (&measured.matrix, measured.matrix.cells());
    for (place, factor) in matrix.factors().iter().enumerate() {
        for (level, name) in factor.levels.iter().enumerate() {
            let own = all.iter().filter(|cell| cell[place] == level);
            if cells.len() > 1 && own.clone().count() == cells.len() && own.clone().all(|cell| cells.contains(cell)) {
                return format!("every cell with {} {name}", factor.name);
            }
        }
    }
    let mut names: Vec<String> = cells.iter().take(FEW).map(|cell| matrix.label(cell)).collect();
    if cells.len() > FEW {
        names.push(format!("and {} more cells", cells.len() - FEW));
    }
    names.join("; ")
}

/// What was said of trials, and how often.
pub(crate) fn notes(measured: &Measured) -> Vec<String> {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for tried in &measured.trials {
        let Became::Seen(seen) = &tried.became else { continue };
        seen.notes.iter().for_each(|note| *all.entry(note).or_default() += 1);
    }
    let later = measured.trials.iter().filter(|tried| tried.session > 1).count();
    let later = (later > 0).then(|| {
        format!(
            "{later} of {} trials were measured after it had been gone on with: cells that were never measured in the same session are not compared",
            measured.trials.len()
        )
    });
    let told = |(note, times)| format!("{note} (in {times} of {} trials)", measured.trials.len());
    all.into_iter().map(told).chain(later).collect()
}

/// What was set up.
pub(crate) fn setup(measured: &Measured) -> String {
    let cells = measured.matrix.cells().len();
    let factors: Vec<String> =
        measured.matrix.factors().iter().map(|f| format!("{} × {}", f.levels.len(), f.name)).collect();
    let over = match measured.ends.is_empty() {
        true => String::new(),
        false => format!("{}, over whatever stands between them; ", measured.ends.join(" to ")),
    };
    let product: usize = measured.matrix.factors().iter().map(|factor| factor.levels.len()).product();
    let one_way = if cells < product { " (without a load, in one direction only)" } else { "" };
    let (factors, trials) = (factors.join(", "), measured.trials.len());
    let of = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (cells, trials) = (of(cells, "cell"), of(trials, "trial"));
    format!("{over}{cells} of {factors}{one_way}, in an order drawn by lot; {trials}")
}

#[cfg(test)]
mod tests {
    use super::*;

    use usect_core::histogram::Histogram;
    use usect_core::matrix::{Distribution, Matrix, Pinged, Probed, Seen, Tried};
    use usect_core::tracker::Counts;

    fn seen(ns: u64) -> Became {
        let mut histogram = Histogram::default();
        (0..2_000).for_each(|_| histogram.record(ns));
        Became::Seen(Box::new(Seen {
            probe: Probed { counts: Counts::default(), latency: Distribution::of(&histogram), apart: None },
            ping: Pinged { sent: 1, rtts_ns: vec![ns] },
            load: None,
            cores: Vec::new(),
            processes: Vec::new(),
            arrived: None,
            queues: Vec::new(),
            notes: vec!["in user space".into()],
        }))
    }

    fn measured(runs: u32) -> Measured {
        let text = "title = \"\"\n[vary]\nqueue = [\"pfifo\", \"sfq\"]\npath = [\"direct\", \"ovs\"]\n";
        let mut measured = Measured::of(Matrix::parse(text).unwrap(), Vec::new());
        for turn in measured.matrix.order(runs) {
            let ns = 20_000 + 30_000 * turn.cell[1] as u64 + 10 * u64::from(turn.repetition);
            let became = if turn.cell[0] == 1 { Became::Unavailable("no sfq".into()) } else { seen(ns) };
            measured.add(Tried { turn, session: 1, became });
        }
        measured
    }

    #[test]
    fn cells_effects_and_what_is_missing_are_told() {
        let measured = measured(3);
        let rows = rows(&measured);
        let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["pfifo, direct", "pfifo, ovs"]);
        assert!(rows.iter().all(|row| row.trials == 3 && row.figures[0].is_some() && row.figures[4].is_none()));
        let told: Vec<String> = told(&measured)
            .into_iter()
            .map(|moved| format!("{}: {}: {}", moved.figure, step(moved), amount(moved)))
            .collect();
        assert!(told[0].starts_with("probe, median: path ovs against direct: +30.0 ± "), "{told:?}");
        let why = ("every cell with queue sfq".to_owned(), "not available, in 6 trials: no sfq".to_owned());
        assert_eq!(missing(&measured), [why]);
        let two = [vec![0, 0], vec![1, 1]];
        assert_eq!(together(&measured, &two), "pfifo, direct; sfq, ovs");
        assert_eq!(notes(&measured), ["in user space (in 6 of 12 trials)"]);
        assert!(setup(&measured).contains("4 cells of 2 × queue, 2 × path"));
    }

    #[test]
    fn without_repetitions_nothing_is_called_anything() {
        let measured = measured(1);
        assert!(told(&measured).is_empty() && nothing(&measured).contains("takes two trials"));
        assert_eq!(missing(&measured)[0].1, "not available, in 2 trials: no sfq");
    }

    #[test]
    fn numbers_have_three_digits_and_zero_no_sign() {
        let cases =
            [(1234.5, "1234"), (99.96, "100.0"), (12.34, "12.3"), (1.234, "1.23"), (-0.001, "0.00"), (-3.0, "-3.00")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
