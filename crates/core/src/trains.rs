//! Trains of frames as they left and as they arrived: latency of their heads, capacity, loss.
//!
//! Trains rather than pairs of frames, because a link that is several (LACP) may send two frames of a pair through
//! two of its members, or both through one, and shows n times less, or more, than it has (paper 003 §5).

use crate::frame::FrameSize;
use crate::pattern::Train;
use crate::periodic::{Periodic, periodic};
use crate::stats::{self, Bounded};
use serde::{Deserialize, Serialize};

/// When the trains of a traffic left, in ticks of the sender's clock. Nothing is allocated while they leave.
#[derive(Debug)]
pub struct Departures {
    length: u32,
    /// The head's place, and the first of the span.
    head: u32,
    from: u32,
    /// The next frame's place in its train.
    place: u32,
    /// Frames of the warm-up, in whole trains, that have not left yet.
    warmup: u64,
    trains: Vec<Departed>,
}

#[derive(Debug, Clone, Copy)]
struct Departed {
    head: u64,
    /// Of the first of the span, and of the last.
    first: u64,
    last: u64,
}

/// Where in a train the span begins that tells its pace. The head leaves by itself; and while the frames behind it are
/// still handed over, faster than the line takes them, who hands them on is late: a quarter of the train later it is not.
fn from(train: &Train) -> u32 {
    match train.length {
        2 => 0,
        length => (length / 4).max(1 + train.head()).min(length - 2),
    }
}

impl Departures {
    /// Of so many frames, in order, behind those of the warm-up.
    pub fn new(train: &Train, warmup: u64, frames: u64) -> Departures {
        let trains = Vec::with_capacity((frames / u64::from(train.length)) as usize);
        Departures { length: train.length, head: train.head(), from: from(train), place: 0, warmup, trains }
    }

    /// The next frame left.
    #[inline]
    pub fn left(&mut self, at: u64) {
        if self.warmup > 0 {
            self.warmup -= 1;
        } else if self.place > self.head {
            self.follower(at);
        } else if self.place == self.head && self.trains.len() < self.trains.capacity() {
            self.trains.push(Departed { head: at, first: at, last: at });
        }
        self.place = if self.place + 1 == self.length { 0 } else { self.place + 1 };
    }

    #[inline]
    fn follower(&mut self, at: u64) {
        let Some(train) = self.trains.last_mut() else { return };
        train.last = at;
        if self.place == self.from {
            train.first = at;
        }
    }

    /// Whether the next frame is the head of a train.
    #[inline]
    pub fn at_head(&self) -> bool {
        self.place == self.head
    }
}

/// When the frames of trains arrived, in ticks of the receiver's clock. Nothing is allocated while they arrive.
#[derive(Debug)]
pub struct Arrivals {
    length: u32,
    head: u32,
    from: u32,
    heads_only: bool,
    trains: Box<[Arrived]>,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    received: u32,
    stamped: u32,
    head_ns: Option<u64>,
    sum_ns: u64,
    /// The earliest and latest arrival of its span.
    first: u64,
    last: u64,
    batches: Batches,
}

const NOTHING: Arrived =
    Arrived { received: 0, stamped: 0, head_ns: None, sum_ns: 0, first: u64::MAX, last: 0, batches: NO_BATCHES };

/// Frames that were found together share a stamp, so that a pace is counted from the stamp of one batch to that of another: of
/// the first that begins in the span, and of the last.
#[derive(Debug, Clone, Copy)]
struct Batches {
    begin: u64,
    end: u64,
    /// Frames from `begin`, and those of them before `end`.
    frames: u32,
    before: u32,
    /// The stamp of the present one, its frames, and those of the largest.
    stamp: u64,
    present: u32,
    largest: u32,
}

const NO_BATCHES: Batches = Batches { begin: 0, end: 0, frames: 0, before: 0, stamp: 0, present: 0, largest: 0 };

impl Batches {
    #[inline]
    fn arrived(&mut self, in_span: bool, at: u64) {
        let is_new = at != self.stamp;
        self.stamp = at;
        if is_new && in_span && self.begin == 0 {
            self.begin = at;
        }
        if self.begin == 0 {
            return;
        }
        if is_new {
            (self.end, self.before, self.present) = (at, self.frames, 0);
        }
        self.frames += 1;
        self.present += 1;
        self.largest = self.largest.max(self.present);
    }

