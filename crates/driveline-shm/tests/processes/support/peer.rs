// SPDX-License-Identifier: Apache-2.0
//! The peer's side of a peer process: executes commands from its standard input, one per line.
//!
//! A torn sample, a sequence that goes back or a panic anywhere ends the process with exit status
//! 101.

use super::follower::{Follower, Progress, check, echo, whole};
use super::payload;
use super::process::{Domain, MARK, PEER_VARIABLE};
use driveline_shm::*;
use driveline_types::{Durability, EndpointId, MonotonicNs, Reliability, SampleHeader, Schema};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

#[test]
fn peers_follow_commands() {
    if let Some(domain) = std::env::var_os(PEER_VARIABLE) {
        run(domain.into());
        std::process::exit(0);
    }
    let d = Domain::new();
    let mut a = d.peer("a");
    assert_eq!(a.ask("ping"), "pong");
    assert!(a.try_ask("matched unknown").unwrap_err().contains("unknown"));
    assert!(a.lives() && a.descriptors() > 2 && a.mappings() == 0);
    a.ask("publisher p");
    assert!(a.mappings() > 0);
    let mut b = d.peer("b");
    b.ask("subscription s");
    a.ask("await p 1");
    b.ask("await s 1");
    a.ask("say p 3 100");
    assert_eq!(b.ask("take s hold"), "3 2");
    assert_eq!(b.ask("held"), "1");
    a.quit();
    b.quit();
}

/// `key=value` words, and words alone.
struct Options<'a>(HashMap<&'a str, &'a str>);

impl<'a> Options<'a> {
    fn new(words: &[&'a str]) -> Self {
        Self(words.iter().map(|w| w.split_once('=').unwrap_or((w, ""))).collect())
    }

    fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    fn text(&self, key: &str, default: &'a str) -> &'a str {
        self.0.get(key).copied().unwrap_or(default)
    }

    fn number<T: std::str::FromStr>(&self, key: &str, default: T) -> Result<T, String> {
        self.0
            .get(key)
            .map_or(Ok(default), |v| v.parse().map_err(|_| format!("{key}={v} is no number")))
    }
}

enum Job {
    Flood { stop: Arc<AtomicBool>, thread: JoinHandle<Publisher> },
    Follow { progress: Arc<Progress>, kicker: Kicker, thread: JoinHandle<Subscription> },
    Echo { stop: Arc<AtomicBool>, kicker: Kicker, thread: JoinHandle<()> },
}

/// State of a peer.
struct Machine {
    /// Domain directory; empty for the default one.
    domain: PathBuf,
    participant: Option<Participant>,
    publishers: HashMap<String, Publisher>,
    subscriptions: HashMap<String, Subscription>,
    jobs: HashMap<String, Job>,
    held: Vec<Sample>,
    /// Silent connections, and descriptors that must stay open.
    clogs: Vec<std::os::fd::OwnedFd>,
    /// Publishers that accept no connection.
    silent: Vec<super::hostile::Listener>,
}

type Answer = Result<String, String>;

fn run(domain: PathBuf) {
    // The kernel kills this process when the thread that started it ends, for whatever reason.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::exit(101);
    }));
    let mut machine = Machine {
        domain,
        participant: None,
        publishers: HashMap::new(),
        subscriptions: HashMap::new(),
        jobs: HashMap::new(),
        held: Vec::new(),
        clogs: Vec::new(),
        silent: Vec::new(),
    };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line == "quit" {
            break;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match machine.obey(&words) {
            Ok(text) => format!("ok {text}"),
            Err(e) => format!("no {}", e.replace('\n', " ")),
        };
        // The harness may have left a line unfinished.
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "\n{MARK}{answer}").and_then(|()| out.flush());
    }
}

