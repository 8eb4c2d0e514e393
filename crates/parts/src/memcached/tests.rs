//! Against servers in threads of the test: one that answers, one that goes away, one that stops answering.

use super::*;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::thread::{JoinHandle, spawn};

const GETS: Load = Load { kind: Kind::Get, rate: None, value: 1, expires_s: 0 };

/// What a server does after so many requests of its only connection.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    GoesAway,
    StopsAnswering,
    SaysNonsense,
}

/// A server that answers `get` with a value, and then doesn't.
fn server(after: u64, then: Then) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Whoever comes back finds nobody.
        drop(listener);
        let reader = BufReader::new(stream.try_clone().unwrap());
        for (number, line) in reader.lines().enumerate() {
            let Ok(line) = line else { return };
            assert!(line.starts_with("get usect"), "{line}");
            match then {
                _ if (number as u64) < after => stream.write_all(b"VALUE k 0 1\r\nx\r\nEND\r\n").unwrap(),
                Then::GoesAway => return,
                Then::StopsAnswering => {}
                Then::SaysNonsense => drop(stream.write_all(b"no such thing\r\n")),
            }
        }
    };
    (address, spawn(serve))
}

fn served(address: SocketAddr, fps: u64, lasts: Duration) -> Served {
    let clock = Clock::calibrate().unwrap();
    let (stop, recorder) = (AtomicBool::new(false), Recorder::default());
    let rate = Rate::per_second(fps);
    let observation = Observation { clock: &clock, lasts, stop: &stop, recorder: &recorder };
    load(observation, address, Load { rate, ..GETS }).unwrap()
}

fn assert_adds_up(served: &Served) {
    let Account { due, answered, refused, lost, unsent, .. } = served.account;
    assert_eq!(due, answered + refused + lost + unsent, "{:?}", served.account);
    assert_eq!((served.latency.samples(), served.from_sent.samples()), (answered, answered));
}

#[test]
fn every_request_that_is_answered_is_recorded() {
    let (address, server) = server(u64::MAX, Then::GoesAway);
    let served = served(address, 2_000, Duration::from_millis(500));
    assert_adds_up(&served);
    assert_eq!((served.account.due, served.account.answered), (1_000, 1_000));
    // From when it was due can't be shorter than from when it was sent.
    assert!(served.latency.mean() >= served.from_sent.mean());
    server.join().unwrap();
}

#[test]
fn back_to_back_one_is_under_way_at_a_time() {
    let (address, server) = server(u64::MAX, Then::GoesAway);
    let served = served(address, 0, Duration::from_millis(200));
    assert_adds_up(&served);
    assert!(served.account.answered > 0 && served.account.due == served.account.answered);
    server.join().unwrap();
}

#[test]
fn a_server_that_goes_away_leaves_every_request_accounted_for() {
    for (fps, then) in [(2_000, Then::GoesAway), (2_000, Then::SaysNonsense), (0, Then::GoesAway)] {
        let (address, server) = server(100, then);
        let served = served(address, fps, Duration::from_millis(500));
        assert_adds_up(&served);
        let Account { due, answered, lost, unsent, disconnected, .. } = served.account;
        assert_eq!((answered, disconnected), (100, 1), "{:?}", served.account);
        assert!(lost >= 1 && unsent >= 1 && (fps == 0 || due == 1_000), "{:?}", served.account);
        server.join().unwrap();
    }
}

#[test]
fn a_server_that_stops_answering_is_not_waited_for_for_ever() {
    let (address, server) = server(100, Then::StopsAnswering);
    let served = served(address, 2_000, Duration::from_millis(500));
    assert_adds_up(&served);
    assert_eq!((served.account.answered, served.account.lost), (100, 900));
    server.join().unwrap();
}

#[test]
fn nobody_there_is_an_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let clock = Clock::calibrate().unwrap();
    let (stop, recorder) = (AtomicBool::new(false), Recorder::default());
    let observation = Observation { clock: &clock, lasts: RESIDUAL, stop: &stop, recorder: &recorder };
    assert!(load(observation, free, GETS).is_err());
    assert!(fill(&clock, free, GETS).is_err());
}