    /// Where there are two at least.
    fn counted(&self, ns: impl Fn(u64) -> u64) -> Option<Counted> {
        let Batches { begin, end, before, largest, .. } = *self;
        let ns = ns(end.saturating_sub(begin));
        (before > 0 && ns > 0).then_some(Counted { frames: before, ns, batch: largest })
    }
}

impl Arrivals {
    /// Of so many frames.
    pub fn new(train: &Train, frames: u64) -> Arrivals {
        let trains = vec![NOTHING; (frames / u64::from(train.length)) as usize].into();
        Arrivals { length: train.length, head: train.head(), from: from(train), heads_only: train.heads_only, trains }
    }

    /// A frame arrived, the `number`th of those that are measured, from 0. Returns whether it has a latency.
    #[inline]
    pub fn arrived(&mut self, number: u32, at: u64) -> bool {
        let (train, place) = (number / self.length, number % self.length);
        let Some(train) = self.trains.get_mut(train as usize) else { return false };
        train.received += 1;
        train.batches.arrived(place >= self.from, at);
        if place >= self.from {
            train.first = train.first.min(at);
            train.last = train.last.max(at);
        }
        place == self.head || !self.heads_only && place > self.head
    }

    /// Its latency is known.
    #[inline]
    pub fn stamped(&mut self, number: u32, ns: u64) {
        let (train, place) = (number / self.length, number % self.length);
        let Some(train) = self.trains.get_mut(train as usize) else { return };
        train.stamped += 1;
        train.sum_ns += ns;
        if place == self.head {
            train.head_ns = Some(ns);
        }
    }
}

/// The trains of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Trains {
    /// What was sent.
    pub train: Train,
    /// One after another.
    pub seen: Vec<Seen>,
    /// Where in them each run begins.
    pub runs: Vec<usize>,
}

/// One train. Its spans run from the frame a quarter behind its head to the last; where there are only two, from the
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// When its head left, after the first train's, in nanoseconds.
    pub at_ns: u64,
    /// Its frames that arrived.
    pub received: u32,
    /// The head's latency, where it arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub head_ns: Option<u64>,
    /// Mean latency of its frames, where more than the head have one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_ns: Option<u64>,
    /// The span of its departures.
    pub sent_ns: u64,
    /// The span of its arrivals, where all of them arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arrived_ns: Option<u64>,
    /// What tells its pace, where all of it arrived and not at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted: Option<Counted>,
}

/// Frames of a train that arrived from the first stamp of a batch to the first stamp of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Those frames; where the line was when either stamp was taken is known to within a batch.
    pub frames: u32,
    /// The time between those stamps, in nanoseconds.
    pub ns: u64,
    /// Frames of the largest batch.
    pub batch: u32,
}

impl Counted {
    /// Frames per second, from those that a batch less to those that a batch more would be.
    fn pace(self) -> Bounded {
        let rate = |frames: u32| f64::from(frames) * 1e9 / self.ns as f64;
        let Counted { frames, batch, .. } = self;
        Bounded { value: rate(frames), low: rate(frames.saturating_sub(batch)), high: rate(frames + batch) }
    }
}

impl Trains {
    /// From both ends; `ns` turns ticks into nanoseconds.
    pub fn of(train: Train, sent: &Departures, received: &Arrivals, ns: impl Fn(u64) -> u64) -> Trains {
        let began = sent.trains.first().map_or(0, |train| train.head);
        let seen = |(left, came): (&Departed, &Arrived)| Seen {
            at_ns: ns(left.head.saturating_sub(began)),
            received: came.received,
            head_ns: came.head_ns,
            mean_ns: (came.stamped > 1).then(|| came.sum_ns / u64::from(came.stamped)),
            sent_ns: ns(left.last.saturating_sub(left.first)),
            arrived_ns: (came.received == train.length).then(|| ns(came.last.saturating_sub(came.first))),
            counted: came.batches.counted(&ns).filter(|_| came.received == train.length),
        };
        // The last one may have been interrupted, and then what didn't leave isn't lost.
        let whole = sent.trains.len() - usize::from(sent.place > 0 && !sent.trains.is_empty());
        Trains { train, seen: sent.trains.iter().zip(&received.trains).take(whole).map(seen).collect(), runs: vec![0] }
    }

