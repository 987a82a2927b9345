// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::engine::fake_transport::FakeNodes;
use crate::engine::rig;
use crate::qos::{EndpointQos, ReaderClass};
use driveline_shm::{Publisher, PublisherConfig};
use driveline_types::{Durability, Reliability, SampleHeader, Schema};

#[test]
fn a_gateway_without_its_clock_cannot_continue() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let control_thread = rig::control_thread(
        dir.path(),
        serde_json::json!({ "domain_id": rig::DOMAIN, "use_sim_time": true }),
    );
    control_thread.control.close_dds();
    rig::eventually("over", || control_thread.control.failure().is_some());
    assert!(
        control_thread
            .control
            .failure()
            .unwrap()
            .contains("the time on /clock is not heard any more")
    );
}

#[test]
fn a_refusal_by_dds_does_not_block_answers() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let mut control_thread =
        rig::control_thread(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN }));
    control_thread.control.close_dds();
    let control = control_thread.control();
    // Each request waits for a while, so on a slow machine fewer requests are made.
    let asks = std::thread::spawn(move || (0..30).any(|_| !control.report().stale));
    while !asks.is_finished() {
        control_thread.poll();
        // time: a pause between polls; the requesting thread ends them
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(asks.join().unwrap(), "no request is answered");
    let reported = control_thread.control.take_notices();
    assert!(reported.iter().any(|line| line.contains("CycloneDDS cannot")), "{reported:?}");
}

#[test]
fn a_publisher_without_space_is_sent_to_ros_once_there_is_space() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules = serde_json::json!({
        "domain_id": rig::DOMAIN, "topics": [{ "topic": "/full", "direction": "to_ros" }],
    });
    let mut control_thread = rig::control_thread(dir.path(), rules);
    let common = control_thread.common.clone();
    let others = Participant::open(ParticipantConfig {
        domain_dir: Some(control_thread.domain_dir()),
        name: "others".into(),
    })
    .unwrap();
    let publisher = |node: &str| -> Publisher {
        let schema = Schema::bytes("a/msg/B", "cdr", "");
        others
            .create_publisher(PublisherConfig::new(
                "full".parse().unwrap(),
                node.parse().unwrap(),
                schema,
                64,
            ))
            .unwrap()
    };
    let _first = publisher("first");
    rig::eventually("carried", || lock(&common.writings).len() == 1);
    let of_others = |n| Writing { number: u64::MAX - n, ..lock(&common.writings)[0].clone() };
    let all: Vec<_> = (1..512).map(of_others).collect();
    lock(&common.writings).extend(all);
    let _second = publisher("second");
    rig::eventually("refused", || !lock(&common.refusals).is_empty());
    let reasons: Vec<_> =
        lock(&common.refusals).values().map(|refusal| refusal.reason.clone()).collect();
    assert!(
        matches!(reasons.as_slice(), [why] if why.contains("by DDS: this gateway has 512 \
             writers") && why.contains("`topics`")),
        "{reasons:?}"
    );
    control_thread.poll();
    assert_eq!(lock(&common.writings).len(), 512);
    lock(&common.writings).retain(|w| w.number < u64::MAX / 2);
    // The thread that opens the writer logs this a moment later.
    let mut reported = Vec::new();
    rig::eventually("carried, and logged", || {
        control_thread.poll();
        reported.extend(control_thread.control.take_notices());
        let carried = lock(&common.writings).len() == 2 && lock(&common.refusals).is_empty();
        carried && reported.iter().any(|line| line.contains("node 'second' go to ROS 2 now"))
    });
}

#[test]
fn a_dds_subscription_with_another_definition_causes_a_remark() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules = serde_json::json!({
        "domain_id": rig::DOMAIN, "topics": [{ "topic": "/image", "direction": "to_ros" }],
    });
    let mut control_thread = rig::control_thread(dir.path(), rules);
    let others = Participant::open(ParticipantConfig {
        domain_dir: Some(control_thread.domain_dir()),
        name: "others".into(),
    })
    .unwrap();
    let schema = <driveline_msgs::Image as driveline_types::Plain>::schema();
    let _eye = others
        .create_publisher(PublisherConfig::new(
            "image".parse().unwrap(),
            "eye".parse().unwrap(),
            schema,
            4096,
        ))
        .unwrap();
    rig::eventually("carried", || !lock(&control_thread.common.writings).is_empty());
    let writings = lock(&control_thread.common.writings).clone();
    let mut reader = |handle: Handle, announced| {
        let gid = handle.to_le_bytes();
        let (topic, type_name, qos) =
            (writings[0].topic.clone(), writings[0].type_name.clone(), writings[0].qos);
        let (profile, hash) = (Profile::Dds, String::new());
        let reader = Endpoint {
            profile,
            handle,
            gid,
            topic,
            type_name,
            hash,
            session: String::new(),
            announced,
            qos,
            depth: None,
            gateway: false,
            node: None,
        };
        control_thread.reader(Profile::Dds, Change::Here(Box::new(reader)));
    };
    reader(1, None);
    reader(2, writings[0].type_hash);
    let other = format!("RIHS01_{}", "0".repeat(64));
    reader(3, Some(other.parse().unwrap()));
    control_thread.compare(&writings);
    control_thread.compare(&writings);
    let reported = control_thread.control.take_notices();
    assert!(
        matches!(reported.as_slice(), [line] if line.contains("gets samples, \
             but") && line.contains(&format!("the reader's {other}"))),
        "{reported:?}"
    );
    let report = control_thread.report(&writings);
    let topic = &report.ros2.as_ref().unwrap().to_ros[0];
    assert_eq!((topic.readers.len(), topic.remarks.len(), report.refused.len()), (3, 1, 0));
}

