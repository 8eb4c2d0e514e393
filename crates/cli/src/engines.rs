//! `usect engines`: what is usable here.

use crate::args::Engines;
use crate::{say, session};
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Line {
    name: &'static str,
    purpose: &'static str,
    usable: bool,
    detail: String,
}

pub(crate) fn run(args: &Engines) -> Result<ExitCode> {
    let lock = session::alone();
    let may_measure = lock.as_ref().map(|_| ()).map_err(crate::sentence);
    let lines: Vec<Line> = usect_rig::engines::probe(&may_measure)
        .into_iter()
        .map(|f| {
            let usable = f.verdict.is_ok();
            Line { name: f.name, purpose: f.purpose, usable, detail: f.verdict.unwrap_or_else(|why| why) }
        })
        .collect();
    if args.json {
        say(serde_json::to_string_pretty(&lines)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in lines {
        let usable = if line.usable { "yes" } else { "no" };
        say(format!("{:<8} {usable:<4} {:<40} {}", line.name, line.purpose, line.detail))?;
    }
    Ok(ExitCode::SUCCESS)
}
