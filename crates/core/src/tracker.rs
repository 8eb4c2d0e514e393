//! Matching departures with arrivals: every frame ends in exactly one class.

use serde::{Deserialize, Serialize};

/// When a frame left, on its sender's clock, and how long after it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Actual departure, in units of the sender's clock.
    pub at: u64,
    /// Actual minus scheduled departure, in nanoseconds.
    pub lateness_ns: u64,
}

/// How many sequence numbers back a duplicate is still told from a late frame.
const WINDOW: u64 = 1 << 20;

/// What became of the frames of a flow. Frames of the warm-up are in `warmup_*` only.
///
/// Two equations always hold, and [`Counts::balance`] checks them: `sent = received + lost`, and
/// `arrivals = received + duplicates + corrupted + stale + foreign + warmup_arrivals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Measured frames that the sender put on the wire.
    pub sent: u64,
    /// Measured frames that arrived at least once.
    pub received: u64,
    /// Of the received, those that overtook nothing but were overtaken (RFC 4737 §3.3).
    pub reordered: u64,
    /// Of the received, those with a departure and an arrival stamp, so with a latency.
    pub stamped: u64,
    /// Sent but never received.
    pub lost: u64,
    /// Further copies of a frame already received (RFC 5560).
    pub duplicates: u64,
    /// Frames of the flow whose content was damaged; the originals count as lost.
    pub corrupted: u64,
    /// Copies so old that they can't be told from late frames.
    pub stale: u64,
    /// Frames that reached the receiver but are not of the flow.
    pub foreign: u64,
    /// Everything the receiver was handed.
    pub arrivals: u64,
    /// Warm-up frames sent; not part of `sent`.
    pub warmup_sent: u64,
    /// Warm-up frames handed to the receiver, copies included; not part of `received`.
    pub warmup_arrivals: u64,
}

/// The counts of a trial do not add up: the instrument itself is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the counts do not add up ({equation}): this is a fault of usect, please report it with the run folder")]
pub struct Unbalanced {
    equation: String,
}

impl Unbalanced {
    /// From what doesn't add up, in numbers.
    pub(crate) fn new(equation: String) -> Unbalanced {
        Unbalanced { equation }
    }
}

impl Counts {
    /// Checks both equations.
    pub fn balance(&self) -> Result<(), Unbalanced> {
        let classes =
            self.received + self.duplicates + self.corrupted + self.stale + self.foreign + self.warmup_arrivals;
        if self.arrivals != classes {
            return Err(Unbalanced::new(format!("{} arrivals, {classes} classified", self.arrivals)));
        }
        if self.sent != self.received + self.lost {
            let equation = format!("{} sent, {} received, {} lost", self.sent, self.received, self.lost);
            return Err(Unbalanced::new(equation));
        }
        Ok(())
    }

    /// Frames that are in no class: 0 unless the instrument is at fault.
    pub fn unaccounted(&self) -> u64 {
        self.sent.abs_diff(self.received + self.lost)
    }

    /// Share of the received frames that carry a latency; `None` when nothing was received.
    pub fn stamped_share(&self) -> Option<f64> {
        (self.received > 0).then(|| self.stamped as f64 / self.received as f64)
    }

    /// Frames that may have been taken for others where numbers have 16 bits and `overwritten` frames were not in when theirs came
    /// round. None where no number did; and none where every frame was in by then and nothing arrived twice: the first frame to
    /// be taken for another would have had its own place still.
    pub fn confusable(&self, overwritten: u64) -> u64 {
        let came_round = self.warmup_sent + self.sent > 1 << 16;
        if came_round { overwritten + self.duplicates } else { 0 }
    }

    /// Adds another trial's counts, for pooling.
    pub fn add(&mut self, other: &Counts) {
        let mine = [
            &mut self.sent,
            &mut self.received,
            &mut self.reordered,
            &mut self.stamped,
            &mut self.lost,
            &mut self.duplicates,
            &mut self.corrupted,
            &mut self.stale,
            &mut self.foreign,
            &mut self.arrivals,
            &mut self.warmup_sent,
            &mut self.warmup_arrivals,
        ];
        let theirs = [
            other.sent,
            other.received,
            other.reordered,
            other.stamped,
            other.lost,
            other.duplicates,
            other.corrupted,
            other.stale,
            other.foreign,
            other.arrivals,
            other.warmup_sent,
            other.warmup_arrivals,
        ];
        for (sum, more) in mine.into_iter().zip(theirs) {
            *sum += more;
        }
    }
}

