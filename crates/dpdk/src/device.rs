//! A started device as a port: queue 0, both ways.

use crate::eal::{complaint, log};
use crate::ffi::{self, Counters, Device, Frame};
use crate::{DpdkError, is_pci};
use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use usect_core::stages::Point;
use usect_port::probes::SyncMessage;
use usect_port::{BATCH, Caps, Found, Port, Receive, Transmit};

/// Longest wait for the device to take a batch, before it is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the last device that could not be closed was left open, until somebody asks.
static LEFT_OPEN: Mutex<Option<DpdkError>> = Mutex::new(None);

/// A device, closed and removed when both halves are gone.
#[derive(Debug)]
pub(crate) struct Opened(pub(crate) Device, Mutex<Registers>);

// SAFETY: the device's own calls are made from one thread at a time (opening, closing; its registers, under the lock) or are
// per queue and direction, each of which one half owns, as one thread reads the stamps of each direction; pools may be used
// from any thread.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        let device = &mut *self;
        // In a thread of its own, which stays in the device's namespace until it ends.
        let closed = std::thread::scope(|scope| scope.spawn(|| device.close()).join());
        let Err(error) = closed.expect("closing a device does not panic") else { return };
        let why = format!("its network namespace can't be entered to close it, so it stays open: {error}");
        *LEFT_OPEN.lock().expect("no holder panics") = Some(DpdkError::device(&driver(&self.0), why));
    }
}

/// Fails where a device could not be closed since this was last asked.
pub fn closed() -> Result<(), DpdkError> {
    LEFT_OPEN.lock().expect("no holder panics").take().map_or(Ok(()), Err)
}

/// What drivers keep a state for that two threads must not touch at once: whoever reads has it for itself.
#[derive(Debug)]
pub(crate) struct Registers {
    id: u16,
}

impl Registers {
    fn ticks(&mut self, clock: u8) -> io::Result<u64> {
        let mut ticks = 0;
        // SAFETY: `ticks` is valid for writes, and the device is open.
        match unsafe { ffi::usect_dpdk_clock(self.id, clock.into(), &raw mut ticks) } {
            0 => Ok(ticks),
            failed => Err(io::Error::from_raw_os_error(-failed)),
        }
    }

    fn counters(&mut self) -> Option<Counters> {
        let mut counters = Counters::default();
        // SAFETY: `counters` is valid for writes, and the device is open.
        let failed = unsafe { ffi::usect_dpdk_counters(self.id, &raw mut counters) };
        (failed == 0).then_some(counters)
    }
}

/// Opens a device for frames of up to `largest` bytes without FCS, after [`crate::start`], with what it has of a
/// card's stamps where `stamps` asks for them. What a virtual device opens of the system, it opens in the calling
/// thread's namespace.
pub fn open(device: &str, largest: usize, stamps: bool) -> Result<Port<DpdkTx, DpdkRx>, DpdkError> {
    closed()?;
    if is_pci(device) {
        check_pci(device)?;
    }
    let name = CString::new(device).map_err(|_| DpdkError::device(device, "its name has a zero byte"))?;
    let mut opened = Device {
        id: 0,
        mac: [0; 6],
        driver: [0; 32],
        tx_pool: std::ptr::null_mut(),
        rx_pool: std::ptr::null_mut(),
        netns: -1,
        timesync: 0,
        arrivals: ffi::NO_CLOCK,
    };
    log();
    // SAFETY: the name is terminated, and `opened` is valid for writes.
    let failed = unsafe { ffi::usect_dpdk_open(name.as_ptr(), largest as u32, stamps.into(), &raw mut opened) };
    if failed != 0 {
        let error = io::Error::from_raw_os_error(-failed).to_string();
        return Err(DpdkError::device(device, complaint(&log()).unwrap_or(error)));
    }
    let pretends = if opened.arrivals == ffi::WALL_US { ", whose stamps are the kernel's, not a card's" } else { "" };
    let note = format!("DPDK, {}{pretends}", driver(&opened));
    let caps = Caps { frames: true, blocks: false, note, stamps: Vec::new() };
    let by_card = if opened.arrivals == ffi::NO_CLOCK { Vec::new() } else { vec![Point::CardIn] };
    let registers = Mutex::new(Registers { id: opened.id });
    let opened = Arc::new(Opened(opened, registers));
    let tx = DpdkTx { device: opened.clone(), frames: [Frame::NONE; BATCH], ready: false, caps: caps.clone() };
    Ok(Port {
        tx,
        rx: DpdkRx { device: opened, caps: Caps { stamps: by_card, ..caps }, probes: None, counts: is_pci(device) },
    })
}

