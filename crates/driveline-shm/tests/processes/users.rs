// SPDX-License-Identifier: Apache-2.0
//! Users with and without rights on a topic, and limits on the resources that one user can take.

use crate::support::{Domain, Peer, eventually};

const OWNER: u32 = 61_001;
const FRIEND: u32 = 61_002;
const STRANGER: u32 = 61_003;

/// Starts a peer as another user. Needs root.
pub(crate) fn user(d: &Domain, id: u32) -> Peer {
    let mut p = d.peer(&format!("user {id}"));
    p.ask(&format!("become {id}"));
    p
}

#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn a_subscription_believes_only_publishers_of_the_users_that_it_names() {
    let d = Domain::open_to_all();
    let mut stranger = user(&d, STRANGER);
    stranger.ask("publisher p topic=t access=any");
    let mut wary = user(&d, OWNER);
    wary.ask("subscription s topic=t");
    let text = wary.until("events s", |t| t.contains("Refused"));
    assert!(text.contains("code: Access") && text.contains(&STRANGER.to_string()), "{text}");
    assert_eq!(wary.ask("matched s"), "0");
    let mut trusting = user(&d, OWNER);
    trusting.ask(&format!("subscription s topic=t access={STRANGER}"));
    trusting.ask("await s 1");
    assert_eq!(wary.ask("matched s"), "0");
}

#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn rights_on_a_topic_go_by_the_user_that_the_kernel_names() {
    let d = Domain::open_to_all();
    let mut w = user(&d, OWNER);
    w.ask("publisher private topic=private");
    w.ask(&format!("publisher some topic=some access={FRIEND} pins=16"));
    w.ask("publisher open topic=open access=any pins=16");
    let mut same = user(&d, OWNER);
    let mut friend = user(&d, FRIEND);
    let mut stranger = user(&d, STRANGER);
    for (p, private, some) in
        [(&mut same, true, true), (&mut friend, false, true), (&mut stranger, false, false)]
    {
        for topic in ["private", "some", "open"] {
            p.ask(&format!("subscription {topic} topic={topic} access={OWNER}"));
        }
        p.ask("await open 1");
        for (topic, allowed) in [("private", private), ("some", some)] {
            if allowed {
                p.ask(&format!("await {topic} 1"));
            } else {
                let text = p.until(&format!("events {topic}"), |t| t.contains("Refused"));
                assert!(text.contains("code: Access") && text.contains("add"), "{text}");
                assert_eq!(p.ask(&format!("matched {topic}")), "0");
            }
        }
    }
    // One wake-up call per user with sleepers.
    for p in [&mut same, &mut friend, &mut stranger] {
        p.ask("follow open");
    }
    w.ask("await open 3");
    let wake_calls = |w: &mut Peer| {
        serde_json::from_str::<driveline_shm::PublisherStats>(&w.ask("stats open"))
            .unwrap()
            .wake_calls
    };
    let mut before = wake_calls(&mut w);
    eventually(
        "a sample is published while all three sleep, and wakes them by a call for each",
        || {
            let sequence = w.number("say open 1 100");
            for p in [&mut same, &mut friend, &mut stranger] {
                p.until_at_least("progress open", sequence);
            }
            let now = wake_calls(&mut w);
            let calls = now - std::mem::replace(&mut before, now);
            assert!(calls <= 3, "{calls} calls for three users");
            calls == 3
        },
    );
    let stats: driveline_shm::PublisherStats = serde_json::from_str(&w.ask("stats some")).unwrap();
    assert!(stats.refused_access >= 1, "{stats:?}");
    // Only a process with the right to do so removes the names of another user's dead process: in a
    // sticky directory, one of that user or of root.
    let names = d.names();
    stranger.kill();
    let mut next = user(&d, STRANGER);
    next.ask(&format!("subscription open topic=open access={OWNER}"));
    next.ask("await open 1");
    eventually("the stranger's next participant removes what it left", || {
        d.names().len() == names.len()
    });
    drop(w);
    same.until("matched open", |t| t == "0");
}

