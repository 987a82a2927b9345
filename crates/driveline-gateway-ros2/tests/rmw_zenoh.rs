// SPDX-License-Identifier: Apache-2.0
//! Topics between Driveline and nodes on rmw_zenoh as seen on the wire, through a router of the
//! test; and between such nodes and nodes on DDS.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_msgs::{Image, ImageView};
use driveline_namespaces::Port;
use driveline_rosidl::{Catalog, parse_msg};
use driveline_types::{Plain, PlainRef, Qos};
use rig::rmw::{HUMBLE_STRING, IMAGE, Node, Router, STRING, image, pixels};
use rig::samples::{
    BIG, CAMERA, lasting, publish, publish_image, reliable, string, string_schema, take,
};
use rig::{PATIENCE, Rig, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// Starts a gateway without DDS, on this router.
fn rig(router: &Router, rules: Value, topics: &[(&str, u64, Qos)]) -> Rig {
    let zenoh = json!({ "connect": [router.endpoint()] });
    Rig::with(json!({ "domain_id": 0, "dds": false, "zenoh": zenoh, "topics": rules }), topics)
}

#[test]
fn pattern_matches_without_publishers_are_reported() {
    let router = Router::new();
    let rules = json!([
        { "topic": "/detector/*", "direction": "from_ros" },
        { "topic": "/named", "direction": "both" },
    ]);
    let rig = rig(
        &router,
        rules,
        &[("detector/boxes", 4096, Qos::default()), ("other", 4096, Qos::default())],
    );
    let topics: Vec<_> =
        rig.report().from_ros.into_iter().map(|t| (t.topic, t.publishers.len())).collect();
    assert_eq!(topics, [("detector/boxes".to_owned(), 0), ("named".to_owned(), 0)]);
}

#[test]
fn images_of_4_mib_pass_both_ways_whole_and_none_is_lost() {
    const COUNT: usize = 12;
    let router = Router::new();
    let rules = json!([
        { "topic": "/sensing/camera", "direction": "to_ros" },
        {
            "topic": "/back", "direction": "from_ros", "max_payload": "5 MiB",
            "qos": { "depth": COUNT },
        },
    ]);
    let qos = reliable(4);
    let rig = rig(&router, rules, &[(CAMERA, BIG as u64 + 4096, qos.clone())]);
    let node = Node::new(&router, 0, "viewer");
    let heard = node.subscription("/sensing/camera", IMAGE, "rv10");
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), BIG + 4096, &qos);
    // Waits before the first sample. Otherwise later samples could still be lost after one was
    // received.
    rig.is_read_by("/viewer");
    eventually("heard there", || {
        publish_image(&mut publisher, 8, 7);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        !heard.heard().is_empty()
    });
    assert_eq!(rig.report().to_ros[0].readers, ["/viewer"]);
    (0..COUNT).for_each(|n| publish_image(&mut publisher, BIG as u32, b'a' + n as u8));
    let big = || heard.heard().into_iter().filter(|h| h.payload.len() > BIG).collect::<Vec<_>>();
    eventually("all there", || big().len() == COUNT);
    for (n, sample) in big().iter().enumerate() {
        assert!(
            pixels(&sample.payload, BIG).iter().all(|b| *b == b'a' + n as u8),
            "sample {n} is whole"
        );
        assert_eq!(sample.payload.len() % 4, 0);
    }
    let numbers: Vec<_> = heard.heard().iter().map(|h| h.number).collect();
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "none is missing: {numbers:?}");
    let report = rig.report();
    let [of] = report.to_ros[0].publishers.as_slice() else { panic!("{report:?}") };
    assert_eq!(
        (of.node.as_str(), of.profile.as_str(), of.converted),
        ("front/camera", "rmw_zenoh", true)
    );

    let mut subscription = rig.subscription("back", &reliable(COUNT as u32));
    let mut back = node.publisher("/back", IMAGE, "rv0");
    eventually("asked for", || {
        back.matched()
            && rig.report().from_ros[0].publishers.len() == 1
            && subscription.matched() == 1
    });
    (0..COUNT).for_each(|n| back.publish(&image(BIG, b'a' + n as u8)));
    let mut n = 0;
    let missed = take(&mut subscription, COUNT, |payload, header| {
        let view = ImageView::new(PlainRef::new(payload).unwrap()).unwrap();
        assert_eq!((view.width() as usize, view.header().frame_index), (BIG, n));
        assert!(view.row(0).iter().all(|b| *b == b'a' + n as u8), "sample {n} is whole");
        let remote = header.remote.expect("it came from outside");
        assert_eq!(
            (remote.lost, header.clock_error_ns),
            (0, u64::MAX),
            "that host's clock is unknown"
        );
        n += 1;
    });
    assert_eq!(missed, 0);
    assert!(rig.report().from_ros[0].dropped.is_empty(), "{:?}", rig.report());
}

