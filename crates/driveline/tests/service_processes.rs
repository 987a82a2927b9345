// SPDX-License-Identifier: Apache-2.0
//! Clients and servers that are killed, stopped and started again. They are real processes: further
//! instances of this test program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

use driveline::service::ServiceStats;
use driveline::types::MonotonicNs;
use driveline::{
    AnswerError, CallError, Caller, Client, ClientOptions, Context, ContextOptions, Executor,
    ExecutorOptions, GroupKind, Node, Reach, Service, ServiceCallback, ServiceOptions, plain_type,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Only a failure takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Role of the process, and its domain.
const ROLE: &str = "DRIVELINE_TEST_ROLE";
const DOMAIN: &str = "DRIVELINE_TEST_DOMAIN";
/// Prefix of messages of a started process; the test harness writes to the same stream.
const MARK: &str = "@driveline ";

/// Requests a reply with `value` and `numbers` numbers. They take a megabyte, so held replies use
/// much memory.
#[plain_type(name = "test/Question", crate = driveline::types)]
struct Question {
    value: u64,
    numbers: u64,
}

#[plain_type(name = "test/Reply", tail(numbers: u64), crate = driveline::types)]
struct Reply {
    value: u64,
    process: u64,
}

const NUMBERS: u64 = 1 << 17;

fn node(domain: &Path, name: &str) -> Node {
    Context::new(ContextOptions { name: name.into(), domain_dir: Some(domain.to_owned()) })
        .unwrap()
        .node(name)
        .unwrap()
}

fn service(node: &Node) -> Service<Question, Reply> {
    let o =
        ServiceOptions { reach: Reach::Host, max_response: (16 << 20) + 64, ..Default::default() };
    node.service("reply", o).unwrap()
}

fn client(node: &Node) -> Client<Question, Reply> {
    let mut client =
        node.client("reply", ClientOptions { reach: Reach::Host, ..Default::default() }).unwrap();
    assert!(client.wait_for_server(PATIENCE));
    client
}

fn question(value: u64) -> Question {
    Question { value, numbers: NUMBERS }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = MonotonicNs::now() + PATIENCE;
    while !condition() {
        assert!(MonotonicNs::now() < deadline, "not {what} within {PATIENCE:?}");
        // time: a pause between polls; the test fails only after 60 s
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process with a role. Dropping the `Peer` kills the process.
struct Peer {
    child: Child,
    lines: Receiver<String>,
}

fn start(domain: &Path, role: &str) -> Peer {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_peer_plays_its_role", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DOMAIN, domain)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            // The first line begins with text of the test harness.
            if let Some((_, text)) = line.split_once(MARK)
                && sender.send(text.to_owned()).is_err()
            {
                break;
            }
        }
    });
    Peer { child, lines }
}

impl Peer {
    fn says(&self, what: &str) {
        assert_eq!(self.lines.recv_timeout(PATIENCE).unwrap(), what);
    }
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    /// Stops the process (`SIGSTOP`), and waits until it has stopped.
    fn stop(&self) {
        self.signal(Signal::STOP);
        waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED).unwrap();
    }
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(what: &str) {
    println!("{MARK}{what}");
}

/// Does nothing until this process is killed.
fn linger() -> ! {
    loop {
        std::thread::park();
    }
}

/// Runs the role of a started process. Without a role in the environment it does nothing.
#[test]
fn a_peer_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let node = node(Path::new(&std::env::var(DOMAIN).unwrap()), &role);
    match role.as_str() {
        "server_that_takes_nothing" => {
            let _service = service(&node);
            linger();
        }
        "server_that_computes" => {
            let mut service = service(&node);
            let mut kept = None;
            until("taken", || {
                kept = service.take().unwrap();
                kept.is_some()
            });
            say("taken");
            linger();
        }
        "server" => {
            let mut service = service(&node);
            loop {
                service.wait(None).unwrap();
                if let Some((request, responder)) = service.take().unwrap() {
                    let Question { value, numbers } = *request.view().unwrap().head();
                    let mut reply = responder.loan(numbers as usize).unwrap();
                    let mut view = reply.view_mut().unwrap();
                    (view.value, view.process) = (value, u64::from(std::process::id()));
                    view.tail_mut().fill(value);
                    reply.send().unwrap();
                    say("answered");
                }
            }
        }
        "client_that_has_sent" => {
            let mut client = client(&node);
            // time: no server answers, so only the time-out ends it
            let error = client.call(question(1), Duration::from_millis(1)).err().unwrap();
            assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
            // Drops nothing: the process is killed while it still owns its endpoints.
            std::mem::forget((client, node));
            say("sent");
            linger();
        }
        "client_that_waits" => {
            let mut client = client(&node);
            say("calls");
            let _ = client.call(question(1), Duration::MAX);
        }
        "client_that_holds" => {
            let _reply = client(&node).call(question(1), PATIENCE).unwrap();
            say("holds");
            linger();
        }
        other => panic!("unknown role '{other}'"),
    }
}

fn caller(client: Client<Question, Reply>) -> (Executor, Caller<Question, Reply>) {
    let executor = Executor::new(ExecutorOptions::default()).unwrap();
    let group = executor.group(GroupKind::MutuallyExclusive);
    let caller =
        executor.add_client(client, ServiceCallback { name: "asks".into(), group }).unwrap();
    (executor, caller)
}

