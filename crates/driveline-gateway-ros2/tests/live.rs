// SPDX-License-Identifier: Apache-2.0
//! Topics between Driveline and nodes on CycloneDDS 0.10, over the loopback device. Each test uses
//! its own DDS domain.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_msgs::proto::{ModuleHealth, RunHealth};
use driveline_msgs::{Image, ImageView};
use driveline_shm::{
    Participant, ParticipantConfig, PublisherConfig, PublisherEvent, RefusalCode, SchemaRequest,
    SubscriptionConfig, SubscriptionEvent,
};
use driveline_types::{Plain, PlainRef, Qos, Remote, SampleHeader};
use rig::samples::{
    BIG, CAMERA, lasting, publish, publish_image, reliable, string, string_schema, take,
};
use rig::{Rig, Vendor, eventually, sum};
use serde_json::json;
use std::time::{Duration, Instant};

/// Period of a camera at 50 Hz.
const PERIOD: Duration = Duration::from_millis(20);

#[test]
fn images_of_4_mib_reach_ros_2_whole_and_none_is_lost() {
    const COUNT: usize = 20;
    // As deep as the number of samples: a keep-last writer does not wait for its readers.
    let qos = reliable(COUNT as u32);
    let rig = Rig::new(
        10,
        json!([{ "topic": "/sensing/**", "direction": "to_ros" }]),
        &[(CAMERA, BIG as u64 + 4096, qos.clone())],
    );
    let mut peer = rig.peer("sub rt/sensing/camera image rv0");
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), BIG + 4096, &qos);
    eventually("matched here", || publisher.matched() == 1);
    // Samples written before DDS has matched do not reach this reader.
    eventually("matched there", || {
        publish_image(&mut publisher, 8, 7);
        !peer.samples().is_empty()
    });
    for n in 0..COUNT {
        publish_image(&mut publisher, BIG as u32, b'a' + n as u8);
    }
    let big = |peer: &mut rig::Peer| {
        peer.samples().into_iter().filter(|s| s.0 == BIG).collect::<Vec<_>>()
    };
    eventually("all there", || big(&mut peer).len() == COUNT);
    let expected: Vec<_> =
        (0..COUNT).map(|n| (BIG, sum(&vec![b'a' + n as u8; BIG]), "cam".to_owned())).collect();
    assert_eq!(big(&mut peer), expected);
    let report = rig.report();
    let [of] = report.to_ros[0].publishers.as_slice() else { panic!("{report:?}") };
    assert_eq!(
        (of.node.as_str(), of.ros_type.as_str(), of.converted),
        ("front/camera", "sensor_msgs/msg/Image", true)
    );
    assert_eq!(report.to_ros[0].readers.len(), 1, "{report:?}");
    assert_eq!(report.to_ros[0].dropped.get("not_written"), None);
}

#[test]
fn images_of_4_mib_come_from_ros_2_whole_and_none_is_lost() {
    const COUNT: usize = 8;
    // As deep as the number of samples, so that the order of discovery does not matter.
    let rules = json!([
        {
            "topic": "/sensing/*", "direction": "from_ros", "max_payload": "5 MiB",
            "qos": { "depth": COUNT },
        },
    ]);
    let rig = Rig::new(11, rules, &[]);
    let mut subscription = rig.subscription(CAMERA, &lasting(COUNT as u32));
    let _peer = rig.peer(&format!("pub rt/sensing/camera image {BIG} {COUNT} 20000 rt{COUNT}"));
    let mut n = 0;
    let missed = take(&mut subscription, COUNT, |payload, header| {
        let image = ImageView::new(PlainRef::new(payload).unwrap()).unwrap();
        assert_eq!((image.width() as usize, image.header().frame_index), (BIG, n));
        assert!(image.row(0).iter().all(|b| *b == b'a' + (n % 26) as u8), "sample {n} is whole");
        assert_eq!(&*image.header().frame_id().unwrap(), "cam");
        let remote = header.remote.expect("it came from outside");
        assert_eq!(
            (remote.lost, header.clock_error_ns, header.origins.as_slice().len()),
            (0, 0, 1)
        );
        n += 1;
    });
    assert_eq!(missed, 0);
    let mut report = rig.report();
    eventually("counted", || {
        report = rig.report();
        report.from_ros.first().is_some_and(|t| t.carried == COUNT as u64)
    });
    assert!(report.from_ros[0].dropped.is_empty(), "{report:?}");
}