impl Machine {
    fn obey(&mut self, words: &[&str]) -> Answer {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        match *words {
            ["ping"] => Ok("pong".into()),
            ["now"] => Ok(MonotonicNs::now().0.to_string()),
            ["join"] => self.participant().map(|_| String::new()),
            ["leave"] => {
                self.participant = None;
                Ok(String::new())
            }
            ["publisher", name, ref options @ ..] => {
                self.create_publisher(name, &Options::new(options))
            }
            ["subscription", name, ref options @ ..] => {
                self.create_subscription(name, &Options::new(options))
            }
            ["drop", name] => {
                self.publishers.remove(name);
                self.subscriptions.remove(name);
                Ok(String::new())
            }
            ["matched", name] => self.matched(name).map(|n| n.to_string()),
            ["await", name, count] => {
                let count: usize = count.parse().map_err(|e| text(&e))?;
                let end = std::time::Instant::now() + super::PATIENCE;
                while self.matched(name)? != count {
                    if std::time::Instant::now() > end {
                        return Err(format!(
                            "{} matches; {:?}",
                            self.matched(name)?,
                            self.events(name)
                        ));
                    }
                    // time: a pause between polls; they end with the condition
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(String::new())
            }
            ["say", name, count, len] => {
                let (count, len): (u64, usize) =
                    (count.parse().map_err(|e| text(&e))?, len.parse().map_err(|e| text(&e))?);
                let p = self.publisher(name)?;
                for _ in 0..count {
                    publish(p, len);
                }
                Ok((p.next_sequence() - 1).to_string())
            }
            ["flood", name, len, gap_us] => self.flood(name, len, gap_us),
            ["take", name, ref options @ ..] => self.take(name, &Options::new(options)),
            ["held"] => {
                for s in &self.held {
                    check(s);
                }
                Ok(self.held.len().to_string())
            }
            ["release"] => {
                self.held.clear();
                Ok(String::new())
            }
            ["follow", name, ref options @ ..] => self.follow(name, &Options::new(options)),
            ["echo", from, to, backend] => self.echo(from, to, backend),
            ["churn", rounds] => self.churn(rounds.parse().map_err(|e| text(&e))?),
            ["progress", name] => match self.jobs.get(name) {
                Some(Job::Follow { progress, .. }) => Ok(progress.text()),
                _ => Err(format!("no thread follows {name}")),
            },
            ["halt", name] => self.halt(name),
            ["events", name] => self.events(name),
            ["stats", name] => match (self.publishers.get(name), self.subscriptions.get(name)) {
                (Some(p), _) => serde_json::to_string(&p.stats()).map_err(|e| text(&e)),
                (_, Some(s)) => serde_json::to_string(&s.stats()).map_err(|e| text(&e)),
                _ => Err(format!("no {name}")),
            },
            ["list"] => {
                // time: a stopped participant does not answer, however long it is waited for
                let all = list(&self.domain, Duration::from_secs(10)).map_err(|e| text(&e))?;
                serde_json::to_string(&all).map_err(|e| text(&e))
            }
            ["clog", kind, count] => {
                let path = super::hostile::find(&self.domain, kind);
                for _ in 0..count.parse::<usize>().map_err(|e| text(&e))? {
                    self.clogs.extend(super::hostile::connect_to(&path));
                }
                Ok(self.clogs.len().to_string())
            }
            ["hang", kind, message, count] => {
                let path = super::hostile::find(&self.domain, kind);
                self.hang(&path, message == "hello", count.parse().map_err(|e| text(&e))?)
            }
            ["silent-publishers", count] => {
                let count: u32 = count.parse().map_err(|e| text(&e))?;
                self.silent.extend(
                    (0..count).map(|n| super::hostile::Listener::new(&self.domain, "t", 1000 + n)),
                );
                Ok(String::new())
            }
            ["silent-participants", count] => {
                let count: u32 = count.parse().map_err(|e| text(&e))?;
                self.silent.extend(
                    (0..count)
                        .map(|n| super::hostile::Listener::of_participant(&self.domain, 1000 + n)),
                );
                Ok(String::new())
            }
            ["hanging-publisher"] => {
                self.hang_each_connection(super::hostile::Listener::new(&self.domain, "t", 77))
            }
            ["hanging-participant"] => self
                .hang_each_connection(super::hostile::Listener::of_participant(&self.domain, 78)),
            ["clog-and-go", kind, count] => {
                let path = super::hostile::find(&self.domain, kind);
                let count = count.parse::<usize>().map_err(|e| text(&e))?;
                Ok((0..count).filter_map(|_| super::hostile::connect_to(&path)).count().to_string())
            }
            ["become", uid] => become_user(uid.parse().map_err(|e| text(&e))?, &[]),
            ["become", uid, "of", group] => become_user(
                uid.parse().map_err(|e| text(&e))?,
                &[group.parse().map_err(|e| text(&e))?],
            ),
            ["open-files"] => {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
                Ok(format!("{} {}", limit.current.unwrap_or(0), limit.maximum.unwrap_or(0)))
            }
            ["limit", what, soft] => limit(what, soft.parse().map_err(|e| text(&e))?),
            ["fork"] => crate::fork::try_everything(),
            ["linger"] => Ok(crate::fork::linger().to_string()),
            _ => Err(format!("not understood: {words:?}")),
        }
    }

    fn participant(&mut self) -> Result<&Participant, String> {
        if self.participant.is_none() {
            let config = ParticipantConfig {
                domain_dir: Some(self.domain.clone()).filter(|d| !d.as_os_str().is_empty()),
                name: format!("peer {}", std::process::id()),
            };
            self.participant = Some(Participant::open(config).map_err(|e| e.to_string())?);
        }
        self.participant.as_ref().ok_or_else(|| "no participant".into())
    }

    fn publisher(&mut self, name: &str) -> Result<&mut Publisher, String> {
        self.publishers.get_mut(name).ok_or_else(|| format!("no publisher {name}"))
    }

    fn create_publisher(&mut self, name: &str, o: &Options<'_>) -> Answer {
        let topic = o.text("topic", "t").parse().map_err(|e| format!("{e}"))?;
        let node = "talker".parse().map_err(|e| format!("{e}"))?;
        let mut c = PublisherConfig::new(topic, node, schema(), o.number("max", 4096)?);
        c.qos.depth = o.number("depth", 1)?;
        c.pins = o.number("pins", 8)?;
        c.loans = o.number("loans", 2)?;
        c.qos.checksum = o.has("checksum");
        if o.has("reliable") {
            (c.qos.reliability, c.qos.max_blocking_ms) =
                (Reliability::Reliable, o.number("reliable", 0)?);
        }
        if o.has("transient") {
            c.qos.durability = Durability::TransientLocal;
        }
        c.access = access(o);
        let p = self.participant()?.create_publisher(c).map_err(|e| e.to_string())?;
        let id = p.id();
        self.publishers.insert(name.to_owned(), p);
        Ok(id.to_string())
    }

    fn create_subscription(&mut self, name: &str, o: &Options<'_>) -> Answer {
        let topic = o.text("topic", "t").parse().map_err(|e| format!("{e}"))?;
        let node = "listener".parse().map_err(|e| format!("{e}"))?;
        let mut c = SubscriptionConfig::new(topic, node, schema());
        c.qos.depth = o.number("depth", 1)?;
        c.max_held = o.number("held", 2)?;
        c.observer = o.has("observer");
        c.qos.checksum = o.has("checksum");
        c.access = access(o);
        if o.has("reliable") {
            c.qos.reliability = Reliability::Reliable;
        }
        if o.has("transient") {
            c.qos.durability = Durability::TransientLocal;
        }
        let s = self.participant()?.create_subscription(c).map_err(|e| e.to_string())?;
        let id = s.id();
        self.subscriptions.insert(name.to_owned(), s);
        Ok(id.to_string())
    }

    fn matched(&self, name: &str) -> Result<usize, String> {
        match (self.publishers.get(name), self.subscriptions.get(name), self.jobs.get(name)) {
            (Some(p), _, _) => Ok(p.matched()),
            (_, Some(s), _) => Ok(s.matched()),
            (_, _, Some(Job::Follow { progress, .. })) => {
                Ok(progress.matched.load(SeqCst) as usize)
            }
            _ => Err(format!("neither publisher nor subscription is called {name}")),
        }
    }

    fn events(&mut self, name: &str) -> Answer {
        let mut all = Vec::new();
        if let Some(p) = self.publishers.get_mut(name) {
            all.extend(std::iter::from_fn(|| p.poll_event()).map(|e| format!("{e:?}")));
        }
        if let Some(s) = self.subscriptions.get_mut(name) {
            all.extend(std::iter::from_fn(|| s.poll_event()).map(|e| format!("{e:?}")));
        }
        Ok(all.join("; "))
    }

    fn take(&mut self, name: &str, o: &Options<'_>) -> Answer {
        let s =
            self.subscriptions.get_mut(name).ok_or_else(|| format!("no subscription {name}"))?;
        let next = o.text("want", "next") == "next";
        if o.has("copy") {
            let mut buffer = vec![0; o.number("max", 4096)?];
            let copied = if next { s.copy_next(&mut buffer) } else { s.copy_latest(&mut buffer) }
                .map_err(|e| e.to_string())?;
            let Some(c) = copied else { return Ok("none".into()) };
            whole(&buffer[..c.header.payload_len as usize], c.header.sequence, c.publisher);
            return Ok(format!("{} {}", c.header.sequence, c.missed));
        }
        let Some(sample) =
            if next { s.take_next() } else { s.take_latest() }.map_err(|e| e.to_string())?
        else {
            return Ok("none".into());
        };
        if !o.has("unchecked") {
            check(&sample);
        }
        let answer = format!("{} {}", sample.header().sequence, sample.missed());
        if o.has("hold") {
            self.held.push(sample);
        }
        Ok(answer)
    }

    fn flood(&mut self, name: &str, len: &str, gap_us: &str) -> Answer {
        let len: usize = len.parse().map_err(|_| "no length")?;
        let gap = Duration::from_micros(gap_us.parse().map_err(|_| "no gap")?);
        let mut p = self.publishers.remove(name).ok_or_else(|| format!("no publisher {name}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !told.load(SeqCst) {
                publish(&mut p, len);
                if !gap.is_zero() {
                    // time: paces a publisher
                    std::thread::sleep(gap);
                }
            }
            p
        });
        self.jobs.insert(name.to_owned(), Job::Flood { stop, thread });
        Ok(String::new())
    }

