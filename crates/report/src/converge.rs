//! How mean and percentiles settle, and how many samples they need.

use crate::format;
use crate::trains::{Written, alone};
use usect_core::converge::Convergence;
use usect_core::run::{ClientRecord, Run};
use usect_core::stats::Bounded;

/// A figure of a client.
pub(crate) struct ConvergeRow<'a> {
    /// It.
    pub(crate) client: &'a ClientRecord,
    pub(crate) convergence: &'a Convergence,
    within_ns: u64,
}

/// The rows of a run, and how closely figures are wanted; none where that wasn't asked.
pub(crate) fn rows(run: &Run) -> Vec<ConvergeRow<'_>> {
    let Some(within_ns) = run.header.within_ns else { return Vec::new() };
    let of = |client| {
        let client: &ClientRecord = client;
        client.convergence.iter().map(move |convergence| ConvergeRow { client, convergence, within_ns })
    };
    run.clients.iter().flat_map(of).collect()
}

/// Names of the columns.
pub(crate) const HEADS: [&str; 5] = ["figure", "value", "slope", "samples", "samples needed"];

impl ConvergeRow<'_> {
    /// Its cells, in the order of [`HEADS`].
    pub(crate) fn cells(&self) -> [Written; 5] {
        let Convergence { of, value_ns, slope, .. } = self.convergence;
        let Bounded { value, low, high } = slope;
        let number = |value: f64| format!("{value:.2}").replace('-', "−");
        let interval = Some(format!("{} to {}", number(*low), number(*high)));
        let needs = match self.convergence.needs(self.within_ns as f64) {
            Some(samples) => format::count(samples),
            None => "it doesn't settle".to_owned(),
        };
        [
            alone(Some(of.to_string())),
            alone(Some(format::ns(value_ns.round() as i64))),
            Written { figure: number(*value), interval },
            alone(Some(format::count(self.client.measured.latency.samples))),
            Written { figure: needs, interval: Some(format!("for ±{}", format::ns(self.within_ns))) },
        ]
    }

    /// What a reader should know of it.
    pub(crate) fn caveat(&self) -> Option<String> {
        let depends = !self.convergence.is_independent();
        depends.then(|| {
            format!(
                "the variance of the {} doesn't decay as 1/N: samples depend on each other, and intervals that assume \
                 otherwise are too narrow",
                self.convergence.of
            )
        })
    }
}

/// What the columns mean.
pub(crate) const READING: &str = "slope: of the logarithm of the variance of batches against that of their size, −1 of independent \
    samples; beneath it its 95% interval, from the slopes of eighths of the sample. samples needed: until the figure is \
    known that closely with 95%, by the line through the variances. Percentiles that the sample is too small for are \
    left out.";
