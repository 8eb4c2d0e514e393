//! What about a host costs microseconds, and what became of its settings, in words.

use crate::table::wrapped;
use std::fmt::Write;
use usect_core::advice::{Advice, Weight};
use usect_core::profile::Applied;
use usect_core::run::Header;

/// Advice in text, the worst first, as it is given: what costs something with its evidence and its mend; what is fine, by name
/// unless `all`. No escape codes unless `color`.
pub fn advice(all_advice: &[Advice], all: bool, color: bool) -> String {
    let mut text = String::new();
    let (long, short): (Vec<&Advice>, Vec<&Advice>) =
        all_advice.iter().partition(|advice| all || advice.weight > Weight::Unknown);
    for advice in long {
        let Advice { subject, weight, finding, evidence, mend, source } = advice;
        let _ = writeln!(text, "{} {subject}: {finding}", styled(*weight, color));
        let facts = evidence.iter().map(|fact| ("", fact.as_str()));
        let mend = mend.iter().map(|mend| ("mend:   ", mend.as_str()));
        for (label, said) in facts.chain(mend).chain([("source: ", *source)]) {
            let _ = writeln!(text, "         {label}{said}");
        }
    }
    for weight in [Weight::Unknown, Weight::Fine] {
        let names = short.iter().filter(|advice| advice.weight == weight).map(|advice| named(advice));
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            let _ = writeln!(text, "{}", wrapped(&format!("{weight}: {}", names.join(", "))));
        }
    }
    text
}

/// What became of each thing that the profiles of a run want: the profile, and a sentence.
pub(crate) fn profiles(header: &Header) -> Vec<(String, String)> {
    let of = |applied: &Applied| {
        let profile = applied.profile.to_string();
        applied.wanted.iter().map(|wanted| (profile.clone(), wanted.to_string())).collect::<Vec<_>>()
    };
    header.profiles.iter().flat_map(of).collect()
}

/// Its name, and why nothing is known of it.
fn named(advice: &Advice) -> String {
    match advice.weight {
        Weight::Unknown => format!("{} ({})", advice.subject, advice.finding),
        _ => advice.subject.clone(),
    }
}

fn styled(weight: Weight, color: bool) -> String {
    let code = match weight {
        Weight::Grave => "1;31",
        Weight::Serious => "1;33",
        Weight::Slight => "36",
        Weight::Unknown | Weight::Fine => "2",
    };
    let word = format!("{weight:<8}");
    if color { format!("\x1b[{code}m{word}\x1b[0m") } else { word }
}
