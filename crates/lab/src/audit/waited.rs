//! How long threads of this process waited for a core that something else had.

use super::{names, read};
use std::collections::HashMap;
use std::time::Instant;

/// Reads it again and again.
#[derive(Debug)]
pub struct Waited {
    taken: Instant,
    /// Nanoseconds that each thread waited so far.
    threads: HashMap<String, u64>,
}

impl Default for Waited {
    fn default() -> Waited {
        Waited { taken: Instant::now(), threads: threads() }
    }
}

impl Waited {
    /// Share of the time since the last call for which the thread that waited longest did, other than the main one and that
    /// of metrics, which measure nothing; 0 where the kernel doesn't
    /// tell (it does with `CONFIG_SCHED_INFO`).
    pub fn share(&mut self) -> f64 {
        let (taken, threads) = (Instant::now(), threads());
        let waited = threads.iter().map(|(id, ns)| ns.saturating_sub(self.threads.get(id).copied().unwrap_or(0)));
        let longest = waited.max().unwrap_or(0) as f64;
        let elapsed = taken.duration_since(self.taken).as_nanos().max(1) as f64;
        *self = Waited { taken, threads };
        (longest / elapsed).min(1.0)
    }
}

fn threads() -> HashMap<String, u64> {
    let own = std::process::id().to_string();
    let of = |id: String| {
        if id == own || read(format!("/proc/self/task/{id}/comm")).is_some_and(|name| name == "metrics") {
            return None;
        }
        let text = read(format!("/proc/self/task/{id}/schedstat"))?;
        Some((id, text.split(' ').nth(1)?.parse().ok()?))
    };
    names("/proc/self/task").into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn threads_that_outnumber_the_cores_wait() {
        let stop = AtomicBool::new(false);
        let mut waited = Waited::default();
        let share = std::thread::scope(|scope| {
            let spin = || {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop()
                }
            };
            (0..4 * super::super::online_cores().len()).for_each(|_| drop(scope.spawn(spin)));
            std::thread::sleep(std::time::Duration::from_millis(300));
            let share = waited.share();
            stop.store(true, Relaxed);
            share
        });
        assert!(share > 0.3, "{share}");
    }
}
