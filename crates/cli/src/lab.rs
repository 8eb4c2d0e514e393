//! `usect lab`: namespaces that stay.

use crate::args::Lab as Command;
use crate::{say, survivor};
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;
use usect_lab::{Lab, Shape};

#[derive(Serialize)]
struct Listed {
    name: String,
    shape: Option<String>,
    kept: bool,
    owner: Option<u32>,
    alive: bool,
    namespaces: Vec<String>,
}

pub(crate) fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Up { name, dut, senders, receivers, mtu } => {
            let functions = senders
                .or(*receivers)
                .map(|_| Shape::Functions { senders: senders.unwrap_or(1), receivers: receivers.unwrap_or(1) });
            up(name, functions.unwrap_or(if *dut { Shape::Dut } else { Shape::Wire }), *mtu)?;
        }
        Command::Down { name } => {
            usect_lab::down(name)?;
            say(format!("lab {name} is down"))?;
        }
        Command::List { json } => list(*json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn up(name: &str, shape: Shape, mtu: usize) -> Result<()> {
    let _survivor = survivor::start()?;
    for sentence in usect_lab::recover()? {
        crate::complain(format_args!("usect: {sentence}"));
    }
    let lab = Lab::up(name, shape, mtu)?;
    let mut text = format!("lab {name} is up:\n");
    let dut = lab.dut().into_iter().flat_map(|(left, right)| [left.clone(), right.clone()]);
    for link in lab.functions()?.into_iter().chain(dut) {
        let netns = link.netns.as_deref().unwrap_or("-");
        let address = link.address.map_or("-".into(), |a| a.to_string());
        writeln!(text, "  {}@{netns:<12} {address}", link.interface)?;
    }
    lab.keep()?;
    if shape == Shape::Dut {
        writeln!(text, "join d0 and d1 in {name}-dut first: with a bridge, a forwarder, whatever you measure")?;
    }
    say(format!(
        "{text}measure in it:  usect measure --tx xdp:t0@{name}-tx --rx xdp:r0@{name}-rx --quick\n\
         look inside:    ip netns exec {name}-tx ip addr\n\
         take it down:   usect lab down {name}"
    ))
}

fn list(json: bool) -> Result<()> {
    let labs: Vec<Listed> = usect_lab::list()?
        .into_iter()
        .map(|lab| Listed {
            name: lab.name,
            shape: lab.shape.map(|s| s.to_string()),
            kept: lab.kept,
            owner: lab.owner,
            alive: lab.alive,
            namespaces: lab.namespaces,
        })
        .collect();
    if json {
        say(serde_json::to_string_pretty(&labs)?)?;
    } else if labs.is_empty() {
        say("there is no lab; `usect lab up` makes one")?;
    } else {
        for lab in labs {
            let state = match (lab.kept, lab.alive) {
                (true, _) => "kept".to_owned(),
                (false, true) => format!("in use by process {}", lab.owner.unwrap_or(0)),
                (false, false) => "left behind; the next run removes it".to_owned(),
            };
            say(format!(
                "{:<12} {:<6} {state:<24} {}",
                lab.name,
                lab.shape.unwrap_or_default(),
                lab.namespaces.join(" ")
            ))?;
        }
    }
    Ok(())
}
