// SPDX-License-Identifier: Apache-2.0
//! The lab as users see it: progress on a terminal, and the report in a browser.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod browser;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use browser::{is_readable, open};
use serde_json::Value;
use skipped::skipped;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BENCH: &str = env!("CARGO_BIN_EXE_driveline-bench");

/// Returns the command without the peers of this machine.
fn without_peers(mut command: Command, dir: &Path) -> Command {
    command.current_dir(dir).env("DRIVELINE_PEERS", dir).stdin(Stdio::null());
    command
}

/// Returns the output of a command of the lab on a terminal with this many columns, in the pieces
/// in which it is drawn.
fn on_a_terminal(dir: &Path, columns: usize, arguments: &str) -> Vec<String> {
    let mut command = without_peers(Command::new("script"), dir);
    let line = format!("stty rows 24 cols {columns}; exec '{BENCH}' {arguments}");
    let out = command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        matches!(out.status.code(), Some(0 | 1)),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    text.split(['\r', '\n', '\x1b']).map(str::to_owned).collect()
}

/// Returns the progress that a bar shows, in percent, and its estimate of the remaining time. Both
/// are before the word `left`.
fn percent_and_eta(piece: &str) -> Option<(u64, &str)> {
    let (before, _) = piece.split_once(" left · ")?;
    let (before, eta) = before.rsplit_once(" %, ")?;
    Some((before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?, eta))
}

#[test]
fn a_terminal_shows_how_far_a_measurement_is_and_how_long_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = "scenario: 1
id: mine
title: A small link
source: a test
question: How far is it?
systems: [driveline]
link: {size: 1 KiB, rate_hz: 100, cpus: any}
cases:
  small: {}
run: {rounds: 5, messages: 20, warm_up: 2}
";
    std::fs::write(dir.path().join("mine.yaml"), scenario).unwrap();
    let link = "link --size 64 --wait block --rate 200 --messages 50 --rounds 3";
    for (arguments, names) in
        [("run ./mine.yaml --out a", "mine · round "), (link, "link · round ")]
    {
        let shown = on_a_terminal(dir.path(), 120, arguments);
        let rendered: Vec<(u64, &str)> =
            shown.iter().filter_map(|piece| percent_and_eta(piece)).collect();
        assert!(rendered.is_sorted_by_key(|(percent, _)| *percent), "{rendered:?}");
        // The bar is shown at the beginning and during the measurement, and is removed after the
        // end.
        assert!(
            rendered.first().is_some_and(|t| t.0 <= 5)
                && rendered.iter().any(|t| (1..100).contains(&t.0)),
            "{shown:#?}"
        );
        let is_time = |eta: &&str| {
            eta.ends_with(['s', 'm', 'n', 'h'])
                && eta.trim_start_matches("about ").starts_with(|c: char| c.is_ascii_digit())
        };
        assert!(rendered.iter().map(|t| t.1).all(|eta| is_time(&eta)), "{rendered:?}");
        // The bar shows an estimate before the first run has ended.
        assert!(
            rendered[0].1 != "about 0 s" && rendered[0].1.starts_with("about "),
            "{rendered:?}"
        );
        assert!(
            shown.iter().any(|piece| piece.contains(" left · ") && piece.contains(names)),
            "{shown:#?}"
        );
        assert!(shown.last().is_some_and(|piece| !piece.contains(" left · ")), "{shown:#?}");
    }
}

/// Lines fit the terminal. Without a terminal, each statement stays on one line, for `grep`.
#[test]
fn words_end_where_the_terminal_does_and_are_whole_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in ["list", "run S1 --dry-run", "peers --settings"] {
        let out = without_peers(Command::new(BENCH), dir.path())
            .args(arguments.split(' '))
            .output()
            .unwrap();
        let whole = String::from_utf8(out.stdout).unwrap();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in [60, 90, 200] {
            let shown = on_a_terminal(dir.path(), columns, arguments);
            // Names of cases are not wrapped.
            let widest = shown
                .iter()
                .filter(|l| !l.starts_with("    floor: "))
                .map(|l| l.chars().count())
                .max()
                .unwrap();
            assert!(
                widest <= columns.min(110),
                "{arguments}: {widest} of {columns} columns: {shown:#?}"
            );
            assert_eq!(words(&shown.join(" ")), words(&whole), "{arguments}");
        }
        assert!(whole.lines().any(|l| l.chars().count() > 110), "{arguments}: {whole}");
    }
}

