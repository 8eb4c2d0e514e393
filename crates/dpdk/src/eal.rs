//! Starting the environment abstraction layer, and what it has to say.

use crate::{DpdkError, Eal, ffi};
use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;

/// Memory asked for where there are no hugepages, in MiB.
const MEMORY_MIB: &str = "512";
/// Where it keeps files of processes that run.
const RUNTIME: &str = "/var/run/dpdk";

/// With which arguments it was started, and what came of it.
static STARTED: Mutex<Option<(Eal, Result<(), DpdkError>)>> = Mutex::new(None);

/// Starts DPDK, which is possible once per process: again with the same arguments, it says what came of it.
pub fn start(eal: &Eal) -> Result<(), DpdkError> {
    let mut started = STARTED.lock().expect("no holder panics");
    match &*started {
        Some((before, outcome)) if before == eal => outcome.clone(),
        Some(_) => Err(DpdkError::StartedOtherwise),
        None => {
            let outcome = initialise(eal);
            *started = Some((eal.clone(), outcome.clone()));
            outcome
        }
    }
}

fn initialise(eal: &Eal) -> Result<(), DpdkError> {
    let arguments: Vec<CString> = arguments(eal)
        .into_iter()
        .map(|a| CString::new(a).map_err(|_| DpdkError::Start("an argument has a zero byte".into())))
        .collect::<Result<_, _>>()?;
    // It pins the thread that it is started from.
    let thread = std::thread::spawn(move || {
        let mut pointers: Vec<*mut c_char> = arguments.iter().map(|a| a.as_ptr().cast_mut()).collect();
        let count = pointers.len() as i32;
        pointers.push(std::ptr::null_mut());
        // SAFETY: argc and argv as main() gets them; the strings live until the end of the process.
        let failed = unsafe { ffi::usect_dpdk_init(count, pointers.as_mut_ptr()) };
        std::mem::forget(arguments);
        failed
    });
    let outcome = thread.join().expect("starting DPDK does not panic");
    // A folder that it makes and has no use for; the parent only if nobody else uses it.
    let _ = std::fs::remove_dir_all(format!("{RUNTIME}/{}", prefix()));
    let _ = std::fs::remove_dir(RUNTIME);
    match outcome {
        0 => Ok(()),
        errno => Err(DpdkError::Start(why(&log(), errno, eal.hugepages))),
    }
}

/// What tells our files from those of others.
fn prefix() -> String {
    format!("usect-{}", std::process::id())
}

fn arguments(eal: &Eal) -> Vec<String> {
    let mut all: Vec<String> = ["usect", "--no-telemetry", "--file-prefix"].map(str::to_owned).into();
    all.extend([prefix(), "-l".to_owned(), eal.core.to_string()]);
    // Either way it leaves no files behind and shares nothing with other processes.
    let memory: &[&str] =
        if eal.hugepages { &["--in-memory"] } else { &["--no-shconf", "--no-huge", "-m", MEMORY_MIB] };
    all.extend(memory.iter().map(|&argument| argument.to_owned()));
    if eal.pci.is_empty() {
        all.push("--no-pci".to_owned());
    }
    all.extend(eal.pci.iter().flat_map(|address| ["-a".to_owned(), address.clone()]));
    all.extend(eal.arguments.iter().cloned());
    all
}

fn why(log: &str, errno: i32, hugepages: bool) -> String {
    let lacks_pages = ["hugepage", "FATAL: Cannot get", "Cannot init memory", "memory init"];
    if hugepages && lacks_pages.iter().any(|part| log.contains(part)) {
        return "there are not enough free hugepages; reserve some (`sysctl vm.nr_hugepages=256`), or do without \
                (hugepages = false)"
            .into();
    }
    let said = complaint(log).map(|line| line.trim_start_matches("usect: ").to_owned());
    said.unwrap_or_else(|| std::io::Error::from_raw_os_error(-errno).to_string())
}

/// What DPDK has logged since this was last asked.
pub(crate) fn log() -> String {
    let mut text = [0; 4096];
    // SAFETY: the text is terminated within the size given.
    unsafe {
        ffi::usect_dpdk_log(text.as_mut_ptr(), text.len() as u32);
        CStr::from_ptr(text.as_ptr())
    }
    .to_string_lossy()
    .into_owned()
}

/// The first line of a log that isn't mere information, and rather the reason than the verdict.
pub(crate) fn complaint(log: &str) -> Option<String> {
    let informs = |line: &&str| {
        let quiet = ["Detected", "Selected", "Probe", "Using", "No legacy", "No available", "VFIO support", "TSC"];
        !line.trim().is_empty() && !quiet.iter().any(|word| line.contains(word))
    };
    let reason = |line: &&str| informs(line) && !line.contains("FATAL");
    log.lines()
        .find(reason)
        .or_else(|| log.lines().find(informs))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_complaint_is_quoted() {
        let log = "EAL: Detected CPU lcores: 2\nEAL: invalid core list,  please check\nEAL: more\n";
        assert_eq!(complaint(log).unwrap(), "EAL: invalid core list, please check");
        assert_eq!(complaint("EAL: Detected NUMA nodes: 1\n\n"), None);
        assert_eq!(complaint("EAL: FATAL: no\nEAL: lcore 7 unavailable\n").unwrap(), "EAL: lcore 7 unavailable");
        assert_eq!(complaint("EAL: FATAL: no\n").unwrap(), "EAL: FATAL: no");
    }

    #[test]
    fn devices_that_were_not_asked_for_are_left_alone() {
        let eal = Eal { core: 1, hugepages: false, pci: Vec::new(), arguments: vec!["--log-level=8".into()] };
        assert!(arguments(&eal).join(" ").ends_with("-l 1 --no-shconf --no-huge -m 512 --no-pci --log-level=8"));
        let eal = Eal { hugepages: true, pci: vec!["0000:01:00.0".into()], ..eal };
        assert!(arguments(&eal).join(" ").ends_with("-l 1 --in-memory -a 0000:01:00.0 --log-level=8"));
    }
}