/// What one arriving sequence number turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The first copy of a measured frame: it has a latency.
    Measured,
    /// Of the warm-up, a copy, or stale: counted, not measured.
    Counted,
}

/// Classifies arrivals by sequence number, in constant memory.
#[derive(Debug)]
pub struct Tracker {
    seen: Box<[u64]>,
    /// One past the highest sequence number seen.
    next: u64,
    measure_from: u64,
    /// The highest number that had not arrived when its place was given to another.
    last_missed: Option<u64>,
    counts: Counts,
}

impl Tracker {
    /// Frames numbered below `measure_from` are the warm-up.
    pub fn new(measure_from: u64) -> Tracker {
        Tracker {
            seen: vec![0; (WINDOW / 64) as usize].into(),
            next: 0,
            measure_from,
            last_missed: None,
            counts: Counts::default(),
        }
    }

    /// The frame of the flow with this number arrived whole.
    #[inline]
    pub fn arrived(&mut self, sequence: u64) -> Arrival {
        self.counts.arrivals += 1;
        if sequence < self.measure_from {
            self.counts.warmup_arrivals += 1;
            self.mark(sequence);
            return Arrival::Counted;
        }
        if sequence + WINDOW < self.next {
            self.counts.stale += 1;
            return Arrival::Counted;
        }
        let late = sequence < self.next;
        if !self.mark(sequence) {
            self.counts.duplicates += 1;
            return Arrival::Counted;
        }
        self.counts.received += 1;
        self.counts.reordered += u64::from(late);
        Arrival::Measured
    }

    /// A frame of the flow arrived damaged.
    pub fn corrupted(&mut self) {
        self.counts.arrivals += 1;
        self.counts.corrupted += 1;
    }

    /// A frame arrived that is not of the flow.
    pub fn foreign(&mut self) {
        self.counts.arrivals += 1;
        self.counts.foreign += 1;
    }

    /// A latency was recorded for the frame just measured.
    #[inline]
    pub fn stamped(&mut self) {
        self.counts.stamped += 1;
    }

    /// Measured frames received so far.
    pub fn received(&self) -> u64 {
        self.counts.received
    }

    /// One past the highest sequence number that arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Number of the last measured frame that never arrived, from 0, once the sender's totals are known.
    pub fn last_lost(&self, warmup_sent: u64, sent: u64) -> Option<u64> {
        let end = warmup_sent + sent;
        let in_window = || (self.next.saturating_sub(WINDOW)..self.next.min(end)).rev().find(|&n| !self.has_seen(n));
        let last = if self.next < end { Some(end - 1) } else { in_window().or(self.last_missed) };
        last.and_then(|number| number.checked_sub(self.measure_from))
    }

    /// The final counts, once the sender's totals are known.
    pub fn finish(&self, warmup_sent: u64, sent: u64) -> Counts {
        let lost = sent.saturating_sub(self.counts.received);
        Counts { sent, warmup_sent, lost, ..self.counts }
    }

    /// Marks the number as seen; false when it already was.
    #[inline]
    fn mark(&mut self, sequence: u64) -> bool {
        if sequence >= self.next {
            self.forget(self.next, sequence);
            self.next = sequence + 1;
        }
        let (word, bit) = Self::place(sequence);
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    /// Clears the places of the numbers `from..=to`, which held numbers one window older.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.seen.fill(0);
            self.last_missed = Some(to - WINDOW);
            return;
        }
        for sequence in from..=to {
            let (word, bit) = Self::place(sequence);
            if self.seen[word] & bit == 0
                && let Some(older) = sequence.checked_sub(WINDOW)
            {
                self.last_missed = Some(older);
            }
            self.seen[word] &= !bit;
        }
    }

    fn has_seen(&self, sequence: u64) -> bool {
        let (word, bit) = Self::place(sequence);
        self.seen[word] & bit != 0
    }

    #[inline]
    fn place(sequence: u64) -> (usize, u64) {
        let slot = sequence % WINDOW;
        ((slot / 64) as usize, 1 << (slot % 64))
    }
}

