//! The instructions and system calls behind [`crate::Clock`]. The crate's only unsafe code.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use usect_core::instant::{Mono, Tsc};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("usect reads the x86-64 time-stamp counter; other processors are not supported yet");

/// Now, on the time-stamp counter. Not serialising: about 10 ns on its own, and it may slip by a few
/// instructions.
#[inline]
pub fn tsc() -> Tsc {
    // SAFETY: RDTSC has no memory effects; Linux leaves it enabled for user space unless a process asks
    // otherwise with PR_SET_TSC, which usect doesn't.
    Tsc(unsafe { core::arch::x86_64::_rdtsc() })
}

/// Whether the counter runs at one speed in every power state (Intel SDM vol. 3, §18.17.1).
pub(crate) fn invariant() -> bool {
    const ADVANCED_POWER_MANAGEMENT: u32 = 0x8000_0007;
    let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    highest >= ADVANCED_POWER_MANAGEMENT && core::arch::x86_64::__cpuid(ADVANCED_POWER_MANAGEMENT).edx & (1 << 8) != 0
}

/// A kernel clock, in nanoseconds.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to write to.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(failed, 0, "clock_gettime knows clock {clock} on every Linux");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until an instant of `CLOCK_MONOTONIC`; a signal ends it early.
pub(crate) fn sleep_until(at: Mono) {
    let time = libc::timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
    // SAFETY: `time` is a valid timespec, and no remainder is asked for with an absolute deadline.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut()) };
}

/// The least slack that the kernel takes: 1 ns.
pub(crate) fn least_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Readings of a card's clock of which the tightest is kept.
pub(crate) const CARD_READINGS: u32 = 10;

/// `CLOCK_REALTIME` before, the card's clock, `CLOCK_REALTIME` after, in nanoseconds: the tightest reading.
pub(crate) fn sandwiched_by_kernel(device: &File) -> io::Result<(u64, u64, u64)> {
    // SAFETY: plain integers, for which zero is a value.
    let mut readings: libc::ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
    readings.n_samples = CARD_READINGS;
    // SAFETY: the structure is the one that this request reads and writes.
    let failed = unsafe { libc::ioctl(device.as_raw_fd(), libc::PTP_SYS_OFFSET_EXTENDED, &raw mut readings) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |t: &libc::ptp_clock_time| t.sec as u64 * 1_000_000_000 + u64::from(t.nsec);
    let taken =
        readings.ts[..CARD_READINGS as usize].iter().map(|[before, card, after]| (ns(before), ns(card), ns(after)));
    Ok(taken.min_by_key(|(before, _, after)| after.saturating_sub(*before)).expect("CARD_READINGS > 0"))
}

/// The card's clock, in nanoseconds.
pub(crate) fn card_ns(device: &File) -> io::Result<u64> {
    // FD_TO_CLOCKID of the kernel's Documentation/driver-api/ptp.rst.
    let clock = (!device.as_raw_fd() << 3) | 3;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to write to.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
        _ => Err(io::Error::last_os_error()),
    }
}
