//! How many repetitions a figure needs: the decay of the variance of batch means, and of batch percentiles, with the size
//! of the batch (paper 003 §4.4, equations 4 to 6).
//!
//! Of independent samples the variance of a mean of N decays as 1/N: on two logarithmic axes a line of slope −1. Samples
//! that depend on each other, because queues or the platform make neighbours alike, show another slope, and then no
//! interval that assumes independence holds.

use crate::stats::{Bounded, LADDER, Quantile};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Batches below which a variance says too little.
const FEWEST_BATCHES: usize = 20;
/// Parts of the sample whose own slopes bound the slope.
const PARTS: usize = 8;
/// Of Student's t at 97.5% with `PARTS − 1` degrees of freedom.
const T: f64 = 2.365;
/// Standard errors on either side of a two-sided 95% interval.
const Z: f64 = 1.96;

/// What is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The arithmetic mean.
    Mean,
    /// A percentile.
    Quantile(Quantile),
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Mean => f.write_str("mean"),
            Of::Quantile(quantile) => write!(f, "{quantile}"),
        }
    }
}

/// The variance of a figure over batches of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decay {
    /// Samples of a batch.
    pub batch: u64,
    /// Batches.
    pub batches: u64,
    /// Variance of their figures, in square nanoseconds.
    pub variance_ns2: f64,
}

/// How a figure settles as it is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Which figure.
    pub of: Of,
    /// It, of all samples, in nanoseconds.
    pub value_ns: f64,
    /// Its variance over batches of growing size.
    pub decay: Vec<Decay>,
    /// Slope of log variance against log size, with its 95% interval from the slopes of parts of the sample; −1 of
    /// independent samples.
    pub slope: Bounded,
    /// Log of the variance of a batch of one, as the line has it.
    pub intercept: f64,
}

impl Convergence {
    /// Whether the slope is that of independent samples, as far as its interval tells.
    pub fn is_independent(&self) -> bool {
        self.slope.low <= -1.0 && self.slope.high >= -1.0
    }

    /// Samples until the figure is known to within ±`within_ns` with 95%, by the line; `None` where it doesn't decay.
    pub fn needs(&self, within_ns: f64) -> Option<u64> {
        if self.slope.value > -0.1 {
            return None;
        }
        let wanted = 2.0 * (within_ns / Z).ln();
        let batch = ((wanted - self.intercept) / self.slope.value).exp();
        (batch.is_finite() && batch < 1e18).then(|| batch.ceil().max(1.0) as u64)
    }
}

/// How mean and percentiles settle, of samples in the order in which they were taken, in nanoseconds. Figures that the
/// sample is too small for are left out.
pub fn of(samples: &[u32]) -> Vec<Convergence> {
    let figures = std::iter::once(Of::Mean).chain(LADDER.into_iter().map(Of::Quantile));
    figures.filter_map(|figure| convergence(samples, figure)).collect()
}

fn convergence(samples: &[u32], of: Of) -> Option<Convergence> {
    let decay = decay(samples, of);
    let (slope, intercept) = line(&decay)?;
    let part = samples.len() / PARTS;
    let slopes: Vec<f64> =
        samples.chunks_exact(part.max(1)).filter_map(|part| Some(line(&self::decay(part, of))?.0)).collect();
    if slopes.len() < PARTS {
        return None;
    }
    let mean = slopes.iter().sum::<f64>() / slopes.len() as f64;
    let squares: f64 = slopes.iter().map(|slope| (slope - mean).powi(2)).sum();
    let half = T * (squares / (slopes.len() - 1) as f64 / slopes.len() as f64).sqrt();
    let mut all = samples.to_vec();
    Some(Convergence {
        of,
        value_ns: figure(&mut all, of),
        decay,
        slope: Bounded { value: slope, low: slope - half, high: slope + half },
        intercept,
    })
}

