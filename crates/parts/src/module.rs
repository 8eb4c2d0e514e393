//! A module of ours in the running kernel, which reads the counter with interrupts off (paper 002 §2.2, experiment 1b). It is compiled
//! against the headers of the running kernel, where they are there, and taken out again when it isn't needed any more.

use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("../kmod/usect_tsc.c");
const MODULE: &std::ffi::CStr = c"usect_tsc";
const FILE: &str = "/proc/usect_tsc";
/// Readings in a row, as the C program has it.
pub const READINGS: usize = 1024;
const READING: usize = size_of::<u64>();

/// The module, as long as it is in the kernel.
pub struct Module {
    /// Closed before the module is taken out.
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Module {
    /// Compiles it and puts it into the kernel. One that a killed run left there is taken out before.
    ///
    /// Errors: why that can't be done, in words that go on after "because".
    pub fn load() -> Result<Module, String> {
        let release = nix::sys::utsname::uname().map_err(|e| format!("the kernel's release can't be read: {e}"))?;
        let headers = Path::new("/lib/modules").join(release.release()).join("build");
        if !headers.join("Makefile").exists() {
            return Err(format!("the headers of this kernel are not at {}", headers.display()));
        }
        let folder = tempfile::tempdir().map_err(|e| format!("there is no room to compile it: {e}"))?;
        let object = compile(&headers, folder.path())?;
        let object = File::open(object).map_err(|e| format!("what was compiled can't be read: {e}"))?;
        remove();
        finit_module(&object, c"", ModuleInitFlags::empty()).map_err(refused)?;
        // From here on it is taken out again, whatever happens.
        let mut module = Module { file: None, bytes: vec![0; READINGS * READING] };
        module.file = Some(File::open(FILE).map_err(|e| format!("{FILE} can't be read: {e}"))?);
        Ok(module)
    }

    /// Readings of the counter, one right after the other, on the core that the caller runs on.
    ///
    /// Errors: of the kernel.
    pub fn read(&mut self) -> io::Result<impl Iterator<Item = u64>> {
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let size = file.read(&mut self.bytes)?;
        if size != self.bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.bytes.as_chunks::<READING>().0.iter().map(|reading| u64::from_ne_bytes(*reading)))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.file = None;
        remove();
    }
}

/// Takes it out; that it isn't there is no fault.
fn remove() {
    let _ = delete_module(MODULE, DeleteModuleFlags::O_NONBLOCK);
}

fn compile(headers: &Path, folder: &Path) -> Result<PathBuf, String> {
    let written = std::fs::write(folder.join("usect_tsc.c"), SOURCE)
        .and_then(|()| std::fs::write(folder.join("Makefile"), "obj-m := usect_tsc.o\n"));
    written.map_err(|e| format!("its source can't be written: {e}"))?;
    let mut make = Command::new("make");
    make.arg("-sC").arg(headers).arg(format!("M={}", folder.display()));
    // No BTF of its own, which would take pahole.
    make.args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]).stdin(Stdio::null());
    let made = make.output().map_err(|e| format!("make can't be run: {e}"))?;
    if made.status.success() {
        return Ok(folder.join("usect_tsc.ko"));
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let line = said.lines().find(|line| line.contains("rror")).or(said.lines().last()).unwrap_or("it says nothing");
    Err(format!("it can't be compiled against {}: {}", headers.display(), line.trim()))
}

fn refused(error: Errno) -> String {
    match error {
        Errno::EPERM => "this kernel lets nobody put modules in (modules_disabled, or locked down)".into(),
        Errno::EKEYREJECTED | Errno::ENOKEY => "this kernel takes signed modules only".into(),
        Errno::ENOSYS => "this kernel has no modules".into(),
        Errno::ENOEXEC => "the headers are not those of the running kernel".into(),
        other => format!("the kernel refuses it: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_do_not_compile_are_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Makefile"), "modules:\n\t@echo 'fatal error: no such header' >&2; false\n")
            .unwrap();
        let work = tempfile::tempdir().unwrap();
        let why = compile(folder.path(), work.path()).unwrap_err();
        assert!(why.ends_with("fatal error: no such header") && why.contains("compiled against"), "{why}");
    }
}
