//! Reading what programs and /proc print. All of it survives any text.

use super::squeezed;
use std::collections::BTreeMap;

/// A key and its value.
pub(crate) type Pair = (String, String);

/// `Key: value` lines, one pair each; lines without a colon or a value are left out.
pub(super) fn colon_pairs(text: &str) -> Vec<Pair> {
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        Some((key.trim().to_owned(), squeezed(value))).filter(|(key, value)| !key.is_empty() && !value.is_empty())
    };
    text.lines().filter_map(pair).collect()
}

/// The value of the first `key: value` line.
pub(super) fn value_of(text: &str, key: &str) -> Option<String> {
    colon_pairs(text).into_iter().find_map(|(k, value)| (k == key).then_some(value))
}

/// A key as part of a fact's: lower case, words joined by `-`.
pub(super) fn slug(key: &str) -> String {
    key.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase()
}

/// Features as `ethtool -k` lists them: `on`, `off [fixed]`, ...
pub(super) fn offloads(text: &str) -> Vec<Pair> {
    colon_pairs(text).into_iter().filter(|(_, value)| value.starts_with("on") || value.starts_with("off")).collect()
}

/// The part after `Current hardware settings:` of `ethtool -l` and `-g`, without what is `n/a`.
pub(super) fn current_settings(text: &str) -> Vec<Pair> {
    let current = text.split_once("Current hardware settings:").map_or("", |(_, current)| current);
    applicable(colon_pairs(current))
}

/// `ethtool -c`, whose lines hold one value, or one for each direction: `Adaptive RX: off  TX: on`.
pub(crate) fn coalescing(text: &str) -> Vec<Pair> {
    let settings = text.lines().skip_while(|line| line.starts_with("Coalesce parameters"));
    let split = |line: &str| match (line.split_once(" RX:"), line.split_once(" TX:")) {
        (Some((name, rx)), Some((_, tx))) => {
            let rx = rx.split_whitespace().next().unwrap_or("");
            format!("{name} RX: {rx}\n{name} TX: {tx}")
        }
        _ => line.to_owned(),
    };
    applicable(colon_pairs(&settings.map(split).collect::<Vec<_>>().join("\n")))
}

fn applicable(pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.into_iter().filter(|(_, value)| value != "n/a").map(|(key, value)| (slug(&key), value)).collect()
}

/// `ethtool -T`: headings with their value, or with the indented list that follows.
pub(super) fn timestamping(text: &str) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for line in text.lines().skip(1) {
        match line.split_once(':') {
            Some((key, value)) if !line.starts_with(char::is_whitespace) => pairs.push((slug(key), squeezed(value))),
            _ => append(&mut pairs, line.split_whitespace().next()),
        }
    }
    pairs
}

/// Adds a word to the last pair's list.
fn append(pairs: &mut [Pair], word: Option<&str>) {
    if let (Some((_, list)), Some(word)) = (pairs.last_mut(), word) {
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(word);
    }
}

/// The option between parentheses or brackets: `always [madvise] never` is `madvise`.
pub(crate) fn chosen(text: &str) -> String {
    let between = |open, close| Some(text.split_once(open)?.1.split_once(close)?.0.to_owned());
    between('[', ']').or_else(|| between('(', ')')).unwrap_or_else(|| text.to_owned())
}

/// Options of the kernel's command line that start with one of the prefixes.
pub(super) fn boot_options(cmdline: &str, prefixes: &[&str]) -> Vec<Pair> {
    let option = |word: &str| {
        let (key, value) = word.split_once('=').unwrap_or((word, "set"));
        prefixes.iter().any(|p| key.starts_with(p)).then(|| (key.to_owned(), value.to_owned()))
    };
    cmdline.split_whitespace().filter_map(option).collect()
}

