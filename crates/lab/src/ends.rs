//! An end of a path, set up for the time of a trial: MTU, offloads, coalescing, the queueing discipline of its interface; put back when that
//! is over, also after a kill. What a kernel or driver lacks is told apart from what is wrong.

use crate::change::{self, Change, Outcome};
use crate::error::LabError;
use crate::link::Link;
use crate::setting::{BY_DEFAULT, Of, Setting, UNKNOWN};
use usect_core::matrix::{Became, Settings, Words};

/// How it is written down.
const KIND: &str = "end";
/// What `tc` says where the kernel has no queueing discipline of a name.
const NO_SUCH_KIND: &str = "qdisc kind is unknown";
/// What is said of a program that is missing.
const NOT_INSTALLED: &str = "is not installed";

/// An interface that was set up; dropping this puts it back.
#[derive(Debug)]
pub struct Setup {
    change: Change,
}

impl Setup {
    /// Sets an interface up as a cell says; what the cell doesn't say stays as it is.
    ///
    /// Errors: what becomes of the cell instead: something is lacking here, or wrong.
    pub fn apply(link: &Link, settings: &Settings) -> Result<Setup, Became> {
        let mut wanted = mtu(link, settings.mtu);
        wanted.extend(pairs(settings.offloads.as_ref()).map(|(name, value)| (of(link, Of::Feature(name)), value)));
        wanted.extend(pairs(settings.coalescing.as_ref()).map(|(name, value)| (of(link, Of::Coalescing(name)), value)));
        wanted.extend(settings.queue.as_ref().map(|words| (of(link, Of::Queue), words.text().to_owned())));
        for (setting, _) in &wanted {
            check(link, setting)?;
        }
        let place = (KIND, link.netns.as_deref(), link.interface.as_str());
        let (change, outcomes) = Change::apply(place, &wanted).map_err(|e| Became::Failed(e.to_string()))?;
        for ((setting, value), outcome) in wanted.iter().zip(outcomes) {
            if let Outcome::Refused(why) = outcome {
                return Err(refused(setting, value, &why));
            }
        }
        // Some features follow others: TSO goes when checksums are no longer left to the card. And drivers round times.
        let told = |of: &Of| matches!(of, Of::Feature(_) | Of::Coalescing(_));
        let told = wanted.iter().filter(|(setting, _)| matches!(setting, Setting::Interface { of, .. } if told(of)));
        for (setting, value) in told {
            let Setting::Interface { netns, interface, of } = setting else { continue };
            if let Some(member) = of.in_name_only(netns.as_deref(), interface).filter(|_| value == "on") {
                return Err(Became::Unavailable(format!(
                    "{setting} is on in name only: {member} stays off, since something that it needs is off (tso needs tx and sg)"
                )));
            }
            if let Some(now) = setting.read().ok().filter(|now| now != value) {
                return Err(Became::Unavailable(format!("{setting} doesn't stay {value}: it is {now}")));
            }
        }
        Ok(Setup { change })
    }

    /// Puts it back. What can't be is told, one sentence each, and left to the next start.
    pub fn put_back(self) -> Vec<String> {
        self.change.restore()
    }
}

/// What is known to be wrong before anything is tried.
fn check(link: &Link, setting: &Setting) -> Result<(), Became> {
    let Setting::Interface { of, .. } = setting else { return Ok(()) };
    match (of, setting.read()) {
        (_, Err(why)) if why.contains(NOT_INSTALLED) => Err(Became::Unavailable(why)),
        (Of::Feature(_) | Of::Queue, Err(why)) => Err(Became::Failed(why)),
        (Of::Coalescing(_), Err(why)) if why.starts_with(UNKNOWN) => Err(Became::Failed(why)),
        (Of::Coalescing(_), Err(why)) => Err(Became::Unavailable(format!("{setting}: {why}"))),
        (Of::Queue, Ok(now)) if !now.starts_with(BY_DEFAULT) => Err(Became::Failed(format!(
            "{} has a queueing discipline of its own ({now}), which could not be put back: take it away first",
            link.interface
        ))),
        _ => Ok(()),
    }
}

fn refused(setting: &Setting, value: &str, why: &str) -> Became {
    let said = format!("{setting} can't be {value}: {why}");
    match setting {
        Setting::Interface { of: Of::Queue, .. } if !why.contains(NO_SUCH_KIND) => Became::Failed(said),
        _ => Became::Unavailable(said),
    }
}

