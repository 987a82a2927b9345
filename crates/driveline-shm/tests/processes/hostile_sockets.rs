// SPDX-License-Identifier: Apache-2.0
//! Any bytes and any descriptors on every kind of socket in the domain directory, under live peers.

use crate::support::hostile::*;
use crate::support::{Domain, PATIENCE, Peer, Random, Tally, eventually, repeat_counted, wanted};
use driveline_types::Qos;

use serde_json::{Value, json};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const USUAL: Duration = Duration::from_millis(1200);

/// An honest pair that exchanges samples all the time, and the number of descriptors that each has
/// without an attack.
struct Scene {
    d: Domain,
    w: Peer,
    r: Peer,
    usual: (usize, usize),
}

fn scene() -> Scene {
    scene_with("")
}

fn scene_with(switches: &str) -> Scene {
    let d = Domain::new();
    let peer = |name| {
        d.peer_with(name, |c| {
            c.env("DRIVELINE_FAULT_SWITCHES", switches);
        })
    };
    let mut w = peer("writer");
    w.ask("publisher p pins=8");
    let mut r = peer("reader");
    r.ask("subscription s");
    r.ask("follow s");
    w.ask("await p 1");
    w.ask("flood p 1000 1000");
    r.until_at_least("progress s", 1);
    let usual = (w.descriptors(), r.descriptors());
    Scene { d, w, r, usual }
}

impl Scene {
    /// Checks that the pair continues, serves new subscriptions and tools, and has kept no
    /// descriptor of the attack.
    fn unharmed(mut self, what: &str) {
        let before = self.r.number("progress s");
        self.r.until_at_least("progress s", before + 20);
        let (w, r) = (&self.w, &self.r);
        eventually(&format!("{what}: descriptors are let go: usually {:?}", self.usual), || {
            w.descriptors() <= self.usual.0 && r.descriptors() <= self.usual.1
        });
        let mut late = self.d.peer("late");
        late.ask("subscription s");
        late.ask("await s 1");
        late.until("list", |t| t.matches("\"topic\":\"t\"").count() == 3);
        late.quit();
        self.w.ask("halt p");
        self.r.ask("halt s");
        self.w.quit();
        self.r.quit();
    }
}

const NOISE: &str = "noise";

/// A valid message, with its name.
type Right = (&'static str, Vec<u8>);

/// An invalid packet: noise, a frame around noise, or a changed copy of a valid message.
fn wrong_packet(random: &mut Random, right: &[Right]) -> Right {
    let pick = random.below(right.len() + 1);
    let Some((name, message)) = right.get(pick) else { return (NOISE, noise(random)) };
    let (name, mut p) = (*name, message.clone());
    let body = || serde_json::from_slice::<Value>(&message[12..]).ok();
    match (random.below(3), body()) {
        (0, Some(Value::Object(body))) => p = packet(kind(message), &twisted(random, body)),
        (1, _) => p.truncate(random.below(p.len()).max(1)),
        _ => {
            for _ in 0..=random.below(4) {
                let at = random.below(p.len());
                p[at] ^= 1 + random.below(255) as u8;
            }
        }
    }
    (name, p)
}

fn noise(random: &mut Random) -> Vec<u8> {
    let bytes = |random: &mut Random, len: usize| {
        (0..len).map(|_| random.next() as u8).collect::<Vec<u8>>()
    };
    let len = *random.pick(&[1, 7, 11, 12, 13, 100, 4000, 64 * 1024, 150_000]);
    match random.below(3) {
        0 => bytes(random, len),
        1 => {
            let kind = random.below(8) as u16;
            let body = bytes(random, len);
            packet(kind, &body)
        }
        _ => packet(random.below(8) as u16, &vec![*random.pick(b"[{\"0 "); len]),
    }
}

/// A body in which one value is replaced by an unusual one.
fn twisted(random: &mut Random, mut body: serde_json::Map<String, Value>) -> Vec<u8> {
    let keys: Vec<String> = body.keys().cloned().collect();
    if keys.is_empty() {
        return b"{\"\":0}".to_vec();
    }
    let key = random.pick(&keys).clone();
    let value = match random.below(8) {
        0 => Value::Null,
        1 => json!(random.nasty()),
        2 => json!(-1),
        3 => json!(1e308),
        4 => json!("x".repeat(random.below(100_000))),
        5 => json!([[[[{}]]]]),
        6 => json!({"depth": random.nasty(), "deadline_ms": 0}),
        _ => json!(true),
    };
    body.insert(key, value);
    Value::Object(body).to_string().into_bytes()
}

fn names(right: &[Right]) -> Vec<&'static str> {
    right.iter().map(|(name, _)| *name).chain([NOISE]).collect()
}