/// The speed depends on the machine, the counts do not.
#[test]
fn a_camera_of_4_mib_towards_ros_2_adds_up() {
    const COUNT: usize = 150;
    let qos = reliable(4);
    let rig = Rig::new(
        28,
        json!([{ "topic": "/sensing/**", "direction": "to_ros" }]),
        &[(CAMERA, BIG as u64 + 4096, qos.clone())],
    );
    let mut peer = rig.peer("sub rt/sensing/camera image rv0");
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), BIG + 4096, &qos);
    eventually("matched here", || publisher.matched() == 1);
    let mut sent = 0;
    // Samples written before DDS has matched do not reach this reader.
    eventually("matched there", || {
        publish_image(&mut publisher, 8, 7);
        sent += 1;
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        !peer.samples().is_empty()
    });
    let sums: Vec<_> = (0..26).map(|n| sum(&vec![b'a' + n; BIG])).collect();
    // Numbers of the arrived images; each is whole, once and in order.
    let numbers = |peer: &mut rig::Peer| {
        let mut next = 0;
        let big = peer.samples().into_iter().filter(|s| s.0 == BIG).map(|s| s.1);
        let numbers = big.map(|sum| {
            next =
                (next..COUNT).find(|n| sums[n % 26] == sum).expect("whole, once and in order") + 1;
            next - 1
        });
        numbers.collect::<Vec<_>>()
    };
    for n in 0..COUNT {
        publish_image(&mut publisher, BIG as u32, b'a' + (n % 26) as u8);
        sent += 1;
        // Fewer images are in flight than each endpoint keeps, so none may be replaced.
        eventually("the image before the last few", || numbers(&mut peer).len() + 2 > n);
    }
    let figures = || {
        let of = rig.report().to_ros.remove(0);
        (of.carried, of.dropped.values().sum::<u64>())
    };
    eventually("each is counted", || figures().0 + figures().1 >= sent);
    let (carried, dropped) = figures();
    assert_eq!(carried + dropped, sent);
    eventually("all have come", || numbers(&mut peer).len() == COUNT);
}

/// As above, in the other direction.
#[test]
fn a_camera_of_4_mib_at_50_hz_from_ros_2_adds_up() {
    const COUNT: usize = 150;
    let rules = json!([
        {
            "topic": "/sensing/*", "direction": "from_ros", "max_payload": "5 MiB",
            "qos": { "depth": 32 },
        },
    ]);
    let rig = Rig::new(29, rules, &[]);
    // Samples not taken in time are overwritten after 0.1 s, so there is space for more than half a
    // second of samples.
    let mut subscription = rig.subscription(CAMERA, &reliable(32));
    // The writer keeps each sample until it is acknowledged.
    let _peer =
        rig.peer(&format!("pub rt/sensing/camera image {BIG} {COUNT} {} rv0", PERIOD.as_micros()));
    // Numbers of the first and the last taken sample, and number of samples missing between them.
    let (mut first, mut last, mut taken, mut missed, mut next) = (None, 0, 0, 0, 0);
    eventually("each was carried or is counted, and all that was carried is taken", || {
        while let Some(sample) = subscription.take_next().unwrap() {
            let image = ImageView::new(PlainRef::new(sample.payload()).unwrap()).unwrap();
            let row = image.row(0);
            assert!(row.len() == BIG && row[1..] == row[..BIG - 1], "whole");
            next = (next..COUNT)
                .find(|n| b'a' + (n % 26) as u8 == row[0])
                .expect("each once, in order")
                + 1;
            last = sample.header().sequence;
            (taken, missed) = (taken + 1, missed + sample.missed());
            first.get_or_insert(last);
        }
        let of = rig.report().from_ros;
        of.first().is_some_and(|of| {
            of.carried + of.dropped.values().sum::<u64>() >= COUNT as u64 && of.carried == last
        })
    });
    let of = rig.report().from_ros.remove(0);
    let dropped = of.dropped.values().sum::<u64>();
    assert_eq!(of.carried + dropped, COUNT as u64, "{of:?}");
    // Samples published before the subscription matched do not count.
    assert_eq!(last + 1 - first.unwrap(), taken, "none is missing on this host");
    assert!(missed <= dropped, "{missed} missed: {of:?}");
}

