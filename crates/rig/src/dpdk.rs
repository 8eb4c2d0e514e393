//! Opening a client over devices of DPDK, and what their cards stamp.

use crate::RigError;
use crate::client::{Opened, Opening};
use crate::open::{self, LAB_DRIVER, lab_device};
use crate::path::End;
use std::sync::Arc;
use usect_core::port_name::{Place, PortName};
use usect_core::scenario::Stamp;
use usect_dpdk::{DpdkRx, DpdkTx, Stamping};
use usect_port::Route;
use usect_port::probes::Probed;

impl Opening<'_> {
    /// Opens the client over the devices that it names, or those on the lab's interfaces.
    pub(crate) fn dpdk(&self, largest: usize) -> Result<Opened, RigError> {
        let spec = &self.trial.client;
        let mut ends = self.ends.clone();
        let (near, far) = (self.device(&ends.tx, &spec.tx, 0), self.device(&ends.rx, &spec.rx, 1));
        let mut port = open::dpdk(&ends.tx, &near, largest, self.route.stamp)?;
        (ends.tx.endpoint.mac, ends.rx.endpoint.mac) = (port.tx.mac(), port.tx.mac());
        if near == far {
            // A device that loops, such as net_ring or a cabled port: what it sends comes in there.
            if self.rig.both {
                return Err(RigError::Asked("a device that loops has one direction: leave both out".into()));
            }
            let stamping = self.stamping(&port.tx, &mut port.rx, ends.rx.endpoint.mac)?;
            return self.stamped(stamping, |opening| {
                Ok(Opened::alone(opening.client((ends.flow(), ends.flow()), port.tx, port.rx)))
            });
        }
        let mut other = open::dpdk(&ends.rx, &far, largest, self.far_stamp())?;
        ends.rx.endpoint.mac = other.tx.mac();
        let receives = if self.trial.traffic.mode.returns() { &mut port.rx } else { &mut other.rx };
        let stamping = self.stamping(&port.tx, receives, ends.rx.endpoint.mac)?;
        let kernel_sees =
            [(&ends.tx, &near), (&ends.rx, &far)].into_iter().filter(|(_, device)| !usect_dpdk::is_pci(device));
        let sinks = kernel_sees.map(|(end, _)| self.sink(end)).collect::<Result<_, _>>()?;
        Ok(Opened { sinks, ..self.stamped(stamping, |opening| opening.generic(&ends, port, other))? })
    }

    fn device(&self, end: &End, named: &Option<PortName>, number: u32) -> String {
        match (named.as_ref().map(|named| &named.place), &end.link) {
            (Some(Place::Device(device)), _) => device.clone(),
            (_, link) => {
                let link = link.as_ref().expect("the lab's ends are interfaces");
                lab_device(self.trial.client.driver.as_deref().unwrap_or(LAB_DRIVER), number, link)
            }
        }
    }

    /// How the cards stamp, where they are asked to.
    fn stamping(&self, tx: &DpdkTx, rx: &mut DpdkRx, destination: [u8; 6]) -> Result<Option<Stamping>, RigError> {
        if self.route.stamp != Stamp::Nic {
            return Ok(None);
        }
        let stamping = usect_dpdk::stamping(tx, rx, destination)?;
        if self.trial.traffic.mode.returns() && matches!(stamping, Stamping::Probes(..)) {
            return Err(RigError::Asked(
                "stamp = \"nic\": with DPDK these cards stamp PTP's frames alone, and its probes go one way".into(),
            ));
        }
        Ok(Some(stamping))
    }

    /// A client whose frames are stamped so.
    fn stamped(
        &self,
        stamping: Option<Stamping>,
        open: impl FnOnce(&Opening) -> Result<Opened, RigError>,
    ) -> Result<Opened, RigError> {
        let with = |route| self.stamped_by(route);
        match stamping {
            None => open(self),
            Some(Stamping::Arrivals(cards)) => {
                let cards = Arc::new(cards);
                let opened = open(&with(Route { cards: Some(cards.clone()), ..self.route.clone() }))?;
                Ok(Opened { cards: Some(cards), ..opened })
            }
            Some(Stamping::Probes(cards, prober)) => {
                let cards = Arc::new(cards);
                let opened = open(&with(Route { stamp: Stamp::App, ..self.route.clone() }))?;
                let client = Box::new(Probed::new(opened.client, prober, cards.clone()));
                Ok(Opened { client, cards: Some(cards), ..opened })
            }
        }
    }
}