/// Attacks as the victim's own user, whose packets are read at once, and as another user.
fn attack_listener(kind: &str, right: &Value) {
    let accept = LAYOUT.accept(&Qos::default()).to_string();
    let rights = [
        ("HELLO", packet(HELLO, right.to_string().as_bytes())),
        ("LIST", packet(LIST, b"")),
        ("ACCEPT", packet(ACCEPT, accept.as_bytes())),
        ("REFUSE", packet(REFUSE, br#"{"code":"qos","text":"no"}"#)),
    ];
    let tally = Tally::new(format!("packets at sockets '{kind}'"), &names(&rights));
    let users = ["", "distrust", "distrust,passrights"];
    for (n, switches) in (1..).zip(users) {
        let share = wanted().div_ceil(users.len() as u64) * n;
        attack(scene_with(switches), kind, &rights, (&tally, share));
    }
    tally.print();
}

fn attack(s: Scene, kind: &str, rights: &[Right], (tally, share): (&Tally, u64)) {
    let path = find(s.d.path(), kind);
    let page = Area::new(PAGE);
    let junk: Vec<OwnedFd> = wrong_memory(PAGE).into_iter().map(|(_, fd)| fd).collect();
    let mut random = Random::new(21);
    let mut open = std::collections::VecDeque::new();
    let sent = std::cell::Cell::new(0);
    let throw = || {
        let Some(c) = connect_to(&path) else { return };
        for _ in 0..=random.below(3) {
            let (name, bytes) = wrong_packet(&mut random, rights);
            let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
            match random.below(5) {
                0 => fds.push(page.fd.as_fd()),
                1 => fds.extend(
                    (0..*random.pick(&[1, 2, 3, 10, 250])).map(|i| junk[i % junk.len()].as_fd()),
                ),
                _ => {}
            }
            if send_with(&c, &bytes, &fds) {
                sent.set(sent.get() + 1);
                tally.count(name);
            }
        }
        // Some connections stay open, the others are closed.
        if random.below(4) == 0 {
            open.push_back(c);
        }
        if open.len() > 40 {
            open.pop_front();
        }
    };
    repeat_counted(USUAL, (tally, share), throw, || {
        if sent.get() > 100 {
            Ok(())
        } else {
            Err(format!("only {} packets were sent", sent.get()))
        }
    });
    drop(open);
    s.unharmed(kind);
}

fn right_hello() -> Value {
    hello("t", 1, &Qos::default())
}

#[test]
fn any_bytes_on_a_publishers_socket_do_no_harm() {
    attack_listener("p-", &right_hello());
}

#[test]
fn any_bytes_on_the_socket_for_tools_do_no_harm() {
    attack_listener("i-", &right_hello());
}

#[test]
fn any_bytes_on_the_socket_for_hints_do_no_harm() {
    let s = scene();
    let junk = wrong_memory(PAGE);
    let fds: Vec<BorrowedFd<'_>> = (0..250).map(|i| junk[i % junk.len()].1.as_fd()).collect();
    let mut random = Random::new(22);
    let topic = "t".parse::<driveline_types::TopicName>().unwrap().id().0;
    let paths: Vec<_> =
        s.d.names().iter().filter(|n| n.starts_with("r-")).map(|n| s.d.path().join(n)).collect();
    let hints = ["of no publisher", "of another directory", "cut or changed", NOISE];
    let tally = Tally::new("hints", &hints);
    let throw = || {
        let (name, bytes) = match random.below(4) {
            0 => ("of no publisher", format!("p-{topic:016x}-{:032x}", random.next()).into_bytes()),
            1 => (
                "of another directory",
                format!("p-{topic:016x}-../../../../../../../../tmp/xx").into_bytes(),
            ),
            2 => ("cut or changed", wrong_hint(&mut random, topic)),
            _ => (NOISE, noise(&mut random)),
        };
        let some = if random.below(4) == 0 { random.below(250) } else { 0 };
        send_datagram(random.pick::<std::path::PathBuf>(&paths), &bytes, &fds[..some]);
        tally.count(name);
    };
    repeat_counted(USUAL, (&tally, wanted()), throw, || Ok(()));
    tally.print();
    s.unharmed("hints");
}

fn wrong_hint(random: &mut Random, topic: u64) -> Vec<u8> {
    let mut hint = format!("p-{topic:016x}-{:032x}", 1).into_bytes();
    match random.below(2) {
        0 => hint.truncate(random.below(hint.len()).max(1)),
        _ => {
            let at = random.below(hint.len());
            hint[at] ^= 1 + random.below(255) as u8;
        }
    }
    hint
}

/// Publishers that answer a subscription with any bytes and any descriptors, each once.
#[test]
fn any_bytes_in_an_answer_harm_no_subscription() {
    let s = scene();
    let accept = LAYOUT.accept(&Qos::default()).to_string();
    let rights = [
        ("ACCEPT", packet(ACCEPT, accept.as_bytes())),
        ("REFUSE", packet(REFUSE, br#"{"code":"pins","text":"try again"}"#)),
        ("HELLO", packet(HELLO, right_hello().to_string().as_bytes())),
        ("LISTING", packet(LISTING, b"{}")),
    ];
    let tally = Tally::new("answers to subscriptions", &names(&rights));
    let (segment, wake) = (LAYOUT.segment(), Area::new(PAGE));
    let junk: Vec<OwnedFd> = wrong_memory(LAYOUT.len()).into_iter().map(|(_, fd)| fd).collect();
    let mut random = Random::new(23);
    let mut number = 1;
    let hints: Vec<_> =
        s.d.names().iter().filter(|n| n.starts_with("r-")).map(|n| s.d.path().join(n)).collect();
    let mut next = || {
        number += 1;
        let listener = Listener::new(s.d.path(), "t", number);
        let name = listener.path().file_name().unwrap().as_encoded_bytes();
        hints.iter().for_each(|path| send_datagram(path, name, &[]));
        listener
    };
    let mut liars: Vec<Listener> = (0..8).map(|_| next()).collect();
    let throw = || {
        for liar in &mut liars {
            if !liar.is_wanted() {
                continue;
            }
            let c = liar.accept_any();
            let (name, bytes) = wrong_packet(&mut random, &rights);
            let right = [segment.fd.as_fd(), wake.fd.as_fd()];
            let fds: Vec<BorrowedFd<'_>> = match random.below(4) {
                0 => (0..*random.pick(&[1, 2, 3, 250]))
                    .map(|i| junk[i % junk.len()].as_fd())
                    .collect(),
                1 => Vec::new(),
                _ => right.to_vec(),
            };
            if send_with(&c, &bytes, &fds) {
                tally.count(name);
            }
            // Reads the HELLO first: closing a socket with unread data would discard the answer.
            receive(&c);
            *liar = next();
        }
    };
    repeat_counted(USUAL, (&tally, wanted()), throw, || Ok(()));
    tally.print();
    drop(liars);
    s.unharmed("answers");
}

/// Participants that answer a tool with any bytes and any descriptors. The tool is this process.
#[test]
fn any_bytes_in_a_listing_harm_no_tool() {
    let s = scene();
    let honest = connect_to(&find(s.d.path(), "i-")).unwrap();
    assert!(send_with(&honest, &packet(LIST, b""), &[]));
    let (listing, _) = receive(&honest).unwrap();
    assert_eq!(kind(&listing), LISTING);
    let rights = [
        ("LISTING", listing),
        ("REFUSE", packet(REFUSE, br#"{"code":"other","text":"no"}"#)),
        ("LIST", packet(LIST, b"")),
    ];
    let tally = Tally::new("answers to tools", &names(&rights));
    let junk: Vec<OwnedFd> = wrong_memory(PAGE).into_iter().map(|(_, fd)| fd).collect();
    let liars: Vec<_> = (1..=8).map(|n| Listener::of_participant(s.d.path(), n)).collect();
    let (answers, answered) = std::sync::mpsc::channel();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut random = Random::new(24);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for liar in liars.iter().filter(|l| l.is_wanted()) {
                    let c = liar.accept_any();
                    for _ in 0..=random.below(3) {
                        let (name, bytes) = wrong_packet(&mut random, &rights);
                        let some = *random.pick(&[0, 0, 1, 12]);
                        let fds: Vec<_> = junk[..some].iter().map(AsFd::as_fd).collect();
                        if send_with(&c, &bytes, &fds) {
                            let _ = answers.send(name);
                        }
                    }
                    send_with(&c, &packet(LISTING, b""), &[]);
                    // Reads the request first: closing a socket with unread data would discard the
                    // answers.
                    receive(&c);
                }
            }
        });
        let ask = || {
            let survey = driveline_shm::survey(s.d.path(), PATIENCE).unwrap();
            answered.try_iter().for_each(|name| tally.count(name));
            let is_in =
                |pid: &u32| survey.participants.iter().any(|p| p.pid_in_its_namespace == *pid);
            [s.w.pid(), s.r.pid()].iter().filter(|pid| is_in(pid)).count()
        };
        let mut seen = 2;
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            repeat_counted(USUAL, (&tally, wanted()), || seen = seen.min(ask()), || Ok(()));
        }));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(seen, 2, "the honest participants are in each answer");
    });
    tally.print();
    s.unharmed("listings");
}

