// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::engine::endpoint::Writing;
use crate::engine::fake_transport::FakeFeed;
use crate::engine::feed::Came;
use crate::engine::receiver::Patience;
use crate::engine::rig::{self, LONG, eventually};
use crate::engine::unknown::MAX_UNKNOWN;
use crate::engine::zenoh::GRACE;
use crate::qos::EndpointQos;
use driveline_gateway::ros2::{Direction, Form};
use driveline_rosidl::TypeHash;
use driveline_rosidl::cdr::{ByteOrder, Encoder};
use driveline_shm::{SchemaRequest, SubscriptionConfig};
use driveline_types::{Qos, Reliability};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;

const WRITER: Handle = 7;

fn remote_publisher(
    common: &GatewayState,
    topic: &TopicName,
    rule: &Rule,
    class: ReaderClass,
    qos: Qos,
) -> RemotePublisher {
    let crossing = common.types.from_ros("rosgraph_msgs::msg::dds_::Clock_", Form::Cdr).unwrap();
    let what = (EndpointQos::default(), class, qos);
    RemotePublisher::open(
        &common.participant,
        topic,
        "camera".parse().unwrap(),
        crossing,
        what,
        rule,
    )
    .unwrap()
}

#[test]
fn writers_of_a_topic_whose_thread_cannot_go_on_are_refused_with_the_reason() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let control_thread =
        rig::control_thread(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN }));
    let (common, topic) = (&control_thread.common, "ends".parse().unwrap());
    let (rule, mut incoming) =
        (Rule::new("/ends", Direction::FromRos), Incoming::new(Profile::Dds));
    let shared = incoming.topic(common, &topic, &rule).unwrap();
    let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
    shared.know(WRITER, Known::of(remote_publisher(common, &topic, &rule, class, Qos::default())));
    incoming.writers.insert(WRITER, topic);
    incoming.tidy(common);
    assert_eq!((incoming.topics.len(), incoming.refusals().count()), (1, 0));
    control_thread.control().close_dds();
    eventually("let go of", || {
        incoming.tidy(common);
        incoming.topics.is_empty()
    });
    let reasons: Vec<_> = incoming.refusals().map(|refusal| refusal.reason).collect();
    assert!(
        matches!(reasons.as_slice(), [reason] if reason.contains("CycloneDDS cannot wait")),
        "{reasons:?}"
    );
    incoming.gone(WRITER);
    assert!(
        incoming.refusals().next().is_none() && incoming.writers.is_empty(),
        "it may come again"
    );
}

#[test]
fn a_reader_that_a_topic_waits_for_does_not_block_the_control_thread() {
    let dir = tempfile::tempdir().unwrap();
    let common =
        rig::control_thread(dir.path(), serde_json::json!({ "dds": false })).common.clone();
    let topic: TopicName = "slow".parse().unwrap();
    let rule = Rule::new("/slow", Direction::FromRos);
    let class = ReaderClass::new(Reliability::Reliable, Durability::Volatile);
    // A time-out of an hour: the test ends the wait.
    let qos =
        Qos { reliability: Reliability::Reliable, max_blocking_ms: 3_600_000, ..Qos::default() };
    let remote_publisher = remote_publisher(&common, &topic, &rule, class, qos);
    let mut incoming = Incoming::new(Profile::Zenoh);
    let shared =
        Arc::new(Shared::new(&topic, Box::<FakeFeed>::default(), &incoming.sequence_memory));
    shared.know(WRITER, Known::of(remote_publisher));
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
                let came = Came {
                    writer: WRITER,
                    class,
                    source_timestamp: 0,
                    number: Some(number),
                    lost: &AtomicU64::new(0),
                    rejected: 0,
                    sample,
                };
                shared.sample(common, &came, &mut patience);
            }
        });
        // The reader takes one sample. There is space for one more, and the next one waits.
        let began = Instant::now();
        let taken = loop {
            if let Some(sample) = reader.take_next().unwrap() {
                break sample.header().sequence;
            }
            // time: a time-out of 60 s, which only a bug reaches
            if began.elapsed() > LONG {
                shared.stop.store(true, Ordering::Release);
                panic!("no sample arrives");
            }
            std::thread::yield_now();
        };
        let furthest = Some(taken.cast_signed() + 2);
        let waits = move |known: Option<&Known>| {
            matches!(known, Some(Known::Open(open))
                if open.numbers.furthest() == furthest)
        };
        let (result_sender, result) = channel();
        s.spawn(move || {
            while !waits(lock(&shared.writers).known.get(&WRITER)) {
                std::thread::yield_now();
            }
            let publishers: usize =
                incoming.report().iter().map(|topic| topic.publishers.len()).sum();
            incoming.gone(WRITER);
            incoming.tidy(common);
            shared.know(WRITER + 1, Known::Refused("another"));
            result_sender.send((publishers, shared.counters.figures().0)).unwrap();
        });
        let result = result.recv_timeout(LONG);
        shared.stop.store(true, Ordering::Release);
        drop(reader);
        assert_eq!(result, Ok((1, taken + 1)), "the last one still waits");
    });
}

