//! Looking interfaces up.

use crate::error::{LabError, enumerate};
use crate::netns::{netns_inum, place};
use crate::program::run;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::Path;

/// An interface in a namespace, as it was when it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its namespace as `ip netns` names it; `None`: the one that usect was started in.
    pub netns: Option<String>,
    /// Its name.
    pub interface: String,
    /// Its index, unique in its namespace only.
    pub index: u32,
    /// Its namespace's inode number (see [`netns_inum`]).
    pub netns_inum: u32,
    /// Its hardware address; zeros if it has none of six bytes.
    pub mac: [u8; 6],
    /// Its first IPv4 address.
    pub address: Option<Ipv4Addr>,
    /// Largest layer-3 packet, in bytes.
    pub mtu: usize,
    /// `veth`, `virtio_net`, `ixgbe`, ...; `unknown` if it doesn't say.
    pub driver: String,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has a carrier: its other end is there, and up.
    pub carrier: bool,
}

impl Link {
    /// Its first IPv4 address, where one is needed.
    ///
    /// Errors: it has none.
    pub fn ipv4(&self) -> Result<Ipv4Addr, LabError> {
        self.address.ok_or_else(|| LabError::NoAddress { interface: self.interface.clone() })
    }
}

/// One interface as `ip -json -details address` prints it.
#[derive(Debug, Deserialize)]
struct Shown {
    ifindex: u32,
    ifname: String,
    /// The other end of a veth pair, by name in the same namespace, else by index.
    link: Option<String>,
    link_index: Option<u32>,
    /// That other namespace, as this one numbers it.
    link_netnsid: Option<i64>,
    #[serde(default)]
    flags: Vec<String>,
    mtu: usize,
    #[serde(default)]
    address: String,
    #[serde(default)]
    linkinfo: Linkinfo,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Debug, Default, Deserialize)]
