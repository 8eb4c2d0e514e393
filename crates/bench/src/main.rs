//! `make bench`: figures of usect beside those of a peer, measured in one run on the same path, and
//! written to `bench.json`. No figure is judged here; a reader does that.
#![forbid(unsafe_code)]

mod figures;
mod instrument;
mod lab;
mod peer;
mod speed;
mod suites;

use anyhow::{Context, Result};
use figures::Figure;
use lab::Lab;
use std::path::Path;

fn main() -> Result<()> {
    let usect = std::env::args().nth(1).context("usage: usect-bench PATH-TO-USECT")?;
    let usect = Path::new(&usect);
    let mut figures = Vec::new();
    {
        let _lab = Lab::up(usect)?;
        figures.extend(figures::round_trip(usect)?);
        figures.extend(figures::kernel_one_way(usect)?);
        figures.extend(speed::all(usect)?);
        figures.extend(instrument::pacing(usect)?);
    }
    figures.extend(instrument::truth(usect)?);
    figures.extend(instrument::convoy(usect)?);
    figures.extend(instrument::calibrated(usect)?);
    figures.extend(suites::all(usect)?);
    figures.iter().for_each(|f| println!("{f}"));
    let json = serde_json::to_string_pretty(&figures)?;
    std::fs::write("bench.json", json + "\n").context("bench.json can't be written")?;
    Ok(())
}

/// Prints one figure as a line of the table.
impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.ours.abs() < 0.01 { 6 } else { 3 };
        write!(f, "{:<28} {:>12.digits$} {:<6}", self.name, self.ours, self.unit)?;
        match (self.peer, &self.peer_name, self.ratio) {
            (Some(peer), Some(name), Some(ratio)) => write!(f, " {peer:>12.3} {name}  ratio {ratio:.3}"),
            _ => Ok(()),
        }
    }
}
