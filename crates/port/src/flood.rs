//! Sending as fast as a port takes frames, and receiving nothing: what an engine can do at most.

use crate::live::Plan;
use crate::{ClientError, Transmit};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use usect_clock::Clock;
use usect_core::frame::{Flow, HEADERS, HeaderSum};
use usect_core::rate::Rate;
use usect_core::scenario::Mode;
use usect_core::tracker::Departure;
use usect_core::trial::Traffic;

/// Longest wait for a port that takes nothing.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Where the UDP source port stands in a frame: its low byte steps from frame to frame.
const STEPPED: usize = 35;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    /// The flow; its source port steps through 256 values, frame by frame.
    pub flow: Flow,
    /// How many frames, how large; its rate and mode don't matter.
    pub traffic: Traffic,
    /// Whether every frame carries its number and the time of its departure.
    pub stamped: bool,
}

impl Flood {
    /// `frames` frames of one size.
    pub fn new(flow: Flow, frame_size: usect_core::frame::FrameSize, frames: u64, stamped: bool) -> Flood {
        let traffic = Traffic { frame_size, rate: Rate::UNPACED, warmup_frames: 0, frames, mode: Mode::OneWay };
        Flood { flow, traffic, stamped }
    }

    /// Sends until everything has left or `stop` is set; returns how many frames left, and in how many
    /// nanoseconds.
    pub fn send(&self, clock: &Clock, tx: &mut impl Transmit, stop: &AtomicBool) -> Result<(u64, u64), ClientError> {
        let Traffic { frame_size, frames, .. } = self.traffic;
        let template = self.flow.frame(frame_size);
        let payload_at = tx.caps().payload_at;
        let begin = if payload_at > 0 { 0 } else { HEADERS };
        tx.prepare(&template[begin..]);
        let sum = HeaderSum::of(&template);
        let (flow, traffic) = (self.flow, self.traffic);
        let plan = Plan { flow, expected: flow, traffic, nonce: 0, payload_at, sum, joint: None };
        let (length, stepping) = (template.len() - begin, payload_at > STEPPED);
        let mut index = 0;
        let began = clock.now();
        let mut progress = began;
        while index < frames && !stop.load(Relaxed) {
            let sent = tx.send(|frame| {
                if index == frames {
                    return None;
                }
                if stepping {
                    frame[STEPPED] = index as u8;
                }
                if self.stamped {
                    plan.write(frame, index as u32, Departure { at: clock.now().0, lateness_ns: 0 });
                }
                index += 1;
                Some(length)
            });
            if sent.map_err(ClientError::sending)? > 0 {
                progress = clock.now();
            } else if clock.rate().ns(clock.now().0 - progress.0) > PATIENCE_NS {
                return Err(ClientError::sending(std::io::Error::other("the port takes no more frames")));
            }
        }
        Ok((index, clock.rate().ns(clock.now().0 - began.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Receive, mem};
    use usect_core::frame::{Endpoint, FrameSize};
    use usect_core::signature::Signature;

    #[test]
    fn frames_are_numbered_stamped_and_stepped() {
        let end = |n: u8| Endpoint { mac: [n; 6], address: std::net::SocketAddrV4::new([198, 18, 0, n].into(), 9000) };
        let flow = Flow { source: end(1), destination: end(2) };
        let clock = Clock::calibrate().unwrap();
        let (mut a, mut b) = mem::pair(60);
        for stamped in [true, false] {
            let flood = Flood::new(flow, FrameSize::MIN, 300, stamped);
            assert_eq!(flood.send(&clock, &mut a.tx, &AtomicBool::new(false)).unwrap().0, 300);
            let mut expected = 0;
            while expected < 300 {
                b.rx.recv(|frame, found| {
                    assert_eq!(frame[STEPPED], expected as u8);
                    assert_eq!(usect_core::frame::internet_checksum(&frame[14..34]), 0);
                    let signature = Signature::read(0, &frame[HEADERS..]).filter(|_| stamped);
                    let fits = |s: Signature| s.sequence == expected && s.departure.at <= found.at.0;
                    assert!(signature.map_or(!stamped, fits), "{signature:?}");
                    expected += 1;
                })
                .unwrap();
            }
        }
    }
}
