// SPDX-License-Identifier: Apache-2.0
//! Deaths and stops of a process at every documented step of the protocol, on both sides.
//!
//! The steps are listed in `docs/protocols/shm.md`; the source passes them by name
//! (`fault::point`). A listed step without a case here fails the test, and so does a step of the
//! source that is not listed.

use crate::support::{Domain, Peer, eventually};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Steps of a publish, and whether a death there leaves the sample published.
pub(crate) const PUBLISHING: &[(&str, bool)] = &[
    // The first loan has nothing to withdraw, so this step is first passed at the second loan.
    ("loan.after_withdraw", true),
    ("loan.taken", false),
    ("publish.filled", false),
    ("publish.after_seqw", false),
    ("publish.after_ring", false),
    ("publish.after_latest", true),
    ("publish.after_retire", true),
    ("publish.after_fence", true),
    ("publish.after_scan", true),
];
/// Passed only when a reader is woken.
const WAKING: &str = "publish.after_wake";
const ADMITTING: &[&str] = &["join.after_hello", "join.after_entry", "join.after_accept"];
pub(crate) const READING: &[&str] =
    &["borrow.before_pin", "borrow.after_pin", "borrow.after_validate", "borrow.before_unpin"];
pub(crate) const COPYING: &str = "copy.after_copy";
pub(crate) const WAITING: &[&str] = &["wait.after_arm", "wait.before_sleep", "wait.after_sleep"];
const ASKING: &[&str] = &["join.before_hello", "join.after_answer"];
const BINDING: &[&str] = &["socket.after_bind", "socket.before_rename", "socket.after_rename"];
/// Sockets that a participant makes: for hints, for tools, and one per publisher.
const SOCKETS_OF_PUBLISHER: u32 = 3;
const SOCKETS_OF_SUBSCRIBER: u32 = 2;

pub(crate) const NTH: u32 = 50;
/// Payload length from which loans withdraw samples that were read.
pub(crate) const LEN: u32 = 70_000;

fn cases() -> BTreeSet<&'static str> {
    let single = [WAKING, COPYING];
    let lists = [ADMITTING, READING, WAITING, ASKING, BINDING, crate::memory::RESERVING];
    PUBLISHING
        .iter()
        .map(|(s, _)| *s)
        .chain(single)
        .chain(lists.into_iter().flatten().copied())
        .collect()
}

fn is_step(name: &str) -> bool {
    name.split_once('.').is_some_and(|(a, b)| {
        let word =
            |w: &str| !w.is_empty() && w.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        word(a) && word(b) && !["rs", "md", "toml"].contains(&b)
    })
}

/// Names in code marks in the first cells of table rows.
fn documented_steps(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|l| l.trim_start().starts_with('|'));
    let first_cells = rows.filter_map(|l| l.trim_start().trim_start_matches('|').split('|').next());
    first_cells
        .flat_map(|c| c.split('`').skip(1).step_by(2))
        .filter(|n| is_step(n))
        .map(str::to_owned)
        .collect()
}

/// Names of all fault points in the source.
fn passed_steps(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            passed_steps(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&entry).unwrap();
            found.extend(
                text.split("fault::point(\"")
                    .skip(1)
                    .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())),
            );
        }
    }
}

#[test]
fn every_step_is_documented_and_has_a_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../docs/protocols/shm.md")).unwrap();
    let documented = documented_steps(&text);
    let mut passed = BTreeSet::new();
    passed_steps(&root.join("src"), &mut passed);
    let cases: BTreeSet<String> = cases().into_iter().map(str::to_owned).collect();
    assert!(passed.len() > 20, "the source's steps were not found: {passed:?}");
    assert_eq!(
        documented.difference(&cases).collect::<Vec<_>>(),
        [""; 0],
        "documented, but no process dies there"
    );
    assert_eq!(
        passed.difference(&documented).collect::<Vec<_>>(),
        [""; 0],
        "in the source, but not documented"
    );
    assert_eq!(
        cases.difference(&passed).collect::<Vec<_>>(),
        [""; 0],
        "a case for a step that the source does not pass"
    );
    assert_eq!(
        documented_steps("| `a.b_c` / `d.e` | `f.g` |\n`h.i`\n|x `y` |"),
        ["a.b_c", "d.e"].map(String::from).into()
    );
}

