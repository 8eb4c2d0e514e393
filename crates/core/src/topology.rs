//! Networks between two hosts, from a small file: what is on the way, and what each thing takes (paper 002 §3, Figures 5 and 6).

use crate::dissect::{Dissection, EXPERIMENTS, Network, Row, Share};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// What is on the way, by name.
    #[serde(rename = "part")]
    parts: BTreeMap<String, Part>,
    /// The networks.
    #[serde(rename = "network")]
    networks: Vec<Asked>,
}

/// Something on the way.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    /// What it takes.
    ns: Option<f64>,
    /// What a metre of it takes.
    ns_per_m: Option<f64>,
    /// The experiment whose median it is, where that was measured.
    measured: Option<String>,
    /// Who says so.
    source: String,
}

/// A network as it is asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: String,
    /// Names of parts, each as often as it is passed, one way.
    way: Vec<Hop>,
}

/// A part, or so many metres of one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Hop {
    Once(String),
    Metres { part: String, metres: f64 },
}

impl Topology {
    /// Reads it.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Result<Topology, String> {
        let topology: Topology = toml::from_str(text).map_err(|e| e.message().replace('\n', "; "))?;
        for (name, part) in &topology.parts {
            let given = [part.ns, part.ns_per_m];
            let one = given.iter().flatten().count() == 1 || (given == [None, None] && part.measured.is_some());
            if !one {
                return Err(format!(
                    "part {name:?} needs ns or ns_per_m, one of them; or measured, which names an experiment"
                ));
            }
            let unknown = |experiment: &&String| !EXPERIMENTS.contains(&experiment.as_str());
            if let Some(unknown) = part.measured.as_ref().filter(unknown) {
                let all = EXPERIMENTS.join(", ");
                return Err(format!(
                    "part {name:?}: there is no experiment {unknown:?} with a median: there are {all}"
                ));
            }
            if given.into_iter().flatten().any(|ns| !(0.0..=1e12).contains(&ns)) {
                return Err(format!("part {name:?} can't take that long: times are in nanoseconds, from 0"));
            }
        }
        let mut names: Vec<&str> = topology.networks.iter().map(|network| network.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("there are two networks {:?}: give each a name of its own", twice[0]));
        }
        for network in &topology.networks {
            for hop in &network.way {
                let (name, metres) = hop.named();
                let Some(part) = topology.parts.get(name) else {
                    return Err(format!(
                        "network {:?} has {name:?} on its way, and there is no [part.{name}]",
                        network.name
                    ));
                };
                if part.ns_per_m.is_some() != metres.is_some() {
                    return Err(format!(
                        "network {:?}: {name:?} is given by the metre, or it is not: say metres only then",
                        network.name
                    ));
                }
                if metres.is_some_and(|metres| !(0.0..=1e9).contains(&metres)) {
                    return Err(format!("network {:?}: {name:?} can't be that long", network.name));
                }
            }
        }
        Ok(topology)
    }

    /// Its networks, with the medians of what was measured. A part that was to be measured, and was not, leaves its network out.
    pub fn networks(&self, dissection: &Dissection) -> Vec<Network> {
        let network = |asked: &Asked| {
            let mut shares: Vec<Share> = Vec::new();
            for hop in &asked.way {
                let (name, metres) = hop.named();
                let share = self.share(name, metres, dissection)?;
                match shares.iter_mut().find(|known| known.name == share.name) {
                    Some(known) => known.ns += share.ns,
                    None => shares.push(share),
                }
            }
            Some(Network { name: asked.name.clone(), shares })
        };
        self.networks.iter().filter_map(network).collect()
    }

    /// Those that are left out, and why: rows that could not be measured.
    pub fn left_out(&self, dissection: &Dissection) -> Vec<Row> {
        let lacks = |asked: &Asked| {
            let mut parts = asked.way.iter().map(Hop::named);
            let (part, _) = parts.find(|(name, metres)| self.share(name, *metres, dissection).is_none())?;
            let why = format!("not drawn: its part {part:?} was to be measured, and was not");
            Some(Row::of("network", &asked.name, "").unavailable(why))
        };
        self.networks.iter().filter_map(lacks).collect()
    }

    fn share(&self, name: &str, metres: Option<f64>, dissection: &Dissection) -> Option<Share> {
        let part = self.parts.get(name)?;
        let measured = part.measured.as_ref().and_then(|experiment| dissection.median_ns(experiment));
        let from = match (&part.measured, measured) {
            (Some(experiment), Some(_)) => format!("measured, {experiment}"),
            _ => part.source.clone(),
        };
        let ns = measured.or(part.ns).or(part.ns_per_m.zip(metres).map(|(ns, metres)| ns * metres))?;
        Some(Share { name: name.to_owned(), ns, from })
    }
}

