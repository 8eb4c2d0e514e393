//! What people see: the table and the page.
#![allow(missing_docs)]

mod common;

use serde_json::Value;
use std::sync::OnceLock;
use usect_core::gathered::Gathered;
use usect_core::run::Run;
use usect_core::trial::TrialResult;
use usect_report::{Histograms, StoredRun, html, table};

fn stored(results: &[TrialResult]) -> StoredRun {
    let gathered = Gathered::of(results);
    StoredRun { run: Run::of(common::header(), &gathered), histograms: Histograms::of(gathered.pooled()) }
}

/// Four clients, three runs each; made once, as it takes a second.
fn full() -> &'static StoredRun {
    static FULL: OnceLock<StoredRun> = OnceLock::new();
    FULL.get_or_init(|| stored(&common::results()))
}

/// A line of a table, by the words that begin it.
fn cells<'a>(text: &'a str, client: &str, what: &str) -> Vec<&'a str> {
    let lines: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("latency")).collect();
    let first = lines.iter().position(|l| l.starts_with(client)).unwrap();
    let line = lines[first..].iter().find(|l| l.contains(what)).unwrap();
    line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect()
}

#[test]
fn the_table_is_the_one_that_was_approved() {
    let text = table(&full().run, false);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/table.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap(), "set UPDATE_SNAPSHOTS=1 to approve the new one");
    let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
}

#[test]
fn colour_changes_nothing_but_colour() {
    let colored = table(&full().run, true);
    assert!(colored.contains("\x1b["));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    let trimmed = |t: &str| t.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(trimmed(&plain), trimmed(&table(&full().run, false)));
}

#[test]
fn what_a_sample_cannot_support_is_no_number() {
    let small = stored(&common::small_results());
    let text = table(&small.run, false);
    // 5,000 samples support p99.9 and no more.
    for what in ["client", "truth", "error"] {
        let cells = cells(&text, "kernel", what);
        assert_eq!(cells[cells.len() - 3..], ["n/a"; 3], "{cells:?}");
        assert_ne!(cells[cells.len() - 4], "n/a");
    }
    assert!(text.contains("p99.9999: n/a (needs 3,688,878, its error 4,382,025); udp-blocking has 5,000"), "{text}");
    let page = html(&[small]).unwrap().replace("&#x2f;", "/");
    assert!(page.contains("the error of p99.99 is n/a (needs 43,819 samples, has 5,000)"));
    assert!(page.contains("<td class=\"missing\">n/a<small>needs 3,688,878</small></td>"));
}

#[test]
fn quick_and_partial_are_said_first() {
    let mut run = full().clone();
    run.run.header.partial = Some("interrupted".to_owned());
    let said = [
        "QUICK: a demonstration, not a result to keep",
        "PARTIAL: interrupted",
        "PARTIAL, udp-blocking run 3: interrupted after 2.1 s",
    ];
    let (text, page) = (table(&run.run, false), html(&[run]).unwrap());
    for banner in said {
        assert!(text.find(banner).unwrap() < text.find("p99.9").unwrap());
        assert!(page.find(banner).unwrap() < page.find("<main>").unwrap());
    }
}

#[test]
fn a_client_without_truth_and_an_empty_run_are_shown() {
    let mut results = common::small_results();
    results.iter_mut().for_each(|r| r.truth = None);
    results[1].known_delay_ns = Some(5_000);
    let shown = stored(&results);
    let text = table(&shown.run, false);
    assert!(text.contains("no truth was taken, so its error is unknown"));
    assert_eq!(cells(&text, "udp-polling", "truth")[1..], ["5.00 µs"; 6]);
    html(&[shown]).unwrap();
    let empty = stored(&[]);
    assert!(table(&empty.run, false).contains("no trial was run"));
    html(&[empty]).unwrap();
    html(&[]).unwrap();
}

const EVIL: &str = "</script><script>alert(1)</script>\"'&<!--\x1b[2J";