pub(crate) fn driver(device: &Device) -> String {
    let bytes = device.driver.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8(bytes).unwrap_or_else(|_| "unknown driver".into())
}

/// Says what is wrong with a PCI device before DPDK, which would only say that it failed.
fn check_pci(device: &str) -> Result<(), DpdkError> {
    let address = device.split(',').next().unwrap_or(device);
    let full = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
    let path = Path::new("/sys/bus/pci/devices").join(&full);
    if !path.exists() {
        return Err(DpdkError::device(device, "there is no PCI device of this address (`lspci -D` lists them)"));
    }
    let driver = std::fs::read_link(path.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    match driver {
        Some("vfio-pci" | "uio_pci_generic" | "igb_uio" | "mlx5_core" | "mlx4_core") => Ok(()),
        Some(driver) => Err(DpdkError::device(
            device,
            format!(
                "it is bound to the kernel's driver `{driver}`; bind it to vfio-pci (`dpdk-devbind.py -b vfio-pci {full}`), \
                 which takes it from the kernel"
            ),
        )),
        None => Err(DpdkError::device(
            device,
            format!("it is bound to no driver; bind it to vfio-pci (`dpdk-devbind.py -b vfio-pci {full}`)"),
        )),
    }
}

/// The sending half.
pub struct DpdkTx {
    pub(crate) device: Arc<Opened>,
    /// Buffers for the next batch; all of them are ours while `ready`.
    frames: [Frame; BATCH],
    ready: bool,
    caps: Caps,
}

/// The receiving half.
pub struct DpdkRx {
    pub(crate) device: Arc<Opened>,
    pub(crate) caps: Caps,
    /// Where PTP's frames are left, and the card's stamps of them, for who sends probes.
    pub(crate) probes: Option<Arc<Mailbox>>,
    /// Whether the driver counts what found no room; virtual ones mostly don't.
    counts: bool,
}

/// Where the receiver of the load leaves probes.
pub(crate) struct Mailbox {
    pub(crate) frame: SyncMessage,
    /// The number of the last probe that arrived and the card's stamp of it; nothing once it is taken.
    pub(crate) last: Mutex<Option<(u16, u64)>>,
}

// SAFETY: the buffers are owned by this half and may be used from any thread.
unsafe impl Send for DpdkTx {}

impl Drop for DpdkTx {
    fn drop(&mut self) {
        if self.ready {
            // SAFETY: the buffers are ours.
            unsafe { ffi::usect_dpdk_free(self.frames.as_mut_ptr(), BATCH as u16) };
        }
    }
}

impl DpdkTx {
    /// The device's hardware address.
    pub fn mac(&self) -> [u8; 6] {
        self.device.0.mac
    }

    /// Hands frames to the device until it has them all.
    fn flush(&mut self, filled: usize) -> io::Result<()> {
        let mut taken = 0;
        let mut begun = None;
        while taken < filled {
            let rest = &mut self.frames[taken..filled];
            // SAFETY: the frames are ours until the device takes them, and filled to their length.
            taken +=
                usize::from(unsafe { ffi::usect_dpdk_send(self.device.0.id, rest.as_mut_ptr(), rest.len() as u16) });
            if taken < filled && begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let rest = &mut self.frames[taken..];
                // SAFETY: these are still ours, those before are the device's.
                unsafe { ffi::usect_dpdk_free(rest.as_mut_ptr(), rest.len() as u16) };
                self.ready = false;
                return Err(io::Error::other(format!("the device takes no more frames{}", self.counters())));
            }
        }
        Ok(())
    }

    fn counters(&self) -> String {
        match self.device.counters() {
            Some(counters) => format!(" ({} missed, {} errors)", counters.missed, counters.errors),
            None => String::new(),
        }
    }
}

impl Opened {
    fn close(&mut self) -> io::Result<()> {
        // SAFETY: it was opened, and nobody uses it any more.
        match unsafe { ffi::usect_dpdk_close(&raw mut self.0) } {
            0 => Ok(()),
            failed => Err(io::Error::from_raw_os_error(-failed)),
        }
    }

    /// Reads one of its clocks.
    pub(crate) fn ticks(&self, clock: u8) -> io::Result<u64> {
        self.1.lock().expect("no holder panics").ticks(clock)
    }

    fn counters(&self) -> Option<Counters> {
        self.1.lock().expect("no holder panics").counters()
    }
}

