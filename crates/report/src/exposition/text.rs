//! Exposition format 0.0.4: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use super::message::{Histogram, LabelPair, MetricFamily, MetricType};
use std::fmt::Write;

/// The text of all families.
pub(super) fn write(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families {
        let (name, help) = (&family.name, escaped(&family.help));
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind(family.kind()));
        for metric in &family.metric {
            for value in metric.gauge.iter().chain(&metric.counter) {
                sample(&mut text, name, &metric.label, value.value);
            }
            metric.histogram.iter().for_each(|h| histogram(&mut text, name, &metric.label, h));
        }
    }
    text
}

fn kind(kind: MetricType) -> &'static str {
    match kind {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
    }
}

/// The classic buckets; this format has no words for the native ones.
fn histogram(text: &mut String, name: &str, labels: &[LabelPair], histogram: &Histogram) {
    for bucket in &histogram.bucket {
        let le = LabelPair::new("le", &number(bucket.upper_bound));
        sample(text, &format!("{name}_bucket"), &[labels, &[le]].concat(), bucket.cumulative_count as f64);
    }
    sample(text, &format!("{name}_sum"), labels, histogram.sample_sum);
    sample(text, &format!("{name}_count"), labels, histogram.sample_count as f64);
}

fn sample(text: &mut String, name: &str, labels: &[LabelPair], value: f64) {
    let labels: Vec<String> = labels.iter().map(label).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {}", number(value));
}

fn label(label: &LabelPair) -> String {
    format!("{}=\"{}\"", label.name, escaped(&label.value).replace('"', "\\\""))
}

/// What help and labels have in common.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// A number as Go writes it (`%g`), and so Prometheus where it makes labels of our messages' bounds: a bucket
/// must be the same series whichever format it came in.
fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    match scientific.split_once("e-") {
        Some((digits, exponent)) if value.abs() < 1e-4 => format!("{digits}e-{exponent:0>2}"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unescaped(text: &str) -> String {
        let mut chars = text.chars();
        let mut plain = String::new();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('n')) => plain.push('\n'),
                ('\\', Some(escaped @ ('\\' | '"'))) => plain.push(escaped),
                ('\\', other) => panic!("{other:?} is no escape"),
                (c, _) => plain.push(c),
            }
        }
        plain
    }

    proptest! {
        #[test]
        fn any_label_keeps_its_line_and_its_quotes(value in r#"(\PC|\\|"|\n){0,20}"#) {
            let written = label(&LabelPair::new("l", &value));
            prop_assert!(!written.contains('\n'));
            let inside = written.strip_prefix("l=\"").and_then(|w| w.strip_suffix('"')).unwrap();
            let bare = inside.replace("\\\\", "").replace("\\\"", "");
            prop_assert!(!bare.contains('"'));
            prop_assert_eq!(unescaped(inside), value);
        }

        #[test]
        fn a_number_is_read_as_it_was(value in any::<f64>()) {
            let read: f64 = number(value).parse().unwrap();
            prop_assert!(read == value || (read.is_nan() && value.is_nan()));
        }
    }

    #[test]
    fn help_keeps_its_quotes_and_its_line() {
        let help = "a \"b\"\nc\\d".to_owned();
        let family = MetricFamily { name: "n".to_owned(), help, kind: MetricType::Gauge.into(), metric: Vec::new() };
        assert_eq!(write(&[family]), "# HELP n a \"b\"\\nc\\\\d\n# TYPE n gauge\n");
    }

    #[test]
    fn numbers_are_as_go_writes_them() {
        let texts = [0.0, 1e-7, 2.5e-5, 0.0001, 0.02, 10.0, 123456789.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let go = ["0", "1e-07", "2.5e-05", "0.0001", "0.02", "10", "123456789", "+Inf", "-Inf", "NaN"];
        assert_eq!(texts.map(number), go);
    }
}
