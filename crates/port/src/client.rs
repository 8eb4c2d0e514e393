//! Clients: one way each to measure latency. Every port gets one for free, [`PacketClient`].

use crate::arrivals::{Arrivals, Seen};
pub use crate::live::Probe;
use crate::live::{Live, Plan};
use crate::paced::{Departures, Sent, drive};
use crate::route::{self, Joint, Route};
use crate::{Beside, ClientError, Receive, Transmit, pin};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, Release},
};
use std::sync::{Arc, Mutex};
use usect_clock::Clock;
use usect_clock::watch::Watch;
use usect_core::frame::Flow;
use usect_core::frame_spec::FrameSpec;
use usect_core::histogram::Histogram;
use usect_core::instant::Bridge;
use usect_core::measurement::{Measurement, Pace, Stream};
use usect_core::scenario::{Mode, Wait};
use usect_core::stall::{SpanLog, Watched};
use usect_core::template::Template;
use usect_core::tracker::Counts;
use usect_core::trains::Trains;
use usect_core::trial::Traffic;

/// Runs a traffic over a path and returns what it measured.
pub trait Client: Send {
    /// A window on the next run, to be taken before each [`Client::run`].
    fn probe(&mut self) -> Arc<dyn Probe>;

    /// Sends the traffic, receives it and returns when the last frame is in, or given up. When
    /// `control` says stop, it ends early with what it has.
    fn run(&mut self, traffic: &Traffic, control: &Control) -> Result<Outcome, ClientError>;
}

/// What the rig shares with a running client.
pub struct Control {
    /// Set to end the trial early.
    pub stop: Arc<AtomicBool>,
    /// From the counter to `CLOCK_MONOTONIC`, extended while the trial runs.
    pub bridge: Mutex<Bridge>,
}

impl Control {
    /// A copy of the bridge as it stands, with a reading of now.
    pub fn bridge(&self) -> Bridge {
        let mut bridge = self.bridge.lock().expect("no holder panics");
        bridge.add(usect_clock::correlate());
        bridge.clone()
    }
}

/// What a client measured, and the evidence by which stalls are told apart afterwards.
#[derive(Debug)]
pub struct Outcome {
    /// Everything but the stalls of other threads.
    pub measurement: Measurement,
    /// Slow samples, on `CLOCK_MONOTONIC`: a stall may have touched them.
    pub slow: SpanLog,
    /// The stalls of each of the client's spinning threads.
    pub watched: Vec<Watched>,
}

/// The pace of `frames` departures, the last `span_ns` after the first; `None` where fewer than two make no
/// pace.
pub fn pace(traffic: &Traffic, frames: u64, span_ns: u64) -> Option<Pace> {
    let requested = traffic.rate.frames_per_second();
    (frames > 1 && span_ns > 0).then(|| Pace { requested, achieved: (frames - 1) as f64 * 1e9 / span_ns as f64 })
}

/// Which threads a packet client runs, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One thread sends and receives.
    One {
        /// Its core.
        core: usize,
    },
    /// One sends, one receives.
    Two {
        /// The sender's core.
        sender: usize,
        /// The receiver's core.
        receiver: usize,
    },
}

/// The client that every port gets for free: paced sending, signatures in the payload.
pub struct PacketClient<T, R> {
    /// Where frames leave.
    pub tx: T,
    /// Where they arrive.
    pub rx: R,
    /// The flow as it is sent.
    pub flow: Flow,
    /// The flow as it arrives: the same, or the way back.
    pub expected: Flow,
    /// Its frames.
    pub frame: FrameSpec,
    /// Flows that take turns.
    pub flows: u16,
    /// How it waits.
    pub wait: Wait,
    /// Its threads.
    pub threads: Threads,
    /// Who stamps its frames besides it.
    pub route: Route,
    /// What the receiving thread does besides; only with a thread for each half.
    pub beside: Option<Box<dyn Beside>>,
    clock: Clock,
    live: Arc<Live>,
    /// Frames sent in all its runs.
    sent: u32,
}

impl<T: Transmit, R: Receive> PacketClient<T, R> {
    /// A client over two open halves; see the fields. `stop` ends its trial early.
    pub fn new(clock: Clock, tx: T, rx: R, flow: Flow, threads: Threads, stop: Arc<AtomicBool>) -> Self {
        let live = Arc::new(Live { stop, ..Live::default() });
        let (wait, route, frame) = (Wait::Poll, Route::default(), FrameSpec::default());
        PacketClient {
            tx,
            rx,
            flow,
            expected: flow,
            frame,
            flows: 1,
            wait,
            threads,
            route,
            beside: None,
            clock,
            live,
            sent: 0,
        }
    }

