//! Measurement functions: senders and receivers in namespaces of their own, freely paired; interrupts and queues on a core.

use crate::compare::assert_adds_up;
use crate::signals::{kill_alone, kill_both};
use crate::world::{Started, World, namespaces, output};
use nix::sys::signal::Signal;
use usect_core::run::StreamRecord;

/// Two pairs of an engine between functions of the lab `f`, at a rate that a busy host can offer.
fn scenario(world: &World, engine: &str, pairs: [(&str, &str); 2], more: &str) -> String {
    let port = |end: &str, place: &str| format!("\"{engine}:{end}@f-{place}\"");
    let [(tx, rx), (tx2, rx2)] = pairs;
    let [tx, tx2] = [tx, tx2].map(|place| port("t0", place));
    let [rx, rx2] = [rx, rx2].map(|place| port("r0", place));
    // A thread that polls has a core for itself; the kernel's receivers have no thread.
    let cores = if engine == "kernel" { "{ sender = 1 }" } else { "{ sender = 1, receiver = 1 }" };
    let text = format!(
        "title = \"functions\"\ntraffic = {{ frame_size = 64, rate = 2000 }}\ndut = {{ kind = \"external\" }}\ncores = {cores}\n{more}\n\
         [[client]]\nname = \"{engine}\"\nengine = \"{engine}\"\ntx = {tx}\nrx = {rx}\npair = [{{ tx = {tx2}, rx = {rx2}, core = 0 }}]\n"
    );
    world.file("functions.toml", &text)
}

fn two_cores() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
    if !enough {
        usect_testing::skip("two pairs that spin need two cores");
    }
    enough
}

#[test]
fn senders_and_receivers_are_freely_paired_and_every_frame_is_stamped() {
    let Some(world) = World::new().filter(|_| two_cores()) else { return };
    for (senders, receivers, pairs) in [
        ("2", "2", [("tx", "rx"), ("tx2", "rx2")]),
        ("2", "2", [("tx", "rx2"), ("tx2", "rx")]),
        ("1", "2", [("tx", "rx"), ("tx", "rx2")]),
        ("2", "1", [("tx", "rx"), ("tx2", "rx")]),
    ] {
        world.succeeds(&["lab", "up", "f", "--senders", senders, "--receivers", receivers]);
        for engine in ["kernel", "packet"] {
            let (run, _) = world.compare(&scenario(&world, engine, pairs, ""), &["--duration", "0.5"]);
            let client = &run.clients[0];
            assert_adds_up(&client.measured.counts, engine);
            let streams = &client.measured.streams;
            let names: Vec<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
            assert_eq!(names, ["pair 1", "pair 2"], "{engine}, {senders}:{receivers}, {pairs:?}");
            // Two generators on two cores may keep the kernel from emptying its queues: what is lost is the path's.
            let arrive = |stream: &StreamRecord| stream.counts.sent == 1_000 && stream.counts.received > 500;
            assert!(streams.iter().all(arrive), "{engine}, {senders}:{receivers}, {pairs:?}: {streams:?}");
            assert_eq!(client.measured.stamped_share, Some(1.0), "{engine}, {senders}:{receivers}");
        }
        world.succeeds(&["lab", "down", "f"]);
    }
    let twice = scenario(&world, "kernel", [("tx", "rx"), ("tx", "rx")], "");
    assert!(world.refuses(&["compare", &twice]).contains("are a pair twice"));
    assert!(world.usect(&["lab", "up", "f", "--senders", "17"]).code == Some(2));
    assert_eq!(namespaces(), Vec::<String>::new());
    world.assert_clean();
}

/// The cores that process what the lab's second receiver receives, as the kernel writes them.
fn steered() -> String {
    output("ip", &["netns", "exec", "f-rx2", "cat", "/sys/class/net/r0/queues/rx-0/rps_cpus"]).trim().to_owned()
}

#[test]
fn queues_are_steered_to_a_core_and_put_back() {
    let Some(world) = World::new().filter(|_| two_cores()) else { return };
    world.succeeds(&["lab", "up", "f", "--senders", "2", "--receivers", "2"]);
    let before = steered();
    let steer = "steer = [{ interface = \"r0\", netns = \"f-rx2\", core = 1 }]";
    let pairs = [("tx", "rx"), ("tx2", "rx2")];
    let steers = scenario(&world, "kernel", pairs, steer);
    let interrupt: fn(&mut Started) = |run| {
        run.signal(Signal::SIGINT);
        run.end();
    };
    for (end, left) in [(interrupt, before.as_str()), (kill_alone, &before), (kill_both, "2")] {
        let mut run = world.start(&["compare", &steers, "--warmup", "0", "--duration", "60", "--runs", "1"]);
        run.until("the queue is steered", || steered() == "2");
        end(&mut run);
        assert_eq!(steered(), left);
    }
    let next = world.succeeds(&[
        "compare",
        &scenario(&world, "kernel", pairs, ""),
        "--warmup",
        "0",
        "--duration",
        "0.1",
        "--runs",
        "1",
    ]);
    assert!(next.stderr.contains("put interrupts and queues of `r0` back"), "{next:?}");
    assert_eq!(steered(), before);
    let wrong = scenario(&world, "kernel", pairs, "steer = [{ interface = \"r0\", netns = \"f-rx2\", core = 4000 }]");
    assert!(world.refuses(&["compare", &wrong]).contains("there is no core 4000"));
    world.succeeds(&["lab", "down", "f"]);
    world.assert_clean();
}