    /// Latency of the heads, in nanoseconds: its median.
    pub fn head_ns(&self) -> Option<Bounded> {
        stats::median(self.heads_ns())
    }

    /// Latencies of the heads, in nanoseconds.
    pub fn heads_ns(&self) -> Vec<f64> {
        self.seen.iter().filter_map(|seen| seen.head_ns).map(|ns| ns as f64).collect()
    }

    /// When each run's late trains left: those whose latency (the head's, or the mean where every frame has one) is more
    /// than three interquartile ranges beyond the upper quartile. Of late ones in a row, the first.
    fn late(&self) -> Vec<Vec<u64>> {
        let latency = |seen: &Seen| seen.mean_ns.or(seen.head_ns);
        let mut all: Vec<u64> = self.seen.iter().filter_map(latency).collect();
        all.sort_unstable();
        let at = |share: f64| all.get((all.len() as f64 * share) as usize).copied().unwrap_or(0);
        let fence = at(0.75) + FAR_OUT * (at(0.75) - at(0.25)).max(1);
        let ends = self.runs.iter().skip(1).copied().chain([self.seen.len()]);
        let late = |run: &[Seen]| {
            let mut before = false;
            let mut first = |seen: &&Seen| {
                let is = latency(seen).is_some_and(|ns| ns > fence);
                let was = std::mem::replace(&mut before, is);
                is && !was
            };
            run.iter().filter(|seen| first(seen)).map(|seen| seen.at_ns).collect()
        };
        self.runs.iter().zip(ends).map(|(&from, to)| late(&self.seen[from..to])).collect()
    }

    /// At what frequency trains are held up, if they are at even distances and at less than half the rate of trains.
    fn held_up(&self) -> Option<Periodic> {
        let per_run = self.seen.len() / self.runs.len().max(1);
        let end = self.runs.get(1).map_or(self.seen.len(), |&next| next);
        let lasts = self.seen.get(end.checked_sub(1)?)?.at_ns;
        let trains_hz = per_run.checked_sub(1)? as f64 * 1e9 / lasts as f64;
        periodic(&self.late(), trains_hz / 2.0)
    }

    /// Adds those of another trial.
    pub fn add(&mut self, other: &Trains) {
        let before = self.seen.len();
        self.runs.extend(other.runs.iter().map(|run| run + before));
        let began = self.seen.last().map_or(0, |last| last.at_ns);
        self.seen.extend(other.seen.iter().map(|seen| Seen { at_ns: seen.at_ns + began, ..*seen }));
    }
}

/// What trains say of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainsRecord {
    /// Trains sent.
    pub trains: u64,
    /// Those of which every frame arrived: the others have no capacity.
    pub whole: u64,
    /// Latency of the heads, in nanoseconds: its median.
    pub head_ns: Option<Bounded>,
    /// Frames per second of the arriving trains: the median of the whole ones, with an interval that is wider by a batch.
    pub capacity: Option<Bounded>,
    /// Frames of the largest batch: so many share a stamp.
    #[serde(default)]
    pub batch: u32,
    /// Frames per second of the departing trains: their median.
    pub offered: Option<Bounded>,
    /// Whether trains arrived as fast as they were sent, so that the path may have more than `capacity`.
    pub sender_bound: bool,
    /// Share of the frames that were lost.
    pub loss: Option<Bounded>,
    /// Late trains that come back at even distances, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic: Option<Periodic>,
    /// One after another.
    pub seen: Vec<Seen>,
}

/// Interquartile ranges beyond the upper quartile from which on a train is late.
const FAR_OUT: u64 = 3;
/// Trains that arrive at no less than this share of the pace at which they left met no bottleneck.
const AS_SENT: f64 = 0.98;