fn evil() -> StoredRun {
    let mut results = common::small_results();
    for result in &mut results {
        result.client.notes.push(EVIL.to_owned());
        result.client.stalls.iter_mut().for_each(|s| s.thread = EVIL.to_owned());
        result.partial = Some(EVIL.to_owned());
        result.dut.push((EVIL.to_owned(), 1));
        // In the tables, where it isn't dropped but written out.
        result.trial.client.name.push_str(EVIL);
    }
    let mut run = stored(&results);
    let header = &mut run.run.header;
    header.scenario.title = EVIL.to_owned();
    header.environment.set(EVIL, EVIL);
    header.environment.set("cpu.model", EVIL);
    header.platform[0].thread = EVIL.to_owned();
    for text in [&mut header.id, &mut header.created, &mut header.usect, &mut header.procedure] {
        *text = EVIL.to_owned();
    }
    header.partial = Some(EVIL.to_owned());
    run
}

#[test]
fn nothing_from_a_run_becomes_markup_or_steers_the_terminal() {
    let mut other = evil();
    other.run.header.environment.set("cpu.model", "<b>");
    let clean = html(&[full().clone(), full().clone()]).unwrap();
    let page = html(&[evil(), other]).unwrap();
    let scripts = |page: &str| (page.matches("<script").count(), page.matches("</script").count());
    assert_eq!(scripts(&page), scripts(&clean));
    assert!(!page.contains("alert(1)</script>") && !page.contains("<b>\""));
    assert!(page.contains("&lt;script&gt;"));
    data(&page);
    for color in [false, true] {
        let table = table(&evil().run, color);
        assert!(!table.contains('\x1b') && table.contains("\\u001b[2J"));
    }
}

fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
    rest.split_once("</script>").unwrap().0
}

fn data(page: &str) -> Value {
    serde_json::from_str(element(page, "data")).unwrap()
}

#[test]
fn a_page_loads_nothing() {
    let page = html(&[full().clone()]).unwrap();
    assert!(page.contains("default-src 'none'"));
    let own = page.replace(element(&page, "charts"), "");
    for load in ["http:", "https:", "src=", "@import", "url(", "<link", "fetch(", "XMLHttpRequest"] {
        assert!(!own.contains(load), "the page has `{load}`");
    }
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

#[test]
fn the_chart_library_is_inside_and_whole() {
    use base64::Engine;
    use std::io::Read;
    let page = html(&[full().clone()]).unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(element(&page, "charts")).unwrap();
    let mut script = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut script).unwrap();
    assert!(script.contains("plotly.js v") && script.contains("MIT license"));
    assert!(script.len() > 4_000_000 && !script.contains("MathJax.js"), "{}", script.len());
}

#[test]
fn plots_begin_and_end_where_the_sample_does() {
    let data = data(&html(&[full().clone()]).unwrap());
    let clients = data["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 4);
    for client in clients {
        let name = client["label"].as_str().unwrap();
        let histograms = full().histograms.get(name).unwrap();
        for (key, histogram) in [
            ("latency", Some(&histograms.latency)),
            ("clean", histograms.clean.as_ref()),
            ("scheduled", histograms.scheduled.as_ref()),
            ("truth", histograms.truth.as_ref()),
        ] {
            if key == "clean" && name == "udp-blocking" {
                assert!(histogram.is_none() && client[key].is_null(), "its threads don't spin, so it isn't known");
                continue;
            }
            let (curve, all) = (&client[key], histogram.unwrap().cumulative());
            let (ns, above) = (curve["ns"].as_array().unwrap(), curve["above"].as_array().unwrap());
            let samples = histogram.unwrap().samples();
            assert_eq!(curve["samples"], samples);
            assert_eq!((&ns[0], &above[0]), (&all[0].0.into(), &(samples - all[0].1).into()), "{name} {key}");
            assert_eq!((ns.last(), above.last()), (Some(&histogram.unwrap().max().into()), Some(&0.into())));
            assert!(ns.len() == above.len() && ns.len() <= 1_500);
        }
    }
}

#[test]
fn runs_laid_over_each_other_begin_with_what_differs() {
    let mut other = full().clone();
    other.run.header.environment.set("kernel.release", "6.1.0");
    let page = html(&[full().clone(), other]).unwrap();
    let differs = page.find("Facts in which the runs differ").unwrap();
    assert!(differs < page.find("class=\"facts\"").unwrap());
    assert!(page.contains("<td class=\"text\">6.18.0</td><td class=\"text\">6.1.0</td>"));
    assert!(page.contains("A kernel") && page.contains("B kernel"));
    assert_eq!(data(&page)["clients"].as_array().unwrap().len(), 8);
}
