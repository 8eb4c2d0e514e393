//! What trains say of a path, beside what physics says: the rows of paper 003's Table 1.

use crate::format;
use usect_core::frame::FrameSize;
use usect_core::run::{ClientRecord, Run};
use usect_core::stats::Bounded;
use usect_core::trains::TrainsRecord;

/// A client in one case.
pub(crate) struct TrainRow<'a> {
    /// The client, and its case.
    pub(crate) client: &'a ClientRecord,
    /// What was seen.
    pub(crate) trains: &'a TrainsRecord,
    size: FrameSize,
    /// What a head takes by physics (equation 2), in nanoseconds, where that is known.
    pub(crate) expected_ns: Option<f64>,
    /// Frames per second of the line, where it is known.
    line: Option<f64>,
}

/// That more came than the line carries, where that is so: it can't be, so it is the instrument's doing.
fn above_line(capacity: Bounded, line: f64, batch: u32) -> Option<String> {
    let by = format::share(capacity.value / line - 1.0);
    let how = if capacity.low <= line { "which its interval allows" } else { "more than its interval allows" };
    let sentence = format!("the capacity is above the line's by {by}, {how}: up to {batch} frames share a stamp");
    (capacity.value > line).then_some(sentence)
}

/// A figure and its interval, written alike.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) figure: String,
    pub(crate) interval: Option<String>,
}

/// The rows of a run; none where no frames left in trains.
pub(crate) fn rows(run: &Run) -> Vec<TrainRow<'_>> {
    let scenario = &run.header.scenario;
    let row = |client| -> Option<TrainRow<'_>> {
        let client: &ClientRecord = client;
        let size = client.case.traffic(&scenario.traffic).frame_size;
        let fiber = client.case.dut(&scenario.dut).fiber();
        Some(TrainRow {
            client,
            trains: client.measured.trains.as_ref()?,
            size,
            expected_ns: scenario.physics_ns(&client.case),
            line: fiber.map(|fiber| fiber.line_rate.frames_per_second(size)),
        })
    };
    run.clients.iter().filter_map(row).collect()
}

/// Trains of which a median has an interval.
const FEWEST: u64 = 6;

/// Names of the columns.
pub(crate) const HEADS: [&str; 7] = ["latency", "equation 2", "error", "capacity", "of the line", "off by", "loss"];

impl TrainRow<'_> {
    /// Its cells, in the order of [`HEADS`].
    pub(crate) fn cells(&self) -> [Written; 7] {
        let head = self.trains.head_ns;
        let error = head.zip(self.expected_ns).map(|(head, expected)| head.minus(expected));
        let bits = (self.size.without_fcs() * 8) as f64;
        let capacity = self.trains.bits(self.size).map(|[frames, ..]| frames);
        let line = self.line.map(|line| line * bits);
        let off = capacity.zip(line).map(|(capacity, line)| capacity.minus(line).times(1.0 / line));
        [
            written(head, |ns| format::ns(ns.round() as i64)),
            alone(self.expected_ns.map(|ns| format::ns(ns.round() as i64))),
            written(error, |ns| format::signed_ns(ns.round() as i64)),
            written(capacity, format::bits),
            alone(line.map(format::bits)),
            written(off, format::signed_share),
            written(self.trains.loss, format::share),
        ]
    }

    /// What a reader should know of it.
    pub(crate) fn caveats(&self) -> impl Iterator<Item = String> {
        let TrainsRecord { trains, whole, sender_bound, offered, capacity, batch, .. } = self.trains;
        let bits = (self.size.without_fcs() * 8) as f64;
        let sender = sender_bound.then(|| {
            let pace = offered.map_or(String::new(), |offered| format!(", {}", format::bits(offered.value * bits)));
            format!(
                "trains arrived as fast as they were sent{pace}, or faster: the path may have more capacity than that"
            )
        });
        let damaged = (whole < trains).then(|| {
            let (lacking, trains) = (format::count(trains - whole), format::count(*trains));
            format!("{lacking} of {trains} trains lost frames and have no capacity")
        });
        let above = capacity.zip(self.line).and_then(|(capacity, line)| above_line(capacity, line, *batch));
        let at_once = (capacity.is_none() && *whole >= FEWEST).then(|| {
            "the trains arrived all at once, or nearly, so that they have no capacity: longer ones may have".to_owned()
        });
        let periodic = self.trains.periodic.map(|p| {
            let (hz, share, events) = (p.hz, format::share(p.regularity), format::count(p.events));
            format!("{events} late trains come back {hz:.1} times a second ({share} regular): a timer, or the platform")
        });
        sender.into_iter().chain(damaged).chain(above).chain(at_once).chain(periodic)
    }
}

pub(crate) fn written(value: Option<Bounded>, write: impl Fn(f64) -> String) -> Written {
    match value {
        Some(Bounded { value, low, high }) => {
            Written { figure: write(value), interval: Some(format::bounded(&write(low), &write(high))) }
        }
        None => Written { figure: "n/a".to_owned(), interval: None },
    }
}

pub(crate) fn alone(figure: Option<String>) -> Written {
    Written { figure: figure.unwrap_or_else(|| "–".to_owned()), interval: None }
}

/// What the columns mean, for whoever reads them on a terminal or a page.
pub(crate) const READING: &str = "latency: of the heads of trains, their median. equation 2: d = n·l/c₀ + b/r of the fiber, with b from \
    the preamble to the FCS. capacity: bits of frames without FCS per second, from a quarter of each train to its end, \
    over whole trains, their median, from the first stamp of a batch to that of another; its interval is wider by a batch. The line's \
    own is what its rate leaves beside preamble, FCS and gap. loss: share of all frames. Beneath each figure its 95% interval.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_above_the_line_is_explained() {
        let told = |value, low| above_line(Bounded { value, low, high: value }, 813_008.0, 4);
        assert_eq!(told(813_007.0, 800_000.0), None);
        let within = told(818_800.0, 800_000.0).unwrap();
        assert!(within.contains("which its interval allows: up to 4 frames share a stamp"), "{within}");
        assert!(told(900_000.0, 850_000.0).unwrap().contains("more than its interval allows"));
    }
}
