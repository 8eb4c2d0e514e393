//! Labs: up, kept, down, listed, recovered.

use crate::error::{LabError, enumerate};
use crate::journal::{Entry, Journal, Record, records};
use crate::link::{Link, link};
use crate::name::LabName;
use crate::netns::inhabitants;
use crate::owner::Owner;
use crate::privilege::require;
use crate::state::State;
use crate::topology::{self, A0, A1, B0, B1, D0, D1, End, R0, Shape, T0};

/// A lab that stands. Dropping it takes it down and strikes it out of the journal.
#[derive(Debug)]
#[must_use = "the lab is taken down when this is dropped"]
pub struct Lab {
    state: State,
    name: LabName,
    entry: Entry,
    links: Links,
    /// Whether dropping leaves it standing.
    released: bool,
}

#[derive(Debug)]
struct Links {
    tx: Link,
    rx: Link,
    dut: Option<(Link, Link)>,
    tap: Option<TapLinks>,
}

/// The interfaces at which the wires of a tapped lab are cut open.
#[derive(Debug, Clone)]
pub struct TapLinks {
    /// Between sender and DUT: towards the sender, towards the DUT.
    pub near: (Link, Link),
    /// Between DUT and receiver: towards the DUT, towards the receiver; none where the receiver is what is watched.
    pub far: Option<(Link, Link)>,
}

/// A lab in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabInfo {
    /// Its name.
    pub name: String,
    /// Its shape; `None` if its journal file can't be read.
    pub shape: Option<Shape>,
    /// Whether it stands until somebody takes it down.
    pub kept: bool,
    /// The process that made it; `None` if its journal file can't be read.
    pub owner: Option<u32>,
    /// Whether that process still runs.
    pub alive: bool,
    /// Its namespaces, whether or not they exist.
    pub namespaces: Vec<String>,
}

impl Lab {
    /// Makes a lab in the state directory that [`State::from_env`] names; see [`State::up`].
    pub fn up(name: &str, shape: Shape, mtu: usize) -> Result<Lab, LabError> {
        State::from_env().up(name, shape, mtu)
    }

    /// Leaves it standing, also when this process ends, until [`down`] or a restart of the host.
    ///
    /// Errors: the journal can't be written; then the lab is taken down.
    pub fn keep(mut self) -> Result<(), LabError> {
        let kept = Entry { kept: true, ..self.entry.clone() };
        Journal::open(&self.state)?.write(&kept)?;
        self.released = true;
        Ok(())
    }

    /// Its name, from which those of its namespaces follow.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.entry.shape
    }

    /// The sender's interface.
    pub fn tx(&self) -> &Link {
        &self.links.tx
    }

    /// The receiver's interface.
    pub fn rx(&self) -> &Link {
        &self.links.rx
    }

    /// Leaves to cards what interfaces of hosts leave to them: checksums, segmentation. What isn't the kernel's stack gets frames then that
    /// aren't finished.
    ///
    /// Errors: `ethtool` fails.
    pub fn leave_to_cards(&self) -> Result<(), LabError> {
        topology::leave_to_cards(&self.name, self.entry.shape)
    }

    /// Every interface that sends or receives, the senders' first.
    ///
    /// Errors: one is gone.
    pub fn functions(&self) -> Result<Vec<Link>, LabError> {
        let look_up = |end: End| link(Some(&self.name.netns(end.role)), &end.interface);
        self.entry.shape.functions().into_iter().map(look_up).collect()
    }

    /// The DUT's interfaces: towards the sender, towards the receiver; `None` for a wire.
    pub fn dut(&self) -> Option<(&Link, &Link)> {
        self.links.dut.as_ref().map(|(d0, d1)| (d0, d1))
    }

    /// Where its wires are cut open; `None` unless it is tapped.
    pub fn tap(&self) -> Option<&TapLinks> {
        self.links.tap.as_ref()
    }

    /// Takes it down. Does nothing if somebody else did and gave the name to another lab.
    fn demolish(&self) -> Result<(), LabError> {
        let journal = Journal::open(&self.state)?;
        match journal.find(&self.name)? {
            Some(Record { entry: Some(entry), .. }) if entry != self.entry => Ok(()),
            None => Ok(()),
            Some(_) => clear(&journal, &self.name, Some(self.entry.shape)),
        }
    }
}

impl Drop for Lab {
    /// What can't be removed now stays in the journal, and the next [`recover`] says so.
    fn drop(&mut self) {
        if !self.released {
            let _ = self.demolish();
        }
    }
}

/// Takes down a lab that was kept or whose owner is gone; see [`State::down`].
pub fn down(name: &str) -> Result<(), LabError> {
    State::from_env().down(name)
}

/// Every lab in the journal, in order of the names.
pub fn list() -> Result<Vec<LabInfo>, LabError> {
    State::from_env().list()
}

/// Removes what runs that were killed left; see [`State::recover`].
pub fn recover() -> Result<Vec<String>, LabError> {
    State::from_env().recover()
}

impl State {
    /// Makes a lab. It is in the journal before any of it exists; a lab of that name whose owner is gone
    /// is removed first. `mtu` is that of its interfaces, in bytes.
    ///
    /// Errors: the name or the MTU is none; the lab or a namespace of its exists; this process isn't
    /// privileged; the journal can't be written; `ip` or `ethtool` fails. Nothing is left behind then.
    pub fn up(&self, name: &str, shape: Shape, mtu: usize) -> Result<Lab, LabError> {
        let name = LabName::parse(name)?;
        if !(68..=65535).contains(&mtu) {
            return Err(LabError::BadMtu { mtu });
        }
        require("making a lab")?;
        let entry = Entry { name: name.to_string(), shape, mtu, kept: false, owner: Owner::current() };
        let journal = Journal::open(self)?;
        vacate(&journal, &name)?;
        topology::vacant(&name, shape)?;
        journal.write(&entry)?;
        match build(&journal, &name, shape, mtu) {
            Ok(links) => Ok(Lab { state: self.clone(), name, entry, links, released: false }),
            Err(error) => clear(&journal, &name, Some(shape)).and(Err(error)),
        }
    }

