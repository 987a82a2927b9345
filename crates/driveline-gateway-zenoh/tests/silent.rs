// SPDX-License-Identifier: Apache-2.0
//! What a gateway does when a connection is broken that Zenoh takes for whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at a surprise")]

mod rig;

use driveline::types::Qos;
use driveline_gateway_zenoh::wire::Parsed;
use rig::eventually;
use rig::meeting::Meeting;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use zenoh::Wait;
use zenoh::sample::SampleKind;

#[test]
fn a_host_that_is_there_and_answers_nothing_any_more_has_the_gateway_start_anew() {
    let meeting = Meeting::new(false, &Qos::default());
    let there = Arc::new(Mutex::new(BTreeSet::new()));
    let (of_callback, parse) = (there.clone(), meeting.keys.clone());
    let tokens = meeting.session.liveliness().declare_subscriber(meeting.keys.tokens("host")).history(true);
    let tokens = tokens.callback(move |token| {
        if let Some(Parsed::Host(host)) =
            parse.parse(token.key_expr().as_str()).filter(|what| matches!(what, Parsed::Host(h) if h.name() == "car"))
        {
            let mut there = of_callback.lock().unwrap();
            let _ = if token.kind() == SampleKind::Put { there.insert(host) } else { there.remove(&host) };
        }
    });
    let _tokens = tokens.wait().unwrap();
    let of = |there: &BTreeSet<_>| there.iter().cloned().collect::<Vec<_>>();
    eventually("known", || of(&there.lock().unwrap()) == [meeting.gateway.clone()]);

    let mut stranger = meeting.offer(Vec::new());
    eventually("answered", || meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.alive && h.exchanges > 0)));
    stranger.fall_silent();
    eventually("started anew", || matches!(of(&there.lock().unwrap()).as_slice(), [other] if *other != meeting.gateway));
    let anew = of(&there.lock().unwrap());

    // It asks the same host, which was not the reason if it answers now.
    drop(stranger);
    let _again = meeting.offer(Vec::new());
    eventually("answered", || meeting.host.report().is_some_and(|r| r.hosts.iter().any(|h| h.alive && h.exchanges > 0)));
    let report = meeting.host.report().unwrap();
    assert_eq!((report.host, of(&there.lock().unwrap())), (anew[0].to_string(), anew));
}
