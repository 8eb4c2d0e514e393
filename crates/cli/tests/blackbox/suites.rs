//! The benchmarks of RFC 2544: against devices whose limits are known, interrupted, and where they can't be.

use crate::world::{World, output, read_run, until};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use usect_core::findings::{Findings, SizeFindings};
use usect_core::run::{Run, TrialRecord};
use usect_core::suite::{Benchmark, Deviation};
use usect_testing::cases;

/// Every frame size takes its own load, so what a scenario says here counts for nothing.
const TRAFFIC: &str = "{ frame_size = 64, rate = 1 }";
/// 74,404 frames of 64 bytes a second, which any host here can offer.
const LINE: &str = "50 Mbit/s";
/// How near what is known is found.
const NEAR: f64 = 0.1;
/// Share of their time that a host may keep threads away before a limit may be its own.
const HELD_UP: f64 = 0.2;

/// A token bucket inside the process. What waits is many milliseconds' worth, so that no usual stall of the host is a loss.
fn bucket(world: &World, rate: u32, queue: u32) -> String {
    let bucket = format!("bucket = {{ rate = {rate}, depth = 1, queue = {} }}", queue - 1);
    world.scenario(&format!("{{ kind = \"spool\", engine = \"mem\", delay_ns = 1000, {bucket} }}"), TRAFFIC, &["mem"])
}

fn findings(run: &Run) -> &Findings {
    &run.header.rfc2544.as_ref().unwrap().findings
}

fn sizes(run: &Run) -> &[SizeFindings] {
    &findings(run).clients[0].sizes
}

/// Whether the host kept threads away for so long that the limits may be its own.
fn is_held_up(run: &Run) -> bool {
    let cores = || run.trials.iter().flat_map(|trial| &trial.measured.stalls);
    let (away, observed) = (cores().map(|core| core.total_ns), cores().map(|core| core.observed_ns));
    away.sum::<u64>() as f64 > HELD_UP * observed.sum::<u64>() as f64
}

/// How late a frame of the throughput's trials left at most, in seconds: a trial of a second lasted longer by that.
fn late_s(run: &Run) -> f64 {
    let searches = |trial: &&TrialRecord| trial.trial.purpose.is_some_and(|p| p.benchmark == Benchmark::Throughput);
    let late_ns = |trial: &TrialRecord| trial.measured.lateness.as_ref().map_or(0, |lateness| lateness.max_ns);
    run.trials.iter().filter(searches).map(late_ns).max().unwrap_or(0) as f64 / 1e9
}

/// Nothing is found that is more than there is: apart from what is buffered in a trial of a second, the limit and the buffer.
/// Nor less, but where the sender couldn't send more, or the host held sender and device up; and that is said.
fn assert_found(run: &Run, size: &SizeFindings, rate: f64, queue: f64) {
    let bursts = size.back_to_back.as_ref().unwrap();
    let held_up = is_held_up(run);
    assert!(!held_up || size.disturbed > 0, "{size:?}");
    let found = |value: f64, expected: f64, open: bool| {
        value <= (1.0 + NEAR) * expected && (open || held_up || value >= (1.0 - NEAR) * expected)
    };
    let throughput = size.throughput[0].fps.as_ref().unwrap().mean.value;
    let most = rate * (1.0 + late_s(run)) + queue + 1.0;
    assert!(throughput <= most && found(throughput.min(rate), rate, false), "{throughput} for {rate}, at most {most}");
    // A rate that the device forwards has no longest burst.
    let burst = if bursts.fps > rate { queue / (1.0 - rate / bursts.fps) } else { f64::INFINITY };
    assert!(found(bursts.frames.mean.value, burst, bursts.unlimited > 0), "{bursts:?} for a burst of {burst}");
    assert!(bursts.unlimited == 0 || bursts.stretched > 0 || held_up, "{bursts:?}");
    let Some(buffer) = bursts.buffer_frames else {
        return assert!(bursts.unlimited > 0 || throughput >= bursts.fps, "{bursts:?}");
    };
    // The throughput is that of trials in which the buffer counts, too.
    let (lower, upper) = (1.0 - throughput / bursts.fps, 1.0 - rate / bursts.fps);
    assert!(found(buffer * upper / lower, queue, false), "{bursts:?} for {queue}");
}

