//! From flags to a scenario, and to a session that measures it.

use crate::args::{Between, Compare, Measure, Protocol as ProtocolArgs, Sampling};
use crate::confirm;
use crate::memory;
use crate::session::Session;
use anyhow::{Context, Result, bail};
use std::path::Path;
use usect_core::capture::Capture;
use usect_core::fiber::Fiber;
use usect_core::frame::FrameSize;
use usect_core::matrix::Matrix;
use usect_core::pattern::Pattern;
use usect_core::port_name::{Engine, PortName};
use usect_core::rate::RateSpec;
use usect_core::scenario::{
    ClientSpec, CoreSpec, DpdkSpec, DutSpec, HostSpec, Mode, Protocol, Scenario, TrafficSpec, Vary,
};

/// `usect compare`.
pub(crate) fn compare(args: &Compare) -> Result<Session> {
    let (mut scenario, slug) = load(&args.scenario, &args.clients, args.yes)?;
    if !args.profiles.is_empty() {
        scenario.vary.profile = args.profiles.clone();
    }
    if !args.scope.is_empty() {
        scenario.host = args.scope.clone().into();
    }
    Session::new("compare", slug, timed(scenario, &args.protocol), &args.protocol.output)
}

/// A scenario of these clients, or of all that it has where none is named, with a name for its runs. What it would run is asked about,
/// unless `yes` was said.
fn load(file: &Path, clients: &[String], yes: bool) -> Result<(Scenario, String)> {
    let path = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("the scenario {path} can't be read"))?;
    let mut scenario = Scenario::parse(&text).map_err(|e| match Matrix::parse(&text) {
        Ok(_) => anyhow::anyhow!("{path} is a matrix of settings, not a scenario: `usect matrix {path}` measures it"),
        Err(_) => anyhow::anyhow!("{path}: {e}"),
    })?;
    select(&mut scenario, clients)?;
    confirm::of_dpdk(&scenario, yes)?;
    let slug = file.file_stem().and_then(|s| s.to_str()).unwrap_or("run").to_owned();
    // A capture's name is relative to that of the scenario that has it.
    read_capture(&mut scenario, file.parent().unwrap_or(Path::new("")))?;
    Ok((scenario, slug))
}

/// Reads the capture that a scenario replays, if it does.
fn read_capture(scenario: &mut Scenario, folder: &Path) -> Result<()> {
    let Pattern::Replay(replay) = &mut scenario.traffic.pattern else { return Ok(()) };
    let path = folder.join(&replay.file);
    let file = std::fs::File::open(&path).with_context(|| format!("the capture {} can't be read", path.display()))?;
    let read = Capture::read(std::io::BufReader::new(file));
    replay.capture = read.map_err(|e| anyhow::anyhow!("{} {e}", path.display()))?;
    Ok(())
}

/// A scenario with warm-up and duration as the user wants them.
fn timed(mut scenario: Scenario, args: &ProtocolArgs) -> Scenario {
    let slot = if args.output.quick { &mut scenario.quick } else { &mut scenario.protocol };
    slot.warmup_s = args.warmup.unwrap_or(slot.warmup_s);
    slot.duration_s = args.duration.unwrap_or(slot.duration_s);
    scenario
}

/// Keeps the clients named, in the scenario's order; all of them when none is.
fn select(scenario: &mut Scenario, names: &[String]) -> Result<()> {
    let known: Vec<&str> = scenario.clients.iter().map(|c| c.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|n| !known.contains(&n.as_str())) {
        bail!("the scenario has no client `{unknown}`; it has {}", known.join(", "));
    }
    scenario.clients.retain(|c| names.is_empty() || names.contains(&c.name));
    Ok(())
}

/// `usect measure`.
pub(crate) fn measure(args: &Measure) -> Result<Session> {
    check_ports(&args.tx, &args.rx)?;
    let (wait, stamp) = (args.wait.into(), args.stamp.into());
    let client = ClientSpec { wait, stamp, ..ClientSpec::between(args.tx.clone(), args.rx.clone()) };
    let mode = match (args.ping_pong, args.round_trip) {
        (true, _) => Mode::PingPong,
        (false, true) => Mode::RoundTrip,
        (false, false) => Mode::OneWay,
    };
    let pattern = args.pattern.clone().unwrap_or_default();
    let traffic = TrafficSpec {
        frame_size: args.size,
        rate: args.rate.or_else(|| pattern.replay().is_none().then_some(RateSpec::Frames(20_000))),
        pattern,
        mode,
        frame: args.frame.clone(),
        flows: args.flows,
        both: args.both,
    };
    let cores = CoreSpec { sender: args.tx_core, receiver: args.rx_core, back: args.back_core, ..CoreSpec::default() };
    let mut scenario = between_ports(client, traffic, cores, args.dpdk.clone().into());
    scenario.title = format!("{} to {}", args.tx, args.rx);
    read_capture(&mut scenario, Path::new(""))?;
    scenario.dut = DutSpec::External { fiber: args.fiber, answered: false };
    Session::new("measure", "measure".into(), timed(scenario, &args.protocol), &args.protocol.output)
}

