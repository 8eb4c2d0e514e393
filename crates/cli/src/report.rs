//! `usect report`: stored runs again.

use crate::args::Report;
use crate::memory;
use crate::{say, say_table};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use usect_report::monitor::log;
use usect_report::{StoredRun, store};

pub(crate) fn run(args: &Report) -> Result<ExitCode> {
    if let Some(folder) = args.runs.iter().find(|folder| log::is_log(folder)) {
        if args.runs.len() > 1 {
            bail!("{} is the log of a monitor, which has a page of its own: name it alone", folder.display());
        }
        return of_log(folder, args);
    }
    let runs = args.runs.iter().map(|path| Ok(store::open(path)?)).collect::<Result<Vec<StoredRun>>>()?;
    let page = usect_report::html(&runs)?;
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.runs));
    write(&output, &page)?;
    if args.json {
        let documents: Vec<_> = runs.iter().map(|r| &r.run).collect();
        let json = match documents.as_slice() {
            [one] => serde_json::to_string_pretty(one)?,
            several => serde_json::to_string_pretty(several)?,
        };
        say(json)?;
        return Ok(ExitCode::SUCCESS);
    }
    for stored in &runs {
        say_table(&stored.run)?;
    }
    say(format!("report: {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write(output: &Path, page: &str) -> Result<()> {
    Ok(store::write_page(output, page)?)
}

/// The page of a monitor's log.
fn of_log(folder: &Path, args: &Report) -> Result<ExitCode> {
    check_memory(folder, args.json)?;
    let entries = log::read(folder)?;
    if args.json {
        say(serde_json::to_string_pretty(&entries)?)?;
    }
    let Some(page) = usect_report::monitor::html(&entries)? else {
        bail!("the log in {} has no interval yet: nothing was measured", folder.display());
    };
    let output = args.output.clone().unwrap_or_else(|| folder.join("report.html"));
    write(&output, &page)?;
    if !args.json {
        say(format!("report: {}", output.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Bytes of memory that a byte of a log takes: for its entries (measured: 1.3), and with the text of all of them besides (3.4).
const TIMES: (u64, u64) = (2, 4);

/// Refuses a log that doesn't fit into memory.
fn check_memory(folder: &Path, json: bool) -> Result<()> {
    let (days, bytes) = log::extent(folder)?;
    let times = if json { TIMES.1 } else { TIMES.0 };
    let what = format!("reading the log in {}, {days} days in {:.1} GB,", folder.display(), bytes as f64 / 1e9);
    memory::for_all(
        &what,
        bytes.saturating_mul(times),
        "copy the days that matter, a file each, into a folder of their own",
    )
}

fn default_output(runs: &[PathBuf]) -> PathBuf {
    match runs {
        [only] if only.is_dir() => only.join("report.html"),
        [only] => only.with_file_name("report.html"),
        _ => PathBuf::from("overlay.html"),
    }
}
