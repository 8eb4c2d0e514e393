//! What every port must do. Each engine's tests call [`check`] on a connected pair.

use crate::{BATCH, Receive, Transmit};
use std::time::{Duration, Instant};

/// Sizes of the frames sent, without FCS, or of the datagrams.
const SIZES: [usize; 5] = [60, 61, 128, 1024, 1514];
/// Longest wait for a frame that was sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks that `rx` is handed exactly what `tx` sends: whole, in order, once; that nothing arrives
/// unsent; that `fill` ends a batch; and that arrivals are stamped after departures.
///
/// # Panics
/// When the pair does not conform.
pub fn check(tx: &mut impl Transmit, rx: &mut impl Receive) {
    let frames = tx.caps().frames;
    assert_eq!(frames, rx.caps().frames, "both ends must agree on whether they see whole frames");
    drain(rx);
    assert_eq!(tx.send(|_| None).unwrap(), 0, "an empty batch sends nothing");
    nothing_arrives(rx);
    for (round, size) in (0..40).zip(SIZES.into_iter().cycle()) {
        let size = size - if frames { 0 } else { 42 };
        let count = 1 + round % BATCH;
        let sent = send_all(tx, round as u8, size, count);
        let received = receive_all(rx, count);
        assert_eq!(received.len(), sent.len(), "round {round}: frames of {size} bytes");
        for ((frame, departed), (got, arrived)) in sent.iter().zip(&received) {
            assert_eq!(frame, got, "round {round}: a frame of {size} bytes changed on its way");
            assert!(departed <= arrived, "round {round}: it arrived before it left");
        }
    }
    nothing_arrives(rx);
}

/// More frames than any receiving queue of ours has room for.
const FLOOD: usize = 100_000;

/// Checks that what finds no room in the receiving queue is counted, on a pair whose sender is not held up by that.
///
/// # Panics
/// When it is not.
pub fn check_overruns(tx: &mut impl Transmit, rx: &mut impl Receive) {
    drain(rx);
    let before = rx.overruns().expect("it counts");
    let (size, mut sent) = (if tx.caps().frames { 60 } else { 18 }, 0);
    let frame = test_frame(0, 0, size);
    while sent < FLOOD {
        sent += tx
            .send(|buffer| {
                buffer[..size].copy_from_slice(&frame);
                Some(size)
            })
            .unwrap();
    }
    let received = drain(rx);
    let overruns = (rx.overruns().expect("it counts") - before) as usize;
    assert!(overruns > 0 && received + overruns <= sent, "{received} of {sent}, and {overruns} found no room");
    assert_eq!(rx.overruns(), Some(before + overruns as u64), "counted once");
}

type Stamped = (Vec<u8>, u64);

fn send_all(tx: &mut impl Transmit, round: u8, size: usize, count: usize) -> Vec<Stamped> {
    let mut sent: Vec<Stamped> = Vec::new();
    let begun = Instant::now();
    while sent.len() < count {
        let before = sent.len();
        let accepted = tx.send(|buffer| {
            (sent.len() < count).then(|| {
                let frame = test_frame(round, sent.len() as u8, size);
                buffer[..size].copy_from_slice(&frame);
                sent.push((frame, usect_clock::tsc().0));
                size
            })
        });
        assert_eq!(accepted.unwrap(), sent.len() - before, "send reports what it took");
        assert!(begun.elapsed() < PATIENCE, "round {round}: only {} of {count} frames were taken", sent.len());
    }
    sent
}

/// An experimental EtherType (IEEE 802, 0x88B5), so that no stack answers it.
fn test_frame(round: u8, index: u8, size: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..size).map(|i| (i as u8).wrapping_mul(31) ^ round ^ index.rotate_left(3)).collect();
    frame[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn receive_all(rx: &mut impl Receive, count: usize) -> Vec<Stamped> {
    let mut received = Vec::new();
    let begun = Instant::now();
    while received.len() < count && begun.elapsed() < PATIENCE {
        let before = received.len();
        let handed = rx.recv(|frame, found| received.push((frame.to_vec(), found.at.0))).unwrap();
        assert_eq!(handed, received.len() - before, "recv reports what it handed over");
        assert!(handed <= BATCH, "a batch of {handed}");
    }
    received
}

fn nothing_arrives(rx: &mut impl Receive) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(20) {
        assert_eq!(rx.recv(|_, _| ()).unwrap(), 0, "a frame arrived that was not sent");
    }
}

/// Takes what is there; returns how many frames that were.
fn drain(rx: &mut impl Receive) -> usize {
    std::iter::repeat_with(|| rx.recv(|_, _| ()).unwrap()).take_while(|&received| received > 0).sum()
}
