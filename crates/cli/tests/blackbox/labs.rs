//! `usect lab`, and `usect measure` in a lab.

use crate::compare::assert_adds_up;
use crate::world::{World, links, namespaces, output};
use serde_json::Value;
use usect_core::run::Run;

fn listed(world: &World) -> Vec<Value> {
    serde_json::from_str(&world.succeeds(&["lab", "list", "--json"]).stdout).unwrap()
}

#[test]
fn a_lab_stays_until_it_is_taken_down() {
    let Some(world) = World::new() else { return };
    assert!(world.succeeds(&["lab", "list"]).stdout.starts_with("there is no lab"));
    world.succeeds(&["lab", "up", "--dut"]);
    world.succeeds(&["lab", "up", "bare", "--mtu", "9000"]);
    assert_eq!(namespaces(), ["bare-rx", "bare-tx", "lab-dut", "lab-rx", "lab-tx"]);
    let link = &links(&["-n", "bare-tx", "-j", "link", "show", "dev", "t0"])[0];
    assert_eq!((link["mtu"].as_u64(), link["operstate"].as_str()), (Some(9000), Some("UP")));
    assert_eq!(world.journal().len(), 2);
    let labs = listed(&world);
    let names: Vec<&str> = labs.iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bare", "lab"]);
    assert!(labs.iter().all(|l| l["kept"] == true && l["alive"] == false), "{labs:?}");
    assert_eq!((&labs[0]["shape"], &labs[1]["shape"]), (&"wire".into(), &"dut".into()));
    assert!(world.refuses(&["lab", "up", "bare"]).contains("in use"));
    world.succeeds(&["lab", "down", "bare"]);
    assert!(world.refuses(&["lab", "down", "bare"]).contains("there is no lab \"bare\"; choose lab"));
    world.succeeds(&["lab", "down"]);
    assert!(listed(&world).is_empty());
    world.assert_clean();
}

#[test]
fn a_kept_lab_keeps_its_name_from_compare() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "usect"]);
    let scenario = world.scenario("{ kind = \"wire\" }", "{ frame_size = 64, rate = 1000 }", &["xdp"]);
    let sentence = world.refuses(&["compare", &scenario]);
    assert!(sentence.contains("usect lab down usect"), "{sentence}");
    world.succeeds(&["lab", "down", "usect"]);
}

/// Measures for 0.2 s at 10 kpps with `--json`, and returns the only document printed.
fn measured(world: &World, tx: &str, rx: &str, more: &[&str]) -> Run {
    let args = ["measure", "--tx", tx, "--rx", rx, "--rate", "10k", "--warmup", "0", "--duration", "0.2"];
    let done = world.succeeds(&[&args[..], &["--runs", "1", "--json"], more].concat());
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("not one JSON document: {e}: {}", done.stdout))
}

/// A veth whose other end has neither an XDP program nor GRO drops what the kernel engine sends, and nobody counts it.
#[test]
fn the_kernel_engine_opens_veths_that_are_ours_and_names_others() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "v", "--dut"]);
    output("ip", &["-n", "v-dut", "link", "add", "br0", "up", "type", "bridge"]);
    for end in ["d0", "d1"] {
        output("ip", &["-n", "v-dut", "link", "set", end, "master", "br0"]);
        output("ip", &["netns", "exec", "v-dut", "ethtool", "-K", end, "gro", "off"]);
    }
    for (mode, ends) in [(&[][..], &["d0"][..]), (&["--round-trip"], &["d0", "d1"])] {
        let run = measured(&world, "kernel:t0@v-tx", "kernel:r0@v-rx", mode);
        let seen = &run.clients[0].measured;
        assert!(seen.counts.received > 0, "{mode:?}: {:?}", seen.counts);
        for end in ends {
            assert!(seen.notes.iter().any(|note| note.contains(&format!("passes all at `{end}`"))), "{:?}", seen.notes);
            assert!(links(&["-n", "v-dut", "-j", "link", "show", "dev", end])[0].get("xdp").is_none());
        }
    }
    output("ip", &["netns", "add", "elsewhere"]);
    output(
        "ip",
        &["link", "add", "x0", "up", "netns", "v-tx", "type", "veth", "peer", "name", "y0", "netns", "elsewhere"],
    );
    output("ip", &["-n", "elsewhere", "link", "set", "y0", "up"]);
    let said = world.refuses(&["measure", "--tx", "kernel:x0@v-tx", "--rx", "kernel:r0@v-rx", "--quick"]);
    assert!(said.contains("`ip netns exec elsewhere ethtool -K y0 gro on`"), "{said}");
    output("ip", &["netns", "del", "elsewhere"]);
    world.succeeds(&["lab", "down", "v"]);
    world.assert_clean();
}