/// Fills the list of topics with topics that receive no samples.
fn fill(incoming: &mut Incoming) {
    for n in 0..MAX_TOPICS {
        let topic: TopicName = format!("other_{n}").parse().unwrap();
        let shared = Shared::new(&topic, Box::<FakeFeed>::default(), &incoming.sequence_memory);
        incoming.topics.insert(topic, IncomingTopic { shared: Arc::new(shared), thread: None });
    }
}

#[test]
fn topics_without_space_are_not_opened_and_not_reported_again() {
    let dir = tempfile::tempdir().unwrap();
    let rules =
        serde_json::json!([{ "topic": "/**", "direction": "from_ros", "max_payload": "4 KiB" }]);
    let control_thread =
        rig::control_thread(dir.path(), serde_json::json!({ "dds": false, "topics": rules }));
    let (common, mut incoming) = (control_thread.common.clone(), Incoming::new(Profile::Dds));
    fill(&mut incoming);
    let crossing =
        common.types.from_ros("sensor_msgs::msg::dds_::Image_", Form::Converted).unwrap();
    let other: TypeHash = format!("RIHS01_{}", "0".repeat(64)).parse().unwrap();
    for handle in 0..3 {
        let topic = format!("late_{handle}").parse().unwrap();
        // If a remote publisher were opened for this writer, a remark would be logged.
        let of_dds = Endpoint {
            profile: Profile::Dds,
            announced: Some(other),
            ..found(&topic, &crossing, handle)
        };
        incoming.writer(&common, &common.spec.topics[0], &of_dds, None);
    }
    let logged = control_thread.control().take_notices();
    assert_eq!(logged.len(), 3, "{logged:?}");
    assert!(
        logged.iter().all(|line| line.contains("this gateway takes 256 topics from ROS 2 by DDS")),
        "{logged:?}"
    );
    for _ in 0..3 {
        incoming.freed = true;
        incoming.try_again(&common);
    }
    assert_eq!(control_thread.control().take_notices(), [""; 0]);
    assert_eq!((incoming.refusals().count(), incoming.topics.len()), (3, MAX_TOPICS));
}

#[test]
fn publishers_without_memory_are_tried_again() {
    let topic = || "image".to_owned();
    let memory = CreatePublisherError::Memory {
        topic: topic(),
        needed: 2,
        slots: 1,
        slot_len: 2,
        available: 1,
        limit: "memory".into(),
    };
    let system = CreatePublisherError::System {
        topic: topic(),
        action: "make memory",
        source: std::io::ErrorKind::Other.into(),
    };
    let config = CreatePublisherError::Config { topic: topic(), reason: "depth".into() };
    let kinds = [memory, system, config].map(|e| Why::from(e).kind);
    assert_eq!(kinds, [Kind::NoRoom, Kind::NoRoom, Kind::Lasting]);
}

