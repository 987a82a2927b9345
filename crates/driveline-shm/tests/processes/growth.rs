// SPDX-License-Identifier: Apache-2.0
//! Peers of later releases, with messages made by the test: they send more keys, and support more
//! versions.

use crate::support::hostile::*;
use crate::support::{Domain, Peer};
use driveline_types::Qos;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Release;

/// Adds keys that a later release might have, everywhere.
fn grown(mut v: Value) -> Value {
    for object in ["qos", "schema", "layout"] {
        if let Some(o) = v.get_mut(object).and_then(Value::as_object_mut) {
            o.insert("later".into(), json!({"any": ["thing"]}));
        }
    }
    v["later"] = json!([1, 2]);
    v
}

#[test]
fn a_publisher_serves_subscriptions_of_later_releases_that_still_speak_its_version() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p");
    let ask = |oldest: u16, newest: u16| {
        let mut body = grown(hello("t", 1, &Qos::default()));
        (body["oldest_version"], body["newest_version"]) = (oldest.into(), newest.into());
        let (socket, answer) = say_hello(d.path(), &body, &borrow(&[&Area::new(PAGE).fd]));
        (socket, answer.unwrap().0)
    };
    let (_s, answer) = ask(1, 40);
    assert_eq!(kind(&answer), ACCEPT, "{}", String::from_utf8_lossy(&answer));
    let accept: Value = serde_json::from_slice(&answer[12..]).unwrap();
    assert_eq!(accept["version"], 1);
    let (_s, answer) = ask(2, 40);
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        kind(&answer) == REFUSE
            && text.contains("version")
            && text.contains("versions 2 to 40, the publisher 1 to 1"),
        "{text}"
    );
    w.quit();
}

#[test]
fn a_subscription_reads_publishers_of_later_releases_that_still_speak_its_version() {
    let d = Domain::new();
    let mut r = d.peer("reader");
    r.ask("subscription s");
    let layout = Layout { slots: 8, ring: 3, payload: 100 };
    let (segment, wake) = (layout.segment(), Area::new(PAGE));
    let mut open = Vec::new();
    for (number, version) in [(1, 1), (2, 2)] {
        let listener = Listener::new(d.path(), "t", number);
        let (s, asked) = listener.accept();
        assert_eq!((&asked["oldest_version"], &asked["newest_version"]), (&json!(1), &json!(1)));
        let mut body = grown(layout.accept(&Qos::default()));
        body["version"] = version.into();
        assert!(send_with(
            &s,
            &packet(ACCEPT, body.to_string().as_bytes()),
            &borrow(&[&segment.fd, &wake.fd])
        ));
        open.push((s, listener));
        if version == 1 {
            r.ask("await s 1");
        } else {
            let text = r.until("events s", |t| t.contains("Refused"));
            assert!(text.contains("code: Version") && text.contains("version 2"), "{text}");
        }
    }
    r.quit();
}

/// The reader announces its sleep in the word at offset 0 of its page, or at 4032 if both sides
/// support that. The publisher checks only this word.
#[test]
fn a_publisher_looks_for_sleepers_where_both_ends_say_and_nowhere_else() {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask("publisher p");
    for (said, place, other) in [(None, 0, 4032), (Some(false), 0, 4032), (Some(true), 4032, 0)] {
        let page = Area::new(PAGE);
        let mut body = hello("t", 1, &Qos::default());
        if let Some(said) = said {
            body["armed_apart"] = said.into();
        }
        let (socket, answer) = say_hello(d.path(), &body, &borrow(&[&page.fd]));
        let answer = answer.unwrap().0;
        let accept: Value = serde_json::from_slice(&answer[12..]).unwrap();
        assert_eq!(accept["armed_apart"], said == Some(true));
        w.ask("await p 1");
        let mut calls_for = |at: usize| {
            let wake_calls = |w: &mut Peer| {
                serde_json::from_str::<driveline_shm::PublisherStats>(&w.ask("stats p"))
                    .unwrap()
                    .wake_calls
            };
            let before = wake_calls(&mut w);
            page.word(at).store(1, Release);
            w.ask("say p 1 100");
            page.word(at).store(0, Release);
            wake_calls(&mut w) - before
        };
        assert_eq!((calls_for(place), calls_for(other)), (1, 0), "{said:?}");
        drop(socket);
        w.ask("await p 0");
    }
    w.quit();
}
