//! Whether what is sent by XDP from a veth gets through: its other end drops it (`veth_xdp_xmit` of drivers/net/veth.c) unless it
//! polls by NAPI, which an XDP program of its own makes it do, or GRO. Nobody counts what is dropped there.

use crate::RigError;
use crate::client::Opening;
use crate::path::End;
use usect_lab::{Link, within};
use usect_xdp::XdpError;
use usect_xdp::features::features;
use usect_xdp::kernel::KernelClient;

impl Opening<'_> {
    /// Sees to it that the other end of a veth takes what the in-kernel client sends: by a program there, if its namespace is one
    /// that usect made or that the client names.
    ///
    /// Errors: it takes nothing, and isn't ours to touch.
    pub(crate) fn open_veth(&self, client: &mut KernelClient, end: &End) -> Result<(), RigError> {
        let near = end.link.as_ref().expect("kernel ports are named by interface");
        if near.driver != "veth" || takes(near)? {
            return Ok(());
        }
        let far = usect_lab::peer(near)?;
        let Some(ours) = far.as_ref().filter(|far| self.is_ours(far)) else {
            let client = &self.trial.client.name;
            return Err(RigError::Asked(format!("client `{client}`: {}", dropped(near, far.as_ref()))));
        };
        Ok(within(ours.netns.as_deref(), || client.attach_pass(ours.index, &ours.interface))??)
    }

    /// Whether an interface is in a namespace that usect made or that the client names.
    fn is_ours(&self, link: &Link) -> bool {
        let made =
            |netns: &String| usect_lab::list().is_ok_and(|labs| labs.iter().any(|lab| lab.namespaces.contains(netns)));
        let named = [&self.ends.tx, &self.ends.rx].iter().any(|end| end.netns == link.netns);
        named || link.netns.as_ref().is_some_and(made)
    }
}

/// Whether what is sent by XDP from a veth gets through. A kernel that can't say so (before 6.3) is taken to do it.
fn takes(near: &Link) -> Result<bool, RigError> {
    let asked = within(near.netns.as_deref(), || features(near.index))?;
    let features = asked.map_err(|e| XdpError::Refused {
        what: format!("asking what `{}` can do with XDP", near.interface),
        why: e.to_string(),
    })?;
    Ok(features.sends || !features.native)
}

/// Says it, with what would help.
fn dropped(near: &Link, far: Option<&Link>) -> String {
    let place = |link: &Link| match &link.netns {
        Some(netns) => format!("`{}` in namespace {netns}", link.interface),
        None => format!("`{}`", link.interface),
    };
    let gro = |link: &Link| {
        let inside = link.netns.as_ref().map_or(String::new(), |netns| format!("ip netns exec {netns} "));
        format!("`{inside}ethtool -K {} gro on`", link.interface)
    };
    let (which, how) = match far {
        Some(far) => (place(far), gro(far)),
        None => ("in a namespace without a name".to_owned(), "`ethtool -K INTERFACE gro on` there".to_owned()),
    };
    format!(
        "{} is a veth, and its other end, {which}, has neither an XDP program nor GRO, without which it drops what the kernel \
         engine sends; switch GRO on with {how}",
        place(near)
    )
}
