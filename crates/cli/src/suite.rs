//! `usect rfc2544`: from flags to a suite of benchmarks, or to one that was interrupted.

use crate::args::Rfc2544 as Args;
use crate::asked;
use crate::confirm;
use crate::reset;
use crate::session::Session;
use anyhow::{Result, bail};
use std::path::Path;
use usect_core::fiber::LineRate;
use usect_core::port_name::{Engine, Place, PortName};
use usect_core::rate::RateSpec;
use usect_core::scenario::{ClientSpec, Mode, Scenario};
use usect_core::suite::{Benchmark, Loopback, Suite};
use usect_report::store;

/// Rate of a line that nobody knows, in bits per second.
const UNKNOWN_LINE: u64 = 10_000_000_000;

/// `usect rfc2544`.
pub(crate) fn session(args: &Args) -> Result<Session> {
    if let Some(folder) = &args.resume {
        return resumed(args, folder);
    }
    let (mut scenario, slug) = asked::between(&args.between, None, args.sizes[0], "rfc2544")?;
    check(&scenario)?;
    let suite = suite(args, &scenario)?;
    reset::confirm(&suite, args.between.yes)?;
    scenario.traffic.both |= args.both;
    scenario.traffic.frame_size = suite.sizes[0];
    // Every trial has a load of its own.
    scenario.traffic.rate = Some(RateSpec::Frames(1));
    scenario.vary.frame_size = suite.sizes.clone();
    Ok(Session::new("rfc2544", slug, scenario, &args.output)?.benchmarking(suite))
}

/// Goes on with a run as it was begun.
fn resumed(args: &Args, folder: &Path) -> Result<Session> {
    let header = store::read_run(folder)?.header;
    let Some(record) = header.rfc2544 else {
        bail!("{} is no suite of benchmarks, and others can't be gone on with", folder.display());
    };
    if header.partial.is_none() {
        bail!("{} was not interrupted: there is nothing to go on with", folder.display());
    }
    reset::confirm(&record.suite, args.between.yes)?;
    confirm::of_dpdk(&header.scenario, args.between.yes)?;
    let output = crate::args::Output { quick: header.quick, ..args.output.clone() };
    let session = Session::new("rfc2544", header.id, header.scenario, &output)?;
    Ok(session.benchmarking(record.suite).resuming(folder.to_owned()))
}

/// Refuses what is no path of benchmarks.
fn check(scenario: &Scenario) -> Result<()> {
    let plain = scenario.traffic.pattern.is_constant() && scenario.vary.is_nothing();
    if !plain {
        bail!("the benchmarks say when frames leave, and of which size: leave pattern and vary out of the scenario");
    }
    if scenario.traffic.mode != Mode::OneWay {
        bail!("the benchmarks go one way, or both at once: leave mode out of the scenario");
    }
    Ok(())
}

fn suite(args: &Args, scenario: &Scenario) -> Result<Suite> {
    let known = args.line_rate.map_or_else(|| line_of(scenario), |line| Ok(Some(line)))?;
    let line = known.unwrap_or(LineRate(UNKNOWN_LINE));
    let mut suite = if args.output.quick { Suite::quick(line) } else { Suite::by_the_book(line) };
    suite.line_assumed = known.is_none();
    suite.both = args.both || scenario.traffic.both;
    suite.benchmarks = benchmarks(args)?;
    suite.sizes = args.sizes.clone();
    suite.sizes.sort_unstable();
    suite.sizes.dedup();
    suite.search = args.search.map_or(suite.search, Into::into);
    suite.loss_ratios = args.loss_ratio.clone();
    suite.width = args.width.unwrap_or(suite.width);
    suite.loads = args.loads.clone();
    suite.loads.sort_unstable();
    suite.loads.dedup();
    suite.reset_command = args.reset.clone();
    suite.loopback = loopback(args, scenario)?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    suite.settle_s = args.settle.map_or(suite.settle_s, seconds);
    suite.residual_s = args.residual.map_or(suite.residual_s, seconds);
    suite.rest_s = args.rest.map_or(suite.rest_s, seconds);
    for (benchmark, asked) in [
        (Benchmark::Throughput, args.trial),
        (Benchmark::Loss, args.trial),
        (Benchmark::Latency, args.stream),
        (Benchmark::BackToBack, args.burst),
        (Benchmark::Recovery, args.overload),
        (Benchmark::Reset, args.reset_within),
    ] {
        let Some(extent) = suite.extent(benchmark) else { continue };
        extent.lasts_s = asked.map_or(extent.lasts_s, seconds);
        extent.times = args.output.runs.unwrap_or(extent.times);
    }
    suite.check().map_err(anyhow::Error::msg)?;
    Ok(suite)
}

