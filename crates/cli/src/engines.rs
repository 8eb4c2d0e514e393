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

/// What was found about an interface.
#[derive(Serialize)]
struct Interface<'a> {
    interface: &'a str,
    findings: Vec<Line>,
}

pub(crate) fn run(args: &Engines) -> Result<ExitCode> {
    if !args.interfaces.is_empty() {
        return interfaces(args);
    }
    let lock = session::alone();
    let may_measure = lock.as_ref().map(|_| ()).map_err(crate::sentence);
    let lines = lines(usect_rig::engines::probe(&may_measure));
    if args.json {
        say(serde_json::to_string_pretty(&lines)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    table(&lines)?;
    Ok(ExitCode::SUCCESS)
}

fn interfaces(args: &Engines) -> Result<ExitCode> {
    let found = |name: &'_ String| Ok((name.clone(), lines(usect_rig::interface::findings(name)?)));
    let found: Vec<(String, Vec<Line>)> = args.interfaces.iter().map(found).collect::<Result<_>>()?;
    if args.json {
        let documents = found.into_iter().zip(&args.interfaces);
        let documents: Vec<_> = documents.map(|((_, findings), interface)| Interface { interface, findings }).collect();
        say(serde_json::to_string_pretty(&documents)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, lines) in found {
        say(format!("{name}, as its driver says"))?;
        table(&lines)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(findings: Vec<Finding>) -> Vec<Line> {
    let line = |finding: Finding| {
        let Finding { name, purpose, verdict } = finding;
        let (usable, detail) = match verdict {
            Verdict::Works(how) => (Some(true), how),
            Verdict::Fails(why) => (Some(false), why),
            Verdict::Untried(why) => (None, format!("not tried: {why}")),
        };
        Line { name, purpose, usable, detail }
    };
    findings.into_iter().map(line).collect()
}

fn table(lines: &[Line]) -> Result<()> {
    for line in lines {
        let usable = line.usable.map_or("–", |usable| if usable { "yes" } else { "no" });
        say(format!("{:<10} {usable:<4} {:<40} {}", line.name, line.purpose, line.detail))?;
    }
    Ok(())
}