/// The message that a token has gone overtakes long samples in flight.
#[test]
fn the_last_images_of_publishers_that_go_at_once_are_taken() {
    let router = Router::new();
    let rules = json!([{ "topic": "/back", "direction": "from_ros", "max_payload": "5 MiB" }]);
    let rig = rig(&router, rules, &[]);
    let node = Node::new(&router, 0, "camera");
    // While this publisher exists, the topic stays open and its counters continue.
    let _stays = node.publisher("/back", IMAGE, "rv0");
    for n in 1..=6 {
        let mut goes = node.publisher("/back", IMAGE, "rv0");
        let of = || rig.report().from_ros[0].clone();
        eventually("asked for", || goes.matched() && of().publishers.len() == 2);
        (0..3).for_each(|_| goes.publish(&image(BIG, b'x')));
        drop(goes);
        eventually("gone", || of().publishers.len() == 1);
        eventually("taken", || of().carried == 3 * n);
        assert!(of().dropped.is_empty(), "{:?}", of());
    }
}

#[test]
fn strings_pass_both_ways_and_nothing_comes_back() {
    let router = Router::new();
    let rules = json!([{ "topic": "/chatter", "direction": "both" }]);
    let rig = rig(&router, rules, &[("chatter", 4096, Qos::default())]);
    let node = Node::new(&router, 0, "listener");
    let heard = node.subscription("/chatter", STRING, "bv10");
    let mut publisher =
        rig.publisher("chatter", "front/talker", string_schema(), 4096, &Qos::default());
    let mut subscription = rig.subscription("chatter", &Qos { depth: 64, ..Qos::default() });
    eventually("heard", || {
        publish(&mut publisher, &string("hello"));
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        !heard.heard().is_empty()
    });
    drop(publisher);
    while subscription.take_next().unwrap().is_some() {}
    let mut other = node.publisher("/chatter", STRING, "bv10");
    // Samples published before the gateway subscribes do not reach it.
    let mut said = Vec::new();
    eventually("asked for", || {
        other.publish(&rig::rmw::string("back"));
        said.push("back");
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        rig.report().from_ros[0].carried > 0 && subscription.matched() == 1
    });
    assert_eq!(
        rig.report().from_ros[0].publishers[0].node,
        "ros2/listener",
        "named after its node"
    );
    other.publish(&rig::rmw::string("last"));
    said.push("last");
    eventually("the last", || {
        let Some(sample) = subscription.take_next().unwrap() else { return false };
        assert!(sample.header().remote.is_some() && sample.payload().len() == 13);
        &sample.payload()[8..12] == b"last"
    });
    // An echo would take the same path as these samples, and arrive before them.
    let mut fence = rig.publisher("chatter", "front/fence", string_schema(), 4096, &Qos::default());
    eventually("behind any echo there", || {
        publish(&mut fence, &string("fence"));
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        heard.strings().last().is_some_and(|text| text == "fence")
    });
    other.publish(&rig::rmw::string("end"));
    said.push("end");
    let mut remote = Vec::new();
    eventually("behind any echo here", || {
        while let Some(sample) = subscription.take_next().unwrap() {
            if sample.header().remote.is_some() {
                remote.push(sample.payload()[8..11].to_vec());
            }
        }
        !remote.is_empty()
    });
    assert_eq!(remote, [b"end"]);
    // The node hears itself once, as without the gateway. Samples of publishers here may still
    // arrive after the node's own.
    let of_node: Vec<_> = heard
        .strings()
        .into_iter()
        .filter(|text| !["hello", "fence"].contains(&text.as_str()))
        .collect();
    assert_eq!(of_node, said);
    let from_ros = &rig.report().from_ros[0];
    assert_eq!((from_ros.across, from_ros.dropped.len()), (0, 0), "{from_ros:?}");
    assert!(from_ros.carried <= said.len() as u64, "{from_ros:?}");
    assert_eq!(rig.dropped("chatter", "remote"), 0);
}