    fn follow(&mut self, name: &str, o: &Options<'_>) -> Answer {
        let s = self.subscriptions.remove(name).ok_or_else(|| format!("no subscription {name}"))?;
        let mut set =
            WaitSet::new(backend(o.text("backend", "auto"))?).map_err(|e| e.to_string())?;
        set.attach(&s).map_err(|e| e.to_string())?;
        let kicker = set.kicker();
        let progress = Arc::new(Progress::default());
        let mut follower = Follower {
            sub: s,
            set,
            progress: Arc::clone(&progress),
            next: o.text("want", "next") == "next",
            buffer: vec![0; if o.has("copy") { o.number("max", 8 << 20)? } else { 0 }],
            hold: o.number("hold", 0)?,
            stall: Duration::from_micros(o.number("stall_us", 0)?),
            spin: Duration::from_micros(o.number("spin_us", 0)?),
            trusted: u128::from_str_radix(o.text("trust", "0"), 16)
                .map(EndpointId)
                .map_err(|e| e.to_string())?,
            sequences: HashMap::new(),
        };
        let thread = std::thread::spawn(move || {
            follower.run();
            follower.sub
        });
        self.jobs.insert(name.to_owned(), Job::Follow { progress, kicker, thread });
        Ok(String::new())
    }

    fn echo(&mut self, from: &str, to: &str, how: &str) -> Answer {
        let mut sub =
            self.subscriptions.remove(from).ok_or_else(|| format!("no subscription {from}"))?;
        let mut publisher =
            self.publishers.remove(to).ok_or_else(|| format!("no publisher {to}"))?;
        let mut set = WaitSet::new(backend(how)?).map_err(|e| e.to_string())?;
        set.attach(&sub).map_err(|e| e.to_string())?;
        let (kicker, stop) = (set.kicker(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || echo(&mut sub, &mut publisher, &mut set, &told));
        self.jobs.insert(from.to_owned(), Job::Echo { stop, kicker, thread });
        Ok(String::new())
    }

    /// Repeats: subscribes, takes one sample, and drops the subscription before or after the
    /// sample.
    fn churn(&mut self, rounds: u32) -> Answer {
        for round in 0..rounds {
            self.create_subscription("churn", &Options::new(&[]))?;
            let mut s = self.subscriptions.remove("churn").ok_or("no subscription")?;
            let end = std::time::Instant::now() + super::PATIENCE / 2;
            let sample = loop {
                match s.take_latest().map_err(|e| e.to_string())? {
                    Some(sample) => break sample,
                    None if std::time::Instant::now() > end => {
                        return Err(format!("nothing comes in round {round}"));
                    }
                    None => std::thread::yield_now(),
                }
            };
            if round % 2 == 0 {
                drop(s);
            }
            check(&sample);
        }
        Ok(String::new())
    }

    fn hanging(&mut self) -> std::os::fd::OwnedFd {
        let (fd, guards) = super::hostile::lingering();
        self.clogs.extend(guards);
        fd
    }

    /// Sends descriptors whose close takes minutes, and keeps none of them.
    fn hang(&mut self, path: &std::path::Path, with_hello: bool, count: usize) -> Answer {
        let fds: Vec<_> = (0..count).map(|_| self.hanging()).collect();
        let several: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let packet = if with_hello {
            super::hostile::packet(super::hostile::HELLO, b"{}")
        } else {
            Vec::new()
        };
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("r-")) {
            super::hostile::send_datagram(path, &packet, &several);
        } else {
            let connection = super::hostile::connect_to(path).ok_or("its queue is full")?;
            super::hostile::send_with(&connection, &packet, &several);
            self.clogs.push(connection);
        }
        // If the message was not taken, these closes are the last, and hang.
        std::thread::spawn(move || drop(fds));
        Ok(String::new())
    }

