//! Trains, convoys, patterns of departures and calibrations.

use crate::compare::assert_adds_up;
use crate::world::World;
use std::fs;
use usect_core::run::{Run, TrialRecord};

/// A line so slow that no host is late on it: a frame of 64 bytes takes 67 us.
fn fiber(engine: &str, more: &str) -> String {
    format!(
        "{{ kind = \"spool\", engine = \"{engine}\", fiber = {{ length_m = 2000.0, line_rate = \"10 Mbit/s\" }}{more} }}"
    )
}

const TRAFFIC: &str = "{ frame_size = 64, rate = 1000 }";

fn newest(world: &World, args: &[&str]) -> Run {
    world.succeeds(args);
    world.newest_run().0
}

fn said(trial: &TrialRecord, what: &str) -> u64 {
    trial.dut.iter().find(|(name, _)| name == what).map(|(_, number)| *number).unwrap()
}

#[test]
fn a_convoy_has_a_latency_per_head_and_a_capacity() {
    let Some(world) = World::new() else { return };
    for (engine, client) in [("mem", "mem"), ("xdp", "xdp")] {
        let scenario = world.scenario(&fiber(engine, ""), TRAFFIC, &[client]);
        let run = newest(&world, &["convoy", &scenario, "--length", "20", "--trains", "12", "--runs", "1"]);
        let client = &run.clients[0];
        let (measured, trains) = (&client.measured, client.measured.trains.as_ref().unwrap());
        assert_adds_up(&measured.counts, engine);
        assert_eq!((measured.counts.sent, measured.counts.received, measured.counts.stamped), (240, 240, 12));
        assert_eq!((trains.trains, trains.whole, trains.loss.unwrap().value), (12, 12, 0.0));
        assert_eq!((measured.latency.samples, client.truth.as_ref().unwrap().latency.samples), (12, 12));
        // Equation 2: 9,636 ns of glass and 57.6 us of frame; three significant digits.
        assert_eq!(client.known_delay_ns, Some(67_236));
        assert!(trains.seen.iter().all(|train| train.head_ns.unwrap() >= 67_236 * 999 / 1000), "{trains:?}");
        // A receiver that was stalled finds a whole train at once, so what its span is, isn't said.
        assert!(trains.seen.iter().all(|train| train.received == 20 && train.arrived_ns.is_some()), "{trains:?}");
    }
    world.assert_clean();
}

#[test]
fn trains_of_every_engine_are_counted_with_what_a_spool_did_to_them() {
    let Some(world) = World::new() else { return };
    let impair = ", impair = { loss = 0.05, duplicate = 0.03, seed = 3 }";
    for (engine, client) in [("mem", "mem"), ("packet", "packet"), ("xdp", "udp-polling")] {
        let scenario = world.scenario(&fiber(engine, impair), TRAFFIC, &[client]);
        let run = newest(&world, &["train", &scenario, "--length", "10", "--trains", "30", "--runs", "1"]);
        let trial = &run.trials[0];
        let (counts, trains) = (&trial.measured.counts, trial.measured.trains.as_ref().unwrap());
        assert_adds_up(counts, client);
        let arrived = counts.received + counts.duplicates + counts.warmup_arrivals;
        assert_eq!(counts.sent + counts.warmup_sent, 400, "{client}");
        assert_eq!(arrived, 400 - said(trial, "lost") + said(trial, "duplicated"), "{client}: {counts:?}");
        assert!(said(trial, "lost") > 0 && said(trial, "duplicated") > 0, "{client}");
        let (received, stamped): (u32, u64) = (trains.seen.iter().map(|t| t.received).sum(), counts.stamped);
        assert_eq!((u64::from(received), stamped), (counts.received, counts.received), "{client}");
        let whole = trains.seen.iter().filter(|t| t.received == 10).count() as u64;
        assert_eq!((trains.trains, trains.whole), (30, whole), "{client}");
        assert!(trains.loss.unwrap().high > trains.loss.unwrap().value, "{client}");
    }
    world.assert_clean();
}