#[test]
fn a_writer_without_a_reader_is_refused_and_leaves_no_state() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules =
        serde_json::json!([{ "topic": "/image", "direction": "from_ros", "max_payload": "4 KiB" }]);
    let control_thread = rig::control_thread(
        dir.path(),
        serde_json::json!({ "domain_id": rig::DOMAIN, "topics": rules }),
    );
    let (common, topic) = (control_thread.common.clone(), "image".parse().unwrap());
    let (mut incoming, rule) = (Incoming::new(Profile::Dds), &common.spec.topics[0]);
    let crossing =
        common.types.from_ros("sensor_msgs::msg::dds_::Image_", Form::Converted).unwrap();
    let of_dds = |handle| Endpoint { profile: Profile::Dds, ..found(&topic, &crossing, handle) };
    let shared = incoming.topic(&common, &topic, rule).unwrap();
    control_thread.control().close_dds();
    incoming.writer(&common, rule, &of_dds(1), None);
    // A writer that had no space until now, so its samples were not taken.
    let waits = Some((1, Newcomer::new(&of_dds(2), None)));
    let waiting = RefusedWriter {
        topic: topic.clone(),
        counted: "refused",
        node: String::new(),
        why: Why::no_room(String::new()),
        waits,
    };
    incoming.refuse(&common, 2, waiting);
    incoming.freed = true;
    incoming.try_again(&common);
    let reasons: Vec<_> = incoming.refusals().map(|refusal| refusal.reason).collect();
    assert!(
        reasons.len() == 2 && reasons.iter().all(|why| why.contains("CycloneDDS")),
        "{reasons:?}"
    );
    assert!(
        incoming.writers.is_empty() && incoming.refused.values().all(|r| r.waits.is_none()),
        "its place is free, and the refusal is logged and lasts"
    );
    let writers = lock(&shared.writers);
    assert!(
        writers.known.len() == 2
            && writers.known.values().all(|known| matches!(known, Known::Refused("refused")))
    );
}

/// Returns a publisher of images on rmw_zenoh.
fn found(topic: &TopicName, crossing: &Crossing, handle: Handle) -> Endpoint {
    Endpoint {
        profile: Profile::Zenoh,
        handle,
        gid: handle.to_le_bytes(),
        topic: topic.clone(),
        type_name: crossing.ros.dds(),
        hash: crossing.hash.unwrap().to_string(),
        session: "1".into(),
        announced: None,
        qos: EndpointQos::default(),
        depth: None,
        gateway: false,
        node: None,
    }
}

