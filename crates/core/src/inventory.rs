//! Two hosts as an inventory of Ansible names them: the group `near`, where usect runs, and the group `far`, with one host each.
//!
//! Of the INI form: hosts, groups, their variables and those of `all`. Whatever else an inventory has (YAML, patterns, children, plugins),
//! `ansible-inventory --list` writes as JSON, which is read as well.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

type Variables = BTreeMap<String, String>;

/// The interface of an end, in a variable of its host: `eth1`, `eth1@namespace`.
const INTERFACE: &str = "usect_interface";
/// Variables that ask for what isn't done here, and what to do instead.
const REFUSED: [(&str, &str); 5] = [
    ("ansible_password", "log in with a key"),
    ("ansible_ssh_pass", "log in with a key"),
    ("ansible_become_password", "let that user call sudo without a password"),
    ("ansible_become_pass", "let that user call sudo without a password"),
    ("ansible_become_exe", "sudo is called by its name"),
];

/// Two hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// Where usect runs.
    pub near: Host,
    /// The other one.
    pub far: Host,
}

/// A host, and its interface on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name in the inventory.
    pub name: String,
    /// Its interface: `eth1`, `eth1@namespace`.
    pub interface: String,
    /// How commands get there; none: it is this one.
    pub ssh: Option<Ssh>,
}

/// How to run a command on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    /// The program.
    pub program: String,
    /// Its arguments up to the command.
    pub arguments: Vec<String>,
    /// Whether the command needs `sudo`.
    pub sudo: bool,
}

impl Inventory {
    /// Reads one.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Result<Inventory, String> {
        let groups = if text.trim_start().starts_with('{') { Groups::of_json(text)? } else { Groups::of_ini(text)? };
        let inventory = Inventory { near: groups.only("near")?, far: groups.only("far")? };
        if inventory.near.ssh.is_some() {
            return Err(format!(
                "usect runs on the near host: give {} ansible_connection=local, or start it there",
                inventory.near.name
            ));
        }
        Ok(inventory)
    }
}

/// Hosts by group, with what is said of all of them.
#[derive(Default)]
struct Groups {
    hosts: BTreeMap<String, Vec<String>>,
    of_hosts: BTreeMap<String, Variables>,
    of_groups: BTreeMap<String, Variables>,
}

/// What `ansible-inventory --list` says of a group.
#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    hosts: Vec<String>,
}

