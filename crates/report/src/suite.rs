//! A suite of benchmarks, shown: the tables that RFC 2544 §26 asks for, for terminal and page; its graphs; its figures as CSV.

pub(crate) mod csv;
pub(crate) mod page;

use crate::format;
use crate::loads::repeated;
use crate::trains::Written;
use usect_core::findings::{BackToBack, ClientFindings, Latency, Recovery, Repeated, Reset, SizeFindings, Throughput};
use usect_core::run::{Run, SuiteRecord};
use usect_core::suite::{Benchmark, Suite};

/// A table, as terminal and page lay it out.
pub(crate) struct Sheet {
    /// The page's anchor.
    pub(crate) id: &'static str,
    /// What it is of.
    pub(crate) title: &'static str,
    /// Where it comes from.
    pub(crate) source: &'static str,
    /// Names of its columns.
    pub(crate) heads: Vec<String>,
    /// Its rows: what they are of, and their cells.
    pub(crate) rows: Vec<Row>,
    /// What the columns mean.
    pub(crate) reading: &'static str,
}

/// The suite of a run, if it is one.
pub(crate) fn of(run: &Run) -> Option<&SuiteRecord> {
    run.header.rfc2544.as_ref()
}

/// Every table that has a row; `name` writes a client's name.
pub(crate) fn sheets(record: &SuiteRecord, name: &dyn Fn(&str) -> String) -> Vec<Sheet> {
    let SuiteRecord { suite, findings } = record;
    let several = findings.clients.len() > 1;
    let of = |client: &ClientFindings, size: &SizeFindings| {
        let bytes = format!("{} bytes", size.frame_size.with_fcs());
        if several { format!("{}, {bytes}", name(&client.client)) } else { bytes }
    };
    let rows = |row: &dyn Fn(&SizeFindings) -> Vec<Row>| -> Vec<Row> {
        let each = findings.clients.iter().flat_map(|client| client.sizes.iter().map(move |size| (client, size)));
        let named = |(client, size): (&ClientFindings, &SizeFindings)| {
            let label = of(client, size);
            row(size).into_iter().map(move |(more, cells)| (format!("{label}{more}"), cells)).collect::<Vec<_>>()
        };
        each.flat_map(named).collect()
    };
    let one = |cells: Option<Vec<Written>>| cells.map(|cells| (String::new(), cells)).into_iter().collect();
    let mut sheets = vec![
        summary(rows(&|size| vec![(String::new(), glance(suite, size))])),
        throughput(rows(&|size| throughputs(suite, size))),
        latency(rows(&|size| size.latency.iter().map(latency_row).collect())),
        loss(suite, &rows),
        back_to_back(rows(&|size| one(size.back_to_back.as_ref().map(burst_cells)))),
        recovery(rows(&|size| one(size.recovery.as_ref().map(recovery_cells)))),
        reset(rows(&|size| one(size.reset.as_ref().map(reset_cells)))),
    ];
    sheets.retain(|sheet| !sheet.rows.is_empty() && !sheet.heads.is_empty());
    // Of one benchmark, its table is summary enough.
    if sheets.len() < 3 {
        sheets.retain(|sheet| sheet.id != "summary");
    }
    sheets
}

/// What is lost at a load that is no more than the throughput contradicts it.
fn contradiction(size: &SizeFindings) -> Option<String> {
    let throughput = size.throughput.first().filter(|found| found.loss_ratio == 0.0)?.fps.as_ref()?.mean.value;
    let below = size.loss.iter().filter(|loss| loss.fps <= throughput && loss.share.mean.value > 0.0);
    let worst = below.max_by(|a, b| a.share.mean.value.total_cmp(&b.share.mean.value))?;
    Some(format!(
        "{} of the frames were lost at {}, which is less than the throughput: device or host were not the same all the time",
        format::share(worst.share.mean.value),
        format::rate(worst.fps)
    ))
}

/// What the host did to the trials of a size, where it is worth a word.
fn disturbance(size: &SizeFindings) -> Option<String> {
    let SizeFindings { trials, disturbed, longest_away, .. } = size;
    (*disturbed > 0).then(|| {
        let most = format::share(*longest_away);
        format!(
            "DISTURBED: in {disturbed} of {trials} trials a thread was away for more than 5 % of its time, up to {most}; figures may \
             say more of the host than of the device"
        )
    })
}

