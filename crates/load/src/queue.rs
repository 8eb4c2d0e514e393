//! A queueing discipline while something goes through it, as the kernel tells over netlink. `tc` tells the same, but a program that is started
//! ten times a second disturbs what is measured beside it: a light flow's p99 by milliseconds.

use crate::LoadError;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NlasIterator};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use usect_core::matrix::Queue;
use usect_lab::within;

/// Who is asked.
const KERNEL: &str = "the kernel's queueing disciplines";
/// Of linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSGHDR: usize = 16;
/// Of linux/rtnetlink.h: messages, and the fields of `struct tcmsg`.
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCMSG: usize = 20;
const TCM_IFINDEX: usize = 4;
const TCM_PARENT: usize = 12;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
/// Of linux/pkt_sched.h.
const TC_H_ROOT: u32 = u32::MAX;
/// Of linux/gen_stats.h: `struct gnet_stats_queue` is qlen, backlog, drops, requeues, overlimits.
const TCA_STATS_QUEUE: u16 = 3;
/// No message of the kernel's is longer.
const LONGEST: usize = 32 << 10;

/// Looks at the queueing disciplines of an interface again and again.
pub struct Watch {
    /// Of the interface's namespace.
    socket: Socket,
    interface: String,
    index: u32,
    first: Look,
    last: Look,
    looks: u64,
    packets: u64,
    most: Look,
}

/// What an interface's disciplines hold, all together.
#[derive(Debug, Clone, Default, PartialEq)]
struct Look {
    kinds: Vec<String>,
    packets: u64,
    bytes: u64,
    drops: u64,
    requeues: u64,
}

impl Watch {
    /// Begins to look at an interface, by its name and its number.
    ///
    /// Errors: the kernel doesn't tell.
    pub fn begin(netns: Option<&str>, interface: &str, index: u32) -> Result<Watch, LoadError> {
        let opened = within(netns, || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        })?;
        let socket = opened.map_err(|e: io::Error| said(&e))?;
        let mut watch = Watch {
            socket,
            interface: interface.to_owned(),
            index,
            first: Look::default(),
            last: Look::default(),
            looks: 0,
            packets: 0,
            most: Look::default(),
        };
        watch.count_anew()?;
        Ok(watch)
    }

    /// Counts from now on: nothing is told of what was dropped before.
    ///
    /// Errors: the kernel doesn't tell.
    pub fn count_anew(&mut self) -> Result<(), LoadError> {
        self.first = self.ask()?;
        self.last = self.first.clone();
        Ok(())
    }

    /// Looks once more.
    ///
    /// Errors: the kernel doesn't tell.
    pub fn look(&mut self) -> Result<(), LoadError> {
        let look = self.ask()?;
        self.saw(look);
        Ok(())
    }

    fn ask(&self) -> Result<Look, LoadError> {
        let mut request = [0; NLMSGHDR + TCMSG];
        let mut header = NetlinkBuffer::new(&mut request[..]);
        header.set_length((NLMSGHDR + TCMSG) as u32);
        header.set_message_type(RTM_GETQDISC);
        header.set_flags(NLM_F_REQUEST | NLM_F_DUMP);
        header.payload_mut()[TCM_IFINDEX..TCM_IFINDEX + 4].copy_from_slice(&self.index.to_ne_bytes());
        self.socket.send(&request, 0).map_err(|e| said(&e))?;
        let (mut look, mut done) = (Look::default(), false);
        while !done {
            let mut bytes = Vec::with_capacity(LONGEST);
            self.socket.recv(&mut bytes, 0).map_err(|e| said(&e))?;
            done = read(&bytes, self.index, &mut look).map_err(|why| LoadError::Said { program: KERNEL, why })?;
        }
        Ok(look)
    }

    fn saw(&mut self, look: Look) {
        self.looks += 1;
        self.packets += look.packets;
        self.most.packets = self.most.packets.max(look.packets);
        self.most.bytes = self.most.bytes.max(look.bytes);
        self.last = look;
    }

    /// What was seen.
    pub fn end(self) -> Queue {
        Queue {
            interface: self.interface,
            kind: self.last.kinds.join(" "),
            looks: self.looks,
            mean_packets: if self.looks == 0 { 0.0 } else { self.packets as f64 / self.looks as f64 },
            most_packets: self.most.packets,
            most_bytes: self.most.bytes,
            drops: self.last.drops.saturating_sub(self.first.drops),
            requeues: self.last.requeues.saturating_sub(self.first.requeues),
        }
    }
}

fn said(error: &io::Error) -> LoadError {
    LoadError::Said { program: KERNEL, why: error.to_string() }
}

/// Adds what a datagram says of an interface; whether it was the last one.
fn read(mut bytes: &[u8], index: u32, look: &mut Look) -> Result<bool, String> {
    while !bytes.is_empty() {
        let message = NetlinkBuffer::new_checked(bytes).map_err(|e| e.to_string())?;
        let length = (message.length() as usize).max(NLMSGHDR).next_multiple_of(4).min(bytes.len());
        match message.message_type() {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = number(message.payload(), 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(code.saturating_neg()).to_string());
            }
            RTM_NEWQDISC => look.add(message.payload(), index)?,
            _ => {}
        }
        bytes = &bytes[length..];
    }
    Ok(false)
}

