//! What came out of a suite so far.

use super::known::{ATTEMPTS, Known, LEAST, MARGIN, is_stretched, load, loss, own_lost};
use crate::search::{Found, Search};
use std::collections::HashSet;
use usect_core::findings::{
    BackToBack, ClientFindings, Findings, Latency, Loss, Recovery, Repeated, Reset, SizeFindings, Throughput,
};
use usect_core::port_name::Engine;
use usect_core::run::{Record, TrialRecord};
use usect_core::scenario::ClientSpec;
use usect_core::stats::Quantile;
use usect_core::suite::{Benchmark, Deviation, Suite};

/// A line counts as filled from this share of it on.
const FULL: f64 = 0.99;

/// Of every client and size.
pub(super) fn of<'a>(suite: &Suite, clients: &[ClientSpec], each: impl Iterator<Item = Known<'a>>) -> Findings {
    let mut found: Vec<ClientFindings> =
        clients.iter().map(|c| ClientFindings { client: c.name.clone(), sizes: Vec::new() }).collect();
    let each: Vec<Known> = each.collect();
    for known in &each {
        let client = found.iter_mut().find(|findings| findings.client == known.client);
        client.into_iter().for_each(|findings| findings.sizes.push(of_size(known)));
    }
    let mut deviations = suite.deviations();
    deviations.extend(of_host(suite, clients, &found));
    deviations.extend(missing(&each));
    deviations.extend(claimed(&each));
    deviations.sort_by_key(Deviation::place);
    Findings { clients: found, deviations }
}

/// What was asked for and isn't in the figures.
fn missing(each: &[Known]) -> Vec<Deviation> {
    let mut deviations = Vec::new();
    for (benchmark, what) in [(Benchmark::Latency, "streams"), (Benchmark::Recovery, "overloads")] {
        let number: usize = each.iter().map(|known| known.in_vain(benchmark)).sum();
        if number > 0 {
            let what =
                format!("missing {what}: {number}, for the sender didn't offer their load in any of {ATTEMPTS} tries");
            deviations.push(Deviation::new(benchmark.section(), what));
        }
    }
    let picking = each.iter().filter(|known| known.sees_each).flat_map(|known| known.trials(Benchmark::Latency));
    let streams: Vec<&TrialRecord> = picking.filter(|record| record.is_offered()).collect();
    let is_lost = |record: &&&TrialRecord| record.measured.tagged.and_then(|tagged| tagged.first_ns).is_none();
    let lost = streams.iter().filter(is_lost).count();
    if lost > 0 {
        let of = streams.len();
        let what = format!("in {lost} of {of} streams the tagged frame was lost, and has no latency");
        deviations.push(Deviation::new(Benchmark::Latency.section(), what));
    }
    deviations
}

/// What may have been lost by usect itself.
fn claimed(each: &[Known]) -> Vec<Deviation> {
    let told = |benchmark: Benchmark| {
        let trials: Vec<(&Known, &TrialRecord)> =
            each.iter().flat_map(|known| known.trials(benchmark).map(move |record| (known, record))).collect();
        let claims = trials.iter().filter(|(_, record)| own_lost(record) > 0).count();
        let means = match benchmark {
            Benchmark::Throughput | Benchmark::BackToBack => means_for_a_search(&trials),
            _ => "they count as lost".to_owned(),
        };
        let what = format!(
            "in {claims} of {} trials usect's own receive queue claims lost frames, for want of room or for bad checksums; {means}",
            trials.len()
        );
        (claims > 0).then(|| Deviation::new(benchmark.section(), what))
    };
    Benchmark::ALL.into_iter().filter_map(told).collect()
}

/// What such claims did to a search.
fn means_for_a_search(trials: &[(&Known, &TrialRecord)]) -> String {
    let failed: HashSet<_> = trials
        .iter()
        .filter(|(known, record)| known.is_unclear(record) && known.times_unclear(record) >= ATTEMPTS)
        .map(|(known, record)| {
            (known.client, known.size.with_fcs(), record.trial.purpose, load(record), record.trial.traffic.frames)
        })
        .collect();
    let failed = match failed.len() {
        0 => String::new(),
        loads => format!("; {loads} failed by that alone, and the device may do more"),
    };
    format!("no load passes by that: it is tried again, and {ATTEMPTS} times in vain is a failure{failed}")
}

