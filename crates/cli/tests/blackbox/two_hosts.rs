//! `usect matrix` between two hosts. The far one is a namespace with a state directory of its own: its interface, its settings and its processes are
//! nobody else's, and the way to it is a real sshd, or a program that stands for ssh where something goes wrong.

use crate::signals::{kill_alone, kill_both};
use crate::world::{OPENSSH, World, names, output, until};
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use usect_core::matrix::{Became, Measured};
use usect_testing::{cases, skip};

/// Two hosts, of which usect doesn't know that they are one.
struct Hosts {
    world: World,
    sshd: Option<Child>,
}

impl Hosts {
    fn new() -> Option<Hosts> {
        let world = World::new()?;
        for (program, version) in [("iperf3", "-v"), ("ping", "-V")] {
            if usect_lab::run(None, program, &[version]).is_err() {
                skip(&format!("{program} is not there: `make deps-test` installs it"));
                return None;
            }
        }
        world.succeeds(&["lab", "up"]);
        for folder in ["far", "far-tmp"] {
            fs::create_dir(world.path(folder)).unwrap();
        }
        Some(Hosts { world, sshd: None })
    }

    fn path(&self, name: &str) -> String {
        self.world.path(name).to_str().unwrap().to_owned()
    }

    /// A program that stands for ssh: it runs its last argument, in the far namespace, behind some other commands.
    fn pretend(&self, before: &str) -> String {
        let (state, tmp) = (self.path("far"), self.path("far-tmp"));
        let text = format!(
            "#!/bin/sh\nfor last; do :; done\n{before}\nexec ip netns exec lab-rx env USECT_STATE={state} TMPDIR={tmp} sh -c \"$last\"\n"
        );
        self.program("ssh", &text)
    }

