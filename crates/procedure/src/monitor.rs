//! `monitor`: latency of a path all the time, convoys when the user's schedule says so, and alarms (paper 003 §1, §5).

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::{SignedDuration, Timestamp, Zoned};
use std::collections::VecDeque;
use std::str::FromStr;
use usect_core::monitor::{Alarm, Entry, Interval, Start};
use usect_core::shift::{Shift, Shifts};

/// Steps without any arrival after which a path is silent.
const SILENT: u32 = 3;
/// Steps in a row after which a median is above, or below, what the user named.
const STAYS: u32 = 5;
/// Steps whose times are known: more than a shift takes to be certain.
const REMEMBERED: usize = 200;
/// A convoy that is later than this is left out: the path may not be free any more. A frame that is waited for may delay
/// one, a whole interval doesn't.
const LATE: SignedDuration = SignedDuration::from_secs(10);
/// What is due so soon is done now.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// What a step of a running measurement, a second or so, showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// When it began.
    pub at: Timestamp,
    /// Median latency in nanoseconds; `None` where there were too few samples.
    pub median_ns: Option<f64>,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Share of it for which a measuring thread waited for a core.
    pub waited: f64,
}

/// Raises alarms.
#[derive(Debug, Clone, Default)]
pub struct Watchman {
    threshold_ns: Option<u64>,
    shifts: Shifts,
    /// Number of the next step: times of day may be set back.
    number: i64,
    /// The latest steps with a median: number, time, and for which share of it a thread waited.
    latest: VecDeque<(i64, Timestamp, f64)>,
    silent: Lasting,
    high: Lasting,
}

/// Whether something is so, once it has been for some steps, and since when.
#[derive(Debug, Clone, Copy, Default)]
struct Lasting {
    is: bool,
    since: Timestamp,
    /// Steps in a row that say otherwise, and when the first of them was.
    otherwise: u32,
    from: Timestamp,
}

impl Lasting {
    /// A further step; returns whether, and until when, it had been otherwise for long enough to change.
    fn next(&mut self, at: Timestamp, now: bool, steps: u32) -> Option<Timestamp> {
        if now == self.is {
            self.otherwise = 0;
            return None;
        }
        if self.otherwise == 0 {
            self.from = at;
        }
        self.otherwise += 1;
        if self.otherwise < steps {
            return None;
        }
        let before = std::mem::replace(&mut self.since, self.from);
        (self.is, self.otherwise) = (now, 0);
        Some(before)
    }
}

impl Watchman {
    /// Tells shifts, silence and, where it is named, latency above a threshold.
    pub fn new(threshold_ns: Option<u64>) -> Watchman {
        Watchman { threshold_ns, ..Watchman::default() }
    }

    /// What was usual, in nanoseconds, once that is known.
    pub fn level_ns(&self) -> Option<f64> {
        self.shifts.level_ns()
    }

    /// Whether frames leave and none arrives.
    pub fn is_silent(&self) -> bool {
        self.silent.is
    }

    /// An interval of earlier, as if it had been watched; its alarms were raised then.
    pub fn recall(&mut self, interval: &Interval) {
        for (index, median) in interval.medians.iter().enumerate() {
            let later = SignedDuration::try_from_secs_f64(index as f64 * interval.step_s).unwrap_or_default();
            if let Some(ns) = median {
                self.shift_at(interval.at.saturating_add(later).unwrap_or(interval.at), *ns as f64, 0.0);
            }
        }
    }

    /// The next step; returns what somebody should know.
    pub fn next(&mut self, seen: &Seen) -> Vec<Alarm> {
        [self.shift(seen), self.silence(seen), self.above(seen)].into_iter().flatten().collect()
    }

    fn shift(&mut self, seen: &Seen) -> Option<Alarm> {
        self.shift_at(seen.at, seen.median_ns?, seen.waited)
    }

    fn shift_at(&mut self, at: Timestamp, median_ns: f64, waited: f64) -> Option<Alarm> {
        self.latest.push_back((self.number, at, waited));
        if self.latest.len() > REMEMBERED {
            self.latest.pop_front();
        }
        let shift = self.shifts.next(self.number, median_ns);
        self.number += 1;
        let Shift { at: first, from_ns, to_ns, .. } = shift?;
        let since: Vec<_> = self.latest.iter().filter(|(number, ..)| *number >= first).collect();
        let waited = since.iter().map(|(.., share)| share).sum::<f64>() / since.len() as f64;
        Some(Alarm::Shift { at: since[0].1, seen_at: at, from_ns, to_ns, waited })
    }

