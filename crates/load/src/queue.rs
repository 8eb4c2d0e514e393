//! A queueing discipline while something goes through it, as `tc -s qdisc` tells.

use crate::LoadError;
use serde::Deserialize;
use usect_core::matrix::Queue;
use usect_lab::run;

const PROGRAM: &str = "tc";

/// Looks at the queueing disciplines of an interface again and again.
pub struct Watch {
    netns: Option<String>,
    interface: String,
    first: Look,
    last: Look,
    looks: u64,
    packets: u64,
    most: Look,
}

/// What an interface's disciplines hold, all together.
#[derive(Debug, Clone, Default, PartialEq)]
struct Look {
    kinds: Vec<String>,
    packets: u64,
    bytes: u64,
    drops: u64,
    requeues: u64,
}

#[derive(Deserialize)]
struct Discipline {
    kind: String,
    #[serde(default)]
    root: bool,
    #[serde(default)]
    qlen: u64,
    #[serde(default)]
    backlog: u64,
    #[serde(default)]
    drops: u64,
    #[serde(default)]
    requeues: u64,
}

impl Watch {
    /// Begins to look.
    ///
    /// Errors: `tc` can't tell.
    pub fn begin(netns: Option<&str>, interface: &str) -> Result<Watch, LoadError> {
        let first = look(netns, interface)?;
        Ok(Watch {
            netns: netns.map(str::to_owned),
            interface: interface.to_owned(),
            last: first.clone(),
            looks: 0,
            packets: 0,
            most: Look::default(),
            first,
        })
    }

    /// Looks once more.
    ///
    /// Errors: `tc` can't tell.
    pub fn look(&mut self) -> Result<(), LoadError> {
        self.saw(look(self.netns.as_deref(), &self.interface)?);
        Ok(())
    }

    fn saw(&mut self, look: Look) {
        self.looks += 1;
        self.packets += look.packets;
        self.most.packets = self.most.packets.max(look.packets);
        self.most.bytes = self.most.bytes.max(look.bytes);
        self.last = look;
    }

    /// What was seen.
    pub fn end(self) -> Queue {
        Queue {
            interface: self.interface,
            kind: self.last.kinds.join(" "),
            looks: self.looks,
            mean_packets: if self.looks == 0 { 0.0 } else { self.packets as f64 / self.looks as f64 },
            most_packets: self.most.packets,
            most_bytes: self.most.bytes,
            drops: self.last.drops.saturating_sub(self.first.drops),
            requeues: self.last.requeues.saturating_sub(self.first.requeues),
        }
    }
}

fn look(netns: Option<&str>, interface: &str) -> Result<Look, LoadError> {
    let printed = run(netns, PROGRAM, &["-s", "-j", "qdisc", "show", "dev", interface])?;
    parse(&printed).map_err(|why| LoadError::Unreadable { program: PROGRAM, why })
}

fn parse(printed: &str) -> Result<Look, String> {
    let all: Vec<Discipline> = serde_json::from_str(printed).map_err(|e| e.to_string())?;
    // A root holds what those below it hold, and counts it.
    let roots = || all.iter().filter(|one| one.root);
    let sum = |of: fn(&Discipline) -> u64| roots().map(of).fold(0, u64::saturating_add);
    Ok(Look {
        kinds: all.iter().map(|one| one.kind.clone()).collect(),
        packets: sum(|one| one.qlen),
        bytes: sum(|one| one.backlog),
        drops: sum(|one| one.drops),
        requeues: sum(|one| one.requeues),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn disciplines_are_read() {
        let printed = r#"[{"kind":"htb","handle":"1:","root":true,"bytes":0,"drops":7,"requeues":1,"backlog":3000,"qlen":2},
            {"kind":"pfifo","parent":"1:10","drops":7,"backlog":3000,"qlen":2}]"#;
        let look = parse(printed).unwrap();
        assert_eq!((look.packets, look.bytes, look.drops, look.requeues), (2, 3000, 7, 1));
        assert_eq!(look.kinds, ["htb", "pfifo"]);
        assert!(parse("oops").is_err());
    }

    #[test]
    fn looks_are_summed_up() {
        let look =
            |packets, bytes, drops| Look { kinds: vec!["pfifo".into()], packets, bytes, drops, requeues: drops / 2 };
        let mut watch = Watch::begin(None, "lo").unwrap();
        watch.first = look(0, 0, 10);
        [look(4, 400, 10), look(10, 300, 14), look(1, 100, 20)].into_iter().for_each(|look| watch.saw(look));
        let queue = watch.end();
        assert_eq!((queue.looks, queue.mean_packets, queue.most_packets, queue.most_bytes), (3, 5.0, 10, 400));
        assert_eq!((queue.drops, queue.requeues, queue.kind.as_str()), (10, 5, "pfifo"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            let _ = parse(&text);
        }
    }
}
