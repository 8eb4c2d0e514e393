//! What was stored by others, damaged or made up: it is refused in a sentence, or all that shows it works.
#![allow(missing_docs)]

mod common;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use usect_core::dissect::{Dissection, Row};
use usect_core::gathered::Gathered;
use usect_core::histogram::Histogram;
use usect_core::matrix::{Became, Distribution, Matrix, Measured, Pinged, Probed, Seen, Tried};
use usect_core::monitor::{Alarm, Entry, Interval, Start};
use usect_core::run::Run;
use usect_core::tracker::Counts;
use usect_report::monitor::{self, log};
use usect_report::{Histograms, StoredRun, html, store, table};

fn histogram() -> Histogram {
    let mut histogram = Histogram::default();
    (0..2_000).for_each(|i| histogram.record(20_000 + 10 * i));
    histogram
}

/// A small run of each kind, with everything in it that a run can have.
static RUNS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let shape = common::Shape { samples: 3_000, ..common::SHAPES[1] };
    let trials = [1, 2].map(|run| common::trial(&common::scenario(), &shape, run));
    let header = usect_core::run::Header { within_ns: Some(10), ..common::header() };
    let mut plain = serde_json::to_value(Run::of(header, &Gathered::of(&trials))).unwrap();
    let latency = plain["clients"][0]["measured"]["latency"].clone();
    let counts = plain["clients"][0]["measured"]["counts"].clone();
    let bounded = json!({"value": 3.0, "low": 2.0, "high": 4.0});
    let client = &mut plain["clients"][0];
    let more = json!({
        "stages": {"frames": 9, "incomplete": 0, "backwards": 0, "clock_error_ns": 3,
            "stages": [{"from": "sent", "to": "dut-in", "latency": latency}, {"from": "dut-in", "to": "received", "latency": latency}],
            "shares": [{"quantile": 0.5, "frames": 5, "stages_ns": [3.0, 4.0]}]},
        "trains": {"trains": 7, "whole": 6, "head_ns": bounded, "capacity": bounded, "offered": bounded, "sender_bound": false,
            "loss": bounded, "periodic": {"hz": 4.0, "regularity": 0.9, "events": 10},
            "seen": [{"at_ns": 1, "received": 8, "head_ns": 7, "mean_ns": 8, "sent_ns": 4, "arrived_ns": 5}]},
        "tagged": {"frames": 3, "first_ns": 2, "typical_ns": 4, "worst_ns": 9},
        "streams": [{"name": "flow 1", "counts": counts, "latency": latency}, {"name": "back", "counts": counts, "latency": latency}],
    });
    merge(&mut client["measured"], more);
    merge(
        client,
        json!({
            "dispersion": {"index_ns": 3.0, "mean_ns": 9.0, "stdev_ns": 2.0, "outliers": 3},
            "convergence": [{"of": "mean", "value_ns": 3.0, "decay": [{"batch": 1, "batches": 90, "variance_ns2": 4.0}], "slope": {"value": -1.0, "low": -1.1, "high": -0.9}, "intercept": 3.0}],
            "median_ns": bounded,
            "calibrated": {"correction_ns": bounded, "median_ns": bounded, "made": "2026-11-21T02:32:12Z", "run": "r"},
        }),
    );
    let of = |procedure: &str, more: Value| {
        let mut run = plain.clone();
        run["procedure"] = procedure.into();
        merge(&mut run, more);
        run
    };
    let dissection =
        Dissection { rows: vec![Row::of("1b", "TSC", "how").measured(&histogram(), 3.0)], ..Dissection::default() };
    let mut all = ["compare", "sweep", "loads", "convoy", "converge"].map(|kind| of(kind, json!({}))).to_vec();
    all.push(of("rfc2544", json!({"rfc2544": suite()})));
    all.push(of("dissect", json!({"dissect": dissection})));
    all.push(of("matrix", json!({"matrix": matrix()})));
    all
});

fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else { unreachable!("only objects are merged") };
    into.as_object_mut().unwrap().extend(more);
}

