//! Writes a run of invented figures, and a page that lays two over each other, into a folder, to look at:
//! `cargo run -p usect-report --example sample_page -- FOLDER`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;
use usect_core::gathered::Gathered;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = usect_report::store::create(&root, "sample")?;
    let first = {
        let results = common::results();
        results.iter().try_for_each(|result| folder.keep(result))?;
        folder.save(common::header(), &Gathered::of(&results))?
    };
    print!("{}", usect_report::table(&first.run, false));
    println!("{}", folder.path().join("report.html").display());

    let mut other = first.clone();
    other.run.header.environment.set("cpu.0.governor", "performance");
    other.run.header.environment.set("kernel.release", "6.1.0");
    let both = folder.path().join("two.html");
    std::fs::write(&both, usect_report::html(&[first, other])?)?;
    println!("{}", both.display());
    Ok(())
}
