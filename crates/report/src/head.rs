//! What a page says of a run before and after its figures, where the run has a page of its own kind.

use crate::view::{Group, groups};
use crate::{StoredRun, verdict};
use serde::Serialize;

/// A run's own facts.
#[derive(Serialize)]
pub(crate) struct Head {
    letter: Option<char>,
    id: String,
    title: String,
    setup: String,
    created: String,
    usect: String,
    banners: Vec<String>,
    says: Vec<String>,
    environment: Vec<Group>,
    scenario: String,
}

impl Head {
    /// With what was set up, and what to take away.
    pub(crate) fn of(letter: Option<char>, stored: &StoredRun, setup: String, says: Vec<String>) -> Head {
        let header = &stored.run.header;
        Head {
            letter,
            id: header.id.clone(),
            title: header.scenario.title.clone(),
            setup,
            created: header.created.clone(),
            usect: header.usect.clone(),
            banners: verdict::banners(header),
            says,
            environment: groups(&header.environment),
            scenario: toml::to_string_pretty(&header.scenario).unwrap_or_else(|e| format!("# can't be shown: {e}")),
        }
    }
}

/// The title of a page of runs of a kind.
pub(crate) fn title(runs: &[StoredRun], kind: &str) -> String {
    match runs {
        [only] => only.run.header.scenario.title.clone(),
        several => format!("{} {kind} compared", several.len()),
    }
}
