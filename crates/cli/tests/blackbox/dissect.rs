//! `usect dissect`: rows that are measured, rows that can't be, and what becomes of requests to a server that goes away.

use crate::signals::{kill_alone, kill_both};
use crate::world::{MEMCACHED, World, output, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use usect_core::dissect::{Dissection, Row};
use usect_core::run::Run;
use usect_lab::processes::Process;
use usect_testing::skip;

fn dissected(run: &Run) -> &Dissection {
    run.header.dissect.as_ref().unwrap()
}

fn row<'a>(run: &'a Run, experiment: &str) -> &'a Row {
    dissected(run)
        .rows
        .iter()
        .find(|row| row.experiment == experiment)
        .unwrap_or_else(|| panic!("{experiment}: {run:?}"))
}

/// A world whose loopback is up, as that of every host is.
fn world() -> Option<World> {
    let world = World::new()?;
    output("ip", &["link", "set", "lo", "up"]);
    Some(world)
}

fn has_memcached() -> bool {
    let there = ["/usr", MEMCACHED].iter().any(|prefix| fs::exists(format!("{prefix}/bin/memcached")).unwrap());
    if !there {
        skip("memcached is not there: `make test` unpacks it");
    }
    there
}

/// The process of whose folder in `/proc` that is so, if one runs.
fn process(is: impl Fn(&Path) -> bool) -> Option<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| is(&entry.path())).find_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn holds(file: PathBuf, text: &str) -> bool {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).contains(text)
}

/// The memcached that this process's runs started, if one runs.
fn memcached() -> Option<i32> {
    process(|path| holds(path.join("comm"), "memcached") && holds(path.join("environ"), "USECT_COMPANION=memcached."))
}

/// Seconds that a process worked.
fn worked(pid: u32) -> f64 {
    Process::of(pid).map_or(0.0, |process| process.worked())
}

#[test]
fn every_row_is_measured_or_says_why_not() {
    let Some(world) = world() else { return };
    if !has_memcached() {
        return;
    }
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/datacenter.toml");
    let done = world.succeeds(&["dissect", "--lasts", "300ms", "--topology", topology, "--json"]);
    let run: Run = serde_json::from_str(&done.stdout).unwrap();
    let rows = &dissected(&run).rows;
    let experiments: Vec<&str> = rows.iter().map(|row| row.experiment.as_str()).collect();
    for experiment in ["1a", "1b", "1c", "1d", "2a", "2b", "3a", "4", "5", "6a", "6b", "7", "8a", "8b", "cable"] {
        assert!(
            experiments.contains(&experiment) || (experiment == "3a" && experiments.contains(&"3")),
            "{experiment}: {experiments:?}"
        );
    }
    for row in rows {
        assert!(row.latency.is_some() || row.unavailable.is_some() || row.account.is_some(), "{row:?}");
        let histogram = row.histogram.as_ref().map(|packed| packed.histogram().samples());
        assert_eq!(histogram, row.latency.as_ref().map(|latency| latency.samples));
    }
    for experiment in ["1b", "2a", "4", "5", "6a", "6b", "8a"] {
        assert!(row(&run, experiment).latency.is_some(), "{:?}", row(&run, experiment));
    }
    // One of the two, as the host is a guest or not.
    assert!(row(&run, "1c").latency.is_some() != row(&run, "1d").latency.is_some());
    assert!(row(&run, "7").unavailable.as_ref().unwrap().contains("--nic-tx"));
    assert_eq!(dissected(&run).networks.len(), 4);
    let (stored, folder) = world.newest_run();
    assert_eq!(dissected(&stored), dissected(&run));
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Where has my time gone?") && page.contains("leaf and spine"));
    assert!(world.succeeds(&["report", folder.to_str().unwrap()]).stdout.contains("99.9th"));
    assert_eq!(memcached(), None);
    world.assert_clean();
}

