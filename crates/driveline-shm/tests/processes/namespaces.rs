// SPDX-License-Identifier: Apache-2.0
//! Processes in separate namespaces that share only the directory.

use crate::support::{Domain, Peer, eventually};
use std::process::{Command, Stdio};

const APART: &[&str] =
    &["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A wrapper for a peer that lives in namespaces of its own.
fn apart(more: &[&'static str]) -> Vec<&'static str> {
    let wrapper: Vec<&str> = ["unshare"].iter().chain(APART).chain(more).copied().collect();
    let tried = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .expect("unshare (util-linux)");
    assert!(
        tried.status.success(),
        "{wrapper:?} needs more rights: {}",
        String::from_utf8_lossy(&tried.stderr).trim()
    );
    wrapper
}

/// Data and deaths in both directions.
fn they_understand_each_other(d: &Domain, mut a: Peer, mut b: Peer) {
    a.ask("publisher p pins=4");
    b.ask("subscription s");
    b.ask("follow s");
    b.ask("publisher back topic=back");
    a.ask("subscription back topic=back reliable");
    a.until("events back", |t| t.contains("RELIABILITY"));
    a.ask("drop back");
    a.ask("subscription back topic=back");
    a.ask("follow back backend=threads");
    a.ask("await p 1");
    b.ask("await back 1");
    // Both sides sleep before each sample, so wake-ups cross the namespaces.
    for n in 1..=20 {
        a.ask("say p 1 3000");
        b.until("progress s", |t| t.split(' ').nth(2) == Some(&n.to_string()));
        b.ask("say back 1 3000");
        a.until("progress back", |t| t.split(' ').nth(2) == Some(&n.to_string()));
    }
    assert_eq!(a.ask("list").matches("\"pid_in_its_namespace\"").count(), 2);
    // `b` detects the death of `a` and gets its own pins back; the names of `a` are removed.
    a.kill();
    b.until("matched s", |t| t == "0");
    b.until("matched back", |t| t == "0");
    b.ask("halt s");
    let mut c = d.peer("successor");
    c.ask("publisher p");
    c.ask("await p 1");
    c.ask("say p 1 3000");
    b.until("take s", |t| t == "1 0");
    eventually("the dead one's sockets are removed", || d.names().len() == 6);
}

fn in_namespaces(wrapper: &[&str]) {
    let d = Domain::new();
    let a = d.peer_behind("first container", wrapper);
    let b = d.peer_behind("second container", wrapper);
    they_understand_each_other(&d, a, b);
    let d = Domain::new();
    let a = d.peer_behind("container", wrapper);
    let b = d.peer("host");
    they_understand_each_other(&d, a, b);
}

#[test]
#[ignore = "needs root, to make namespaces: make test runs it as root"]
fn two_namespaces_that_share_a_directory_understand_each_other() {
    in_namespaces(&apart(&[]));
}

#[test]
#[ignore = "needs the right to make user namespaces: make test runs it as root"]
fn two_user_namespaces_that_share_a_directory_understand_each_other() {
    in_namespaces(&apart(&["--user", "--map-root-user"]));
}
