//! Packs the chart library for the page.
//!
//! plotly.js, because it alone of the libraries that cargo brings has hover, log axes, asymmetric
//! error bars and a legend that toggles, and draws SVG, which prints sharply. Packed, it adds 1.9 MB
//! to a page instead of 4.7 MB; the MathJax that comes along is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(chart_library().as_bytes()).expect("writing to memory does not fail");
    let packed = packer.finish().expect("writing to memory does not fail");
    let target = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("plotly.min.js.gz.b64");
    fs::write(target, STANDARD.encode(packed)).expect("cargo's OUT_DIR is writable");
}

/// The body of the script element that holds plotly.js.
fn chart_library() -> String {
    let elements = plotly::Plot::offline_js_sources();
    elements
        .split("<script")
        .filter_map(|element| element.split_once('>')?.1.rsplit_once("</script>"))
        .map(|(body, _)| body)
        .find(|body| body.trim_start().starts_with("/**\n* plotly.js"))
        .expect("the plotly crate embeds plotly.js")
        .to_owned()
}
