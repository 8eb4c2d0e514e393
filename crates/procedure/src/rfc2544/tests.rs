//! The suite against a host and a device that are arithmetic: a sender that reaches so much, a token bucket behind it.

use super::*;
use usect_core::fiber::LineRate;
use usect_core::findings::SizeFindings;
use usect_core::measurement::{Measurement, Pace};
use usect_core::pattern::Pattern;
use usect_core::suite::{Deviation, Purpose, SearchKind};
use usect_core::tracker::Counts;
use usect_core::trial::TrialResult;

/// More trials than any suite here may need.
const ENDLESS: usize = 20_000;

/// Frames per second that the sender reaches, and the device forwards; frames that it holds.
#[derive(Clone, Copy)]
struct World {
    sends: f64,
    forwards: f64,
    holds: f64,
}

const WORLD: World = World { sends: 2e6, forwards: 500_000.0, holds: 1_000.0 };

impl World {
    /// What becomes of a trial: frames are lost where what waits exceeds what is held.
    fn measure(&self, trial: &Trial) -> Measurement {
        let (frames, pattern) = (trial.traffic.frames, &trial.traffic.pattern);
        let requested = trial.traffic.rate.frames_per_second();
        let full = match pattern {
            Pattern::Halves { after } => {
                usect_core::schedule::full_rate(*after, trial.traffic.rate, frames).frames_per_second()
            }
            _ => requested,
        };
        let achieved = full.min(self.sends);
        let pace = Some(Pace { requested, achieved: if achieved < full { achieved } else { requested } });
        if achieved < 0.5 * full {
            // It gives up.
            return Measurement { pace, ..Measurement::default() };
        }
        let forwards = if trial.case.loopback { f64::INFINITY } else { self.forwards };
        let lost = |at: f64, offered: f64| (offered * (1.0 - forwards / at) - self.holds).max(0.0).floor() as u64;
        let (lost, last_lost) = match pattern {
            Pattern::Halves { after } => (lost(achieved, *after as f64), Some(after + 5)),
            // Away for a while in the middle.
            _ if trial.purpose.unwrap().benchmark == Benchmark::Reset => (frames / 4, Some(frames / 2)),
            _ => (lost(achieved, frames as f64), Some(frames - 1)),
        };
        let received = frames - lost;
        let counts =
            Counts { sent: frames, received, lost, stamped: received, arrivals: received, ..Counts::default() };
        let mut measured = Measurement { counts, pace, silence_ns: Some(2_000_000_000), ..Measurement::default() };
        measured.last_lost = last_lost.filter(|_| lost > 0);
        measured.tagged = vec![(0, 5_000); if trial.traffic.tagged.is_some() { 10 } else { 0 }];
        (0..10).for_each(|_| measured.latency.record(6_000));
        measured
    }

    fn run(&self, suite: &Suite, mut trials: Vec<TrialRecord>, most: usize) -> (Vec<TrialRecord>, Findings) {
        let procedure = Rfc2544::new(suite.clone(), vec![client()]);
        while trials.len() < most
            && let Step::Run(trial) = procedure.next(&trials)
        {
            assert!(trials.len() < ENDLESS, "it doesn't end: {:?}", trials.last());
            let client = self.measure(&trial);
            trials.push(record(*trial, client));
        }
        let findings = procedure.findings(&trials).unwrap();
        (trials, findings)
    }
}

fn record(trial: Trial, client: Measurement) -> TrialRecord {
    let partial = (client.counts.sent == 0).then(|| "the rate can't be reached".to_owned());
    TrialRecord::of(&TrialResult {
        trial,
        started: String::new(),
        client,
        truth: None,
        known_delay_ns: None,
        dut: Vec::new(),
        partial,
    })
}

fn client() -> ClientSpec {
    let name = |text: &str| text.parse().unwrap();
    ClientSpec::between(name("xdp:a"), name("xdp:b"))
}

fn suite() -> Suite {
    let sizes = [64, 1518].map(|bytes| FrameSize::try_from(bytes).unwrap()).to_vec();
    let reset_command = Some("true".to_owned());
    Suite { sizes, reset_command, loopback: Some(Loopback::Wire), ..Suite::quick(LineRate(1_000_000_000)) }
}

