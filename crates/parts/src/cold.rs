//! What the image of `cold/` prints, which reads the counter before any operating system: lines of words, of which those that begin
//! with `usect-cold` are ours. A serial line may lose or garble some; then nothing is believed.

use usect_core::buckets;
use usect_core::histogram::Histogram;

/// What begins each line of ours.
const MARK: &str = "usect-cold";
/// More than that is no gap between two readings.
const LONGEST_NS: f64 = 60e9;

/// What it found.
#[derive(Debug, PartialEq)]
pub struct ColdStart {
    /// Gaps between readings.
    pub gaps: Histogram,
    /// Ticks of the counter in a second, as it found by the timer.
    pub tsc_hz: u64,
    /// The processor.
    pub processor: String,
    /// How long it read.
    pub seconds: f64,
}

/// Reads what it printed.
///
/// Errors: it isn't all there, or doesn't add up.
pub fn parse(text: &str) -> Result<ColdStart, String> {
    let lines: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(MARK)?.1.trim())).collect();
    if lines.is_empty() {
        return Err(format!("no line of {MARK} is in it: is it what the serial line printed?"));
    }
    if let Some(why) = lines.iter().find_map(|line| line.strip_prefix("error ")) {
        return Err(format!("it measured nothing: {why}"));
    }
    let field = |name: &str| {
        let value = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(str::trim).ok_or_else(|| format!("its line `{name}` is missing: boot it again"))
    };
    let number = |name: &str| field(name)?.parse::<u64>().map_err(|_| format!("its line `{name}` is garbled"));
    let (tsc_hz, all, lost) = (number("tsc-hz")?, number("gaps")?, number("lost")?);
    if !(1_000_000..=100_000_000_000).contains(&tsc_hz) {
        return Err(format!("a counter at {tsc_hz} Hz is none"));
    }
    let (mut gaps, mut ticks) = (Vec::new(), 0_u64);
    for line in lines.iter().filter_map(|line| line.strip_prefix("gap ")) {
        let words: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        let Some(&[gap, count]) = words.as_deref() else { return Err(format!("a line of gaps is garbled: {line:?}")) };
        let ns = gap as f64 * 1e9 / tsc_hz as f64;
        if ns > LONGEST_NS || count > all {
            return Err(format!("a line of gaps is garbled: {line:?}"));
        }
        ticks = ticks.saturating_add(gap.saturating_mul(count));
        gaps.push((buckets::index(ns.round() as u64), count));
    }
    let gaps = Histogram::from_buckets(gaps);
    if !lines.contains(&"end") {
        return Err("it stops in the middle: wait for its last line, `end`".into());
    }
    if gaps.samples() + lost != all {
        return Err(format!("{} of {all} gaps are in it: lines were lost", gaps.samples()));
    }
    if lost > 0 {
        return Err(format!("{lost} gaps were too long to be kept, and too many: something else used the processor"));
    }
    let processor = field("processor").unwrap_or("unknown").to_owned();
    Ok(ColdStart { gaps, tsc_hz, processor, seconds: ticks as f64 / tsc_hz as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRINTED: &str = "SeaBIOS\r\nusect-cold processor Some CPU\r\nusect-cold tsc-hz 2500000000\r\nusect-cold gaps 4\r\n\
                           usect-cold gap 18 3\r\nusect-cold gap 25 1\r\nusect-cold lost 0\r\nusect-cold end\r\n";

    #[test]
    fn what_it_prints_is_read() {
        let found = parse(PRINTED).unwrap();
        assert_eq!((found.gaps.samples(), found.gaps.min(), found.gaps.max()), (4, 7, 10));
        assert_eq!((found.tsc_hz, found.processor.as_str()), (2_500_000_000, "Some CPU"));
    }

    #[test]
    fn what_is_not_all_there_is_refused() {
        let refused = |from: &str, to: &str| parse(&PRINTED.replace(from, to)).unwrap_err();
        assert!(refused("usect-cold", "usect").contains("no line"));
        assert!(refused("usect-cold end\r\n", "").contains("in the middle"));
        assert!(refused("gap 25 1", "gap 25 0").contains("lines were lost"));
        assert!(refused("gap 25 1", "gap 2x 1").contains("garbled"));
        assert!(refused("tsc-hz 2500000000", "tsc-hz 0").contains("is none"));
        assert!(refused("tsc-hz", "hz").contains("missing"));
        assert!(refused("gap 25 1\r\nusect-cold lost 0", "lost 1").contains("too long"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(usect-cold |gap |tsc-hz |readings |end|[0-9]{1,3}|\n| |.)*") {
            let _ = parse(&text);
        }
    }
}
