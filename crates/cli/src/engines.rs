//! `usect engines`: what is usable here.

use crate::args::Engines;
use crate::{say, session};
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use usect_rig::engines::{Finding, Verdict};

#[derive(Serialize)]
struct Line {
    name: &'static str,
    purpose: &'static str,
    /// Null where it could not be tried now.
    usable: Option<bool>,
    detail: String,
}

pub(crate) fn run(args: &Engines) -> Result<ExitCode> {
    let lock = session::alone();
    let may_measure = lock.as_ref().map(|_| ()).map_err(crate::sentence);
    let line = |finding: Finding| {
        let Finding { name, purpose, verdict } = finding;
        let (usable, detail) = match verdict {
            Verdict::Works(how) => (Some(true), how),
            Verdict::Fails(why) => (Some(false), why),
            Verdict::Untried(why) => (None, format!("not tried: {why}")),
        };
        Line { name, purpose, usable, detail }
    };
    let lines: Vec<Line> = usect_rig::engines::probe(&may_measure).into_iter().map(line).collect();
    if args.json {
        say(serde_json::to_string_pretty(&lines)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in lines {
        let usable = line.usable.map_or("–", |usable| if usable { "yes" } else { "no" });
        say(format!("{:<8} {usable:<4} {:<40} {}", line.name, line.purpose, line.detail))?;
    }
    Ok(ExitCode::SUCCESS)
}
