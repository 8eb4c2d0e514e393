//! What one client, or the truth, saw in one trial.

use crate::histogram::Histogram;
use crate::series::Point;
use crate::stages::Stages;
use crate::stall::CoreStalls;
use crate::tracker::{Counts, Unbalanced};
use crate::trains::Trains;
use serde::{Deserialize, Serialize};

/// What one client, or the truth, saw in one trial. All distributions are in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    /// Every frame in exactly one class.
    pub counts: Counts,
    /// Latency of every stamped frame, from its actual departure.
    pub latency: Histogram,
    /// The part of `latency` whose flight a stall of a watched thread touched.
    pub touched: Histogram,
    /// Latency from the scheduled departure, which hides no coordinated omission; absent for taps.
    pub scheduled: Option<Histogram>,
    /// Actual minus scheduled departure; absent for taps.
    pub lateness: Option<Histogram>,
    /// Where the time was spent, where frames were stamped at more points than the two of `latency`.
    pub stages: Option<Stages>,
    /// Trains, where frames left in trains.
    pub trains: Option<Trains>,
    /// Every latency in nanoseconds, in the order of arrival, where they were to be kept; what doesn't fit 32 bits is
    /// their largest.
    pub samples: Vec<u32>,
    /// The tagged frames that arrived: which of them, from 0, and its latency in nanoseconds.
    pub tagged: Vec<(u32, u64)>,
    /// Number of the last measured frame that was lost, from 0; absent where none was, or where nobody numbers them.
    pub last_lost: Option<u64>,
    /// Longest time between two arrivals, in nanoseconds; absent below two, and where nobody looks.
    pub silence_ns: Option<u64>,
    /// Its parts, where it has several: flows, pairs of ports, the other direction.
    pub streams: Vec<Stream>,
    /// Requested and achieved rate; absent for taps, and for fewer than two frames.
    pub pace: Option<Pace>,
    /// Stalls per spinning thread; empty where no thread spun, so that nothing was observed.
    pub stalls: Vec<CoreStalls>,
    /// Slow samples or stalls that no log could hold, so that `touched` may lack as many.
    pub unattributed: u64,
    /// Frames that were not in yet when a later one took their place in a table of stamps: lost, or so
    /// late that the table can't tell; 0 for clients without such a table.
    pub overwritten: u64,
    /// Frames that may have been taken for others, because their numbers of 16 bits came round: where there are any, nothing has
    /// a latency ([`Measurement::forget_latencies`]).
    pub ambiguous: u64,
    /// Frames that reached the receiving port, warm-up and others' included, and found no room in its queue; absent
    /// where nobody counts them.
    pub overruns: Option<u64>,
    /// How the trial went over time.
    pub series: Vec<Point>,
    /// What a reader should know of how it was measured (`AF_XDP copy mode`).
    pub notes: Vec<String>,
}

/// A part of a measurement, or what was measured beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// `flow 3`, `pair 2`, `back`.
    pub name: String,
    /// Its frames.
    pub counts: Counts,
    /// Its latency.
    pub latency: Histogram,
    /// Requested and achieved rate, where it has one of its own.
    pub pace: Option<Pace>,
    /// Frames that the queue of its receiving port dropped, where that is counted.
    pub overruns: Option<u64>,
}

/// Requested against achieved rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Frames per second asked for.
    pub requested: f64,
    /// Measured frames over the time from the first to the last departure.
    pub achieved: f64,
}

impl Measurement {
    /// Latency without the samples that a stall touched; `None` where that is not known of every sample,
    /// because no thread spun or a log was full.
    pub fn clean(&self) -> Option<Histogram> {
        (!self.stalls.is_empty() && self.unattributed == 0).then(|| self.latency.without(&self.touched))
    }

    /// Checks that every frame is in one class and every sample in one distribution.
    pub fn balance(&self) -> Result<(), Unbalanced> {
        self.counts.balance()?;
        let (samples, stamped) = (self.latency.samples(), self.counts.stamped);
        if samples != stamped {
            return Err(Unbalanced::new(format!("{stamped} stamped, {samples} latencies")));
        }
        let (clean, touched) = (self.latency.without(&self.touched).samples(), self.touched.samples());
        if clean + touched != samples {
            return Err(Unbalanced::new(format!("{samples} latencies, {touched} touched, {clean} not")));
        }
        Ok(())
    }

