// SPDX-License-Identifier: Apache-2.0
//! A report in a real browser: the test clicks everything in it and reports each error of the page
//! or the browser.
//!
//! The test controls the browser over its DevTools protocol, through a pipe. It does not depend on
//! the browser's speed: the browser reports when a page is loaded, the page reports by `aria-busy`
//! which plots are still to be drawn, and [`PATIENCE`] is for a browser that hangs. (Virtual time,
//! and the document that the browser prints after it, do not help: plots are drawn in frames, for
//! which virtual time does not wait.)
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses some of it, and may stop at a surprise"
)]

pub(crate) mod devtools;

use crate::skipped::skipped;
use devtools::Browser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Names of programs that are this browser.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Returns `None`, with a message, if no browser of this family is installed. Ubuntu offers it only
/// as a snap.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|d| BROWSERS.map(|b| d.join(b)))
        .find(|p| p.is_file());
    if found.is_none() {
        let why = format!("no browser ({}) is in PATH", BROWSERS.join(", "));
        skipped(
            "a report in a browser",
            &why,
            "`apt install chromium`, or on Ubuntu, where that is a snap, Google's package of \
             Chrome",
        );
    }
    found
}

/// State of the page after everything in it was opened.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct RenderedPage {
    /// Errors of the page, and of the browser in its console.
    pub(crate) errors: Vec<String>,
    pub(crate) plots: usize,
    /// Height of the overview plot; 0 if there is nothing to compare.
    pub(crate) overview_height: f64,
    pub(crate) views: Vec<String>,
    pub(crate) empty: Vec<String>,
    /// Words that extend beyond their plot, each with the view of the plot.
    pub(crate) words_cut: Vec<String>,
    pub(crate) dark: bool,
    pub(crate) width: f64,
    pub(crate) page_width: f64,
    pub(crate) text_colour: String,
    pub(crate) plot_text_colour: String,
    pub(crate) sections: usize,
    pub(crate) fetched: Vec<String>,
    pub(crate) scrolling: Vec<String>,
    /// Number of tables that are partly hidden.
    pub(crate) cut: usize,
    /// Number of these tables that do not show that a part is hidden.
    pub(crate) cut_unseen: usize,
    /// Headings of tables that are wider than the available width.
    pub(crate) cut_across: Vec<String>,
}

/// Clicks through everything and records the result; its value is a [`RenderedPage`].
const PROBE: &str = r#"(async () => {
  const rendered = { errors: [], views: [], empty: [], words_cut: [], fetched: [] };
  const frame = () => new Promise(requestAnimationFrame);
  // Waits until the page has drawn everything in the element.
  const busy = "[aria-busy=true]";
  const drawn = async (element) => {
    while (element.matches(busy) || element.querySelector(busy)) await frame();
  };
  const beyond = (plot, view) => {
    const edge = plot.getBoundingClientRect();
    for (const word of plot.querySelectorAll("svg text")) {
      const at = word.getBoundingClientRect();
      const cut = at.left < edge.left - 1 || at.right > edge.right + 1
        || at.top < edge.top - 1 || at.bottom > edge.bottom + 1;
      if (at.width > 0 && cut) rendered.words_cut.push(`${view}: ${word.textContent}`);
    }
  };
  for (const d of document.querySelectorAll("details")) d.open = true;
  for (const p of document.querySelectorAll("[data-plot], .explorer")) {
    p.scrollIntoView({ behavior: "instant" });
    await drawn(p);
  }
  for (const p of document.querySelectorAll("[data-plot]")) beyond(p, "at a glance");
  for (const box of document.querySelectorAll(".explorer")) {
    const tabs = [...box.querySelectorAll("[role=tab]")];
    if (tabs.length === 0) { rendered.errors.push("an explorer came to nothing"); continue; }
    tabs[0].focus();
    tabs[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    if (tabs.length > 1 && document.activeElement !== tabs[1])
      rendered.errors.push("the arrow key does not reach the next tab");
    for (const tab of tabs) {
      tab.click();
      const select = box.querySelector("select");
      for (const cell of [...select.options].map((o) => o.value)) {
        select.value = cell;
        select.dispatchEvent(new Event("change"));
        await drawn(box);
        const shapes = box.querySelectorAll(
          ".plot .trace, .plot .point, .plot .points path, .plot .box").length;
        rendered.views.push(`${tab.textContent} | ${cell}`);
        if (shapes === 0) rendered.empty.push(`${tab.textContent} | ${cell}`);
        beyond(box.querySelector(".plot"), `${tab.textContent} | ${cell}`);
      }
    }
    // A chosen cell stays chosen, whatever other views have. Each view names its cell if there are
    // several.
    tabs[0].click();
    await drawn(box);
    const select = box.querySelector("select");
    const cell = select.options[select.options.length - 2]?.value ?? select.value;
    const several = select.options.length > 1;
    select.value = cell;
    select.dispatchEvent(new Event("change"));
    for (const tab of tabs) {
      tab.click();
      const has = [...select.options].some((o) => o.value === cell);
      const shown = `${tab.textContent} shows ${select.value}`;
      if (has && select.value !== cell) rendered.errors.push(`${shown}, and ${cell} is chosen`);
      if (several && select.closest(".cell").hidden)
        rendered.errors.push(`${shown} without naming it`);
    }
    tabs[0].click();
    await drawn(box);
    if (select.value !== cell)
      rendered.errors.push(`${cell} was chosen, and ${select.value} is shown`);
  }
  await frame();
  rendered.plots = document.querySelectorAll("svg.main-svg").length;
  const overview = document.querySelector("[data-plot]");
  rendered.overview_height = overview ? overview.getBoundingClientRect().height : 0;
  rendered.sections = document.querySelectorAll("main > section").length;
  rendered.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  rendered.width = document.documentElement.clientWidth;
  rendered.page_width = document.documentElement.scrollWidth;
  rendered.text_colour = getComputedStyle(document.body).color;
  const tick = document.querySelector(".xtick text");
  rendered.plot_text_colour = tick ? getComputedStyle(tick).fill : "";
  rendered.fetched = performance.getEntriesByType("resource").map((r) => r.name);
  // Elements with a horizontal scroll bar of their own; tables may have one.
  const wider = (e) => e.scrollWidth > e.clientWidth + 1;
  rendered.scrolling = [...document.querySelectorAll("body *:not(.wide)")]
    .filter((e) => wider(e) && /auto|scroll/.test(getComputedStyle(e).overflowX))
    .map((e) => e.tagName);
  const cut = [...document.querySelectorAll(".wide")]
    .filter((e) => wider(e) || e.scrollHeight > e.clientHeight + 1);
  rendered.cut = cut.length;
  const above = (e) => {
    while (e && !/^H[23]$/.test(e.tagName)) e = e.previousElementSibling ?? e.parentElement;
    return e ? e.textContent : "";
  };
  rendered.cut_across = cut.filter(wider).map(above);
  // A cut table must have two backgrounds: a shade that stays at its edge (`scroll`), and a cover
  // over the shade that scrolls away with the content (`local`).
  const attachment = (e) => getComputedStyle(e).backgroundAttachment;
  const unseen = (e) => !["local", "scroll"].every((a) => attachment(e).includes(a));
  rendered.cut_unseen = cut.filter(unseen).length;
  return rendered;
})()"#;