/// A reader that outlives the writer, asleep most of the time.
fn surviving_reader(d: &Domain) -> Peer {
    let mut r = d.peer("surviving reader");
    r.ask("subscription s depth=2 held=3");
    r.ask("follow s want=next hold=1");
    r
}

/// After the writer's death, starts another writer. The surviving reader matches it, and the new
/// writer removes the names of the dead one.
fn succeed_writer(d: &Domain, mut r: Peer, what: &str) {
    let publishers = r.numbers("progress s")[3];
    let mut w = d.peer("successor");
    w.ask("publisher p depth=2 pins=4 max=70000");
    w.ask("await p 1");
    w.ask(&format!("say p 7 {LEN}"));
    r.until("progress s", |t| {
        let n: Vec<u64> = t.split(' ').map(|n| n.parse().unwrap()).collect();
        n[2] == 7 && n[3] == publishers + 1
    });
    eventually(what, || d.names().len() == 5 && d.count('t') == 0 && d.count('p') == 1);
    r.ask("halt s");
    w.quit();
    r.quit();
    assert_eq!(d.names(), [""; 0], "{what}");
}

#[test]
fn a_writer_dies_at_every_step_of_a_publish() {
    for &(point, published) in PUBLISHING {
        let d = Domain::new();
        let mut r = surviving_reader(&d);
        let mut w = d.doomed_peer(point, point, NTH);
        w.ask("publisher p depth=2 pins=4 max=70000");
        w.ask("await p 1");
        w.send(&format!("say p 60 {LEN}"));
        w.died();
        r.until("matched s", |t| t == "0");
        let last = u64::from(NTH) - u64::from(!published);
        let at_end = r.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
        succeed_writer(&d, r, &format!("{point}: {at_end}"));
    }
}

#[test]
fn a_writer_dies_while_it_wakes_or_admits_readers() {
    for point in ADMITTING.iter().chain([&WAKING]) {
        let d = Domain::new();
        let mut r = surviving_reader(&d);
        let mut w = d.doomed_peer(point, point, 1);
        w.send("publisher p depth=2 pins=4 max=70000");
        if *point == WAKING {
            w.answer("publisher").unwrap();
            w.ask("await p 1");
            // With pauses, so that the reader goes to sleep.
            w.send(&format!("flood p {LEN} 2000"));
        }
        w.died();
        if *point == WAKING {
            // The sample of the dead writer may be read after its end is seen.
            r.until_at_least("progress s", 1);
        }
        r.until("matched s", |t| t == "0");
        succeed_writer(&d, r, point);
    }
}

#[test]
fn a_writer_dies_while_it_makes_its_sockets() {
    for point in BINDING {
        for nth in 1..=SOCKETS_OF_PUBLISHER {
            let d = Domain::new();
            let mut r = surviving_reader(&d);
            // Otherwise the reader may remove the leftovers before the test checks them.
            r.signal(Signal::STOP);
            r.stopped();
            let mut w = d.doomed_peer(point, point, nth);
            w.send("publisher p");
            w.died();
            assert!(d.names().len() > 2, "it left something behind");
            r.signal(Signal::CONT);
            succeed_writer(&d, r, point);
        }
    }
}

/// A writer whose pins are just enough for a bystander (1) and one other reader (3).
fn surviving_writer(d: &Domain) -> (Peer, Peer) {
    let mut w = d.peer("surviving writer");
    w.ask("publisher p depth=2 pins=4 max=70000 loans=1");
    let mut bystander = d.peer("bystander");
    bystander.ask("subscription s held=1");
    bystander.ask("follow s want=latest");
    w.ask("await p 1");
    (w, bystander)
}

