//! The page: one file that opens offline, from one or several runs.

use crate::StoredRun;
use crate::dissect::page::DISSECT;
use crate::loads::page::LOADS;
use crate::matrix::page::MATRIX;
use crate::plots::Plots;
use crate::series::{Series, labelled, letter};
use crate::suite::page::SUITE;
use crate::sweep::{self, Swept};
use crate::view::View;
use crate::{dissect, loads, matrix, suite};
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

/// Those of every page, and of each. `.html` turns the escaping of every value on.
const TEMPLATES: [(&str, &str); 9] = [
    ("base.html", include_str!("../templates/base.html")),
    ("grid.html", include_str!("../templates/grid.html")),
    (RUNS.template, include_str!("../templates/report.html")),
    (MONITOR.template, include_str!("../templates/monitor.html")),
    (SUITE.template, include_str!("../templates/suite.html")),
    (LOADS.template, include_str!("../templates/loads.html")),
    (DISSECT.template, include_str!("../templates/dissect.html")),
    (MATRIX.template, include_str!("../templates/matrix.html")),
    ("runs.html", include_str!("../templates/runs.html")),
];
const STYLE: &str = include_str!("../templates/report.css");
const HELPERS: &str = include_str!("../templates/charts.js");
/// plotly.js, packed by `build.rs`; the page's script unpacks it.
const CHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz.b64"));

/// A kind of page.
pub(crate) struct Kind {
    pub(crate) template: &'static str,
    pub(crate) script: &'static str,
}

/// Of runs.
const RUNS: Kind = Kind { template: "report.html", script: include_str!("../templates/report.js") };
/// Of a monitor's log.
pub(crate) const MONITOR: Kind = Kind { template: "monitor.html", script: include_str!("../templates/monitor.js") };

/// Why a page could not be made: a fault of usect, whatever the run.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The template failed.
    #[error("the page's template failed ({0:#}): this is a fault of usect, please report it with the run folder")]
    Template(#[from] minijinja::Error),
    /// The data of the plots could not be written.
    #[error("the page's data can't be written ({0}): this is a fault of usect, please report it with the run folder")]
    Data(#[from] serde_json::Error),
}

/// The page of one run, or of several laid over each other. It loads nothing: style, script, chart
/// library and data are inside, and its content security policy forbids requests.
pub fn html(runs: &[StoredRun]) -> Result<String, PageError> {
    let kinds = [suite::page::html, loads::page::html, dissect::page::html, matrix::page::html];
    if let Some(page) = kinds.into_iter().find_map(|html| html(runs)) {
        return page;
    }
    let swept: Vec<Swept> = runs.iter().flat_map(|run| sweep::of(&run.run)).collect();
    // Of hundreds of cases, no lines of their own.
    let series = if swept.is_empty() { Series::all(runs) } else { Vec::new() };
    let platform = runs.iter().enumerate().flat_map(|(i, run)| {
        let letter = letter(runs.len(), i);
        run.run.header.platform.iter().map(move |c| (labelled(letter, "no traffic"), c))
    });
    let plots = Plots::of(&series, platform.collect(), &swept);
    render(&RUNS, View::of(runs, &series, &swept), &plots)
}

/// A page of a kind: what it shows as text, and what its script draws.
pub(crate) fn render(kind: &Kind, view: impl Serialize, plots: &impl Serialize) -> Result<String, PageError> {
    // JSON that may stand inside a script element whatever names it has in it.
    let data = serde_json::to_string(plots)?.replace('<', "\\u003c");
    let mut templates = Environment::new();
    for (name, template) in TEMPLATES {
        templates.add_template(name, template)?;
    }
    let (view, script) = (Value::from(Serde(view)), kind.script);
    let page = context! { view, data, style => STYLE, helpers => HELPERS, script, charts => CHARTS };
    Ok(templates.get_template(kind.template)?.render(page)?)
}
