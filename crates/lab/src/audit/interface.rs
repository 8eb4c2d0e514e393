//! An interface: driver, queues, offloads, coalescing, stamps, interrupts.

use super::text::{Pair, coalescing, colon_pairs, current_settings, interrupt_lines, offloads, slug, timestamping};
use super::{names, read, squeezed};
use crate::error::LabError;
use crate::link::{Link, in_sysfs};
use crate::program::run;
use serde_json::Value;
use usect_core::environment::Environment;

/// What `ethtool` is asked, and under which key its answers go.
const QUESTIONS: &[(&str, &[&str], Parser)] = &[
    ("", &["-i"], identity),
    ("", &[], physical),
    ("channels.", &["-l"], current_settings),
    ("ring.", &["-g"], current_settings),
    ("coalesce.", &["-c"], coalescing),
    ("pause.", &["-a"], pause),
    ("offload.", &["-k"], offloads),
    ("timestamping.", &["-T"], timestamping),
    ("", &["--show-eee"], energy),
];

type Parser = fn(&str) -> Vec<Pair>;

/// Facts about an interface, under `interface.NAMESPACE.NAME.`, where the host's namespace is `host`.
pub fn interface(link: &Link) -> Environment {
    let mut sheet = Sheet { link, facts: Environment::default() };
    sheet.set("driver", &link.driver);
    sheet.set("mtu", link.mtu);
    sheet.set("mac", link.mac.map(|byte| format!("{byte:02x}")).join(":"));
    sheet.set("up", link.up);
    QUESTIONS.iter().for_each(|(prefix, args, parse)| sheet.ask_ethtool(prefix, args, *parse));
    sheet.ask_ip();
    sheet.ask_tc();
    sheet.ask_sysfs();
    sheet.device();
    sheet.facts
}

struct Sheet<'a> {
    link: &'a Link,
    facts: Environment,
}

impl Sheet<'_> {
    fn key(&self, key: &str) -> String {
        let netns = self.link.netns.as_deref().unwrap_or("host");
        format!("interface.{netns}.{}.{key}", self.link.interface)
    }

    fn set(&mut self, key: &str, value: impl ToString) {
        self.facts.set(self.key(key), value);
    }

    /// Sets facts, or one that says why there are none.
    fn set_all(&mut self, prefix: &str, found: Result<Vec<Pair>, LabError>) {
        match found {
            Ok(pairs) => pairs.into_iter().for_each(|(key, value)| self.set(&format!("{prefix}{key}"), value)),
            Err(error) => self.set(prefix.trim_end_matches('.'), format!("n/a: {}", error.reason())),
        }
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String, LabError> {
        run(self.link.netns.as_deref(), program, args)
    }

    fn ask_ethtool(&mut self, prefix: &str, args: &[&str], parse: Parser) {
        let answer = self.run("ethtool", &[args, &[self.link.interface.as_str()]].concat());
        let prefix = if answer.is_err() && prefix.is_empty() { "ethtool." } else { prefix };
        self.set_all(prefix, answer.map(|text| parse(&text)));
    }

    fn ask_ip(&mut self) {
        let answer = self.run("ip", &["-json", "-details", "link", "show", "dev", &self.link.interface]);
        self.set_all("ip.", answer.map(|text| details(&text)));
    }

    fn ask_tc(&mut self) {
        let answer = self.run("tc", &["qdisc", "show", "dev", &self.link.interface]);
        let qdiscs = |text: String| vec![("qdisc".to_owned(), qdiscs(&text))];
        self.set_all(
            "",
            answer.map(qdiscs).or_else(|e| Ok(vec![("qdisc".to_owned(), format!("n/a: {}", e.reason()))])),
        );
    }

    fn ask_sysfs(&mut self) {
        let script = "cd /sys/class/net/\"$0\" && grep -rsH '' threaded gro_flush_timeout napi_defer_hard_irqs queues";
        let shell = ["sh", "-c", &format!("{script}; true"), &self.link.interface];
        let answer = in_sysfs(self.link, &shell);
        self.set_all("napi.", answer.map(|text| sysfs(&text)));
    }

    /// What only a device on a bus has. Paths of buses and interrupts are the same in every namespace.
    fn device(&mut self) {
        let bus = self.facts.get(&self.key("bus-info")).unwrap_or_default().to_owned();
        let device = format!("/sys/bus/pci/devices/{bus}");
        if !bus.is_empty()
            && let Some(node) = read(format!("{device}/numa_node"))
        {
            self.set("numa_node", node);
        }
        let vectors = if bus.is_empty() { Vec::new() } else { names(format!("{device}/msi_irqs")) };
        let interrupts = read("/proc/interrupts").unwrap_or_default();
        for (number, name) in own_interrupts(&interrupts, &vectors, &bus, &self.link.interface) {
            let cores = read(format!("/proc/irq/{number}/smp_affinity_list")).unwrap_or_default();
            let target = read(format!("/proc/irq/{number}/effective_affinity_list")).unwrap_or_default();
            self.set(&format!("irq.{number}"), format!("{name}, cores {cores}, delivered to {target}"));
        }
    }
}

/// Interrupts of a device: its message-signalled vectors, and those named after the bus or the interface.
fn own_interrupts(text: &str, vectors: &[String], bus: &str, interface: &str) -> Vec<(u32, String)> {
    let named = |word: &str| {
        let queue = word.strip_prefix(interface).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        queue || (!bus.is_empty() && word.ends_with(bus))
    };
    let mut found = interrupt_lines(text, named);
    let vector = |number: &u32| vectors.iter().any(|vector| *vector == number.to_string());
    found.extend(interrupt_lines(text, |_| true).into_iter().filter(|(number, _)| vector(number)));
    found.sort();
    found.dedup();
    found
}