/// What to take away of a client, in a sentence for each size that is worth one.
pub(crate) fn says(record: &SuiteRecord) -> Vec<String> {
    let several = record.findings.clients.len() > 1;
    let of = |client: &ClientFindings, size: &SizeFindings| {
        let own = (size.own_lost > 0).then(|| {
            let frames = format::count(size.own_lost);
            format!("{frames} lost frames are claimed by usect's own receive queue, for want of room or for bad checksums; they count as lost")
        });
        let name = if several { format!("{}, ", client.client) } else { String::new() };
        let bytes = size.frame_size.with_fcs();
        let said = size.verdict.iter().cloned().chain(disturbance(size)).chain(contradiction(size)).chain(own);
        said.map(move |said| format!("{name}{bytes} bytes: {said}")).collect::<Vec<_>>()
    };
    let all = record.findings.clients.iter();
    all.flat_map(|client| client.sizes.iter().flat_map(move |size| of(client, size))).collect()
}

fn plain(text: impl Into<String>) -> Written {
    Written { figure: text.into(), interval: None }
}

fn ns(value: f64) -> String {
    format::ns(value.round() as i64)
}

/// The median, and beneath it the least and the most.
fn spread(value: &Option<Repeated>) -> Written {
    let Some(value) = value else { return plain("n/a") };
    let between = format::bounded(&ns(value.median.low), &ns(value.median.high));
    Written { figure: ns(value.median.value), interval: value.has_interval().then_some(between) }
}

fn seconds(value: f64) -> String {
    ns(value * 1e9)
}

fn summary(mut rows: Vec<Row>) -> Sheet {
    // A benchmark that was left out needs no column.
    let names = ["throughput", "of the line", "p50", "p99.9", "lost at the most", "longest burst", "recovery"];
    let of = |row: &Row, column: usize| row.1.get(column).is_some_and(|cell| cell.figure != NOT_MEASURED);
    let kept: Vec<usize> = (0..names.len()).filter(|column| rows.iter().any(|row| of(row, *column))).collect();
    for (_, cells) in &mut rows {
        *cells = kept.iter().map(|column| cells[*column].clone()).collect();
    }
    Sheet {
        id: "summary",
        title: "Summary",
        source: "RFC 2544 §26",
        heads: kept.into_iter().map(|column| names[column].to_owned()).collect(),
        rows,
        reading: "A figure of each benchmark; the tables below say what it means, and how sure it is. p50, p99.9: latency of every \
                  frame at the highest load of which it was measured. lost at the most: share lost at the most that was offered.",
    }
}

/// In a summary.
const NOT_MEASURED: &str = "–";

/// What to know of a size in a line.
fn glance(suite: &Suite, size: &SizeFindings) -> Vec<Written> {
    let missing = || plain(NOT_MEASURED);
    let throughput = throughputs(suite, size).into_iter().next().map(|(_, cells)| cells);
    let latency = size.latency.iter().filter(|found| !found.loopback).max_by_key(|found| found.percent);
    let latency = latency.map(|found| latency_row(found).1);
    let loss = size.loss.iter().max_by_key(|found| found.percent);
    let loss = loss.map(|found| repeated(&Some(found.share.clone()), format::share));
    let of =
        |cells: &Option<Vec<Written>>, column: usize| cells.as_ref().map_or_else(missing, |all| all[column].clone());
    vec![
        of(&throughput, 1),
        of(&throughput, 2),
        of(&latency, 4),
        of(&latency, 5),
        loss.unwrap_or_else(missing),
        of(&size.back_to_back.as_ref().map(burst_cells), 0),
        of(&size.recovery.as_ref().map(recovery_cells), 0),
    ]
}

const THROUGHPUT: [&str; 7] = ["may lose", "throughput", "of the line", "forwarded", "line", "offered", "trials"];

fn throughput(rows: Vec<Row>) -> Sheet {
    let heads = THROUGHPUT.map(str::to_owned).to_vec();
    let reading = "throughput: the highest rate of which no more than that share is lost, and beneath it the lowest that lost \
                   more (of one repetition) or the 95% interval of the mean. of the line: share of the theoretical most. \
                   forwarded: what came out at that rate (RFC 9971). offered: the most that the sender was asked for. trials: \
                   how many, and their traffic.";
    Sheet { id: "throughput", title: "Throughput", source: "RFC 2544 §26.1", heads, rows, reading }
}

fn throughputs(suite: &Suite, size: &SizeFindings) -> Vec<Row> {
    let asked = suite.has(Benchmark::Throughput) && size.throughput.is_empty() && size.verdict.is_some();
    if asked {
        let mut cells: Vec<Written> = THROUGHPUT.iter().map(|_| plain("–")).collect();
        (cells[1], cells[4]) = (plain("none"), plain(format::rate(size.line_fps)));
        return vec![(String::new(), cells)];
    }
    size.throughput.iter().map(|found| (String::new(), throughput_cells(size, found))).collect()
}

