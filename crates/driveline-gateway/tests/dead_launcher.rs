// SPDX-License-Identifier: Apache-2.0
//! Behaviour of a gateway whose launcher has died.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use driveline_runtime::account::Record;
use driveline_runtime::host::exit;
use driveline_runtime::launch::control::ControlSocket;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a gateway and waits until it is ready. Returns it with the launcher's end of its socket.
fn started(control: &Path) -> (Child, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"{}\n").unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_driveline-idle-gateway"))
        .args(["--account-stdin", "--control"])
        .arg(control)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = |line: std::io::Result<String>| {
        serde_json::from_str::<Record>(&line.unwrap()).unwrap() == Record::Ready
    };
    assert!(BufReader::new(&ours).lines().any(ready));
    (child, ours)
}

#[test]
fn a_gateway_removes_the_socket_of_its_dead_launcher_and_of_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let domain = dir.path().join("domain");
    std::fs::create_dir(&domain).unwrap();
    // This socket stands for a launcher, which is alive while it listens.
    let path = ControlSocket::new(&domain, "test", "g").unwrap().path().to_owned();
    let listener = UnixListener::bind(&path).unwrap();
    let (mut first, to_first) = started(&path);
    drop(to_first);
    assert_eq!(first.wait().unwrap().code(), Some(i32::from(exit::DONE)));
    assert!(path.exists(), "its launcher is alive");
    let (mut second, to_second) = started(&path);
    // The listener is dropped first: the gateway checks the launcher's control socket as soon as
    // its standard input has ended.
    drop((listener, to_second));
    assert_eq!(second.wait().unwrap().code(), Some(i32::from(exit::DONE)));
    assert_eq!(std::fs::read_dir(&domain).unwrap().count(), 0);
}
