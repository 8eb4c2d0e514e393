//! Where frames are stamped besides the client itself, and joining the stamps of one frame: those of its departure
//! come late, those of taps lie in a table of theirs, and each is on the clock of whoever took it.

use crate::numbered::Numbered;
use crate::{ClientError, Found, Outward};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex};
use usect_clock::phc::CardClock;
use usect_clock::{Wall, correlate_briefly, mono, wall};
use usect_core::instant::{Bridge, Correlation, Mono, Phc, TickRate};
use usect_core::scenario::Stamp;
use usect_core::stages::{Passage, Point, Stages};
use usect_core::tracker::Departure;

/// How long a frame's stamps are waited for after it arrived.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Frames that wait for a stamp at the most; more are given up.
const WAITING: usize = 1 << 20;
/// After so many frames without a stamp, and none with one, nobody stamps.
const ENOUGH: u64 = 100;
/// Readings of a card's clock of which one frame or another may still need some: a few seconds' worth.
const RECENT: usize = 32;
/// Frames whose stamps are kept where cards stamp: they wait for the next reading of the cards' clocks.
const KEPT_FOR_CARDS: usize = 1 << 20;

/// Stamps of frames by taps at the DUT.
pub trait Taps: Send + Sync {
    /// When a frame entered the DUT and when it left it, on `CLOCK_MONOTONIC`, by its number in the signature.
    fn passed(&self, sequence: u32) -> Option<(u64, u64)>;
}

/// The clocks of the cards at both ends, related to `CLOCK_MONOTONIC` again and again while a trial runs.
#[derive(Debug)]
pub struct Cards {
    /// Absent where no card stamps departures.
    sends: Option<Card>,
    receives: Card,
    /// How often both were read.
    readings: AtomicU64,
}

/// The way from a card's clock to `CLOCK_MONOTONIC`.
#[derive(Debug)]
struct Card {
    clock: Box<dyn CardClock>,
    bridge: Mutex<Bridge<Phc>>,
}

impl Card {
    fn new(clock: Box<dyn CardClock>) -> io::Result<Card> {
        let bridge = Mutex::new(clock.bridge()?);
        Ok(Card { clock, bridge })
    }

    fn read(&self) -> io::Result<()> {
        // Held meanwhile, so that readings are added in the order in which they are taken.
        let mut bridge = self.bridge.lock().expect("no holder panics");
        match bridge.add(self.clock.correlate()?) {
            true => bridge.forget(RECENT),
            false => return Err(io::Error::other("it was set back")),
        }
        Ok(())
    }

    fn bridge(&self) -> Bridge<Phc> {
        self.bridge.lock().expect("no holder panics").recent(RECENT)
    }

    fn error_ns(&self) -> u64 {
        self.bridge.lock().expect("no holder panics").error_ns()
    }
}

impl Cards {
    /// The clock of the card that sends, unless it stamps nothing, and of the one that receives; they may be the same.
    pub fn new(sends: Option<Box<dyn CardClock>>, receives: Box<dyn CardClock>) -> io::Result<Cards> {
        let (sends, receives) = (sends.map(Card::new).transpose()?, Card::new(receives)?);
        Ok(Cards { sends, receives, readings: AtomicU64::new(0) })
    }

    /// Relates both to `CLOCK_MONOTONIC` once more. Stamps are placed on lines between two readings, so they wait for
    /// the next one.
    pub fn read(&self) -> io::Result<()> {
        self.sends.iter().try_for_each(Card::read)?;
        self.receives.read()?;
        self.readings.fetch_add(1, Release);
        Ok(())
    }

    /// Whether both are one clock, so that its error cancels out.
    pub fn one_clock(&self) -> bool {
        self.sends.as_ref().is_some_and(|sends| sends.clock.name() == self.receives.clock.name())
    }

    /// Of the sending card, if it stamps, and of the receiving one.
    pub(crate) fn bridges(&self) -> Bridges {
        Bridges { sends: self.sends.as_ref().map(Card::bridge), receives: self.receives.bridge() }
    }

    /// How well the two go together, for a reader.
    pub(crate) fn accuracy(&self) -> String {
        match (self.one_clock(), &self.sends) {
            (true, _) => "one clock".to_owned(),
            (false, Some(_)) => format!("two clocks, related to within {} ns", self.error_ns()),
            (false, None) => {
                format!("a clock of the card's, related to within {} ns; no card stamps departures", self.error_ns())
            }
        }
    }

