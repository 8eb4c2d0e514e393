//! The forwarder in the kernel: an XDP program that redirects between two interfaces.

use crate::{Dut, DutError, Report};
use libbpf_rs::ProgramMut;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use usect_lab::{Link, within};

#[allow(missing_docs, unreachable_pub, clippy::undocumented_unsafe_blocks, clippy::all, reason = "generated")]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/redirect.skel.rs"));
}

/// The attached program; closing its links detaches it.
#[derive(Debug)]
pub struct Redirect {
    _links: [OwnedFd; 2],
}

impl Redirect {
    /// Attaches the program to two interfaces of one namespace.
    pub fn start(left: &Link, right: &Link) -> Result<Redirect, DutError> {
        let _links = within(left.netns.as_deref(), || attach(left.index, right.index))??;
        Ok(Redirect { _links })
    }
}

fn attach(left: u32, right: u32) -> Result<[OwnedFd; 2], DutError> {
    let failed =
        |doing| move |e: libbpf_rs::Error| DutError::Program { doing, why: format!("{e:#}").replace('\n', " ") };
    let mut object = MaybeUninit::uninit();
    let mut open = skel::RedirectSkelBuilder::default().open(&mut object).map_err(failed("opened"))?;
    let constants = open.maps.rodata_data.as_mut().expect("the program has constants");
    (constants.left, constants.right) = (left, right);
    let skel = open.load().map_err(failed("loaded"))?;
    let link = |ifindex| link(&skel.progs.forward, ifindex).map_err(failed("attached"));
    Ok([link(left)?, link(right)?])
}

fn link(program: &ProgramMut<'_>, ifindex: u32) -> Result<OwnedFd, libbpf_rs::Error> {
    let link = program.attach_xdp(ifindex as i32)?;
    Ok(link.as_fd().try_clone_to_owned()?)
}

impl Dut for Redirect {
    fn stop(self: Box<Self>) -> Result<Report, DutError> {
        Ok(Report::default())
    }
}
