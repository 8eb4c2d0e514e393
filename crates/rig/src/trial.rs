//! One trial, from the DUT's start to its result.

use crate::cards::StampingCards;
use crate::client::{Opened, Opening};
use crate::open::{self, LAB_DRIVER, lab_device};
use crate::path::{self, End, Ends};
use crate::sampling::{self, Progress};
use crate::{Rig, RigError};
use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use usect_core::frame::{Endpoint, HEADERS};
use usect_core::measurement::{Measurement, Pace};
use usect_core::port_name::Engine;
use usect_core::scenario::{DutSpec, SpoolSpec, Stamp, Wait};
use usect_core::series::Point;
use usect_core::stall::{self, Span, SpanLog, Watched};
use usect_core::suite::Benchmark;
use usect_core::template::{Tag, Template};
use usect_core::tracker::Counts;
use usect_core::trial::{INTERRUPTED, Traffic, Trial, TrialResult};
use usect_dut::{Bridge, Dut, Forwarder, Imposed, Redirect, Report, Seat, Seats, Selection, Spool, Wire};
use usect_lab::{Link, within};
use usect_port::client::{Control, Outcome};
use usect_port::lanes::{Lane, Lanes};
use usect_port::mem::{self, MemPort};
use usect_port::{Beside, ClientError, Port, Receive, Route, Take, Transmit};
use usect_xdp::tap::{Cut, Tap, Wiretap};

/// Largest frame that passes the lab's taps, without FCS.
const LARGEST_XDP: usize = 3520;

/// Runs a trial on a rig.
pub(crate) fn run(rig: &Rig, trial: &Trial, progress: &mut dyn FnMut(&Progress)) -> Result<TrialResult, RigError> {
    let started = jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let mut standing = Standing::open(rig, trial)?;
    rig.pause(trial.around.settle_ns);
    let measured = match standing.measure(&trial.traffic, progress) {
        Ok(measured) => measured,
        Err(error) => {
            drop(standing);
            let result = unoffered(trial, started, error)?;
            rig.path.check_still_up(&trial.client)?;
            rig.pause(trial.around.rest_ns);
            return Ok(result);
        }
    };
    let Measured { outcome, series, bridge } = measured;
    let Standing { dut, tap, opened, .. } = standing;
    let Opened { client, reflector, .. } = opened;
    let reflected = reflector.map_or(Ok(Report::default()), |r| r.stop())?;
    // Its receiving thread may have the DUT's work.
    drop(client);
    let report = dut.map_or(Ok(Report::default()), |d| d.stop())?;
    usect_dpdk::closed()?;
    let mut watched = outcome.watched;
    let others = report.watches.into_iter().chain(reflected.watches);
    watched.extend(others.map(|w| w.watch.finish(w.thread, w.core, &bridge)));
    let mut client = outcome.measurement;
    attribute(&mut client, &outcome.slow, &watched, series.0);
    client.balance()?;
    let one_way = !trial.traffic.mode.returns();
    let seen = tap.map(Tap::finish).or_else(|| Some(imposed(report.imposed?, &bridge)).filter(|_| one_way));
    let truth = seen.map(|(mut truth, slow)| {
        attribute(&mut truth, &slow, &watched, series.1);
        truth.balance()?;
        Ok::<_, RigError>(truth)
    });
    // A device that is reset may take its links along.
    let resets = trial.purpose.is_some_and(|purpose| purpose.benchmark == Benchmark::Reset);
    if client.counts.lost > 0 && !resets {
        rig.path.check_still_up(&trial.client)?;
    }
    rig.pause(trial.around.rest_ns);
    let known_delay_ns = trial.case.dut(&rig.path.dut).known_delay_ns(trial.traffic.frame_size);
    Ok(TrialResult {
        trial: trial.clone(),
        started,
        client,
        truth: truth.transpose()?,
        known_delay_ns: known_delay_ns.filter(|_| one_way),
        dut: report.done,
        partial: rig.stop.load(Relaxed).then(|| INTERRUPTED.to_owned()),
    })
}

/// A rate that the sender can't reach, where that is a result: how far it came.
fn unoffered(trial: &Trial, started: String, error: RigError) -> Result<TrialResult, RigError> {
    let (requested, achieved) = match &error {
        RigError::Client { source: ClientError::Rate { requested, reached }, .. } if trial.goes_on => {
            (*requested, *reached)
        }
        _ => return Err(error),
    };
    let client = Measurement { pace: Some(Pace { requested, achieved }), ..Measurement::default() };
    let partial = Some(error.to_string());
    Ok(TrialResult {
        trial: trial.clone(),
        started,
        client,
        truth: None,
        known_delay_ns: None,
        dut: Vec::new(),
        partial,
    })
}

