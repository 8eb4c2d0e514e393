//! `calibrate`: what instruments add over paths whose latency physics tells (paper 003 §4.5).

use usect_core::calibration::{self, Calibration, Fingerprint, Key};
use usect_core::gathered::Pooled;
use usect_core::run::{ClientRecord, Header, Run};
use usect_core::stats::Bounded;

/// The calibrations that a run over known paths makes: one for each instrument. Of several lengths of fiber the shortest
/// counts, where the least is physics and the most the instrument's.
pub fn of_run(run: &Run, pooled: &[Pooled]) -> Vec<Calibration> {
    let Header { scenario, environment, created, id, .. } = &run.header;
    let of = |record: &ClientRecord| {
        let own = pooled.iter().find(|p| p.client == record.client)?;
        let expected_ns = scenario.physics_ns(&record.case)?;
        let median = calibration::median_of_two_ns(&own.measured)?;
        let medians: Vec<f64> = own.singles.iter().filter_map(|single| single.median_ns).map(|m| m.value).collect();
        let correction = Bounded {
            value: median.value,
            low: medians.iter().copied().fold(median.low, f64::min),
            high: medians.iter().copied().fold(median.high, f64::max),
        };
        Some(Calibration {
            key: Key::of(&own.trial, scenario),
            correction_ns: correction.minus(expected_ns),
            expected_ns,
            path: record.case.dut(&scenario.dut).to_string(),
            made: created.clone(),
            run: id.clone(),
            host: Fingerprint::of(environment),
        })
    };
    let mut calibrations: Vec<Calibration> = Vec::new();
    for new in run.clients.iter().filter_map(of) {
        match calibrations.iter_mut().find(|known| known.key == new.key) {
            Some(known) if known.expected_ns <= new.expected_ns => {}
            Some(known) => *known = new,
            None => calibrations.push(new),
        }
    }
    calibrations
}