    fn silence(&mut self, seen: &Seen) -> Option<Alarm> {
        if seen.sent == 0 {
            return None;
        }
        let steps = if self.silent.is { 1 } else { SILENT };
        let began = self.silent.next(seen.at, seen.received == 0, steps)?;
        let at = self.silent.since;
        let after_s = at.duration_since(began).as_secs_f64();
        Some(if self.silent.is { Alarm::Silent { at } } else { Alarm::SilentOver { at, after_s } })
    }

    fn above(&mut self, seen: &Seen) -> Option<Alarm> {
        let (threshold_ns, median_ns) = (self.threshold_ns?, seen.median_ns?);
        self.high.next(seen.at, median_ns > threshold_ns as f64, STAYS)?;
        let at = self.high.since;
        Some(match self.high.is {
            true => Alarm::High { at, threshold_ns, median_ns },
            false => Alarm::HighOver { at, threshold_ns },
        })
    }
}

/// What to recall from a log: intervals since the last start that can't be compared with this one, the oldest first; none
/// where no start says what they are of.
pub fn memory<'a>(log: &'a [Entry], start: &Start) -> Vec<&'a Interval> {
    let mut alike = false;
    let mut intervals = Vec::new();
    for entry in log {
        match entry {
            Entry::Start(earlier) => {
                alike = earlier.is_like(start);
                if !alike {
                    intervals.clear();
                }
            }
            Entry::Interval(interval) if alike => intervals.push(&**interval),
            _ => {}
        }
    }
    intervals
}

/// When convoys are sent: a cron expression in the host's time zone, of five fields, or six where the first is seconds.
#[derive(Debug, Clone)]
pub struct Calendar(Cron);

impl FromStr for Calendar {
    type Err = String;

    fn from_str(text: &str) -> Result<Calendar, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|e| {
            format!("`{text}` is no cron expression ({e}): write minute, hour, day, month and weekday, as in '*/10 2-4 * * *'")
        })?;
        let calendar = Calendar(cron);
        match calendar.next(&Zoned::new(Timestamp::UNIX_EPOCH, jiff::tz::TimeZone::UTC)) {
            Some(_) => Ok(calendar),
            None => Err(format!("`{text}` names no time that ever comes")),
        }
    }
}

impl std::fmt::Display for Calendar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'", self.0.as_str())
    }
}

impl Calendar {
    /// The first time after `now`.
    pub fn next(&self, now: &Zoned) -> Option<Zoned> {
        self.0.find_next_occurrence(now, false).ok()
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Measure latency for so long.
    Latency(SignedDuration),
    /// Send a convoy.
    Convoy,
}

/// Latency all the time, in intervals; a convoy when one is due.
#[derive(Debug, Clone)]
pub struct Rota {
    interval: SignedDuration,
    calendar: Option<Calendar>,
    due: Option<Zoned>,
    /// When it was asked the last time.
    asked: Zoned,
    left: Option<SignedDuration>,
}

impl Rota {
    /// From `now` on, for ever or for `lasts`.
    pub fn new(
        interval: SignedDuration,
        calendar: Option<Calendar>,
        lasts: Option<SignedDuration>,
        now: &Zoned,
    ) -> Rota {
        let due = calendar.as_ref().and_then(|calendar| calendar.next(now));
        Rota { interval, calendar, due, asked: now.clone(), left: lasts }
    }

