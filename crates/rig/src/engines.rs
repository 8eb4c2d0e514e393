//! What is usable on this host, and why not: each engine moves some frames over a lab, as it would in a
//! run, and is not looked up in a list.

use crate::{Rig, RigError};
use std::sync::Arc;
use usect_clock::Clock;
use usect_core::scenario::Scenario;
use usect_core::trial::{Traffic, Trial, TrialResult};

/// A client of each engine over a bare wire, 10 frames each.
const ENGINES: &str = r#"
title = "what is usable here"
traffic = { frame_size = 64, rate = "1 kpps" }
protocol = { warmup_s = 0, duration_s = 0.01, runs = 1 }
dut = { kind = "wire" }
[[client]]
name = "udp"
engine = "udp"
[[client]]
name = "packet"
engine = "packet"
[[client]]
name = "xdp"
engine = "xdp"
[[client]]
name = "kernel"
engine = "kernel"
"#;

/// The same between taps, which see every client alike.
const TAPPED: &str = r#"
title = "what is usable here"
traffic = { frame_size = 64, rate = "1 kpps" }
protocol = { warmup_s = 0, duration_s = 0.01, runs = 1 }
dut = { kind = "xdp-forwarder" }
[[client]]
name = "udp"
engine = "udp"
"#;

/// Whether something can be used here.
#[derive(Debug, Clone)]
pub struct Finding {
    /// An engine, or `clock` or `truth`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// How it works here, or why it doesn't and what to do.
    pub verdict: Result<String, String>,
}

/// Tries everything, on a lab of its own. What must not be tried now, for example because another process
/// measures, is reported with that reason.
pub fn probe(may_measure: Result<(), String>) -> Vec<Finding> {
    let clock = match Clock::calibrate() {
        Ok(clock) => Ok(format!("invariant TSC, {:.3} GHz", clock.rate().hz as f64 / 1e9)),
        Err(e) => Err(e.to_string()),
    };
    let rig = |scenario: &Scenario| {
        may_measure.clone().map_err(|why| format!("not tried: {why}"))?;
        Rig::new(scenario, Arc::default()).map_err(|e| format!("not tried: {e}"))
    };
    let (engines, tapped) = (parse(ENGINES), parse(TAPPED));
    let mut wire = rig(&engines);
    let mut engine = |name| try_engine(wire.as_mut().map_err(|e| e.clone())?, &engines, name);
    let (udp, packet, xdp, kernel) = (engine("udp"), engine("packet"), engine("xdp"), engine("kernel"));
    // One lab at a time.
    drop(wire);
    let truth = rig(&tapped).and_then(|mut rig| try_truth(&mut rig, &tapped));
    vec![
        Finding { name: "clock", purpose: "stamps of every client in user space", verdict: clock },
        Finding { name: "udp", purpose: "UDP sockets, blocking or polled", verdict: udp },
        Finding { name: "packet", purpose: "AF_PACKET rings, polled", verdict: packet },
        Finding { name: "xdp", purpose: "AF_XDP rings, polled", verdict: xdp },
        Finding { name: "kernel", purpose: "generator and receiver in eBPF", verdict: kernel },
        Finding { name: "truth", purpose: "passive taps at the DUT's interfaces", verdict: truth },
    ]
}

fn parse(scenario: &str) -> Scenario {
    Scenario::parse(scenario).expect("the scenario is a constant")
}

fn run(rig: &mut Rig, scenario: &Scenario, client: &str) -> Result<TrialResult, RigError> {
    let client = scenario.clients.iter().find(|c| c.name == client).expect("the scenario has it").clone();
    let traffic = Traffic::of(&scenario.traffic, &scenario.protocol);
    rig.run(&Trial { client, run: 1, traffic }, &mut |_| ())
}

fn try_engine(rig: &mut Rig, scenario: &Scenario, name: &str) -> Result<String, String> {
    let client = run(rig, scenario, name).map_err(|e| e.to_string())?.client;
    let (sent, stamped) = (client.counts.sent, client.counts.stamped);
    let how = client.notes.join("; ");
    if stamped == sent { Ok(how) } else { Err(format!("of {sent} frames {stamped} came through and were stamped")) }
}

fn try_truth(rig: &mut Rig, scenario: &Scenario) -> Result<String, String> {
    let truth = run(rig, scenario, "udp").map_err(|e| e.to_string())?.truth;
    let counts = truth.map(|t| t.counts).unwrap_or_default();
    match (counts.sent, counts.stamped) {
        (sent, stamped) if sent > 0 && sent == stamped => Ok("eBPF in the wires, every frame stamped".into()),
        (sent, stamped) => Err(format!("of {sent} frames seen to enter, {stamped} were stamped as they left")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::port_name::Engine;

    #[test]
    fn every_engine_there_is_gets_tried() {
        let tried: Vec<Engine> = parse(ENGINES).clients.iter().map(|c| c.engine).collect();
        assert_eq!(tried, Engine::ALL);
        assert_eq!(parse(TAPPED).clients.len(), 1);
    }
}
