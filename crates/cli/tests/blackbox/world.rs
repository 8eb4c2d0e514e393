//! A host of a test's own: mounts and network of its own, a state directory, a folder for runs.

use libbpf_rs::query::{ProgInfoIter, ProgramInfo};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use usect_core::run::Run;
use usect_testing::skip;

/// No single call takes a tenth of this; whatever does hangs.
fn hangs() -> Duration {
    // A guest that is emulated takes as long as it takes, and has a limit of its own.
    Duration::from_secs(if std::env::var_os("USECT_GUEST").is_some() { 2400 } else { 300 })
}

/// Names of the eBPF programs that usect loads.
const PROGRAMS: &[&str] =
    &["arrivals", "generate", "receive", "reflect", "tap", "to_socket", "forward", "gaps", "pass"];

/// Every client there is, in the order in which scenarios here name them.
pub(crate) const CLIENTS: &[&str] = &["udp-polling", "udp-blocking", "packet", "xdp", "dpdk", "kernel"];

/// Frames that the path's shortest queue, 256 of a veth, holds all at once: however long a host that others use keeps threads
/// away, it loses none of them.
pub(crate) const FEW: u64 = 240;
/// Their rate, and the seconds that they take at it.
pub(crate) const FEW_RATE: &str = "800 pps";
pub(crate) const FEW_SECONDS: &str = "0.3";

/// A host of a test's own. The thread that makes it gets its own mounts, with an empty `/run/netns`, and
/// its own network, and so do the processes that it starts: what other processes of this machine do in
/// namespaces of the same names is not seen and not disturbed, and nothing survives the thread.
///
/// eBPF programs and cores are the machine's. So a lock is held while it lives, which makes tests wait for
/// each other, whether they are threads of one process or of several.
pub(crate) struct World {
    directory: TempDir,
    programs: Vec<u32>,
    begun: Instant,
    _turn: File,
}

/// What a run of the binary came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// `None` where this host can't have one; the reason is on standard error.
    pub(crate) fn new() -> Option<World> {
        if !usect_testing::root() {
            return None;
        }
        let turn = turn();
        let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
        if let Err(e) = unshare(own) {
            skip(&format!("no mounts and network of its own ({e})"));
            return None;
        }
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        fs::create_dir_all("/run/netns").unwrap();
        mount_tmpfs(Path::new("/run/netns"), "1m");
        Some(World {
            directory: tempfile::tempdir().unwrap(),
            programs: programs(),
            begun: Instant::now(),
            _turn: turn,
        })
    }

    /// A path in the test's own folder, in which the binary runs and stores.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file there and returns its path, for a command line.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A scenario with these clients of [`CLIENTS`].
    pub(crate) fn scenario(&self, dut: &str, traffic: &str, clients: &[&str]) -> String {
        let clients: Vec<String> = clients.iter().map(|name| client(name)).collect();
        let text = format!("title = \"a test\"\ntraffic = {traffic}\ndut = {dut}\n{}", clients.join(""));
        self.file("scenario.toml", &text)
    }

    /// Runs the binary to its end.
    pub(crate) fn usect(&self, args: &[&str]) -> Done {
        self.told(args, "")
    }

    /// The same, with something to read.
    pub(crate) fn told(&self, args: &[&str], input: &'static str) -> Done {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_usect"));
        command.args(args).current_dir(self.directory.path()).env("USECT_STATE", self.path("state")).envs(unpacked());
        done(command.write_stdin(input).timeout(hangs()).output().unwrap())
    }

    /// The same, when it must succeed.
    pub(crate) fn succeeds(&self, args: &[&str]) -> Done {
        let done = self.usect(args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        done
    }

    /// Runs the binary when it must refuse, checks that it does so as the handbook promises, in one
    /// sentence and leaving nothing behind, and returns the sentence.
    pub(crate) fn refuses(&self, args: &[&str]) -> String {
        let before = (namespaces(), interfaces(), self.runs());
        let sentence = self.usect(args).refused();
        assert_eq!(before, (namespaces(), interfaces(), self.runs()), "{args:?} left something behind");
        self.assert_no_programs();
        sentence
    }

    /// Runs a short comparison, which must succeed, and returns what it stored and where.
    pub(crate) fn compare(&self, scenario: &str, more: &[&str]) -> (Run, PathBuf) {
        let args = ["compare", scenario, "--warmup", "0", "--runs", "1"];
        self.succeeds(&[&args[..], more].concat());
        self.newest_run()
    }

    /// Starts the binary and lets it run.
    pub(crate) fn start(&self, args: &[&str]) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_usect"));
        command.args(args).current_dir(self.directory.path()).env("USECT_STATE", self.path("state")).envs(unpacked());
        let output = File::create(self.path("background.txt")).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        Started { child: command.spawn().unwrap(), output: self.path("background.txt") }
    }

    /// Names of the run folders, whatever is in them.
    pub(crate) fn runs(&self) -> Vec<String> {
        names(&self.path("runs"))
    }

    /// The last run, and its folder.
    pub(crate) fn newest_run(&self) -> (Run, PathBuf) {
        let folder = self.path("runs").join(self.runs().last().expect("a run was stored"));
        (read_run(&folder), folder)
    }

    /// What usect remembers of labs: every file of its state directory but the locks, which stay.
    pub(crate) fn journal(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.path("state")];
        while let Some(folder) = folders.pop() {
            let (inside, here): (Vec<_>, Vec<_>) =
                names(&folder).iter().map(|name| folder.join(name)).partition(|path| path.is_dir());
            folders.extend(inside);
            files.extend(here.into_iter().filter(|file| file.extension().is_some_and(|e| e != "lock")));
        }
        files
    }

    /// No namespace, no interface, nothing in the journal, no eBPF program: as if usect had never run.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(namespaces(), Vec::<String>::new());
        assert_eq!(interfaces(), ["lo"]);
        assert_eq!(self.journal(), Vec::<PathBuf>::new());
        self.assert_no_programs();
    }

    /// None of our programs that came after the test's start is left. The kernel frees them, and namespaces
    /// with what is attached in them, after the process is gone: so this waits for it.
    fn assert_no_programs(&self) {
        let gone = || programs().iter().all(|id| self.programs.contains(id)).then_some(());
        until("our eBPF programs are unloaded", gone);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        usect_testing::took(self.begun.elapsed());
    }
}

