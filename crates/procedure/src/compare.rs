//! `compare`: several clients over one path, in every case, each as often as the protocol says (paper 000 §3.2).

use crate::{Procedure, Step};
use usect_core::calibration::Key;
use usect_core::run::TrialRecord;
use usect_core::scenario::Case;
use usect_core::scenario::{ClientSpec, Protocol, Scenario};
use usect_core::trial::{Traffic, Trial};

/// Runs every client once in every case, then again, so that a drift of the host falls on all alike.
#[derive(Debug, Clone)]
pub struct Compare {
    clients: Vec<ClientSpec>,
    cases: Vec<(Case, Traffic)>,
    runs: u32,
    goes_on: bool,
}

impl Compare {
    /// Over a scenario, under a protocol.
    pub fn new(scenario: &Scenario, protocol: &Protocol) -> Compare {
        let traffic = |case: Case| (case, Traffic::of(&case.traffic(&scenario.traffic), protocol));
        Compare {
            clients: scenario.clients.clone(),
            cases: scenario.vary.cases().into_iter().map(traffic).collect(),
            runs: protocol.runs,
            goes_on: false,
        }
    }
}

impl Compare {
    /// The same with as many frames in every trial, whatever their rate.
    pub fn with_frames(mut self, warmup: u64, frames: u64) -> Compare {
        self.cases.iter_mut().for_each(|(_, traffic)| (traffic.warmup_frames, traffic.frames) = (warmup, frames));
        self
    }

    /// The same, which goes on where a sender can't reach a rate.
    pub fn going_on(self) -> Compare {
        Compare { goes_on: true, ..self }
    }

    /// The same with every latency kept, in order.
    pub fn keeping_samples(mut self) -> Compare {
        self.cases.iter_mut().for_each(|(_, traffic)| traffic.keep_samples = true);
        self
    }

    /// The instruments that it measures with, each once.
    pub fn instruments(&self, scenario: &Scenario) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for client in &self.clients {
            for (case, sent) in &self.cases {
                let trial = Trial { case: *case, ..Trial::once(client.clone(), sent.clone()) };
                let key = Key::of(&trial, scenario);
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }
}

impl Procedure for Compare {
    fn next(&self, trials: &[TrialRecord]) -> Step {
        let (done, clients, cases) = (trials.len(), self.clients.len(), self.cases.len());
        let run = (done / (clients * cases)) as u32 + 1;
        if run > self.runs {
            return Step::Done;
        }
        let client = self.clients[done % clients].clone();
        let (case, traffic) = self.cases[done / clients % cases].clone();
        Step::Run(Box::new(Trial { run, case, goes_on: self.goes_on, ..Trial::once(client, traffic) }))
    }

    fn trials(&self) -> Option<usize> {
        Some(self.clients.len() * self.cases.len() * self.runs as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::measurement::Measurement;
    use usect_core::trial::TrialResult;

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

    fn run(procedure: impl Procedure) -> Vec<(String, u32)> {
        let mut results = Vec::new();
        while let Step::Run(trial) = procedure.next(&results) {
            results.push(TrialRecord::of(&TrialResult {
                trial: *trial,
                started: String::new(),
                client: Measurement::default(),
                truth: None,
                known_delay_ns: None,
                dut: Vec::new(),
                partial: None,
            }));
        }
        results.into_iter().map(|r| (r.trial.label(), r.trial.run)).collect()
    }

    #[test]
    fn clients_take_turns() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let protocol = Protocol { runs: 2, ..Protocol::quick() };
        let order = run(Compare::new(&scenario, &protocol));
        let order: Vec<(&str, u32)> = order.iter().map(|(c, r)| (c.as_str(), *r)).collect();
        assert_eq!(order, [("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    }

    #[test]
    fn every_case_is_tried_before_any_again() {
        let text = SCENARIO.replace("dut =", "vary = { frame_size = [64, 128] }\n dut =");
        let protocol = Protocol { runs: 2, ..Protocol::quick() };
        let order = run(Compare::new(&Scenario::parse(&text).unwrap(), &protocol));
        let labels: Vec<&str> = order.iter().map(|(label, _)| label.as_str()).collect();
        let once = ["a, 64 bytes", "b, 64 bytes", "a, 128 bytes", "b, 128 bytes"];
        assert_eq!(labels, [once, once].concat());
    }
}
