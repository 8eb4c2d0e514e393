//! What can't be done: one sentence on standard error, exit code 2, nothing left behind.

use crate::world::{CLIENTS, Done, World, done, mount_tmpfs, names, read_run};
use nix::mount::umount;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const WIRE: &str = "{ kind = \"wire\" }";
const TRAFFIC: &str = "{ frame_size = 64, rate = \"10 kpps\" }";

/// Refuses, and the sentence has each of these parts.
fn refuses(world: &World, args: &[&str], parts: &[&str]) {
    let sentence = world.refuses(args);
    for part in parts {
        assert!(sentence.contains(part), "{args:?}: {sentence:?} lacks {part:?}");
    }
    assert!(world.runs().is_empty(), "{args:?} left a run folder");
}

#[test]
fn nothing_that_is_quoted_steers_the_terminal() {
    let Some(world) = World::new() else { return };
    let sentence = world.refuses(&["report", "no\x1b[2Jthing\u{9b}31m"]);
    assert!(sentence.contains("no\\u001b[2Jthing\\u009b31m"), "{sentence:?}");
    assert!(!sentence.contains(['\x1b', '\u{9b}']), "{sentence:?}");
}

#[test]
fn what_a_scenario_loads_into_dpdk_is_refused_where_nobody_is_there() {
    let Some(world) = World::new() else { return };
    let scenario = "title = \"t\"\ntraffic = { frame_size = 64, rate = \"1 kpps\" }\ndut = { kind = \"external\" }\n\
                    dpdk = { eal = [\"-d\", \"/tmp/evil\\u001b[2K.so\"] }\n\
                    [[client]]\nname = \"dpdk\"\nengine = \"dpdk\"\ntx = \"dpdk:net_ring0\"\nrx = \"dpdk:net_ring0\"\n";
    let file = world.file("foreign.toml", scenario);
    for command in ["compare", "sweep", "rfc2544", "monitor"] {
        let parts = ["`-d /tmp/evil\\u001b[2K.so`", "nobody is there to confirm it: add --yes"];
        refuses(&world, &[command, &file], &parts);
    }
}

#[test]
fn a_log_that_memory_does_not_hold() {
    let Some(world) = World::new() else { return };
    let day = world.file("2026-11-21.jsonl", "");
    // A terabyte of nothing, which takes no room.
    fs::File::options().write(true).open(&day).unwrap().set_len(1 << 40).unwrap();
    let folder = Path::new(&day).parent().unwrap();
    let parts = ["1 days in 1099.5 GB, takes about 2199.0 GB of memory, and ", "copy the days that matter"];
    refuses(&world, &["report", folder.to_str().unwrap()], &parts);
}

#[test]
fn ports_that_are_none() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "p"]);
    let good = ("xdp:t0@p-tx", "xdp:r0@p-rx");
    for (tx, rx, parts) in [
        ("warp:t0@p-tx", good.1, &["no engine `warp`", "udp, packet, xdp, dpdk, mem, kernel"][..]),
        ("t0", good.1, &["ENGINE:INTERFACE"]),
        (good.0, good.0, &["the same port", "two ends"]),
        ("dpdk:", "dpdk:net_ring0", &["can't be a device"]),
        ("dpdk:net_nope0", "dpdk:net_ring0", &["net_nope0"]),
        ("dpdk:0000:ff:1f.7", "dpdk:net_ring0", &["no PCI device", "lspci"]),
        ("xdp:t9@p-tx", good.1, &["no interface \"t9\"", "namespace \"p-tx\"", "t0"]),
        ("xdp:nope", good.1, &["no interface \"nope\"", "lo"]),
        ("xdp:t0@nowhere", good.1, &["no network namespace \"nowhere\"", "ip netns list"]),
        (good.0, "kernel:r0@p-rx", &["xdp engine", "kernel", "one engine"]),
        ("udp:198.18.0.1:9000@p-tx", "udp:198.18.0.2:9001@p-tx", &["one namespace", "two"]),
        ("udp:127.0.0.1:9000", "udp:127.0.0.1:9001", &["one namespace"]),
        ("udp:t0@p-tx", "udp:198.18.0.2:9001@p-rx", &["IPv4 address"]),
        ("udp:198.18.0.77:9000@p-tx", "udp:198.18.0.2:9001@p-rx", &["198.18.0.77"]),
        ("udp:198.18.0.1:9000@p-tx", "udp:198.18.0.2:9001@nowhere", &["nowhere"]),
    ] {
        refuses(&world, &["measure", "--tx", tx, "--rx", rx, "--runs", "1", "--duration", "0.1"], parts);
    }
    world.succeeds(&["lab", "down", "p"]);
    world.assert_clean();
}