fn found(world: World, suite: &Suite) -> (Vec<TrialRecord>, Vec<SizeFindings>) {
    let (trials, findings) = world.run(suite, Vec::new(), usize::MAX);
    (trials, findings.clients.into_iter().next().unwrap().sizes)
}

#[test]
fn a_token_bucket_is_found_out() {
    for search in [SearchKind::Binary, SearchKind::Verified, SearchKind::Mlr] {
        let suite = Suite { search, ..suite() };
        let (_, sizes) = found(WORLD, &suite);
        let small = &sizes[0];
        assert_eq!(small.offered_fps, Some(1_488_095.0), "the line of 1 Gbit/s, which the sender fills");
        let throughput = small.throughput[0].fps.as_ref().unwrap().mean.value;
        // What is held of a second's trial is no loss.
        assert!((490_000.0..501_100.0).contains(&throughput), "{throughput}");
        let bursts = small.back_to_back.as_ref().unwrap();
        let expected = 1_000.0 / (1.0 - 500_000.0 / 1_488_095.0);
        assert!((bursts.frames.mean.value / expected - 1.0).abs() < 0.02, "{bursts:?} for {expected}");
        assert!((bursts.buffer_frames.unwrap() / 1_000.0 - 1.0).abs() < 0.05, "{bursts:?}");
        let loads: Vec<u32> = small.loss.iter().map(|loss| loss.percent).collect();
        assert_eq!(loads, [100, 90, 80, 70, 60, 50, 40, 30, 20], "33.6% is the limit, and two trials lose nothing");
        assert!((small.loss[0].share.mean.value - 0.664).abs() < 0.01);
        let recovery = small.recovery.as_ref().unwrap();
        let seconds = recovery.seconds.as_ref().unwrap().mean.value;
        assert!((seconds - 5.0 / (recovery.overload_fps / 2.0)).abs() < 1e-9, "five frames at half the rate");
        assert_eq!(small.reset.as_ref().unwrap().seconds.as_ref().unwrap().mean.value, 2.0);
        assert_eq!(sizes[1].reset, None, "for the smallest frames only");
        let latencies: Vec<(u32, bool)> = small.latency.iter().map(|l| (l.percent, l.loopback)).collect();
        let both = [false, true].map(|loopback| [10, 50, 90, 100].map(|percent| (percent, loopback))).concat();
        assert_eq!(latencies, both);
        assert_eq!(small.latency[0].tagged_ns.as_ref().unwrap().values, [5_000.0; 3]);
        // Frames of 1,518 bytes fill the line with 81,274 a second, which the device forwards.
        assert_eq!(sizes[1].throughput[0].fps.as_ref().unwrap().mean.value, 81_274.0);
        assert_eq!(sizes[1].throughput[0].above_fps, None);
        assert_eq!(sizes[1].back_to_back.as_ref().unwrap().unlimited, 1);
        assert_eq!(sizes[1].recovery.as_ref().unwrap().unmoved, 1);
    }
}

#[test]
fn a_sender_that_cannot_fill_the_line_is_asked_for_what_it_can() {
    for sends in [400_000.0, 1_200_000.0] {
        let (trials, sizes) = found(World { sends, ..WORLD }, &suite());
        let offered = sizes[0].offered_fps.unwrap();
        assert!(offered <= 0.95 * sends && offered > 0.9 * sends, "{offered}");
        let searched = trials.iter().filter(|r| r.trial.purpose.unwrap().benchmark == Benchmark::Throughput);
        assert!(searched.clone().count() > 0 && searched.clone().all(TrialRecord::is_offered));
        assert_eq!(sizes[0].throughput[0].above_fps.is_none(), offered < 500_000.0);
    }
}

#[test]
fn searches_end_whatever_the_length_of_a_trial_and_the_load() {
    for (search, lasts_s) in [(SearchKind::Mlr, 60.0), (SearchKind::Binary, 0.1), (SearchKind::Verified, 0.37)] {
        for forwards in [499_999.0, 777_777.0, f64::INFINITY] {
            let mut suite = Suite { search, benchmarks: vec![Benchmark::Throughput], ..suite() };
            suite.throughput.lasts_s = lasts_s;
            let (trials, sizes) = found(World { forwards, holds: 0.0, sends: 5e6 }, &suite);
            assert!(trials.len() < 100, "{}", trials.len());
            let fps = sizes[0].throughput[0].fps.as_ref().unwrap().mean.value;
            assert!(fps <= forwards && (fps > 0.97 * forwards || fps == 1_488_095.0), "{fps} of {forwards}");
        }
    }
}