impl Look {
    /// Adds one discipline, if it is of that interface. A root holds what those below it hold, and counts it.
    fn add(&mut self, message: &[u8], index: u32) -> Result<(), String> {
        if number(message, TCM_IFINDEX) != Some(index) {
            return Ok(());
        }
        let root = number(message, TCM_PARENT) == Some(TC_H_ROOT);
        for attribute in NlasIterator::new(message.get(TCMSG..).unwrap_or_default()) {
            let attribute = attribute.map_err(|e| e.to_string())?;
            match attribute.kind() {
                TCA_KIND => {
                    let name = String::from_utf8_lossy(attribute.value());
                    self.kinds.push(name.trim_end_matches('\0').to_owned());
                }
                TCA_STATS2 if root => self.count(attribute.value())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, statistics: &[u8]) -> Result<(), String> {
        for attribute in NlasIterator::new(statistics) {
            let attribute = attribute.map_err(|e| e.to_string())?;
            if attribute.kind() == TCA_STATS_QUEUE {
                let field = |place: usize| u64::from(number(attribute.value(), 4 * place).unwrap_or(0));
                self.packets += field(0);
                self.bytes += field(1);
                self.drops += field(2);
                self.requeues += field(3);
            }
        }
        Ok(())
    }
}

/// Four bytes in the host's order.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::UdpSocket;
    use usect_lab::{Lab, Shape, run};

    #[test]
    fn the_kernel_tells_what_tc_tells() {
        if !usect_testing::root() {
            return;
        }
        let lab = Lab::up(&format!("queue-{}", std::process::id()), Shape::Wire, 1500).unwrap();
        let (link, netns) = (lab.tx(), lab.tx().netns.as_deref());
        let tc = |args: &str| run(netns, "tc", &args.split(' ').collect::<Vec<_>>()).unwrap();
        // One packet a second and a half, of which some wait and the others find no room.
        tc("qdisc replace dev t0 root handle 1: tbf rate 8kbit burst 1514 limit 4000");
        let mut watch = Watch::begin(netns, "t0", link.index).unwrap();
        let to = lab.rx().address.unwrap();
        let send = || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..20 {
                socket.send_to(&[0; 1000], (to, 9)).unwrap();
            }
        };
        within(netns, send).unwrap();
        let dropped = || {
            let told: serde_json::Value = serde_json::from_str(&tc("-s -j qdisc show dev t0")).unwrap();
            told[0]["drops"].as_u64().unwrap()
        };
        let before = dropped();
        assert!(before >= 10);
        watch.count_anew().unwrap();
        within(netns, send).unwrap();
        watch.look().unwrap();
        // Some have left meanwhile; none of those that were dropped has come back.
        let drops = dropped() - before;
        let queue = watch.end();
        assert_eq!((queue.kind.as_str(), queue.interface.as_str(), queue.drops), ("tbf", "t0", drops));
        assert!(drops >= 10 && queue.most_packets > 0 && queue.most_bytes > 1000, "{queue:?}");
        let error = Watch::begin(Some("no-such-namespace"), "t0", 1).err().unwrap().to_string();
        assert!(error.contains("no-such-namespace"), "{error}");
    }

    #[test]
    fn looks_are_summed_up() {
        let look =
            |packets, bytes, drops| Look { kinds: vec!["pfifo".into()], packets, bytes, drops, requeues: drops / 2 };
        let mut watch = Watch::begin(None, "lo", 1).unwrap();
        watch.first = look(0, 0, 10);
        [look(4, 400, 10), look(10, 300, 14), look(1, 100, 20)].into_iter().for_each(|look| watch.saw(look));
        let queue = watch.end();
        assert_eq!((queue.looks, queue.mean_packets, queue.most_packets, queue.most_bytes), (3, 5.0, 10, 400));
        assert_eq!((queue.drops, queue.requeues, queue.kind.as_str()), (10, 5, "pfifo"));
    }

    #[test]
    fn what_the_kernel_refuses_is_said() {
        let mut message = [0_u8; 36];
        message[..4].copy_from_slice(&36_u32.to_ne_bytes());
        message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        message[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert!(read(&message, 1, &mut Look::default()).unwrap_err().contains("not permitted"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u16..64, inside in proptest::collection::vec(any::<u8>(), 20..120)) {
            let _ = read(&bytes, 1, &mut Look::default());
            let mut message = vec![0; NLMSGHDR];
            message.extend(inside);
            let length = message.len() as u32;
            let mut header = NetlinkBuffer::new(&mut message[..]);
            header.set_length(length);
            header.set_message_type(kind);
            let index = number(&message, NLMSGHDR + TCM_IFINDEX).unwrap();
            let _ = read(&message, index, &mut Look::default());
        }
    }
}
