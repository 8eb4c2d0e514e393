//! Experiments 4 to 8: hosts, cards, switches and cables, each a trial over a path.

use super::{Bench, SHOWN, much};
use crate::complain;
use anyhow::{Context, Result, bail};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use usect_core::buckets;
use usect_core::dissect::Row;
use usect_core::histogram::Histogram;
use usect_core::measurement::Measurement;
use usect_core::port_name::{Place, PortName};
use usect_core::rate::RateSpec;
use usect_core::scenario::{Case, ClientSpec, CoreSpec, DutSpec, Mode, Protocol, Scenario, TrafficSpec};
use usect_core::summary::Summary;
use usect_core::trial::{Traffic, Trial, TrialResult};
use usect_lab::processes::Meanwhile;
use usect_rig::Rig;

/// The host that answers, behind a tap.
pub(super) const HOST: &str = r#"
    title = "from the interface through kernel and application and back"
    traffic = { frame_size = 64, rate = "10 kpps", mode = "round-trip" }
    dut = { kind = "host" }
    [[client]]
    name = "udp-blocking"
    engine = "udp"
    wait = "block"
    [[client]]
    name = "udp-polling"
    engine = "udp"
    [[client]]
    name = "xdp"
    engine = "xdp"
    [[client]]
    name = "dpdk-af_xdp"
    engine = "dpdk"
    driver = "net_af_xdp"
"#;

/// Client and server over a wire.
const CLIENT_SERVER: &str = r#"
    title = "client and server"
    traffic = { frame_size = 64, rate = "10 kpps", mode = "ping-pong" }
    dut = { kind = "wire" }
    [[client]]
    name = "udp-blocking"
    engine = "udp"
    wait = "block"
    [[client]]
    name = "udp-polling"
    engine = "udp"
"#;

/// A bridge between taps.
const BRIDGE: &str = r#"
    title = "a Linux bridge"
    traffic = { frame_size = 64, rate = "10 kpps" }
    dut = { kind = "bridge" }
    [[client]]
    name = "xdp"
    engine = "xdp"
"#;

/// A spool that stands for cables.
const CABLE: &str = r#"
    title = "cables"
    traffic = { frame_size = 64, rate = "10 kpps" }
    dut = { kind = "spool", engine = "mem", fiber = { length_m = 2.0, line_rate = "10 Gbit/s" } }
    [[client]]
    name = "mem"
    engine = "mem"
"#;

/// Lengths that are compared, in metres.
const LENGTHS_M: [f64; 4] = [2.0, 500.0, 1_000.0, 2_000.0];
/// How long a link may take to come up.
const LINK_UP: Duration = Duration::from_secs(30);
/// What a metre of fiber takes (paper 002 §2.4).
const FIBER_NS_PER_M: f64 = 4.9;
/// Sizes of the paper's 8a and 8b, with FCS.
const SWITCHED: [(&str, u16); 2] = [("8a", 64), ("8b", 1518)];

fn scenario(text: &str) -> Result<Scenario> {
    Scenario::parse(text).map_err(|e| anyhow::anyhow!("{e}"))
}

/// One that needs no lab.
pub(super) fn inside() -> Result<Scenario> {
    scenario(CABLE)
}

/// From its interface, through kernel and application, and back.
pub(super) fn host(bench: &mut Bench) -> Result<Vec<Row>> {
    let how = "what a tap at the interface (veth) saw, there and back through the host that answers; 64-byte frames, 10,000 a second";
    answered(bench, "4", &["udp-polling", "udp-blocking"], how)
}

/// The same around the kernel's stack.
pub(super) fn bypass(bench: &mut Bench) -> Result<Vec<Row>> {
    let how = "as 4, around the kernel's network stack; veth is the kernel's all the same";
    answered(bench, "5", &["xdp", "dpdk-af_xdp"], how)
}

/// The truth of each of some clients.
fn answered(bench: &Bench, experiment: &str, clients: &[&str], how: &str) -> Result<Vec<Row>> {
    let all = scenario(HOST)?;
    let each = clients.iter().map(|name| {
        let row = Row::of(experiment, format!("host, {name}"), how);
        let one = Scenario {
            clients: all.clients.iter().filter(|client| client.name == *name).cloned().collect(),
            ..all.clone()
        };
        let result = trial(bench, &one, Case::default());
        measured(row, result, |result| result.truth.as_ref())
    });
    Ok(each.collect())
}

