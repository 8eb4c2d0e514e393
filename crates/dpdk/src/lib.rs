//! The `dpdk` engine: any poll-mode driver, by PCI address or virtual device, through a C shim of some
//! functions. Where DPDK isn't installed when usect is built, everything here says so.

#[cfg(not(dpdk))]
mod absent;
#[cfg(dpdk)]
mod device;
#[cfg(dpdk)]
mod eal;
mod error;
#[cfg(dpdk)]
mod ffi;
#[cfg(dpdk)]
mod stamps;

#[cfg(not(dpdk))]
pub use absent::{DpdkRx, DpdkTx, closed, open, stamping, start};
#[cfg(dpdk)]
pub use device::{DpdkRx, DpdkTx, closed, open};
#[cfg(dpdk)]
pub use eal::start;
pub use error::DpdkError;
#[cfg(dpdk)]
pub use stamps::stamping;
use usect_port::Cards;
use usect_port::probes::Prober;

/// How DPDK's environment abstraction layer (EAL) is started, once per process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eal {
    /// The core that it starts on; measuring threads pin themselves.
    pub core: usize,
    /// Whether memory is in hugepages, which must then be there.
    pub hugepages: bool,
    /// PCI devices to be used, by address; all others are left alone.
    pub pci: Vec<String>,
    /// Further arguments, as DPDK documents them.
    pub arguments: Vec<String>,
}

/// How the cards of two devices stamp frames from one to the other.
pub enum Stamping {
    /// Both stamp PTP's own, one at a time (timesync).
    Probes(Cards, Box<dyn Prober>),
    /// The receiving one stamps all that arrive (the receive-timestamp offload), and nobody does as they leave.
    Arrivals(Cards),
}

/// Whether a device's name is a PCI address: `0000:01:00.0`.
pub fn is_pci(device: &str) -> bool {
    let digits =
        |text: &str, lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let address = device.split(',').next().unwrap_or(device);
    let Some((rest, function)) = address.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    digits(function, &[1])
        && match parts[..] {
            [bus, slot] => digits(bus, &[2]) && digits(slot, &[2]),
            [domain, bus, slot] => digits(domain, &[4, 8]) && digits(bus, &[2]) && digits(slot, &[2]),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_told_from_virtual_devices() {
        for pci in ["0000:01:00.0", "01:00.1", "0000:3b:00.0,rxq=2"] {
            assert!(is_pci(pci), "{pci}");
        }
        for other in ["net_ring0", "net_tap0,iface=t0", "", ".", "a.b", "net_af_packet0,iface=eth0.7"] {
            assert!(!is_pci(other), "{other}");
        }
    }
}
