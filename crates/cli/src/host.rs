//! `usect host`: what costs microseconds here, and settings for the time of a command.

use crate::args::{Check, Host, Tune};
use crate::{complain, say, survivor};
use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use usect_core::advice::Weight;
use usect_core::scenario::HostSpec;
use usect_lab::audit;
use usect_lab::tune::{self, Tuned};

pub(crate) fn run(command: &Host) -> Result<ExitCode> {
    match command {
        Host::Check(args) => check(args),
        Host::Tune(args) => tune(args),
        Host::Restore => {
            let said = usect_rig::recover()?;
            if let Some(pid) = tune::holder()? {
                say(format!("process {pid} holds a profile, and puts it back itself"))?;
            } else if said.is_empty() {
                say("nothing is to be put back")?;
            }
            said.iter().try_for_each(say)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(args: &Check) -> Result<ExitCode> {
    let online = audit::online_cores();
    if let Some(core) = args.cores.iter().find(|core| !online.contains(core)) {
        bail!("there is no core {core} for usect, only {online:?}");
    }
    let cores = if args.cores.is_empty() { &online } else { &args.cores };
    let links: Vec<usect_lab::Link> = match &args.interfaces[..] {
        [] => usect_lab::cards()?,
        named => named.iter().map(|name| usect_lab::named(name)).collect::<Result<_, _>>()?,
    };
    match tune::holder().and_then(|pid| Ok((pid, tune::is_left_behind()?))) {
        Err(e) => complain(format_args!("usect: whether a profile is in force isn't known: {e}")),
        Ok((Some(pid), _)) => {
            complain(format_args!("usect: process {pid} holds a profile: what follows is with its settings"))
        }
        Ok((None, true)) => complain(
            "usect: a killed run left settings changed: what follows is with them, and `usect host restore` puts them back",
        ),
        Ok((None, false)) => {}
    }
    let facts = usect_rig::host::watch(cores, &links);
    let place = |link: &usect_lab::Link| format!("{}.{}", link.netns.as_deref().unwrap_or("host"), link.interface);
    let found = usect_procedure::host::check(&facts, cores, &links.iter().map(place).collect::<Vec<_>>());
    if args.json {
        say(serde_json::to_string_pretty(&found)?)?;
    } else {
        say(usect_report::host::advice(&found, args.all, std::io::stdout().is_terminal()).trim_end())?;
    }
    let worst = found.iter().map(|advice| advice.weight).max();
    Ok(match worst {
        Some(Weight::Grave) => ExitCode::from(4),
        Some(Weight::Serious) => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

/// What profiles are about, of the cores there are.
pub(crate) fn scope(asked: &HostSpec) -> Result<tune::Scope> {
    let online = audit::online_cores();
    let others = match asked.others {
        Some(core) if !online.contains(&core) => bail!("there is no core {core} for everything else, only {online:?}"),
        Some(core) => core,
        None => online.first().copied().unwrap_or(0),
    };
    for interface in &asked.interfaces {
        usect_lab::link(None, interface)?;
    }
    Ok(tune::Scope { interfaces: asked.interfaces.clone(), others })
}

fn tune(args: &Tune) -> Result<ExitCode> {
    let scope = scope(&args.scope.clone().into())?;
    let _survivor = survivor::start()?;
    for sentence in usect_rig::recover()? {
        complain(format_args!("usect: {sentence}"));
    }
    let place = tune::cores(&args.profile, &scope, &audit::online_cores());
    let cores = place.map_err(|why| anyhow::anyhow!("profile {} can't be placed: {why}", args.profile))?;
    // From here on a signal ends the command, and the settings are put back.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    let tuned = Tuned::apply(&args.profile, &scope)?;
    tuned.wanted.iter().for_each(|wanted| complain(format_args!("  {:<9} {wanted}", wanted.part)));
    tune::run_on(&cores)?;
    let child = Command::new(&args.command[0]).args(&args.command[1..]).spawn();
    let child = child.with_context(|| format!("`{}` can't be started", args.command[0]))?;
    let ended = wait(child, signals);
    put_back(tuned);
    ended
}

/// Puts settings back, and says what can't be.
pub(crate) fn put_back(tuned: Tuned) {
    for sentence in tuned.restore() {
        complain(format_args!("usect: {sentence}; the next `usect host restore` tries again"));
    }
}

/// Waits for the command, and hands signals on to it: all but those of the terminal, which it gets itself.
fn wait(mut child: Child, mut signals: Signals) -> Result<ExitCode> {
    let (handle, pid) = (signals.handle(), child.id());
    let forward = std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| matches!(*signal, SIGTERM | SIGHUP)) {
            usect_lab::tune::signal(pid, signal);
        }
    });
    let status = child.wait();
    handle.close();
    let _ = forward.join();
    let status = status?;
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}
