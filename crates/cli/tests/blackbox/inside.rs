//! What needs no network: rings inside the process, the spool, and frames as fast as they go.

use crate::compare::assert_adds_up;
use crate::world::World;
use serde_json::Value;

/// A delay of 20 µs, so that no scheduling of a busy host makes it look shorter.
const SPOOL: &str = "{ kind = \"spool\", engine = \"mem\", delay_ns = 20000 }";

#[test]
fn a_spool_is_the_truth_of_a_client_inside_the_process() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(SPOOL, "{ frame_size = 64, rate = \"10 kpps\" }", &["mem"]);
    let (run, _) = world.compare(&scenario, &["--duration", "0.3"]);
    let client = &run.clients[0];
    let (measured, truth) = (&client.measured, client.truth.as_ref().unwrap());
    assert_adds_up(&measured.counts, "mem");
    assert_eq!((measured.counts.sent, measured.counts.received), (3_000, 3_000));
    assert_eq!((truth.counts.sent, truth.counts.stamped, &client.doubt), (3_000, 3_000, &None));
    // Three significant digits.
    assert!(truth.latency.min_ns >= 19_980, "{:?}", truth.latency);
    assert!(measured.latency.min_ns >= truth.latency.min_ns, "{:?}", measured.latency);
    assert!(client.errors[0].value.unwrap().high_ns > 0);
    let said = |name: &str| run.trials[0].dut.iter().find(|(n, _)| n == name).map(|(_, number)| *number);
    assert_eq!((said("held there"), said("held back")), (Some(3_000), Some(0)));
    world.assert_clean();
}

#[test]
fn a_spool_between_interfaces_has_taps_beside_it() {
    let Some(world) = World::new() else { return };
    let spool = "{ kind = \"spool\", engine = \"packet\", delay_ns = 300000 }";
    let scenario = world.scenario(spool, "{ frame_size = 64, rate = \"2 kpps\" }", &["udp-polling"]);
    let (run, _) = world.compare(&scenario, &["--duration", "0.3"]);
    let truth = run.clients[0].truth.as_ref().unwrap();
    assert!(truth.notes[0].contains("eBPF taps"), "{:?}", truth.notes);
    assert!(truth.latency.min_ns >= 299_700, "{:?}", truth.latency);
    world.assert_clean();
}

#[test]
fn inside_and_outside_do_not_meet() {
    let Some(world) = World::new() else { return };
    let traffic = "{ frame_size = 64, rate = \"1 kpps\" }";
    for (dut, client, part) in
        [(SPOOL, "xdp", "only mem clients"), ("{ kind = \"bridge\" }", "mem", "inside the process")]
    {
        let sentence = world.refuses(&["compare", &world.scenario(dut, traffic, &[client])]);
        assert!(sentence.contains(part), "{sentence}");
    }
    world.assert_clean();
}

fn generated(world: &World, args: &[&str]) -> Value {
    let done = world.succeeds(&[&["generate", "--json", "--frames", "20000"], args].concat());
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn frames_are_generated_by_every_engine_that_can() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "g"]);
    for port in ["packet:t0@g-tx", "xdp:t0@g-tx", "dpdk:net_af_packet0,iface=t0@g-tx", "dpdk:net_null0"] {
        for more in [&[][..], &["--unstamped"]] {
            let document = generated(&world, &[&["--tx", port], more].concat());
            assert_eq!((&document["frames"], &document["received"]), (&20_000.into(), &Value::Null), "{port}");
            assert_eq!(document["stamped"], more.is_empty(), "{port}");
        }
    }
    for (tx, rx) in [("mem:a", "mem:a"), ("dpdk:net_ring0", "dpdk:net_ring0"), ("kernel:t0@g-tx", "kernel:r0@g-rx")] {
        let document = generated(&world, &["--tx", tx, "--rx", rx]);
        let counted = (document["received"].as_u64().unwrap(), document["lost"].as_u64().unwrap());
        assert_eq!((document["frames"].as_u64(), counted.0 + counted.1), (Some(20_000), 20_000), "{document}");
        assert!(counted.0 > 0 && (tx.starts_with("kernel") || counted.1 == 0), "{document}");
    }
    for (args, part) in [
        (&["--tx", "udp:198.18.0.1:9@g-tx"][..], "name one with --rx"),
        (&["--tx", "mem:a", "--rx", "mem:a", "--unstamped"], "can't be matched"),
        (&["--tx", "mem:a", "--rx", "xdp:r0@g-rx"], "one engine"),
    ] {
        let sentence = world.refuses(&[&["generate"], args].concat());
        assert!(sentence.contains(part), "{sentence}");
    }
    world.succeeds(&["lab", "down", "g"]);
    world.assert_clean();
}

#[test]
fn an_interface_is_described_as_its_driver_says() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "d"]);
    let done = world.succeeds(&["engines", "--json", "--interface", "t0@d-tx"]);
    let documents: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(documents[0]["interface"], "t0@d-tx");
    let findings = documents[0]["findings"].as_array().unwrap();
    let of = |name: &str| findings.iter().find(|f| f["name"] == name).unwrap();
    for (name, usable, part) in [
        ("interface", true, "veth, MTU 1500, one receive queue"),
        ("udp", true, "udp:198.18.0.1"),
        ("xdp", true, "native; copy mode"),
        ("dpdk", true, "net_af_packet0,iface=t0"),
        ("kernel", true, "peer with a program"),
        ("clock", false, "none"),
        ("stamp app", true, "every engine"),
        ("stamp socket", true, "the driver as frames leave"),
        ("stamp nic", false, "stamps no frames"),
        ("stamp xdp", true, "engine xdp"),
        ("metadata", false, "zero-copy"),
    ] {
        let finding = of(name);
        assert_eq!(finding["usable"], usable, "{finding}");
        // A veth says that it sends XDP frames while its peer can take them.
        let said = finding["detail"].as_str().unwrap();
        assert!(said.contains(part) || (name == "kernel" && said.contains("it sends XDP frames")), "{finding}");
    }
    let sentence = world.refuses(&["engines", "--interface", "nope@d-tx"]);
    assert!(sentence.contains("no interface \"nope\""), "{sentence}");
    world.succeeds(&["lab", "down", "d"]);
    world.assert_clean();
}
