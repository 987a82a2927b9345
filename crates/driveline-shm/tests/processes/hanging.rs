// SPDX-License-Identifier: Apache-2.0
//! Descriptors whose last close takes minutes, sent by another user to every kind of socket. Only
//! the closing thread may hang.

use crate::support::{Domain, Peer, eventually};
use crate::users::user;

const STRANGER: u32 = 61_011;
const FRIEND: u32 = 61_012;

/// Switches for this kernel, and for a kernel that cannot refuse descriptors (no SO_PASSRIGHTS).
const KERNELS: [&str; 2] = ["", "passrights"];

fn victim(d: &Domain, name: &str, switches: &str) -> Peer {
    d.peer_with(name, |c| {
        c.env("DRIVELINE_FAULT_SWITCHES", switches);
    })
}

#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn what_hangs_at_its_close_keeps_no_participant_from_its_work() {
    for kernel in KERNELS {
        let d = Domain::open_to_all();
        let mut w = victim(&d, "writer", kernel);
        w.ask("publisher p access=any pins=32");
        let mut r = victim(&d, "reader", kernel);
        r.ask(&format!("subscription s access={STRANGER}"));
        r.ask("await s 1");
        let mut stranger = user(&d, STRANGER);
        // Sends hanging descriptors: one with a HELLO, more than a message may have, and one
        // without a message.
        stranger.ask("hang p- hello 1");
        stranger.ask("hang p- hello 9");
        stranger.ask("hang p- nothing 1");
        stranger.ask("hang i- hello 3");
        stranger.ask("hang r- hello 3");
        // A publisher that answers each request with hanging descriptors.
        stranger.ask("hanging-publisher");
        r.until("events s", |t| t.contains("Refused") || t.contains("no answer"));
        // All continue to work: new subscriptions, other users, deaths and tools.
        let mut late = victim(&d, "late", kernel);
        late.ask("subscription s");
        late.ask("await s 1");
        let mut friend = user(&d, FRIEND);
        friend.ask("subscription s access=0");
        friend.ask("await s 1");
        w.ask("await p 3");
        w.ask("say p 2 100");
        r.until("take s", |t| t == "2 1" || t == "2 0");
        assert!(friend.ask("list").contains("\"topic\":\"t\""));
        friend.kill();
        late.quit();
        w.ask("await p 1");
        let mut second = victim(&d, "second writer", kernel);
        second.ask("publisher p");
        r.ask("await s 2");
        // The end of a whole participant does not hang either.
        w.quit();
        second.quit();
        r.ask("await s 0");
        r.quit();
    }
}

/// Tools query every process that has a name in the directory.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn a_listing_does_not_hang_by_what_is_sent_instead_of_an_answer() {
    for kernel in KERNELS {
        let d = Domain::open_to_all();
        let mut tool = victim(&d, "tool", kernel);
        tool.ask("publisher p");
        let mut stranger = user(&d, STRANGER);
        stranger.ask("hanging-participant");
        assert!(tool.ask("list").contains("\"topic\":\"t\""));
        tool.quit();
    }
}

/// A user with more and more hanging closes is stopped at a bound; its matches stay.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn what_hangs_is_bounded() {
    let d = Domain::open_to_all();
    let mut w = d.peer("writer");
    w.ask("publisher p access=any pins=32");
    let mut r = d.peer("reader");
    r.ask("subscription s");
    r.ask("follow s");
    w.ask("await p 1");
    let mut stranger = user(&d, STRANGER);
    stranger.ask("hang p- hello 1");
    eventually("no more than the limit are accepted", || {
        let _ = stranger.try_ask("clog-and-go p- 100");
        w.ask("events p").contains("no process can subscribe for now")
    });
    assert!(
        w.descriptors() < driveline_shm::limits::MAX_BLOCKING_TASKS + 200,
        "{}",
        w.descriptors()
    );
    w.ask("say p 1 100");
    r.until_at_least("progress s", 1);
}
