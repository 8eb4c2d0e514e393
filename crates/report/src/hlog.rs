//! A trial's distributions as an HdrHistogram interval log, format 1.3: one line per distribution,
//! told apart by its tag, so that any HdrHistogram tool reads them. Format: `docs/run-json.md`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::fmt::Write;
use usect_core::histogram::{Histogram, MOST_SAMPLES};
use usect_core::measurement::Measurement;

/// Values are nanoseconds; a log gives the maximum of each interval in milliseconds, by convention.
const NS_PER_MAX_UNIT: f64 = 1e6;

/// A trial as a log holds it.
pub(crate) struct Log<'a> {
    /// When the trial began, seconds since the epoch, if known.
    pub(crate) began_s: Option<f64>,
    /// Length of its measured part, in seconds.
    pub(crate) seconds: f64,
    /// What the client saw.
    pub(crate) client: &'a Measurement,
    /// What the taps saw.
    pub(crate) truth: Option<&'a Measurement>,
}

impl Log<'_> {
    /// The text of the log.
    pub(crate) fn write(&self) -> String {
        let mut text = String::from("#[Histogram log format version 1.3]\n#[Values are nanoseconds]\n");
        for word in ["StartTime", "BaseTime"] {
            if let Some(began) = self.began_s {
                let _ = writeln!(text, "#[{word}: {began:.3} (seconds since epoch)]");
            }
        }
        text.push_str("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n");
        for (tag, histogram) in self.tagged() {
            let encoded = STANDARD.encode(histogram.encode());
            let max = histogram.max() as f64 / NS_PER_MAX_UNIT;
            let _ = writeln!(text, "Tag={tag},0.000,{:.3},{max:.6},{encoded}", self.seconds);
        }
        text
    }

    fn tagged(&self) -> Vec<(&'static str, &Histogram)> {
        let (client, truth) = (self.client, self.truth);
        [
            ("latency", Some(&client.latency)),
            ("touched", Some(&client.touched)),
            ("scheduled", client.scheduled.as_ref()),
            ("lateness", client.lateness.as_ref()),
            ("truth", truth.map(|t| &t.latency)),
            ("truth-touched", truth.map(|t| &t.touched)),
        ]
        .into_iter()
        .filter_map(|(tag, histogram)| Some((tag, histogram?)))
        .collect()
    }
}

/// Most samples of the logs of a run together.
const MOST_TOGETHER: u64 = 8 * MOST_SAMPLES;

/// Reads a log back, as a client's and, where there is one, a truth's measurement that hold nothing
/// but distributions. Tags that we don't know are left out of account. `together` is how many samples the logs of the run have
/// so far, and then with these.
pub(crate) fn read(text: &str, together: &mut u64) -> Result<(Measurement, Option<Measurement>), String> {
    let mut client = Measurement::default();
    let mut truth: Option<Measurement> = None;
    let mut seen_latency = false;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let LogEntry::Interval(line) = entry.map_err(|_| "a line is not of an HdrHistogram log".to_owned())? else {
            continue;
        };
        let histogram = decode(line.encoded_histogram())?;
        *together += histogram.samples();
        if *together > MOST_TOGETHER {
            return Err(format!("with it the run has more samples than can be, over {MOST_TOGETHER}"));
        }
        match line.tag().map(|tag| tag.as_str()) {
            Some("latency") => {
                client.latency.add(&histogram);
                seen_latency = true;
            }
            Some("touched") => client.touched.add(&histogram),
            Some("scheduled") => client.scheduled.get_or_insert_default().add(&histogram),
            Some("lateness") => client.lateness.get_or_insert_default().add(&histogram),
            Some("truth") => truth.get_or_insert_default().latency.add(&histogram),
            Some("truth-touched") => truth.get_or_insert_default().touched.add(&histogram),
            _ => {}
        }
    }
    if seen_latency { Ok((client, truth)) } else { Err("it has no line tagged latency".to_owned()) }
}

fn decode(encoded: &str) -> Result<Histogram, String> {
    let bytes = STANDARD.decode(encoded).map_err(|e| format!("a histogram is not in base64 ({e})"))?;
    Histogram::decode(&bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    fn measurement(values: &[u64]) -> Measurement {
        let mut m = Measurement::default();
        values.iter().for_each(|&v| m.latency.record(v));
        values.iter().filter(|&&v| v > 10_000).for_each(|&v| m.touched.record(v));
        m.lateness = Some(m.touched.clone());
        m
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_any_tool_reads_it(
            seen in proptest::collection::vec(0_u64..60_000_000_000, 0..200),
            tapped in proptest::option::of(proptest::collection::vec(0_u64..1_000_000, 0..50)),
        ) {
            let (client, truth) = (measurement(&seen), tapped.as_deref().map(measurement));
            let text = Log { began_s: Some(1e9), seconds: 8.0, client: &client, truth: truth.as_ref() }.write();
            let (client_back, truth_back) = read(&text, &mut 0).unwrap();
            prop_assert_eq!(&client_back.latency, &client.latency);
            prop_assert_eq!(&client_back.touched, &client.touched);
            prop_assert_eq!(&client_back.lateness, &client.lateness);
            prop_assert_eq!(client_back.scheduled, None);
            prop_assert_eq!(truth_back.map(|t| t.latency), truth.map(|t| t.latency));

            let mut first = None;
            for entry in IntervalLogIterator::new(text.as_bytes()) {
                if let LogEntry::Interval(line) = entry.unwrap() {
                    first.get_or_insert(line);
                }
            }
            let bytes = STANDARD.decode(first.unwrap().encoded_histogram()).unwrap();
            let standard: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            prop_assert_eq!(standard.len() as usize, seen.len());
        }

        #[test]
        fn any_text_is_refused_or_read(text in "(Tag=latency,)?.{0,80}\n?") {
            let _ = read(&text, &mut 0);
        }
    }

    #[test]
    fn a_log_without_latency_is_refused() {
        assert!(read("#[Histogram log format version 1.3]\n", &mut 0).is_err());
    }
}
