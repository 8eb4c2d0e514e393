//! What an interface's driver says that it can do with XDP (`NETDEV_XDP_ACT_*` of linux/netdev.h). Nothing is
//! tried.

use std::io;

const BASIC: u64 = 1;
const NDO_XMIT: u64 = 4;
const XSK_ZEROCOPY: u64 = 8;

/// What a driver says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Runs programs natively, before a socket buffer exists.
    pub native: bool,
    /// Sends frames that a program on another interface, or a live test run, hands over.
    pub sends: bool,
    /// Shares packet memory with AF_XDP sockets.
    pub zero_copy: bool,
}

/// Asks the driver of an interface of the calling thread's namespace.
pub fn features(ifindex: u32) -> io::Result<Features> {
    let mut options =
        libbpf_sys::bpf_xdp_query_opts { sz: size_of::<libbpf_sys::bpf_xdp_query_opts>() as u64, ..Default::default() };
    // SAFETY: `options` is valid for reads and writes of the size that it states.
    let failed = unsafe { libbpf_sys::bpf_xdp_query(ifindex as i32, 0, &raw mut options) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(-failed));
    }
    let has = |feature| options.feature_flags & feature != 0;
    Ok(Features { native: has(BASIC), sends: has(NDO_XMIT), zero_copy: has(XSK_ZEROCOPY) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_native_xdp_and_what_is_not_there_is_an_error() {
        let loopback = features(1).unwrap();
        assert!(!loopback.native && !loopback.zero_copy);
        assert!(features(999_999).is_err());
    }
}