#[test]
fn nodes_see_each_other_in_the_graph() {
    let router = Router::new();
    let rules = json!([
        { "topic": "/chatter", "direction": "to_ros" },
        { "topic": "/in", "direction": "from_ros" },
    ]);
    let rig = rig(&router, rules, &[("chatter", 4096, Qos::default())]);
    let node = Node::new(&router, 0, "observer");
    let publishers: Vec<_> = ["front/talker", "front/talker", "rear/talker"]
        .map(|n| rig.publisher("chatter", n, string_schema(), 4096, &lasting(3)))
        .into();
    let incoming = node.publisher("/in", STRING, "rt5");
    let (name, hash) = STRING;
    let fields = |kind: &str, part: &str| {
        node.graph().into_iter().filter(|t| t.contains(kind) && t.contains(part)).count()
    };
    let of = |topic: &str, qos: &str| format!("/%{topic}/{name}/{hash}/{qos}");
    eventually("publishers with type, hash and QoS", || {
        fields("/MP/%driveline_gateway/%front/talker/", &of("chatter", ":1:,3:,:,:,,")) == 2
    });
    eventually("one node for both", || {
        fields("/NN/%driveline_gateway/%front/talker", "") == 1
            && fields("/NN/%driveline_gateway/%rear/talker", "") == 1
    });
    eventually("the subscription", || {
        fields("/MS/%driveline_gateway/%/driveline/", &of("in", ":1:2,:,:,:,,")) == 1
    });
    eventually("the reverse", || rig.report().nodes == 1);
    // A subscription here is shown with its node.
    let subscription = rig.subscription("in", &lasting(4));
    eventually("the node that subscribes", || {
        fields("/MS/%driveline_gateway/%/reader/", &of("in", ":1:2,:,:,:,,")) == 1
    });
    drop(subscription);
    eventually("which it does no more", || fields("/MS/%driveline_gateway/%/reader/", "") == 0);
    drop(publishers);
    drop(incoming);
    eventually("gone", || fields("/%driveline_gateway/", "") == 0);
    eventually("gone here, too", || rig.report().from_ros[0].publishers.is_empty());
}

#[test]
fn late_joiners_get_the_last_of_every_publisher() {
    let router = Router::new();
    let rules = json!([
        { "topic": "/tf_out", "direction": "to_ros" },
        { "topic": "/fast_out", "direction": "to_ros" },
        { "topic": "/tf_in", "direction": "from_ros" },
    ]);
    let fast = Qos { durability: driveline_types::Durability::TransientLocal, ..Qos::default() };
    let rig =
        rig(&router, rules, &[("tf_out", 4096, lasting(1)), ("fast_out", 4096, fast.clone())]);
    let node = Node::new(&router, 0, "tf");
    for (topic, qos, of) in [("tf_out", lasting(1), "rt10"), ("fast_out", fast, "bt10")] {
        let mut publishers: Vec<_> = (1..=3)
            .map(|n| rig.publisher(topic, &format!("static_{n}"), string_schema(), 4096, &qos))
            .collect();
        // The last publisher publishes first: if samples were ordered by timestamps alone, only the
        // newest sample would be read.
        publishers
            .iter_mut()
            .enumerate()
            .rev()
            .for_each(|(n, p)| publish(p, &string(&"x".repeat(n + 1))));
        eventually("carried", || {
            rig.report().to_ros.iter().any(|t| t.topic == topic && t.carried == 3)
        });
        let late = node.subscription(&format!("/{topic}"), STRING, of);
        let sorted = || {
            let mut all = late.strings();
            all.sort();
            all
        };
        eventually("complete", || late.heard().len() == 3);
        assert_eq!(
            sorted(),
            ["x", "xx", "xxx"],
            "{topic}: one of each, although each came after the others"
        );
        let shallow = node.subscription(&format!("/{topic}"), STRING, &format!("{}t1", &of[..1]));
        eventually("complete with depth 1", || shallow.heard().len() == 3);
        publish(&mut publishers[0], &string("new"));
        eventually("what comes later", || sorted() == ["new", "x", "xx", "xxx"]);
    }

    // Two publishers of one session and one of another, before the gateway subscribes.
    let other = Node::new(&router, 0, "other");
    let mut there: Vec<_> =
        [&node, &node, &other].map(|n| n.publisher("/tf_in", STRING, "rt1")).into();
    for (n, publisher) in there.iter_mut().enumerate() {
        publisher.publish(&rig::rmw::string("old"));
        publisher.publish(&rig::rmw::string(&"y".repeat(n + 1)));
    }
    eventually("here", || {
        rig.report().from_ros[0].carried >= 3 && rig.report().from_ros[0].publishers.len() == 3
    });
    // The gateway may have subscribed in time for an old sample, and not have the next one yet.
    eventually("the last of each", || {
        let mut subscription = rig.subscription("tf_in", &lasting(4));
        let mut found = Vec::new();
        take(&mut subscription, 3, |payload, _| found.push((payload[8], payload[4] - 1)));
        found.sort_unstable();
        found == [(b'y', 1), (b'y', 2), (b'y', 3)]
    });
    // The next gateway receives the samples again, from caches.
    let mut rig = rig;
    rig.start();
    eventually("here again", || rig.report().from_ros[0].carried == 3);
    let mut subscription = rig.subscription("tf_in", &lasting(4));
    let mut again = Vec::new();
    take(&mut subscription, 3, |payload, _| again.push(payload[4] - 1));
    again.sort_unstable();
    assert_eq!(again, [1, 2, 3]);
}