/// All users that a user namespace does not map look the same there. They look like the process's
/// own user, if that one is not mapped either.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn users_without_a_name_in_a_namespace_are_not_taken_for_each_other() {
    let wrapper = ["unshare", "--user"];
    let d = Domain::open_to_all();
    let mut inside = d.peer_behind("nameless", &wrapper);
    inside.ask("publisher p topic=t");
    inside.ask("publisher named topic=named access=65534");
    inside.ask("publisher open topic=open access=any");
    inside.ask("subscription s topic=s");
    let mut outside = user(&d, OWNER);
    outside.ask("publisher s topic=s access=any");
    // The peer inside runs as root outside the namespace, so root may open its sockets. The peer
    // inside sees root only as an unmapped user.
    let mut root = d.peer("root");
    for (who, topic) in [("root", "t"), ("root", "named"), ("other", "named")] {
        let p = if who == "root" { &mut root } else { &mut outside };
        p.ask(&format!("subscription {topic} topic={topic} access=0"));
        let text = p.until(&format!("events {topic}"), |t| t.contains("Refused"));
        assert!(text.contains("code: Access") && text.contains("does not map"), "{text}");
        assert_eq!(p.ask(&format!("matched {topic}")), "0");
    }
    outside.ask("subscription open topic=open access=0");
    outside.ask("await open 1");
    let text = inside.until("events s", |t| t.contains("Refused"));
    assert!(text.contains("code: Access") && text.contains("does not accept publishers"), "{text}");
}

#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn one_user_does_not_keep_the_tools_of_others_out() {
    let d = Domain::open_to_all();
    let mut victim = user(&d, OWNER);
    victim.ask("publisher p topic=t access=any");
    // Connected in one go and silent; they would be ended after two seconds.
    for id in [STRANGER, STRANGER + 1, STRANGER + 2] {
        let mut clogging = user(&d, id);
        clogging.ask("clog i- 16");
        let mut same = user(&d, OWNER);
        let mut friend = user(&d, FRIEND);
        for p in [&mut same, &mut friend] {
            assert!(p.ask("list").contains("\"topic\":\"t\""), "{} cannot list", p.name);
        }
    }
}

#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn topics_show_only_to_users_with_a_right_on_them() {
    let d = Domain::open_to_all();
    let mut owner = user(&d, OWNER);
    owner.ask("publisher private topic=secret");
    owner.ask(&format!("publisher some topic=some access={FRIEND} pins=16"));
    owner.ask("publisher open topic=open access=any");
    owner.ask("subscription quiet topic=quiet");
    let (mut same, mut friend) = (user(&d, OWNER), user(&d, FRIEND));
    let (mut stranger, mut root) = (user(&d, STRANGER), d.peer("root"));
    let all = ["secret", "quiet", "some", "open"];
    for (p, seen) in [
        (&mut same, &all[..]),
        (&mut root, &all[..]),
        (&mut friend, &all[2..]),
        (&mut stranger, &all[3..]),
    ] {
        let text = p.ask("list");
        for topic in all {
            let shows = text.contains(&format!("\"topic\":\"{topic}\""));
            assert_eq!(shows, seen.contains(&topic), "{topic} to {}: {text}", p.name);
        }
        assert_eq!(text.contains("as their user, or as root"), seen.len() < all.len(), "{text}");
    }
}

#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn names_that_other_users_claim_are_known_as_such() {
    let d = Domain::open_to_all();
    let mut stranger = user(&d, STRANGER);
    stranger.ask("publisher p");
    let mut same = d.peer("same");
    same.ask("publisher p");
    stranger.ask("silent-participants 300");
    let mut survey = driveline_shm::Survey::default();
    // On a busy machine all participants may answer too late.
    eventually("its own user's participant answers", || {
        // time: the length of one attempt of several
        survey = driveline_shm::survey(d.path(), std::time::Duration::from_secs(1)).unwrap();
        survey.participants.iter().any(|p| p.of_this_user)
    });
    let mut own: Vec<bool> = survey.participants.iter().map(|p| p.of_this_user).collect();
    own.sort_unstable();
    assert!(own == [true] || own == [false, true], "its own names come first: {own:?}");
    assert_eq!(own.len() + survey.silent_others.len(), 302, "all are counted");
    assert!(survey.silent.is_empty());
}

