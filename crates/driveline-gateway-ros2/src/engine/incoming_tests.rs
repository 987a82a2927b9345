// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::engine::rig::{self, LONG, eventually};
use crate::qos::EndpointQos;
use driveline_runtime::ros2::{Direction, Form};
use driveline_shm::{SchemaRequest, SubscriptionConfig};
use driveline_types::{Qos, Reliability};
use std::sync::mpsc::channel;

const WRITER: Handle = 7;

fn inlet(common: &Common, topic: &TopicName, rule: &Rule, class: ReaderClass, qos: Qos) -> Inlet {
    let crossing = common.types.from_ros("rosgraph_msgs::msg::dds_::Clock_", Form::Cdr).unwrap();
    let what = (EndpointQos::default(), class, qos);
    Inlet::open(&common.participant, topic, "camera".parse().unwrap(), crossing, what, rule).unwrap()
}

#[test]
fn writers_of_a_topic_whose_thread_cannot_go_on_are_refused_with_the_reason() {
    let _alone = lock(&rig::ALONE);
    let dir = tempfile::tempdir().unwrap();
    let conductor = rig::conductor(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN }));
    let (common, topic) = (&conductor.common, "ends".parse().unwrap());
    let (rule, mut incoming) = (Rule::new("/ends", Direction::FromRos), Incoming::new(Profile::Dds));
    let shared = incoming.topic(common, &topic, &rule).unwrap();
    let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
    shared.know(WRITER, Known::of(inlet(common, &topic, &rule, class, Qos::default())));
    incoming.writers.insert(WRITER, topic);
    incoming.tidy(common);
    assert_eq!((incoming.topics.len(), incoming.refusals().count()), (1, 0));
    conductor.control().close_dds();
    eventually("let go of", || {
        incoming.tidy(common);
        incoming.topics.is_empty()
    });
    let reasons: Vec<_> = incoming.refusals().map(|refusal| refusal.reason).collect();
    assert!(matches!(reasons.as_slice(), [reason] if reason.contains("CycloneDDS cannot wait")), "{reasons:?}");
    incoming.gone(WRITER);
    assert!(incoming.refusals().next().is_none() && incoming.writers.is_empty(), "it may come again");
}

#[test]
fn a_reader_that_a_topic_waits_for_keeps_the_conductor_from_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let common = rig::conductor(dir.path(), serde_json::json!({ "dds": false })).common.clone();
    let topic: TopicName = "slow".parse().unwrap();
    let rule = Rule::new("/slow", Direction::FromRos);
    let class = ReaderClass::new(Reliability::Reliable, Durability::Volatile);
    // An hour: until the test says that it is over.
    let qos = Qos { reliability: Reliability::Reliable, max_blocking_ms: 3_600_000, ..Qos::default() };
    let inlet = inlet(&common, &topic, &rule, class, qos);
    let mut incoming = Incoming::new(Profile::Zenoh);
    let shared = Arc::new(Shared::new(&topic, Feed::new(&common, Profile::Zenoh, &rule).unwrap(), &incoming.departed));
    shared.know(WRITER, Known::of(inlet));
    incoming.topics.insert(topic.clone(), IncomingTopic { shared: shared.clone(), thread: None });
    incoming.writers.insert(WRITER, topic.clone());
    let mut config = SubscriptionConfig::new(topic, "reader".parse().unwrap(), SchemaRequest::Any);
    config.qos.reliability = Reliability::Reliable;
    let mut reader = common.participant.create_subscription(config).unwrap();
    let (shared, incoming, common) = (&shared, &mut incoming, &*common);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut patience = Patience::new(Instant::now());
            for number in (1..).take_while(|_| !shared.stop.load(Ordering::Acquire)) {
                let sample = Ok([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].as_slice().into());
                let came = Came { writer: WRITER, class, source_timestamp: 0, number: Some(number), lost: 0, sample };
                shared.sample(common, Profile::Zenoh, &came, &mut patience);
            }
        });
        // Of which it takes one. There is room for one more, and the next one waits.
        let began = Instant::now();
        let taken = loop {
            if let Some(sample) = reader.take_next().unwrap() {
                break sample.header().sequence;
            }
            if began.elapsed() > LONG {
                shared.stop.store(true, Ordering::Release);
                panic!("nothing comes");
            }
            std::thread::yield_now();
        };
        let waits = move |known: Option<&Known>| matches!(known, Some(Known::Open(open)) if open.numbers.furthest() == Some(taken.cast_signed() + 2));
        let (tell, told) = channel();
        s.spawn(move || {
            while !waits(lock(&shared.writers).get(&WRITER)) {
                std::thread::yield_now();
            }
            let publishers: usize = incoming.report().iter().map(|topic| topic.publishers.len()).sum();
            incoming.gone(WRITER);
            incoming.tidy(common);
            shared.know(WRITER + 1, Known::Refused("another"));
            tell.send((publishers, shared.counters.figures().0)).unwrap();
        });
        let told = told.recv_timeout(LONG);
        shared.stop.store(true, Ordering::Release);
        drop(reader);
        assert_eq!(told, Ok((1, taken + 1)), "the last one still waits");
    });
}

#[test]
fn unknown_writers_hold_up_a_topic_for_a_small_part_of_the_time() {
    let began = Instant::now();
    let mut patience = Patience::new(began);
    let (mut now, mut waited) = (began, Duration::ZERO);
    // One after the other, and each waits as long as it may.
    for _ in 0..600 {
        let left = patience.left(now);
        now += left;
        waited += left;
        patience.spent(now);
        now += Duration::from_secs(1);
    }
    assert!(waited <= KNOWN_WITHIN + now.duration_since(began) / PAUSES, "{waited:?} of {:?}", now.duration_since(began));
    assert!(waited > KNOWN_WITHIN * 2, "it comes back");
}
