// SPDX-License-Identifier: Apache-2.0
//! A forked child has no participant: its handles report `Forked` and can be dropped without harm,
//! and the parent continues.
#![allow(unsafe_code, reason = "the test forks")]

use crate::support::peer::{publish, schema};
use crate::support::{Domain, PATIENCE, eventually};
use driveline_shm::*;
use driveline_types::{MonotonicNs, SampleHeader};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// One handle of each kind.
struct All {
    domain: PathBuf,
    own: Participant,
    p: Publisher,
    s: Subscription,
    held: Sample,
    loan: Loan,
    /// With helper threads, which a child does not have.
    set: WaitSet,
    slept: Subscription,
}

fn config(domain: &std::path::Path) -> ParticipantConfig {
    ParticipantConfig { domain_dir: Some(domain.into()), name: "fork".into() }
}

fn subscription(own: &Participant) -> Subscription {
    own.create_subscription(SubscriptionConfig::new(
        "t".parse().unwrap(),
        "listener".parse().unwrap(),
        schema(),
    ))
    .unwrap()
}

impl All {
    fn new(domain: &std::path::Path) -> Self {
        let own = Participant::open(config(domain)).unwrap();
        let c =
            PublisherConfig::new("t".parse().unwrap(), "talker".parse().unwrap(), schema(), 4096);
        let mut p = own.create_publisher(c).unwrap();
        let (mut s, mut slept) = (subscription(&own), subscription(&own));
        eventually("they match", || p.matched() == 2 && s.matched() == 1 && slept.matched() == 1);
        publish(&mut p, 100);
        let held = s.take_next().unwrap().unwrap();
        slept.take_next().unwrap().unwrap();
        let mut loan = p.loan(100).unwrap();
        loan.payload_mut().fill(1);
        let mut set = WaitSet::new(WaitBackend::Threads).unwrap();
        set.attach(&slept).unwrap();
        // The control thread answers after it has woken the threads that wait for a match.
        assert_eq!(list(domain, PATIENCE / 2).unwrap().len(), 1);
        // time: takes the wake-ups that are left; the first wait without one ends the loop
        while set.wait(Some(MonotonicNs::now() + Duration::from_millis(1)), Duration::ZERO)
            != Wake::TimedOut
        {}
        Self { domain: domain.into(), own, p, s, held, loan, set, slept }
    }

    /// Runs in the child. Returns the operations whose result was wrong.
    fn try_everything(mut self) -> Vec<&'static str> {
        let mut wrong = Vec::new();
        let mut must = |what, ok: bool| {
            if !ok {
                wrong.push(what);
            }
        };
        must("loan", matches!(self.p.loan(1), Err(LoanError::Forked)));
        must("take next", matches!(self.s.take_next(), Err(TakeError::Forked)));
        must("take latest", matches!(self.s.take_latest(), Err(TakeError::Forked)));
        must("copy", matches!(self.s.copy_next(&mut [0; 100]), Err(TakeError::Forked)));
        must("unread", !self.s.has_unread());
        must("payload of a sample", self.held.payload().is_empty());
        must(
            "payload of a loan",
            self.loan.payload().is_empty() && self.loan.payload_mut().is_empty(),
        );
        must(
            "publish",
            self.p.publish(self.loan, &mut SampleHeader::stamped_now())
                == Err(PublishError::Forked),
        );
        must("wait", self.set.wait(None, Duration::ZERO) == Wake::Kicked);
        must("attach", matches!(self.set.attach(&self.s), Err(WaitSetError::Forked)));
        must(
            "stats",
            self.p.stats() == PublisherStats::default()
                && self.s.stats() == TransportStats::default(),
        );
        self.p.assert_liveliness();
        self.set.kicker().kick();
        let c = PublisherConfig::new("u".parse().unwrap(), "n".parse().unwrap(), schema(), 10);
        must(
            "new publisher",
            matches!(self.own.create_publisher(c), Err(CreatePublisherError::Forked)),
        );
        let c = SubscriptionConfig::new("u".parse().unwrap(), "n".parse().unwrap(), schema());
        must(
            "new subscription",
            matches!(self.own.create_subscription(c), Err(CreateSubscriptionError::Forked)),
        );
        while self.p.poll_event().is_some() || self.s.poll_event().is_some() {}
        // Dropping the handles must neither hang nor change anything of the parent.
        drop((self.held, self.set, self.slept, self.s, self.p, self.own));
        // A participant that the child opens itself works.
        let own = Participant::open(config(&self.domain)).unwrap();
        let mut s = subscription(&own);
        let end = Instant::now() + PATIENCE;
        while s.take_latest().unwrap().is_none() && Instant::now() < end {
            std::thread::yield_now();
        }
        must("a participant of its own", s.stats().received == 1);
        wrong
    }
}

