//! What a scenario may ask of its frames.

use crate::signature;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The frames of a scenario; by default Ethernet, IPv4, UDP and the signature.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrameSpec {
    /// VLAN identifiers, the outermost first; two make QinQ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<u16>,
    /// The network layer.
    pub network: Network,
    /// The transport layer, over IPv4 or IPv6.
    pub transport: Transport,
    /// The EtherType, where there is no network layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethertype: Option<u16>,
    /// What follows the headers, in hexadecimal digits; zeros follow that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bytes: String,
    /// What a frame carries to be known again.
    pub signature: SignatureSpec,
    /// What changes from frame to frame besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<VarySpec>,
}

/// A network layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// IPv4 without options.
    #[default]
    Ipv4,
    /// IPv6 without extension headers, from the prefix for benchmarking (RFC 5180).
    Ipv6,
    /// None: an EtherType and bytes.
    None,
}

/// A transport layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP; over IPv4 without checksum (RFC 768), over IPv6 with one (RFC 8200).
    #[default]
    Udp,
    /// A TCP header, of a segment that belongs to no connection.
    Tcp,
    /// An echo reply, which no stack answers.
    Icmp,
    /// None: bytes under the experimental protocol number 253.
    None,
}

/// What a frame carries to be known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SignatureSpec {
    /// The whole signature behind the headers, or nothing of ours at all.
    Named(Named),
    /// At a byte of the frame, for protocols that leave room only there.
    At(At),
}

impl Default for SignatureSpec {
    fn default() -> SignatureSpec {
        SignatureSpec::Named(Named::Payload)
    }
}

/// Places with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Named {
    /// Behind the headers.
    Payload,
    /// No signature: frames are told apart by the IPv4 identification, and departures are kept here.
    Identification,
}

/// A place by its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// From the first byte of the frame.
    pub at: usize,
    /// 18, the whole signature; or 2 or 4, only the frame's number, while departures are kept here.
    #[serde(default = "whole_signature")]
    pub width: usize,
}

fn whole_signature() -> usize {
    signature::LEN
}

/// A field that changes from frame to frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VarySpec {
    /// Which, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Field>,
    /// Which, by its first byte in the frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
    /// How many bytes, 1, 2 or 4; with `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Its first value.
    pub from: u32,
    /// Its last value.
    pub to: u32,
    /// How it changes.
    #[serde(default)]
    pub how: How,
}

/// How a field changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By one from frame to frame, and round again.
    #[default]
    Step,
    /// At random, the same way in every trial.
    Random,
}

/// Fields with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// The low four bytes of the source's hardware address.
    SourceMac,
    /// The low four bytes of the destination's hardware address.
    DestinationMac,
    /// The identifier of the innermost VLAN tag.
    Vlan,
    /// The source's IPv4 address, or the low four bytes of its IPv6 address.
    SourceAddress,
    /// The same of the destination.
    DestinationAddress,
    /// The source port of UDP or TCP.
    SourcePort,
    /// The destination port.
    DestinationPort,
}

impl FrameSpec {
    /// The same for several flows that take turns: they differ in the source port, from `port` on, or, without ports, in
    /// the low bytes of the source's hardware address.
    pub fn with_flows(&self, flows: u16, port: u16) -> FrameSpec {
        let mut spec = self.clone();
        if flows > 1 {
            let ports = spec.network != Network::None && matches!(spec.transport, Transport::Udp | Transport::Tcp);
            let (field, from) =
                if ports { (Field::SourcePort, u32::from(port.min(u16::MAX - flows))) } else { (Field::SourceMac, 0) };
            let to = from + u32::from(flows) - 1;
            spec.vary.push(VarySpec { field: Some(field), at: None, width: None, from, to, how: How::Step });
        }
        spec
    }

    /// Whether it is what a UDP socket sends.
    pub fn is_plain(&self) -> bool {
        *self == FrameSpec::default()
    }
}

impl fmt::Display for FrameSpec {
    /// `VLAN 100, IPv6, TCP, 2 bytes of signature at byte 60, source port stepping`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for vlan in &self.vlans {
            write!(f, "VLAN {vlan}, ")?;
        }
        match (self.network, self.ethertype) {
            (Network::Ipv4, _) => write!(f, "IPv4, {}", self.transport)?,
            (Network::Ipv6, _) => write!(f, "IPv6, {}", self.transport)?,
            (Network::None, Some(ethertype)) => write!(f, "EtherType {ethertype:#06x}")?,
            (Network::None, None) => write!(f, "Ethernet alone")?,
        }
        match self.signature {
            SignatureSpec::Named(Named::Payload) => {}
            SignatureSpec::Named(Named::Identification) => write!(f, ", no signature")?,
            SignatureSpec::At(At { at, width }) => write!(f, ", {width} bytes of signature at byte {at}")?,
        }
        self.vary.iter().try_for_each(|field| {
            let how = if field.how == How::Step { "stepping" } else { "at random" };
            write!(f, ", {} {how}", field.label())
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
            Transport::Icmp => "ICMP",
            Transport::None => "no transport",
        })
    }
}

impl FromStr for FrameSpec {
    type Err = String;

    /// From the keys of `[traffic.frame]`, as TOML with commas between them.
    fn from_str(text: &str) -> Result<FrameSpec, String> {
        crate::inline::read(text)
    }
}

impl VarySpec {
    /// What it is called in sentences.
    pub(crate) fn name(&self) -> String {
        match (self.field, self.at) {
            (None, None) => "a varying field".to_owned(),
            _ => format!("the varying {}", self.label()),
        }
    }

    /// `source port`, `field at 50`.
    fn label(&self) -> String {
        match (self.field, self.at) {
            (Some(field), _) => format!("{field:?}").chars().fold(String::new(), |mut name, c| {
                name.extend((c.is_uppercase() && !name.is_empty()).then_some(' '));
                name.push(c.to_ascii_lowercase());
                name
            }),
            (None, Some(at)) => format!("field at {at}"),
            (None, None) => "field".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_named_by_what_is_not_plain() {
        for (text, named) in [
            ("", "IPv4, UDP"),
            ("vlans = [100, 7], network = \"ipv6\", transport = \"tcp\"", "VLAN 100, VLAN 7, IPv6, TCP"),
            ("network = \"none\", ethertype = 0x8906", "EtherType 0x8906"),
            ("signature = { at = 60, width = 2 }", "IPv4, UDP, 2 bytes of signature at byte 60"),
            (
                "signature = \"identification\", vary = [{ field = \"source-port\", from = 1, to = 9 }]",
                "IPv4, UDP, no signature, source port stepping",
            ),
            ("vary = [{ at = 50, width = 2, from = 1, to = 9, how = \"random\" }]", "IPv4, UDP, field at 50 at random"),
        ] {
            assert_eq!(FrameSpec::from_str(text).unwrap().to_string(), named);
        }
    }
}
