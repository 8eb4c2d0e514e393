//! Metrics for Prometheus: one representation, the messages of its client data model, and two encodings of
//! it. Text is what every scraper reads; only the messages carry native histograms, whose buckets are a
//! percent wide, while those of text are three to a decade.

mod latency;
mod message;
mod text;

use message::{LabelPair, Metric, MetricFamily, MetricType, Value};
use prost::Message;
use usect_core::histogram::Histogram;

/// The media type of the messages and the parameters that tell them from others of that type.
const PROTOBUF: &str = "application/vnd.google.protobuf";
const DELIMITED: [&str; 2] = ["proto=io.prometheus.client.metricfamily", "encoding=delimited"];

/// How metrics are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Exposition format 0.0.4: lines of text, latency in classic buckets.
    Text,
    /// `io.prometheus.client.MetricFamily` messages, each after its length: latency in classic and in native
    /// buckets.
    Protobuf,
}

impl Format {
    /// What suits an `Accept` header (RFC 9110, section 12.5.1): [`Format::Protobuf`] where it is listed by
    /// its own name and preferred no less than text, else [`Format::Text`], also where that isn't listed.
    pub fn accepted(accept: Option<&str>) -> Format {
        let accept = accept.unwrap_or_default().to_ascii_lowercase();
        let ranges: Vec<Range> = accept.split(',').map(Range::read).collect();
        // The most specific range that text is in gives its quality.
        let text = ["text/plain", "text/*", "*/*"].into_iter().find_map(|name| quality(&ranges, name, &[]));
        match quality(&ranges, PROTOBUF, &DELIMITED) {
            Some(q) if q > 0.0 && q >= text.unwrap_or(0.0) => Format::Protobuf,
            _ => Format::Text,
        }
    }

    /// The `Content-Type` header of an answer in this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// One media range of an `Accept` header: `type/subtype;name=value;q=0.5`, in lower case.
struct Range<'a> {
    name: &'a str,
    parameters: Vec<String>,
    q: f64,
}

impl Range<'_> {
    fn read(text: &str) -> Range<'_> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let parameters: Vec<String> = parts.map(|p| p.replace([' ', '\t', '"'], "")).collect();
        let q = parameters.iter().find_map(|p| p.strip_prefix("q="));
        // Who asks in a way that we don't understand doesn't ask.
        let q = q.map_or(1.0, |q| q.parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0));
        Range { name, parameters, q }
    }
}

/// The best quality of the ranges of this name with all these parameters.
fn quality(ranges: &[Range], name: &str, parameters: &[&str]) -> Option<f64> {
    let named = |r: &&Range| r.name == name && parameters.iter().all(|p| r.parameters.iter().any(|has| has == p));
    ranges.iter().filter(named).map(|r| r.q).reduce(f64::max)
}

/// Metrics as they stand at one scrape, in the order in which they were added. Each name is added once.
///
/// Names are as Prometheus has them, of `[a-zA-Z0-9_:]` and not beginning with a digit, with the unit and, for
/// a counter, `_total` in them. Help and labels' values are any text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    families: Vec<MetricFamily>,
}

impl Exposition {
    /// A count that only grows, since the process began.
    pub fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.add(name, help, MetricType::Counter, vec![Metric::counter(Vec::new(), value)]);
    }

    /// Counts of several kinds: `values` are pairs of the value of `label` and the count.
    pub fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, f64)]) {
        let metrics = values.iter().map(|&(kind, value)| Metric::counter(vec![LabelPair::new(label, kind)], value));
        self.add(name, help, MetricType::Counter, metrics.collect());
    }

    /// A figure that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.add(name, help, MetricType::Gauge, vec![Metric::gauge(Vec::new(), value)]);
    }

    /// What is told by `labels`, pairs of name and value: a gauge that is always 1.
    pub fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|&(name, value)| LabelPair::new(name, value)).collect();
        self.add(name, help, MetricType::Gauge, vec![Metric::gauge(labels, 1.0)]);
    }

    /// A distribution of nanoseconds, exposed in seconds, in classic buckets (1–2–5 steps from 100 ns to 10 s)
    /// and in native ones (each 1.09 % wider than the one below). A sample counts in the bucket that the
    /// middle of its HdrHistogram bucket is in, so one within 0.1 % of a bound may count on its other side.
    pub fn histogram(&mut self, name: &str, help: &str, latency: &Histogram) {
        let metric = Metric { histogram: Some(latency::buckets(latency)), ..Metric::default() };
        self.add(name, help, MetricType::Histogram, vec![metric]);
    }

    /// The bytes of an answer whose `Content-Type` is that of `format`.
    pub fn encode(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Text => text::write(&self.families).into_bytes(),
            Format::Protobuf => self.families.iter().flat_map(Message::encode_length_delimited_to_vec).collect(),
        }
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metric: Vec<Metric>) {
        self.families.push(MetricFamily { name: name.to_owned(), help: help.to_owned(), kind: kind.into(), metric });
    }
}

impl Metric {
    fn counter(label: Vec<LabelPair>, value: f64) -> Metric {
        Metric { label, counter: Some(Value { value }), ..Metric::default() }
    }