    /// Takes down a lab that was kept or whose owner is gone.
    ///
    /// Errors: there is no such lab (the error lists those there are); a run is using it; this process
    /// isn't privileged; a namespace can't be removed.
    pub fn down(&self, name: &str) -> Result<(), LabError> {
        let name = LabName::parse(name)?;
        require("taking a lab down")?;
        let journal = Journal::open(self)?;
        let record = journal.find(&name)?.ok_or_else(|| self.unknown(&name))?;
        match &record.entry {
            Some(entry) if !entry.kept && entry.owner.alive() => Err(in_use(&name, entry)),
            _ => clear(&journal, &name, record.shape()),
        }
    }

    /// Every lab in the journal, in order of the names.
    ///
    /// Errors: the state directory can't be read.
    pub fn list(&self) -> Result<Vec<LabInfo>, LabError> {
        Ok(records(self)?.into_iter().map(info).collect())
    }

    /// Removes every lab that was not kept and whose owner no longer runs, or whose journal file can't be
    /// understood, and returns one sentence for each thing removed.
    ///
    /// Errors: there is something to remove and this process isn't privileged; a namespace can't be
    /// removed.
    pub fn recover(&self) -> Result<Vec<String>, LabError> {
        if !self.labs().exists() {
            return Ok(Vec::new());
        }
        if records(self)?.iter().any(Record::stale) {
            require("removing what a killed run left")?;
        }
        let journal = Journal::open(self)?;
        journal.sweep()?;
        let mut said = Vec::new();
        for record in records(self)?.into_iter().filter(Record::stale) {
            said.push(farewell(&record));
            clear(&journal, &record.name, record.shape())?;
        }
        Ok(said)
    }

    fn unknown(&self, name: &LabName) -> LabError {
        let known: Vec<String> = self.list().unwrap_or_default().into_iter().map(|lab| lab.name).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("choose {}", enumerate(&known)) };
        LabError::UnknownLab { name: name.to_string(), known }
    }
}

/// Makes room for a lab, which only one that nobody owns has to.
fn vacate(journal: &Journal, name: &LabName) -> Result<(), LabError> {
    match journal.find(name)? {
        None => Ok(()),
        Some(Record { entry: Some(entry), .. }) if !entry.stale() => Err(in_use(name, &entry)),
        Some(record) => clear(journal, name, record.shape()),
    }
}

fn build(journal: &Journal, name: &LabName, shape: Shape, mtu: usize) -> Result<Links, LabError> {
    topology::create(&journal.lock, name, shape, mtu)?;
    let look_up = |end: &End| link(Some(&name.netns(end.role)), &end.interface);
    let pair = |(one, other): (&End, &End)| Ok::<_, LabError>((look_up(one)?, look_up(other)?));
    let dut = matches!(shape, Shape::Dut | Shape::Tapped).then(|| pair((&D0, &D1))).transpose()?;
    let tap = match shape {
        Shape::Tapped => Some(TapLinks { near: pair((&A0, &A1))?, far: Some(pair((&B0, &B1))?) }),
        Shape::Watched => Some(TapLinks { near: pair((&A0, &A1))?, far: None }),
        _ => None,
    };
    Ok(Links { tx: look_up(&T0)?, rx: look_up(&R0)?, dut, tap })
}

/// Namespaces first, then the journal: what can't be removed stays written down.
fn clear(journal: &Journal, name: &LabName, shape: Option<Shape>) -> Result<(), LabError> {
    topology::remove(&journal.lock, name, shape)?;
    journal.erase(name.as_str())
}

fn in_use(name: &LabName, entry: &Entry) -> LabError {
    let pid = entry.owner.pid;
    let holder = match entry.kept {
        true => format!("it was kept; take it down with `usect lab down {name}` or choose another name"),
        false => format!("process {pid} made it; wait for it, stop it or choose another name"),
    };
    LabError::InUse { name: name.to_string(), holder }
}

fn info(record: Record) -> LabInfo {
    let entry = record.entry.as_ref();
    LabInfo {
        name: record.name.to_string(),
        shape: record.shape(),
        kept: entry.is_some_and(|entry| entry.kept),
        owner: entry.map(|entry| entry.owner.pid),
        alive: entry.is_some_and(|entry| entry.owner.alive()),
        namespaces: topology::namespaces(&record.name, record.shape()),
    }
}

/// What is said of a lab that is about to be removed.
fn farewell(record: &Record) -> String {
    let name = &record.name;
    let why = match &record.entry {
        None => "whose journal file was unreadable".to_owned(),
        Some(entry) if entry.kept => "which was kept before the host was restarted".to_owned(),
        Some(entry) => format!("which process {} left when it was killed", entry.owner.pid),
    };
    let netns = topology::namespaces(name, record.shape());
    let inside: Vec<String> = netns.iter().flat_map(|netns| inhabitants(netns)).collect();
    match inside.is_empty() {
        true => format!("removed lab {name:?}, {why}", name = name.as_str()),
        false => format!(
            "removed lab {name:?}, {why}; still running in it, stop if unwanted: {inside}",
            name = name.as_str(),
            inside = enumerate(&inside)
        ),
    }
}
