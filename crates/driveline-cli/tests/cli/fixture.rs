// SPDX-License-Identifier: Apache-2.0
//! A directory with a graph, and the command in it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Returns the program that runs instead of `driveline-host`. It has its components compiled in,
/// and `cargo test` builds it as an example.
pub(crate) fn host() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let host = deps.parent().unwrap().parent().unwrap().join("examples/cli-test-host");
    assert!(
        host.exists(),
        "{} is missing; run `cargo build -p driveline-cli --examples`",
        host.display()
    );
    host
}

pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
}

impl Fixture {
    pub(crate) fn new(graph: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("g.yaml"), graph).unwrap();
        std::fs::write(dir.path().join("lib"), "").unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_driveline"));
        c.args(arguments).current_dir(self.dir.path());
        c.env("DRIVELINE_HOST", host())
            .env("DRIVELINE_DOMAIN_DIR", self.path("domain"))
            .env_remove("DRIVELINE_COMPONENT_PATH");
        c.stdin(Stdio::null());
        c
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        (
            status.code().unwrap(),
            String::from_utf8(stdout).unwrap(),
            String::from_utf8(stderr).unwrap(),
        )
    }

    /// Repeats a command until all of these words are in its output: a process that is too busy to
    /// answer at once is missing in the first output.
    pub(crate) fn asked(&self, arguments: &[&str], words: &[&str]) -> (i32, String, String) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.run(arguments);
            let missing = words.iter().find(|w| !answer.1.contains(**w));
            let Some(missing) = missing else { return answer };
            assert!(Instant::now() < end, "{missing:?} is not in\n{}{}", answer.1, answer.2);
        }
    }

    /// As [`Self::asked`], until the output in JSON is as wanted.
    pub(crate) fn json_until(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.json(arguments);
            if wanted(&answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{answer}");
        }
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let (_, out, err) = self.run(arguments);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}:\n{out}{err}"))
    }
}

pub(crate) const GRAPH: &str = "\
driveline: 1
name: demo
topics:
  a: {reach: host, max_payload: 8, qos: {depth: 64}}
  b: {reach: host, max_payload: 8, qos: {depth: 64}}
modules:
  source:
    components:
      counter: {library: lib, class: Counter, parameters: {limit: 20}, outputs: {count: a}}
  rest:
    components:
      relay: {library: lib, class: Relay, inputs: {in: a}, outputs: {out: b}}
      printer: {library: lib, class: Printer, inputs: {count: b}}
";

/// Ends the run when the test ends, also by a panic.
pub(crate) struct Background(pub(crate) std::process::Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
