//! The page of suites: one, or several laid over each other.

use super::{Sheet, how, says, sheets};
use crate::StoredRun;
use crate::curve::Curve;
use crate::grid::{Entry, Grid, Line};
use crate::head::{self, Head};
use crate::page::{Kind, PageError, render};
use crate::series::{labelled, letter};
use serde::Serialize;
use usect_core::findings::SizeFindings;
use usect_core::run::SuiteRecord;
use usect_core::suite::Deviation;

/// Of suites of benchmarks.
pub(crate) const SUITE: Kind = Kind { template: "suite.html", script: include_str!("../../templates/suite.js") };

#[derive(Serialize)]
struct View {
    title: String,
    runs: Vec<Head>,
    deviations: Vec<Deviations>,
    sheets: Vec<SheetView>,
    version: &'static str,
}

/// Where a suite is not what the RFC says.
#[derive(Serialize)]
struct Deviations {
    letter: Option<char>,
    title: String,
    table: Grid,
}

#[derive(Serialize)]
struct SheetView {
    id: &'static str,
    title: &'static str,
    source: &'static str,
    table: Grid,
    reading: &'static str,
}

/// What the script draws.
#[derive(Serialize)]
struct Plots<'a> {
    clients: Vec<ClientPlots<'a>>,
}

#[derive(Serialize)]
struct ClientPlots<'a> {
    label: String,
    color: usize,
    sizes: &'a [SizeFindings],
    curves: Vec<LoadCurve>,
}

/// The distribution of latency at a load.
#[derive(Serialize)]
struct LoadCurve {
    size: u16,
    percent: u32,
    loopback: bool,
    #[serde(flatten)]
    curve: Curve,
}

/// The page, where all of the runs are suites.
pub(crate) fn html(runs: &[StoredRun]) -> Option<Result<String, PageError>> {
    let records = runs.iter().map(|stored| super::of(&stored.run)).collect::<Option<Vec<&SuiteRecord>>>()?;
    if records.is_empty() {
        return None;
    }
    Some(render(&SUITE, View::of(runs, &records), &Plots::of(runs, &records)))
}

impl View {
    fn of(runs: &[StoredRun], records: &[&SuiteRecord]) -> View {
        let mut all: Vec<SheetView> = Vec::new();
        for (i, record) in records.iter().enumerate() {
            let name = |client: &str| labelled(letter(runs.len(), i), client);
            for sheet in sheets(record, &name) {
                let letter = letter(runs.len(), i).filter(|_| record.findings.clients.len() == 1);
                let lines = lines(&sheet, letter);
                match all.iter_mut().find(|known| known.id == sheet.id) {
                    Some(known) => known.table.extend(lines),
                    None => all.push(SheetView {
                        id: sheet.id,
                        title: sheet.title,
                        source: sheet.source,
                        table: Grid::new(std::iter::once(String::new()).chain(sheet.heads).collect(), lines),
                        reading: sheet.reading,
                    }),
                }
            }
        }
        let letters = (0..runs.len()).map(|i| letter(runs.len(), i));
        let each = || letters.clone().zip(runs).zip(records);
        let head = |((letter, stored), record): ((Option<char>, &StoredRun), &&SuiteRecord)| {
            let setup = format!("RFC 2544: {}, DUT “{}”", how(&record.suite), stored.run.header.scenario.dut.name());
            Head::of(letter, stored, setup, says(record))
        };
        View {
            title: head::title(runs, "suites"),
            runs: each().map(head).collect(),
            deviations: each().map(|((letter, stored), record)| Deviations::of(letter, stored, record)).collect(),
            sheets: all,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

fn lines(sheet: &Sheet, letter: Option<char>) -> Vec<Line> {
    let line = |(name, cells): &(String, Vec<crate::trains::Written>)| {
        let name = Entry { kind: "name", text: labelled(letter, name), small: None };
        let cells =
            cells.iter().map(|cell| Entry { small: cell.interval.clone(), ..Entry::number(cell.figure.clone()) });
        Line { swatch: None, cells: std::iter::once(name).chain(cells).collect() }
    };
    sheet.rows.iter().map(line).collect()
}

impl Deviations {
    fn of(letter: Option<char>, stored: &StoredRun, record: &SuiteRecord) -> Deviations {
        let line = |deviation: &Deviation| Line {
            swatch: None,
            cells: vec![Entry::text(deviation.section.clone()), Entry::text(deviation.what.clone())],
        };
        let lines = record.findings.deviations.iter().map(line).collect();
        let table = Grid::new(["section", "what is different"].map(str::to_owned).to_vec(), lines);
        Deviations { letter, title: stored.run.header.scenario.title.clone(), table }
    }
}

impl<'a> Plots<'a> {
    fn of(runs: &'a [StoredRun], records: &[&'a SuiteRecord]) -> Plots<'a> {
        let each = runs.iter().zip(records).enumerate().flat_map(|(i, (stored, record))| {
            let letter = letter(runs.len(), i);
            record.findings.clients.iter().map(move |client| (labelled(letter, &client.client), stored, client))
        });
        let of = |(color, (label, stored, client)): (
            usize,
            (String, &StoredRun, &'a usect_core::findings::ClientFindings),
        )| {
            ClientPlots { label, color: color % 6, sizes: &client.sizes, curves: curves(stored, &client.client) }
        };
        Plots { clients: each.enumerate().map(of).collect() }
    }
}

/// Of a client's latency at each load.
fn curves(stored: &StoredRun, client: &str) -> Vec<LoadCurve> {
    let mut curves: Vec<LoadCurve> = Vec::new();
    for record in stored.run.trials.iter().filter(|record| record.trial.client.name == client) {
        let Some(percent) = record.trial.purpose.filter(|p| p.benchmark.is_repeated()).and_then(|p| p.percent) else {
            continue;
        };
        let (size, loopback) = (record.trial.traffic.frame_size.with_fcs(), record.trial.case.loopback);
        let known = |curve: &LoadCurve| (curve.size, curve.percent, curve.loopback) == (size, percent, loopback);
        if !curves.iter().any(known) {
            let histogram = stored.of_client(&record.trial.label()).latency;
            curves.push(LoadCurve { size, percent, loopback, curve: Curve::of(&histogram) });
        }
    }
    curves
}
