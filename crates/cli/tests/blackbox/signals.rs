//! Runs that are ended from outside: asked to by a signal, or killed.

use crate::compare::assert_adds_up;
use crate::two_hosts::with_words;
use crate::world::{CLIENTS, Started, World, names, namespaces, output, read_run, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};
use usect_testing::cases;

const WIRE: &str = "{ kind = \"wire\" }";
const TRAFFIC: &str = "{ frame_size = 64, rate = \"10 kpps\" }";
/// Longer than any test waits: only a signal ends such a run.
const FOR_EVER: &[&str] = &["--warmup", "0", "--duration", "3600", "--runs", "1"];
/// Frames of [`FOR_EVER`].
const ALL: u64 = 36_000_000;

/// The process that puts back at once what another one leaves when it is killed.
fn survivor_of(pid: u32) -> Option<u32> {
    with_words(&["put-back", &pid.to_string()])
}

/// What `host tune` runs: its child, but for that.
pub(crate) fn command_of(pid: u32) -> Option<i32> {
    let (survivor, children) =
        (survivor_of(pid)?, fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?);
    children.split_whitespace().filter_map(|child| child.parse().ok()).find(|child| *child != survivor as i32)
}

/// Kills a run, and waits until what it left is put back.
pub(crate) fn kill_alone(run: &mut Started) {
    run.signal(Signal::SIGKILL);
    run.end();
    until("it is put back at once", || survivor_of(run.pid()).is_none().then_some(()));
}

/// Kills a run, and before it who would put back at once what it leaves: that is up to the next start.
pub(crate) fn kill_both(run: &mut Started) {
    if let Some(survivor) = survivor_of(run.pid()) {
        kill(Pid::from_raw(survivor as i32), Signal::SIGKILL).unwrap();
    }
    run.signal(Signal::SIGKILL);
    run.end();
}

fn start(world: &World, dut: &str, clients: &[&str]) -> Started {
    let scenario = world.scenario(dut, TRAFFIC, clients);
    world.start(&[&["compare", &scenario], FOR_EVER].concat())
}

/// Frames that arrived at the receiver's interface.
fn received() -> u64 {
    if !namespaces().contains(&"usect-rx".to_owned()) {
        return 0;
    }
    // The namespace has a name a moment before it is one.
    let shown = Command::new("ip").args(["-n", "usect-rx", "-s", "-j", "link"]).output().unwrap();
    let links: Vec<Value> = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    let link = &links.into_iter().find(|l| l["ifname"] == "r0");
    link.as_ref().map_or(0, |l| l["stats64"]["rx"]["packets"].as_u64().unwrap())
}

/// Ends a run in the middle of its only trial; the measured part must be kept.
fn ended_by(signal: Signal, dut: &str, client: &str) {
    let Some(world) = World::new() else { return };
    let mut run = start(&world, dut, &[client]);
    run.until("traffic arrives", || received() > 500);
    run.signal(signal);
    assert_eq!(run.end().code(), Some(130), "{}", run.printed());
    let (stored, folder) = world.newest_run();
    assert!(stored.header.partial.is_some(), "{:?}", stored.header);
    assert_eq!((stored.trials.len(), stored.clients.len()), (1, 1));
    assert!(stored.trials[0].partial.is_some());
    let counts = &stored.trials[0].measured.counts;
    assert_adds_up(counts, client);
    assert!(counts.received > 0 && counts.sent < ALL, "{counts:?}");
    assert_eq!(names(&folder), ["histograms", "report.html", "run.json"]);
    assert!(run.printed().contains(folder.file_name().unwrap().to_str().unwrap()), "{}", run.printed());
    world.assert_clean();
}

#[test]
fn ctrl_c_while_sockets_poll() {
    ended_by(Signal::SIGINT, WIRE, "udp-polling");
}

#[test]
fn ctrl_c_while_sockets_block() {
    ended_by(Signal::SIGINT, WIRE, "udp-blocking");
}

#[test]
fn ctrl_c_while_rings_are_polled_through_a_forwarder() {
    ended_by(Signal::SIGINT, "{ kind = \"forwarder\" }", "xdp");
}

#[test]
fn ctrl_c_while_the_kernel_generates() {
    ended_by(Signal::SIGINT, "{ kind = \"xdp-forwarder\" }", "kernel");
}

