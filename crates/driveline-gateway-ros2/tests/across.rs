// SPDX-License-Identifier: Apache-2.0
//! A node on DDS and a node on rmw_zenoh communicate through one gateway. Nothing loops, and no
//! other gateway takes part.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_types::Qos;
use rig::calls::{ADD, ADD_DDS, add, call, cdr, client, domain, hash, serve, sum_of, two};
use rig::rmw::{IMAGE, Node, Router, STRING, framed_image, image, pixels};
use rig::samples::{BIG, lasting, publish, reliable, string, string_schema, take};
use rig::{Rig, eventually, sum};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts a gateway with both profiles. `domain_id`: used by this test alone.
fn both(router: &Router, domain_id: u32, rules: Value, topics: &[(&str, u64, Qos)]) -> Rig {
    let zenoh = json!({ "connect": [router.endpoint()] });
    Rig::with(json!({ "domain_id": domain_id, "zenoh": zenoh, "topics": rules }), topics)
}

fn lengths(peer: &mut rig::Peer) -> Vec<usize> {
    let mut lengths: Vec<_> = peer.samples().into_iter().map(|s| s.0).collect();
    lengths.sort_unstable();
    lengths
}

/// DDS considers the killed node alive until its lease ends, which is after this test.
#[test]
fn a_dead_reader_on_one_profile_holds_up_neither_this_host_nor_another_reader() {
    const COUNT: usize = 40;
    const LEN: usize = 1 << 20;
    let router = Router::new();
    let rig = both(
        &router,
        43,
        json!([{ "topic": "/camera", "direction": "both", "max_payload": "2 MiB" }]),
        &[],
    );
    let node = Node::new(&router, 43, "camera");
    let mut publisher = node.publisher("/camera", IMAGE, "rv10");
    let mut subscription = rig.subscription("camera", &reliable(10));
    let mut dies = rig.peer_that_is_missed("sub rt/camera image rv0");
    let mut stays = rig.peer("sub rt/camera image rv0");
    eventually("asked for", || publisher.matched());
    // The next one follows when this host has the one before, so none is rejected because the
    // gateway has no room for it. The first ones may pass before the gateway reads.
    let (mut published, mut heard, mut polls) = (0, 0, 0);
    eventually("all hear it", || {
        if published == heard || polls % 50 == 0 {
            publisher.publish(&image(8, b'x'));
            published += 1;
        }
        polls += 1;
        heard += std::iter::from_fn(|| subscription.take_next().unwrap()).count();
        heard > 0 && !dies.samples().is_empty() && !stays.samples().is_empty()
    });
    drop(dies);
    let big = |peer: &mut rig::Peer| peer.samples().iter().filter(|s| s.0 == LEN).count();
    for n in 1..=COUNT {
        publisher.publish(&image(LEN, b'y'));
        let mut taken = 0;
        eventually(&format!("image {n} is here"), || {
            while let Some(sample) = subscription.take_next().unwrap() {
                assert_eq!(sample.missed(), 0);
                taken += usize::from(sample.payload().len() > LEN);
            }
            taken == 1
        });
        eventually(&format!("image {n} is on the other profile"), || big(&mut stays) == n);
    }
    // The gateway counts a sample after it has passed it on.
    let mut of = rig.report().from_ros.remove(0);
    eventually("counted", || {
        of = rig.report().from_ros.remove(0);
        of.carried == of.across && of.replaced >= COUNT as u64 - 10
    });
    assert!(of.dropped.is_empty(), "{of:?}");
}

