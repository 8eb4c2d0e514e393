//! The namespaces and links of a lab: what is made, in which order, and how it is removed.
//!
//! Nothing may speak but the measurement. IPv6 is switched off in each namespace before it has a link,
//! so that there are no router solicitations; the ends know each other's hardware address for good, so
//! that there is no ARP.

use crate::error::LabError;
use crate::name::{LabName, Role};
use crate::netns::{listed, within};
use crate::program::{ip_batch, run};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a lab looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// `NAME-tx`(t0) ↔ `NAME-rx`(r0).
    Wire,
    /// `NAME-tx`(t0) ↔ `NAME-dut`(d0), `NAME-dut`(d1) ↔ `NAME-rx`(r0).
    Dut,
    /// The same with both wires cut open for taps: t0 ↔ `NAME-tap`(a0), `NAME-tap`(a1) ↔ d0, and
    /// d1 ↔ `NAME-tap`(b0), `NAME-tap`(b1) ↔ r0. Nothing passes until a tap joins a0 to a1 and b0 to b1.
    Tapped,
    /// One wire, cut open: t0 ↔ `NAME-tap`(a0), `NAME-tap`(a1) ↔ `NAME-rx`(r0).
    Watched,
    /// Measurement functions (paper 001): senders and receivers, each in a namespace and with an interface of its own,
    /// joined by a bridge: t0 in `NAME-tx`, `NAME-tx2`, …, and r0 in `NAME-rx`, `NAME-rx2`, …
    Functions {
        /// How many senders, 1 to [`MOST_FUNCTIONS`].
        senders: u8,
        /// How many receivers, likewise.
        receivers: u8,
    },
}

/// Most senders, and most receivers.
pub const MOST_FUNCTIONS: u8 = 16;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Wire => f.write_str("wire"),
            Shape::Dut => f.write_str("dut"),
            Shape::Tapped => f.write_str("tapped"),
            Shape::Watched => f.write_str("watched"),
            Shape::Functions { senders, receivers } => write!(f, "{senders}:{receivers}"),
        }
    }
}

/// One end of a veth pair. Hardware addresses are locally administered and the same in every lab, so
/// that frames of two runs are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) role: Role,
    pub(crate) interface: Cow<'static, str>,
    mac: Cow<'static, str>,
}

const fn end(role: Role, interface: &'static str, mac: &'static str) -> End {
    End { role, interface: Cow::Borrowed(interface), mac: Cow::Borrowed(mac) }
}

pub(crate) const T0: End = end(Role::Tx, "t0", "02:75:73:00:00:01");
pub(crate) const D0: End = end(Role::Dut, "d0", "02:75:73:00:00:02");
pub(crate) const D1: End = end(Role::Dut, "d1", "02:75:73:00:00:03");
pub(crate) const R0: End = end(Role::Rx, "r0", "02:75:73:00:00:04");
pub(crate) const A0: End = end(Role::Tap, "a0", "02:75:73:00:00:05");
pub(crate) const A1: End = end(Role::Tap, "a1", "02:75:73:00:00:06");
pub(crate) const B0: End = end(Role::Tap, "b0", "02:75:73:00:00:07");
pub(crate) const B1: End = end(Role::Tap, "b1", "02:75:73:00:00:08");

/// From the range that RFC 2544 (C.2.2) has for benchmarks.
const TX_ADDRESS: &str = "198.18.0.1";
const RX_ADDRESS: &str = "198.18.0.2";

/// The n-th sender's interface, and the bridge's towards it.
fn sender(number: u8) -> (End, End) {
    let named = |role, interface: String, kind: u8| End { role, interface: interface.into(), mac: mac(kind, number) };
    (named(Role::sender(number), "t0".into(), 1), named(Role::Dut, format!("s{number}"), 2))
}

/// The bridge's interface towards the n-th receiver, and the receiver's.
fn receiver(number: u8) -> (End, End) {
    let named = |role, interface: String, kind: u8| End { role, interface: interface.into(), mac: mac(kind, number) };
    (named(Role::Dut, format!("r{number}"), 3), named(Role::receiver(number), "r0".into(), 4))
}

fn mac(kind: u8, number: u8) -> Cow<'static, str> {
    format!("02:75:73:{kind:02x}:00:{number:02x}").into()
}

/// Of the n-th sender, and of the n-th receiver.
fn function_addresses(number: u8) -> (String, String) {
    (format!("198.18.0.{}", 10 + number), format!("198.18.0.{}", 100 + number))
}

