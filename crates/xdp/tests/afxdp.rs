//! AF_XDP ports on a veth pair between two namespaces.

use usect_lab::{Lab, Link, Shape, State, within};
use usect_port::{Port, Receive, Take, conformance};
use usect_testing::root;
use usect_xdp::XdpError;
use usect_xdp::afxdp::{self, XdpRx, XdpTx};

fn wire(name: &str, work: impl FnOnce(&Lab)) {
    let state = tempfile::tempdir().unwrap();
    let lab = State::at(state.path()).up(&format!("{name}-{}", std::process::id()), Shape::Wire, 1500).unwrap();
    work(&lab);
}

fn open(link: &Link, take: Take) -> Result<Port<XdpTx, XdpRx>, XdpError> {
    within(link.netns.as_deref(), || afxdp::open(link.index, take)).unwrap()
}

#[test]
fn conforms_in_both_directions() {
    if !root() {
        return;
    }
    wire("conform", |lab| {
        let (mut a, mut b) = (open(lab.tx(), Take::All).unwrap(), open(lab.rx(), Take::All).unwrap());
        conformance::check(&mut a.tx, &mut b.rx);
        conformance::check(&mut b.tx, &mut a.rx);
    });
}

#[test]
fn a_port_that_only_sends_attaches_nothing() {
    if !root() {
        return;
    }
    wire("send", |lab| {
        let (mut a, mut b) = (open(lab.tx(), Take::Nothing).unwrap(), open(lab.rx(), Take::All).unwrap());
        conformance::check(&mut a.tx, &mut b.rx);
        let shown = usect_lab::run(lab.tx().netns.as_deref(), "ip", &["link", "show", "t0"]).unwrap();
        assert!(!shown.contains("xdp"), "{shown}");
    });
}

#[test]
fn other_traffic_stays_with_the_stack() {
    if !root() {
        return;
    }
    wire("others", |lab| {
        let mut port = open(lab.rx(), Take::UdpPort(9001)).unwrap();
        let socket =
            |link: &Link, at: &str| within(link.netns.as_deref(), || std::net::UdpSocket::bind(at)).unwrap().unwrap();
        let (near, far) = (socket(lab.tx(), "198.18.0.1:7000"), socket(lab.rx(), "198.18.0.2:7001"));
        far.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        near.send_to(b"for the stack", "198.18.0.2:7001").unwrap();
        let mut buffer = [0; 64];
        assert_eq!(far.recv(&mut buffer).unwrap(), 13);
        near.send_to(b"for the socket", "198.18.0.2:9001").unwrap();
        let mut payload = Vec::new();
        while payload.is_empty() {
            port.rx.recv(|frame, _| payload = frame[42..56].to_vec()).unwrap();
        }
        assert_eq!(payload, b"for the socket");
    });
}

#[test]
fn a_second_socket_on_the_queue_gets_a_sentence() {
    if !root() {
        return;
    }
    wire("second", |lab| {
        let _first = open(lab.rx(), Take::All).unwrap();
        let said = open(lab.rx(), Take::All).err().expect("the queue is taken").to_string();
        assert!(said.contains("stop its program") || said.contains("another program"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    });
}
