//! What a monitor tells Prometheus.

use crate::scrape::Endpoint;
use anyhow::Result;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use usect_core::histogram::Histogram;
use usect_core::monitor::{Alarm, Convoy, Entry, Interval, Start};
use usect_core::tracker::Counts;
use usect_procedure::monitor::Watchman;
use usect_report::exposition::Exposition;
use usect_report::monitor::log::Log;

/// Everything since the monitor was started.
pub(super) struct Metrics {
    title: String,
    client: String,
    latency: Histogram,
    level_ns: Option<f64>,
    writes: Option<f64>,
    counts: Counts,
    intervals: u64,
    failures: u64,
    /// Whether the path can be measured at all, and something arrives.
    up: bool,
    high: bool,
    stalls: u64,
    stalled_ns: u64,
    shifts: [u64; 2],
    last_shift: Option<(Timestamp, f64)>,
    convoys: u64,
    last_convoy: Option<Convoy>,
    waiting: usize,
    dropped: u64,
}

/// Serves them, on these cores.
pub(super) fn serve(address: SocketAddr, cores: Vec<usize>, metrics: Arc<Mutex<Metrics>>) -> Result<SocketAddr> {
    let page = move || metrics.lock().expect("no holder panics").exposition();
    Ok(Endpoint::listen(address, cores, page)?.address())
}

impl Metrics {
    /// Of a monitor that has measured nothing.
    pub(super) fn new(start: &Start) -> Metrics {
        Metrics {
            title: start.scenario.title.clone(),
            client: start.scenario.clients[0].name.clone(),
            latency: Histogram::default(),
            level_ns: None,
            writes: None,
            counts: Counts::default(),
            intervals: 0,
            failures: 0,
            up: false,
            high: false,
            stalls: 0,
            stalled_ns: 0,
            shifts: [0; 2],
            last_shift: None,
            convoys: 0,
            last_convoy: None,
            waiting: 0,
            dropped: 0,
        }
    }

    /// A second of a running interval.
    pub(super) fn step(&mut self, fresh: &Histogram, watchman: &Watchman, start: &Start) {
        self.latency.add(fresh);
        self.level_ns = watchman.level_ns();
        self.writes = self.level_ns.and_then(|ns| start.most_writes(ns));
        self.up = !watchman.is_silent();
    }

    /// The path could not be measured.
    pub(super) fn failed(&mut self) {
        self.failures += 1;
        self.up = false;
    }

    /// An entry of the log.
    pub(super) fn entry(&mut self, entry: &Entry, log: &Log) {
        (self.waiting, self.dropped) = (log.waiting(), log.dropped());
        match entry {
            Entry::Interval(interval) => self.interval(interval),
            Entry::Convoy(convoy) => {
                self.convoys += 1;
                self.last_convoy = Some((**convoy).clone());
            }
            Entry::Alarm(alarm) => self.alarm(alarm),
            Entry::Start(_) | Entry::Failure { .. } | Entry::Stop { .. } => {}
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.intervals += 1;
        self.counts.add(&interval.counts);
        self.stalls += interval.stalls.iter().map(|core| core.stalls).sum::<u64>();
        self.stalled_ns += interval.stalls.iter().map(|core| core.total_ns).sum::<u64>();
    }

    fn alarm(&mut self, alarm: &Alarm) {
        match *alarm {
            Alarm::Shift { at, from_ns, to_ns, .. } => {
                self.shifts[usize::from(to_ns < from_ns)] += 1;
                self.last_shift = Some((at, to_ns - from_ns));
            }
            Alarm::High { .. } => self.high = true,
            Alarm::HighOver { .. } => self.high = false,
            Alarm::Silent { .. } | Alarm::SilentOver { .. } => {}
        }
    }

    fn exposition(&self) -> Exposition {
        let mut page = Exposition::default();
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("path", &self.title), ("client", &self.client)];
        page.info("usect_info", "What is monitored, and by which version.", &labels);
        self.path(&mut page);
        self.instrument(&mut page);
        if let Some(convoy) = &self.last_convoy {
            capacity(&mut page, convoy);
        }
        page
    }

