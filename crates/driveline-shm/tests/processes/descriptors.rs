// SPDX-License-Identifier: Apache-2.0
//! Limits on open descriptors. The library raises the limit if possible, refuses new endpoints with
//! a reason before the limit is reached, and survives when it is reached.

use crate::support::{Domain, Peer, eventually};
use std::time::{Duration, Instant};

/// Creates publishers `p0`, `p1`, … of topics `t0`, `t1`, … until one is refused, and returns their
/// number with the reason.
fn publishers_until_refused(w: &mut Peer, options: &str) -> (usize, String) {
    let mut created = 0;
    loop {
        match w.try_ask(&format!("publisher p{created} topic=t{created} {options}")) {
            Ok(_) => created += 1,
            Err(reason) => return (created, reason),
        }
        assert!(created < 1000, "no limit was reached");
    }
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_limit_at_the_first_participant() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("limit descriptors 40");
    let hard = w.numbers("open-files")[1];
    w.ask("join");
    assert_eq!(w.numbers("open-files"), [hard, hard]);
    for i in 0..30 {
        w.ask(&format!("publisher p{i} topic=t{i}"));
    }
    // The limit is raised only once: a limit that the program sets later stays.
    w.ask("limit descriptors 200");
    w.ask("leave");
    w.ask("join");
    assert_eq!(w.numbers("open-files"), [200, hard]);
}

#[test]
fn every_publisher_that_a_low_limit_admits_is_heard() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("limit all-descriptors 128");
    let (created, reason) = publishers_until_refused(&mut w, "");
    assert!(created > 16, "{created}");
    for part in ["topic 't", "of 128 are open", "`ulimit -n`", "LimitNOFILE=", "hard limit is 128"]
    {
        assert!(reason.contains(part), "{reason}");
    }
    let mut r = d.peer("reader");
    for i in 0..created {
        r.ask(&format!("subscription s{i} topic=t{i}"));
    }
    for i in 0..created {
        r.ask(&format!("await s{i} 1"));
        w.ask(&format!("say p{i} 1 100"));
        assert_eq!(r.ask(&format!("take s{i}")), "1 0");
    }
    // Tools still get their answer, and released descriptors can be used again.
    assert!(r.ask("list").contains("\"topic\":\"t0\""));
    r.quit();
    for i in 0..created {
        w.ask(&format!("await p{i} 0"));
        w.ask(&format!("drop p{i}"));
    }
    // Threads of the library close dropped descriptors with a delay.
    let end = Instant::now() + Duration::from_secs(60);
    for i in 0..created {
        while let Err(reason) = w.try_ask(&format!("publisher p{i} topic=t{i}")) {
            assert!(Instant::now() < end, "publisher {i} of {created}: {reason}");
        }
    }
}

#[test]
fn every_subscription_that_a_low_limit_admits_hears() {
    let d = Domain::new();
    let mut r = d.peer("reader");
    r.ask("limit all-descriptors 100");
    let mut created = 0;
    let reason = loop {
        match r.try_ask(&format!("subscription s{created} topic=t{created}")) {
            Ok(_) => created += 1,
            Err(reason) => break reason,
        }
        assert!(created < 1000, "no limit was reached");
    };
    assert!(
        created > 40 && reason.contains("`ulimit -n`") && reason.contains("LimitNOFILE="),
        "{created}: {reason}"
    );
    let mut w = d.peer("writer");
    for i in 0..created {
        w.ask(&format!("publisher p{i} topic=t{i}"));
    }
    for i in 0..created {
        r.ask(&format!("await s{i} 1"));
    }
}

/// Further matches of one publisher do not use the descriptors that the first matches of the other
/// publishers need.
#[test]
fn readers_of_one_publisher_leave_descriptors_for_the_first_reader_of_each_other() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("limit all-descriptors 128");
    let created = publishers_until_refused(&mut w, "pins=200").0;
    let mut crowd = d.peer("crowd");
    for i in 0..60 {
        crowd.ask(&format!("subscription s{i} topic=t0 held=1"));
    }
    let mut refused = crowd.until("events s59", |t| t.contains("Refused") || t.contains("Matched"));
    // The last reader may be answered before a reader that is refused.
    eventually("60 readers are more than there is room for", || {
        refused.contains("Refused")
            || (0..60).any(|i| {
                refused = crowd.ask(&format!("events s{i}"));
                refused.contains("Refused")
            })
    });
    assert!(
        refused.contains("code: System")
            && refused.contains("the publisher's process has too few descriptors"),
        "{refused}"
    );
    assert!(refused.contains("`ulimit -n`"), "{refused}");
    let told = w.until("events p0", |t| t.contains("no process can subscribe for now"));
    assert!(told.contains("of 128 are open") && told.contains("LimitNOFILE="), "{told}");
    let mut r = d.peer("reader");
    for i in 1..created {
        r.ask(&format!("subscription s{i} topic=t{i}"));
    }
    for i in 1..created {
        r.ask(&format!("await s{i} 1"));
    }
    // A waiting subscription is matched when others have left.
    for i in 0..59 {
        crowd.ask(&format!("drop s{i}"));
    }
    crowd.ask("await s59 1");
}

#[test]
fn a_publisher_without_any_descriptor_says_so_at_both_ends_and_matches_later() {
    let d = Domain::new();
    let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
    w.ask("publisher p");
    w.ask("limit spare-descriptors 0");
    r.ask("subscription s");
    let told = r.until("events s", |t| t.contains("Refused"));
    assert!(
        told.contains("code: System")
            && told.contains("the publisher's process has too few descriptors"),
        "{told}"
    );
    let told = w.until("events p", |t| t.contains("no process can subscribe for now"));
    assert!(told.contains("`ulimit -n`") && told.contains("LimitNOFILE="), "{told}");
    assert!(
        r.ask("list").contains("\"topic\":\"t\""),
        "tools are answered with the last descriptor"
    );
    w.ask("limit descriptors 1000");
    r.ask("await s 1");
}

#[test]
fn a_subscription_without_any_descriptor_says_so_at_both_ends_and_matches_later() {
    for spare in [0, 2] {
        let d = Domain::new();
        let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
        r.ask("subscription s");
        r.ask(&format!("limit spare-descriptors {spare}"));
        w.ask("publisher p");
        let told = r.until("events s", |t| t.contains("Refused"));
        assert!(
            told.contains("code: System") && told.contains("this process has too few descriptors"),
            "{told}"
        );
        assert!(told.contains("`ulimit -n`") && told.contains("LimitNOFILE="), "{told}");
        let told = w.until("events p", |t| t.contains("Refused"));
        assert!(
            told.contains(
                "the subscription of node 'listener' cannot be matched: its process \
             has too few descriptors"
            ),
            "{told}"
        );
        r.ask("limit descriptors 1000");
        r.ask("await s 1");
    }
}
