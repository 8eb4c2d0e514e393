//! Sampled probes beside a load: what is left where a card stamps PTP's own frames alone, one at a time. The load is
//! any client's; PTP Sync messages beside it, through sockets or queues of their own, are what is measured (paper 000:
//! so does MoonGen).

use crate::client::{Client, Control, Outcome, Probe};
use crate::packet::socket;
use crate::route::Cards;
use crate::{ClientError, Outward, stamping};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::buckets::Recorder;
use usect_core::histogram::Histogram;
use usect_core::instant::Phc;
use usect_core::scenario::Stamp;
use usect_core::stall::{Span, SpanLog, THRESHOLD_NS};
use usect_core::trial::Traffic;

/// EtherType of PTP over Ethernet (IEEE 1588, annex E).
const ETH_P_1588: u16 = 0x88f7;
/// Frame of a probe, without FCS.
const LENGTH: usize = 60;
/// Where the EtherType stands, and the sequence number: 30 bytes into the PTP header.
const ETHERTYPE_AT: usize = 12;
const SEQUENCE_AT: usize = 14 + 30;
/// From the end of one probe to the next.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a probe and its stamps are waited for.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// So many probes without both stamps, and none with them: nobody stamps.
const ENOUGH: u64 = 20;

/// A probe: a PTP Sync message over Ethernet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncMessage([u8; LENGTH]);

impl SyncMessage {
    /// Between two hardware addresses.
    pub fn new(source: [u8; 6], destination: [u8; 6]) -> SyncMessage {
        let mut frame = [0; LENGTH];
        frame[..6].copy_from_slice(&destination);
        frame[6..12].copy_from_slice(&source);
        frame[ETHERTYPE_AT..14].copy_from_slice(&ETH_P_1588.to_be_bytes());
        // Sync (0), version 2, 44 bytes long.
        frame[14..18].copy_from_slice(&[0, 2, 0, 44]);
        SyncMessage(frame)
    }

    /// The frame with a number.
    pub fn numbered(&mut self, number: u16) -> &[u8] {
        self.0[SEQUENCE_AT..SEQUENCE_AT + 2].copy_from_slice(&number.to_be_bytes());
        &self.0
    }

    /// Whether a frame is of PTP at all.
    #[inline]
    pub fn is_ptp(frame: &[u8]) -> bool {
        frame.len() >= LENGTH && frame[ETHERTYPE_AT..14] == ETH_P_1588.to_be_bytes()
    }

    /// The number of a frame that is one of these.
    pub fn number(&self, frame: &[u8]) -> Option<u16> {
        let ours = frame.len() >= LENGTH && frame[..SEQUENCE_AT] == self.0[..SEQUENCE_AT];
        ours.then(|| u16::from_be_bytes([frame[SEQUENCE_AT], frame[SEQUENCE_AT + 1]]))
    }
}

/// The stamps of one probe, each on the clock of its card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamps {
    /// As it left.
    pub left: Option<u64>,
    /// As it arrived.
    pub arrived: Option<u64>,
}

impl Stamps {
    /// Whether both are.
    pub fn are_there(&self) -> bool {
        self.left.is_some() && self.arrived.is_some()
    }
}

/// Sends probes, one at a time.
pub trait Prober: Send {
    /// Sends one and waits for its stamps, up to [`PATIENCE`].
    fn probe(&mut self, number: u16) -> io::Result<Stamps>;
}

/// Probes between two sockets.
pub struct Sockets {
    tx: OwnedFd,
    rx: OwnedFd,
    frame: SyncMessage,
    sent: u32,
}

impl Sockets {
    /// From the socket that [`sender`] opened to that of [`receiver`].
    pub fn new(tx: OwnedFd, rx: OwnedFd, frame: SyncMessage) -> Sockets {
        Sockets { tx, rx, frame, sent: 0 }
    }
}

