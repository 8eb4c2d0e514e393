//! A card's own clock (PTP hardware clock, `/dev/ptpN`), read against `CLOCK_MONOTONIC`.

use crate::{raw, wall};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use usect_core::instant::{Bridge, Correlation, Mono, Phc, TickRate};

/// A card's clock.
#[derive(Debug)]
pub struct CardClock {
    device: File,
    path: PathBuf,
}

impl CardClock {
    /// Clock number `index`, as `ethtool -T` tells it.
    pub fn open(index: u32) -> io::Result<CardClock> {
        let path = PathBuf::from(format!("/dev/ptp{index}"));
        let device = File::open(&path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        Ok(CardClock { device, path })
    }

    /// Reads it together with `CLOCK_MONOTONIC`: the tightest of several readings that the kernel takes between
    /// two of the system's clock (`PTP_SYS_OFFSET_EXTENDED`), or, where the driver can't, that are taken from here.
    pub fn correlate(&self) -> io::Result<Correlation<Phc>> {
        let reading = match raw::sandwiched_by_kernel(&self.device) {
            Ok((before, card, after)) => {
                let wall = wall();
                let (before, after) = (wall.mono(before).0, wall.mono(after).0);
                correlation(before, card, after, wall.error_ns)
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL)) => {
                let (before, card, after) = raw::sandwiched(&self.device)?;
                correlation(before, card, after, 0)
            }
            Err(e) => return Err(e),
        };
        Ok(reading)
    }

    /// A bridge from it to `CLOCK_MONOTONIC`, with a first reading.
    pub fn bridge(&self) -> io::Result<Bridge<Phc>> {
        Ok(Bridge::new(TickRate::nanoseconds(), self.correlate()?))
    }

    /// Whether it is the same clock.
    pub fn is(&self, other: &CardClock) -> bool {
        self.path == other.path
    }
}

fn correlation(before: u64, card: u64, after: u64, error_ns: u64) -> Correlation<Phc> {
    let width = after.saturating_sub(before);
    Correlation { at: Phc(card), mono: Mono(before + width / 2), error_ns: width.div_ceil(2) + error_ns }
}