impl TrainsRecord {
    /// In numbers.
    pub fn of(trains: &Trains) -> TrainsRecord {
        let Trains { train, seen, .. } = trains;
        let gaps = f64::from(train.length - 1 - from(train));
        let sent = seen.iter().map(|s| s.sent_ns).filter(|&ns| ns > 0);
        let offered = stats::median(sent.map(|ns| gaps * 1e9 / ns as f64).collect());
        let counted: Vec<Counted> = seen.iter().filter_map(|s| s.counted).collect();
        let capacity = capacity(&counted);
        let lost: Vec<u64> = seen.iter().map(|s| u64::from(train.length.saturating_sub(s.received))).collect();
        TrainsRecord {
            trains: seen.len() as u64,
            whole: seen.iter().filter(|s| s.received == train.length).count() as u64,
            head_ns: trains.head_ns(),
            capacity,
            batch: counted.iter().map(|counted| counted.batch).max().unwrap_or(0),
            offered,
            sender_bound: capacity.zip(offered).is_some_and(|(c, o)| c.value >= AS_SENT * o.value),
            loss: stats::share_of_groups(&lost, u64::from(train.length)),
            periodic: trains.held_up(),
            seen: seen.clone(),
        }
    }

    /// Bits per second of frames of a size at the capacity: those of the frames without FCS (paper 003), with FCS, and
    /// on the line with preamble and gap.
    pub fn bits(&self, size: FrameSize) -> Option<[Bounded; 3]> {
        let capacity = self.capacity?;
        let line = u64::from(size.with_fcs()) + crate::rate::LINE_OVERHEAD;
        let bytes = [size.without_fcs() as u64, u64::from(size.with_fcs()), line];
        Some(bytes.map(|bytes| capacity.times(bytes as f64 * 8.0)))
    }
}