#[test]
fn a_thousand_a_second_arrive_and_none_is_lost() {
    const COUNT: usize = 3000;
    let router = Router::new();
    // The gateway has room for 4096 such samples. With the default maximum of 256 KiB it has room
    // for 512, which arrive in half a second, and its thread may get no processor for so long.
    let rig = rig(
        &router,
        json!([{
            "topic": "/imu", "direction": "from_ros", "max_payload": "1 KiB",
            "qos": { "depth": 1024 },
        }]),
        &[],
    );
    let mut subscription = rig.subscription("imu", &reliable(1024));
    let node = Node::new(&router, 0, "imu");
    let mut publisher = node.publisher("/imu", STRING, "rv0");
    eventually("asked for", || {
        publisher.matched()
            && rig.report().from_ros[0].publishers.len() == 1
            && subscription.matched() == 1
    });
    let sender = std::thread::spawn(move || {
        for n in 0..COUNT {
            publisher.publish(&rig::rmw::string(&format!("{n:08}")));
            // time: paces the publisher
            std::thread::sleep(Duration::from_micros(900));
        }
        publisher
    });
    let mut n = 0;
    let missed = take(&mut subscription, COUNT, |payload, header| {
        assert_eq!(
            (&payload[8..16], header.remote.unwrap().lost),
            (format!("{n:08}").as_bytes(), 0),
            "all of them, in order"
        );
        n += 1;
    });
    assert_eq!(missed, 0, "reliable on the whole way, and deep enough for it");
    assert!(rig.report().from_ros[0].dropped.is_empty(), "{:?}", rig.report());
    drop(sender.join().unwrap());
}

#[test]
fn a_thousand_a_second_reach_nodes_and_none_is_lost() {
    const COUNT: usize = 3000;
    let (router, qos) = (Router::new(), reliable(1024));
    let rig = rig(
        &router,
        json!([{ "topic": "/imu", "direction": "to_ros" }]),
        &[("imu", 4096, qos.clone())],
    );
    let node = Node::new(&router, 0, "listener");
    let heard = node.subscription("/imu", STRING, "rv0");
    let mut publisher = rig.publisher("imu", "imu", string_schema(), 4096, &qos);
    rig.is_read_by("/listener");
    let texts: Vec<String> = (0..COUNT).map(|n| format!("{n:08}")).collect();
    for text in &texts {
        publish(&mut publisher, &string(text));
        // time: paces the publisher
        std::thread::sleep(Duration::from_micros(900));
    }
    eventually("the last", || heard.strings().last() == texts.last());
    assert_eq!(heard.strings(), texts, "each once, in order");
    assert!(rig.report().to_ros[0].dropped.is_empty(), "{:?}", rig.report());
}