/// What a kept sample takes in the end: 4 bytes in its trial, up to 8 among all, 4 in a copy that is sorted, and 8 as a figure of a batch
/// of one.
const BYTES_OF_A_SAMPLE: u64 = 24;
/// Most samples of a trial that are kept.
const MOST_SAMPLES: u64 = 1 << 24;

/// `usect converge`.
pub(crate) fn converge(within_ns: u64, with: &Sampling) -> Result<Session> {
    let session = match with {
        Sampling::Compare(args) => compare(args)?,
        Sampling::Measure(args) => measure(args)?,
    };
    if let Some(client) = session.scenario().clients.iter().find(|c| c.engine == Engine::Kernel) {
        bail!("client `{}`: the kernel engine keeps no samples; use --client to choose others", client.name);
    }
    let mut all = 0;
    for frames in session.frames_of_cases() {
        let times = u64::from(session.runs()) * session.scenario().clients.len() as u64;
        all = frames.saturating_mul(times).saturating_add(all);
        if all > 4 * MOST_SAMPLES {
            bail!(
                "{all} samples of all runs are too many to keep: {} are the most; use fewer --runs",
                4 * MOST_SAMPLES
            );
        }
        if frames > MOST_SAMPLES {
            bail!("{frames} samples a run are too many to keep: {MOST_SAMPLES} are the most; use a shorter --duration");
        }
    }
    // Later than the figures are read off, it would be too late.
    memory::for_all(
        &format!("keeping {all} samples, and working out how they settle,"),
        all * BYTES_OF_A_SAMPLE,
        "use fewer --runs or a shorter --duration",
    )?;
    if within_ns == 0 {
        bail!("--within is above 0: no number of samples makes a figure exact");
    }
    Ok(session.converging(within_ns))
}

/// Two ports that can be the ends of a path.
pub(crate) fn check_ports(tx: &PortName, rx: &PortName) -> Result<()> {
    if tx == rx && !matches!(tx.engine, Engine::Dpdk | Engine::Mem) {
        bail!("--tx and --rx are the same port, {tx}: name the two ends of a path");
    }
    if tx.engine == Engine::Mem && tx != rx {
        bail!("--tx {tx} and --rx {rx} are two wires, and mem joins the ends of one: name it for both");
    }
    if tx.engine != rx.engine {
        bail!("--tx uses the {} engine and --rx the {}: one client has one engine", tx.engine, rx.engine);
    }
    Ok(())
}

/// The scenario that flags name, or one of a polling client that sends plain frames between the ports that they name,
/// with `fiber` between them; and a name for its runs.
pub(crate) fn between(
    args: &Between,
    fiber: Option<Fiber>,
    size: FrameSize,
    procedure: &str,
) -> Result<(Scenario, String)> {
    let (Some(tx), Some(rx)) = (&args.tx, &args.rx) else {
        if args.dpdk.hugepages || !args.dpdk.eal.is_empty() {
            bail!("a scenario says how DPDK is started: put hugepages and eal into its [dpdk] table");
        }
        return load(
            args.scenario.as_ref().context("name a scenario, or two ports with --tx and --rx")?,
            &args.clients,
            args.yes,
        );
    };
    check_ports(tx, rx)?;
    let client = ClientSpec::between(tx.clone(), rx.clone());
    let traffic = TrafficSpec::evenly(size, RateSpec::Frames(1));
    let cores = CoreSpec { sender: args.tx_core, receiver: args.rx_core, ..CoreSpec::default() };
    let scenario = between_ports(client, traffic, cores, args.dpdk.clone().into());
    let dut = DutSpec::External { fiber, answered: false };
    Ok((Scenario { title: format!("{tx} to {rx}"), dut, ..scenario }, procedure.to_owned()))
}

/// A scenario of one client between ports of the user's own.
pub(crate) fn between_ports(client: ClientSpec, traffic: TrafficSpec, cores: CoreSpec, dpdk: DpdkSpec) -> Scenario {
    Scenario {
        title: String::new(),
        traffic,
        protocol: Protocol::default(),
        quick: Protocol::quick(),
        dut: DutSpec::External { fiber: None, answered: false },
        vary: Vary::default(),
        cores,
        steer: Vec::new(),
        host: HostSpec::default(),
        dpdk,
        clients: vec![client],
    }
}