#[test]
fn strings_pass_both_ways_and_best_effort_is_enough() {
    let rules = json!([
        { "topic": "/chatter", "direction": "both" },
        { "topic": "/back", "direction": "from_ros" },
    ]);
    let rig = Rig::new(12, rules, &[("chatter", 4096, Qos::default())]);
    let mut publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &Qos::default());
    let mut peer = rig.peer("sub rt/chatter string bv1");
    eventually("heard", || {
        publish(&mut publisher, &string("hello"));
        !peer.samples().is_empty()
    });
    assert_eq!(peer.samples()[0], (5, sum(b"hello"), "-".into()));
    let mut subscription = rig.subscription("back", &Qos::default());
    let _other = rig.peer("pub rt/back string 3 200 10000 bv1");
    take(&mut subscription, 5, |payload, header| {
        assert_eq!((payload.len(), payload[4], payload[7]), (12, 4, 0));
        assert!(header.remote.is_some());
    });
    assert_eq!(rig.dropped("chatter", "gateway"), 0, "its own writer is no other gateway's");
    assert!(
        rig.report().from_ros.iter().all(|t| t.topic == "back" || t.carried == 0),
        "nothing comes back: {:?}",
        rig.report()
    );
}

#[test]
fn a_thousand_a_second_arrive_and_none_is_lost() {
    const COUNT: usize = 3000;
    let rules = json!([{ "topic": "/imu", "direction": "from_ros", "qos": { "depth": 1024 } }]);
    let rig = Rig::new(13, rules, &[]);
    let mut subscription = rig.subscription("imu", &lasting(1024));
    let _peer = rig.peer(&format!("pub rt/imu string 8 {COUNT} 1000 rt{COUNT}"));
    let mut sequence = 0;
    let missed = take(&mut subscription, COUNT, |payload, header| {
        sequence += 1;
        let lost = header.remote.expect("it came from outside").lost;
        assert_eq!(
            (header.sequence, lost, payload[8]),
            (sequence, 0, b'a' + ((sequence - 1) % 26) as u8),
            "all of them, in order"
        );
    });
    assert_eq!(missed, 0, "reliable on the whole way, and deep enough for it");
    let report = rig.report();
    assert!(report.from_ros[0].dropped.is_empty(), "{report:?}");
}

#[test]
fn a_reliable_burst_beyond_the_depth_of_a_reader_loses_nothing() {
    const COUNT: usize = 1000;
    // With topics of 8 MiB a reader keeps 16 samples of each topic.
    let camera = json!({ "topic": "/camera", "direction": "from_ros", "max_payload": "8 MiB" });
    let rules = json!([
        {
            "topic": "/imu", "direction": "from_ros", "max_payload": "1 KiB",
            "qos": { "depth": COUNT },
        },
        camera,
    ]);
    let rig = Rig::new(21, rules, &[]);
    let mut subscription = rig.subscription("imu", &lasting(COUNT as u32));
    let _peer = rig.peer(&format!("pub rt/imu string 8 {COUNT} 0 rt{COUNT}"));
    let mut sequence = 0;
    take(&mut subscription, COUNT, |payload, header| {
        sequence += 1;
        let lost = header.remote.expect("it came from outside").lost;
        assert_eq!(
            (header.sequence, lost, payload[8]),
            (sequence, 0, b'a' + ((sequence - 1) % 26) as u8),
            "all of them, in order"
        );
    });
    let report = rig.report();
    assert!(report.from_ros[0].dropped.is_empty(), "{report:?}");
}

#[test]
fn a_thousand_a_second_reach_ros_2_and_none_is_lost() {
    const COUNT: usize = 3000;
    let qos = reliable(1024);
    let rig = Rig::new(
        22,
        json!([{ "topic": "/imu", "direction": "to_ros" }]),
        &[("imu", 4096, Qos::default())],
    );
    let mut publisher = rig.publisher("imu", "imu", string_schema(), 4096, &qos);
    let mut peer = rig.peer("sub rt/imu string rv0");
    // Samples written before DDS has matched do not reach this reader.
    eventually("matched there", || {
        publish(&mut publisher, &string("first"));
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        !peer.samples().is_empty()
    });
    let texts: Vec<String> = (0..COUNT).map(|n| format!("{n:08}")).collect();
    for text in &texts {
        publish(&mut publisher, &string(text));
        // time: paces the publisher
        std::thread::sleep(Duration::from_micros(900));
    }
    let heard = |peer: &mut rig::Peer| {
        peer.samples().into_iter().filter(|s| s.0 == 8).map(|s| s.1).collect::<Vec<_>>()
    };
    eventually("all there", || heard(&mut peer).len() == COUNT);
    assert_eq!(
        heard(&mut peer),
        texts.iter().map(|text| sum(text.as_bytes())).collect::<Vec<_>>(),
        "each once, in order"
    );
    let to_ros = rig.report().to_ros.remove(0);
    assert!(to_ros.dropped.is_empty(), "{to_ros:?}");
}