fn throughput_cells(size: &SizeFindings, found: &Throughput) -> Vec<Written> {
    let most = size.offered_fps.unwrap_or(size.line_fps);
    let value = found.fps.as_ref().map(|fps| fps.mean.value);
    let bound = match (&found.fps, &found.above_fps) {
        _ if !found.complete => Some("not yet known".to_owned()),
        (Some(_), None) if most < 0.99 * size.line_fps => Some("all that was offered".to_owned()),
        (Some(_), None) => Some("the line".to_owned()),
        (Some(fps), Some(above)) if above.values.len() < fps.values.len() => Some("and more".to_owned()),
        (Some(fps), Some(above)) if fps.has_interval() => {
            Some(format::bounded(&format::rate(fps.mean.low), &format::rate(above.mean.high)))
        }
        (_, Some(above)) => Some(format!("not {}", format::rate(above.mean.value))),
        (None, None) => None,
    };
    vec![
        plain(format::share(found.loss_ratio)),
        Written { figure: value.map_or("none".to_owned(), format::rate), interval: bound },
        plain(value.map_or("–".to_owned(), |fps| format::share(fps / size.line_fps))),
        repeated(&found.forwarded_fps, format::rate),
        plain(format::rate(size.line_fps)),
        plain(format::rate(most)),
        Written { figure: found.trials.to_string(), interval: Some(seconds(found.trial_s)) },
    ]
}

fn latency(rows: Vec<Row>) -> Sheet {
    let heads = ["tagged", "typical", "worst", "mean", "p50", "p99.9", "PDV", "lost"];
    let reading = "at: load in percent of the throughput. tagged: of the frame in the middle of the stream (RFC 2544 §26.2). \
                   typical, worst: median and 99.9th percentile of the tagged frames of the second half (RFC 8219 §7.2). mean, \
                   p50, p99.9: of every frame. PDV: p99.9 less the least (RFC 8219 §7.3.1). typical, worst and PDV are the \
                   medians of the repetitions, beneath them the least and the most (RFC 8219); the others their means with 95% intervals \
                   (Student's t). Latency is from the frame's handing to the sending port to its \
                   being found at the receiving one: from first bit in to last bit out (RFC 1242 §3.8 has store-and-forward from \
                   last bit in to first bit out, and bit-forwarding from first to first: subtract the frame's time on a line \
                   with a rate twice, or once).";
    Sheet {
        id: "latency",
        title: "Latency",
        source: "RFC 2544 §26.2, RFC 8219 §7.2",
        heads: heads.map(str::to_owned).to_vec(),
        rows,
        reading,
    }
}

fn latency_row(latency: &Latency) -> Row {
    let Latency { percent, fps, loopback, sent, lost, own_lost, .. } = latency;
    let name = format!(" at {percent} %{}", if *loopback { ", loopback" } else { "" });
    let of = |value: &Option<Repeated>| repeated(value, ns);
    let cells = vec![
        of(&latency.tagged_ns),
        spread(&latency.typical_ns),
        spread(&latency.worst_ns),
        of(&latency.mean_ns),
        of(&latency.median_ns),
        of(&latency.p999_ns),
        spread(&latency.pdv_ns),
        Written { figure: format::part(lost + own_lost, *sent), interval: Some(format!("at {}", format::rate(*fps))) },
    ];
    (name, cells)
}

/// What a row is of, and its cells.
type Row = (String, Vec<Written>);
/// Makes the rows of every size.
type Rows<'a> = dyn Fn(&dyn Fn(&SizeFindings) -> Vec<Row>) -> Vec<Row> + 'a;

fn loss(suite: &Suite, rows: &Rows<'_>) -> Sheet {
    let percents: Vec<u32> = (1..=10).rev().map(|tenth| tenth * 10).collect();
    let row = |size: &SizeFindings| {
        let at = |percent: &u32| match size.loss.iter().find(|loss| loss.percent == *percent) {
            Some(loss) => repeated(&Some(loss.share.clone()), format::share),
            None => plain("–"),
        };
        let any = !size.loss.is_empty() && suite.has(Benchmark::Loss);
        any.then(|| (String::new(), percents.iter().map(at).collect())).into_iter().collect()
    };
    Sheet {
        id: "loss",
        title: "Frame loss rate",
        source: "RFC 2544 §26.3",
        heads: percents.iter().map(|percent| format!("{percent} %")).collect(),
        rows: rows(&row),
        reading: "Share of the frames that was lost, at loads in percent of the most that was offered, down until two loads lost \
                  nothing.",
    }
}