/// DDS → Driveline → rmw_zenoh → Driveline → DDS.
#[test]
fn a_dds_node_and_a_zenoh_node_communicate_without_an_echo() {
    const COUNT: usize = 20;
    /// Number of samples of each publisher that the gateway keeps for late joiners.
    const KEPT: usize = 16;
    let router = Router::new();
    let rules = json!([{ "topic": "/talk/*", "direction": "both" }]);
    let rig = both(&router, 30, rules, &[]);
    let node = Node::new(&router, 30, "answerer");
    let asked = node.subscription("/talk/ask", STRING, "rt100");
    let mut answers = node.publisher("/talk/answer", STRING, "rt100");
    let mut dds_answers = rig.peer("sub rt/talk/answer string rt100");
    let mut dds_asked = rig.peer("sub rt/talk/ask string rt100");
    let answered = node.subscription("/talk/answer", STRING, "rt100");
    // Published before the gateway knows the publisher: all samples are kept.
    let _asker = rig.peer(&format!("pub rt/talk/ask string 9 {COUNT} 2000 rt{COUNT}"));
    let answer = |question: &str| format!("{question} {}", "!".repeat(10));
    let last = sum(answer(&char::from(b'a' + COUNT as u8 - 1).to_string().repeat(9)).as_bytes());
    let mut done = 0;
    eventually("the last question is answered, and its answer heard", || {
        let questions = asked.strings();
        questions[done..]
            .iter()
            .for_each(|question| answers.publish(&rig::rmw::string(&answer(question))));
        done = questions.len();
        dds_answers.samples().iter().any(|s| s.1 == last)
    });
    // An echo would take the same path as these samples, and arrive before them.
    const FENCE: &str = "fence";
    let _fence = rig.peer(&format!("pub rt/talk/answer string {} 1 0 rt1", FENCE.len()));
    let mut fence = node.publisher("/talk/ask", STRING, "rt1");
    fence.publish(&rig::rmw::string(FENCE));
    let of_fence = |peer: &mut rig::Peer| peer.samples().iter().any(|s| s.0 == FENCE.len());
    eventually("behind any echo", || {
        of_fence(&mut dds_asked) && answered.strings().iter().any(|text| text.len() == FENCE.len())
    });
    // A late joiner receives the last samples; one that joins earlier receives more. Each sample
    // comes once and in order.
    let questions: Vec<_> = asked.strings().into_iter().filter(|text| text != FENCE).collect();
    assert!(
        questions.len() >= KEPT,
        "{} questions, {KEPT} of which were kept: {questions:?}",
        questions.len()
    );
    let expected: Vec<_> = (COUNT - questions.len()..COUNT)
        .map(|n| char::from(b'a' + n as u8).to_string().repeat(9))
        .collect();
    assert_eq!(questions, expected, "each once, in order");
    let heard: Vec<_> = dds_answers
        .samples()
        .into_iter()
        .map(|s| (s.0, s.1))
        .filter(|s| s.0 != FENCE.len())
        .collect();
    assert!(heard.len() >= KEPT, "{} answers, {KEPT} of which were kept: {heard:?}", heard.len());
    let said: Vec<_> = questions.iter().map(|q| (20, sum(answer(q).as_bytes()))).collect();
    assert_eq!(heard, said[said.len() - heard.len()..], "each once, in order");
    // The node on DDS receives the questions directly from their publisher, each once. So the fence
    // does not show that all have arrived; their number does.
    eventually("all questions heard on DDS", || dds_asked.samples().len() > COUNT);
    assert_eq!(
        (dds_asked.samples().len(), answered.heard().len()),
        (COUNT + 1, questions.len() + 1)
    );
    // The gateway counts a sample after it has passed it on.
    eventually("counted", || rig.report().from_ros.iter().all(|t| t.carried == t.across));
    let report = rig.report();
    for topic in &report.from_ros {
        assert!(topic.across > 0 && topic.publishers.len() == 2, "{report:?}");
        assert!(topic.dropped.keys().all(|reason| reason == "duplicate"), "{report:?}");
    }
}