#[test]
fn sigterm_is_the_same() {
    ended_by(Signal::SIGTERM, "{ kind = \"bridge\" }", "udp-polling");
}

/// A run of two clients, the second of which something happens to in the middle of its trial: the run is
/// refused in one sentence, and what the first one measured is kept, and marked.
fn fails_in_the_second_trial(happen: impl Fn(&Started), said: &[&str]) {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(WIRE, TRAFFIC, &["udp-blocking", "kernel"]);
    let text = std::fs::read_to_string(&scenario).unwrap();
    let second = "[[client]]\nname = \"second\"\nengine = \"udp\"\n";
    let scenario =
        world.file("scenario.toml", &text.replace("[[client]]\nname = \"kernel\"\nengine = \"kernel\"\n", second));
    let mut run = world.start(&["compare", &scenario, "--warmup", "0", "--duration", "3", "--runs", "1"]);
    run.until("the first trial is stored", || {
        world.runs().iter().any(|id| world.path("runs").join(id).join("run.json").exists())
    });
    let before = received();
    run.until("the second trial has traffic", || received() > before + 500);
    happen(&run);
    assert_eq!(run.end().code(), Some(2), "{}", run.printed());
    let printed = run.printed();
    let sentences: Vec<&str> = printed.lines().filter(|line| line.starts_with("usect: ")).collect();
    assert!(sentences.len() == 1, "{printed}");
    let (stored, folder) = world.newest_run();
    let why = stored.header.partial.as_ref().unwrap();
    for part in said {
        assert!(sentences[0].contains(part) && why.contains(part), "{part}: {printed} {why}");
    }
    assert!(sentences[0].contains(folder.file_name().unwrap().to_str().unwrap()), "{printed}");
    assert_eq!((stored.clients.len(), stored.clients[0].client.as_str()), (1, "udp-blocking"));
    assert_eq!((stored.clients[0].measured.counts.sent, &stored.trials[0].partial), (30_000, &None));
    assert_eq!(names(&folder), ["histograms", "report.html", "run.json"]);
    world.assert_clean();
}

/// The whole process stands still for a second, as on a host that is paused: it catches up, and the wait is in what it
/// measures.
#[test]
fn a_pause_of_the_host_is_data() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(WIRE, TRAFFIC, &["mem"]);
    let mut run = world.start(&["compare", &scenario, "--warmup", "0", "--duration", "6", "--runs", "1"]);
    // Frames that it has sent are seen by nobody outside.
    std::thread::sleep(Duration::from_secs(3));
    run.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(1));
    run.signal(Signal::SIGCONT);
    assert_eq!(run.end().code(), Some(0), "{}", run.printed());
    let (stored, _) = world.newest_run();
    let measured = &stored.clients[0].measured;
    assert_eq!((measured.counts.sent, measured.counts.received), (60_000, 60_000));
    assert!(measured.lateness.as_ref().unwrap().max_ns > 500_000_000, "{:?}", measured.lateness);
    world.assert_clean();
}

#[test]
fn an_interface_that_goes_down_keeps_what_was_measured_before() {
    let down = |_: &Started| drop(output("ip", &["-n", "usect-tx", "link", "set", "t0", "down"]));
    fails_in_the_second_trial(down, &["client `second`: sending failed: Network is unreachable"]);
}

#[test]
fn ctrl_c_before_any_traffic_keeps_nothing() {
    let Some(world) = World::new() else { return };
    let mut run = start(&world, WIRE, &["kernel"]);
    run.until("the lab is being made", || !namespaces().is_empty());
    // The trial can't have been set up yet, or it keeps what it has.
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code(), Some(130), "{}", run.printed());
    for folder in world.runs() {
        assert!(world.newest_run().0.header.partial.is_some(), "{folder}");
    }
    world.assert_clean();
}

