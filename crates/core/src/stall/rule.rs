//! Which gap between two iterations of a poll loop is too long for what the loop did in it.
//!
//! A stall makes a batch: what arrived meanwhile is handled in the same iteration. So the time that frames are given
//! must be what they take, or the stall hides behind the batch that it caused.

/// What a gap was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The loop's own work.
    Usual,
    /// Too long, and nothing was sent.
    Stall,
    /// Too long, and something was sent.
    Busy,
}

/// Tells gaps apart: one is too long that exceeds what its frames take by more than a threshold. What they take is learned
/// from the gaps themselves, apart for those in which frames were sent: the path's own work may be part of them.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    threshold: u64,
    receiving: FrameCost,
    sending: FrameCost,
}

impl Rule {
    /// With a threshold, in the unit of the gaps.
    pub fn new(threshold: u64) -> Rule {
        // A frame that takes longer than the threshold is no longer a matter of the loop.
        let cost = FrameCost { scaled: 0, most: threshold << SCALE };
        Rule { threshold, receiving: cost, sending: cost }
    }

    /// What a gap was in which so many frames were received and sent. Division comes with the first frame alone, and nothing
    /// with an iteration that found none.
    #[inline]
    pub fn judge(&mut self, gap: u64, received: usize, sent: usize) -> Gap {
        let frames = (received + sent) as u64;
        let cost = if sent == 0 { &mut self.receiving } else { &mut self.sending };
        let long = gap > self.threshold + cost.of(frames);
        if frames > 0 {
            cost.learn(gap, frames);
        }
        match (long, sent) {
            (false, _) => Gap::Usual,
            (true, 0) => Gap::Stall,
            (true, _) => Gap::Busy,
        }
    }
}

/// Bits behind the point of a cost: a frame can take a few ticks.
const SCALE: u32 = 8;
/// A step towards the median, as a shift: a 128th. From a hundredth of it, or a hundred times, it is found in 600 steps.
const STEP: u32 = 7;

/// What a frame takes: the running median over iterations of the time per frame. Stalls are too rare to move a median, and
/// the fixed part of an iteration counts with its frames: where they come one by one the cost is rather too high than too
/// low, so that a long batch is not taken for a stall.
#[derive(Debug, Clone, Copy)]
struct FrameCost {
    scaled: u64,
    most: u64,
}

impl FrameCost {
    #[inline]
    fn of(&self, frames: u64) -> u64 {
        (self.scaled * frames) >> SCALE
    }

    #[inline]
    fn learn(&mut self, gap: u64, frames: u64) {
        let (gap, step) = (gap.min(u64::MAX >> SCALE) << SCALE, (self.scaled >> STEP) + 1);
        self.scaled = match self.scaled {
            0 => gap / frames,
            cost if gap < cost * frames => cost - step.min(cost - 1),
            cost => cost + step,
        };
        self.scaled = self.scaled.min(self.most);
    }
}

#[cfg(test)]
mod tests;