fn back_to_back(rows: Vec<Row>) -> Sheet {
    let heads = ["longest burst", "at", "it takes", "corrected", "buffer"];
    let reading = "longest burst: frames at the highest rate of which none is lost; and more: no longer one was tried, or could be \
                   sent. it takes: how long that is (RFC 9004's implied buffer time). corrected: without what is forwarded \
                   meanwhile, b/r·(1 − throughput/r); buffer: the same in frames (RFC 9004 §6).";
    Sheet {
        id: "back-to-back",
        title: "Back-to-back frames",
        source: "RFC 2544 §26.4, RFC 9004",
        heads: heads.map(str::to_owned).to_vec(),
        rows,
        reading,
    }
}

fn burst_cells(found: &BackToBack) -> Vec<Written> {
    let frames = |value: f64| format::count(value.max(0.0).round() as u64);
    let times = found.frames.values.len() as u32;
    let longest = match found.unlimited {
        0 => Written {
            figure: frames(found.frames.mean.value),
            interval: found.above.as_ref().map(|above| {
                let (low, high) = (frames(found.frames.mean.low), frames(above.mean.high));
                if found.frames.has_interval() { format!("{low} to {high}") } else { format!("not {high}") }
            }),
        },
        all if all == times => {
            Written { figure: frames(found.frames.mean.value), interval: Some("and more".to_owned()) }
        }
        some => Written {
            figure: frames(found.frames.mean.value),
            interval: Some(format!("and more in {some} of {times}")),
        },
    };
    vec![
        longest,
        plain(format::rate(found.fps)),
        plain(seconds(found.implied_s)),
        plain(found.corrected_s.map_or("n/a".to_owned(), seconds)),
        plain(found.buffer_frames.map_or("n/a".to_owned(), frames)),
    ]
}

fn recovery(rows: Vec<Row>) -> Sheet {
    let reading = "From the first frame at half of the overload to the last one that was lost. The overload is 110 % of the \
                   throughput, or all that the sender can.";
    Sheet {
        id: "recovery",
        title: "System recovery",
        source: "RFC 2544 §26.5",
        heads: ["recovery", "overload", "of repetitions"].map(str::to_owned).to_vec(),
        rows,
        reading,
    }
}

fn recovery_cells(found: &Recovery) -> Vec<Written> {
    let times = found.seconds.as_ref().map_or(0, |seconds| seconds.values.len());
    let mut of = vec![format!("{times} recovered")];
    of.extend((found.unmoved > 0).then(|| format!("{} lost nothing", found.unmoved)));
    of.extend((found.unclear > 0).then(|| format!("{} not known", found.unclear)));
    of.extend((found.unrecovered > 0).then(|| format!("{} lost frames to the end", found.unrecovered)));
    vec![repeated(&found.seconds, seconds), plain(format::rate(found.overload_fps)), plain(of.join(", "))]
}

fn reset(rows: Vec<Row>) -> Sheet {
    Sheet {
        id: "reset",
        title: "Reset",
        source: "RFC 2544 §26.6, RFC 6201",
        heads: ["reset", "by loss", "at", "of repetitions"].map(str::to_owned).to_vec(),
        rows,
        reading: "reset: from the last frame before to the first one after. by loss: the frames lost, at the rate of the stream. \
                  For the smallest frames.",
    }
}

fn reset_cells(found: &Reset) -> Vec<Written> {
    let times = found.seconds.as_ref().map_or(0, |seconds| seconds.values.len());
    let mut of = vec![format!("{times} came back")];
    of.extend((found.unmoved > 0).then(|| format!("{} lost nothing", found.unmoved)));
    of.extend((found.out > 0).then(|| format!("{} did not come back in time", found.out)));
    let times = [repeated(&found.seconds, seconds), repeated(&found.lost_s, seconds)];
    times.into_iter().chain([plain(format::rate(found.fps)), plain(of.join(", "))]).collect()
}

/// How it was searched and repeated, in a line.
pub(crate) fn how(suite: &Suite) -> String {
    let sizes: Vec<String> = suite.sizes.iter().map(|size| size.with_fcs().to_string()).collect();
    format!(
        "{} to within {}, line {}{}, frames of {} bytes",
        suite.search,
        format::share(suite.width),
        format::bits(suite.line.0 as f64),
        if suite.line_assumed { " (assumed)" } else { "" },
        sizes.join(", ")
    )
}