#[test]
fn hostile_and_unfit_samples_are_counted() {
    let router = Router::new();
    let rig =
        rig(&router, json!([{ "topic": "/in", "direction": "from_ros", "max_payload": 64 }]), &[]);
    let node = Node::new(&router, 0, "attacker");
    let mut publisher = node.publisher("/in", STRING, "rv10");
    eventually("asked for", || {
        publisher.matched() && rig.report().from_ros[0].publishers.len() == 1
    });
    let good = rig::rmw::string("good");
    publisher.publish(&good);
    eventually("carried", || rig.report().from_ros[0].carried == 1);
    node.put("/in", STRING, &good, None);
    node.put("/in", STRING, &good, Some(&[0; 77]));
    node.put("/in", STRING, &good, Some(&[]));
    eventually("attachments", || rig.dropped("in", "attachment") == 3);
    publisher.publish(&rig::rmw::string(&"long".repeat(30)));
    // Longer than the limit of the topic, but not than Zenoh's.
    publisher.publish(&rig::rmw::string(&"long".repeat(3000)));
    eventually("too long", || rig.dropped("in", "too_long") == 2);
    publisher.publish(&[0]);
    publisher.publish(&[0, 7, 0, 0, 1]);
    publisher.publish(&[]);
    let broken = || rig.report().from_ros[0].dropped.values().sum::<u64>();
    eventually("broken", || broken() == 8);
    publisher.sequence = 1;
    publisher.publish(&good);
    eventually("duplicate", || rig.dropped("in", "duplicate") == 1);
    publisher.sequence = 104;
    publisher.publish(&good);
    eventually("a gap", || rig.dropped("in", "lost") == 98);
    publisher.gid = [0xaa; 16];
    publisher.publish(&good);
    eventually("of no publisher", || rig.dropped("in", "unknown") == 1);
    let _token = node.declare("@ros2_lv/0/1/2/3/MP/%/%/x/%in/t/h/9:9:9,9:,:,:,,");
    let _odd = node.declare("@ros2_lv/0/nonsense");
    eventually("logged", || rig.logged("is ignored; further unreadable announcements"));
    eventually("and counted", || rig.report().malformed_tokens == 2);
    assert_eq!(rig.report().from_ros[0].carried, 2);
}

#[test]
fn samples_published_without_a_token_are_lost_and_counted() {
    let router = Router::new();
    let rig = rig(&router, json!([{ "topic": "/in", "direction": "from_ros" }]), &[]);
    let node = Node::new(&router, 0, "far");
    let mut publisher = node.publisher("/in", STRING, "rv10");
    eventually("asked for", || {
        publisher.matched() && rig.report().from_ros[0].publishers.len() == 1
    });
    (0..3).for_each(|_| publisher.publish(&rig::rmw::string("here")));
    eventually("carried", || rig.report().from_ros[0].carried == 3);
    publisher.away();
    eventually("gone", || rig.report().from_ros[0].publishers.is_empty() && !publisher.matched());
    (0..5).for_each(|_| publisher.publish(&rig::rmw::string("without a reader")));
    publisher.back(&node);
    eventually("back", || publisher.matched() && rig.report().from_ros[0].publishers.len() == 1);
    let mut subscription = rig.subscription("in", &Qos::default());
    eventually("matched", || subscription.matched() == 1);
    publisher.publish(&rig::rmw::string("again"));
    take(&mut subscription, 1, |_, header| assert_eq!(header.remote.unwrap().lost, 5));
    assert_eq!(rig.dropped("in", "lost"), 5);
}

/// The next remote publisher receives the history of the departed one again.
#[test]
fn history_of_a_publisher_that_comes_back_is_no_loss_and_no_duplicate() {
    let router = Router::new();
    let rig = rig(&router, json!([{ "topic": "/in", "direction": "from_ros" }]), &[]);
    let node = Node::new(&router, 0, "far");
    let mut publisher = node.publisher("/in", STRING, "rt2");
    (0..3).for_each(|n| publisher.publish(&rig::rmw::string(&format!("sample {n}"))));
    // The publisher keeps two samples. If the gateway has subscribed early, it carries the first
    // one too.
    eventually("carried", || rig.report().from_ros[0].carried >= 2);
    publisher.away();
    eventually("gone", || rig.report().from_ros[0].publishers.is_empty());
    publisher.back(&node);
    eventually("back", || rig.report().from_ros[0].publishers.len() == 1);
    let mut subscription = rig.subscription("in", &lasting(4));
    let mut last = Vec::new();
    take(&mut subscription, 2, |payload, _| last.push(payload[8 + 7]));
    assert_eq!((last.as_slice(), rig.dropped("in", "lost")), (&b"12"[..], 0));
}