/// Those that were named and what they need, in the order of the RFC; or all.
fn benchmarks(args: &Args) -> Result<Vec<Benchmark>> {
    let named = &args.benchmarks;
    if named.contains(&Benchmark::Reset) && args.reset.is_none() {
        bail!("the benchmark reset needs --reset COMMAND, which resets the device");
    }
    if !named.is_empty() && !named.contains(&Benchmark::Reset) && args.reset.is_some() {
        bail!("--reset goes with the benchmark reset, which is not among those of --benchmark");
    }
    let at_throughput = |benchmark: &Benchmark| {
        matches!(benchmark, Benchmark::Latency | Benchmark::BackToBack | Benchmark::Recovery | Benchmark::Reset)
    };
    let brings = named.iter().any(at_throughput);
    let asked = |benchmark: &Benchmark| {
        named.is_empty() || named.contains(benchmark) || brings && *benchmark == Benchmark::Throughput
    };
    Ok(Benchmark::ALL.into_iter().filter(asked).collect())
}

fn loopback(args: &Args, scenario: &Scenario) -> Result<Option<Loopback>> {
    if let (Some(tx), Some(rx)) = (args.loopback_tx.clone(), args.loopback_rx.clone()) {
        if !scenario.dut.is_external() {
            bail!("the lab has its own loopback: leave --loopback-tx and --loopback-rx out, and say --loopback");
        }
        asked::check_ports(&tx, &rx)?;
        if let Some(client) = scenario.clients.iter().find(|client| client.engine != tx.engine) {
            bail!("--loopback-tx {tx} is of another engine than client `{}`, {}", client.name, client.engine);
        }
        if scenario.clients.iter().any(|client| !client.pairs.is_empty()) {
            bail!("several pairs of ports have no loopback of one pair: leave --loopback-tx and --loopback-rx out");
        }
        return Ok(Some(Loopback::Ports { tx, rx }));
    }
    if args.loopback && scenario.dut.is_external() {
        bail!("between ports of your own a loopback needs others: --loopback-tx PORT --loopback-rx PORT");
    }
    Ok(args.loopback.then_some(Loopback::Wire))
}

/// The slowest line of the path, where one is known.
fn line_of(scenario: &Scenario) -> Result<Option<LineRate>> {
    if let Some(fiber) = scenario.dut.fiber() {
        return Ok(Some(fiber.line_rate));
    }
    let ports = scenario.clients.iter().filter(|client| client.engine != Engine::Mem);
    let own =
        |client: &ClientSpec| [client.tx.clone(), client.rx.clone()].into_iter().flatten().collect::<Vec<PortName>>();
    let pairs = |client: &ClientSpec| client.pairs.iter().flat_map(|pair| [pair.tx.clone(), pair.rx.clone()]).collect();
    let ports: Vec<PortName> = ports.flat_map(|client| [own(client), pairs(client)].concat()).collect();
    let mut slowest: Option<u64> = None;
    for port in ports {
        let Place::Interface(interface) = &port.place else { continue };
        let link = usect_lab::link(port.netns.as_deref(), interface)?;
        if let Some(bits) = usect_lab::line_bits(&link) {
            slowest = Some(slowest.map_or(bits, |known| known.min(bits)));
        }
    }
    Ok(slowest.map(LineRate))
}