#[test]
fn publishers_without_space_are_read_once_others_have_gone() {
    let dir = tempfile::tempdir().unwrap();
    let common = rig::control_thread(
        dir.path(),
        serde_json::json!({
            "dds": false, "zenoh": {},
            "topics": [{ "topic": "/**", "direction": "from_ros", "max_payload": "4 KiB" }],
        }),
    );
    let common = common.common.clone();
    let crossing =
        common.types.from_ros("sensor_msgs::msg::dds_::Image_", Form::Converted).unwrap();
    let (topic, rule): (TopicName, _) = ("crowded".parse().unwrap(), &common.spec.topics[0]);
    let mut incoming = Incoming::new(Profile::Zenoh);
    let here = |incoming: &mut Incoming, topic: &TopicName, handle| {
        incoming.writer(&common, rule, &found(topic, &crossing, handle), None)
    };
    let most = MAX_REMOTE_PUBLISHERS_OF_TOPIC as Handle;
    (0..most + 2).for_each(|handle| here(&mut incoming, &topic, handle));
    assert_eq!(
        (incoming.writers.len(), incoming.refusals().count()),
        (MAX_REMOTE_PUBLISHERS_OF_TOPIC, 2)
    );
    let why = incoming.refusals().next().unwrap().reason;
    assert!(
        why.starts_with(
            "64 publishers of it are read by rmw_zenoh, which is the maximum for a topic: end"
        ),
        "{why}"
    );
    incoming.try_again(&common);
    assert_eq!(incoming.writers.len(), MAX_REMOTE_PUBLISHERS_OF_TOPIC, "no writer has gone");
    // A departed writer counts for a while, but not against its own return.
    let counts = |incoming: &mut Incoming, topic: &TopicName, gone: Handle| {
        let (writers, refused) = (incoming.writers.len(), incoming.refusals().count());
        incoming.gone(gone);
        here(incoming, topic, 5000);
        assert_eq!(
            (incoming.writers.len(), incoming.refusals().count()),
            (writers - 1, refused + 1)
        );
        here(incoming, topic, gone);
        assert!(incoming.writers.contains_key(&gone), "it is back");
        incoming.gone(5000);
    };
    counts(&mut incoming, &topic, 3);
    let go = |incoming: &mut Incoming, gone: std::ops::Range<Handle>| {
        let left = incoming.refusals().count() - (gone.end - gone.start) as usize;
        gone.for_each(|handle| incoming.gone(handle));
        eventually("taken from", || {
            assert!(incoming.writers.len() + incoming.draining.len() <= MAX_REMOTE_PUBLISHERS);
            incoming.tidy(&common);
            incoming.try_again(&common);
            incoming.refusals().count() == left
        });
    };
    go(&mut incoming, 3..4);
    assert!(
        incoming.writers.contains_key(&most) && incoming.refused.contains_key(&(most + 1)),
        "the first to arrive is first"
    );
    go(&mut incoming, 4..5);
    // The limit of a gateway.
    let more: Vec<TopicName> = (0..8).map(|n| format!("crowded_{n}").parse().unwrap()).collect();
    (0..MAX_REMOTE_PUBLISHERS as Handle)
        .for_each(|n| here(&mut incoming, &more[n as usize % 8], 1000 + n));
    assert_eq!(
        (incoming.writers.len(), incoming.refusals().count()),
        (MAX_REMOTE_PUBLISHERS, MAX_REMOTE_PUBLISHERS_OF_TOPIC)
    );
    let why = incoming.refusals().next().unwrap().reason;
    assert!(
        why.starts_with("this gateway reads 512 publishers by rmw_zenoh")
            && why.contains("`topics` under `ros2:`"),
        "{why}"
    );
    counts(&mut incoming, &more[0], 1000);
    go(&mut incoming, 1000..1010);
    assert_eq!(
        (incoming.writers.len(), incoming.refusals().count()),
        (MAX_REMOTE_PUBLISHERS, MAX_REMOTE_PUBLISHERS_OF_TOPIC - 10)
    );
    assert!(incoming.writers.contains_key(
        &(1000 + MAX_REMOTE_PUBLISHERS as Handle - MAX_REMOTE_PUBLISHERS_OF_TOPIC as Handle)
    ));
}

#[test]
fn samples_pass_to_the_other_profile_once_there_is_space() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules =
        serde_json::json!([{ "topic": "/passes", "direction": "both", "max_payload": "4 KiB" }]);
    let control_thread = rig::control_thread(
        dir.path(),
        serde_json::json!({ "domain_id": rig::DOMAIN, "zenoh": {}, "topics": rules }),
    );
    let common = control_thread.common.clone();
    let crossing =
        common.types.from_ros("sensor_msgs::msg::dds_::Image_", Form::Converted).unwrap();
    let (topic, rule): (TopicName, _) = ("passes".parse().unwrap(), &common.spec.topics[0]);
    let mut incoming = Incoming::new(Profile::Zenoh);
    incoming.writer(&common, rule, &found(&topic, &crossing, 1), None);
    let of_first = lock(&common.writings)[0].clone();
    lock(&common.writings)
        .extend((1..512).map(|n| Writing { number: u64::MAX - n, ..of_first.clone() }));
    (WRITER..WRITER + 8)
        .for_each(|handle| incoming.writer(&common, rule, &found(&topic, &crossing, handle), None));
    let passes = |incoming: &Incoming| -> Vec<Handle> {
        let writers = lock(&incoming.topics[&topic].shared.writers);
        let across = |handle: &Handle| match writers.known.get(handle) {
            Some(Known::Open(open)) => open.remote_publisher.across.get().is_some(),
            _ => panic!("it is read in any case"),
        };
        (WRITER..WRITER + 8).filter(across).collect()
    };
    let logged = control_thread.control().take_notices();
    assert!(
        logged.iter().any(|line| line
            .contains("does not pass from rmw_zenoh to DDS: this gateway has 512 writers")),
        "{logged:?}"
    );
    incoming.try_again(&common);
    assert!(passes(&incoming).is_empty());
    for n in 1..=8 {
        // Removes a writer that only fills the list.
        let mut writings = lock(&common.writings);
        let other = writings.iter().position(|w| w.number > u64::MAX / 2).unwrap();
        writings.remove(other);
        drop(writings);
        incoming.try_again(&common);
        assert_eq!(
            passes(&incoming),
            (WRITER..WRITER + n).collect::<Vec<_>>(),
            "the first to arrive is first"
        );
    }
    assert!(incoming.short.is_empty());
    incoming.gone(WRITER);
}

