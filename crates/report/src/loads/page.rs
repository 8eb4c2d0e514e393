//! The page of sweeps over rates: one, or several laid over each other.

use super::{Cell, HEADS, Loaded, READING};
use crate::grid::{Entry, Grid, Line};
use crate::head::{self, Head};
use crate::page::{Kind, PageError, render};
use crate::series::{labelled, letter};
use crate::{StoredRun, format};
use serde::Serialize;

/// Of sweeps over rates.
pub(crate) const LOADS: Kind = Kind { template: "loads.html", script: include_str!("../../templates/loads.js") };

#[derive(Serialize)]
struct View {
    title: String,
    runs: Vec<Head>,
    table: Grid,
    reading: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Plots {
    clients: Vec<Drawn>,
}

/// A client's sweep, drawn.
#[derive(Serialize)]
struct Drawn {
    label: String,
    cells: Vec<Cell>,
}

/// The page, where all of the runs are such sweeps.
pub(crate) fn html(runs: &[StoredRun]) -> Option<Result<String, PageError>> {
    let mut clients = Vec::new();
    for (i, stored) in runs.iter().enumerate() {
        let loaded = super::of(&stored.run);
        if loaded.is_empty() {
            return None;
        }
        let drawn = |Loaded { client, cells }| Drawn { label: labelled(letter(runs.len(), i), &client), cells };
        clients.extend(loaded.into_iter().map(drawn));
    }
    if clients.is_empty() {
        return None;
    }
    let heads = runs.iter().enumerate().map(|(i, stored)| {
        let header = &stored.run.header;
        let (asked, how) = (super::asked(&header.scenario), format::protocol(header));
        let setup = format!("{asked}, through the DUT “{}”. {how}", header.scenario.dut.name());
        Head::of(letter(runs.len(), i), stored, setup, Vec::new())
    });
    let view = View {
        title: head::title(runs, "sweeps"),
        runs: heads.collect(),
        table: table(&clients),
        reading: READING,
        version: env!("CARGO_PKG_VERSION"),
    };
    Some(render(&LOADS, view, &Plots { clients }))
}

fn table(clients: &[Drawn]) -> Grid {
    let line = |client: &Drawn, cell: &Cell| {
        let name = format!("{}, {} bytes at {}", client.label, cell.size, format::rate(cell.fps));
        let name = Entry { kind: "name", text: name, small: None };
        let figures = cell.cells().into_iter().map(|cell| Entry { small: cell.interval, ..Entry::number(cell.figure) });
        Line { swatch: None, cells: std::iter::once(name).chain(figures).collect() }
    };
    let lines = clients.iter().flat_map(|client| client.cells.iter().map(move |cell| line(client, cell)));
    let heads = std::iter::once("").chain(HEADS).map(str::to_owned);
    Grid::new(heads.collect(), lines.collect())
}