fn pairs(words: Option<&Words>) -> impl Iterator<Item = (String, String)> {
    let words: Vec<String> = words.map(Words::words).unwrap_or_default().into_iter().map(str::to_owned).collect();
    words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect::<Vec<_>>().into_iter()
}

fn of(link: &Link, of: Of) -> Setting {
    Setting::Interface { netns: link.netns.clone(), interface: link.interface.clone(), of }
}

fn mtu(link: &Link, bytes: Option<u16>) -> Vec<(Setting, String)> {
    let path = format!("/sys/class/net/{}/mtu", link.interface).into();
    bytes.map(|bytes| (Setting::File { path, netns: link.netns.clone() }, bytes.to_string())).into_iter().collect()
}

/// Puts back what runs that were killed left set up; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    change::recover(KIND, |interface| format!("put back what a killed run had set up of {interface}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::run;
    use crate::topology::Shape;
    use crate::{Lab, link};
    use usect_core::matrix::Matrix;

    #[test]
    fn what_is_lacking_is_told_apart_from_what_is_wrong_and_all_is_put_back() {
        if !usect_testing::root() {
            return;
        }
        let lab = Lab::up(&format!("ends-{}", std::process::id()), Shape::Wire, 1500).unwrap();
        let end = lab.tx();
        let shown = |program: &str, args: &[&str]| run(end.netns.as_deref(), program, args).unwrap();
        let all = || {
            (
                shown("tc", &["qdisc", "show", "dev", "t0"]),
                shown("ethtool", &["-k", "t0"]),
                shown("ip", &["link", "show", "t0"]),
            )
        };
        let before = all();
        let as_said = |vary: &str| {
            let matrix = Matrix::parse(&format!("title = \"\"\n[vary]\n{vary}")).unwrap();
            Setup::apply(end, &matrix.settings(&matrix.cells()[0]))
        };
        let setup =
            as_said("offloads = [\"tx on sg on tso on gro off\"]\nqueue = [\"pfifo limit 7\"]\nmtu = [1400]").unwrap();
        let (queue, features, _) = all();
        assert!(queue.contains("pfifo") && queue.contains("limit 7p"), "{queue}");
        assert!(
            features.contains("tcp-segmentation-offload: on") && features.contains("generic-receive-offload: off"),
            "{features}"
        );
        assert_eq!(link(end.netns.as_deref(), "t0").unwrap().mtu, 1400);
        let Err(Became::Failed(why)) = as_said("queue = [\"sfq\"]") else { panic!("it has one") };
        assert!(why.contains("of its own (pfifo"), "{why}");
        drop(setup);
        assert_eq!(all(), before);
        for (vary, said) in [
            ("offloads = [\"tx off tso on\"]", "tx-tcp-segmentation stays off"),
            ("offloads = [\"lro on\"]", "lro of t0 can't be on"),
            ("coalescing = [\"rx-usecs 0\"]", "rx-usecs of t0"),
        ] {
            let result = as_said(vary);
            let Err(Became::Unavailable(why)) = result else { panic!("{vary}: {result:?}") };
            assert!(why.contains(said), "{why}");
        }
        for (vary, said) in [
            ("offloads = [\"warp on\"]", "no feature \"warp\""),
            ("queue = [\"pfifo limit many\"]", "limit"),
            ("queue = [\"pfifo; ; x\"]", "between two semicolons"),
        ] {
            let result = as_said(vary);
            let Err(Became::Failed(why)) = result else { panic!("{vary}: {result:?}") };
            assert!(why.contains(said), "{why}");
        }
        assert_eq!(all(), before);
        // One of several that `tso` stands for isn't as the others are.
        shown("ethtool", &["-K", "t0", "tx", "on", "sg", "on", "tso", "on"]);
        shown("ethtool", &["-K", "t0", "tx-tcp-mangleid-segmentation", "off"]);
        let before = all();
        let setup = as_said("offloads = [\"tso off\"]").unwrap();
        assert!(all().1.contains("tcp-segmentation-offload: off"));
        assert!(setup.put_back().is_empty());
        assert_eq!(all(), before);
    }
}
