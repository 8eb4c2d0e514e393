//! `shim.h`, as Rust sees it.

use std::ffi::{c_char, c_int, c_void};

/// `struct usect_frame`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) mbuf: *mut c_void,
    pub(crate) data: *mut u8,
    pub(crate) length: u32,
    pub(crate) room: u32,
    pub(crate) stamp: u64,
}

impl Frame {
    pub(crate) const NONE: Frame =
        Frame { mbuf: std::ptr::null_mut(), data: std::ptr::null_mut(), length: 0, room: 0, stamp: 0 };
}

/// `struct usect_device`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: u16,
    pub(crate) mac: [u8; 6],
    pub(crate) driver: [c_char; 32],
    pub(crate) tx_pool: *mut c_void,
    pub(crate) rx_pool: *mut c_void,
    pub(crate) netns: c_int,
    pub(crate) timesync: u8,
    pub(crate) arrivals: u8,
}

/// The clocks of a card's stamps.
pub(crate) const NO_CLOCK: u8 = 0;
pub(crate) const TIMESYNC: u8 = 1;
pub(crate) const DEVICE_CLOCK: u8 = 2;
pub(crate) const WALL_US: u8 = 3;

/// `struct usect_counters`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) missed: u64,
    pub(crate) errors: u64,
}

unsafe extern "C" {
    pub(crate) fn usect_dpdk_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(crate) fn usect_dpdk_log(text: *mut c_char, size: u32);
    pub(crate) fn usect_dpdk_open(devargs: *const c_char, largest: u32, stamps: c_int, out: *mut Device) -> c_int;
    pub(crate) fn usect_dpdk_close(device: *mut Device) -> c_int;
    pub(crate) fn usect_dpdk_fill(pool: *mut c_void, bytes: *const u8, length: u32) -> c_int;
    pub(crate) fn usect_dpdk_alloc(pool: *mut c_void, frames: *mut Frame, count: u16) -> c_int;
    pub(crate) fn usect_dpdk_free(frames: *mut Frame, count: u16);
    pub(crate) fn usect_dpdk_send(id: u16, frames: *mut Frame, count: u16) -> u16;
    pub(crate) fn usect_dpdk_receive(id: u16, frames: *mut Frame, count: u16) -> u16;
    pub(crate) fn usect_dpdk_probe(device: *const Device, bytes: *const u8, length: u32) -> c_int;
    pub(crate) fn usect_dpdk_probe_left(id: u16, ns: *mut u64) -> c_int;
    pub(crate) fn usect_dpdk_probe_arrived(id: u16, frame: *const Frame, ns: *mut u64) -> c_int;
    pub(crate) fn usect_dpdk_clock(id: u16, clock: c_int, ticks: *mut u64) -> c_int;
    pub(crate) fn usect_dpdk_counters(id: u16, out: *mut Counters) -> c_int;
}