/// The sample looks as if another gateway had received it: samples from outside this host are not
/// sent on.
#[test]
fn a_sample_from_another_host_is_not_sent_on_and_is_counted() {
    let rig = Rig::new(
        23,
        json!([{ "topic": "/chatter", "direction": "to_ros" }]),
        &[("chatter", 4096, reliable(4))],
    );
    let mut publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &reliable(4));
    let mut peer = rig.peer("sub rt/chatter string rv0");
    eventually("heard", || {
        publish(&mut publisher, &string("hello"));
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        !peer.samples().is_empty()
    });
    for n in 1..=3 {
        let payload = string("from afar");
        let mut loan = publisher.loan(payload.len()).unwrap();
        loan.payload_mut().copy_from_slice(&payload);
        let remote =
            Remote { host: 7, lost: 0, publisher: 0, transit_ns: 1000, offset_error_ns: 0 };
        publisher
            .publish(
                loan,
                &mut SampleHeader { remote: Some(remote), ..SampleHeader::stamped_now() },
            )
            .unwrap();
        eventually("counted", || rig.dropped("chatter", "remote") == n);
    }
    publish(&mut publisher, &string("last one"));
    // Samples arrive in order, so a sample that was sent on would arrive before this one.
    eventually("what comes after it", || peer.samples().iter().any(|s| s.0 == 8));
    assert!(peer.samples().iter().all(|s| s.0 != "from afar".len()), "{:?}", peer.read());
    assert_eq!(rig.dropped("chatter", "remote"), 3);
}

#[test]
fn late_joiners_get_the_last_of_every_publisher() {
    let rules = json!([
        { "topic": "/tf_out", "direction": "to_ros" },
        { "topic": "/tf_in", "direction": "from_ros" }
    ]);
    let rig = Rig::new(14, rules, &[("tf_out", 4096, lasting(1))]);
    let mut publishers: Vec<_> = (1..=3)
        .map(|n| {
            rig.publisher("tf_out", &format!("static_{n}"), string_schema(), 4096, &lasting(1))
        })
        .collect();
    for (n, publisher) in publishers.iter_mut().enumerate() {
        publish(publisher, &string(&"x".repeat(n + 1)));
    }
    eventually("carried", || rig.report().to_ros.first().is_some_and(|t| t.carried == 3));
    let mut late = rig.peer("sub rt/tf_out string rt10");
    let lengths = |peer: &mut rig::Peer| {
        let mut lengths: Vec<_> = peer.samples().into_iter().map(|s| s.0).collect();
        lengths.sort_unstable();
        lengths
    };
    eventually("complete", || lengths(&mut late).len() == 3);
    assert_eq!(lengths(&mut late), [1, 2, 3]);

    let mut peers: Vec<_> =
        (1..=3).map(|n| rig.peer(&format!("pub rt/tf_in string {n} 1 0 rt1"))).collect();
    eventually("written", || peers.iter_mut().all(|p| p.has_printed("written")));
    eventually("here", || rig.report().from_ros.first().is_some_and(|t| t.carried == 3));
    let mut subscription = rig.subscription("tf_in", &lasting(4));
    let mut found = Vec::new();
    take(&mut subscription, 3, |payload, _| found.push(payload[4] - 1));
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3], "one of each, although each came after the others");
}

/// The announced depth, which `ros2 topic info -v` shows.
#[test]
fn a_writer_shows_the_depth_of_its_publisher_or_of_its_rule() {
    let rules = json!([
        { "topic": "/ruled", "direction": "to_ros", "qos": { "depth": 31 } },
        { "topic": "/*", "direction": "to_ros" },
    ]);
    let qos = [
        ("reliable", reliable(7)),
        ("best_effort", Qos { depth: 9, ..Qos::default() }),
        ("lasting", lasting(11)),
        ("ruled", reliable(3)),
    ];
    let topics: Vec<_> = qos.iter().map(|(topic, qos)| (*topic, 4096, qos.clone())).collect();
    let rig = Rig::new(72, rules, &topics);
    let _publishers: Vec<_> = qos
        .iter()
        .map(|(topic, qos)| rig.publisher(topic, "talker", string_schema(), 4096, qos))
        .collect();
    for (topic, shown) in [
        ("reliable", "last 7"),
        ("best_effort", "last 9"),
        ("lasting", "last 11"),
        ("ruled", "last 31"),
    ] {
        let mut peer = rig.peer(&format!("history rt/{topic}"));
        eventually("discovered", || !peer.read().is_empty());
        assert_eq!(peer.read(), [shown], "{topic}");
    }
}