/// After a reader's death: the writer and the bystander continue, and another reader can use the
/// dead reader's pins.
fn succeed_reader(d: &Domain, mut w: Peer, mut bystander: Peer, what: &str) {
    w.ask("await p 1");
    let before = bystander.numbers("progress s")[0];
    // Many more samples than there are slots.
    let last = w.number(&format!("say p 500 {LEN}"));
    bystander.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
    assert!(bystander.numbers("progress s")[0] > before);
    let mut r = d.peer("successor");
    r.ask("subscription s depth=2 held=3");
    r.ask("await s 1");
    for _ in 0..3 {
        w.ask(&format!("say p 20 {LEN}"));
        r.ask("take s hold want=latest");
    }
    w.ask(&format!("say p 500 {LEN}"));
    assert_eq!(r.ask("held"), "3", "{what}");
    assert!(r.try_ask("take s hold").unwrap_err().contains("all 3"));
    eventually(what, || d.count('t') == 0 && d.names().len() == 7);
    bystander.ask("halt s");
    for p in [w, bystander, r] {
        p.quit();
    }
    assert_eq!(d.names(), [""; 0], "{what}");
}

#[test]
fn a_reader_dies_at_every_step_of_reading_and_waiting() {
    for point in READING.iter().chain([&COPYING]).chain(WAITING) {
        for nth in [1, 7] {
            let d = Domain::new();
            let (mut w, bystander) = surviving_writer(&d);
            let mut r = d.doomed_peer(point, point, nth);
            r.ask("subscription s depth=2 held=3");
            w.ask("await p 2");
            w.ask(&format!("flood p {LEN} 300"));
            r.send(if *point == COPYING { "follow s copy" } else { "follow s hold=2" });
            r.died();
            w.ask("halt p");
            succeed_reader(&d, w, bystander, &format!("{point}:{nth}"));
        }
    }
}

#[test]
fn a_reader_dies_while_it_joins() {
    let sockets = BINDING.iter().flat_map(|p| (1..=SOCKETS_OF_SUBSCRIBER).map(move |n| (p, n)));
    for (point, nth) in ASKING.iter().map(|p| (p, 1)).chain(sockets) {
        let d = Domain::new();
        let (mut w, bystander) = surviving_writer(&d);
        w.ask(&format!("flood p {LEN} 300"));
        let mut r = d.doomed_peer(point, point, nth);
        r.send("subscription s depth=2 held=3");
        r.died();
        w.ask("halt p");
        succeed_reader(&d, w, bystander, &format!("{point}:{nth}"));
    }
}

#[test]
fn a_writer_that_stands_still_at_any_step_goes_on_where_it_was() {
    for &(point, published) in PUBLISHING {
        let d = Domain::new();
        let mut r = surviving_reader(&d);
        let mut w = d.stopping_peer(point, point, NTH);
        w.ask("publisher p depth=2 pins=4 max=70000");
        w.ask("await p 1");
        let say = format!("say p 60 {LEN}");
        w.send(&say);
        w.stopped();
        let last = u64::from(NTH) - u64::from(!published);
        let last_is = |t: &str, n: u64| t.split(' ').nth(2) == Some(&n.to_string());
        if point == "publish.after_latest" || !published {
            // The reader may sleep through a sample whose wake-up is still to come, but never
            // through an older one.
            r.until_at_least("progress s", 1);
        } else {
            r.until("progress s", |t| last_is(t, last) || last_is(t, last - 1));
        }
        assert_eq!(r.ask("matched s"), "1", "{point}: standing still is not death");
        w.signal(Signal::CONT);
        w.answer(&say).unwrap();
        r.until("progress s", |t| last_is(t, 60));
        r.ask("halt s");
        w.quit();
        r.quit();
    }
}