#[test]
fn the_throughput_and_the_buffer_of_a_token_bucket_are_found() {
    let Some(world) = World::new() else { return };
    for &(rate, queue, listed, width) in cases(&[(20_000, 2_000, "64", "0.04"), (10_000, 1_000, "64,128", "0.02")]) {
        let scenario = bucket(&world, rate, queue);
        let args = ["--quick", "--line-rate", LINE, "--sizes", listed, "--width", width, "--search", "verified"];
        world.succeeds(&[&["rfc2544", &scenario, "--benchmark", "throughput,back-to-back"], &args[..]].concat());
        let (run, folder) = world.newest_run();
        assert_eq!(sizes(&run).len(), listed.split(',').count());
        for size in sizes(&run) {
            let is_line = size.offered_fps.map(f64::floor) == Some(size.line_fps.floor());
            assert!(is_line || is_held_up(&run), "the line is offered: {:?}", size.offered_fps);
            assert_found(&run, size, rate.into(), queue.into());
        }
        let csv = fs::read_to_string(folder.join("rfc2544.csv")).unwrap();
        let columns = |line: &str| line.split(',').count();
        assert!(csv.lines().count() > 10 && csv.lines().all(|line| columns(line) == 17), "{csv}");
        let bursts = sizes(&run)[0].back_to_back.as_ref().unwrap();
        let line = format!("mem,64,back-to-back,,,{},false,burst,frames,", bursts.fps);
        assert!(csv.contains(&line), "{csv}");
    }
    world.assert_clean();
}

/// A bridge in a namespace between two others, whose outgoing interface has Linux's token bucket.
fn tbf(limit: &str) {
    for name in ["f-tx", "f-dut", "f-rx"] {
        output("ip", &["netns", "add", name]);
    }
    let ip = |args: &str| output("ip", &args.split(' ').collect::<Vec<_>>());
    ip("-n f-dut link add d0 type veth peer name t0 netns f-tx");
    ip("-n f-dut link add d1 type veth peer name r0 netns f-rx");
    ip("-n f-dut link add br0 type bridge");
    for name in ["d0", "d1"] {
        ip(&format!("-n f-dut link set {name} master br0 up"));
    }
    ip("-n f-dut link set br0 up");
    ip("-n f-tx link set t0 up");
    ip("-n f-rx link set r0 up");
    let qdisc = format!("netns exec f-dut tc qdisc add dev d1 root tbf {limit}");
    ip(&qdisc);
}

#[test]
fn the_throughput_and_the_buffer_of_linux_tbf_are_found() {
    let Some(world) = World::new() else { return };
    // 60 bytes each: 20,000 frames a second; 50 tokens and 2,000 places.
    tbf("rate 9600kbit burst 3000 limit 120000");
    let ports = ["--tx", "packet:t0@f-tx", "--rx", "packet:r0@f-rx"];
    let args = ["--quick", "--line-rate", LINE, "--sizes", "64", "--width", "0.04", "--search", "verified"];
    world.succeeds(&[&["rfc2544", "--benchmark", "throughput,back-to-back"], &ports[..], &args].concat());
    let (run, _) = world.newest_run();
    assert_found(&run, &sizes(&run)[0], 20_000.0, 2_050.0);
}

#[test]
fn the_whole_suite_is_measured_through_a_forwarder() {
    let Some(world) = World::new() else { return };
    let short = ["--trial", "0.4s", "--stream", "0.4s", "--overload", "0.5s", "--reset-within", "5s"];
    for &(loads, times, extents) in cases(&[(&[50, 100][..], 1, &short[..]), (&[10, 50, 90, 100], 2, &[])]) {
        whole_suite(&world, loads, times, extents);
    }
    world.assert_clean();
}

