//! The one name of a port everywhere: flags, TOML, results. `engine:where[@namespace]`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddrV4;
use std::str::FromStr;

/// A way in and out of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// UDP sockets of the kernel's own stack.
    Udp,
    /// AF_PACKET rings.
    Packet,
    /// AF_XDP rings.
    Xdp,
    /// Poll-mode drivers of DPDK.
    Dpdk,
    /// Rings inside the process: no kernel, no interface.
    Mem,
    /// A generator and receiver in eBPF.
    Kernel,
}

impl Engine {
    /// Every engine, in the order of tables.
    pub const ALL: [Engine; 6] = [Engine::Udp, Engine::Packet, Engine::Xdp, Engine::Dpdk, Engine::Mem, Engine::Kernel];

    /// Its name in port names and tables.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Udp => "udp",
            Engine::Packet => "packet",
            Engine::Xdp => "xdp",
            Engine::Dpdk => "dpdk",
            Engine::Mem => "mem",
            Engine::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where a port is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A network interface, by name.
    Interface(String),
    /// A local IPv4 address and UDP port.
    Address(SocketAddrV4),
    /// A device of DPDK: a PCI address or a virtual device, with arguments.
    Device(String),
    /// A wire inside the process, by any name.
    Wire(String),
}

/// A port as the user names it: `xdp:eth1`, `kernel:t0@usect-tx`, `udp:198.18.0.1:9000@usect-tx`,
/// `dpdk:0000:01:00.0`, `dpdk:net_af_packet0,iface=t0@usect-tx`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortName {
    /// The engine.
    pub engine: Engine,
    /// The interface or address.
    pub place: Place,
    /// The network namespace it is in (as `ip netns` names it); the caller's own when absent.
    pub netns: Option<String>,
}

/// Why a port name could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("port `{name}`: {why}")]
pub struct BadPortName {
    name: String,
    why: String,
}

impl FromStr for PortName {
    type Err = BadPortName;

    fn from_str(name: &str) -> Result<PortName, BadPortName> {
        parse(name).map_err(|why| BadPortName { name: name.to_owned(), why })
    }
}

fn parse(name: &str) -> Result<PortName, String> {
    let Some((engine, rest)) = name.split_once(':') else {
        return Err(
            "write ENGINE:INTERFACE[@NAMESPACE], for example xdp:eth1, or udp:ADDRESS:PORT[@NAMESPACE], or dpdk:DEVICE"
                .into(),
        );
    };
    let engine = Engine::ALL.into_iter().find(|e| e.name() == engine).ok_or_else(|| {
        let known: Vec<&str> = Engine::ALL.iter().map(|e| e.name()).collect();
        format!("there is no engine `{engine}`; usect has {} (`usect engines` lists what works here)", known.join(", "))
    })?;
    let (place, netns) = match rest.split_once('@') {
        Some((_, "")) => return Err("the namespace after `@` is empty".into()),
        Some((place, netns)) => (place, Some(netns.to_owned())),
        None => (rest, None),
    };
    if let Some(bad) = netns.as_deref().filter(|n| n.contains(['/', '@']) || *n == "." || *n == "..") {
        return Err(format!("`{bad}` can't be the name of a namespace"));
    }
    let place = match engine {
        Engine::Udp => Place::Address(
            place
                .parse()
                .map_err(|_| format!("`{place}` is not an IPv4 address and port; write udp:198.18.0.1:9000"))?,
        ),
        Engine::Dpdk => Place::Device(device(place)?),
        Engine::Mem => Place::Wire(interface(place)?),
        Engine::Packet | Engine::Xdp | Engine::Kernel => Place::Interface(interface(place)?),
    };
    Ok(PortName { engine, place, netns })
}

/// Names as the kernel takes them (`dev_valid_name`: 1 to 15 bytes, no slash, colon or space).
fn interface(name: &str) -> Result<String, String> {
    let valid = !name.is_empty()
        && name.len() < 16
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if valid { Ok(name.to_owned()) } else { Err(format!("`{name}` can't be the name of an interface")) }
}

/// What DPDK takes as one argument.
fn device(name: &str) -> Result<String, String> {
    let valid = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    if valid {
        Ok(name.to_owned())
    } else {
        Err(format!("`{name}` can't be a device; write dpdk:0000:01:00.0, or a virtual one such as dpdk:net_ring0"))
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Interface(name) => write!(f, "{}:{name}", self.engine)?,
            Place::Address(address) => write!(f, "{}:{address}", self.engine)?,
            Place::Device(name) | Place::Wire(name) => write!(f, "{}:{name}", self.engine)?,
        }
        match &self.netns {
            Some(netns) => write!(f, "@{netns}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for PortName {
    type Error = BadPortName;

    fn try_from(name: String) -> Result<PortName, BadPortName> {
        name.parse()
    }
}

impl From<PortName> for String {
    fn from(name: PortName) -> String {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_names_survive_a_round_trip() {
        for name in [
            "xdp:eth1",
            "kernel:t0@usect-tx",
            "udp:198.18.0.1:9000@usect-tx",
            "udp:127.0.0.1:7",
            "dpdk:0000:01:00.0",
            "mem:a",
            "dpdk:net_af_packet0,iface=t0@usect-tx",
        ] {
            assert_eq!(name.parse::<PortName>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn bad_names_get_a_sentence() {
        for (name, part) in [
            ("eth1", "ENGINE:INTERFACE"),
            ("warp:eth1", "no engine `warp`"),
            ("xdp:", "can't be the name of an interface"),
            ("xdp:averyveryverylongname", "can't be the name"),
            ("udp:eth0", "IPv4 address"),
            ("dpdk:", "can't be a device"),
            ("dpdk:net ring", "can't be a device"),
            ("xdp:eth0@", "empty"),
            ("xdp:eth0@../x", "can't be the name of a namespace"),
        ] {
            let error = name.parse::<PortName>().unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_survives(text in ".{0,40}") {
            if let Ok(name) = text.parse::<PortName>() {
                prop_assert_eq!(name.to_string().parse::<PortName>().unwrap(), name);
            }
        }
    }
}