fn identity(text: &str) -> Vec<Pair> {
    let wanted = ["driver", "version", "firmware-version", "bus-info"];
    colon_pairs(text).into_iter().filter(|(key, _)| wanted.contains(&key.as_str())).collect()
}

fn physical(text: &str) -> Vec<Pair> {
    let wanted = ["Speed", "Duplex", "Auto-negotiation", "Port", "Link detected", "Active FEC encoding"];
    let pairs = colon_pairs(text).into_iter().filter(|(key, _)| wanted.contains(&key.as_str()));
    pairs.map(|(key, value)| (slug(&key), value)).collect()
}

/// `eee = enabled - active`, of energy-efficient Ethernet.
fn energy(text: &str) -> Vec<Pair> {
    let status = colon_pairs(text).into_iter().find(|(key, _)| key == "EEE status");
    status.map(|(_, state)| ("eee".to_owned(), state)).into_iter().collect()
}

fn pause(text: &str) -> Vec<Pair> {
    colon_pairs(text).into_iter().filter(|(key, _)| key != "Pause parameters for").map(|(k, v)| (slug(&k), v)).collect()
}

/// Disciplines as `tc qdisc` prints them, one after the other.
fn qdiscs(text: &str) -> String {
    text.lines().map(|line| squeezed(line.trim_start_matches("qdisc "))).collect::<Vec<_>>().join("; ")
}

/// From `ip -json -details link`: lengths and sizes, and whether an XDP program is attached.
fn details(text: &str) -> Vec<Pair> {
    let shown: Value = serde_json::from_str(text).unwrap_or_default();
    let wanted = [
        "txqlen",
        "operstate",
        "promiscuity",
        "num_tx_queues",
        "num_rx_queues",
        "gso_max_size",
        "gso_max_segs",
        "gro_max_size",
        "master",
        "link_type",
    ];
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pair = |key: &str| Some((key.to_owned(), plain(shown[0].get(key)?)));
    let mut pairs: Vec<Pair> = wanted.into_iter().filter_map(pair).collect();
    pairs.push(("xdp".to_owned(), xdp(&shown[0]["xdp"])));
    pairs
}

fn xdp(attached: &Value) -> String {
    if attached.is_null() {
        return "none".to_owned();
    }
    let mode = match attached["mode"].as_u64() {
        Some(1) => "native",
        Some(2) => "generic",
        Some(3) => "offloaded",
        _ => "several modes",
    };
    format!("{mode}, program {} {}", attached["prog"]["id"], attached["prog"]["name"])
}

/// Lines `queues/rx-0/rps_cpus:3` of `grep -H`; limits of transmit queues change by themselves.
fn sysfs(text: &str) -> Vec<Pair> {
    let wanted = |key: &&str| !key.contains("/byte_queue_limits/") && !key.ends_with("traffic_class");
    let pair = |line: &str| {
        let (path, value) = line.split_once(':')?;
        Some(path).filter(wanted)?;
        let key = path.trim_start_matches("queues/").replace('/', ".");
        Some((key, value.to_owned())).filter(|(_, value)| !value.is_empty())
    };
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERRUPTS: &str = "  CPU0\n 37: 0 PCI-MSIX-0000:00:03.0 0-edge virtio2-config\n 40: 1 IR-PCI-MSI 3-edge eth1-rx-0\n\
        \x2041: 1 IR-PCI-MSI 4-edge eth10-rx-0\n 42: 1 IR-PCI-MSI 4-edge mlx5_comp0\n";

    #[test]
    fn interrupts_by_bus_by_name_and_by_vector() {
        let numbers = |vectors: &[String], bus, interface| {
            own_interrupts(INTERRUPTS, vectors, bus, interface).into_iter().map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&[], "0000:00:03.0", "eth0"), [37]);
        assert_eq!(numbers(&[], "", "eth1"), [40]);
        assert_eq!(numbers(&["42".to_owned()], "", "none"), [42]);
    }

    #[test]
    fn what_ip_details() {
        let text = r#"[{"ifname":"t0","txqlen":1000,"operstate":"UP","xdp":{"mode":1,"prog":{"id":7,"name":"tap"}}}]"#;
        let pairs = details(text);
        assert!(pairs.contains(&("txqlen".to_owned(), "1000".to_owned())));
        assert!(pairs.contains(&("xdp".to_owned(), "native, program 7 \"tap\"".to_owned())));
        assert_eq!(details("[{}]"), [("xdp".to_owned(), "none".to_owned())]);
    }

    #[test]
    fn what_sysfs_says_of_queues() {
        let text = "threaded:0\nqueues/rx-0/rps_cpus:3\nqueues/tx-0/byte_queue_limits/limit:7\nqueues/tx-0/x:\n";
        let expected = [("threaded", "0"), ("rx-0.rps_cpus", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(sysfs(text), expected);
    }

    #[test]
    fn the_loopback_has_no_ethtool_and_says_so() {
        let facts = interface(&crate::link(None, "lo").unwrap());
        assert!(facts.get("interface.host.lo.mtu").is_some());
        assert!(facts.facts().any(|(_, value)| value.starts_with("n/a: ")));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            identity(&text);
            physical(&text);
            pause(&text);
            qdiscs(&text);
            details(&text);
            sysfs(&text);
            own_interrupts(&text, &[], "a", "b");
        }
    }
}
