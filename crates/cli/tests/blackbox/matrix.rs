//! `usect matrix`: every combination is measured or named, and what goes wrong in one cell leaves the others. That a known delay is found where
//! it is shows in the guest of `make test-hw`, whose time is free of noise (`hardware.rs`).

use crate::signals::{kill_alone, kill_both};
use crate::world::{World, mount_tmpfs, until};
use nix::mount::umount;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use usect_core::matrix::{Became, Measured, Seen};
use usect_core::run::Run;
use usect_testing::{cases, skip};

/// A short one that varies what is said.
fn matrix(world: &World, vary: &str, runs: u32) -> String {
    let text = format!(
        "title = \"a test\"\n[quick]\nwarmup_s = 1\nduration_s = 1\nruns = {runs}\n[probe]\nping_ms = 50\n[vary]\n{vary}\n"
    );
    world.file("matrix.toml", &text)
}

/// A world in which the programs are that every cell takes.
fn world() -> Option<World> {
    let world = World::new()?;
    let there = |program: &str| {
        usect_lab::run(None, program, &["-V"]).is_ok() || usect_lab::run(None, program, &["-v"]).is_ok()
    };
    match ["iperf3", "ping"].into_iter().find(|program| !there(program)) {
        None => Some(world),
        Some(program) => {
            skip(&format!("{program} is not there: `make deps-test` installs it"));
            None
        }
    }
}

fn measured(run: &Run) -> &Measured {
    run.header.matrix.as_ref().unwrap()
}

/// What was seen in cells of a label.
fn seen<'a>(measured: &'a Measured, label: &str) -> Vec<&'a Seen> {
    let own = measured.trials.iter().filter(|tried| measured.matrix.label(&tried.turn.cell) == label);
    own.filter_map(|tried| if let Became::Seen(seen) = &tried.became { Some(&**seen) } else { None }).collect()
}

/// Why cells of a label weren't measured.
fn why<'a>(measured: &'a Measured, label: &str) -> &'a Became {
    let own = measured.trials.iter().find(|tried| measured.matrix.label(&tried.turn.cell) == label);
    &own.unwrap_or_else(|| panic!("no {label}")).became
}

#[test]
fn latency_load_and_cost_are_measured_together() {
    let Some(world) = world() else { return };
    for &(paths, cells) in cases(&[("\"bridge\"", 6), ("\"direct\", \"bridge\"", 12)]) {
        let vary = format!(
            "offloads = [\"tso on gso on gro on\", \"tso off gso off gro off\"]\nqueue = [\"pfifo limit 500\"]\npath = [{paths}]\n\
             load = [\"none\", \"tcp 2\", \"udp 20M\"]"
        );
        world.succeeds(&["matrix", &matrix(&world, &vary, 1), "--quick"]);
        let (run, folder) = world.newest_run();
        assert_eq!(measured(&run).trials.len(), cells);
        assert_measured_together(measured(&run));
        let page = fs::read_to_string(folder.join("report.html")).unwrap();
        // The figure is of what a switch adds.
        assert!(
            page.contains("What moves what") && page.contains("Figure 12 of paper 004") == paths.contains("direct")
        );
    }
    world.assert_clean();
}

