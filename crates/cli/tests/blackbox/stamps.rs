//! Stamps of others than the client, stages, templates, flows and directions.

use crate::compare::assert_adds_up;
use crate::world::{FEW, FEW_RATE, FEW_SECONDS, World};
use usect_core::run::{ClientRecord, Run};
use usect_core::stages::Point;

fn client(name: &str, keys: &str) -> String {
    let engine = name.split('-').next().unwrap();
    format!("[[client]]\nname = \"{name}\"\nengine = \"{engine}\"\n{keys}\n")
}

/// A short run through the forwarder in the kernel, between taps.
fn compare(world: &World, traffic: &str, clients: &[String]) -> Run {
    let dut = "{ kind = \"xdp-forwarder\" }";
    let text = format!("title = \"stamps\"\ntraffic = {traffic}\ndut = {dut}\n{}", clients.concat());
    world.compare(&world.file("stamps.toml", &text), &["--duration", FEW_SECONDS]).0
}

/// The points between which a client's stages are.
fn points(client: &ClientRecord) -> Vec<Point> {
    let stages = &client.measured.stages.as_ref().unwrap().stages;
    let first = stages.first().map(|stage| stage.from);
    first.into_iter().chain(stages.iter().map(|stage| stage.to)).collect()
}

#[test]
fn every_frame_is_stamped_by_whom_a_client_names_and_taken_apart() {
    let Some(world) = World::new() else { return };
    let run = compare(
        &world,
        &format!("{{ frame_size = 64, rate = \"{FEW_RATE}\" }}"),
        &[
            client("udp-app", ""),
            client("udp-socket", "stamp = \"socket\""),
            client("udp-blocking", "stamp = \"socket\"\nwait = \"block\""),
            client("packet-socket", "stamp = \"socket\""),
            client("xdp-xdp", "stamp = \"xdp\""),
        ],
    );
    use Point::{DriverIn, DriverOut, DutIn, DutOut, KernelIn, Queued, Received, Sent};
    let by_socket = vec![Sent, Queued, DriverOut, DutIn, DutOut, KernelIn, Received];
    let past_the_qdisc = vec![Sent, DriverOut, DutIn, DutOut, KernelIn, Received];
    let expected = [
        vec![Sent, DutIn, DutOut, Received],
        by_socket.clone(),
        by_socket,
        past_the_qdisc,
        vec![Sent, DutIn, DutOut, DriverIn, Received],
    ];
    for (client, expected) in run.clients.iter().zip(expected) {
        let (name, measured) = (&client.client, &client.measured);
        assert_adds_up(&measured.counts, name);
        // The kernel begins to stamp arrivals a moment after it is asked to.
        let received = measured.counts.received;
        assert!(received > FEW / 2 && measured.counts.stamped + 20 >= received, "{name}: {:?}", measured.counts);
        assert_eq!(points(client), expected, "{name}");
        let stages = measured.stages.as_ref().unwrap();
        assert_eq!(stages.frames + stages.incomplete, received, "{name}");
        assert!(stages.incomplete <= 20, "{name}: {stages:?}");
        let share = &stages.shares[0];
        assert!(share.frames > 0 && share.stages_ns.len() == expected.len() - 1, "{name}: {share:?}");
        if name != "udp-app" {
            // Both lie around the DUT, and closer than the applications.
            let truth = client.truth.as_ref().unwrap();
            assert!(measured.latency.min_ns >= truth.latency.min_ns, "{name}");
            assert!(measured.notes.iter().any(|note| note.contains(" stamps: from ")), "{:?}", measured.notes);
        }
    }
    world.assert_clean();
}