/// Returns an image with this name of its frame.
fn image(frame: &[u8], stamp: [u32; 2], pixels: usize) -> Vec<u8> {
    let mut to = Encoder::new(ByteOrder::Little);
    to.numbers(&stamp);
    to.string(frame).unwrap();
    to.numbers(&[1, pixels as u32]);
    to.string(b"mono8").unwrap();
    to.number(0_u8);
    to.number(pixels as u32);
    to.length(pixels).unwrap();
    to.bytes(&vec![7; pixels]);
    to.finish()
}

#[test]
fn samples_that_do_not_fit_here_pass_on_and_broken_ones_do_not() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules = serde_json::json!([
        { "topic": "/converted", "direction": "both", "max_payload": "4 KiB" },
        { "topic": "/as_it_is", "direction": "both", "max_payload": "4 KiB", "as": "cdr" },
    ]);
    let control_thread = rig::control_thread(
        dir.path(),
        serde_json::json!({ "domain_id": rig::DOMAIN, "zenoh": {}, "topics": rules }),
    );
    let (common, mut incoming) = (control_thread.common.clone(), Incoming::new(Profile::Zenoh));
    let mut comes = |topic: &str| {
        let (topic, rule): (TopicName, _) = (
            topic.parse().unwrap(),
            common.spec.topics.iter().find(|r| r.topic == format!("/{topic}")).unwrap(),
        );
        let crossing = common.types.from_ros("sensor_msgs::msg::dds_::Image_", rule.form).unwrap();
        let handle = incoming.writers.len() as Handle;
        incoming.writer(&common, rule, &found(&topic, &crossing, handle), None);
        let (shared, mut number, common) =
            (incoming.topics[&topic].shared.clone(), 0, common.clone());
        let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
        // Long samples come in pieces, as from Zenoh. Returns whether the sample was passed on, and
        // the count if it does not fit.
        move |sample: &[u8]| {
            number += 1;
            let pieces: Vec<_> = sample.chunks(1000).collect();
            let came = Came {
                writer: handle,
                class,
                source_timestamp: 0,
                number: Some(number),
                lost: &AtomicU64::new(0),
                rejected: 0,
                sample: Ok(pieces.as_slice().into()),
            };
            let before = (shared.counters.across(), shared.counters.figures().1);
            shared.sample(&common, &came, &mut Patience::new(Instant::now()));
            let of_now = |(reason, count): (String, u64)| {
                (before.1.get(&reason) != Some(&count)).then_some(reason)
            };
            let reasons: Vec<_> =
                shared.counters.figures().1.into_iter().filter_map(of_now).collect();
            (shared.counters.across() > before.0, reasons.join(" "))
        }
    };
    let trailing = |sample: &[u8]| [sample, &[0; 8]].concat();
    let mut converted = comes("converted");
    assert_eq!(converted(&image(b"cam", [0, 0], 64)), (true, String::new()));
    for (unfit, reason) in [
        (image(&[b'f'; 48], [0, 0], 64), "frame_id"),
        (image(b"cam", [1, 1_000_000_000], 64), "stamp"),
    ] {
        assert_eq!(converted(&unfit), (true, reason.into()));
        assert_eq!(converted(&trailing(&unfit)), (false, reason.into()));
        assert_eq!(converted(&unfit[..unfit.len() - 40]), (false, reason.into()));
    }
    let long = image(b"cam", [0, 0], 4096);
    assert_eq!(
        (converted(&long), converted(&trailing(&long))),
        ((true, "too_long".into()), (false, "trailing".into()))
    );
    let mut as_it_is = comes("as_it_is");
    assert_eq!(
        (as_it_is(&long), as_it_is(&trailing(&long))),
        ((true, "too_long".into()), (false, "too_long".into()))
    );
}

