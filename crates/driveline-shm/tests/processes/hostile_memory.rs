// SPDX-License-Identifier: Apache-2.0
//! Arbitrary bytes in shared memory: a publisher that overwrites its segment under live readers, a
//! subscription that overwrites its page under a live publisher. The victims survive, and samples
//! of honest peers arrive intact.

use crate::support::hostile::*;
use crate::support::{Domain, Peer, Random, Tally, repeat_counted, wanted};
use driveline_types::{Qos, Reliability};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::time::Duration;

const USUAL: Duration = Duration::from_millis(1500);
const DEPTH: u32 = 4;
const LAYOUT: Layout = Layout { slots: 12, ring: 6, payload: 10_000 };

fn qos() -> Qos {
    Qos { depth: DEPTH, ..Qos::default() }
}

/// Victims that read the topic of an honest writer and of a liar.
struct Scene {
    d: Domain,
    writer: Peer,
    victims: Vec<Peer>,
    segment: Area,
    wake: Area,
    connections: Vec<OwnedFd>,
    _listener: Listener,
}

fn scene() -> Scene {
    let d = Domain::new();
    let mut writer = d.peer("honest writer");
    let id = writer.ask(&format!("publisher p depth={DEPTH} pins=16"));
    let listener = Listener::new(d.path(), "t", 1);
    let (segment, wake) = (LAYOUT.segment(), Area::new(PAGE));
    let mut connections = Vec::new();
    let hows = [
        "want=next",
        "want=latest copy",
        "want=next hold=2 backend=threads",
        "want=latest spin_us=1000000",
    ];
    let victims: Vec<Peer> = hows
        .iter()
        .map(|how| {
            let mut v = d.peer(how);
            v.ask(&format!("subscription s depth={DEPTH} held=4"));
            let (s, asked) = listener.accept();
            assert_eq!((asked["topic"].as_str(), asked["pins"].as_u64()), (Some("t"), Some(4)));
            let accept = packet(ACCEPT, LAYOUT.accept(&qos()).to_string().as_bytes());
            assert!(send_with(&s, &accept, &borrow(&[&segment.fd, &wake.fd])));
            connections.push(s);
            v.ask("await s 2");
            v.ask(&format!("follow s {how} trust={id}"));
            v
        })
        .collect();
    Scene { d, writer, victims, segment, wake, connections, _listener: listener }
}

impl Scene {
    fn publish(&self, sequence: u64, slot: usize) {
        let packed = sequence << 16 | slot as u64;
        self.segment.word(LAYOUT.meta(slot % LAYOUT.slots) + 8).store(sequence, Release);
        self.segment
            .word(RING + (sequence % LAYOUT.ring as u64) as usize * 8)
            .store(packed, Release);
        self.segment.word(LATEST).store(packed, Release);
        self.wake();
    }

    fn wake(&self) {
        let word = self.wake.half_word(0);
        word.fetch_add(1, SeqCst);
        let _ = rustix::thread::futex::wake(word, rustix::thread::futex::Flags::empty(), 1000);
    }

    /// Repeats the liar's attack while the honest writer writes. The victims must receive the
    /// honest samples all the time.
    fn endure(mut self, tally: &Tally, mut attack: impl FnMut(&Scene, &mut Random, u64)) {
        self.writer.ask("flood p 2000 500");
        let mut random = Random::new(11);
        let mut n = 0;
        let mut victims = std::mem::take(&mut self.victims);
        let mut during = Vec::new();
        repeat_counted(
            USUAL,
            (tally, wanted()),
            || {
                for _ in 0..100 {
                    n += 1;
                    attack(&self, &mut random, n);
                }
            },
            || {
                during = victims.iter_mut().map(|v| v.numbers("progress s")[0]).collect();
                if during.iter().all(|n| *n > 10) {
                    Ok(())
                } else {
                    Err(format!("honest samples received meanwhile: {during:?}"))
                }
            },
        );
        tally.print();
        println!("meanwhile {during:?}");
        self.victims = victims;
        // They continue to receive, although the liar's memory stays corrupted.
        let last = self.writer.number("halt p");
        for v in &mut self.victims {
            v.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
        }
        // After the liar has left, only the honest match remains.
        self.connections.clear();
        for mut v in self.victims {
            v.until("matched s", |t| t == "1");
            v.ask("halt s");
            println!("{}", v.ask("stats s"));
            v.quit();
        }
        self.writer.quit();
        drop(self.d);
    }
}