/// MAX_MESSAGE_LEN, MAX_FDS.
#[test]
fn messages_with_more_bytes_or_descriptors_than_any_has_are_refused_at_both_ends() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p");
    let (page, hello) = (Area::new(PAGE), right_hello().to_string());
    let three = [page.fd.as_fd(), page.fd.as_fd(), page.fd.as_fd()];
    let long = packet(HELLO, &vec![b' '; 163_840 - 11]);
    for (bytes, fds) in [(packet(HELLO, hello.as_bytes()), three.as_slice()), (long.clone(), &[])] {
        let c = connect_to(&find(d.path(), "p-")).unwrap();
        assert!(send_with(&c, &bytes, fds));
        let (refusal, _) = receive(&c).expect("a refusal before the end");
        assert_eq!(kind(&refusal), REFUSE);
        let text = String::from_utf8_lossy(&refusal).into_owned();
        assert!(
            text.contains("protocol") && text.contains("at most 163840 bytes and 2 descriptors"),
            "{text}"
        );
        let told = w.until("events p", |t| t.contains("Refused"));
        assert!(told.contains("code: Protocol") && told.contains("at most 163840 bytes"), "{told}");
        assert!(receive(&c).is_none());
    }
    // The same limits apply to an answer.
    w.quit();
    let listener = Listener::new(d.path(), "t", 1);
    let mut r = d.peer("reader");
    let text = answer_with(&mut r, &listener, &long, &[]);
    assert!(text.contains("the publisher's answer: a message has at most 163840 bytes"), "{text}");
}