pub(super) fn client_server(bench: &mut Bench) -> Result<Vec<Row>> {
    let all = scenario(CLIENT_SERVER)?;
    // What polls comes first: that is what 4 and 5 did.
    let each = all.clients.iter().rev().map(|client| {
        let how = "there and back between two namespaces over veth, one at a time, as the client's clock has it; 64-byte frames";
        let row = Row::of("6a", format!("client and server, {}", client.name), how);
        let one = Scenario { clients: vec![client.clone()], ..all.clone() };
        measured(row, trial(bench, &one, Case::default()), |result| Some(&result.client))
    });
    Ok(each.collect())
}

/// A card, by a cable from one of its ports to another.
pub(super) fn card(bench: &mut Bench) -> Result<Vec<Row>> {
    let row = Row::of("7", "card, by a loopback cable", "");
    let (Some(tx), Some(rx)) = (&bench.args.nic_tx, &bench.args.nic_rx) else {
        let why = "which? name two ports that a cable joins, such as --nic-tx xdp:eth1 --nic-rx xdp:eth2";
        return Ok(vec![row.unavailable(why)]);
    };
    let away = (bench.args.nic_cable * FIBER_NS_PER_M).round() as u64;
    let how = format!("one way from {tx} to {rx}, 64-byte frames; {away} ns of propagation taken out");
    let mut result = trial(bench, &between(tx, rx, 64)?, Case::default());
    if let Ok((result, _)) = &mut result {
        let least = result.client.latency.min();
        if away > least {
            bail!(
                "{} m of fiber take {away} ns, longer than the quickest frame did ({least} ns)",
                bench.args.nic_cable
            );
        }
        result.client.latency = earlier(&result.client.latency, away);
    }
    Ok(vec![measured(Row { how, ..row }, result, |result| Some(&result.client))])
}

/// A distribution with every value earlier by some time.
fn earlier(histogram: &Histogram, by_ns: u64) -> Histogram {
    let mut before = 0;
    let moved = histogram.cumulative().into_iter().map(|(value, up_to)| {
        let count = up_to - std::mem::replace(&mut before, up_to);
        (buckets::index(value.saturating_sub(by_ns)), count)
    });
    Histogram::from_buckets(moved)
}

pub(super) fn switch(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (experiment, bytes) in SWITCHED {
        rows.push(match (&bench.args.switch_tx, &bench.args.switch_rx) {
            (Some(tx), Some(rx)) => {
                let how = format!("one way from {tx} to {rx}, {bytes}-byte frames; with both ports: 7 is theirs");
                let row = Row::of(experiment, format!("switch, {bytes} bytes"), how);
                measured(row, trial(bench, &between(tx, rx, bytes)?, Case::default()), |result| Some(&result.client))
            }
            _ => {
                let how = "a Linux bridge in a lab stands for it: what taps before and behind saw, end of frame to end of frame";
                let row = Row::of(experiment, format!("Linux bridge, {bytes} bytes"), how);
                let mut bridged = scenario(BRIDGE)?;
                bridged.traffic.frame_size = bytes.try_into().map_err(|e| anyhow::anyhow!("{e}"))?;
                measured(row, trial(bench, &bridged, Case::default()), |result| result.truth.as_ref())
            }
        });
    }
    Ok(rows)
}