#[test]
fn every_engine_measures_in_a_lab_one_way_and_there_and_back() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "m"]);
    let udp = ("udp:198.18.0.1:9000@m-tx", "udp:198.18.0.2:9001@m-rx");
    let device = ("dpdk:net_af_packet0,iface=t0@m-tx", "dpdk:net_af_packet1,iface=r0@m-rx");
    let cases: [((&str, &str), &[&str]); 6] = [
        (udp, &[]),
        (udp, &["--wait", "block"]),
        (("packet:t0@m-tx", "packet:r0@m-rx"), &["--size", "1518"]),
        (device, &["--rx-core", "0"]),
        (("xdp:t0@m-tx", "xdp:r0@m-rx"), &["--tx-core", "0"]),
        (("kernel:t0@m-tx", "kernel:r0@m-rx"), &["--size", "1518"]),
    ];
    for ((tx, rx), more) in cases {
        for mode in [&[][..], &["--round-trip"], &["--ping-pong"]] {
            if tx.starts_with("kernel") && mode == ["--ping-pong"] {
                let sentence = world.refuses(&["measure", "--tx", tx, "--rx", rx, "--ping-pong"]);
                assert!(sentence.contains("can't ping-pong"), "{sentence}");
                continue;
            }
            let run = measured(&world, tx, rx, &[more, mode].concat());
            let counts = &run.clients[0].measured.counts;
            let who = format!("{tx} {more:?} {mode:?}");
            assert_adds_up(counts, &who);
            assert_eq!((run.header.procedure.as_str(), counts.sent), ("measure", 2_000), "{who}");
            assert!(counts.received > 0, "{who}: {counts:?}");
            assert_eq!(run, world.newest_run().0, "what is printed is what is stored");
            assert!(run.clients[0].truth.is_none() && run.clients[0].known_delay_ns.is_none(), "{who}");
        }
    }
    world.succeeds(&["lab", "down", "m"]);
    world.assert_clean();
}

#[test]
fn engines_are_tried_and_nothing_of_it_stays() {
    let Some(world) = World::new() else { return };
    let lines: Vec<Value> = serde_json::from_str(&world.succeeds(&["engines", "--json"]).stdout).unwrap();
    let names: Vec<&str> = lines.iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["clock", "udp", "packet", "xdp", "dpdk", "mem", "kernel", "truth"]);
    for line in &lines {
        assert!(line["usable"] == true, "the other tests use it: {line}");
    }
    let table = world.succeeds(&["engines"]).stdout;
    assert_eq!(table.lines().count(), lines.len(), "{table}");
    world.assert_clean();
}

/// What a path swallows is no measurement: the run is kept, and fails with a sentence.
#[test]
fn nothing_arriving_is_a_failure() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "gap", "--dut"]);
    let args = ["measure", "--tx", "xdp:t0@gap-tx", "--rx", "xdp:r0@gap-rx", "--warmup", "0", "--duration", "0.1"];
    let done = world.usect(&[&args[..], &["--runs", "1", "--json"]].concat());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("nothing arrived of what xdp sent"), "{done:?}");
    let run: Run = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((run.clients[0].measured.counts.received, run.clients[0].measured.stamped_share), (0, None));
    world.succeeds(&["lab", "down", "gap"]);
    world.assert_clean();
}

#[test]
fn a_device_of_dpdk_that_loops_measures_itself() {
    let Some(world) = World::new() else { return };
    let ring = "dpdk:net_ring0";
    let counts = measured(&world, ring, ring, &[]).clients[0].measured.counts;
    assert_eq!((counts.sent, counts.received, counts.stamped), (2_000, 2_000, 2_000));
    world.assert_clean();
}
