//! Several clients at once, as one: pairs of ports, whose figures are pooled, and the other direction, whose are not.

use crate::ClientError;
use crate::client::{Client, Control, Outcome, Probe};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use usect_core::measurement::{Measurement, Stream};
use usect_core::trial::Traffic;

/// A client among several.
pub struct Lane {
    /// `pair 2`, `back`.
    pub name: String,
    /// It.
    pub client: Box<dyn Client>,
    /// Whether its figures are part of the whole's.
    pub pooled: bool,
}

/// Clients that run at the same time.
pub struct Lanes(Vec<Lane>);

impl Lanes {
    /// At least one, the first of which is pooled.
    pub fn new(lanes: Vec<Lane>) -> Lanes {
        assert!(lanes.first().is_some_and(|lane| lane.pooled), "the first lane is the measurement");
        Lanes(lanes)
    }
}

/// The pooled lanes' windows.
struct Windows(Vec<Arc<dyn Probe>>);

impl Probe for Windows {
    fn sent(&self) -> u64 {
        self.0.iter().map(|probe| probe.sent()).sum()
    }

    fn received(&self) -> u64 {
        self.0.iter().map(|probe| probe.received()).sum()
    }

    fn latency(&self) -> Vec<u64> {
        let mut sum: Vec<u64> = Vec::new();
        for counts in self.0.iter().map(|probe| probe.latency()) {
            sum.resize(counts.len().max(sum.len()), 0);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    fn has_sent_all(&self) -> bool {
        self.0.iter().all(|probe| probe.has_sent_all())
    }
}

impl Client for Lanes {
    fn probe(&mut self) -> Arc<dyn Probe> {
        // Of each, also of those that nobody looks through: it begins anew.
        let all = self.0.iter_mut().map(|lane| (lane.pooled, lane.client.probe()));
        Arc::new(Windows(all.filter(|(pooled, _)| *pooled).map(|(_, probe)| probe).collect()))
    }

    fn run(&mut self, traffic: &Traffic, control: &Control) -> Result<Outcome, ClientError> {
        let outcomes: Vec<Result<Outcome, ClientError>> = std::thread::scope(|scope| {
            let run = |lane: &'_ mut Lane| {
                let outcome = lane.client.run(traffic, control);
                if outcome.is_err() {
                    // The others need not go on.
                    control.stop.store(true, Relaxed);
                }
                outcome
            };
            let threads: Vec<_> = self.0.iter_mut().map(|lane| scope.spawn(move || run(lane))).collect();
            let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended.collect()
        });
        let mut whole: Option<Outcome> = None;
        let mut streams = Vec::new();
        for (lane, outcome) in self.0.iter().zip(outcomes) {
            let mut outcome = outcome?;
            streams.push(stream(&lane.name, &outcome.measurement));
            if !lane.pooled {
                let flows = std::mem::take(&mut outcome.measurement.streams).into_iter();
                streams.extend(flows.map(|flow| Stream { name: format!("{} {}", lane.name, flow.name), ..flow }));
            }
            outcome
                .watched
                .iter_mut()
                .for_each(|watched| watched.thread = format!("{} ({})", watched.thread, lane.name));
            match &mut whole {
                None => whole = Some(outcome),
                Some(whole) => add(whole, outcome, lane.pooled),
            }
        }
        let mut whole = whole.expect("there is a first lane");
        whole.measurement.streams.extend(streams);
        Ok(whole)
    }
}

fn stream(name: &str, measurement: &Measurement) -> Stream {
    let Measurement { counts, latency, pace, overruns, .. } = measurement;
    Stream { name: name.to_owned(), counts: *counts, latency: latency.clone(), pace: *pace, overruns: *overruns }
}

fn add(whole: &mut Outcome, mut lane: Outcome, pooled: bool) {
    whole.watched.append(&mut lane.watched);
    if !pooled {
        return;
    }
    for note in std::mem::take(&mut lane.measurement.notes) {
        if !whole.measurement.notes.contains(&note) {
            whole.measurement.notes.push(note);
        }
    }
    // Flows of the same name become one.
    whole.measurement.pool(&lane.measurement);
    whole.slow.append(lane.slow);
    let pace = whole.measurement.pace.as_mut().zip(lane.measurement.pace);
    if let Some((sum, more)) = pace {
        sum.requested += more.requested;
        sum.achieved += more.achieved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{PacketClient, Threads};
    use crate::mem;
    use std::net::SocketAddrV4;
    use std::sync::Mutex;
    use usect_clock::Clock;
    use usect_core::frame::{Endpoint, Flow, FrameSize};
    use usect_core::rate::Rate;

    #[test]
    fn pairs_are_pooled_and_the_way_back_stays_apart() {
        let clock = Clock::calibrate().unwrap();
        let end =
            |n: u8| Endpoint { mac: [2, 0, 0, 0, 0, n], address: SocketAddrV4::new([198, 18, 0, n].into(), 9000) };
        let flow = Flow { source: end(1), destination: end(2) };
        let lane = |name: &str, pooled, flows| {
            let (a, b) = mem::pair(1514);
            let mut client = PacketClient::new(clock, a.tx, b.rx, flow, Threads::One { core: 0 }, Arc::default());
            client.flows = flows;
            Lane { name: name.to_owned(), client: Box::new(client), pooled }
        };
        let mut lanes = Lanes::new(vec![lane("pair 1", true, 3), lane("pair 2", true, 3), lane("back", false, 1)]);
        let rate = Rate::per_second(5_000).unwrap();
        let traffic = Traffic { warmup_frames: 10, ..Traffic::evenly(FrameSize::MIN, rate, 1_000) };
        let control = Control { stop: Arc::default(), bridge: Mutex::new(clock.bridge()) };
        let probe = lanes.probe();
        let outcome = lanes.run(&traffic, &control).unwrap();
        let measured = outcome.measurement;
        measured.counts.balance().unwrap();
        assert_eq!((measured.counts.sent, measured.latency.samples()), (2_000, 2_000));
        assert_eq!((probe.received(), probe.latency().iter().sum::<u64>()), (2_000, 2_000));
        assert_eq!(measured.pace.unwrap().requested, 10_000.0);
        let streams: Vec<_> = measured.streams.iter().map(|s| (s.name.as_str(), s.counts.received)).collect();
        let expected = [("flow 1", 666), ("flow 2", 668), ("flow 3", 666), ("pair 1", 1_000), ("pair 2", 1_000)];
        assert_eq!(streams[..5].iter().map(|s| s.0).collect::<Vec<_>>(), expected.map(|s| s.0));
        assert_eq!(streams[..3].iter().map(|s| s.1).sum::<u64>(), 2_000);
        assert_eq!(streams[5], ("back", 1_000));
        assert_eq!(outcome.watched.len(), 3);
    }
}
