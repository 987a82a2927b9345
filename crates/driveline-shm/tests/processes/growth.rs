// SPDX-License-Identifier: Apache-2.0
//! Peers of later releases, spoken by hand: they say more, and speak more versions.

use crate::support::Domain;
use crate::support::hostile::*;
use driveline_types::Qos;
use serde_json::{Value, json};

/// What a later release might add, everywhere.
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
    assert!(kind(&answer) == REFUSE && text.contains("version") && text.contains("versions 2 to 40, the publisher 1 to 1"), "{text}");
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
        assert!(send_with(&s, &packet(ACCEPT, body.to_string().as_bytes()), &borrow(&[&segment.fd, &wake.fd])));
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
