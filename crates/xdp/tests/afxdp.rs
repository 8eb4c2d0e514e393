//! AF_XDP ports on a veth pair between two namespaces.

use usect_core::scenario::Stamp;
use usect_core::stages::Point;
use usect_core::template::Word;
use usect_lab::{Lab, Link, Shape, State, within};
use usect_port::{Port, Receive, Take, Transmit, conformance};
use usect_testing::root;
use usect_xdp::XdpError;
use usect_xdp::afxdp::{self, XdpRx, XdpTx};

fn wire(name: &str, work: impl FnOnce(&Lab)) {
    let state = tempfile::tempdir().unwrap();
    let lab = State::at(state.path()).up(&format!("{name}-{}", std::process::id()), Shape::Wire, 1500).unwrap();
    work(&lab);
}

fn open(link: &Link, take: Take) -> Result<Port<XdpTx, XdpRx>, XdpError> {
    open_stamped(link, take, Stamp::App)
}

fn open_stamped(link: &Link, take: Take, stamp: Stamp) -> Result<Port<XdpTx, XdpRx>, XdpError> {
    within(link.netns.as_deref(), || afxdp::open(link.index, take, stamp)).unwrap()
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
        conformance::check_overruns(&mut a.tx, &mut b.rx);
    });
}

#[test]
fn the_program_stamps_every_frame_and_frames_stay_whole() {
    if !root() {
        return;
    }
    wire("stamps", |lab| {
        let open = |link| open_stamped(link, Take::All, Stamp::Xdp).unwrap();
        let (mut a, mut b) = (open(lab.tx()), open(lab.rx()));
        assert_eq!((a.tx.caps().stamps.as_slice(), b.rx.caps().stamps.as_slice()), (&[][..], &[Point::DriverIn][..]));
        conformance::check(&mut a.tx, &mut b.rx);
        let before = usect_clock::mono().0;
        let mut left = 3;
        a.tx.send(|frame| {
            frame[..60].fill(0xff);
            left -= 1;
            (left >= 0).then_some(60)
        })
        .unwrap();
        let mut stamps = Vec::new();
        while stamps.len() < 3 {
            b.rx.recv(|_, found| stamps.push(found.driver)).unwrap();
        }
        let after = usect_clock::mono().0;
        assert!(stamps.is_sorted() && before < stamps[0] && stamps[2] < after, "{before}, {stamps:?}, {after}");
    });
}

/// The receive stamp of veth's driver is that of the sender's card: a program that is bound to the device runs, and
/// finds that there is none.
#[test]
fn a_card_that_does_not_stamp_leaves_no_stamp() {
    if !root() {
        return;
    }
    wire("nocard", |lab| {
        let mut a = open_stamped(lab.tx(), Take::Nothing, Stamp::Nic).unwrap();
        let mut b = open_stamped(lab.rx(), Take::All, Stamp::Nic).unwrap();
        conformance::check(&mut a.tx, &mut b.rx);
        let mut once = Some(60);
        a.tx.send(|frame| {
            frame[..60].fill(0xff);
            once.take()
        })
        .unwrap();
        let mut found = None;
        while found.is_none() {
            b.rx.recv(|_, f| found = Some(f)).unwrap();
        }
        let found = found.unwrap();
        assert!(found.card == 0 && found.driver > 0, "{found:?}");
        // With copies the kernel would tell the time at which it let go of the frame.
        assert!(a.tx.caps().stamps.is_empty());
        assert_eq!(a.tx.reap(&mut |_, stamp| panic!("{stamp:?}")).unwrap(), 0);
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
        let word = |at, mask, value| Word { at, mask, value };
        let to_9001 = vec![word(12, 0xffff, 0x0800), word(22, 0x00ff, 17), word(36, 0xffff, 9001)];
        let mut port = open(lab.rx(), Take::Only(to_9001)).unwrap();
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

/// As one finds the queue while the kernel has yet to let go of it for the socket of a moment ago.
#[test]
fn a_queue_that_becomes_free_is_waited_for() {
    if !root() {
        return;
    }
    wire("free", |lab| {
        let first = open(lab.rx(), Take::All).unwrap();
        let closes = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(first);
        });
        let next = open(lab.rx(), Take::Nothing);
        closes.join().unwrap();
        assert!(next.is_ok(), "{:?}", next.err());
    });
}
