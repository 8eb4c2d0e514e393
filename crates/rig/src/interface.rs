//! What each engine can do with one interface, and which clocks stamp there: as its driver says, nothing is
//! tried.

use crate::RigError;
use crate::open::{LAB_DRIVER, lab_device};
use crate::engines::{Finding, Verdict};
use usect_core::environment::Environment;
use usect_lab::{Link, audit, link, receive_queues, within};
use usect_xdp::features::{Features, features};

/// Findings about `INTERFACE[@NAMESPACE]`.
pub fn findings(name: &str) -> Result<Vec<Finding>, RigError> {
    let (interface, netns) = match name.split_once('@') {
        Some((interface, netns)) => (interface, Some(netns)),
        None => (name, None),
    };
    let link = link(netns, interface)?;
    let can = within(netns, || features(link.index))?
        .map_err(|e| RigError::Asked(format!("the driver of `{interface}` can't be asked for XDP: {e}")))?;
    let queues = receive_queues(&link)?;
    let facts = audit::interface(&link);
    let fact = |key: &str| fact(&facts, key);
    let clock = match fact("timestamping.ptp-hardware-clock") {
        None => Verdict::Fails("none".into()),
        Some(number) => Verdict::Works(format!("/dev/ptp{number}")),
    };
    let finding = |name, purpose, verdict| Finding { name, purpose, verdict };
    Ok(vec![
        finding("interface", "what it is", described(&link, queues)),
        finding("udp", "UDP sockets", udp(&link)),
        finding("packet", "AF_PACKET rings", Verdict::Works("on any interface".into())),
        finding("xdp", "AF_XDP rings", xdp(&link, can, queues)),
        finding("dpdk", "poll-mode drivers of DPDK", dpdk(&link, fact("bus-info"))),
        finding("kernel", "generator and receiver in eBPF", kernel(&link, can)),
        finding("clock", "of the card itself", clock),
        finding("tx stamps", "by the card", stamps(fact("timestamping.hardware-transmit-timestamp-modes"))),
        finding("rx stamps", "by the card", stamps(fact("timestamping.hardware-receive-filter-modes"))),
    ])
}

/// A fact of an interface by the end of its key; `None` where it is absent, not applicable or `none`.
fn fact(facts: &Environment, key: &str) -> Option<String> {
    let found = facts.facts().find(|(name, _)| name.ends_with(&format!(".{key}")))?;
    Some(found.1.to_owned()).filter(|value| value != "none" && value != "off" && !value.starts_with("n/a"))
}

fn described(link: &Link, queues: usize) -> Verdict {
    let queues = if queues == 1 { "one receive queue".to_owned() } else { format!("{queues} receive queues") };
    if link.up {
        Verdict::Works(format!("{}, MTU {}, {queues}", link.driver, link.mtu))
    } else {
        Verdict::Fails(format!("{}, down: `ip link set {} up`", link.driver, link.interface))
    }
}

fn udp(link: &Link) -> Verdict {
    match link.address {
        Some(address) => Verdict::Works(format!("udp:{address}:PORT")),
        None => Verdict::Fails("it has no IPv4 address".into()),
    }
}

fn xdp(link: &Link, can: Features, queues: usize) -> Verdict {
    if queues > 1 {
        return Verdict::Fails(format!(
            "to receive, it needs one queue instead of {queues}: `ethtool -L {} combined 1`",
            link.interface
        ));
    }
    let hook = if can.native { "native" } else { "generic, the driver has no XDP" };
    let copies = if can.zero_copy { "zero-copy" } else { "copy mode, the driver has no zero-copy" };
    Verdict::Works(format!("{hook}; {copies}"))
}

fn dpdk(link: &Link, bus: Option<String>) -> Verdict {
    let device = lab_device(LAB_DRIVER, 0, link);
    match bus.filter(|bus| usect_dpdk::is_pci(bus)) {
        Some(bus) => Verdict::Works(format!("dpdk:{device}; or dpdk:{bus}, once it is bound to vfio-pci")),
        None => Verdict::Works(format!("dpdk:{device}")),
    }
}

fn kernel(link: &Link, can: Features) -> Verdict {
    match (can.native, can.sends, link.driver.as_str()) {
        (true, true, _) => Verdict::Works("native XDP, and it sends XDP frames".into()),
        // It says so only while a program sits at the other end.
        (true, false, "veth") => Verdict::Works("native XDP, and it sends XDP frames to a peer with a program".into()),
        (true, false, _) => Verdict::Fails("it receives only: the driver doesn't send XDP frames".into()),
        (false, ..) => Verdict::Fails("the driver has no XDP, so it doesn't send XDP frames".into()),
    }
}

fn stamps(modes: Option<String>) -> Verdict {
    modes.map_or(Verdict::Fails("the driver offers none".into()), Verdict::Works)
}
