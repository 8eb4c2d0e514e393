//! The page of hosts taken apart: one, or several laid over each other.

use super::{HEADS, READING, SETUP, cells, disturbed, label, paper_cells, shares, total};
use crate::StoredRun;
use crate::curve::Curve;
use crate::grid::{Entry, Grid, Line};
use crate::head::{self, Head};
use crate::page::{Kind, PageError, render};
use crate::series::{labelled, letter};
use serde::Serialize;
use usect_core::dissect::{Dissection, Row, Share};

/// Of hosts taken apart.
pub(crate) const DISSECT: Kind = Kind { template: "dissect.html", script: include_str!("../../templates/dissect.js") };

#[derive(Serialize)]
struct View {
    title: String,
    runs: Vec<Head>,
    table: Grid,
    reading: &'static str,
    /// What was measured, row by row.
    hows: Option<Grid>,
    missing: Option<Grid>,
    disturbed: Option<Grid>,
    shares: Option<Grid>,
    networks: Option<Grid>,
    version: &'static str,
}

/// What the script draws.
#[derive(Serialize)]
struct Plots {
    rows: Vec<Drawn>,
    requests: Vec<Stack>,
    networks: Vec<Stack>,
}

#[derive(Serialize)]
struct Drawn {
    label: String,
    curve: Curve,
    /// The paper's minimum, median, 99.9th percentile and tail.
    paper: Option<[f64; 4]>,
}

/// A bar of parts, one on another.
#[derive(Serialize)]
struct Stack {
    label: String,
    shares: Vec<Share>,
}

/// The page, where all of the runs are of that kind.
pub(crate) fn html(runs: &[StoredRun]) -> Option<Result<String, PageError>> {
    let all: Vec<&Dissection> = runs.iter().map(|stored| stored.run.header.dissect.as_ref()).collect::<Option<_>>()?;
    if all.is_empty() {
        return None;
    }
    let each: Vec<(Option<char>, &Dissection)> =
        all.iter().enumerate().map(|(i, dissection)| (letter(runs.len(), i), *dissection)).collect();
    let requests = each.iter().map(|(letter, one)| Stack::of(*letter, "a get", &one.shares));
    let networks = each.iter().flat_map(|(letter, one)| {
        one.networks.iter().map(|network| Stack::of(*letter, &network.name, &network.shares)).collect::<Vec<_>>()
    });
    let plots = Plots {
        rows: each.iter().flat_map(|(letter, one)| one.rows.iter().filter_map(|row| drawn(*letter, row))).collect(),
        requests: requests.filter(|stack| !stack.shares.is_empty()).collect(),
        networks: networks.collect(),
    };
    Some(render(&DISSECT, View::of(runs, &each), &plots))
}

impl Stack {
    fn of(letter: Option<char>, label: &str, shares: &[Share]) -> Stack {
        Stack { label: labelled(letter, label), shares: shares.to_vec() }
    }
}

fn drawn(letter: Option<char>, row: &Row) -> Option<Drawn> {
    let histogram = row.histogram.as_ref()?.histogram();
    let paper = row.paper().map(|paper| [paper.min_ns, paper.median_ns, paper.p999_ns, paper.tail_ns]);
    Some(Drawn { label: labelled(letter, &row.label()), curve: Curve::of(&histogram), paper })
}

impl View {
    fn of(runs: &[StoredRun], each: &[(Option<char>, &Dissection)]) -> View {
        let rows = || each.iter().flat_map(|(letter, one)| one.rows.iter().map(move |row| (*letter, row)));
        let name = |letter, row: &Row| labelled(letter, &row.label());
        let how = |(letter, row): (Option<char>, &Row)| {
            let account = row.account.clone().unwrap_or_default();
            let cells = [name(letter, row), row.how.clone(), account].map(Entry::text).into();
            (row.latency.is_some() || row.account.is_some()).then_some(Line { swatch: None, cells })
        };
        let why = |(letter, row): (Option<char>, &Row)| {
            let why = row.unavailable.clone()?;
            Some(Line { swatch: None, cells: [name(letter, row), why].map(Entry::text).into() })
        };
        let troubled = |(letter, row): (Option<char>, &Row)| {
            let (_, what) = disturbed(row)?;
            Some(Line { swatch: None, cells: [name(letter, row), what].map(Entry::text).into() })
        };
        let part = |letter, whole: &str, all: &[Share]| {
            let whole = labelled(letter, &format!("{whole}, {}", total(all)));
            let line = |(name, time, from): (String, String, String)| Line {
                swatch: None,
                cells: vec![Entry::text(whole.clone()), Entry::text(name), Entry::number(time), Entry::text(from)],
            };
            shares(all).into_iter().map(line).collect::<Vec<_>>()
        };
        let requests = each.iter().flat_map(|(letter, one)| part(*letter, "a get", &one.shares)).collect();
        let networks = each.iter().flat_map(|(letter, one)| {
            one.networks.iter().flat_map(|network| part(*letter, &network.name, &network.shares)).collect::<Vec<_>>()
        });
        let heads =
            runs.iter().zip(each).map(|(stored, (letter, _))| Head::of(*letter, stored, SETUP.to_owned(), Vec::new()));
        View {
            title: head::title(runs, "hosts taken apart"),
            runs: heads.collect(),
            table: Grid::new(std::iter::once("").chain(HEADS).map(str::to_owned).collect(), table(each)),
            reading: READING,
            hows: Grid::of_some(["row", "what was measured", "and"], rows().filter_map(how).collect()),
            missing: Grid::of_some(["row", "why not"], rows().filter_map(why).collect()),
            disturbed: Grid::of_some(["row", "what others took"], rows().filter_map(troubled).collect()),
            shares: Grid::of_some(["request", "part", "time", "from"], requests),
            networks: Grid::of_some(["network", "part", "time", "from"], networks.collect()),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Our rows, and beneath each the paper's.
fn table(each: &[(Option<char>, &Dissection)]) -> Vec<Line> {
    let line = |letter: Option<char>, one: &Dissection, row: &Row| {
        let own = cells(row)?;
        let paper = paper_cells(one, row);
        let name = Entry { kind: "name", text: labelled(letter, &label(row)), small: None };
        let name = if paper.is_some() { name.with("paper") } else { name };
        let beneath = |i: usize| paper.as_ref().map(|paper| paper[i].clone());
        let cells = own.into_iter().enumerate().map(|(i, text)| Entry { small: beneath(i), ..Entry::number(text) });
        Some(Line { swatch: None, cells: std::iter::once(name).chain(cells).collect() })
    };
    each.iter().flat_map(|(letter, one)| one.rows.iter().filter_map(|row| line(*letter, one, row))).collect()
}
