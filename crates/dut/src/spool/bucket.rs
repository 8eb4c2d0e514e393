//! A token bucket: how many frames pass is known beforehand.

use usect_core::frame::{FCS, FrameSize};
use usect_core::instant::{TickRate, Tsc};
use usect_core::rate::RateSpec;
use usect_core::scenario::Bucket;

/// Parts of a tick in which tokens are reckoned, as a power of two.
const FINE: u32 = 24;

/// When the next frame would have a token if none were held, which says all of a bucket's state (the virtual scheduling
/// algorithm of ITU-T I.371).
pub(super) struct TokenBucket {
    rate: RateSpec,
    clock: TickRate,
    /// Tokens held, and frames that may wait, in times of a token.
    depth: u128,
    room: u128,
    /// Length of the last frame, and fine ticks of its token.
    token: (usize, u128),
    /// In fine ticks.
    full_at: u128,
}

impl TokenBucket {
    pub(super) fn new(spec: &Bucket, clock: TickRate) -> TokenBucket {
        let (depth, room) = (u128::from(spec.depth), u128::from(spec.depth) + u128::from(spec.queue));
        TokenBucket { rate: spec.rate, clock, depth, room, token: (0, 0), full_at: 0 }
    }

    /// When a frame passes that came at an instant; never, where it finds no room to wait for its token.
    #[inline]
    pub(super) fn passes(&mut self, came: Tsc, length: usize) -> Option<Tsc> {
        if self.token.0 != length {
            self.token = (length, self.token_of(length));
        }
        let (token, now) = (self.token.1, u128::from(came.0) << FINE);
        let full_at = self.full_at.max(now);
        // With nothing held, a frame that comes now is one of those for which there is room.
        if full_at - now > (self.room - 1) * token {
            return None;
        }
        self.full_at = full_at + token;
        let waits_until = full_at.saturating_sub((self.depth - 1) * token);
        Some(Tsc((waits_until.max(now) >> FINE) as u64))
    }

    fn token_of(&self, length: usize) -> u128 {
        let bytes = (length as u16).saturating_add(FCS);
        let size = FrameSize::try_from(bytes).unwrap_or(FrameSize::MIN);
        let (ns, frames) = self.rate.resolve(size.with_fcs()).gap();
        ((u128::from(self.clock.hz) * u128::from(ns)) << FINE) / (u128::from(frames) * 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of one tick per nanosecond.
    fn bucket(rate: RateSpec, depth: u32, queue: u32) -> TokenBucket {
        TokenBucket::new(&Bucket { rate, depth, queue }, TickRate::nanoseconds())
    }

    fn passed(bucket: &mut TokenBucket, every_ns: u64, frames: u64) -> Vec<Option<u64>> {
        (0..frames).map(|n| bucket.passes(Tsc(1_000 + n * every_ns), 60).map(|at| at.0 - 1_000)).collect()
    }

    #[test]
    fn some_pass_at_once_some_wait_and_the_others_are_lost() {
        let mut bucket = bucket(RateSpec::Frames(1_000_000), 2, 3);
        let all = passed(&mut bucket, 0, 7);
        assert_eq!(all, [Some(0), Some(0), Some(1_000), Some(2_000), Some(3_000), None, None]);
        assert_eq!(bucket.passes(Tsc(1_000 + 1_000), 60), Some(Tsc(1_000 + 4_000)), "a place is free again");
    }

    #[test]
    fn the_rate_passes_and_more_does_not() {
        let slow = passed(&mut bucket(RateSpec::Frames(1_000_000), 1, 0), 1_000, 10_000);
        assert!(slow.iter().enumerate().all(|(n, at)| *at == Some(n as u64 * 1_000)));
        let fast = passed(&mut bucket(RateSpec::Frames(1_000_000), 1, 0), 500, 10_000);
        assert_eq!(fast.iter().flatten().count(), 5_000);
    }

    #[test]
    fn a_burst_passes_up_to_what_is_held_and_what_leaves_meanwhile() {
        // At twice the rate, half of the burst has left when it ends.
        let all = passed(&mut bucket(RateSpec::Frames(1_000_000), 8, 92), 500, 1_000);
        let first_lost = all.iter().position(Option::is_none).unwrap();
        assert!((198..=200).contains(&first_lost), "{first_lost}");
    }

    #[test]
    fn a_rate_in_bits_depends_on_the_frame() {
        let mut bucket = bucket(RateSpec::LineBits(672_000_000), 1, 0);
        assert_eq!([60, 124].map(|length| bucket.token_of(length) >> FINE), [1_000, 1_761]);
        assert_eq!(bucket.passes(Tsc(5), 60), Some(Tsc(5)));
    }
}