    /// Bound on the error of a time between two stamps of theirs, in nanoseconds.
    pub fn error_ns(&self) -> u64 {
        match self.one_clock() {
            true => 0,
            false => self.sends.as_ref().map_or(0, Card::error_ns) + self.receives.error_ns(),
        }
    }
}

/// The ways from the cards' clocks to `CLOCK_MONOTONIC`, as far as both were read.
#[derive(Debug)]
pub(crate) struct Bridges {
    pub(crate) sends: Option<Bridge<Phc>>,
    pub(crate) receives: Bridge<Phc>,
}

impl Bridges {
    /// Whether both clocks were read after these stamps, so that lines between readings hold for them; 0 is none.
    pub(crate) fn reach(&self, sends: u64, receives: u64) -> bool {
        let sent = self.sends.as_ref().is_none_or(|bridge| bridge.reaches(Phc(sends)));
        sent && (receives == 0 || self.receives.reaches(Phc(receives)))
    }
}

/// Who stamps a client's frames besides the client.
#[derive(Default, Clone)]
pub struct Route {
    /// Whose stamps the latency is between.
    pub stamp: Stamp,
    /// Taps at the DUT.
    pub taps: Option<Arc<dyn Taps>>,
    /// The cards' clocks, where cards stamp.
    pub cards: Option<Arc<Cards>>,
}

/// A route with the table in which the sender leaves the stamps of departures for the receiver.
pub(crate) struct Joint {
    pub(crate) route: Route,
    points: Vec<Point>,
    /// The last of the stamps that departures get after the engine's own.
    last_outward: Option<Point>,
    /// Stamps of departures: the queue's, the driver's, the card's.
    departed: Numbered,
    wall: Wall,
}

impl Joint {
    /// `None` where a frame has no stamps but its client's; an error where a port doesn't take those that are asked
    /// for.
    pub(crate) fn of(route: &Route, outward: &[Point], inward: &[Point]) -> Result<Option<Joint>, ClientError> {
        if let Some((from, to)) = between(route) {
            let lacking = [(from, outward), (to, inward)]
                .map(|(point, taken)| (point != Point::Sent && !taken.contains(&point)).then(|| point.name()));
            let missing: Vec<&str> = lacking.into_iter().flatten().collect();
            if !missing.is_empty() {
                return Err(ClientError::Unstamped { stamp: route.stamp, missing: missing.join(", ") });
            }
        }
        let taps = if route.taps.is_some() { &[Point::DutIn, Point::DutOut][..] } else { &[] };
        let others = [outward, taps, inward].concat();
        Ok((!others.is_empty()).then(|| Joint {
            points: [&[Point::Sent][..], &others, &[Point::Received]].concat(),
            last_outward: outward.iter().max().copied(),
            departed: route.cards.as_ref().map_or_else(Numbered::default, |_| Numbered::with_room(KEPT_FOR_CARDS)),
            wall: wall(),
            route: route.clone(),
        }))
    }

    /// Whether latency is between the stamps of others, so that it is known only when they are joined.
    pub(crate) fn decides(&self) -> bool {
        self.route.stamp != Stamp::App
    }

    /// Notes a stamp; returns whether it is the last that the frame gets on its way out.
    pub(crate) fn departed(&self, number: u32, stamp: Outward) -> bool {
        let (point, word, ns) = match stamp {
            Outward::Queued(ns) => (Point::Queued, 0, ns),
            Outward::Driver(ns) => (Point::DriverOut, 1, ns),
            Outward::Card(ns) => (Point::CardOut, 2, ns),
        };
        self.departed.put(number, word, ns);
        Some(point) == self.last_outward
    }

    /// Whether departures get stamps at all.
    pub(crate) fn reaps(&self) -> bool {
        self.last_outward.is_some()
    }
}

/// The two points that a latency is between; `None` where they are the client's own.
fn between(route: &Route) -> Option<(Point, Point)> {
    match route.stamp {
        Stamp::App => None,
        Stamp::Socket => Some((Point::DriverOut, Point::KernelIn)),
        Stamp::Nic if route.cards.as_ref().is_some_and(|cards| cards.sends.is_none()) => {
            Some((Point::Sent, Point::CardIn))
        }
        Stamp::Nic => Some((Point::CardOut, Point::CardIn)),
        Stamp::Xdp => Some((Point::Sent, Point::DriverIn)),
    }
}