/// And of all hosts.
#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    hostvars: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Groups {
    fn of_json(text: &str) -> Result<Groups, String> {
        let wrong = |e: serde_json::Error| format!("it is no output of `ansible-inventory --list`: {e}");
        let mut all: BTreeMap<String, Value> = serde_json::from_str(text).map_err(wrong)?;
        let meta: Meta = all.remove("_meta").map_or(Ok(Meta::default()), serde_json::from_value).map_err(wrong)?;
        let plain = |value: Value| if let Value::String(text) = value { text } else { value.to_string() };
        let of_hosts = meta
            .hostvars
            .into_iter()
            .map(|(host, variables)| (host, variables.into_iter().map(|(name, value)| (name, plain(value))).collect()));
        let mut groups = Groups { of_hosts: of_hosts.collect(), ..Groups::default() };
        for name in ["near", "far"] {
            if let Some(group) = all.remove(name) {
                groups.hosts.insert(name.into(), serde_json::from_value::<Listed>(group).map_err(wrong)?.hosts);
            }
        }
        Ok(groups)
    }

    fn of_ini(text: &str) -> Result<Groups, String> {
        let mut groups = Groups::default();
        let mut section = String::from("ungrouped");
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.trim().to_owned();
                continue;
            }
            groups.line(&section, line).map_err(|why| format!("line {number}: {why}"))?;
        }
        Ok(groups)
    }

    fn line(&mut self, section: &str, line: &str) -> Result<(), String> {
        let words = || shlex::split(line).ok_or_else(|| "a quotation mark has no other".to_owned());
        match section.split_once(':') {
            Some((group, "vars")) => {
                let (name, value) = line.split_once('=').ok_or("a variable is written as name=value")?;
                let value = value.trim();
                let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
                let value = inside('"').or_else(|| inside('\'')).unwrap_or(value);
                self.of_groups.entry(group.into()).or_default().insert(name.trim().into(), value.into());
                Ok(())
            }
            Some((group, kind)) if ["near", "far"].contains(&group) => Err(format!(
                "[{group}:{kind}] isn't read here: name the host under [{group}], or pass what `ansible-inventory --list` prints"
            )),
            Some(_) => Ok(()),
            None => {
                let words = words()?;
                let Some((host, variables)) = words.split_first() else { return Ok(()) };
                self.hosts.entry(section.into()).or_default().push(host.clone());
                let own = self.of_hosts.entry(host.clone()).or_default();
                for variable in variables {
                    let (name, value) = variable.split_once('=').ok_or("a variable is written as name=value")?;
                    own.insert(name.into(), value.into());
                }
                Ok(())
            }
        }
    }

    /// The one host of a group.
    fn only(&self, group: &str) -> Result<Host, String> {
        let hosts = self.hosts.get(group).map_or(&[][..], Vec::as_slice);
        if hosts.len() > 1 {
            return Err(format!("the group `{group}` needs one host, and has {}", hosts.join(", ")));
        }
        let [host] = hosts else {
            return Err(format!(
                "the group `{group}` needs one host: write [{group}], and a line below it with the host's name"
            ));
        };
        if host.contains('[') {
            return Err(format!("{host} stands for several hosts: `{group}` needs one"));
        }
        let mut variables = Variables::new();
        for of in ["all", group] {
            variables.extend(self.of_groups.get(of).cloned().unwrap_or_default());
        }
        variables.extend(self.of_hosts.get(host).cloned().unwrap_or_default());
        let wrong = |why: String| format!("{host}: {why}");
        let interface = variables.get(INTERFACE).filter(|name| !name.is_empty());
        let interface = interface.ok_or_else(|| {
            wrong(format!("give it {INTERFACE}=, the name of its interface on the path (`ip link` shows them)"))
        })?;
        Ok(Host { name: host.clone(), interface: interface.clone(), ssh: ssh(host, &variables).map_err(wrong)? })
    }
}