/// A sender that gets slower in the middle of a search, and one that a stall of the host holds up once.
#[test]
fn a_host_that_gets_slower_ends_the_search_too() {
    for (slow_from, slow_to) in [(5, usize::MAX), (0, 1), (2, 3), (1, 2), (6, 7)] {
        let procedure = Rfc2544::new(suite(), vec![client()]);
        let mut trials: Vec<TrialRecord> = Vec::new();
        while let Step::Run(trial) = procedure.next(&trials) {
            assert!(trials.len() < 600, "it doesn't end: {:?}", trials.last().map(|r| r.trial.label()));
            let slow = (slow_from..slow_to).contains(&trials.len());
            let mut client = WORLD.measure(&trial);
            if let Some(pace) = client.pace.as_mut().filter(|_| slow) {
                pace.achieved = pace.requested * 0.9;
            }
            trials.push(record(*trial, client));
        }
        let found = procedure.findings(&trials).unwrap().clients[0].sizes[0].clone();
        let fps = found.throughput.first().and_then(|found| found.fps.as_ref()).map(|fps| fps.mean.value);
        assert_eq!(found.verdict.is_some(), fps.is_none(), "{found:?}");
        if slow_to != usize::MAX {
            assert_eq!(found.offered_fps, Some(1_488_095.0), "one stall says nothing of the sender");
            assert!((490_000.0..501_100.0).contains(&fps.unwrap()), "{fps:?}");
        }
    }
}

/// Lost on the path or in the receiver's own queue: the mean is of fewer streams, which is told.
#[test]
fn a_lost_tagged_frame_is_told() {
    let told = |findings: &Findings| {
        let of = |deviation: &&Deviation| deviation.section == "RFC 2544 §26.2" && deviation.what.contains("was lost");
        findings.deviations.iter().filter(of).map(|deviation| deviation.what.clone()).collect::<Vec<_>>()
    };
    let suite = Suite { benchmarks: vec![Benchmark::Throughput, Benchmark::Latency], ..suite() };
    let (mut trials, findings) = WORLD.run(&suite, Vec::new(), usize::MAX);
    assert_eq!(told(&findings), Vec::<String>::new());
    let picked = trials.iter_mut().filter_map(|record| record.measured.tagged.as_mut());
    picked.take(2).for_each(|tagged| tagged.first_ns = None);
    trials.last_mut().unwrap().measured.tagged = None;
    let findings = Rfc2544::new(suite, vec![client()]).findings(&trials).unwrap();
    assert_eq!(told(&findings), ["in 3 of 48 streams the tagged frame was lost, and has no latency"]);
}

/// What the host didn't let the sender offer is missing in the figures, which is told.
#[test]
fn streams_that_were_never_offered_are_told() {
    let suite = Suite { benchmarks: vec![Benchmark::Throughput, Benchmark::Latency, Benchmark::Recovery], ..suite() };
    let procedure = Rfc2544::new(suite, vec![client()]);
    let told = |slow: fn(&Purpose, nth: usize) -> bool| {
        let (mut trials, mut nth) = (Vec::new(), 0);
        while let Step::Run(trial) = procedure.next(&trials) {
            let mut client = WORLD.measure(&trial);
            if let Some(pace) = client.pace.as_mut().filter(|_| slow(&trial.purpose.unwrap(), nth)) {
                pace.achieved = pace.requested * 0.9;
                nth += 1;
            }
            trials.push(record(*trial, client));
        }
        let told = procedure.findings(&trials).unwrap().deviations;
        told.into_iter().map(|told| told.what).filter(|what| what.contains("missing")).collect::<Vec<_>>()
    };
    assert_eq!(told(|p, nth| p.percent == Some(50) && nth < 2), Vec::<String>::new(), "twice is not in vain");
    let never = |what| format!("missing {what}, for the sender didn't offer their load in any of 3 tries");
    assert_eq!(told(|p, _| p.percent == Some(50) && p.repetition == 2), [never("streams: 4")]);
    assert_eq!(told(|p, _| p.benchmark == Benchmark::Recovery), [never("overloads: 2")]);
}