#[test]
fn every_end_of_a_topic_hears_every_other_end_once() {
    let router = Router::new();
    let rules = json!([{ "topic": "/loop", "direction": "both" }]);
    let rig = both(&router, 31, rules.clone(), &[("loop", 4096, lasting(4))]);
    // Another domain of Driveline, whose gateway serves the same Zenoh network.
    let other = Other::new(
        &rig,
        &json!({
            "domain_id": 31, "dds": false, "zenoh": { "connect": [router.endpoint()] },
            "topics": rules,
        }),
    );
    let node = Node::new(&router, 31, "zenoh_node");
    let zenoh_heard = node.subscription("/loop", STRING, "rt10");
    let mut dds_heard = rig.peer("sub rt/loop string rt10");
    let mut here = rig.publisher("loop", "here", string_schema(), 4096, &lasting(4));
    let mut there = other.publisher("loop");
    publish(&mut here, &string("abc"));
    publish(&mut there, &string("abcde"));
    let _dds_node = rig.peer("pub rt/loop string 7 1 0 rt1");
    let mut zenoh_node = node.publisher("/loop", STRING, "rt1");
    zenoh_node.publish(&rig::rmw::string("zenohnode"));
    // Lengths: 3 from here, 5 from the other domain, 7 from the node on DDS, 9 from the node on
    // rmw_zenoh.
    let zenoh_lengths = || {
        let mut lengths: Vec<_> = zenoh_heard.strings().iter().map(String::len).collect();
        lengths.sort_unstable();
        lengths
    };
    let mut subscription = rig.subscription("loop", &lasting(4));
    eventually("DDS", || lengths(&mut dds_heard) == [3, 7, 9]);
    eventually("Zenoh", || zenoh_lengths() == [3, 5, 7, 9]);
    eventually("the other gateway's samples came, and were not taken", || {
        rig.dropped("loop", "gateway") >= 1
    });
    let mut three = || {
        let mut heard = Vec::new();
        take(&mut subscription, 3, |payload, header| {
            heard.push((payload[4] - 1, header.remote.is_some()))
        });
        heard.sort_unstable();
        heard
    };
    assert_eq!(three(), [(3, false), (7, true), (9, true)]);
    // Once more by each path, with distinct lengths. An echo of an earlier sample would arrive
    // before these samples.
    publish(&mut here, &string(&"h".repeat(11)));
    publish(&mut there, &string(&"t".repeat(13)));
    zenoh_node.publish(&rig::rmw::string(&"z".repeat(15)));
    let _dds_node_again = rig.peer("pub rt/loop string 17 1 0 rt1");
    eventually("DDS again", || lengths(&mut dds_heard).ends_with(&[11, 15, 17]));
    eventually("Zenoh again", || zenoh_lengths().ends_with(&[11, 13, 15, 17]));
    assert_eq!(three(), [(11, false), (15, true), (17, true)]);
    assert_eq!(
        (lengths(&mut dds_heard), zenoh_lengths()),
        (vec![3, 7, 9, 11, 15, 17], vec![3, 5, 7, 9, 11, 13, 15, 17])
    );
    assert!(subscription.take_next().unwrap().is_none());
    assert_eq!(rig.dropped("loop", "remote"), 0);
    let reasons: Vec<_> = rig
        .report()
        .from_ros
        .iter()
        .flat_map(|t| t.dropped.keys().cloned().collect::<Vec<_>>())
        .collect();
    assert!(
        reasons.iter().all(|r| ["gateway", "duplicate"].contains(&r.as_str())),
        "the gateway does not receive its own samples: {reasons:?}"
    );
    let named = |part: &str| node.graph().iter().any(|t| t.contains("/MP/") && t.contains(part));
    eventually("both are in the graph", || {
        named("/%driveline_gateway/%/here/%loop/") && named("/%driveline_gateway/%/there/%loop/")
    });
    // Killed, not ended in order.
    drop(other);
    eventually("gone from the graph", || !named("/%driveline_gateway/%/there/%loop/"));
    publish(&mut here, &string("last one"));
    eventually("the others go on", || {
        lengths(&mut dds_heard) == [3, 7, 8, 9, 11, 15, 17]
            && zenoh_lengths() == [3, 5, 7, 8, 9, 11, 13, 15, 17]
    });
}