/// A pcap file of an Ethernet link, with packets at these microseconds.
fn pcap(link: u32, times_us: &[u32]) -> Vec<u8> {
    let head = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, link];
    let packets = times_us.iter().flat_map(|time| [7, *time, 4, 4, 0]);
    head.into_iter().chain(packets).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn frames_leave_in_every_pattern() {
    let Some(world) = World::new() else { return };
    fs::write(world.path("good.pcap"), pcap(1, &[0, 100, 300, 350, 500])).unwrap();
    let measure = ["measure", "--tx", "mem:a", "--rx", "mem:a", "--warmup", "0", "--duration", "0.1", "--runs", "1"];
    for (pattern, rate, frames) in [
        ("kind = \"poisson\", seed = 7", Some("5k"), 500),
        ("kind = \"trains\", length = 64", Some("6400"), 640),
        ("kind = \"trains\", length = 4, spacing_ns = 20000, lead_ns = 50000", Some("4k"), 400),
        // Five packets in 500 us, and a mean gap of 125 us until they come round again.
        ("kind = \"replay\", file = \"good.pcap\"", None, 800),
        ("kind = \"replay\", file = \"good.pcap\", speed = 0.5", None, 400),
    ] {
        let rate = rate.map_or(vec![], |rate| vec!["--rate", rate]);
        let run = newest(&world, &[&measure[..], &["--pattern", pattern], &rate].concat());
        let counts = &run.trials[0].measured.counts;
        assert_adds_up(counts, pattern);
        assert_eq!((counts.sent, counts.received), (frames, frames), "{pattern}");
    }
    world.assert_clean();
}

#[test]
fn what_can_not_leave_is_refused() {
    let Some(world) = World::new() else { return };
    fs::write(world.path("cut.pcap"), &pcap(1, &[0, 100, 300])[..70]).unwrap();
    fs::write(world.path("fast.pcap"), pcap(1, &[0, 100])).unwrap();
    fs::write(world.path("wlan.pcap"), pcap(105, &[0, 100])).unwrap();
    let measure = ["measure", "--tx", "mem:a", "--rx", "mem:a", "--quick", "--pattern"];
    for (pattern, rate, parts) in [
        ("kind = \"replay\", file = \"cut.pcap\"", None, ["cut.pcap", "truncated"]),
        ("kind = \"replay\", file = \"wlan.pcap\"", None, ["link of type 105", "only Ethernet"]),
        ("kind = \"replay\", file = \"none.pcap\"", None, ["none.pcap", "can't be read"]),
        ("kind = \"trains\", length = 70000", Some("1k"), ["2 to 65536", "table of their stamps"]),
        ("kind = \"trains\", length = 100, spacing_ns = 20000", Some("100k"), ["takes 1980000 ns", "lower the rate"]),
        ("kind = \"replay\", file = \"fast.pcap\", speed = 1000000", None, ["million times", "smaller speed"]),
        ("kind = \"comet\"", None, ["comet", "not a pattern"]),
    ] {
        let rate = rate.map_or(vec![], |rate| vec!["--rate", rate]);
        let sentence = world.refuses(&[&measure[..], &[pattern], &rate].concat());
        assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    }
    let scenario = world.scenario(&fiber("mem", ""), TRAFFIC, &["mem"]);
    let sentence = world.refuses(&["convoy", &scenario, "--pause", "1ms"]);
    assert!(sentence.contains("wait behind it") && sentence.contains("longer --pause"), "{sentence}");
    for length in ["70000", "0", "1"] {
        let sentence = world.refuses(&["convoy", &scenario, "--length", length]);
        assert!(sentence.contains("2 to 65536"), "{sentence}");
    }
    let sentence = world.refuses(&["convoy", &scenario, "--length", "65536", "--trains", "70000"]);
    assert!(sentence.contains("use fewer or shorter trains"), "{sentence}");
    let sentence = world.refuses(&["convoy", &scenario, "--size", "64", "--size", "64"]);
    assert!(sentence.contains("is there twice"), "{sentence}");
    let many = ["measure", "--tx", "mem:a", "--rx", "mem:a", "--rate", "10M", "--duration", "80000", "--pattern"];
    let sentence = world.refuses(&[&many[..], &["kind = \"trains\", length = 2"]].concat());
    assert!(sentence.contains("more than a trial keeps"), "{sentence}");
    let kernel = world.scenario("{ kind = \"wire\" }", TRAFFIC, &["kernel"]);
    assert!(world.refuses(&["train", &kernel]).contains("sends evenly"));
    world.assert_clean();
}