#[test]
fn random_words_anywhere_in_a_segment_do_no_harm() {
    let fields = [SEGMENT_FIELDS, &["wake word"]].concat();
    let tally = Tally::new("segment, random words", &fields);
    scene().endure(&tally, |s, random, n| {
        let at = random.below(LAYOUT.payloads() / 8) * 8;
        tally.count(LAYOUT.field(at));
        // Does not go far ahead in the sequence: a reader that has accepted a distant sequence
        // number has nothing to read any more.
        let word = if at == LATEST { n << 16 | random.below(20) as u64 } else { random.nasty() };
        s.segment.word(at).store(word, Release);
        s.segment.word(LATEST).store(n << 16 | random.below(LAYOUT.slots) as u64, Release);
        match random.below(100) {
            0 => s.wake(),
            1 => {
                s.wake.half_word(0).store(random.nasty() as u32, Release);
                tally.count("wake word");
                s.wake();
            }
            _ => {}
        }
    });
}

#[test]
fn samples_with_one_wrong_word_each_do_no_harm() {
    let header: Vec<_> = (0..7).map(header_field).collect();
    let fields = [&header[..], &["ring", "latest"]].concat();
    let tally = Tally::new("segment, samples with a wrong word", &fields);
    scene().endure(&tally, |s, random, n| {
        let slot = random.below(LAYOUT.slots);
        for word in 0..8 {
            s.segment.word(LAYOUT.meta(slot) + word * 8).store(0, Relaxed);
        }
        // Version 1, no origins, and a possible payload length.
        s.segment.word(LAYOUT.meta(slot)).store(1, Relaxed);
        s.segment.word(LAYOUT.meta(slot) + 40).store(random.below(LAYOUT.payload) as u64, Relaxed);
        match random.below(3) {
            0 => {
                let word = random.below(7);
                s.segment.word(LAYOUT.meta(slot) + word * 8).store(random.nasty(), Relaxed);
                tally.count(header_field(word));
            }
            1 => {
                let word = random.nasty() & 0xffff_0000 | 1;
                s.segment.word(LAYOUT.meta(slot)).store(word, Relaxed);
                tally.count(header_field(0));
            }
            _ => {}
        }
        s.publish(n, slot);
        match random.below(8) {
            0 => {
                s.segment.word(RING + random.below(LAYOUT.ring) * 8).store(random.nasty(), Release);
                tally.count("ring");
            }
            1 => {
                s.segment.word(LATEST).store(n << 16 | random.next() & 0xffff, Release);
                tally.count("latest");
            }
            2 => {
                let meta = LAYOUT.meta(random.below(LAYOUT.slots));
                s.segment.word(meta + 8).store(random.nasty(), Release);
                tally.count(header_field(1));
            }
            _ => {}
        }
        if n.is_multiple_of(16) {
            // time: paces the writer, so that readers see some of what it writes
            std::thread::sleep(Duration::from_micros(50));
        }
    });
}

/// The segment announces newer samples all the time, but never contains one. Honest samples of the
/// same topic must not be delayed by that.
#[test]
fn a_segment_that_flickers_does_not_keep_a_reader_from_others() {
    let tally = Tally::new("segment, flicker", &["latest"]);
    scene().endure(&tally, |s, _, n| {
        tally.add("latest", 10_000);
        for i in 0..10_000 {
            s.segment
                .word(LATEST)
                .store(((u64::from(u32::MAX) + n * 10_000 + i) << 16) | (n % 7), Release);
        }
    });
}

/// Runs a liar, an honest writer of depth 1, and a victim that takes samples by command.
fn next_to_a_lying_publisher(
    options: &str,
    layout: Layout,
    qos: &Qos,
) -> (Domain, Peer, Peer, Area, OwnedFd, Listener) {
    let d = Domain::new();
    let mut writer = d.peer("honest writer");
    writer.ask(if qos.checksum { "publisher p checksum" } else { "publisher p" });
    let listener = Listener::new(d.path(), "t", 1);
    let (segment, wake) = (layout.segment(), Area::new(PAGE));
    let mut v = d.peer("victim");
    v.ask(&format!("subscription s {options}"));
    let (s, _) = listener.accept();
    let accept = packet(ACCEPT, layout.accept(qos).to_string().as_bytes());
    assert!(send_with(&s, &accept, &borrow(&[&segment.fd, &wake.fd])));
    v.ask("await s 2");
    (d, writer, v, segment, s, listener)
}

/// The liar's sample claims to be the oldest, but is gone whenever it is read. The same take must
/// return the other publisher's sample.
#[test]
fn a_take_that_is_overrun_by_one_publisher_looks_at_the_others() {
    let (_d, mut writer, mut v, segment, _s, _listener) =
        next_to_a_lying_publisher("", LAYOUT, &qos());
    for slot in 0..LAYOUT.slots {
        segment.word(LAYOUT.meta(slot) + 16).store(1, Relaxed);
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1u64.. {
                segment.word(LATEST).store((n << 16) | (n % 7), Release);
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
        // The assertion comes after the liar has stopped: a panic before would wait for the liar's
        // thread forever.
        let right = (1..=200).all(|n| {
            writer.ask("say p 1 100");
            v.ask("take s") == format!("{n} 0")
        });
        stop.store(true, Relaxed);
        assert!(right, "a take gave nothing although there was something");
    });
}