impl Shape {
    /// The pairs of ends, from the sender to the receiver.
    fn pairs(self) -> Vec<(End, End)> {
        match self {
            Shape::Wire => vec![(T0, R0)],
            Shape::Dut => vec![(T0, D0), (D1, R0)],
            Shape::Tapped => vec![(T0, A0), (A1, D0), (D1, B0), (B1, R0)],
            Shape::Watched => vec![(T0, A0), (A1, R0)],
            Shape::Functions { senders, receivers } => {
                (1..=senders).map(sender).chain((1..=receivers).map(receiver)).collect()
            }
        }
    }

    fn ends(self) -> impl Iterator<Item = End> {
        self.pairs().into_iter().flat_map(|(one, other)| [one, other])
    }

    fn roles(self) -> Vec<Role> {
        match self {
            Shape::Wire => vec![Role::Tx, Role::Rx],
            Shape::Dut => vec![Role::Tx, Role::Dut, Role::Rx],
            Shape::Tapped => Role::ALL.to_vec(),
            Shape::Watched => vec![Role::Tx, Role::Tap, Role::Rx],
            Shape::Functions { senders, receivers } => {
                let senders = (1..=senders).map(Role::sender);
                senders.chain([Role::Dut]).chain((1..=receivers).map(Role::receiver)).collect()
            }
        }
    }

    /// The interfaces that send and receive, the senders' first.
    pub(crate) fn functions(self) -> Vec<End> {
        self.ends().filter(|end| !matches!(end.role, Role::Dut | Role::Tap)).collect()
    }
}

/// The namespaces of a lab, those of every shape if its own isn't known.
pub(crate) fn namespaces(name: &LabName, shape: Option<Shape>) -> Vec<String> {
    let Some(shape) = shape else {
        let further = (2..=MOST_FUNCTIONS).flat_map(|number| [Role::FurtherTx(number), Role::FurtherRx(number)]);
        let there = further.map(|role| name.netns(role)).filter(|netns| listed(netns));
        return Role::ALL.iter().map(|role| name.netns(*role)).chain(there).collect();
    };
    shape.roles().into_iter().map(|role| name.netns(role)).collect()
}

/// Fails if a namespace that the lab would make exists.
pub(crate) fn vacant(name: &LabName, shape: Shape) -> Result<(), LabError> {
    match namespaces(name, Some(shape)).into_iter().find(|netns| listed(netns)) {
        Some(netns) => Err(LabError::NamespaceTaken { netns }),
        None => Ok(()),
    }
}

/// Makes a lab. `lock` is the journal's.
pub(crate) fn create(lock: &File, name: &LabName, shape: Shape, mtu: usize) -> Result<(), LabError> {
    let namespaces = namespaces(name, Some(shape));
    let add: String = namespaces.iter().map(|netns| format!("netns add {netns}\n")).collect();
    ip_batch(lock, None, &add)?;
    namespaces.iter().try_for_each(|netns| silence_ipv6(netns))?;
    ip_batch(lock, None, &pairs_script(name, shape, mtu))?;
    set_offloads(name, shape)?;
    shape.roles().iter().try_for_each(|role| ip_batch(lock, Some(&name.netns(*role)), &up_script(shape, *role)))?;
    if matches!(shape, Shape::Functions { .. }) { join(name, shape) } else { Ok(()) }
}

/// Joins the functions by a bridge that knows from the start where each of them is: receivers never speak, and it would send
/// everything to everybody.
fn join(name: &LabName, shape: Shape) -> Result<(), LabError> {
    let netns = name.netns(Role::Dut);
    let with = |program: &str, args: String| run(Some(&netns), program, &args.split(' ').collect::<Vec<_>>()).map(drop);
    with("ip", "link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0".into())?;
    for (one, other) in shape.pairs() {
        let (inside, outside) = if one.role == Role::Dut { (one, other) } else { (other, one) };
        with("ip", format!("link set {} master br0", inside.interface))?;
        with("bridge", format!("fdb add {} dev {} master static", outside.mac, inside.interface))?;
    }
    with("ip", "link set br0 up".into())?;
    await_forwarding(Some(&netns), shape.pairs().len())
}

/// How long a bridge is given to find out that its ports have carriers: the kernel tells it once a second at worst.
const FORWARDING: Duration = Duration::from_secs(5);

