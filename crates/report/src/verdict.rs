//! What a reader should take away of each client, in one sentence.

use crate::format;
use usect_core::run::{ClientRecord, Header};
use usect_core::stall::DISTURBED;
use usect_core::stats::{self, Accuracy, Estimate};

/// `accurate to within 2 µs up to p99, 200 µs up to p99.999`.
pub(crate) fn of(client: &ClientRecord) -> String {
    let counts = &client.measured.counts;
    if counts.received == 0 {
        return format!("nothing arrived of {} frames sent", format::count(counts.sent));
    }
    if let Some(doubt) = &client.doubt {
        return format!("its error is unknown: {doubt}");
    }
    if client.errors.is_empty() {
        return "no truth was taken, so its error is unknown".to_owned();
    }
    match bounds(&client.accuracy) {
        Some(bounds) => format!("accurate to within {bounds}"),
        None => "no bound on its error: the sample supports no percentile".to_owned(),
    }
}

/// The same of the samples that no stall touched, where stalls were seen and that says something else.
pub(crate) fn clean(client: &ClientRecord) -> Option<String> {
    let clean = stats::accuracies(&client.errors_clean);
    if client.measured.stalls.is_empty() || clean == client.accuracy {
        return None;
    }
    Some(format!("Untouched by stalls: within {}", bounds(&clean)?))
}

/// The first percentile that is `n/a`: `p99.9999 is n/a (needs 3,688,878 samples, has 480,000)`.
pub(crate) fn beyond(client: &ClientRecord) -> Option<String> {
    let latency = &client.measured.latency;
    let has = format::count(latency.samples);
    let lacking = |estimates: &[Estimate]| estimates.iter().find(|e| e.value.is_none()).copied();
    let says = |what: &str, e: Estimate| format!("{what} is n/a (needs {} samples, has {has})", format::count(e.needs));
    match (lacking(&latency.quantiles), lacking(&client.errors)) {
        // An error needs more samples than the figures that it is made of.
        (own, Some(error)) if own.is_none_or(|own| error.quantile <= own.quantile) => {
            Some(says(&format!("the error of {}", error.quantile), error))
        }
        (own, _) => own.map(|own| says(&own.quantile.to_string(), own)),
    }
}

/// Two bounds at most: the one after which the next costs most, and the one that reaches furthest.
fn bounds(accuracy: &[Accuracy]) -> Option<String> {
    let last = accuracy.last()?;
    let cost = |pair: &[Accuracy]| pair[1].within_ns / pair[0].within_ns;
    // Of equal costs the later one: it reaches further.
    let knee = accuracy.windows(2).max_by_key(|pair| cost(pair)).map(|pair| pair[0]);
    let texts = knee.iter().chain([last]).map(|a| format!("{} up to {}", format::bound(a.within_ns), a.up_to));
    Some(texts.collect::<Vec<_>>().join(", "))
}

/// What must be known before any figure is believed: quick, partial, disturbed.
pub(crate) fn banners(header: &Header) -> Vec<String> {
    let quick = header.quick.then(|| "QUICK: a demonstration, not a result to keep.".to_owned());
    let partial = header.partial.as_ref().map(|why| format!("PARTIAL: {why}"));
    let disturbed = header.platform.iter().filter(|core| core.share() > DISTURBED).map(|core| {
        let place = core.core.map_or("a core".to_owned(), |c| format!("core {c}"));
        let share = format::share(core.share());
        format!("DISTURBED: {place} lost {share} of its time before any traffic; figures may say more of the host than of the path.")
    });
    let resumed = header.resumed.iter().map(|at| {
        format!("RESUMED: it was gone on with at {at}, after it had been interrupted or some of it had failed.")
    });
    let notes = header.notes.iter().map(|note| format!("NOTE: {note}"));
    quick.into_iter().chain(partial).chain(disturbed).chain(resumed).chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use usect_core::stats::LADDER;

    #[test]
    fn the_bounds_that_are_told_are_the_last_cheap_one_and_the_furthest() {
        let of = |list: &[(u64, usize)]| {
            let list: Vec<Accuracy> =
                list.iter().map(|&(within_ns, i)| Accuracy { within_ns, up_to: LADDER[i] }).collect();
            bounds(&list)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(200, 1)]).unwrap(), "200 ns up to p90");
        let kernel = [(200, 1), (500, 4), (50_000, 5), (100_000, 6)];
        assert_eq!(of(&kernel).unwrap(), "500 ns up to p99.99, 100 µs up to p99.9999");
    }
}
