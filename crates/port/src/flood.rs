//! Sending as fast as a port takes frames, and receiving nothing: what an engine can do at most.

use crate::error::STUCK_NS;
use crate::live::Plan;
use crate::{ClientError, Transmit};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use usect_clock::Clock;
use usect_core::frame::{Flow, FrameSize};
use usect_core::frame_spec::{Field, FrameSpec, How, VarySpec};
use usect_core::rate::Rate;
use usect_core::template::Template;
use usect_core::tracker::Departure;
use usect_core::trial::Traffic;

/// What is sent.
#[derive(Debug, Clone)]
pub struct Flood {
    /// The frames.
    pub template: Template,
    /// How many, how large; its rate and mode don't matter.
    pub traffic: Traffic,
    /// Whether every frame carries its number and the time at which its burst began to be filled.
    pub stamped: bool,
}

impl Flood {
    /// `frames` frames of one size; the source port steps through 256 values, frame by frame.
    pub fn new(flow: Flow, frame_size: FrameSize, frames: u64, stamped: bool) -> Flood {
        let first = u32::from(flow.source.address.port()) & !0xff;
        let (from, to, how) = (first, first | 0xff, How::Step);
        let stepping = VarySpec { field: Some(Field::SourcePort), at: None, width: None, from, to, how };
        let spec = FrameSpec { vary: vec![stepping], ..FrameSpec::default() };
        let template = Template::new(&spec, frame_size, &flow).expect("plain frames have ports");
        let traffic = Traffic::evenly(frame_size, Rate::UNPACED, frames);
        Flood { template, traffic, stamped }
    }

    /// Sends until everything has left or `stop` is set; returns how many frames left, and in how many
    /// nanoseconds.
    pub fn send(&self, clock: &Clock, tx: &mut impl Transmit, stop: &AtomicBool) -> Result<(u64, u64), ClientError> {
        let frames = self.traffic.frames;
        let whole = tx.caps().frames;
        let plan = Plan::new(self.template.clone(), self.template.clone(), self.traffic.clone(), whole);
        tx.prepare(plan.sent.bytes(plan.from));
        let length = plan.length();
        let mut index = 0;
        let began = clock.now();
        let mut progress = began;
        while index < frames && !stop.load(Relaxed) {
            // A burst leaves as one, so it has one time.
            let mut burst = None;
            let sent = tx.send(|frame| {
                if index == frames {
                    return None;
                }
                if self.stamped {
                    let at = *burst.get_or_insert_with(|| clock.now().0);
                    plan.write(frame, index, Departure { at, lateness_ns: 0 });
                } else if whole {
                    plan.sent.write_unnumbered(frame, index);
                }
                index += 1;
                Some(length)
            });
            if sent.map_err(ClientError::sending)? > 0 {
                progress = clock.now();
            } else if clock.rate().ns(clock.now().0 - progress.0) > STUCK_NS {
                return Err(ClientError::stuck());
            }
        }
        Ok((index, clock.rate().ns(clock.now().0 - began.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Receive, mem};
    use usect_core::frame::{Endpoint, HEADERS};
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
                    assert_eq!(frame[35], expected as u8);
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