#[test]
fn images_of_4_mib_pass_between_the_profiles_both_ways_and_none_is_lost() {
    const COUNT: usize = 8;
    let router = Router::new();
    let rules = json!([
        {
            "topic": "/image/*", "direction": "both", "max_payload": "5 MiB",
            "qos": { "depth": COUNT },
        },
    ]);
    let rig = both(&router, 32, rules, &[]);
    let node = Node::new(&router, 32, "camera");
    let heard = node.subscription("/image/from_dds", IMAGE, "rt10");
    let _peer = rig.peer(&format!("pub rt/image/from_dds image {BIG} {COUNT} 20000 rt{COUNT}"));
    eventually("to rmw_zenoh", || heard.heard().len() == COUNT);
    for (n, sample) in heard.heard().iter().enumerate() {
        assert!(
            sample.number == n as i64 + 1
                && pixels(&sample.payload, BIG).iter().all(|b| *b == b'a' + n as u8),
            "sample {n} is whole"
        );
    }
    let mut peer = rig.peer("sub rt/image/from_zenoh image rv0");
    let mut publisher = node.publisher("/image/from_zenoh", IMAGE, "rv0");
    eventually("asked for", || {
        publisher.matched()
            && rig
                .report()
                .from_ros
                .iter()
                .any(|t| t.topic == "image/from_zenoh" && t.publishers.len() == 1)
    });
    // Samples written before DDS has matched do not reach this reader.
    eventually("matched there", || {
        publisher.publish(&image(8, 7));
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(20));
        !peer.samples().is_empty()
    });
    (0..COUNT).for_each(|n| publisher.publish(&image(BIG, b'a' + n as u8)));
    let big = |peer: &mut rig::Peer| {
        peer.samples().into_iter().filter(|s| s.0 == BIG).collect::<Vec<_>>()
    };
    eventually("to DDS", || big(&mut peer).len() == COUNT);
    let expected: Vec<_> =
        (0..COUNT).map(|n| (BIG, sum(&vec![b'a' + n as u8; BIG]), "cam".to_owned())).collect();
    assert_eq!(big(&mut peer), expected);
    let report = rig.report();
    assert!(report.from_ros.iter().all(|t| t.dropped.is_empty()), "{report:?}");
}

/// Broken samples end at the gateway; samples that only Driveline cannot represent pass.
#[test]
fn broken_samples_do_not_pass_between_the_profiles() {
    let router = Router::new();
    let rig = both(&router, 42, json!([{ "topic": "/image", "direction": "both" }]), &[]);
    let node = Node::new(&router, 42, "camera");
    let mut peer = rig.peer("sub rt/image image rt10");
    let mut publisher = node.publisher("/image", IMAGE, "rt10");
    eventually("asked for", || {
        publisher.matched() && rig.report().from_ros.iter().any(|t| t.publishers.len() == 1)
    });
    let good = image(64, b'a');
    [&good, &good[..100], &framed_image(&"f".repeat(48), 64, b'b'), &image(64, b'c')]
        .iter()
        .for_each(|sample| publisher.publish(sample));
    let expected = [(b'a', "cam".to_owned()), (b'b', "f".repeat(48)), (b'c', "cam".to_owned())]
        .map(|(fill, frame)| (64, sum(&[fill; 64]), frame));
    eventually("the last", || peer.samples().last() == expected.last());
    assert_eq!(peer.samples(), expected);
    // The gateway counts a sample after it has passed it on.
    eventually("counted", || rig.report().from_ros[0].across == expected.len() as u64);
    let of = &rig.report().from_ros[0];
    // A sample also counts as a duplicate if the publisher's history repeats what has arrived.
    let dropped: Vec<_> = of
        .dropped
        .iter()
        .map(|(reason, count)| (reason.as_str(), *count))
        .filter(|(reason, _)| *reason != "duplicate")
        .collect();
    assert_eq!(
        (of.carried, of.across, dropped.as_slice()),
        (2, 3, [("frame_id", 1), ("length", 1)].as_slice())
    );
}

