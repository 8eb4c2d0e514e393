//! Medians with and without what their instrument adds.

use crate::format;
use crate::trains::{Written, alone, written};
use jiff::Timestamp;
use usect_core::calibration::{self, Calibrated};
use usect_core::run::{ClientRecord, Run};

/// A client whose instrument was calibrated.
pub(crate) struct CalibratedRow<'a> {
    /// It, in its case.
    pub(crate) client: &'a ClientRecord,
    calibrated: &'a Calibrated,
    /// What physics gives, in nanoseconds, where that is known.
    expected_ns: Option<f64>,
    /// When the run began.
    measured: Option<Timestamp>,
}

/// The rows of a run; none where no instrument was calibrated.
pub(crate) fn rows(run: &Run) -> Vec<CalibratedRow<'_>> {
    let scenario = &run.header.scenario;
    let measured = run.header.created.parse().ok();
    let row = |client| -> Option<CalibratedRow<'_>> {
        let client: &ClientRecord = client;
        let expected_ns = scenario.physics_ns(&client.case);
        Some(CalibratedRow { client, calibrated: client.calibrated.as_ref()?, expected_ns, measured })
    };
    run.clients.iter().filter_map(row).collect()
}

/// Names of the columns.
pub(crate) const HEADS: [&str; 7] =
    ["median", "correction", "corrected", "physics", "off by", "calibrated by", "days before"];

impl CalibratedRow<'_> {
    /// Its cells, in the order of [`HEADS`].
    pub(crate) fn cells(&self) -> [Written; 7] {
        let Calibrated { correction_ns, median_ns, run, made } = self.calibrated;
        let ns = |ns: f64| format::ns(ns.round() as i64);
        let signed = |ns: f64| format::signed_ns(ns.round() as i64);
        [
            written(self.client.median_ns, ns),
            written(Some(*correction_ns), signed),
            written(Some(*median_ns), ns),
            alone(self.expected_ns.map(ns)),
            written(self.expected_ns.map(|expected| median_ns.minus(expected)), signed),
            alone(Some(run.clone())),
            alone(self.measured.and_then(|at| calibration::age_days(made, at)).map(|days| days.to_string())),
        ]
    }
}

/// What the columns mean.
pub(crate) const READING: &str = "correction: what this instrument added over a path whose latency physics tells, with the same engine, \
    frames and rate on this host; it is of the median only. Figures elsewhere are without it. Beneath the median its 95% \
    interval. The correction's is one of 97.5%, and the corrected median's the widest that both allow, each with 97.5%: so it has 95% at \
    least. days before: the age of the calibration when this was measured.";
