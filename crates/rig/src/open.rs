//! Opening ports at the ends of a path, each in the namespace where its end is.

use crate::RigError;
use crate::path::End;
use std::io::ErrorKind;
use usect_core::scenario::Stamp;
use usect_dpdk::{DpdkRx, DpdkTx};
use usect_lab::{Link, receive_queues, within};
use usect_port::packet::{self, PacketRx, PacketTx};
use usect_port::{Port, Take};
use usect_xdp::afxdp::{self, XdpRx, XdpTx};

/// The virtual device of DPDK on the lab's interfaces, unless a client names another.
pub(crate) const LAB_DRIVER: &str = "net_af_packet";

/// Opens an AF_PACKET port at one end of a path.
pub(crate) fn packet(
    end: &End,
    take: Take,
    largest: usize,
    stamp: Stamp,
) -> Result<Port<PacketTx, PacketRx>, RigError> {
    let link = end.link.as_ref().expect("packet ports are named by interface");
    let opened = within(end.netns.as_deref(), || packet::open(link.index, take, largest, stamp))?;
    opened.map_err(|e| {
        let what = format!("opening an AF_PACKET socket on `{}` failed", link.interface);
        match e.kind() {
            ErrorKind::PermissionDenied => RigError::Asked(format!("{what}: run usect as root (sudo)")),
            _ => RigError::Asked(format!("{what}: {e}")),
        }
    })
}

/// Opens an AF_XDP port at one end of a path.
pub(crate) fn xdp(end: &End, take: Take, stamp: Stamp) -> Result<Port<XdpTx, XdpRx>, RigError> {
    let link = end.link.as_ref().expect("xdp ports are named by interface");
    let queues = receive_queues(link)?;
    if take != Take::Nothing && queues > 1 {
        return Err(RigError::Asked(format!(
            "interface `{0}` spreads frames over {queues} receive queues and the xdp engine reads the first; make it \
             one with `ethtool -L {0} combined 1`",
            link.interface
        )));
    }
    Ok(within(end.netns.as_deref(), || afxdp::open(link.index, take, stamp))??)
}

/// The virtual device on an interface of the lab. Its number tells it from others of the run.
pub(crate) fn lab_device(driver: &str, number: u32, link: &Link) -> String {
    format!("{driver}{number},iface={}", link.interface)
}

/// Opens a device of DPDK in the namespace of one end of a path.
pub(crate) fn dpdk(end: &End, device: &str, largest: usize, stamp: Stamp) -> Result<Port<DpdkTx, DpdkRx>, RigError> {
    Ok(within(end.netns.as_deref(), || usect_dpdk::open(device, largest, stamp == Stamp::Nic))??)
}
