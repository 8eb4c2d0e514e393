//! Where the two ends of a matrix are: in a lab that is made anew for every trial, or at interfaces of the user's own, on one host or two.

use super::agent::{self, Agent, Unstarted};
use super::end::{self, Answer, End, Found, Here, Order};
use crate::RigError;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use usect_core::environment::Environment;
use usect_core::inventory::{Host, Inventory};
use usect_core::matrix::{Became, Matrix, Way};
use usect_lab::Link;

/// Least MTU of IPv6 (RFC 8200 §5).
const LEAST_OF_IPV6: u16 = 1280;
/// Between two attempts to reach a host.
const BLINK: Duration = Duration::from_secs(2);

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
    /// Errors: an interface or the host isn't there, or what is sent from one to the other takes another way.
    pub fn reach(inventory: Inventory, matrix: &Matrix) -> Result<Own, RigError> {
        if let Some(mtu) = matrix.vary.mtu.iter().find(|mtu| **mtu < LEAST_OF_IPV6) {
            return Err(RigError::Asked(format!(
                "an MTU of {mtu} takes IPv6 away from an interface, with its addresses: on interfaces of your own use {LEAST_OF_IPV6} or more"
            )));
        }
        let near = usect_lab::named(&inventory.near.interface)?;
        let (mut far, found) = reach(&inventory.far).map_err(|unstarted| unstarted.why)?;
        if near.ipv4()? == found.address {
            let (near, far, address) = (&inventory.near, &inventory.far, found.address);
            return Err(RigError::Asked(format!(
                "{} of {} and {} of {} are both at {address}: name two interfaces, each with an address of its own",
                near.interface, near.name, far.interface, far.name
            )));
        }
        check_ways(&near, &mut far, found.address)?;
        Ok(Own { inventory, near, far, found })
    }

    /// The ends in words.
    pub fn ends(&self) -> Vec<String> {
        let Inventory { near, far } = &self.inventory;
        let words = |host: &Host, address: Option<Ipv4Addr>| {
            let address = address.map_or("no address".into(), |address| address.to_string());
            format!("{}, {}, {address}", host.name, host.interface)
        };
        vec![words(near, self.near.address), words(far, Some(self.found.address))]
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

    /// The near end of a trial, the far one, and the far one's address; reached again where it was lost.
    pub(super) fn ends_for(&mut self, way: Way, stop: &AtomicBool) -> Result<(Here, &mut End, Ipv4Addr), Became> {
        if way != Way::Direct {
            return Err(Became::Unavailable(format!(
                "what stands between interfaces of one's own is as it is, and can't be {way}: measure without `path`"
            )));
        }
        let begun = Instant::now();
        while self.far.is_gone() {
            match reach(&self.inventory.far) {
                Ok((mut far, found)) if found.address == self.found.address => {
                    check_ways(&self.near, &mut far, found.address)?;
                    self.far = far;
                }
                Ok((_, found)) => {
                    let (was, name) = (self.found.address, &self.inventory.far.name);
                    return Err(Became::Failed(format!("{name} came back as {}, and was {was}", found.address)));
                }
                _ if stop.load(Relaxed) => return Err(Became::Failed("it was interrupted".into())),
                // One that nobody speaks to any more ends after some time.
                Err(Unstarted { refused: true, .. }) if begun.elapsed() < agent::SILENCE + BLINK => {
                    std::thread::sleep(BLINK);
                }
                Err(unstarted) => return Err(unstarted.why.into()),
            }
        }
        let account = if self.inventory.far.ssh.is_some() { "usect, first end" } else { BOTH };
        Ok((Here::at(self.near.clone(), Some(account)), &mut self.far, self.found.address))
    }
}

/// Fails where what one end sends to the other leaves by another interface than its own.
fn check_ways(near: &Link, far: &mut End, address: Ipv4Addr) -> Result<(), RigError> {
    end::check_way(near, address)?;
    let back = near.ipv4()?;
    match far.ask(Order::CheckWay { to: back }) {
        Err(Became::Failed(why) | Became::Unavailable(why)) => {
            Err(RigError::Asked(format!("{why} (the way back to {back})")))
        }
        _ => Ok(()),
    }
}

/// Who accounts for both ends where they are on one host.
pub(super) const BOTH: &str = "usect, both ends";

fn reach(host: &Host) -> Result<(End, Found), Unstarted> {
    match &host.ssh {
        None => {
            let here = Here::at(usect_lab::named(&host.interface).map_err(RigError::from)?, None);
            let found = here.found()?;
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
    let cleared = here.obey(Order::Clear);
    served.map_err(|e| RigError::Asked(e.to_string()))?;
    match cleared {
        Ok(_) => Ok(()),
        Err(Became::Failed(why) | Became::Unavailable(why)) => Err(RigError::Asked(why)),
        Err(Became::Seen(_)) => unreachable!("clearing sees nothing"),
    }
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