/// What a reader should know of a latency that isn't the client's own.
pub(crate) fn note(route: &Route) -> Option<String> {
    let (from, to) = between(route)?;
    let clocks = route.cards.as_ref().map_or(String::new(), |cards| format!(", {}", cards.accuracy()));
    Some(format!("{} stamps: from {} to {}{clocks}", route.stamp, from.name(), to.name()))
}

/// A frame that has arrived, and waits for the rest of its stamps.
#[derive(Debug, Clone, Copy)]
struct Flight {
    sequence: u32,
    flow: usize,
    lateness_ns: u64,
    sent: u64,
    received: u64,
    found: Found,
}

/// A latency between the stamps that a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The frame's number.
    pub(crate) sequence: u32,
    /// The frame's flow.
    pub(crate) flow: usize,
    /// In nanoseconds.
    pub(crate) latency_ns: u64,
    /// From when the frame was due to the second stamp.
    pub(crate) scheduled_ns: u64,
    /// The first stamp, on `CLOCK_MONOTONIC`.
    pub(crate) from: u64,
}

/// The receiver's side: frames as they arrive, joined with their stamps when nothing else is to be done.
pub(crate) struct Joining<'a> {
    joint: &'a Joint,
    rate: TickRate,
    waiting: VecDeque<Flight>,
    stages: Stages,
    /// One moment on the counter and on `CLOCK_MONOTONIC`, of the batch at hand.
    now: Option<Correlation>,
    pair_error_ns: u64,
    cards: Option<Bridges>,
    /// How often the cards' clocks had been read when `cards` was copied.
    readings: u64,
    joined: u64,
}

impl<'a> Joining<'a> {
    pub(crate) fn new(joint: &'a Joint, rate: TickRate) -> Joining<'a> {
        Joining {
            joint,
            rate,
            waiting: VecDeque::with_capacity(1 << 16),
            stages: Stages::between(joint.points.clone()),
            now: None,
            pair_error_ns: 0,
            cards: joint.route.cards.as_ref().map(|cards| cards.bridges()),
            readings: 0,
            joined: 0,
        }
    }

    /// See [`Joint::decides`].
    pub(crate) fn decides(&self) -> bool {
        self.joint.decides()
    }

    /// A new batch begins: the clocks are read again with its first frame.
    #[inline]
    pub(crate) fn batch(&mut self) {
        self.now = None;
    }

    /// A measured frame arrived: its number, and its flow.
    pub(crate) fn arrived(&mut self, (sequence, flow): (u32, usize), departure: Departure, found: Found) {
        let Correlation { at, mono: Mono(mono_at), .. } = *self.now.get_or_insert_with(|| {
            let now = correlate_briefly(self.rate);
            self.pair_error_ns = self.pair_error_ns.max(now.error_ns);
            now
        });
        // Both lie a batch or a latency or less from the reading: the rate is known well enough for that.
        let received = match found.at.0.checked_sub(at.0) {
            Some(later) => mono_at + self.rate.ns(later),
            None => mono_at.saturating_sub(self.rate.ns(at.0 - found.at.0)),
        };
        let sent = received.saturating_sub(self.rate.ns(found.at.0.saturating_sub(departure.at)));
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
            self.stages.incomplete += 1;
        }
        self.waiting.push_back(Flight { sequence, flow, lateness_ns: departure.lateness_ns, sent, received, found });
    }

    /// Joins the oldest frame, if its stamps are all there; gives it up, if it has waited too long or `last` says
    /// that no more will come. `Ok(None)`: nothing to do now.
    pub(crate) fn turn(&mut self, last: bool) -> Result<Option<Option<Joined>>, ClientError> {
        let Some(flight) = self.waiting.front().copied() else { return Ok(None) };
        let [queued, driver, card] = self.joint.departed.find(flight.sequence);
        let there = self.is_stamped(driver, card);
        // A missing stamp holds up those behind, whose places in the table are taken meanwhile.
        let waits = || {
            let room = self.waiting.len() <= self.joint.departed.room() / 2;
            let is_young = mono().0.saturating_sub(flight.received) < PATIENCE_NS;
            room && is_young && !self.joint.departed.is_gone(flight.sequence)
        };
        if !last && ((!there && waits()) || (there && !self.reaches(card, flight.found.card))) {
            return Ok(None);
        }
        self.waiting.pop_front();
        let passage = self.passage(&flight, (queued, driver, card));
        self.stages.record(&passage);
        let joined = self.latency(&flight, &passage, card);
        self.joined += u64::from(joined.is_some());
        if self.joint.decides() && self.joined == 0 && self.stages.incomplete >= ENOUGH {
            return Err(self.unstamped(&passage));
        }
        Ok(Some(joined))
    }

