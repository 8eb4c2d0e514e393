//! A path measured all the time: its alarms, its log, its metrics.

use crate::prometheus::Prometheus;
use crate::world::{Started, World, mount_tmpfs, output, until};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use std::fs;
use std::net::SocketAddr;
use usect_core::monitor::{Alarm, Convoy, Entry, Interval};
use usect_report::monitor::log;

const TRAFFIC: &str = "{ frame_size = 64, rate = 1 }";
/// Steps in which a hundred frames a second still make a median: what is usual is known after four seconds.
const QUICK: [&str; 4] = ["--interval", "1s", "--step", "200ms"];

/// A delay that no scheduling of a busy host makes look shorter.
fn delay(us: u64, more: &str) -> String {
    format!("{{ kind = \"spool\", engine = \"mem\", delay_ns = {us}000 {more} }}")
}

fn scenario(world: &World, us: u64, more: &str) -> String {
    world.scenario(&delay(us, more), TRAFFIC, &["mem"])
}

fn entries(world: &World) -> Vec<Entry> {
    if log::is_log(&world.path("monitor")) { log::read(&world.path("monitor")).unwrap() } else { Vec::new() }
}

fn intervals(world: &World) -> Vec<Interval> {
    let interval = |entry| if let Entry::Interval(interval) = entry { Some(*interval) } else { None };
    entries(world).into_iter().filter_map(interval).collect()
}

fn convoys(world: &World) -> Vec<Convoy> {
    let convoy = |entry| if let Entry::Convoy(convoy) = entry { Some(*convoy) } else { None };
    entries(world).into_iter().filter_map(convoy).collect()
}

/// Medians of seconds, each with its time.
fn steps(intervals: &[Interval]) -> Vec<(Timestamp, f64)> {
    let of = |interval: &Interval| {
        let (at, step_ms) = (interval.at.as_millisecond(), interval.step_s * 1e3);
        let time = move |index: usize| Timestamp::from_millisecond(at + (index as f64 * step_ms) as i64).unwrap();
        let medians = interval.medians.clone().into_iter().enumerate();
        medians.filter_map(move |(index, median)| Some((time(index), median? as f64)))
    };
    intervals.iter().flat_map(of).collect()
}

fn alarms(world: &World) -> Vec<Alarm> {
    entries(world)
        .into_iter()
        .filter_map(|entry| if let Entry::Alarm(alarm) = entry { Some(alarm) } else { None })
        .collect()
}

/// Those that tell a longer or shorter way. Beside them, frames that all leave before any arrives are a silence of some steps.
fn shifts(world: &World) -> Vec<Alarm> {
    alarms(world).into_iter().filter(|alarm| matches!(alarm, Alarm::Shift { .. })).collect()
}

fn ends_well(run: &mut Started) {
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end().code(), Some(0), "{}", run.printed());
}

#[test]
fn a_longer_way_is_told_with_its_time_and_size() {
    let Some(world) = World::new() else { return };
    // Longer than a host that others use keeps threads away: a stall in most frames of a second looks like a longer way.
    let detour = ", impair = { detour = { after_s = 8.0, by_ns = 1000000000 } }";
    let mut run = world.start(&[&["monitor", &scenario(&world, 100, detour), "--writes", "10"], &QUICK[..]].concat());
    run.until("an alarm", || !shifts(&world).is_empty());
    ends_well(&mut run);
    let (alarms, intervals) = (shifts(&world), intervals(&world));
    let [Alarm::Shift { at, seen_at, from_ns, to_ns, .. }] = alarms[..] else { panic!("{alarms:?}") };
    // The spool's own delay is 100 µs, and 1 s more from its eighth second on: what is added to it is added to both.
    assert!(from_ns >= 100_000.0 && (to_ns - from_ns - 1e9).abs() < 250e6, "{alarms:?}");
    assert!(at <= seen_at && seen_at.duration_since(at).as_secs() < 30, "{alarms:?}");
    let middle = (from_ns + to_ns) / 2.0;
    let (before, since) = steps(&intervals).into_iter().partition::<Vec<_>, _>(|(when, _)| *when < at);
    let high = |steps: &[(Timestamp, f64)]| steps.iter().filter(|(_, ns)| *ns > middle).count();
    assert!(4 * high(&before) < before.len() && 4 * high(&since) > 3 * since.len(), "{at}: {before:?} {since:?}");
    assert!(run.printed().contains("ALARM: latency has shifted by +"), "{}", run.printed());
    assert!(run.printed().contains("; writes are now bound by "), "{}", run.printed());
    for interval in &intervals {
        assert!(interval.counts.sent > 0 && interval.counts.lost == 0, "{:?}", interval.counts);
        assert_eq!(interval.histogram.histogram().samples(), interval.counts.received);
    }
    world.assert_clean();
}

