//! Reading a device across its bus: a read of PCI configuration space is non-posted, so the processor waits for the answer (paper 002
//! §2.2, experiment 3, the other way round: there a card read the host's memory). Only the vendor's number at offset 0 is read, which
//! changes nothing in any device.

use crate::Observation;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use usect_core::histogram::Histogram;

const DEVICES: &str = "/sys/bus/pci/devices";
/// Reads between two looks at the clock on the wall.
const BATCH: usize = 64;
/// Bytes that are read at once: more would be several reads of the bus.
const WORD: usize = 4;

/// Reads of a device, and of its file where that has nothing, which never reach the device: what the call of the kernel itself takes.
#[derive(Debug)]
pub struct Reads {
    /// The device.
    pub device: String,
    /// What it is, as the kernel's classes have it: `network`, `storage`, `bridge`, ...
    pub kind: String,
    /// Of a word of its configuration.
    pub read: Histogram,
    /// The same call without the device.
    pub call: Histogram,
}

/// The devices of this host, those that aren't bridges first.
pub fn devices() -> Vec<(String, String)> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let mut found: Vec<(String, String)> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|device| {
            let class = fs::read_to_string(Path::new(DEVICES).join(&device).join("class")).unwrap_or_default();
            let kind = kind(class.trim()).to_owned();
            (device, kind)
        })
        .collect();
    found.sort_by_key(|(device, kind)| (kind == "bridge", kind != "network", device.clone()));
    found
}

/// A class of PCI devices, from `0x020000`.
fn kind(class: &str) -> &'static str {
    match class.get(2..4) {
        Some("01") => "storage",
        Some("02") => "network",
        Some("03") => "display",
        Some("06") => "bridge",
        Some(_) => "other",
        None => "unknown",
    }
}

/// Reads a device again and again on this thread, in turns with a read that reaches no device, so that what disturbs falls on both alike.
///
/// Errors: there is no such device, or it can't be read.
pub fn reads(observation: Observation<'_>, device: &str) -> io::Result<Reads> {
    let folder = Path::new(DEVICES).join(device);
    let config = File::open(folder.join("config"))?;
    // Beyond its end: the kernel looks up the file and returns.
    let beyond = config.metadata()?.len().max(4096);
    let kind = kind(fs::read_to_string(folder.join("class")).unwrap_or_default().trim()).to_owned();
    let (clock, mut word) = (*observation.clock, [0; WORD]);
    let mut call = Histogram::default();
    let read = observation.observe(|recorder| {
        for _ in 0..BATCH {
            let before = clock.now();
            let length = config.read_at(&mut word, 0)?;
            let between = clock.now();
            let none = config.read_at(&mut word, beyond)?;
            let after = clock.now();
            if (length, none) != (WORD, 0) {
                return Err(io::Error::other("its configuration can't be read"));
            }
            recorder.record(clock.rate().ns(between.0 - before.0));
            call.record(clock.rate().ns(after.0 - between.0));
        }
        Ok(())
    })?;
    Ok(Reads { device: device.to_owned(), kind, read, call })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_devices() {
        assert_eq!([kind("0x020000"), kind("0x060400"), kind("")], ["network", "bridge", "unknown"]);
    }

    #[test]
    fn bridges_come_last() {
        let found = devices();
        assert!(found.is_sorted_by_key(|(_, kind)| kind == "bridge"));
    }
}