/// While the publisher is away, the gateway's subscription exists for the other publisher. It has
/// already received the samples that the publisher keeps.
#[test]
fn history_of_a_publisher_that_comes_back_while_others_are_there_is_complete() {
    let router = Router::new();
    let rig = rig(&router, json!([{ "topic": "/in", "direction": "from_ros" }]), &[]);
    let node = Node::new(&router, 0, "far");
    let [mut goes, mut stays] = ["goes", "stays"].map(|_| node.publisher("/in", STRING, "rt2"));
    eventually("asked for", || goes.matched() && rig.report().from_ros[0].publishers.len() == 2);
    for n in 0..3 {
        goes.publish(&rig::rmw::string(&format!("goes {n}")));
        stays.publish(&rig::rmw::string(&format!("stays {n}")));
    }
    eventually("carried", || rig.report().from_ros[0].carried == 6);
    goes.away();
    eventually("gone", || rig.report().from_ros[0].publishers.len() == 1);
    goes.back(&node);
    eventually("back", || rig.report().from_ros[0].carried == 8);
    let mut subscription = rig.subscription("in", &lasting(8));
    let mut kept = Vec::new();
    take(&mut subscription, 4, |payload, _| {
        kept.push(String::from_utf8_lossy(&payload[8..]).trim_end_matches('\0').to_owned())
    });
    kept.sort();
    assert_eq!(kept, ["goes 1", "goes 2", "stays 1", "stays 2"]);
    assert_eq!(rig.dropped("in", "lost"), 0);
}

#[test]
fn other_definitions_are_refused_and_weaker_offers_are_reported() {
    let router = Router::new();
    let rules = json!([
        { "topic": "/chatter", "direction": "to_ros" },
        { "topic": "/in", "direction": "from_ros" },
    ]);
    let rig = rig(&router, rules, &[("chatter", 4096, Qos::default())]);
    let node = Node::new(&router, 0, "old");
    let hash = format!("RIHS01_{}", "0".repeat(64));
    let _strange = node.publisher("/in", (STRING.0, &hash), "rv10");
    eventually("refused", || {
        rig.refused().iter().any(|r| !r.outgoing && r.host == "/old" && r.reason.contains(&hash))
    });
    let _publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &Qos::default());
    let deaf = node.subscription("/chatter", (STRING.0, &hash), "bv10");
    eventually("logged", || rig.logged("gets nothing: TYPE HASH: the writer's is RIHS01_df66"));
    assert!(rig.refused().iter().any(|r| r.outgoing && r.subscription && r.host == "/old"));
    drop(deaf);
    eventually("forgotten", || rig.refused().iter().all(|r| !r.outgoing));
    let _demanding = node.subscription("/chatter", STRING, "rt10");
    eventually("logged", || {
        rig.logged(
            "but not as requested: RELIABILITY: the writer offers best_effort, the reader \
             requests reliable",
        )
    });
    assert!(rig.refused().iter().all(|r| !r.outgoing), "it gets samples: {:?}", rig.refused());
    eventually("counted among the readers", || rig.report().to_ros[0].readers == ["/old"]);
}

#[test]
fn humble_has_no_hashes() {
    let router = Router::new();
    let rules = json!([{ "topic": "/chatter", "direction": "both" }]);
    let zenoh = json!({ "connect": [router.endpoint()] });
    let ros2 = json!({
        "domain_id": 5, "dds": false, "zenoh": zenoh, "release": "humble", "topics": rules,
    });
    let rig = Rig::with(ros2, &[("chatter", 4096, lasting(4))]);
    let node = Node::new(&router, 5, "humble");
    let heard = node.subscription("/chatter", HUMBLE_STRING, "rt10");
    let mut publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &lasting(4));
    publish(&mut publisher, &string("hello"));
    eventually("heard", || heard.strings() == ["hello"]);
    let mut subscription = rig.subscription("chatter", &lasting(4));
    take(&mut subscription, 1, |_, _| {});
    let mut back = node.publisher("/chatter", HUMBLE_STRING, "rt1");
    back.publish(&rig::rmw::string("back"));
    take(&mut subscription, 1, |payload, _| assert_eq!(&payload[8..12], b"back"));
}