/// Where the host, and not what was asked, is why a suite is not what the RFC says.
fn of_host(suite: &Suite, clients: &[ClientSpec], found: &[ClientFindings]) -> Vec<Deviation> {
    let mut deviations = Vec::new();
    if clients.iter().any(|client| client.engine == Engine::Kernel) {
        deviations.push(Deviation::new("23", "the kernel engine sends no learning frames"));
        deviations.push(Deviation::new(
            "26.2",
            "the kernel engine picks out no tagged frame: latency is that of every frame",
        ));
        for benchmark in [Benchmark::Recovery, Benchmark::Reset].into_iter().filter(|benchmark| suite.has(*benchmark)) {
            let why = format!("the kernel engine counts lost frames and not which they were: no {benchmark}");
            deviations.push(Deviation::new(benchmark.section(), why));
        }
    }
    let tagged = found.iter().flat_map(|client| &client.sizes).flat_map(|size| &size.latency);
    if let Some(least) = tagged.filter_map(|latency| latency.tagged_frames).min().filter(|least| *least < 500) {
        let what = format!("{least} tagged frames of a stream instead of 500");
        deviations.push(Deviation { section: "RFC 8219 §7.2".into(), what });
    }
    for findings in found {
        let client = &findings.client;
        if let Some(sizes) = sizes_of(findings, |size| size.offered_fps.is_some_and(|fps| fps < FULL * size.line_fps)) {
            deviations
                .push(Deviation::new("20", format!("`{client}` can't fill the line with frames of {sizes} bytes")));
        }
        let gaps = |size: &SizeFindings| size.back_to_back.as_ref().is_some_and(|b| b.fps < FULL * size.line_fps);
        if let Some(sizes) = sizes_of(findings, gaps) {
            let what = format!(
                "`{client}` sends bursts of {sizes} bytes at {:.0}% of the rate that it reached, and not with the shortest gaps of the line",
                MARGIN * 100.0
            );
            deviations.push(Deviation::new(Benchmark::BackToBack.section(), what));
        }
    }
    deviations
}

/// The sizes of which something is so, in words; none of none.
fn sizes_of(findings: &ClientFindings, is: impl Fn(&SizeFindings) -> bool) -> Option<String> {
    let those = findings.sizes.iter().filter(|size| is(size));
    let sizes: Vec<String> = those.map(|size| size.frame_size.with_fcs().to_string()).collect();
    (!sizes.is_empty()).then(|| sizes.join(", "))
}

fn of_size(known: &Known) -> SizeFindings {
    let (trials, disturbed, away) = known.disturbed();
    SizeFindings {
        frame_size: known.size,
        line_fps: known.suite.line_fps(known.size),
        offered_fps: known.most().map(|most| most as f64),
        verdict: known.verdict().or_else(|| no_throughput(known)),
        throughput: throughput(known),
        latency: latency(known),
        loss: losses(known),
        back_to_back: back_to_back(known),
        recovery: recovery(known),
        reset: reset(known),
        own_lost: known.own_lost(),
        trials,
        disturbed,
        longest_away: away,
    }
}

/// Where every load loses, the benchmarks at the throughput can't be.
fn no_throughput(known: &Known) -> Option<String> {
    let times = known.suite.throughput.times;
    let none = |repetition: &u32| {
        let found = known.found(*repetition).filter(|(_, over)| *over);
        found.is_some_and(|(found, _)| found.first().is_some_and(|first| first.lower.is_none()))
    };
    let without = (1..=times).filter(none).count();
    let of = if times > 1 { format!(" in {without} of {times} searches") } else { String::new() };
    (without > 0).then(|| {
        format!("every load down to {LEAST} frames a second loses frames{of}, so that there is no throughput, and no latency at it")
    })
}