/// Values of `CONFIG_*` lines by name without the prefix; `# CONFIG_X is not set` is no line.
pub(super) fn kernel_config(text: &str, wanted: &[&str]) -> Vec<Pair> {
    let pair = |line: &str| {
        let (key, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
        wanted.contains(&key).then(|| (key.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

/// `/proc/interrupts` and `/proc/softirqs`: a count per core and source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The core of each column.
    pub(super) cores: Vec<usize>,
    /// Counts in order of the columns, by source. Sources that aren't per core are left out.
    pub(super) rows: BTreeMap<String, Vec<u64>>,
}

impl Counts {
    pub(super) fn parse(text: &str) -> Counts {
        let header = text.lines().next().unwrap_or("");
        let core = |word: &str| word.strip_prefix("CPU")?.parse().ok();
        let cores: Vec<usize> = header.split_whitespace().filter_map(core).collect();
        let row = |line: &str| {
            let (source, counts) = line.split_once(':')?;
            let counts = counts.split_whitespace().map_while(|word| word.parse().ok()).take(cores.len());
            let counts: Vec<u64> = counts.collect();
            (counts.len() == cores.len()).then(|| (source.trim().to_owned(), counts))
        };
        let rows = if cores.is_empty() { BTreeMap::new() } else { text.lines().skip(1).filter_map(row).collect() };
        Counts { cores, rows }
    }

    /// A source's count on a core.
    pub(super) fn get(&self, source: &str, core: usize) -> u64 {
        let column = self.cores.iter().position(|c| *c == core);
        column.and_then(|i| self.rows.get(source)?.get(i)).copied().unwrap_or(0)
    }
}

/// Numbers of the interrupts whose line in `/proc/interrupts` has a word that `mine` accepts, with that
/// word.
pub(super) fn interrupt_lines(text: &str, mine: impl Fn(&str) -> bool) -> Vec<(u32, String)> {
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        rest.split_whitespace().any(&mine).then(|| (number, rest.split_whitespace().last().unwrap_or("").to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(expected: &[(&str, &str)]) -> Vec<Pair> {
        expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn ethtool_features() {
        let text = "Features for t0:\nrx-checksumming: on\ntx-checksumming: off\n\ttx-checksum-ipv4: off [fixed]\n";
        let expected = [("rx-checksumming", "on"), ("tx-checksumming", "off"), ("tx-checksum-ipv4", "off [fixed]")];
        assert_eq!(offloads(text), pairs(&expected));
    }

    #[test]
    fn ethtool_rings() {
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t256\nCurrent hardware settings:\n\
                    RX:\t\t128\nRX Mini:\tn/a\nTX Push:\toff\n";
        assert_eq!(current_settings(text), pairs(&[("rx", "128"), ("tx-push", "off")]));
    }

    #[test]
    fn ethtool_coalescing() {
        let text = "Coalesce parameters for eth0:\nAdaptive RX: off  TX: n/a\nstats-block-usecs: n/a\n\n\
                    rx-usecs: 3\n\nCQE mode RX: n/a  TX: on\n";
        assert_eq!(coalescing(text), pairs(&[("adaptive-rx", "off"), ("rx-usecs", "3"), ("cqe-mode-tx", "on")]));
    }

    #[test]
    fn ethtool_timestamping() {
        let text = "Time stamping parameters for eth0:\nCapabilities:\n\thardware-transmit     (SOF_TX)\n\
                    \tsoftware-receive\nPTP Hardware Clock: none\nHardware Receive Filter Modes:\n\tnone\n\tall\n";
        let expected = [
            ("capabilities", "hardware-transmit, software-receive"),
            ("ptp-hardware-clock", "none"),
            ("hardware-receive-filter-modes", "none, all"),
        ];
        assert_eq!(timestamping(text), pairs(&expected));
    }

    #[test]
    fn the_option_in_force() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("none voluntary (full) lazy"), "full");
        assert_eq!(chosen("1"), "1");
    }

    #[test]
    fn options_of_boot_and_build() {
        let found = boot_options("ro isolcpus=2-3 quiet nohz_full=2-3 nosmt", &["isolcpus", "nohz", "nosmt"]);
        assert_eq!(found, pairs(&[("isolcpus", "2-3"), ("nohz_full", "2-3"), ("nosmt", "set")]));
        let text = "# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n";
        assert_eq!(kernel_config(text, &["HZ"]), pairs(&[("HZ", "250")]));
    }

    const INTERRUPTS: &str = "           CPU0       CPU2       \n 24:          1          7  IO-APIC   5-edge      ACPI:Ged\n\
        \x2038:          0       3335 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
        LOC:      51084      49187   Local timer interrupts\nERR:          0\n";

    #[test]
    fn interrupts_are_counted_per_core() {
        let counts = Counts::parse(INTERRUPTS);
        assert_eq!(counts.cores, [0, 2]);
        assert_eq!((counts.get("24", 2), counts.get("LOC", 0), counts.get("LOC", 1)), (7, 51_084, 0));
        assert!(!counts.rows.contains_key("ERR"));
    }

    #[test]
    fn interrupts_of_a_device() {
        let mine = |word: &str| word.ends_with("0000:00:03.0");
        assert_eq!(interrupt_lines(INTERRUPTS, mine), [(38, "virtio2-input.0".to_owned())]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "([A-Za-z0-9 \t\n:=,()\\[\\]-]|RX:|TX:|CPU[0-9]|CONFIG_)*", wild in ".*") {
            for text in [text.as_str(), wild.as_str()] {
                usect_core::environment::cpu_list(text);
                offloads(text);
                current_settings(text);
                coalescing(text);
                timestamping(text);
                chosen(text);
                boot_options(text, &["a"]);
                kernel_config(text, &["HZ"]);
                interrupt_lines(text, |word| word == "a");
                Counts::parse(text).get("LOC", 0);
            }
        }
    }
}