/// Classifies the arrivals of several flows that take turns: frame `n` of all is of flow `n` modulo their number, and
/// is reordered only against frames of its own flow.
#[derive(Debug)]
pub struct Flows {
    trackers: Vec<Tracker>,
    /// One past the highest number of all.
    next: u64,
    /// What the sender said when it was last asked.
    sent: u64,
    measure_from: u64,
}

impl Flows {
    /// `flows` flows, at least one; the first `measure_from` frames of all are the warm-up.
    pub fn new(flows: u16, measure_from: u64) -> Flows {
        let flows = u64::from(flows.max(1));
        let trackers = (0..flows).map(|flow| Tracker::new(share(measure_from, flow, flows))).collect();
        Flows { trackers, next: 0, sent: 0, measure_from }
    }

    /// A frame arrived that looks whole. Returns what it is, and its flow. `sent` tells below which number frames may have left by
    /// now; a frame with another number is damaged all the same. Believed, it would make every later one look stale.
    #[inline]
    pub fn arrived(&mut self, sequence: u32, sent: impl FnOnce() -> u64) -> (Arrival, usize) {
        let Some(number) = self.believed(sequence, sent) else {
            self.corrupted();
            return (Arrival::Counted, 0);
        };
        self.next = self.next.max(number + 1);
        if let [only] = &mut self.trackers[..] {
            return (only.arrived(number), 0);
        }
        let flows = self.trackers.len() as u64;
        let flow = (number % flows) as usize;
        (self.trackers[flow].arrived(number / flows), flow)
    }

    /// The number nearest to the highest seen that ends in these 32 bits, so that they serve any number of frames; none that
    /// did not leave. The sender is asked only where what it said before doesn't do.
    #[inline]
    fn believed(&mut self, sequence: u32, sent: impl FnOnce() -> u64) -> Option<u64> {
        let distance = sequence.wrapping_sub(self.next as u32) as i32;
        let number = self.next.checked_add_signed(i64::from(distance))?;
        if number >= self.sent {
            self.sent = sent();
        }
        (number < self.sent).then_some(number)
    }

    /// A frame of some flow arrived damaged: it is counted with the first.
    pub fn corrupted(&mut self) {
        self.trackers[0].corrupted();
    }

    /// A frame arrived that is of no flow: it is counted with the first.
    pub fn foreign(&mut self) {
        self.trackers[0].foreign();
    }

    /// A latency was recorded for a frame of a flow.
    #[inline]
    pub fn stamped(&mut self, flow: usize) {
        self.trackers[flow].stamped();
    }

    /// Measured frames received so far.
    pub fn received(&self) -> u64 {
        self.trackers.iter().map(Tracker::received).sum()
    }

    /// One past the highest number of the only flow that arrived; of several, of the first.
    pub fn next(&self) -> u64 {
        self.trackers[0].next()
    }

    /// Number of the last measured frame of all flows that never arrived, once the sender's totals are known.
    pub fn last_lost(&self, warmup_sent: u64, sent: u64) -> Option<u64> {
        let flows = self.trackers.len() as u64;
        let of = |(flow, tracker): (u64, &Tracker)| {
            let (warmup, all) = (share(warmup_sent, flow, flows), share(warmup_sent + sent, flow, flows));
            let number = (tracker.last_lost(warmup, all - warmup)? + warmup) * flows + flow;
            number.checked_sub(warmup_sent)
        };
        (0..).zip(&self.trackers).filter_map(of).max()
    }

    /// The final counts of each flow, once the sender's totals are known.
    pub fn finish(&self, warmup_sent: u64, sent: u64) -> Vec<Counts> {
        let flows = self.trackers.len() as u64;
        let of = |(flow, tracker): (u64, &Tracker)| {
            let warmup = share(warmup_sent, flow, flows);
            let all = share(warmup_sent + sent, flow, flows);
            tracker.finish(warmup, all - warmup)
        };
        debug_assert!(warmup_sent <= self.measure_from);
        (0..).zip(&self.trackers).map(of).collect()
    }
}

