//! Settings of a host that go together, for the time of a measurement (paper 000 §3.2 and §4.2).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which settings; several may hold at once. The default changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Profile {
    /// Everything else runs, and is interrupted, on another core (isolset).
    pub isolated: bool,
    /// Power saving is off: full and even frequency, no deep sleep, no sleeping links.
    pub power: bool,
    /// The kernel's own work is off: balancing and gathering of pages, audit, watchdogs, interrupt moderation.
    pub quiet: bool,
    /// Sockets that wait ask the card themselves.
    pub busypoll: bool,
    /// On which node it runs, as seen from the card.
    pub place: Option<Place>,
}

/// A node, as seen from the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The card's own.
    Local,
    /// Another than the card's.
    Remote,
}

/// What became of something that a profile wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The part of the profile that wants it.
    pub part: String,
    /// What it wants.
    pub what: String,
    /// How many settings were changed for it.
    pub changed: usize,
    /// How many were so already.
    pub already: usize,
    /// How many could not be changed.
    pub refused: usize,
    /// Why, the first of them.
    pub reason: Option<String>,
}

/// A profile as it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Which.
    pub profile: Profile,
    /// What became of everything that it wants.
    pub wanted: Vec<Wanted>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { what, changed, already, refused, reason, .. } = self;
        let reason = reason.as_deref().unwrap_or("no reason known");
        let of = |refused: &usize| if *refused == 1 { "one place".to_owned() } else { format!("{refused} places") };
        match (changed + already, refused) {
            (0, 0 | 1) => write!(f, "{what}: not done: {reason}"),
            (0, refused) => write!(f, "{what}: not done at {}: {reason}", of(refused)),
            (done, 0) if *already == done => write!(f, "{what}: was so already"),
            (_, 0) => write!(f, "{what}: done"),
            (_, refused) => write!(f, "{what}: done, but not at {}: {reason}", of(refused)),
        }
    }
}

/// Names of a profile's parts, and what each does.
pub const PARTS: [(&str, &str); 6] = [
    ("local", "on cores of the card's own node"),
    ("remote", "on cores of another node"),
    ("isolated", "everything else runs, and is interrupted, on one other core; irqbalance is stopped"),
    ("power", "governor performance, no turbo, no deep sleep of cores and links"),
    ("quiet", "NUMA balancing, transparent huge pages, page merging, audit, watchdogs and interrupt moderation off"),
    ("busypoll", "sockets that wait ask the card for 50 µs before they sleep"),
];

/// A profile that changes nothing.
const NOTHING: &str = "default";

impl Profile {
    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Profile::default()
    }

    fn has(&self, part: &str) -> bool {
        match part {
            "local" => self.place == Some(Place::Local),
            "remote" => self.place == Some(Place::Remote),
            "isolated" => self.isolated,
            "power" => self.power,
            "quiet" => self.quiet,
            _ => self.busypoll,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = PARTS.iter().map(|(name, _)| *name).filter(|name| self.has(name)).collect();
        f.write_str(&if parts.is_empty() { NOTHING.to_owned() } else { parts.join("+") })
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Profile, String> {
        let mut profile = Profile::default();
        if text == NOTHING {
            return Ok(profile);
        }
        for part in text.split('+') {
            match part {
                "local" | "remote" if profile.place.is_some() => {
                    return Err(format!("{text:?}: it can't run on two nodes: name one of local and remote"));
                }
                "local" => profile.place = Some(Place::Local),
                "remote" => profile.place = Some(Place::Remote),
                "isolated" => profile.isolated = true,
                "power" => profile.power = true,
                "quiet" => profile.quiet = true,
                "busypoll" => profile.busypoll = true,
                other => {
                    let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
                    return Err(format!(
                        "there is no profile {other:?}: use {NOTHING}, or one or several of {} joined by +",
                        names.join(", ")
                    ));
                }
            }
        }
        Ok(profile)
    }
}

impl TryFrom<String> for Profile {
    type Error = String;

    fn try_from(text: String) -> Result<Profile, String> {
        text.parse()
    }
}

impl From<Profile> for String {
    fn from(profile: Profile) -> String {
        profile.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_joined() {
        let profile: Profile = "power+isolated".parse().unwrap();
        assert!(profile.isolated && profile.power && !profile.quiet);
        assert_eq!(profile.to_string(), "isolated+power");
        assert!("default".parse::<Profile>().unwrap().is_nothing());
        assert!("local+remote".parse::<Profile>().unwrap_err().contains("two nodes"));
        assert!("fast".parse::<Profile>().unwrap_err().contains("isolated"));
        assert!("".parse::<Profile>().is_err() && "default+power".parse::<Profile>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(parts in proptest::sample::subsequence(&["remote", "isolated", "power", "quiet", "busypoll"], 0..=5)) {
            let text = if parts.is_empty() { "default".to_owned() } else { parts.join("+") };
            let profile: Profile = text.parse().unwrap();
            prop_assert_eq!(profile.to_string(), text);
        }

        #[test]
        fn any_text_is_survived(text in ".*") {
            let _ = text.parse::<Profile>();
        }
    }
}
