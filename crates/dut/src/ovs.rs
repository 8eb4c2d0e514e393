//! Open vSwitch as an OpenFlow switch between two interfaces: a database and a switch of our own, in a folder of their own, beside
//! whatever else of it runs on the host. Where the kernel has no module of it, its datapath is in user space.

use crate::{Dut, DutError, Report};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use usect_lab::companion::Companion;
use usect_lab::processes::Process;
use usect_lab::{LabError, Link, State, run};

const BRIDGE: &str = "br0";
/// Where Debian's package has the layout of its database.
const SCHEMA: &str = "share/openvswitch/vswitch.ovsschema";
/// How long each of the two may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
const BLINK: Duration = Duration::from_millis(20);

/// A switch over two interfaces of one namespace.
#[derive(Debug)]
pub struct OpenVSwitch {
    // Before what it reads.
    switch: Companion,
    _database: Companion,
    /// Where its datapath is: `system`, in the kernel, or `netdev`, in user space.
    datapath: &'static str,
    _folder: Folder,
}

/// The folder of what runs, removed when this is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl OpenVSwitch {
    /// Starts it, and has it pass on whatever comes from one interface to the other.
    ///
    /// Errors: it isn't installed; one of its programs says why it can't.
    pub fn start(left: &Link, right: &Link) -> Result<OpenVSwitch, DutError> {
        let folder = folder(std::process::id());
        let unmade = |e| LabError::Failed { command: format!("making {}", folder.display()), why: format!("{e}") };
        fs::create_dir_all(&folder).map_err(unmade)?;
        let folder = Folder(folder);
        let at = |name: &str| folder.0.join(name).display().to_string();
        let (file, socket) = (at("conf.db"), at("db.sock"));
        run(None, "ovsdb-tool", &["create", &file, &schema()?])?;
        let database = started(
            None,
            ("ovsdb-server", &[&file, &format!("--remote=punix:{socket}"), &format!("--unixctl={}", at("db.ctl"))]),
            &folder.0,
        )?;
        let server = format!("unix:{socket}");
        let netns = left.netns.as_deref();
        let ask = |args: &[&str]| answered(&[&["--db", &server, "--timeout=10"], args].concat());
        ask(&["--no-wait", "init"])?;
        // Segments that the sender leaves to a card go through whole, as they do through a bridge.
        ask(&["--no-wait", "set", "Open_vSwitch", ".", "other_config:userspace-tso-enable=true"])?;
        let switch =
            started(netns, ("ovs-vswitchd", &[&server, &format!("--unixctl={}", at("switch.ctl"))]), &folder.0)?;
        let datapath = if run(None, "modprobe", &["-q", "openvswitch"]).is_ok() { "system" } else { "netdev" };
        let kind = format!("datapath_type={datapath}");
        ask(&["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, &kind, "fail-mode=secure"])?;
        for (number, link) in [("1", left), ("2", right)] {
            let wanted = format!("ofport_request={number}");
            ask(&["add-port", BRIDGE, &link.interface, "--", "set", "interface", &link.interface, &wanted])?;
        }
        let bridge = format!("unix:{}", at(&format!("{BRIDGE}.mgmt")));
        for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
            run(None, "ovs-ofctl", &["add-flow", &bridge, flow])?;
        }
        Ok(OpenVSwitch { switch, _database: database, datapath, _folder: folder })
    }

    /// The process that switches.
    pub fn pid(&self) -> u32 {
        self.switch.pid()
    }

    /// Where its datapath is: `system`, in the kernel, or `netdev`, in user space.
    pub fn datapath(&self) -> &'static str {
        self.datapath
    }
}

impl Dut for OpenVSwitch {
    fn stop(mut self: Box<Self>) -> Result<Report, DutError> {
        match self.switch.ended() {
            None => Ok(Report::default()),
            Some(status) => {
                Err(LabError::Failed { command: "ovs-vswitchd".into(), why: format!("it ended by itself: {status}") }
                    .into())
            }
        }
    }
}

/// Starts one of its two daemons, and waits until it answers.
fn started(netns: Option<&str>, (program, args): (&str, &[&str]), folder: &Path) -> Result<Companion, LabError> {
    let rundir = folder.display().to_string();
    let mut daemon = Companion::start_with(netns, program, args, &[("OVS_RUNDIR", &rundir), ("OVS_DBDIR", &rundir)])?;
    let control = args.iter().find_map(|arg| arg.strip_prefix("--unixctl=")).unwrap_or_default();
    let begun = Instant::now();
    while !Path::new(control).exists() {
        if daemon.ended().is_some() || begun.elapsed() > PATIENCE {
            let (_, complaint) = daemon.output(Instant::now());
            let why = complaint.unwrap_or_else(|| format!("it did not answer within {} s", PATIENCE.as_secs()));
            return Err(LabError::Failed { command: program.to_owned(), why });
        }
        std::thread::sleep(BLINK);
    }
    Ok(daemon)
}

fn answered(args: &[&str]) -> Result<(), LabError> {
    run(None, "ovs-vsctl", args).map(drop)
}

/// The layout of its database: Debian's, or beside the programs that `PATH` finds.
fn schema() -> Result<String, LabError> {
    let beside = std::env::var("PATH").unwrap_or_default();
    let beside = std::env::split_paths(&beside).filter_map(|bin| Some(bin.parent()?.join(SCHEMA))).collect::<Vec<_>>();
    let all = beside.into_iter().chain([Path::new("/usr").join(SCHEMA)]);
    all.into_iter().find(|path| path.exists()).map(|path| path.display().to_string()).ok_or_else(|| {
        LabError::MissingProgram { program: "ovsdb-server".into(), package: "openvswitch-switch".into() }
    })
}

fn folder(pid: u32) -> PathBuf {
    State::from_env().directory().join(format!("ovs.{pid}"))
}

/// Removes the folders that runs which were killed left.
pub fn recover() {
    let entries = fs::read_dir(State::from_env().directory()).into_iter().flatten().flatten();
    let of_nobody = |name: &str| name.strip_prefix("ovs.")?.parse().ok().filter(|pid| Process::living(*pid).is_none());
    for entry in entries {
        if entry.file_name().to_str().and_then(of_nobody).is_some() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