#[test]
fn interfaces_that_do_not_fit() {
    let Some(world) = World::new() else { return };
    world.succeeds(&["lab", "up", "p"]);
    for engine in ["udp", "xdp", "kernel"] {
        let [tx, rx] = match engine {
            "udp" => ["udp:198.18.0.1:9000@p-tx".to_owned(), "udp:198.18.0.2:9001@p-rx".to_owned()],
            _ => [format!("{engine}:t0@p-tx"), format!("{engine}:r0@p-rx")],
        };
        let args = ["measure", "--tx", &tx, "--rx", &rx, "--size", "9000", "--runs", "1", "--duration", "0.1"];
        refuses(&world, &args, &["9000 bytes", "MTU", "1500"]);
        let args = ["measure", "--tx", &tx, "--rx", &rx, "--tx-core", "999", "--runs", "1", "--duration", "0.1"];
        refuses(&world, &args, &["no core 999", "usable are"]);
    }
    Command::new("ip").args(["-n", "p-rx", "link", "set", "r0", "down"]).status().unwrap();
    refuses(&world, &["measure", "--tx", "xdp:t0@p-tx", "--rx", "xdp:r0@p-rx"], &["`r0` is down"]);
    world.succeeds(&["lab", "down", "p"]);
    world.assert_clean();
}

#[test]
fn flags_that_are_none() {
    let Some(world) = World::new() else { return };
    let ports = ["measure", "--tx", "kernel:lo", "--rx", "kernel:other"];
    for (flags, parts) in [
        (&["--size", "12"][..], &["12", "64 to 9018"][..]),
        (&["--size", "big"], &["64 to 9018"]),
        (&["--rate", "fast"], &["fast", "is not a rate"]),
        (&["--rate", "0"], &["rate"]),
        (&["--wait", "maybe"], &["maybe", "poll, block"]),
        (&["--wait", "block"], &["only the udp engine can wait by blocking"]),
        (&["--runs", "0"], &["runs is a number from 1"]),
        (&["--duration=-1"], &["duration_s) from above 0"]),
        (&["--duration", "NaN"], &["duration_s) from above 0"]),
        (&["--warp"], &["--warp"]),
    ] {
        refuses(&world, &[&ports[..], flags].concat(), parts);
    }
    refuses(&world, &["measure", "--tx", "kernel:lo"], &["--rx"]);
    refuses(&world, &["levitate"], &["levitate"]);
    refuses(&world, &["lab", "up", "../x"], &["no name for a lab"]);
    refuses(&world, &["lab", "up", "--mtu", "3"], &["MTU can't be 3"]);
    world.assert_clean();
}

#[test]
fn scenarios_that_are_none() {
    let Some(world) = World::new() else { return };
    let good = fs::read_to_string(world.scenario(WIRE, TRAFFIC, CLIENTS)).unwrap();
    // Line and column of the mistake, and what is said of it.
    for (from, to, parts) in [
        ("title = \"a test\"", "title = ", &["bad.toml: line 1, column 9: "][..]),
        ("dut = {", "dut = [", &["bad.toml: line 3, column "]),
        ("frame_size = 64", "frame_size = 12", &["bad.toml: line 2, column 26: ", "64 to 9018"]),
        ("frame_size", "framesize", &["bad.toml: line 2, column 13: ", "unknown field `framesize`"]),
        ("\"10 kpps\"", "\"fast\"", &["bad.toml: line 2, column 37: ", "fast", "is not a rate"]),
        ("\"wire\"", "\"rope\"", &["bad.toml: line 3, column ", "`rope`", "xdp-forwarder"]),
        ("\"wire\" }", "\"wire\", colour = 1 }", &["bad.toml: line 3, column ", "unknown field `colour`"]),
        ("engine = \"xdp\"", "engine = \"warp\"", &["bad.toml: line 16, column 10: ", "`warp`"]),
        ("name = \"xdp\"", "name = \"kernel\"", &["bad.toml: line ", "two clients are named `kernel`"]),
        ("name = \"xdp\"", "name = \"../x\"", &["bad.toml: line ", "can't name a client"]),
        ("dut = ", "cores = { sender = 999 }\ndut = ", &["cores.sender", "no core 999"]),
        ("dut = ", "cores = { receiver = 64000 }\ndut = ", &["cores.receiver", "no core 64000"]),
    ] {
        assert!(good.contains(from), "{from}");
        let path = world.file("bad.toml", &good.replacen(from, to, 1));
        refuses(&world, &["compare", &path], parts);
    }
    let path = world.file("good.toml", &good);
    refuses(&world, &["compare", &path, "--client", "warp"], &["no client `warp`", "udp-polling", "kernel"]);
    refuses(&world, &["compare", "nowhere.toml"], &["nowhere.toml", "can't be read", "No such file"]);
    refuses(&world, &["compare", "."], &["can't be read"]);
    fs::write(world.path("binary.toml"), [0xff, 0, 0xfe]).unwrap();
    refuses(&world, &["compare", "binary.toml"], &["binary.toml", "can't be read"]);
    world.assert_clean();
}

