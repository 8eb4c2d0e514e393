//! A run's distributions, pooled per client: what plots are drawn from.

use std::collections::BTreeMap;
use usect_core::gathered::Pooled;
use usect_core::histogram::Histogram;
use usect_core::measurement::Measurement;

/// Pooled distributions per client name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histograms(BTreeMap<String, ClientHistograms>);

/// A client's distributions in nanoseconds, its trials pooled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientHistograms {
    /// Latency of every stamped frame, from its actual departure.
    pub latency: Histogram,
    /// The part of `latency` that no stall touched, where that is known.
    pub clean: Option<Histogram>,
    /// Latency from the scheduled departure, where the client knows it.
    pub scheduled: Option<Histogram>,
    /// Actual minus scheduled departure, likewise.
    pub lateness: Option<Histogram>,
    /// What the taps saw of the same frames, where there were taps.
    pub truth: Option<Histogram>,
    /// The part of `truth` that no stall touched, where that is known.
    pub truth_clean: Option<Histogram>,
}

impl Histograms {
    /// Of pooled trials.
    pub fn of(pooled: &[Pooled]) -> Histograms {
        Histograms(pooled.iter().map(|p| (p.client.clone(), ClientHistograms::of(p))).collect())
    }

    /// Those of one client.
    pub fn get(&self, client: &str) -> Option<&ClientHistograms> {
        self.0.get(client)
    }

    /// All clients, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ClientHistograms)> {
        self.0.iter().map(|(name, histograms)| (name.as_str(), histograms))
    }
}

impl ClientHistograms {
    fn of(pooled: &Pooled) -> ClientHistograms {
        ClientHistograms {
            latency: pooled.measured.latency.clone(),
            clean: pooled.measured.clean(),
            scheduled: pooled.measured.scheduled.clone(),
            lateness: pooled.measured.lateness.clone(),
            truth: pooled.truth.as_ref().map(|t| t.latency.clone()),
            truth_clean: pooled.truth.as_ref().and_then(Measurement::clean),
        }
    }
}
