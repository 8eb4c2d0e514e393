//! Progress on standard error: bars on a terminal, a line per trial elsewhere.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;
use usect_core::printed::on_one_line;
use usect_core::trial::{Trial, TrialResult};
use usect_procedure::Outlook;
use usect_rig::Progress;

/// A bar of 1,000 steps; not to be seen where lines are plain.
pub(crate) fn bar(plain: bool) -> ProgressBar {
    // Drawing costs time on a core that measures: twice a second is enough to be believed.
    let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(2) };
    let bar = ProgressBar::with_draw_target(Some(1000), target);
    let style = ProgressStyle::with_template("{prefix:.bold} [{bar:32}] {msg}").expect("constant template");
    bar.set_style(style.progress_chars("=> "));
    bar
}

/// What a bar is of, in which nothing steers the terminal: names in it are a file's.
pub(crate) fn entitle(bar: &ProgressBar, text: &str) {
    bar.set_prefix(on_one_line(text));
}

/// One bar: the trial within the whole.
pub(crate) struct Bars {
    bar: ProgressBar,
    trials: Option<usize>,
    plain: bool,
}

impl Bars {
    pub(crate) fn new(trials: Option<usize>, plain: bool) -> Bars {
        Bars { bar: bar(plain), trials, plain }
    }

    /// The next trial, `done` before it.
    pub(crate) fn begin(&self, trial: &Trial, done: usize, outlook: Option<Outlook>) {
        let prefix = match outlook {
            Some(outlook) => format!("trial {}: {}{}", done + 1, trial.label(), in_words(&outlook)),
            None => {
                let of = self.trials.map_or(String::new(), |n| format!(" of {n} trials"));
                format!("{} run {}{of}", trial.label(), trial.run)
            }
        };
        entitle(&self.bar, &prefix);
        self.bar.set_position(0);
    }

    pub(crate) fn tick(&self, p: &Progress) {
        self.bar.set_position((1000.0 * p.elapsed_s / p.expected_s.max(1e-9)).min(1000.0) as u64);
        self.bar.set_message(format!("{:.0} of {:.0} s, {} frames sent", p.elapsed_s, p.expected_s, p.sent));
    }

    pub(crate) fn end(&self, result: &TrialResult, outlook: Option<Outlook>) {
        let counts = &result.client.counts;
        let came_to = match (&result.partial, result.client.pace) {
            (Some(_), Some(pace)) if counts.sent == 0 => {
                format!("the sender reached {:.0} pps and gave up", pace.achieved)
            }
            _ => format!("{} frames sent, {} received, {} lost", counts.sent, counts.received, counts.lost),
        };
        let own = counts.lost.min(result.client.overruns.unwrap_or(0));
        let own = if own > 0 { format!(", {own} of them in usect's own queue") } else { String::new() };
        let left = outlook.map_or(String::new(), |outlook| in_words(&outlook));
        let line = format!("{} run {}: {came_to}{own}{left}", result.trial.label(), result.trial.run);
        if self.plain {
            crate::complain(&line);
        } else {
            self.bar.suspend(|| crate::complain(&line));
        }
    }
}

/// `, between 1000 and 2000 pps; about 3 minutes left`.
fn in_words(outlook: &Outlook) -> String {
    let bounds = outlook.bounds.iter().filter(|bounds| !bounds.is_empty()).map(|bounds| format!(", {bounds}"));
    let left = HumanDuration(Duration::from_secs_f64(outlook.left_s.round()));
    format!("{}; about {left} left", bounds.collect::<String>())
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What goes on, on a terminal, in a line that changes.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new() -> Spinner {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(2));
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("constant template"));
        Spinner(bar)
    }

    /// Shows a message, which is made only where somebody sees it.
    pub(crate) fn show(&self, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(on_one_line(&message()));
            self.0.tick();
        }
    }

    /// Says something on standard error.
    pub(crate) fn complain(&self, line: impl std::fmt::Display) {
        self.suspend(|| crate::complain(line));
    }

    /// Steps aside for something else.
    pub(crate) fn suspend<T>(&self, other: impl FnOnce() -> T) -> T {
        self.0.suspend(other)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