/// Accepts any result of the experiment: on a busy machine, an account may not close, and the
/// report then shows that.
#[test]
fn a_browser_shows_the_report_of_a_real_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = without_peers(Command::new(BENCH), dir.path());
    let out = command
        .args(["run", "S1", "--quick", "--systems", "driveline", "--out", "a", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{said}");
    let summary: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(
        (&summary["complete"], &summary["experiments"][0]["id"]),
        (&true.into(), &"S1".into()),
        "{summary}"
    );
    let cases = summary["experiments"][0]["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["system"] == "driveline");
    let counts = |case: &Value| {
        case["runs"].as_array().unwrap().iter().any(|run| run["reasons"] == Value::Array(vec![]))
    };
    let measured = cases.filter(|c| counts(c)).count() > 0;

    let looks = [(false, 1280), (true, 1280), (false, 420)];
    for ((dark, width), rendered) in
        looks.into_iter().zip(open(&dir.path().join("a/report.html"), looks).into_iter().flatten())
    {
        assert_eq!(
            (&rendered.errors, &rendered.fetched, &rendered.empty),
            (&vec![], &vec![], &vec![]),
            "{rendered:?}"
        );
        assert_eq!(rendered.dark, dark);
        assert!(!measured || rendered.plots > 0 && !rendered.views.is_empty(), "{rendered:?}");
        assert!(
            rendered.page_width <= rendered.width
                && rendered.width <= f64::from(width)
                && rendered.scrolling.is_empty(),
            "{rendered:?}"
        );
        assert!(is_readable(&rendered), "{rendered:?}");
    }
}

/// The load of S5 must be able to tear payloads: otherwise "none torn" would have no meaning.
#[test]
fn the_torn_reads_of_s5_tear_two_buffers_without_a_check() {
    let Some(peers) = std::env::var_os("DRIVELINE_PEERS")
        .map(PathBuf::from)
        .filter(|d| d.join("as_published").is_file())
    else {
        return skipped(
            "SIM's protocol",
            "DRIVELINE_PEERS names no directory with the peer as_published",
            "run `make peers-test`",
        );
    };
    let dir = tempfile::tempdir().unwrap();
    let shown = Command::new(BENCH).args(["list", "--show", "S5"]).output().unwrap();
    // Runs S5 with its own parameters, but only for a second and a half.
    let text = String::from_utf8(shown.stdout).unwrap();
    let (before, quick) = text.split_once("\nquick:").expect("numbers for --quick");
    // Its value has further lines, which are indented.
    let after: Vec<&str> = quick.lines().skip(1).skip_while(|l| l.starts_with(' ')).collect();
    let text = format!(
        "{before}\nquick: {{rounds: 1, seconds: 1.5, cases: [torn reads], systems: [driveline, \
         as_published/sim]}}\n{}\n",
        after.join("\n")
    );
    std::fs::write(dir.path().join("torn.yaml"), text).unwrap();
    let mut command = Command::new(BENCH);
    command.current_dir(dir.path()).env("DRIVELINE_PEERS", peers).stdin(Stdio::null());
    let out =
        command.args(["run", "./torn.yaml", "--quick", "--out", "a", "--json"]).output().unwrap();
    let summary: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let cases = summary["experiments"][0]["cases"].as_array().unwrap();
    let torn = |system: &str| {
        let case = cases
            .iter()
            .find(|c| c["system"] == system && c["role"] == "measured")
            .unwrap_or_else(|| panic!("{system}: {summary}"));
        case["totals"]["torn"].as_u64().unwrap_or_else(|| panic!("{case}"))
    };
    assert!(torn("as_published/sim") > 0, "nothing tore");
    assert_eq!(torn("driveline"), 0);
}
