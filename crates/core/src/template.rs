//! Frames by template: the bytes that come of a [`FrameSpec`], what changes from frame to frame, and how a frame is known
//! again.

mod headers;

use crate::frame::{FCS, Flow, FrameSize, fold};
use crate::frame_spec::{At, Field, FrameSpec, How, Named, Network, SignatureSpec, Transport, VarySpec};
use crate::signature;
use headers::{Draft, hex, layers, tags};

/// Behind the two hardware addresses.
const ETHERTYPE_AT: usize = 12;

/// Where a frame carries its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// In a whole [`signature`] from this byte on.
    Signature(usize),
    /// Alone, big endian.
    Number {
        /// Its first byte.
        at: usize,
        /// 2 or 4 bytes.
        width: usize,
    },
}

impl Tag {
    /// The number of a frame of these, the one nearest to `near` of those that end alike; `None` where the frame is too
    /// short to have one.
    #[inline]
    pub fn number(&self, frame: &[u8], near: u64) -> Option<u64> {
        let distance = match *self {
            Tag::Signature(at) => {
                let at = at + signature::SEQUENCE_OFFSET;
                let number = u32::from_le_bytes(frame.get(at..at + 4)?.try_into().ok()?);
                i64::from(number.wrapping_sub(near as u32) as i32)
            }
            Tag::Number { at, width: 2 } => {
                let number = u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?);
                i64::from(number.wrapping_sub(near as u16) as i16)
            }
            Tag::Number { at, .. } => {
                let number = u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?);
                i64::from(number.wrapping_sub(near as u32) as i32)
            }
        };
        near.checked_add_signed(distance)
    }
}

/// A field that changes, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Vary {
    at: usize,
    width: usize,
    /// Bits of the field that are its own.
    mask: u32,
    from: u32,
    span: u64,
    how: How,
}

impl Vary {
    /// How far from its first value the field is in a frame.
    #[inline]
    fn turn(&self, index: u64) -> u32 {
        let far = match self.how {
            // A division takes longer than all the rest of a frame.
            How::Step if self.span.is_power_of_two() => index & (self.span - 1),
            How::Step => index % self.span,
            // Each field by a sequence of its own.
            How::Random => ((scramble(index ^ (self.at as u64) << 48) >> 32) * self.span) >> 32,
        };
        far as u32
    }
}

/// Sixteen bits of a frame by which a filter knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Its offset.
    pub at: u16,
    /// The bits that count.
    pub mask: u16,
    /// What they are, in the order of the numbers.
    pub value: u16,
}

/// Most words of a pattern: two tags, IPv6 and TCP have fewer.
pub const WORDS: usize = 40;

/// A checksum (RFC 1071) over words of which some change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sum {
    at: usize,
    base: u32,
    /// Offsets of the words that change.
    words: Vec<usize>,
    /// Zero stands for “none”, and is sent as all ones (UDP, RFC 768).
    never_zero: bool,
}

/// The frames of a flow, resolved to bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    /// Bytes that a frame has in common with the template all the way: bits set where they are compared.
    mask: Vec<u8>,
    /// Where the headers end: a frame that differs before is another's, one that differs behind it is damaged.
    headers: usize,
    tag: Tag,
    identification: Option<usize>,
    /// Where and of what the sum of the IPv4 header is made where nothing but the identification changes in it: place,
    /// and sum of the rest.
    identification_sum: Option<(usize, u32)>,
    vary: Vec<Vary>,
    sums: Vec<Sum>,
    /// Whether a checksum covers a varying field.
    vary_in_sums: bool,
}