#[test]
fn unfit_and_broken_samples_are_counted() {
    let rules = json!([
        { "topic": "/bad/as_it_is", "direction": "from_ros", "as": "cdr" },
        { "topic": "/bad/*", "direction": "from_ros" },
        { "topic": "/small", "direction": "from_ros", "max_payload": 64 }
    ]);
    let rig = Rig::new(15, rules, &[]);
    // Topic, type written there, length, number of samples, and the reason under which each is
    // counted.
    let flawed = [
        // A text of 9 letters read as an image: seconds, nanoseconds, and a length made of letters.
        ("bad/image", "bad", 9, 3, "length"),
        ("bad/as_it_is", "bad", 9, 2, "length"),
        ("bad/rows", "image_short", 64, 5, "image"),
        ("bad/frame", "image_frame", 64, 6, "frame_id"),
        ("small", "string", 100, 4, "too_long"),
    ];
    let _peers = flawed.map(|(topic, kind, size, count, _)| {
        rig.peer(&format!("pub rt/{topic} {kind} {size} {count} 0 rt8"))
    });
    for (topic, _, _, count, reason) in flawed {
        eventually(&format!("{topic} is counted as {reason}"), || {
            rig.dropped(topic, reason) == count
        });
        let all = rig.report().from_ros.into_iter().find(|t| t.topic == topic).unwrap();
        assert_eq!((all.carried, all.dropped.len()), (0, 1), "{all:?}");
    }
    assert!(rig.logged("raise `max_payload`"));
}

#[test]
fn a_subscription_that_does_not_match_is_reported_with_the_reason() {
    let rig = Rig::new(
        16,
        json!([{ "topic": "/chatter", "direction": "to_ros" }]),
        &[("chatter", 4096, Qos::default())],
    );
    let mut publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &Qos::default());
    eventually("matched here", || publisher.matched() == 1);
    let mut peer = rig.peer("sub rt/chatter string rt1");
    eventually("the publisher hears of it", || {
        let refused = |event: PublisherEvent| match event {
            PublisherEvent::Refused { code: RefusalCode::Qos, text } => {
                text.contains("requests reliable")
            }
            _ => false,
        };
        publisher.poll_event().is_some_and(refused)
    });
    assert_eq!(publisher.matched(), 1, "only the gateway reads");
    eventually("logged", || {
        rig.logged("RELIABILITY: the writer offers best_effort, the reader requests reliable")
    });
    assert!(
        rig.logged("DURABILITY: the writer offers volatile, the reader requests transient_local")
    );
    assert!(peer.samples().is_empty());
    let refused = rig.refused();
    assert!(
        refused
            .iter()
            .any(|r| r.outgoing && r.topic == "chatter" && r.reason.contains("RELIABILITY")),
        "{refused:?}"
    );
    assert!(rig.report().to_ros[0].readers.is_empty());
    drop(peer);
    eventually("forgotten", || rig.refused().is_empty());
}

#[test]
fn a_rule_that_promises_more_than_a_publisher_offers_is_reported() {
    let rules = json!([
        {
            "topic": "/chatter", "direction": "to_ros",
            "qos": { "reliability": "reliable", "depth": 64 },
        },
    ]);
    let rig = Rig::new(73, rules, &[("chatter", 4096, Qos::default())]);
    let _publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &Qos::default());
    eventually("logged", || {
        rig.logged(
            "samples of node 'talker' are offered with more QoS in ROS 2 than here: RELIABILITY",
        )
    });
    let remarks = rig.report().to_ros.remove(0).remarks;
    assert!(
        matches!(remarks.as_slice(), [one] if one.contains("(best_effort here, reliable there)")),
        "{remarks:?}"
    );
}

