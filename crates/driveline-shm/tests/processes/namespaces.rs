// SPDX-License-Identifier: Apache-2.0
//! Processes that share nothing but the directory, and users with and without rights on a topic.

use crate::support::{Domain, Peer, eventually};
use std::process::{Command, Stdio};

const APART: &[&str] = &["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A wrapper for a peer, or the reason why there is none on this machine.
fn apart(more: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let wrapper: Vec<&str> = ["unshare"].iter().chain(APART).chain(more).copied().collect();
    let tried = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").stdin(Stdio::null()).output();
    match tried {
        Ok(o) if o.status.success() => Ok(wrapper),
        Ok(o) => Err(String::from_utf8_lossy(&o.stderr).trim().to_owned()),
        Err(e) => Err(format!("unshare: {e}")),
    }
}

/// Data and deaths in both directions.
fn they_understand_each_other(d: &Domain, mut a: Peer, mut b: Peer) {
    a.ask("publisher p pins=4");
    b.ask("subscription s");
    b.ask("follow s");
    b.ask("publisher back topic=back");
    a.ask("subscription back topic=back reliable");
    a.until("events back", |t| t.contains("RELIABILITY"));
    a.ask("drop back");
    a.ask("subscription back topic=back");
    a.ask("follow back backend=threads");
    a.ask("await p 1");
    b.ask("await back 1");
    // From sleep, so by a wake-up across the border.
    for n in 1..=20 {
        a.ask("say p 1 3000");
        b.until("progress s", |t| t.split(' ').nth(2) == Some(&n.to_string()));
        b.ask("say back 1 3000");
        a.until("progress back", |t| t.split(' ').nth(2) == Some(&n.to_string()));
    }
    assert_eq!(a.ask("list").matches("\"pid_in_its_namespace\"").count(), 2);
    // The death of one is seen by the other, whose pins it gives back, and the dead one's names go.
    a.kill();
    b.until("matched s", |t| t == "0");
    b.until("matched back", |t| t == "0");
    b.ask("halt s");
    let mut c = d.peer("successor");
    c.ask("publisher p");
    c.ask("await p 1");
    c.ask("say p 1 3000");
    b.until("take s", |t| t == "1 0");
    eventually("the dead one's sockets are removed", || d.names().len() == 6);
}

#[test]
fn two_namespaces_that_share_a_directory_understand_each_other() {
    for more in [&[][..], &["--user", "--map-root-user"]] {
        match apart(more) {
            Err(e) => println!("left out {more:?}: {e}"),
            Ok(wrapper) => {
                let d = Domain::new();
                let a = d.peer_behind("first container", &wrapper);
                let b = d.peer_behind("second container", &wrapper);
                they_understand_each_other(&d, a, b);
                let d = Domain::new();
                let a = d.peer_behind("container", &wrapper);
                let b = d.peer("host");
                they_understand_each_other(&d, a, b);
            }
        }
    }
}

const OWNER: u32 = 61_001;
const FRIEND: u32 = 61_002;
const STRANGER: u32 = 61_003;

fn user(d: &Domain, id: u32) -> Peer {
    let mut p = d.peer(&format!("user {id}"));
    p.ask(&format!("become {id}"));
    p
}

#[test]
fn a_subscription_believes_only_publishers_of_the_users_that_it_names() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can be several users");
        return;
    }
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
fn rights_on_a_topic_go_by_the_user_that_the_kernel_names() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can be several users");
        return;
    }
    let d = Domain::open_to_all();
    let mut w = user(&d, OWNER);
    w.ask("publisher private topic=private");
    w.ask(&format!("publisher some topic=some access={FRIEND} pins=16"));
    w.ask("publisher open topic=open access=any pins=16");
    let mut same = user(&d, OWNER);
    let mut friend = user(&d, FRIEND);
    let mut stranger = user(&d, STRANGER);
    for (p, private, some) in [(&mut same, true, true), (&mut friend, false, true), (&mut stranger, false, false)] {
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
    std::thread::sleep(std::time::Duration::from_millis(50));
    w.ask("say open 1 100");
    for p in [&mut same, &mut friend, &mut stranger] {
        p.until_at_least("progress open", 1);
    }
    let stats: driveline_shm::PublisherStats = serde_json::from_str(&w.ask("stats open")).unwrap();
    assert_eq!(stats.wake_calls, 3, "{stats:?}");
    let stats: driveline_shm::PublisherStats = serde_json::from_str(&w.ask("stats some")).unwrap();
    assert!(stats.refused_access >= 1, "{stats:?}");
    // A stranger's death is cleaned up after by somebody who may: in a sticky directory the owner and root.
    let names = d.names();
    stranger.kill();
    let mut next = user(&d, STRANGER);
    next.ask(&format!("subscription open topic=open access={OWNER}"));
    next.ask("await open 1");
    eventually("the stranger's next participant removes what it left", || d.names().len() == names.len());
    drop(w);
    same.until("matched open", |t| t == "0");
}

/// In a user namespace all users that it does not map look the same: like its own, if that is not mapped either.
#[test]
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
    // Root may open the sockets of the one inside, which is root outside; that one sees only a stranger.
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
    assert!(text.contains("code: Access") && text.contains("not believed"), "{text}");
}

#[test]
fn one_user_does_not_keep_the_tools_of_others_out() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can be several users");
        return;
    }
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
