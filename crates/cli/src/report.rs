//! `usect report`: stored runs again.

use crate::args::Report;
use crate::say;
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use usect_report::{StoredRun, store};

pub(crate) fn run(args: &Report) -> Result<ExitCode> {
    let runs = args.runs.iter().map(|path| Ok(store::open(path)?)).collect::<Result<Vec<StoredRun>>>()?;
    let page = usect_report::html(&runs)?;
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.runs));
    std::fs::write(&output, page).with_context(|| format!("the page can't be written to {}", output.display()))?;
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
        say(usect_report::table(&stored.run, std::io::stdout().is_terminal()))?;
    }
    say(format!("report: {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn default_output(runs: &[PathBuf]) -> PathBuf {
    match runs {
        [only] if only.is_dir() => only.join("report.html"),
        [only] => only.with_file_name("report.html"),
        _ => PathBuf::from("overlay.html"),
    }
}
