//! Experiments 1 to 3: reading time, two processes, a bus.

use super::Bench;
use anyhow::{Context, Result, bail};
use std::process::Command;
use usect_core::dissect::Row;
use usect_core::histogram::Histogram;
use usect_core::summary::Summary;
use usect_lab::module::{self, Module};
use usect_parts::{cold, ipc, pci, tsc};

/// What the image that has no operating system printed on this machine, or another.
pub(super) fn cold_start(bench: &mut Bench) -> Result<Vec<Row>> {
    let row = Row::of(
        "1a",
        "TSC, no operating system",
        "gaps between readings of the counter, on a processor that runs nothing else",
    );
    let Some(path) = &bench.args.cold_start else {
        let why = "boot the image of cold/ on this machine (see docs/dissect.md), and hand over what it prints with --cold-start";
        return Ok(vec![row.unavailable(why)]);
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let found = cold::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
    let account = format!("counter at {} Hz; {}", found.tsc_hz, found.processor);
    Ok(vec![row.measured(&found.gaps, found.seconds).with_account(account)])
}

pub(super) fn kernel(bench: &mut Bench) -> Result<Vec<Row>> {
    let module = if bench.args.no_module { Err("--no-module forbids it".into()) } else { Module::load(&bench.stop) };
    match module {
        Ok(module) => by_module(bench, module),
        Err(why) => by_ebpf(bench, &why),
    }
}

fn by_module(bench: &Bench, mut module: Module) -> Result<Vec<Row>> {
    let how = format!(
        "gaps between readings of the counter, by a module of ours; interrupts off for {} readings at a time",
        module::READINGS
    );
    let (found, disturbed) =
        bench.watched(bench.core(), |observation| tsc::of_readings(observation, |each| module.read(each)))?;
    let found = found.context("the kernel module")?;
    Ok(vec![Row::of("1b", "TSC, kernel", how).spent(&found).beside(disturbed)])
}

/// What comes near it: the clock instead of the counter.
fn by_ebpf(bench: &Bench, no_module: &str) -> Result<Vec<Row>> {
    let (found, disturbed) = bench.watched(bench.core(), tsc::in_kernel)?;
    let (found, uninterrupted) = found?;
    let interrupts = if uninterrupted {
        "interrupts off for 1,024 readings at a time"
    } else {
        "interrupts on: this kernel lets no eBPF program switch them off"
    };
    let how = format!(
        "approximated by eBPF: gaps between readings of CLOCK_MONOTONIC, of which the counter is a part; {interrupts}; no \
         kernel module, because {no_module}"
    );
    Ok(vec![Row::of("1b", "clock, in the kernel, by eBPF", how).spent(&found).beside(disturbed)])
}

pub(super) fn user_space(bench: &mut Bench) -> Result<Vec<Row>> {
    match &bench.hypervisor {
        Some(name) => {
            Ok(vec![of_user_space("1c").unavailable(format!("this is a guest under {name}, where the same is 1d"))])
        }
        None => gaps(bench, "1c"),
    }
}

pub(super) fn guest(bench: &mut Bench) -> Result<Vec<Row>> {
    match &bench.hypervisor {
        None => Ok(vec![of_user_space("1d").unavailable("this is no virtual machine: measure in one")]),
        Some(_) => gaps(bench, "1d"),
    }
}

fn of_user_space(experiment: &str) -> Row {
    let name = if experiment == "1c" { "TSC, user space" } else { "TSC, user space of a virtual machine" };
    Row::of(
        experiment,
        name,
        "gaps between readings of the counter, on a pinned thread; interruptions included, but for the time in which they are counted",
    )
}

fn gaps(bench: &mut Bench, experiment: &str) -> Result<Vec<Row>> {
    let (found, disturbed) = bench.watched(bench.core(), tsc::gaps)?;
    Ok(vec![of_user_space(experiment).spent(&found).beside(disturbed)])
}

pub(super) fn same_core(bench: &mut Bench) -> Result<Vec<Row>> {
    let core = bench.core();
    messages(bench, "2a", (core, core))
}

pub(super) fn other_core(bench: &mut Bench) -> Result<Vec<Row>> {
    match bench.cores[..] {
        [first, .., last] => messages(bench, "2b", (last, first)),
        _ => Ok(vec![Row::of("2b", "two processes, other core", "").unavailable("usect may run on one core only")]),
    }
}

/// There and back between a thread of ours and a process of its own, each on its core.
fn messages(bench: &mut Bench, experiment: &str, (own, other): (usize, usize)) -> Result<Vec<Row>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["echo", &other.to_string()]);
    let (found, disturbed) = bench.watched(own, |observation| ipc::round_trips(observation, &mut command))?;
    let found = found.context("the other process")?;
    let name = format!("two processes, {} core", if own == other { "same" } else { "other" });
    let how = "there and back over a datagram socket, 32 bytes; both wait by blocking";
    Ok(vec![Row::of(experiment, name, how).spent(&found).beside(disturbed)])
}

pub(super) fn bus(bench: &mut Bench) -> Result<Vec<Row>> {
    let devices = pci::devices();
    let device = match &bench.args.pci {
        Some(named) if devices.iter().any(|(device, _)| device == named) => named.clone(),
        Some(named) => {
            let known: Vec<&str> = devices.iter().map(|(device, _)| device.as_str()).collect();
            bail!("there is no PCI device {named}, only {}", known.join(", "))
        }
        None => devices.first().map(|(device, _)| device.clone()).context("this host has no PCI device")?,
    };
    let (found, disturbed) = bench.watched(bench.core(), |observation| pci::reads(observation, &device))?;
    let found = found.with_context(|| format!("{device} can't be read"))?;
    let emulated = if bench.hypervisor.is_some() { "; in a guest each goes to the hypervisor" } else { "" };
    let how = format!(
        "a word of the configuration of {device} ({}), non-posted, with the call of the kernel{emulated}",
        found.kind
    );
    let call = "the same call beyond the end of the file, which reaches no device";
    let device_alone = |found: &pci::Reads| {
        let median = |histogram: &Histogram| Summary::of(histogram).median_ns();
        let (with, without) = (median(&found.read)?, median(&found.call)?);
        Some(format!(
            "the device, and what the kernel does for it: {:.0} ns, the difference of the medians",
            with - without
        ))
    };
    let row = Row::of("3a", "interconnect: a read of 4 bytes", how).spent(&found.read).beside(disturbed.clone());
    let row = match device_alone(&found) {
        Some(said) => row.with_account(said),
        None => row,
    };
    Ok(vec![row, Row::of("3", "of it the call of the kernel", call).spent(&found.call).beside(disturbed)])
}