/// A stranger with rights requests as many pins as possible.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn one_user_does_not_take_all_pins() {
    let d = Domain::open_to_all();
    let mut w = user(&d, OWNER);
    w.ask("publisher p access=any pins=8");
    let mut stranger = user(&d, STRANGER);
    for i in 0..8 {
        stranger.ask(&format!("subscription s{i} held=1 access={OWNER}"));
        stranger.ask(&format!("subscription o{i} held=1 observer access={OWNER}"));
    }
    w.ask("await p 3");
    for i in 0..8 {
        let refused = |t: &str| t.contains("Refused") || t.contains("Matched");
        stranger.until(&format!("events s{i}"), refused);
        stranger.until(&format!("events o{i}"), refused);
    }
    // The stranger has two pins, and one for tools. The friend also gets two, and the remaining
    // pins are in reserve for the publisher's own user.
    let mut friend = user(&d, FRIEND);
    friend.ask(&format!("subscription s held=2 access={OWNER}"));
    friend.ask("await s 1");
    let mut same = user(&d, OWNER);
    same.ask("subscription s held=4");
    same.ask("await s 1");
    same.ask("subscription tool held=1 observer");
    same.ask("await tool 1");
    friend.ask(&format!("subscription more held=1 access={OWNER}"));
    friend.until("events more", |t| t.contains("raise the topic's pins to 12"));
}

/// More silent listeners than a subscription dials at a time.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn silent_publishers_of_a_stranger_hide_no_honest_ones() {
    let d = Domain::open_to_all();
    let mut stranger = user(&d, STRANGER);
    stranger.ask("silent-publishers 300");
    let mut r = user(&d, OWNER);
    r.ask("subscription s access=any");
    let descriptors = r.descriptors();
    assert!(descriptors < 100, "{descriptors} descriptors");
    let (mut own, mut friend) = (user(&d, OWNER), user(&d, FRIEND));
    own.ask("publisher p access=any");
    r.ask("await s 1");
    friend.ask("publisher p access=any");
    r.ask("await s 2");
}

/// Each user that subscribes has a wake word. Wake words of users that have left must not
/// accumulate.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn users_that_come_and_go_do_not_use_up_the_topic() {
    const AT_A_TIME: u32 = driveline_shm::limits::MAX_GROUPS as u32;
    let d = Domain::open_to_all();
    let mut w = user(&d, OWNER);
    w.ask("publisher p topic=t access=any pins=40");
    let mut subscriber = |n: u32| {
        let mut p = user(&d, STRANGER + n);
        p.ask(&format!("subscription s topic=t held=1 access={OWNER}"));
        p
    };
    let mut present: Vec<Peer> = (0..AT_A_TIME).map(&mut subscriber).collect();
    w.ask(&format!("await p {AT_A_TIME}"));
    let mut one_more = subscriber(AT_A_TIME);
    let text = one_more.until("events s", |t| t.contains("Refused"));
    assert!(
        text.contains("code: Limit") && text.contains("16 users") && text.contains("at a time"),
        "{text}"
    );
    w.until("events p", |t| t.contains("code: Limit") && t.contains("16 users"));
    // New users replace the present ones, until three times the limit have subscribed.
    present.pop().unwrap().quit();
    one_more.ask("await s 1");
    present.push(one_more);
    for n in AT_A_TIME + 1..3 * AT_A_TIME {
        present.remove(0).quit();
        let mut p = subscriber(n);
        p.ask("await s 1");
        present.push(p);
    }
    for p in &mut present {
        p.ask("follow s");
    }
    w.ask(&format!("await p {AT_A_TIME}"));
    let last = w.number("say p 1 100");
    for p in &mut present {
        p.until("progress s", |t| t.split(' ').nth(2) == Some(&last.to_string()));
    }
    // The segment, and a page and a wake word for each present subscription.
    eventually("what belonged to those who left is let go", || {
        w.mappings() == 1 + 2 * present.len()
    });
}