/// How many of the first `frames` are of one flow of several that take turns.
fn share(frames: u64, flow: u64, flows: u64) -> u64 {
    (frames + flows - 1 - flow) / flows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(from: u64, arrivals: &[u32], sent: u64) -> Counts {
        let mut tracker = Tracker::new(from);
        for &sequence in arrivals {
            if tracker.arrived(u64::from(sequence)) == Arrival::Measured {
                tracker.stamped();
            }
        }
        let counts = tracker.finish(from, sent);
        counts.balance().unwrap();
        counts
    }

    #[test]
    fn loss_copies_and_swaps_are_told_apart() {
        let counts = feed(0, &[0, 1, 3, 2, 2, 5, 6, 6, 8, 7], 10);
        assert_eq!((counts.received, counts.lost), (8, 2));
        assert_eq!((counts.duplicates, counts.reordered), (2, 2));
        assert_eq!(counts.stamped_share(), Some(1.0));
        assert_eq!(feed(0, &[], 3).stamped_share(), None);
    }

    #[test]
    fn the_warm_up_is_counted_apart() {
        let counts = feed(3, &[0, 1, 1, 2, 3, 4], 2);
        assert_eq!((counts.received, counts.lost, counts.warmup_arrivals), (2, 0, 4));
    }

    #[test]
    fn a_copy_older_than_the_window_is_stale() {
        let mut tracker = Tracker::new(0);
        tracker.arrived(0);
        tracker.arrived(WINDOW + 5);
        assert_eq!(tracker.arrived(0), Arrival::Counted);
        assert_eq!(tracker.finish(0, 2).stale, 1);
    }

    #[test]
    fn the_last_lost_frame_is_known_beyond_the_window() {
        let mut flows = Flows::new(2, 2);
        let sent = 3 * WINDOW;
        (0..sent).filter(|n| *n != 5 && *n != 9).for_each(|n| {
            flows.arrived(n as u32, || sent);
        });
        assert_eq!(flows.last_lost(2, sent - 2), Some(7));
        assert_eq!(flows.last_lost(2, sent), Some(sent - 1), "what never came at the end is lost too");
        let mut tracker = Tracker::new(0);
        tracker.arrived(0);
        tracker.arrived(2 * WINDOW);
        assert_eq!(tracker.last_lost(0, 2 * WINDOW + 1), Some(2 * WINDOW - 1));
    }

    #[test]
    fn sequence_numbers_wrap() {
        let near_end = u64::from(u32::MAX) - 1;
        let mut flows = Flows::new(1, near_end);
        flows.next = near_end;
        for sequence in [u32::MAX - 1, u32::MAX, 1, 0, 2] {
            assert_eq!(flows.arrived(sequence, || near_end + 5), (Arrival::Measured, 0));
        }
        let counts = flows.finish(near_end, 5)[0];
        assert_eq!((counts.received, counts.reordered, counts.lost), (5, 1, 0));
    }

    #[test]
    fn a_damaged_number_is_not_believed_and_ends_nothing() {
        let sent = 4 * WINDOW;
        for damaged in [3 * WINDOW as u32, 0x7fff_ffff, 0x8000_0005, u32::MAX] {
            let mut flows = Flows::new(1, 0);
            for n in 0..100_u32 {
                // Five have left that have not arrived yet.
                flows.arrived(if n == 10 { damaged } else { n }, || u64::from(n) + 5);
            }
            let counts = flows.finish(0, sent)[0];
            counts.balance().unwrap();
            assert_eq!((counts.received, counts.corrupted, counts.stale), (99, 1, 0), "{damaged:#x}");
            assert_eq!(flows.next(), 100);
        }
    }

    #[test]
    fn flows_are_told_apart_and_only_their_own_frames_overtake_them() {
        let mut flows = Flows::new(3, 4);
        // 0 to 3 are the warm-up; flow 0 has 6 and 9, flow 1 has 4, 7 and 10, flow 2 has 5, 8 and 11.
        for sequence in [0, 1, 2, 3, 5, 4, 8, 6, 10, 7, 11] {
            if let (Arrival::Measured, flow) = flows.arrived(sequence, || 12) {
                flows.stamped(flow);
            }
        }
        let counts = flows.finish(4, 8);
        counts.iter().for_each(|counts| counts.balance().unwrap());
        let of = |field: fn(&Counts) -> u64| counts.iter().map(field).collect::<Vec<_>>();
        assert_eq!(of(|c| c.sent), [2, 3, 3]);
        assert_eq!(of(|c| c.received), [1, 3, 3]);
        assert_eq!(of(|c| c.reordered), [0, 1, 0]);
        assert_eq!(of(|c| c.warmup_sent), [2, 1, 1]);
        assert_eq!((of(|c| c.lost), flows.received()), (vec![1, 0, 0], 7));
    }

    #[test]
    fn an_imbalance_is_reported() {
        let counts = Counts { sent: 3, received: 1, arrivals: 1, ..Counts::default() };
        assert!(counts.balance().is_err());
        assert_eq!(counts.unaccounted(), 2);
    }

    proptest! {
        /// A table keyed by two bits, of frames that are lost or late by up to three rounds: none is taken for another unless
        /// some were not in when their number came round.
        #[test]
        fn no_frame_is_taken_for_another_where_none_was_overwritten(delays in proptest::collection::vec(proptest::option::weighted(0.95, 0_usize..12), 1..80)) {
            const PLACES: usize = 4;
            let (mut places, mut overwritten, mut confused) = ([None::<(usize, bool)>; PLACES], 0, false);
            for now in 0..delays.len() + 12 {
                if now < delays.len() {
                    overwritten += u64::from(places[now % PLACES].is_some_and(|(_, arrived)| !arrived));
                    places[now % PLACES] = Some((now, false));
                }
                let arrive = |sent: &usize| delays.get(*sent).copied().flatten().is_some_and(|delay| sent + delay == now);
                for sent in (0..=now).filter(arrive) {
                    let place = places[sent % PLACES].as_mut().unwrap();
                    confused |= place.0 != sent;
                    place.1 = true;
                }
            }
            let counts = Counts { sent: 1 << 17, ..Counts::default() };
            prop_assert!(!confused || counts.confusable(overwritten) > 0);
        }

        /// Damaged numbers anywhere cost no more than their own frames, and those that they are taken for.
        #[test]
        fn damaged_numbers_are_in_one_class_each(
            flows in 1_u16..4, damaged in proptest::collection::btree_map(0_u32..3_000, any::<u32>(), 0..8), ahead in 1_u64..100,
        ) {
            let mut tracked = Flows::new(flows, 100);
            for n in 0..3_000 {
                let number = damaged.get(&n).copied().unwrap_or(n);
                tracked.arrived(number, || (u64::from(n) + ahead).min(3_000));
            }
            let mut counts = Counts::default();
            tracked.finish(100, 2_900).iter().for_each(|flow| counts.add(flow));
            counts.balance().unwrap();
            prop_assert_eq!((counts.arrivals, counts.stale), (3_000, 0));
            prop_assert!(counts.received + 2 * damaged.len() as u64 >= 2_900, "{:?}", counts);
            let beyond = damaged.iter().filter(|(n, number)| u64::from(**number) >= u64::from(**n) + ahead).count();
            prop_assert!(counts.corrupted <= damaged.len() as u64 && counts.corrupted >= beyond as u64, "{:?}", counts);
        }

        /// Against a model that remembers everything.
        #[test]
        fn agrees_with_a_set(arrivals in proptest::collection::vec(0_u32..200, 0..400), from in 0_u64..50) {
            let counts = feed(from, &arrivals, 200 - from);
            let measured: std::collections::HashSet<u32> =
                arrivals.iter().copied().filter(|&s| u64::from(s) >= from).collect();
            prop_assert_eq!(counts.received as usize, measured.len());
            prop_assert_eq!(counts.arrivals as usize, arrivals.len());
            let mut tracker = Tracker::new(from);
            arrivals.iter().for_each(|&sequence| { tracker.arrived(u64::from(sequence)); });
            let lost = (from..200).filter(|&n| !measured.contains(&(n as u32))).max();
            prop_assert_eq!(tracker.last_lost(from, 200 - from), lost.map(|n| n - from));
        }
    }
}