    /// Whether the last of the stamps that a departure gets is there.
    fn is_stamped(&self, driver: u64, card: u64) -> bool {
        match self.joint.last_outward {
            None => true,
            Some(Point::CardOut) => card > 0,
            Some(_) => driver > 0,
        }
    }

    /// Whether both cards' clocks were read after these stamps, so that lines between readings hold for them.
    fn reaches(&mut self, sends: u64, receives: u64) -> bool {
        let Some(clocks) = &self.joint.route.cards else { return true };
        let readings = clocks.readings.load(Acquire);
        if readings != self.readings {
            (self.readings, self.cards) = (readings, Some(clocks.bridges()));
        }
        self.cards.as_ref().is_some_and(|cards| cards.reach(sends, receives))
    }

    /// All stamps of a frame on `CLOCK_MONOTONIC`.
    fn passage(&self, flight: &Flight, (queued, driver, card): (u64, u64, u64)) -> Passage {
        let mut passage = Passage::default();
        passage.set(Point::Sent, flight.sent);
        passage.set(Point::Received, flight.received);
        let mut put = |point, stamp: u64, on_mono: &dyn Fn(u64) -> u64| {
            if stamp > 0 {
                passage.set(point, on_mono(stamp));
            }
        };
        let by_wall = |ns: u64| self.joint.wall.mono(ns).0;
        put(Point::Queued, queued, &by_wall);
        put(Point::DriverOut, driver, &by_wall);
        put(Point::KernelIn, flight.found.kernel, &by_wall);
        put(Point::DriverIn, flight.found.driver, &|ns| ns);
        if let Some(Bridges { sends, receives }) = &self.cards {
            sends.iter().for_each(|sends| put(Point::CardOut, card, &|ns| sends.mono(Phc(ns)).0));
            put(Point::CardIn, flight.found.card, &|ns| receives.mono(Phc(ns)).0);
        }
        if let Some((entered, left)) = self.joint.route.taps.as_ref().and_then(|taps| taps.passed(flight.sequence)) {
            put(Point::DutIn, entered, &|ns| ns);
            put(Point::DutOut, left, &|ns| ns);
        }
        passage
    }

    fn latency(&self, flight: &Flight, passage: &Passage, card: u64) -> Option<Joined> {
        let (from, to) = between(&self.joint.route)?;
        let (from, to) = (passage.at(from)?, passage.at(to)?);
        let one_clock = self.joint.route.cards.as_ref().is_some_and(|cards| cards.one_clock());
        // On one clock no bridge is needed. A stamp before its predecessor is none.
        let latency_ns = if one_clock { flight.found.card.checked_sub(card) } else { to.checked_sub(from) }?;
        let scheduled_ns = (from + latency_ns).saturating_sub(flight.sent) + flight.lateness_ns;
        Some(Joined { sequence: flight.sequence, flow: flight.flow, latency_ns, scheduled_ns, from })
    }

    fn unstamped(&self, passage: &Passage) -> ClientError {
        let missing = self.joint.points.iter().filter(|&&point| passage.at(point).is_none());
        let missing: Vec<&str> = missing.map(|point| point.name()).collect();
        ClientError::Unstamped { stamp: self.joint.route.stamp, missing: missing.join(", ") }
    }

    /// No more frames and stamps will come: the clocks of cards are read a last time.
    pub(crate) fn close(&mut self) -> Result<(), ClientError> {
        let Some(cards) = &self.joint.route.cards else { return Ok(()) };
        cards.read().map_err(|e| ClientError::io("reading the clock of a card", e))?;
        self.cards = Some(cards.bridges());
        Ok(())
    }