fn suite() -> Value {
    let bounded = json!({"value": 3.0, "low": 2.0, "high": 4.0});
    let repeated = json!({"values": [2.0, 3.0, 4.0], "mean": bounded, "median": bounded});
    let mut latency = json!({"percent": 50, "fps": 900.0, "loopback": false, "sent": 90, "lost": 1, "own_lost": 0, "stamped": 89, "tagged_frames": 3});
    for figure in ["tagged_ns", "typical_ns", "worst_ns", "mean_ns", "median_ns", "p999_ns", "pdv_ns"] {
        latency[figure] = repeated.clone();
    }
    let size = json!({
        "frame_size": 64, "line_fps": 1.4e6, "offered_fps": 1e6, "verdict": "a verdict",
        "throughput": [{"loss_ratio": 0.0, "fps": repeated, "above_fps": repeated, "forwarded_fps": repeated, "trials": 9, "trial_s": 8.0, "complete": true}],
        "latency": [latency], "loss": [{"percent": 100, "fps": 1e6, "share": repeated}],
        "back_to_back": {"fps": 1e6, "frames": repeated, "above": repeated, "unlimited": 1, "stretched": 0, "implied_s": 0.1, "corrected_s": 0.1, "buffer_frames": 9.0},
        "recovery": {"overload_fps": 2e6, "seconds": repeated, "unmoved": 0, "unrecovered": 0, "unclear": 0},
        "reset": {"fps": 1e6, "seconds": repeated, "lost_s": repeated, "unmoved": 0, "out": 1},
        "own_lost": 3, "trials": 9, "disturbed": 1, "longest_away": 0.1,
    });
    let asked = usect_core::suite::Suite::quick(usect_core::fiber::LineRate(1_000_000_000));
    json!({"suite": asked, "findings": {"clients": [{"client": "udp-polling", "sizes": [size]}], "deviations": [{"section": "RFC 2544 §24", "what": "w"}]}})
}

fn matrix() -> Measured {
    let matrix = Matrix::parse("[vary]\nqueue = [\"pfifo\", \"sfq\"]\npath = [\"direct\", \"ovs\"]\n").unwrap();
    let mut measured = Measured::of(matrix, Vec::new());
    for turn in measured.matrix.order(2) {
        let seen = Seen {
            probe: Probed { counts: Counts::default(), latency: Distribution::of(&histogram()), apart: None },
            ping: Pinged { sent: 1, rtts_ns: vec![3_000] },
            load: None,
            cores: Vec::new(),
            processes: Vec::new(),
            arrived: None,
            queues: Vec::new(),
            notes: vec!["in user space".into()],
        };
        measured.add(Tried { turn, session: 1, became: Became::Seen(Box::new(seen)) });
    }
    measured
}

/// A monitor's log.
static LOG: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let scenario = common::scenario();
    let trial = common::trial(&scenario, &common::Shape { samples: 3_000, ..common::SHAPES[1] }, 1);
    let at = |n: i64| jiff::Timestamp::from_second(1_800_000_000 + 60 * n).unwrap();
    let instrument = usect_core::calibration::Key::of(&trial.trial, &scenario);
    let start = Start {
        schema: usect_core::monitor::SCHEMA.into(),
        usect: "0.1.0".into(),
        at: at(0),
        scenario,
        instrument,
        writes: Some(3),
        calibration: None,
        environment: common::environment(),
    };
    let interval = |n| Entry::Interval(Box::new(Interval::of(at(n), 60.0, trial.client.clone(), Some(2_300.0))));
    let bounded = json!({"value": 3.0, "low": 2.0, "high": 4.0});
    let convoy = json!({"kind": "convoy", "at": at(4), "frame_size": 64, "counts": Counts::default(),
        "trains": {"trains": 7, "whole": 6, "head_ns": bounded, "capacity": bounded, "offered": bounded, "sender_bound": false,
            "loss": bounded, "seen": []}});
    let shift = Alarm::Shift { at: at(3), seen_at: at(5), from_ns: 10.0, to_ns: 20.0, waited: 0.1 };
    let entries =
        [Entry::Start(Box::new(start)), interval(1), interval(2), Entry::Alarm(shift), Entry::Stop { at: at(9) }];
    entries.iter().map(|entry| serde_json::to_value(entry).unwrap()).chain([convoy]).collect()
});