/// What holds of every cell with or without a load, and with or without what puts segments together.
fn assert_measured_together(measured: &Measured) {
    for tried in &measured.trials {
        let label = measured.matrix.label(&tried.turn.cell);
        let Became::Seen(seen) = &tried.became else { panic!("{label}: {tried:?}") };
        let counts = &seen.probe.counts;
        assert!(counts.sent == 1_000 && counts.received + counts.lost == counts.sent, "{label}: {counts:?}");
        assert!(seen.ping.sent >= 10 && seen.queues.len() == 2 && !seen.cores.is_empty(), "{label}: {seen:?}");
        assert!(seen.queues.iter().all(|queue| queue.kind == "pfifo" && queue.looks > 0), "{label}: {:?}", seen.queues);
        let who: Vec<&str> = seen.processes.iter().map(|used| used.who.as_str()).collect();
        assert!(who.contains(&"usect, both ends"), "{label}: {who:?}");
        // One counter told when each probe was where: none can have been there before it left.
        let apart = seen.probe.apart.as_ref().unwrap();
        let there = apart.forward.summary.samples;
        assert_eq!((there, apart.left_out, apart.bound_ns), (counts.received, 0, 0), "{label}");
        if label.contains("none") {
            assert!(seen.load.is_none() && seen.arrived.is_none(), "{label}");
            continue;
        }
        let (load, arrived) = (seen.load.as_ref().unwrap(), seen.arrived.as_ref().unwrap());
        assert!(load.bits_per_second > 1e6, "{label}: {load:?}");
        assert!(arrived.segments >= arrived.packets && arrived.packets > 10, "{label}: {arrived:?}");
        let (udp, tcp) =
            (load.datagrams.is_some() && load.lost.is_some(), load.rtt_us.is_some() && load.retransmits.is_some());
        assert!(udp == label.contains("udp") && tcp == label.contains("tcp"), "{label}: {load:?}");
        assert!(who.contains(&"iperf3, first end") && who.contains(&"iperf3, second end"), "{label}: {who:?}");
        // What an offload put together came as more than one packet over the wire; without any, nothing did.
        if label.contains("off") {
            assert_eq!(arrived.segments, arrived.packets, "{label}");
        } else if label.contains("tcp") {
            assert!(arrived.segments > arrived.packets, "{label}: {arrived:?}");
        }
    }
}

#[test]
fn what_goes_wrong_in_one_cell_leaves_the_others() {
    let Some(world) = world() else { return };
    let vary = "offloads = [\"gro on\", \"warp on\", \"lro on\"]\nqueue = [\"pfifo\", \"pfifo limit lots\"]";
    let done = world.usect(&["matrix", &matrix(&world, vary, 1), "--quick"]);
    assert!(done.code == Some(2) && done.stderr.contains("3 of 6 trials failed, and each says why"), "{done:?}");
    let (run, _) = world.newest_run();
    let measured = measured(&run);
    assert_eq!(seen(measured, "gro on, pfifo").len(), 1);
    let Became::Failed(said) = why(measured, "gro on, pfifo limit lots") else { panic!("{measured:?}") };
    assert!(said.contains("Illegal value for \"limit\""), "{said}");
    let Became::Failed(said) = why(measured, "warp on, pfifo") else { panic!("{measured:?}") };
    assert!(said.contains("no feature \"warp\""), "{said}");
    let Became::Unavailable(said) = why(measured, "lro on, pfifo") else { panic!("{measured:?}") };
    assert!(said.contains("lro of t0 can't be on"), "{said}");
    assert!(
        done.stdout.contains("every cell with offloads warp on: failed, in 2 trials: there is no feature"),
        "{}",
        done.stdout
    );
    world.assert_clean();
}

/// The iperf3 that sends, if one runs in a namespace of a lab.
fn sender() -> Option<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let sends = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.starts_with("iperf3 -J -c 198.18.0.2")
    };
    let mut pids: Vec<u32> = pids.collect();
    pids.retain(sends);
    pids.first().copied()
}

