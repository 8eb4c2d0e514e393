//! Cards that stamp frames, in the guest of `make test-hw` (see `hw/`), where QEMU's igb and a pretend card of our own
//! stand for them. Figures are asserted here as nowhere else: the guest's time does not depend on the host's, and
//! the pretend card stamps what its wire imposes.

use crate::world::World;
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::Command;
use usect_core::matrix::{Became, Measured, Moved, RESPONSES};
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
        let args = ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--rate", "400", "--warmup", "0"];
        // Time there is instructions, and whoever spins for a second takes ten of the host's.
        let args = [&args[..], &["--duration", "1", "--runs", "1", "--json"], more].concat();
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
    crate::world::until("it is set back at once", || (cards.set_to() == before).then_some(()));
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
    let [tx, rx] = ["eth2", "eth3"].map(|name| format!("dpdk:{}", bound_to_vfio(name)));
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
    let cards = Cards::emulated(["eth2", "eth3"]);
    let (tx, rx) = ports("udp");
    let args =
        ["measure", "--tx", &tx, "--rx", &rx, "--stamp", "nic", "--rate", "200", "--duration", "2", "--runs", "1"];
    let said = cards.world.refuses(&args);
    assert!(said.contains("no frame got the nic stamps"), "{said}");
}

#[test]
#[ignore = "in `make test-hw`, which boots the image"]
fn the_image_without_an_operating_system_fills_row_1a() {
    let world = World::new().expect("`make test-hw` has root");
    let printed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/hw/cold.txt");
    let done = world.succeeds(&["dissect", "--only", "1a", "--cold-start", printed, "--json"]);
    let run: Run = serde_json::from_str(&done.stdout).unwrap();
    let row = &run.header.dissect.as_ref().unwrap().rows[0];
    let latency = row.latency.as_ref().unwrap_or_else(|| panic!("{row:?}"));
    assert_eq!((row.experiment.as_str(), latency.samples), ("1a", 1024 * 4095));
    assert!(row.account.as_ref().unwrap().contains("QEMU"), "{row:?}");
    let cut = std::fs::read_to_string(printed).unwrap().replace("usect-cold end", "");
    let cut = world.file("cut.txt", &cut);
    let done = world.usect(&["dissect", "--only", "1a", "--cold-start", &cut, "--json"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let run: Run = serde_json::from_str(&done.stdout).unwrap();
    let why = run.header.dissect.unwrap().rows[0].unavailable.clone().unwrap();
    assert!(why.contains("in the middle"), "{why}");
}

/// Row 1b, as it was measured with some more flags.
fn in_the_kernel(world: &World, flags: &[&str]) -> usect_core::dissect::Row {
    let asked = ["dissect", "--only", "1b", "--lasts", "1s", "--json"];
    let run: Run = serde_json::from_str(&world.succeeds(&[&asked[..], flags].concat()).stdout).unwrap();
    run.header.dissect.unwrap().rows.remove(0)
}

fn has_module() -> bool {
    std::fs::read_to_string("/proc/modules").unwrap().contains("usect_tsc")
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn a_module_of_ours_reads_the_counter_in_the_kernel() {
    let world = World::new().expect("the guest has root");
    let row = in_the_kernel(&world, &["--no-module"]);
    assert!(row.how.contains("eBPF") && row.how.ends_with("because --no-module forbids it"), "{row:?}");

    // The guest takes more than a minute to compile it.
    let mut killed = world.start(&["dissect", "--only", "1b", "--lasts", "10min"]);
    killed.until("the module is there", has_module);
    crate::signals::kill_both(&mut killed);
    assert!(has_module(), "nobody has taken it out yet");
    let said = world.succeeds(&["host", "restore"]).stdout;
    assert!(said.contains("took the kernel module") && !has_module(), "{said}");
    let row = in_the_kernel(&world, &[]);
    assert_eq!(row.name, "TSC, kernel", "{row:?}");
    let latency = row.latency.unwrap();
    assert!(latency.samples > 0 && latency.samples.is_multiple_of(1023), "{latency:?}");
    assert!(!has_module(), "it is taken out");
}

/// Control groups of version 2 with a process in one of them, and a card of the first namespace.
struct Tuned {
    world: World,
    sleeper: std::process::Child,
}

const GROUPS: &str = "/sys/fs/cgroup";

impl Tuned {
    fn new() -> Tuned {
        let world = World::new().expect("the guest has root");
        run("mount", &["-t", "cgroup2", "none", GROUPS]);
        std::fs::create_dir(format!("{GROUPS}/others")).unwrap();
        let sleeper = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(format!("{GROUPS}/others/cgroup.procs"), sleeper.id().to_string()).unwrap();
        ethtool(&["-C", "eth0", "rx-usecs", "50"]);
        // Only one that is up has interrupts.
        run("nsenter", &["-t", "1", "-n", "ip", "link", "set", "eth0", "up"]);
        Tuned { world, sleeper }
    }

    /// usect, where the cards are.
    fn usect(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", "1", "-n", env!("CARGO_BIN_EXE_usect")]).args(args);
        command.env("USECT_STATE", self.world.path("state"));
        command
    }

    /// What profiles may touch: coalescing, interrupts, groups, and where the process may run.
    fn settings(&self) -> Vec<String> {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let mut all = vec![ethtool(&["-c", "eth0"]), read(format!("{GROUPS}/cgroup.subtree_control"))];
        all.push(read(format!("{GROUPS}/others/cpuset.cpus")));
        all.push(format!("{:?}", crate::world::names(std::path::Path::new(GROUPS))));
        all.push(confined(self.sleeper.id()));
        all.extend(["watchdog", "soft_watchdog", "nmi_watchdog"].map(|name| read(format!("/proc/sys/kernel/{name}"))));
        for irq in crate::world::names(std::path::Path::new("/proc/irq")) {
            all.push(read(format!("/proc/irq/{irq}/smp_affinity_list")));
        }
        all
    }

    fn judged(&self, subject: &str) -> serde_json::Value {
        let done = self.usect(&["host", "check", "--interface", "eth0", "--json"]).output().unwrap();
        let found: Vec<serde_json::Value> =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
        found.into_iter().find(|advice| advice["subject"] == subject).unwrap_or_else(|| panic!("{subject}: {done:?}"))
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

fn ethtool(args: &[&str]) -> String {
    let output = Command::new("nsenter").args(["-t", "1", "-n", "ethtool"]).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn confined(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn a_card_and_groups_of_version_2_are_checked_and_tuned_and_put_back() {
    let tuned = Tuned::new();
    let coalescing = tuned.judged("coalescing of eth0");
    assert_eq!(coalescing["weight"], "serious", "{coalescing}");
    assert!(coalescing["evidence"].to_string().contains("coalesce.rx-usecs = 50"), "{coalescing}");
    let interrupts = tuned.judged("interrupts of eth0");
    assert_eq!(interrupts["weight"], "slight", "{interrupts}");
    for fact in interrupts["evidence"].as_array().unwrap() {
        // `interface.host.eth0.irq.40 = …`
        let number = fact.as_str().unwrap().split_once(".irq.").unwrap().1.split(' ').next().unwrap().to_owned();
        std::fs::write(format!("/proc/irq/{number}/smp_affinity_list"), "1").unwrap();
    }
    assert_eq!(tuned.judged("interrupts of eth0")["weight"], "fine");

    let before = tuned.settings();
    let inside = tuned.world.path("inside");
    let script = format!(
        "{{ ethtool -c eth0 | grep ^rx-usecs:; grep Cpus_allowed_list /proc/{}/status /proc/self/status; }} > {}",
        tuned.sleeper.id(),
        inside.display()
    );
    let profile = ["host", "tune", "isolated+power+quiet", "--interface", "eth0", "--"];
    let done = tuned.usect(&[&profile[..], &["sh", "-c", &script]].concat()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let seen = std::fs::read_to_string(&inside).unwrap();
    let lines: Vec<&str> = seen.lines().map(|line| line.split(':').next_back().unwrap().trim()).collect();
    assert_eq!(lines, ["0", "0", "0-1"], "moderation is off, others are confined, the command is not: {done:?}");
    assert_eq!(tuned.settings(), before);

    let mut killed = tuned.usect(&[&profile[..], &["sleep", "600"]].concat()).spawn().unwrap();
    crate::world::until("the profile is in force", || (confined(tuned.sleeper.id()) == "0").then_some(()));
    // The command comes last of all.
    let command = crate::world::until("the command runs", || crate::signals::command_of(killed.id()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    crate::world::until("it is put back at once", || (tuned.settings() == before).then_some(()));
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(command), Signal::SIGKILL);
}

/// A matrix in which everything was measured.
fn whole_matrix(world: &World, text: &str) -> Measured {
    let file = world.file("matrix.toml", text);
    world.succeeds(&["matrix", &file]);
    let (run, _) = world.newest_run();
    world.assert_clean();
    let measured = run.header.matrix.unwrap();
    let unseen = measured.trials.iter().find(|tried| !matches!(tried.became, Became::Seen(_)));
    assert!(unseen.is_none(), "{unseen:?}");
    measured
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn what_netem_adds_is_found_where_it_is_and_nowhere_else() {
    let Some(world) = World::new() else { return };
    let text = "title = \"a known truth\"\nprotocol = { warmup_s = 1, duration_s = 1, runs = 2 }\nprobe = { rate = \"200 pps\" }\n\
        [vary]\nqueue = [\"pfifo limit 500\", \"netem delay 50us limit 500\"]\nmtu = [1500, 1400]\n";
    let measured = whole_matrix(&world, text);
    let of = |factor: &str| {
        let own =
            |moved: &&Moved| moved.figure == RESPONSES[0].name && moved.by.factor == factor && moved.under.is_none();
        measured.moved.iter().find(own).unwrap()
    };
    // 50 µs at either end. The guest's time is free of noise, and intervals are as narrow as nothing on the host's own is. But its
    // one processor has the thread that sends still at work when a frame that doesn't wait arrives, for nothing to 5 µs as the
    // scheduler has it; one that waits finds it asleep.
    const SCHEDULED: f64 = 5.0;
    let (netem, mtu) = (of("queue"), of("mtu"));
    assert!(netem.significant && (netem.estimate - 100.0).abs() <= netem.margin.unwrap() + SCHEDULED, "{netem:?}");
    // Half of the cells don't wait.
    let scheduled = SCHEDULED / 2.0;
    assert!(
        mtu.estimate.abs() <= mtu.margin.unwrap() + scheduled && (!mtu.significant || mtu.estimate.abs() <= scheduled),
        "{mtu:?}"
    );
}

#[test]
#[ignore = "in the guest of `make test-hw`"]
fn fifo_and_sfq_are_compared_where_the_kernel_has_both_and_open_vswitch_is_in_it() {
    let Some(world) = World::new() else { return };
    let text = "title = \"disciplines\"\nprotocol = { warmup_s = 1.0, duration_s = 2.0, runs = 1 }\nprobe = { rate = \"100 pps\" }\n\
        [vary]\nqueue = [\"pfifo\", \"sfq\"]\npath = [\"direct\", \"ovs\"]\nload = [\"tcp\"]\n";
    let measured = whole_matrix(&world, text);
    assert_eq!(measured.trials.len(), 4);
    for tried in &measured.trials {
        let (Became::Seen(seen), label) = (&tried.became, measured.matrix.label(&tried.turn.cell)) else {
            unreachable!()
        };
        let kind = label.split(", ").next().unwrap();
        assert!(seen.queues.iter().all(|queue| queue.kind == kind), "{label}: {:?}", seen.queues);
        assert!(seen.load.as_ref().unwrap().bits_per_second > 0.0 && seen.probe.latency.is_some(), "{label}: {seen:?}");
        assert!(!seen.notes.iter().any(|note| note.contains("user space")), "{label}: {:?}", seen.notes);
    }
}

/// Two hosts in earnest: a guest with a kernel and a counter of its own is the far one (`hw/far`), and igb at either end of the path.
#[test]
#[ignore = "in the guest of `make test-hw`"]
fn a_matrix_is_measured_between_two_machines() {
    let world = World::new().expect("the guest has root");
    let there = |name: &str| format!("{}/../../target/hw/two/{name}", env!("CARGO_MANIFEST_DIR"));
    // That of the world's own network.
    run("mount", &["-t", "sysfs", "sysfs", "/sys"]);
    for (name, address) in [("eth0", "198.18.0.1/24"), ("eth1", "192.0.2.1/24")] {
        let shown = ["nsenter", "-t", "1", "-n", "ip", "link", "show", name];
        crate::world::until("the card is there", || {
            Command::new(shown[0]).args(&shown[1..]).output().unwrap().status.success().then_some(())
        });
        let own = nix::unistd::gettid().to_string();
        run("nsenter", &["-t", "1", "-n", "ip", "link", "set", name, "netns", &own]);
        run("ip", &["addr", "add", address, "dev", name]);
        run("ip", &["link", "set", name, "up"]);
    }
    crate::world::until("the other machine is there", || Path::new(&there("up")).exists().then_some(()));
    let known = format!("-o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new", world.path("known").display());
    let settings = || {
        let shown = "tc qdisc show dev eth0; ethtool -k eth0; ethtool -c eth0; cat /sys/class/net/eth0/mtu; ls /run/usect/usect-settings 2> /dev/null";
        let key = there("own");
        let far = [&["-F", "none", "-i", &key][..], &known.split(' ').collect::<Vec<_>>(), &["root@192.0.2.2", shown]];
        let near = Command::new("sh").args(["-c", shown]).output().unwrap();
        let far = Command::new("ssh").args(far.concat()).output().unwrap();
        [near, far].map(|output| String::from_utf8(output.stdout).unwrap())
    };
    let before = settings();
    assert!(before.iter().all(|of| of.contains("rx-usecs")), "{before:?}");
    let inventory = world.file(
        "hosts.ini",
        &format!(
            "[near]\nalpha usect_interface=eth0 ansible_connection=local\n[far]\nbeta usect_interface=eth0 ansible_host=192.0.2.2 \
             ansible_user=root ansible_ssh_private_key_file={} ansible_ssh_common_args='-F none {known}'\n",
            there("own")
        ),
    );
    let file = world.file(
        "matrix.toml",
        "title = \"two machines\"\nprotocol = { warmup_s = 1, duration_s = 2, runs = 1 }\nprobe = { rate = \"100 pps\" }\n[vary]\n\
         offloads = [\"tso on gso on gro on\", \"tso off gso off gro off\"]\nqueue = [\"pfifo\", \"netem delay 20ms\"]\nmtu = [1400]\n\
         coalescing = [\"rx-usecs 250\"]\nload = [\"none\", \"tcp\"]\n",
    );
    world.succeeds(&["matrix", &file, "--inventory", &inventory]);
    let measured = world.newest_run().0.header.matrix.unwrap();
    assert_eq!(measured.trials.len(), 8);
    for tried in &measured.trials {
        let label = measured.matrix.label(&tried.turn.cell);
        let Became::Seen(seen) = &tried.became else { panic!("{label}: {tried:?}") };
        assert_eq!(seen.load.as_ref().is_some_and(|load| load.bits_per_second > 0.0), label.contains("tcp"), "{label}");
        // Two counters that began at other times. 20 ms at either end are on the one way and on the other, and on neither without.
        let (apart, imposed) =
            (seen.probe.apart.as_ref().unwrap(), if label.contains("netem") { 20_000_000 } else { 0 });
        assert!(apart.bound_ns > 0 && apart.forward.summary.samples > 100, "{label}: {} ns", apart.bound_ns);
        for way in [&apart.forward, &apart.back] {
            // Buckets keep three digits.
            assert!(
                way.summary.min_ns + apart.bound_ns + imposed / 1000 >= imposed,
                "{label}: {:?}, known to {} ns",
                way.summary,
                apart.bound_ns
            );
        }
    }
    assert_eq!(settings(), before);
}
