//! DPDK's virtual devices as ports. A process can start DPDK once, so all of it is one test.
#![cfg(dpdk)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use usect_dpdk::{DpdkError, DpdkRx, DpdkTx, Eal, closed, open, start};
use usect_lab::{Lab, Shape, State, within};
use usect_port::{Port, Receive, Transmit, conformance};
use usect_testing::root;

const LARGEST: usize = 1514;

fn eal() -> Eal {
    Eal { core: 0, hugepages: false, pci: Vec::new(), arguments: Vec::new() }
}

fn on(lab: &Lab, driver: &str, number: u32) -> Result<Port<DpdkTx, DpdkRx>, DpdkError> {
    let link = if number == 0 { lab.tx() } else { lab.rx() };
    let device = format!("{driver}{number},iface={}", link.interface);
    within(link.netns.as_deref(), || open(&device, LARGEST, false)).unwrap()
}

fn conforms_over_a_veth(driver: &str) {
    let state = tempfile::tempdir().unwrap();
    let lab = State::at(state.path()).up(&format!("dpdk-{}", std::process::id()), Shape::Wire, 1500).unwrap();
    for _ in 0..2 {
        let (mut a, mut b) = (on(&lab, driver, 0).unwrap(), on(&lab, driver, 1).unwrap());
        conformance::check(&mut a.tx, &mut b.rx);
        conformance::check(&mut b.tx, &mut a.rx);
    }
}

#[test]
fn devices_conform_and_say_what_is_wrong() {
    if !root() {
        return;
    }
    start(&eal()).unwrap();
    assert_eq!(start(&eal()), Ok(()), "again is no harm");
    let other = Eal { core: 1, ..eal() };
    assert_eq!(start(&other), Err(DpdkError::StartedOtherwise));

    let mut ring = open("net_ring0", LARGEST, false).unwrap();
    conformance::check(&mut ring.tx, &mut ring.rx);
    // Buffers are 2 KiB and their headroom at least.
    for too_long in [2049, 4096] {
        let said = catch_unwind(AssertUnwindSafe(|| ring.tx.prepare(&vec![0xff; too_long]))).unwrap_err();
        let said = said.downcast::<String>().unwrap();
        assert!(said.contains("larger than the buffers"), "{said}");
    }
    conformance::check(&mut ring.tx, &mut ring.rx);
    drop(ring);
    assert_eq!(closed(), Ok(()));

    let mut null = open("net_null0", LARGEST, false).unwrap();
    let mut left = 1_000;
    while left > 0 {
        let sent = null.tx.send(|_| Some(60).filter(|_| left > 0)).unwrap();
        left -= sent.min(left);
    }
    assert!(null.rx.recv(|frame, _| assert_eq!(frame.len(), 64)).unwrap() > 0);
    drop(null);

    conforms_over_a_veth("net_af_packet");

    for (device, part) in [
        ("net_af_packet0,iface=nosuch", "net_af_packet0"),
        ("net_warp0", "net_warp0"),
        ("0000:ff:1f.7", "no PCI device of this address"),
    ] {
        let said = open(device, LARGEST, false).err().expect("it can't be opened").to_string();
        assert!(said.contains(part) && !said.contains('\n'), "{said}");
        println!("{said}");
    }
}
