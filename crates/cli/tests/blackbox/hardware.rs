//! Cards that stamp frames, in the guest of `make test-hw` (see `hw/`), where QEMU's igb and a pretend card of our own
//! stand for them. Figures are asserted here as nowhere else: the guest's time does not depend on the host's, and
//! the pretend card stamps what its wire imposes.

use crate::world::World;
use nix::sys::signal::Signal;
use std::process::Command;
use usect_core::run::Run;

/// What the pretend wire imposes there, in nanoseconds.
const DELAY_NS: i64 = 250_000;

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two cards, joined, in namespaces `a` and `b` of a world of the test's own.
struct Cards {
    world: World,
    module: bool,
}

impl Cards {
    /// Two pretend cards, 250 µs apart; their clocks run as `parameters` say.
    fn pretend(parameters: &[&str]) -> Cards {
        let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/hw/labnic.ko");
        run("insmod", &[&[module, "delay=250000,50000"], parameters].concat());
        Cards { world: joined(["lab0", "lab1"]), module: true }
    }

    /// The guest's two network cards.
    fn emulated(names: [&str; 2]) -> Cards {
        Cards { world: joined(names), module: false }
    }

    fn measure(&self, engine: &str, more: &[&str]) -> Run {
        let (tx, rx) = ports(engine);
        let args = ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--rate", "200", "--warmup", "0"];
        let args = [&args[..], &["--duration", "2", "--runs", "1", "--json"], more].concat();
        serde_json::from_str(&self.world.succeeds(&args).stdout).unwrap()
    }