#[test]
fn a_calibration_is_quoted_here_and_refused_elsewhere() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(&fiber("mem", ""), TRAFFIC, &["mem"]);
    let convoy = ["convoy", &scenario, "--length", "10", "--trains", "20", "--runs", "2"];
    let made = newest(&world, &[&["calibrate"], &convoy[..]].concat());
    assert_eq!(made.clients[0].calibrated, None);
    let file = world.path("calibration.json");
    let text = fs::read_to_string(&file).unwrap();
    // Another length than the one that it was made over.
    let other = fs::read_to_string(&scenario).unwrap().replace("2000.0", "500.0");
    fs::write(&scenario, other).unwrap();
    let client = &newest(&world, &convoy).clients[0];
    let (median, calibrated) = (client.median_ns.unwrap(), client.calibrated.as_ref().unwrap());
    let correction = calibrated.correction_ns;
    assert_eq!(calibrated.run, made.header.id);
    assert!((calibrated.median_ns.value - (median.value - correction.value)).abs() < 1e-6);
    assert!(calibrated.median_ns.low <= calibrated.median_ns.high && correction.low <= correction.high);
    let shown = world.succeeds(&["report", world.newest_run().1.to_str().unwrap()]);
    assert!(shown.stdout.contains("calibrated") && shown.stdout.contains("corrected"), "{}", shown.stdout);

    // One that is named must be of use.
    let longer = ["convoy", &scenario, "--length", "12", "--trains", "20", "--runs", "2"];
    let sentence = world.refuses(&[&longer[..], &["--calibration", "calibration.json"]].concat());
    assert!(sentence.contains("it has no calibration of mem"), "{sentence}");

    let release = &made.header.environment.get("kernel.release").unwrap();
    fs::write(&file, text.replace(*release, "2.6.32")).unwrap();
    let noted = newest(&world, &convoy);
    assert_eq!(noted.clients[0].calibrated, None);
    assert!(noted.header.notes[0].contains("kernel.release was 2.6.32"), "{:?}", noted.header.notes);
    let sentence = world.refuses(&[&convoy[..], &["--calibration", "calibration.json"]].concat());
    assert!(sentence.contains("calibration.json") && sentence.contains("calibrate anew"), "{sentence}");
    fs::write(&file, "{}").unwrap();
    assert!(world.refuses(&convoy).contains("is damaged: its schema"));
    fs::remove_file(&file).unwrap();
    let bridge = world.scenario("{ kind = \"bridge\" }", TRAFFIC, &["xdp"]);
    assert!(
        world.refuses(&["calibrate", "compare", &bridge, "--quick"]).contains("nothing tells what this path takes")
    );
    world.assert_clean();
}

#[test]
fn every_size_is_tried_at_every_gap() {
    let Some(world) = World::new() else { return };
    let sweep = ["sweep", "--tx", "mem:a", "--rx", "mem:a", "--runs", "1", "--frames", "50"];
    let run = newest(&world, &[&sweep[..], &["--sizes", "64..128:32", "--gaps", "100us..300us:100us"]].concat());
    assert_eq!((run.clients.len(), run.trials.len()), (9, 9));
    for client in &run.clients {
        assert_eq!((client.measured.counts.sent, client.measured.counts.received), (50, 50), "{}", client.client);
        assert!(client.dispersion.is_some(), "{}", client.client);
    }
    let shown = world.succeeds(&["report", world.newest_run().1.to_str().unwrap()]).stdout;
    for part in ["dispersion peaks at", "safe gaps", " 64 ", " 96 ", " 128 "] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    for (flags, part) in [
        (["--sizes", "128..64:2"], "goes nowhere"),
        (["--sizes", "64..128"], "lacks its step"),
        (["--sizes", "60..128:8"], "64 to 9018"),
        (["--gaps", "0us..5us:1us"], "gaps run from 1ns"),
        (["--gaps", "soon"], "not a time"),
        (["--gaps", "1ns..100s:1ns"], "take larger steps"),
    ] {
        let sentence = world.refuses(&[&sweep[..], &flags].concat());
        assert!(sentence.contains(part), "{sentence}");
    }
    world.assert_clean();
}

#[test]
fn how_many_samples_a_figure_needs_is_told() {
    let Some(world) = World::new() else { return };
    let measure = ["measure", "--tx", "mem:a", "--rx", "mem:a", "--rate", "20k", "--warmup", "0", "--runs", "1"];
    let converge = [&["converge", "--within", "1us"], &measure[..], &["--duration", "0.5"]].concat();
    let run = newest(&world, &converge);
    let convergence = &run.clients[0].convergence;
    assert!(!convergence.is_empty() && run.header.within_ns == Some(1_000));
    assert!(convergence.iter().all(|c| c.decay.len() > 2 && c.slope.low <= c.slope.high), "{convergence:?}");
    let shown = world.succeeds(&["report", world.newest_run().1.to_str().unwrap()]).stdout;
    assert!(shown.contains("samples needed") && shown.contains("for ±1.00 µs"), "{shown}");
    let long = [&["converge"], &measure[..], &["--duration", "80000"]].concat();
    assert!(world.refuses(&long).contains("too many to keep"));
    let kernel = ["converge", "measure", "--tx", "kernel:a", "--rx", "kernel:b", "--quick"];
    assert!(world.refuses(&kernel).contains("keeps no samples"));
    world.assert_clean();
}