/// Variances over batches of 1, 2, 4 … samples, from the smallest that has the figure on.
fn decay(samples: &[u32], of: Of) -> Vec<Decay> {
    let smallest = match of {
        Of::Mean => 1,
        // A batch with ten samples beyond the percentile tells more than its own largest.
        Of::Quantile(quantile) => (10.0 / (1.0 - quantile.share())).ceil() as usize,
    };
    let sizes = std::iter::successors(Some(smallest), |size| Some(size * 2));
    let sizes = sizes.take_while(|size| samples.len() / size >= FEWEST_BATCHES);
    let at = |size: usize| {
        let figures: Vec<f64> = samples.chunks_exact(size).map(|batch| figure(&mut batch.to_vec(), of)).collect();
        let mean = figures.iter().sum::<f64>() / figures.len() as f64;
        let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
        Decay { batch: size as u64, batches: figures.len() as u64, variance_ns2: squares / (figures.len() - 1) as f64 }
    };
    sizes.map(at).collect()
}

fn figure(batch: &mut [u32], of: Of) -> f64 {
    match of {
        Of::Mean => batch.iter().map(|&ns| f64::from(ns)).sum::<f64>() / batch.len() as f64,
        Of::Quantile(quantile) => {
            let rank = (batch.len() as f64 * quantile.share()).ceil() as usize;
            f64::from(*batch.select_nth_unstable(rank.clamp(1, batch.len()) - 1).1)
        }
    }
}

/// Slope and intercept of log variance against log size, by least squares; a variance of k batches counts k − 1 times,
/// because its logarithm's own variance is 2/(k − 1). `None` below three sizes, and where nothing varies.
fn line(decay: &[Decay]) -> Option<(f64, f64)> {
    if decay.len() < 3 || decay.iter().any(|d| d.variance_ns2 <= 0.0) {
        return None;
    }
    let points = || decay.iter().map(|d| ((d.batch as f64).ln(), d.variance_ns2.ln(), (d.batches - 1) as f64));
    let weight: f64 = points().map(|(_, _, w)| w).sum();
    let (x, y) = points().fold((0.0, 0.0), |(x, y), (px, py, w)| (x + px * w / weight, y + py * w / weight));
    let over: f64 = points().map(|(px, py, w)| w * (px - x) * (py - y)).sum();
    let under: f64 = points().map(|(px, _, w)| w * (px - x).powi(2)).sum();
    let slope = over / under;
    Some((slope, y - slope * x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, Exp1};
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::SeedableRng;

    fn exponential(samples: usize) -> Vec<u32> {
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let draw = |_| {
            let gap: f64 = Exp1.sample(&mut random);
            (1_000.0 + 400.0 * gap) as u32
        };
        (0..samples).map(draw).collect()
    }

    #[test]
    fn independent_samples_decay_as_one_over_n() {
        let all = of(&exponential(200_000));
        let names: Vec<String> = all.iter().map(|c| c.of.to_string()).collect();
        assert_eq!(names, ["mean", "p50", "p90"], "200,000 samples are too few for the others");
        let mean = &all[0];
        assert!((mean.slope.value + 1.0).abs() < 0.05 && mean.is_independent(), "{:?}", mean.slope);
        assert!((mean.value_ns - 1_400.0).abs() < 5.0);
        // The standard deviation is 400 ns: ±10 ns take (1.96·400/10)² = 6,147 samples.
        let needs = mean.needs(10.0).unwrap();
        assert!((5_200..7_200).contains(&needs), "{needs}");
        // The median of an exponential distribution has the variance mean²/n.
        let median = all[1].needs(10.0).unwrap();
        assert!((4_500..8_500).contains(&median), "{median}");
    }

    #[test]
    fn samples_that_follow_their_neighbours_are_found_out() {
        let mut level = 0.0;
        let follows: Vec<u32> = exponential(100_000)
            .into_iter()
            .map(|sample| {
                level = 0.99 * level + 0.01 * f64::from(sample);
                level as u32
            })
            .skip(2_000)
            .collect();
        let mean = of(&follows).remove(0);
        assert!(!mean.is_independent() && mean.slope.value > -0.8, "{:?}", mean.slope);
    }

    #[test]
    fn what_does_not_vary_or_is_too_little_has_no_slope() {
        assert!(of(&[500; 10_000]).is_empty());
        assert!(of(&exponential(300)).is_empty());
        assert!(of(&[]).is_empty());
    }
}
