//! Stamps of the kernel and of cards, through sockets (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst).
//! Those of arrivals come with the frame, those of departures in the socket's error queue.

use crate::{BATCH, Outward, sockopt};
use std::io;
use std::os::fd::AsRawFd;
use usect_core::scenario::Stamp;
use usect_core::stages::Point;

/// `linux/if_packet.h`: how AF_PACKET's error queue says what follows.
const PACKET_TX_TIMESTAMP: libc::c_int = 16;
/// `SCM_TSTAMP_*` of linux/errqueue.h: who took the stamp.
const BY_DRIVER_OR_CARD: u32 = 0;
const BY_QUEUE: u32 = 1;

/// Points at which frames sent through a socket get stamps; `queued` unless it bypasses the queueing discipline.
pub(crate) fn outward(stamp: Stamp, queued: bool) -> Vec<Point> {
    let kernel = if queued { &[Point::Queued, Point::DriverOut][..] } else { &[Point::DriverOut] };
    match stamp {
        Stamp::Socket => kernel.to_vec(),
        Stamp::Nic => [kernel, &[Point::CardOut]].concat(),
        Stamp::App | Stamp::Xdp => Vec::new(),
    }
}

/// Has the kernel, or kernel and card, stamp what a socket sends and receives. Departures are numbered from 0.
pub(crate) fn enable(socket: &impl AsRawFd, stamp: Stamp) -> io::Result<()> {
    let software = libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_TX_SCHED
        | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let hardware = libc::SOF_TIMESTAMPING_TX_HARDWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;
    let flags = match stamp {
        Stamp::App | Stamp::Xdp => return Ok(()),
        Stamp::Socket => software,
        Stamp::Nic => software | hardware,
    };
    sockopt::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

/// What the control messages of one message say, in nanoseconds of the stamp's own clock; 0 where they don't.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// On `CLOCK_REALTIME`.
    pub(crate) kernel: u64,
    /// On the card's clock.
    pub(crate) card: u64,
    departure: Option<(u32, u32)>,
}

impl Report {
    /// Takes in one control message.
    fn read(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        let number = |at: usize| Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?));
        match (level, kind) {
            // Three timespecs: by the kernel, unused, by the card.
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                let time = |at: usize| {
                    let word = |at: usize| Some(u64::from_ne_bytes(data.get(at..at + 8)?.try_into().ok()?));
                    word(at)?.checked_mul(1_000_000_000)?.checked_add(word(at + 8)?)
                };
                (self.kernel, self.card) = (time(0).unwrap_or(0), time(32).unwrap_or(0));
            }
            // struct sock_extended_err: origin at 4, info at 8, data at 12.
            (libc::SOL_IP, libc::IP_RECVERR)
            | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP)
                if data.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING) =>
            {
                self.departure = number(8).zip(number(12));
            }
            _ => {}
        }
    }

    /// The departures that it tells of: the frame's number and the stamps.
    fn departures(&self) -> impl Iterator<Item = (u32, Outward)> {
        let (by, number) = self.departure.unwrap_or((u32::MAX, 0));
        let kernel = Some(self.kernel).filter(|&ns| ns > 0).and_then(|ns| match by {
            BY_QUEUE => Some(Outward::Queued(ns)),
            BY_DRIVER_OR_CARD => Some(Outward::Driver(ns)),
            _ => None,
        });
        let card = Some(self.card).filter(|&ns| ns > 0 && by == BY_DRIVER_OR_CARD).map(Outward::Card);
        kernel.into_iter().chain(card).map(move |stamp| (number, stamp))
    }
}

/// Room for control messages, aligned as they are.
#[repr(align(8))]
struct Control([u8; 512]);

/// `recvmsg(2)`: how many bytes of `buffer` were filled, and what came with them.
pub(crate) fn receive(socket: &impl AsRawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<(usize, Report)> {
    let mut control = Control([0; 512]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: plain integers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), control.0.len());
    // SAFETY: the header names memory that is valid for writes during the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut report = Report::default();
    // SAFETY: the kernel filled the control buffer and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return headers that lie whole inside the buffer, aligned.
        let message = unsafe { &*next };
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(next) };
        let inside = (control.0.as_ptr() as usize + header.msg_controllen).saturating_sub(data as usize);
        // SAFETY: constant arithmetic.
        let length = message.cmsg_len.saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize).min(inside);
        // SAFETY: `length` bytes from `data` on lie inside the buffer.
        report.read(message.cmsg_level, message.cmsg_type, unsafe { std::slice::from_raw_parts(data, length) });
        // SAFETY: as for CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(&raw const header, next) };
    }
    Ok((length, report))
}

/// Takes stamps of departures out of a socket's error queue, those of a batch at the most. Returns how many.
pub(crate) fn reap(socket: &impl AsRawFd, each: &mut dyn FnMut(u32, Outward)) -> io::Result<usize> {
    let mut taken = 0;
    for _ in 0..3 * BATCH {
        match receive(socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Ok((_, report)) => {
                for (number, stamp) in report.departures() {
                    each(number, stamp);
                    taken += 1;
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::UdpSocket;

    #[test]
    fn the_kernel_stamps_what_a_socket_sends_and_receives() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        [&a, &b].into_iter().for_each(|socket| enable(socket, Stamp::Socket).unwrap());
        let mut buffer = [0; 100];
        // The kernel begins to stamp arrivals a moment after the first socket asked for it (net_enable_timestamp).
        let warm = UdpSocket::bind("127.0.0.1:0").unwrap();
        while receive(&b, &mut buffer, libc::MSG_DONTWAIT).map_or(0, |(_, report)| report.kernel) == 0 {
            warm.send_to(&[0], b.local_addr().unwrap()).unwrap();
        }
        while receive(&b, &mut buffer, libc::MSG_DONTWAIT).is_ok() {}
        let mut stamps = Vec::new();
        for number in 0..3_u8 {
            a.send(&[number; 10]).unwrap();
            let (length, report) = receive(&b, &mut buffer, 0).unwrap();
            assert_eq!((length, buffer[0]), (10, number));
            while stamps.len() < 2 * (usize::from(number) + 1) {
                reap(&a, &mut |n, stamp| stamps.push((n, stamp))).unwrap();
            }
            let [(_, Outward::Queued(queued)), (_, Outward::Driver(driver))] = stamps[stamps.len() - 2..] else {
                panic!("{stamps:?}")
            };
            assert!(queued <= driver && driver <= report.kernel, "{queued}, {driver}, {report:?}");
        }
        assert_eq!(stamps.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
        assert_eq!(receive(&b, &mut buffer, libc::MSG_DONTWAIT).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    proptest! {
        #[test]
        fn any_control_message_is_survived(
            level in prop_oneof![Just(libc::SOL_SOCKET), Just(libc::SOL_IP), Just(libc::SOL_PACKET), any::<i32>()],
            kind in prop_oneof![Just(libc::SCM_TIMESTAMPING), Just(libc::IP_RECVERR), Just(PACKET_TX_TIMESTAMP), any::<i32>()],
            data in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut report = Report::default();
            report.read(level, kind, &data);
            prop_assert!(report.departures().count() <= 2);
        }
    }
}
