use super::*;
use std::net::SocketAddrV4;
use usect_core::frame::{Endpoint, Flow, FrameSize};
use usect_core::frame_spec::FrameSpec;
use usect_core::signature::Signature;
use usect_core::tracker::Departure;
use usect_port::mem::{self, MemPort};

fn template() -> Template {
    let end = |n: u8| Endpoint { mac: [2, 0, 0, 0, 0, n], address: SocketAddrV4::new([198, 18, 0, n].into(), 9000) };
    Template::new(&FrameSpec::default(), FrameSize::MIN, &Flow { source: end(1), destination: end(2) }).unwrap()
}

/// A spool of our own frames, all of which it keeps a record of from the fifth on, between two ends.
fn spool(toml: &str, seat: Seat) -> (Spool, MemPort, MemPort, Clock) {
    let clock = Clock::calibrate().unwrap();
    let ((outside_a, left), (right, outside_b)) = (mem::pair(60), mem::pair(60));
    let spec: SpoolSpec = toml::from_str(toml).unwrap();
    let selection = Selection { template: template(), tag: template().tag(), from: 5, until: u64::MAX, every: 1 };
    (Spool::start(clock, seat, (left, right), &spec, selection), outside_a, outside_b, clock)
}

fn send(port: &mut MemPort, clock: &Clock, numbers: std::ops::Range<u32>) {
    let template = template();
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let fill = |room: &mut [u8]| {
            let sequence = numbers.next()?;
            room[..60].copy_from_slice(template.bytes(0));
            let departure = Departure { at: clock.now().0, lateness_ns: 0 };
            template.write(room, 0, u64::from(sequence), |place| Signature { sequence, departure }.write(7, place));
            Some(60)
        };
        port.tx.send(fill).unwrap();
    }
}

/// The numbers and times of what arrives, until it has been quiet for longer than a busy host keeps a thread away.
fn receive(port: &mut MemPort, clock: &Clock) -> Vec<(u32, Tsc)> {
    let mut arrived: Vec<(u32, Tsc)> = Vec::new();
    let mut last = clock.now();
    while clock.rate().ns(clock.now().0 - last.0) < 1_000_000_000 {
        let some =
            port.rx.recv(|frame, found| arrived.push((Signature::read(7, &frame[42..]).unwrap().sequence, found.at)));
        if some.unwrap() > 0 {
            last = clock.now();
        }
    }
    arrived
}

#[test]
fn every_frame_is_held_for_the_delay_at_least_and_in_order() {
    let (spool, mut a, mut b, clock) = spool("delay_ns = 200000", Seat::Own(None));
    let begun = clock.now();
    send(&mut a, &clock, 0..20);
    let arrived = receive(&mut b, &clock);
    assert!(arrived.iter().map(|(number, _)| *number).eq(0..20));
    assert!(arrived.iter().all(|(_, at)| clock.rate().ns(at.0 - begun.0) >= 200_000));
    let report = Box::new(spool).stop().unwrap();
    assert!(report.done.contains(&("held there".into(), 20)), "{:?}", report.done);
    let imposed = report.imposed.unwrap().latency;
    assert_eq!(imposed.samples(), 15, "without the warm-up");
    assert!(imposed.min() >= 200_000 * 999 / 1000, "{}", imposed.min());
}

#[test]
fn frames_pass_a_fiber_one_after_another() {
    // 64 bytes take 672 us on this line, with preamble and gap, and 576 us until they are whole.
    let fiber = "fiber = { length_m = 20000.0, line_rate = \"1 Mbit/s\" }";
    let (spool, mut a, mut b, clock) = spool(fiber, Seat::Own(None));
    let begun = clock.now();
    send(&mut a, &clock, 0..10);
    let arrived = receive(&mut b, &clock);
    let after = |at: Tsc| clock.rate().ns(at.0 - begun.0);
    for (index, (number, at)) in (0_u64..).zip(&arrived) {
        assert_eq!(index, u64::from(*number));
        // None comes before physics lets it: 20 km are 96,359 ns.
        assert!(after(*at) >= 96_359 + 576_000 + index * 672_000, "frame {index} after {} ns", after(*at));
    }
    assert_eq!(arrived.len(), 10);
    drop(spool);
}

#[test]
fn a_guest_works_in_the_thread_that_turns_it_and_reports_when_dropped() {
    let (mut spool, mut a, mut b, clock) = spool("delay_ns = 0", Seat::Receiver);
    let mut guest = spool.guest().unwrap();
    assert!(spool.guest().is_none(), "there is one");
    send(&mut a, &clock, 0..6);
    assert_eq!(receive(&mut b, &clock).len(), 0, "nobody turned it");
    while guest.turn().unwrap() > 0 {}
    drop(guest);
    assert_eq!(receive(&mut b, &clock).len(), 6);
    let report = Box::new(spool).stop().unwrap();
    assert_eq!(report.imposed.unwrap().latency.samples(), 1);
    assert!(report.watches.is_empty());
}

#[test]
fn losses_copies_and_overtakings_are_those_it_reports_and_seeded() {
    let toml = |seed: u32| {
        format!(
            "delay_ns = 1000\nimpair = {{ loss = 0.05, duplicate = 0.04, reorder = 0.03, seed = {seed}, \
             jitter = {{ distribution = \"exponential\", mean_ns = 300.0 }} }}"
        )
    };
    let run = |seed| {
        let (spool, mut a, mut b, clock) = spool(&toml(seed), Seat::Own(None));
        let arrived = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&mut b, &clock));
            for first in (0..2_000).step_by(20) {
                send(&mut a, &clock, first..first + 20);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            receiver.join().unwrap()
        });
        let done = Box::new(spool).stop().unwrap().done;
        let of = |name: &str| done.iter().find(|(n, _)| n == name).unwrap().1;
        let mut tracker = usect_core::tracker::Tracker::new(0);
        arrived.iter().for_each(|(number, _)| {
            tracker.arrived(u64::from(*number));
        });
        let counts = tracker.finish(0, 2_000);
        let seen = (counts.lost, counts.duplicates, counts.reordered);
        assert_eq!(seen, (of("lost"), of("duplicated"), of("reordered")));
        assert!(counts.lost > 0 && counts.duplicates > 0 && counts.reordered > 0, "{seen:?}");
        counts.lost
    };
    assert_eq!(run(1), run(1));
}