impl Done {
    /// The sentence of a refusal.
    pub(crate) fn refused(&self) -> String {
        assert_eq!(self.code, Some(2), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("usect: "), "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        let clauses: Vec<&str> = lines[0].split(": ").filter(|c| c.len() > 20).collect();
        assert!((1..clauses.len()).all(|i| !clauses[..i].contains(&clauses[i])), "it repeats itself: {self:?}");
        lines[0].to_owned()
    }
}

/// A running binary. It is killed if the test ends before it does.
pub(crate) struct Started {
    child: Child,
    output: PathBuf,
}

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Everything that it printed so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    /// Waits for something that it is to bring about.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        until(what, || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended ({ended:?}) before {what}: {}", self.printed());
            holds().then_some(())
        });
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        until("the process ends", || self.child.try_wait().unwrap())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for an event that must come; how soon is not asserted.
pub(crate) fn until<T>(what: &str, mut event: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(come) = event() {
            return come;
        }
        assert!(begun.elapsed() < hangs(), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Where `make test` unpacks memcached.
pub(crate) const MEMCACHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/memcached/usr");

/// Where it unpacks Open vSwitch.
pub(crate) const OPENVSWITCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/openvswitch/usr");

/// Where it unpacks an sshd.
pub(crate) const OPENSSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/openssh/usr");

/// Where a program looks for others, and their libraries: also where `make test` unpacks them.
fn unpacked() -> [(&'static str, String); 2] {
    let with = |name, folders: &[&str]| {
        let own =
            [MEMCACHED, OPENVSWITCH].into_iter().flat_map(|at| folders.iter().map(move |to| format!("{at}/{to}")));
        let before = std::env::var(name).ok().filter(|before| !before.is_empty());
        (name, before.into_iter().chain(own).collect::<Vec<_>>().join(":"))
    };
    [with("PATH", &["bin", "sbin"]), with("LD_LIBRARY_PATH", &["lib/x86_64-linux-gnu"])]
}

/// Waits until no other test runs, in this process or another.
fn turn() -> File {
    let file = File::create(std::env::temp_dir().join("usect-tests.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// A file system of a given size on a directory, seen by this thread and its processes only.
pub(crate) fn mount_tmpfs(at: &Path, size: &str) {
    mount(Some("usect-test"), at, Some("tmpfs"), MsFlags::empty(), Some(format!("size={size}").as_str())).unwrap();
}

fn client(name: &str) -> String {
    let engine = name.split('-').next().unwrap();
    let wait = if name.ends_with("-blocking") { "wait = \"block\"\n" } else { "" };
    format!("[[client]]\nname = \"{name}\"\nengine = \"{engine}\"\n{wait}")
}

pub(crate) fn done(output: Output) -> Done {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The run in a folder.
pub(crate) fn read_run(folder: &Path) -> Run {
    serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

/// What is in a folder, in order; nothing if it isn't there.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Network namespaces, as `ip netns list` has them.
pub(crate) fn namespaces() -> Vec<String> {
    let listed = output("ip", &["netns", "list"]);
    let mut names: Vec<String> = listed.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names
}

/// Interfaces outside of every namespace that usect made.
pub(crate) fn interfaces() -> Vec<String> {
    links(&["-j", "link"]).iter().map(|l| l["ifname"].as_str().unwrap().to_owned()).collect()
}

/// What `ip -j` says of links.
pub(crate) fn links(args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&output("ip", args)).unwrap()
}

/// Runs another program, which must succeed.
pub(crate) fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The loaded eBPF programs of our names.
fn programs() -> Vec<u32> {
    let ours = |p: &ProgramInfo| p.name.to_str().is_some_and(|name| PROGRAMS.contains(&name));
    ProgInfoIter::default().filter(ours).map(|p| p.id).collect()
}