#[test]
fn a_log_goes_on_after_a_restart_with_what_was_usual_before_it() {
    let Some(world) = World::new() else { return };
    let mut run = world.start(&[&["monitor", &scenario(&world, 100, "")], &QUICK[..]].concat());
    run.until("what is usual is known", || intervals(&world).last().is_some_and(|last| last.level_ns.is_some()));
    // As a loss of power in the middle of a line leaves it.
    run.signal(Signal::SIGKILL);
    run.end();
    let before = intervals(&world).len();
    let file = world.path("monitor").join(last_file(&world));
    let torn = [fs::read(&file).unwrap(), b"{\"kind\":\"interval\",\"at\":\"20".to_vec()].concat();
    fs::write(&file, torn).unwrap();
    let mut run = world.start(&[&["monitor", &scenario(&world, 800_100, "")], &QUICK[..]].concat());
    run.until("an alarm", || !shifts(&world).is_empty());
    run.until("an interval", || intervals(&world).len() > before);
    ends_well(&mut run);
    assert!(run.printed().contains("was cut short: its 27 bytes are left out"), "{}", run.printed());
    let alarms = shifts(&world);
    assert!(matches!(alarms[..], [Alarm::Shift { from_ns, to_ns, .. }] if to_ns - from_ns > 600e6), "{alarms:?}");
    let done = world.succeeds(&["report", "monitor"]);
    assert!(done.stdout.contains("report: monitor/report.html"), "{}", done.stdout);
    let page = || fs::read_to_string(world.path("monitor/report.html")).unwrap();
    assert!(page().contains("latency has shifted by +") && page().contains("its level shifted once"));

    // Another instrument has another level, and another page.
    let before = intervals(&world).len();
    world.succeeds(&[&["monitor", &scenario(&world, 300, ""), "--for", "3s", "--size", "512"], &QUICK[..]].concat());
    assert_eq!(shifts(&world).len(), 1);
    let kinds = entries(&world);
    assert_eq!(kinds.iter().filter(|entry| matches!(entry, Entry::Start(_))).count(), 3);
    assert_eq!(kinds.iter().filter(|entry| matches!(entry, Entry::Stop { .. })).count(), 2);
    world.succeeds(&["report", "monitor"]);
    assert!(page().contains(&format!("{before} intervals of another path, client or frames are left out")));
    let json = world.succeeds(&["report", "monitor", "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Vec<Entry>>(&json).unwrap(), kinds);
    world.assert_clean();
}

fn last_file(world: &World) -> String {
    let files = crate::world::names(&world.path("monitor"));
    files.into_iter().rfind(|name| name.ends_with(".jsonl")).expect("there is a log")
}

#[test]
fn a_full_disk_loses_nothing_that_there_is_room_for_in_time() {
    let Some(world) = World::new() else { return };
    let folder = world.path("monitor");
    fs::create_dir(&folder).unwrap();
    mount_tmpfs(&folder, "256k");
    let fill = || {
        let mut block = 64 << 10;
        let mut name = 0;
        while block >= 1 << 12 {
            match fs::write(folder.join(format!("filler-{name}")), vec![1; block]) {
                Ok(()) => name += 1,
                Err(_) => block /= 2,
            }
        }
    };
    let free = || {
        let fillers = crate::world::names(&folder).into_iter().filter(|name| name.starts_with("filler-"));
        fillers.for_each(|name| fs::remove_file(folder.join(name)).unwrap());
    };
    let start = || world.start(&[&["monitor", &scenario(&world, 100, ""), "--json"], &QUICK[..]].concat());
    let mut run = start();
    run.until("an interval is logged", || !intervals(&world).is_empty());
    fill();
    run.until("the log can't be written", || run_says(&world, "No space left on device"));
    let printed = || run_prints(&world);
    let then = printed();
    run.until("two more intervals", || printed() >= then + 2);
    let logged = intervals(&world).len();
    free();
    run.until("the log is written again", || run_says(&world, "the log is written again; 0 entries were lost"));
    assert!(intervals(&world).len() > logged);
    ends_well(&mut run);
    assert_eq!(intervals(&world).len(), printed());

    // And where it stays full, that is said at the end.
    let mut run = start();
    run.until("it has begun", || printed() > 0);
    fill();
    run.until("the log can't be written", || run_says(&world, "No space left on device"));
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end().code(), Some(2), "{}", run.printed());
    assert!(run_says(&world, "are missing in the log in monitor: there was no room"), "{}", run.printed());
    log::read(&folder).unwrap();
    world.assert_clean();
}

/// Whether the running binary has said something.
fn run_says(world: &World, what: &str) -> bool {
    fs::read_to_string(world.path("background.txt")).unwrap().contains(what)
}

/// Intervals that the running binary has printed.
fn run_prints(world: &World) -> usize {
    fs::read_to_string(world.path("background.txt")).unwrap().matches("{\"kind\":\"interval\"").count()
}

/// The median that Prometheus works out of each kind of histogram, and the counters, are those of the log.
fn is_scraped(native: bool, query: &str, tolerance: std::ops::RangeInclusive<f64>) {
    let Some(world) = World::new() else { return };
    output("ip", &["link", "set", "lo", "up"]);
    let args = ["--listen", "127.0.0.1:0", "--writes", "10"];
    let mut run = world.start(&[&["monitor", &scenario(&world, 100, "")], &QUICK[..], &args].concat());
    run.until("metrics are served", || run_says(&world, "/metrics"));
    let printed = run.printed();
    let address = printed.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let Some(prometheus) = Prometheus::scraping(address.parse::<SocketAddr>().unwrap(), native) else { return };
    let sent =
        until("Prometheus has counters", || prometheus.ask("usect_frames_sent_total").filter(|&sent| sent > 0.0));
    assert!(sent >= 100.0 && prometheus.answer("usect_frames_total{class=\"received\"}") >= 100.0, "{sent}");
    let median = until("Prometheus has a median", || prometheus.ask(query).filter(|median| median.is_finite()));
    assert_eq!(prometheus.answer("usect_up"), 1.0);
    let level = until("what is usual is known", || prometheus.ask("usect_level_seconds"));
    // N/RTT of what is usual, twice one way.
    let half = prometheus.answer("usect_write_operations_bound * usect_level_seconds");
    assert!((half - 5.0).abs() < 1e-6, "{half}");
    // On a busy host no interval is like the next: it is one of those that the log has.
    let truths: Vec<f64> = intervals(&world).iter().filter_map(|interval| Some(interval.median_ns()? / 1e9)).collect();
    let [least, most] = [f64::min, f64::max].map(|pick| truths.iter().copied().reduce(pick).unwrap());
    let within = tolerance.start() * least..=tolerance.end() * most;
    assert!(within.contains(&median), "{query}: {median}, and the log has {truths:?}");
    ends_well(&mut run);
    let seconds: Vec<f64> = steps(&intervals(&world)).into_iter().map(|(_, ns)| ns / 1e9).collect();
    let one = 1e-9;
    let surrounded = seconds.iter().any(|s| *s <= level + one) && seconds.iter().any(|s| *s >= level - one);
    assert!(surrounded, "{level} is no median of {seconds:?}");
    world.assert_clean();
}

#[test]
fn prometheus_reads_classic_histograms() {
    // Steps of 1, 2 and 5: the median is known to a bucket.
    is_scraped(false, "histogram_quantile(0.5, usect_latency_seconds_bucket)", 0.5..=2.0);
}

#[test]
fn prometheus_reads_native_histograms() {
    is_scraped(true, "histogram_quantile(0.5, usect_latency_seconds)", 0.9..=1.1);
}

#[test]
fn convoys_leave_when_the_calendar_says_so() {
    let Some(world) = World::new() else { return };
    let dut = "{ kind = \"spool\", engine = \"mem\", fiber = { length_m = 2.0, line_rate = \"500 Mbit/s\" } }";
    let scenario = world.scenario(dut, TRAFFIC, &["mem"]);
    let when = ["--convoys", "*/3 * * * * *", "--convoy-size", "1522", "--length", "20", "--trains", "10"];
    let mut run = world.start(&[&["monitor", &scenario, "--interval", "2s"], &when[..]].concat());
    run.until("three convoys", || convoys(&world).len() >= 3);
    run.until("latency before, between and after", || intervals(&world).len() >= 4);
    ends_well(&mut run);
    for convoy in convoys(&world) {
        assert_eq!((convoy.counts.sent, convoy.counts.received, convoy.trains.trains), (200, 200, 10));
        let [capacity, ..] = convoy.trains.bits(convoy.frame_size).unwrap();
        assert!((4.0e8..5.1e8).contains(&capacity.value), "{capacity:?}");
    }
    let times: Vec<_> = convoys(&world).iter().map(|convoy| convoy.at).collect();
    assert!(times.windows(2).all(|pair| pair[1].duration_since(pair[0]).as_secs_f64() > 1.5), "{times:?}");
    world.assert_clean();
}

#[test]
fn a_link_that_goes_down_is_told_and_measured_again_when_it_is_up() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up"]);
    let ports = ["--tx", "packet:t0@lab-tx", "--rx", "packet:r0@lab-rx"];
    let mut run = world.start(&[&["monitor"], &ports[..], &QUICK].concat());
    run.until("an interval", || !intervals(&world).is_empty());
    output("ip", &["-n", "lab-rx", "link", "set", "r0", "down"]);
    let troubled = || {
        entries(&world).iter().any(|entry| matches!(entry, Entry::Failure { .. } | Entry::Alarm(Alarm::Silent { .. })))
    };
    run.until("somebody is told", troubled);
    output("ip", &["-n", "lab-rx", "link", "set", "r0", "up"]);
    let before = intervals(&world).len();
    let again = || intervals(&world)[before..].iter().any(|interval| interval.counts.received > 50);
    run.until("it is measured again", again);
    ends_well(&mut run);
    world.succeeds(&["lab", "down"]);
    world.assert_clean();
}

