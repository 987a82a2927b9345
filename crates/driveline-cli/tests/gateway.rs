// SPDX-License-Identifier: Apache-2.0
//! Output of the command about gateways that are down, and the exit code that a script sees.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use driveline_gateway::{Report, StatusSocket};
use driveline_terminal::version::{COMMIT, VERSION};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn domain(dir: &tempfile::TempDir) -> PathBuf {
    let domain = dir.path().join("domain");
    std::fs::DirBuilder::new().mode(0o700).create(&domain).unwrap();
    domain
}

fn listed(domain: &Path, options: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driveline"));
    let done = command
        .args(["gateway", "list"])
        .args(options)
        .env("DRIVELINE_DOMAIN_DIR", domain)
        .output()
        .unwrap();
    (
        done.status.code(),
        String::from_utf8(done.stdout).unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[test]
fn a_killed_gateway_is_an_error_next_to_the_reports_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let domain = domain(&dir);
    assert_eq!(listed(&domain, &[]).0, Some(0), "a domain without gateways has none that is down");
    let _alive = StatusSocket::new(&domain, "ros2", || Report {
        gateway: "ros2".into(),
        ..Report::default()
    })
    .unwrap();
    let (code, out, err) = listed(&domain, &[]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let dead = domain.join("gateway-zenoh.status");
    drop(UnixListener::bind(&dead).unwrap());
    // A process that another test forks has a copy of the listener until it executes its program.
    let start = Instant::now();
    while UnixStream::connect(&dead).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "the listener stays");
        std::thread::yield_now();
    }
    let (code, out, err) = listed(&domain, &[]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        out.starts_with("gateway ros2 ")
            && err.starts_with("error: the gateway 'zenoh' of ")
            && err.contains("was killed"),
        "{out}{err}"
    );
    let (code, out, err) = listed(&domain, &["--json"]);
    let answers: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, answers[0]["state"].as_str(), answers[1]["state"].as_str()),
        (Some(1), Some("running"), Some("dead")),
        "{answers}"
    );
    assert!(err.starts_with("error: the gateway 'zenoh' of "), "{err}");
}

#[test]
fn a_gateway_of_another_build_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let domain = domain(&dir);
    let of = |version: &str, commit: &str| Report {
        gateway: "zenoh".into(),
        version: version.into(),
        commit: commit.into(),
        ..Report::default()
    };
    for (version, commit, told) in [
        (VERSION, COMMIT, false),
        (VERSION, "other", true),
        ("9.9.9", COMMIT, true),
        ("", "", false),
    ] {
        let report = of(version, commit);
        let _alive = StatusSocket::new(&domain, "zenoh", move || report.clone()).unwrap();
        let (code, out, err) = listed(&domain, &[]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert_eq!(
            out.contains(&format!(
                "it is of version {version} (commit {commit}), and this program of"
            )),
            told,
            "{out}"
        );
        assert_eq!(out.contains("make gateways"), told, "{out}");
    }
}

#[test]
fn one_that_is_stopped_is_named_with_what_lets_it_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let domain = domain(&dir);
    // The stand-in for the gateway holds its lock; nothing answers on its socket.
    let lock = r#"exec 9>"$0" && printf %s $$ >&9 && exec sleep 600"#;
    let path = domain.join("gateway-zenoh.lock");
    let gateway = Background(Command::new("sh").args(["-c", lock]).arg(&path).spawn().unwrap());
    let _silent = UnixListener::bind(domain.join("gateway-zenoh.status")).unwrap();
    let pid = gateway.0.id();
    let start = Instant::now();
    while std::fs::read_to_string(&path).ok() != Some(pid.to_string()) {
        assert!(start.elapsed() < Duration::from_secs(60), "there is no lock");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(10));
    }
    let (code, _, err) = listed(&domain, &[]);
    assert!(
        code == Some(1)
            && err.contains("no answer within 3s")
            && err.contains(&format!("end it with `kill {pid}`")),
        "{err}"
    );
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let (code, out, err) = listed(&domain, &["--json"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains(&format!("(process {pid}) of "))
            && err.contains(&format!("is suspended, and carries nothing: `kill -CONT {pid}`")),
        "{err}"
    );
    let answers: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (answers[0]["state"].as_str(), answers[0]["pid"].as_u64()),
        (Some("suspended"), Some(pid.into())),
        "{answers}"
    );
}
