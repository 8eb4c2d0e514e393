//! Labs in real namespaces: made, used, kept, taken down.

mod common;

use common::{journal, namespaces, root, state, unique};
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use usect_lab::{Lab, LabError, Link, Shape, link, netns_inum, run, within};

#[test]
fn a_lab_that_goes_leaves_nothing() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    for (shape, count) in [(Shape::Wire, 2), (Shape::Dut, 3)] {
        let name = unique();
        let begun = Instant::now();
        let lab = state.up(&name, shape, 1500).unwrap();
        eprintln!("{shape} up after {:?}", begun.elapsed());
        assert_eq!(namespaces(&name).len(), count);
        assert_eq!(journal(&state), [format!("{name}.json")]);
        assert_eq!((lab.name(), lab.shape(), lab.dut().is_some()), (name.as_str(), shape, shape == Shape::Dut));
        drop(lab);
        assert!(namespaces(&name).is_empty() && journal(&state).is_empty());
    }
}

#[test]
fn its_links_are_as_promised() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Dut, 9000).unwrap();
    let (d0, d1) = lab.dut().unwrap();
    let links = [lab.tx(), d0, d1, lab.rx()];
    let names: Vec<&str> = links.iter().map(|link| link.interface.as_str()).collect();
    assert_eq!(names, ["t0", "d0", "d1", "r0"]);
    assert!(links.iter().all(|link| link.up && link.mtu == 9000 && link.driver == "veth"));
    assert!((1..4).all(|i| links[..i].iter().all(|link| link.mac != links[i].mac)));
    let addresses: Vec<Option<Ipv4Addr>> = links.iter().map(|link| link.address).collect();
    assert_eq!(addresses, [Some([198, 18, 0, 1].into()), None, None, Some([198, 18, 0, 2].into())]);
    for link in links {
        let netns = link.netns.as_deref();
        assert_eq!(Ok(link), usect_lab::link(netns, &link.interface).as_ref().map_err(ToString::to_string));
        assert_eq!(link.netns_inum, within(netns, || netns_inum(None).unwrap()).unwrap());
        assert_ne!(link.netns_inum, netns_inum(None).unwrap());
        offloads_are_off(link);
    }
}

fn offloads_are_off(link: &Link) {
    let facts = usect_lab::audit::interface(link);
    let netns = link.netns.as_deref().unwrap();
    let offload = |name: &str| facts.get(&format!("interface.{netns}.{}.offload.{name}", link.interface));
    for off in ["tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload"] {
        assert_eq!(offload(off), Some("off"), "{off}");
    }
    assert_eq!(offload("generic-receive-offload"), Some("on"));
    for off in ["rx-gro-list", "rx-udp-gro-forwarding"] {
        assert!(offload(off).is_none_or(|value| value.starts_with("off")), "{off}");
    }
}

#[test]
fn not_one_frame_is_seen_that_nobody_sent() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Dut, 1500).unwrap();
    // Router solicitations, duplicate address detection and multicast reports come within a second.
    std::thread::sleep(Duration::from_millis(1500));
    let (d0, d1) = lab.dut().unwrap();
    for link in [lab.tx(), d0, d1, lab.rx()] {
        assert_eq!(frames(link), (0, 0), "{}", link.interface);
    }
}

/// Frames received and sent, by the interface's own counters.
fn frames(link: &Link) -> (u64, u64) {
    let args = ["-json", "-statistics", "link", "show", "dev", &link.interface];
    let text = run(link.netns.as_deref(), "ip", &args).unwrap();
    let shown: Value = serde_json::from_str(&text).unwrap();
    let count = |direction: &str| shown[0]["stats64"][direction]["packets"].as_u64().unwrap();
    (count("rx"), count("tx"))
}

#[test]
fn datagrams_cross_a_bridge_and_nothing_else_does() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Dut, 1500).unwrap();
    bridge(&lab);
    let bound = |link: &Link| {
        let address = (link.address.unwrap(), 9000);
        within(link.netns.as_deref(), || UdpSocket::bind(address)).unwrap().unwrap()
    };
    let (tx, rx) = (bound(lab.tx()), bound(lab.rx()));
    rx.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    tx.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 64];
    for i in 0..10_u8 {
        tx.send_to(&[i], rx.local_addr().unwrap()).unwrap();
        let (length, from) = rx.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&[i][..], tx.local_addr().unwrap()));
        rx.send_to(&[i], from).unwrap();
        assert_eq!(tx.recv(&mut buffer).unwrap(), 1);
    }
    assert_eq!((frames(lab.tx()), frames(lab.rx())), ((10, 10), (10, 10)));
}