/// Each gateway passes samples of DDS nodes to Zenoh, so nodes there receive them twice.
#[test]
fn another_gateway_between_the_same_two_is_reported() {
    let router = Router::new();
    let rules = json!([{ "topic": "/loop", "direction": "both" }]);
    let rig = both(&router, 40, rules.clone(), &[("loop", 4096, lasting(4))]);
    // It takes part in the Zenoh network only.
    let zenoh = json!({
        "domain_id": 40, "dds": false, "zenoh": { "connect": [router.endpoint()] }, "topics": rules,
    });
    let other = Other::new(&rig, &zenoh);
    let node = Node::new(&router, 40, "listener");
    let heard = node.subscription("/loop", STRING, "rt10");
    let mut publisher = other.publisher("loop");
    publish(&mut publisher, &string("harmless"));
    eventually("there", || heard.strings() == ["harmless"]);
    assert!(rig.report().beside.is_empty() && !rig.logged("comes twice"));
    drop(other);
    let both =
        json!({ "domain_id": 40, "zenoh": { "connect": [router.endpoint()] }, "topics": rules });
    let beside = Other::new(&rig, &both);
    let _dds_node = rig.peer("pub rt/loop string 7 1 0 rt1");
    eventually("twice", || heard.strings().iter().filter(|text| text.len() == 7).count() == 2);
    eventually("logged", || rig.logged("comes twice") && rig.report().beside.len() == 1);
    drop(beside);
    eventually("gone", || rig.report().beside.is_empty());
}

#[test]
fn one_direction_alone_does_not_pass_between_the_profiles() {
    let router = Router::new();
    let rules = json!([
        { "topic": "/in", "direction": "from_ros" },
        { "topic": "/fence", "direction": "both" },
    ]);
    let rig = both(&router, 33, rules, &[]);
    let node = Node::new(&router, 33, "listener");
    let heard = node.subscription("/in", STRING, "rt10");
    let mut subscription = rig.subscription("in", &lasting(4));
    let fence = node.subscription("/fence", STRING, "rt10");
    let _peer = rig.peer("pub rt/in string 3 1 0 rt1");
    take(&mut subscription, 1, |_, _| {});
    // This sample passes, on the same path and later.
    let _fence = rig.peer("pub rt/fence string 5 1 0 rt1");
    eventually("behind it", || fence.heard().len() == 1);
    let across = |topic: &str| {
        rig.report().from_ros.iter().filter(|t| t.topic == topic).map(|t| t.across).sum::<u64>()
    };
    // The gateway counts a sample after it has passed it on.
    eventually("counted", || across("fence") == 1);
    assert!(heard.heard().is_empty(), "{:?}", heard.strings());
    assert_eq!(across("in"), 0);
}

#[test]
fn a_publisher_that_goes_is_gone_on_the_other_side_too() {
    let router = Router::new();
    let rig = both(&router, 34, json!([{ "topic": "/loop", "direction": "both" }]), &[]);
    let node = Node::new(&router, 34, "observer");
    let across = || node.graph().iter().filter(|t| t.contains("/MP/%driveline_gateway/")).count();
    let mut graph = rig.peer("graph");
    for _ in 0..3 {
        let peer = rig.peer("pub rt/loop string 3 1 0 rt1");
        eventually("there", || across() == 1);
        drop(peer);
        // A killed participant of DDS is gone after its lease.
        eventually("gone", || across() == 0);
    }
    let publisher = node.publisher("/loop", STRING, "rt1");
    eventually("named after its node", || graph.has_printed("/ observer 0 1"));
    drop(publisher);
    eventually("ends", || rig.report().from_ros[0].publishers.is_empty());
}

