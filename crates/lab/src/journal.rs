//! What stands, written down before it is made and struck out after it is gone.

use crate::error::LabError;
use crate::lock::wait_for;
use crate::name::LabName;
use crate::owner::Owner;
use crate::state::State;
use crate::topology::Shape;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// A lab, as its file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) mtu: usize,
    pub(crate) kept: bool,
    pub(crate) owner: Owner,
}

impl Entry {
    /// Whether it belongs to nobody any more: its owner is gone and it was not to be kept. Not even a
    /// kept lab outlives a restart of the host.
    pub(crate) fn stale(&self) -> bool {
        if self.kept { !self.owner.since_boot() } else { !self.owner.alive() }
    }
}

/// A lab's file; without entry if it can't be understood.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: LabName,
    pub(crate) entry: Option<Entry>,
}

impl Record {
    /// Whether recovery may remove it.
    pub(crate) fn stale(&self) -> bool {
        self.entry.as_ref().is_none_or(Entry::stale)
    }

    /// What is known of its shape.
    pub(crate) fn shape(&self) -> Option<Shape> {
        self.entry.as_ref().map(|entry| entry.shape)
    }
}

/// The journal, held by this process alone: whoever else wants to change it waits, not for ever.
pub(crate) struct Journal {
    state: State,
    pub(crate) lock: File,
}

impl Journal {
    pub(crate) fn open(state: &State) -> Result<Journal, LabError> {
        let (path, lock) = state.file("journal.lock")?;
        wait_for(&lock, &path, || false)?;
        Ok(Journal { state: state.clone(), lock })
    }

    /// Writes a lab down, whole or not at all.
    pub(crate) fn write(&self, entry: &Entry) -> Result<(), LabError> {
        write_whole(self.path(&entry.name), entry)
    }

    /// Writes a changed setting down, whole or not at all.
    pub(crate) fn note(&self, file: &str, entry: &impl Serialize) -> Result<PathBuf, LabError> {
        let folder = self.state.settings();
        fs::create_dir_all(&folder).map_err(|e| LabError::file("create", folder.clone(), e))?;
        let path = folder.join(file);
        write_whole(path.clone(), entry).map(|()| path)
    }

    /// Strikes a lab out.
    pub(crate) fn erase(&self, name: &str) -> Result<(), LabError> {
        remove(self.path(name))
    }

    /// A lab's record, if there is one.
    pub(crate) fn find(&self, name: &LabName) -> Result<Option<Record>, LabError> {
        Ok(records(&self.state)?.into_iter().find(|record| record.name == *name))
    }

    /// Removes drafts of whoever was killed before what they are about was there, and nothing else: other files are not ours.
    pub(crate) fn sweep(&self) -> Result<(), LabError> {
        let labs = self.state.lab_files()?.into_iter().filter(|path| lab_of(path, ".draft").is_some());
        let settings = self.state.setting_files()?.into_iter();
        let settings = settings.filter(|path| path.extension().is_some_and(|extension| extension == "draft"));
        labs.chain(settings).try_for_each(remove)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.state.labs().join(format!("{name}.json"))
    }
}

impl Drop for Journal {
    /// As for [`Lock`](crate::Lock): not only by closing it.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// Every lab in the journal, in order of the names.
pub(crate) fn records(state: &State) -> Result<Vec<Record>, LabError> {
    let mut records: Vec<Record> = state.lab_files()?.into_iter().filter_map(record).collect();
    records.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(records)
}

fn record(path: PathBuf) -> Option<Record> {
    let name = lab_of(&path, ".json")?;
    let text = fs::read(&path).ok()?;
    let entry = serde_json::from_slice::<Entry>(&text).ok().filter(|entry| entry.name == name.as_str());
    Some(Record { name, entry })
}

/// The lab that a file is about, by its name.
fn lab_of(path: &std::path::Path, suffix: &str) -> Option<LabName> {
    LabName::parse(path.file_name()?.to_str()?.strip_suffix(suffix)?).ok()
}

/// Writes an entry, whole or not at all.
fn write_whole(path: PathBuf, entry: &impl Serialize) -> Result<(), LabError> {
    let draft = path.with_extension("draft");
    let text = serde_json::to_string(entry).map_err(io::Error::from);
    let written = text.and_then(|text| fs::write(&draft, text)).and_then(|()| fs::rename(&draft, &path));
    written.map_err(|e| {
        let _ = fs::remove_file(&draft);
        LabError::file("write", path, e)
    })
}

fn remove(path: PathBuf) -> Result<(), LabError> {
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(LabError::file("remove", path, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), shape: Shape::Dut, mtu: 1500, kept: false, owner: Owner::current() }
    }

    #[test]
    fn what_is_written_is_found_until_it_is_erased() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&State::at(directory.path())).unwrap();
        journal.write(&entry("a")).unwrap();
        let name = LabName::parse("a").unwrap();
        assert_eq!(journal.find(&name).unwrap().unwrap().entry, Some(entry("a")));
        journal.erase("a").unwrap();
        assert!(journal.find(&name).unwrap().is_none());
        journal.erase("a").unwrap();
    }

    #[test]
    fn a_draft_is_swept_and_a_lab_or_a_setting_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&State::at(directory.path())).unwrap();
        journal.write(&entry("a")).unwrap();
        fs::write(journal.path("b").with_extension("draft"), "{").unwrap();
        fs::write(journal.state.labs().join("not a lab.json"), "{").unwrap();
        let noted = journal.note("steering..eth0.json", &entry("a")).unwrap();
        fs::write(noted.with_file_name("steering..eth1.draft"), "{").unwrap();
        journal.sweep().unwrap();
        assert_eq!(journal.state.setting_files().unwrap(), [noted]);
        assert!(!journal.path("b").with_extension("draft").exists());
        assert!(journal.state.labs().join("not a lab.json").exists(), "it is not ours");
        assert_eq!(records(&journal.state).unwrap().len(), 1);
    }

    #[test]
    fn an_entry_under_another_name_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&State::at(directory.path())).unwrap();
        fs::write(journal.path("b"), serde_json::to_string(&entry("a")).unwrap()).unwrap();
        assert!(records(&journal.state).unwrap()[0].entry.is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_garbage_is_a_record_without_entry(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let directory = tempfile::tempdir().unwrap();
            let journal = Journal::open(&State::at(directory.path())).unwrap();
            fs::write(journal.path("a"), text).unwrap();
            let records = records(&journal.state).unwrap();
            prop_assert!(records.len() == 1 && records[0].entry.is_none() && records[0].stale());
        }
    }
}
