//! A lab's name, and the names that follow from it.

use crate::error::LabError;
use std::fmt;

const LONGEST: usize = 32;

/// A name that is safe as a file's name and as part of a namespace's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LabName(String);

impl LabName {
    pub(crate) fn parse(name: &str) -> Result<LabName, LabError> {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if first && name.len() <= LONGEST && name.chars().all(inner) {
            Ok(LabName(name.to_owned()))
        } else {
            Err(LabError::BadName { name: name.to_owned() })
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of a role.
    pub(crate) fn netns(&self, role: Role) -> String {
        format!("{}-{role}", self.0)
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a namespace of a lab is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Tx,
    Dut,
    Rx,
    Tap,
    /// Of several senders, those from the second on.
    FurtherTx(u8),
    /// Of several receivers, likewise.
    FurtherRx(u8),
}

impl Role {
    /// Those of every lab with one sender and one receiver.
    pub(crate) const ALL: [Role; 4] = [Role::Tx, Role::Dut, Role::Rx, Role::Tap];

    /// The n-th sender, from 1.
    pub(crate) fn sender(number: u8) -> Role {
        if number == 1 { Role::Tx } else { Role::FurtherTx(number) }
    }

    /// The n-th receiver, from 1.
    pub(crate) fn receiver(number: u8) -> Role {
        if number == 1 { Role::Rx } else { Role::FurtherRx(number) }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Tx => f.write_str("tx"),
            Role::Dut => f.write_str("dut"),
            Role::Rx => f.write_str("rx"),
            Role::Tap => f.write_str("tap"),
            Role::FurtherTx(number) => write!(f, "tx{number}"),
            Role::FurtherRx(number) => write!(f, "rx{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_could_be_paths_or_options_are_refused() {
        for bad in ["", "-n", "_x", ".", "..", "a/b", "a b", "a.json", "ü", &"a".repeat(33)] {
            assert!(LabName::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["usect", "a", "Lab-1_b", "0", &"a".repeat(32)] {
            assert_eq!(LabName::parse(good).unwrap().as_str(), good);
        }
    }

    proptest! {
        #[test]
        fn what_parses_stays_one_path_component(name in ".*") {
            if let Ok(name) = LabName::parse(&name) {
                prop_assert_eq!(std::path::Path::new(name.as_str()).components().count(), 1);
            }
        }
    }
}