impl Prober for Sockets {
    fn probe(&mut self, number: u16) -> io::Result<Stamps> {
        socket::send(&self.tx, self.frame.numbered(number))?;
        let counted = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let begun = Instant::now();
        let mut stamps = Stamps::default();
        while begun.elapsed() < PATIENCE && !stamps.are_there() {
            let mut events =
                [PollFd::new(self.tx.as_fd(), PollFlags::empty()), PollFd::new(self.rx.as_fd(), PollFlags::POLLIN)];
            let rest = PATIENCE.saturating_sub(begun.elapsed()).as_millis() as u16;
            poll(&mut events, PollTimeout::from(rest))?;
            stamping::reap(&self.tx, &mut |of, stamp| {
                if let (true, Outward::Card(ns)) = (of == counted, stamp) {
                    stamps.left = Some(ns);
                }
            })?;
            while let Some((sequence, stamp)) = self.receive()? {
                if sequence == number && stamp > 0 {
                    stamps.arrived = Some(stamp);
                }
            }
        }
        Ok(stamps)
    }
}

impl Sockets {
    /// A probe that has arrived: its number, and the card's stamp or 0.
    fn receive(&self) -> io::Result<Option<(u16, u64)>> {
        let mut buffer = [0; 128];
        loop {
            let (length, report) = match stamping::receive(&self.rx, &mut buffer, libc::MSG_DONTWAIT) {
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(None);
                }
                received => received?,
            };
            if let Some(sequence) = self.frame.number(&buffer[..length.min(buffer.len())]) {
                return Ok(Some((sequence, report.card)));
            }
        }
    }
}

/// Opens the sending socket on an interface of the calling thread's namespace.
pub fn sender(ifindex: u32) -> io::Result<OwnedFd> {
    open(ifindex, 0)
}

/// Opens the receiving socket on an interface of the calling thread's namespace.
pub fn receiver(ifindex: u32) -> io::Result<OwnedFd> {
    open(ifindex, ETH_P_1588)
}

fn open(ifindex: u32, protocol: u16) -> io::Result<OwnedFd> {
    let opened = socket::raw()?;
    stamping::enable(&opened, Stamp::Nic)?;
    socket::bind(&opened, ifindex, protocol)?;
    Ok(opened)
}

/// A load with probes beside it: counts and pace are the load's, the latency is the probes'.
pub struct Probed {
    load: Box<dyn Client>,
    prober: Box<dyn Prober>,
    cards: Arc<Cards>,
    seen: Arc<Seen>,
}

/// The load's counters, the probes' latency.
struct Seen {
    load: Arc<dyn Probe>,
    latency: Recorder,
}

impl Probe for Seen {
    fn sent(&self) -> u64 {
        self.load.sent()
    }

    fn received(&self) -> u64 {
        self.load.received()
    }

    fn latency(&self) -> Vec<u64> {
        self.latency.counts()
    }

    fn has_sent_all(&self) -> bool {
        self.load.has_sent_all()
    }
}

impl Probed {
    /// Probes beside a load.
    pub fn new(mut load: Box<dyn Client>, prober: Box<dyn Prober>, cards: Arc<Cards>) -> Probed {
        let seen = Arc::new(Seen { load: load.probe(), latency: Recorder::default() });
        Probed { load, prober, cards, seen }
    }
}

impl Client for Probed {
    fn probe(&mut self) -> Arc<dyn Probe> {
        self.seen = Arc::new(Seen { load: self.load.probe(), latency: Recorder::default() });
        self.seen.clone()
    }

