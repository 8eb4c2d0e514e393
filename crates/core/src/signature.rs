//! The 18 bytes that identify a frame: exactly the UDP payload of a 64-byte Ethernet frame.
//!
//! Layout (little endian): check u16, lateness u32 (ns), sequence u32, departure u64 (sender's
//! clock). The check covers the other fields and a nonce of the trial, so that a damaged frame is
//! told from a whole one, and a frame of another trial from one of this.

use crate::tracker::Departure;

/// Bytes of a signature.
pub const LEN: usize = 18;

/// Where the sequence number stands inside the signature; taps read it there.
pub const SEQUENCE_OFFSET: usize = 6;

/// Largest lateness that fits, about 4.3 s; larger ones are written as this.
pub const MAX_LATENESS_NS: u64 = u32::MAX as u64;

/// What a sender writes into a frame and a receiver reads from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// The frame's number in its flow, from 0.
    pub sequence: u32,
    /// When it left, on the sender's clock.
    pub departure: Departure,
}

impl Signature {
    /// Writes the signature at the start of `payload`, which must hold [`LEN`] bytes.
    #[inline]
    pub fn write(&self, nonce: u16, payload: &mut [u8]) {
        let lateness = self.departure.lateness_ns.min(MAX_LATENESS_NS) as u32;
        payload[2..6].copy_from_slice(&lateness.to_le_bytes());
        payload[6..10].copy_from_slice(&self.sequence.to_le_bytes());
        payload[10..18].copy_from_slice(&self.departure.at.to_le_bytes());
        let check = check(nonce, lateness, self.sequence, self.departure.at);
        payload[0..2].copy_from_slice(&check.to_le_bytes());
    }

    /// Reads it back; `None` when the bytes are too few or damaged.
    #[inline]
    pub fn read(nonce: u16, payload: &[u8]) -> Option<Signature> {
        let signature = Signature::read_unchecked(payload)?;
        let Signature { sequence, departure: Departure { at, lateness_ns } } = signature;
        let found = u16::from_le_bytes([payload[0], payload[1]]);
        (found == check(nonce, lateness_ns as u32, sequence, at)).then_some(signature)
    }

    /// Reads it for whoever doesn't know the nonce, and so can't tell a damaged one; `None` when the bytes are too few.
    #[inline]
    pub fn read_unchecked(payload: &[u8]) -> Option<Signature> {
        let bytes = payload.get(..LEN)?;
        let lateness_ns = u64::from(u32::from_le_bytes(bytes[2..6].try_into().ok()?));
        let sequence = u32::from_le_bytes(bytes[6..10].try_into().ok()?);
        let at = u64::from_le_bytes(bytes[10..18].try_into().ok()?);
        Some(Signature { sequence, departure: Departure { at, lateness_ns } })
    }
}

/// A 16-bit fold of a multiplicative mix: any single flipped bit changes it.
#[inline]
fn check(nonce: u16, lateness: u32, sequence: u32, at: u64) -> u16 {
    let fields = (u64::from(lateness) << 32) | u64::from(sequence);
    let mixed = (at ^ fields.rotate_left(23) ^ (u64::from(nonce) << 17)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ fields.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    ((mixed >> 48) ^ (mixed >> 29) ^ (mixed >> 13) ^ mixed) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(nonce: u16, sequence: u32, at: u64, lateness_ns in 0..=MAX_LATENESS_NS) {
            let sig = Signature { sequence, departure: Departure { at, lateness_ns } };
            let mut payload = [0xA5; LEN + 3];
            sig.write(nonce, &mut payload);
            prop_assert_eq!(Signature::read(nonce, &payload), Some(sig));
        }

        #[test]
        fn garbage_never_panics(nonce: u16, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Signature::read(nonce, &bytes);
        }
    }

    #[test]
    fn flipped_bits_are_noticed() {
        let sig = Signature { sequence: 77, departure: Departure { at: 123_456_789_012, lateness_ns: 40 } };
        let mut whole = [0; LEN];
        sig.write(9, &mut whole);
        let mut missed = 0;
        for first in 0..LEN * 8 {
            for second in first..LEN * 8 {
                let mut bytes = whole;
                bytes[first / 8] ^= 1 << (first % 8);
                if second != first {
                    bytes[second / 8] ^= 1 << (second % 8);
                }
                missed += usize::from(Signature::read(9, &bytes).is_some());
            }
        }
        assert!(missed <= 3, "{missed} of 10,440 one- and two-bit errors went unnoticed");
        assert_eq!(Signature::read(10, &whole), None, "another trial's frame was taken for ours");
    }
}