#[test]
fn truncated_lists_are_reported() {
    let lines = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(at_most(2, lines(2).into_iter()), ["0", "1"]);
    assert_eq!(
        at_most(2, lines(5).into_iter()),
        ["0", "1", "and 3 more, which are not named here"]
    );
}

#[test]
fn a_writer_with_a_thread_of_its_own_is_listed_until_it_ends() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules = serde_json::json!({
        "domain_id": rig::DOMAIN, "zenoh": {},
        "topics": [{ "topic": "/image", "direction": "to_ros" }],
    });
    let mut control_thread = rig::control_thread(dir.path(), rules);
    let others = Participant::open(ParticipantConfig {
        domain_dir: Some(control_thread.domain_dir()),
        name: "others".into(),
    })
    .unwrap();
    let schema = <driveline_msgs::Image as driveline_types::Plain>::schema();
    let eye = others
        .create_publisher(PublisherConfig::new(
            "image".parse().unwrap(),
            "eye".parse().unwrap(),
            schema,
            4096,
        ))
        .unwrap();
    let common = control_thread.common.clone();
    rig::eventually("carried by both", || lock(&common.writings).len() == 2);
    control_thread.poll();
    let profiles: Vec<_> = lock(&common.writings).iter().map(|w| w.profile).collect();
    assert_eq!(profiles, [Profile::Dds, Profile::Zenoh]);
    drop(eye);
    rig::eventually("gone", || lock(&common.writings).is_empty());
}

/// Returns an endpoint of a ROS 2 node.
fn endpoint(topic: &str, handle: Handle, type_name: &str, qos: EndpointQos) -> Endpoint {
    Endpoint {
        profile: Profile::Dds,
        handle,
        gid: handle.to_le_bytes(),
        topic: topic.parse().unwrap(),
        type_name: type_name.into(),
        hash: String::new(),
        session: String::new(),
        announced: None,
        qos,
        depth: None,
        gateway: false,
        node: None,
    }
}

#[test]
fn a_writer_that_leaves_and_returns_is_read_again_and_its_missing_samples_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let rules =
        serde_json::json!({ "topics": [{ "topic": "/a", "direction": "from_ros", "as": "cdr" }] });
    let nodes = Arc::<FakeNodes>::default();
    let mut control_thread = rig::fake_control_thread(dir.path(), rules, &nodes);
    let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
    let qos = EndpointQos { reliability: Reliability::BestEffort, ..EndpointQos::default() };
    let writer = endpoint("a", 7, "rosgraph_msgs::msg::dds_::Clock_", qos);
    let clock = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // Waits until the report has this number of publishers and of carried samples. Returns the
    // number of lost samples.
    let mut reported = |publishers: usize, carried: u64| {
        let mut lost = None;
        rig::eventually("reported", || {
            control_thread.poll();
            let topic = control_thread.report(&[]).ros2.unwrap().from_ros.remove(0);
            lost = topic.dropped.get("lost").copied();
            (topic.publishers.len(), topic.carried) == (publishers, carried)
        });
        lost
    };
    nodes.here(true, &writer);
    assert_eq!(reported(1, 0), None);
    [1, 2].iter().for_each(|number| nodes.send(7, class, *number, &clock));
    assert_eq!(reported(1, 2), None);
    nodes.gone(true, 7);
    assert_eq!(reported(0, 0), None, "the topic is closed");
    nodes.here(true, &writer);
    assert_eq!(reported(1, 0), None);
    // Samples 3 and 4 were published while the topic was closed.
    nodes.send(7, class, 5, &clock);
    assert_eq!(reported(1, 1), Some(2));
}

#[test]
fn a_reader_that_requests_more_qos_is_logged_and_listed_while_it_exists() {
    let dir = tempfile::tempdir().unwrap();
    let rules = serde_json::json!({ "topics": [{ "topic": "/a", "direction": "to_ros" }] });
    let nodes = Arc::<FakeNodes>::default();
    let mut control_thread = rig::fake_control_thread(dir.path(), rules, &nodes);
    let others = rig::others(dir.path());
    let schema = Schema::bytes("a/msg/B", "cdr", "");
    let mut publisher = others
        .create_publisher(PublisherConfig::new(
            "a".parse().unwrap(),
            "eye".parse().unwrap(),
            schema,
            64,
        ))
        .unwrap();
    let common = control_thread.common.clone();
    rig::eventually("carried", || !lock(&common.writings).is_empty());
    let writing = lock(&common.writings)[0].clone();
    assert_eq!(writing.qos.reliability, Reliability::BestEffort);
    let qos = EndpointQos { reliability: Reliability::Reliable, ..writing.qos };
    nodes.here(false, &endpoint("a", 1, &writing.type_name, writing.qos));
    nodes.here(false, &endpoint("a", 2, &writing.type_name, qos));
    let mut state = || {
        control_thread.poll();
        let logged = control_thread.control.take_notices();
        let report = control_thread.report(std::slice::from_ref(&writing));
        (logged, report.ros2.unwrap().to_ros[0].readers.len(), report.refused.len())
    };
    let (logged, readers, refused) = state();
    assert!(
        matches!(logged.as_slice(), [line] if line.starts_with("topic '/a': a ROS 2 subscription \
            gets nothing: ") && line.contains("RELIABILITY")),
        "{logged:?}"
    );
    assert_eq!((readers, refused), (1, 1));
    nodes.gone(false, 2);
    assert_eq!(state(), (Vec::new(), 1, 0));
    // The other reader gets samples.
    let mut loan = publisher.loan(5).unwrap();
    loan.payload_mut().copy_from_slice(&[0, 1, 0, 0, 0]);
    publisher.publish(loan, &mut SampleHeader::default()).unwrap();
    rig::eventually("written", || !lock(&nodes.written).is_empty());
}