    fn plan(&self, traffic: &Traffic) -> Result<Plan, ClientError> {
        let spec = self.frame.with_flows(self.flows, self.flow.source.address.port());
        let template = |flow: &Flow| Template::new(&spec, traffic.frame_size, flow).map_err(ClientError::Frame);
        let frames = self.tx.caps().frames;
        if !frames && !spec.is_plain() {
            return Err(ClientError::Frame("a UDP socket sends plain frames only: choose packet, xdp or dpdk".into()));
        }
        Ok(Plan {
            nonce: (usect_clock::tsc().0 >> 8) as u16,
            flows: self.flows,
            joint: Joint::of(&self.route, &self.tx.caps().stamps, &self.rx.caps().stamps)?,
            ..Plan::new(template(&self.flow)?, template(&self.expected)?, traffic.clone(), frames)
        })
    }

    /// Both halves in one thread.
    fn run_one<'p>(&mut self, core: usize, plan: &'p Plan, control: &Control) -> Result<Ends<'p>, ClientError> {
        let spins = self.wait == Wait::Poll;
        let PacketClient { tx, rx, clock, live, sent: before, .. } = self;
        let work = || {
            pinned(core)?;
            let mut watch = spins.then(|| Watch::new(clock));
            let sends = Departures::new(clock, tx, plan, live, false).behind(*before);
            let mut halves = (sends, Arrivals::new(clock, rx, plan, live));
            drive(clock, &mut halves, watch.as_mut())?;
            let watched = watch.map(|w| w.finish("sender and receiver", Some(core), &control.bridge()));
            Ok(Ends { sent: halves.0.finish(), seen: halves.1.finish(), watched: watched.into_iter().collect() })
        };
        std::thread::scope(|scope| join(scope.spawn(work)))
    }

    /// A thread for each half.
    fn run_two<'p>(
        &mut self,
        cores: (usize, usize),
        plan: &'p Plan,
        control: &Control,
    ) -> Result<Ends<'p>, ClientError> {
        let spins = self.wait == Wait::Poll;
        let PacketClient { tx, rx, clock, live, beside, sent: before, .. } = self;
        let (clock, live) = (&*clock, &*live);
        let send = || {
            let _end = EndOfSending(live);
            pinned(cores.0)?;
            let mut watch = spins.then(|| Watch::new(clock));
            let mut half = Departures::new(clock, tx, plan, live, !spins).behind(*before);
            live.wait_for_receiver();
            drive(clock, &mut half, watch.as_mut())?;
            let watched = watch.map(|w| w.finish("sender", Some(cores.0), &control.bridge()));
            Ok::<_, ClientError>((half.finish(), watched))
        };
        let receive = || {
            let _end = EndOfReceiving(live);
            pinned(cores.1)?;
            let mut watch = spins.then(|| Watch::new(clock));
            let mut halves = (&mut *beside, Arrivals::new(clock, rx, plan, live));
            live.receiving.store(true, Release);
            drive(clock, &mut halves, watch.as_mut())?;
            let watched = watch.map(|w| w.finish("receiver", Some(cores.1), &control.bridge()));
            Ok::<_, ClientError>((halves.1.finish(), watched))
        };
        let (sent, seen) = std::thread::scope(|scope| {
            let receiver = scope.spawn(receive);
            let sent = join(scope.spawn(send));
            (sent, join(receiver))
        });
        let ((sent, sender), (seen, receiver)) = (sent?, seen?);
        Ok(Ends { sent, seen, watched: sender.into_iter().chain(receiver).collect() })
    }
}

/// What both halves brought home.
struct Ends<'p> {
    sent: Sent,
    seen: Seen<'p>,
    watched: Vec<Watched>,
}

/// Lets the receiver go when the sender fails or panics.
struct EndOfSending<'a>(&'a Live);

impl Drop for EndOfSending<'_> {
    fn drop(&mut self) {
        self.0.end_of_sending(usect_clock::tsc());
    }
}

/// Lets the sender go when the receiver fails or panics.
struct EndOfReceiving<'a>(&'a Live);

impl Drop for EndOfReceiving<'_> {
    fn drop(&mut self) {
        self.0.receiver_gone.store(true, Relaxed);
    }
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn pinned(core: usize) -> Result<(), ClientError> {
    usect_clock::sleep_precisely();
    pin(core).map_err(|e| ClientError::io(format!("pinning a thread to core {core}"), e))
}

