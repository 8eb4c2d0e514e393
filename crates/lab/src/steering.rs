//! An interface's interrupts and queues on one core for as long as a run lasts (paper 001 §2: "the best accuracy is guaranteed
//! when each CPU core processes IRQs of a specific network interface"), and put back after it, also after a kill.

use crate::change::{self, Change, Outcome};
use crate::error::LabError;
use crate::link::{Link, in_sysfs};
use crate::setting::Setting;

/// How it is written down.
const KIND: &str = "steering";

/// A steered interface; dropping this puts it back.
#[derive(Debug)]
#[must_use = "the interface is put back when this is dropped"]
pub struct Steering {
    _change: Change,
}

impl Steering {
    /// Sends the interrupts of an interface, and what its queues receive and send, to a core.
    ///
    /// Errors: the interface has neither interrupts nor queues that can be steered; the kernel refuses one of them.
    pub fn apply(link: &Link, core: usize) -> Result<Steering, LabError> {
        let irqs = interrupts(link).into_iter().map(|setting| (setting, core.to_string()));
        let queues = queues(link)?.into_iter().map(|setting| (setting, mask(core)));
        let wanted: Vec<(Setting, String)> = irqs.chain(queues).collect();
        let refused = |why: String| LabError::Unsteerable { interface: link.interface.clone(), why };
        if wanted.is_empty() {
            return Err(refused("it has no interrupts and no queues".into()));
        }
        let (change, outcomes) = Change::apply((KIND, link.netns.as_deref(), &link.interface), &wanted)?;
        let failed = wanted.iter().zip(outcomes).find_map(|((setting, _), outcome)| match outcome {
            Outcome::Refused(why) => Some(format!("{setting} can't be written: {why}")),
            _ => None,
        });
        failed.map_or(Ok(Steering { _change: change }), |why| Err(refused(why)))
    }
}

/// Puts back what runs that were killed left steered; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    change::recover(KIND, |interface| {
        format!("put interrupts and queues of `{interface}` back, which a killed run had steered")
    })
}

/// What is received on each queue (RPS), and which one a core sends through (XPS), as far as it can be read.
fn queues(link: &Link) -> Result<Vec<Setting>, LabError> {
    let folder = format!("/sys/class/net/{}/queues", link.interface);
    let script = format!(
        "for f in {folder}/rx-*/rps_cpus {folder}/tx-*/xps_cpus; do cat $f 2>/dev/null >/dev/null && echo $f; done; true"
    );
    let listed = in_sysfs(link, &["sh", "-c", &script])?;
    Ok(listed.lines().map(|path| Setting::File { path: path.into(), netns: link.netns.clone() }).collect())
}

/// The interrupts of a card; virtual interfaces have none.
fn interrupts(link: &Link) -> Vec<Setting> {
    let device = format!("/sys/class/net/{}/device", link.interface);
    // Of a virtio card they are those of the device that it is behind.
    let folders = ["msi_irqs", "../msi_irqs"].map(|folder| format!("{device}/{folder}"));
    let listed = folders.iter().find_map(|folder| in_sysfs(link, &["ls", folder]).ok()).unwrap_or_default();
    let setting = |number: &str| Setting::file(format!("/proc/irq/{number}/smp_affinity_list"));
    listed.split_whitespace().map(setting).filter(|setting| setting.read().is_ok()).collect()
}

/// A core as the kernel writes sets of them: words of 32 bits in hexadecimal, the highest first.
pub(crate) fn mask(core: usize) -> String {
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