/// Gateway of another Driveline domain, as a process: a process can join a DDS domain once.
struct Other {
    child: Child,
    participant: driveline_shm::Participant,
}

impl Other {
    fn new(rig: &Rig, ros2: &Value) -> Self {
        let (dir, config) = (rig.dir.path().join("other"), rig.dir.path().join("other.json"));
        let mut ros2 = ros2.clone();
        ros2["types"] = rig.config()["ros2"]["types"].clone();
        let topics = json!([{ "topic": "loop", "max_payload": 4096, "qos": lasting(4) }]);
        std::fs::write(
            &config,
            json!({ "domain_dir": dir, "ros2": ros2, "topics": topics }).to_string(),
        )
        .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_driveline-gateway-ros2"));
        let child =
            command.arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let there =
            driveline_shm::ParticipantConfig { domain_dir: Some(dir), name: "there".into() };
        Self { child, participant: driveline_shm::Participant::open(there).unwrap() }
    }

    fn publisher(&self, topic: &str) -> driveline_shm::Publisher {
        let mut config = driveline_shm::PublisherConfig::new(
            topic.parse().unwrap(),
            "there".parse().unwrap(),
            string_schema(),
            4096,
        );
        config.qos = lasting(4);
        self.participant.create_publisher(config).unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a gateway with both profiles and one service.
fn with_service(router: &Router, domain_id: u32, more: Value) -> Rig {
    let mut rule = json!({ "service": "/add", "type": ADD });
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Rig::with(
        json!({
            "domain_id": domain_id, "zenoh": { "connect": [router.endpoint()] }, "services": [rule],
        }),
        &[],
    )
}

/// Calls until there is a response: the client's session may not know yet that the gateway has
/// ended.
fn answer(asking: &mut rig::rmw_services::Client, request: &[u8]) -> i64 {
    let mut sum = None;
    eventually("answered", || {
        let call = asking.call(request);
        eventually("over", || call.has_ended());
        sum =
            call.replies().into_iter().find_map(Result::ok).map(|(_, response)| sum_of(&response));
        sum.is_some()
    });
    sum.unwrap()
}

#[test]
fn a_node_on_dds_and_driveline_call_a_server_on_rmw_zenoh() {
    let router = Router::new();
    let rig = with_service(&router, 37, json!({ "server": "ros", "across": true }));
    let (node, hash) = (Node::new(&router, 37, "adder"), hash(ADD));
    let server = node.server("/add", (ADD_DDS, &hash));
    let mut peer = rig.peer("call add add 2 3");
    for n in 0..5 {
        let request = server.take();
        assert_eq!(request.payload, two(2, 3 + n), "as it left its client, but for DDS's own head");
        request.reply(&cdr(|to| to.number(5 + n)));
    }
    eventually("answered", || peer.has_printed("answer 5: 9"));
    peer.end();
    // The node may have sent another request before it ended. The server answers that one as well.
    let mut asking = client(&domain(&rig), "add", ADD);
    let sum = std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let request = server.take();
                request.reply(&cdr(|to| to.number(11_i64)));
                if request.payload == two(5, 6) {
                    break;
                }
            }
        });
        call(&mut asking, &two(5, 6)).unwrap()
    });
    assert_eq!(sum_of(&sum), 11);
    let report = rig.report().services.remove(0);
    assert_eq!(
        (report.servers.len(), report.across.as_deref()),
        (1, Some("DDS")),
        "the gateway's own end is not listed as a server: {report:?}"
    );
}