impl Template {
    /// The frames of a flow under a specification, or why there can't be any: it doesn't fit the size, fields overlap.
    pub fn new(spec: &FrameSpec, size: FrameSize, flow: &Flow) -> Result<Template, String> {
        let mut draft = Draft::default();
        draft.push(&flow.destination.mac, false);
        draft.push(&flow.source.mac, false);
        tags(spec, &mut draft)?;
        let payload_at = layers(spec, size, flow, &mut draft)?;
        let given = hex(&spec.bytes)?;
        draft.push(&given, true);
        let room = size.without_fcs();
        if draft.bytes.len() > room {
            let behind = if spec.signature == SignatureSpec::default() { signature::LEN } else { 0 };
            let needs = draft.bytes.len() + behind + usize::from(FCS);
            return Err(format!(
                "headers, bytes, signature and FCS make a frame of {needs} bytes, and frame_size is {}: raise it",
                size.with_fcs()
            ));
        }
        let headers = draft.bytes.len();
        draft.push(&vec![0; room - headers], true);
        let identification = (spec.network == Network::Ipv4).then_some(draft.network_at + 4);
        let tag = tag(spec, payload_at + given.len(), identification)?;
        let vary = spec.vary.iter().map(|vary| resolve(vary, spec, &draft)).collect::<Result<Vec<_>, _>>()?;
        let mut template = Template {
            bytes: draft.bytes,
            mask: draft.mask,
            headers,
            tag,
            identification,
            identification_sum: None,
            vary,
            sums: Vec::new(),
            vary_in_sums: false,
        };
        let header_sum = identification.map(|at| (at + 6, "the IPv4 header's checksum"));
        let transport_sum = draft.transport_sum_at.map(|at| (at, "the transport layer's checksum"));
        template.reserve(spec, room, header_sum.into_iter().chain(transport_sum))?;
        template.add_sums(spec, draft.network_at, draft.transport_at.zip(draft.transport_sum_at));
        let varies = |word: usize| template.vary.iter().any(|vary| word < vary.at + vary.width && vary.at < word + 2);
        template.vary_in_sums = template.sums.iter().flat_map(|sum| &sum.words).any(|&word| varies(word));
        let mut bytes = template.bytes.clone();
        template.write_sums(&mut bytes);
        template.bytes = bytes;
        if let Some(at) = template.identification {
            let alone = template.sums.iter().position(|sum| sum.words == [at] && !sum.never_zero);
            template.identification_sum = alone.map(|i| template.sums.remove(i)).map(|sum| (sum.at, sum.base));
        }
        Ok(template)
    }

    /// A frame of a flow as it is by default: the payload zero, the identification too.
    pub fn plain(flow: &Flow, size: FrameSize) -> Vec<u8> {
        let template = Template::new(&FrameSpec::default(), size, flow);
        template.expect("the smallest frame holds the headers and the signature").bytes
    }

