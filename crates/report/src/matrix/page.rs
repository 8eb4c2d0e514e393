//! The page of a matrix, or of several one after another.

use super::{
    LATENCIES_READING, MOVES, READING, Row, WAYS_READING, amount, heads, heads_of_latencies, heads_of_ways, interval,
    latencies, missing, notes, nothing, number, rows, setup, step, told, ways,
};
use crate::StoredRun;
use crate::grid::{Entry, Grid, Line};
use crate::head::{self, Head};
use crate::page::{Kind, PageError, render};
use crate::series::{labelled, letter};
use serde::Serialize;
use usect_core::matrix::{Direction, Factor, Load, Measured, Moved, RESPONSES, Response, Transport, Way};

/// Of matrices.
pub(crate) const MATRIX: Kind = Kind { template: "matrix.html", script: include_str!("../../templates/matrix.js") };

#[derive(Serialize)]
struct View {
    title: String,
    runs: Vec<Head>,
    table: Grid,
    reading: &'static str,
    latencies: Option<Grid>,
    latencies_reading: &'static str,
    ways: Option<Grid>,
    ways_reading: &'static str,
    /// Whether the figures are those of paper 004.
    papers: bool,
    figures: Vec<Caption>,
    /// Figures that were 0 throughout, of which there is no picture.
    zeroes: String,
    moved: Option<Grid>,
    moves: &'static str,
    nothing: &'static str,
    missing: Option<Grid>,
    notes: Vec<String>,
    version: &'static str,
}

/// A figure, as text.
#[derive(Serialize)]
struct Caption {
    id: String,
    title: String,
    says: String,
}

/// What the script draws.
#[derive(Serialize)]
struct Plots {
    figures: Vec<Figure>,
    effects: Vec<Effects>,
}

/// Panels of grouped bars.
#[derive(Serialize)]
struct Figure {
    id: String,
    unit: &'static str,
    /// The factor along the axis.
    along: String,
    panels: Vec<Panel>,
}

#[derive(Serialize)]
struct Panel {
    title: String,
    /// Levels along the axis.
    groups: Vec<String>,
    bars: Vec<Bars>,
}

/// Bars of one colour, one for each group: mean and interval.
#[derive(Serialize)]
struct Bars {
    name: String,
    /// Which level it is, so that it has the same colour everywhere.
    level: usize,
    values: Vec<Option<[f64; 3]>>,
}

/// What moves a figure, and what doesn't.
#[derive(Serialize)]
struct Effects {
    id: String,
    unit: &'static str,
    names: Vec<String>,
    estimates: Vec<f64>,
    margins: Vec<Option<f64>>,
    significant: Vec<bool>,
}

/// Which of the paper's figures a response redraws, of loads from the first end.
const REDRAWN: [(&str, &str); 4] = [
    (
        "ping, mean",
        "Figures 2 and 3 of paper 004 (8 to 11 where the queueing discipline varies): the latency that echoes beside the load saw, without and with a switch, of TCP and of UDP",
    ),
    ("throughput", "Figure 12 of paper 004: bandwidth at the load's receiver"),
    (
        "CPU of the load, first end",
        "Figures 1, 4 and 5 of paper 004: what the sender's process worked, with and without a switch",
    ),
    (
        "CPU of the load, second end",
        "Figures 6 and 7 of paper 004: what the receiver's process worked, with and without a switch",
    ),
];

/// Whether it varies what the paper varied, and nothing that turns it around: offloads, with a switch and without, under TCP and UDP.
fn is_the_papers(measured: &Measured) -> bool {
    let vary = &measured.matrix.vary;
    let loads = |of: fn(&Transport) -> bool| {
        vary.load.iter().any(|load| matches!(load, Load::Flows { transport, .. } if of(transport)))
    };
    vary.offloads.len() > 1
        && vary.path.contains(&Way::Direct)
        && vary.path.iter().any(|way| matches!(way, Way::Bridge | Way::Ovs))
        && loads(|transport| *transport == Transport::Tcp)
        && loads(|transport| matches!(transport, Transport::Udp(_)))
        && !vary.direction.contains(&Direction::Back)
}