/// A path with everything open and running that a trial needs; dropping it closes and stops it.
pub struct Standing<'a> {
    rig: &'a Rig,
    /// The client's name.
    client: String,
    ends: Ends,
    // Before the DUT: its receiving thread may have the DUT's work.
    opened: Opened,
    dut: Option<Box<dyn Dut>>,
    tap: Option<Tap>,
    /// How long an interval of its series is.
    step: Duration,
    /// Cards that were told to stamp, until this is dropped.
    _cards: Option<StampingCards>,
}

impl<'a> Standing<'a> {
    /// Starts the DUT, taps the wires, opens the client.
    pub(crate) fn open(rig: &'a Rig, trial: &Trial) -> Result<Standing<'a>, RigError> {
        let ends = rig.path.ends(&trial.client)?;
        let Started { mut dut, inside } = start_dut(rig, trial, &ends)?;
        let beside = dut.as_mut().and_then(|dut| dut.guest());
        let tap = attach_tap(rig, trial, &ends)?;
        // Devices of DPDK are told when they are opened.
        let by_kernel = trial.client.stamp == Stamp::Nic && trial.client.engine != Engine::Dpdk;
        let cards = by_kernel.then(|| StampingCards::on(trial, &ends)).transpose()?;
        let probed = cards.as_ref().filter(|cards| cards.ptp_only);
        let clocks = cards.as_ref().map(|cards| cards.clocks.clone());
        let taps = tap.as_ref().map(Tap::stamps);
        let route = match probed {
            Some(_) => Route { taps, ..Route::default() },
            None => Route { stamp: trial.client.stamp, taps, cards: clocks.clone() },
        };
        let mut opened = with_pairs(rig, trial, &ends, route, inside, beside)?;
        if let Some(cards) = probed {
            opened.client = cards.probe(opened.client, &ends)?;
        }
        opened.cards = clocks.or(opened.cards);
        Ok(Standing {
            rig,
            client: trial.client.name.clone(),
            ends,
            opened,
            dut,
            tap,
            step: sampling::STEP,
            _cards: cards,
        })
    }

    /// The same, with a series of steps of this length.
    pub fn in_steps(self, step: Duration) -> Standing<'a> {
        Standing { step, ..self }
    }

    /// Runs the client once more over the open path, with frames like those that it was opened for. What the DUT and its
    /// threads did is not known before it stops: samples that their stalls touched are not told apart.
    pub fn again(&mut self, traffic: &Traffic, progress: &mut dyn FnMut(&Progress)) -> Result<Measurement, RigError> {
        let Measured { outcome, series, .. } = self.measure(traffic, progress)?;
        for thread in [&mut self.dut, &mut self.opened.reflector] {
            // It ended by itself, and says why.
            if let Some(ended) = thread.take_if(|thread| thread.has_ended()) {
                ended.stop()?;
            }
        }
        let mut client = outcome.measurement;
        attribute(&mut client, &outcome.slow, &outcome.watched, series.0);
        client.balance()?;
        Ok(client)
    }

    /// Runs the client inside the sender's namespace, and watches it from here.
    fn measure(&mut self, traffic: &Traffic, progress: &mut dyn FnMut(&Progress)) -> Result<Measured, RigError> {
        let Standing { rig, ends, opened, tap, step, .. } = self;
        let Opened { client, cards, .. } = opened;
        let (probe, truth) = (client.probe(), tap.as_ref().map(Tap::probe));
        rig.cut.store(false, Relaxed);
        let control = Control { stop: rig.cut.clone(), bridge: Mutex::new(rig.clock.bridge()) };
        let done = AtomicBool::new(false);
        let watcher = std::thread::current();
        let (outcome, series) = std::thread::scope(|scope| {
            let work = || {
                let _end = Ending(&done, &watcher);
                within(ends.tx.netns.as_deref(), || client.run(traffic, &control))
            };
            let running = scope.spawn(work);
            let (probes, clocks) = ((&probe, truth.as_ref()), (&control, cards.as_deref()));
            let series = sampling::watch(&done, (traffic, *step), probes, clocks, &mut |now| {
                // A client that fails ends its trial by the same flag, and the user's stays as it is.
                if rig.stop.load(Relaxed) {
                    rig.cut.store(true, Relaxed);
                }
                progress(now);
            });
            (running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), series)
        });
        let outcome = outcome?.map_err(|source| RigError::Client { client: self.client.clone(), source })?;
        Ok(Measured { outcome, series, bridge: control.bridge() })
    }
}

/// What a client's run brought home.
struct Measured {
    outcome: Outcome,
    series: (Vec<Point>, Vec<Point>),
    bridge: usect_core::instant::Bridge,
}