    /// What is known of the path.
    fn path(&self, page: &mut Exposition) {
        page.histogram("usect_latency_seconds", "Latency of every frame that arrived.", &self.latency);
        page.gauge("usect_up", "Whether frames arrive.", f64::from(u8::from(self.up)));
        page.gauge("usect_high", "Whether latency is above the threshold of --above.", f64::from(u8::from(self.high)));
        if let Some(ns) = self.level_ns {
            page.gauge("usect_level_seconds", "The usual latency: the median of recent medians of a second.", ns / 1e9);
        }
        if let Some(writes) = self.writes {
            page.gauge(
                "usect_write_operations_bound",
                "Write operations a second that a synchronously replicated array can't exceed: N/RTT, of the usual latency, calibrated where \
                 there is one.",
                writes,
            );
        }
        let shifts = [("up", self.shifts[0] as f64), ("down", self.shifts[1] as f64)];
        page.counters("usect_shifts_total", "Shifts of the usual latency.", "direction", &shifts);
        if let Some((at, by_ns)) = self.last_shift {
            page.gauge("usect_last_shift_seconds", "By how much latency shifted the last time.", by_ns / 1e9);
            let at_s = at.as_millisecond() as f64 / 1e3;
            page.gauge("usect_last_shift_timestamp_seconds", "When it did, since the epoch.", at_s);
        }
        let Counts { sent, received, lost, duplicates, reordered, corrupted, .. } = self.counts;
        page.counter("usect_frames_sent_total", "Frames sent in the intervals that are over.", sent as f64);
        let classes = [
            ("received", received),
            ("lost", lost),
            ("duplicate", duplicates),
            ("reordered", reordered),
            ("corrupted", corrupted),
        ];
        let classes = classes.map(|(class, frames)| (class, frames as f64));
        page.counters(
            "usect_frames_total",
            "What became of them; reordered ones are received, too.",
            "class",
            &classes,
        );
    }

    /// What is known of the instrument itself.
    fn instrument(&self, page: &mut Exposition) {
        page.counter("usect_intervals_total", "Intervals measured.", self.intervals as f64);
        page.counter("usect_failures_total", "Times that the path could not be measured.", self.failures as f64);
        page.counter("usect_stalls_total", "Stalls of the measuring threads.", self.stalls as f64);
        page.counter("usect_stalled_seconds_total", "Their length.", self.stalled_ns as f64 / 1e9);
        page.gauge(
            "usect_log_waiting_entries",
            "Entries of the log that wait for room on the disk.",
            self.waiting as f64,
        );
        page.counter(
            "usect_log_dropped_entries_total",
            "Entries of the log that waited for too long.",
            self.dropped as f64,
        );
        page.counter("usect_convoys_total", "Convoys sent.", self.convoys as f64);
    }
}

/// What the last convoy showed.
fn capacity(page: &mut Exposition, convoy: &Convoy) {
    let at_s = convoy.at.as_millisecond() as f64 / 1e3;
    page.gauge("usect_convoy_timestamp_seconds", "When the last convoy left, since the epoch.", at_s);
    if let Some([capacity, ..]) = convoy.trains.bits(convoy.frame_size) {
        let help = "Capacity that the last convoy saw, of frames without FCS.";
        page.gauge("usect_capacity_bits_per_second", help, capacity.value);
    }
    if let Some(loss) = convoy.trains.loss {
        page.gauge("usect_convoy_loss_ratio", "Share of the last convoy's frames that was lost.", loss.value);
    }
    if let Some(head) = convoy.trains.head_ns {
        page.gauge("usect_convoy_head_seconds", "Median latency of its trains' heads.", head.value / 1e9);
    }
}