/// What a metre takes, from several lengths: of the user's cables, or of a delay line.
pub(super) fn cable(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut beside = None;
    let mut median = |(result, disturbed): Tried| {
        beside = beside.take().or(disturbed);
        Summary::of(&result.client.latency).median_ns().context("too few frames came")
    };
    let (name, stands, medians) = match (&bench.args.nic_tx, &bench.args.nic_rx, &bench.args.cables[..]) {
        (Some(tx), Some(rx), lengths @ [_, ..]) => {
            let (scenario, mut medians) = (between(tx, rx, 64)?, Vec::new());
            for length_m in lengths {
                plugged(bench, tx, rx, *length_m)?;
                joined(bench, [tx, rx])?;
                medians.push((*length_m, median(trial(bench, &scenario, Case::default())?)?));
            }
            ("cables", format!("one way from {tx} to {rx}"), medians)
        }
        _ => {
            let scenario = scenario(CABLE)?;
            let mut of = |length_m| {
                let case = Case { length_m: Some(length_m), ..Case::default() };
                Ok((length_m, median(trial(bench, &scenario, case)?)?))
            };
            let medians = LENGTHS_M.into_iter().map(&mut of).collect::<Result<Vec<_>>>()?;
            ("fiber", "a delay line inside the process stands for the fiber".to_owned(), medians)
        }
    };
    let line = Line::through(&medians);
    let lengths: Vec<String> = medians.iter().map(|(length, _)| length.to_string()).collect();
    let how = format!("slope of the medians over lengths of {} m; {stands}", lengths.join(", "));
    let error = line.slope_error.map_or(String::new(), |error| format!(" ± {error:.3} (standard error)"));
    let account = format!(
        "{:.3}{error} ns a metre (the paper: {FIBER_NS_PER_M}), and {:.0} ns at no length",
        line.slope, line.at_zero
    );
    let row = Row::of("cable", name, how).with_account(account).beside(beside);
    // Two standard errors: less than that can't be told from nothing.
    let resolved = line.slope_error.is_none_or(|error| line.slope > 2.0 * error);
    Ok(vec![if resolved { row } else { row.unavailable("what a metre takes is lost in the noise of this host") }])
}

/// Waits until the user says that a cable is in, by its length: what was typed too early says nothing.
fn plugged(bench: &Bench, tx: &PortName, rx: &PortName, length_m: f64) -> Result<()> {
    loop {
        let asked = format!("join {tx} and {rx} by {length_m} m of cable, then type {length_m} and press Enter");
        bench.bar.suspend(|| complain(asked));
        let line = line(bench).with_context(|| format!("nobody says that the cable of {length_m} m is in"))?;
        if line.trim().parse() == Ok(length_m) {
            return Ok(());
        }
    }
}

/// A line that the user types.
fn line(bench: &Bench) -> Result<String> {
    let (tell, told) = mpsc::channel();
    // A thread of its own: reading goes on after a signal.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = tell.send(std::io::stdin().read_line(&mut line).map(|count| (count, line)));
    });
    loop {
        match told.recv_timeout(SHOWN) {
            Ok(Ok((1.., line))) => return Ok(line),
            Ok(Ok(_)) => bail!("standard input is at its end"),
            Ok(Err(error)) => return Err(error).context("standard input can't be read"),
            Err(_) if bench.stop.load(Relaxed) => bail!("interrupted by the user"),
            Err(_) => {}
        }
    }
}

/// Waits until both interfaces have a link again: after a cable was put in, that takes a card seconds.
fn joined(bench: &Bench, ports: [&PortName; 2]) -> Result<()> {
    let begun = Instant::now();
    for port in ports {
        let Place::Interface(interface) = &port.place else { continue };
        while !usect_lab::link(port.netns.as_deref(), interface)?.carrier {
            if bench.stop.load(Relaxed) {
                bail!("interrupted by the user");
            }
            if begun.elapsed() > LINK_UP {
                bail!("{port} has no link {} s after the cable was put in", LINK_UP.as_secs());
            }
            std::thread::sleep(SHOWN);
        }
    }
    Ok(())
}

/// The line through points, by least squares.
struct Line {
    slope: f64,
    /// The slope's standard error, where there are more than two points.
    slope_error: Option<f64>,
    at_zero: f64,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Line {
        let n = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
        let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
        let at_zero = y - slope * x;
        let rest: f64 = points.iter().map(|point| (point.1 - at_zero - slope * point.0).powi(2)).sum();
        let slope_error = (points.len() > 2).then(|| (rest / (n - 2.0) / spread).sqrt());
        Line { slope, slope_error, at_zero }
    }
}