    fn gauge(label: Vec<LabelPair>, value: f64) -> Metric {
        Metric { label, gauge: Some(Value { value }), ..Metric::default() }
    }
}

impl LabelPair {
    fn new(name: &str, value: &str) -> LabelPair {
        LabelPair { name: name.to_owned(), value: value.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Prometheus 2.42's own headers, as it sends them without and with native histograms.
    const CLASSIC: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    fn example() -> Exposition {
        let mut metrics = Exposition::default();
        metrics.counter("usect_frames_total", "Frames sent.", 12.0);
        metrics.counters("usect_lost_total", "Frames lost.", "why", &[("late", 0.0), ("never", 2.0)]);
        metrics.gauge("usect_rate", "Frames per second.", 0.5);
        metrics.info("usect_info", "The binary.", &[("version", "0.1.0"), ("host", "a\"b")]);
        let mut latency = Histogram::default();
        [0, 1, 900_000_000].into_iter().for_each(|ns| latency.record(ns));
        metrics.histogram("usect_latency_seconds", "Round trips.", &latency);
        metrics
    }

    #[test]
    fn every_kind_of_metric_is_in_the_text() {
        let text = String::from_utf8(example().encode(Format::Text)).unwrap();
        let (plain, histogram) = text.split_at(text.find("# HELP usect_latency").unwrap());
        let expected = "\
# HELP usect_frames_total Frames sent.
# TYPE usect_frames_total counter
usect_frames_total 12
# HELP usect_lost_total Frames lost.
# TYPE usect_lost_total counter
usect_lost_total{why=\"late\"} 0
usect_lost_total{why=\"never\"} 2
# HELP usect_rate Frames per second.
# TYPE usect_rate gauge
usect_rate 0.5
# HELP usect_info The binary.
# TYPE usect_info gauge
usect_info{version=\"0.1.0\",host=\"a\\\"b\"} 1
";
        assert_eq!(plain, expected);
        let lines: Vec<&str> = histogram.lines().collect();
        assert_eq!(lines[1], "# TYPE usect_latency_seconds histogram");
        assert_eq!(lines[2], "usect_latency_seconds_bucket{le=\"1e-07\"} 2");
        assert_eq!(lines[23], "usect_latency_seconds_bucket{le=\"1\"} 3");
        assert_eq!(lines[27], "usect_latency_seconds_bucket{le=\"+Inf\"} 3");
        assert_eq!(lines[29], "usect_latency_seconds_count 3");
    }

    #[test]
    fn the_messages_are_read_back() {
        let metrics = example();
        let bytes = metrics.encode(Format::Protobuf);
        let (mut rest, mut families) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
        }
        assert_eq!(families, metrics.families);
    }

    /// Bytes worked out by hand from metrics.proto: what a wrong tag or type would change, however it is read back.
    #[test]
    fn the_messages_are_those_of_the_schema() {
        let mut metrics = Exposition::default();
        metrics.counters("n", "h", "l", &[("v", 1.0)]);
        let one = 1.0_f64.to_le_bytes();
        let label = b"\x0a\x06\x0a\x01l\x12\x01v";
        let counter = [b"\x1a\x09\x09", &one[..]].concat();
        let metric = [b"\x22\x13", &label[..], &counter].concat();
        let family = [b"\x1d\x0a\x01n\x12\x01h\x18\x00", &metric[..]].concat();
        assert_eq!(metrics.encode(Format::Protobuf), family);
    }

    #[test]
    fn prometheus_gets_what_it_asks_for() {
        assert_eq!(Format::accepted(Some(CLASSIC)), Format::Text);
        assert_eq!(Format::accepted(Some(NATIVE)), Format::Protobuf);
    }

    #[test]
    fn text_is_for_everyone_else() {
        let proto = "application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; encoding=delimited";
        let accepted = |header: &str| Format::accepted(Some(&header.replace("PROTO", proto)));
        assert_eq!(Format::accepted(None), Format::Text);
        let text = [
            "",
            "*/*",
            "text/html",
            "PROTO;q=0.2,text/plain;q=0.3",
            "PROTO;q=0.2,text/*",
            "PROTO;q=0",
            "PROTO;q=nan",
            "PROTO;q=7",
            "application/vnd.google.protobuf",
            "application/vnd.google.protobuf;encoding=text",
        ];
        assert_eq!(text.map(accepted), [Format::Text; 10]);
        let protobuf = ["PROTO", "PROTO;q=0.3, text/plain;q=0.3", "*/*;q=0.9, text/plain;q=0.1 ,PROTO ; Q=0.2"];
        assert_eq!(protobuf.map(accepted), [Format::Protobuf; 3]);
    }

    proptest! {
        #[test]
        fn any_header_is_understood_or_left_out(header in r#"([a-z/*;,=" .0-9-]|proto|q=|text/plain|\PC){0,40}"#) {
            let _ = Format::accepted(Some(&header));
            let _ = Format::accepted(Some(&format!("{PROTOBUF};{header}")));
        }
    }
}