/// The page, where all of the runs are of that kind.
pub(crate) fn html(runs: &[StoredRun]) -> Option<Result<String, PageError>> {
    let all: Vec<&Measured> = runs.iter().map(|stored| stored.run.header.matrix.as_ref()).collect::<Option<_>>()?;
    if all.is_empty() {
        return None;
    }
    let each: Vec<(Option<char>, &Measured)> =
        all.iter().enumerate().map(|(i, measured)| (letter(runs.len(), i), *measured)).collect();
    let (zeroes, drawn): (Vec<&Response>, Vec<&Response>) =
        RESPONSES.iter().partition(|response| is_zero(response, &each));
    let figures = drawn.iter().filter_map(|response| figure(response, &each)).collect();
    let effects =
        each.iter().flat_map(|(letter, one)| drawn.iter().filter_map(|response| effects(*letter, response, one)));
    let plots = Plots { effects: effects.collect(), figures };
    Some(render(&MATRIX, View::of(runs, &each, &plots, &zeroes), &plots))
}

impl View {
    fn of(runs: &[StoredRun], each: &[(Option<char>, &Measured)], plots: &Plots, zeroes: &[&Response]) -> View {
        let heads_of =
            runs.iter().zip(each).map(|(stored, (letter, one))| Head::of(*letter, stored, setup(one), Vec::new()));
        let papers = each.iter().all(|(_, one)| is_the_papers(one));
        let trials = |row: &Row| Some(Entry::number(row.trials.to_string()));
        let tabled = of_each(each, |letter, one| rows(one).iter().map(|row| cell(letter, row, trials(row))).collect());
        let in_full = of_each(each, |letter, one| latencies(one).iter().map(|row| cell(letter, row, None)).collect());
        let known = |bound: f64| Some(Entry::number(number(bound)));
        let apart = of_each(each, |letter, one| {
            ways(one).iter().map(|(row, bound)| cell(letter, row, known(*bound))).collect()
        });
        View {
            title: head::title(runs, "matrices"),
            runs: heads_of.collect(),
            table: Grid::new(under_names(heads().chain(["trials".to_owned()])), tabled),
            reading: READING,
            latencies: (!in_full.is_empty()).then(|| Grid::new(under_names(heads_of_latencies()), in_full)),
            latencies_reading: LATENCIES_READING,
            ways: (!apart.is_empty()).then(|| Grid::new(under_names(heads_of_ways()), apart)),
            ways_reading: WAYS_READING,
            papers,
            figures: plots.figures.iter().map(|figure| Caption::of(figure, papers)).collect(),
            zeroes: zeroes.iter().map(|response| response.name).collect::<Vec<_>>().join("; "),
            moved: Grid::of_some(["figure", "setting", "moves it by"], of_each(each, moves)),
            moves: MOVES,
            nothing: each.first().map_or("", |(_, one)| nothing(one)),
            missing: Grid::of_some(["cell", "what became of it"], of_each(each, unmeasured)),
            notes: of_each(each, |letter, one| notes(one).iter().map(|note| labelled(letter, note)).collect()),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl Caption {
    /// Of a figure; which of the paper's it redraws, where the matrix is the paper's.
    fn of(figure: &Figure, papers: bool) -> Caption {
        let response = RESPONSES.iter().find(|response| id(response) == figure.id);
        let title = response.map_or("", |response| response.name);
        let redrawn = REDRAWN.iter().find(|(name, _)| *name == title && papers).map(|(_, says)| format!("{says}. "));
        let says = format!(
            "{}Means and 95% intervals over the repetitions; one that leaves the picture goes on beyond it.",
            redrawn.unwrap_or_default()
        );
        Caption { id: figure.id.clone(), title: format!("{title}, {}", figure.unit), says }
    }
}

/// What each matrix has of something, one after another.
fn of_each<T>(each: &[(Option<char>, &Measured)], of: impl Fn(Option<char>, &Measured) -> Vec<T>) -> Vec<T> {
    each.iter().flat_map(|(letter, one)| of(*letter, one)).collect()
}

/// Heads of a table of cells, whose first column has their names.
fn under_names(heads: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(String::new()).chain(heads).collect()
}

/// What moves what.
fn moves(letter: Option<char>, one: &Measured) -> Vec<Line> {
    let line = |moved: &Moved| Line {
        swatch: None,
        cells: vec![
            Entry::text(labelled(letter, &moved.figure)),
            Entry::text(step(moved)),
            Entry::number(amount(moved)),
        ],
    };
    told(one).into_iter().map(line).collect()
}

/// What wasn't measured, and why.
fn unmeasured(letter: Option<char>, one: &Measured) -> Vec<Line> {
    let line = |(cell, why): (String, String)| Line {
        swatch: None,
        cells: [labelled(letter, &cell), why].map(Entry::text).into(),
    };
    missing(one).into_iter().map(line).collect()
}

/// A line of a cell: its figures, and something more.
fn cell(letter: Option<char>, row: &Row, more: Option<Entry>) -> Line {
    let figures = row.figures.iter().map(|figure| match figure {
        None => Entry::number("n/a"),
        Some(value) => {
            let entry = Entry::number(number(value.value));
            match interval(value) {
                Some(interval) => entry.with(interval),
                None => entry,
            }
        }
    });
    let name = Entry { kind: "name", text: labelled(letter, &row.label), small: None };
    Line { swatch: None, cells: std::iter::once(name).chain(figures).chain(more).collect() }
}

fn id(response: &Response) -> String {
    response.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Which factor runs along the axis, which has the colours, and which have panels of their own.
struct Roles {
    along: usize,
    colours: Option<usize>,
    panels: Vec<usize>,
}

impl Roles {
    /// As in the paper, where there are such factors: offloads along the axis, loads in colours.
    fn of(factors: &[Factor]) -> Roles {
        let named = |name: &str| factors.iter().position(|factor| factor.name == name);
        let along = named("offloads").unwrap_or(if factors.len() > 1 && named("load") == Some(0) { 1 } else { 0 });
        let others = || (0..factors.len()).filter(move |factor| *factor != along);
        let colours = named("load").filter(|load| *load != along).or_else(|| others().next());
        let panels = others().filter(|factor| Some(*factor) != colours).collect();
        Roles { along, colours, panels }
    }
}

/// Whether a response was seen and was 0 in every trial, so that a picture of it would be empty.
fn is_zero(response: &Response, each: &[(Option<char>, &Measured)]) -> bool {
    let mut seen = each.iter().flat_map(|(_, one)| &one.trials).filter_map(|tried| response.value(tried)).peekable();
    seen.peek().is_some() && seen.all(|value| value == 0.0)
}

/// A response over all cells; none where no trial has it.
fn figure(response: &Response, each: &[(Option<char>, &Measured)]) -> Option<Figure> {
    let panels: Vec<Panel> = each.iter().flat_map(|(letter, one)| panels(response, *letter, one)).collect();
    let factors = each.first()?.1.matrix.factors();
    let along = factors.get(Roles::of(&factors).along)?.name.clone();
    (!panels.is_empty()).then(|| Figure { id: id(response), unit: response.unit, along, panels })
}

fn panels(response: &Response, letter: Option<char>, one: &Measured) -> Vec<Panel> {
    let factors = one.matrix.factors();
    let Roles { along, colours, panels } = Roles::of(&factors);
    let mut places = vec![vec![0; factors.len()]];
    for factor in &panels {
        let with = |place: &Vec<usize>, level| {
            let mut place = place.clone();
            place[*factor] = level;
            place
        };
        places = places
            .iter()
            .flat_map(|place| (0..factors[*factor].levels.len()).map(|level| with(place, level)).collect::<Vec<_>>())
            .collect();
    }
    let panel = |place: Vec<usize>| {
        let at = |group: usize, colour: usize| {
            let mut cell = place.clone();
            cell[along] = group;
            if let Some(colours) = colours {
                cell[colours] = colour;
            }
            response.mean(&one.trials, &cell).map(|mean| [mean.value, mean.low, mean.high])
        };
        let groups = factors[along].levels.clone();
        let names = colours.map_or(vec![String::new()], |factor| factors[factor].levels.clone());
        let bars: Vec<Bars> = names
            .into_iter()
            .enumerate()
            .map(|(colour, name)| Bars {
                name,
                level: colour,
                values: (0..groups.len()).map(|group| at(group, colour)).collect(),
            })
            .filter(|bars| bars.values.iter().any(Option::is_some))
            .collect();
        let several = |factor: &&usize| factors[**factor].levels.len() > 1;
        let title: Vec<&str> =
            panels.iter().filter(several).map(|factor| factors[*factor].levels[place[*factor]].as_str()).collect();
        (!bars.is_empty()).then(|| Panel { title: labelled(letter, &title.join(", ")), groups, bars })
    };
    places.into_iter().filter_map(panel).collect()
}

/// What moves a figure, main effects first.
fn effects(letter: Option<char>, response: &Response, one: &Measured) -> Option<Effects> {
    let all: Vec<&Moved> =
        one.moved.iter().filter(|moved| moved.figure == response.name && moved.under.is_none()).collect();
    (!all.is_empty()).then(|| Effects {
        id: labelled(letter, response.name),
        unit: response.unit,
        names: all.iter().map(|moved| step(moved)).collect(),
        estimates: all.iter().map(|moved| moved.estimate).collect(),
        margins: all.iter().map(|moved| moved.margin).collect(),
        significant: all.iter().map(|moved| moved.significant).collect(),
    })
}
