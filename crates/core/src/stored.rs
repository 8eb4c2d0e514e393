//! The border to what is stored: a document becomes a type here alone, checked, so that nobody who uses it has to
//! defend himself against it. `run.json`, calibrations and lines of a monitor's log come this way.

use crate::calibration::Calibrations;
use crate::matrix::Measured;
use crate::monitor::{Entry, Start};
use crate::pattern::Pattern;
use crate::run::{ClientRecord, Header, Record, Run, SuiteRecord};
use crate::stages::StagesRecord;
use crate::trial::{Traffic, Trial};
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

/// The largest whole number of a document: as nanoseconds 104 days. Every reader of JSON has it exactly.
const MOST: u64 = 1 << 53;
/// All whole numbers together: whichever are added up, 64 bits hold them.
const MOST_TOGETHER: u64 = 1 << 62;
/// The largest of the others: neither sums nor squares of them are infinite.
const LARGEST: f64 = 1e100;
/// What nobody adds up: seeds, digests, and the two parts of an exact ratio.
const FREE: [&str; 3] = ["seed", "capture", "rate"];
/// Most times that a run was gone on with.
const MOST_SESSIONS: u32 = 1_000_000;

/// What is stored, and holds together.
pub trait Stored: DeserializeOwned {
    /// Checks what no type expresses and its users rely on.
    ///
    /// Errors: what can't be, in a sentence.
    fn check(&self) -> Result<(), String>;
}

/// Reads a document.
///
/// Errors: why it is none, in a sentence.
pub fn read<T: Stored>(json: Value) -> Result<T, String> {
    Reader::default().read(json)
}

/// Reads documents that are used together, such as the lines of a log.
#[derive(Debug, Default)]
pub struct Reader {
    /// The sum of all whole numbers so far.
    together: u64,
}

impl Reader {
    /// Reads one more.
    ///
    /// Errors: why it is none, in a sentence.
    pub fn read<T: Stored>(&mut self, json: Value) -> Result<T, String> {
        self.bounded(&json)?;
        let document: T = serde_json::from_value(json).map_err(|e| e.to_string())?;
        document.check()?;
        Ok(document)
    }

    /// That no number is larger than any that can be measured.
    fn bounded(&mut self, json: &Value) -> Result<(), String> {
        match json {
            Value::Number(number) => self.number(number),
            Value::Array(items) => items.iter().try_for_each(|item| self.bounded(item)),
            Value::Object(fields) => {
                let mut bound = fields.iter().filter(|(key, _)| !FREE.contains(&key.as_str()));
                bound.try_for_each(|(_, value)| self.bounded(value))
            }
            _ => Ok(()),
        }
    }

    fn number(&mut self, number: &Number) -> Result<(), String> {
        let whole = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
        let is_bounded = match whole {
            Some(whole) => {
                self.together = self.together.saturating_add(whole);
                whole <= MOST && self.together <= MOST_TOGETHER
            }
            None => number.as_f64().is_some_and(|number| number.abs() <= LARGEST),
        };
        if is_bounded { Ok(()) } else { Err(format!("{number} is more than can be measured")) }
    }
}

impl Stored for Calibrations {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Stored for Run {
    fn check(&self) -> Result<(), String> {
        self.header.check()?;
        self.clients.iter().try_for_each(ClientRecord::check)?;
        for record in &self.trials {
            record.trial.check()?;
            record.measured.check()?;
            record.truth.iter().try_for_each(Record::check)?;
        }
        Ok(())
    }
}

impl Header {
    fn check(&self) -> Result<(), String> {
        // A row of a dissection may last for longer than any trial.
        if self.dissect.is_none() {
            self.protocol.check()?;
        }
        self.scenario.check().map_err(|(_, why)| why)?;
        self.rfc2544.iter().try_for_each(|SuiteRecord { suite, .. }| suite.check())?;
        self.matrix.iter().try_for_each(Measured::check)
    }
}

impl ClientRecord {
    fn check(&self) -> Result<(), String> {
        if self.accuracy.iter().any(|accuracy| accuracy.within_ns == 0) {
            return Err(format!("`{}` is said to be accurate to within 0 ns", self.client));
        }
        self.measured.check()?;
        self.truth.iter().try_for_each(Record::check)
    }
}

impl Record {
    fn check(&self) -> Result<(), String> {
        let (clean, all) = (self.clean.as_ref().map_or(0, |clean| clean.samples), self.latency.samples);
        if clean > all {
            return Err(format!("{clean} samples were touched by no stall, and there are {all}"));
        }
        self.stages.iter().try_for_each(StagesRecord::check)
    }
}

impl StagesRecord {
    fn check(&self) -> Result<(), String> {
        let stages = self.stages.len();
        match self.shares.iter().find(|share| share.stages_ns.len() != stages) {
            Some(share) => {
                Err(format!("a share of {} has {} of {stages} stages", share.quantile, share.stages_ns.len()))
            }
            None => Ok(()),
        }
    }
}

impl Trial {
    fn check(&self) -> Result<(), String> {
        if self.client.name.contains(['/', '\\', '\0']) {
            return Err(format!("`{}` can't name a client", self.client.name));
        }
        self.traffic.checked()
    }
}

impl Traffic {
    fn checked(&self) -> Result<(), String> {
        if let Pattern::Trains(train) = &self.pattern {
            train.check_length()?;
        }
        if self.tagged.is_some_and(|tagged| tagged.every == 0) {
            return Err("every 0th frame is tagged, which is none".into());
        }
        self.check()
    }
}

impl Measured {
    fn check(&self) -> Result<(), String> {
        self.matrix.check()?;
        let factors = self.matrix.factors();
        for tried in &self.trials {
            let cell = &tried.turn.cell;
            let is_cell = cell.len() == factors.len()
                && cell.iter().zip(&factors).all(|(level, factor)| *level < factor.levels.len());
            if !is_cell {
                return Err(format!("{cell:?} is no cell of its matrix"));
            }
            if tried.session > MOST_SESSIONS {
                return Err(format!("a trial is of session {}, and {MOST_SESSIONS} is the last", tried.session));
            }
        }
        Ok(())
    }
}

impl Stored for Entry {
    fn check(&self) -> Result<(), String> {
        match self {
            Entry::Start(start) => start.check(),
            Entry::Interval(interval) if interval.histogram.samples() != interval.latency.samples => Err(format!(
                "a distribution of {} samples is said to have {}",
                interval.histogram.samples(),
                interval.latency.samples
            )),
            _ => Ok(()),
        }
    }
}

impl Start {
    fn check(&self) -> Result<(), String> {
        self.scenario.check().map_err(|(_, why)| why)?;
        // A capture is not stored, and nothing replays one for ever.
        let rate = self.scenario.traffic.mean_rate();
        rate.map(|_| ()).ok_or_else(|| "a monitor measures at a rate, and there is none".into())
    }
}