    /// The stages, once everything was joined; an error where a client was to give stamps and none came, or where
    /// the clock that the kernel stamps by was set meanwhile.
    pub(crate) fn finish(mut self) -> Result<Stages, ClientError> {
        if wall().moved(&self.joint.wall) {
            return Err(ClientError::ClockSet);
        }
        if self.joint.decides() && self.joined == 0 && self.stages.incomplete > 0 {
            return Err(ClientError::Unstamped {
                stamp: self.joint.route.stamp,
                missing: "not one frame had all".into(),
            });
        }
        let cards = self.joint.route.cards.as_ref().map_or(0, |cards| cards.error_ns());
        self.stages.clock_error_ns = self.pair_error_ns + self.joint.wall.error_ns + cards;
        Ok(self.stages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_clock::Clock;

    struct Fixed;

    impl Taps for Fixed {
        fn passed(&self, sequence: u32) -> Option<(u64, u64)> {
            let now = mono().0;
            (sequence != 3).then_some((now - 600, now - 400))
        }
    }

    fn found(clock: &Clock) -> Found {
        Found::at(clock.now())
    }

    #[test]
    fn taps_take_a_latency_apart() {
        let clock = Clock::calibrate().unwrap();
        let route = Route { taps: Some(Arc::new(Fixed)), ..Route::default() };
        let joint = Joint::of(&route, &[], &[]).unwrap().unwrap();
        let mut joining = Joining::new(&joint, clock.rate());
        for sequence in 0..10 {
            let sent = clock.now().0 - clock.rate().ticks(100_000);
            joining.batch();
            joining.arrived((sequence, 0), Departure { at: sent, lateness_ns: 0 }, found(&clock));
            assert_eq!(joining.turn(false).unwrap(), Some(None), "the latency is the client's own");
        }
        assert!(joining.turn(true).unwrap().is_none());
        let stages = joining.finish().unwrap();
        assert_eq!((stages.frames(), stages.incomplete), (9, 1));
        assert_eq!(stages.points(), [Point::Sent, Point::DutIn, Point::DutOut, Point::Received]);
    }

    #[test]
    fn a_latency_between_stamps_waits_for_both() {
        let clock = Clock::calibrate().unwrap();
        let route = Route { stamp: Stamp::Socket, ..Route::default() };
        let joint = Joint::of(&route, &[Point::DriverOut], &[Point::KernelIn]).unwrap().unwrap();
        let mut joining = Joining::new(&joint, clock.rate());
        let now = mono().0;
        let real = (1 << 61) - (joint.wall.mono(1 << 61).0 - now);
        joining.arrived(
            (7, 0),
            Departure { at: clock.now().0, lateness_ns: 50 },
            Found { kernel: real + 5_000, ..found(&clock) },
        );
        assert_eq!(joining.turn(false).unwrap(), None, "the driver's stamp is not in yet");
        assert!(!joint.departed(7, Outward::Queued(real)) && joint.departed(7, Outward::Driver(real + 1_500)));
        let joined = joining.turn(false).unwrap().unwrap().unwrap();
        assert_eq!(joined.latency_ns, 3_500);
        assert_eq!(joined.from, now + 1_500);
        assert_eq!(joining.finish().unwrap().frames(), 1);
    }

    #[test]
    fn stamps_that_never_come_are_an_error() {
        let clock = Clock::calibrate().unwrap();
        let route = Route { stamp: Stamp::Xdp, ..Route::default() };
        let joint = Joint::of(&route, &[], &[Point::DriverIn]).unwrap().unwrap();
        let mut joining = Joining::new(&joint, clock.rate());
        joining.arrived((0, 0), Departure { at: clock.now().0, lateness_ns: 0 }, found(&clock));
        assert_eq!(joining.turn(true).unwrap(), Some(None));
        let error = joining.finish().unwrap_err().to_string();
        assert!(error.contains("xdp"), "{error}");
    }

    #[test]
    fn a_port_that_does_not_take_the_stamps_is_refused_at_once() {
        let route = Route { stamp: Stamp::Nic, ..Route::default() };
        let error = Joint::of(&route, &[Point::DriverOut], &[Point::CardIn]).err().unwrap().to_string();
        assert!(error.contains("(card (sends))"), "{error}");
        assert!(Joint::of(&Route::default(), &[], &[]).unwrap().is_none());
    }
}