/// Connections that send nothing use up only their user's share, and are ended after two seconds.
#[test]
fn silent_connections_are_bounded_and_ended() {
    let mut s = scene();
    let path = find(s.d.path(), "p-");
    let usual = s.usual.0;
    let mut connections: Vec<OwnedFd> = Vec::new();
    eventually("no more than 64 of a user are kept waiting", || {
        // Existing connections may have been ended before this check. Those of an earlier attempt
        // would use up the user's share.
        connections.clear();
        connections = (0..300).filter_map(|_| connect_to(&path)).collect();
        // time: the length of one attempt of several
        let end = Instant::now() + Duration::from_millis(500);
        std::iter::from_fn(|| (Instant::now() < end).then(|| s.w.descriptors()))
            .any(|n| (usual + 1..=usual + 64).contains(&n))
    });
    // The user's share is used up, so further connections of this user must retry. They are served
    // when the silent ones have ended.
    let mut late = s.d.peer("late");
    late.ask("subscription s");
    late.ask("await s 1");
    late.quit();
    let mut refused = 0;
    for c in &connections {
        let (bytes, _) = receive(c).expect("a refusal before the end");
        assert_eq!(kind(&bytes), REFUSE);
        refused += usize::from(String::from_utf8_lossy(&bytes).contains("without saying HELLO"));
    }
    assert!(refused >= 64, "{refused}");
    assert!(s.w.lives());
    s.unharmed("silence");
}

/// More silent listeners than a subscription dials at a time.
#[test]
fn silent_publishers_hide_no_honest_ones() {
    let d = Domain::new();
    let mut silent = d.peer("silent");
    silent.ask("silent-publishers 300");
    let mut r = d.peer("reader");
    r.ask("subscription s");
    r.until("events s", |t| t.contains("has not answered"));
    let mut w = d.peer("writer");
    w.ask("publisher p");
    r.ask("await s 1");
}

