//! What the page shows besides its plots, laid out as plain tables of text.

use crate::converge::{self, ConvergeRow};
use crate::grid::{Entry, Grid, Line};
use crate::series::{Series, labelled, letter};
use crate::sweep::{self, Swept};
use crate::trains::{self, TrainRow};
use crate::{StoredRun, calibrated, format, grids, host, verdict};
use serde::Serialize;
use usect_core::environment::Environment;
use usect_core::run::Record;

/// The whole page, but for its plots.
#[derive(Serialize)]
pub(crate) struct View {
    pub(crate) title: String,
    pub(crate) runs: Vec<RunView>,
    pub(crate) verdicts: Vec<VerdictView>,
    pub(crate) tables: grids::Grids,
    /// A line per size, where the run is a sweep, which has no other tables.
    pub(crate) swept: Option<Grid>,
    /// What to take away of a sweep.
    pub(crate) swept_says: Vec<String>,
    /// What the columns of these tables mean.
    pub(crate) trains: &'static str,
    pub(crate) calibrated: &'static str,
    pub(crate) converge: &'static str,
    pub(crate) sweep: &'static str,
    pub(crate) notes: Vec<(String, String)>,
    /// What became of the host's settings that were to be changed.
    pub(crate) profiles: Option<Grid>,
    pub(crate) balances: Vec<grids::Balance>,
    /// Properties and settings in which the runs differ.
    pub(crate) differences: Option<Grid>,
    /// Readings in which they do, as they always will.
    pub(crate) readings: Option<Grid>,
    pub(crate) version: &'static str,
}

/// One run's own facts.
#[derive(Serialize)]
pub(crate) struct RunView {
    letter: Option<char>,
    id: String,
    title: String,
    setup: String,
    protocol: String,
    created: String,
    usect: String,
    banners: Vec<String>,
    environment: Vec<Group>,
    scenario: String,
}

#[derive(Serialize)]
pub(crate) struct Group {
    name: String,
    facts: Vec<(String, String)>,
}

/// What to take away of a client.
#[derive(Serialize)]
pub(crate) struct VerdictView {
    label: String,
    swatch: (usize, String),
    text: String,
    clean: Option<String>,
    beyond: Option<String>,
}