#[test]
fn samples_of_a_departed_writer_are_taken_although_its_departure_is_known_first() {
    let dir = tempfile::tempdir().unwrap();
    let common =
        rig::control_thread(dir.path(), serde_json::json!({ "dds": false })).common.clone();
    let (topic, rule): (TopicName, _) =
        ("leaves".parse().unwrap(), Rule::new("/leaves", Direction::FromRos));
    let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
    let shared = Shared::new(&topic, Box::<FakeFeed>::default(), &Arc::default());
    let here = |handle| {
        shared.know(
            handle,
            Known::of(remote_publisher(&common, &topic, &rule, class, Qos::default())),
        )
    };
    let went = Instant::now();
    let gone = |at| shared.gone(WRITER, Draining::new(GRACE, at)).unwrap();
    let comes = |number| {
        // A rosgraph_msgs/Clock: two words.
        let sample = Ok([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].as_slice().into());
        let came = Came {
            writer: WRITER,
            class,
            source_timestamp: 0,
            number: Some(number),
            lost: &AtomicU64::new(0),
            rejected: 0,
            sample,
        };
        let mut patience = Patience::new(Instant::now());
        patience.spend(Instant::now());
        shared.sample(&common, &came, &mut patience);
        shared.counters.figures().0
    };
    here(WRITER);
    let first = gone(went);
    let next = shared.part(&common, went + GRACE / 4, true, 0);
    assert_eq!((next, comes(1)), (GRACE * 3 / 4, 1), "it was in flight");
    // The writer returns before its remote publisher has ended, and leaves again. That is a new
    // departure, with the full grace time.
    let (kept, over) = (shared.feed.kept(), went + GRACE * 3);
    shared.part(&common, over, false, 1);
    here(WRITER);
    assert_eq!(first.strong_count(), 0);
    let again = gone(went + GRACE);
    shared.part(&common, over, false, kept + 1);
    assert_eq!((again.strong_count(), comes(2)), (1, 2));
    shared.part(&common, over, false, 2 * kept + 1);
    assert_eq!((again.strong_count(), comes(3)), (0, 2), "all waiting samples are taken");
    // Late samples of a refused writer that has gone do not delay others either.
    shared.know(WRITER + 1, Known::Refused("refused"));
    let before = lock(&shared.writers).unknown();
    assert!(shared.gone(WRITER + 1, Draining::new(GRACE, went)).is_none());
    assert_eq!(lock(&shared.writers).unknown(), before + 1);
}

/// Checks the sum of `Sample::missed` over samples of two writers.
#[test]
fn missing_samples_are_missed_once_whatever_the_number_of_writers() {
    let dir = tempfile::tempdir().unwrap();
    let common =
        rig::control_thread(dir.path(), serde_json::json!({ "dds": false })).common.clone();
    let topic: TopicName = "two".parse().unwrap();
    let rule = Rule::new("/two", Direction::FromRos);
    let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
    let shared = Shared::new(&topic, Box::<FakeFeed>::default(), &Arc::default());
    let writers = [WRITER, WRITER + 1];
    for writer in writers {
        shared.know(
            writer,
            Known::of(remote_publisher(
                &common,
                &topic,
                &rule,
                class,
                Qos { depth: 16, ..Qos::default() },
            )),
        );
    }
    let mut config = SubscriptionConfig::new(topic, "reader".parse().unwrap(), SchemaRequest::Any);
    config.qos.depth = 16;
    let mut subscription = common.participant.create_subscription(config).unwrap();
    eventually("matched", || subscription.matched() == 2);
    let lost = AtomicU64::new(0);
    let comes = |writer, number, rejected| {
        let sample = Ok([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].as_slice().into());
        let came =
            Came { writer, class, source_timestamp: 0, number, lost: &lost, rejected, sample };
        shared.sample(&common, &came, &mut Patience::new(Instant::now()));
    };
    let mut missed = || {
        let mut missed = 0;
        while let Some(sample) = subscription.take_next().unwrap() {
            missed += sample.missed();
        }
        missed
    };
    writers.iter().for_each(|writer| comes(*writer, None, 0));
    assert_eq!(missed(), 0);
    // DDS does not report the writer of these.
    lost.store(5, std::sync::atomic::Ordering::Relaxed);
    writers.iter().cycle().take(6).for_each(|writer| comes(*writer, None, 0));
    assert_eq!(missed(), 5);
    // Numbered samples: 2 to 4 found no space, 5 did not arrive.
    comes(WRITER, Some(1), 3);
    comes(WRITER, Some(6), 0);
    assert_eq!(
        (missed(), shared.counters.figures().1["lost"]),
        (4, 1),
        "samples without space are counted already"
    );
}

