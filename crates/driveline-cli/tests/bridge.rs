// SPDX-License-Identifier: Apache-2.0
//! A graph with only rules for ROS 2, and the output of the command about its gateway. A script
//! stands in for the gateway.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BRIDGE: &str =
    "driveline: 1\nname: bridge\nros2: {topics: [{topic: /camera/image, direction: to_ros}]}\n";
/// Stand-in for the gateway: it reports that it is ready, and ends with its launcher.
const GATEWAY: &str =
    "#!/bin/sh\nread -r config\necho '{\"record\":\"ready\"}' >&0\ncat > /dev/null\n";

struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_driveline"));
    c.args(arguments)
        .current_dir(dir)
        .env("DRIVELINE_HOST", "/nowhere/host")
        .env("DRIVELINE_ROS2_GATEWAY", dir.join("gateway"));
    c.env("DRIVELINE_DOMAIN_DIR", dir.join("domain")).stdin(Stdio::null());
    c
}

#[test]
fn it_is_valid_runs_until_it_is_interrupted_and_needs_no_host() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("g.yaml"), BRIDGE).unwrap();
    // Another process writes the script: a file that this process holds open for writing cannot be
    // started, and a process that is forked meanwhile would hold it open, too.
    let write = ["-c", r#"cat > "$0" && chmod 755 "$0""#];
    let mut write = Command::new("sh")
        .args(write)
        .arg(dir.path().join("gateway"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    write.stdin.take().unwrap().write_all(GATEWAY.as_bytes()).unwrap();
    assert!(write.wait().unwrap().success());
    let Output { stdout, stderr, .. } =
        command(dir.path(), &["validate", "g.yaml"]).output().unwrap();
    let said = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(said, ["g.yaml: valid (0 modules, 0 components, 0 topics, 1 rule for ROS 2)\n", ""]);

    let mut run =
        Background(command(dir.path(), &["run", "g.yaml"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(run.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|l| l.contains("running")));
    kill_process(Pid::from_raw(run.0.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.0.wait().unwrap().code(), Some(0), "{rest:?}");
    assert!(rest.last().is_some_and(|l| l.starts_with("ended as asked")), "{rest:?}");
    assert!(
        !rest.iter().any(|l| l.contains("published")),
        "there are no figures of modules: {rest:?}"
    );
}