/// Monitors between two ports of a lab until there are four intervals, and returns them.
fn between_ports(world: &World, flags: &[&str]) -> Vec<Interval> {
    world.succeeds(&["lab", "up"]);
    let mut run = world.start(&[&["monitor"], &QUICK[..], flags].concat());
    run.until("four intervals", || intervals(world).len() >= 4);
    ends_well(&mut run);
    world.succeeds(&["lab", "down"]);
    let troubles =
        entries(world).into_iter().filter(|entry| matches!(entry, Entry::Failure { .. })).collect::<Vec<_>>();
    assert!(troubles.is_empty(), "{troubles:?}");
    intervals(world)
}

#[test]
fn stamps_of_the_kernel_are_those_of_their_frames_in_every_interval() {
    let Some(world) = World::new() else { return };
    let ports = ["--tx", "udp:198.18.0.1:9000@lab-tx", "--rx", "udp:198.18.0.2:9001@lab-rx"];
    for interval in between_ports(&world, &[&ports[..], &["--stamp", "socket"]].concat()) {
        assert_eq!((interval.counts.lost, interval.counts.stamped), (0, interval.counts.sent));
    }
    world.assert_clean();
}

#[test]
fn a_round_trip_that_blocks_is_monitored_and_told_when_it_is_high() {
    let Some(world) = World::new() else { return };
    let ports = ["--tx", "udp:198.18.0.1:9000@lab-tx", "--rx", "udp:198.18.0.2:9001@lab-rx", "--round-trip"];
    let intervals = between_ports(&world, &[&ports[..], &["--wait", "block", "--above", "1ns"]].concat());
    assert!(intervals.iter().all(|interval| interval.counts.lost == 0 && interval.stalls.is_empty()));
    let alarms = alarms(&world);
    assert!(matches!(alarms[0], Alarm::High { threshold_ns: 1, .. }), "{alarms:?}");
    world.assert_clean();
}