struct Linkinfo {
    info_kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Address {
    family: Option<String>,
    local: Option<String>,
}

/// Looks an interface up in a namespace (`None`: the caller's).
///
/// Errors: the namespace is unknown; the interface is, and the error lists those there are.
pub fn link(netns: Option<&str>, interface: &str) -> Result<Link, LabError> {
    let links = shown(netns)?;
    let known = || links.iter().map(|shown| shown.ifname.clone()).collect::<Vec<_>>();
    let found = links.iter().find(|shown| shown.ifname == interface).ok_or_else(|| LabError::UnknownInterface {
        interface: interface.to_owned(),
        place: place(netns),
        known: enumerate(&known()),
    })?;
    resolved(netns, found)
}

/// A namespace as another one numbers it, and `ip netns` names it.
#[derive(Debug, Deserialize)]
struct Numbered {
    nsid: i64,
    name: Option<String>,
}

/// The other end of a veth pair; `None` where it is in a namespace that has no name and isn't the caller's.
///
/// Errors: the interface or its namespace is gone.
pub fn peer(near: &Link) -> Result<Option<Link>, LabError> {
    let links = shown(near.netns.as_deref())?;
    let Some(own) = links.iter().find(|shown| shown.ifindex == near.index) else { return Ok(None) };
    if let Some(name) = &own.link {
        return link(near.netns.as_deref(), name).map(Some);
    }
    let Some((index, nsid)) = own.link_index.zip(own.link_netnsid) else { return Ok(None) };
    let far = name_of(near.netns.as_deref(), nsid)?;
    let links = shown(far.as_deref())?;
    let Some(found) = links.iter().find(|shown| shown.ifindex == index) else { return Ok(None) };
    // Without a name it may be the caller's own, if that has the near end for its interface's other.
    let back = || found.link_netnsid.map_or(Ok(None), |nsid| name_of(None, nsid));
    if far.is_none() && (found.link_index != Some(near.index) || back()? != near.netns) {
        return Ok(None);
    }
    resolved(far.as_deref(), found).map(Some)
}

/// The name of a namespace that another one numbers.
fn name_of(netns: Option<&str>, nsid: i64) -> Result<Option<String>, LabError> {
    let text = run(netns, "ip", &["-json", "netns", "list-id"])?;
    let all: Vec<Numbered> = if text.trim().is_empty() {
        Vec::new()
    } else {
        serde_json::from_str(&text)
            .map_err(|e| LabError::Output { command: "ip -json netns".to_owned(), why: e.to_string() })?
    };
    Ok(all.into_iter().find(|numbered| numbered.nsid == nsid).and_then(|numbered| numbered.name))
}

/// Looks up what a user named: `INTERFACE[@NAMESPACE]`.
///
/// Errors: as [`link`].
pub fn named(name: &str) -> Result<Link, LabError> {
    let (interface, netns) = name.split_once('@').map_or((name, None), |(interface, netns)| (interface, Some(netns)));
    link(netns, interface)
}

/// What the kernel says of the way to an address.
#[derive(Debug, Deserialize)]
struct Routed {
    dev: String,
}

/// Fails where what is sent to an address from the interface's own doesn't leave by it.
pub fn check_route(link: &Link, to: Ipv4Addr) -> Result<(), LabError> {
    let Link { netns, interface, .. } = link;
    let (to_text, from) = (to.to_string(), link.ipv4()?.to_string());
    let text = run(netns.as_deref(), "ip", &["-json", "route", "get", &to_text, "from", &from])?;
    let output = |why: String| LabError::Output { command: "ip -json route get".to_owned(), why };
    let routes: Vec<Routed> = serde_json::from_str(&text).map_err(|e| output(e.to_string()))?;
    match routes.first() {
        Some(route) if route.dev == *interface => Ok(()),
        Some(Routed { dev }) => Err(LabError::OtherWay { interface: interface.clone(), to, dev: dev.clone() }),
        None => Err(output("no route".into())),
    }
}

/// The interfaces of this namespace that are cards of the host's.
pub fn cards() -> Result<Vec<Link>, LabError> {
    let links = shown(None)?;
    let card = |shown: &&Shown| Path::new("/sys/class/net").join(&shown.ifname).join("device").exists();
    links.iter().filter(card).map(|shown| resolved(None, shown)).collect()
}

/// Rate of its line in bits per second, where it is a card that says so.
pub fn line_bits(link: &Link) -> Option<u64> {
    // A veth pair claims one that it doesn't keep.
    let virtual_ones = ["veth", "tun", "dummy", "bridge"];
    let path = format!("/sys/class/net/{}/speed", link.interface);
    let megabits = in_sysfs(link, &["cat", &path]).ok()?.trim().parse::<u64>().ok()?;
    (megabits > 0 && !virtual_ones.contains(&link.driver.as_str())).then_some(megabits * 1_000_000)
}

/// Number of its receive queues in use.
///
/// Errors: the interface is gone.
pub fn receive_queues(link: &Link) -> Result<usize, LabError> {
    let queues = in_sysfs(link, &["ls", &format!("/sys/class/net/{}/queues", link.interface)])?;
    Ok(queues.split_whitespace().filter(|queue| queue.starts_with("rx-")).count())
}

/// Runs a command that looks at `/sys/class/net`, which shows the namespace that mounted it: `ip netns exec`
/// mounts it anew.
pub(crate) fn in_sysfs(link: &Link, command: &[&str]) -> Result<String, LabError> {
    match link.netns.as_deref() {
        None => run(None, command[0], &command[1..]),
        Some(netns) => run(None, "ip", &[&["netns", "exec", netns], command].concat()),
    }
}

fn shown(netns: Option<&str>) -> Result<Vec<Shown>, LabError> {
    let text = run(netns, "ip", &["-json", "-details", "address", "show"])?;
    parse(&text).map_err(|e| LabError::Output { command: "ip -json address".to_owned(), why: e.to_string() })
}

/// `ip -json` prints empty objects for what a filter excluded, and nothing at all for no interfaces.
fn parse(text: &str) -> serde_json::Result<Vec<Shown>> {
    let text = if text.trim().is_empty() { "[]" } else { text };
    let values: Vec<serde_json::Value> = serde_json::from_str(text)?;
    values.into_iter().filter(|v| v.get("ifname").is_some()).map(serde_json::from_value).collect()
}

fn resolved(netns: Option<&str>, shown: &Shown) -> Result<Link, LabError> {
    Ok(Link {
        netns: netns.map(str::to_owned),
        interface: shown.ifname.clone(),
        index: shown.ifindex,
        netns_inum: netns_inum(netns)?,
        mac: mac(&shown.address).unwrap_or_default(),
        address: shown.addr_info.iter().find_map(ipv4),
        mtu: shown.mtu,
        driver: driver(netns, shown),
        up: shown.flags.iter().any(|flag| flag == "UP"),
        carrier: shown.flags.iter().any(|flag| flag == "LOWER_UP"),
    })
}

fn driver(netns: Option<&str>, shown: &Shown) -> String {
    let asked = || {
        let text = run(netns, "ethtool", &["-i", &shown.ifname]).ok()?;
        Some(text.lines().find_map(|line| line.strip_prefix("driver: "))?.trim().to_owned())
    };
    shown.linkinfo.info_kind.clone().or_else(asked).unwrap_or_else(|| "unknown".to_owned())
}

fn ipv4(address: &Address) -> Option<Ipv4Addr> {
    let inet = address.family.as_deref() == Some("inet");
    address.local.as_deref().filter(|_| inet)?.parse().ok()
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHOWN: &str = r#"[{},{"ifindex":2,"link_index":2,"ifname":"t0","flags":["NO-CARRIER","BROADCAST","UP"],
        "mtu":1500,"address":"02:75:00:00:00:0a","linkinfo":{"info_kind":"veth"},
        "addr_info":[{"family":"inet6","local":"fe80::1"},{"family":"inet","local":"198.18.0.1","prefixlen":24}]}]"#;

    #[test]
    fn what_ip_prints_is_understood() {
        let found = parse(SHOWN).unwrap();
        assert_eq!((found.len(), found[0].ifindex, found[0].mtu), (1, 2, 1500));
        let link = resolved(None, &found[0]).unwrap();
        assert_eq!(link.mac, [2, 0x75, 0, 0, 0, 10]);
        assert_eq!(link.address, Some(Ipv4Addr::new(198, 18, 0, 1)));
        assert_eq!((link.driver.as_str(), link.up), ("veth", true));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn only_six_bytes_are_a_mac() {
        assert_eq!(mac("0a:00:27"), None);
        assert_eq!(mac(""), None);
        assert_eq!(mac("ff:ff:ff:ff:ff:ff"), Some([255; 6]));
    }

    #[test]
    fn the_loopback_is_always_there_and_others_are_listed() {
        let lo = link(None, "lo").unwrap();
        assert_eq!((lo.index, receive_queues(&lo).unwrap()), (1, 1));
        let said = link(None, "no-such").unwrap_err().to_string();
        assert!(said.contains("lo"), "{said}");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            let _ = parse(&text);
            mac(&text);
        }
    }
}
