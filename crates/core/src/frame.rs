//! The frames of a flow: Ethernet, IPv4, UDP, signature, fill. Sizes include the FCS, as in RFC 2544.

use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;

/// Bytes of Ethernet, IPv4 and UDP header before the payload.
pub const HEADERS: usize = 42;
/// Bytes of the frame check sequence, which no engine sees.
pub const FCS: u16 = 4;

const ETHERNET: usize = 14;

/// An Ethernet frame size with FCS, in bytes: 64 to 9018.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct FrameSize(u16);

/// A frame size outside what a frame can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes: sizes run from 64 to 9018 bytes, FCS included (RFC 2544 §9)")]
pub struct BadFrameSize(u16);

impl FrameSize {
    /// The smallest Ethernet frame.
    pub const MIN: FrameSize = FrameSize(64);

    /// With FCS.
    pub fn with_fcs(self) -> u16 {
        self.0
    }

    /// What a frame engine sends and receives.
    pub fn without_fcs(self) -> usize {
        usize::from(self.0 - FCS)
    }

    /// What a datagram engine sends and receives.
    pub fn payload(self) -> usize {
        self.without_fcs() - HEADERS
    }

    /// The interface MTU that carries it.
    pub fn mtu(self) -> usize {
        self.without_fcs() - ETHERNET
    }
}

impl TryFrom<u16> for FrameSize {
    type Error = BadFrameSize;

    fn try_from(bytes: u16) -> Result<FrameSize, BadFrameSize> {
        if (64..=9018).contains(&bytes) { Ok(FrameSize(bytes)) } else { Err(BadFrameSize(bytes)) }
    }
}

impl From<FrameSize> for u16 {
    fn from(size: FrameSize) -> u16 {
        size.0
    }
}

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Hardware address; unused by datagram engines.
    pub mac: [u8; 6],
    /// IPv4 address and UDP port.
    pub address: SocketAddrV4,
}

/// A unidirectional flow of UDP frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Where frames come from.
    pub source: Endpoint,
    /// Where they go.
    pub destination: Endpoint,
}

impl Flow {
    /// The way back.
    pub fn reversed(self) -> Flow {
        Flow { source: self.destination, destination: self.source }
    }
}

/// RFC 1071 over an even number of bytes.
#[inline]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    !fold(words.sum())
}

/// The carries of a sum of words added in (RFC 1071).
#[inline]
pub(crate) fn fold(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_rfc_2544() {
        let smallest = FrameSize::MIN;
        assert_eq!((smallest.without_fcs(), smallest.payload(), smallest.mtu()), (60, crate::signature::LEN, 46));
        assert_eq!(FrameSize::try_from(1518).unwrap().mtu(), 1500);
        assert!(FrameSize::try_from(63).is_err());
    }

    #[test]
    fn rfc_1071_example() {
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }
}
