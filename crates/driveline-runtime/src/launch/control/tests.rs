// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::socket_clients::{CLIENT_WITHIN, MAX_CLIENTS, MAX_REQUEST_LEN};
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// Time-out that no passing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

fn run(graph: &str) -> RunStatus {
    RunStatus {
        id: "0".repeat(32),
        graph: graph.into(),
        domain: "d".into(),
        pid: 1,
        phase: RunPhase::Running,
        since_ms: 0,
        age_ms: 0,
        ready: None,
        reason: None,
        processes: Vec::new(),
        mode: None,
        parameters: None,
        change: None,
    }
}

/// A launcher without processes. The test makes each turn of its loop.
struct Rig {
    dir: TempDir,
    server: Server,
    now: Instant,
    asked: Vec<Verb>,
    /// Name of the graph in its responses.
    graph: String,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::new(Arc::new(ControlSocket::new(dir.path(), "d", "g").unwrap()));
        Self { dir, server, now: Instant::now(), asked: Vec::new(), graph: "g".into() }
    }

    fn turn(&mut self) {
        self.server.serve(self.now, &mut |ask| {
            self.asked.push(ask.verb);
            Ok(run(&self.graph))
        });
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.server.socket.path()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    /// Returns the response to a new client for these bytes.
    fn response(&mut self, bytes: &[u8]) -> Response {
        let client = self.connect();
        (&client).write_all(bytes).unwrap();
        self.turn();
        response(&client)
    }
}

/// All that a client can read now, and whether that was the end.
fn read(mut client: &UnixStream) -> (Vec<u8>, bool) {
    let mut text = Vec::new();
    let end = match client.read_to_end(&mut text) {
        Ok(_) => true,
        // The launcher has closed the connection without reading all bytes.
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => true,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
        Err(e) => panic!("{e}"),
    };
    (text, end)
}

fn response(client: &UnixStream) -> Response {
    let (text, end) = read(client);
    assert!(end, "the launcher closes the connection after {:?}", String::from_utf8_lossy(&text));
    assert_eq!(text.iter().position(|b| *b == b'\n'), Some(text.len() - 1), "one line");
    serde_json::from_slice(&text).unwrap()
}

fn code(response: &Response) -> Option<&ErrorCode> {
    assert_eq!((response.protocol, response.ok), (1, response.run.is_some()));
    response.error.as_ref().map(|e| &e.code)
}

#[test]
fn a_run_whose_directory_was_removed_is_found_again_under_the_same_name() {
    // No tool has asked yet.
    let mut rig = Rig::new();
    let (domain, path) = (rig.dir.path().to_owned(), rig.server.socket.path().to_owned());
    std::fs::remove_dir_all(&domain).unwrap();
    rig.now = rig.server.next().unwrap();
    rig.turn();
    assert!(!path.exists(), "the directory is awaited, not made");
    std::fs::create_dir(&domain).unwrap();
    rig.turn();
    assert!(!path.exists(), "not before it is due");
    rig.now = rig.server.next().unwrap();
    rig.turn();
    assert!(rig.response(b"{\"verb\":\"status\"}\n").ok);
    assert_eq!(find(&domain).unwrap()[0].id(), rig.server.socket.id());
    // Only the name is removed, as by a clean-up.
    std::fs::remove_file(&path).unwrap();
    rig.now = rig.server.next().unwrap();
    rig.turn();
    assert!(rig.response(b"{\"verb\":\"status\"}\n").ok);
    drop(rig.server);
    assert!(!path.exists(), "the name is removed with the run");
}

#[test]
fn each_request_gets_one_line_and_a_mistake_an_error() {
    let mut rig = Rig::new();
    let ok = rig.response(b"{\"verb\":\"status\"}\n");
    assert!(code(&ok).is_none() && ok.run == Some(run("g")));
    assert!(rig.response(b"{\"verb\":\"stop\"}\nand more that is never read\n").ok);
    assert_eq!(rig.asked, [Verb::Status, Verb::Stop]);
    for (bytes, expected) in [
        (&b"\n"[..], ErrorCode::Malformed),
        (b"\xff\xfe\n", ErrorCode::Malformed),
        (b"{\"verb\":\"dance\"}\n", ErrorCode::UnknownVerb),
        (b"{\"verb\":\"stop\",\"module\":\"one\"}\n", ErrorCode::Malformed),
        (&[b'x'; MAX_REQUEST_LEN + 1], ErrorCode::TooLong),
    ] {
        let client = rig.connect();
        (&client).write_all(bytes).unwrap();
        // A long request is read in pieces.
        for _ in 0..8 {
            rig.turn();
        }
        assert_eq!(code(&response(&client)), Some(&expected));
    }
    let client = rig.connect();
    (&client).write_all(b"{\"verb\":\"stop\"}").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    rig.turn();
    rig.turn();
    assert_eq!(
        code(&response(&client)),
        Some(&ErrorCode::Malformed),
        "without its end, the line may be incomplete"
    );
    assert_eq!(rig.asked.len(), 2, "no mistake has done anything");
}