/// Payloads with a wrong checksum are expensive to refuse, so one take refuses only a few.
#[test]
fn one_take_reads_few_damaged_payloads() {
    let (_d, mut writer, mut v, segment, _s, _listener) =
        next_to_a_lying_publisher("depth=4 checksum", LAYOUT, &promises_checksums());
    writer.ask("say p 1 100");
    // Version 1 with a checksum; see `sample-header.md`.
    publish_a_depth(&segment, &[(0, 1 | 1 << 32), (2, 1), (5, LAYOUT.payload as u64), (7, 12345)]);
    assert_eq!(v.ask("take s"), "none");
    let stats: driveline_shm::TransportStats = serde_json::from_str(&v.ask("stats s")).unwrap();
    assert_eq!(stats.corrupt_checksum, 4, "{stats:?}");
    assert_eq!(v.ask("take s"), "1 0", "the next take finds the honest one");
}

/// A publisher that promised checksums at the match leaves them out: no such sample is delivered,
/// each is counted.
#[test]
fn samples_without_the_promised_checksum_are_refused_and_counted() {
    let (_d, mut writer, mut v, segment, _s, _listener) =
        next_to_a_lying_publisher("depth=4 checksum", LAYOUT, &promises_checksums());
    writer.ask("say p 1 100");
    publish_a_depth(&segment, &[(0, 1), (2, 1), (5, LAYOUT.payload as u64), (7, 0)]);
    assert_eq!(v.ask("take s"), "1 0", "the same take goes on to the honest writer");
    let stats: driveline_shm::TransportStats = serde_json::from_str(&v.ask("stats s")).unwrap();
    assert_eq!(
        (stats.refused, stats.corrupt_checksum, stats.received),
        (u64::from(DEPTH), 0, 1),
        "{stats:?}"
    );
}

/// A sample that is longer than its publisher promised at the match is not delivered; it is counted
/// once, as refused.
#[test]
fn samples_longer_than_promised_are_refused_and_counted() {
    let (_d, mut writer, mut v, segment, _s, _listener) =
        next_to_a_lying_publisher("depth=4", LAYOUT, &qos());
    writer.ask("say p 1 100");
    publish_a_depth(&segment, &[(0, 1), (2, 1), (5, LAYOUT.payload as u64 + 1)]);
    assert_eq!(v.ask("take s"), "1 0", "the same take goes on to the honest writer");
    let stats: driveline_shm::TransportStats = serde_json::from_str(&v.ask("stats s")).unwrap();
    assert_eq!(
        (stats.refused, stats.corrupt_header, stats.received),
        (u64::from(DEPTH), 0, 1),
        "{stats:?}"
    );
}

/// An ACCEPT that offers no checksum to a subscription that asks for them is refused by the
/// subscription itself.
#[test]
fn an_accept_without_the_requested_checksum_is_refused() {
    let d = Domain::new();
    let listener = Listener::new(d.path(), "t", 1);
    let (segment, wake) = (LAYOUT.segment(), Area::new(PAGE));
    let mut v = d.peer("victim");
    v.ask("subscription s depth=4 checksum");
    let (s, asked) = listener.accept();
    assert_eq!(asked["qos"]["checksum"].as_bool(), Some(true));
    let accept = packet(ACCEPT, LAYOUT.accept(&qos()).to_string().as_bytes());
    assert!(send_with(&s, &accept, &borrow(&[&segment.fd, &wake.fd])));
    v.until("events s", |t| t.contains("CHECKSUM"));
    assert_eq!(v.number("matched s"), 0);
}

fn promises_checksums() -> Qos {
    Qos { checksum: true, ..qos() }
}

/// Publishes the first samples, as many as stay published, each with these words in its header.
fn publish_a_depth(segment: &Area, words: &[(usize, u64)]) {
    for n in 1..=u64::from(DEPTH) {
        let (meta, slot) = (LAYOUT.meta(n as usize % LAYOUT.slots), n % LAYOUT.slots as u64);
        for (word, value) in words {
            segment.word(meta + word * 8).store(*value, Relaxed);
        }
        segment.word(meta + 8).store(n, Release);
        segment.word(RING + (n % LAYOUT.ring as u64) as usize * 8).store(n << 16 | slot, Release);
        segment.word(LATEST).store(n << 16 | slot, Release);
    }
}