fn throughput(known: &Known) -> Vec<Throughput> {
    let each: Vec<_> = (1..=known.suite.throughput.times).filter_map(|n| known.found(n)).collect();
    if each.is_empty() {
        return Vec::new();
    }
    let complete = each.len() == known.suite.throughput.times as usize && each.iter().all(|(_, over)| *over);
    let trials: Vec<&TrialRecord> = known.trials(Benchmark::Throughput).collect();
    let seconds = |record: &&TrialRecord| record.trial.traffic.frames as f64 / load(record) as f64;
    let trial_s: f64 = trials.iter().map(seconds).sum();
    let of = |(goal, &loss_ratio): (usize, &f64)| {
        let values = |which: fn(&crate::search::Found) -> Option<f64>| {
            Repeated::of(each.iter().filter_map(|(found, _)| which(&found[goal])).collect())
        };
        Throughput {
            loss_ratio,
            fps: values(|found| found.lower.map(|fps| fps as f64)),
            above_fps: values(|found| found.upper.map(|fps| fps as f64)),
            forwarded_fps: values(|found| found.throughput),
            trials: trials.len() as u32,
            trial_s,
            complete,
        }
    };
    known.suite.loss_ratios.iter().enumerate().map(of).collect()
}

fn latency(known: &Known) -> Vec<Latency> {
    let mut found = Vec::new();
    for loopback in [false, true] {
        for &percent in &known.suite.loads {
            let own = |record: &&TrialRecord| {
                record.trial.case.loopback == loopback
                    && record.trial.purpose.is_some_and(|purpose| purpose.percent == Some(percent))
            };
            let trials: Vec<&TrialRecord> =
                known.trials(Benchmark::Latency).filter(own).filter(|record| record.is_offered()).collect();
            found.extend(latency_at(percent, loopback, &trials));
        }
    }
    found
}

fn latency_at(percent: u32, loopback: bool, trials: &[&TrialRecord]) -> Option<Latency> {
    let fps = load(trials.first()?) as f64;
    let sum = |of: fn(&Record) -> u64| trials.iter().map(|record| of(&record.measured)).sum();
    let each = |of: &dyn Fn(&Record) -> Option<f64>| {
        let all = Repeated::of(trials.iter().filter_map(|record| of(&record.measured)).collect());
        all.map(|all| all.within(0.0, f64::INFINITY))
    };
    let at = |record: &Record, share: f64| {
        let quantile = Quantile::new(share)?;
        let estimate = record.latency.quantiles.iter().find(|estimate| estimate.quantile == quantile)?;
        estimate.value.map(|value| value.ns as f64)
    };
    Some(Latency {
        percent,
        fps,
        loopback,
        sent: sum(|record| record.counts.sent),
        lost: sum(|record| record.counts.lost - record.own_lost()),
        own_lost: trials.iter().map(|record| own_lost(record)).sum(),
        stamped: sum(|record| record.counts.stamped),
        tagged_frames: trials.iter().filter_map(|record| record.measured.tagged).map(|tagged| tagged.frames).min(),
        tagged_ns: each(&|record| record.tagged.and_then(|tagged| tagged.first_ns).map(|ns| ns as f64)),
        typical_ns: each(&|record| record.tagged.map(|tagged| tagged.typical_ns as f64)),
        worst_ns: each(&|record| record.tagged.map(|tagged| tagged.worst_ns as f64)),
        mean_ns: each(&|record| (record.latency.samples > 0).then_some(record.latency.mean_ns)),
        median_ns: each(&|record| at(record, 0.5)),
        p999_ns: each(&|record| at(record, 0.999)),
        pdv_ns: each(&|record| at(record, 0.999).map(|p999| p999 - record.latency.min_ns as f64)),
    })
}

fn losses(known: &Known) -> Vec<Loss> {
    let mut percents: Vec<u32> =
        known.trials(Benchmark::Loss).filter(|r| r.is_offered()).filter_map(|r| r.trial.purpose?.percent).collect();
    percents.sort_unstable_by(|a, b| b.cmp(a));
    percents.dedup();
    let of = |percent: u32| {
        let own = |record: &&TrialRecord| {
            record.is_offered() && record.trial.purpose.is_some_and(|p| p.percent == Some(percent))
        };
        let trials: Vec<&TrialRecord> = known.trials(Benchmark::Loss).filter(own).collect();
        let share = Repeated::of(trials.iter().map(|record| loss(record)).collect())?.within(0.0, 1.0);
        Some(Loss { percent, fps: load(trials.first()?) as f64, share })
    };
    percents.into_iter().filter_map(of).collect()
}