#[test]
fn a_request_that_comes_in_pieces_is_one_and_half_a_line_has_its_time() {
    let mut rig = Rig::new();
    let (slow, half) = (rig.connect(), rig.connect());
    for piece in [&b"{\"ve"[..], b"rb\":\"he", b"alth\"}"] {
        (&slow).write_all(piece).unwrap();
        rig.turn();
        assert_eq!(read(&slow), (Vec::new(), false));
    }
    (&half).write_all(b"{\"verb\":").unwrap();
    (&slow).write_all(b"\n").unwrap();
    rig.turn();
    assert!(
        response(&slow).ok && rig.response(b"{\"verb\":\"status\"}\n").ok,
        "half a line blocks no other client"
    );
    let due = rig.server.clients.next().unwrap();
    assert!(due <= rig.now + CLIENT_WITHIN && rig.server.next() <= Some(due), "it wakes in time");
    rig.now = due;
    rig.turn();
    assert_eq!(code(&response(&half)), Some(&ErrorCode::Late));
    assert_eq!(rig.server.clients.next(), None);
}

#[test]
fn a_client_that_never_reads_has_a_time_limit_and_delays_no_other() {
    let mut rig = Rig::new();
    // More than a socket holds.
    rig.graph = "x".repeat(4 << 20);
    let silent = rig.connect();
    (&silent).write_all(b"{\"verb\":\"status\"}\n").unwrap();
    rig.turn();
    rig.graph = "g".into();
    assert!(rig.response(b"{\"verb\":\"status\"}\n").ok);
    rig.now = rig.server.clients.next().unwrap();
    rig.turn();
    let (part, end) = read(&silent);
    assert!(end && !part.is_empty() && part.last() != Some(&b'\n'), "{} bytes", part.len());
}

#[test]
fn one_client_too_many_takes_the_place_of_the_most_silent_one_with_a_notice() {
    let mut rig = Rig::new();
    let mut silent = Vec::new();
    for _ in 0..MAX_CLIENTS {
        silent.push(rig.connect());
        rig.turn();
        rig.now += Duration::from_nanos(1);
    }
    // The first client sends more.
    (&silent[0]).write_all(b"{").unwrap();
    rig.turn();
    rig.now += Duration::from_nanos(1);
    assert!(rig.response(b"{\"verb\":\"status\"}\n").ok, "the 17th client gets its response");
    assert_eq!(code(&response(&silent[1])), Some(&ErrorCode::Busy));
    for other in silent.iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, client)| client) {
        assert_eq!(read(other), (Vec::new(), false), "all others keep their places");
    }
}

#[test]
fn another_user_gets_an_error_and_nothing_else() {
    let mut rig = Rig::new();
    rig.server.admits = |_| false;
    assert_eq!(code(&rig.response(b"{\"verb\":\"stop\"}\n")), Some(&ErrorCode::Forbidden));
    assert_eq!(rig.asked, []);
}

#[test]
fn a_run_is_found_asked_and_gone() {
    let mut rig = Rig::new();
    let found = find(rig.dir.path()).unwrap();
    assert_eq!(found.iter().map(RunSocket::id).collect::<Vec<_>>(), [rig.server.socket.id()]);
    let mode = std::fs::symlink_metadata(rig.server.socket.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| found[0].ask(Verb::Health, PATIENCE));
        while rig.asked.is_empty() && !asks.is_finished() {
            rig.now = Instant::now();
            rig.turn();
        }
        assert_eq!(asks.join().unwrap(), Ok(run("g")));
    });
    drop(rig.server);
    assert_eq!(found[0].ask(Verb::Health, PATIENCE), Err(AskError::Gone));
    assert_eq!(std::fs::read_dir(rig.dir.path()).unwrap().count(), 0);
    assert!(find(&rig.dir.path().join("nowhere")).unwrap().is_empty());
}

#[test]
fn a_launcher_that_does_not_respond_is_named() {
    let rig = Rig::new();
    let found = find(rig.dir.path()).unwrap();
    let silent = found[0].ask(Verb::Status, Duration::from_millis(50)).unwrap_err();
    assert_eq!(
        silent,
        AskError::Silent { pid: Some(std::process::id()), patience: Duration::from_millis(50) }
    );
    assert!(silent.to_string().contains(&format!("kill -CONT {}", std::process::id())), "{silent}");
}

#[test]
fn a_client_that_gives_way_asks_again() {
    let mut rig = Rig::new();
    let socket = &find(rig.dir.path()).unwrap()[0];
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| socket.ask(Verb::Status, PATIENCE));
        // Its first connection gets the response that a crowded launcher gives.
        let first = loop {
            let (mut newcomers, _) = accept_waiting(|| Ok(rig.server.listener.accept()?.0));
            if let Some(first) = newcomers.pop() {
                break first;
            }
        };
        (&first)
            .write_all(&Response::line(Err(request::parse(Received::Crowded).unwrap_err())))
            .unwrap();
        drop(first);
        while rig.asked.is_empty() && !asks.is_finished() {
            rig.now = Instant::now();
            rig.turn();
        }
        assert_eq!(asks.join().unwrap(), Ok(run("g")));
    });
}