impl Hop {
    fn named(&self) -> (&str, Option<f64>) {
        match self {
            Hop::Once(name) => (name, None),
            Hop::Metres { part, metres } => (part, Some(*metres)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dissect::Row;
    use crate::histogram::Histogram;
    use proptest::prelude::*;

    const TOPOLOGY: &str = r#"
        [part.host]
        measured = "4"
        source = "this host"
        [part.fiber]
        ns_per_m = 4.9
        source = "paper 002 §2.4"
        [part.switch]
        ns = 330
        source = "a vendor"
        [[network]]
        name = "same rack"
        way = ["host", { part = "fiber", metres = 2 }, "switch", { part = "fiber", metres = 2 }, "host"]
    "#;

    fn measured() -> Dissection {
        let mut histogram = Histogram::default();
        (0..100).for_each(|_| histogram.record(4_000));
        let row = Row::of("4", "", "").measured(&histogram, 1.0);
        Dissection { rows: vec![row], ..Dissection::default() }
    }

    #[test]
    fn parts_on_the_way_are_added_up() {
        let topology = Topology::parse(TOPOLOGY).unwrap();
        let networks = topology.networks(&measured());
        let shares: Vec<(&str, f64)> = networks[0].shares.iter().map(|s| (s.name.as_str(), s.ns)).collect();
        assert!(
            matches!(shares[..], [("host", h), ("fiber", f), ("switch", 330.0)] if (h - 8_000.0).abs() < 20.0 && (f - 19.6).abs() < 1e-9)
        );
        assert_eq!(networks[0].shares[0].from, "measured, 4");
        assert!(topology.left_out(&measured()).is_empty());
        assert!(topology.networks(&Dissection::default()).is_empty(), "the host was not measured");
        let left_out = topology.left_out(&Dissection::default());
        assert_eq!((left_out.len(), left_out[0].label().as_str()), (1, "network same rack"));
        assert!(left_out[0].unavailable.as_ref().unwrap().contains("\"host\""));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |from: &str, to: &str| Topology::parse(&TOPOLOGY.replace(from, to)).unwrap_err();
        assert!(refused("ns = 330", "ns = -1").contains("from 0"));
        assert!(refused("ns = 330", "").contains("needs ns or ns_per_m"));
        assert!(refused("measured = \"4\"", "measured = \"7b\"").contains("no experiment"));
        assert!(Topology::parse(&TOPOLOGY.replace("measured = \"4\"", "measured = \"7\"")).is_ok());
        let twice = format!("{TOPOLOGY}[[network]]\nname = \"same rack\"\nway = []\n");
        assert!(Topology::parse(&twice).unwrap_err().contains("two networks"));
        assert!(refused("\"switch\",", "\"hub\",").contains("no [part.hub]"));
        assert!(refused("\"switch\",", "{ part = \"switch\", metres = 1 },").contains("metre"));
        assert!(refused("metres = 2 }, \"switch\"", "metres = -2 }, \"switch\"").contains("that long"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", words in "([a-z]+ = |[0-9]+|\\[|\\]|part|network|\"|\n)*") {
            let _ = Topology::parse(&text);
            let _ = Topology::parse(&words);
        }
    }
}