impl<T: Transmit, R: Receive> Client for PacketClient<T, R> {
    fn probe(&mut self) -> Arc<dyn Probe> {
        self.live = Arc::new(Live { stop: self.live.stop.clone(), ..Live::default() });
        self.live.clone()
    }

    fn run(&mut self, traffic: &Traffic, control: &Control) -> Result<Outcome, ClientError> {
        let plan = self.plan(traffic)?;
        let overruns = self.rx.overruns();
        let ends = match self.threads {
            Threads::One { core } => self.run_one(core, &plan, control)?,
            Threads::Two { sender, receiver } => self.run_two((sender, receiver), &plan, control)?,
        };
        self.sent = self.sent.wrapping_add((ends.sent.warmup + ends.sent.measured) as u32);
        let mut outcome = outcome(&self.live, &plan, ends, &control.bridge())?;
        let measurement = &mut outcome.measurement;
        measurement.overwritten = plan.overwritten();
        measurement.ambiguous =
            if plan.comes_round() { measurement.counts.confusable(measurement.overwritten) } else { 0 };
        outcome.measurement.overruns = self.rx.overruns().zip(overruns).map(|(now, before)| now.saturating_sub(before));
        let (sending, receiving) = (&self.tx.caps().note, &self.rx.caps().note);
        // What receives often says all that what sends does, and more.
        if !receiving.starts_with(sending) {
            outcome.measurement.notes.push(sending.clone());
        }
        outcome.measurement.notes.push(receiving.clone());
        if let Some(note) = route::note(&self.route) {
            outcome.measurement.notes.push(note);
        }
        Ok(outcome)
    }
}