/// Opens the client of a trial, and beside it one for each further pair of its ports.
fn with_pairs(
    rig: &Rig,
    trial: &Trial,
    ends: &Ends,
    route: Route,
    inside: Option<(MemPort, MemPort)>,
    beside: Option<Box<dyn Beside>>,
) -> Result<Opened, RigError> {
    let hooks = RefCell::default();
    let opening = Opening { rig, trial, ends, route, core: None, beside: Cell::new(beside), hooks: &hooks };
    let mut opened = opening.open(inside)?;
    if trial.client.pairs.is_empty() {
        return Ok(opened);
    }
    let mut lanes = vec![Lane { name: "pair 1".to_owned(), client: opened.client, pooled: true }];
    for (number, pair) in (2..).zip(&trial.client.pairs) {
        let client = path::of_pair(&trial.client, pair);
        let ends = rig.path.ends(&client)?;
        let trial = Trial { client, ..trial.clone() };
        let opening = Opening {
            rig,
            trial: &trial,
            ends: &ends,
            route: Route::default(),
            core: Some(pair.core),
            beside: Cell::default(),
            hooks: &hooks,
        };
        let more = opening.open(None)?;
        lanes.push(Lane { name: format!("pair {number}"), client: more.client, pooled: true });
        opened.sinks.extend(more.sinks);
    }
    Ok(Opened { client: Box::new(Lanes::new(lanes)), ..opened })
}

/// What a DUT says that it imposed, as a truth.
fn imposed(imposed: Imposed, bridge: &usect_core::instant::Bridge) -> (Measurement, SpanLog) {
    let frames = imposed.latency.samples();
    let counts = Counts { sent: frames, received: frames, stamped: frames, arrivals: frames, ..Counts::default() };
    let notes = vec!["the spool's own record of how long it held each frame".to_owned()];
    let slow = imposed.slow.map_spans(|span| span.flight(bridge));
    (Measurement { counts, latency: imposed.latency, notes, ..Measurement::default() }, slow)
}

/// A running DUT, and the ports of one inside the process.
#[derive(Default)]
struct Started {
    dut: Option<Box<dyn Dut>>,
    inside: Option<(MemPort, MemPort)>,
}

fn start_dut(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Started, RigError> {
    let making = Making { rig, trial, ends };
    if rig.path.dut.is_mem() {
        let largest = trial.traffic.frame_size.without_fcs();
        let ((near, left), (right, far)) = (mem::pair(largest), mem::pair(largest));
        return Ok(Started { dut: Some(making.between(left, right)?), inside: Some((near, far)) });
    }
    let alone = |dut| Started { dut, inside: None };
    if trial.client.engine == Engine::Mem && rig.path.dut == (DutSpec::Wire {}) {
        return Ok(alone(Some(Box::new(Wire))));
    }
    let Some(lab) = rig.path.lab() else { return Ok(alone(None)) };
    let Some((left, right)) = lab.dut() else { return Ok(alone(Some(Box::new(Wire)))) };
    Ok(alone(Some(match &rig.path.dut {
        DutSpec::Bridge {} => Box::new(Bridge::start(left, right)?),
        DutSpec::Forwarder { engine, .. } | DutSpec::Spool(SpoolSpec { engine, .. }) => {
            making.over(*engine, left, right)?
        }
        _ => Box::new(Redirect::start(left, right)?),
    })))
}

/// What making a DUT of ours needs.
struct Making<'a> {
    rig: &'a Rig,
    trial: &'a Trial,
    ends: &'a Ends,
}

