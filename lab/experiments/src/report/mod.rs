// SPDX-License-Identifier: Apache-2.0
//! One self-contained page for an archive: tables that need no script, and plots that do
//! (`docs/adr/0011-lab-reports-have-scripts.md`).
//!
//! [`crate::analysis`] computes all its contents; this module only renders them. Plots get
//! quantiles, bins and thinned timelines, not all raw samples, and are drawn when they come into
//! view.

mod chain;
mod experiment;
mod headline;
mod html;
mod look;
mod plots;
mod setting;
mod views;

use crate::analysis::Analysis;
use crate::archive::Manifest;
use crate::table::remarks;
use driveline_bench::LeftOut;
use html::{escape, section, sentence};
use look::Looks;
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns the page.
#[must_use]
pub fn page(m: &Manifest, a: &Analysis) -> String {
    let looks = Looks::of(a);
    let ids: Vec<&str> = a.experiments.iter().map(|e| e.id.as_str()).collect();
    let title = format!("Driveline lab: {}", ids.join(", "));
    let mut body = format!("<header><h1>{}</h1>{}</header>\n", escape(&title), setting::lead(m));
    let lines = remarks(m, a, None);
    if !lines.is_empty() {
        let items: String = lines.iter().map(|l| format!("<li>{}</li>", sentence(l))).collect();
        let _ =
            write!(body, "<aside class=warn role=note aria-label=Caution><ul>{items}</ul></aside>");
    }
    body.push_str(
        "<noscript><p class=warn>Tables are complete without scripts; plots need them. Nothing is \
         fetched from a network.</p></noscript>",
    );
    body.push_str("<nav aria-label=Contents><ul>");
    for e in &a.experiments {
        let _ = write!(body, "<li><a href=\"#{0}\">{0}</a></li>", escape(&e.id));
    }
    let shared =
        LeftOut::shared(a.experiments.iter().map(|e| (e.id.as_str(), e.left_out.as_slice())));
    let everywhere = (experiment::LEFT_OUT, "Left out");
    for (anchor, name) in
        (!shared.is_empty()).then_some(everywhere).into_iter().chain(setting::SECTIONS)
    {
        let _ = write!(body, "<li><a href=\"#{anchor}\">{name}</a></li>");
    }
    body.push_str("</ul></nav>\n<main>\n");
    for e in &a.experiments {
        body.push_str(&section(
            &e.id,
            &format!("{} · {}", e.id, e.title),
            &experiment::experiment(e, &looks, &shared),
        ));
    }
    if !shared.is_empty() {
        body.push_str(&section(everywhere.0, everywhere.1, &experiment::left_out(&shared)));
    }
    body.push_str(&setting::sections(m, a));
    body.push_str("</main>\n");
    format!(
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport \
         content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; script-src \
         'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}{}\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&title),
        library()
    )
}

/// Returns the plotting library of the crate, without its typesetter of formulas: the page has
/// none.
fn library() -> String {
    let all = plotly::Plot::offline_js_sources();
    let end = all.find("</script>").map_or(all.len(), |at| at + "</script>".len());
    all.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_library_is_whole_and_alone() {
        let library = super::library();
        assert!(
            library.starts_with("<script")
                && library.ends_with("</script>")
                && library.contains("plotly.js v")
        );
        assert!(
            !library.contains("MathJax={") && (1_000_000..5_000_000).contains(&library.len()),
            "{}",
            library.len()
        );
    }
}
