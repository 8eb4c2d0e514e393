//! Whether there is memory for what is asked, before it is taken.

use anyhow::{Result, bail};
use usect_lab::audit::available_bytes;

/// Fails where so many bytes are more than there are: who would take them, and what to do instead.
///
/// Errors: how much it would take, and how much is there.
pub(crate) fn for_all(what: &str, bytes: u64, instead: &str) -> Result<()> {
    within(available_bytes(), what, bytes, instead)
}

fn within(available: Option<u64>, what: &str, bytes: u64, instead: &str) -> Result<()> {
    match available {
        Some(available) if bytes > available => {
            bail!(
                "{what} takes about {} of memory, and {} are there: {instead}",
                gigabytes(bytes),
                gigabytes(available)
            )
        }
        // A kernel that doesn't say is no reason to measure nothing.
        _ => Ok(()),
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_what_to_do() {
        assert!(
            within(Some(4_000_000_000), "it", 4_000_000_000, "x").is_ok() && within(None, "it", u64::MAX, "x").is_ok()
        );
        let why =
            within(Some(4_000_000_000), "the page of a year", 4_510_000_000, "take less").unwrap_err().to_string();
        assert_eq!(why, "the page of a year takes about 4.5 GB of memory, and 4.0 GB are there: take less");
    }
}
