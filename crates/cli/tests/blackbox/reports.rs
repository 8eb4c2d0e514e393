//! `usect report`: stored runs again, and what is no run.

use crate::world::{World, names};
use serde_json::Value;
use std::fs;
use usect_core::run::Run;

/// Two stored runs, as paths relative to where the binary runs.
fn two_runs(world: &World) -> [String; 2] {
    let scenario = world.scenario("{ kind = \"wire\" }", "{ frame_size = 64, rate = \"10 kpps\" }", &["xdp", "kernel"]);
    for _ in 0..2 {
        world.compare(&scenario, &["--duration", "0.1"]);
    }
    let runs = world.runs();
    assert_eq!(runs.len(), 2, "a second run in the same second gets a folder of its own");
    [0, 1].map(|i| format!("runs/{}", runs[i]))
}

fn is_page(text: &str) {
    assert!(text.to_ascii_lowercase().starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"));
    assert!(!text.contains("src=\"http") && !text.contains("<link"), "a page opens offline");
}

#[test]
fn a_stored_run_is_shown_again() {
    let Some(world) = World::new() else { return };
    let [a, b] = two_runs(&world);
    let page = world.path(&a).join("report.html");
    fs::remove_file(&page).unwrap();
    let stored = fs::read_to_string(world.path(&a).join("run.json")).unwrap();
    let table = world.succeeds(&["report", &a]).stdout;
    assert!(table.contains("xdp") && table.contains("kernel"), "{table}");
    is_page(&fs::read_to_string(&page).unwrap());
    assert_eq!(fs::read_to_string(world.path(&a).join("run.json")).unwrap(), stored, "a run isn't changed by reading");
    world.succeeds(&["report", &format!("{a}/run.json")]);

    let both = world.succeeds(&["report", &a, &b, "--output", "both.html"]);
    assert!(both.stdout.ends_with("report: both.html\n"), "{both:?}");
    let text = fs::read_to_string(world.path("both.html")).unwrap();
    is_page(&text);
    for run in [&a, &b] {
        assert!(text.contains(run.strip_prefix("runs/").unwrap()), "{run} is not in the page of both");
    }

    let one: Run = serde_json::from_str(&world.succeeds(&["report", &a, "--json"]).stdout).unwrap();
    assert_eq!(one, serde_json::from_str(&stored).unwrap());
    let both: Vec<Run> = serde_json::from_str(&world.succeeds(&["report", &a, &b, "--json"]).stdout).unwrap();
    assert_eq!((both.len(), &both[0]), (2, &one));
    refusals(&world, &a);
}

/// What is no run is refused with the file's name, and no page is written.
fn refusals(world: &World, good: &str) {
    let json = fs::read_to_string(world.path(good).join("run.json")).unwrap();
    let mut other: Value = serde_json::from_str(&json).unwrap();
    other["schema"] = "usect.run/99".into();
    let mut lacking: Value = serde_json::from_str(&json).unwrap();
    lacking["trials"][0]["measured"]["counts"].as_object_mut().unwrap().remove("lost");
    for (what, text, part) in [
        ("garbage", "\u{0}{]\nnot a run".to_owned(), "it is not JSON"),
        ("list", "[]".to_owned(), "does not say its schema"),
        ("future", other.to_string(), "`usect.run/99`, and this version reads `usect.run/1`"),
        ("lacking", lacking.to_string(), "missing field `lost`"),
        ("cut", json[..json.len() / 2].to_owned(), "it is not JSON"),
    ] {
        fs::create_dir(world.path(what)).unwrap();
        fs::write(world.path(what).join("run.json"), text).unwrap();
        let sentence = world.refuses(&["report", what]);
        assert!(sentence.contains(&format!("{what}/run.json")) && sentence.contains(part), "{sentence}");
        assert_eq!(names(&world.path(what)), ["run.json"]);
    }
    fs::create_dir(world.path("empty")).unwrap();
    assert!(world.refuses(&["report", "empty"]).contains("can't read empty/run.json"));
    assert!(world.refuses(&["report", "nowhere"]).contains("nowhere"));
    assert!(world.refuses(&["report", good, "empty"]).contains("empty/run.json"));
    let logs = world.path(good).join("histograms");
    fs::write(logs.join("kernel.1.hlog"), "#[not a log]\n1,2\n").unwrap();
    assert!(world.refuses(&["report", good]).contains("kernel.1.hlog is damaged"));
    fs::remove_file(logs.join("kernel.1.hlog")).unwrap();
    assert!(world.refuses(&["report", good]).contains("kernel.1.hlog"));
}

#[test]
fn a_page_that_cannot_be_written_is_refused() {
    let Some(world) = World::new() else { return };
    let [a, _] = two_runs(&world);
    let sentence = world.refuses(&["report", &a, "--output", "no/such/folder/page.html"]);
    assert!(sentence.contains("no/such/folder/page.html"), "{sentence}");
}