/// Each endpoint has its own QoS; the gateway makes it neither weaker nor stronger.
#[test]
fn a_subscription_here_that_a_node_does_not_satisfy_is_reported_on_both_sides() {
    let rules = json!([
        { "topic": "/weak", "direction": "from_ros" },
        { "topic": "/ruled", "direction": "from_ros", "qos": { "reliability": "best_effort" } },
    ]);
    let rig = Rig::new(74, rules, &[]);
    let (mut of_weak, mut of_ruled) =
        (rig.subscription("weak", &reliable(4)), rig.subscription("ruled", &reliable(4)));
    let _peers =
        [rig.peer("pub rt/weak string 3 1 0 bv4"), rig.peer("pub rt/ruled string 3 1 0 rv4")];
    eventually("the gateway reports", || {
        rig.logged("topic '/weak': a subscription here does not match the publisher of node")
    });
    eventually("and that the rule is the cause", || {
        rig.logged("(the rule's `qos` has the gateway offer less here than the node does)")
    });
    for subscription in [&mut of_weak, &mut of_ruled] {
        eventually("the subscription hears of it", || {
            subscription.poll_event().is_some_and(|e| {
                matches!(e, SubscriptionEvent::Refused { code: RefusalCode::Qos, .. })
            })
        });
    }
}

/// In both directions, without a list of topics, and with names with `__`, which ROS 2 accepts.
#[test]
fn a_pattern_alone_takes_everything_both_ways() {
    let rig = Rig::new(101, json!([{ "topic": "/**", "direction": "both" }]), &[]);
    let mut before = rig.publisher("a__b/here", "talker", string_schema(), 4096, &reliable(4));
    let mut peer = rig.peer("sub rt/a__b/here string rv4");
    eventually("heard there", || {
        publish(&mut before, &string("hello"));
        !peer.samples().is_empty()
    });
    assert_eq!(peer.samples()[0], (5, sum(b"hello"), "-".into()));
    let mut subscription = rig.subscription("a__b/there", &lasting(4));
    let _node = rig.peer("pub rt/a__b/there string 7 1 0 rt1");
    take(&mut subscription, 1, |payload, _| assert_eq!(payload[4], 8));
    let _odd = rig.peer("pub rt/1odd string 7 1 0 rt1");
    eventually("logged", || {
        rig.logged("topic '/1odd' of ROS 2 is not carried: ROS 2 does not permit its name")
    });
    let named: Vec<_> = rig.report().to_ros.into_iter().map(|t| t.topic).collect();
    assert_eq!(named, ["a__b/here"], "samples from there do not go back");
}

#[test]
fn nodes_are_seen_in_the_graph_of_ros_2() {
    let rig = Rig::new(
        17,
        json!([
            { "topic": "/chatter", "direction": "to_ros" },
            { "topic": "/in", "direction": "from_ros" },
        ]),
        &[("chatter", 4096, Qos::default())],
    );
    let publisher =
        rig.publisher("chatter", "front/talker", string_schema(), 4096, &Qos::default());
    let _writer = rig.peer("pub rt/in string 1 1 0 rt1");
    let mut peer = rig.peer("graph");
    eventually("seen", || {
        peer.has_printed("/front talker 0 1") && peer.has_printed("/ driveline 1 0")
    });
    // A subscription here is shown with its node.
    let mut config = SubscriptionConfig::new(
        "in".parse().unwrap(),
        "rear/listener".parse().unwrap(),
        SchemaRequest::Any,
    );
    config.qos = reliable(4);
    let subscription = rig.participant.create_subscription(config).unwrap();
    eventually("seen as well", || {
        peer.has_printed("/rear listener 1 0") && peer.has_printed("/ driveline 0 0")
    });
    drop((publisher, subscription));
    eventually("gone", || {
        let lines = peer.read();
        let last = lines.iter().rposition(|l| l.starts_with("/ driveline"));
        last.is_some_and(|last| {
            lines[last] == "/ driveline 1 0" && lines[last + 1..].is_empty() && last > 3
        })
    });
}

