//! The table for the terminal: at most 80 columns wide where names are short.

mod kinds;

use crate::loads::Loaded;
use crate::sweep::{self, Swept};
use crate::trains::Written;
use crate::view::caveats;
use crate::{calibrated, converge, dissect, format, host, loads, matrix, suite, trains, verdict};
use comfy_table::{Attribute, Cell, CellAlignment, Color, LineStyle, Table, TableStyle};
use std::fmt::Write;
use usect_core::printed::{escaped, steers};
use usect_core::run::{ClientRecord, Record, Run, StreamRecord, SuiteRecord};
use usect_core::stall::CoreStalls;
use usect_core::stats::{Estimate, Interval, LADDER, Quantile};
use usect_core::tracker::Counts;

/// The run in text for a terminal of 80 columns or more. No escape codes unless `color`, and none at all where the run has some of its
/// own, which could not be told from ours.
pub fn table(run: &Run, color: bool) -> String {
    let color = color && !could_steer(run);
    let text = tables(run, color);
    if color { text } else { escaped(&text).into_owned() }
}

/// Whether any text of a run has characters that steer a terminal. JSON writes the most of them as escapes.
fn could_steer(run: &Run) -> bool {
    let escapes = ["\\u00", "\\b", "\\f", "\\r"];
    let steering = |json: String| json.contains(steers) || escapes.iter().any(|e| json.contains(e));
    serde_json::to_string(run).map_or(true, steering)
}

fn tables(run: &Run, color: bool) -> String {
    let page = Page { run, color };
    if let Some(record) = suite::of(run) {
        return [page.header(), page.suite(record), page.platform()].join("\n\n") + "\n";
    }
    if let Some(dissection) = &run.header.dissect {
        return [page.header(), page.dissected(dissection), page.platform()].join("\n\n") + "\n";
    }
    if let Some(measured) = &run.header.matrix {
        return [page.header(), page.matrix(measured), page.platform()].join("\n\n") + "\n";
    }
    let loaded = loads::of(run);
    if !loaded.is_empty() {
        return [page.header(), page.loaded(&loaded), page.platform()].join("\n\n") + "\n";
    }
    let swept = sweep::of(run);
    if !swept.is_empty() {
        return [page.header(), page.swept(&swept), page.platform()].join("\n\n") + "\n";
    }
    let mut blocks =
        vec![page.header(), page.trains(), page.calibrated(), page.converge(), page.verdicts(), page.latencies()];
    blocks.extend([page.counts(), page.pace(), page.platform(), page.profiles(), page.notes(), page.reading()]);
    blocks.retain(|block| !block.trim().is_empty());
    blocks.iter().map(|b| b.trim_end()).collect::<Vec<_>>().join("\n\n") + "\n"
}

/// Flows, pairs and directions of a client, without the flows where they are too many for a terminal.
fn parts(client: &ClientRecord) -> impl Iterator<Item = &StreamRecord> {
    const FEW: usize = 8;
    let parts = &client.measured.streams;
    parts.iter().filter(move |part| parts.len() <= FEW || !part.name.contains("flow "))
}

struct Page<'a> {
    run: &'a Run,
    color: bool,
}

