//! `usect compare` over each kind of DUT, one way and round trip, with every client.

use crate::world::{CLIENTS, FEW, FEW_RATE, FEW_SECONDS, World, names};
use usect_core::run::{Record, Run};
use usect_core::tracker::Counts;

/// Half a second of this is 1,000 frames, of which the shortest queue of a path holds an eighth of a second.
const TRAFFIC: &str = "{ frame_size = 64, rate = \"2 kpps\" }";
const FRAMES: u64 = 1_000;

/// Every frame in exactly one class, by arithmetic of the test's own.
pub(crate) fn assert_adds_up(counts: &Counts, who: &str) {
    let c = counts;
    assert_eq!(c.sent, c.received + c.lost, "{who}: {c:?}");
    let classes = c.received + c.duplicates + c.corrupted + c.stale + c.foreign + c.warmup_arrivals;
    assert_eq!(c.arrivals, classes, "{who}: {c:?}");
    assert!(c.stamped <= c.received && c.reordered <= c.received, "{who}: {c:?}");
}

fn assert_stamped(record: &Record, who: &str) {
    assert_eq!((record.stamped_share, record.counts.stamped), (Some(1.0), record.counts.received), "{who}");
    assert_eq!(record.latency.samples, record.counts.stamped, "{who}");
}

/// A stall of the host may cost frames, for rings and queues are finite; it doesn't cost half of them.
fn assert_mostly_received(record: &Record, who: &str) {
    assert!(record.counts.received > record.counts.sent / 2, "{who}: {:?}", record.counts);
    assert_stamped(record, who);
}

/// What holds of every complete run of one trial per client of [`CLIENTS`].
fn assert_complete(run: &Run, tapped: bool, dut_spins: bool) {
    assert_eq!((run.header.schema.as_str(), run.header.procedure.as_str()), ("usect.run/1", "compare"));
    assert_eq!((&run.header.partial, run.header.quick), (&None, false));
    assert!(!run.header.platform.is_empty());
    let clients: Vec<&str> = run.clients.iter().map(|c| c.client.as_str()).collect();
    assert_eq!(clients, CLIENTS);
    assert_eq!(run.trials.len(), CLIENTS.len());
    for trial in &run.trials {
        let name = &trial.trial.client.name;
        assert_eq!((trial.measured.counts.sent, trial.partial.as_ref()), (FRAMES, None), "{name}");
        assert_adds_up(&trial.measured.counts, name);
        assert_mostly_received(&trial.measured, name);
        assert_eq!(trial.measured.lateness.as_ref().unwrap().samples, FRAMES, "{name}");
        assert_eq!(trial.truth.is_some(), tapped, "{name}");
        if let Some(truth) = &trial.truth {
            assert_adds_up(&truth.counts, &format!("truth of {name}"));
            assert_mostly_received(truth, &format!("truth of {name}"));
            assert!(truth.counts.sent <= FRAMES, "{name}: {:?}", truth.counts);
            assert!(truth.counts.received >= trial.measured.counts.received, "{name}: {:?}", truth.counts);
        }
    }
    for client in &run.clients {
        let (name, spins) = (&client.client, dut_spins || client.client != "udp-blocking");
        assert_eq!((&client.doubt, client.errors.len()), (&None, 7), "{name}");
        assert!(client.errors[0].value.is_some(), "{name}");
        assert_eq!(client.measured.stalls.is_empty(), !spins, "{name}");
        assert_eq!(client.measured.clean.is_some(), spins, "{name}");
        assert_eq!(client.errors_clean.is_empty(), !spins, "{name}");
    }
}

fn compares(dut: &str) {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(dut, TRAFFIC, CLIENTS);
    let (run, folder) = world.compare(&scenario, &["--duration", "0.5"]);
    let tapped = !dut.contains("wire");
    assert_complete(&run, tapped, dut.contains("\"forwarder\""));
    if !tapped {
        let kernel = run.clients.last().unwrap().measured.counts;
        assert_eq!((kernel.received, kernel.stamped), (FRAMES, FRAMES), "the in-kernel client over a bare wire");
        assert!(run.clients.iter().all(|c| c.known_delay_ns == Some(0)));
    }
    assert_eq!(names(&folder), ["histograms", "report.html", "run.json"]);
    let mut logs: Vec<String> = CLIENTS.iter().map(|c| format!("{c}.1.hlog")).collect();
    logs.sort();
    assert_eq!(names(&folder.join("histograms")), logs);
    assert_eq!(folder.file_name().unwrap().to_str(), Some(run.header.id.as_str()));
    world.assert_clean();
}