#[test]
fn stamps_that_are_not_there_fail_the_run() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "n"]);
    let measure = |engine: &str, stamp: &str| {
        let (tx, rx) = match engine {
            "udp" => ("udp:198.18.0.1:9000@n-tx".to_owned(), "udp:198.18.0.2:9001@n-rx".to_owned()),
            engine => (format!("{engine}:t0@n-tx"), format!("{engine}:r0@n-rx")),
        };
        world.refuses(&["measure", "--tx", &tx, "--rx", &rx, "--stamp", stamp, "--quick", "--runs", "1"])
    };
    for engine in ["udp", "packet", "xdp"] {
        let said = measure(engine, "nic");
        assert!(said.contains("no card that stamps frames as they leave") && said.contains("t0"), "{said}");
    }
    let device = |driver: &str, on: [&str; 2]| {
        let port = |n: usize, end: &str| format!("dpdk:{driver}{n},{}@n-{end}", on[n]);
        let (tx, rx) = (port(0, "tx"), port(1, "rx"));
        ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--quick", "--runs", "1"].map(str::to_owned)
    };
    let args = device("net_af_packet", ["iface=t0", "iface=r0"]);
    let said = world.refuses(&args.each_ref().map(String::as_str));
    assert!(said.contains("net_af_packet has no timesync"), "{said}");
    for (engine, stamp) in [("xdp", "socket"), ("udp", "xdp"), ("kernel", "socket")] {
        let said = measure(engine, stamp);
        assert!(said.contains(&format!("the {engine} engine has no {stamp} stamps")), "{said}");
    }
    world.succeeds(&["lab", "down", "n"]);
    world.assert_clean();
}

/// A device whose driver stamps what arrives, as the receive-timestamp offload does: net_pcap, for want of a card.
#[test]
fn arrivals_are_stamped_by_the_device() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "p"]);
    let tx = "dpdk:net_pcap0,rx_iface_in=t0,tx_iface=t0@p-tx";
    let rx = "dpdk:net_pcap1,rx_iface_in=r0,tx_iface=r0@p-rx";
    for mode in [&[][..], &["--round-trip"]] {
        // libpcap's ring has room for some thirty frames.
        let args = ["measure", "--tx", tx, "--rx", rx, "--stamp", "nic", "--rate", "100", "--warmup", "0"];
        let args = [&args[..], &["--duration", "0.25", "--runs", "1", "--json"], mode].concat();
        let run: Run = serde_json::from_str(&world.succeeds(&args).stdout).unwrap();
        let client = &run.clients[0];
        let counts = &client.measured.counts;
        assert!(counts.stamped > 20 && counts.stamped == counts.received, "{mode:?}: {counts:?}");
        assert_eq!(points(client), [Point::Sent, Point::CardIn, Point::Received]);
        let note = |part: &str| client.measured.notes.iter().any(|note| note.contains(part));
        assert!(
            note("a clock of the card's, related to within") && note("not a card's"),
            "{:?}",
            client.measured.notes
        );
    }
    world.succeeds(&["lab", "down", "p"]);
    world.assert_clean();
}

#[test]
fn frames_by_template_pass_and_are_known_again() {
    let Some(world) = World::new() else { return };
    for frame in [
        "vlans = [100]",
        "vlans = [100, 200]",
        "network = \"ipv6\", vary = [{ field = \"destination-address\", from = 0, to = 65535, how = \"random\" }]",
        "network = \"ipv6\", transport = \"tcp\", vlans = [7]",
        "transport = \"icmp\"",
        "network = \"none\", ethertype = 0x8906, bytes = \"00000000000000000000\", signature = { at = 16, width = 4 }",
        "signature = \"identification\"",
    ] {
        let traffic = format!("{{ frame_size = 128, rate = \"{FEW_RATE}\", frame = {{ {frame} }} }}");
        let run = compare(&world, &traffic, &[client("packet", ""), client("xdp", "")]);
        for client in &run.clients {
            let (counts, truth) = (&client.measured.counts, &client.truth.as_ref().unwrap().counts);
            assert_adds_up(counts, frame);
            assert_eq!((counts.sent, counts.corrupted, counts.foreign), (FEW, 0, 0), "{frame}: {counts:?}");
            assert!(counts.received > FEW / 2 && counts.stamped == counts.received, "{frame}: {counts:?}");
            assert_eq!((truth.sent, &client.doubt), (FEW, &None), "{frame}");
            assert!(truth.stamped >= counts.received, "{frame}: {truth:?}");
        }
    }
    world.assert_clean();
}

/// A bridge is part of the stack, which keeps tags beside frames.
#[test]
fn tagged_frames_pass_a_bridge() {
    let Some(world) = World::new() else { return };
    for vlans in ["[100]", "[100, 200]"] {
        let traffic = format!("{{ frame_size = 128, rate = \"{FEW_RATE}\", frame = {{ vlans = {vlans} }} }}");
        let scenario = world.scenario("{ kind = \"bridge\" }", &traffic, &["packet", "xdp"]);
        let (run, _) = world.compare(&scenario, &["--duration", FEW_SECONDS]);
        for client in &run.clients {
            let counts = &client.measured.counts;
            assert!(counts.received > FEW / 2 && counts.foreign == 0, "{vlans}, {}: {counts:?}", client.client);
            assert_eq!(client.truth.as_ref().unwrap().counts.sent, FEW, "{vlans}");
        }
    }
    world.assert_clean();
}

