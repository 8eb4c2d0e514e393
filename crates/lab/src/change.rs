//! Settings that are changed together and put back together: at the end, when what changed them is dropped; after a kill,
//! from what was written down before the first of them was touched.

use crate::error::LabError;
use crate::setting::Setting;
use crate::settings::{self, Noted};

/// Settings that were changed; dropping this puts them back, the last first.
#[derive(Debug)]
#[must_use = "the settings are put back when this is dropped"]
pub(crate) struct Change {
    before: Vec<(Setting, String)>,
    noted: Option<Noted>,
}

/// What became of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was changed.
    Changed,
    /// It was so already.
    Already,
    /// It can't be changed, and why.
    Refused(String),
}

impl Change {
    /// Sets each setting to a value. What can't be read or set is refused, and the others are set all the same. `kind`, `netns` and
    /// `name` are what the change is written down under.
    ///
    /// Errors: it can't be written down; what this process changed before could not be put back, and still can't.
    pub(crate) fn apply(
        (kind, netns, name): (&str, Option<&str>, &str),
        wanted: &[(Setting, String)],
    ) -> Result<(Change, Vec<Outcome>), LabError> {
        if let Some(kept) = settings::kept(kind, netns, name)? {
            let before: Vec<(Setting, String)> = serde_json::from_str(&kept).unwrap_or_default();
            let failed = put_back(&before);
            if !failed.is_empty() {
                return Err(LabError::Failed { command: format!("putting back {name}"), why: failed.join("; ") });
            }
        }
        let read: Vec<Result<String, String>> = wanted.iter().map(|(setting, _)| setting.read()).collect();
        let differs = |((setting, value), before): (&(Setting, String), &Result<String, String>)| {
            before.as_ref().ok().filter(|before| *before != value).map(|before| (setting.clone(), before.clone()))
        };
        let changed: Vec<(Setting, String)> = wanted.iter().zip(&read).filter_map(differs).collect();
        let members = changed.iter().flat_map(|(setting, _)| setting.members());
        let members = members.filter_map(|member| member.read().ok().map(|now| (member, now)));
        // First, and so put back last: what stands for them switches them all alike.
        let before: Vec<(Setting, String)> = members.chain(changed.iter().cloned()).collect();
        let text = serde_json::to_string(&before)
            .map_err(|e| LabError::Failed { command: "writing down settings".into(), why: e.to_string() })?;
        let noted = settings::note(kind, netns, name, &text)?;
        let change = Change { before, noted: Some(noted) };
        let outcome = |((setting, value), before): (&(Setting, String), Result<String, String>)| match before {
            Err(why) => Outcome::Refused(why),
            Ok(before) if before == *value => Outcome::Already,
            Ok(_) => setting.write(value).map_or_else(Outcome::Refused, |()| Outcome::Changed),
        };
        let outcomes = wanted.iter().zip(read).map(outcome).collect();
        Ok((change, outcomes))
    }
}

impl Change {
    /// Puts the settings back. What can't be is told, one sentence each, and left to the next start.
    pub(crate) fn restore(mut self) -> Vec<String> {
        self.put_back()
    }

    fn put_back(&mut self) -> Vec<String> {
        let failed = put_back(&std::mem::take(&mut self.before));
        if !failed.is_empty() {
            self.noted.take().into_iter().for_each(Noted::keep);
        }
        failed
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Puts settings back, the last first but what follows others behind them, and once more what another one stood in the way of; what is gone needs nothing.
fn put_back(before: &[(Setting, String)]) -> Vec<String> {
    let differs =
        |(setting, value): &&(Setting, String)| setting.read().map_or_else(|_| setting.is_there(), |now| now != *value);
    let mut failed = Vec::new();
    for _ in 0..2 {
        let mut left: Vec<&(Setting, String)> = before.iter().rev().filter(differs).collect();
        left.sort_by_key(|(setting, _)| setting.follows_others());
        // All of them before the first is read again: kernels before 6.6 take what is read of one watchdog for what is wanted of it.
        let written: Vec<Result<(), String>> = left.iter().map(|(setting, value)| setting.write(value)).collect();
        failed = left
            .into_iter()
            .zip(written)
            .filter_map(|((setting, value), written)| {
                let why = written.err().unwrap_or_else(|| "it reads as something else".into());
                let same = setting.read().map_or_else(|_| !setting.is_there(), |now| now == *value);
                (!same).then(|| format!("{setting} can't be set to {value} again: {why}"))
            })
            .collect();
    }
    failed
}

/// Puts back what processes that were killed left changed, of one kind; one sentence each, which `said` makes of a name.
pub(crate) fn recover(kind: &str, said: impl Fn(&str) -> String) -> Result<Vec<String>, LabError> {
    let mut sentences = Vec::new();
    for stale in settings::stale(kind)? {
        let before: Result<Vec<(Setting, String)>, _> = serde_json::from_str(stale.value());
        let Ok(before) = before else {
            sentences.push(format!(
                "what a killed run changed ({kind} of {}) can't be read: restart the host",
                stale.interface()
            ));
            continue;
        };
        let failed = put_back(&before);
        if failed.is_empty() {
            sentences.push(said(stale.interface()));
            stale.strike_out()?;
        } else {
            sentences.extend(failed);
        }
    }
    Ok(sentences)
}
