//! Runs that end badly: killed, half done, on a full disk, with a journal that was damaged; and who puts back what they left.

mod common;

use common::{CHILD, child, child_command, journal, namespaces, root, state, unique, wait_for_zombie};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getsid};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use usect_lab::processes::Process;
use usect_lab::survivor::{Survivor, outlive};
use usect_lab::{Lab, LabError, Shape, State, lock, run};

/// This test binary again, as a process that runs `as_survivor` only.
const SURVIVOR: &[&str] = &["as_survivor", "--exact", "--nocapture", "--test-threads=1"];

/// Not a test: the process that puts back what a child of the tests leaves, whose number is its last argument.
#[test]
fn as_survivor() {
    let Some(pid) = std::env::args().next_back().and_then(|last| last.parse().ok()) else { return };
    outlive(pid).unwrap();
    State::from_env().recover().unwrap();
}

/// Not a test: what the tests' child processes do, with USECT_STATE set.
#[test]
fn as_child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let (task, lab) = order.split_once(' ').unwrap();
    match task {
        "up" => hold(Lab::up(lab, Shape::Dut, 1500).unwrap()),
        "survived" => hold((Survivor::start(SURVIVOR).unwrap(), Lab::up(lab, Shape::Dut, 1500).unwrap())),
        "lock" => hold(lock().unwrap()),
        "churn" => churn(lab),
        "unprivileged" => println!("said: {}", Lab::up(lab, Shape::Dut, 1500).unwrap_err()),
        other => panic!("{other}"),
    }
}

fn hold<T>(_held: T) {
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// Up and down again and again, until killed somewhere on the way.
fn churn(lab: &str) {
    println!("ready");
    loop {
        drop(Lab::up(lab, Shape::Dut, 1500).unwrap());
    }
}

#[test]
fn what_a_killed_run_left_is_removed() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    let mut child = child("up", &state, &name);
    let pid = child.child.id();
    assert!(state.recover().unwrap().is_empty(), "it is alive");
    let listed = state.list().unwrap();
    assert_eq!((listed[0].owner, listed[0].alive, namespaces(&name).len()), (Some(pid), true, 3));
    child.kill();
    wait_for_zombie(pid);
    assert!(!state.list().unwrap()[0].alive, "a zombie owns nothing");
    let said = state.recover().unwrap();
    assert_eq!(said, [format!("removed lab {name:?}, which process {pid} left when it was killed")]);
    assert!(namespaces(&name).is_empty() && journal(&state).is_empty() && state.recover().unwrap().is_empty());
}

/// The process that waits for another one's death.
fn survivor_of(pid: u32) -> u32 {
    let waits = |other: &u32| {
        let line = fs::read_to_string(format!("/proc/{other}/cmdline")).unwrap_or_default();
        line.contains(&format!("\0{}\0", SURVIVOR[0])) && line.ends_with(&format!("\0{pid}\0"))
    };
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(waits).unwrap()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_a_killed_run_left_is_removed_at_once_or_by_the_next_start_where_its_survivor_was_killed_too() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    for survives in [true, false] {
        let name = unique();
        let mut child = child("survived", &state, &name);
        let survivor = survivor_of(child.child.id());
        let gone = || until("the survivor has ended", || Process::living(survivor).is_none());
        if !survives {
            kill(Pid::from_raw(survivor as i32), Signal::SIGKILL).unwrap();
            gone();
        }
        child.kill();
        gone();
        wait_for_zombie(child.child.id());
        let left = if survives { 0 } else { 3 };
        assert_eq!((namespaces(&name).len(), state.recover().unwrap().len()), (left, left.min(1)));
        assert!(namespaces(&name).is_empty() && journal(&state).is_empty());
    }
}

#[test]
fn a_survivor_keeps_nothing_open_takes_no_signals_and_is_gone_after_a_clean_end() {
    let file = tempfile::tempfile().unwrap();
    // As a shell hands it on.
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let before = (SigSet::thread_get_mask().unwrap(), sched_getaffinity(Pid::from_raw(0)).unwrap());
    let survivor = Survivor::start(SURVIVOR).unwrap();
    assert_eq!(before, (SigSet::thread_get_mask().unwrap(), sched_getaffinity(Pid::from_raw(0)).unwrap()));
    let pid = survivor.pid();
    let cores = sched_getaffinity(Pid::from_raw(pid as i32)).unwrap();
    assert_eq!((0..CpuSet::count()).filter(|core| cores.is_set(*core).unwrap()).count(), 1);
    let open = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let own = Pid::from_raw(pid as i32);
    until("nothing of ours is open in it", || open() == 3 && getsid(Some(own)).unwrap() == own);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    let blocked = u64::from_str_radix(blocked, 16).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGTSTP] {
        assert_ne!(blocked & 1 << (signal as u32 - 1), 0, "{signal}");
        kill(own, signal).unwrap();
    }
    assert!(Process::living(pid).is_some());
    drop(survivor);
    assert_eq!(Process::of(pid), None);
}

#[test]
fn a_run_may_be_killed_at_any_moment() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    let mut recovered = 0;
    for round in 0..40_u64 {
        let mut child = child("churn", &state, &name);
        std::thread::sleep(Duration::from_millis(3 * round));
        child.kill();
        wait_for_zombie(child.child.id());
        recovered += state.recover().unwrap().len();
        assert!(namespaces(&name).is_empty() && journal(&state).is_empty(), "round {round}");
    }
    eprintln!("{recovered} of 40 had something to recover");
    assert!(recovered > 0);
}

#[test]
fn a_killed_runs_lab_may_be_made_again_without_recovery() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    drop(child("up", &state, &name));
    assert_eq!(namespaces(&name).len(), 3);
    drop(state.up(&name, Shape::Wire, 1500).unwrap());
    assert!(namespaces(&name).is_empty());
}