fn name() -> String {
    format!("{PREFIX}{}{SUFFIX}", EndpointId::random().unwrap())
}

/// Waits until a socket has no owner: a process that another test forks has a copy of the socket
/// until it executes its program.
fn until_dead(path: &Path) {
    let directory = open_directory(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let end = Instant::now() + PATIENCE;
    while !is_dead(&directory, name) {
        assert!(Instant::now() < end, "{name} has an owner");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_dead_launcher_left_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let [dead, file, link, starting, other] =
        [name(), name(), name(), name(), "run-1.control".into()].map(|n| dir.path().join(n));
    let elsewhere = dir.path().join("elsewhere");
    drop(UnixListener::bind(&dead).unwrap());
    drop(UnixListener::bind(&other).unwrap());
    drop(UnixListener::bind(&elsewhere).unwrap());
    until_dead(&dead);
    std::fs::write(&file, "").unwrap();
    symlink(&elsewhere, &link).unwrap();
    // A launcher that does not listen yet.
    let binds =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&binds, &SocketAddrUnix::new(&starting).unwrap()).unwrap();
    let found = find(dir.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert!(starting.to_string_lossy().contains(found[0].id()));
    assert!(matches!(
        found[0].ask(Verb::Status, Duration::from_millis(1)),
        Err(AskError::Silent { pid: None, .. })
    ));
    assert!(
        !dead.exists()
            && [&file, &starting, &other, &elsewhere].iter().all(|p| p.exists())
            && link.is_symlink()
    );
    // While the kernel binds a socket, it looks dead: its first name is removed only when it is
    // old.
    let new = dir.path().join(format!("{PREFIX}{}{NEW}", EndpointId::random().unwrap()));
    drop(UnixListener::bind(&new).unwrap());
    until_dead(&new);
    find(dir.path()).unwrap();
    assert!(new.exists());
    let time = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, &new, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .unwrap();
    find(dir.path()).unwrap();
    assert!(!new.exists());
    // A new launcher also removes the sockets of dead launchers.
    drop(binds);
    until_dead(&starting);
    let _new = ControlSocket::new(dir.path(), "d", "g").unwrap();
    assert!(!starting.exists());
}

#[test]
fn a_module_removes_the_socket_of_a_dead_launcher_only() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, path) =
        (ControlSocket::new(dir.path(), "d", "g").unwrap(), dir.path().join("gone"));
    remove_dead(socket.path(), Duration::ZERO);
    assert!(socket.path().exists());
    remove_dead(&path, PATIENCE);
    // The launcher dies while the module looks: the module notices when the kernel closes its
    // sockets.
    let dying = dir.path().join(name());
    let listener = UnixListener::bind(&dying).unwrap();
    std::thread::scope(|scope| {
        let module = scope.spawn(|| remove_dead(&dying, PATIENCE));
        // The module has connected.
        let connection = listener.accept().unwrap();
        drop((listener, connection));
        module.join().unwrap();
    });
    assert!(!dying.exists());
}

#[test]
fn later_versions_are_understood() {
    let mut value = serde_json::to_value(run("g")).unwrap();
    value["phase"] = "dreaming".into();
    value["colour"] = "red".into();
    value["processes"] = serde_json::json!([{
        "name": "one", "kind": "moon", "state": "asleep", "since_ms": 1, "restarts": 0,
        "mode": "manual"
    }]);
    let run: RunStatus = serde_json::from_value(value).unwrap();
    assert_eq!(run.phase, RunPhase::Other("dreaming".into()));
    assert_eq!(
        (&run.processes[0].state, run.processes[0].pid),
        (&ProcessState::Other("asleep".into()), None)
    );
    assert_eq!(serde_json::to_value(&run.phase).unwrap(), "dreaming");
}

#[test]
fn of_launchers_that_start_together_one_has_the_graph() {
    let dir = tempfile::tempdir().unwrap();
    let claim = || super::claim(dir.path(), "d", "g", &["a".to_owned()]);
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let sockets = results.iter().filter(|r| r.is_ok()).count();
    assert_eq!(sockets, 1, "{results:?}");
    for error in results.iter().filter_map(|r| r.as_ref().err()) {
        let ClaimError::Taken(taken) = error else { panic!("{error:?}") };
        let text = taken.to_string();
        let pid = std::process::id();
        // The other launcher does not serve yet: its modules are unknown.
        assert_eq!(
            text,
            format!(
                "another launcher, process {pid}, runs graph 'g' in this domain already; it does \
                 not respond"
            )
        );
    }
    drop(results);
    assert!(claim().is_ok(), "it has ended");
    let _other = super::claim(dir.path(), "d", "g", &[]).unwrap();
    assert!(super::claim(dir.path(), "d", "h", &["a".to_owned()]).is_ok(), "another graph");
}