/// Bursts leave at the rate that the sender reaches, less a margin: where that is below the line's, it is told.
#[test]
fn bursts_that_are_not_back_to_back_on_the_line_are_told() {
    let suite = Suite { benchmarks: vec![Benchmark::Throughput, Benchmark::BackToBack], ..suite() };
    let told = |sends| {
        let (_, findings) = World { sends, ..WORLD }.run(&suite, Vec::new(), ENDLESS);
        let told = findings.deviations.into_iter().filter(|told| told.section == "RFC 2544 §26.4");
        told.map(|told| told.what).find(|what| what.contains("of the rate that it reached"))
    };
    assert_eq!(told(2e6), None, "the line is 1.49 million frames a second");
    let sentence = told(1e6).expect("it is told");
    assert!(sentence.contains("bursts of 64 bytes at 95% of the rate"), "{sentence}");
}

/// A burst that the host stretched says nothing of the device, whether it passed or not.
#[test]
fn stretched_bursts_are_no_result() {
    let suite = Suite { benchmarks: vec![Benchmark::Throughput, Benchmark::BackToBack], ..suite() };
    let procedure = Rfc2544::new(suite, vec![client()]);
    let bursts = |stretches: fn(nth: usize, frames: u64) -> bool| {
        let mut trials: Vec<TrialRecord> = Vec::new();
        while let Step::Run(trial) = procedure.next(&trials) {
            assert!(trials.len() < 500, "it doesn't end: {:?}", trials.last().map(|r| r.trial.label()));
            let frames = trial.traffic.frames;
            let is_burst = trial.purpose.unwrap().benchmark == Benchmark::BackToBack;
            let mut client = WORLD.measure(&trial);
            if let Some(pace) = client.pace.as_mut().filter(|_| is_burst && stretches(trials.len(), frames)) {
                pace.achieved = pace.requested * 0.5;
                client.counts = Counts { sent: frames, received: frames, stamped: frames, ..Counts::default() };
            }
            trials.push(record(*trial, client));
        }
        procedure.findings(&trials).unwrap().clients[0].sizes[0].back_to_back.clone().unwrap()
    };
    let often = bursts(|nth, _| nth % 3 != 0);
    let expected = 1_000.0 / (1.0 - 500_000.0 / 1_488_095.0);
    assert!((often.frames.mean.value / expected - 1.0).abs() < 0.02, "{often:?} for {expected}");
    assert!(often.unlimited == 0 && often.stretched > 0, "{often:?}");
    let long = bursts(|_, frames| frames > 800);
    assert!((785.0..=800.0).contains(&long.frames.mean.value), "{long:?}");
    assert_eq!((long.unlimited, &long.above, long.buffer_frames), (1, &None, None), "no limit of the device");
}

/// What a suite of throughput and bursts finds where `lost` of a trial's frames are lost that the client's own queue claims.
fn claiming(search: SearchKind, lost: impl Fn(&Trial, usize) -> u64) -> (Vec<TrialRecord>, Findings) {
    let benchmarks = vec![Benchmark::Throughput, Benchmark::BackToBack];
    let mut suite = Suite { search, benchmarks, ..suite() };
    suite.sizes.truncate(1);
    let procedure = Rfc2544::new(suite, vec![client()]);
    let mut trials: Vec<TrialRecord> = Vec::new();
    while let Step::Run(trial) = procedure.next(&trials) {
        assert!(trials.len() < 300, "it doesn't end: {:?}", trials.last().map(|r| r.trial.label()));
        let mut client = World { forwards: f64::INFINITY, ..WORLD }.measure(&trial);
        client.counts.lost = lost(&trial, trials.len()).min(client.counts.sent);
        client.counts.received = client.counts.sent - client.counts.lost;
        client.overruns = Some(client.counts.lost);
        trials.push(record(*trial, client));
    }
    let findings = procedure.findings(&trials).unwrap();
    (trials, findings)
}

/// The deviation that tells of claims, for a section.
fn claims(findings: &Findings, section: &str) -> Option<String> {
    let of = |deviation: &&Deviation| deviation.section == section && deviation.what.contains("own receive queue");
    findings.deviations.iter().find(of).map(|deviation| deviation.what.clone())
}