/// More connections than the kernel's queue takes, at a stopped publisher: it must not be taken for
/// a dead one.
#[test]
fn a_full_queue_of_a_stopped_publisher_is_no_death() {
    let mut s = scene();
    let path = find(s.d.path(), "p-");
    s.w.signal(rustix::process::Signal::STOP);
    s.w.stopped();
    let mut connections = Vec::new();
    while let Some(c) = connect_to(&path) {
        connections.push(c);
        assert!(connections.len() < 5000, "the queue has no end");
    }
    let mut late = s.d.peer("late");
    late.ask("subscription s");
    let before = late.sleeps();
    eventually("it has tried several times", || late.sleeps() >= before + 5);
    assert!(path.exists() && late.ask("matched s") == "0");
    s.w.signal(rustix::process::Signal::CONT);
    drop(connections);
    late.ask("await s 1");
    late.quit();
    s.unharmed("full queue");
}

/// A participant to which a tool cannot connect is counted as silent, not ignored.
#[test]
fn who_cannot_be_asked_is_counted() {
    let d = Domain::new();
    let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
    w.ask("publisher p");
    let path = find(d.path(), "i-");
    w.signal(rustix::process::Signal::STOP);
    w.stopped();
    let clogs: Vec<OwnedFd> = std::iter::from_fn(|| connect_to(&path)).take(5000).collect();
    r.ask("subscription s");
    // On a busy machine, the running participant may also answer too late for some attempts.
    eventually("the running participant answers", || {
        // time: the length of one attempt of several: the stopped one never answers
        let survey = driveline_shm::survey(d.path(), Duration::from_millis(300)).unwrap();
        assert_eq!(
            (survey.participants.len() + survey.silent.len(), survey.silent_others.len()),
            (2, 0),
            "who is silent is counted"
        );
        assert!(
            survey.participants.iter().all(|p| p.of_this_user && p.pid_in_its_namespace == r.pid())
        );
        survey.participants.len() == 1
    });
    w.signal(rustix::process::Signal::CONT);
    // The participant hangs up on surplus connections; the tool retries meanwhile.
    eventually("all answer", || {
        // time: the length of one attempt of several
        driveline_shm::survey(d.path(), Duration::from_secs(2)).unwrap().participants.len() == 2
    });
    drop(clogs);
}

/// Tools that send a request and never read the answer.
#[test]
fn tools_that_do_not_read_block_no_other_tool() {
    let s = scene();
    let path = find(s.d.path(), "i-");
    let connections: Vec<OwnedFd> = (0..100).filter_map(|_| connect_to(&path)).collect();
    for c in &connections {
        send_with(c, &packet(LIST, b""), &[]);
    }
    s.unharmed("askers");
}

/// As when `topic echo` ends after it has printed the requested samples.
#[test]
fn a_subscription_that_leaves_before_the_answer_is_not_noted_as_refused() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p");
    let page = Area::new(PAGE);
    let body = right_hello().to_string();
    let gone = connect_to(&find(d.path(), "p-")).unwrap();
    // Nothing can be sent to it any more.
    rustix::net::shutdown(&gone, rustix::net::Shutdown::Read).unwrap();
    assert!(send_with(&gone, &packet(HELLO, body.as_bytes()), &[page.fd.as_fd()]));
    let second = Area::new(PAGE);
    let (_stays, answer) = say_hello(d.path(), &right_hello(), &[second.fd.as_fd()]);
    assert_eq!(kind(&answer.unwrap().0), ACCEPT);
    let events = w.until("events p", |t| t.contains("Matched"));
    assert!(!events.contains("Refused"), "{events}");
    w.quit();
}

