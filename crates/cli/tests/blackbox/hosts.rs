//! `usect host`: what a test changed on purpose is found, and what `tune` changes is put back, however it ends.

use crate::signals::{command_of, kill_alone, kill_both};
use crate::world::{Started, World, names, until};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use usect_core::profile::Profile;
use usect_testing::skip;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// Everything at once.
const ALL: &str = "isolated+power+quiet+busypoll";

/// Every setting that a profile may touch on this host, by its file, and what it says.
fn settings() -> BTreeMap<PathBuf, String> {
    let single = [
        HUGE_PAGES,
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        "/sys/kernel/mm/ksm/run",
        "/sys/module/pcie_aspm/parameters/policy",
        "/sys/devices/virtual/workqueue/cpumask",
        "/proc/irq/default_smp_affinity",
        "/proc/sys/kernel/numa_balancing",
        "/proc/sys/kernel/watchdog",
        "/proc/sys/kernel/nmi_watchdog",
        "/proc/sys/kernel/soft_watchdog",
        "/proc/sys/kernel/watchdog_cpumask",
        "/proc/sys/kernel/timer_migration",
        "/proc/sys/vm/stat_interval",
        "/proc/sys/vm/compaction_proactiveness",
        "/proc/sys/net/core/busy_read",
        "/proc/sys/net/core/busy_poll",
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "/sys/devices/system/cpu/cpufreq/boost",
    ];
    let below = |folder: &str, file: &str| {
        let of = |name: &String| Path::new(folder).join(name).join(file);
        names(Path::new(folder)).iter().map(of).collect::<Vec<_>>()
    };
    let cpu = "/sys/devices/system/cpu";
    let all = [
        single.map(PathBuf::from).to_vec(),
        below("/proc/irq", "smp_affinity_list"),
        below(cpu, "cpufreq/scaling_governor"),
        below(cpu, "cpufreq/energy_performance_preference"),
        below("/sys/fs/cgroup", "cpuset.cpus"),
        // That of ours is there only while a profile isolates.
        below("/sys/fs/cgroup/cpuset", "cpuset.cpus"),
    ];
    all.concat().into_iter().filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?))).collect()
}

