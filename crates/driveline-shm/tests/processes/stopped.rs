// SPDX-License-Identifier: Apache-2.0
//! A stopped process is not dead: its memory is not freed, and other processes do not wait for it.

use crate::support::hostile::{REFUSE, connect_to, find, kind, receive};
use crate::support::{Domain, eventually, repeat};
use driveline_shm::PublisherStats;
use rustix::process::Signal;
use std::time::Duration;

const LEN: u32 = 100_000;

#[test]
fn a_stopped_reader_keeps_what_it_holds_and_the_writer_runs_on() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask(&format!("publisher p max={LEN} pins=4 loans=1"));
    let mut r = d.peer("reader");
    r.ask("subscription s held=3");
    w.ask("await p 1");
    r.ask("await s 1");
    for _ in 0..3 {
        w.ask(&format!("say p 1 {LEN}"));
        r.ask("take s hold");
    }
    r.signal(Signal::STOP);
    r.stopped();
    w.ask(&format!("flood p {LEN} 0"));
    // The writer refuses a silent connection when its time limit is over. Handshakes have the same
    // limit, so every time limit of the stopped reader is over by then, too.
    let silent = connect_to(&find(d.path(), "p-")).unwrap();
    assert_eq!(kind(&receive(&silent).unwrap().0), REFUSE);
    w.ask("halt p");
    // The writer does not wait for a stopped reader.
    let published = w.number(&format!("say p 100 {LEN}"));
    assert_eq!(w.ask("matched p"), "1");
    // Pins granted to the stopped reader are not granted to others.
    let mut other = d.peer("other");
    other.ask("subscription s held=2");
    other.until("events s", |t| t.contains("needs 2 pins and 1 of 4 are left"));
    r.signal(Signal::CONT);
    assert_eq!(r.ask("held"), "3");
    r.ask("release");
    assert_eq!(r.ask("take s"), format!("{published} {}", published - 4));
}

#[test]
fn readers_wait_for_a_stopped_writer_as_for_a_silent_one() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p");
    let mut r = d.peer("reader");
    r.ask("subscription s");
    r.ask("follow s");
    w.ask("await p 1");
    w.ask("say p 5 1000");
    w.signal(Signal::STOP);
    w.stopped();
    let mut late = d.peer("late");
    late.ask("subscription s");
    late.until("events s", |t| {
        t.contains("has not answered") && t.contains("is its process stopped?")
    });
    // Tools do not wait either, and omit the process that cannot answer.
    assert!(!late.ask("list").contains("\"publisher\":{"));
    assert_eq!((r.ask("matched s").as_str(), late.ask("matched s").as_str()), ("1", "0"));
    w.signal(Signal::CONT);
    late.ask("await s 1");
    w.ask("say p 5 1000");
    r.until("progress s", |t| t.split(' ').nth(2) == Some("10"));
    assert_eq!(late.ask("take s"), "10 4");
    r.ask("halt s");
}

/// epoll reports a new connection before an older one that has ended, because the new one was ready
/// first. At that time, the ended match still has the pins.
#[test]
fn pins_that_were_given_back_while_the_writer_stood_still_are_there_for_others() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p pins=2 loans=1");
    let mut leaver = d.peer("leaver");
    leaver.ask("subscription s held=2");
    w.ask("await p 1");
    w.signal(Signal::STOP);
    w.stopped();
    let mut newcomer = d.peer("newcomer");
    newcomer.ask("subscription s held=2");
    newcomer.until("events s", |t| t.contains("has not answered"));
    leaver.ask("drop s");
    leaver.quit();
    w.signal(Signal::CONT);
    newcomer.ask("await s 1");
    // The accepted subscription may see the match before the publisher counts it.
    w.ask("await p 1");
    let stats: PublisherStats = serde_json::from_str(&w.ask("stats p")).unwrap();
    assert_eq!((stats.matched, stats.refused_pins), (1, 0), "{stats:?}");
}

/// The writer or one of the readers is stopped and continued, again and again, at random moments
/// while the readers hold, copy and wait.
#[test]
fn readers_and_writers_that_stop_and_continue_at_any_instruction_harm_no_other() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p max=50000 pins=9 depth=2");
    let mut readers: Vec<_> = ["hold=2", "copy want=latest", "backend=threads"]
        .iter()
        .map(|how| {
            let mut r = d.peer(how);
            r.ask("subscription s depth=2 held=3");
            r.ask(&format!("follow s max=50000 {how}"));
            r
        })
        .collect();
    w.ask("await p 3");
    w.ask("flood p 50000 0");
    let mut random = crate::support::Random::new(9);
    let stop_and_go = || {
        let one = match random.below(4) {
            3 => &w,
            n => &readers[n],
        };
        one.signal(Signal::STOP);
        // time: stops and continues at random moments
        std::thread::sleep(Duration::from_micros(200 + random.below(5000) as u64));
        one.signal(Signal::CONT);
        // time: as above
        std::thread::sleep(Duration::from_micros(random.below(2000) as u64));
    };
    repeat(Duration::from_millis(1500), stop_and_go, || Ok(()));
    let last = w.number("halt p");
    for r in &mut readers {
        r.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
        let n = r.numbers("halt s");
        assert_eq!(n[0] + n[1], last);
    }
    for p in readers.into_iter().chain([w]) {
        p.quit();
    }
    eventually("everything is cleaned up", || d.names().is_empty());
}
