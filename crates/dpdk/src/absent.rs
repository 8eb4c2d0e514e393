//! The crate's surface where DPDK was not there at build time.

use crate::{DpdkError, Eal, Stamping};
use std::io;
use usect_port::{Caps, Found, Port, Receive, Transmit};

/// Never made.
pub enum DpdkTx {}
/// Never made.
pub enum DpdkRx {}

/// Says that DPDK is not built in.
pub fn start(_: &Eal) -> Result<(), DpdkError> {
    Err(DpdkError::NotBuilt)
}

/// Says that DPDK is not built in.
pub fn open(_: &str, _: usize, _: bool) -> Result<Port<DpdkTx, DpdkRx>, DpdkError> {
    Err(DpdkError::NotBuilt)
}

/// There never was a device.
pub fn closed() -> Result<(), DpdkError> {
    Ok(())
}

/// Never called.
pub fn stamping(tx: &DpdkTx, _: &mut DpdkRx, _: [u8; 6]) -> Result<Stamping, DpdkError> {
    match *tx {}
}

impl DpdkTx {
    /// The device's hardware address.
    pub fn mac(&self) -> [u8; 6] {
        match *self {}
    }
}

impl Transmit for DpdkTx {
    fn caps(&self) -> &Caps {
        match *self {}
    }

    fn prepare(&mut self, _: &[u8]) {
        match *self {}
    }

    fn send(&mut self, _: impl FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        match *self {}
    }
}

impl Receive for DpdkRx {
    fn caps(&self) -> &Caps {
        match *self {}
    }

    fn recv_some(&mut self, _: usize, _: impl FnMut(&[u8], Found)) -> io::Result<usize> {
        match *self {}
    }
}
