//! Settings of an interface that ethtool(8) and tc(8) read and write: coalescing, offloads, the queueing discipline.

use crate::audit;
use crate::program::run;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a queueing discipline that the kernel chose by itself begins; what kinds it consists of follows.
pub(crate) const BY_DEFAULT: &str = "default";

/// How it is said that ethtool(8) doesn't know what it is asked for.
pub(crate) const UNKNOWN: &str = "there is no";

/// Short names of features, as ethtool(8) takes them, and the long ones that it prints.
const SHORT: [(&str, &str); 12] = [
    ("rx", "rx-checksumming"),
    ("tx", "tx-checksumming"),
    ("sg", "scatter-gather"),
    ("tso", "tcp-segmentation-offload"),
    ("ufo", "udp-fragmentation-offload"),
    ("gso", "generic-segmentation-offload"),
    ("gro", "generic-receive-offload"),
    ("lro", "large-receive-offload"),
    ("rxvlan", "rx-vlan-offload"),
    ("txvlan", "tx-vlan-offload"),
    ("ntuple", "ntuple-filters"),
    ("rxhash", "receive-hashing"),
];

/// Which of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Of {
    /// A parameter of its coalescing, as ethtool(8) calls it: `rx-usecs`, `adaptive-rx`.
    Coalescing(String),
    /// A feature, by its short name or its long one: `tso`, `rx-gro-list`. It is `on` or `off`.
    Feature(String),
    /// The root of its queueing disciplines: [`BY_DEFAULT`] and kinds, or the words of `tc qdisc replace dev … root`, further commands behind semicolons.
    Queue,
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Coalescing(parameter) => f.write_str(parameter),
            Of::Feature(name) => f.write_str(name),
            Of::Queue => f.write_str("queueing discipline"),
        }
    }
}

impl Of {
    /// What it is now.
    ///
    /// Errors: why it can't be read.
    pub(super) fn read(&self, netns: Option<&str>, interface: &str) -> Result<String, String> {
        let told = |program: &str, args: &[&str]| run(netns, program, args).map_err(|e| e.reason());
        match self {
            Of::Coalescing(parameter) => {
                let printed = told("ethtool", &["-c", interface])?;
                coalescing(&printed, parameter).ok_or_else(|| {
                    let unknown = format!("{UNKNOWN} parameter {parameter:?}: see `ethtool -c {interface}`");
                    if names(&printed, parameter) { "the driver has no such parameter".to_owned() } else { unknown }
                })
            }
            Of::Feature(name) => {
                let found = feature(&told("ethtool", &["-k", interface])?, name);
                let on = found.ok_or_else(|| format!("{UNKNOWN} feature {name:?}: see `ethtool -k {interface}`"))?;
                Ok(if on { "on" } else { "off" }.into())
            }
            Of::Queue => Ok(root(&told("tc", &["qdisc", "show", "dev", interface])?)),
        }
    }

    /// Sets it.
    ///
    /// Errors: why it can't be set.
    pub(super) fn write(&self, netns: Option<&str>, interface: &str, value: &str) -> Result<(), String> {
        let told = |program: &str, args: &[&str]| run(netns, program, args).map(drop).map_err(|e| e.reason());
        match self {
            Of::Coalescing(parameter) => told("ethtool", &["-C", interface, parameter, value]),
            Of::Feature(name) => told("ethtool", &["-K", interface, name, value]),
            Of::Queue if value.starts_with(BY_DEFAULT) => told("tc", &["qdisc", "del", "dev", interface, "root"]),
            Of::Queue => {
                let commands = commands(interface, value)?;
                let which = |command: &[&str]| {
                    if commands.len() > 1 { format!(" (tc {})", command.join(" ")) } else { String::new() }
                };
                commands
                    .iter()
                    .try_for_each(|command| told("tc", command).map_err(|why| format!("{why}{}", which(command))))
            }
        }
    }

    /// Features that are switched with it, where it stands for several, and where a driver can switch them: not all of them need be as it is.
    pub(super) fn members(&self, netns: Option<&str>, interface: &str) -> Vec<Of> {
        let Of::Feature(name) = self else { return Vec::new() };
        let printed = run(netns, "ethtool", &["-k", interface]).unwrap_or_default();
        members(&printed, name).into_iter().map(Of::Feature).collect()
    }