#[test]
fn flows_and_directions_are_counted_apart() {
    let Some(world) = World::new() else { return };
    let traffic = format!("{{ frame_size = 64, rate = \"{FEW_RATE}\", flows = 4, both = true }}");
    let run = compare(&world, &traffic, &[client("packet", ""), client("xdp", "")]);
    for client in &run.clients {
        let measured = &client.measured;
        let parts: Vec<&str> = measured.streams.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts[..7], ["flow 1", "flow 2", "flow 3", "flow 4", "there", "back", "back flow 1"]);
        assert_eq!((measured.counts.sent, measured.counts.foreign), (FEW, 0));
        assert!(measured.counts.received > FEW / 2, "{:?}", measured.counts);
        assert_eq!(client.truth.as_ref().unwrap().counts.sent, FEW);
        let sum = |part: std::ops::Range<usize>| measured.streams[part].iter().map(|s| s.counts.received).sum::<u64>();
        assert_eq!((sum(0..4), sum(4..5)), (measured.counts.received, measured.counts.received));
        let back = &measured.streams[5];
        assert_adds_up(&back.counts, "back");
        assert!(back.counts.received > FEW / 2 && back.latency.samples == back.counts.stamped, "{back:?}");
    }
    world.assert_clean();
}

#[test]
fn several_pairs_of_ports_are_one_client() {
    let Some(world) = World::new() else { return };
    ["p", "q"].iter().for_each(|lab| drop(world.succeeds(&["lab", "up", lab])));
    let keys = "tx = \"packet:t0@p-tx\"\nrx = \"packet:r0@p-rx\"\n[[client.pair]]\ntx = \"packet:t0@q-tx\"\nrx = \"packet:r0@q-rx\"\ncore = 0";
    let text = format!(
        "title = \"pairs\"\ntraffic = {{ frame_size = 64, rate = \"{FEW_RATE}\" }}\ndut = {{ kind = \"external\" }}\n\
         cores = {{ sender = 1, receiver = 1 }}\n{}",
        client("packet", keys)
    );
    let (run, _) = world.compare(&world.file("pairs.toml", &text), &["--duration", FEW_SECONDS]);
    let measured = &run.clients[0].measured;
    assert_eq!(measured.counts.sent, 2 * FEW);
    let parts: Vec<(&str, u64)> = measured.streams.iter().map(|p| (p.name.as_str(), p.counts.sent)).collect();
    assert_eq!(parts, [("pair 1", FEW), ("pair 2", FEW)]);
    assert!(measured.streams.iter().all(|part| part.counts.received > FEW / 2), "{:?}", measured.streams);
    assert_eq!(measured.pace.unwrap().requested, 1_600.0);
    ["p", "q"].iter().for_each(|lab| drop(world.succeeds(&["lab", "down", lab])));
    world.assert_clean();
}

#[test]
fn templates_that_do_not_fit_are_refused() {
    let Some(world) = World::new() else { return };
    let scenario = |frame: &str, more: &str, engine: &str| {
        let traffic = format!("{{ frame_size = 64, rate = \"1 kpps\", frame = {{ {frame} }}{more} }}");
        world.scenario("{ kind = \"wire\" }", &traffic, &[engine])
    };
    for (frame, more, engine, part) in [
        ("vlans = [100]", "", "xdp", "bytes 46 to 63"),
        ("vary = [{ at = 40, width = 4, from = 0, to = 1 }]", "", "xdp", "overlap"),
        ("vary = [{ field = \"source-port\", from = 1, to = 2 }]", ", flows = 2", "xdp", "overlap"),
        ("signature = \"identification\"", "", "udp-polling", "plain frames of one flow"),
        ("colour = 1", "", "xdp", "unknown field `colour`"),
        ("", ", flows = 0", "xdp", "1 to 256"),
        ("", ", both = true, mode = \"round-trip\"", "xdp", "one way"),
        ("", ", both = true", "kernel", "sends one way"),
        ("signature = { at = 24, width = 2 }", "", "xdp", "checksum"),
    ] {
        let said = world.refuses(&["compare", &scenario(frame, more, engine)]);
        assert!(said.contains(part), "{frame}{more}: {said}");
    }
    world.assert_clean();
}