/// Checks both directions: names of nodes on both sides, and announcements of endpoints.
/// `domain_id`: used by this test alone.
fn nodes_know_each_other(
    domain_id: u32,
    release: &str,
    vendor: Vendor,
    other: Vendor,
    user_data: &str,
) {
    let rules = json!([
        { "topic": "/chatter", "direction": "to_ros" },
        { "topic": "/in", "direction": "from_ros" },
    ]);
    let rig = Rig::with(
        json!({ "domain_id": domain_id, "release": release, "topics": rules }),
        &[("chatter", 4096, reliable(4))],
    );
    let mut publisher =
        rig.publisher("chatter", "front/talker", string_schema(), 4096, &reliable(4));
    let mut said = rig.node(vendor, "said rt/chatter");
    let mut graph = rig.node(vendor, "graph");
    let mut other_graph = rig.node(other, "graph");
    let mut listener = rig.named(vendor, "/rear listener", "sub rt/chatter string rv0");
    eventually("heard there", || {
        publish(&mut publisher, &string("hello"));
        !listener.samples().is_empty()
    });
    assert_eq!(listener.samples()[0], (5, sum(b"hello"), "-".into()));
    let mut subscription = rig.subscription("in", &lasting(4));
    let named = || rig.report().from_ros[0].publishers.iter().any(|p| p.node == "ros2/rear/talker");
    let mut talkers = Vec::new();
    // The node's announcement may take longer than the gateway waits for it; then the test starts
    // another publisher.
    while talkers.len() < 5 && !named() {
        talkers.push(rig.named(vendor, "/rear talker", "pub rt/in string 3 4 10000 rt4"));
        assert_eq!(take(&mut subscription, 4, |payload, _| assert_eq!(payload.len(), 12)), 0);
    }
    eventually("the node that writes is known here", named);
    eventually("the reader is known here", || rig.report().to_ros[0].readers == ["/rear/listener"]);
    eventually("the nodes here are known there", || {
        graph.has_printed("/front talker 0 1") && graph.has_printed("/ reader 1 0")
    });
    eventually("what both say is there", || said.read().len() == 2);
    let mut said = said.read().to_vec();
    said.sort();
    assert_eq!(said, ["reader ".to_owned(), format!("writer {user_data}")]);
    assert!(
        !other_graph.read().iter().any(|line| line.starts_with("/front talker")),
        "the other release cannot read that"
    );
}

#[test]
fn nodes_of_humble_and_a_gateway_for_humble_know_each_other() {
    nodes_know_each_other(20, "humble", Vendor::Humble, Vendor::Cyclone, "driveline=1;");
}

#[test]
fn nodes_of_jazzy_and_a_gateway_for_jazzy_know_each_other() {
    let user_data = "typehash=\
                     RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18;\
                     driveline=1;";
    nodes_know_each_other(21, "jazzy", Vendor::Cyclone, Vendor::Humble, user_data);
}