#[test]
fn one_run_at_a_time() {
    let Some(world) = World::new() else { return };
    let mut first = start(&world, WIRE, &["udp-blocking"]);
    first.until("the lab is there", || received() > 0);
    let before = (namespaces(), world.runs());
    let scenario = world.scenario(WIRE, TRAFFIC, &["udp-blocking"]);
    for second in [&["compare", &scenario][..], &["measure", "--tx", "kernel:lo", "--rx", "kernel:other"]] {
        let sentence = world.usect(second).refused();
        assert!(sentence.starts_with(&format!("usect: process {} (usect) is measuring", first.pid())), "{sentence}");
    }
    let sentence = world.usect(&["lab", "down", "usect"]).refused();
    assert!(sentence.contains(&format!("process {} made it", first.pid())), "{sentence}");
    assert!(world.usect(&["lab", "list"]).stdout.contains(&format!("in use by process {}", first.pid())));
    assert_eq!(before, (namespaces(), world.runs()));
    first.signal(Signal::SIGINT);
    assert_eq!(first.end().code(), Some(130), "{}", first.printed());
    world.assert_clean();
}

/// Numbers from 0 to 1, from a seed (splitmix64).
fn random(seed: u64) -> impl Iterator<Item = f64> {
    (1..).map(move |n: u64| {
        let mut z = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) as f64 / 2_f64.powi(64)
    })
}

/// Ten moments, one in each tenth of what an undisturbed run takes. Wherever a kill falls, the host must be clean at once, or, where
/// who sees to that is killed as well, after the next start; that some of those had something to clean shows that the moments are not
/// all too early or too late.
#[test]
fn a_run_may_be_killed_at_any_moment() {
    let Some(world) = World::new() else { return };
    for clients in cases(&[&["udp-polling", "kernel"][..], CLIENTS]) {
        killed_at_any_moment(&world, clients);
    }
}

fn killed_at_any_moment(world: &World, clients: &[&str]) {
    let scenario = world.scenario("{ kind = \"forwarder\" }", TRAFFIC, clients);
    let args = ["compare", &scenario, "--warmup", "0", "--duration", "0.2", "--runs", "1"];
    let begun = Instant::now();
    world.succeeds(&args);
    let whole = begun.elapsed();
    let mut recovered = 0;
    for (tenth, random) in random(7).take(10).enumerate() {
        let moment = whole.mul_f64((tenth as f64 + random) / 10.0);
        let mut run = world.start(&args);
        std::thread::sleep(moment);
        if tenth % 2 == 0 {
            kill_alone(&mut run);
            world.assert_clean();
        } else {
            kill_both(&mut run);
            recovered += usize::from(recovers(world, tenth / 2));
            world.scenario("{ kind = \"forwarder\" }", TRAFFIC, clients);
        }
        let status = run.end();
        assert!(status.signal() == Some(9) || status.success(), "{status}: {}", run.printed());
    }
    assert!(recovered > 1, "only {recovered} of 5 kills left something");
    world.succeeds(&args);
    world.assert_clean();
}

/// Starts `lab up` and `compare` in turn, which clean up first; whether they said so.
fn recovers(world: &World, round: usize) -> bool {
    // A draft of the journal is of something that was not there yet: it goes without a word.
    let left = world.journal().iter().any(|file| file.extension().is_some_and(|extension| extension == "json"));
    let done = if round.is_multiple_of(2) {
        let up = world.succeeds(&["lab", "up", "next"]);
        assert_eq!(namespaces(), ["next-rx", "next-tx"]);
        world.succeeds(&["lab", "down", "next"]);
        up
    } else {
        let scenario = world.scenario(WIRE, TRAFFIC, &["kernel"]);
        world.succeeds(&["compare", &scenario, "--warmup", "0", "--duration", "0.05", "--runs", "1"])
    };
    assert_eq!(done.stderr.contains("left when it was killed"), left, "{done:?}");
    world.assert_clean();
    left
}

/// The second signal ends the process at once; who survives it cleans up after it.
#[test]
fn an_impatient_user_is_obeyed() {
    let Some(world) = World::new() else { return };
    let mut run = start(&world, "{ kind = \"bridge\" }", &["udp-blocking"]);
    run.until("traffic arrives", || received() > 500);
    run.signal(Signal::SIGINT);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end().code(), Some(130), "{}", run.printed());
    until("it is put back at once", || survivor_of(run.pid()).is_none().then_some(()));
    world.assert_clean();
    // Whether the process got so far as to store anything is a matter of luck; what it stored is whole.
    for folder in world.runs().iter().map(|id| world.path("runs").join(id)).filter(|f| f.join("run.json").exists()) {
        assert_eq!(read_run(&folder).trials.len(), 1);
    }
}
