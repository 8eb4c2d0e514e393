//! Sampled probes beside a load: what is left where a card stamps PTP's own frames alone, one at a time. The load is
//! any client's; PTP Sync messages between two sockets of their own are what is measured (paper 000: so does MoonGen).

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
/// Where the sequence number stands: 30 bytes into the PTP header.
const SEQUENCE_AT: usize = 14 + 30;
/// From the end of one probe to the next.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a probe and its stamps are waited for.
const PATIENCE: Duration = Duration::from_millis(50);
/// So many probes without both stamps, and none with them: nobody stamps.
const ENOUGH: u64 = 20;

/// The two sockets of the probes.
pub struct Sockets {
    tx: OwnedFd,
    rx: OwnedFd,
    frame: [u8; LENGTH],
}

impl Sockets {
    /// From the socket that [`sender`] opened to that of [`receiver`], between two hardware addresses.
    pub fn new(tx: OwnedFd, rx: OwnedFd, source: [u8; 6], destination: [u8; 6]) -> Sockets {
        let mut frame = [0; LENGTH];
        frame[..6].copy_from_slice(&destination);
        frame[6..12].copy_from_slice(&source);
        frame[12..14].copy_from_slice(&ETH_P_1588.to_be_bytes());
        // Sync (0), version 2, 44 bytes long.
        frame[14..18].copy_from_slice(&[0, 2, 0, 44]);
        Sockets { tx, rx, frame }
    }

    /// Sends a probe and waits for it; its departure and arrival on the clocks of the cards.
    fn send(&mut self, number: u32) -> io::Result<Option<(u64, u64)>> {
        self.frame[SEQUENCE_AT..SEQUENCE_AT + 2].copy_from_slice(&(number as u16).to_be_bytes());
        socket::send(&self.tx, &self.frame)?;
        let begun = Instant::now();
        let (mut left, mut arrived) = (None, None);
        while begun.elapsed() < PATIENCE && (left.is_none() || arrived.is_none()) {
            let mut events =
                [PollFd::new(self.tx.as_fd(), PollFlags::empty()), PollFd::new(self.rx.as_fd(), PollFlags::POLLIN)];
            let rest = PATIENCE.saturating_sub(begun.elapsed()).as_millis() as u16;
            poll(&mut events, PollTimeout::from(rest))?;
            stamping::reap(&self.tx, &mut |of, stamp| {
                if let (true, Outward::Card(ns)) = (of == number, stamp) {
                    left = Some(ns);
                }
            })?;
            while let Some((sequence, stamp)) = self.receive()? {
                if sequence == number as u16 && stamp > 0 {
                    arrived = Some(stamp);
                }
            }
        }
        Ok(left.zip(arrived))
    }

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
            if length >= LENGTH && buffer[..SEQUENCE_AT] == self.frame[..SEQUENCE_AT] {
                let sequence = u16::from_be_bytes([buffer[SEQUENCE_AT], buffer[SEQUENCE_AT + 1]]);
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
    sockets: Sockets,
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
    pub fn new(load: Box<dyn Client>, sockets: Sockets, cards: Arc<Cards>) -> Probed {
        let seen = Arc::new(Seen { load: load.probe(), latency: Recorder::default() });
        Probed { load, sockets, cards, seen }
    }
}

impl Client for Probed {
    fn probe(&self) -> Arc<dyn Probe> {
        self.seen.clone()
    }

    fn run(&mut self, traffic: &Traffic, control: &Control) -> Result<Outcome, ClientError> {
        let Probed { load, sockets, cards, seen } = self;
        let over = AtomicBool::new(false);
        let (outcome, probed) = std::thread::scope(|scope| {
            let probing = scope.spawn(|| {
                let probed = probe_until(&over, sockets, cards, seen);
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
    sockets: &mut Sockets,
    cards: &Cards,
    seen: &Seen,
) -> Result<(SpanLog, u64), ClientError> {
    let failed = |e| ClientError::io("probing beside the load", e);
    let (mut slow, mut waiting, mut sent, mut stamped) = (SpanLog::default(), VecDeque::new(), 0_u32, 0_u64);
    while !over.load(Relaxed) && !seen.has_sent_all() {
        std::thread::sleep(PAUSE);
        if seen.received() == 0 {
            continue;
        }
        let stamps = sockets.send(sent).map_err(failed)?;
        sent = sent.wrapping_add(1);
        if seen.has_sent_all() {
            // It was not beside the load all the way.
            break;
        }
        if let Some(stamps) = stamps {
            waiting.push_back(stamps);
            stamped += 1;
        }
        if stamped == 0 && u64::from(sent) >= ENOUGH {
            return Err(unstamped());
        }
        record(&mut waiting, cards, seen, &mut slow, false);
    }
    if stamped == 0 && sent > 0 {
        return Err(unstamped());
    }
    cards.read().map_err(|e| ClientError::io("reading the clock of a card", e))?;
    record(&mut waiting, cards, seen, &mut slow, true);
    Ok((slow, u64::from(sent)))
}

fn unstamped() -> ClientError {
    let missing = "PTP probes came without the cards' stamps, or not at all".to_owned();
    ClientError::Unstamped { stamp: Stamp::Nic, missing }
}

/// Records probes whose stamps lie between two readings of the cards' clocks; all of them at the end.
fn record(waiting: &mut VecDeque<(u64, u64)>, cards: &Cards, seen: &Seen, slow: &mut SpanLog, last: bool) {
    if waiting.is_empty() {
        return;
    }
    let (sends, receives) = cards.bridges();
    while let Some(&(left, arrived)) = waiting.front() {
        let reached = sends.reaches(Phc(left)) && receives.reaches(Phc(arrived));
        if !last && !reached {
            return;
        }
        waiting.pop_front();
        let from = sends.mono(Phc(left)).0;
        let latency = match cards.one_clock() {
            true => arrived.checked_sub(left),
            false => receives.mono(Phc(arrived)).0.checked_sub(from),
        };
        let Some(ns) = latency else { continue };
        seen.latency.record(ns);
        if ns >= THRESHOLD_NS {
            slow.push(Span { from, to: from + ns });
        }
    }
}
