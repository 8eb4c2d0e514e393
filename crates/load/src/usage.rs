//! What cores and processes did between two moments, as the kernel accounts for it (proc(5)), in ticks of 10 ms: of cores, what they were not idle.

use std::time::Instant;
use usect_core::matrix::Used;
use usect_lab::audit::CpuTimes;
use usect_lab::processes::Process;

/// A process that is watched.
#[derive(Debug, Clone)]
pub struct Who {
    /// Its name for the reader.
    pub name: String,
    /// Its process.
    pub pid: u32,
}

/// What was so at the beginning.
pub struct Usage {
    begun: Instant,
    cores: CpuTimes,
    processes: Vec<(f64, Who)>,
}

impl Usage {
    /// From now on, of all cores and of some processes.
    pub fn begin(processes: Vec<Who>) -> Usage {
        let worked = |who: &Who| Process::of(who.pid).map_or(0.0, |process| process.worked());
        let processes = processes.into_iter().map(|who| (worked(&who), who)).collect();
        Usage { begun: Instant::now(), cores: CpuTimes::now(), processes }
    }

    /// Up to now: of the cores, and of the processes that are still there.
    pub fn end(self) -> (Vec<Used>, Vec<Used>) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let cores = CpuTimes::now().busy_since(&self.cores);
        let cores = cores.into_iter().map(|(core, share)| Used { who: core.to_string(), share }).collect();
        let used = |(before, who): (f64, Who)| {
            let worked = Process::of(who.pid)?.worked() - before;
            Some(Used { who: who.name, share: worked.max(0.0) / seconds })
        };
        (cores, self.processes.into_iter().filter_map(used).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_spins_is_seen() {
        let usage = Usage::begin(vec![
            Who { name: "us".into(), pid: std::process::id() },
            Who { name: "nobody".into(), pid: 0 },
        ]);
        let worked = || Process::of(std::process::id()).unwrap().worked();
        let (begun, before) = (Instant::now(), worked());
        while worked() < before + 0.2 && begun.elapsed().as_secs() < 60 {}
        let (cores, processes) = usage.end();
        assert!(processes.len() == 1 && processes[0].who == "us" && processes[0].share > 0.0, "{processes:?}");
        assert!(
            cores.iter().all(|core| (0.0..=1.0).contains(&core.share)) && cores.iter().any(|core| core.share > 0.0),
            "{cores:?}"
        );
    }
}
