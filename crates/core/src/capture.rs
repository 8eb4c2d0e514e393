//! The times of a capture file, pcap or pcapng, for replay.

use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use std::io::Read;
use std::sync::Arc;

/// Most packets of a capture: their times are kept in memory.
const MOST: usize = 1 << 24;
/// The link type of Ethernet.
const ETHERNET: i32 = 1;
/// The reader's buffer; a packet must fit into it.
const BUFFER: usize = 1 << 17;

/// When the packets of a capture were captured, from the first on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capture {
    offsets_ns: Arc<[u64]>,
}

/// Why a capture can't be replayed, in a sentence that goes on from the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCapture {
    /// Neither pcap nor pcapng.
    #[error("is not a capture file in pcap or pcapng format")]
    Foreign,
    /// It ends in the middle of a packet, or of its own header.
    #[error("is truncated: it ends in the middle of packet {0}; repair it, for example with `editcap`")]
    Truncated(usize),
    /// It is not what its format says.
    #[error("is damaged at packet {0}: {1}")]
    Damaged(usize, String),
    /// Of a link that isn't Ethernet.
    #[error("was captured on a link of type {0}, and only Ethernet (1) can be replayed")]
    Link(i32),
    /// Too few packets for a gap, or more than are kept.
    #[error("has {0} packets, and 2 to {MOST} can be replayed")]
    Size(usize),
    /// Times go back.
    #[error("has packet {0} before packet {1} in time; sort it, for example with `reordercap`")]
    Backwards(usize, usize),
    /// Every packet has the same time.
    #[error("has all its packets at the same time, so no rate")]
    Still,
}

impl Capture {
    /// Reads the times of a whole file.
    pub fn read(file: impl Read + Send) -> Result<Capture, BadCapture> {
        let mut times = Vec::new();
        let mut reader = create_reader(BUFFER, file).map_err(|e| match e {
            PcapError::Incomplete(_) | PcapError::Eof => BadCapture::Truncated(0),
            _ => BadCapture::Foreign,
        })?;
        let mut interfaces = Vec::new();
        loop {
            let number = times.len() + 1;
            match reader.next() {
                Ok((used, block)) => {
                    times.extend(time(&block, &mut interfaces, number)?);
                    reader.consume(used);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => refill(&mut reader, number)?,
                Err(PcapError::UnexpectedEof) => return Err(BadCapture::Truncated(number)),
                Err(other) => return Err(BadCapture::Damaged(number, format!("{other:?}").to_lowercase())),
            }
            if times.len() > MOST {
                return Err(BadCapture::Size(times.len()));
            }
        }
        Capture::of(&times)
    }

    /// From the times of its packets, in nanoseconds.
    fn of(times: &[u64]) -> Result<Capture, BadCapture> {
        let [first, .., last] = times else { return Err(BadCapture::Size(times.len())) };
        if let Some(at) = times.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(BadCapture::Backwards(at + 2, at + 1));
        }
        if first == last {
            return Err(BadCapture::Still);
        }
        Ok(Capture { offsets_ns: times.iter().map(|time| time - first).collect() })
    }

    /// The times, each after the first.
    pub fn offsets_ns(&self) -> &Arc<[u64]> {
        &self.offsets_ns
    }

    /// Tells captures of other times apart (FNV-1a); 0 while nothing was read.
    pub fn digest(&self) -> u64 {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let bytes = self.offsets_ns.iter().flat_map(|offset| offset.to_le_bytes());
        if self.offsets_ns.is_empty() { 0 } else { bytes.fold(0xcbf2_9ce4_8422_2325, mix) }
    }

    /// Packets, and the time until they come round again: the last one's and a mean gap. `None` while nothing was
    /// read.
    pub fn rate(&self) -> Option<(u64, u64)> {
        let last = *self.offsets_ns.last()?;
        let frames = self.offsets_ns.len() as u64;
        Some((frames, last.saturating_add(last / (frames - 1))))
    }
}

fn refill(reader: &mut Box<dyn PcapReaderIterator + Send + '_>, number: usize) -> Result<(), BadCapture> {
    // At the end of the file the reader learns of it here, and only once.
    let (before, ended) = (reader.data().len(), reader.reader_exhausted());
    reader.refill().map_err(|e| BadCapture::Damaged(number, format!("{e:?}").to_lowercase()))?;
    if ended && reader.data().len() == before { Err(BadCapture::Truncated(number)) } else { Ok(()) }
}

/// The unit of an interface's times: so many to the second.
struct Interface {
    per_second: u64,
    offset_s: i64,
}