fn back_to_back(known: &Known) -> Option<BackToBack> {
    let search = known.burst_search()?;
    let each = (1..=known.suite.back_to_back.times).filter_map(|repetition| {
        let bursts = known.bursts(repetition);
        let over = !bursts.is_empty() && search.next(&bursts).is_none();
        let found = over.then(|| search.found(&bursts)[0])?;
        // What the sender can't do is no limit of the device.
        Some(Found { upper: found.upper.filter(|frames| !known.is_beyond(repetition, *frames)), ..found })
    });
    let each: Vec<_> = each.collect();
    let unlimited = each.iter().filter(|found| found.upper.is_none()).count() as u32;
    let stretched = known.trials(Benchmark::BackToBack).filter(|record| is_stretched(record)).count() as u32;
    let frames = Repeated::of(each.iter().map(|found| found.lower.unwrap_or(0) as f64).collect())?;
    let above = Repeated::of(each.iter().filter_map(|found| found.upper).map(|frames| frames as f64).collect());
    let fps = known.burst_rate()? as f64;
    let implied_s = frames.mean.value / fps;
    let throughput = known.throughput().map(|throughput| throughput as f64).filter(|throughput| *throughput < fps);
    let corrected_s = throughput.filter(|_| unlimited == 0).map(|throughput| implied_s * (1.0 - throughput / fps));
    let buffer_frames = corrected_s.map(|seconds| seconds * fps);
    Some(BackToBack { fps, frames, above, unlimited, stretched, implied_s, corrected_s, buffer_frames })
}

fn recovery(known: &Known) -> Option<Recovery> {
    let trials: Vec<&TrialRecord> = known.trials(Benchmark::Recovery).filter(|r| r.is_offered()).collect();
    let overload_fps = load(trials.first()?) as f64;
    let (mut seconds, mut unmoved, mut unrecovered, mut unclear) = (Vec::new(), 0, 0, 0);
    for record in trials {
        let counts = &record.measured.counts;
        let usect_core::pattern::Pattern::Halves { after } = record.trial.traffic.pattern else { continue };
        match record.measured.last_lost {
            _ if counts.lost == 0 => unmoved += 1,
            // Which of them the receiving port's own queue lost, nobody knows; or nobody numbered them.
            _ if record.measured.own_lost() > 0 => unclear += 1,
            None => unclear += 1,
            Some(last) if last + 1 >= record.trial.traffic.frames => unrecovered += 1,
            Some(last) => seconds.push(last.saturating_sub(after) as f64 * 2.0 / overload_fps),
        }
    }
    Some(Recovery { overload_fps, seconds: Repeated::of(seconds), unmoved, unrecovered, unclear })
}

fn reset(known: &Known) -> Option<Reset> {
    let trials: Vec<&TrialRecord> = known.trials(Benchmark::Reset).filter(|r| r.partial.is_none()).collect();
    let fps = load(trials.first()?) as f64;
    let lost = |record: &TrialRecord| record.measured.counts.lost;
    let is_out =
        |record: &TrialRecord| record.measured.last_lost.is_some_and(|last| last + 1 >= record.trial.traffic.frames);
    let back: Vec<&&TrialRecord> = trials.iter().filter(|record| lost(record) > 0 && !is_out(record)).collect();
    let silence = |record: &&&TrialRecord| record.measured.silence_ns.map(|ns| ns as f64 / 1e9);
    Some(Reset {
        fps,
        seconds: Repeated::of(back.iter().filter_map(silence).collect()),
        lost_s: Repeated::of(back.iter().map(|record| lost(record) as f64 / fps).collect()),
        unmoved: trials.iter().filter(|record| lost(record) == 0).count() as u32,
        out: trials.iter().filter(|record| is_out(record)).count() as u32,
    })
}