/// Everything that shows a run.
fn show(run: Run) {
    let stored = StoredRun { histograms: Histograms::of(&[]), run };
    let _ = serde_json::to_string(&stored.run).unwrap();
    let _ = table(&stored.run, true);
    html(std::slice::from_ref(&stored)).unwrap();
    html(&[stored.clone(), stored]).unwrap();
}

/// Reads a run and shows it; or why not.
fn run(json: &Value, folder: &Path) -> Result<(), String> {
    let path = folder.join("run.json");
    fs::write(&path, json.to_string()).unwrap();
    store::read_run(&path).map(show).map_err(|e| sentence(&e))
}

/// Reads a log and shows it; or why not.
fn logged(entries: &[Value], folder: &Path) -> Result<bool, String> {
    let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    fs::write(folder.join("2027-01-15.jsonl"), text).unwrap();
    let entries = log::read(folder).map_err(|e| sentence(&e))?;
    if let Some(Entry::Start(start)) = entries.first() {
        for entry in &entries {
            match entry {
                Entry::Interval(interval) => drop(monitor::words::interval(interval, start)),
                Entry::Convoy(convoy) => drop(monitor::words::convoy(convoy)),
                Entry::Alarm(alarm) => drop(monitor::words::alarm(alarm, start)),
                _ => {}
            }
        }
    }
    Ok(monitor::html(&entries).unwrap().is_some())
}

fn sentence(error: &store::StoreError) -> String {
    let error = error.to_string();
    assert!(!error.chars().any(char::is_control) && error.len() < 600, "{error:?}");
    error
}

/// What stands where another value stood; `None` takes it away.
fn values() -> impl Strategy<Value = Option<Value>> {
    let rubbish = [
        json!(null),
        json!(0),
        json!(1),
        json!(-1),
        json!(u32::MAX),
        json!(1_u64 << 53),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(1e99),
        json!(-0.5),
        json!(""),
        json!("\u{1b}[2Jx"),
        json!([]),
        json!({}),
        json!(true),
    ];
    proptest::sample::select(rubbish.map(Some).into_iter().chain([None]).collect::<Vec<_>>())
}

/// Which value; what stands there then; where that comes from.
type Change = (Index, Option<Value>, Index);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec((any::<Index>(), values(), any::<Index>()), 1..4)
}

/// Paths of all that a document has, of lists the first item's: long ones would hide what there is once.
fn paths(json: &Value, path: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match json {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.first().map(|first| ("0".to_owned(), first)).into_iter().collect(),
        _ => Vec::new(),
    };
    for (key, value) in children {
        let path = format!("{path}/{key}");
        paths(value, &path, found);
        found.push(path);
    }
}

/// Changes a document: a value goes, becomes rubbish, or another stands in its place.
fn changed(json: &Value, changes: Vec<Change>) -> Value {
    let mut json = json.clone();
    for (at, with, other) in changes {
        let mut found = Vec::new();
        paths(&json, "", &mut found);
        if found.is_empty() {
            break;
        }
        let (path, other) = (at.get::<String>(&found), other.get::<String>(&found));
        let with = with.map(|with| if with == json!(true) { json.pointer(other).cloned().unwrap() } else { with });
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        match (json.pointer_mut(parent).unwrap(), with) {
            (Value::Object(fields), Some(with)) => drop(fields.insert(key, with)),
            (Value::Object(fields), None) => drop(fields.remove(&key)),
            (Value::Array(items), Some(with)) => items[key.parse::<usize>().unwrap()] = with,
            (Value::Array(items), None) => drop(items.remove(key.parse().unwrap())),
            _ => unreachable!("it has children"),
        }
    }
    json
}

