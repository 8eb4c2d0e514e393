//! `make bench`: figures of usect beside those of a peer, measured in one run on the same path, and
//! written to `bench.json`. No figure is judged here; a reader does that.
#![forbid(unsafe_code)]

mod figures;
mod instrument;
mod lab;
mod parts;
mod peer;
mod speed;
mod suites;

use anyhow::{Context, Result};
use figures::Figure;
use lab::Lab;
use std::path::Path;

/// Figures that are measured together, by a name of their own.
type Group = (&'static str, fn(&Path) -> Result<Vec<Figure>>);

const GROUPS: [Group; 6] = [
    ("paths", paths),
    ("truth", instrument::truth),
    ("convoy", instrument::convoy),
    ("calibrated", instrument::calibrated),
    ("suites", suites::all),
    ("parts", parts::all),
];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usect = args.next().context("usage: usect-bench PATH-TO-USECT [GROUP]")?;
    let only = args.next();
    let mut figures = Vec::new();
    for (_, group) in GROUPS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        figures.extend(group(Path::new(&usect))?);
    }
    figures.iter().for_each(|f| println!("{f}"));
    // A part of the figures is not the file that others read.
    if only.is_none() {
        let json = serde_json::to_string_pretty(&figures)?;
        std::fs::write("bench.json", json + "\n").context("bench.json can't be written")?;
    }
    Ok(())
}

/// Between the interfaces of one lab.
fn paths(usect: &Path) -> Result<Vec<Figure>> {
    let _lab = Lab::up(usect)?;
    let mut figures = figures::round_trip(usect)?;
    figures.extend(figures::kernel_one_way(usect)?);
    figures.extend(speed::all(usect)?);
    figures.extend(instrument::pacing(usect)?);
    Ok(figures)
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
