// SPDX-License-Identifier: Apache-2.0
//! A report in a real browser: everything in it is clicked, and whatever complains is told, the page or the browser.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "each test uses some of it, and may stop at a surprise")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs that are the same browser under other names.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// A browser that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn browser() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).flat_map(|d| BROWSERS.map(|b| d.join(b)));
    let found = all.into_iter().find(|p| p.is_file());
    found.unwrap_or_else(|| panic!("no browser ({}) is in PATH: `make setup`, or `apt install chromium`; on Ubuntu, where that is a snap, Google's package of Chrome", BROWSERS.join(", ")))
}

/// What the page told after everything in it was opened.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Told {
    /// What the page complained of, and the browser in its console.
    pub(crate) errors: Vec<String>,
    pub(crate) plots: usize,
    /// 0 if there is nothing to compare.
    pub(crate) overview_height: f64,
    pub(crate) views: Vec<String>,
    pub(crate) empty: Vec<String>,
    pub(crate) dark: bool,
    pub(crate) width: f64,
    pub(crate) page_width: f64,
    pub(crate) text_colour: String,
    pub(crate) plot_text_colour: String,
    pub(crate) sections: usize,
    pub(crate) fetched: Vec<String>,
    pub(crate) scrolling: Vec<String>,
}

/// Clicks through everything and notes what happens; runs behind the page's own script.
const PROBE: &str = r##"<script>
(async () => {
  const wait = (ms) => new Promise((r) => setTimeout(r, ms));
  const told = { errors: window.__errors, plots: 0, overview_height: 0, views: [], empty: [], fetched: [] };
  for (const d of document.querySelectorAll("details")) d.open = true;
  // Plots are drawn when they are seen, which takes frames; virtual time does not wait for those, and runs ahead on a busy machine.
  for (const p of document.querySelectorAll("[data-plot], .explorer")) { p.scrollIntoView({ behavior: "instant" }); for (let i = 0; i < 10000 && !p.querySelector("svg"); i++) await wait(50); }
  for (const box of document.querySelectorAll(".explorer")) {
    const tabs = [...box.querySelectorAll("[role=tab]")];
    if (tabs.length === 0) { told.errors.push("an explorer came to nothing"); continue; }
    { tabs[0].focus(); tabs[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true })); await wait(50); }
    if (tabs.length > 1 && document.activeElement !== tabs[1]) told.errors.push("the arrow key does not reach the next tab");
    for (const tab of tabs) {
      tab.click();
      const select = box.querySelector("select");
      for (const cell of [...select.options].map((o) => o.value)) {
        select.value = cell;
        select.dispatchEvent(new Event("change"));
        await wait(30);
        const drawn = box.querySelectorAll(".plot .trace, .plot .point, .plot .points path, .plot .box").length;
        told.views.push(`${tab.textContent} | ${cell}`);
        if (drawn === 0) told.empty.push(`${tab.textContent} | ${cell}`);
      }
    }
    tabs[0].click();
    await wait(50);
  }
  told.plots = document.querySelectorAll("svg.main-svg").length;
  const overview = document.querySelector("[data-plot]");
  told.overview_height = overview ? overview.getBoundingClientRect().height : 0;
  told.sections = document.querySelectorAll("main > section").length;
  told.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  told.width = document.documentElement.clientWidth;
  told.page_width = document.documentElement.scrollWidth;
  told.text_colour = getComputedStyle(document.body).color;
  const tick = document.querySelector(".xtick text");
  told.plot_text_colour = tick ? getComputedStyle(tick).fill : "";
  told.fetched = performance.getEntriesByType("resource").map((r) => r.name);
  // What has a scroll bar of its own along its lines; tables may.
  told.scrolling = [...document.querySelectorAll("body *:not(.wide)")].filter((e) => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX)).map((e) => e.tagName);
  // In a frame, to the page around it, whose document is printed.
  const tell = (text) => { const out = document.createElement("pre"); out.id = "told"; out.textContent = text; document.body.append(out); };
  if (parent === window) tell(JSON.stringify(told)); else parent.postMessage(JSON.stringify(told), "*");
})();
</script>"##;