    /// How a card is set, as `usect engines` tells it.
    fn set_to(&self) -> String {
        let said = self.world.succeeds(&["engines", "--interface", "lab0@a"]).stdout;
        said.split("set to ").nth(1).unwrap().lines().next().unwrap().to_owned()
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        for netns in ["a", "b"] {
            let _ = Command::new("ip").args(["netns", "del", netns]).status();
        }
        if self.module {
            // Interfaces of the namespace come back to the first one a moment later.
            for _ in 0..50 {
                if Command::new("rmmod").arg("labnic").status().is_ok_and(|status| status.success()) {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
}

fn joined(names: [&str; 2]) -> World {
    let world = World::new().expect("the guest has root");
    for (netns, name, address) in [("a", names[0], "10.9.0.1/24"), ("b", names[1], "10.9.0.2/24")] {
        run("ip", &["netns", "add", netns]);
        // Cards appear in the namespace of the first process; this one's mounts know the name of the new one.
        run("nsenter", &["-t", "1", "-n", "ip", "link", "set", name, "netns", netns]);
        run("ip", &["-n", netns, "addr", "add", address, "dev", name]);
        run("ip", &["-n", netns, "link", "set", name, "up"]);
    }
    // A card's link takes a while.
    std::thread::sleep(std::time::Duration::from_secs(3));
    world
}

fn ports(engine: &str) -> (String, String) {
    match engine {
        "udp" => ("udp:10.9.0.1:9000@a".into(), "udp:10.9.0.2:9001@b".into()),
        engine => (format!("{engine}:lab0@a"), format!("{engine}:lab1@b")),
    }
}

/// The median, and how far it may be off by what the run says of its clocks.
fn median(run: &Run) -> (i64, i64) {
    let measured = &run.clients[0].measured;
    let median = measured.latency.quantiles[0].value.unwrap().ns;
    let note = measured.notes.iter().find(|note| note.contains("related to within")).expect("two clocks");
    let error = note.split("related to within ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    (median, error)
}

fn assert_delay(run: &Run) {
    let (median, error) = median(run);
    // Buckets keep three digits.
    assert!((median - DELAY_NS).abs() <= error + DELAY_NS / 1000, "{median}, known to {error}");
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn every_frame_is_stamped_by_cards_whose_clocks_are_apart_and_drift() {
    let cards = Cards::pretend(&["offset=1000000000,-3000000", "ppm=40,-60"]);
    for engine in ["udp", "packet"] {
        let run = cards.measure(engine, &[]);
        let measured = &run.clients[0].measured;
        assert_eq!((measured.counts.received, measured.counts.stamped), (400, 400), "{engine}");
        assert_delay(&run);
        let stages = measured.stages.as_ref().unwrap();
        assert_eq!((stages.frames, stages.incomplete), (400, 0), "{engine}");
    }
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn stamps_that_a_card_loses_are_missing_in_the_share() {
    let cards = Cards::pretend(&["rx_lose=5"]);
    let measured = &cards.measure("udp", &[]).clients[0].measured;
    assert_eq!((measured.counts.received, measured.counts.stamped), (400, 320));
    drop(cards);
    let cards = Cards::pretend(&["tx_lose=4", "tx_late=2000000"]);
    let measured = &cards.measure("udp", &[]).clients[0].measured;
    assert_eq!((measured.counts.received, measured.counts.stamped), (400, 300), "late ones are waited for");
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn a_card_that_stamps_ptp_alone_is_probed_beside_the_load() {
    let cards = Cards::pretend(&["rx_all=0", "offset=5000000,0"]);
    let run = cards.measure("udp", &["--wait", "block"]);
    let measured = &run.clients[0].measured;
    assert_eq!((measured.counts.sent, measured.counts.received), (400, 400));
    assert!((10..4000).contains(&measured.counts.stamped), "{}", measured.counts.stamped);
    assert_delay(&run);
    assert!(measured.notes.iter().any(|note| note.contains("PTP probes")), "{:?}", measured.notes);
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn there_and_back_is_on_one_clock() {
    let cards = Cards::pretend(&["ppm=30,-30"]);
    let (tx, rx) = ports("udp");
    let args = ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--round-trip", "--wait", "block"];
    let args = [&args[..], &["--rate", "100", "--warmup", "0.2", "--duration", "1", "--runs", "1", "--json"]].concat();
    let run: Run = serde_json::from_str(&cards.world.succeeds(&args).stdout).unwrap();
    let measured = &run.clients[0].measured;
    assert_eq!(measured.counts.stamped, 100);
    assert!(measured.notes.iter().any(|note| note.contains("one clock")), "{:?}", measured.notes);
    assert!(measured.latency.min_ns >= 300_000, "there and back, and the reflector between");
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn cards_are_set_back_also_after_a_kill() {
    let cards = Cards::pretend(&[]);
    let before = cards.set_to();
    cards.measure("udp", &[]);
    assert_eq!(cards.set_to(), before);
    let (tx, rx) = ports("udp");
    let mut running = cards.world.start(&["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--runs", "1"]);
    running.until("the card stamps", || cards.set_to() != before);
    running.signal(Signal::SIGKILL);
    running.end();
    assert_ne!(cards.set_to(), before);
    cards.measure("udp", &[]);
    assert_eq!(cards.set_to(), before);
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn igb_is_probed() {
    let cards = Cards::emulated(["eth0", "eth1"]);
    let run = cards.measure("udp", &["--wait", "block"]);
    let measured = &run.clients[0].measured;
    assert_eq!((measured.counts.sent, measured.counts.received), (400, 400));
    assert!(measured.counts.stamped >= 5, "{:?}", measured.notes);
    assert!(measured.notes.iter().any(|note| note.contains("PTP probes")), "{:?}", measured.notes);
}

/// Takes a card from the kernel and gives it to vfio-pci; its PCI address.
fn bound_to_vfio(name: &str) -> String {
    let device = std::fs::read_link(format!("/sys/class/net/{name}/device")).unwrap();
    let address = device.file_name().unwrap().to_str().unwrap().to_owned();
    let write = |path: String, text: &str| std::fs::write(path, text).unwrap();
    write(format!("/sys/bus/pci/devices/{address}/driver_override"), "vfio-pci");
    write(format!("/sys/bus/pci/devices/{address}/driver/unbind"), &address);
    write("/sys/bus/pci/drivers_probe".to_owned(), &address);
    address
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn dpdk_drives_cards_in_hugepages() {
    let world = World::new().expect("the guest has root");
    let bound = std::fs::read_link("/sys/class/net/eth0/device").unwrap();
    let kernels = format!("dpdk:{}", bound.file_name().unwrap().to_str().unwrap());
    let said = world.refuses(&["measure", "--tx", &kernels, "--rx", "dpdk:net_null0", "--quick"]);
    assert!(said.contains("bound to the kernel's driver `igb`"), "{said}");
    let [tx, rx] = ["eth0", "eth1"].map(|name| format!("dpdk:{}", bound_to_vfio(name)));
    let args =
        ["measure", "--tx", &tx, "--rx", &rx, "--rate", "200", "--warmup", "1", "--duration", "2", "--runs", "1"];
    let said = world.refuses(&[&args[..], &["--hugepages"]].concat());
    assert!(said.contains("hugepages"), "{said}");
    std::fs::write("/proc/sys/vm/nr_hugepages", "128").unwrap();
    std::fs::create_dir_all("/dev/hugepages").unwrap();
    run("mount", &["-t", "hugetlbfs", "none", "/dev/hugepages"]);
    for hugepages in [&["--hugepages", "--json"][..], &["--json"]] {
        let done = world.succeeds(&[&args[..], hugepages].concat());
        let run: Run = serde_json::from_str(&done.stdout).unwrap();
        let measured = &run.clients[0].measured;
        assert_eq!((measured.counts.sent, measured.counts.received, measured.counts.stamped), (400, 400, 400));
        assert!(measured.notes.iter().any(|note| note.contains("net_e1000_igb")), "{:?}", measured.notes);
    }
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn dpdk_probes_cards_by_timesync() {
    let world = World::new().expect("the guest has root");
    let [tx, rx] = ["eth0", "eth1"].map(|name| format!("dpdk:{}", bound_to_vfio(name)));
    let args = ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--rate", "200", "--warmup", "0"];
    let args = [&args[..], &["--duration", "3", "--runs", "1", "--json"]].concat();
    // Debian's driver is built without what stamps departures.
    let said = world.refuses(&args);
    assert!(said.contains("none was stamped as it left"), "{said}");
    let driver = "/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_e1000.so.23.0";
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/hw/librte_net_e1000.so");
    run("mount", &["--bind", built, driver]);
    let run: Run = serde_json::from_str(&world.succeeds(&args).stdout).unwrap();
    let measured = &run.clients[0].measured;
    assert_eq!((measured.counts.sent, measured.counts.received), (600, 600));
    assert!(measured.counts.stamped >= 5, "{:?}", measured.notes);
    let note = |part: &str| measured.notes.iter().any(|note| note.contains(part));
    assert!(note("PTP probes") && note("two clocks, related to within"), "{:?}", measured.notes);
    assert!(measured.latency.min_ns > 0);
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn a_card_that_promises_stamps_and_takes_none_fails_the_run() {
    let cards = Cards::emulated(["eth0", "eth1"]);
    let (tx, rx) = ports("udp");
    let args =
        ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--rate", "200", "--duration", "2", "--runs", "1"];
    let said = cards.world.refuses(&args);
    assert!(said.contains("no frame got the nic stamps"), "{said}");
}