    fn run(&mut self, traffic: &Traffic, control: &Control) -> Result<Outcome, ClientError> {
        let Probed { load, prober, cards, seen } = self;
        let over = AtomicBool::new(false);
        let (outcome, probed) = std::thread::scope(|scope| {
            let probing = scope.spawn(|| {
                let probed = probe_until(&over, prober.as_mut(), cards, seen);
                if probed.is_err() {
                    // The load need not go on.
                    control.stop.store(true, Relaxed);
                }
                probed
            });
            let ending = Ending(&over);
            let outcome = load.run(traffic, control);
            drop(ending);
            (outcome, probing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (slow, sent) = probed?;
        let mut outcome = outcome?;
        let latency = Histogram::from_counts(&seen.latency.counts());
        let measurement = &mut outcome.measurement;
        measurement.counts.stamped = latency.samples();
        measurement.notes.push(format!(
            "nic stamps: of {} of {sent} PTP probes, one at a time, beside this load; {}",
            latency.samples(),
            cards.accuracy()
        ));
        (measurement.latency, measurement.scheduled, measurement.touched) = (latency, None, Histogram::default());
        // Flows of the load have no latency.
        measurement.streams.iter_mut().for_each(|flow| {
            (flow.latency, flow.counts.stamped) = (Histogram::default(), 0);
        });
        outcome.slow = slow;
        Ok(outcome)
    }
}

/// Ends the probing, also when the load panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Probes while the load's measured part runs. Returns slow ones, and how many were sent.
fn probe_until(
    over: &AtomicBool,
    prober: &mut dyn Prober,
    cards: &Cards,
    seen: &Seen,
) -> Result<(SpanLog, u64), ClientError> {
    let failed = |e| ClientError::io("probing beside the load", e);
    let (mut slow, mut waiting, mut sent, mut stamped) = (SpanLog::default(), VecDeque::new(), 0_u64, 0_u64);
    let (mut any_left, mut any_arrived) = (false, false);
    while !over.load(Relaxed) && !seen.has_sent_all() {
        std::thread::sleep(PAUSE);
        if seen.received() == 0 {
            continue;
        }
        let stamps = prober.probe(sent as u16).map_err(failed)?;
        sent += 1;
        any_left |= stamps.left.is_some();
        any_arrived |= stamps.arrived.is_some();
        if seen.has_sent_all() {
            // It was not beside the load all the way.
            break;
        }
        if let Stamps { left: Some(left), arrived: Some(arrived) } = stamps {
            waiting.push_back((left, arrived));
            stamped += 1;
        }
        if stamped == 0 && sent >= ENOUGH {
            break;
        }
        record(&mut waiting, cards, seen, &mut slow, false);
    }
    if stamped == 0 && sent > 0 {
        return Err(unstamped(any_left, any_arrived));
    }
    cards.read().map_err(|e| ClientError::io("reading the clock of a card", e))?;
    record(&mut waiting, cards, seen, &mut slow, true);
    if sent > 0 && seen.latency.counts().iter().all(|&count| count == 0) {
        // Each arrived before it left: these were no stamps of theirs.
        return Err(unstamped(false, false));
    }
    Ok((slow, sent))
}

fn unstamped(any_left: bool, any_arrived: bool) -> ClientError {
    let missing = match (any_left, any_arrived) {
        (false, true) => "PTP probes arrived with the card's stamp, and none was stamped as it left",
        (true, false) => "PTP probes were stamped as they left, and none arrived with the card's stamp",
        _ => "PTP probes came without the cards' stamps, or not at all",
    };
    ClientError::Unstamped { stamp: Stamp::Nic, missing: missing.to_owned() }
}

/// Records probes whose stamps lie between two readings of the cards' clocks; all of them at the end.
fn record(waiting: &mut VecDeque<(u64, u64)>, cards: &Cards, seen: &Seen, slow: &mut SpanLog, last: bool) {
    if waiting.is_empty() {
        return;
    }
    let bridges = cards.bridges();
    let sends = bridges.sends.as_ref().expect("who probes stamps departures");
    while let Some(&(left, arrived)) = waiting.front() {
        if !last && !bridges.reach(left, arrived) {
            return;
        }
        waiting.pop_front();
        let from = sends.mono(Phc(left)).0;
        let latency = match cards.one_clock() {
            true => arrived.checked_sub(left),
            false => bridges.receives.mono(Phc(arrived)).0.checked_sub(from),
        };
        let Some(ns) = latency else { continue };
        seen.latency.record(ns);
        if ns >= THRESHOLD_NS {
            slow.push(Span { from, to: from + ns });
        }
    }
}