/// The median pace of trains. Each has its count to within a batch, all of them perhaps to the same side.
fn capacity(counted: &[Counted]) -> Option<Bounded> {
    let median = |of: fn(Bounded) -> f64| stats::median(counted.iter().map(|counted| of(counted.pace())).collect());
    let (least, pace, most) = (median(|pace| pace.low)?, median(|pace| pace.value)?, median(|pace| pace.high)?);
    Some(Bounded { value: pace.value, low: least.low, high: most.high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trains(train: Train, arrivals: impl Fn(u32, &mut Arrivals)) -> Trains {
        let frames = u64::from(train.length) * 8;
        let (mut sent, mut received) = (Departures::new(&train, 0, frames), Arrivals::new(&train, frames));
        for number in 0..frames {
            let (t, place) = (number / u64::from(train.length), number % u64::from(train.length));
            assert_eq!(sent.at_head(), place == 0);
            sent.left(1_000 + t * 1_000_000 + place * 10);
        }
        (0..frames as u32).for_each(|number| arrivals(number, &mut received));
        Trains::of(train, &sent, &received, |ticks| ticks)
    }

    fn convoy() -> Train {
        Train { length: 100, spacing_ns: 0, lead_ns: 0, heads_only: true }
    }

    #[test]
    fn capacity_is_that_of_the_slots_behind_the_head() {
        let trains = trains(convoy(), |number, received| {
            let (t, place) = (u64::from(number / 100), u64::from(number % 100));
            // The head comes early, as if the line had been idle behind it.
            let at = 5_000 + t * 1_000_000 + if place == 0 { 0 } else { 500 + place * 67 };
            assert_eq!(received.arrived(number, at), place == 0);
            if place == 0 {
                received.stamped(number, 1_234 + t);
            }
        });
        let record = TrainsRecord::of(&trains);
        assert_eq!((record.trains, record.whole, record.sender_bound), (8, 8, false));
        let capacity = record.capacity.unwrap();
        assert!((capacity.value - 1e9 / 67.0).abs() < 1.0, "{capacity:?}");
        assert!((record.offered.unwrap().value - 1e8).abs() < 1.0);
        assert_eq!(record.head_ns.unwrap().value, 1_237.0);
        assert_eq!(record.loss.unwrap().value, 0.0);
        assert_eq!(trains.seen[3], Seen { at_ns: 3_000_000, mean_ns: None, ..trains.seen[3] });
        let [frames, with_fcs, line] = record.bits(FrameSize::MIN).unwrap().map(|b| b.value / 1e9);
        assert!((frames - 7.164).abs() < 0.001 && (with_fcs - 7.642).abs() < 0.001 && (line - 10.03).abs() < 0.001);
    }

    #[test]
    fn a_capacity_is_above_the_line_by_no_more_than_its_interval() {
        // A line that takes 1,230 ns for a frame, and a receiver that looks every so often: what it finds together shares a stamp.
        const LINE: u64 = 1_230;
        let train = |look: u64| {
            trains(convoy(), move |number, received| {
                let (t, place) = (u64::from(number / 100), u64::from(number % 100));
                let came = t * 1_000_000 + place * LINE + t * 137;
                received.arrived(number, came.next_multiple_of(look));
            })
        };
        let line = 1e9 / LINE as f64;
        for look in [50, 700, 1_230, 1_300, 2_000, 5_000, 12_345, 20_000] {
            let capacity = TrainsRecord::of(&train(look)).capacity.unwrap();
            assert!(capacity.low <= line && line <= capacity.high, "{look}: {capacity:?}, {line}");
            assert!(
                (capacity.value / line - 1.0).abs() < 0.01 + 0.02 * (look / LINE) as f64,
                "{look}: {capacity:?}, {line}"
            );
        }
        let record = TrainsRecord::of(&train(20_000));
        assert_eq!(record.batch, 17);
        assert_eq!(TrainsRecord::of(&train(500_000)).capacity, None, "all of a train at once");
    }

    #[test]
    fn trains_with_a_loss_have_no_capacity_and_loss_an_interval() {
        let trains = trains(convoy(), |number, received| {
            if number % 250 != 7 {
                received.arrived(number, u64::from(number) * 10);
            }
        });
        let record = TrainsRecord::of(&trains);
        assert_eq!((record.trains, record.whole), (8, 4));
        let loss = record.loss.unwrap();
        assert!((loss.value - 0.005).abs() < 1e-12 && loss.low < 0.005 && loss.high > 0.005, "{loss:?}");
        assert_eq!(record.capacity, None, "four trains can't bound a median");
        assert_eq!(record.head_ns, None);
    }

    #[test]
    fn a_train_that_arrives_as_it_left_shows_the_sender() {
        let train = Train { length: 4, spacing_ns: 0, lead_ns: 0, heads_only: false };
        let trains = trains(train, |number, received| {
            assert!(received.arrived(number, u64::from(number) * 10));
            received.stamped(number, 50 + u64::from(number % 4));
        });
        let record = TrainsRecord::of(&trains);
        assert!(record.sender_bound);
        assert_eq!((trains.seen[0].head_ns, trains.seen[0].mean_ns), (Some(50), Some(51)));
    }

    #[test]
    fn a_frame_ahead_is_not_measured() {
        let train = Train { length: 4, spacing_ns: 0, lead_ns: 50_000, heads_only: false };
        let (mut sent, mut received) = (Departures::new(&train, 4, 4), Arrivals::new(&train, 4));
        let heads: Vec<bool> = (0..8).map(|at| (sent.at_head(), sent.left(at)).0).collect();
        assert_eq!(heads, [false, true, false, false, false, true, false, false]);
        let timed: Vec<bool> = (0..4).map(|number| received.arrived(number, 100)).collect();
        assert_eq!(timed, [false, true, true, true]);
        received.stamped(1, 95);
        let trains = Trains::of(train, &sent, &received, |ticks| ticks);
        assert_eq!((trains.seen[0].head_ns, trains.seen[0].received, trains.seen[0].sent_ns), (Some(95), 4, 1));
    }

    #[test]
    fn a_timer_among_the_trains_is_found() {
        let train = Train { length: 2, spacing_ns: 0, lead_ns: 0, heads_only: false };
        // A train every 200 us, one in twenty held up by a tick every 4 ms.
        let seen = |i: u64| Seen {
            at_ns: i * 200_000,
            received: 2,
            head_ns: Some(if i % 20 == 7 { 9_000 } else { 500 + i % 7 }),
            mean_ns: None,
            sent_ns: 50,
            arrived_ns: Some(60),
            counted: None,
        };
        let one = Trains { train, seen: (0..1_000).map(seen).collect(), runs: vec![0] };
        let found = TrainsRecord::of(&one).periodic.unwrap();
        assert!((found.hz - 250.0).abs() < 1.0 && found.events == 50, "{found:?}");
        let mut two = one.clone();
        two.add(&one);
        assert_eq!(two.runs, [0, 1_000]);
        let found = TrainsRecord::of(&two).periodic.unwrap();
        assert!((found.hz - 250.0).abs() < 1.0 && found.events == 100, "{found:?}");
    }

    #[test]
    fn frames_beyond_the_last_train_are_nobody_s() {
        let mut received = Arrivals::new(&convoy(), 200);
        assert!(!received.arrived(200, 1));
        received.stamped(u32::MAX, 1);
    }
}