#[test]
fn a_memcached_that_stops_in_the_middle_leaves_every_request_accounted_for() {
    let Some(world) = world() else { return };
    if !has_memcached() {
        return;
    }
    let mut run = world.start(&["dissect", "--only", "6b", "--lasts", "3s"]);
    let mut server = None;
    run.until("memcached runs", || {
        server = memcached();
        server.is_some()
    });
    // Once it is asked: before that, it could not be filled.
    run.until("memcached is asked", || worked(server.unwrap() as u32) > 0.1);
    kill(Pid::from_raw(server.unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(run.end().code(), Some(0), "{}", run.printed());
    let (stored, _) = world.newest_run();
    let row = row(&stored, "6b");
    let why = row.unavailable.as_ref().unwrap_or_else(|| panic!("{}", run.printed()));
    assert!(why.contains("memcached ended in the middle"), "{why}");
    let account = row.account.as_ref().unwrap();
    // `N requests due, A answered, L never answered, U not sent`
    let numbers: Vec<u64> = account.split(", ").map(|part| part.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers[0], numbers[1..].iter().sum::<u64>(), "{account}");
    assert!(account.contains("not sent"), "{account}");
    assert_eq!(row.latency.as_ref().unwrap().samples, numbers[1]);
    world.assert_clean();
}

#[test]
fn a_row_says_who_else_had_the_cores_and_what_was_interrupted_says_so() {
    let Some(world) = world() else { return };
    // Four, so that they take some of the cores of a host that has little left of them.
    let mut busy = [(); 4].map(|()| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let mut run = world.start(&["dissect", "--only", "2a,2b", "--lasts", "600s"]);
    run.until("messages go there and back", || process(|path| holds(path.join("cmdline"), "\0echo\0")).is_some());
    let all = || busy.iter().map(|one| worked(one.id())).sum::<f64>();
    let before = all();
    run.until("others work meanwhile", || all() > before + 1.0);
    run.signal(Signal::SIGINT);
    run.end();
    for one in &mut busy {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    let (stored, _) = world.newest_run();
    let cut = row(&stored, "2a");
    assert!(cut.latency.is_some() && cut.unavailable.as_ref().unwrap().contains("before its time"), "{cut:?}");
    let disturbed = cut.disturbed.as_ref().unwrap();
    assert!(disturbed.contains("other processes took") && disturbed.contains("(most: sh)"), "{disturbed}");
    let left_out = row(&stored, "2b");
    assert!(
        left_out.latency.is_none() && left_out.unavailable.as_ref().unwrap().contains("interrupted"),
        "{left_out:?}"
    );
    assert!(run.printed().contains("DISTURBED"), "{}", run.printed());
    world.assert_clean();
}

#[test]
fn the_memcached_of_a_killed_run_is_ended_at_once_or_by_the_next_one() {
    let Some(world) = world() else { return };
    if !has_memcached() {
        return;
    }
    let started = || {
        let mut run = world.start(&["dissect", "--only", "6b", "--lasts", "600s"]);
        run.until("memcached runs", || memcached().is_some());
        run
    };
    kill_alone(&mut started());
    until("it is gone", || memcached().is_none().then_some(()));
    world.assert_clean();
    kill_both(&mut started());
    assert!(memcached().is_some());
    let said = world.succeeds(&["host", "restore"]).stdout;
    assert!(said.contains("ended memcached, which"), "{said}");
    until("it is gone", || memcached().is_none().then_some(()));
    world.assert_clean();
}

#[test]
fn ports_of_the_users_are_a_card_a_switch_and_cables() {
    let Some(world) = world() else { return };
    for args in [
        &["link", "add", "near", "type", "veth", "peer", "name", "far"][..],
        &["link", "set", "near", "up"],
        &["link", "set", "far", "up"],
    ] {
        output("ip", args);
    }
    let asked = |only| {
        let card = ["--nic-tx", "packet:near", "--nic-rx", "packet:far", "--cables", "1,10,3"];
        [&["dissect", "--only", only, "--lasts", "300ms"][..], &card].concat()
    };
    let switch = ["--switch-tx", "packet:near", "--switch-rx", "packet:far"];
    let done = world.told(&[&asked("7,8,cable")[..], &switch].concat(), "\n1\n10\n\n3\n");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("join packet:near and packet:far by 10 m of cable"), "{done:?}");
    let (run, _) = world.newest_run();
    for experiment in ["7", "8a", "8b"] {
        let row = row(&run, experiment);
        assert!(row.unavailable.is_none() && row.latency.as_ref().unwrap().samples > 1_000, "{row:?}");
    }
    let cable = row(&run, "cable");
    assert!(
        cable.how.contains("1, 10, 3 m") && cable.account.as_ref().unwrap().contains("standard error"),
        "{cable:?}"
    );
    // Whoever doesn't say that it is in is not waited for.
    let done = world.told(&asked("cable"), "1\n");
    assert_eq!(done.code, Some(2), "{done:?}");
    let (run, _) = world.newest_run();
    assert!(row(&run, "cable").unavailable.as_ref().unwrap().contains("the cable of 10 m"), "{run:?}");
    output("ip", &["link", "del", "near"]);
    world.assert_clean();
}

#[test]
fn what_can_not_be_dissected_is_one_sentence() {
    let Some(world) = world() else { return };
    let broken =
        world.file("broken.toml", "[part.x]\nns = -1\nsource = \"\"\n[[network]]\nname = \"n\"\nway = [\"x\"]\n");
    for (args, said) in [
        (&["dissect", "--only", "9z"][..], "no experiment \"9z\""),
        (&["dissect", "--only", ""], "no experiment"),
        (&["dissect", "--lasts", "soon"], "is not a time"),
        (&["dissect", "--nic-tx", "xdp:eth1"], "--nic-rx"),
        (&["dissect", "--nic-tx", "xdp:a", "--nic-rx", "xdp:b", "--cables", "2,2"], "different lengths"),
        (&["dissect", "--cold-start", "/none.txt"], "can't be read"),
        (&["dissect", "--only", "2a,3a", "--no-module"], "--no-module is for experiment 1b"),
        (&["dissect", "--only", "2a", "--nic-tx", "xdp:a", "--nic-rx", "xdp:b"], "which --only leaves out"),
        (&["dissect", "--only", "2ab"], "no experiment"),
        (&["dissect", "--memcached", "nowhere"], "nowhere"),
        (&["dissect", "--memcached-rate", "1 Gbit/s"], "requests per second"),
        (&["dissect", "--nic-tx", "xdp:a", "--nic-rx", "xdp:b", "--cables", "1,two"], "`two` is not a number"),
        (&["dissect", "--topology", "/none.toml"], "can't be read"),
        (&["dissect", "--topology", &broken], "from 0"),
    ] {
        let sentence = world.refuses(args);
        assert!(sentence.contains(said), "{args:?}: {sentence}");
    }
    // An experiment that fails is a row that says so; the others go on.
    world.succeeds(&["dissect", "--only", "3,2a", "--pci", "ffff:ff:ff.f", "--lasts", "50ms"]);
    let (run, _) = world.newest_run();
    assert!(row(&run, "3").unavailable.as_ref().unwrap().contains("no PCI device"), "{run:?}");
    assert!(row(&run, "2a").latency.is_some());
    // Where nothing at all was measured, the code says so too.
    let done = world.usect(&["dissect", "--only", "6b", "--memcached", "127.0.0.1:1", "--lasts", "50ms"]);
    assert!(done.code == Some(2) && done.stderr.contains("nothing was measured"), "{done:?}");
    let (run, _) = world.newest_run();
    assert!(row(&run, "6b").unavailable.as_ref().unwrap().contains("127.0.0.1:1"), "{run:?}");
    world.assert_clean();
}
