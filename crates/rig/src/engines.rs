//! What is usable on this host, and why not: each engine moves some frames over a lab, as it would in a
//! run, and is not looked up in a list.

use crate::{Rig, RigError};
use std::sync::Arc;
use usect_clock::Clock;
use usect_core::port_name::Engine;
use usect_core::scenario::Scenario;
use usect_core::trial::{Traffic, Trial, TrialResult};

/// Whether something can be used here.
#[derive(Debug, Clone)]
pub struct Finding {
    /// An engine, or `clock` or `truth`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// How it works here, or why it doesn't and what to do.
    pub verdict: Verdict,
}

/// Whether something works.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It does, and how.
    Works(String),
    /// It doesn't, and why.
    Fails(String),
    /// It could not be tried now, and why.
    Untried(String),
}

impl From<Result<String, String>> for Verdict {
    fn from(tried: Result<String, String>) -> Verdict {
        tried.map_or_else(Verdict::Fails, Verdict::Works)
    }
}

/// Tries everything, on labs of its own. What must not be tried now, for example because another process
/// measures, is reported with that reason.
pub fn probe(may_measure: &Result<(), String>) -> Vec<Finding> {
    let clock = match Clock::calibrate() {
        Ok(clock) => Ok(format!("invariant TSC, {:.3} GHz", clock.rate().hz as f64 / 1e9)),
        Err(e) => Err(e.to_string()),
    };
    let clock = Finding { name: "clock", purpose: "stamps of every client in user space", verdict: clock.into() };
    let engine = |engine: Engine| {
        let verdict = try_it(may_measure, engine, "wire", all_stamped);
        Finding { name: engine.name(), purpose: purpose(engine), verdict }
    };
    let truth = try_it(may_measure, Engine::Udp, "xdp-forwarder", all_seen);
    let truth = Finding { name: "truth", purpose: "passive taps at the DUT's interfaces", verdict: truth };
    [clock].into_iter().chain(Engine::ALL.into_iter().map(engine)).chain([truth]).collect()
}

fn purpose(engine: Engine) -> &'static str {
    match engine {
        Engine::Udp => "UDP sockets, blocking or polled",
        Engine::Packet => "AF_PACKET rings, polled",
        Engine::Xdp => "AF_XDP rings, polled",
        Engine::Dpdk => "poll-mode drivers of DPDK",
        Engine::Mem => "rings inside the process",
        Engine::Kernel => "generator and receiver in eBPF",
    }
}

/// One client sends 10 frames through a DUT.
fn scenario(engine: Engine, dut: &str) -> Scenario {
    let text = format!(
        r#"
        title = "what is usable here"
        traffic = {{ frame_size = 64, rate = "1 kpps" }}
        protocol = {{ warmup_s = 0, duration_s = 0.01, runs = 1 }}
        dut = {{ kind = "{dut}" }}
        [[client]]
        name = "{engine}"
        engine = "{engine}"
        "#
    );
    Scenario::parse(&text).expect("only names vary")
}

fn try_it(
    may_measure: &Result<(), String>,
    engine: Engine,
    dut: &str,
    judge: fn(&TrialResult) -> Result<String, String>,
) -> Verdict {
    match may_measure {
        Err(why) => Verdict::Untried(why.clone()),
        Ok(()) => run(&scenario(engine, dut)).map_err(|e| e.to_string()).and_then(|result| judge(&result)).into(),
    }
}

fn run(scenario: &Scenario) -> Result<TrialResult, RigError> {
    let client = scenario.clients[0].clone();
    let traffic = Traffic::of(&scenario.traffic, &scenario.protocol);
    Rig::new(scenario, Arc::default())?.run(&Trial::once(client, traffic), &mut |_| ())
}

fn all_stamped(result: &TrialResult) -> Result<String, String> {
    let (sent, stamped) = (result.client.counts.sent, result.client.counts.stamped);
    let how = result.client.notes.join("; ");
    if stamped == sent { Ok(how) } else { Err(format!("of {sent} frames {stamped} came through and were stamped")) }
}

fn all_seen(result: &TrialResult) -> Result<String, String> {
    let counts = result.truth.as_ref().map(|t| t.counts).unwrap_or_default();
    match (counts.sent, counts.stamped) {
        (sent, stamped) if sent > 0 && sent == stamped => Ok("eBPF in the wires, every frame stamped".into()),
        (sent, stamped) => Err(format!("of {sent} frames seen to enter, {stamped} were stamped as they left")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_scenario() {
        for engine in Engine::ALL {
            assert_eq!(scenario(engine, "wire").clients[0].engine, engine);
        }
    }
}