/// Processes that may not run on every core.
fn confined(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

fn changed(before: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
    let now = settings();
    let all = before.keys().chain(now.keys().filter(|path| !before.contains_key(*path)));
    all.filter(|path| before.get(*path) != now.get(*path)).cloned().collect()
}

fn checked(world: &World) -> Vec<Value> {
    let done = world.usect(&["host", "check", "--json"]);
    assert!(matches!(done.code, Some(0 | 3 | 4)), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

fn weight(found: &[Value], subject: &str) -> String {
    let advice =
        found.iter().find(|advice| advice["subject"] == subject).unwrap_or_else(|| panic!("{subject}: {found:?}"));
    advice["weight"].as_str().unwrap().to_owned()
}

/// A file of the kernel's with another content for as long as this lives.
struct Spoiled<'a>(&'a str, String);

impl<'a> Spoiled<'a> {
    fn new(path: &'a str, value: &str) -> Option<Spoiled<'a>> {
        let Ok(before) = fs::read_to_string(path) else {
            skip(&format!("{path} is not there"));
            return None;
        };
        let chosen = before.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
        fs::write(path, value).unwrap();
        Some(Spoiled(path, chosen.unwrap_or(before)))
    }
}

impl Drop for Spoiled<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

#[test]
fn what_was_changed_on_purpose_is_found_and_why_it_matters() {
    let Some(world) = World::new() else { return };
    let before = settings();
    let all = [
        (HUGE_PAGES, "always", "never", "transparent huge pages", "serious"),
        ("/sys/kernel/mm/ksm/run", "1", "0", "same-page merging", "slight"),
        ("/proc/sys/kernel/watchdog", "1", "0", "watchdogs", "slight"),
    ];
    let spoiled: Vec<Spoiled> = all.iter().filter_map(|(path, bad, ..)| Spoiled::new(path, bad)).collect();
    if spoiled.len() < all.len() {
        return;
    }
    let found = checked(&world);
    for (path, bad, good, subject, worse) in all {
        assert_eq!(weight(&found, subject), worse);
        let advice = found.iter().find(|advice| advice["subject"] == subject).unwrap();
        let evidence = advice["evidence"].to_string();
        assert!(evidence.contains(&format!(" = {bad}")), "{evidence}");
        assert!(advice["mend"].is_string() && advice["source"].is_string());
        fs::write(path, good).unwrap();
    }
    let found = checked(&world);
    for (path, _, good, subject, _) in all {
        assert_eq!(weight(&found, subject), "fine", "{path} = {good}");
    }
    drop(spoiled);
    assert_eq!(changed(&before), Vec::<PathBuf>::new(), "the test put its own changes back");
    let text = world.usect(&["host", "check", "--all"]).stdout;
    assert!(text.contains("time stamp counter") && text.contains("source: "), "{text}");
    world.assert_clean();
}

#[test]
fn every_setting_is_as_before_when_the_command_is_done() {
    let Some(world) = World::new() else { return };
    let before = settings();
    let inside = world.path("inside");
    let script = format!("cat {HUGE_PAGES} /proc/sys/vm/stat_interval > {}; exit 7", inside.display());
    let done = world.usect(&["host", "tune", ALL, "--", "sh", "-c", &script]);
    assert_eq!(done.code, Some(7), "the command's own code: {done:?}");
    let seen = fs::read_to_string(inside).unwrap();
    assert!(seen.contains("[never]") && seen.contains("120"), "{seen}");
    // Every wish is told, also what this host can't do.
    for said in
        ["isolated  interrupts go to core", "power     governor performance: ", "quiet     no audit: ", "busypoll"]
    {
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    world.assert_clean();
}

/// A command under every profile at once, that has begun.
fn tuned(world: &World, before: &BTreeMap<PathBuf, String>) -> (Started, Pid) {
    let tune = world.start(&["host", "tune", ALL, "--", "sleep", "600"]);
    // The last thing of all: the command.
    let sleep = until("the command runs", || command_of(tune.pid()));
    assert!(!changed(before).is_empty());
    (tune, Pid::from_raw(sleep))
}

#[test]
fn every_setting_is_as_before_right_after_a_kill() {
    let Some(world) = World::new() else { return };
    let (before, own) = (settings(), confined(1));
    let (mut tune, sleep) = tuned(&world, &before);
    kill_alone(&mut tune);
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    assert_eq!(confined(1), own, "the first process may run where it could");
    kill(sleep, Signal::SIGKILL).unwrap();
    world.assert_clean();
}

#[test]
fn every_setting_is_as_before_after_the_next_start_where_nobody_survived() {
    let Some(world) = World::new() else { return };
    let (before, own) = (settings(), confined(1));
    let (mut tune, sleep) = tuned(&world, &before);
    // Whoever else wants to change something has to wait.
    assert!(world.usect(&["host", "tune", "quiet", "--", "true"]).refused().contains("already"));
    assert!(world.usect(&["host", "check"]).stderr.contains("holds a profile"));
    assert!(world.succeeds(&["host", "restore"]).stdout.contains("puts it back itself"));
    kill_both(&mut tune);
    assert!(!changed(&before).is_empty(), "nobody has put it back yet");
    assert!(world.usect(&["host", "check"]).stderr.contains("a killed run left settings changed"));
    let said = world.succeeds(&["host", "restore"]).stdout;
    assert!(said.contains("put the host's settings back"), "{said}");
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    assert_eq!(confined(1), own, "the first process may run where it could");
    assert!(world.succeeds(&["host", "restore"]).stdout.contains("nothing"));
    kill(sleep, Signal::SIGKILL).unwrap();
    world.assert_clean();
}

#[test]
fn what_can_not_be_put_back_is_told_and_put_back_later() {
    const FILE: &str = "/proc/sys/vm/stat_interval";
    let Some(world) = World::new() else { return };
    let Some(_spoiled) = Spoiled::new(FILE, "2") else { return };
    let before = settings();
    // Something else is in its place, which can't be written.
    let cover = world.file("cover", "7\n");
    let script = format!("mount --bind {cover} {FILE} && mount -o remount,ro,bind {FILE}");
    let done = world.usect(&["host", "tune", "quiet", "--", "sh", "-c", &script]);
    let refused = world.usect(&["host", "tune", "quiet", "--", "true"]);
    assert!(Command::new("umount").arg(FILE).status().unwrap().success());
    assert_eq!(changed(&before), [PathBuf::from(FILE)], "all but that one");
    let said = format!("{FILE} can't be set to 2 again");
    assert!(done.code == Some(0) && done.stderr.contains(&said), "{done:?}");
    assert!(refused.code == Some(2) && refused.stderr.contains("`usect host restore` says why"), "{refused:?}");
    assert!(world.succeeds(&["host", "restore"]).stdout.contains("put the host's settings back"));
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    world.assert_clean();
}

/// A process that does nothing, until this is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_has_cores_of_its_own_is_confined_and_has_them_again() {
    let Some(world) = World::new() else { return };
    let sleeper = Sleeper::new();
    let mut second = CpuSet::new();
    if second.set(1).and_then(|()| sched_setaffinity(Pid::from_raw(sleeper.pid() as i32), &second)).is_err() {
        return skip("this host has one core");
    }
    let inside = world.path("inside");
    let script = format!("grep Cpus_allowed_list: /proc/{}/status > {}", sleeper.pid(), inside.display());
    world.succeeds(&["host", "tune", "isolated", "--", "sh", "-c", &script]);
    assert_eq!(fs::read_to_string(inside).unwrap(), "Cpus_allowed_list:\t0\n");
    assert_eq!(confined(sleeper.pid()), "1");
    world.assert_clean();
}

#[test]
fn who_is_not_reached_by_isolation_is_named() {
    let Some(world) = World::new() else { return };
    let root = Path::new("/sys/fs/cgroup/cpuset");
    if !root.join("cpuset.cpus").exists() {
        return skip("no control groups of version 1 that confine to cores");
    }
    let group = root.join("usect-test");
    fs::create_dir(&group).unwrap();
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::copy(root.join(file), group.join(file)).unwrap();
    }
    let sleeper = Sleeper::new();
    fs::write(group.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
    let done = world.usect(&["host", "tune", "isolated", "--", "true"]);
    let said = format!("done, but not at one place: sleep ({}) is in a control group", sleeper.pid());
    drop(sleeper);
    fs::remove_dir(group).unwrap();
    assert!(done.code == Some(0) && done.stderr.contains(&said), "{}", done.stderr);
    world.assert_clean();
}

#[test]
fn a_signal_ends_the_command_and_everything_is_put_back() {
    let Some(world) = World::new() else { return };
    let before = settings();
    let mut tune = world.start(&["host", "tune", "quiet", "--", "sleep", "600"]);
    until("the command runs", || command_of(tune.pid()));
    tune.signal(Signal::SIGTERM);
    assert_eq!(tune.end().code(), Some(128 + 15), "{}", tune.printed());
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    world.assert_clean();
}

#[test]
fn what_can_not_be_done_is_one_sentence_and_changes_nothing() {
    let Some(world) = World::new() else { return };
    let before = settings();
    for (args, said) in [
        (&["host", "tune", "fast", "--", "true"][..], "there is no profile"),
        (&["host", "tune", "local+remote", "--", "true"], "two nodes"),
        (&["host", "tune", "quiet"], "COMMAND"),
        (&["host", "tune", "remote", "--", "true"], "whose node?"),
        (&["host", "tune", "isolated", "--others", "4095", "--", "true"], "no core 4095"),
        (&["host", "tune", "quiet", "--interface", "none0", "--", "true"], "none0"),
        (&["host", "check", "--cores", "4095"], "no core 4095"),
        (&["host", "check", "--interface", "none0"], "none0"),
    ] {
        let sentence = world.refuses(args);
        assert!(sentence.contains(said), "{args:?}: {sentence}");
    }
    let done = world.usect(&["host", "tune", "quiet", "--", "no-such-command"]);
    assert!(done.code == Some(2) && done.stderr.contains("`no-such-command` can't be started"), "{done:?}");
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    world.assert_clean();
}

#[test]
fn profiles_are_compared_and_what_became_of_them_is_kept() {
    let Some(world) = World::new() else { return };
    let before = settings();
    let scenario = world.scenario("{ kind = \"wire\" }", "{ frame_size = 64, rate = \"1 kpps\" }", &["udp-polling"]);
    let (run, folder) =
        world.compare(&scenario, &["--duration", "0.5", "--profiles", "default,isolated,isolated+quiet"]);
    let labels: Vec<&str> = run.clients.iter().map(|client| client.client.as_str()).collect();
    assert_eq!(labels, ["udp-polling, default", "udp-polling, isolated", "udp-polling, isolated+quiet"]);
    let applied: Vec<Profile> = run.header.profiles.iter().map(|applied| applied.profile).collect();
    assert_eq!(applied, ["isolated", "isolated+quiet"].map(|name| name.parse().unwrap()));
    let wanted = run.header.profiles.iter().flat_map(|applied| &applied.wanted);
    assert!(wanted.clone().all(|wanted| wanted.reason.is_some() == (wanted.refused > 0)));
    assert!(wanted.clone().any(|wanted| wanted.changed > 0));
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Settings of the host") && page.contains("id=\"profile-panels\""));
    // A panel of one client, with three lines.
    for profile in ["default", "isolated", "isolated+quiet"] {
        let settings = format!("\"settings\":{{\"of\":\"udp-polling\",\"profile\":\"{profile}\"}}");
        assert!(page.contains(&settings), "{profile}");
    }
    assert_eq!(changed(&before), Vec::<PathBuf>::new());
    let said = world.refuses(&["compare", &scenario, "--quick", "--profiles", "remote"]);
    assert!(said.contains("name it"), "{said}");
    world.assert_clean();
}