/// Opens a page once for each entry of `looks` (dark or light, and width). Returns the states of
/// the page with the browser's errors; `None` without a browser.
pub(crate) fn open<const N: usize>(
    page: &Path,
    looks: [(bool, u32); N],
) -> Option<[RenderedPage; N]> {
    let mut browser = Browser::start(&program()?);
    Some(looks.map(|(dark, width)| look(&mut browser, page, dark, width)))
}

fn look(browser: &mut Browser, page: &Path, dark: bool, width: u32) -> RenderedPage {
    let tab = browser.tab();
    let scheme = if dark { "dark" } else { "light" };
    browser.call(
        &tab,
        "Emulation.setEmulatedMedia",
        &json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
    );
    let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
    browser.call(&tab, "Emulation.setDeviceMetricsOverride", &metrics);
    let url = format!("file://{}", page.display());
    let opened = browser.call(&tab, "Page.navigate", &json!({ "url": url }));
    assert_eq!(opened["errorText"], Value::Null, "{url}: {opened}");
    browser.event(&tab, "Page.loadEventFired");
    let probed = browser.call(
        &tab,
        "Runtime.evaluate",
        &json!({ "expression": PROBE, "awaitPromise": true, "returnByValue": true }),
    );
    let value = probed["result"]["value"].clone();
    let mut rendered: RenderedPage =
        serde_json::from_value(value).unwrap_or_else(|e| panic!("{e}: {probed}"));
    rendered.errors.extend(browser.complaints(&tab));
    browser.close(&tab);
    rendered
}

/// Returns the brightness of a colour as reported by a browser, from 0 to 255.
pub(crate) fn brightness(colour: &str) -> f64 {
    let inner = colour.split_once('(').map_or("", |(_, rest)| rest);
    let parts: Vec<f64> = inner
        .trim_end_matches(')')
        .split(',')
        .take(3)
        .filter_map(|p| p.trim().parse().ok())
        .collect();
    assert_eq!(parts.len(), 3, "'{colour}' is no colour");
    parts.iter().sum::<f64>() / 3.0
}

/// Returns true if text of the page and of its plots is readable in these colours.
pub(crate) fn is_readable(rendered: &RenderedPage) -> bool {
    let readable = |b: f64| if rendered.dark { b > 180.0 } else { b < 80.0 };
    readable(brightness(&rendered.text_colour))
        && (rendered.plots == 0 || readable(brightness(&rendered.plot_text_colour)))
}