    /// Sees to it that what changes lies inside the frame and in places of its own, and is not compared.
    fn reserve(
        &mut self,
        spec: &FrameSpec,
        room: usize,
        sums: impl Iterator<Item = (usize, &'static str)>,
    ) -> Result<(), String> {
        let tag = match self.tag {
            Tag::Signature(at) => (at, signature::LEN, "the signature".to_owned()),
            Tag::Number { at, width } => (at, width, "the frame's number".to_owned()),
        };
        let identified = self.identification.filter(|_| spec.signature != SignatureSpec::Named(Named::Identification));
        let identification = identified.map(|at| (at, 2, "the IPv4 identification".to_owned()));
        let vary = self.vary.iter().zip(&spec.vary).map(|(vary, named)| (vary.at, vary.width, named.name()));
        let mut taken: Vec<(usize, usize, String)> = sums.map(|(at, name)| (at, 2, name.to_owned())).collect();
        for (at, width, name) in [tag.clone()].into_iter().chain(identification.clone()).chain(vary) {
            if at < ETHERTYPE_AT && !name.ends_with("mac") || at + width > room {
                let end = room + usize::from(FCS);
                return Err(format!(
                    "{name} takes bytes {at} to {} of the frame, which with its FCS has {end}: send larger frames, or move it",
                    at + width - 1
                ));
            }
            if let Some((other, length, of)) =
                taken.iter().find(|(other, length, _)| at < other + length && *other < at + width)
            {
                return Err(format!(
                    "{name}, bytes {at} to {}, and {of}, bytes {other} to {}, overlap: move one of them",
                    at + width - 1,
                    other + length - 1
                ));
            }
            taken.push((at, width, name));
        }
        for (at, width, _) in [tag].into_iter().chain(identification) {
            self.mask[at..at + width].fill(0);
        }
        for vary in &self.vary {
            // Bits of a varied word that are not the field's own stay as they were.
            let kept = (!vary.mask).to_be_bytes();
            self.mask[vary.at..vary.at + vary.width].iter_mut().zip(&kept[4 - vary.width..]).for_each(|(m, k)| *m &= k);
        }
        Ok(())
    }

    fn add_sums(&mut self, spec: &FrameSpec, network_at: usize, transport: Option<(usize, usize)>) {
        let changed = self.changed();
        if spec.network == Network::Ipv4 {
            let sum = self.sum(network_at + 10, network_at..network_at + 20, 0, &changed, false);
            self.sums.push(sum);
        }
        let Some((begin, at)) = transport else { return };
        // The pseudo-header: addresses, protocol, length (RFC 793, 8200 §8.1; none for ICMP over IPv4).
        let bytes = self.bytes.len();
        let length = (bytes - begin) as u32;
        let (addresses, protocol) = match spec.network {
            Network::Ipv4 => (network_at + 12..network_at + 20, self.bytes[network_at + 9]),
            _ => (network_at + 8..network_at + 40, self.bytes[network_at + 6]),
        };
        let plain_icmp = spec.network == Network::Ipv4 && spec.transport == Transport::Icmp;
        let mut sum = self.sum(at, begin..bytes, 0, &changed, spec.transport == Transport::Udp);
        if !plain_icmp {
            let pseudo = self.sum(at, addresses, u32::from(protocol) + length, &changed, false);
            sum.base += pseudo.base;
            sum.words.extend(pseudo.words);
        }
        self.sums.push(sum);
    }

    /// Bytes that change from frame to frame.
    fn changed(&self) -> Vec<usize> {
        let tag = match self.tag {
            Tag::Signature(at) => at..at + signature::LEN,
            Tag::Number { at, width } => at..at + width,
        };
        let identification = self.identification.into_iter().flat_map(|at| at..at + 2);
        let vary = self.vary.iter().flat_map(|vary| vary.at..vary.at + vary.width);
        tag.chain(identification).chain(vary).collect()
    }

    /// A sum over a range that begins at an even offset and holds its own place, which counts as zero.
    fn sum(&mut self, at: usize, range: std::ops::Range<usize>, more: u32, changed: &[usize], never_zero: bool) -> Sum {
        // It is not compared: what changes it is, and a router changes it on its own.
        self.mask[at..at + 2].fill(0);
        let (mut base, mut words) = (more, Vec::new());
        for word in range.clone().step_by(2) {
            if word == at {
                continue;
            }
            let is_changed = |byte: usize| byte < range.end && changed.contains(&byte);
            if is_changed(word) || is_changed(word + 1) {
                words.push(word);
            } else {
                base += u32::from(word_at(&self.bytes, word));
            }
        }
        Sum { at, base, words, never_zero }
    }

    /// The bytes that all frames begin as, from `from` on.
    pub fn bytes(&self, from: usize) -> &[u8] {
        &self.bytes[from..]
    }

    /// Where frames carry their number.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Writes what changes into a frame, or, with an offset, into what is left of it from there; the tag is written by
    /// `sign` into the place that it is given.
    #[inline(always)]
    pub fn write(&self, frame: &mut [u8], from: usize, index: u64, sign: impl FnOnce(&mut [u8])) {
        match self.tag {
            Tag::Signature(at) => sign(&mut frame[at - from..]),
            Tag::Number { at, width } => {
                frame[at - from..at - from + width].copy_from_slice(&(index as u32).to_be_bytes()[4 - width..]);
                sign(&mut []);
            }
        }
        if from > 0 {
            return;
        }
        // What lies behind the frame in its buffer is no part of any sum.
        let frame = &mut frame[..self.bytes.len()];
        if let Some(at) = self.identification {
            frame[at..at + 2].copy_from_slice(&(index as u16).to_be_bytes());
        }
        if let Some((at, base)) = self.identification_sum {
            frame[at..at + 2].copy_from_slice(&(!fold(base + u32::from(index as u16))).to_be_bytes());
        }
        self.vary(frame, index);
        self.write_sums(frame);
    }

    /// Writes the varying fields alone into a whole frame that begins as [`Template::bytes`], and the sums over them.
    #[inline]
    pub fn write_unnumbered(&self, frame: &mut [u8], index: u64) {
        let frame = &mut frame[..self.bytes.len()];
        self.vary(frame, index);
        if self.vary_in_sums {
            self.write_sums(frame);
        }
    }

    #[inline(always)]
    fn vary(&self, frame: &mut [u8], index: u64) {
        for vary in &self.vary {
            let value = vary.from.wrapping_add(vary.turn(index));
            match vary.width {
                1 => frame[vary.at] = frame[vary.at] & !(vary.mask as u8) | value as u8,
                2 if vary.mask == 0xffff => {
                    frame[vary.at..vary.at + 2].copy_from_slice(&(value as u16).to_be_bytes());
                }
                2 => {
                    let mixed = word_at(frame, vary.at) & !(vary.mask as u16) | value as u16;
                    frame[vary.at..vary.at + 2].copy_from_slice(&mixed.to_be_bytes());
                }
                _ => frame[vary.at..vary.at + 4].copy_from_slice(&value.to_be_bytes()),
            }
        }
    }

    #[inline]
    fn write_sums(&self, frame: &mut [u8]) {
        for sum in &self.sums {
            let total = sum.words.iter().fold(sum.base, |total, &word| total + u32::from(word_at(frame, word)));
            let checksum = match !fold(total) {
                0 if sum.never_zero => 0xffff,
                checksum => checksum,
            };
            frame[sum.at..sum.at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Whether a frame is one of these, by its headers.
    #[inline]
    pub fn owns(&self, frame: &[u8]) -> bool {
        frame.len() >= self.headers && self.agrees(&frame[..self.headers], 0)
    }

    /// Whether a frame, or what is left of it from an offset on, is of the right length and undamaged, as far as the
    /// template tells.
    #[inline]
    pub fn is_whole(&self, frame: &[u8], from: usize) -> bool {
        frame.len() == self.bytes.len() - from && self.agrees(frame, from)
    }

    /// Eight bytes at a time; the last eight may be some of those before.
    #[inline(always)]
    fn agrees(&self, frame: &[u8], from: usize) -> bool {
        let (bytes, mask) = (&self.bytes[from..], &self.mask[from..]);
        let last = match (frame.last_chunk::<8>(), bytes[..frame.len()].last_chunk(), mask[..frame.len()].last_chunk())
        {
            (Some(is), Some(should), Some(mask)) => differs(is, should, mask),
            _ => {
                let pairs = frame.iter().zip(bytes).zip(mask);
                pairs.fold(0, |all, ((is, should), mask)| all | u64::from((is ^ should) & mask))
            }
        };
        let words = frame.as_chunks().0.iter().zip(bytes.as_chunks().0).zip(mask.as_chunks().0);
        words.fold(last, |all, ((is, should), mask)| all | differs(is, should, mask)) == 0
    }

    /// What a filter needs to find these frames among others: their headers, [`WORDS`] at the most.
    pub fn words(&self) -> Vec<Word> {
        let all = (ETHERTYPE_AT..self.headers.saturating_sub(1)).step_by(2).map(|at| {
            let mask = word_at(&self.mask, at);
            Word { at: at as u16, mask, value: word_at(&self.bytes, at) & mask }
        });
        all.filter(|word| word.mask != 0).take(WORDS).collect()
    }
}

/// The bits that are compared and differ.
#[inline(always)]
fn differs(is: &[u8; 8], should: &[u8; 8], mask: &[u8; 8]) -> u64 {
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    (word(is) ^ word(should)) & word(mask)
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> u16 {
    let low = bytes.get(at + 1).copied().unwrap_or(0);
    u16::from_be_bytes([bytes[at], low])
}

/// A fixed permutation that looks random (splitmix64).
#[inline]
fn scramble(index: u64) -> u64 {
    let mut z = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn tag(spec: &FrameSpec, payload_at: usize, identification: Option<usize>) -> Result<Tag, String> {
    match spec.signature {
        SignatureSpec::Named(Named::Identification) => identification
            .map(|at| Tag::Number { at, width: 2 })
            .ok_or_else(|| "signature = \"identification\" needs network = \"ipv4\"".into()),
        SignatureSpec::At(At { at, width: signature::LEN }) => Ok(Tag::Signature(at)),
        SignatureSpec::At(At { at, width: width @ (2 | 4) }) => Ok(Tag::Number { at, width }),
        SignatureSpec::At(At { width, .. }) => {
            Err(format!("a signature {width} bytes wide: it is 18, or 2 or 4 for the frame's number alone"))
        }
        SignatureSpec::Named(Named::Payload) => Ok(Tag::Signature(payload_at)),
    }
}

fn resolve(vary: &VarySpec, spec: &FrameSpec, draft: &Draft) -> Result<Vary, String> {
    let lacks = |what: &str| format!("{}: these frames have no {what}", vary.name());
    let ports = || {
        let with_ports = matches!(spec.transport, Transport::Udp | Transport::Tcp);
        draft.transport_at.filter(|_| with_ports).ok_or_else(|| lacks("ports"))
    };
    let addresses = || match spec.network {
        Network::Ipv4 => Ok((draft.network_at + 12, 4)),
        Network::Ipv6 => Ok((draft.network_at + 8 + 12, 16)),
        Network::None => Err(lacks("addresses")),
    };
    let (at, width, mask) = match (vary.field, vary.at, vary.width) {
        (Some(_), None, None) => match vary.field.expect("it was just found") {
            Field::DestinationMac => (2, 4, u32::MAX),
            Field::SourceMac => (8, 4, u32::MAX),
            Field::Vlan => (draft.vlan_at.ok_or_else(|| lacks("VLAN tag"))?, 2, 0x0fff),
            Field::SourceAddress => (addresses()?.0, 4, u32::MAX),
            Field::DestinationAddress => (addresses().map(|(at, apart)| at + apart)?, 4, u32::MAX),
            Field::SourcePort => (ports()?, 2, 0xffff),
            Field::DestinationPort => (ports()? + 2, 2, 0xffff),
        },
        (None, Some(at), Some(width @ (1 | 2 | 4))) => (at, width, (u64::MAX >> (64 - 8 * width)) as u32),
        _ => return Err("a varying field is named by `field`, or by `at` and a `width` of 1, 2 or 4 bytes".into()),
    };
    if vary.from > vary.to || vary.to > mask {
        return Err(format!("{}: from {} to {} is no range up to {mask}", vary.name(), vary.from, vary.to));
    }
    let span = u64::from(vary.to - vary.from) + 1;
    Ok(Vary { at, width, mask, from: vary.from, span, how: vary.how })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Endpoint, internet_checksum};
    use proptest::prelude::*;
    use std::net::SocketAddrV4;

    fn flow() -> Flow {
        let end = |n: u8| Endpoint {
            mac: [2, 0, 0, 0, 0, n],
            address: SocketAddrV4::new([198, 18, 0, n].into(), 9000 + u16::from(n)),
        };
        Flow { source: end(1), destination: end(2) }
    }

    fn size(bytes: u16) -> FrameSize {
        bytes.try_into().unwrap()
    }

    fn spec(toml: &str) -> FrameSpec {
        toml::from_str(toml).unwrap()
    }

    fn refused(toml: &str, bytes: u16) -> String {
        Template::new(&spec(toml), size(bytes), &flow()).unwrap_err()
    }

    fn made(template: &Template, index: u64) -> Vec<u8> {
        let mut frame = template.bytes(0).to_vec();
        template
            .write(&mut frame, 0, index, |place| place.iter_mut().take(signature::LEN).for_each(|b| *b = index as u8));
        frame
    }

    /// The sum over a transport header, its payload and the pseudo-header; 0 when it is right.
    fn transport_sum(frame: &[u8], network_at: usize, ipv4: bool, pseudo: bool) -> u16 {
        let (addresses, protocol, begin) = if ipv4 {
            (network_at + 12..network_at + 20, frame[network_at + 9], network_at + 20)
        } else {
            (network_at + 8..network_at + 40, frame[network_at + 6], network_at + 40)
        };
        let mut bytes = frame[begin..].to_vec();
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        if pseudo {
            bytes.extend_from_slice(&frame[addresses]);
            bytes.extend_from_slice(&[0, protocol]);
            bytes.extend_from_slice(&((frame.len() - begin) as u16).to_be_bytes());
        }
        internet_checksum(&bytes)
    }

    #[test]
    fn the_plain_frame_is_ethernet_ipv4_and_udp() {
        let frame = Template::plain(&flow(), FrameSize::MIN);
        let expected = "0200000000020200000000010800\
                        4500002e0000400040110000c6120001c6120002 2329232a001a0000";
        let mut expected = hex(expected).unwrap();
        expected.resize(60, 0);
        let sum = internet_checksum(&expected[14..34]);
        expected[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(frame, expected);
        assert_eq!(Template::plain(&flow(), size(1518)).len(), 1514);
    }

    #[test]
    fn what_does_not_fit_or_overlaps_is_refused_in_a_sentence() {
        for (toml, bytes, part) in [
            ("vlans = [100]", 64, "bytes 46 to 63"),
            ("network = \"ipv6\"\ntransport = \"tcp\"", 64, "make a frame of 96 bytes"),
            ("vlans = [1, 2, 3]", 128, "two at most"),
            ("vlans = [4095]", 128, "1 to 4094"),
            ("ethertype = 2048", 64, "network = \"none\""),
            ("network = \"none\"\ntransport = \"tcp\"", 64, "needs network"),
            ("network = \"none\"\nsignature = \"identification\"", 64, "needs network = \"ipv4\""),
            ("signature = { at = 50 }", 64, "takes bytes 50 to 67"),
            ("signature = { at = 20, width = 3 }", 64, "18, or 2 or 4"),
            ("signature = { at = 18, width = 4 }", 64, "overlap"),
            ("bytes = \"0g\"", 128, "no hexadecimal digit"),
            ("bytes = \"012\"", 128, "a byte has two"),
            ("vary = [{ field = \"vlan\", from = 1, to = 2 }]", 64, "have no VLAN tag"),
            ("vary = [{ field = \"source-port\", from = 1, to = 70000 }]", 64, "no range up to 65535"),
            ("vary = [{ at = 40, width = 4, from = 1, to = 2 }]", 64, "overlap"),
            ("vary = [{ at = 24, width = 2, from = 1, to = 2 }]", 64, "the IPv4 header's checksum"),
            ("signature = { at = 24, width = 2 }", 64, "the IPv4 header's checksum"),
            ("transport = \"tcp\"\nsignature = { at = 44 }", 128, "the transport layer's checksum"),
            ("vary = [{ at = 40, from = 1, to = 2 }]", 64, "a `width`"),
            ("transport = \"icmp\"\nvary = [{ field = \"source-port\", from = 1, to = 2 }]", 64, "have no ports"),
        ] {
            let said = refused(toml, bytes);
            assert!(said.contains(part), "{toml}: {said}");
        }
    }

    #[test]
    fn fields_step_and_frames_are_known_by_what_does_not() {
        let spec = spec(
            "vlans = [100, 7]\nvary = [{ field = \"source-port\", from = 1000, to = 1002 }, { field = \"vlan\", from = 5, to = 6 }]",
        );
        let template = Template::new(&spec, size(128), &flow()).unwrap();
        let frames: Vec<Vec<u8>> = (0..7).map(|index| made(&template, index)).collect();
        let ports: Vec<u16> = frames.iter().map(|frame| word_at(frame, 42)).collect();
        assert_eq!(ports, [1000, 1001, 1002, 1000, 1001, 1002, 1000]);
        assert_eq!(word_at(&frames[0], 18), 5);
        for frame in &frames {
            assert!(template.owns(frame) && template.is_whole(frame, 0));
        }
        let mut other = frames[0].clone();
        other[14 + 1] ^= 1;
        assert!(!template.owns(&other), "another VLAN");
        let mut damaged = frames[0].clone();
        damaged[100] ^= 1;
        assert!(template.owns(&damaged) && !template.is_whole(&damaged, 0));
    }

    #[test]
    fn random_fields_go_their_own_ways_and_a_priority_is_not_compared() {
        let spec = spec(
            "vlans = [9]\nvary = [{ field = \"vlan\", from = 1, to = 4000, how = \"random\" }, \
             { field = \"source-port\", from = 1, to = 4000, how = \"random\" }]",
        );
        let template = Template::new(&spec, size(128), &flow()).unwrap();
        let mut frames: Vec<Vec<u8>> = (0..100).map(|index| made(&template, index)).collect();
        let alike = frames.iter().filter(|frame| word_at(frame, 14) == word_at(frame, 38)).count();
        assert!(alike < 5, "{alike} of 100");
        frames[0][14] |= 0xe0;
        assert!(template.owns(&frames[0]), "a switch may set it");
    }

    #[test]
    fn a_reserved_field_may_hold_the_number_alone() {
        let spec = spec(
            "network = \"none\"\nethertype = 0x8906\nbytes = \"00 000000 00000000 00000000\"\nsignature = { at = 16, width = 4 }",
        );
        let template = Template::new(&spec, size(64), &flow()).unwrap();
        assert_eq!(template.tag(), Tag::Number { at: 16, width: 4 });
        let frame = made(&template, 0x0102_0304);
        assert_eq!((&frame[12..14], &frame[16..20]), (&[0x89, 0x06][..], &[1, 2, 3, 4][..]));
        assert!(template.owns(&frame) && template.is_whole(&frame, 0));
    }

    #[test]
    fn a_specification_survives_json() {
        for toml in ["", "signature = \"identification\"", "signature = { at = 46 }\nvlans = [3]\nnetwork = \"ipv6\""] {
            let spec = spec(toml);
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<FrameSpec>(&json).unwrap(), spec, "{json}");
        }
        assert!(FrameSpec::default().is_plain() && spec("signature = \"payload\"").is_plain());
        assert!(!spec("signature = \"identification\"").is_plain());
        let inline: FrameSpec = "vlans = [3], network = \"ipv6\"".parse().unwrap();
        assert_eq!((inline.vlans, inline.network), (vec![3], Network::Ipv6));
        assert!("colour = 1".parse::<FrameSpec>().unwrap_err().contains("unknown field `colour`"));
    }

    proptest! {
        #[test]
        fn checksums_are_right_whatever_changes(
            ipv4: bool,
            transport in prop_oneof![Just("udp"), Just("tcp"), Just("icmp"), Just("none")],
            vlans in 0_usize..3,
            bytes in 110_u16..300,
            index: u64,
        ) {
            let tags = ["vlans = []", "vlans = [9]", "vlans = [9, 10]"][vlans];
            let network = if ipv4 { "ipv4" } else { "ipv6" };
            let text = format!("{tags}\nnetwork = \"{network}\"\ntransport = \"{transport}\"\n\
                vary = [{{ field = \"source-address\", from = 0, to = 4294967295, how = \"random\" }}]");
            let template = Template::new(&spec(&text), size(bytes), &flow()).unwrap();
            let frame = made(&template, index);
            let network_at = 14 + 4 * vlans;
            if ipv4 {
                prop_assert_eq!(internet_checksum(&frame[network_at..network_at + 20]), 0);
            }
            match (transport, ipv4) {
                ("udp", true) => prop_assert_eq!(word_at(&frame, network_at + 26), 0),
                ("none", _) => {}
                ("icmp", true) => prop_assert_eq!(transport_sum(&frame, network_at, ipv4, false), 0),
                _ => prop_assert_eq!(transport_sum(&frame, network_at, ipv4, true), 0),
            }
            prop_assert!(template.owns(&frame) && template.is_whole(&frame, 0));
        }

        #[test]
        fn any_bytes_are_owned_or_not_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let template = Template::new(&FrameSpec::default(), size(64), &flow()).unwrap();
            let _ = (template.owns(&bytes), template.is_whole(&bytes, 0));
        }

        #[test]
        fn any_specification_is_resolved_or_refused(
            at in 0_usize..200, width in 0_usize..20, from: u32, to: u32, vlans in proptest::collection::vec(any::<u16>(), 0..3), digits in "[0-9a-f]{0,80}",
        ) {
            let spec = FrameSpec {
                vlans,
                bytes: digits,
                signature: SignatureSpec::At(At { at, width }),
                vary: vec![VarySpec { field: None, at: Some(width), width: Some(2), from, to, how: How::Random }],
                ..FrameSpec::default()
            };
            if let Ok(template) = Template::new(&spec, size(128), &flow()) {
                let frame = made(&template, u64::from(from));
                prop_assert!(template.is_whole(&frame, 0));
            }
        }
    }
}