#[test]
fn what_nobody_changed_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for json in RUNS.iter() {
        assert_eq!(run(json, folder.path()), Ok(()), "{}", json["procedure"]);
    }
    assert_eq!(logged(&LOG, folder.path()), Ok(true));
}

/// What once made the module of that name panic, or wrap round.
#[test]
fn what_figures_can_not_be_made_of_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let of = |procedure: &str| RUNS.iter().find(|run| run["procedure"] == procedure).unwrap().clone();
    let none = json!(0);
    for (module, procedure, path, value, why) in [
        ("verdict", "compare", "/clients/0/accuracy/0/within_ns", &none, "accurate to within 0 ns"),
        ("sweep", "sweep", "/trials/0/traffic/rate/frames", &none, "a rate of no frames"),
        ("loads", "loads", "/trials/0/traffic/rate/frames", &none, "a rate of no frames"),
        ("grids", "compare", "/clients/0/measured/stages/shares/0/stages_ns", &json!([]), "has 0 of 2 stages"),
        ("grids", "compare", "/clients/0/measured/clean/samples", &json!(1_u64 << 40), "touched by no stall"),
        ("grids", "compare", "/platform/0/observed_ns", &json!(u64::MAX), "more than can be measured"),
        ("table", "compare", "/clients/0/measured/latency/quantiles/0/quantile", &json!(1.5), "no share"),
        ("trains", "convoy", "/trials/0/traffic/pattern", &json!({"kind": "trains", "length": 0}), "a train has 2"),
        ("matrix", "matrix", "/matrix/trials/0/cell", &json!([0, 7]), "no cell of its matrix"),
        ("suite", "rfc2544", "/rfc2544/suite/sizes", &json!([]), "a frame size"),
        ("session", "compare", "/protocol/runs", &json!(u32::MAX), "runs is a number"),
        ("session", "compare", "/scenario/client", &json!([]), "no [[client]]"),
    ] {
        let mut json = of(procedure);
        let path = path.replace("/client\0", "");
        let path = if path == "/client" { "/scenario/client".to_owned() } else { path };
        set(&mut json, &path, value.clone());
        let refused = run(&json, folder.path()).expect_err(module);
        assert!(refused.contains(why), "{module}: {refused}");
    }
}

fn set(json: &mut Value, path: &str, value: Value) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = json.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {path}"));
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        parent => merge(parent, json!({key: value})),
    }
}

#[test]
fn a_log_that_a_page_can_not_be_made_of_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pooled = |count: u64| {
        let mut log = LOG.clone();
        log[1]["latency"]["samples"] = count.into();
        log
    };
    let start = |path: &str, value: Value| {
        let mut log = LOG.clone();
        set(&mut log[0], path, value);
        log
    };
    for (log, why) in [
        (start("/scenario/client", json!([])), "no [[client]]"),
        (start("/scenario/traffic/rate", json!(null)), "rate is missing"),
        (start("/instrument/rate/frames", json!(0)), "a rate of no frames"),
        (pooled(7), "is said to have 7"),
    ] {
        let refused = logged(&log, folder.path()).expect_err(why);
        assert!(refused.contains(why) && refused.contains("line "), "{refused}");
    }
    // Whatever is added up over a log, 64 bits hold it.
    let many = (0..2_000).map(
        |_| json!({"kind": "alarm", "alarm": "high-over", "at": "2027-01-15T00:00:00Z", "threshold_ns": 1_u64 << 52}),
    );
    let refused = logged(&many.collect::<Vec<_>>(), folder.path()).unwrap_err();
    assert!(refused.contains("line 1025") && refused.contains("more than can be measured"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_changed_run_is_refused_or_shown(which in 0_usize..8, changes in changes()) {
        let folder = tempfile::tempdir().unwrap();
        let _ = run(&changed(&RUNS[which], changes), folder.path());
    }

    #[test]
    fn a_changed_log_is_refused_or_shown(which in 0_usize..6, changes in changes()) {
        let folder = tempfile::tempdir().unwrap();
        let mut entries = LOG.clone();
        entries[which] = changed(&entries[which], changes);
        let _ = logged(&entries, folder.path());
    }
}
