//! The page: one file that opens offline, from one or several runs.

use crate::StoredRun;
use crate::plots::Plots;
use crate::series::{Series, labelled, letter};
use crate::sweep::{self, Swept};
use crate::view::View;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};

const TEMPLATE: &str = include_str!("../templates/report.html");
const STYLE: &str = include_str!("../templates/report.css");
const SCRIPT: &str = include_str!("../templates/report.js");
/// plotly.js, packed by `build.rs`; the page's script unpacks it.
const CHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz.b64"));

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
    let swept: Vec<Swept> = runs.iter().flat_map(|run| sweep::of(&run.run)).collect();
    // Of hundreds of cases, no lines of their own.
    let series = if swept.is_empty() { Series::all(runs) } else { Vec::new() };
    let platform = runs.iter().enumerate().flat_map(|(i, run)| {
        let letter = letter(runs.len(), i);
        run.run.header.platform.iter().map(move |c| (labelled(letter, "no traffic"), c))
    });
    let data = Plots::of(&series, platform.collect(), &swept).json()?;
    let mut templates = Environment::new();
    // Of the name: `.html` turns the escaping of every value on.
    templates.add_template("report.html", TEMPLATE)?;
    let view = Value::from(Serde(View::of(runs, &series, &swept)));
    let page = context! { view, data, style => STYLE, script => SCRIPT, charts => CHARTS };
    Ok(templates.get_template("report.html")?.render(page)?)
}
