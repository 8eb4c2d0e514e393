//! The headers of a template: tags, network and transport layer, as bytes and as what is compared.

use crate::frame::{Flow, FrameSize};
use crate::frame_spec::{FrameSpec, Network, Transport};

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Tags: customer (IEEE 802.1Q) and service (802.1ad), which goes outside.
const CUSTOMER_TAG: [u8; 2] = [0x81, 0x00];
const SERVICE_TAG: [u8; 2] = [0x88, 0xa8];
/// Prefix for benchmarking (RFC 5180 §8); the IPv4 address stands behind it.
const BENCHMARKING: [u8; 12] = [0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
/// RFC 3692: for experiments; no stack answers it but by an ICMP message.
const EXPERIMENT: u8 = 253;
/// IEEE 802 local experimental EtherType.
const EXPERIMENTAL_ETHERTYPE: u16 = 0x88b5;

/// A template under construction.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    pub(super) mask: Vec<u8>,
    pub(super) vlan_at: Option<usize>,
    pub(super) network_at: usize,
    pub(super) transport_at: Option<usize>,
    pub(super) transport_sum_at: Option<usize>,
}

impl Draft {
    pub(super) fn push(&mut self, bytes: &[u8], compared: bool) {
        self.bytes.extend_from_slice(bytes);
        self.mask.resize(self.bytes.len(), if compared { 0xff } else { 0 });
    }
}

/// Appends VLAN tags.
pub(super) fn tags(spec: &FrameSpec, draft: &mut Draft) -> Result<(), String> {
    if spec.vlans.len() > 2 {
        return Err(format!("{} VLAN tags: a frame has two at most (QinQ)", spec.vlans.len()));
    }
    for (i, &vlan) in spec.vlans.iter().enumerate() {
        if !(1..=4094).contains(&vlan) {
            return Err(format!("VLAN {vlan}: identifiers run from 1 to 4094"));
        }
        let outer = i + 1 < spec.vlans.len();
        draft.push(if outer { &SERVICE_TAG } else { &CUSTOMER_TAG }, true);
        draft.vlan_at = Some(draft.bytes.len());
        draft.push(&vlan.to_be_bytes(), true);
        // Priority is not compared: a switch may set it.
        let end = draft.mask.len();
        draft.mask[end - 2] = 0x0f;
    }
    Ok(())
}

/// Appends the headers; returns where they end.
pub(super) fn layers(spec: &FrameSpec, size: FrameSize, flow: &Flow, draft: &mut Draft) -> Result<usize, String> {
    if spec.network == Network::None {
        if spec.transport != Transport::default() && spec.transport != Transport::None {
            return Err("a transport layer needs network = \"ipv4\" or \"ipv6\"".into());
        }
        draft.push(&spec.ethertype.unwrap_or(EXPERIMENTAL_ETHERTYPE).to_be_bytes(), true);
        draft.network_at = draft.bytes.len();
        return Ok(draft.bytes.len());
    }
    if spec.ethertype.is_some() {
        return Err("ethertype goes with network = \"none\"; otherwise the network layer says it".into());
    }
    let ipv4 = spec.network == Network::Ipv4;
    draft.push(if ipv4 { &IPV4 } else { &IPV6 }, true);
    draft.network_at = draft.bytes.len();
    let protocol = match (spec.transport, ipv4) {
        (Transport::Udp, _) => 17,
        (Transport::Tcp, _) => 6,
        (Transport::Icmp, true) => 1,
        (Transport::Icmp, false) => 58,
        (Transport::None, _) => EXPERIMENT,
    };
    let rest = size.without_fcs().saturating_sub(draft.network_at);
    let (source, destination) = (flow.source.address.ip().octets(), flow.destination.address.ip().octets());
    if ipv4 {
        draft.push(&[0x45], true);
        draft.push(&[0], false);
        draft.push(&(rest as u16).to_be_bytes(), true);
        draft.push(&[0, 0, 0x40, 0], false); // don't fragment: the identification is ours
        draft.push(&[64], false);
        draft.push(&[protocol], true);
        draft.push(&[0, 0], false);
        draft.push(&source, true);
        draft.push(&destination, true);
    } else {
        draft.push(&[0x60, 0, 0, 0], false);
        draft.push(&(rest.saturating_sub(40) as u16).to_be_bytes(), true);
        draft.push(&[protocol], true);
        draft.push(&[64], false);
        for address in [source, destination] {
            draft.push(&BENCHMARKING, true);
            draft.push(&address, true);
        }
    }
    draft.transport_at = Some(draft.bytes.len());
    transport(spec, size, flow, draft);
    Ok(draft.bytes.len())
}

fn transport(spec: &FrameSpec, size: FrameSize, flow: &Flow, draft: &mut Draft) {
    let begin = draft.bytes.len();
    let ports = [flow.source.address.port().to_be_bytes(), flow.destination.address.port().to_be_bytes()].concat();
    match spec.transport {
        Transport::Udp => {
            draft.push(&ports, true);
            draft.push(&(size.without_fcs().saturating_sub(begin) as u16).to_be_bytes(), true);
            draft.push(&[0, 0], false);
            draft.transport_sum_at = (spec.network == Network::Ipv6).then_some(begin + 6);
        }
        Transport::Tcp => {
            draft.push(&ports, true);
            // Sequence and acknowledgement 0; 20 bytes; ACK; window 1024; no urgent data.
            draft.push(&[0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 4, 0], true);
            draft.push(&[0, 0], false);
            draft.push(&[0, 0], true);
            draft.transport_sum_at = Some(begin + 16);
        }
        Transport::Icmp => {
            draft.push(&[if spec.network == Network::Ipv4 { 0 } else { 129 }, 0], true);
            draft.push(&[0, 0], false);
            draft.push(&ports[..2], true);
            draft.push(&[0, 0], true);
            draft.transport_sum_at = Some(begin + 2);
        }
        Transport::None => {}
    }
}

/// Bytes from hexadecimal digits.
pub(super) fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).ok_or_else(|| format!("bytes: `{c}` is no hexadecimal digit")))
        .collect::<Result<_, _>>()?;
    if digits.len() % 2 == 1 {
        return Err(format!("bytes: {} hexadecimal digits; a byte has two", digits.len()));
    }
    Ok(digits.chunks(2).map(|pair| (16 * pair[0] + pair[1]) as u8).collect())
}