fn whole_suite(world: &World, loads: &[u32], times: usize, extents: &[&str]) {
    let scenario = world.scenario("{ kind = \"bridge\" }", TRAFFIC, &["xdp"]);
    // Slow enough for a busy host to offer the line.
    let reset = "ip -n usect-dut link set d1 down; sleep 1; ip -n usect-dut link set d1 up";
    let listed = loads.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let args = ["--quick", "--line-rate", "10 Mbit/s", "--sizes", "64,1518", "--loopback", "--yes"];
    let often = ["--loads", &listed, "--runs", &times.to_string()];
    world.succeeds(
        &[&["rfc2544", &scenario, "--reset", reset, "--search", "verified"], &args[..], &often, extents].concat(),
    );
    let (run, folder) = world.newest_run();
    let all: Vec<Benchmark> = run.header.rfc2544.as_ref().unwrap().suite.benchmarks.clone();
    assert_eq!(all, Benchmark::ALL);
    let [small, large] = sizes(&run) else { panic!("{:?}", findings(&run)) };
    let mut tagged = 0;
    for size in [small, large] {
        assert_eq!(size.verdict, None);
        assert!(size.throughput[0].fps.is_some() && size.loss.len() >= 2, "{size:?}");
        let measured: Vec<(u32, bool)> = size.latency.iter().map(|found| (found.percent, found.loopback)).collect();
        let asked = |loopback: bool| loads.iter().map(|load| (*load, loopback)).collect::<Vec<_>>();
        assert_eq!(measured, [asked(false), asked(true)].concat());
        for found in &size.latency {
            assert!(found.stamped > 0 && found.stamped + found.lost + found.own_lost == found.sent, "{found:?}");
            tagged += found.tagged_ns.as_ref().map_or(0, |tagged| tagged.values.len());
        }
        assert!(size.back_to_back.is_some() && size.recovery.is_some());
    }
    // Two sizes, two kinds of path, every load, every stream. A host that is away loses some, and that is told.
    let told = |deviation: &Deviation| {
        ["tagged frame was lost", "missing streams"].iter().any(|part| deviation.what.contains(part))
    };
    assert_eq!(
        tagged < 2 * 2 * loads.len() * times,
        findings(&run).deviations.iter().any(told),
        "{tagged} tagged: {:?}",
        findings(&run)
    );
    let reset = small.reset.as_ref().unwrap();
    assert!(reset.seconds.as_ref().unwrap().values.iter().all(|seconds| *seconds >= 1.0), "{reset:?}");
    assert!(large.reset.is_none(), "for the smallest frames only");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    for part in ["Throughput", "Frame loss rate", "System recovery", "Deviations", "throughput-plot"] {
        assert!(page.contains(part), "the page lacks {part}");
    }
    let shown = world.succeeds(&["report", folder.to_str().unwrap()]).stdout;
    assert!(shown.contains("Back-to-back frames (RFC 2544 §26.4, RFC 9004)") && shown.contains("not as the RFC says"));
}

/// Ends a suite when it has some trials, and returns its folder.
fn interrupted(world: &World, signal: Signal) -> std::path::PathBuf {
    let scenario = bucket(world, 20_000, 500);
    let args = ["--quick", "--line-rate", LINE, "--sizes", "64", "--benchmark", "throughput,latency,loss"];
    let args = [&args[..], &["--trial", "0.2s", "--stream", "0.4s", "--runs", "1"]].concat();
    let others = world.runs().len();
    let mut run = world.start(&[&["rfc2544", &scenario], &args[..]].concat());
    let trials = |folder: &Path| fs::read(folder.join("run.json")).map_or(0, |_| read_run(folder).trials.len());
    let folder = || world.runs().get(others).map(|name| world.path("runs").join(name));
    run.until("five trials", || folder().is_some_and(|folder| trials(&folder) >= 5));
    run.signal(signal);
    run.end();
    folder().unwrap()
}

#[test]
fn an_interrupted_suite_goes_on_where_it_was() {
    let Some(world) = World::new() else { return };
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let folder = interrupted(&world, signal);
        let before = read_run(&folder);
        assert!(before.header.partial.is_some());
        let whole = before.trials.iter().filter(|trial| trial.partial.as_deref() != Some("interrupted")).count();
        let resumed = world.succeeds(&["rfc2544", "--resume", folder.to_str().unwrap()]);
        assert!(resumed.stdout.contains("RESUMED: it was gone on with"), "{}", resumed.stdout);
        let after = read_run(&folder);
        assert_eq!((after.header.partial.as_ref(), after.header.resumed.len()), (None, 1));
        assert!(after.trials.len() > whole, "{} trials", after.trials.len());
        assert_eq!(after.trials[..whole], before.trials[..whole], "what was measured is measured");
        assert_eq!(sizes(&after)[0].latency.len(), 4);
        assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("RESUMED"));
        let again = world.refuses(&["rfc2544", "--resume", folder.to_str().unwrap()]);
        assert!(again.contains("was not interrupted"), "{again}");
    }
}

