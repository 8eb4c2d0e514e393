//! Times between packets of a load where they arrive (paper 004 §2.2 took them from a capture of tcpdump's), as the host sees them
//! behind its offloads: packets that an offload put together are one.

use crate::error::XdpError;
use crate::mapped::{Mapped, Shared};
use crate::skel::arrivals::ArrivalsSkelBuilder;
use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use usect_core::buckets;
use usect_core::histogram::Histogram;

#[repr(C)]
struct State {
    on: AtomicU64,
    gaps: [AtomicU64; buckets::LEN],
    last: AtomicU64,
    packets: AtomicU64,
    segments: AtomicU64,
}

// SAFETY: repr(C), atomics only.
unsafe impl Shared for State {}

/// Looks at packets that arrive at an interface, until it is dropped.
pub struct Arrivals {
    socket: OwnedFd,
    state: Mapped<State>,
}

/// What arrived.
#[derive(Debug)]
pub struct Arrived {
    /// From one packet to the next, in nanoseconds.
    pub gaps: Histogram,
    /// Packets, as the host sees them.
    pub packets: u64,
    /// Those that they were on the wire.
    pub segments: u64,
}

impl Arrivals {
    /// Gets ready to look at the IPv4 packets of a TCP or UDP port, of either end, that arrive at an interface of the calling thread's
    /// namespace.
    ///
    /// Errors: the kernel refuses the program, or a packet socket.
    pub fn prepare(ifindex: u32, port: u16) -> Result<Arrivals, XdpError> {
        let mut object = MaybeUninit::uninit();
        let open = ArrivalsSkelBuilder::default().open(&mut object);
        let mut open = open.map_err(|e| XdpError::bpf("opening the program that sees arrivals", e))?;
        open.maps.rodata_data.as_mut().expect("the program has constants").config.port = u32::from(port);
        let skel = open.load().map_err(|e| XdpError::bpf("loading the program that sees arrivals", e))?;
        let state = Mapped::new(skel.maps.bss.as_fd(), skel.maps.bss.value_size() as usize)?;
        let socket = usect_port::packet::watch(ifindex, skel.progs.arrivals.as_fd());
        let socket = socket.map_err(|e| XdpError::os(format!("looking at what arrives at interface {ifindex}"), &e))?;
        Ok(Arrivals { socket, state })
    }

    /// Begins to look.
    pub fn begin(&self) {
        self.state.on.store(1, Relaxed);
    }

    /// What arrived so far; no more is looked at.
    pub fn finish(self) -> Arrived {
        let Arrivals { socket, state } = self;
        drop(socket);
        let gaps: Vec<u64> = state.gaps.iter().map(|count| count.load(Relaxed)).collect();
        let of = |count: &AtomicU64| count.load(Relaxed);
        Arrived { gaps: Histogram::from_counts(&gaps), packets: of(&state.packets), segments: of(&state.segments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn packets_of_a_port_are_seen_and_others_are_not() {
        if !usect_testing::root() {
            return;
        }
        let lo = usect_lab::link(None, "lo").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let arrivals = Arrivals::prepare(lo.index, port).unwrap();
        arrivals.begin();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..10 {
            for to in [&receiver, &other] {
                sender.send_to(b"one", to.local_addr().unwrap()).unwrap();
                // One after another, so that none is put together with the next.
                to.recv(&mut [0; 8]).unwrap();
            }
        }
        let arrived = arrivals.finish();
        assert_eq!((arrived.packets, arrived.segments, arrived.gaps.samples()), (10, 10, 9));
        assert!(arrived.gaps.min() > 0);
    }
}