#[test]
fn a_server_that_is_killed_before_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path(), "client");
    let mut server = start(dir.path(), "server_that_takes_nothing");
    let (executor, caller) = caller(client(&node));
    let (told, heard) = channel();
    caller
        .call_then(question(1), Duration::MAX, move |reply| told.send(reply.map(drop)).unwrap())
        .unwrap();
    server.kill();
    let mut outcome = None;
    until("heard", || {
        executor.run_ready();
        outcome = heard.try_recv().ok();
        outcome.is_some()
    });
    assert!(
        matches!(outcome, Some(Err(CallError::ServerGone { was_taken: false, .. }))),
        "{outcome:?}"
    );
}

#[test]
fn a_server_that_is_killed_while_it_computes() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path(), "client");
    let mut server = start(dir.path(), "server_that_computes");
    let mut client = client(&node);
    let outcome = std::thread::scope(|scope| {
        let calling = scope.spawn(|| client.call(question(1), Duration::MAX).map(drop));
        server.says("taken");
        server.kill();
        calling.join().unwrap()
    });
    assert!(matches!(outcome, Err(CallError::ServerGone { was_taken: true, .. })), "{outcome:?}");
}

#[test]
fn what_a_server_published_before_it_was_killed_is_delivered_whole() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path(), "client");
    let mut server = start(dir.path(), "server");
    let (executor, caller) = caller(client(&node));
    let (told, heard) = channel();
    for value in 1..=2 {
        let told = told.clone();
        let then = move |reply: Result<driveline::Sample<Reply>, CallError>| {
            let reply = reply.unwrap();
            let view = reply.view().unwrap();
            told.send((
                view.value,
                view.tail().len() as u64,
                view.tail().iter().all(|n| *n == value),
            ))
            .unwrap();
        };
        caller.call_then(question(value), PATIENCE, then).unwrap();
        server.says("answered");
        if value == 1 {
            // Once the first response has arrived, the client is matched with the server's response
            // publisher.
            until("heard", || executor.run_ready() == 1);
        }
    }
    server.kill();
    until("gone", || !caller.raw().has_server());
    executor.run_ready();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(1, NUMBERS, true), (2, NUMBERS, true)]);
}

#[test]
fn a_server_that_is_started_again_serves_the_clients_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path(), "client");
    let mut server = start(dir.path(), "server");
    let mut client = client(&node);
    let mut processes = std::collections::BTreeSet::new();
    for round in 0..3 {
        let reply = client.call(question(round), PATIENCE).unwrap();
        let view = reply.view().unwrap();
        assert_eq!((view.value, view.tail().len() as u64), (round, NUMBERS));
        processes.insert(view.process);
        // A held response leaves no room for the next response, even one of another server.
        drop(reply);
        server.kill();
        server = start(dir.path(), "server");
        // Waits until the client no longer sees the killed server, or already reaches the new one.
        until("gone", || {
            !client.wait_for_server(Duration::ZERO) || client.call(question(9), PATIENCE).is_ok()
        });
        assert!(client.wait_for_server(PATIENCE));
    }
    assert_eq!(processes.len(), 3);
}

#[test]
fn a_server_that_is_stopped_costs_its_clients_their_time_out_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path(), "client");
    let server = start(dir.path(), "server");
    let mut client = client(&node);
    assert_eq!(client.call(question(1), PATIENCE).unwrap().view().unwrap().value, 1);
    server.says("answered");
    server.stop();
    // time: the server is stopped, so only the time-out ends it
    let outcome = client.call(question(2), Duration::from_millis(50)).map(|_| ());
    assert!(matches!(outcome, Err(CallError::TimedOut { was_taken: false, .. })), "{outcome:?}");
    assert!(matches!(client.call(question(3), PATIENCE), Err(CallError::QueueFull { .. })));
    server.signal(Signal::CONT);
    server.says("answered");
    assert_eq!(client.call(question(4), PATIENCE).unwrap().view().unwrap().value, 4);
    assert_eq!(client.stats().late, 1);
}

#[test]
fn a_client_that_is_killed_leaves_no_work_and_no_memory_behind() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path(), "server");
    let mut service = service(&node);

    let mut sent = start(dir.path(), "client_that_has_sent");
    sent.says("sent");
    // The server's end is matched last. Before that, it has no client that can be gone.
    until("matched", || service.raw().clients() == 1);
    sent.kill();
    until("gone", || service.raw().clients() == 0);
    until("dropped", || {
        assert!(service.take().unwrap().is_none(), "its client does not wait for it");
        service.stats().client_gone == 1
    });

    let mut waits = start(dir.path(), "client_that_waits");
    waits.says("calls");
    let mut responder = None;
    until("taken", || {
        responder = service.take().unwrap().map(|(_, responder)| responder);
        responder.is_some()
    });
    waits.kill();
    let responder = responder.unwrap();
    until("gone", || {
        assert!(service.take().unwrap().is_none());
        responder.raw().client_is_gone()
    });
    assert!(matches!(
        responder.send(Reply { value: 0, process: 0 }),
        Err(AnswerError::ClientGone { .. })
    ));

    let mut holds = start(dir.path(), "client_that_holds");
    until("answered", || match service.take().unwrap() {
        Some((_, responder)) => responder.loan(NUMBERS as usize).unwrap().send().is_ok(),
        None => false,
    });
    holds.says("holds");
    holds.kill();
    until("let go", || {
        assert!(service.take().unwrap().is_none());
        service.stats().clients == 0
    });
    let stats = service.stats();
    assert_eq!(
        stats,
        ServiceStats {
            requests: 3,
            answered: 1,
            client_gone: 1,
            undelivered: 1,
            ..ServiceStats::default()
        }
    );
}