#[test]
fn a_rate_beyond_reach() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(WIRE, "{ frame_size = 64, rate = \"5 Mpps\" }", &["udp-blocking"]);
    let args = ["compare", &scenario, "--warmup", "0", "--runs", "1", "--duration", "1"];
    let sentence = world.refuses(&args);
    assert!(sentence.contains("client `udp-blocking`: the rate can't be reached"), "{sentence}");
    let figures: Vec<u64> = sentence.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(figures[0] == 5_000_000 && (1..5_000_000).contains(&figures[1]), "{sentence}");
    assert!(world.runs().is_empty(), "nothing was measured, so nothing is kept");
    world.assert_clean();
}

#[test]
fn a_folder_that_cannot_be_written() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(WIRE, TRAFFIC, &["kernel"]);
    let file = world.file("file", "");
    let sentence = world.refuses(&["compare", &scenario, "--out", &file]);
    assert!(sentence.contains("can't make a folder for the run in") && sentence.contains("file/runs"), "{sentence}");
    world.assert_clean();
}

/// Whichever file the disk is too small for: what is there is whole.
#[test]
fn a_full_disk() {
    let Some(world) = World::new() else { return };
    let scenario = world.scenario(WIRE, TRAFFIC, CLIENTS);
    let disk = world.path("disk");
    fs::create_dir(&disk).unwrap();
    let args = ["compare", &scenario, "--out", "disk", "--warmup", "0", "--duration", "0.1", "--runs", "1"];
    let mut kept = 0;
    for size in ["8k", "64k", "512k"] {
        mount_tmpfs(&disk, size);
        let refused = world.usect(&args);
        assert_eq!(refused.code, Some(2), "{size}: {refused:?}");
        let sentences: Vec<&str> = refused.stderr.lines().filter(|l| l.starts_with("usect: ")).collect();
        assert!(sentences.len() == 1 && sentences[0].contains("No space left on device"), "{size}: {refused:?}");
        kept += whole(&disk.join("runs"), size);
        umount(&disk).unwrap();
        world.assert_clean();
    }
    assert!(kept > 0, "no disk had room for run.json without the page");
}

/// Checks what is in the only run folder; how many there are.
fn whole(runs: &Path, size: &str) -> usize {
    let folders = names(runs);
    for folder in folders.iter().map(|name| runs.join(name)) {
        let files = names(&folder);
        assert!(files.iter().all(|f| ["histograms", "run.json"].contains(&f.as_str())), "{size}: {files:?}");
        assert!(!read_run(&folder).trials.is_empty());
        for log in names(&folder.join("histograms")) {
            assert!(log.ends_with(".hlog"), "{size}: {log}");
        }
    }
    folders.len()
}

/// Runs a copy of the binary as nobody, with a state directory that it may write to or not.
fn as_nobody(world: &World, args: &[&str], writable: bool) -> Done {
    let folder = world.path("nobody");
    fs::create_dir_all(folder.join("state")).unwrap();
    for path in [&world.path("."), &folder] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mode = if writable { 0o777 } else { 0o755 };
    fs::set_permissions(folder.join("state"), fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir_all(folder.join("out")).unwrap();
    fs::set_permissions(folder.join("out"), fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.join("usect");
    fs::copy(env!("CARGO_BIN_EXE_usect"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(args);
    done(command.current_dir(&folder).env("USECT_STATE", folder.join("state")).output().unwrap())
}

#[test]
fn without_privilege() {
    let Some(world) = World::new() else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        usect_testing::skip("setpriv is not installed");
        return;
    }
    let scenario = world.scenario(WIRE, TRAFFIC, CLIENTS);
    for writable in [true, false] {
        for args in [&["compare", &scenario, "--out", "out"][..], &["lab", "up"], &["lab", "down"]] {
            let sentence = as_nobody(&world, args, writable).refused();
            assert!(sentence.contains("sudo"), "{args:?}: {sentence}");
            assert!(names(&world.path("nobody/out")).is_empty(), "{args:?}");
        }
        let engines = as_nobody(&world, &["engines"], writable);
        assert_eq!((engines.code, engines.stderr.as_str()), (Some(0), ""), "{engines:?}");
        for name in ["udp", "packet", "xdp", "dpdk", "kernel", "truth"] {
            let line = engines.stdout.lines().find(|l| l.starts_with(name)).unwrap();
            assert!(matches!(line.split_whitespace().nth(1), Some("no" | "–")) && line.contains("sudo"), "{line}");
        }
        assert_eq!(as_nobody(&world, &["lab", "list"], writable).code, Some(0));
    }
    world.assert_clean();
}
