//! An interface's interrupts and queues on one core for as long as a run lasts (paper 001 §2: "the best accuracy is guaranteed
//! when each CPU core processes IRQs of a specific network interface"), and put back after it, after a kill by the next start.

use crate::error::LabError;
use crate::link::{Link, in_sysfs};
use crate::settings::{self, Noted};
use std::fs;

/// How it is written down.
const SETTING: &str = "steering";

/// A file of the kernel's, and what it said before.
type Knob = (String, String);

/// A steered interface; dropping this puts it back.
#[derive(Debug)]
#[must_use = "the interface is put back when this is dropped"]
pub struct Steering {
    link: Link,
    knobs: Vec<Knob>,
    noted: Option<Noted>,
}

impl Steering {
    /// Sends the interrupts of an interface, and what its queues receive and send, to a core.
    ///
    /// Errors: the interface has neither interrupts nor queues that can be steered; the kernel refuses one of them.
    pub fn apply(link: &Link, core: usize) -> Result<Steering, LabError> {
        let queues = queues(link)?;
        let irqs = interrupts(link);
        let wanted = irqs.iter().map(|knob| (knob.clone(), core.to_string()));
        let wanted: Vec<(Knob, String)> = wanted.chain(queues.into_iter().map(|knob| (knob, mask(core)))).collect();
        if wanted.is_empty() {
            return Err(LabError::Unsteerable {
                interface: link.interface.clone(),
                why: "it has no interrupts and no queues".into(),
            });
        }
        let knobs: Vec<Knob> = wanted.iter().map(|(knob, _)| knob.clone()).collect();
        let written = serde_json::to_string(&knobs).unwrap_or_default();
        let noted = settings::note(SETTING, link.netns.as_deref(), &link.interface, &written)?;
        let steering = Steering { link: link.clone(), knobs, noted: Some(noted) };
        for ((path, _), value) in &wanted {
            set(link, path, value)?;
        }
        Ok(steering)
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        let done: Vec<bool> = self.knobs.iter().map(|(path, before)| set(&self.link, path, before).is_ok()).collect();
        if done.contains(&false) {
            // The next start tries again.
            self.noted.take().into_iter().for_each(Noted::keep);
        }
    }
}

/// Puts back what runs that were killed left steered; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    let mut said = Vec::new();
    for stale in settings::stale(SETTING)? {
        let interface = stale.interface().to_owned();
        let knobs: Vec<Knob> = serde_json::from_str(stale.value()).unwrap_or_default();
        // An interface that is gone took its queues along.
        if let Ok(link) = crate::link::link(stale.netns(), &interface) {
            match knobs.iter().try_for_each(|(path, before)| set(&link, path, before)) {
                Ok(()) => said
                    .push(format!("put interrupts and queues of `{interface}` back, which a killed run had steered")),
                Err(e) => {
                    said.push(format!("interrupts and queues of `{interface}` can't be put back: {e}"));
                    continue;
                }
            }
        }
        stale.strike_out()?;
    }
    Ok(said)
}

/// What is received on each queue (RPS), and which one a core sends through (XPS), as far as it can be read.
fn queues(link: &Link) -> Result<Vec<Knob>, LabError> {
    let folder = format!("/sys/class/net/{}/queues", link.interface);
    let script = format!(
        "for f in {folder}/rx-*/rps_cpus {folder}/tx-*/xps_cpus; do cat $f 2>/dev/null >/dev/null && echo $f $(cat $f); done; true"
    );
    let listed = in_sysfs(link, &["sh", "-c", &script])?;
    let knob = |line: &str| line.split_once(' ').map(|(path, value)| (path.to_owned(), value.to_owned()));
    Ok(listed.lines().filter_map(knob).collect())
}

/// The interrupts of a card; virtual interfaces have none.
fn interrupts(link: &Link) -> Vec<Knob> {
    let device = format!("/sys/class/net/{}/device", link.interface);
    // Of a virtio card they are those of the device that it is behind.
    let folders = ["msi_irqs", "../msi_irqs"].map(|folder| format!("{device}/{folder}"));
    let listed = folders.iter().find_map(|folder| in_sysfs(link, &["ls", folder]).ok()).unwrap_or_default();
    let knob = |number: &str| {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        fs::read_to_string(&path).ok().map(|before| (path, before.trim().to_owned()))
    };
    listed.split_whitespace().filter_map(knob).collect()
}

/// Writes a file of the kernel's, in the interface's namespace where it is of `/sys`.
fn set(link: &Link, path: &str, value: &str) -> Result<(), LabError> {
    let refused = |why: String| LabError::Unsteerable { interface: link.interface.clone(), why };
    if path.starts_with("/proc") {
        return fs::write(path, value).map_err(|e| refused(format!("{path} can't be written: {e}")));
    }
    in_sysfs(link, &["sh", "-c", &format!("echo {value} > {path}")]).map(drop).map_err(|e| refused(e.to_string()))
}

/// A core as the kernel writes sets of them: words of 32 bits in hexadecimal, the highest first.
fn mask(core: usize) -> String {
    let first = format!("{:x}", 1_u32 << (core % 32));
    std::iter::once(first).chain((0..core / 32).map(|_| "00000000".to_owned())).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_written_as_a_mask() {
        assert_eq!([0, 1, 31, 32, 65].map(mask), ["1", "2", "80000000", "1,00000000", "2,00000000,00000000"]);
    }
}