#[test]
fn a_reader_stopped_at_any_step_keeps_its_samples_and_delays_no_other() {
    for point in READING.iter().chain([&COPYING]).chain(WAITING) {
        let d = Domain::new();
        let (mut w, mut bystander) = surviving_writer(&d);
        let mut r = d.stopping_peer(point, point, 7);
        r.ask("subscription s depth=2 held=3");
        w.ask("await p 2");
        w.ask(&format!("flood p {LEN} 300"));
        // The process may be stopped before it has answered.
        let follow = if *point == COPYING { "follow s copy" } else { "follow s hold=2" };
        r.send(follow);
        r.stopped();
        w.ask("halt p");
        // Uses all slots many times, as fast as possible, while the reader is stopped within its
        // step.
        let last = w.number(&format!("say p 2000 {LEN}"));
        bystander.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
        assert_eq!(w.ask("matched p"), "2", "{point}: standing still is not death");
        r.signal(Signal::CONT);
        r.answer(follow).unwrap();
        let last = w.number(&format!("say p 50 {LEN}"));
        r.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
        r.ask("halt s");
        bystander.ask("halt s");
        for p in [w, bystander, r] {
            p.quit();
        }
    }
}

/// Deaths at any instruction, not only at the listed steps.
#[test]
fn writers_and_readers_die_at_moments_of_chance() {
    let d = Domain::new();
    let mut random = crate::support::Random::new(13);
    let (mut w, mut bystander) = surviving_writer(&d);
    bystander.ask("halt s");
    bystander.ask("follow s want=next hold=0");
    w.ask(&format!("flood p {LEN} 0"));
    for _ in 0..15 {
        let mut r = d.peer("short-lived reader");
        r.ask("subscription s depth=2 held=3");
        r.ask("await s 1");
        r.ask(random.pick::<&str>(&[
            "follow s hold=2",
            "follow s copy",
            "follow s want=latest backend=threads",
        ]));
        // time: the moment of the death is random
        std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
        r.kill();
    }
    w.ask("halt p");
    bystander.ask("halt s");
    bystander.ask("follow s want=latest");
    succeed_reader(&d, w, bystander, "chance");

    let mut r = surviving_reader(&d);
    for round in 1..=15 {
        let mut w = d.peer("short-lived writer");
        w.ask("publisher p depth=2 pins=4 max=70000");
        w.ask("await p 1");
        w.ask(&format!("flood p {LEN} {}", random.below(2) * 200));
        r.until("progress s", |t| t.split(' ').nth(3) == Some(&round.to_string()));
        // time: the moment of the death is random
        std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
        w.kill();
        r.until("matched s", |t| t == "0");
    }
    succeed_writer(&d, r, "chance");
}

/// A publisher that waits for a reliable reader stops waiting when the reader dies, even if its
/// time-out is long.
#[test]
fn a_reliable_writer_is_not_held_by_the_dead() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p depth=2 reliable=3600000");
    let mut r = d.peer("reader");
    r.ask("subscription s depth=2 reliable");
    w.ask("await p 1");
    w.ask("say p 2 1000");
    w.send("say p 100 1000");
    r.until("take s hold", |t| t == "1 0");
    r.signal(Signal::STOP);
    r.stopped();
    // time: lets the writer begin its wait; a later wait for the dead reader must end as well
    std::thread::sleep(Duration::from_millis(100));
    r.kill();
    assert_eq!(w.answer("say").unwrap(), "102");
    // A new reader that reads all the time gets everything.
    let mut r = d.peer("reader");
    r.ask("subscription s depth=2 reliable");
    w.ask("await p 1");
    r.ask("follow s hold=1");
    w.ask("say p 3000 1000");
    r.until("progress s", |t| t.split(' ').nth(2) == Some("3102"));
    assert_eq!(r.numbers("halt s")[..2], [3000, 0]);
}
