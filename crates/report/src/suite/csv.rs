//! The figures of a suite as CSV: a line for each, so that any tool can select and join them.

use usect_core::findings::{Findings, Repeated, SizeFindings};

/// Names of the columns.
const HEAD: &str = "client,frame_size,benchmark,loss_ratio,load_percent,load_fps,loopback,figure,unit,mean,low,high,median,least,most,repetitions,at_least";

/// A figure's place.
#[derive(Default)]
struct At {
    loss_ratio: Option<f64>,
    load_percent: Option<u32>,
    load_fps: Option<f64>,
    loopback: bool,
    /// Whether the figure has no upper bound: nothing that was tried was too much.
    at_least: bool,
}

/// The whole file.
pub(crate) fn of(findings: &Findings) -> String {
    let mut text = format!("{HEAD}\n");
    for client in &findings.clients {
        for size in &client.sizes {
            let mut sheet = Lines { text: &mut text, client: &client.client, bytes: size.frame_size.with_fcs() };
            sheet.of_size(size);
        }
    }
    text
}

struct Lines<'a> {
    text: &'a mut String,
    client: &'a str,
    bytes: u16,
}

impl Lines<'_> {
    fn of_size(&mut self, size: &SizeFindings) {
        self.exact("throughput", &At::default(), "line", "fps", Some(size.line_fps));
        self.exact("throughput", &At::default(), "offered", "fps", size.offered_fps);
        for found in &size.throughput {
            let open = found.above_fps.is_none();
            let at = At { loss_ratio: Some(found.loss_ratio), at_least: open, ..At::default() };
            self.line("throughput", &at, "throughput", "fps", &found.fps);
            self.line("throughput", &at, "above", "fps", &found.above_fps);
            self.line("throughput", &at, "forwarded", "fps", &found.forwarded_fps);
            self.exact("throughput", &at, "trials", "trials", Some(f64::from(found.trials)));
            self.exact("throughput", &at, "trial_time", "s", Some(found.trial_s));
        }
        for found in &size.latency {
            let (percent, fps) = (Some(found.percent), Some(found.fps));
            let at = At { load_percent: percent, load_fps: fps, loopback: found.loopback, ..At::default() };
            let figures = [
                ("tagged", &found.tagged_ns),
                ("typical", &found.typical_ns),
                ("worst", &found.worst_ns),
                ("mean", &found.mean_ns),
                ("p50", &found.median_ns),
                ("p99.9", &found.p999_ns),
                ("pdv", &found.pdv_ns),
            ];
            figures.into_iter().for_each(|(name, value)| self.line("latency", &at, name, "ns", value));
            let frames =
                [("sent", found.sent), ("lost", found.lost), ("own_lost", found.own_lost), ("stamped", found.stamped)];
            frames.into_iter().for_each(|(name, n)| self.exact("latency", &at, name, "frames", Some(n as f64)));
        }
        for found in &size.loss {
            let at = At { load_percent: Some(found.percent), load_fps: Some(found.fps), ..At::default() };
            self.line("loss", &at, "loss", "share", &Some(found.share.clone()));
        }
        if let Some(found) = &size.back_to_back {
            let at = At { load_fps: Some(found.fps), at_least: found.unlimited > 0, ..At::default() };
            self.line("back-to-back", &at, "burst", "frames", &Some(found.frames.clone()));
            self.line("back-to-back", &at, "above", "frames", &found.above);
            self.exact("back-to-back", &at, "implied", "s", Some(found.implied_s));
            self.exact("back-to-back", &at, "corrected", "s", found.corrected_s);
            self.exact("back-to-back", &at, "buffer", "frames", found.buffer_frames);
        }
        if let Some(found) = &size.recovery {
            let at = At { load_fps: Some(found.overload_fps), ..At::default() };
            self.line("recovery", &at, "recovery", "s", &found.seconds);
        }
        if let Some(found) = &size.reset {
            let at = At { load_fps: Some(found.fps), ..At::default() };
            self.line("reset", &at, "reset", "s", &found.seconds);
            self.line("reset", &at, "by_loss", "s", &found.lost_s);
        }
    }

    fn exact(&mut self, benchmark: &str, at: &At, figure: &str, unit: &str, value: Option<f64>) {
        self.line(benchmark, at, figure, unit, &value.and_then(|value| Repeated::of(vec![value])));
    }

    fn line(&mut self, benchmark: &str, at: &At, figure: &str, unit: &str, value: &Option<Repeated>) {
        let Some(value) = value else { return };
        let text = |value: Option<String>| value.unwrap_or_default();
        let cells = [
            quoted(self.client),
            self.bytes.to_string(),
            benchmark.to_owned(),
            text(at.loss_ratio.map(|ratio| ratio.to_string())),
            text(at.load_percent.map(|percent| percent.to_string())),
            text(at.load_fps.map(|fps| fps.to_string())),
            at.loopback.to_string(),
            figure.to_owned(),
            unit.to_owned(),
            value.mean.value.to_string(),
            text(value.has_interval().then(|| value.mean.low.to_string())),
            text(value.has_interval().then(|| value.mean.high.to_string())),
            value.median.value.to_string(),
            value.median.low.to_string(),
            value.median.high.to_string(),
            value.values.len().to_string(),
            at.at_least.to_string(),
        ];
        self.text.push_str(&cells.join(","));
        self.text.push('\n');
    }
}

/// A name, as RFC 4180 has it.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!((quoted("xdp"), quoted("a,\"b\"")), ("xdp".into(), "\"a,\"\"b\"\"\"".into()));
    }
}
