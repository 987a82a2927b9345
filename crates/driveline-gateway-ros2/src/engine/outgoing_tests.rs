// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::engine::control_thread::ControlThread;
use crate::engine::rig::{self, LONG, eventually, others};
use driveline_gateway::ros2::Direction;
use driveline_shm::{Participant, Publisher, PublisherConfig, TakeError};
use driveline_types::SampleHeader;

fn sender(control_thread: &ControlThread, topic: &TopicName, qos: Qos) -> Sender {
    let local = LocalTopic {
        topic: topic.clone(),
        max_payload: 64,
        pins: 1,
        qos,
        access: Default::default(),
    };
    Sender::new(&control_thread.common, &local, &Rule::new(format!("/{topic}"), Direction::ToRos))
        .unwrap()
}

fn publisher(of: &Participant, topic: &TopicName, node: &str, qos: Qos) -> Publisher {
    let schema = Schema::bytes("a/msg/B", "cdr", "");
    of.create_publisher(PublisherConfig {
        qos,
        ..PublisherConfig::new(topic.clone(), node.parse().unwrap(), schema, 64)
    })
    .unwrap()
}

#[test]
fn a_sample_that_is_still_held_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let control_thread = rig::control_thread(dir.path(), serde_json::json!({ "dds": false }));
    let (topic, qos) = ("held".parse().unwrap(), Qos { depth: 2, ..Qos::default() });
    let mut sender = sender(&control_thread, &topic, qos.clone());
    let others = others(dir.path());
    let mut publisher = publisher(&others, &topic, "camera", qos);
    eventually("heard of", || {
        sender.events();
        !sender.publishers.is_empty()
    });
    let mut held = None;
    eventually("here", || {
        let loan = publisher.loan(8).unwrap();
        publisher.publish(loan, &mut SampleHeader::default()).unwrap();
        held = held.take().or_else(|| sender.sources.take_next().unwrap());
        held.is_some()
    });
    let loan = publisher.loan(8).unwrap();
    publisher.publish(loan, &mut SampleHeader::default()).unwrap();
    assert_eq!(sender.sources.take_next().unwrap_err(), TakeError::AllHeld { max_held: 1 });
    // After all earlier events, an unread sample does not end the wait …
    eventually("nothing happens", || sender.breathe(Duration::ZERO) == Wake::TimedOut);
    drop(held);
    // … but free space does.
    assert_eq!(sender.breathe(LONG), Wake::Kicked);
    assert!(sender.sources.take_next().unwrap().is_some());
}

#[test]
fn publishers_that_come_and_go_leave_no_writers_on_a_topic_that_is_never_empty() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let control_thread =
        rig::control_thread(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN }));
    let (topic, qos): (TopicName, _) =
        ("never_empty".parse().unwrap(), Qos { depth: 4, ..Qos::default() });
    let mut sender = sender(&control_thread, &topic, qos.clone());
    let others = others(dir.path());
    let publisher = |node| publisher(&others, &topic, node, qos.clone());
    let publish = |publisher: &mut Publisher| {
        let loan = publisher.loan(8).unwrap();
        publisher.publish(loan, &mut SampleHeader::default()).unwrap();
    };
    let mut stays = publisher("stays");
    eventually("matched", || sender.sources.matched() == 1);
    publish(&mut stays);
    let most = |sender: &mut Sender, stays: &mut Publisher| {
        // Publish before taking, so that the topic is never empty.
        publish(stays);
        assert!(sender.step() && sender.sources.has_unread());
        lock(&control_thread.common.writings).len()
    };
    for n in 0..600 {
        let mut goes = publisher("goes");
        eventually("matched", || sender.sources.matched() == 2);
        publish(&mut goes);
        drop(goes);
        eventually("gone", || sender.sources.matched() == 1);
        // Enough steps to take what the departed publisher has left.
        let writers = (0..6).map(|_| most(&mut sender, &mut stays)).last();
        assert_eq!(writers, Some(1), "after {n}");
    }
    let (carried, dropped) = sender.counters.figures();
    assert!(
        carried >= 600
            && !dropped.contains_key("refused")
            && lock(&control_thread.common.refusals).is_empty(),
        "{carried} {dropped:?}"
    );
}

#[test]
fn a_publisher_whose_schema_has_no_definition_is_reported() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let control_thread =
        rig::control_thread(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN }));
    let (topic, qos): (TopicName, _) = ("undefined".parse().unwrap(), Qos::default());
    let mut sender = sender(&control_thread, &topic, qos.clone());
    let others = others(dir.path());
    let mut publisher = publisher(&others, &topic, "talker", qos);
    eventually("carried", || {
        sender.events();
        sender.publishers.values().any(|known| known.carried.is_some())
    });
    let mut loan = publisher.loan(12).unwrap();
    loan.payload_mut().copy_from_slice(&[0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    publisher.publish(loan, &mut SampleHeader::default()).unwrap();
    eventually("taken", || sender.step());
    let reported = control_thread.control().take_notices();
    let says = |line: &String| {
        line.contains("dropped (trailing)")
            && line.contains("its schema has no definition")
            && line.contains("name the fields")
    };
    assert!(matches!(reported.as_slice(), [line] if says(line)), "{reported:?}");
}

#[test]
fn publishers_are_found_and_lost_without_their_events() {
    let dir = tempfile::tempdir().unwrap();
    let control_thread = rig::control_thread(dir.path(), serde_json::json!({ "dds": false }));
    let topic: TopicName = "busy".parse().unwrap();
    let mut sender = sender(&control_thread, &topic, Qos::default());
    let others = others(dir.path());
    let publisher = |node| publisher(&others, &topic, node, Qos::default());
    // There is no profile, so each existing publisher that was discovered is refused.
    let refused = || {
        let mut nodes: Vec<_> =
            lock(&control_thread.common.refusals).values().map(|r| r.host.clone()).collect();
        nodes.sort();
        nodes
    };
    let (stays, goes) = (publisher("stays"), publisher("goes"));
    eventually("heard of", || {
        sender.events();
        refused() == ["goes", "stays"]
    });
    // As while a sample waits for readers in ROS 2: events are not polled, and more occur than are
    // kept.
    drop(goes);
    eventually("gone", || sender.sources.matched() == 1);
    let comes = publisher("comes");
    eventually("matched", || sender.sources.matched() == 2);
    for _ in 0..=driveline_shm::limits::MAX_EVENTS / 2 {
        let other = publisher("other");
        eventually("matched", || sender.sources.matched() == 3);
        drop(other);
        eventually("gone", || sender.sources.matched() == 2);
    }
    eventually("all found out", || {
        sender.events();
        sender.forget();
        refused() == ["comes", "stays"]
    });
    drop((stays, comes));
    eventually("gone", || {
        sender.events();
        sender.forget();
        refused().is_empty()
    });
}