/// The time of a block, if it is a packet.
fn time(block: &PcapBlockOwned, known: &mut Vec<Interface>, number: usize) -> Result<Option<u64>, BadCapture> {
    let ethernet = |link: i32| if link == ETHERNET { Ok(()) } else { Err(BadCapture::Link(link)) };
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            ethernet(header.network.0)?;
            let per_second = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            known.push(Interface { per_second, offset_s: 0 });
        }
        PcapBlockOwned::Legacy(packet) => {
            let per_second = known.first().map_or(1_000_000, |i| i.per_second);
            let rest = u64::from(packet.ts_usec) * (1_000_000_000 / per_second);
            return Ok(Some(u64::from(packet.ts_sec) * 1_000_000_000 + rest));
        }
        // A new section numbers its interfaces anew.
        PcapBlockOwned::NG(Block::SectionHeader(_)) => known.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
            ethernet(interface.linktype.0)?;
            known.push(described(interface, number)?);
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let none = || BadCapture::Damaged(number, "its interface is not described".into());
            let interface = known.get(packet.if_id as usize).ok_or_else(none)?;
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let ns = i128::from(ticks) * 1_000_000_000 / i128::from(interface.per_second)
                + i128::from(interface.offset_s) * 1_000_000_000;
            let outside = || BadCapture::Damaged(number, "its time is before 1970 or after 2500".into());
            return u64::try_from(ns).map(Some).map_err(|_| outside());
        }
        PcapBlockOwned::NG(Block::SimplePacket(_)) => {
            return Err(BadCapture::Damaged(number, "it has no time".into()));
        }
        PcapBlockOwned::NG(_) => {}
    }
    Ok(None)
}

fn described(interface: &InterfaceDescriptionBlock, number: usize) -> Result<Interface, BadCapture> {
    let per_second = match interface.if_tsresol {
        binary if binary & 0x80 != 0 => 1_u64.checked_shl(u32::from(binary & 0x7f)),
        decimal => 10_u64.checked_pow(u32::from(decimal)),
    };
    let per_second = per_second.ok_or_else(|| BadCapture::Damaged(number, "its clock's unit is absurd".into()))?;
    Ok(Interface { per_second, offset_s: interface.if_tsoffset })
}

/// A capture with these times.
#[cfg(test)]
pub(crate) fn tests_of(times_ns: &[u64]) -> Capture {
    Capture::of(times_ns).expect("times that can be replayed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pcap file of microseconds, with packets of four bytes at these times.
    fn pcap(link: u32, times_us: &[u64]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, link] {
            file.extend(word.to_le_bytes());
        }
        for time in times_us {
            for word in [(time / 1_000_000) as u32, (time % 1_000_000) as u32, 4, 4, 0xfefe_fefe] {
                file.extend(word.to_le_bytes());
            }
        }
        file
    }

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() + 12) as u32;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body, &length.to_le_bytes()].concat()
    }

    /// A pcapng file whose interface counts in units of 10⁻ⁿ seconds.
    fn pcapng(resolution: u8, ticks: &[u64]) -> Vec<u8> {
        let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        let mut interface = [1, 0, 0, 0, 0, 0, 4, 0].to_vec();
        interface.extend([9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0]);
        let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
        for tick in ticks {
            let mut packet = 0_u32.to_le_bytes().to_vec();
            for word in [(tick >> 32) as u32, *tick as u32, 4, 4, 0xfefe_fefe] {
                packet.extend(word.to_le_bytes());
            }
            file.extend(block(6, &packet));
        }
        file
    }

    fn offsets(file: &[u8]) -> Result<Vec<u64>, BadCapture> {
        Capture::read(file).map(|capture| capture.offsets_ns.to_vec())
    }

    #[test]
    fn both_formats_give_their_gaps() {
        let expected = Ok(vec![0, 1_000, 3_000]);
        assert_eq!(offsets(&pcap(1, &[1_700_000_000_000_001, 1_700_000_000_000_002, 1_700_000_000_000_004])), expected);
        assert_eq!(offsets(&pcapng(9, &[1 << 60, (1 << 60) + 1_000, (1 << 60) + 3_000])), expected);
        assert_eq!(offsets(&pcapng(6, &[7, 8, 10])), expected);
    }

    #[test]
    fn what_can_not_be_replayed_is_refused_in_a_sentence() {
        let whole = pcap(1, &[1, 2, 4]);
        assert_eq!(offsets(&whole[..whole.len() - 2]), Err(BadCapture::Truncated(3)));
        assert_eq!(offsets(&whole[..30]), Err(BadCapture::Truncated(1)));
        assert_eq!(offsets(&pcap(101, &[1, 2])), Err(BadCapture::Link(101)));
        assert_eq!(offsets(&pcap(1, &[1])), Err(BadCapture::Size(1)));
        assert_eq!(offsets(&pcap(1, &[5, 4])), Err(BadCapture::Backwards(2, 1)));
        assert_eq!(offsets(&pcap(1, &[5, 5])), Err(BadCapture::Still));
        assert_eq!(offsets(b"#!/bin/sh\necho this is no capture at all"), Err(BadCapture::Foreign));
        let cut = pcapng(9, &[1, 2, 4]);
        assert_eq!(offsets(&cut[..cut.len() - 5]), Err(BadCapture::Truncated(3)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = offsets(&bytes);
        }

        #[test]
        fn a_damaged_file_is_read_or_refused(times in proptest::collection::vec(0_u64..1 << 40, 2..20), at in 0_usize..400, with: u8, cut in 0_usize..400) {
            for mut file in [pcap(1, &times), pcapng(9, &times)] {
                let length = file.len();
                file[at % length] ^= with;
                file.truncate(length - cut % length);
                let _ = offsets(&file);
            }
        }

        #[test]
        fn any_times_in_order_come_back(mut times in proptest::collection::vec(0_u64..1 << 40, 2..50)) {
            times.sort_unstable();
            prop_assume!(times.first() != times.last());
            let expected: Vec<u64> = times.iter().map(|t| (t - times[0]) * 1_000).collect();
            prop_assert_eq!(offsets(&pcap(1, &times)), Ok(expected));
        }
    }
}
