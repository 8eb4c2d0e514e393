//! Settings of interfaces that somebody changed for the time of a trial, written down so that they can be put back
//! after a kill as well. What a setting means, and how it is put back, its owner knows.

use crate::error::LabError;
use crate::journal::Journal;
use crate::owner::Owner;
use crate::state::State;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    setting: String,
    netns: Option<String>,
    interface: String,
    value: String,
    owner: Owner,
}

/// A setting that is written down; dropping it strikes it out.
#[derive(Debug)]
#[must_use = "the setting is struck out when this is dropped"]
pub struct Noted {
    path: PathBuf,
}

impl Noted {
    /// Leaves it written down: it could not be put back, and the next start is to try again.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A setting that a process that is gone has not put back.
#[derive(Debug)]
pub struct Stale {
    entry: Entry,
    path: PathBuf,
}

impl Stale {
    /// Where its interface is.
    pub fn netns(&self) -> Option<&str> {
        self.entry.netns.as_deref()
    }

    /// Its interface.
    pub fn interface(&self) -> &str {
        &self.entry.interface
    }

    /// What it was before.
    pub fn value(&self) -> &str {
        &self.entry.value
    }

    /// It was put back.
    pub fn strike_out(self) -> Result<(), LabError> {
        fs::remove_file(&self.path).map_err(|e| LabError::file("remove", self.path, e))
    }
}

/// Writes down what a setting of an interface is, before it is changed.
pub fn note(setting: &str, netns: Option<&str>, interface: &str, value: &str) -> Result<Noted, LabError> {
    note_in(&State::from_env(), setting, netns, interface, value)
}

fn note_in(state: &State, setting: &str, netns: Option<&str>, interface: &str, value: &str) -> Result<Noted, LabError> {
    let entry = Entry {
        setting: setting.to_owned(),
        netns: netns.map(str::to_owned),
        interface: interface.to_owned(),
        value: value.to_owned(),
        owner: Owner::current(),
    };
    let file = format!("{setting}.{}.{interface}.json", netns.unwrap_or(""));
    Journal::open(state)?.note(&file, &entry).map(|path| Noted { path })
}

/// The settings of one kind that were left by processes that are gone, in order of their files.
pub fn stale(setting: &str) -> Result<Vec<Stale>, LabError> {
    stale_in(&State::from_env(), setting)
}

fn stale_in(state: &State, setting: &str) -> Result<Vec<Stale>, LabError> {
    let mut all = all_in(state, setting)?;
    all.retain(|stale| !stale.entry.owner.alive() && stale.entry.owner.since_boot());
    Ok(all)
}

/// What a setting of an interface was before this process changed it and could not put it back.
pub(crate) fn kept(setting: &str, netns: Option<&str>, interface: &str) -> Result<Option<String>, LabError> {
    let own = |stale: &Stale| {
        let Entry { netns: its_netns, interface: its, owner, .. } = &stale.entry;
        owner.pid == Owner::current().pid && owner.alive() && its_netns.as_deref() == netns && its == interface
    };
    Ok(all_in(&State::from_env(), setting)?.into_iter().find(own).map(|stale| stale.entry.value))
}

/// The process that holds a setting of a kind, if one does.
pub(crate) fn holder(setting: &str) -> Result<Option<u32>, LabError> {
    let all = all_in(&State::from_env(), setting)?;
    Ok(all.iter().map(|stale| &stale.entry.owner).find(|owner| owner.alive()).map(|owner| owner.pid))
}

fn all_in(state: &State, setting: &str) -> Result<Vec<Stale>, LabError> {
    let mut paths = state.setting_files()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let entries = paths.into_iter().filter_map(|path| read(&path).map(|entry| Stale { entry, path }));
    Ok(entries.filter(|stale| stale.entry.setting == setting).collect())
}

fn read(path: &Path) -> Option<Entry> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_stale_when_its_owner_is_gone_and_struck_out_when_it_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        let noted = note_in(&state, "hwtstamp", Some("a"), "eth0", "0 1").unwrap();
        assert!(stale_in(&state, "hwtstamp").unwrap().is_empty(), "its owner is alive");
        let text = fs::read_to_string(&noted.path).unwrap();
        let mut entry: serde_json::Value = serde_json::from_str(&text).unwrap();
        entry["owner"]["pid"] = 999_999_999.into();
        fs::write(&noted.path, entry.to_string()).unwrap();
        fs::write(state.settings().join("garbage.json"), "{").unwrap();
        assert!(stale_in(&state, "other").unwrap().is_empty());
        let mut found = stale_in(&state, "hwtstamp").unwrap();
        let stale = found.pop().unwrap();
        assert_eq!((stale.netns(), stale.interface(), stale.value()), (Some("a"), "eth0", "0 1"));
        stale.strike_out().unwrap();
        assert!(stale_in(&state, "hwtstamp").unwrap().is_empty());
        drop(noted);
    }
}
