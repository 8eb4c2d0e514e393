//! The page of suites: one, or several laid over each other.

use super::{Sheet, how, says, sheets};
use crate::curve::Curve;
use crate::grid::{Entry, Grid, Line};
use crate::page::{Kind, PageError, render};
use crate::series::{labelled, letter};
use crate::view::{Group, groups};
use crate::{StoredRun, verdict};
use serde::Serialize;
use usect_core::findings::SizeFindings;
use usect_core::run::SuiteRecord;

/// Of suites of benchmarks.
pub(crate) const SUITE: Kind = Kind { template: "suite.html", script: include_str!("../../templates/suite.js") };

#[derive(Serialize)]
struct View {
    title: String,
    runs: Vec<RunView>,
    sheets: Vec<SheetView>,
    version: &'static str,
}

#[derive(Serialize)]
struct RunView {
    letter: Option<char>,
    id: String,
    title: String,
    setup: String,
    created: String,
    usect: String,
    banners: Vec<String>,
    says: Vec<String>,
    deviations: Grid,
    environment: Vec<Group>,
    scenario: String,
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
        let title = match runs {
            [only] => only.run.header.scenario.title.clone(),
            several => format!("{} suites compared", several.len()),
        };
        let runs = runs.iter().zip(records).enumerate();
        let runs = runs.map(|(i, (stored, record))| RunView::of(letter(records.len(), i), stored, record)).collect();
        View { title, runs, sheets: all, version: env!("CARGO_PKG_VERSION") }
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

impl RunView {
    fn of(letter: Option<char>, stored: &StoredRun, record: &SuiteRecord) -> RunView {
        let header = &stored.run.header;
        let deviation = |deviation: &usect_core::suite::Deviation| Line {
            swatch: None,
            cells: vec![Entry::text(deviation.section.clone()), Entry::text(deviation.what.clone())],
        };
        let deviations = record.findings.deviations.iter().map(deviation).collect();
        RunView {
            letter,
            id: header.id.clone(),
            title: header.scenario.title.clone(),
            setup: format!("{}, DUT “{}”", how(&record.suite), header.scenario.dut.name()),
            created: header.created.clone(),
            usect: header.usect.clone(),
            banners: verdict::banners(header),
            says: says(record),
            deviations: Grid::new(["section", "what is different"].map(str::to_owned).to_vec(), deviations),
            environment: groups(&header.environment),
            scenario: toml::to_string_pretty(&header.scenario).unwrap_or_else(|e| format!("# can't be shown: {e}")),
        }
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
