//! Stamps by the cards of two devices: who takes them, their clocks, and the probes where only PTP's frames get some.

use crate::device::{Mailbox, Opened, driver};
use crate::ffi::{self, Device};
use crate::{DpdkError, DpdkRx, DpdkTx, Stamping};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use usect_clock::phc::{CardClock, tightest};
use usect_core::instant::{Correlation, Phc, TickRate};
use usect_port::Cards;
use usect_port::probes::{PATIENCE, Prober, Stamps, SyncMessage};

/// How long the frequency of a device's clock is measured.
const WINDOW: Duration = Duration::from_millis(100);
/// Frequencies that such a clock can have.
const PLAUSIBLE_HZ: std::ops::Range<u64> = 1_000_000..100_000_000_000;

/// How the cards of two open devices, which may be one, stamp what goes from one to the other; `destination` is
/// the second one's hardware address. Where both stamp PTP's frames, these are taken, as they know the departure.
pub fn stamping(tx: &DpdkTx, rx: &mut DpdkRx, destination: [u8; 6]) -> Result<Stamping, DpdkError> {
    let (sends, receives) = (&tx.device, &rx.device);
    let failed = |device: &Opened, e: io::Error| {
        DpdkError::device(&driver(&device.0), format!("the clock of its card can't be read: {e}"))
    };
    let clock = |device: &Arc<Opened>, clock| DeviceClock::open(device, clock).map_err(|e| failed(device, e));
    if sends.0.timesync != 0 && receives.0.timesync != 0 {
        let (from, to) = (clock(sends, ffi::TIMESYNC)?, clock(receives, ffi::TIMESYNC)?);
        let cards = Cards::new(Some(from), to).map_err(|e| failed(sends, e))?;
        let frame = SyncMessage::new(tx.mac(), destination);
        let mailbox = Arc::new(Mailbox { frame: frame.clone(), last: Mutex::new(None) });
        let probes = Probes { sends: sends.clone(), receives: receives.clone(), frame, mailbox: mailbox.clone() };
        // Stamps of the load's arrivals have nothing to go with.
        (rx.probes, rx.caps.stamps) = (Some(mailbox), Vec::new());
        return Ok(Stamping::Probes(cards, Box::new(probes)));
    }
    if receives.0.arrivals != ffi::NO_CLOCK {
        let cards = Cards::new(None, clock(receives, receives.0.arrivals)?).map_err(|e| failed(receives, e))?;
        return Ok(Stamping::Arrivals(cards));
    }
    let lacking = if sends.0.timesync == 0 { sends } else { receives };
    let why = format!(
        "stamp = \"nic\" needs cards that stamp: the driver {} has no timesync with a second send queue, and {} has no \
         receive-timestamp offload with a clock that can be read",
        driver(&lacking.0),
        driver(&receives.0)
    );
    Err(DpdkError::device(&driver(&receives.0), why))
}

/// The clock of a device's stamps.
#[derive(Debug)]
struct DeviceClock {
    device: Arc<Opened>,
    clock: u8,
    rate: TickRate,
}

impl DeviceClock {
    fn open(device: &Arc<Opened>, clock: u8) -> io::Result<Box<dyn CardClock>> {
        let mut opened = DeviceClock { device: device.clone(), clock, rate: TickRate::nanoseconds() };
        match clock {
            ffi::DEVICE_CLOCK => opened.rate = opened.measured()?,
            ffi::WALL_US => opened.rate = TickRate::from_hz(1_000_000),
            _ => {}
        }
        Ok(Box::new(opened))
    }

    fn ticks(&self) -> io::Result<u64> {
        self.device.ticks(self.clock)
    }

    /// Its frequency, which is nowhere told.
    fn measured(&self) -> io::Result<TickRate> {
        let read = || tightest(|| self.ticks());
        let first = read()?;
        std::thread::sleep(WINDOW);
        let last = read()?;
        let ticks = u128::from(last.at.0.saturating_sub(first.at.0));
        let hz = (ticks * 1_000_000_000 / u128::from(last.mono.0 - first.mono.0)) as u64;
        match PLAUSIBLE_HZ.contains(&hz) {
            true => Ok(TickRate::from_hz(hz)),
            false => Err(io::Error::other(format!("it runs at {hz} Hz"))),
        }
    }
}

impl CardClock for DeviceClock {
    fn name(&self) -> String {
        let Device { id, .. } = self.device.0;
        format!("dpdk port {id}, clock {}", self.clock)
    }

    fn rate(&self) -> TickRate {
        self.rate
    }

    fn correlate(&self) -> io::Result<Correlation<Phc>> {
        let reading = tightest(|| self.ticks())?;
        // What its stamps round off counts where a tick is long.
        Ok(Correlation { error_ns: reading.error_ns + self.rate.ns(1), ..reading })
    }
}

/// Probes through a queue of their own; whoever receives the load leaves them in the mailbox.
struct Probes {
    sends: Arc<Opened>,
    receives: Arc<Opened>,
    frame: SyncMessage,
    mailbox: Arc<Mailbox>,
}

impl Probes {
    fn left(&self) -> Option<u64> {
        let mut ns = 0;
        // SAFETY: `ns` is valid for writes.
        (unsafe { ffi::usect_dpdk_probe_left(self.sends.0.id, &raw mut ns) } == 0).then_some(ns)
    }

    fn arrived(&self, number: u16) -> Option<u64> {
        let last = self.mailbox.last.lock().expect("no holder panics").take();
        last.filter(|&(of, _)| of == number).map(|(_, ns)| ns)
    }
}

/// A stamp that lies between `from` and now on its device's clock: drivers give old ones, and none, for new ones.
fn fresh(stamp: Option<u64>, device: &Opened, from: u64) -> io::Result<Option<u64>> {
    let Some(ns) = stamp else { return Ok(None) };
    Ok((from..=device.ticks(ffi::TIMESYNC)?).contains(&ns).then_some(ns))
}

impl Prober for Probes {
    fn probe(&mut self, number: u16) -> io::Result<Stamps> {
        // One that an earlier probe left late.
        self.left();
        let from = (self.sends.ticks(ffi::TIMESYNC)?, self.receives.ticks(ffi::TIMESYNC)?);
        let frame = self.frame.numbered(number);
        // SAFETY: the frame is valid for reads of its length, and this queue is ours.
        let failed = unsafe { ffi::usect_dpdk_probe(&raw const self.sends.0, frame.as_ptr(), frame.len() as u32) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(-failed));
        }
        let begun = Instant::now();
        let mut stamps = Stamps::default();
        while begun.elapsed() < PATIENCE && !stamps.are_there() {
            // A register each; the card needs some microseconds.
            std::thread::sleep(Duration::from_micros(20));
            if stamps.left.is_none() {
                stamps.left = fresh(self.left(), &self.sends, from.0)?;
            }
            if stamps.arrived.is_none() {
                stamps.arrived = fresh(self.arrived(number), &self.receives, from.1)?;
            }
        }
        Ok(stamps)
    }
}