/// The opposite case: a subscription that writes wrong values into its page.
fn scribble_in_page(
    (reliable, apart): (bool, bool),
    tally: &Tally,
    attack: impl Fn(&Area, &mut Random),
) -> Peer {
    let d = Domain::new();
    let mut w = d.peer("victim");
    w.ask(&format!(
        "publisher p depth=2 pins=8 max=100000 {}",
        if reliable { "reliable=3" } else { "" }
    ));
    let mut r = d.peer("honest reader");
    r.ask("subscription s depth=2 held=3");
    r.ask("follow s hold=1");
    w.ask("await p 1");
    let page = Area::new(PAGE);
    let reliability = if reliable { Reliability::Reliable } else { Reliability::BestEffort };
    let mut hello = hello("t", 5, &Qos { reliability, ..Qos::default() });
    hello["armed_apart"] = apart.into();
    let (s, answer) = say_hello(d.path(), &hello, &borrow(&[&page.fd]));
    let (bytes, fds) = answer.unwrap();
    assert_eq!((kind(&bytes), fds.len()), (ACCEPT, 2), "{}", String::from_utf8_lossy(&bytes));
    w.ask("await p 2");
    // Samples of this length make loans check the cursors.
    w.ask("flood p 70000 0");
    let mut random = Random::new(5);
    repeat_counted(
        USUAL,
        (tally, wanted()),
        || (0..100).for_each(|_| attack(&page, &mut random)),
        || match r.numbers("progress s")[2] {
            last if last > 100 => Ok(()),
            last => Err(format!("the honest reader has come to sample {last} meanwhile")),
        },
    );
    tally.print();
    let last = w.number("halt p");
    r.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
    r.ask("halt s");
    // The page stays corrupted, and the publisher still has enough slots.
    w.ask("say p 200 70000");
    for fd in &fds {
        assert!(rustix::fs::ftruncate(fd, 0).is_err() && rustix::io::write(fd, b"x").is_err());
        assert!(
            rustix::fs::fallocate(
                fd,
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
                0,
                4096
            )
            .is_err()
        );
    }
    drop(s);
    w.ask("await p 1");
    r.quit();
    w
}

#[test]
fn random_words_anywhere_in_a_page_do_no_harm() {
    for (what, apart) in [("page, random words", false), ("page, random words, apart", true)] {
        let tally = Tally::new(what, &["armed", "armed, apart", "cursor", "pins", "unused"]);
        let w = scribble_in_page((false, apart), &tally, |page, random| {
            let at = random.below(PAGE / 8) * 8;
            page.word(at).store(random.nasty(), Release);
            tally.count(match at {
                0 => "armed",
                8 => "cursor",
                16..=32 => "pins",
                4032 => "armed, apart",
                _ => "unused",
            });
            page.half_word(16 + random.below(5) * 4).store(random.below(40) as u32, Release);
            tally.count("pins");
        });
        w.quit();
    }
}

/// A pin that is moved before each scan occupies only one slot at a time.
#[test]
fn pins_that_wander_leave_the_publisher_slots() {
    let tally = Tally::new("page, pins that wander", &["pins"]);
    let w = scribble_in_page((false, false), &tally, |page, random| {
        tally.add("pins", 5);
        for cell in 0..5 {
            page.half_word(16 + cell * 4).store(1 + random.below(16) as u32, Release);
        }
    });
    w.quit();
}

#[test]
fn a_cursor_that_lies_makes_a_reliable_publisher_wait_no_more() {
    let tally = Tally::new("page, a cursor that lies", &["cursor"]);
    let mut w = scribble_in_page((true, false), &tally, |page, random| {
        tally.count("cursor");
        page.word(8).store(random.nasty() >> 20, Release);
    });
    let stats: driveline_shm::PublisherStats = serde_json::from_str(&w.ask("stats p")).unwrap();
    assert!(stats.cursor_lies >= 1, "{stats:?}");
    assert!(w.ask("events p").contains("Downgraded"));
    w.quit();
}

/// A reader that claims to have read more than it has loses only its own samples. In
/// `scribble_in_page`, an honest reader verifies every sample and finds the last one.
#[test]
fn a_cursor_that_claims_too_much_takes_nothing_from_others() {
    let tally = Tally::new("page, a cursor that claims too much", &["cursor", "pins"]);
    let mut w = scribble_in_page((false, false), &tally, |page, random| {
        tally.count("cursor");
        tally.count("pins");
        page.word(8).store(random.below(20_000) as u64, Release);
        page.half_word(16).store(random.below(12) as u32, Release);
    });
    let stats: driveline_shm::PublisherStats = serde_json::from_str(&w.ask("stats p")).unwrap();
    assert_eq!(
        stats.cursor_lies, 0,
        "no publisher waits for it, so its cursor harms no one: {stats:?}"
    );
    w.quit();
}
