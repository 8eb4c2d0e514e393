//! What each core did, and what the hypervisor took, between two moments.

use super::read;
use super::text::Counts;
use std::collections::BTreeMap;
use std::time::Instant;
use usect_core::environment::Environment;

/// Ticks in a second: USER_HZ, the same on every x86-64.
pub(crate) const TICKS: f64 = 100.0;

/// Columns of a `cpuN` line of `/proc/stat`, in ticks. The rest, time of guests, is part of the first two.
const COLUMNS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Columns that are told: who else used the core, and how much of it nobody did.
const TOLD: [(&str, usize); 5] = [("system", 2), ("idle", 3), ("irq", 5), ("softirq", 6), ("steal", 7)];

/// Columns in which a core doesn't work, and in which the hypervisor has it.
const AWAY: [usize; 2] = [3, 4];
const STOLEN: [usize; 1] = [7];

/// A reading of `/proc/stat`, `/proc/interrupts` and `/proc/softirqs`.
#[derive(Debug, Clone)]
pub struct CpuTimes {
    taken: Instant,
    stat: Stat,
    interrupts: Counts,
    softirqs: Counts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stat {
    cores: BTreeMap<usize, [u64; COLUMNS.len()]>,
    context_switches: u64,
}

impl CpuTimes {
    /// Reads them now; takes less than a millisecond on a small host, so keep it out of the measured part.
    pub fn now() -> CpuTimes {
        let text = |path| read(path).unwrap_or_default();
        CpuTimes {
            taken: Instant::now(),
            stat: Stat::parse(&text("/proc/stat")),
            interrupts: Counts::parse(&text("/proc/interrupts")),
            softirqs: Counts::parse(&text("/proc/softirqs")),
        }
    }

    /// What happened since an earlier reading: shares of each core's time (`steal.cpu0 = 0.30%`, and
    /// `irq`, `softirq`, `system`, `idle`), and rates per second (`interrupts.cpu0`, by source in
    /// `interrupts.cpu0.LOC`, `softirqs.cpu0.NET_RX`, and `context_switches` of the whole host).
    pub fn steal_since(&self, earlier: &CpuTimes) -> Environment {
        let seconds = self.taken.duration_since(earlier.taken).as_secs_f64();
        let mut facts = Environment::default();
        for (name, column) in TOLD {
            for (core, share) in self.shares_since(earlier, &[column]) {
                let told = share.map(|share| format!("{:.2}%", 100.0 * share));
                let none = || "n/a: less than a tick has passed".to_owned();
                facts.set(format!("{name}.cpu{core}"), told.unwrap_or_else(none));
            }
        }
        let switches = self.stat.context_switches.saturating_sub(earlier.stat.context_switches);
        facts.set("context_switches", per_second(switches, seconds));
        rates(&mut facts, "interrupts", &self.interrupts, &earlier.interrupts, seconds);
        rates(&mut facts, "softirqs", &self.softirqs, &earlier.softirqs, seconds);
        facts
    }

    /// What share of its time each core was neither idle nor waiting for a disk since an earlier reading. Time that is idle the kernel
    /// measures; work it only samples at its own ticks, and so it misses, or counts several times over, what timers start at the same moment
    /// after each tick. What the hypervisor took of a core while it worked is in it: how much of what it took was of that time, and how much
    /// of the core's waking up, nobody tells. None of cores for which less than a tick has passed.
    pub fn busy_since(&self, earlier: &CpuTimes) -> Vec<(usize, f64)> {
        let away = self.shares_since(earlier, &AWAY);
        away.into_iter().filter_map(|(core, away)| Some((core, 1.0 - away?))).collect()
    }

    /// What share of its time the hypervisor took of each core since an earlier reading, where it tells.
    pub(crate) fn stolen_since(&self, earlier: &CpuTimes) -> Vec<(usize, f64)> {
        let stolen = self.shares_since(earlier, &STOLEN);
        stolen.into_iter().filter_map(|(core, stolen)| Some((core, stolen?))).collect()
    }