    /// Why what reads as it was asked for isn't so: a feature that stands for several is on when any of them is.
    pub(crate) fn in_name_only(&self, netns: Option<&str>, interface: &str) -> Option<String> {
        let Of::Feature(name) = self else { return None };
        requested(&run(netns, "ethtool", &["-k", interface]).ok()?, name)
    }
}

/// The commands of `tc` that make a queueing discipline an interface's root. Where it takes more than one, the root is `1:`.
fn commands<'a>(interface: &'a str, value: &'a str) -> Result<Vec<Vec<&'a str>>, String> {
    let parts: Vec<Vec<&str>> = value.split(';').map(|part| part.split_whitespace().collect()).collect();
    let handle: &[&str] = if parts.len() > 1 { &["handle", "1:"] } else { &[] };
    let command = |(i, part): (usize, &Vec<&'a str>)| match part[..] {
        [] => Err("there is nothing between two semicolons".to_owned()),
        [..] if i == 0 => Ok([&["qdisc", "replace", "dev", interface, "root"][..], handle, part].concat()),
        [object, ref rest @ ..] => Ok([&[object, "add", "dev", interface][..], rest].concat()),
    };
    parts.iter().enumerate().map(command).collect()
}

/// The root among what `tc qdisc show` prints: `qdisc pfifo 8001: root refcnt 2 limit 1000p`. The kernel's own choice has no number; what it
/// chooses may be another kind when it chooses again, and so the kinds belong to it.
fn root(printed: &str) -> String {
    let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = printed.lines().map(words).collect();
    let found = all.iter().find(|words| words.get(2).is_some_and(|word| word == "root"));
    match found {
        Some(words) if words[1] != "0:" => words.join(" "),
        _ => {
            let mut kinds: Vec<&str> = all.iter().filter_map(|words| words.first()).map(String::as_str).collect();
            kinds.dedup();
            [BY_DEFAULT].into_iter().chain(kinds).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Whether `ethtool -c` names a parameter, of which the driver may know nothing.
fn names(printed: &str, parameter: &str) -> bool {
    let pair = ["adaptive-rx", "adaptive-tx", "cqe-mode-rx", "cqe-mode-tx"].contains(&parameter);
    pair || printed.lines().any(|line| line.split_once(':').is_some_and(|(name, _)| name == parameter))
}

/// The features below one that stands for them, but those that no driver of the kind can switch.
fn members(printed: &str, name: &str) -> Vec<String> {
    let head = format!("{}:", long(name));
    let below = printed.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let own = below.map_while(|line| line.strip_prefix('\t')?.split_once(": "));
    own.filter(|(_, value)| !value.contains("[fixed]")).map(|(member, _)| member.to_owned()).collect()
}

/// A parameter in what `ethtool -c` prints.
fn coalescing(text: &str, parameter: &str) -> Option<String> {
    audit::coalescing(text).into_iter().find_map(|(key, value)| (key == parameter).then_some(value))
}

fn long(name: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| *long)
}

/// The first of those that a feature stands for, where it was asked for and is off all the same: something that it needs is off.
fn requested(printed: &str, name: &str) -> Option<String> {
    let head = format!("{}:", long(name));
    let first = printed.lines().skip_while(|line| !line.starts_with(&head)).nth(1)?;
    let (member, value) = first.strip_prefix('\t')?.split_once(": ")?;
    value.contains("[requested on]").then(|| member.to_owned())
}

/// Whether what `ethtool -k` prints says that a feature is on, by either of its names.
fn feature(printed: &str, name: &str) -> Option<bool> {
    let long = long(name);
    printed.lines().find_map(|line| {
        let (found, value) = line.trim().split_once(": ")?;
        (found == long).then(|| value.starts_with("on"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FEATURES: &str = "Features for t0:\nrx-checksumming: on\ntcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\n\
        rx-gro-hw: off [fixed]\nlarge-receive-offload: off [fixed]\n";

    const COALESCING: &str = "Coalesce parameters for eth1:\nAdaptive RX: on  TX: off\nstats-block-usecs:\tn/a\n\
                              rx-usecs:\t3\nrx-usecs-irq:\tn/a\ntx-usecs:\t0\n";

    #[test]
    fn what_ethtool_says_of_coalescing() {
        let of = |name| coalescing(COALESCING, name);
        assert_eq!((of("rx-usecs").as_deref(), of("tx-usecs").as_deref()), (Some("3"), Some("0")));
        assert_eq!((of("adaptive-rx").as_deref(), of("adaptive-tx").as_deref()), (Some("on"), Some("off")));
        assert_eq!((of("rx-usecs-irq"), of("rx")), (None, None));
        let known = |name| names(COALESCING, name);
        assert!(known("rx-usecs-irq") && known("adaptive-rx") && !known("rx-usec"));
    }

    #[test]
    fn a_feature_that_is_on_in_name_only_is_told() {
        let printed = FEATURES.replace(
            "offload: off\n\ttx-tcp-segmentation: off",
            "offload: on\n\ttx-tcp-segmentation: off [requested on]",
        );
        assert_eq!(requested(&printed, "tso").as_deref(), Some("tx-tcp-segmentation"));
        assert_eq!((requested(&printed, "rx"), requested(FEATURES, "tso"), requested("", "tso")), (None, None, None));
    }

    #[test]
    fn a_feature_that_stands_for_several_names_those_that_can_be_switched() {
        let printed = FEATURES.replace(
            "tion: off\nrx-gro",
            "tion: off\n\ttx-tcp-mangleid-segmentation: off\n\ttx-tcp-ecn: off [fixed]\nrx-gro",
        );
        assert_eq!(members(&printed, "tso"), ["tx-tcp-segmentation", "tx-tcp-mangleid-segmentation"]);
        assert_eq!((members(&printed, "rx"), members(&printed, "lro"), members("", "tso")), (vec![], vec![], vec![]));
    }

    #[test]
    fn features_are_found_by_either_name() {
        let of = |name| feature(FEATURES, name);
        assert_eq!((of("rx"), of("tso"), of("tx-tcp-segmentation")), (Some(true), Some(false), Some(false)));
        assert_eq!((of("lro"), of("warp")), (Some(false), None));
    }

    #[test]
    fn a_root_of_the_kernels_own_choice_is_told_from_others() {
        let chosen = "qdisc fq_codel 0: root refcnt 2 limit 10240p\n";
        assert_eq!((root(chosen).as_str(), root("").as_str()), ("default fq_codel", BY_DEFAULT));
        let several = "qdisc mq 0: root\nqdisc fq 0: parent :2 limit 10000p\nqdisc fq 0: parent :1 limit 10000p\n";
        assert_eq!(root(several), "default mq fq");
        assert_eq!(root("qdisc htb 1: root refcnt 2\nqdisc pfifo 8001: parent 1:1 limit 7p\n"), "htb 1: root refcnt 2");
    }

    #[test]
    fn a_tree_of_disciplines_is_several_commands() {
        let all = commands("t0", "htb default 1; class parent 1: classid 1:1 htb rate 1gbit").unwrap();
        let said: Vec<String> = all.into_iter().map(|command| command.join(" ")).collect();
        let expected = [
            "qdisc replace dev t0 root handle 1: htb default 1",
            "class add dev t0 parent 1: classid 1:1 htb rate 1gbit",
        ];
        assert_eq!(said, expected);
        assert_eq!(commands("t0", "pfifo").unwrap(), [["qdisc", "replace", "dev", "t0", "root", "pfifo"]]);
        assert!(commands("t0", "pfifo; ; x").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", coalesced in "(Adaptive RX:|rx-usecs:|[a-z0-9
    :])*", lines in "([a-z-]{1,6}: (on|off)( \\[fixed\\])?\n|qdisc [a-z]{0,3} [01]: root\n|.)*") {
            let _ = (members(&lines, "rx"), names(&text, "rx"), coalescing(&text, "rx-usecs"), coalescing(&coalesced, "adaptive-rx"), feature(&text, "tso"), feature(&lines, "rx"), root(&text), root(&lines), commands("t0", &text).is_ok());
        }
    }
}