#[test]
fn a_device_that_passes_nothing_and_a_link_that_goes_down_end_it() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "s", "--dut"]);
    let ports = ["--tx", "xdp:t0@s-tx", "--rx", "xdp:r0@s-rx"];
    let nothing = world.usect(&[&["rfc2544", "--quick", "--sizes", "64,512"], &ports[..]].concat());
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    assert!(nothing.stderr.contains("passes no frames of 64 bytes: none of "), "{nothing:?}");
    let checks = |trial: &TrialRecord| trial.trial.purpose.is_some_and(|p| p.benchmark == Benchmark::Check);
    assert!(world.newest_run().0.trials.iter().all(checks), "no search for what isn't there");
    world.succeeds(&["lab", "down", "s"]);

    world.succeeds(&["lab", "up", "s"]);
    let args = ["--quick", "--sizes", "64", "--line-rate", "1 Mbit/s", "--trial", "60s", "--benchmark", "throughput"];
    let mut run = world.start(&[&["rfc2544"], &args[..], &ports].concat());
    let frames = || {
        let link = crate::world::links(&["-n", "s-rx", "-s", "-j", "link", "show", "dev", "r0"]);
        link[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    };
    // Its check and its offer are behind it.
    run.until("traffic arrives", || frames() > 2_500);
    output("ip", &["-n", "s-rx", "link", "set", "r0", "down"]);
    assert_eq!(run.end().code(), Some(2), "{}", run.printed());
    assert!(run.printed().contains("down"), "{}", run.printed());
    assert!(run.printed().contains("--resume"), "{}", run.printed());
    output("ip", &["-n", "s-rx", "link", "set", "r0", "up"]);
    until("the link is up", || {
        output("ip", &["-n", "s-tx", "link", "show", "dev", "t0"]).contains("LOWER_UP").then_some(())
    });
    world.succeeds(&["lab", "down", "s"]);
    world.assert_clean();
}

#[test]
fn suites_that_can_not_be() {
    let Some(world) = World::new() else { return };
    let scenario = bucket(&world, 20_000, 500);
    let wire = world.file(
        "wire.toml",
        "title = \"t\"\ntraffic = { frame_size = 64, rate = 1 }\ndut = { kind = \"wire\" }\n[[client]]\nname = \"xdp\"\nengine = \"xdp\"\n",
    );
    let poisson = world.file(
        "poisson.toml",
        "title = \"t\"\ntraffic = { frame_size = 64, rate = 1, pattern = { kind = \"poisson\" } }\ndut = { kind = \"wire\" }\n[[client]]\nname = \"xdp\"\nengine = \"xdp\"\n",
    );
    for (args, parts) in [
        (&[&wire, "--sizes", "9018"][..], &["XDP carries frames up to 3524 bytes"][..]),
        (&[&scenario, "--sizes", "63"], &["64 to 9018"]),
        (&[&scenario, "--benchmark", "speed"], &["throughput, latency, loss"]),
        (&[&scenario, "--benchmark", "reset"], &["--reset COMMAND"]),
        (&[&scenario, "--reset", "true"], &["add --yes"]),
        (&[&scenario, "--line-rate", "20k"], &["bits per second"]),
        (&[&scenario, "--width", "0.9"], &["width"]),
        (&[&scenario, "--loss-ratio", "0,0.01", "--search", "binary"], &["--search mlr"]),
        (&[&scenario, "--loads", "120"], &["1 to 100 percent"]),
        (&[&scenario, "--trial", "0s"], &["0.01 to"]),
        (&[&scenario, "--loopback-tx", "mem:a", "--loopback-rx", "mem:a"], &["its own loopback"]),
        (&["--tx", "mem:a", "--rx", "mem:a", "--loopback"], &["--loopback-tx PORT"]),
        (&[&poisson], &["leave pattern and vary out"]),
        (&["--resume", "/nowhere"], &["/nowhere"]),
    ] {
        let sentence = world.refuses(&[&["rfc2544"], args].concat());
        for part in parts {
            assert!(sentence.contains(part), "{args:?}: {sentence:?} lacks {part:?}");
        }
    }
    world.assert_clean();
}