impl Transmit for DpdkTx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn prepare(&mut self, template: &[u8]) {
        // SAFETY: the template is valid for reads of its length; whether buffers have room for it is checked.
        let failed = unsafe { ffi::usect_dpdk_fill(self.device.0.tx_pool, template.as_ptr(), template.len() as u32) };
        assert_eq!(
            failed,
            0,
            "a frame of {} bytes is larger than the buffers that the device was opened with",
            template.len()
        );
    }

    #[inline]
    fn send(&mut self, mut fill: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        if !self.ready {
            let (pool, frames) = (self.device.0.tx_pool, self.frames.as_mut_ptr());
            // SAFETY: room for BATCH frames.
            self.ready = unsafe { ffi::usect_dpdk_alloc(pool, frames, BATCH as u16) } == 0;
        }
        if !self.ready {
            return Ok(0);
        }
        let mut filled = 0;
        for frame in &mut self.frames {
            // SAFETY: the buffer is ours, and has this room.
            let room = unsafe { std::slice::from_raw_parts_mut(frame.data, frame.room as usize) };
            let Some(length) = fill(room) else { break };
            assert!(length <= room.len(), "a frame of {length} bytes in a buffer of {}", room.len());
            frame.length = length as u32;
            filled += 1;
        }
        if filled > 0 {
            self.flush(filled)?;
            self.refill(filled);
        }
        Ok(filled)
    }
}

impl DpdkTx {
    /// Replaces the buffers that left; where there are none, the rest goes back until there are.
    #[inline]
    fn refill(&mut self, left: usize) {
        // SAFETY: room for `left` frames, none of which is ours any more.
        let failed = unsafe { ffi::usect_dpdk_alloc(self.device.0.tx_pool, self.frames.as_mut_ptr(), left as u16) };
        if failed != 0 {
            let rest = &mut self.frames[left..];
            // SAFETY: these are still ours.
            unsafe { ffi::usect_dpdk_free(rest.as_mut_ptr(), rest.len() as u16) };
            self.ready = false;
        }
    }
}

impl Receive for DpdkRx {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn recv_some(&mut self, most: usize, mut each: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        let mut frames = [Frame::NONE; BATCH];
        // SAFETY: room for BATCH frames.
        let received =
            unsafe { ffi::usect_dpdk_receive(self.device.0.id, frames.as_mut_ptr(), most.min(BATCH) as u16) };
        if received == 0 {
            return Ok(0);
        }
        let now = usect_clock::tsc();
        for frame in &frames[..usize::from(received)] {
            // SAFETY: the device filled the buffer to this length, and it is ours until it is freed.
            let bytes = unsafe { std::slice::from_raw_parts(frame.data, frame.length as usize) };
            match &self.probes {
                Some(probes) if SyncMessage::is_ptp(bytes) => self.probe_arrived(probes, frame, bytes),
                _ => each(bytes, Found { card: frame.stamp, ..Found::at(now) }),
            }
        }
        // SAFETY: they are ours, and nothing borrows from them any more.
        unsafe { ffi::usect_dpdk_free(frames.as_mut_ptr(), received) };
        Ok(usize::from(received))
    }

    fn overruns(&mut self) -> Option<u64> {
        self.device.counters().filter(|_| self.counts).map(|counters| counters.missed)
    }
}

impl DpdkRx {
    /// Leaves a probe with its stamp, which the card keeps until it is read; so it is read for others' too.
    #[cold]
    fn probe_arrived(&self, probes: &Mailbox, frame: &Frame, bytes: &[u8]) {
        let mut ns = 0;
        // SAFETY: the frame is ours until it is freed, and `ns` is valid for writes.
        let failed = unsafe { ffi::usect_dpdk_probe_arrived(self.device.0.id, frame, &raw mut ns) };
        if let (0, Some(number)) = (failed, probes.frame.number(bytes)) {
            *probes.last.lock().expect("no holder panics") = Some((number, ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::IntoRawFd;

    /// Its namespace is none: DPDK must not be asked to take anything off interfaces of another.
    #[test]
    fn a_device_whose_namespace_cannot_be_entered_stays_open_which_is_told() {
        let device = Device {
            id: u16::MAX,
            mac: [0; 6],
            driver: "net_af_xdp".bytes().map(|c| c as _).chain([0; 22]).collect::<Vec<_>>().try_into().unwrap(),
            tx_pool: std::ptr::null_mut(),
            rx_pool: std::ptr::null_mut(),
            netns: File::open("/dev/null").unwrap().into_raw_fd(),
            timesync: 0,
            arrivals: ffi::NO_CLOCK,
        };
        let netns = device.netns;
        drop(Opened(device, Mutex::new(Registers { id: u16::MAX })));
        let said = closed().unwrap_err().to_string();
        assert!(said.contains("net_af_xdp") && said.contains("stays open: Invalid argument"), "{said}");
        assert_eq!(closed(), Ok(()), "once");
        // As DPDK's is left, so is what is needed to close it.
        assert!(std::path::Path::new(&format!("/proc/self/fd/{netns}")).exists());
    }
}