    /// What to do from `now` on, `passed` after it was asked the last time, by a clock that nobody sets; nothing when its
    /// time is over. A convoy whose time passed while something else was done, or the clock was set, is left out.
    pub fn next(&mut self, now: &Zoned, passed: SignedDuration) -> Option<Duty> {
        self.left = self.left.map(|left| left - passed);
        if self.left.is_some_and(|left| left < SOON) {
            return None;
        }
        let was_set_back = *now < self.asked;
        self.asked = now.clone();
        let until = |due: &Option<Zoned>| due.as_ref().map(|due| now.duration_until(due));
        if was_set_back || until(&self.due).is_some_and(|due| due < -LATE) {
            self.due = self.calendar.as_ref().and_then(|calendar| calendar.next(now));
        }
        let due = until(&self.due);
        if due.is_some_and(|due| due < SOON) {
            // Behind the one that is begun a little early.
            let from = self.due.take().map_or(now.clone(), |due| due.max(now.clone()));
            self.due = self.calendar.as_ref().and_then(|calendar| calendar.next(&from));
            return Some(Duty::Convoy);
        }
        [Some(self.interval), due, self.left].into_iter().flatten().min().map(Duty::Latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::measurement::Measurement;
    use usect_core::series::Point;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn alarms(watchman: &mut Watchman, steps: impl Iterator<Item = (i64, Option<f64>, u64)>) -> Vec<Alarm> {
        let seen = |(second, median_ns, received)| Seen {
            at: at(second),
            median_ns,
            sent: 100,
            received,
            waited: if second < 40 { 0.0 } else { 0.5 },
        };
        steps.flat_map(|step| watchman.next(&seen(step))).collect()
    }

    #[test]
    fn a_path_is_silent_after_three_seconds_and_back_at_once() {
        let steps = (0..20).map(|s| (s, None, if (5..12).contains(&s) || s == 15 { 0 } else { 100 }));
        let told = alarms(&mut Watchman::new(None), steps);
        assert_eq!(told, [Alarm::Silent { at: at(5) }, Alarm::SilentOver { at: at(12), after_s: 7.0 }]);
    }

    #[test]
    fn latency_that_stays_above_a_threshold_is_told_and_its_end() {
        let high = |s: i64| if (10..30).contains(&s) || s == 3 { 9_000.0 } else { 4_000.0 };
        let told = alarms(&mut Watchman::new(Some(5_000)), (0..60).map(|s| (s, Some(high(s)), 100)));
        let about: Vec<Alarm> = told.into_iter().filter(|alarm| !matches!(alarm, Alarm::Shift { .. })).collect();
        let (threshold_ns, median_ns) = (5_000, 9_000.0);
        let expected =
            [Alarm::High { at: at(10), threshold_ns, median_ns }, Alarm::HighOver { at: at(30), threshold_ns }];
        assert_eq!(about, expected);
    }

    #[test]
    fn a_shift_has_its_time_and_size_also_when_it_came_while_nobody_watched() {
        let wave = |s: i64| 5_000.0 + (s % 5) as f64;
        let watched =
            alarms(&mut Watchman::new(None), (0..60).map(|s| (s, Some(wave(s) + (s / 40) as f64 * 1e3), 100)));
        let [Alarm::Shift { at: since, seen_at, from_ns, to_ns, waited }] = watched[..] else { panic!("{watched:?}") };
        assert_eq!((since, (to_ns - from_ns).round(), waited), (at(40), 1_000.0, 0.5));
        assert!(seen_at.duration_since(since) < SignedDuration::from_secs(30));

        let point =
            |s: i64| Point { at_s: s as f64, samples: 100, p50_ns: Some(wave(s) as i64), p99_ns: None, max_ns: 9_000 };
        let measured = Measurement { series: (0..40).map(point).collect(), ..Measurement::default() };
        let mut restarted = Watchman::new(None);
        restarted.recall(&Interval::of(at(0), 40.0, measured, None));
        let later = alarms(&mut restarted, (1_000..1_020).map(|s| (s, Some(wave(s) + 1e3), 100)));
        assert!(matches!(later[..], [Alarm::Shift { at: since, .. }] if since == at(1_000)), "{later:?}");
    }

    #[test]
    fn convoys_come_when_they_are_due_and_latency_in_between() {
        let begin: Zoned = "2026-11-21T01:58:30[UTC]".parse().unwrap();
        let minute = SignedDuration::from_secs(60);
        let mut rota = Rota::new(minute, Some("*/2 2-3 * * *".parse().unwrap()), Some(minute * 5), &begin);
        let mut now = begin.clone();
        let mut done = Vec::new();
        let mut takes = SignedDuration::ZERO;
        while let Some(duty) = rota.next(&now, takes) {
            takes = if let Duty::Latency(lasts) = duty { lasts } else { SignedDuration::from_millis(700) };
            done.push((now.duration_since(&begin).as_millis(), duty));
            now = now.checked_add(takes).unwrap();
        }
        let latency = |from: i128, ms: i64| (from, Duty::Latency(SignedDuration::from_millis(ms)));
        let expected = [
            latency(0, 60_000),
            latency(60_000, 30_000),
            (90_000, Duty::Convoy),
            latency(90_700, 60_000),
            latency(150_700, 59_300),
            (210_000, Duty::Convoy),
            latency(210_700, 60_000),
            latency(270_700, 29_300),
        ];
        assert_eq!(done, expected);
    }

    #[test]
    fn a_convoy_whose_time_passed_is_left_out_however_the_clock_was_set() {
        let at = |text: &str| format!("2026-11-21T{text}[UTC]").parse::<Zoned>().unwrap();
        let (minute, none) = (SignedDuration::from_secs(60), SignedDuration::ZERO);
        let rota = || Rota::new(minute, Some("0 2-4 * * *".parse().unwrap()), None, &at("01:59:30"));
        let due_at = |rota: &mut Rota, time: &str| rota.next(&at(time), none) == Some(Duty::Convoy);
        let mut late = rota();
        assert!(!due_at(&mut late, "02:00:30") && due_at(&mut late, "03:00:00"));
        let mut forward = rota();
        assert!(!due_at(&mut forward, "14:00:00"));
        let mut back = rota();
        assert!(due_at(&mut back, "02:00:00") && !due_at(&mut back, "01:10:00") && due_at(&mut back, "02:00:05"));
    }

    #[test]
    fn convoys_of_one_night_are_as_many_as_its_hours() {
        // Clocks go back at 3 in this zone, and forward at 2 in spring.
        for (day, hours) in [("2026-10-25", 25), ("2026-03-29", 23), ("2026-11-21", 24)] {
            let calendar: Calendar = "0 * * * *".parse().unwrap();
            let begin: Zoned = format!("{day}T00:00:00[Europe/Berlin]").parse().unwrap();
            let end = begin.checked_add(jiff::Span::new().days(1)).unwrap();
            let mut now = begin;
            let mut times = 0;
            while now < end {
                now = calendar.next(&now).unwrap();
                times += 1;
            }
            assert_eq!(times, hours, "{day}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_calendar_or_refused(text in "[-*/0-9, A-Z#L?]{0,24}") {
            if let Ok(calendar) = text.parse::<Calendar>() {
                let now: Zoned = "2026-11-21T01:58:30[UTC]".parse().unwrap();
                let next = calendar.next(&now);
                proptest::prop_assert!(next.is_none_or(|next| next > now));
            }
        }
    }

    #[test]
    fn only_what_is_alike_is_recalled() {
        let interval = || Entry::Interval(Box::new(Interval::of(at(0), 1.0, Measurement::default(), None)));
        assert!(memory(&[interval(), interval()], &start("mem:a")).is_empty(), "nobody says what it is of");
        let begun = |port| Entry::Start(Box::new(start(port)));
        let log = [begun("mem:a"), interval(), begun("mem:b"), interval(), begun("mem:a"), interval(), interval()];
        assert_eq!(memory(&log, &start("mem:a")).len(), 2);
        assert_eq!(memory(&log[..4], &start("mem:a")).len(), 0);
    }

    fn start(port: &str) -> Start {
        let text = format!(
            "title = \"t\"\ntraffic = {{ frame_size = 64, rate = 100 }}\ndut = {{ kind = \"external\" }}\n[[client]]\nname = \
             \"mem\"\nengine = \"mem\"\ntx = \"{port}\"\nrx = \"{port}\"\n"
        );
        let scenario = usect_core::scenario::Scenario::parse(&text).unwrap();
        let traffic = usect_core::trial::Traffic::of(&scenario.traffic, &scenario.protocol);
        let trial = usect_core::trial::Trial::once(scenario.clients[0].clone(), traffic);
        Start {
            schema: usect_core::monitor::SCHEMA.into(),
            usect: String::new(),
            at: at(0),
            instrument: usect_core::calibration::Key::of(&trial, &scenario),
            scenario,
            writes: None,
            calibration: None,
            environment: Default::default(),
        }
    }

    #[test]
    fn expressions_that_are_none_are_refused() {
        let none = [
            ("often", "no cron expression"),
            ("61 * * * *", "no cron expression"),
            ("0 0 2 1 1 * 2020", "no cron expression"),
            ("0 0 31 2 *", "names no time"),
        ];
        for (text, part) in none {
            let why = text.parse::<Calendar>().unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