impl View {
    /// Of one or several runs.
    pub(crate) fn of(runs: &[StoredRun], series: &[Series<'_>], swept: &[Swept]) -> View {
        View {
            title: title(runs),
            runs: runs.iter().enumerate().map(|(i, run)| RunView::of(letter(runs.len(), i), run)).collect(),
            verdicts: series.iter().map(VerdictView::of).collect(),
            tables: grids::Grids::of(runs, series),
            swept: (!swept.is_empty()).then(|| swept_grid(swept)),
            swept_says: swept.iter().flat_map(|s| s.says().into_iter().map(|t| format!("{}: {t}", s.client))).collect(),
            sweep: sweep::READING,
            trains: trains::READING,
            calibrated: calibrated::READING,
            converge: converge::READING,
            notes: notes(runs, series),
            profiles: profiles(runs),
            balances: series.iter().map(grids::Balance::of).collect(),
            differences: (runs.len() > 1).then(|| differences(runs, |key| !Environment::is_reading(key))),
            readings: (runs.len() > 1).then(|| differences(runs, Environment::is_reading)),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

fn swept_grid(swept: &[Swept]) -> Grid {
    let line = |client: &str, cells: [String; 6]| {
        let name = Entry { kind: "name", text: client.to_owned(), small: None };
        Line { swatch: None, cells: std::iter::once(name).chain(cells.map(Entry::number)).collect() }
    };
    let lines = swept.iter().flat_map(|one| one.lines().map(|cells| line(&one.client, cells)));
    let heads = std::iter::once("client").chain(sweep::HEADS).map(str::to_owned);
    Grid::new(heads.collect(), lines.collect())
}

fn profiles(runs: &[StoredRun]) -> Option<Grid> {
    let of = |(i, stored): (usize, &StoredRun)| {
        let line = move |(profile, became): (String, String)| Line {
            swatch: None,
            cells: vec![Entry::text(labelled(letter(runs.len(), i), &profile)), Entry::text(became)],
        };
        host::profiles(&stored.run.header).into_iter().map(line).collect::<Vec<_>>()
    };
    let lines: Vec<Line> = runs.iter().enumerate().flat_map(of).collect();
    let heads = ["profile", "what became of it"].map(str::to_owned).to_vec();
    (!lines.is_empty()).then(|| Grid::new(heads, lines))
}

fn title(runs: &[StoredRun]) -> String {
    match runs {
        [] => "No run".to_owned(),
        [only] => only.run.header.scenario.title.clone(),
        several => format!("{} runs compared", several.len()),
    }
}

/// What there is to know of how clients measured; who shares a note shares its line.
fn notes(runs: &[StoredRun], series: &[Series<'_>]) -> Vec<(String, String)> {
    let mut notes: Vec<(Vec<String>, String)> = Vec::new();
    let rows: Vec<TrainRow<'_>> = runs.iter().flat_map(|run| trains::rows(&run.run)).collect();
    let settling: Vec<ConvergeRow<'_>> = runs.iter().flat_map(|run| converge::rows(&run.run)).collect();
    for s in series {
        let trains = rows.iter().find(|row| std::ptr::eq(row.client, s.client));
        let settling = settling.iter().filter(|row| std::ptr::eq(row.client, s.client));
        let settle = settling.filter_map(ConvergeRow::caveat);
        for note in own_notes(s).into_iter().chain(trains.into_iter().flat_map(TrainRow::caveats)).chain(settle) {
            match notes.iter_mut().find(|(_, text)| *text == note) {
                Some((labels, _)) => labels.push(s.label()),
                None => notes.push((vec![s.label()], note)),
            }
        }
    }
    let who = |labels: Vec<String>| match labels.len() {
        all if all == series.len() && all > 1 => "all".to_owned(),
        _ => labels.join(", "),
    };
    notes.into_iter().map(|(labels, text)| (who(labels), text)).collect()
}

/// What a measurement could not know or could not take.
pub(crate) fn caveats(measured: &Record) -> impl Iterator<Item = String> {
    let some = |frames: u64| (frames > 0).then(|| format::count(frames));
    let unlogged = some(measured.unattributed)
        .map(|n| format!("{n} slow samples or stalls did not fit the log, so touched samples are unknown"));
    let overruns = measured.overruns.and_then(some).map(|n| {
        format!("its own receive queue dropped {n} frames, warm-up and others' included, for want of room or for bad checksums")
    });
    unlogged.into_iter().chain(overruns)
}

/// Stamps in the wrong order are worth a word above this share of the frames.
const BACKWARDS: f64 = 0.001;

fn own_notes(series: &Series<'_>) -> Vec<String> {
    let measured = &series.client.measured;
    let stages = measured.stages.as_ref();
    let incomplete = stages.filter(|stages| stages.incomplete > 0).map(|stages| {
        format!("stages: frames that lacked a stamp, left out there: {}", format::count(stages.incomplete))
    });
    let backwards = stages.filter(|stages| stages.backwards as f64 > BACKWARDS * stages.frames as f64).map(|stages| {
        let share = format::part(stages.backwards, stages.frames);
        let error = format::ns(stages.clock_error_ns);
        format!("stages: two stamps of {share} of the frames stood in the wrong order; clocks agree to within {error}")
    });
    let truth = series.client.truth.iter().flat_map(|t| t.notes.iter().map(|n| format!("truth: {n}")));
    measured.notes.iter().cloned().chain(truth).chain(incomplete).chain(backwards).chain(caveats(measured)).collect()
}

impl RunView {
    fn of(letter: Option<char>, stored: &StoredRun) -> RunView {
        let header = &stored.run.header;
        RunView {
            letter,
            id: header.id.clone(),
            title: header.scenario.title.clone(),
            setup: setup(stored),
            protocol: format::protocol(header),
            created: header.created.clone(),
            usect: header.usect.clone(),
            banners: verdict::banners(header).into_iter().chain(partial_trials(stored)).collect(),
            environment: groups(&header.environment),
            scenario: toml::to_string_pretty(&header.scenario).unwrap_or_else(|e| format!("# can't be shown: {e}")),
        }
    }
}

fn setup(stored: &StoredRun) -> String {
    let dut = stored.run.header.scenario.dut.name();
    if stored.run.header.procedure == "sweep" {
        return format!("{}, through the DUT “{dut}”", sweep::asked(&stored.run.header.scenario));
    }
    match stored.run.trials.first() {
        Some(first) => format!(
            "{}, through the DUT “{dut}”",
            format::traffic(&first.trial.traffic, &stored.run.header.scenario.traffic)
        ),
        None => format!("DUT “{dut}”; no trial was run"),
    }
}

fn partial_trials(stored: &StoredRun) -> impl Iterator<Item = String> {
    stored.run.trials.iter().filter_map(|t| {
        t.partial.as_ref().map(|why| format!("PARTIAL, {} run {}: {why}", t.trial.label(), t.trial.run))
    })
}

/// Facts by the first segment of their keys.
pub(crate) fn groups(environment: &Environment) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (key, value) in environment.facts() {
        let name = key.split('.').next().unwrap_or(key);
        if groups.last().is_none_or(|g| g.name != name) {
            groups.push(Group { name: name.to_owned(), facts: Vec::new() });
        }
        groups.last_mut().expect("one was just added").facts.push((key.to_owned(), value.to_owned()));
    }
    groups
}

/// Facts of a kind in which any run differs from the first.
fn differences(runs: &[StoredRun], kind: impl Fn(&str) -> bool) -> Grid {
    let environments: Vec<&Environment> = runs.iter().map(|r| &r.run.header.environment).collect();
    let mut keys: Vec<&str> = environments.iter().flat_map(|e| environments[0].differences(e)).map(|d| d.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| kind(key));
    let line = |key: &str| {
        let values = environments.iter().map(|e| match e.get(key) {
            Some(value) => Entry::text(value),
            None => Entry { kind: "text", text: "(absent)".to_owned(), small: None },
        });
        Line { swatch: None, cells: std::iter::once(Entry::text(key)).chain(values).collect() }
    };
    let letters = (0..runs.len()).filter_map(|i| letter(runs.len(), i)).map(|l| l.to_string());
    Grid::new(std::iter::once("fact".to_owned()).chain(letters).collect(), keys.into_iter().map(line).collect())
}

impl VerdictView {
    fn of(series: &Series<'_>) -> VerdictView {
        VerdictView {
            label: series.label(),
            swatch: (series.color, series.dash().to_owned()),
            text: verdict::of(series.client),
            clean: verdict::clean(series.client),
            beyond: verdict::beyond(series.client),
        }
    }
}