    /// Of each core, what share of the time since an earlier reading fell in some columns; none where no tick was counted at all.
    fn shares_since(&self, earlier: &CpuTimes, columns: &[usize]) -> Vec<(usize, Option<f64>)> {
        let passed = TICKS * self.taken.duration_since(earlier.taken).as_secs_f64();
        let sum = |ticks: &mut dyn Iterator<Item = u64>| ticks.fold(0, u64::saturating_add);
        let share = |(core, spent): (usize, Vec<u64>)| {
            let part = sum(&mut columns.iter().map(|column| spent[*column])) as f64;
            let counted = passed >= 1.0 && sum(&mut spent.iter().copied()) > 0;
            (core, counted.then(|| (part / passed).min(1.0)))
        };
        self.stat.spent_since(&earlier.stat).map(share).collect()
    }
}

impl Stat {
    fn parse(text: &str) -> Stat {
        let mut stat = Stat::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let key = words.next().unwrap_or("");
            let mut numbers = words.map(|word| word.parse::<u64>().unwrap_or(0));
            if key == "ctxt" {
                stat.context_switches = numbers.next().unwrap_or(0);
            } else if let Some(Ok(core)) = key.strip_prefix("cpu").map(str::parse) {
                stat.cores.insert(core, std::array::from_fn(|_| numbers.next().unwrap_or(0)));
            }
        }
        stat
    }

    /// Of each core, the ticks in each column since an earlier reading.
    fn spent_since(&self, earlier: &Stat) -> impl Iterator<Item = (usize, Vec<u64>)> {
        self.cores.iter().filter_map(|(core, now)| {
            let then = earlier.cores.get(core)?;
            Some((*core, now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect()))
        })
    }
}

fn per_second(count: u64, seconds: f64) -> String {
    if seconds > 0.0 { format!("{:.1}/s", count as f64 / seconds) } else { "n/a: no time has passed".to_owned() }
}

/// Rates per core, in all and of each source that struck.
fn rates(facts: &mut Environment, what: &str, now: &Counts, then: &Counts, seconds: f64) {
    for core in &now.cores {
        let struck = |source: &String| now.get(source, *core).saturating_sub(then.get(source, *core));
        let counts: Vec<(&String, u64)> = now.rows.keys().map(|source| (source, struck(source))).collect();
        let total = counts.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        facts.set(format!("{what}.cpu{core}"), per_second(total, seconds));
        for (source, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            facts.set(format!("{what}.cpu{core}.{source}"), per_second(count, seconds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const STAT: &str = "cpu  10 0 0 90 0 0 0 0 0 0\ncpu0 5 0 1 80 0 2 3 9 0 0\ncpu7 1 2 3\nintr 5 1 1\nctxt 600\n";

    fn times(stat: &str, interrupts: &str, taken: Instant) -> CpuTimes {
        let (stat, interrupts) = (Stat::parse(stat), Counts::parse(interrupts));
        CpuTimes { taken, stat, interrupts, softirqs: Counts::default() }
    }

    #[test]
    fn lines_of_stat() {
        let stat = Stat::parse(STAT);
        assert_eq!(stat.cores[&0], [5, 0, 1, 80, 0, 2, 3, 9]);
        assert_eq!(stat.cores[&7], [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(stat.context_switches, 600);
    }

    #[test]
    fn shares_and_rates_are_of_the_time_between() {
        let start = Instant::now();
        let first = times(STAT, "CPU0 CPU1\nLOC: 10 20 Local\nRES: 1 1 x\n", start);
        let later = STAT.replace("80 0 2 3 9", "175 0 2 3 14").replace("ctxt 600", "ctxt 700");
        let second = times(&later, "CPU0 CPU1\nLOC: 30 20 Local\nRES: 1 1 x\n", start + Duration::from_secs(1));
        let facts = second.steal_since(&first);
        assert_eq!((facts.get("steal.cpu0"), facts.get("idle.cpu0")), (Some("5.00%"), Some("95.00%")));
        assert_eq!(second.busy_since(&first), [(0, 1.0 - 0.95)], "what was stolen is in it");
        let busy = times("cpu0 15 0 3 120 10 3 3 14\n", "", start + Duration::from_secs(1));
        assert_eq!(busy.busy_since(&first), [(0, 0.5)], "40 idle and 10 waited of 100, whatever the samples say");
        assert_eq!(facts.get("steal.cpu7"), Some("n/a: less than a tick has passed"));
        assert_eq!(facts.get("context_switches"), Some("100.0/s"));
        assert_eq!(facts.get("interrupts.cpu0.LOC"), Some("20.0/s"));
        assert_eq!((facts.get("interrupts.cpu1"), facts.get("interrupts.cpu1.LOC")), (Some("0.0/s"), None));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(a in "(cpu[0-9]*|ctxt|[0-9 \n])*", b in "(CPU[0-9] |[A-Z]+:|[0-9 \n])*", wild in ".*") {
            let (first, second) = (times(&a, &b, Instant::now()), times(&wild, &b, Instant::now()));
            second.steal_since(&first);
            first.steal_since(&second);
        }
    }
}
