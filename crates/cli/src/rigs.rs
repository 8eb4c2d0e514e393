//! The rig of each case of a run: that of its device or of a loopback, under a profile of the host's settings; one at a time.

use crate::host;
use anyhow::{Context, Result, bail};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use usect_core::environment::Environment;
use usect_core::profile::{Applied, Profile};
use usect_core::scenario::{Case, Scenario};
use usect_lab::audit;
use usect_lab::tune::{self, Tuned};
use usect_rig::Rig;

/// A rig, and what it was made for.
pub(crate) struct Rigs {
    scenario: Scenario,
    stop: Arc<AtomicBool>,
    rig: Rig,
    loopback: bool,
    profile: Profile,
    /// Settings in force.
    tuned: Option<Tuned>,
    /// Every profile that was, in order.
    applied: Vec<Applied>,
    /// The cores that usect may run on.
    online: Vec<usize>,
}

impl Rigs {
    /// That of a scenario's device, under the host's settings as they are.
    pub(crate) fn new(scenario: &Scenario, stop: Arc<AtomicBool>) -> Result<Rigs> {
        let online = audit::online_cores();
        let scope = host::scope(&scenario.host)?;
        if let Some(pid) = tune::holder()?.filter(|_| !scenario.vary.profile.is_empty()) {
            bail!(
                "process {pid} has changed the host's settings, so that no profile is what it says: measure without it"
            );
        }
        for profile in &scenario.vary.profile {
            tune::cores(profile, &scope, &online)
                .map_err(|why| anyhow::anyhow!("this host can't do profile {profile}: {why}; leave it out"))?;
        }
        Ok(Rigs {
            scenario: scenario.clone(),
            rig: Rig::new(scenario, stop.clone())?,
            stop,
            loopback: false,
            profile: Profile::default(),
            tuned: None,
            applied: Vec::new(),
            online,
        })
    }

    /// The present one.
    pub(crate) fn rig(&self) -> &Rig {
        &self.rig
    }

    /// That of a case.
    pub(crate) fn at(&mut self, case: &Case) -> Result<&mut Rig> {
        let profile = case.profile.unwrap_or_default();
        if (self.loopback, self.profile) == (case.loopback, profile) {
            return Ok(&mut self.rig);
        }
        // The names of its namespaces are free only when it is gone.
        self.rig.take_down();
        if self.profile != profile {
            self.tune(&profile)?;
        }
        let mut scenario = self.scenario.clone();
        if case.loopback {
            scenario.dut = Case { loopback: true, ..Case::default() }.dut(&self.scenario.dut);
            // The same threads on the same cores; the device's has nothing to do. What is steered may be the device's.
            scenario.cores = self.rig.cores();
            scenario.steer.clear();
        }
        self.rig = Rig::new(&scenario, self.stop.clone())?;
        (self.loopback, self.profile) = (case.loopback, profile);
        Ok(&mut self.rig)
    }

    /// Puts one profile's settings back, and another's in force.
    fn tune(&mut self, profile: &Profile) -> Result<()> {
        self.put_back();
        let scope = host::scope(&self.scenario.host)?;
        if !profile.is_nothing() {
            let tuned = Tuned::apply(profile, &scope).with_context(|| format!("profile {profile}"))?;
            if self.applied.iter().all(|known| known.profile != *profile) {
                self.applied.push(Applied { profile: *profile, wanted: tuned.wanted.clone() });
            }
            self.tuned = Some(tuned);
        }
        let cores = tune::cores(profile, &scope, &self.online).map_err(anyhow::Error::msg)?;
        Ok(tune::run_on(&cores)?)
    }

    /// What the figures depend on; what a loopback or a profile depends on is not what the device's figures do.
    pub(crate) fn environment(&self) -> Environment {
        if self.loopback || !self.profile.is_nothing() { Environment::default() } else { self.rig.environment() }
    }

    /// Takes everything down and puts everything back; the profiles that were in force.
    pub(crate) fn finish(mut self) -> Vec<Applied> {
        self.rig.take_down();
        self.put_back();
        self.applied
    }

    /// Puts the settings of the present profile back.
    fn put_back(&mut self) {
        self.tuned.take().into_iter().for_each(host::put_back);
    }
}