const SEARCHES: [SearchKind; 3] = [SearchKind::Binary, SearchKind::Verified, SearchKind::Mlr];

/// All that it damages has a bad checksum, which a socket counts among its own drops.
#[test]
fn a_device_that_corrupts_passes_no_search() {
    for search in SEARCHES {
        let (_, findings) = claiming(search, |trial, _| trial.traffic.frames.div_ceil(1_000));
        let size = &findings.clients[0].sizes[0];
        assert!(size.verdict.as_ref().unwrap().contains("every load down to 100 frames a second loses"), "{size:?}");
        assert_eq!(size.throughput[0].fps, None);
        assert_eq!(size.back_to_back.as_ref().unwrap().frames.mean.value, 0.0, "not one frame passes");
        for section in ["RFC 2544 §26.1", "RFC 2544 §26.4"] {
            let told = claims(&findings, section).unwrap();
            assert!(told.contains("failed by that alone"), "{told}");
        }
        let (_, findings) = claiming(search, |trial, _| u64::from(trial.traffic.rate.frames_per_second() > 300_000.0));
        let fps = findings.clients[0].sizes[0].throughput[0].fps.clone().unwrap().mean.value;
        assert!((290_000.0..=300_000.0).contains(&fps), "it damages a frame of each trial above: {fps}");
    }
}

/// Its queue is too short now and then, as a stall of the host makes it.
#[test]
fn a_client_that_overruns_tries_again_and_says_so() {
    for search in SEARCHES {
        let (clear, without) = claiming(search, |_, _| 0);
        assert_eq!(claims(&without, "RFC 2544 §26.1"), None);
        let (trials, findings) = claiming(search, |_, nth| if nth % 3 == 2 { 7 } else { 0 });
        let figures = |findings: &Findings| {
            let size = &findings.clients[0].sizes[0];
            (size.throughput[0].fps.clone(), size.back_to_back.as_ref().unwrap().frames.clone())
        };
        assert_eq!(figures(&findings), figures(&without));
        assert!(trials.len() > clear.len());
        let told = claims(&findings, "RFC 2544 §26.1").unwrap();
        assert!(told.contains("tried again") && !told.contains("by that alone"), "{told}");
        assert!(findings.clients[0].sizes[0].own_lost > 0);
    }
}

/// A loss that its own queue can't account for needs no second trial.
#[test]
fn what_the_own_queue_does_not_claim_is_clear() {
    let suite = Suite { benchmarks: vec![Benchmark::Throughput], ..suite() };
    let (clear, same) = found(WORLD, &suite);
    let procedure = Rfc2544::new(suite, vec![client()]);
    let mut trials: Vec<TrialRecord> = Vec::new();
    while let Step::Run(trial) = procedure.next(&trials) {
        assert!(trials.len() < 300, "it doesn't end: {:?}", trials.last().map(|r| r.trial.label()));
        let client = WORLD.measure(&trial);
        let overruns = Some(client.counts.lost / 2);
        trials.push(record(*trial, Measurement { overruns, ..client }));
    }
    let findings = procedure.findings(&trials).unwrap();
    assert_eq!((trials.len(), &findings.clients[0].sizes[0].throughput), (clear.len(), &same[0].throughput));
    assert!(claims(&findings, "RFC 2544 §26.1").unwrap().contains("tried again"));
}

#[test]
fn what_was_cut_short_is_no_result() {
    let (mut trials, _) = WORLD.run(&suite(), Vec::new(), 9);
    let procedure = Rfc2544::new(suite(), vec![client()]);
    let before = procedure.findings(&trials);
    let Step::Run(trial) = procedure.next(&trials) else { panic!("it is over") };
    let pace = Some(Pace { requested: 1e6, achieved: 10.0 });
    let mut cut = record(*trial, Measurement { pace, ..Measurement::default() });
    cut.partial = Some(usect_core::trial::INTERRUPTED.to_owned());
    trials.push(cut);
    assert_eq!(procedure.findings(&trials), before);
}

