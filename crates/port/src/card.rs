//! Cards that stamp frames themselves: what a driver offers (`ETHTOOL_GET_TS_INFO`), and switching it on
//! (`SIOCSHWTSTAMP`) and back.

use std::ffi::c_char;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Info {
    command: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    reserved: [u32; 3],
    rx_filters: u32,
    reserved_too: [u32; 3],
}

/// Which of the frames that arrive a card can stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receives {
    /// None.
    Nothing,
    /// Some of PTP's own, one at a time.
    PtpOnly,
    /// Every frame.
    All,
}

/// What a driver offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Whether the driver stamps frames that it sends, in software.
    pub software_out: bool,
    /// Whether the stack stamps frames that arrive.
    pub software_in: bool,
    /// Whether the card stamps frames that it sends.
    pub card_out: bool,
    /// Which arrivals the card stamps.
    pub card_in: Receives,
    /// The number of the card's clock.
    pub clock: Option<u32>,
    filters: u32,
}

/// PTP messages over Ethernet, the filters that let Sync through, narrowest first.
const PTP_FILTERS: [libc::c_uint; 4] = [
    libc::HWTSTAMP_FILTER_PTP_V2_L2_SYNC,
    libc::HWTSTAMP_FILTER_PTP_V2_L2_EVENT,
    libc::HWTSTAMP_FILTER_PTP_V2_SYNC,
    libc::HWTSTAMP_FILTER_PTP_V2_EVENT,
];

/// A socket that stands for the calling thread's namespace, for ioctls by an interface's name.
fn control() -> io::Result<UdpSocket> {
    UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))
}

fn request<T>(socket: &UdpSocket, interface: &str, number: libc::c_ulong, data: &mut T) -> io::Result<()> {
    // SAFETY: plain integers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    request.ifr_name.iter_mut().zip(name).for_each(|(to, &from)| *to = from as c_char);
    request.ifr_ifru.ifru_data = std::ptr::from_mut(data).cast();
    // SAFETY: the name is terminated, and `data` is the structure that this request reads and writes.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut request) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the driver of an interface of the calling thread's namespace offers.
pub fn offer(interface: &str) -> io::Result<Offer> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut info = Info { command: ETHTOOL_GET_TS_INFO, ..Info::default() };
    request(&control()?, interface, SIOCETHTOOL, &mut info)?;
    let can = |flag: libc::c_uint| info.so_timestamping & flag != 0;
    let passes = |filter: libc::c_uint| info.rx_filters & (1 << filter) != 0;
    let raw = can(libc::SOF_TIMESTAMPING_RAW_HARDWARE);
    let card_in = match () {
        () if !raw || !can(libc::SOF_TIMESTAMPING_RX_HARDWARE) => Receives::Nothing,
        () if passes(libc::HWTSTAMP_FILTER_ALL) => Receives::All,
        () if PTP_FILTERS.into_iter().any(passes) => Receives::PtpOnly,
        () => Receives::Nothing,
    };
    Ok(Offer {
        software_out: can(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
        software_in: can(libc::SOF_TIMESTAMPING_RX_SOFTWARE),
        card_out: raw && can(libc::SOF_TIMESTAMPING_TX_HARDWARE) && info.tx_types & (1 << libc::HWTSTAMP_TX_ON) != 0,
        card_in,
        clock: u32::try_from(info.phc_index).ok(),
        filters: info.rx_filters,
    })
}

type Config = libc::hwtstamp_config;

/// How a card was set before: the type of its departures' stamps, the filter of its arrivals'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// `HWTSTAMP_TX_*`.
    pub tx_type: i32,
    /// `HWTSTAMP_FILTER_*`.
    pub rx_filter: i32,
}

/// A card that stamps, until it is set back.
#[derive(Debug)]
pub struct Stamping {
    socket: UdpSocket,
    interface: String,
    before: Before,
}

impl Stamping {
    /// How an interface of the calling thread's namespace is set now; off, as cards are at first, where its driver
    /// can't say.
    pub fn now(interface: &str) -> io::Result<Before> {
        let mut config = Config { flags: 0, tx_type: 0, rx_filter: 0 };
        match request(&control()?, interface, libc::SIOCGHWTSTAMP, &mut config) {
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Err(e),
            _ => Ok(Before { tx_type: config.tx_type, rx_filter: config.rx_filter }),
        }
    }

    /// Has the card of an interface of the calling thread's namespace stamp all frames that it `sends` for a socket
    /// that asks, and of those that it `receives` all, or PTP's alone. What is not asked for stays as it is.
    pub fn on(interface: &str, offer: &Offer, sends: bool, receives: bool) -> io::Result<Stamping> {
        let before = Stamping::now(interface)?;
        let all = offer.card_in == Receives::All;
        let passes = |filter: &libc::c_uint| offer.filters & (1 << *filter) != 0;
        let filter = if all { Some(libc::HWTSTAMP_FILTER_ALL) } else { PTP_FILTERS.into_iter().find(passes) };
        let rx_filter = match filter {
            Some(filter) if receives => filter as i32,
            None if receives => return Err(io::Error::from_raw_os_error(libc::ERANGE)),
            _ => before.rx_filter,
        };
        let tx_type = if sends { libc::HWTSTAMP_TX_ON as i32 } else { before.tx_type };
        let stamping = Stamping { socket: control()?, interface: interface.to_owned(), before };
        stamping.set(Before { tx_type, rx_filter })?;
        Ok(stamping)
    }

    fn set(&self, Before { tx_type, rx_filter }: Before) -> io::Result<()> {
        request(&self.socket, &self.interface, libc::SIOCSHWTSTAMP, &mut Config { flags: 0, tx_type, rx_filter })
    }

    /// Sets it back to how it was. One that is gone needs no setting.
    pub fn set_back(&self) -> io::Result<()> {
        match self.set(self.before) {
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            result => result,
        }
    }

    /// Sets an interface of the calling thread's namespace back to how it was before somebody else switched it on.
    pub fn restore(interface: &str, before: Before) -> io::Result<()> {
        Stamping { socket: control()?, interface: interface.to_owned(), before }.set_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_stamps_in_software_alone() {
        let offer = offer("lo").unwrap();
        assert!(offer.software_out && offer.software_in && !offer.card_out && offer.clock.is_none(), "{offer:?}");
        assert_eq!(offer.card_in, Receives::Nothing);
        assert!(Stamping::on("lo", &offer, true, true).is_err());
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        assert_eq!(offer("no-such").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert!(offer("a-name-that-is-too-long-for-the-kernel").is_err());
    }
}
