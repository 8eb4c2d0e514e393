//! Cards that stamp the frames of a trial: switched on before it, read while it runs, set back after it.

use crate::RigError;
use crate::path::{End, Ends};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use usect_clock::phc::{CardClock, PtpClock};
use usect_core::trial::Trial;
use usect_lab::settings::{self, Noted};
use usect_lab::within;
use usect_port::Cards;
use usect_port::card::{self, Before, Offer, Receives, Stamping};
use usect_port::client::Client;
use usect_port::probes::{self, Probed, Sockets, SyncMessage};

/// The cards at the ends of a path, stamping.
pub(crate) struct StampingCards {
    /// Their clocks.
    pub(crate) clocks: Arc<Cards>,
    /// Whether one of them stamps PTP's own frames alone.
    pub(crate) ptp_only: bool,
    /// Sets them back.
    _on: SwitchedOn,
}

/// Cards that are to be set back, and where that is written down.
#[derive(Default)]
struct SwitchedOn(Vec<(Stamping, Noted)>);

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        for (stamping, noted) in self.0.drain(..) {
            if stamping.set_back().is_err() {
                noted.keep();
            }
        }
    }
}

/// How a card is to be set back, as it is written down.
const SETTING: &str = "hwtstamp";

impl StampingCards {
    /// Switches the cards on that stamp the frames of a trial: of a round trip, the near one.
    pub(crate) fn on(trial: &Trial, ends: &Ends) -> Result<StampingCards, RigError> {
        let sends = &ends.tx;
        let receives = if trial.traffic.mode.returns() { &ends.tx } else { &ends.rx };
        let (out, inward) = (offered(sends)?, offered(receives)?);
        if !out.card_out {
            return Err(lacks(sends, "has no card that stamps frames as they leave"));
        }
        if inward.card_in == Receives::Nothing {
            return Err(lacks(receives, "has no card that stamps frames as they arrive"));
        }
        let ptp_only = inward.card_in == Receives::PtpOnly;
        if ptp_only && trial.traffic.mode.returns() {
            return Err(lacks(receives, "has a card that stamps PTP's frames alone, and its probes go one way"));
        }
        let (sending, receiving) = (clock(sends, &out)?, clock(receives, &inward)?);
        let mut on = SwitchedOn::default();
        let same = receives.link == sends.link;
        switch_on(&mut on, sends, &out, (true, same))?;
        if !same {
            switch_on(&mut on, receives, &inward, (false, true))?;
        }
        // Only now: switching stamps on sets the clock of some cards.
        let clocks = Cards::new(Some(sending), receiving);
        let clocks = clocks.map_err(|e| RigError::Asked(format!("the clock of a card can't be read: {e}")))?;
        let cards = StampingCards { clocks: Arc::new(clocks), ptp_only, _on: on };
        Ok(cards)
    }

    /// A client beside which probes get the stamps.
    pub(crate) fn probe(&self, load: Box<dyn Client>, ends: &Ends) -> Result<Box<dyn Client>, RigError> {
        let index = |end: &End| end.link.as_ref().expect("cards were found at both ends").index;
        let open = |end: &End, open: fn(u32) -> std::io::Result<OwnedFd>| {
            let opened = within(end.netns.as_deref(), || open(index(end)))?;
            opened.map_err(|e| {
                RigError::Asked(format!("a socket for PTP probes on `{}` can't be opened: {e}", name(end)))
            })
        };
        let (tx, rx) = (open(&ends.tx, probes::sender)?, open(&ends.rx, probes::receiver)?);
        let sockets = Sockets::new(tx, rx, SyncMessage::new(mac(&ends.tx), mac(&ends.rx)));
        Ok(Box::new(Probed::new(load, Box::new(sockets), self.clocks.clone())))
    }
}

/// Switches one card on, and notes how it was; `on` sets back what it holds.
fn switch_on(on: &mut SwitchedOn, end: &End, offer: &Offer, (sends, receives): (bool, bool)) -> Result<(), RigError> {
    let interface = name(end);
    let refused = |e| RigError::Asked(format!("the card of `{interface}` refuses to stamp frames: {e}"));
    let Before { tx_type, rx_filter } = within(end.netns.as_deref(), || Stamping::now(interface))?.map_err(refused)?;
    let noted = settings::note(SETTING, end.netns.as_deref(), interface, &format!("{tx_type} {rx_filter}"))?;
    let stamping = within(end.netns.as_deref(), || Stamping::on(interface, offer, sends, receives))?;
    on.0.push((stamping.map_err(refused)?, noted));
    Ok(())
}

fn mac(end: &End) -> [u8; 6] {
    end.link.as_ref().map_or([0; 6], |link| link.mac)
}

fn name(end: &End) -> &str {
    end.link.as_ref().map_or("?", |link| &link.interface)
}

fn lacks(end: &End, what: &str) -> RigError {
    let driver = end.link.as_ref().map_or("?", |link| &link.driver);
    RigError::Asked(format!(
        "stamp = \"nic\": interface `{0}` ({driver}) {what}; `usect engines --interface {0}{1}` says who stamps there",
        name(end),
        end.netns.as_ref().map_or(String::new(), |netns| format!("@{netns}"))
    ))
}

fn offered(end: &End) -> Result<Offer, RigError> {
    let link = end.link.as_ref().ok_or_else(|| {
        RigError::Asked("stamp = \"nic\": a port's address belongs to no interface, so no card is known".into())
    })?;
    let offered = within(end.netns.as_deref(), || card::offer(&link.interface))?;
    offered.map_err(|e| RigError::Asked(format!("the driver of `{}` can't be asked for stamps: {e}", link.interface)))
}

fn clock(end: &End, offer: &Offer) -> Result<Box<dyn CardClock>, RigError> {
    let number = offer.clock.ok_or_else(|| lacks(end, "has a card that stamps, but no clock that can be read"))?;
    match PtpClock::open(number) {
        Ok(clock) => Ok(Box::new(clock)),
        Err(e) => Err(RigError::Asked(format!("the clock of `{}` can't be opened: {e}", name(end)))),
    }
}

/// Sets back the cards that killed runs left stamping; one sentence each.
pub(crate) fn recover() -> Result<Vec<String>, RigError> {
    let mut said = Vec::new();
    for stale in settings::stale(SETTING)? {
        let mut words = stale.value().split(' ').map(str::parse);
        if let (Some(Ok(tx_type)), Some(Ok(rx_filter))) = (words.next(), words.next()) {
            let before = Before { tx_type, rx_filter };
            // A namespace that is gone took its interfaces along.
            match within(stale.netns(), || Stamping::restore(stale.interface(), before)) {
                Ok(Err(e)) => {
                    said.push(format!("the stamps of `{}` can't be set back: {e}", stale.interface()));
                    continue;
                }
                _ => said.push(format!(
                    "set the stamps of `{}` back, which a killed run had switched on",
                    stale.interface()
                )),
            }
        }
        stale.strike_out()?;
    }
    Ok(said)
}