#[test]
fn through_an_xdp_forwarder() {
    compares("{ kind = \"xdp-forwarder\" }");
}

#[test]
fn through_a_bridge() {
    compares("{ kind = \"bridge\" }");
}

#[test]
fn through_a_forwarder_in_user_space() {
    compares("{ kind = \"forwarder\" }");
}

#[test]
fn through_a_forwarder_of_other_engines() {
    let Some(world) = World::new() else { return };
    for engine in ["packet", "dpdk"] {
        let dut = format!("{{ kind = \"forwarder\", engine = \"{engine}\", faults = {{ drop_every = 60 }} }}");
        let traffic = format!("{{ frame_size = 64, rate = \"{FEW_RATE}\" }}");
        let (run, _) =
            world.compare(&world.scenario(&dut, &traffic, &["dpdk", "kernel"]), &["--duration", FEW_SECONDS]);
        for trial in &run.trials {
            let (name, counts) = (&trial.trial.client.name, &trial.measured.counts);
            assert_adds_up(counts, name);
            assert!(trial.dut.contains(&("dropped".into(), 4)), "{engine}: {:?}", trial.dut);
            assert_eq!((counts.sent, counts.lost), (FEW, 4), "{name} through {engine}");
        }
    }
    world.assert_clean();
}

#[test]
fn over_a_bare_wire() {
    compares("{ kind = \"wire\" }");
}

#[test]
fn there_and_back() {
    let Some(world) = World::new() else { return };
    let traffic = "{ frame_size = 128, rate = \"5 kpps\", mode = \"round-trip\" }";
    let scenario = world.scenario("{ kind = \"wire\" }", traffic, CLIENTS);
    let (run, _) = world.compare(&scenario, &["--duration", "0.4"]);
    for trial in &run.trials {
        let (name, counts) = (&trial.trial.client.name, &trial.measured.counts);
        assert_adds_up(counts, name);
        assert_eq!(counts.sent, 2_000, "{name}");
        assert_mostly_received(&trial.measured, name);
    }
    let kernel = &run.trials.last().unwrap().measured.counts;
    assert_eq!((kernel.received, kernel.stamped), (2_000, 2_000));
    world.assert_clean();
}

#[test]
fn the_warm_up_is_counted_apart_and_runs_are_pooled() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario("{ kind = \"wire\" }", TRAFFIC, CLIENTS);
    let args = ["compare", &scenario, "--warmup", "0.1", "--duration", "0.1", "--runs", "2", "--json"];
    let chosen = ["--client", "kernel", "--client", "udp-polling"];
    let done = world.succeeds(&[&args[..], &chosen[..]].concat());
    let run: Run = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(run, world.newest_run().0, "what is printed is what is stored");
    let order: Vec<(&str, u32)> = run.trials.iter().map(|t| (t.trial.client.name.as_str(), t.trial.run)).collect();
    assert_eq!(order, [("udp-polling", 1), ("kernel", 1), ("udp-polling", 2), ("kernel", 2)]);
    for client in &run.clients {
        let counts = &client.measured.counts;
        assert_eq!((client.runs, counts.sent, counts.warmup_sent), (2, 400, 400), "{}", client.client);
        assert_adds_up(counts, &client.client);
    }
    assert_eq!(run.clients[1].measured.counts.warmup_arrivals, 400);
}

/// Where the answer to a ping is lost, the next ping leaves all the same.
#[test]
fn a_lost_ping_is_not_waited_for_for_ever() {
    let Some(world) = World::new() else { return };
    let dut = "{ kind = \"forwarder\", faults = { drop_every = 100 } }";
    let traffic = "{ frame_size = 64, rate = \"1 kpps\", mode = \"ping-pong\" }";
    let (run, _) = world.compare(&world.scenario(dut, traffic, &["udp-blocking"]), &["--duration", "0.3"]);
    let counts = &run.trials[0].measured.counts;
    assert_adds_up(counts, "udp-blocking");
    assert_eq!((counts.sent, counts.lost), (300, 3), "{counts:?}");
    world.assert_clean();
}