#[test]
fn unannounced_writers_are_remembered_up_to_a_limit_and_a_late_announcement_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let common =
        rig::control_thread(dir.path(), serde_json::json!({ "dds": false })).common.clone();
    let topic: TopicName = "strangers".parse().unwrap();
    let rule = Rule::new("/strangers", Direction::FromRos);
    let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
    let incoming = Incoming::new(Profile::Zenoh);
    let shared = Shared::new(&topic, Box::<FakeFeed>::default(), &incoming.sequence_memory);
    let mut patience = Patience::new(Instant::now());
    let mut comes = |writer, number| {
        // A rosgraph_msgs/Clock: two words.
        let sample = Ok([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].as_slice().into());
        let came = Came {
            writer,
            class,
            source_timestamp: 0,
            number: Some(number),
            lost: &AtomicU64::new(0),
            rejected: 0,
            sample,
        };
        // Uses up the waiting time. Nothing waits: announced writers are already known.
        patience.spend(Instant::now());
        shared.sample(&common, &came, &mut patience);
        shared.counters.figures()
    };
    let most = MAX_UNKNOWN as Handle;
    for writer in 0..most + 10 {
        comes(writer, 1);
    }
    assert_eq!(lock(&shared.writers).unknown(), MAX_UNKNOWN);
    for writer in [3, most + 3] {
        shared.know(
            writer,
            Known::of(remote_publisher(&common, &topic, &rule, class, Qos::default())),
        );
        comes(writer, 2);
    }
    let (carried, dropped) = comes(most + 11, 1);
    assert_eq!((carried, dropped["unknown"]), (2, MAX_UNKNOWN as u64 + 11));
    assert_eq!(lock(&shared.writers).unknown(), MAX_UNKNOWN);
}

#[test]
fn a_dds_writer_with_another_definition_is_read_and_causes_a_remark() {
    let _alone = rig::alone();
    let dir = tempfile::tempdir().unwrap();
    let rules =
        serde_json::json!([{ "topic": "/image", "direction": "from_ros", "max_payload": "4 KiB" }]);
    let control_thread = rig::control_thread(
        dir.path(),
        serde_json::json!({ "domain_id": rig::DOMAIN, "topics": rules }),
    );
    let common = control_thread.common.clone();
    let crossing =
        common.types.from_ros("sensor_msgs::msg::dds_::Image_", Form::Converted).unwrap();
    let mut incoming = Incoming::new(Profile::Dds);
    let other: TypeHash = format!("RIHS01_{}", "0".repeat(64)).parse().unwrap();
    for (handle, announced) in [(1, None), (2, crossing.hash), (3, Some(other))] {
        let of_dds = Endpoint {
            profile: Profile::Dds,
            hash: String::new(),
            announced,
            ..found(&"image".parse().unwrap(), &crossing, handle)
        };
        incoming.writer(&common, &common.spec.topics[0], &of_dds, None);
    }
    let report = incoming.report();
    assert_eq!(
        (report[0].publishers.len(), incoming.refusals().count()),
        (3, 0),
        "as between nodes of ROS 2"
    );
    let [remark] = report[0].remarks.as_slice() else { panic!("{:?}", report[0].remarks) };
    assert!(
        remark.contains(&format!("TYPE HASH: the writer's is {other}"))
            && remark.ends_with("under `types` and carry it `as: cdr`"),
        "{remark}"
    );
    let logged = control_thread.control().take_notices();
    assert_eq!(logged, [format!("topic '/image': {remark}")]);
}