    /// Pools another trial of the same client into this one; series and pace stay per trial.
    pub fn pool(&mut self, other: &Measurement) {
        self.counts.add(&other.counts);
        self.latency.add(&other.latency);
        self.touched.add(&other.touched);
        pool_optional(&mut self.scheduled, &other.scheduled);
        pool_optional(&mut self.lateness, &other.lateness);
        for stream in &other.streams {
            match self.streams.iter_mut().find(|own| own.name == stream.name) {
                Some(own) => {
                    own.counts.add(&stream.counts);
                    own.latency.add(&stream.latency);
                    own.overruns = own.overruns.zip(stream.overruns).map(|(own, more)| own + more);
                    own.pace = None;
                }
                None => self.streams.push(stream.clone()),
            }
        }
        match (&mut self.stages, &other.stages) {
            (Some(stages), Some(more)) => stages.add(more),
            (stages, more) => *stages = stages.take().or_else(|| more.clone()),
        }
        match (&mut self.trains, &other.trains) {
            (Some(trains), Some(more)) => trains.add(more),
            (trains, more) => *trains = trains.take().or_else(|| more.clone()),
        }
        self.samples.extend_from_slice(&other.samples);
        self.tagged.extend_from_slice(&other.tagged);
        // Lanes of one trial have one schedule.
        self.last_lost = self.last_lost.max(other.last_lost);
        self.silence_ns = self.silence_ns.max(other.silence_ns);
        self.unattributed += other.unattributed;
        self.overwritten += other.overwritten;
        self.ambiguous += other.ambiguous;
        self.overruns = self.overruns.zip(other.overruns).map(|(own, more)| own + more);
        // To leave out the trials in which frames were late would flatter.
        if self.ambiguous > 0 {
            self.forget_latencies();
        }
    }

    /// Takes every latency back, and leaves the counts.
    pub fn forget_latencies(&mut self) {
        self.latency = Histogram::default();
        self.touched = Histogram::default();
        self.scheduled = self.scheduled.as_ref().map(|_| Histogram::default());
        self.stages = None;
        self.samples.clear();
        self.tagged.clear();
        self.series.clear();
        let heads = self.trains.iter_mut().flat_map(|trains| &mut trains.seen);
        heads.for_each(|seen| (seen.head_ns, seen.mean_ns) = (None, None));
        self.counts.stamped = 0;
        for stream in &mut self.streams {
            (stream.latency, stream.counts.stamped) = (Histogram::default(), 0);
        }
    }
}

fn pool_optional(into: &mut Option<Histogram>, other: &Option<Histogram>) {
    if let Some(other) = other {
        into.get_or_insert_default().add(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::CoreStalls;

    fn measured(latencies: &[u64], touched: &[u64]) -> Measurement {
        let mut m = Measurement::default();
        latencies.iter().for_each(|&ns| m.latency.record(ns));
        touched.iter().for_each(|&ns| m.touched.record(ns));
        let n = latencies.len() as u64;
        m.counts = Counts { sent: n, received: n, stamped: n, arrivals: n, ..Counts::default() };
        m
    }

    #[test]
    fn a_touched_sample_that_is_no_latency_is_found() {
        measured(&[900, 20_000], &[20_000]).balance().unwrap();
        let error = measured(&[900, 20_000], &[30_000]).balance().unwrap_err();
        assert!(error.to_string().contains("2 latencies, 1 touched, 2 not"), "{error}");
        let unstamped = Measurement { counts: Counts::default(), ..measured(&[900], &[]) };
        assert!(unstamped.balance().is_err());
    }

    #[test]
    fn what_is_ambiguous_has_no_latency_also_where_it_is_pooled() {
        let mut pooled = measured(&[900, 20_000], &[20_000]);
        pooled.pool(&Measurement { ambiguous: 3, ..measured(&[700], &[]) });
        pooled.balance().unwrap();
        assert_eq!((pooled.latency.samples(), pooled.counts.received, pooled.counts.stamped), (0, 3, 0));
        assert!(crate::stats::estimates(&pooled.latency).iter().all(|estimate| estimate.value.is_none()));
    }

    #[test]
    fn what_no_stall_touched_is_unknown_where_nobody_watched_or_a_log_was_full() {
        let watched: CoreStalls = serde_json::from_value(serde_json::json!({
            "thread": "sender", "core": 0, "threshold_ns": 10_000, "observed_ns": 1, "stalls": 0, "total_ns": 0,
            "median_ns": 0, "longest_ns": 0, "busy": { "count": 0, "total_ns": 0, "longest_ns": 0 },
        }))
        .unwrap();
        let blind = measured(&[900, 20_000], &[20_000]);
        assert_eq!(blind.clean(), None);
        let seen = Measurement { stalls: vec![watched], ..blind };
        assert_eq!(seen.clean().map(|c| c.samples()), Some(1));
        assert_eq!(Measurement { unattributed: 1, ..seen }.clean(), None);
    }
}
