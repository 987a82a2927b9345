// SPDX-License-Identifier: Apache-2.0
//! Report of a running gateway: carried topics, and topics that are not carried, with the reasons.
//! Both change over time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{Qos, Reliability};
use driveline_gateway::{RemotePublisherState, Report, RouteReport};
use driveline_runtime::launch::Build;
use rig::{Carried, GATEWAY, Host, Rig, eventually, publisher_options, subscription_options};
use std::path::Path;

/// Returns the first report that meets a condition.
#[track_caller]
fn reports(host: &Host, what: &str, holds: impl Fn(&Report) -> bool) -> Report {
    let mut found = None;
    eventually(&format!("reported: {what}"), || {
        found = host.report().filter(|r| holds(r));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn program_and_report_name_the_commit_of_a_gateway() {
    let build = Build::of_program(Path::new(GATEWAY)).unwrap();
    assert_eq!(
        (build.version.as_str(), build.commit.is_empty()),
        (env!("CARGO_PKG_VERSION"), false),
        "{build}"
    );
    let rig = Rig::new(&[Carried::from_a("wheel", 64)], &Qos::default());
    let report = reports(&rig.a, "anything", |_| true);
    assert_eq!((report.version, report.commit), (build.version, build.commit));
}

#[test]
fn refused_topics_and_dead_gateways_are_reported_with_the_reason() {
    let topics = [
        Carried::from_a("wheel", 64),
        Carried::from_a("camera", 64),
        Carried::from_a("nobody", 64),
    ];
    let qos = Qos::default();
    let mut rig = Rig::new(&topics, &qos);
    // A gateway whose topics have no publishers yet has a report, too.
    let idle = reports(&rig.b, "connected", |r| r.network.peers == 1);
    assert_eq!(
        (idle.gateway.as_str(), idle.domain.as_str(), idle.topics.len()),
        ("zenoh", "test", 3),
        "{idle:?}"
    );
    assert!(idle.host.starts_with("b.") && idle.inlets.is_empty() && idle.pid > 0, "{idle:?}");

    let mut wheel =
        rig.a.node.bytes_publisher("wheel", "raw", publisher_options(&qos, 64)).unwrap();
    let _camera = rig.a.node.bytes_publisher("camera", "raw", publisher_options(&qos, 65)).unwrap();
    let reported = reports(&rig.b, "refused and offered", |r| {
        r.refused.iter().any(|r| r.reason.contains("64 are permitted here"))
            && r.inlets.iter().any(|i| i.state == RemotePublisherState::NobodySubscribes)
    });
    let refused = &reported.refused[0];
    assert_eq!(
        (refused.topic.as_str(), refused.outgoing, refused.again_ms.is_some()),
        ("camera", false, true),
        "{reported:?}"
    );
    assert_eq!(
        (
            reported.inlets[0].topic.as_str(),
            reported.inlets[0].node.as_str(),
            reported.inlets[0].max_payload
        ),
        ("wheel", "a", 64),
        "{reported:?}"
    );
    let sender = rig.a.report().unwrap();
    let published: Vec<_> =
        sender.topics.iter().map(|t| (t.topic.as_str(), t.send, t.publishers.len())).collect();
    assert_eq!(published, [("wheel", true, 1), ("camera", true, 1), ("nobody", true, 0)]);
    assert!(
        sender.edges.is_empty() && sender.refused.is_empty(),
        "no topic is requested: {sender:?}"
    );

    let mut subscription =
        rig.b.node.bytes_subscription("wheel", "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || wheel.matched() == 2);
    eventually("received", || {
        let loan = wheel.loan(10).unwrap();
        wheel.publish(loan).unwrap();
        subscription.latest().unwrap().is_some()
    });
    let receiver = reports(&rig.b, "carried", |r| {
        r.inlets.iter().any(|i| i.state == RemotePublisherState::Wanted && i.figures.published > 0)
    });
    let figures = receiver.inlets[0].figures;
    assert_eq!(figures.published_bytes, 10 * figures.published);
    // The route counts a sample and its bytes one after the other.
    let sender = reports(&rig.a, "sent", |r| {
        let sent = |e: &RouteReport| {
            e.figures.delivered >= figures.published && e.figures.sent_bytes == 10 * e.figures.sent
        };
        r.edges.iter().any(sent)
    });
    assert!(!sender.edges[0].parked, "{sender:?}");

    rig.a.kill_gateway();
    let alone = reports(&rig.b, "gone", |r| r.hosts.iter().all(|h| !h.alive));
    assert_eq!(alone.inlets[0].state, RemotePublisherState::HostGone);
    assert!(rig.a.report().is_none(), "it is dead");
}

#[test]
fn a_publisher_that_had_no_place_gets_the_next_free_one() {
    const PLACES: usize = 64;
    let qos = Qos::default();
    let rig = Rig::new(&[Carried::from_a("wheel", 64)], &qos);
    let new = || rig.a.node.bytes_publisher("wheel", "raw", publisher_options(&qos, 64)).unwrap();
    let mut publishers: Vec<_> = (0..PLACES).map(|_| new()).collect();
    let full = reports(&rig.b, "all received", |r| r.inlets.len() == PLACES);
    publishers.push(new());
    // The gateway of the publisher, whose list is full, reports this.
    let more = reports(&rig.a, "one too many", |r| !r.refused.is_empty());
    let refused = &more.refused[0];
    assert!(
        more.refused.len() == 1 && refused.outgoing && refused.reason.contains("one too many"),
        "{:?}",
        more.refused
    );
    drop(publishers.swap_remove(0));
    reports(&rig.a, "no publisher left out", |r| r.refused.is_empty());
    let known = |r: &Report, id: &String| r.inlets.iter().any(|i| i.publisher == *id);
    let after = reports(&rig.b, "the publisher that waited", |r| {
        r.refused.is_empty()
            && r.inlets.len() == PLACES
            && r.inlets.iter().any(|i| !known(&full, &i.publisher))
    });
    assert_eq!(full.inlets.iter().filter(|i| known(&after, &i.publisher)).count(), PLACES - 1);
}

#[test]
fn a_publisher_left_out_delays_no_other() {
    const PLACES: usize = 64;
    let qos = Qos { reliability: Reliability::Reliable, max_blocking_ms: 60_000, ..Qos::default() };
    let rig = Rig::new(&[Carried::from_a("wheel", 64)], &qos);
    let new = || rig.a.node.bytes_publisher("wheel", "raw", publisher_options(&qos, 64)).unwrap();
    let mut subscription =
        rig.b.node.bytes_subscription("wheel", "raw", subscription_options(&qos)).unwrap();
    let mut publishers: Vec<_> = (0..PLACES).map(|_| new()).collect();
    eventually("all received", || subscription.matched() == PLACES);
    let mut left_out: Vec<_> = (0..5).map(|_| new()).collect();
    reports(&rig.a, "left out", |r| r.refused.len() == left_out.len());
    eventually("watched and read", || {
        publishers.iter_mut().chain(&mut left_out).all(|p| p.matched() == 2)
    });
    for p in left_out.iter_mut().chain(&mut publishers) {
        let loan = p.loan(8).unwrap();
        p.publish(loan).unwrap();
    }
    let mut received = 0;
    eventually("received", || {
        received += std::iter::from_fn(|| subscription.take().unwrap()).count();
        received == PLACES
    });
    let figures =
        reports(&rig.a, "all acknowledged", |r| r.edges[0].figures.in_flight == 0).edges[0].figures;
    assert_eq!(
        (figures.delivered, figures.refused),
        (PLACES as u64, left_out.len() as u64),
        "{figures:?}"
    );
    // Repetitions over ten seconds would show here.
    assert!(figures.sent_again <= left_out.len() as u64, "{figures:?}");
}