    /// Answers the first connection with descriptors whose close takes minutes. Accepts later
    /// connections without an answer.
    fn hang_each_connection(&mut self, listener: super::hostile::Listener) -> Answer {
        let mut fds: Vec<_> = (0..5).map(|_| self.hanging()).collect();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            loop {
                let connection = listener.accept_any();
                let now = std::mem::take(&mut fds);
                if !now.is_empty() {
                    let several: Vec<_> = now.iter().map(|fd| fd.as_fd()).collect();
                    super::hostile::send_with(
                        &connection,
                        &super::hostile::packet(super::hostile::ACCEPT, b"{}"),
                        &several,
                    );
                    std::thread::spawn(move || drop(now));
                }
                kept.push(connection);
            }
        });
        Ok(String::new())
    }

    fn halt(&mut self, name: &str) -> Answer {
        match self.jobs.remove(name) {
            Some(Job::Flood { stop, thread }) => {
                stop.store(true, SeqCst);
                let p = thread.join().map_err(|_| "the thread panicked")?;
                let sequence = p.next_sequence() - 1;
                self.publishers.insert(name.to_owned(), p);
                Ok(sequence.to_string())
            }
            Some(Job::Follow { progress, kicker, thread }) => {
                progress.stop.store(true, SeqCst);
                kicker.kick();
                let s = thread.join().map_err(|_| "the thread panicked")?;
                self.subscriptions.insert(name.to_owned(), s);
                Ok(progress.text())
            }
            Some(Job::Echo { stop, kicker, thread }) => {
                stop.store(true, SeqCst);
                kicker.kick();
                thread.join().map_err(|_| "the thread panicked")?;
                Ok(String::new())
            }
            None => Err(format!("nothing goes on with {name}")),
        }
    }
}