    fn program(&self, name: &str, text: &str) -> String {
        let path = self.world.file(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// An inventory whose far host is reached like that.
    fn inventory(&self, ssh: &str, far: &str) -> String {
        self.world.file(
            "hosts.ini",
            &format!(
                "[near]\nalpha ansible_connection=local usect_interface=t0@lab-tx\n[far]\nbeta ansible_ssh_executable={ssh} {far}\n"
            ),
        )
    }

    /// Starts an sshd in the far namespace, and returns what the inventory says of it.
    fn sshd(&mut self) -> Option<String> {
        let sshd = fs::canonicalize(Path::new(OPENSSH).join("sbin/sshd")).ok();
        let Some(sshd) = sshd.filter(|_| usect_lab::run(None, "ssh", &["-V"]).is_ok()) else {
            skip("sshd or ssh is not there: `make deps-test` unpacks one and installs the other");
            return None;
        };
        // It wants a user of its own; only this thread's processes see this file.
        let users =
            format!("{}sshd:x:997:65534::/run/sshd:/usr/sbin/nologin\n", fs::read_to_string("/etc/passwd").unwrap());
        if !users.lines().any(|line| line.starts_with("sshd:") && !line.contains(":997:")) {
            let file = self.world.file("passwd", &users);
            mount(Some(file.as_str()), "/etc/passwd", None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        }
        fs::create_dir_all("/run/sshd").unwrap();
        let (host, own) = (self.path("host-key"), self.path("own-key"));
        for key in [&host, &own] {
            output("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", key]);
        }
        let (state, tmp, known) = (self.path("far"), self.path("far-tmp"), self.path("known-hosts"));
        let config = self.world.file(
            "sshd-config",
            &format!(
                "Port 2222\nListenAddress 198.18.0.2\nHostKey {host}\nAuthorizedKeysFile {own}.pub\nPidFile none\nStrictModes no\nUsePAM no\n\
                 PermitRootLogin yes\nSetEnv USECT_STATE={state} TMPDIR={tmp}\n"
            ),
        );
        let libraries = format!("{OPENSSH}/lib/x86_64-linux-gnu");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", "lab-rx"]).arg(sshd).args(["-D", "-f", &config, "-E", &self.path("sshd-log")]);
        self.sshd = Some(command.env("LD_LIBRARY_PATH", libraries).spawn().unwrap());
        let listens =
            || output("ip", &["netns", "exec", "lab-rx", "ss", "-ltn"]).contains("198.18.0.2:2222").then_some(());
        until("sshd listens", listens);
        // The way there is that of the near interface.
        let ssh = self.program("ssh-there", "#!/bin/sh\nexec ip netns exec lab-tx ssh \"$@\"\n");
        let far = format!(
            "ansible_host=198.18.0.2 ansible_port=2222 ansible_user=root ansible_ssh_private_key_file={own} \
             ansible_ssh_common_args='-F none -o UserKnownHostsFile={known} -o StrictHostKeyChecking=accept-new' usect_interface=r0"
        );
        Some(self.inventory(&ssh, &far))
    }

    fn matrix(&self, vary: &str) -> String {
        let text = format!(
            "title = \"a test\"\n[quick]\nwarmup_s = 1\nduration_s = 1\nruns = 1\n[probe]\nping_ms = 50\n[vary]\n{vary}\n"
        );
        self.world.file("matrix.toml", &text)
    }

    /// Everything that is set up of either interface.
    fn settings(&self) -> Vec<String> {
        let of = |netns: &str, interface: &str| {
            let inside = |args: &[&str]| output("ip", &[&["netns", "exec", netns], args].concat());
            [
                inside(&["tc", "qdisc", "show", "dev", interface]),
                inside(&["ethtool", "-k", interface]),
                inside(&["cat", &format!("/sys/class/net/{interface}/mtu")]),
            ]
        };
        [of("lab-tx", "t0"), of("lab-rx", "r0")].concat()
    }

    /// What the far host owes usect, and what of usect is there. A far end that is left puts back by itself, and goes then.
    fn assert_far_clean(&self) {
        until("the far end is gone", || agent().is_none().then_some(()));
        for folder in ["far/usect-settings", "far-tmp"] {
            let left = || names(&self.world.path(folder));
            until(&format!("{folder} is empty"), || left().is_empty().then_some(()));
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Some(sshd) = &mut self.sshd {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
    }
}

/// The process at the far end.
fn agent() -> Option<u32> {
    with_words(&["agent", "r0"])
}

/// A process with these words in its command line.
pub(crate) fn with_words(words: &[&str]) -> Option<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let all: Vec<&[u8]> = line.split(|byte| *byte == 0).skip(1).collect();
        all.windows(words.len()).any(|some| some.iter().zip(words).all(|(a, b)| *a == b.as_bytes()))
            && !line.starts_with(b"sh\0")
            && !line.starts_with(b"ip\0")
    };
    pids.into_iter().find(has)
}

fn measured(hosts: &Hosts) -> Measured {
    hosts.world.newest_run().0.header.matrix.unwrap()
}

#[test]
fn a_matrix_is_measured_between_two_hosts_over_ssh() {
    let Some(mut hosts) = Hosts::new() else { return };
    let Some(inventory) = hosts.sshd() else { return };
    let before = hosts.settings();
    let all = ["\"tso off gso off gro off\"", "\"tx on sg on tso on gso on gro on\", \"tso off gso off gro off\""];
    for (offloads, levels) in cases(&all).iter().zip(1..) {
        measured_over_ssh(&hosts, &inventory, (offloads, levels));
    }
    assert_eq!(hosts.settings(), before);
    hosts.assert_far_clean();
    // Nobody listens there.
    let file = hosts.matrix("load = [\"none\"]");
    let refused = fs::read_to_string(&inventory).unwrap().replace("=2222", "=2223");
    let refused = hosts.world.file("refused.ini", &refused);
    let sentence = hosts.world.refuses(&["matrix", &file, "--quick", "--inventory", &refused]);
    assert!(sentence.starts_with("usect: beta: ssh: connect to host") && sentence.contains("refused"), "{sentence}");
}

fn measured_over_ssh(hosts: &Hosts, inventory: &str, (offloads, levels): (&str, usize)) {
    let file = hosts.matrix(&format!(
        "offloads = [{offloads}]\nqueue = [\"pfifo limit 500\"]\nmtu = [1400]\npath = [\"direct\", \"bridge\"]\n\
         load = [\"none\", \"tcp\", \"udp 20M\"]\ndirection = [\"forward\", \"back\"]"
    ));
    hosts.world.succeeds(&["matrix", &file, "--quick", "--inventory", inventory]);
    let measured = measured(hosts);
    assert_eq!(measured.ends, ["alpha, t0@lab-tx, 198.18.0.1", "beta, r0, 198.18.0.2"]);
    assert_eq!(measured.trials.len(), levels * 2 * 5);
    for tried in &measured.trials {
        let label = measured.matrix.label(&tried.turn.cell);
        if label.contains("bridge") {
            assert!(
                matches!(&tried.became, Became::Unavailable(why) if why.contains("as it is")),
                "{label}: {tried:?}"
            );
            continue;
        }
        let Became::Seen(seen) = &tried.became else { panic!("{label}: {tried:?}") };
        let counts = &seen.probe.counts;
        assert!(counts.sent == 1_000 && counts.received + counts.lost == counts.sent, "{label}: {counts:?}");
        // Two clocks, as far as usect knows: what they say of each other is known to within something.
        let apart = seen.probe.apart.as_ref().unwrap();
        let told = apart.forward.summary.samples + apart.left_out;
        assert!(told == counts.received && apart.bound_ns > 0, "{label}: {told}, {}", apart.bound_ns);
        let who = |name: &str| seen.processes.iter().any(|used| used.who == name);
        assert!(who("usect, first end") && who("usect, second end"), "{label}: {:?}", seen.processes);
        assert!(seen.cores.iter().any(|core| core.who == "0") && seen.cores.iter().any(|core| core.who == "beta 0"));
        let queues: Vec<(&str, &str)> = seen.queues.iter().map(|q| (q.interface.as_str(), q.kind.as_str())).collect();
        assert_eq!(queues, [("t0", "pfifo"), ("beta r0", "pfifo")], "{label}");
        let loaded = seen.load.as_ref().is_some_and(|load| load.bits_per_second > 1e6);
        assert_eq!(loaded, !label.contains("none"), "{label}: {:?}", seen.load);
        assert_eq!(seen.arrived.as_ref().is_some_and(|arrived| arrived.packets > 10), loaded, "{label}");
    }
    let run = hosts.world.newest_run().0;
    assert!(run.header.environment.get("far.kernel.release").is_some(), "{:?}", run.header.environment);
}

#[test]
fn either_end_may_die() {
    let Some(hosts) = Hosts::new() else { return };
    let (inventory, before) = (hosts.inventory(&hosts.pretend(""), "usect_interface=r0"), hosts.settings());
    let file = hosts.matrix("queue = [\"pfifo limit 321\", \"pfifo limit 123\"]\nload = [\"tcp\"]");
    let args = ["matrix", &file, "--quick", "--inventory", &inventory, "--duration", "3"];
    let loads = || with_words(&["-c", "198.18.0.2"]).is_some();
    // The far one: its trial fails, and the next finds another, which puts back what the first left.
    let mut run = hosts.world.start(&args);
    run.until("it loads", loads);
    kill(Pid::from_raw(agent().unwrap() as i32), Signal::SIGKILL).unwrap();
    assert_eq!(run.end().code(), Some(2), "{}", run.printed());
    let measured = measured(&hosts);
    let failed = |became: &Became| matches!(became, Became::Failed(why) if why.contains("beta: the connection ended"));
    assert!(failed(&measured.trials[0].became), "{:?}", measured.trials[0]);
    assert!(matches!(measured.trials[1].became, Became::Seen(_)), "{:?}", measured.trials[1]);
    assert_eq!(hosts.settings(), before);
    hosts.assert_far_clean();
    // The near one: the far one puts its own back by itself, and the next start those of the near one, unless that has a survivor.
    let mut run = hosts.world.start(&args);
    run.until("it loads", loads);
    assert_ne!(hosts.settings()[3..], before[3..]);
    kill_alone(&mut run);
    hosts.assert_far_clean();
    assert_eq!(hosts.settings(), before);
    let mut run = hosts.world.start(&args);
    run.until("it loads", loads);
    kill_both(&mut run);
    hosts.assert_far_clean();
    assert_eq!(hosts.settings()[3..], before[3..]);
    let said = hosts.world.succeeds(&["host", "restore"]).stdout;
    assert!(said.contains("what a killed run had set up of t0"), "{said}");
    assert_eq!(hosts.settings(), before);
    // A Ctrl-C: both.
    let mut run = hosts.world.start(&args);
    run.until("it loads", loads);
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code(), Some(130), "{}", run.printed());
    assert_eq!(hosts.settings(), before);
    hosts.assert_far_clean();
}

#[test]
fn a_far_host_that_is_not_as_it_should_be_is_told_in_a_sentence() {
    let Some(hosts) = Hosts::new() else { return };
    let file = hosts.matrix("load = [\"none\", \"udp 10M\"]");
    let ssh = hosts.pretend("");
    let refuses = |inventory: &str, said: &str| {
        let sentence = hosts.world.refuses(&["matrix", &file, "--quick", "--inventory", inventory]);
        assert!(sentence.contains(said), "{sentence}");
    };
    refuses(&hosts.inventory(&ssh, "usect_interface=eth9"), "beta: there is no interface \"eth9\"");
    refuses(&hosts.inventory(&ssh, ""), "beta: give it usect_interface=");
    refuses(&hosts.inventory("/none", "usect_interface=r0"), "`/none` can't be started");
    refuses(
        &hosts.inventory(&hosts.pretend("echo Welcome"), "usect_interface=r0"),
        "\"Welcome\" came where usect should answer",
    );
    refuses(
        &hosts.inventory(&hosts.pretend("echo no such key >&2; exit 255"), "usect_interface=r0"),
        "beta: no such key",
    );
    refuses("/none.ini", "can't be read");
    // What would go over another interface, or change more than is put back.
    let ssh = hosts.pretend("");
    refuses(&hosts.inventory(&ssh, "usect_interface=lo"), "leaves by lo, not by t0");
    let other = |args: &str| output("ip", &[&["-n", "lab-rx"], &args.split(' ').collect::<Vec<_>>()[..]].concat());
    other("link add name v0 type veth peer name v1");
    refuses(&hosts.inventory(&ssh, "usect_interface=v0"), "v0 has no IPv4 address");
    other("addr add 198.18.0.9/24 dev v0");
    refuses(&hosts.inventory(&ssh, "usect_interface=v0"), "beta: v0 is down");
    other("link set v0 up");
    other("link set v1 up");
    refuses(&hosts.inventory(&ssh, "usect_interface=v0"), "leaves by r0, not by v0");
    other("link del v0");
    let small = hosts.world.file("small.toml", "title = \"\"\n[vary]\nmtu = [1500, 1000]\n");
    let good = hosts.inventory(&ssh, "usect_interface=r0");
    let sentence = hosts.world.refuses(&["matrix", &small, "--quick", "--inventory", &good]);
    assert!(sentence.contains("takes IPv6 away"), "{sentence}");
    // Nobody is there.
    output("ip", &["-n", "lab-rx", "route", "add", "unreachable", "198.18.0.1"]);
    refuses(&good, "beta: ");
    output("ip", &["-n", "lab-rx", "route", "del", "unreachable", "198.18.0.1"]);
    let one = "[near]\na ansible_connection=local usect_interface=t0@lab-tx\n[far]\nb ansible_connection=local usect_interface=t0@lab-tx\n";
    refuses(&hosts.world.file("one.ini", one), "are both at 198.18.0.1");
    // Two namespaces of one host are two ends as well, without ssh.
    let both = "[near]\na ansible_connection=local usect_interface=t0@lab-tx\n[far]\nb ansible_connection=local usect_interface=r0@lab-rx\n";
    let both = hosts.world.file("both.ini", both);
    hosts.world.succeeds(&["matrix", &file, "--quick", "--inventory", &both]);
    let one_clock = |became: &Became| {
        let Became::Seen(seen) = became else { return false };
        let apart = seen.probe.apart.as_ref().unwrap();
        (apart.bound_ns, apart.left_out, apart.forward.summary.samples) == (0, 0, seen.probe.counts.received)
    };
    assert!(measured(&hosts).trials.iter().all(|tried| one_clock(&tried.became)));
}
