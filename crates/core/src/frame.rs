//! The frames of a flow: Ethernet, IPv4, UDP, signature, fill. Sizes include the FCS, as in RFC 2544.

use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;

/// Bytes of Ethernet, IPv4 and UDP header before the payload.
pub const HEADERS: usize = 42;
/// Bytes of the frame check sequence, which no engine sees.
pub const FCS: u16 = 4;
/// Where the IP identification stands in a frame (big endian).
pub const IP_ID_OFFSET: usize = 18;

const ETHERNET: usize = 14;
const UDP_PROTOCOL: u8 = 17;

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

    /// A whole frame of the flow, without FCS, payload zero, identification zero, UDP checksum
    /// absent (RFC 768 allows zero over IPv4).
    pub fn frame(&self, size: FrameSize) -> Vec<u8> {
        let mut frame = vec![0; size.without_fcs()];
        frame[0..6].copy_from_slice(&self.destination.mac);
        frame[6..12].copy_from_slice(&self.source.mac);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..16].copy_from_slice(&[0x45, 0]);
        frame[16..18].copy_from_slice(&(size.mtu() as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&[0x40, 0]); // don't fragment: the identification is ours
        frame[22..24].copy_from_slice(&[64, UDP_PROTOCOL]);
        frame[26..30].copy_from_slice(&self.source.address.ip().octets());
        frame[30..34].copy_from_slice(&self.destination.address.ip().octets());
        frame[34..36].copy_from_slice(&self.source.address.port().to_be_bytes());
        frame[36..38].copy_from_slice(&self.destination.address.port().to_be_bytes());
        frame[38..40].copy_from_slice(&((size.payload() + 8) as u16).to_be_bytes());
        HeaderSum::of(&frame).identify(&mut frame, 0);
        frame
    }

    /// Whether a frame belongs to this flow, by its headers.
    #[inline]
    pub fn owns(&self, frame: &[u8]) -> bool {
        frame.len() >= HEADERS
            && frame[12..14] == [0x08, 0x00]
            && frame[14] == 0x45
            && frame[23] == UDP_PROTOCOL
            && frame[26..30] == self.source.address.ip().octets()
            && frame[30..34] == self.destination.address.ip().octets()
            && frame[34..36] == self.source.address.port().to_be_bytes()
            && frame[36..38] == self.destination.address.port().to_be_bytes()
    }
}

/// The sum of an IP header without its identification: what makes writing another one cheap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderSum(u32);

impl HeaderSum {
    /// Of a whole frame's header.
    pub fn of(frame: &[u8]) -> HeaderSum {
        let mut header = [0; 20];
        header.copy_from_slice(&frame[14..34]);
        header[4..6].fill(0);
        header[10..12].fill(0);
        HeaderSum(u32::from(!internet_checksum(&header)))
    }

    /// Writes an identification and the header checksum that goes with it into a frame with this header (RFC
    /// 791 §3.1, RFC 1071).
    #[inline]
    pub fn identify(self, frame: &mut [u8], id: u16) {
        let sum = self.0 + u32::from(id);
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[IP_ID_OFFSET..IP_ID_OFFSET + 2].copy_from_slice(&id.to_be_bytes());
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// RFC 1071 over an even number of bytes.
#[inline]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow() -> Flow {
        let end = |n: u8| Endpoint {
            mac: [2, 0, 0, 0, 0, n],
            address: SocketAddrV4::new([198, 18, 0, n].into(), 9000 + u16::from(n)),
        };
        Flow { source: end(1), destination: end(2) }
    }

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

    proptest! {
        #[test]
        fn the_header_checksum_is_right_for_every_identification(id: u16, size in 64_u16..=1518) {
            let mut frame = flow().frame(size.try_into().unwrap());
            HeaderSum::of(&frame).identify(&mut frame, id);
            prop_assert_eq!(internet_checksum(&frame[14..34]), 0);
            prop_assert_eq!(frame.len(), usize::from(size) - 4);
            prop_assert!(flow().owns(&frame) && !flow().reversed().owns(&frame));
        }

        #[test]
        fn any_bytes_are_owned_or_not_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = flow().owns(&bytes);
        }
    }
}
