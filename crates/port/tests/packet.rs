//! AF_PACKET ports on a veth pair between two namespaces.

use std::time::{Duration, Instant};
use usect_core::frame::{Endpoint, Flow, FrameSize};
use usect_core::frame_spec::FrameSpec;
use usect_core::scenario::Stamp;
use usect_core::template::Template;
use usect_lab::{Lab, Link, Shape, State, run, within};
use usect_port::packet::{self, PacketRx, PacketTx};
use usect_port::{Port, Receive, Take, Transmit, conformance};
use usect_testing::root;

fn wire(name: &str, work: impl FnOnce(&Lab)) {
    let state = tempfile::tempdir().unwrap();
    let lab = State::at(state.path()).up(&format!("{name}-{}", std::process::id()), Shape::Wire, 9000).unwrap();
    work(&lab);
}

fn open(link: &Link, take: Take) -> Port<PacketTx, PacketRx> {
    within(link.netns.as_deref(), || packet::open(link.index, take, 9014, Stamp::App)).unwrap().unwrap()
}

fn send(tx: &mut PacketTx, frame: &[u8]) {
    let mut once = Some(());
    let sent = tx.send(|buffer| {
        once.take()?;
        buffer[..frame.len()].copy_from_slice(frame);
        Some(frame.len())
    });
    assert_eq!(sent.unwrap(), 1);
}

fn receive(rx: &mut PacketRx) -> Option<Vec<u8>> {
    let begun = Instant::now();
    let mut got = None;
    while got.is_none() && begun.elapsed() < Duration::from_millis(200) {
        rx.recv(|frame, _| got = Some(frame.to_vec())).unwrap();
    }
    got
}

#[test]
fn conforms_in_both_directions() {
    if !root() {
        return;
    }
    wire("pconf", |lab| {
        let (mut a, mut b) = (open(lab.tx(), Take::All), open(lab.rx(), Take::All));
        conformance::check(&mut a.tx, &mut b.rx);
        conformance::check(&mut b.tx, &mut a.rx);
        conformance::check_overruns(&mut a.tx, &mut b.rx);
    });
}

#[test]
fn the_largest_frame_and_a_tagged_one_arrive_whole() {
    if !root() {
        return;
    }
    wire("plarge", |lab| {
        let (mut a, mut b) = (open(lab.tx(), Take::All), open(lab.rx(), Take::All));
        for (protocol, length) in [([0x88, 0xb5], 9014), ([0x81, 0x00], 64), ([0x88, 0xa8], 1518)] {
            let mut frame: Vec<u8> = (0..length).map(|i: usize| i as u8).collect();
            frame[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
            frame[12..16].copy_from_slice(&[protocol[0], protocol[1], 0x20, 0x07]);
            frame[16..18].copy_from_slice(&[0x88, 0xb5]);
            send(&mut a.tx, &frame);
            assert_eq!(receive(&mut b.rx).as_ref(), Some(&frame), "{protocol:x?}");
        }
    });
}

#[test]
fn only_what_it_takes_is_received_and_the_stack_does_not_answer() {
    if !root() {
        return;
    }
    wire("ptake", |lab| {
        let end = |link: &Link, port| Endpoint {
            mac: link.mac,
            address: std::net::SocketAddrV4::new(link.address.unwrap(), port),
        };
        let flow = Flow { source: end(lab.tx(), 9000), destination: end(lab.rx(), 9001) };
        let mut tx = open(lab.tx(), Take::Nothing).tx;
        let words = Template::new(&FrameSpec::default(), FrameSize::MIN, &flow).unwrap().words();
        let mut rx = open(lab.rx(), Take::Only(words)).rx;
        let _sink = within(lab.rx().netns.as_deref(), || packet::sink(9001)).unwrap().unwrap();
        let frame = Template::plain(&flow, FrameSize::MIN);
        let other = Template::plain(&Flow { destination: end(lab.rx(), 9002), ..flow }, FrameSize::MIN);
        send(&mut tx, &other);
        send(&mut tx, &frame);
        assert_eq!(receive(&mut rx), Some(frame));
        assert_eq!(receive(&mut rx), None);
        let counted = run(lab.rx().netns.as_deref(), "cat", &["/proc/thread-self/net/snmp"]).unwrap();
        let icmp: Vec<&str> = counted.lines().filter(|l| l.starts_with("Icmp:")).collect();
        let column = icmp[0].split(' ').position(|name| name == "OutDestUnreachs").unwrap();
        assert_eq!(icmp[1].split(' ').nth(column), Some("1"), "for the other port only");
    });
}