#[test]
fn an_address_that_cannot_be_listened_on_is_reported_with_the_remedy() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp/{}", taken.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let ros2 = json!({ "dds": false, "zenoh": { "connect": [], "listen": [&endpoint] } });
    let config = serde_json::from_value(json!({ "domain_dir": dir.path(), "ros2": ros2 })).unwrap();
    let reported = driveline_gateway_ros2::engine::Gateway::start(config)
        .err()
        .expect("another program has the port")
        .to_string();
    assert!(
        reported.contains(&endpoint)
            && reported.contains("ss -lntp")
            && reported.contains("ros2.zenoh.listen"),
        "{reported}"
    );
}

#[test]
fn the_gateway_finds_a_router_that_comes_later() {
    let port = Port::new().unwrap();
    let endpoint = port.endpoint();
    let zenoh = json!({ "connect": [endpoint], "listen": ["tcp/127.0.0.1:0"] });
    let rules = json!([{ "topic": "/in", "direction": "from_ros" }]);
    let rig =
        Rig::with(json!({ "domain_id": 0, "dds": false, "zenoh": zenoh, "topics": rules }), &[]);
    assert_eq!(rig.neighbours(), (0, 0));
    eventually("missed", || rig.logged(&format!("no Zenoh router answers at {endpoint}")));
    let router = Router::at(&endpoint);
    let node = Node::new(&router, 0, "late");
    let _publisher = node.publisher("/in", STRING, "rv10");
    eventually("found", || {
        rig.neighbours() == (1, 1) && rig.report().from_ros[0].publishers.len() == 1
    });
    eventually("logged", || rig.logged("a Zenoh router or node is reached"));
}

#[test]
fn a_simulation_s_clock_is_heard_over_zenoh() {
    let name = "rosgraph_msgs/msg/Clock".parse().unwrap();
    let mut catalog = Catalog::new();
    for (name, text) in [
        ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec\n"),
        ("rosgraph_msgs/msg/Clock", "builtin_interfaces/Time clock\n"),
    ] {
        catalog.add_message(parse_msg(&name.parse().unwrap(), "test", text).unwrap()).unwrap();
    }
    let hash = catalog.type_hash(&name).unwrap().to_string();
    let router = Router::new();
    let zenoh = json!({ "connect": [router.endpoint()] });
    let rules = json!([{ "topic": "/sensing/camera", "direction": "to_ros" }]);
    let rig = Rig::with(
        json!({
            "domain_id": 0, "dds": false, "use_sim_time": true, "zenoh": zenoh, "topics": rules,
        }),
        &[(CAMERA, 4096, Qos::default())],
    );
    let node = Node::new(&router, 0, "simulator");
    let heard = node.subscription("/sensing/camera", IMAGE, "bv1");
    let mut clock = node.publisher("/clock", ("rosgraph_msgs::msg::dds_::Clock_", &hash), "rv1");
    let mut publisher =
        rig.publisher(CAMERA, "front/camera", Image::schema(), 4096, &Qos::default());
    // 77 s and 5 ns, little endian, after the encapsulation.
    let time = [&[0, 1, 0, 0][..], &77_i32.to_le_bytes(), &5_u32.to_le_bytes()].concat();
    eventually("stamped by the simulation", || {
        clock.publish(&time);
        publish_image(&mut publisher, 8, 7);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        // Stamped just before the last clock message, or after it while there are no more.
        heard.heard().last().is_some_and(|h| {
            (76..=77 + PATIENCE.as_secs() as i32)
                .contains(&i32::from_le_bytes(h.payload[4..8].try_into().unwrap()))
        })
    });
}

#[test]
fn all_configuration_errors_are_reported_before_anything_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({
        "domain": "\u{1b}[31mcar",
        "domain_dir": dir.path().join("domain"),
        "ros2": { "dds": false, "zenoh": {}, "topics": [{ "topic": "/a", "direction": "to_ros" }] },
        "topics": [
            { "topic": "a", "max_payload": 8 },
            { "topic": "a", "max_payload": 8, "pins": 0 },
        ],
    });
    let file = dir.path().join("config.json");
    std::fs::write(&file, config.to_string()).unwrap();
    // Nothing here ends the process: it has to end by itself.
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_driveline-gateway-ros2"))
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    for says in [
        "has 3 mistakes",
        "domain: ` [31mcar` has control characters",
        "topics[1].topic: `a` is the topic of topics[0]",
        "topics[1].pins: 0",
    ] {
        assert!(said.contains(says), "{says:?} is not in\n{said}");
    }
    assert!(
        !said.chars().any(|c| c.is_control() && c != '\n') && !dir.path().join("domain").exists(),
        "{said:?}"
    );
}