fn backend(name: &str) -> Result<WaitBackend, String> {
    match name {
        "auto" => Ok(WaitBackend::Auto),
        "threads" => Ok(WaitBackend::Threads),
        "waitv" => Ok(WaitBackend::FutexWaitv),
        _ => Err(format!("no such way to wait: {name}")),
    }
}

pub(crate) fn schema() -> Schema {
    Schema::bytes("test/Whole", "noise", "")
}

/// Publishes a sample that readers can verify.
pub(crate) fn publish(p: &mut Publisher, len: usize) {
    let (number, id) = (p.next_sequence(), p.id());
    let mut loan = p.loan(len.max(payload::LEAST)).expect("there is a slot, whatever readers do");
    payload::fill(loan.payload_mut(), number, id);
    p.publish(loan, &mut SampleHeader::stamped_now()).expect("it is published");
}

/// Changes this process to another user permanently.
#[allow(unsafe_code, reason = "changing the user is a C call")]
fn become_user(id: u32, groups: &[libc::gid_t]) -> Answer {
    // SAFETY: plain system calls on numbers, and on a slice with its length; the C library changes
    // all threads.
    let ok = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setresgid(id, id, id) == 0
            && libc::setresuid(id, id, id) == 0
    };
    if !ok {
        return Err(std::io::Error::last_os_error().to_string());
    }
    // After the change of user, /proc/self belongs to root. This call gives it to the user, as in a
    // program that the user has started.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
        .map_err(|e| e.to_string())?;
    Ok(String::new())
}

fn limit(what: &str, soft: u64) -> Answer {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let resource = match what {
        "descriptors" | "spare-descriptors" | "all-descriptors" => Resource::Nofile,
        "file-size" => Resource::Fsize,
        "address-space" => Resource::As,
        "locked" => Resource::Memlock,
        _ => return Err(format!("no such limit: {what}")),
    };
    let soft = if what == "spare-descriptors" { soft + first_free()? } else { soft };
    // Lowers the hard limit as well, so that the soft limit cannot be raised again.
    let maximum = if what == "all-descriptors" { Some(soft) } else { getrlimit(resource).maximum };
    setrlimit(resource, Rlimit { current: Some(soft), maximum })
        .map(|()| String::new())
        .map_err(|e| e.to_string())
}

/// The number that the next descriptor would get.
fn first_free() -> Result<u64, String> {
    let copy = rustix::io::dup(std::io::stdin()).map_err(|e| e.to_string())?;
    Ok(std::os::fd::AsRawFd::as_raw_fd(&copy) as u64)
}

fn access(o: &Options<'_>) -> Access {
    match o.text("access", "own") {
        "own" => Access::OwnUser,
        "any" => Access::Anyone,
        users => Access::Users(users.split(',').filter_map(|u| u.parse().ok()).collect()),
    }
}
