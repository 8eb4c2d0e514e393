//! Runs that are told in tables of their own: a host taken apart, a matrix.

use super::{Page, named, plain, trimmed, wrapped};
use crate::{dissect, matrix};
use comfy_table::Table;
use usect_core::dissect::Dissection;
use usect_core::matrix::Measured;
use usect_core::stats::Bounded;

impl Page<'_> {
    /// The paper's table with ours above it; what could not be measured; what a request is made up of.
    pub(super) fn dissected(&self, dissection: &Dissection) -> String {
        let mut table = self.table(std::iter::once(String::new()).chain(dissect::HEADS.map(str::to_owned)), 1);
        for row in &dissection.rows {
            let Some(cells) = dissect::cells(row) else { continue };
            table.add_row(named(&dissect::label(row), cells));
            if let Some(paper) = dissect::paper_cells(dissection, row) {
                table.add_row(named("   paper", paper));
            }
        }
        let mut text = vec![[trimmed(&table), self.styled("2", &wrapped(dissect::READING))].join("\n")];
        let accounts =
            dissection.rows.iter().filter_map(|row| Some(format!("{}: {}", row.label(), row.account.as_ref()?)));
        text.push(accounts.collect::<Vec<_>>().join("\n"));
        let missing = dissection.rows.iter().filter_map(|row| Some((row, row.unavailable.as_ref()?)));
        let missing = missing.map(|(row, why)| {
            let what = if row.latency.is_some() { "not wholly measured" } else { "not measured" };
            wrapped(&format!("{}: {what}: {}", row.label(), plain(why)))
        });
        text.push(missing.collect::<Vec<_>>().join("\n"));
        let disturbed = dissection.rows.iter().filter_map(dissect::disturbed);
        text.push(disturbed.map(|(row, what)| wrapped(&format!("{row}: {what}"))).collect::<Vec<_>>().join("\n"));
        let request = [("a get of memcached", &dissection.shares)];
        let networks = dissection.networks.iter().map(|network| (network.name.as_str(), &network.shares));
        for (whole, shares) in request.into_iter().chain(networks).filter(|(_, shares)| !shares.is_empty()) {
            let lines =
                dissect::shares(shares).into_iter().map(|(name, time, from)| format!("  {name}: {time} ({from})"));
            let head = self.styled("1", &format!("{whole}: {}", dissect::total(shares)));
            text.push(std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n"));
        }
        text.retain(|block| !block.is_empty());
        text.join("\n\n")
    }

    /// A line for each cell, what moves which figure, and what wasn't measured.
    pub(super) fn matrix(&self, measured: &Measured) -> String {
        let rows = matrix::rows(measured);
        let mut text = Vec::new();
        if !rows.is_empty() {
            let mut table = self.table(std::iter::once(String::new()).chain(matrix::heads()), 1);
            rows.iter().for_each(|row| add_cell(&mut table, row, None));
            text.push([trimmed(&table), self.styled("2", &wrapped(matrix::READING))].join("\n"));
        }
        let ways = matrix::ways(measured);
        // In a lab, the page alone has them.
        if !measured.ends.is_empty() && !ways.is_empty() {
            let mut table = self.table(std::iter::once(String::new()).chain(matrix::heads_of_ways()), 1);
            ways.iter().for_each(|(row, bound)| add_cell(&mut table, row, Some(matrix::number(*bound))));
            text.push([trimmed(&table), self.styled("2", &wrapped(matrix::WAYS_READING))].join("\n"));
        }
        let told = matrix::told(measured);
        let moved =
            told.iter().map(|moved| format!("  {}: {}: {}", moved.figure, matrix::step(moved), matrix::amount(moved)));
        let heading = if told.is_empty() { matrix::nothing(measured) } else { "what moves what:" };
        let moved = std::iter::once(self.styled("1", heading)).chain(moved);
        let reading = (!told.is_empty()).then(|| self.styled("2", &wrapped(matrix::MOVES)));
        if !rows.is_empty() {
            text.push(moved.chain(reading).collect::<Vec<_>>().join("\n"));
        }
        let missing = matrix::missing(measured).into_iter();
        text.push(
            missing.map(|(cell, why)| wrapped(&format!("{cell}: {}", plain(&why)))).collect::<Vec<_>>().join("\n"),
        );
        text.push(matrix::notes(measured).iter().map(|note| wrapped(note)).collect::<Vec<_>>().join("\n"));
        text.retain(|block| !block.is_empty());
        text.join("\n\n")
    }
}

/// A line for a cell of a matrix, and one for its intervals; in the first one, something more.
fn add_cell(table: &mut Table, row: &matrix::Row, more: Option<String>) {
    let of = |write: fn(&Bounded) -> Option<String>| {
        row.figures.iter().map(move |figure| figure.as_ref().map_or(Some("n/a".into()), write).unwrap_or_default())
    };
    table.add_row(named(&row.label, of(|value| Some(matrix::number(value.value))).chain(more)));
    if row.trials > 1 {
        table.add_row(named("", of(matrix::interval)));
    }
}
