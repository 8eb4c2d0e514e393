//! A module of ours in the running kernel, which reads the counter with interrupts off (paper 002 §2.2, experiment 1b). It is compiled
//! against the headers of the running kernel, where they are there, and taken out again: when what holds it is dropped, or after a
//! kill.

use crate::error::LabError;
use crate::group::Group;
use crate::settings::{self, Noted};
use crate::state::State;
use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How it is written down.
const KIND: &str = "module";
const SOURCE: &str = include_str!("../kmod/usect_tsc.c");
const NAME: &str = "usect_tsc";
const MODULE: &std::ffi::CStr = c"usect_tsc";
const FILE: &str = "/proc/usect_tsc";
/// Readings in a row, as the C program has it.
pub const READINGS: usize = 1024;
const READING: usize = size_of::<u64>();
const BLINK: Duration = Duration::from_millis(20);
/// What would change what `make` does.
const INHERITED: [&str; 5] = ["MAKEFLAGS", "MFLAGS", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT"];

/// The module, as long as it is in the kernel.
#[derive(Debug)]
#[must_use = "the module is taken out when this is dropped"]
pub struct Module {
    /// Closed before the module is taken out.
    file: Option<File>,
    bytes: Vec<u8>,
    /// Struck out when it is taken out.
    _noted: Noted,
}

impl Module {
    /// Compiles it and puts it into the kernel. `stop` ends that early.
    ///
    /// Errors: why that can't be done, in words that go on after "because".
    pub fn load(stop: &AtomicBool) -> Result<Module, String> {
        if !Path::new("/proc/modules").exists() {
            return Err("this kernel has no modules".into());
        }
        let release = nix::sys::utsname::uname().map_err(|e| format!("the kernel's release can't be read: {e}"))?;
        let headers = Path::new("/lib/modules").join(release.release()).join("build");
        if !headers.join("Makefile").exists() {
            return Err(format!("the headers of this kernel are not at {}", headers.display()));
        }
        if fs::read_to_string("/proc/sys/kernel/modules_disabled").is_ok_and(|text| text.trim() == "1") {
            return Err("kernel.modules_disabled is set until the next boot".into());
        }
        // In a place of its own, which the next one clears if this one is killed.
        let folder = State::from_env().directory().join(KIND);
        let object = compile(&headers, &folder, stop)
            .and_then(|object| File::open(&object).map_err(|e| format!("{} can't be read: {e}", object.display())));
        let _ = fs::remove_dir_all(&folder);
        let object = object?;
        // Before it is there.
        let noted = settings::note(KIND, None, NAME, NAME).map_err(|e| e.to_string())?;
        finit_module(&object, c"", ModuleInitFlags::empty()).map_err(refused)?;
        let mut module = Module { file: None, bytes: vec![0; READINGS * READING], _noted: noted };
        module.file = Some(File::open(FILE).map_err(|e| format!("{FILE} can't be read: {e}"))?);
        Ok(module)
    }

    /// Reads the counter again and again, on the core that the caller runs on, and hands the readings out.
    ///
    /// Errors: of the kernel.
    pub fn read(&mut self, each: &mut dyn FnMut(u64)) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        file.read_exact_at(&mut self.bytes, 0)?;
        self.bytes.as_chunks::<READING>().0.iter().for_each(|reading| each(u64::from_ne_bytes(*reading)));
        Ok(())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.file = None;
        remove();
    }
}

/// Takes out what a killed run put in; one sentence each.
pub fn recover() -> Result<Vec<String>, LabError> {
    let mut said = Vec::new();
    for stale in settings::stale(KIND)? {
        if remove() {
            said.push(format!("took the kernel module {NAME} out, which a killed run had put in"));
        }
        stale.strike_out()?;
    }
    Ok(said)
}

/// Takes it out; whether it was there.
fn remove() -> bool {
    delete_module(MODULE, DeleteModuleFlags::O_NONBLOCK).is_ok()
}

fn compile(headers: &Path, folder: &Path, stop: &AtomicBool) -> Result<PathBuf, String> {
    let _ = fs::remove_dir_all(folder);
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(folder.join("usect_tsc.c"), SOURCE))
        .and_then(|()| fs::write(folder.join("Makefile"), "obj-m := usect_tsc.o\n"))
        .and_then(|()| File::create(folder.join("said")));
    let said = written.map_err(|e| format!("its source can't be written below {}: {e}", folder.display()))?;
    let mut make = Command::new("make");
    make.arg("-sC").arg(headers).arg(format!("M={}", folder.display()));
    // No BTF of its own, which would take pahole.
    make.args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]).env("LC_ALL", "C");
    for name in INHERITED {
        make.env_remove(name);
    }
    // In a file: a pipe that nobody reads meanwhile would stop it.
    make.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let make = Group::start(&mut make).map_err(|e| format!("make can't be run: {e}"))?;
    let ended = loop {
        match make.ended() {
            Ok(None) if stop.load(Relaxed) => return Err("compiling it was interrupted by the user".into()),
            Ok(None) => std::thread::sleep(BLINK),
            Ok(Some(ended)) => break ended,
            Err(e) => return Err(format!("make can't be waited for: {e}")),
        }
    };
    if ended.success() {
        return Ok(folder.join("usect_tsc.ko"));
    }
    let said = fs::read_to_string(folder.join("said")).unwrap_or_default();
    let line = said.lines().find(|line| line.contains("rror")).or(said.lines().last()).unwrap_or("it says nothing");
    Err(format!("it can't be compiled against {}: {}", headers.display(), line.trim()))
}

fn refused(error: Errno) -> String {
    match error {
        Errno::EPERM => {
            "this process may put no modules in (it lacks CAP_SYS_MODULE), or the kernel is locked down".into()
        }
        Errno::EKEYREJECTED | Errno::ENOKEY => "this kernel takes signed modules only".into(),
        Errno::EEXIST => format!("a module {NAME} is there already: `rmmod {NAME}`"),
        Errno::ENOSYS => "this kernel has no modules".into(),
        Errno::ENOEXEC => "the headers are not those of the running kernel".into(),
        other => format!("the kernel refuses it: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn makefile(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Makefile"), format!("modules:\n\t{text}\n")).unwrap();
        folder
    }

    #[test]
    fn headers_that_do_not_compile_are_told() {
        let (headers, work) =
            (makefile("@echo 'fatal error: no such header' >&2; false"), tempfile::tempdir().unwrap());
        let why = compile(headers.path(), work.path(), &AtomicBool::new(false)).unwrap_err();
        assert!(why.contains("fatal error: no such header") && why.contains("compiled against"), "{why}");
    }

    #[test]
    fn who_does_not_want_to_wait_is_obeyed() {
        let (headers, work) = (makefile("@sleep 600"), tempfile::tempdir().unwrap());
        let why = compile(headers.path(), work.path(), &AtomicBool::new(true)).unwrap_err();
        assert!(why.contains("interrupted"), "{why}");
    }
}
