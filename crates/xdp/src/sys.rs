//! Calls of `bpf(2)` that libbpf-rs has no fitting wrapper for: attaching by descriptor, so that a thread
//! in another namespace can do it, and running a program on live frames with a batch size.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// How an XDP program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XdpMode {
    /// By the driver, before a socket buffer exists.
    Native,
    /// By the core of the stack, for drivers without XDP.
    Generic,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        })
    }
}

/// Attaches an XDP program to an interface of the calling thread's namespace, natively where the driver
/// can. It stays attached until the returned link is closed, by the end of the process at the latest.
pub(crate) fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<(OwnedFd, XdpMode)> {
    match link_xdp(program, ifindex, libbpf_sys::XDP_FLAGS_DRV_MODE) {
        Ok(link) => Ok((link, XdpMode::Native)),
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Ok((link_xdp(program, ifindex, libbpf_sys::XDP_FLAGS_SKB_MODE)?, XdpMode::Generic))
        }
        Err(e) => Err(e),
    }
}

fn link_xdp(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as u64,
        flags,
        ..Default::default()
    };
    // SAFETY: the descriptor is open and `options` is valid during the call.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, libbpf_sys::BPF_XDP, &raw const options)
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: bpf_link_create returned a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Runs `program` `repeat` times, each time on a frame that begins as a copy of `frame` and that seems to
/// arrive at interface `ingress` of the calling thread's namespace; `XDP_TX` sends it out there.
pub(crate) fn live_frames(
    program: BorrowedFd<'_>,
    frame: &[u8],
    ingress: u32,
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let mut context =
        libbpf_sys::xdp_md { data_end: frame.len() as u32, ingress_ifindex: ingress, ..libbpf_sys::xdp_md::default() };
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: (&raw mut context).cast(),
        ctx_size_in: size_of_val(&context) as u32,
        repeat: repeat as i32,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..libbpf_sys::bpf_test_run_opts::default()
    };
    // SAFETY: every pointer in `options` is valid for its size during the call, and no output is asked for.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Runs a program once that needs no frame.
pub(crate) fn run(program: BorrowedFd<'_>) -> io::Result<()> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        ..libbpf_sys::bpf_test_run_opts::default()
    };
    // SAFETY: `options` is valid during the call, and no input or output is asked for.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Runs `program` so often on a frame that seems to arrive at an interface of the calling thread's namespace, and goes nowhere.
#[cfg(test)]
pub(crate) fn dry(program: BorrowedFd<'_>, frame: &[u8], ingress: u32, repeat: u32) -> io::Result<()> {
    let mut context =
        libbpf_sys::xdp_md { data_end: frame.len() as u32, ingress_ifindex: ingress, ..libbpf_sys::xdp_md::default() };
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: (&raw mut context).cast(),
        ctx_size_in: size_of_val(&context) as u32,
        repeat: repeat as i32,
        ..libbpf_sys::bpf_test_run_opts::default()
    };
    // SAFETY: as above.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