#[test]
fn a_pid_that_was_used_again_is_not_the_owner() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let owner = |boot: &str| serde_json::json!({"pid": std::process::id(), "started": 1, "boot": boot});
    let write = |kept: bool, boot: &str| {
        let entry = serde_json::json!({"name": name, "shape": "wire", "mtu": 1500, "kept": kept, "owner": owner(boot)});
        write_journal(&state, &name, &entry.to_string());
    };
    write(true, boot.trim());
    assert!(state.recover().unwrap().is_empty(), "kept labs need no owner");
    write(false, boot.trim());
    assert_eq!(state.recover().unwrap().len(), 1);
    write(true, "an earlier one");
    assert!(state.recover().unwrap()[0].contains("before the host was restarted"));
    assert!(journal(&state).is_empty());
}

fn write_journal(state: &State, name: &str, text: &str) {
    fs::create_dir_all(state.directory().join("usect-labs")).unwrap();
    fs::write(state.directory().join(format!("usect-labs/{name}.json")), text).unwrap();
}

#[test]
fn damaged_journals_and_half_made_labs_are_removed() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    for text in ["", "{\"name\":", "\0\u{1}", "[]", "null"] {
        let name = unique();
        write_journal(&state, &name, text);
        run(None, "ip", &["netns", "add", &format!("{name}-dut")]).unwrap();
        // The mount point of a namespace whose mount is gone.
        fs::write(format!("/run/netns/{name}-rx"), "").unwrap();
        assert_eq!(state.list().unwrap()[0].shape, None);
        let said = state.recover().unwrap();
        assert_eq!(said, [format!("removed lab {name:?}, whose journal file was unreadable")]);
        assert!(namespaces(&name).is_empty() && journal(&state).is_empty(), "{text:?}");
    }
}

#[test]
fn files_that_name_no_lab_remove_no_namespace() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let bystander = unique();
    run(None, "ip", &["netns", "add", &format!("{bystander}-tx")]).unwrap();
    for name in [format!("{bystander} "), format!(".{bystander}"), "-a".to_owned()] {
        write_journal(&state, &name, "{");
    }
    assert_eq!(state.recover().unwrap(), [""; 0]);
    assert_eq!(journal(&state).len(), 3, "a file that is not ours was removed");
    assert_eq!(namespaces(&bystander), [format!("{bystander}-tx")]);
    run(None, "ip", &["netns", "del", &format!("{bystander}-tx")]).unwrap();
}

#[test]
fn processes_inside_are_named() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let name = unique();
    drop(child("up", &state, &name));
    let mut inside = Command::new("ip").args(["netns", "exec", &format!("{name}-dut"), "sleep", "60"]).spawn().unwrap();
    let comm = format!("/proc/{}/comm", inside.id());
    while fs::read_to_string(&comm).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    let said = state.recover().unwrap();
    inside.kill().unwrap();
    let pid = inside.wait().map(|_| inside.id()).unwrap();
    assert!(said[0].ends_with(&format!("still running in it, stop if unwanted: {pid} (sleep)")), "{said:?}");
}

#[test]
fn one_measurement_at_a_time() {
    let (_directory, state) = state();
    let mut child = child("lock", &state, "none");
    let said = state.lock().unwrap_err().to_string();
    assert!(said.starts_with(&format!("process {} (", child.child.id())) && said.contains(") is measuring"), "{said}");
    child.kill();
    child.child.wait().unwrap();
    let held = state.lock().unwrap();
    let said = state.lock().unwrap_err().to_string();
    assert!(said.starts_with(&format!("process {} (", std::process::id())), "{said}");
    drop(held);
    drop(state.lock().unwrap());
}

#[test]
fn without_privilege_it_says_sudo() {
    if !root() {
        return;
    }
    let (_directory, state) = state();
    let copy = tempfile::tempdir_in("/tmp").unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(copy.path(), permissions).unwrap();
    let program = copy.path().join("child");
    // By another process: a child forked meanwhile by another test would hold our writing descriptor, and
    // a program that is open for writing can't be run.
    let own = std::env::current_exe().unwrap();
    run(None, "cp", &[own.to_str().unwrap(), program.to_str().unwrap()]).unwrap();
    let pattern = child_command("unprivileged", &state, "x");
    let mut command = Command::new(program);
    command.args(pattern.get_args()).envs(pattern.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let output = command.uid(65534).gid(65534).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("said: making a lab needs root") && text.contains("sudo"), "{text}");
}

/// A file system of a few pages, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> SmallDisk {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        run(None, "mount", &["-t", "tmpfs", "-o", "size=8k", "usect-test", path]).unwrap();
        SmallDisk(directory)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(None, "umount", &[self.0.path().to_str().unwrap()]).unwrap();
    }
}

#[test]
fn on_a_full_disk_nothing_is_made() {
    if !root() {
        return;
    }
    let disk = SmallDisk::mount();
    let state = State::at(disk.0.path());
    let name = unique();
    let (one, two) = (state.up(&name, Shape::Wire, 1500).unwrap(), unique());
    let _ = fs::write(disk.0.path().join("fill"), [0; 65536]);
    let refused = state.up(&two, Shape::Wire, 1500).unwrap_err();
    assert!(matches!(refused, LabError::File { .. }) && refused.to_string().ends_with("free some space there"));
    assert!(namespaces(&two).is_empty());
    assert_eq!(journal(&state), [format!("{name}.json")]);
    assert!(matches!(one.keep(), Err(LabError::File { .. })), "it can't be written down as kept");
    assert!(namespaces(&name).is_empty() && journal(&state).is_empty());
}
