//! What the page's script draws, as data. Field names are the script's.

use crate::curve::Curve;
use crate::series::Series;
use crate::sweep::Swept;
use serde::Serialize;
use usect_core::converge::Convergence;
use usect_core::histogram::Histogram;
use usect_core::run::Spread;
use usect_core::series::Point;
use usect_core::stages::{Share, StageRecord};
use usect_core::stall::CoreStalls;
use usect_core::stats::{self, Estimate, LADDER};
use usect_core::trains::Seen;

/// Everything that is drawn.
#[derive(Serialize)]
pub(crate) struct Plots<'a> {
    ladder: Vec<String>,
    clients: Vec<ClientPlots<'a>>,
    platform: Vec<Bar<'a>>,
    swept: &'a [Swept],
}

#[derive(Serialize)]
struct ClientPlots<'a> {
    label: String,
    /// Under which settings of the host, where those vary.
    settings: Option<Settings>,
    color: usize,
    dash: &'static str,
    symbol: usize,
    latency: Distribution,
    clean: Option<Distribution>,
    scheduled: Option<Distribution>,
    lateness: Option<Distribution>,
    truth: Option<Distribution>,
    truth_clean: Option<Distribution>,
    known_delay_ns: Option<u64>,
    errors: &'a [Estimate],
    errors_clean: &'a [Estimate],
    spread: &'a [Spread],
    stages: Option<StagePlots<'a>>,
    /// How its figures settle.
    convergence: Vec<Settling<'a>>,
    /// Its trains, one after another.
    trains: &'a [Seen],
    trials: Vec<TrialPlots<'a>>,
    stalls: Vec<Bar<'a>>,
}

/// A client under a profile.
#[derive(Serialize)]
struct Settings {
    /// What else is the same for all profiles.
    of: String,
    profile: String,
}

/// The variance of a figure over batches of growing size.
#[derive(Serialize)]
struct Settling<'a> {
    name: String,
    #[serde(flatten)]
    convergence: &'a Convergence,
}

impl Settling<'_> {
    fn of(convergence: &Convergence) -> Settling<'_> {
        Settling { name: convergence.of.to_string(), convergence }
    }
}

#[derive(Serialize)]
pub(crate) struct Distribution {
    #[serde(flatten)]
    curve: Curve,
    quantiles: Vec<Estimate>,
}

/// Percentiles of the whole, taken apart into stages of these names.
#[derive(Serialize)]
struct StagePlots<'a> {
    names: Vec<String>,
    shares: &'a [Share],
}

#[derive(Serialize)]
struct TrialPlots<'a> {
    run: u32,
    measured: &'a [Point],
    truth: &'a [Point],
}

/// A thread's stalls, to be drawn as a bar.
#[derive(Serialize)]
pub(crate) struct Bar<'a> {
    label: String,
    run: Option<u32>,
    #[serde(flatten)]
    stalls: &'a CoreStalls,
}

impl<'a> Plots<'a> {
    /// Of every client of every run, or of sweeps.
    pub(crate) fn of(series: &[Series<'a>], platform: Vec<(String, &'a CoreStalls)>, swept: &'a [Swept]) -> Plots<'a> {
        Plots {
            ladder: LADDER.iter().map(ToString::to_string).collect(),
            clients: series.iter().map(ClientPlots::of).collect(),
            platform: platform.into_iter().map(|(label, stalls)| Bar { label, run: None, stalls }).collect(),
            swept,
        }
    }
}

impl<'a> ClientPlots<'a> {
    fn of(series: &Series<'a>) -> ClientPlots<'a> {
        let histograms = series.run.of_client(&series.client.client);
        let optional = |h: &Option<Histogram>| h.as_ref().map(Distribution::of);
        ClientPlots {
            label: series.label(),
            settings: series.profile().map(|(of, profile)| Settings { of, profile }),
            color: series.color,
            dash: series.dash(),
            symbol: series.symbol(),
            latency: Distribution::of(&histograms.latency),
            clean: optional(&histograms.clean),
            scheduled: optional(&histograms.scheduled),
            lateness: optional(&histograms.lateness),
            truth: optional(&histograms.truth),
            truth_clean: optional(&histograms.truth_clean),
            known_delay_ns: series.client.known_delay_ns,
            errors: &series.client.errors,
            errors_clean: &series.client.errors_clean,
            spread: &series.client.spread,
            stages: series.client.measured.stages.as_ref().map(|record| StagePlots {
                names: record.stages.iter().map(StageRecord::name).collect(),
                shares: &record.shares,
            }),
            convergence: series.client.convergence.iter().map(Settling::of).collect(),
            trains: series.client.measured.trains.as_ref().map_or(&[], |trains| &trains.seen),
            trials: series.trials().map(TrialPlots::of).collect(),
            stalls: series
                .stalls()
                .map(|(run, stalls)| Bar { label: series.label(), run: Some(run), stalls })
                .collect(),
        }
    }
}

impl<'a> TrialPlots<'a> {
    fn of(trial: &'a usect_core::run::TrialRecord) -> TrialPlots<'a> {
        let truth = trial.truth.as_ref().map_or(&[][..], |t| &t.series);
        TrialPlots { run: trial.trial.run, measured: &trial.measured.series, truth }
    }
}

impl Distribution {
    pub(crate) fn of(histogram: &Histogram) -> Distribution {
        Distribution { curve: Curve::of(histogram), quantiles: stats::estimates(histogram) }
    }
}