impl Page<'_> {
    fn header(&self) -> String {
        let header = &self.run.header;
        let mut lines =
            vec![self.styled("1", &plain(&header.scenario.title)), setup(self.run), plain(&format::protocol(header))];
        lines.push(format!("run {}, {}, usect {}", plain(&header.id), plain(&header.created), plain(&header.usect)));
        lines.extend(verdict::banners(header).iter().map(|b| self.styled("1;33", &plain(b))));
        // Where trials go on, a load that the sender can't reach is a result.
        let partial = self.run.trials.iter().filter(|t| !t.trial.goes_on);
        let partial = partial.filter_map(|t| Some((&t.trial, t.partial.as_ref()?)));
        lines.extend(
            partial.map(|(t, why)| self.styled("33", &format!("PARTIAL, {} run {}: {}", t.label(), t.run, plain(why)))),
        );
        lines.join("\n")
    }

    /// Capacity and loss beside the heads' latency, where frames left in trains.
    fn trains(&self) -> String {
        let rows = trains::rows(self.run);
        let caveats = rows.iter().flat_map(|row| row.caveats().map(|said| (row.client, said)));
        let cells = rows.iter().map(|row| (row.client, row.cells().into()));
        self.section("trains", &trains::HEADS, cells, caveats, trains::READING)
    }

    /// Medians with and without what instruments add, where that is known.
    fn calibrated(&self) -> String {
        let rows = calibrated::rows(self.run);
        let cells = rows.iter().map(|row| (row.client, row.cells().into()));
        self.section("calibrated", &calibrated::HEADS, cells, std::iter::empty(), calibrated::READING)
    }

    /// How many samples figures need, where that was asked.
    fn converge(&self) -> String {
        let rows = converge::rows(self.run);
        let caveats = rows.iter().filter_map(|row| Some((row.client, row.caveat()?)));
        let cells = rows.iter().map(|row| (row.client, row.cells().into()));
        self.section("converge", &converge::HEADS, cells, caveats, converge::READING)
    }

    /// The benchmarks of a suite, a table each, and where they are not as the RFC says.
    fn suite(&self, record: &SuiteRecord) -> String {
        let mut text = Vec::new();
        for sheet in suite::sheets(record, &str::to_owned) {
            let mut table = self.table(std::iter::once(String::new()).chain(sheet.heads), 1);
            for (name, cells) in sheet.rows {
                table.add_row(named(&name, cells.iter().map(|cell| cell.figure.clone())));
                if cells.iter().any(|cell| cell.interval.is_some()) {
                    table.add_row(named("", cells.into_iter().map(|cell| cell.interval.unwrap_or_default())));
                }
            }
            let title = self.styled("1", &format!("{} ({})", sheet.title, sheet.source));
            text.push([title, trimmed(&table), self.styled("2", &wrapped(sheet.reading))].join("\n"));
        }
        let says = suite::says(record);
        text.extend((!says.is_empty()).then(|| says.join("\n")));
        let deviations = &record.findings.deviations;
        let each = deviations.iter().map(|deviation| format!("  {}: {}", deviation.section, deviation.what));
        let heading =
            if deviations.is_empty() { "no deviation from RFC 2544 is known" } else { "not as the RFC says:" };
        text.push(std::iter::once(heading.to_owned()).chain(each).collect::<Vec<_>>().join("\n"));
        text.join("\n\n")
    }

    /// A line for each size at each rate.
    fn loaded(&self, loaded: &[Loaded]) -> String {
        let mut text = Vec::new();
        for one in loaded {
            let heads = std::iter::once(one.client.as_str()).chain(loads::HEADS).map(str::to_owned);
            let mut table = self.table(heads, 1);
            for cell in &one.cells {
                let cells = cell.cells();
                let name = format!("{} bytes at {}", cell.size, format::rate(cell.fps));
                table.add_row(named(&name, cells.iter().map(|cell| cell.figure.clone())));
                table.add_row(named("", cells.into_iter().map(|cell| cell.interval.unwrap_or_default())));
            }
            text.push(trimmed(&table));
        }
        text.push(self.styled("2", &wrapped(loads::READING)));
        text.join("\n")
    }

    /// A line per size.
    fn swept(&self, swept: &[Swept]) -> String {
        let mut text = Vec::new();
        for one in swept {
            let heads = std::iter::once(one.client.as_str()).chain(sweep::HEADS).map(str::to_owned);
            let mut table = self.table(heads, 1);
            for line in one.lines() {
                table.add_row(named("", line));
            }
            text.push(trimmed(&table));
            text.extend(one.says().iter().map(|said| format!("{}: {said}", one.client)));
        }
        text.push(self.styled("2", &wrapped(sweep::READING)));
        text.join("\n")
    }

    /// A table of figures with their intervals beneath, what to know of them, and how to read it; nothing without rows.
    fn section<'a>(
        &self,
        name: &str,
        heads: &[&str],
        rows: impl Iterator<Item = (&'a ClientRecord, Vec<Written>)>,
        caveats: impl Iterator<Item = (&'a ClientRecord, String)>,
        reading: &str,
    ) -> String {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return String::new();
        }
        let mut table = self.table(std::iter::once(name).chain(heads.iter().copied()).map(str::to_owned), 1);
        for (client, cells) in rows {
            table.add_row(named(&client.client, cells.iter().map(|cell| cell.figure.clone())));
            table.add_row(named("", cells.into_iter().map(|cell| cell.interval.unwrap_or_default())));
        }
        let caveats = caveats.map(|(client, said)| format!("{}: {said}", client.client));
        let reading = self.styled("2", &wrapped(reading));
        std::iter::once(trimmed(&table)).chain(caveats).chain([reading]).collect::<Vec<_>>().join("\n")
    }

    fn verdicts(&self) -> String {
        let width = self.name_width();
        let mut text = String::new();
        for client in &self.run.clients {
            let _ = writeln!(text, "{:width$}  {}", client.client, verdict::of(client));
            if let Some(clean) = verdict::clean(client) {
                let _ = writeln!(text, "{:width$}  {}", "", self.styled("2", &clean));
            }
        }
        text
    }

    fn name_width(&self) -> usize {
        self.run.clients.iter().map(|c| c.client.chars().count()).max().unwrap_or(0)
    }

    fn latencies(&self) -> String {
        let quantiles = shown().map(|q| q.to_string());
        let mut table = self.table(["latency".to_owned(), String::new()].into_iter().chain(quantiles), 2);
        for client in &self.run.clients {
            self.add_client(&mut table, client);
        }
        format!("{}\n{}", trimmed(&table), self.needs())
    }

    fn add_client(&self, table: &mut Table, client: &ClientRecord) {
        let row = |name: &str, what: &str, figures: &[Estimate], write: fn(&Interval) -> String| {
            let cells = shown().map(|q| figure(figures.iter().find(|e| e.quantile == q), write));
            [Cell::new(name).add_attribute(Attribute::Bold), Cell::new(what)]
                .into_iter()
                .chain(cells)
                .collect::<Vec<_>>()
        };
        table.add_row(row(&client.client, "client", &client.measured.latency.quantiles, ns));
        for part in parts(client) {
            table.add_row(row("", &part.name, &part.latency.quantiles, ns));
        }
        if let Some(truth) = &client.truth {
            table.add_row(row("", "truth", &truth.latency.quantiles, ns));
        } else if let Some(delay) = client.known_delay_ns {
            table.add_row(row("", "truth", &usect_core::stats::constant(delay), ns));
        }
        if !client.errors.is_empty() {
            table.add_row(row("", "error", &client.errors, format::error));
        }
        table.add_row(vec![Cell::new("")]);
    }

    /// For every percentile that is `n/a` somewhere: what it needs, and who lacks how much.
    fn needs(&self) -> String {
        let mut text = String::new();
        let mut line = |of: &str, quantile: Quantile, needs: String, lacking: Vec<String>| {
            if !lacking.is_empty() {
                let line = format!("{of}{quantile}: n/a (needs {needs}); {}", lacking.join(", "));
                let _ = writeln!(text, "{}", wrapped(&line));
            }
        };
        let clients = &self.run.clients;
        for quantile in shown() {
            let lacks_both = |c: &ClientRecord| lacking(c, quantile).is_some() && lacks(&c.errors, quantile);
            let (own, error) = (format::count(quantile.needs()), format::count(quantile.needs_for_error()));
            let needs = if clients.iter().any(lacks_both) { format!("{own}, its error {error}") } else { own };
            line("", quantile, needs, clients.iter().flat_map(|c| lacking(c, quantile)).collect());
        }
        for quantile in shown() {
            let lacking = clients.iter().filter_map(|c| lacking_error(c, quantile)).collect();
            line("error of ", quantile, format::count(quantile.needs_for_error()), lacking);
        }
        text
    }

    fn counts(&self) -> String {
        let heads = ["frames", "sent", "received", "lost", "dup", "reord", "corrupt", "stamped"];
        let mut table = self.table(heads.map(str::to_owned), 1);
        for client in &self.run.clients {
            let cells = |c: &Counts| {
                let counts = [c.sent, c.received, c.lost, c.duplicates, c.reordered, c.corrupted].map(format::count);
                counts.into_iter().chain([c.stamped_share().map_or("–".to_owned(), format::share)])
            };
            table.add_row(named(&client.client, cells(&client.measured.counts)));
            for part in parts(client) {
                table.add_row(named(&format!("  {}", part.name), cells(&part.counts)));
            }
        }
        trimmed(&table)
    }

    fn pace(&self) -> String {
        let heads = ["pace and stalls", "achieved", "late p99", "stalls", "longest", "busy", "longest", "touched"];
        let mut table = self.table(heads.map(str::to_owned), 1);
        for client in &self.run.clients {
            table.add_row(named(&client.client, pace_cells(&client.measured)));
        }
        trimmed(&table)
    }

    fn platform(&self) -> String {
        let mut cores: Vec<&CoreStalls> = self.run.header.platform.iter().collect();
        cores.sort_by_key(|c| c.core);
        let lines: Vec<String> = cores.into_iter().map(platform_line).collect();
        if lines.is_empty() {
            return "platform  its own noise was not measured".to_owned();
        }
        let title = "platform  what a spinning thread lost before any traffic";
        std::iter::once(title.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// What became of the host's settings that were to be changed.
    fn profiles(&self) -> String {
        let lines = host::profiles(&self.run.header);
        lines.iter().map(|(profile, became)| format!("{profile}: {}", plain(became))).collect::<Vec<_>>().join("\n")
    }

    fn notes(&self) -> String {
        let noted = self.run.clients.iter().flat_map(|c| {
            let notes = c.measured.notes.iter().cloned().chain(caveats(&c.measured));
            notes.map(move |note| format!("{}: {}", c.client, plain(&note)))
        });
        noted.collect::<Vec<_>>().join("\n")
    }

    fn reading(&self) -> String {
        let text = "error: client minus truth, where truth is what passive taps in the wires at the DUT's two\n\
                    interfaces saw of the same frames (a bare wire adds nothing). \"Accurate to within X\n\
                    up to pY\" bounds that error, its 95% interval included. stall: a spinning thread was away\n\
                    for over 10 µs; busy: the same while it sent, which may be the path's own work.\n\
                    touched: samples in flight during a stall. Client and truth are cut at different\n\
                    places without them, so \"untouched\" can also be worse. n/a: too few samples for a\n\
                    95% interval, so no figure is given.";
        self.styled("2", text)
    }

    fn table(&self, heads: impl IntoIterator<Item = String>, left: usize) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        let heads: Vec<Cell> = heads.into_iter().map(|h| Cell::new(h).add_attribute(Attribute::Bold)).collect();
        table.set_header(heads);
        for (i, column) in table.column_iter_mut().enumerate() {
            // One blank is between columns anyway.
            column.set_padding((u16::from(i >= left), u16::from(i == 0)));
            column.set_cell_alignment(if i < left { CellAlignment::Left } else { CellAlignment::Right });
        }
        table.force_no_tty();
        if self.color {
            table.enforce_styling();
        }
        table
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// In lines of a terminal's width.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.chars().count() + word.chars().count() > 88 {
            lines.push(word.to_owned());
        } else {
            line.extend((!line.is_empty()).then_some(' '));
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn ns(value: &Interval) -> String {
    format::ns(value.ns)
}

/// The ladder without p90, which tells least and would take a narrow terminal's last columns.
fn shown() -> impl Iterator<Item = Quantile> {
    LADDER.into_iter().filter(|q| q.share() != 0.9)
}

fn setup(run: &Run) -> String {
    let dut = run.header.scenario.dut.name();
    if let Some(record) = suite::of(run) {
        return format!("{}, DUT {dut}", suite::how(&record.suite));
    }
    if let Some(measured) = &run.header.matrix {
        return matrix::setup(measured);
    }
    if run.header.dissect.is_some() {
        return dissect::SETUP.to_owned();
    }
    if run.header.procedure == "loads" {
        return format!("{}, DUT {dut}", loads::asked(&run.header.scenario));
    }
    if run.header.procedure == "sweep" {
        return format!("{}, DUT {dut}", sweep::asked(&run.header.scenario));
    }
    match run.trials.first() {
        Some(first) => format!("{}, DUT {dut}", format::traffic(&first.trial.traffic, &run.header.scenario.traffic)),
        None => format!("DUT {dut}, no trial was run"),
    }
}

/// Text from a run, without anything that could steer a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn figure(estimate: Option<&Estimate>, write: fn(&Interval) -> String) -> Cell {
    match estimate.and_then(|e| e.value) {
        Some(value) => Cell::new(write(&value)),
        None => Cell::new("n/a").fg(Color::DarkGrey),
    }
}

fn lacks(estimates: &[Estimate], quantile: Quantile) -> bool {
    estimates.iter().any(|e| e.quantile == quantile && e.value.is_none())
}

fn lacking(client: &ClientRecord, quantile: Quantile) -> Option<String> {
    let of = |record: &Record, whose: String| {
        let has = format::count(record.latency.samples);
        lacks(&record.latency.quantiles, quantile).then(|| format!("{whose} has {has}"))
    };
    let truth = || client.truth.as_ref().and_then(|t| of(t, format!("{}'s truth", client.client)));
    // Both saw the same frames, so the truth is only worth a word where it alone lacks samples.
    of(&client.measured, client.client.clone()).or_else(truth)
}

/// An error needs more samples than the figures that it is made of: a word where it alone lacks them.
fn lacking_error(client: &ClientRecord, quantile: Quantile) -> Option<String> {
    let has = format::count(client.measured.latency.samples);
    let alone = lacking(client, quantile).is_none() && lacks(&client.errors, quantile);
    alone.then(|| format!("{} has {has}", client.client))
}

fn named(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<Cell> {
    std::iter::once(Cell::new(name).add_attribute(Attribute::Bold)).chain(cells.into_iter().map(Cell::new)).collect()
}

fn pace_cells(record: &Record) -> [String; 7] {
    let p99 = Quantile::new(0.99);
    let late = record.lateness.as_ref().and_then(|l| l.quantiles.iter().find(|e| Some(e.quantile) == p99)?.value);
    let [stalls, longest, busy, longest_busy] = stall_cells(&record.stalls);
    let touched = record.clean.as_ref().map(|clean| record.latency.samples - clean.samples);
    [
        record.pace.map_or("–".to_owned(), |p| format::share(p.achieved / p.requested)),
        match (&record.lateness, late) {
            (None, _) => "–".to_owned(),
            (Some(_), late) => late.map_or("n/a".to_owned(), |v| format::ns(v.ns)),
        },
        stalls,
        longest,
        busy,
        longest_busy,
        touched.map_or("unknown".to_owned(), format::count),
    ]
}

/// Stalls and the longest, busy gaps and the longest.
fn stall_cells(stalls: &[CoreStalls]) -> [String; 4] {
    if stalls.is_empty() {
        return ["unseen", "–", "–", "–"].map(str::to_owned);
    }
    let longest = |of: fn(&CoreStalls) -> u64| format::ns(stalls.iter().map(of).max().unwrap_or(0));
    let number = |of: fn(&CoreStalls) -> u64| format::count(stalls.iter().map(of).sum());
    [number(|s| s.stalls), longest(|s| s.longest_ns), number(|s| s.busy.count), longest(|s| s.busy.longest_ns)]
}

fn platform_line(core: &CoreStalls) -> String {
    let place = core.core.map_or("unpinned".to_owned(), |c| format!("core {c}"));
    format!(
        "{place:>8}  {} of its time, in {} stalls over {}: median {}, longest {}",
        format::share(core.share()),
        format::count(core.stalls),
        format::bound(core.threshold_ns),
        format::ns(core.median_ns),
        format::ns(core.longest_ns),
    )
}

fn trimmed(table: &Table) -> String {
    table.trim_fmt().trim_end().to_owned()
}