fn outcome(live: &Live, plan: &Plan, ends: Ends, bridge: &Bridge) -> Result<Outcome, ClientError> {
    let Ends { sent, mut seen, watched } = ends;
    let traffic = &plan.traffic;
    let decided_by_others = seen.decided_by_others();
    let stages = seen.join_the_rest(plan, live)?;
    let last_lost = seen.flows.last_lost(sent.warmup, sent.measured);
    let per_flow = seen.flows.finish(sent.warmup, sent.measured);
    let mut counts = Counts::default();
    per_flow.iter().for_each(|flow| counts.add(flow));
    counts.balance()?;
    let streams = per_flow.into_iter().zip(&seen.per_flow).enumerate().map(|(i, (counts, latency))| Stream {
        name: format!("flow {}", i + 1),
        counts,
        latency: Histogram::from_counts(&latency.counts()),
        pace: None,
        overruns: None,
    });
    let trains = traffic.pattern.train().zip(sent.trains.as_ref()).zip(seen.trains.as_ref());
    let trains = trains.map(|((train, sent), seen)| Trains::of(*train, sent, seen, |ticks| bridge.rate().ns(ticks)));
    let paced = traffic.mode != Mode::PingPong && traffic.rate.is_paced();
    let measurement = Measurement {
        counts,
        latency: Histogram::from_counts(&live.latency.counts()),
        touched: Histogram::from_counts(&seen.touched.counts()),
        scheduled: paced.then(|| Histogram::from_counts(&seen.scheduled.counts())),
        lateness: paced.then(|| Histogram::from_counts(&sent.lateness)),
        stages,
        trains,
        samples: std::mem::take(&mut seen.samples),
        tagged: std::mem::take(&mut seen.tagged),
        last_lost,
        silence_ns: seen.silence_ns(bridge.rate()),
        streams: streams.collect(),
        pace: pace(traffic, sent.measured, sent.span_ns).filter(|_| traffic.mode != Mode::PingPong),
        ..Measurement::default()
    };
    // Latency between the stamps of others is on `CLOCK_MONOTONIC` already.
    let slow = if decided_by_others { seen.slow } else { seen.slow.map_spans(|span| span.flight(bridge)) };
    Ok(Outcome { measurement, slow, watched })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Caps;
    use crate::fault::Faulty;
    use crate::mem;
    use std::net::SocketAddrV4;
    use usect_core::frame::{Endpoint, FrameSize};
    use usect_core::rate::Rate;
    use usect_core::scenario::Faults;

    fn flow() -> Flow {
        let end =
            |n: u8| Endpoint { mac: [2, 0, 0, 0, 0, n], address: SocketAddrV4::new([198, 18, 0, n].into(), 9000) };
        Flow { source: end(1), destination: end(2) }
    }

    fn traffic(frames: u64, warmup_frames: u64) -> Traffic {
        let rate = Rate::per_second(5_000).unwrap();
        Traffic { warmup_frames, ..Traffic::evenly(FrameSize::MIN, rate, frames) }
    }

    fn control(clock: &Clock) -> Control {
        Control { stop: Arc::default(), bridge: Mutex::new(clock.bridge()) }
    }

    fn measure(traffic: &Traffic, faults: Faults) -> Measurement {
        let clock = Clock::calibrate().unwrap();
        let (a, b) = mem::pair(1514);
        let tx = Faulty::new(a.tx, faults);
        let mut client = PacketClient::new(clock, tx, b.rx, flow(), Threads::One { core: 0 }, Arc::default());
        client.run(traffic, &control(&clock)).unwrap().measurement
    }

    #[test]
    fn every_frame_is_measured_and_the_warm_up_left_out() {
        let m = measure(&traffic(2_000, 500), Faults::default());
        assert_eq!((m.counts.sent, m.counts.received, m.counts.stamped), (2_000, 2_000, 2_000));
        assert_eq!((m.counts.warmup_sent, m.counts.warmup_arrivals), (500, 500));
        assert_eq!(m.latency.samples(), 2_000);
        assert_eq!(m.lateness.unwrap().samples(), 2_000);
        assert!(m.scheduled.unwrap().min() >= m.latency.min());
    }

    #[test]
    fn faults_are_counted_exactly() {
        let faults = Faults { drop_every: 100, duplicate_every: 150, swap_every: 200, corrupt_every: 700 };
        let m = measure(&traffic(6_000, 0), faults);
        let expected = {
            let (a, mut b) = mem::pair(1514);
            let mut faulty = Faulty::new(a.tx, faults);
            for _ in 0..6_000 {
                let mut once = Some(60);
                faulty.send(|_| once.take()).unwrap();
                b.rx.recv(|_, _| ()).unwrap();
            }
            faulty.done()
        };
        let counts = m.counts;
        assert_eq!(
            (counts.duplicates, counts.reordered, counts.corrupted),
            (expected.duplicated, expected.swapped, expected.corrupted)
        );
        assert_eq!(counts.lost, expected.dropped + expected.corrupted);
        assert!(expected.dropped > 0 && expected.swapped > 0 && expected.corrupted > 0);
    }

    #[test]
    fn a_stop_keeps_what_was_measured() {
        let clock = Clock::calibrate().unwrap();
        let (a, b) = mem::pair(1514);
        let stop: Arc<AtomicBool> = Arc::default();
        let mut client = PacketClient::new(clock, a.tx, b.rx, flow(), Threads::One { core: 0 }, stop.clone());
        let probe = client.probe();
        let measurement = std::thread::scope(|scope| {
            let trial = scope.spawn(|| client.run(&traffic(u64::MAX / 2, 0), &control(&clock)).unwrap().measurement);
            while probe.received() < 1_000 {
                std::thread::yield_now();
            }
            stop.store(true, Relaxed);
            trial.join().unwrap()
        });
        assert!(measurement.counts.received >= 1_000);
        assert_eq!(measurement.counts.lost, 0);
    }

    /// Takes nothing, ever.
    struct Full(Caps);

    impl Transmit for Full {
        fn caps(&self) -> &Caps {
            &self.0
        }

        fn prepare(&mut self, _: &[u8]) {}

        fn send(&mut self, _: impl FnMut(&mut [u8]) -> Option<usize>) -> std::io::Result<usize> {
            Ok(0)
        }
    }

    #[test]
    fn a_port_that_takes_nothing_is_an_error_without_a_pace_too() {
        let clock = Clock::calibrate().unwrap();
        for rate in [Rate::UNPACED, Rate::per_second(1_000).unwrap()] {
            let (a, b) = mem::pair(1514);
            let (tx, rx) = (Full(a.tx.caps().clone()), b.rx);
            let mut client = PacketClient::new(clock, tx, rx, flow(), Threads::One { core: 0 }, Arc::default());
            let error = client.run(&Traffic { rate, ..traffic(1_000, 0) }, &control(&clock)).unwrap_err();
            assert!(matches!(error, ClientError::Io { .. } | ClientError::Rate { .. }), "{error}");
        }
    }

    #[test]
    fn a_rate_beyond_reach_is_an_error() {
        let clock = Clock::calibrate().unwrap();
        let (a, b) = mem::pair(1514);
        let mut client = PacketClient::new(clock, a.tx, b.rx, flow(), Threads::One { core: 0 }, Arc::default());
        let traffic = Traffic { rate: Rate::per_second(10_000_000_000).unwrap(), ..traffic(20_000_000_000, 0) };
        let error = client.run(&traffic, &control(&clock)).unwrap_err();
        assert!(matches!(error, ClientError::Rate { .. }), "{error}");
    }
}
