//! The global variables of an eBPF program as a Rust structure of atomics, over the memory that both
//! share.

use crate::error::XdpError;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A type that mirrors what an eBPF program writes.
///
/// # Safety
/// Implementors are `repr(C)` and made of atomics only, so that any bytes are a value of theirs and
/// shared writing is no data race.
pub(crate) unsafe trait Shared {}

/// A map of one value, mapped into memory; it stays valid after the map's descriptor is closed.
pub(crate) struct Mapped<T> {
    memory: NonNull<libc::c_void>,
    length: usize,
    kind: PhantomData<T>,
}

// SAFETY: the memory belongs to this value alone and, by the contract of `Shared`, holds only atomics.
unsafe impl<T: Shared> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Mapped<T> {}

impl<T: Shared> Mapped<T> {
    /// Maps the value of an array map whose one entry has `value_size` bytes and holds a `T`.
    pub(crate) fn new(map: BorrowedFd<'_>, value_size: usize) -> Result<Mapped<T>, XdpError> {
        // An array's values are padded to 8 bytes, which the size of the global variables need not be.
        assert_eq!(
            value_size.next_multiple_of(8),
            size_of::<T>(),
            "the C and Rust layouts of a program's state differ"
        );
        let length = size_of::<T>();
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(memory) {
            Some(memory) if memory.as_ptr() != libc::MAP_FAILED => Ok(Mapped { memory, length, kind: PhantomData }),
            _ => Err(XdpError::os("mapping a program's state into memory", &io::Error::last_os_error())),
        }
    }
}

impl<T: Shared> Deref for Mapped<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the mapping is at least as long as a T, page-aligned, lives as long as self, and any
        // bytes are a T (contract of `Shared`).
        unsafe { self.memory.cast::<T>().as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr(), self.length) };
    }
}