fn bridge(lab: &Lab) {
    let (d0, d1) = lab.dut().unwrap();
    let ip = |args: &str| run(d0.netns.as_deref(), "ip", &args.split(' ').collect::<Vec<_>>()).unwrap();
    // A bridge that snoops reports its own membership of 224.0.0.106 to both sides.
    ip("link add br0 type bridge mcast_snooping 0");
    ip("link set br0 addrgenmode none");
    for link in [d0, d1] {
        ip(&format!("link set {} master br0", link.interface));
    }
    ip("link set br0 up");
}

#[test]
fn a_wire_carries_datagrams() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Wire, 1500).unwrap();
    let rx = within(lab.rx().netns.as_deref(), || UdpSocket::bind("198.18.0.2:7").unwrap()).unwrap();
    let tx = within(lab.tx().netns.as_deref(), || UdpSocket::bind("198.18.0.1:0").unwrap()).unwrap();
    tx.send_to(b"x", "198.18.0.2:7").unwrap();
    rx.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(rx.recv(&mut [0; 9]).unwrap(), 1);
    assert_eq!((frames(lab.tx()), frames(lab.rx())), ((0, 1), (1, 0)));
}

#[test]
fn a_kept_lab_stands_until_it_is_taken_down() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    state.up(&name, Shape::Wire, 1500).unwrap().keep().unwrap();
    assert!(state.recover().unwrap().is_empty());
    let listed = state.list().unwrap();
    assert_eq!((listed.len(), listed[0].kept, listed[0].shape), (1, true, Some(Shape::Wire)));
    assert_eq!(listed[0].namespaces, namespaces(&name).into_iter().rev().collect::<Vec<_>>());
    let said = state.up(&name, Shape::Wire, 1500).unwrap_err().to_string();
    assert!(said.contains(&format!("usect lab down {name}")), "{said}");
    state.down(&name).unwrap();
    assert!(namespaces(&name).is_empty() && state.list().unwrap().is_empty());
}

#[test]
fn what_is_in_the_way_is_named() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    let lab = state.up(&name, Shape::Wire, 1500).unwrap();
    let said = state.up(&name, Shape::Wire, 1500).unwrap_err().to_string();
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    assert!(matches!(state.down(&name), Err(LabError::InUse { .. })));
    let said = state.down("other").unwrap_err().to_string();
    assert_eq!(said, format!("there is no lab \"other\"; choose {name}"));
    let said = link(lab.tx().netns.as_deref(), "eth7").unwrap_err().to_string();
    assert!(said.ends_with("which has lo and t0"), "{said}");
    drop(lab);
    let netns = format!("{name}-rx");
    run(None, "ip", &["netns", "add", &netns]).unwrap();
    let said = state.up(&name, Shape::Wire, 1500).unwrap_err().to_string();
    assert!(said.contains(&format!("ip netns del {netns}")), "{said}");
    assert_eq!(namespaces(&name), [netns.as_str()]);
    assert!(journal(&state).is_empty());
    run(None, "ip", &["netns", "del", &netns]).unwrap();
}

#[test]
fn requests_that_make_no_sense_are_refused_before_anything_is_made() {
    let (_directory, state) = state();
    assert!(matches!(state.up("../x", Shape::Wire, 1500), Err(LabError::BadName { .. })));
    assert!(matches!(state.up("x", Shape::Wire, 67), Err(LabError::BadMtu { .. })));
    assert!(journal(&state).is_empty() && state.list().unwrap().is_empty());
}

#[test]
fn a_panic_inside_a_namespace_is_passed_on() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Wire, 1500).unwrap();
    let netns = lab.tx().netns.clone();
    let panicked = std::panic::catch_unwind(|| within(netns.as_deref(), || panic!("inside")));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
}

#[test]
fn a_program_runs_in_the_namespace_and_says_so_when_it_fails() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let lab = state.up(&unique(), Shape::Wire, 1500).unwrap();
    let netns = lab.tx().netns.as_deref();
    assert!(run(netns, "ip", &["address", "show", "dev", "t0"]).unwrap().contains("198.18.0.1/24"));
    let said = run(netns, "ip", &["link", "show", "dev", "r0"]).unwrap_err().to_string();
    let expected = format!("`ip netns exec {} ip link show dev r0` failed: ", netns.unwrap());
    assert!(said.starts_with(&expected), "{said}");
}