/// Two ports of the user's, and nothing of ours between them.
fn between(tx: &PortName, rx: &PortName, bytes: u16) -> Result<Scenario> {
    let client = ClientSpec::between(tx.clone(), rx.clone());
    let size = bytes.try_into().map_err(|e| anyhow::anyhow!("{e}"))?;
    let mut scenario = inside()?;
    scenario.title = format!("{tx} to {rx}");
    scenario.traffic = TrafficSpec::evenly(size, RateSpec::Frames(10_000));
    (scenario.dut, scenario.cores, scenario.clients) =
        (DutSpec::External { fiber: None, answered: false }, CoreSpec::default(), vec![client]);
    scenario.check().map_err(|(_, why)| anyhow::Error::msg(why))?;
    Ok(scenario)
}

/// What came out of a trial, and what others took meanwhile.
type Tried = (TrialResult, Option<String>);

fn trial(bench: &Bench, scenario: &Scenario, case: Case) -> Result<Tried> {
    let protocol = Protocol { warmup_s: 0.2, duration_s: bench.seconds(), runs: 1 };
    let traffic = Traffic::of(&case.traffic(&scenario.traffic), &protocol);
    let client = scenario.clients.first().context("a scenario has a client")?.clone();
    let trial = Trial { case, ..Trial::once(client, traffic) };
    let mut rig = Rig::new(scenario, bench.stop.clone())?;
    let meanwhile = Meanwhile::begin();
    let result = rig.run(&trial, &mut |progress| {
        bench.bar.set_position((1000.0 * progress.elapsed_s / progress.expected_s.max(1e-9)).min(1000.0) as u64);
        bench.bar.set_message(format!("{} frames sent, {} back", progress.sent, progress.received));
    })?;
    let disturbed = much(&meanwhile.taken(), &result.client.stalls);
    Ok((result, disturbed))
}

/// A row with what came out of a trial, or why nothing did.
fn measured(row: Row, tried: Result<Tried>, of: fn(&TrialResult) -> Option<&Measurement>) -> Row {
    match tried {
        Err(error) => row.unavailable(crate::sentence(&error)),
        Ok((result, disturbed)) => match of(&result).filter(|found| found.latency.samples() > 0) {
            None => row.unavailable("nothing came back"),
            Some(found) => {
                let row = row.with_account(counts(found)).beside(disturbed);
                let seconds = found.counts.sent as f64 / result.trial.traffic.rate.frames_per_second();
                match result.trial.traffic.mode {
                    // The rate only says how many.
                    Mode::PingPong => row.spent(&found.latency),
                    _ => row.measured(&found.latency, seconds),
                }
            }
        },
    }
}

fn counts(found: &Measurement) -> String {
    let counts = &found.counts;
    format!("{} frames, {} lost", counts.sent, counts.lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_line() {
        let line = Line::through(&[(0.0, 3.0), (1.0, 8.0), (2.0, 13.0)]);
        assert!((line.slope - 5.0).abs() < 1e-12 && (line.at_zero - 3.0).abs() < 1e-12);
        assert!(line.slope_error.unwrap() < 1e-12);
        // By hand: what is left is 1/6, -1/3, 1/6, and the lengths' spread is 2.
        let line = Line::through(&[(0.0, 0.0), (1.0, 0.0), (2.0, 1.0)]);
        assert!(
            (line.slope - 0.5).abs() < 1e-12 && (line.slope_error.unwrap() - (1.0_f64 / 12.0).sqrt()).abs() < 1e-12
        );
        assert!(Line::through(&[(0.0, 3.0), (1.0, 8.0)]).slope_error.is_none());
    }

    #[test]
    fn every_scenario_of_ours_is_one() {
        for text in [HOST, CLIENT_SERVER, BRIDGE, CABLE] {
            scenario(text).unwrap();
        }
    }

    #[test]
    fn values_get_earlier_and_never_less_than_nothing() {
        let mut histogram = Histogram::default();
        [5, 100, 100, 300].into_iter().for_each(|ns| histogram.record(ns));
        let found = earlier(&histogram, 50);
        assert_eq!((found.samples(), found.min(), found.max()), (4, 0, 250));
    }
}