/// Gateway of another Driveline domain, as a process: a process can join a DDS domain once.
struct Other(std::process::Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_gateways_and_a_node_make_no_loop() {
    let rules = json!([{ "topic": "/loop", "direction": "both" }]);
    let rig = Rig::new(
        18,
        rules.clone(),
        &[("loop", 4096, lasting(4)), ("private", 4096, Qos::default())],
    );
    let mut private = rig.peer("sub rt/private string bv1");
    let mut hidden = rig.publisher("private", "talker", string_schema(), 4096, &Qos::default());
    let (other, config) = (rig.dir.path().join("other"), rig.dir.path().join("other.json"));
    let ros2 =
        json!({ "domain_id": 18, "types": [rig.dir.path().join("std_msgs")], "topics": rules });
    let topics = json!([{ "topic": "loop", "max_payload": 4096, "qos": lasting(4) }]);
    std::fs::write(
        &config,
        json!({ "domain_dir": other, "ros2": ros2, "topics": topics }).to_string(),
    )
    .unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_driveline-gateway-ros2"));
    command.arg(&config).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let _other = Other(command.spawn().unwrap());
    // Both domains and a ROS 2 node publish on the same topic: one sample each, of lengths 3, 5 and
    // 7.
    let there = ParticipantConfig { domain_dir: Some(other), name: "there".into() };
    let mut config = PublisherConfig::new(
        "loop".parse().unwrap(),
        "there".parse().unwrap(),
        string_schema(),
        4096,
    );
    config.qos = lasting(4);
    let mut there = Participant::open(there).unwrap().create_publisher(config).unwrap();
    let mut here = rig.publisher("loop", "here", string_schema(), 4096, &lasting(4));
    publish(&mut here, &string("abc"));
    publish(&mut there, &string("abcde"));
    let _node = rig.peer("pub rt/loop string 7 1 0 rt1");
    let mut listener = rig.peer("sub rt/loop string rt10");
    let mut subscription = rig.subscription("loop", &lasting(4));
    let mut heard = Vec::new();
    take(&mut subscription, 2, |payload, header| {
        heard.push((payload[4] - 1, header.remote.is_some()))
    });
    heard.sort_unstable();
    assert_eq!(heard, [(3, false), (7, true)], "its own, and that of the node");
    let lengths = |peer: &mut rig::Peer| {
        let mut lengths: Vec<_> = peer.samples().into_iter().map(|s| s.0).collect();
        lengths.sort_unstable();
        lengths
    };
    eventually("both gateways are heard", || lengths(&mut listener).len() >= 3);
    eventually("the other gateway's sample came, and was not taken", || {
        rig.dropped("loop", "gateway") == 1
    });
    eventually("what came was not sent back", || {
        rig.dropped("loop", "remote") == 0
            && rig.report().to_ros.first().is_some_and(|t| t.carried == 1)
    });
    // An echo would arrive after its original.
    publish(&mut hidden, &string("never"));
    publish(&mut here, &string("last one"));
    eventually("the last one", || lengths(&mut listener).contains(&8));
    assert_eq!(lengths(&mut listener), [3, 5, 7, 8]);
    assert!(private.samples().is_empty(), "no rule names it");
    assert!(
        subscription
            .take_next()
            .unwrap()
            .is_some_and(|s| s.payload()[4] == 9 && s.header().remote.is_none())
    );
    assert!(subscription.take_next().unwrap().is_none());
}

#[test]
fn stamps_are_of_a_simulation_where_that_is_asked_for() {
    const BEGIN: i64 = 1000;
    let rules = json!([
        { "topic": "/sensing/camera", "direction": "to_ros" },
        { "topic": "/sim", "direction": "from_ros" },
    ]);
    let ros2 = json!({ "domain_id": 19, "use_sim_time": true, "topics": rules });
    let rig = Rig::with(ros2, &[(CAMERA, 4096, Qos::default())]);
    let mut peer = rig.peer("sub rt/sensing/camera image bv1");
    let mut publisher =
        rig.publisher(CAMERA, "front/camera", Image::schema(), 4096, &Qos::default());
    eventually("received, without a stamp: the time is unknown", || {
        publish_image(&mut publisher, 8, 7);
        peer.last_stamp() == Some(0)
    });
    let began = Instant::now();
    let _clock = rig.peer(&format!("clock {BEGIN}"));
    let mut last = 0;
    eventually("stamped by the simulation", || {
        publish_image(&mut publisher, 8, 7);
        last = peer.last_stamp().unwrap_or(0);
        last != 0
    });
    let latest = BEGIN + 1 + began.elapsed().as_secs() as i64;
    assert!(
        (BEGIN - 1..=latest).contains(&last),
        "{last} is not in the simulation, which is at {latest} at most"
    );
    // Stamped when the simulation began, so its age is the time that the simulation has run.
    let mut subscription = rig.subscription("sim", &Qos::default());
    let _images = rig.peer(&format!("pub rt/sim image@{BEGIN} 8 3 10000 bv1"));
    take(&mut subscription, 1, |_, header| {
        let [origin] = header.origins.as_slice() else { panic!("{header:?}") };
        let age =
            header.publish_time.0.cast_signed().wrapping_sub(origin.source_oldest.0.cast_signed());
        assert!((0..=began.elapsed().as_nanos() as i64).contains(&age), "{age} ns");
    });
}

#[test]
fn the_health_of_a_run_reaches_ros_2_as_diagnostics() {
    use driveline_types::ProtobufMessage;
    let health = RunHealth {
        graph: "comp".into(),
        ready: true,
        phase: "running".into(),
        modules: vec![ModuleHealth {
            name: "perception".into(),
            state: "down".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let qos = reliable(1);
    let rules = json!([{ "topic": "/diagnostics", "direction": "to_ros" }]);
    let topic = "diagnostics";
    let rig = Rig::new(69, rules, &[(topic, 4096, qos.clone())]);
    let mut peer = rig.peer("sub rt/diagnostics diagnostics rv0");
    let mut publisher = rig.publisher(topic, "launcher", RunHealth::schema(), 4096, &qos);
    eventually("matched here", || publisher.matched() == 1);
    let payload = prost::Message::encode_to_vec(&health);
    // Samples written before DDS has matched do not reach this reader.
    eventually("two statuses", || {
        publish(&mut publisher, &payload);
        peer.samples().len() >= 2
    });
    let lines = peer.samples();
    let statuses: Vec<_> =
        lines[..2].iter().map(|(level, _, name)| (*level, name.as_str())).collect();
    assert_eq!(statuses, [(2, "comp"), (2, "comp/perception")]);
    let report = rig.report();
    let of = &report.to_ros[0].publishers[0];
    assert_eq!((of.ros_type.as_str(), of.converted), ("diagnostic_msgs/msg/DiagnosticArray", true));
}