const CATCH: &str = r#"<script>
window.__errors = [];
addEventListener("error", (e) => window.__errors.push(String(e.message)));
addEventListener("unhandledrejection", (e) => window.__errors.push(String(e.reason)));
addEventListener("securitypolicyviolation", (e) => window.__errors.push("refused: " + e.blockedURI));
for (const level of ["error", "warn"]) { const own = console[level]; console[level] = (...a) => { window.__errors.push(a.join(" ")); own.apply(console, a); }; }
</script>"#;

/// The page in a frame as wide as a phone: a window of its own is never narrower than 500.
const FRAME: &str = r#"<!doctype html><body style="margin:0"><script>
addEventListener("message", (e) => { const out = document.createElement("pre"); out.id = "told"; out.textContent = e.data; document.body.append(out); });
</script><iframe src="PAGE" width="WIDTH" height="880" style="border:0"></iframe></body></html>"#;

/// What a page said into the console of its browser, by the browser's log. Not all of it goes through the page: what is wrong with a
/// drawing, or refused by a policy, is said by the browser itself.
fn console(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| line.contains(":CONSOLE"))
}

/// Opens a page and returns what it told, and what the browser complained of.
pub(crate) fn open(page: &Path, dir: &Path, dark: bool, width: u32) -> Told {
    let text = std::fs::read_to_string(page).unwrap();
    let (head, body) = text.split_once("<title>").unwrap();
    let watched = format!("{head}{CATCH}<title>{}", body.replace("</body>\n</html>", &format!("{PROBE}</body>\n</html>")));
    let name = format!("{}-{width}", if dark { "dark" } else { "light" });
    let (copy, profile, out) = (dir.join(format!("{name}.html")), dir.join(&name), dir.join(format!("{name}.out")));
    let log = dir.join(format!("{name}.log"));
    std::fs::write(&copy, watched).unwrap();
    let shown = if width < 500 {
        let frame = dir.join(format!("{name}-frame.html"));
        std::fs::write(&frame, FRAME.replace("PAGE", &format!("{name}.html")).replace("WIDTH", &width.to_string())).unwrap();
        frame
    } else {
        copy
    };
    let mut child = Command::new(browser())
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--window-size={width},900"))
        .args(["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=1000000", "--dump-dom"])
        .arg(format!("file://{}", shown.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the browser did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = std::fs::read_to_string(&out).unwrap();
    let (_, told) = dom
        .split_once("<pre id=\"told\">")
        .unwrap_or_else(|| panic!("the page came to no end:\n{}", dom.get(dom.len().saturating_sub(2000)..).unwrap_or_default()));
    let (told, _) = told.split_once("</pre>").unwrap();
    let told = told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let mut told: Told = serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {told}"));
    let log = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    told.errors.extend(console(&log).map(str::to_owned));
    told
}

/// Of a colour as a browser tells it, from 0 to 255.
pub(crate) fn brightness(colour: &str) -> f64 {
    let inner = colour.split_once('(').map_or("", |(_, rest)| rest);
    let parts: Vec<f64> = inner.trim_end_matches(')').split(',').take(3).filter_map(|p| p.trim().parse().ok()).collect();
    assert_eq!(parts.len(), 3, "'{colour}' is no colour");
    parts.iter().sum::<f64>() / 3.0
}

/// Whether text of the page and of its plots can be read in these colours.
pub(crate) fn is_readable(told: &Told) -> bool {
    let readable = |b: f64| if told.dark { b > 180.0 } else { b < 80.0 };
    readable(brightness(&told.text_colour)) && (told.plots == 0 || readable(brightness(&told.plot_text_colour)))
}
