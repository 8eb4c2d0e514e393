//! What each engine can do with one interface, and who stamps frames there: as its driver says, nothing is sent.

use crate::RigError;
use crate::engines::{Finding, Verdict};
use crate::open::{LAB_DRIVER, lab_device};
use crate::path::up_with;
use usect_core::environment::Environment;
use usect_lab::{Link, audit, named, receive_queues, within};
use usect_port::card::{self, Before, Offer, Receives, Stamping};
use usect_xdp::afxdp;
use usect_xdp::features::{Features, features};

/// Findings about `INTERFACE[@NAMESPACE]`.
pub fn findings(name: &str) -> Result<Vec<Finding>, RigError> {
    let link = named(name)?;
    let (interface, netns) = (link.interface.as_str(), link.netns.as_deref());
    let can = within(netns, || features(link.index))?
        .map_err(|e| RigError::Asked(format!("the driver of `{interface}` can't be asked for XDP: {e}")))?;
    let queues = receive_queues(&link)?;
    let facts = audit::interface(&link);
    let fact = |key: &str| fact(&facts, key);
    let offer = within(netns, || card::offer(interface))?
        .map_err(|e| RigError::Asked(format!("the driver of `{interface}` can't be asked for stamps: {e}")))?;
    let now = within(netns, || Stamping::now(interface))?.ok();
    // A driver without native XDP has none, and libbpf would print the kernel's refusal.
    let metadata = can.native && within(netns, || afxdp::has_metadata(link.index))?;
    let finding = |name, purpose, verdict| Finding { name, purpose, verdict };
    Ok(vec![
        finding("interface", "what it is", described(&link, queues)),
        finding("udp", "UDP sockets", udp(&link)),
        finding("packet", "AF_PACKET rings", Verdict::Works("on any interface".into())),
        finding("xdp", "AF_XDP rings", xdp(&link, can, queues)),
        finding("dpdk", "poll-mode drivers of DPDK", dpdk(&link, fact("bus-info"))),
        finding("kernel", "generator and receiver in eBPF", kernel(&link, can)),
        finding("clock", "of the card itself", clock(&offer)),
        finding("stamp app", "by usect itself, both ways", Verdict::Works("every engine".into())),
        finding("stamp socket", "by driver and stack", socket(&offer)),
        finding("stamp nic", "by the card", nic(&offer, now)),
        finding("stamp xdp", "by the XDP program, as frames arrive", Verdict::Works("engine xdp".into())),
        finding("metadata", "card's stamps for engine xdp", by_metadata(metadata, can)),
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
        Verdict::Fails(format!("{}, down: `{}`", link.driver, up_with(link)))
    }
}

/// What names its namespace behind a port.
fn at(link: &Link) -> String {
    link.netns.as_ref().map_or(String::new(), |netns| format!("@{netns}"))
}

fn udp(link: &Link) -> Verdict {
    match link.address {
        Some(address) => Verdict::Works(format!("udp:{address}:PORT{}", at(link))),
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
    let device = format!("{}{}", lab_device(LAB_DRIVER, 0, link), at(link));
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

fn clock(offer: &Offer) -> Verdict {
    offer.clock.map_or(Verdict::Fails("none".into()), |number| Verdict::Works(format!("/dev/ptp{number}")))
}

fn socket(offer: &Offer) -> Verdict {
    match (offer.software_out, offer.software_in) {
        (true, true) => {
            Verdict::Works("engines udp and packet: the driver as frames leave, the stack as they arrive".into())
        }
        (false, _) => Verdict::Fails("the driver doesn't stamp frames that leave".into()),
        (true, false) => Verdict::Fails("the stack doesn't stamp frames that arrive".into()),
    }
}

fn nic(offer: &Offer, now: Option<Before>) -> Verdict {
    let now = now.map_or(String::new(), |now| format!("; set to tx {}, rx {} now", now.tx_type, now.rx_filter));
    match (offer.card_out, offer.card_in) {
        (true, Receives::All) => Verdict::Works(format!("every frame, both ways{now}")),
        (true, Receives::PtpOnly) => Verdict::Works(format!("PTP's frames alone: sampled probes beside the load{now}")),
        (true, Receives::Nothing) => Verdict::Fails("the card stamps frames that leave, and none that arrive".into()),
        (false, Receives::Nothing) => Verdict::Fails("the card stamps no frames".into()),
        (false, _) => Verdict::Fails("the card stamps frames that arrive, and none that leave".into()),
    }
}

fn by_metadata(loads: bool, can: Features) -> Verdict {
    match (loads, can.zero_copy) {
        (false, _) => Verdict::Fails("the driver has no XDP metadata".into()),
        (true, false) => {
            Verdict::Fails("as frames arrive, if the card stamps them; as they leave it takes zero-copy".into())
        }
        (true, true) => Verdict::Works("where the driver fills them in; a run tells".into()),
    }
}
