//! A card's own clock, read against `CLOCK_MONOTONIC`.

use crate::{mono, raw, wall};
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use usect_core::instant::{Bridge, Correlation, Mono, Phc, TickRate};

/// The clock in which a card stamps frames.
pub trait CardClock: Debug + Send + Sync {
    /// What tells it from other clocks.
    fn name(&self) -> String;

    /// Ticks per second, roughly: what counts is the line between two readings.
    fn rate(&self) -> TickRate;

    /// Reads it together with `CLOCK_MONOTONIC`: the tightest of several readings.
    fn correlate(&self) -> io::Result<Correlation<Phc>>;

    /// A bridge from it to `CLOCK_MONOTONIC`, with a first reading.
    fn bridge(&self) -> io::Result<Bridge<Phc>> {
        Ok(Bridge::new(self.rate(), self.correlate()?))
    }
}

/// A clock that the kernel shows (PTP hardware clock, `/dev/ptpN`).
#[derive(Debug)]
pub struct PtpClock {
    device: File,
    path: PathBuf,
}

impl PtpClock {
    /// Clock number `index`, as `ethtool -T` tells it.
    pub fn open(index: u32) -> io::Result<PtpClock> {
        let path = PathBuf::from(format!("/dev/ptp{index}"));
        let device = File::open(&path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        Ok(PtpClock { device, path })
    }
}

impl CardClock for PtpClock {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn rate(&self) -> TickRate {
        TickRate::nanoseconds()
    }

    /// By the kernel, between two readings of the system's clock (`PTP_SYS_OFFSET_EXTENDED`), or, where the driver
    /// can't, from here.
    fn correlate(&self) -> io::Result<Correlation<Phc>> {
        match raw::sandwiched_by_kernel(&self.device) {
            Ok((before, card, after)) => {
                let wall = wall();
                let (before, after) = (wall.mono(before).0, wall.mono(after).0);
                Ok(correlation(before, card, after, wall.error_ns))
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL)) => {
                tightest(|| raw::card_ns(&self.device))
            }
            Err(e) => Err(e),
        }
    }
}

/// Reads a clock between two readings of `CLOCK_MONOTONIC`, several times, and keeps the tightest.
pub fn tightest(read: impl Fn() -> io::Result<u64>) -> io::Result<Correlation<Phc>> {
    let reading = |_| {
        let before = mono().0;
        let card = read()?;
        Ok(correlation(before, card, mono().0, 0))
    };
    let taken = (0..raw::CARD_READINGS).map(reading).collect::<io::Result<Vec<_>>>()?;
    Ok(taken.into_iter().min_by_key(|reading| reading.error_ns).expect("CARD_READINGS > 0"))
}

fn correlation(before: u64, card: u64, after: u64, error_ns: u64) -> Correlation<Phc> {
    let width = after.saturating_sub(before);
    Correlation { at: Phc(card), mono: Mono(before + width / 2), error_ns: width.div_ceil(2) + error_ns }
}