/// How a host is reached, in Ansible's words.
fn ssh(host: &str, variables: &Variables) -> Result<Option<Ssh>, String> {
    let get = |name: &str| variables.get(name).map(String::as_str).filter(|value| !value.is_empty());
    match get("ansible_connection").unwrap_or("ssh") {
        "local" => return Ok(None),
        "ssh" | "smart" => {}
        other => return Err(format!("ansible_connection={other} isn't known here: use ssh, or local for this host")),
    }
    if let Some((name, instead)) = REFUSED.iter().find(|(name, _)| get(name).is_some()) {
        return Err(format!("{name} isn't used here: {instead}"));
    }
    for (name, only) in [("ansible_become_method", "sudo"), ("ansible_become_user", "root")] {
        if let Some(other) = get(name).filter(|value| *value != only) {
            return Err(format!("{name}={other} isn't known here: only {only} is"));
        }
    }
    let mut arguments = Vec::new();
    let mut option = |name: &str, value: Option<&str>| {
        arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value.to_owned()]));
    };
    // Nobody is there who could answer a question, and a host that is gone is noticed.
    for always in ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=4"] {
        option("-o", Some(always));
    }
    option("-p", get("ansible_port").or_else(|| get("ansible_ssh_port")));
    option("-l", get("ansible_user").or_else(|| get("ansible_ssh_user")));
    option("-i", get("ansible_ssh_private_key_file").or_else(|| get("ansible_private_key_file")));
    for name in ["ansible_ssh_common_args", "ansible_ssh_extra_args"] {
        let words =
            shlex::split(get(name).unwrap_or_default()).ok_or(format!("a quotation mark of {name} has no other"))?;
        arguments.extend(words);
    }
    let destination = get("ansible_host").or_else(|| get("ansible_ssh_host")).unwrap_or(host);
    if destination.starts_with('-') {
        return Err(format!("{destination} is no name of a host"));
    }
    arguments.push(destination.to_owned());
    let sudo =
        get("ansible_become").is_some_and(|value| ["true", "yes", "1", "on"].contains(&&value.to_lowercase()[..]));
    Ok(Some(Ssh { program: get("ansible_ssh_executable").unwrap_or("ssh").to_owned(), arguments, sudo }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INI: &str = "# two hosts of a rack\n[near]\nalpha ansible_connection=local usect_interface=eth1@left\n\n[far]\n; by its address\n\
        beta ansible_host=192.0.2.7 ansible_user=lab usect_interface=eth2 ansible_ssh_common_args='-o \"ProxyJump=a b\"'\n\
        [far:vars]\nansible_port = 2222\nansible_become=True\nusect_interface=eth9\n[all:vars]\nansible_port=1\n[others]\ngamma\n[others:children]\nfar\n";

    #[test]
    fn an_inventory_is_read() {
        let Inventory { near, far } = Inventory::parse(INI).unwrap();
        assert_eq!((near.name.as_str(), near.interface.as_str(), near.ssh), ("alpha", "eth1@left", None));
        let ssh = far.ssh.unwrap();
        assert_eq!((far.interface.as_str(), ssh.program.as_str(), ssh.sudo), ("eth2", "ssh", true));
        let said = ssh.arguments.join(" ");
        assert!(
            said.ends_with("-p 2222 -l lab -o ProxyJump=a b 192.0.2.7") && said.contains("BatchMode=yes"),
            "{said}"
        );
    }

    #[test]
    fn so_is_what_ansible_makes_of_another() {
        let json = r#"{"_meta": {"hostvars": {"a": {"ansible_connection": "local", "usect_interface": "eth1"},
            "b": {"ansible_port": 22, "ansible_become": true, "usect_interface": "eth2"}}},
            "all": {"children": ["near", "far"]}, "near": {"hosts": ["a"]}, "far": {"hosts": ["b"]}}"#;
        let Inventory { near, far } = Inventory::parse(json).unwrap();
        assert_eq!((near.name.as_str(), far.name.as_str()), ("a", "b"));
        let ssh = far.ssh.unwrap();
        assert!(ssh.sudo && ssh.arguments.join(" ").ends_with("-p 22 b"), "{ssh:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |from: &str, to: &str| Inventory::parse(&INI.replace(from, to)).unwrap_err();
        assert!(refused("ansible_connection=local ", "").contains("usect runs on the near host"));
        assert!(refused("[near]", "[nearby]").contains("the group `near` needs one host"));
        assert!(refused("[far]", "[far]\ndelta").contains("needs one host, and has delta, beta"));
        assert!(refused("alpha", "alpha[1:3]").contains("several hosts"));
        assert!(refused(" usect_interface=eth1@left", "").contains("give it usect_interface="));
        assert!(refused("=lab", "=lab ansible_password=x").contains("log in with a key"));
        assert!(refused("=lab", "=lab ansible_become_method=su").contains("only sudo"));
        assert!(refused("=lab", "=lab ansible_connection=winrm").contains("winrm"));
        assert!(refused("=192.0.2.7", "=-oProxyCommand=x").contains("no name of a host"));
        assert!(refused("[far:vars]", "[far:children]").contains("ansible-inventory --list"));
        assert!(refused("b\"'", "b'").contains("beta: a quotation mark of ansible_ssh_common_args"));
        assert!(refused("b\"'", "b\"").contains("line 7: a quotation mark"));
        assert!(refused("ansible_port = 2222", "ansible_port").contains("line 9: a variable"));
        assert!(Inventory::parse("{").unwrap_err().contains("ansible-inventory --list"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", words in "(\\[near\\]|\\[far:vars\\]|[a-c=\"'\n ]|usect_interface=|\\{|\\}|:)*") {
            let _ = (Inventory::parse(&text), Inventory::parse(&words));
        }
    }
}