impl Making<'_> {
    /// Between two interfaces of the lab.
    fn over(&self, engine: Engine, left: &Link, right: &Link) -> Result<Box<dyn Dut>, RigError> {
        let xdp = |link: &Link| open::xdp(&end_at(link), Take::All, Stamp::App);
        // Drivers of DPDK refuse to be set up for frames that they can't carry, whether or not any come.
        let largest = self.trial.traffic.frame_size.without_fcs().max(1514);
        let packet = |link: &Link| open::packet(&end_at(link), Take::All, LARGEST_XDP, Stamp::App);
        let dpdk =
            |link: &Link, number| open::dpdk(&end_at(link), &lab_device(LAB_DRIVER, number, link), largest, Stamp::App);
        match engine {
            Engine::Xdp => self.between(xdp(left)?, xdp(right)?),
            Engine::Packet => self.between(packet(left)?, packet(right)?),
            Engine::Dpdk => self.between(dpdk(left, 2)?, dpdk(right, 3)?),
            other => Err(RigError::Asked(format!(
                "a forwarder or spool can't run over the {other} engine; use engine = \"xdp\", \"packet\", \"dpdk\" or \"mem\""
            ))),
        }
    }

    /// Between any two ports.
    fn between<T, R>(&self, left: Port<T, R>, right: Port<T, R>) -> Result<Box<dyn Dut>, RigError>
    where
        T: Transmit + 'static,
        R: Receive + 'static,
    {
        let Making { rig, trial, .. } = self;
        match &trial.case.dut(&rig.path.dut) {
            DutSpec::Spool(spec) => {
                let selection = self.selection()?;
                Ok(Box::new(Spool::start(rig.clock, self.seat(), (left, right), spec, selection)))
            }
            DutSpec::Forwarder { faults, .. } => {
                let seats = match (rig.placement.dut_back, self.seat()) {
                    (Some(back), Seat::Own(core)) => Seats::Two(core, Some(back)),
                    (_, seat) => Seats::One(seat),
                };
                Ok(Box::new(Forwarder::start(rig.clock, seats, left, right, *faults)))
            }
            _ => unreachable!("only these two are between ports"),
        }
    }

    /// A thread of its own, unless its core is that of a client's receiving thread, which spins.
    fn seat(&self) -> Seat {
        let (placement, client) = (&self.rig.placement, &self.trial.client);
        let shares = placement.shares() && client.wait == Wait::Poll && client.engine != Engine::Kernel;
        if shares { Seat::Receiver } else { Seat::Own(placement.dut) }
    }

    /// The frames that the client measures.
    fn selection(&self) -> Result<Selection, RigError> {
        let Traffic { frame_size, warmup_frames, frames, pattern, .. } = &self.trial.traffic;
        let template = self.rig.template(*frame_size, &self.ends.flow())?;
        let heads = pattern.train().filter(|train| train.heads_only);
        Ok(Selection {
            tag: self.tag(&template),
            template,
            from: *warmup_frames + heads.map_or(0, |train| u64::from(train.head())),
            until: warmup_frames + frames,
            every: heads.map_or(1, |train| u64::from(train.length)),
        })
    }

    /// The kernel client keeps departures itself, and its frames carry their number alone, behind the headers.
    fn tag(&self, template: &Template) -> Tag {
        let number = Tag::Number { at: HEADERS, width: 4 };
        if self.trial.client.engine == Engine::Kernel { number } else { template.tag() }
    }
}

pub(crate) fn end_at(link: &Link) -> End {
    let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
    End { netns: link.netns.clone(), endpoint: Endpoint { mac: link.mac, address }, link: Some(link.clone()) }
}

/// Taps the wires of a tapped lab; a bare wire and the user's own ports have none.
fn attach_tap(rig: &Rig, trial: &Trial, ends: &Ends) -> Result<Option<Tap>, RigError> {
    let Some(cuts) = rig.path.lab().and_then(|lab| lab.tap()) else { return Ok(None) };
    let cut = |(left, right): &(Link, Link)| Cut { left: left.index, right: right.index };
    let comes_back = trial.traffic.mode.returns();
    let flow = ends.flow();
    let template = |flow| rig.template(trial.traffic.frame_size, flow);
    let entering = template(&flow)?;
    let leaving = if comes_back { template(&flow.reversed())? } else { entering.clone() };
    let what = Wiretap {
        near: cut(&cuts.near),
        far: cuts.far.as_ref().map(cut),
        comes_back,
        tag: Making { rig, trial, ends }.tag(&entering),
        entering: entering.words(),
        leaving: leaving.words(),
        measure_from: trial.traffic.warmup_frames,
        until: trial.traffic.warmup_frames + trial.traffic.frames,
    };
    Ok(Some(within(cuts.near.0.netns.as_deref(), || Tap::attach(&what))??))
}

/// Tells the watcher that the client is done, also when it panicked.
struct Ending<'a>(&'a AtomicBool, &'a std::thread::Thread);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.unpark();
    }
}

/// Tells the samples that a stall of any watched thread touched from the others.
fn attribute(measurement: &mut Measurement, slow: &SpanLog, watched: &[Watched], series: Vec<Point>) {
    let stalls: Vec<Span> = watched.iter().flat_map(|w| w.log.spans()).copied().collect();
    measurement.touched.add(&stall::touched(slow.spans(), &stalls));
    measurement.series = series;
    if measurement.ambiguous > 0 {
        measurement.forget_latencies();
    }
    let lost_stalls: u64 = watched.iter().map(|w| w.log.dropped()).sum();
    // Where nobody watched, nothing is known to be touched or not.
    measurement.unattributed = if watched.is_empty() { 0 } else { slow.dropped() + lost_stalls };
    measurement.stalls = watched.iter().map(Watched::summary).collect();
}