#[test]
fn a_load_that_dies_fails_its_cell_and_a_run_that_was_interrupted_is_gone_on_with() {
    let Some(world) = world() else { return };
    let text =
        "title = \"a test\"\n[quick]\nwarmup_s = 1\nduration_s = 2\nruns = 2\n[vary]\nload = [\"tcp\", \"udp 10M\"]\n";
    let mut run = world.start(&["matrix", &world.file("matrix.toml", text), "--quick"]);
    let mut first = None;
    run.until("it loads", || {
        first = sender();
        first.is_some()
    });
    kill(Pid::from_raw(first.unwrap() as i32), Signal::SIGKILL).unwrap();
    run.until("the next one loads", || sender().is_some_and(|pid| Some(pid) != first));
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code(), Some(130), "{}", run.printed());
    let (stored, folder) = world.newest_run();
    let failed = &measured(&stored).trials[0].became;
    assert!(matches!(failed, Became::Failed(why) if why.contains("iperf3")), "{failed:?}");
    assert!(stored.header.partial.is_some() && measured(&stored).trials.len() < 4);
    assert!(run.printed().contains("matrix --resume"), "{}", run.printed());
    let before = measured(&stored).trials.clone();
    let folder = folder.to_str().unwrap().to_owned();
    let done = world.usect(&["matrix", "--resume", &folder]);
    assert_eq!(done.code, Some(0), "the one that failed is tried again: {done:?}");
    let (stored, _) = world.newest_run();
    let trials = &measured(&stored).trials;
    assert_eq!((trials.len(), &trials[..before.len() - 1]), (4, &before[1..]));
    assert_eq!(stored.header.resumed.len(), 1);
    let sentence = world.usect(&["matrix", "--resume", &folder]).refused();
    assert!(sentence.contains("was not interrupted"), "{sentence}");
    world.assert_clean();
}

#[test]
fn on_a_full_disk_a_trial_has_failed_and_the_rest_goes_on() {
    let Some(world) = world() else { return };
    let disk = world.path("disk");
    fs::create_dir(&disk).unwrap();
    // A page alone takes more.
    mount_tmpfs(&disk, "256k");
    let file = matrix(&world, "mtu = [1500, 1400]", 1);
    let done = world.usect(&["matrix", &file, "--quick", "--out", disk.to_str().unwrap()]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let failed = done.stderr.lines().filter(|line| line.contains("failed: it could not be stored")).count();
    let last = done.stderr.lines().last().unwrap();
    assert!(failed == 2 && last.starts_with("usect: ") && last.contains("No space left"), "{done:?}");
    umount(&disk).unwrap();
    world.assert_clean();
}

#[test]
fn what_a_killed_matrix_started_is_ended_at_once_or_by_the_next_start() {
    let Some(world) = world() else { return };
    let file = matrix(&world, "path = [\"bridge\"]\nload = [\"tcp\"]", 1);
    let started = || {
        let mut run = world.start(&["matrix", &file, "--quick", "--duration", "600"]);
        run.until("it loads", || sender().is_some());
        run
    };
    kill_alone(&mut started());
    until("nobody loads any more", || sender().is_none().then_some(()));
    world.assert_clean();
    kill_both(&mut started());
    let said = world.succeeds(&["host", "restore"]).stdout;
    assert!(said.contains("ended iperf3, which a killed run had started"), "{said}");
    until("nobody loads any more", || sender().is_none().then_some(()));
    world.assert_clean();
}

#[test]
fn what_is_no_matrix_is_one_sentence() {
    let Some(world) = world() else { return };
    let scenario = world.scenario("{ kind = \"wire\" }", "{ frame_size = 64, rate = \"1 kpps\" }", &["udp-polling"]);
    let sentence = world.refuses(&["matrix", &scenario]);
    assert!(sentence.contains("`usect compare"), "{sentence}");
    let sentence = world.refuses(&["compare", &matrix(&world, "path = [\"direct\"]", 1)]);
    assert!(sentence.contains("`usect matrix"), "{sentence}");
    let file = matrix(&world, "path = [\"wifi\"]", 1);
    for (args, said) in [
        (&["matrix"][..], "<FILE>"),
        (&["matrix", "/none.toml"], "can't be read"),
        (&["matrix", &file], "no path \"wifi\""),
        (&["matrix", "--resume", "/none"], "/none"),
        (&["matrix", &file, "--runs", "0"], "--runs"),
        (&["matrix", &file, "--duration", "soon"], "`soon` is not a number"),
    ] {
        let sentence = world.refuses(args);
        assert!(sentence.contains(said), "{args:?}: {sentence}");
    }
}
