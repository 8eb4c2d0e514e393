//! A client of a run as it is drawn and named everywhere on the page.

use crate::StoredRun;
use usect_core::run::{ClientRecord, TrialRecord};
use usect_core::stall::CoreStalls;

/// Line styles, one per client (or per run, when several are laid over each other), so that no plot
/// rests on colour alone. Dots are the truth's.
const DASHES: [&str; 6] = ["solid", "9px,3px", "9px,3px,2px,3px", "16px,4px", "5px,2px", "14px,3px,4px,3px"];
/// Colours of the palette in the style sheet.
const COLORS: usize = 6;

/// One client of one run: what is drawn in one style.
pub(crate) struct Series<'a> {
    /// The run.
    pub(crate) run: &'a StoredRun,
    /// The run's letter, where there are several.
    pub(crate) letter: Option<char>,
    /// The client.
    pub(crate) client: &'a ClientRecord,
    /// Number in the palette.
    pub(crate) color: usize,
    dash: usize,
}

impl<'a> Series<'a> {
    /// Every client of every run; a name has the same colour in all of them, and under every profile.
    pub(crate) fn all(runs: &'a [StoredRun]) -> Vec<Series<'a>> {
        let (mut names, mut profiles) = (Vec::new(), Vec::new());
        let mut all = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            for client in &run.run.clients {
                let color = place(&mut names, plain_name(client));
                let profile = client.case.profile.map(|profile| place(&mut profiles, profile));
                let of_run = if runs.len() > 1 { Some(index) } else { profile };
                // Where colours come round again, dashes and symbols have moved on.
                let dash = of_run.unwrap_or(color) + color / COLORS;
                all.push(Series { run, letter: letter(runs.len(), index), client, color: color % COLORS, dash });
            }
        }
        all
    }

    /// Its name in plots and tables.
    pub(crate) fn label(&self) -> String {
        labelled(self.letter, &self.client.client)
    }

    /// Its dash pattern, as both SVG and the chart library understand it.
    pub(crate) fn dash(&self) -> &'static str {
        DASHES[self.dash % DASHES.len()]
    }

    /// The number of its symbol.
    pub(crate) fn symbol(&self) -> usize {
        self.dash % COLORS
    }

    /// Its name but for the profile, and the profile, where a run varies them.
    pub(crate) fn profile(&self) -> Option<(String, String)> {
        let profile = self.client.case.profile?;
        Some((labelled(self.letter, &plain_name(self.client)), profile.to_string()))
    }

    /// Its trials.
    pub(crate) fn trials(&self) -> impl Iterator<Item = &'a TrialRecord> + use<'a> {
        let name = &self.client.client;
        self.run.run.trials.iter().filter(move |t| t.trial.label() == *name)
    }

    /// Its stalls per run and thread.
    pub(crate) fn stalls(&self) -> impl Iterator<Item = (u32, &'a CoreStalls)> + use<'a> {
        self.trials().flat_map(|t| t.measured.stalls.iter().map(move |s| (t.trial.run, s)))
    }
}

/// The place of something among what was met so far, to which it is added.
fn place<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|other| *other == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}

/// A client's name but for the profile that it measured under.
fn plain_name(client: &ClientRecord) -> String {
    match client.case.profile {
        Some(profile) => client.client.replacen(&format!(", {profile}"), "", 1),
        None => client.client.clone(),
    }
}

/// A run's letter, where there are several.
pub(crate) fn letter(runs: usize, index: usize) -> Option<char> {
    (runs > 1).then(|| char::from_u32('A' as u32 + index as u32).filter(char::is_ascii_uppercase).unwrap_or('Z'))
}

/// A name with its run's letter before it.
pub(crate) fn labelled(letter: Option<char>, name: &str) -> String {
    letter.map_or(name.to_owned(), |l| format!("{l} {name}"))
}

/// `sender on core 1`.
pub(crate) fn thread(stalls: &CoreStalls) -> String {
    match stalls.core {
        Some(core) => format!("{} on core {core}", stalls.thread),
        None => format!("{}, not pinned", stalls.thread),
    }
}
