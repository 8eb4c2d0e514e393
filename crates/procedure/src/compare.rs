//! `compare`: several clients over one path, each as often as the protocol says (paper 000 §3.2).

use crate::{Procedure, Step};
use usect_core::scenario::{ClientSpec, Protocol, Scenario};
use usect_core::trial::{Traffic, Trial, TrialResult};

/// Runs every client once, then every client again, so that a drift of the host falls on all alike.
#[derive(Debug, Clone)]
pub struct Compare {
    clients: Vec<ClientSpec>,
    traffic: Traffic,
    runs: u32,
}

impl Compare {
    /// Over a scenario, under a protocol.
    pub fn new(scenario: &Scenario, protocol: &Protocol) -> Compare {
        Compare {
            clients: scenario.clients.clone(),
            traffic: Traffic::of(&scenario.traffic, protocol),
            runs: protocol.runs,
        }
    }
}

impl Procedure for Compare {
    fn next(&mut self, results: &[TrialResult]) -> Step {
        let done = results.len();
        if done >= self.clients.len() * self.runs as usize {
            return Step::Done;
        }
        let client = self.clients[done % self.clients.len()].clone();
        let run = (done / self.clients.len()) as u32 + 1;
        Step::Run(Box::new(Trial { client, run, traffic: self.traffic }))
    }

    fn trials(&self) -> Option<usize> {
        Some(self.clients.len() * self.runs as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::measurement::Measurement;

    const SCENARIO: &str = r#"
        title = "t"
        traffic = { frame_size = 64, rate = 1000 }
        dut = { kind = "wire" }
        [[client]]
        name = "a"
        engine = "udp"
        [[client]]
        name = "b"
        engine = "xdp"
    "#;

    fn run(mut procedure: impl Procedure) -> Vec<(String, u32)> {
        let mut results = Vec::new();
        while let Step::Run(trial) = procedure.next(&results) {
            results.push(TrialResult {
                trial: *trial,
                started: String::new(),
                client: Measurement::default(),
                truth: None,
                known_delay_ns: None,
                dut: Vec::new(),
                partial: None,
            });
        }
        results.into_iter().map(|r| (r.trial.client.name, r.trial.run)).collect()
    }

    #[test]
    fn clients_take_turns() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let protocol = Protocol { runs: 2, ..Protocol::quick() };
        let order = run(Compare::new(&scenario, &protocol));
        let order: Vec<(&str, u32)> = order.iter().map(|(c, r)| (c.as_str(), *r)).collect();
        assert_eq!(order, [("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    }
}
