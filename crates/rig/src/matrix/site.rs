//! Where the two ends of a matrix are: in a lab that is made anew for every trial, or at interfaces of the user's own, on one host or two.

use super::agent::{self, Agent};
use super::end::{Answer, End, Found, Here, Order};
use crate::RigError;
use std::sync::atomic::AtomicBool;
use usect_core::environment::Environment;
use usect_core::inventory::{Host, Inventory};
use usect_core::matrix::{Became, Way};
use usect_lab::Link;

/// Where the ends are.
pub enum Site {
    /// In a lab.
    Lab,
    /// At interfaces of the user's own.
    Own(Box<Own>),
}

/// Two interfaces of the user's own. What is set up of them is put back when this is dropped.
pub struct Own {
    inventory: Inventory,
    near: Link,
    far: End,
    found: Found,
}

impl Own {
    /// Looks for the two ends; a far one on another host is started there.
    ///
    /// Errors: an interface or the host isn't there.
    pub fn reach(inventory: Inventory) -> Result<Own, RigError> {
        let near = usect_lab::named(&inventory.near.interface)?;
        let (far, found) = reach(&inventory.far)?;
        let own = Own { inventory, near, far, found };
        for (host, address) in [(&own.inventory.near, own.near.address), (&own.inventory.far, own.found.address)] {
            if address.is_none() {
                return Err(RigError::Asked(format!(
                    "{}: {} has no IPv4 address, which load and probes need: `ip addr add` gives it one",
                    host.name, host.interface
                )));
            }
        }
        Ok(own)
    }

    /// The ends in words.
    pub fn ends(&self) -> Vec<String> {
        let Inventory { near, far } = &self.inventory;
        let words = |host: &Host, address: Option<std::net::Ipv4Addr>| {
            let address = address.map_or("no address".into(), |address| address.to_string());
            format!("{}, {}, {address}", host.name, host.interface)
        };
        vec![words(near, self.near.address), words(far, self.found.address)]
    }

    /// What is known of their interfaces, and of a host that is another one, below `far.`.
    pub fn environment(&self) -> Environment {
        let mut facts = usect_lab::audit::interface(&self.near);
        if self.inventory.far.ssh.is_some() {
            self.found.environment.facts().for_each(|(key, value)| facts.set(format!("far.{key}"), value));
        }
        facts
    }

    /// The name of the far host, where it is another one.
    pub(super) fn other_host(&self) -> Option<&str> {
        self.inventory.far.ssh.as_ref().map(|_| self.inventory.far.name.as_str())
    }

    /// The two ends of a trial.
    pub(super) fn ends_for(&mut self, way: Way) -> Result<(Here, std::net::Ipv4Addr, &mut End), Became> {
        if way != Way::Direct {
            return Err(Became::Unavailable(format!(
                "what stands between interfaces of one's own is as it is, and can't be {way}: measure without `path`"
            )));
        }
        if matches!(&self.far, End::There(agent) if agent.is_gone()) {
            (self.far, self.found) = reach(&self.inventory.far)?;
        }
        let address = self.found.address.ok_or_else(|| Became::Failed("the far end has lost its address".into()))?;
        let account = if self.inventory.far.ssh.is_some() { "usect, first end" } else { BOTH };
        Ok((Here::at(self.near.clone(), Some(account)), address, &mut self.far))
    }
}

/// Who accounts for both ends where they are on one host.
pub(super) const BOTH: &str = "usect, both ends";

fn reach(host: &Host) -> Result<(End, Found), RigError> {
    match &host.ssh {
        None => {
            let here = Here::at(usect_lab::named(&host.interface)?, None);
            let found = here.found();
            Ok((End::Here(Box::new(here)), found))
        }
        Some(ssh) => {
            let (agent, found) = Agent::start(&host.name, ssh, &host.interface)?;
            Ok((End::There(agent), found))
        }
    }
}

/// Obeys orders from another host for an interface of this one, until there are no more.
///
/// Errors: there is no such interface; the connection is lost. Everything was put back.
pub fn serve(interface: &str, stop: &AtomicBool) -> Result<(), RigError> {
    let mut here = Here::at(usect_lab::named(interface)?, Some("usect, second end"));
    let served = agent::serve(&mut here, std::io::stdin(), std::io::stdout(), stop);
    // Whatever the last order was.
    let _ = here.obey(Order::Clear);
    served.map_err(|e| RigError::Asked(e.to_string()))
}

/// What an end answers to an order that has no other answer.
pub(super) fn done(answer: Answer) -> Result<(), Became> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn unexpected(answer: &Answer) -> Became {
    Became::Failed(format!("the far end answers what wasn't asked: {answer:?}"))
}