#[test]
fn a_node_on_rmw_zenoh_calls_a_server_on_dds() {
    let router = Router::new();
    let rig = with_service(&router, 38, json!({ "server": "ros", "across": true }));
    let mut peer = rig.peer("serve add add 0");
    eventually("offered across", || {
        rig.report().services[0].across.as_deref() == Some("rmw_zenoh")
    });
    let (node, hash) = (Node::new(&router, 38, "asker"), hash(ADD));
    let mut asking = node.client("/add", (ADD_DDS, &hash));
    assert_eq!(answer(&mut asking, &two(2, 3)), 5);
    eventually("asked", || peer.has_printed("asked 1: 2 3"));
}

#[test]
fn a_service_passes_across_only_while_it_can_be_called() {
    let router = Router::new();
    let rig = with_service(&router, 44, json!({ "server": "ros", "across": true }));
    let _peer = rig.peer("serve add add 0");
    let across = || rig.report().services[0].across.clone();
    let node = Node::new(&router, 44, "observer");
    let offered = || node.graph().iter().any(|token| token.contains("/SS/"));
    eventually("offered across", || across().as_deref() == Some("rmw_zenoh") && offered());
    let second = rig.peer("serve add add 0");
    eventually("there are two, and neither is called", || across().is_none() && !offered());
    second.end();
    eventually("offered again", || across().as_deref() == Some("rmw_zenoh") && offered());
}

#[test]
fn a_server_on_dds_that_stands_still_holds_up_nothing_of_rmw_zenoh() {
    const CALLS: u64 = 5;
    let router = Router::new();
    let rule = json!({
        "service": "/add", "type": ADD, "server": "ros", "across": true, "timeout_ms": 600_000,
        "pending": 8, "max_request": "2 MiB",
    });
    let zenoh = json!({ "connect": [router.endpoint()] });
    let topics = json!([{ "topic": "/in", "direction": "from_ros" }]);
    let rig = Rig::with(
        json!({ "domain_id": 41, "zenoh": zenoh, "topics": topics, "services": [rule] }),
        &[],
    );
    let mut subscription = rig.subscription("in", &lasting(4));
    let peer = rig.peer("serve add add 0");
    eventually("offered across", || {
        rig.report().services[0].across.as_deref() == Some("rmw_zenoh")
    });
    let (node, hash) = (Node::new(&router, 41, "asker"), hash(ADD));
    let mut asking = node.client("/add", (ADD_DDS, &hash));
    let mut publisher = node.publisher("/in", STRING, "rt4");
    assert_eq!(answer(&mut asking, &two(2, 3)), 5);
    publisher.publish(&rig::rmw::string("before"));
    take(&mut subscription, 1, |_, _| {});
    let before = rig.report().services[0].calls;
    peer.stand_still();
    // A single request is more than CycloneDDS accepts while the server does not read.
    let calls: Vec<_> =
        (0..CALLS).map(|_| asking.call(&[two(1, 2), vec![0; 1 << 20]].concat())).collect();
    // A sample after these requests, on the same link.
    publisher.publish(&rig::rmw::string("behind"));
    take(&mut subscription, 1, |_, _| {});
    let report = rig.report().services.remove(0);
    // If the gateway had waited for each call, all but the first would have failed by now.
    assert!(report.calls == before + CALLS && report.under_way >= 2, "{report:?}");
    drop(peer);
    eventually("each call ends", || calls.iter().all(|call| call.has_ended()));
}

#[test]
fn a_server_here_is_called_by_nodes_on_both() {
    let router = Router::new();
    let rig = with_service(&router, 39, json!({ "server": "driveline" }));
    let _server = serve(&rig, "add", ADD, "adder", add);
    eventually("offered by both", || rig.report().services[0].servers.len() == 2);
    let (node, hash) = (Node::new(&router, 39, "asker"), hash(ADD));
    let mut asking = node.client("/add", (ADD_DDS, &hash));
    let mut peer = rig.peer("call add add 2 3");
    assert_eq!(answer(&mut asking, &two(2, 3)), 5);
    eventually("answered on DDS", || peer.has_printed("answer 5: 9"));
}