/// Waits until so many ports of the bridges in a namespace forward: until then they drop what comes.
pub fn await_forwarding(netns: Option<&str>, ports: usize) -> Result<(), LabError> {
    let begun = Instant::now();
    while run(netns, "bridge", &["-d", "link", "show"])?.matches("state forwarding").count() < ports {
        // A port whose other end is down never will; whoever sends there finds out.
        if begun.elapsed() > FORWARDING {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Removes what is there of a lab. A namespace whose mount is gone is only a file to `ip`, which removes
/// that as well.
pub(crate) fn remove(lock: &File, name: &LabName, shape: Option<Shape>) -> Result<(), LabError> {
    let there = namespaces(name, shape).into_iter().filter(|netns| listed(netns));
    let removed: Vec<_> = there.map(|netns| ip_batch(lock, None, &format!("netns del {netns}\n"))).collect();
    removed.into_iter().collect()
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// For all interfaces that there are and will be. `/proc/sys/net` is that of the thread's namespace.
fn silence_ipv6(netns: &str) -> Result<(), LabError> {
    let write = |which| {
        let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        fs::write(&path, "1").map_err(|e| LabError::file("write", path, e))
    };
    within(Some(netns), || if has_ipv6() { ["all", "default"].into_iter().try_for_each(write) } else { Ok(()) })?
}

fn pairs_script(name: &LabName, shape: Shape, mtu: usize) -> String {
    let end =
        |end: &End| format!("name {} netns {} address {} mtu {mtu}", end.interface, name.netns(end.role), end.mac);
    let add = |(one, other): &(End, End)| format!("link add {} type veth peer {}\n", end(one), end(other));
    shape.pairs().iter().map(add).collect()
}

/// Addresses and neighbours come before the links are up, so that nobody has to ask.
fn up_script(shape: Shape, role: Role) -> String {
    let interfaces: Vec<Cow<str>> = shape.ends().filter(|end| end.role == role).map(|end| end.interface).collect();
    let quiet = |i: &Cow<str>| format!("link set dev {i} addrgenmode none\n");
    let up = |i: &Cow<str>| format!("link set dev {i} up\n");
    let mut script = "link set dev lo up\n".to_owned();
    script.extend(interfaces.iter().filter(|_| has_ipv6()).map(quiet));
    script.push_str(&addresses(shape, role));
    script.extend(interfaces.iter().map(up));
    script
}

fn addresses(shape: Shape, role: Role) -> String {
    let (interface, own, others) = match (shape, role) {
        (_, Role::Dut | Role::Tap) => return String::new(),
        (Shape::Functions { senders, receivers }, role) => function_script(role, senders, receivers),
        (_, Role::Tx | Role::FurtherTx(_)) => ("t0", TX_ADDRESS.to_owned(), vec![(RX_ADDRESS.to_owned(), R0.mac)]),
        (_, Role::Rx | Role::FurtherRx(_)) => ("r0", RX_ADDRESS.to_owned(), vec![(TX_ADDRESS.to_owned(), T0.mac)]),
    };
    let mut script = format!("addr add {own}/24 dev {interface}\n");
    let known = |(other, mac)| format!("neigh add {other} lladdr {mac} dev {interface} nud permanent\n");
    script.extend(others.into_iter().map(known));
    script
}

/// A function's interface, its address, and those whom it knows.
type Function = (&'static str, String, Vec<(String, Cow<'static, str>)>);

fn function_script(role: Role, senders: u8, receivers: u8) -> Function {
    let all_receivers = || (1..=receivers).map(|n| (function_addresses(n).1, receiver(n).1.mac)).collect();
    let all_senders = || (1..=senders).map(|n| (function_addresses(n).0, sender(n).0.mac)).collect();
    match role {
        Role::Tx => ("t0", function_addresses(1).0, all_receivers()),
        Role::FurtherTx(number) => ("t0", function_addresses(number).0, all_receivers()),
        Role::FurtherRx(number) => ("r0", function_addresses(number).1, all_senders()),
        Role::Rx | Role::Dut | Role::Tap => ("r0", function_addresses(1).1, all_senders()),
    }
}

/// On every end: transmit offloads off, because a raw forwarder would pass on frames whose checksum was
/// never finished, and no VLAN tag beside a frame, because XDP does not see it there; GRO on, because it is what makes veth poll with NAPI, which XDP redirect to it needs
/// (`veth_xdp_xmit` in drivers/net/veth.c); but no merging of UDP.
fn set_offloads(name: &LabName, shape: Shape) -> Result<(), LabError> {
    let offered = run(Some(&name.netns(Role::Tx)), "ethtool", &["-k", &T0.interface])?;
    let offload = |end: End| {
        let args = offload_args(&end.interface, &offered);
        run(Some(&name.netns(end.role)), "ethtool", &args).map(drop)
    };
    shape.ends().try_for_each(offload)
}

/// Undoes that as far as the kernel's own stack is at both ends of a path. What is between them passes on what comes, and puts no packets
/// together: a switch has no GRO.
pub(crate) fn leave_to_cards(name: &LabName, shape: Shape) -> Result<(), LabError> {
    shape.ends().try_for_each(|end| {
        let gro = if end.role == Role::Dut { "off" } else { "on" };
        let args = ["-K", &end.interface, "tx", "on", "sg", "on", "tso", "on", "gso", "on", "gro", gro];
        run(Some(&name.netns(end.role)), "ethtool", &args).map(drop)
    })
}

/// Kernels before 5.12 lack the last two features; `ethtool` refuses to switch off what isn't there.
fn offload_args<'a>(interface: &'a str, offered: &str) -> Vec<&'a str> {
    let mut args = vec!["-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "on"];
    let there = |feature: &&str| offered.lines().any(|line| line.trim().starts_with(&format!("{feature}:")));
    let kept_inside = ["tx-vlan-offload", "rx-vlan-offload", "tx-vlan-stag-hw-insert", "rx-vlan-stag-hw-parse"];
    args.extend(kept_inside.into_iter().filter(|f| changes(offered, f)).flat_map(|f| [f, "off"]));
    args.extend(["rx-udp-gro-forwarding", "rx-gro-list"].into_iter().filter(there).flat_map(|f| [f, "off"]));
    args
}

/// Whether a feature is there and can be changed.
fn changes(offered: &str, feature: &str) -> bool {
    let line = offered.lines().find(|line| line.trim().starts_with(&format!("{feature}:")));
    line.is_some_and(|line| !line.contains("[fixed]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_where_they_belong() {
        let name = LabName::parse("x").unwrap();
        assert_eq!(
            pairs_script(&name, Shape::Wire, 9000),
            "link add name t0 netns x-tx address 02:75:73:00:00:01 mtu 9000 type veth \
             peer name r0 netns x-rx address 02:75:73:00:00:04 mtu 9000\n"
        );
        assert_eq!(pairs_script(&name, Shape::Dut, 1500).lines().count(), 2);
    }

    #[test]
    fn functions_have_namespaces_addresses_and_neighbours_of_their_own() {
        let shape = Shape::Functions { senders: 2, receivers: 1 };
        let name = LabName::parse("x").unwrap();
        assert_eq!(namespaces(&name, Some(shape)), ["x-tx", "x-tx2", "x-dut", "x-rx"]);
        let script = up_script(shape, Role::FurtherTx(2));
        assert!(
            script.contains("addr add 198.18.0.12/24 dev t0\nneigh add 198.18.0.101 lladdr 02:75:73:04:00:01"),
            "{script}"
        );
        assert_eq!(up_script(shape, Role::Rx).matches("neigh add").count(), 2);
        assert!(up_script(shape, Role::Dut).ends_with("link set dev s1 up\nlink set dev s2 up\nlink set dev r1 up\n"));
        let ends: Vec<String> = shape.functions().iter().map(|end| format!("{}@{}", end.interface, end.role)).collect();
        assert_eq!(ends, ["t0@tx", "t0@tx2", "r0@rx"]);
    }

    #[test]
    fn links_come_up_last() {
        let script = up_script(Shape::Dut, Role::Tx);
        assert!(script.ends_with("nud permanent\nlink set dev t0 up\n"), "{script}");
        assert!(up_script(Shape::Dut, Role::Dut).ends_with("link set dev d0 up\nlink set dev d1 up\n"));
    }

    #[test]
    fn only_features_that_are_there_are_switched() {
        assert!(offload_args("t0", "rx-gro-list: on\n").ends_with(&["rx-gro-list", "off"]));
        assert!(offload_args("t0", "").ends_with(&["gro", "on"]));
    }

    #[test]
    fn a_lab_of_unknown_shape_may_have_any_namespace() {
        let name = LabName::parse("x").unwrap();
        assert_eq!(namespaces(&name, Some(Shape::Wire)), ["x-tx", "x-rx"]);
        assert_eq!(namespaces(&name, None), ["x-tx", "x-dut", "x-rx", "x-tap"]);
    }
}
