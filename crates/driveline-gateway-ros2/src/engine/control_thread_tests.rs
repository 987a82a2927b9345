// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::engine::rig;
use driveline_shm::{Publisher, PublisherConfig};
use driveline_types::Schema;

#[test]
fn a_gateway_without_its_clock_cannot_continue() {
    let _alone = lock(&rig::ALONE);
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
    let _alone = lock(&rig::ALONE);
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
    let _alone = lock(&rig::ALONE);
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
    // The opening thread logs it in another place, a moment later.
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
    let _alone = lock(&rig::ALONE);
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
    let _alone = lock(&rig::ALONE);
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
