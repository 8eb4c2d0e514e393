//! `usect`: measures network latency at the microsecond scale and says how far each figure can be
//! trusted.
#![forbid(unsafe_code)]

mod args;
mod asked;
mod calibrate;
mod confirm;
mod dissect;
mod engines;
mod generate;
mod host;
mod lab;
mod matrix;
mod memory;
mod monitor;
mod progress;
mod report;
mod reset;
mod rigs;
mod scrape;
mod session;
mod suite;
mod survivor;
mod sweep;
mod trains;

use args::{Args, Command};
use clap::Parser;
use session::Session;
use std::io::IsTerminal;
use std::process::ExitCode;
use usect_core::printed::escaped;

/// Something was asked for that can't be done; nothing was left behind.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    let outcome = match args.command {
        Command::Compare(compare) => asked::compare(&compare).and_then(Session::run),
        Command::Measure(measure) => asked::measure(&measure).and_then(Session::run),
        Command::Convoy(trains) => trains::convoy(&trains).and_then(Session::run),
        Command::Train(trains) => trains::train(&trains).and_then(Session::run),
        Command::Sweep(sweep) => sweep::sweep(&sweep).and_then(Session::run),
        Command::Rfc2544(suite) => suite::session(&suite).and_then(Session::run),
        Command::Converge { within, with } => asked::converge(within, &with).and_then(Session::run),
        Command::Calibrate { with } => calibrate::run(&with),
        Command::Monitor(monitor) => monitor::run(&monitor),
        Command::Generate(generate) => generate::run(&generate),
        Command::Report(report) => report::run(&report),
        Command::Lab(command) => lab::run(&command),
        Command::Engines(engines) => engines::run(&engines),
        Command::Dissect(args) => dissect::run(&args),
        Command::Matrix(args) => matrix::run(&args),
        Command::Host(command) => host::run(&command),
        Command::Agent { interface } => matrix::serve(&interface),
        Command::PutBack { pid } => survivor::run(pid),
        Command::Echo { core } => dissect::echo(core),
    };
    outcome.unwrap_or_else(|error| {
        complain(format_args!("usect: {}", sentence(&error)));
        ExitCode::from(REFUSED)
    })
}

/// A line on standard error, in which nothing steers the terminal. Nobody may be there to read it, which is no reason to lose a
/// measurement.
fn complain(line: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{}", escaped(&line.to_string()));
}

/// A line on standard output, in which nothing steers the terminal.
///
/// Errors: a full disk or a closed pipe, as any other.
fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    show(&escaped(&line.to_string()))
}

/// The table of a run, which has colours of its own and no others.
///
/// Errors: as [`say`].
fn say_table(run: &usect_core::run::Run) -> anyhow::Result<()> {
    show(&usect_report::table(run, std::io::stdout().is_terminal()))
}

fn show(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{text}")
        .map_err(|e| anyhow::anyhow!("standard output can't be written to: {e}"))
}

/// An error and its causes on one line. Most of our errors quote their cause, which isn't said again.
fn sentence(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said.replace('\n', " ")
}