/// A descriptor of the wrong kind where a page is expected.
#[test]
fn wrong_pages_are_refused_by_name() {
    let s = scene();
    let body = right_hello();
    let pages = wrong_memory(PAGE);
    for (what, fd) in &pages {
        let (_, answer) = say_hello(s.d.path(), &body, &[fd.as_fd()]);
        let (bytes, fds) = answer.unwrap_or_else(|| panic!("{what}: no answer"));
        let text = String::from_utf8_lossy(&bytes[12..]);
        assert!(
            kind(&bytes) == REFUSE && fds.is_empty() && text.contains("page is not acceptable"),
            "{what}: {text}"
        );
    }
    let good = Area::new(PAGE);
    let several = [good.fd.as_fd(); 2];
    let (_, answer) = say_hello(s.d.path(), &body, &several);
    assert!(String::from_utf8_lossy(&answer.unwrap().0).contains("exactly one descriptor"));
    let (_, answer) = say_hello(s.d.path(), &body, &[]);
    assert!(String::from_utf8_lossy(&answer.unwrap().0).contains("exactly one descriptor"));
    let (_, answer) = say_hello(s.d.path(), &body, &[good.fd.as_fd(); 200]);
    assert!(answer.is_none_or(|(bytes, _)| kind(&bytes) == REFUSE));
    // A valid page is accepted.
    let (connection, answer) = say_hello(s.d.path(), &body, &[good.fd.as_fd()]);
    assert_eq!(kind(&answer.unwrap().0), ACCEPT);
    // A peer that sends another message after that is disconnected.
    assert!(send_with(&connection, &packet(HELLO, b"{}"), &[]));
    assert!(receive(&connection).is_none());
    s.unharmed("pages");
}

const LAYOUT: Layout = Layout { slots: 8, ring: 3, payload: 4096 };