#[test]
fn what_can_not_be_monitored_is_refused() {
    let Some(world) = World::new() else { return };
    let written = |name: &str, more: &str, clients: &[&str]| {
        let client = |engine: &&str| format!("[[client]]\nname = \"{engine}\"\nengine = \"{engine}\"\n");
        let clients: String = clients.iter().map(client).collect();
        world.file(name, &format!("title = \"t\"\ntraffic = {TRAFFIC}\n{more}\n{clients}"))
    };
    let spool = format!("dut = {}", delay(5, ""));
    let mem = written("mem.toml", &spool, &["mem"]);
    let two = written("two.toml", "dut = { kind = \"wire\" }", &["packet", "kernel"]);
    let varied = written("varied.toml", &format!("{spool}\nvary = {{ frame_size = [64, 128] }}"), &["mem"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap().to_string();
    world.file("occupied", "a file");
    for (args, part) in [
        (vec![two.as_str()], "choose it with --client (packet, kernel)"),
        (vec![&two, "--client", "kernel"], "kernel engine sends in bursts"),
        (vec![&varied], "use one without [vary]"),
        (vec![&mem, "--rate", "5"], "--rate 5 is too low"),
        (vec![&mem, "--interval", "1h"], "2s to 10min"),
        (vec![&mem, "--step", "1ms"], "--step runs from 100ms to 10s"),
        (vec![&mem, "--interval", "2s", "--step", "2s"], "2 to 600 times --step"),
        (vec![&mem, "--interval", "2s", "--step", "100ms", "--rate", "99"], "use 100 frames a second"),
        (vec![&mem, "--convoys", "often"], "`often` is no cron expression"),
        (vec![&mem, "--convoys", "0 0 31 2 *"], "names no time that ever comes"),
        (vec![&mem, "--length", "5"], "say when these leave with --convoys"),
        (vec![&mem, "--convoys", "* * * * *", "--trains", "0"], "--trains runs from 1"),
        (vec![&mem, "--writes", "0"], "--writes"),
        (vec![&mem, "--for", "1s"], "--for is 2s or more"),
        (vec![&mem, "--above", "0ns"], "--above is above 0"),
        (vec![&mem, "--log", "occupied"], "occupied"),
        (vec![&mem, "--listen", &busy], "Address already in use"),
        (vec![&mem, "--calibration", "none.json"], "none.json"),
        (vec!["--tx", "mem:a"], "--rx"),
    ] {
        let sentence = world.refuses(&[&["monitor"], &args[..]].concat());
        assert!(sentence.contains(part), "{args:?}: {sentence}");
    }
    world.assert_clean();
}

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

#[test]
fn the_systemd_unit_is_valid_and_its_command_monitors() {
    let Some(world) = World::new() else { return };
    let unit = fs::read_to_string(format!("{PACKAGING}/usect-monitor@.service")).unwrap();
    let here = unit.replace("/usr/local/bin/usect", env!("CARGO_BIN_EXE_usect"));
    world.file("usect-monitor@.service", &here);
    let instance = world.file("usect-monitor@san.service", &here);
    let verified = std::process::Command::new("systemd-analyze").args(["verify", "--man=no", &instance]).output();
    match verified {
        // What it doesn't understand is a warning, and its exit code is 0 all the same.
        Ok(verified) => assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}"),
        Err(_) => usect_testing::skip("there is no systemd-analyze"),
    }
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/usect ")).unwrap();
    let flags = format!("{} --interval 2s --for 3s", scenario(&world, 5, ""));
    let command = command.replace("/var/lib/usect/%i", "monitor").replace("$MONITOR", &flags);
    world.succeeds(&command.split(' ').collect::<Vec<_>>());
    assert!(intervals(&world).iter().map(|interval| interval.counts.received).sum::<u64>() >= 200);

    // The flags of the example are flags; only their interfaces aren't there.
    let example = fs::read_to_string(format!("{PACKAGING}/san.conf")).unwrap();
    let flags = example.lines().find_map(|line| line.strip_prefix("MONITOR=")).unwrap();
    let sentence = world.refuses(&[&["monitor"], &flags.split(' ').collect::<Vec<_>>()[..]].concat());
    assert!(sentence.contains("eth1"), "{sentence}");
    world.assert_clean();
}