/// Makes a child; it ends with the code that `f` returns.
fn fork(f: impl FnOnce() -> i32) -> Pid {
    // SAFETY: the child runs `f` and leaves; `f` uses nothing but its own copies and this library,
    // whose handles know that they are in a child. The C library's allocator works in children.
    match unsafe { libc::fork() } {
        0 => {
            let code = f();
            // SAFETY: ends the child without running anything of the harness.
            unsafe { libc::_exit(code) }
        }
        pid => Pid::from_raw(pid).expect("a child"),
    }
}

/// Command of a peer: makes a child that stays alive and does nothing. Returns its process id.
pub(crate) fn linger() -> i32 {
    fork(|| {
        // time: ends a child that its test did not end
        std::thread::sleep(2 * PATIENCE);
        0
    })
    .as_raw_nonzero()
    .get()
}

/// Command of a peer: a child tries every operation on the parent's handles, and the parent
/// continues.
pub(crate) fn try_everything() -> Result<String, String> {
    let d = Domain::new();
    let mut all = All::new(d.path());
    let before = all.held.payload().to_vec();
    assert!(before.iter().any(|b| *b != 0));
    let kept = all.held.payload().as_ptr();
    let kept_len = before.len();
    let mut copy = Some(all);
    let child = fork(|| {
        // SAFETY: a reference that was taken before the fork; the memory is held in the parent, and
        // zeros here.
        let seen = unsafe { std::slice::from_raw_parts(kept, kept_len) };
        if seen.iter().any(|b| *b != 0) {
            eprintln!("in the child: a reference into a sample reads no zeros");
            return 1;
        }
        let wrong = copy.take().map(All::try_everything).unwrap_or_default();
        for what in &wrong {
            eprintln!("in the child: {what}");
        }
        wrong.len() as i32
    });
    all = copy.expect("the child took its own copy");
    // Longer than the child waits.
    let end = Instant::now() + 2 * PATIENCE;
    let status = loop {
        publish(&mut all.p, 100);
        let s = all
            .s
            .take_next()
            .map_err(|e| e.to_string())?
            .ok_or("the parent's publisher does not reach its subscription")?;
        assert_eq!(s.payload().len(), 100);
        match waitpid(Some(child), WaitOptions::NOHANG).map_err(|e| e.to_string())? {
            Some((_, status)) => break status,
            None if Instant::now() > end => {
                let _ = kill_process(child, Signal::KILL);
                let _ = waitpid(Some(child), WaitOptions::empty());
                return Err("the child hangs".into());
            }
            // time: a pause between polls; only the time-out above ends them
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(status.exit_status(), Some(0), "the child");
    assert!(all.held.payload() == before && all.loan.payload().iter().all(|b| *b == 1));
    eventually("the child's own match is over, and no other", || {
        (all.p.matched(), all.s.matched()) == (2, 1)
    });
    assert_eq!(all.set.wait(None, Duration::ZERO), Wake::Data);
    all.p.publish(all.loan, &mut SampleHeader::stamped_now()).map_err(|e| e.to_string())?;
    Ok(String::new())
}

#[test]
fn handles_in_a_child_answer_forked_and_the_parent_goes_on() {
    let d = Domain::new();
    d.peer("parent").ask("fork");
}

#[test]
fn a_parents_death_is_seen_although_its_child_lives() {
    let d = Domain::new();
    let mut parent = d.peer("parent");
    parent.ask("publisher p");
    parent.ask("subscription back topic=back");
    let mut other = d.peer("other");
    other.ask("subscription s");
    other.ask("publisher p topic=back");
    parent.ask("await p 1");
    other.ask("await p 1");
    other.ask("await s 1");
    let child = parent.number("linger") as i32;
    let _end = Ends(Pid::from_raw(child).unwrap());
    parent.ask("say p 1 100");
    assert_eq!(other.ask("take s hold"), "1 0");
    parent.kill();
    other.until("matched s", |t| t == "0");
    other.until("matched p", |t| t == "0");
    let child = std::fs::read_to_string(format!("/proc/{child}/comm")).expect("the child lives");
    assert!(!child.is_empty());
    assert_eq!(other.ask("held"), "1");
}

/// Kills the child of a peer that is dead itself.
struct Ends(Pid);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}
