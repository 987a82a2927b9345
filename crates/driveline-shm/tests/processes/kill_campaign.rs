// SPDX-License-Identifier: Apache-2.0
//! Many kills of processes next to 1 to 16 readers and several publishers: at random moments, and
//! at each step of the protocol. `make test` makes a few kills, `make measure` ten thousand
//! (`DRIVELINE_KILLS`).
//!
//! Each bystander checks every payload: a torn sample ends it, and the test.

use crate::faults::{COPYING, LEN, NTH, PUBLISHING, READING, WAITING};
use crate::support::{Domain, Peer, Random, eventually};
use std::time::Duration;

/// Kills in one domain, before its processes are checked and replaced.
const KILLS_OF_SCENE: usize = 24;
/// Kills without `DRIVELINE_KILLS`: one scene.
const USUAL: usize = KILLS_OF_SCENE;
const MAX_READERS: usize = 16;

/// Numbers of killed processes by kind, of those killed at a step, and of verified samples.
#[derive(Debug, Default)]
struct Tally {
    readers: usize,
    writers: usize,
    at_steps: usize,
    samples: u64,
}

/// A writer that publishes all the time, and readers that borrow or copy the next or the newest
/// sample.
fn bystanders(d: &Domain, count: usize) -> (Peer, Vec<Peer>) {
    let mut w = d.peer("surviving writer");
    w.ask("publisher p depth=2 pins=90 max=70000");
    let ways = ["follow s want=next hold=1", "follow s want=latest", "follow s copy"];
    let reader = |i: usize| {
        let mut r = d.peer("bystander");
        r.ask("subscription s depth=2 held=3");
        r.ask(ways[i % ways.len()]);
        r
    };
    let readers: Vec<Peer> = (0..count).map(reader).collect();
    w.ask(&format!("await p {count}"));
    w.ask(&format!("flood p {LEN} 300"));
    (w, readers)
}

/// A reader that dies, at any instruction or at a step.
fn kill_reader(d: &Domain, random: &mut Random, tally: &mut Tally) {
    let steps: Vec<&str> = READING.iter().chain([&COPYING]).chain(WAITING).copied().collect();
    tally.readers += 1;
    if random.below(2) == 0 {
        let step = *random.pick::<&str>(&steps);
        tally.at_steps += 1;
        let mut r = d.doomed_peer(step, step, 1 + u32::try_from(random.below(9)).unwrap());
        r.ask("subscription s depth=2 held=3");
        r.send(if step == COPYING { "follow s copy" } else { "follow s hold=2" });
        r.died();
    } else {
        let mut r = d.peer("short-lived reader");
        r.ask("subscription s depth=2 held=3");
        r.ask("await s 1");
        r.ask(random.pick::<&str>(&["follow s hold=2", "follow s copy", "follow s want=latest"]));
        // time: the moment of the death is random
        std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
        r.kill();
    }
}

/// A further publisher of the topic that dies while it publishes.
fn kill_writer(d: &Domain, readers: usize, random: &mut Random, tally: &mut Tally) {
    tally.writers += 1;
    if random.below(2) == 0 {
        let step = random.pick::<(&str, bool)>(PUBLISHING).0;
        tally.at_steps += 1;
        let mut w = d.doomed_peer(step, step, NTH);
        w.ask("publisher p depth=2 pins=90 max=70000");
        w.ask(&format!("await p {readers}"));
        w.send(&format!("say p 60 {LEN}"));
        w.died();
    } else {
        let mut w = d.peer("short-lived writer");
        w.ask("publisher p depth=2 pins=90 max=70000");
        w.ask(&format!("await p {readers}"));
        w.ask(&format!("flood p {LEN} {}", random.below(2) * 200));
        // time: the moment of the death is random
        std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
        w.kill();
    }
}

/// Kills processes next to a number of bystanders. All bystanders continue, and nothing of the
/// killed processes remains.
fn scene(readers: usize, kills: usize, random: &mut Random, tally: &mut Tally) {
    let d = Domain::new();
    let (mut w, mut bystanders) = bystanders(&d, readers);
    for _ in 0..kills {
        if random.below(2) == 0 {
            kill_reader(&d, random, tally);
        } else {
            kill_writer(&d, readers, random, tally);
        }
    }
    let what = format!("{readers} readers, {tally:?}");
    w.ask("halt p");
    for r in &mut bystanders {
        // Only one publisher is alive, and each reader still receives its samples.
        r.until("matched s", |t| t == "1");
        let before = r.numbers("progress s")[0];
        w.ask(&format!("say p 5 {LEN}"));
        r.until("progress s", |t| t.split(' ').next().unwrap().parse::<u64>().unwrap() > before);
        tally.samples += r.numbers("halt s")[0];
    }
    // Two names of each process, and one of the publisher.
    let names = 2 * (readers + 1) + 1;
    eventually(&what, || d.count('t') == 0 && d.count('p') == 1 && d.names().len() == names);
    bystanders.into_iter().chain([w]).for_each(Peer::quit);
    assert_eq!(d.names(), [""; 0], "{what}");
}

#[test]
fn kills_at_any_moment_and_step_harm_no_bystander_and_leave_nothing() {
    let wanted = std::env::var("DRIVELINE_KILLS").ok().and_then(|n| n.parse().ok());
    let wanted: usize = wanted.unwrap_or(USUAL);
    let (mut random, mut tally) = (Random::new(24), Tally::default());
    let mut readers = 3;
    while tally.readers + tally.writers < wanted {
        let kills = KILLS_OF_SCENE.min(wanted - tally.readers - tally.writers);
        scene(readers, kills, &mut random, &mut tally);
        println!("{} of {wanted} kills: {tally:?}", tally.readers + tally.writers);
        // Each number of readers from 1 to 16 is used equally often.
        readers = readers % MAX_READERS + 1;
    }
}