#[test]
fn a_device_that_does_not_come_back_has_no_time_of_reset() {
    let procedure =
        Rfc2544::new(Suite { benchmarks: vec![Benchmark::Throughput, Benchmark::Reset], ..suite() }, vec![client()]);
    let mut trials: Vec<TrialRecord> = Vec::new();
    while let Step::Run(trial) = procedure.next(&trials) {
        let mut client = WORLD.measure(&trial);
        if trial.purpose.unwrap().benchmark == Benchmark::Reset {
            client.counts.lost = client.counts.sent / 2;
            client.counts.received = client.counts.sent - client.counts.lost;
            client.last_lost = Some(trial.traffic.frames - 1);
        }
        trials.push(record(*trial, client));
    }
    let reset = procedure.findings(&trials).unwrap().clients[0].sizes[0].reset.clone().unwrap();
    assert_eq!((reset.seconds, reset.out), (None, 1));
}

#[test]
fn a_device_that_passes_nothing_is_left_alone() {
    let (trials, sizes) = found(World { forwards: 0.0, holds: 0.0, ..WORLD }, &suite());
    assert_eq!(trials.len(), 2, "a check of each size");
    assert!(sizes[0].verdict.as_ref().unwrap().contains("passes no frames of 64 bytes: none of 100 arrived"));
    // Of a host that holds the frames up, too; but not before they were sent again.
    let slow = |trial: &Trial| Measurement {
        pace: Some(Pace { requested: 1_000.0, achieved: 700.0 }),
        ..World { forwards: 0.0, holds: 0.0, ..WORLD }.measure(trial)
    };
    let procedure = Rfc2544::new(suite(), vec![client()]);
    let mut trials: Vec<TrialRecord> = Vec::new();
    while let Step::Run(trial) = procedure.next(&trials) {
        let client = slow(&trial);
        trials.push(record(*trial, client));
    }
    assert_eq!(trials.len(), 6, "three checks of each size");
    let sizes = procedure.findings(&trials).unwrap().clients[0].sizes.clone();
    assert!(sizes[0].verdict.as_ref().unwrap().contains("passes no frames of 64 bytes: none of 300 arrived"));
}

#[test]
fn a_device_that_loses_at_every_load_has_no_throughput() {
    let procedure = Rfc2544::new(suite(), vec![client()]);
    let mut trials: Vec<TrialRecord> = Vec::new();
    while let Step::Run(trial) = procedure.next(&trials) {
        assert!(trials.len() < 500, "{:?}", trials.last());
        let mut client = World { forwards: f64::INFINITY, ..WORLD }.measure(&trial);
        client.counts.lost = client.counts.sent / 100 + 1;
        client.counts.received = client.counts.sent - client.counts.lost;
        trials.push(record(*trial, client));
    }

    let sizes = procedure.findings(&trials).unwrap().clients[0].sizes.clone();
    assert!(sizes[0].verdict.as_ref().unwrap().contains("every load down to 100 frames a second loses"));
    assert!(sizes[0].latency.is_empty() && sizes[0].loss.len() == 10);
}

#[test]
fn an_interrupted_suite_goes_on_where_it_was() {
    let (whole, findings) = WORLD.run(&suite(), Vec::new(), usize::MAX);
    for at in [1, 5, 17, whole.len() - 1] {
        let (before, _) = WORLD.run(&suite(), Vec::new(), at);
        assert_eq!(before.len(), at);
        let (after, same) = WORLD.run(&suite(), before, usize::MAX);
        assert_eq!((after.len(), &same), (whole.len(), &findings));
    }
    let procedure = Rfc2544::new(suite(), vec![client()]);
    let left = |n: usize| procedure.outlook(&whole[..n]).unwrap().left_s;
    assert!(left(0) > left(20) && left(20) > left(whole.len() - 2));
    assert_eq!(left(whole.len()), 0.0);
}

#[test]
fn every_trial_has_a_name_of_its_own() {
    let (trials, _) = WORLD.run(&suite(), Vec::new(), usize::MAX);
    let mut names: Vec<(String, u32)> = trials.iter().map(|r| (r.trial.label(), r.trial.run)).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn repetitions_have_a_mean_and_an_interval() {
    let mut suite = suite();
    suite.throughput.times = 3;
    let (_, sizes) = found(WORLD, &suite);
    let fps = sizes[0].throughput[0].fps.clone().unwrap();
    assert_eq!(fps.values.len(), 3);
    assert!(fps.mean.low <= fps.mean.value && fps.mean.value <= fps.mean.high);
}