/// Makes a subscription dial a liar, which answers with these bytes and descriptors. Returns the
/// subscription's events.
fn answer_with(
    reader: &mut Peer,
    listener: &Listener,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> String {
    reader.ask("subscription v");
    let (s, _) = listener.accept();
    assert!(send_with(&s, bytes, fds));
    // The subscription closes the connection after an invalid answer.
    let text = reader.until("events v", |t| t.contains("Refused")).to_owned();
    reader.ask("drop v");
    eventually("the connection is closed", || receive(&s).is_none());
    text
}

#[test]
fn wrong_segments_and_wrong_answers_are_refused_by_name() {
    let d = Domain::new();
    let listener = Listener::new(d.path(), "t", 1);
    let mut r = d.peer("reader");
    r.ask("join");
    r.ask("subscription idle topic=elsewhere");
    let usual = r.descriptors();
    let accept = packet(ACCEPT, LAYOUT.accept(&Qos::default()).to_string().as_bytes());
    let (segment, wake) = (LAYOUT.segment(), Area::new(PAGE));
    for (what, fd) in wrong_memory(LAYOUT.len()) {
        let text = answer_with(&mut r, &listener, &accept, &[fd.as_fd(), wake.fd.as_fd()]);
        assert!(text.contains("memory is not acceptable"), "{what}: {text}");
    }
    for (what, fd) in wrong_memory(PAGE) {
        let text = answer_with(&mut r, &listener, &accept, &[segment.fd.as_fd(), fd.as_fd()]);
        assert!(text.contains("memory is not acceptable"), "{what}: {text}");
    }
    let text = answer_with(&mut r, &listener, &accept, &[segment.fd.as_fd()]);
    assert!(text.contains("ACCEPT does not have its two descriptors"), "{text}");
    let blank = Area::new(LAYOUT.len());

    let text = answer_with(&mut r, &listener, &accept, &[blank.fd.as_fd(), wake.fd.as_fd()]);
    assert!(text.contains("magic"), "{text}");
    // Impossible numbers.
    let both = [segment.fd.as_fd(), wake.fd.as_fd()];
    let right = LAYOUT.accept(&Qos::default());
    for (path, value) in [
        ("/layout/slots", json!(0)),
        ("/layout/slots", json!(u32::MAX)),
        ("/layout/ring_len", json!(1)),
        ("/layout/max_payload", json!(u64::MAX)),
        ("/layout/max_payload", json!(1u64 << 36)),
        ("/first", json!(0)),
        ("/first", json!(u64::MAX)),
        ("/qos/depth", json!(0)),
        ("/qos/depth", json!(100)),
        ("/publisher", json!("ä".repeat(16))),
        ("/node", json!("../..")),
        ("/schema/name", json!("other")),
    ] {
        let mut wrong = right.clone();
        *wrong.pointer_mut(path).unwrap() = value;
        let text =
            answer_with(&mut r, &listener, &packet(ACCEPT, wrong.to_string().as_bytes()), &both);
        assert!(text.contains("topic 't'"), "{path}: {text}");
    }
    for junk in [
        packet(HELLO, b"{}"),
        packet(ACCEPT, &[b'['; 100_000]),
        packet(9, b""),
        b"x".to_vec(),
        packet(LIST, b""),
    ] {
        answer_with(&mut r, &listener, &junk, &both);
    }
    eventually("descriptors are let go", || r.descriptors() <= usual);
    drop(listener);
    let mut w = d.peer("writer");
    w.ask("publisher p");
    r.ask("subscription s");
    r.ask("await s 1");
}

/// Memory with holes would be reserved by its first reader, at that reader's cost.
#[test]
fn a_segment_with_holes_is_refused_and_not_filled() {
    let d = Domain::new();
    let listener = Listener::new(d.path(), "t", 1);
    let mut r = d.peer("reader");
    let layout = Layout { payload: 32 << 20, ..LAYOUT };
    let hollow = Area::with(layout.len(), SEALS, false);
    hollow.word(0).store(u64::from_le_bytes(*b"DRVLNSEG"), std::sync::atomic::Ordering::SeqCst);
    hollow.word(8).store(1, std::sync::atomic::Ordering::SeqCst);
    let wake = Area::new(PAGE);
    let accept = packet(ACCEPT, layout.accept(&Qos::default()).to_string().as_bytes());
    let text = answer_with(&mut r, &listener, &accept, &[hollow.fd.as_fd(), wake.fd.as_fd()]);
    assert!(text.contains("not acceptable") && text.contains("reserved"), "{text}");
    assert!(
        rustix::fs::fstat(&hollow.fd).unwrap().st_blocks <= 16,
        "the reader has filled the holes"
    );
}

/// A publisher that accepts and then hangs up, or only hangs up, at each attempt.
#[test]
fn a_publisher_that_hangs_up_again_and_again_is_asked_less_and_less_often() {
    for answer in [true, false] {
        let d = Domain::new();
        let listener = Listener::new(d.path(), "t", 1);
        let mut w = d.peer("honest writer");
        w.ask("publisher p");
        let mut r = d.peer("reader");
        r.ask("subscription s");
        let (segment, wake) = (LAYOUT.segment(), Area::new(PAGE));
        let accept = packet(ACCEPT, LAYOUT.accept(&Qos::default()).to_string().as_bytes());
        let begun = Instant::now();
        let mut asked = 0;
        // time: attempts are counted in the time that has passed; a slow machine makes fewer
        while asked < 3 || begun.elapsed() < Duration::from_millis(1500) {
            let (s, _) = listener.accept();
            asked += 1;
            if answer {
                assert!(send_with(&s, &accept, &[segment.fd.as_fd(), wake.fd.as_fd()]));
            }
            drop(s);
        }
        // With pauses of 5, 10, 20, … ms there are about eight attempts in 1.5 s. The pauses begin
        // again after a match that lasted a second. On a machine that stands still meanwhile, a
        // short match can look like such a one.
        let most = 12 + 10 * (begun.elapsed().as_millis() / 1500);
        assert!(asked <= most, "asked {asked} times in {:?}", begun.elapsed());
        w.ask("await p 1");
        w.ask("say p 3 1000");
        r.until("take s", |t| t == "3 2");
    }
}

/// Useless hints at a high rate. Their cost is counted in wake-ups of the process.
#[test]
fn a_flood_of_hints_costs_little_and_publishers_are_still_found() {
    let d = Domain::new();
    let mut r = d.peer("reader");
    r.ask("subscription s");
    let socket = find(d.path(), "r-");
    let topic: driveline_types::TopicName = "t".parse().unwrap();
    let name = |n: u32| format!("p-{:016x}-{n:032x}", topic.id().0);
    let (before, start) = (r.sleeps(), Instant::now());
    let mut late = None;
    for n in 1..=10_000 {
        send_datagram(&socket, name(n).as_bytes(), &[]);
        // time: paces the hints, so that each finds the reader asleep
        std::thread::sleep(Duration::from_micros(100));
        if n == 5_000 {
            late = Some(d.peer("late writer"));
            late.as_mut().unwrap().ask("publisher p");
        }
    }
    let (slept, seconds) = (r.sleeps() - before, start.elapsed().as_secs() + 1);
    assert!(slept < 500 + 200 * seconds, "10000 hints woke it {slept} times in {seconds} s");
    r.ask("await s 1");
    late.unwrap().quit();
}
