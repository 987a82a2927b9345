// SPDX-License-Identifier: Apache-2.0
//! Typed endpoints of each payload kind, over both reaches.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at a surprise")]

use driveline::types::{MonotonicNs, Qos};
use driveline::{
    Context, ContextOptions, Node, Object, Protobuf, PublisherOptions, Reach, SubscriptionOptions,
    plain_type,
};
use driveline_msgs::proto::{Detection2D, Detections2D};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A user's own type with a trailing array.
#[plain_type(name = "test/Scan", tail(ranges: f32), crate = driveline::types)]
#[derive(Debug, PartialEq)]
struct Scan {
    stamp_ns: u64,
    beams: u32,
    _reserved: u32,
}

/// The same name with another layout.
mod other {
    #[driveline::plain_type(name = "test/Scan", tail(ranges: f32), crate = driveline::types)]
    pub(super) struct Scan {
        pub(super) stamp_ns: u64,
        pub(super) beams: u64,
    }
}

fn nodes(dir: &tempfile::TempDir) -> (Node, Node) {
    let node = |name: &str| {
        Context::new(ContextOptions {
            name: name.into(),
            domain_dir: Some(dir.path().join("domain")),
        })
        .unwrap()
        .node(name)
        .unwrap()
    };
    (node("sender"), node("receiver"))
}

fn publisher(reach: Reach) -> PublisherOptions {
    PublisherOptions { reach, ..Default::default() }
}

fn subscription(reach: Reach) -> SubscriptionOptions {
    SubscriptionOptions { reach, ..Default::default() }
}

fn until(mut condition: impl FnMut() -> bool) {
    let deadline = MonotonicNs::real_now() + Duration::from_secs(60);
    while !condition() {
        assert!(MonotonicNs::real_now() < deadline, "it did not happen within 60 s");
        // time: a pause between polls; the test fails only after 60 s
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_plain_type_is_read_where_it_was_written() {
    for reach in [Reach::Process, Reach::Host] {
        let dir = tempfile::tempdir().unwrap();
        let (node, _) = nodes(&dir);
        let mut p = node.publisher::<Scan>("scan", publisher(reach)).unwrap();
        let mut s = node.subscription::<Scan>("scan", subscription(reach)).unwrap();
        until(|| p.raw().matched() == 1 && s.raw().matched() == 1);
        let mut loan = p.loan(3).unwrap();
        let mut view = loan.view_mut().unwrap();
        (view.stamp_ns, view.beams) = (7, 3);
        view.tail_mut().copy_from_slice(&[1.0, 2.0, 3.0]);
        loan.set_source_time(MonotonicNs(123));
        p.publish(loan).unwrap();
        until(|| s.raw().has_unread());
        let sample = s.latest().unwrap().unwrap();
        let view = sample.view().unwrap();
        assert_eq!((view.stamp_ns, view.tail()), (7, &[1.0, 2.0, 3.0][..]));
        assert_eq!(view.tail().as_ptr().addr() % 64, 0);
        assert_eq!(sample.header().origins.as_slice()[0].source_oldest, MonotonicNs(123));
    }
}

#[test]
fn two_layouts_of_one_name_do_not_meet_and_the_first_differing_field_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = nodes(&dir);
    let mut p = sender.publisher::<Scan>("scan", publisher(Reach::Host)).unwrap();
    let mut s = receiver.subscription::<other::Scan>("scan", subscription(Reach::Host)).unwrap();
    let mut texts = Vec::new();
    until(|| {
        texts.extend(
            [p.raw().poll_event(), s.raw().poll_event()]
                .into_iter()
                .flatten()
                .map(|e| e.to_string()),
        );
        texts.len() >= 2
    });
    for text in texts {
        assert!(
            text.contains("'scan'") && text.contains("test/Scan") && text.contains("beams"),
            "{text}"
        );
    }
}

fn detections() -> Detections2D {
    Detections2D {
        detections: vec![Detection2D { score: 0.5, ..Default::default() }],
        ..Default::default()
    }
}

#[test]
fn a_message_moves_as_a_pointer_inside_and_as_bytes_outside() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = nodes(&dir);
    let mut p =
        sender.value_publisher::<Protobuf<Detections2D>>("boxes", publisher(Reach::Host)).unwrap();
    let mut inside = sender
        .value_subscription::<Protobuf<Detections2D>>("boxes", subscription(Reach::Host))
        .unwrap();
    until(|| p.raw().matched() == 1);
    p.publish(detections()).unwrap();
    assert_eq!(p.raw().stats().serialised, 0, "there is no reader outside");
    let sample = inside.latest().unwrap().unwrap();
    assert_eq!(*sample, detections());

    let mut outside = receiver
        .value_subscription::<Protobuf<Detections2D>>("boxes", subscription(Reach::Host))
        .unwrap();
    until(|| p.raw().matched() == 2);
    let sequence = p.publish_measured(detections(), MonotonicNs(123)).unwrap();
    assert!(outside.wait(Some(Duration::from_secs(60)), driveline::WaitMode::Block).unwrap());
    let (out, within) = (outside.latest().unwrap().unwrap(), inside.latest().unwrap().unwrap());
    assert_eq!((&*out, &*within), (&detections(), &detections()));
    // A message has the same sequence number inside and outside the process, even if some earlier
    // messages were not serialised.
    assert_eq!((sequence, out.header().sequence, within.header().sequence), (2, 2, 2));
    assert_eq!((out.missed(), within.missed()), (0, 0));
    assert_eq!(
        [&out, &within].map(|s| s.header().origins.as_slice()[0].source_oldest),
        [MonotonicNs(123); 2]
    );
    assert!(inside.latest().unwrap().is_none(), "the bytes do not come a second time");
    assert_eq!(p.raw().stats().serialised, 1);
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Counted;
impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Publishers of a message in the reader's process and in another have one count at the reader. No
/// bound on time: counts are compared with the periods that have passed.
#[test]
fn a_message_of_any_publisher_meets_the_deadline() {
    const LENGTH: Duration = Duration::from_millis(20);
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = nodes(&dir);
    let qos = Qos { deadline_ms: Some(20), ..Qos::default() };
    let options = PublisherOptions { qos: qos.clone(), ..publisher(Reach::Host) };
    let publisher = |node: &Node| {
        node.value_publisher::<Protobuf<Detections2D>>("boxes", options.clone()).unwrap()
    };
    let (mut inside, mut outside) = (publisher(&near), publisher(&far));
    let o = SubscriptionOptions { qos, ..subscription(Reach::Host) };
    let subscription =
        near.value_subscription::<Protobuf<Detections2D>>("boxes", o).unwrap().into_raw();
    until(|| inside.raw().matched() == 1 && outside.raw().matched() == 1);
    let missed = || subscription.stats().deadlines_missed;
    let periods = |since: std::time::Instant| since.elapsed().div_duration_f64(LENGTH) as u64;
    let (mut longest, mut last) = (0, std::time::Instant::now());
    inside.publish(detections()).unwrap();
    for i in 0..200 {
        // time: each publisher is silent for ten deadlines
        std::thread::sleep(Duration::from_millis(2));
        let now = std::time::Instant::now();
        let publisher = if i < 100 { &mut outside } else { &mut inside };
        publisher.publish(detections()).unwrap();
        longest += periods(last);
        last = now;
    }
    assert!(missed() <= longest + periods(last), "a sample came every 2 ms");
    let before = missed();
    until(|| missed() >= before + 5);
    drop(outside);
    let before = missed();
    until(|| missed() >= before + 5);
    assert!(missed() <= longest + periods(last), "both are silent: one miss in each period");
    drop(inside);
    until(|| subscription.matched() == 0);
    let ended = missed();
    // time: no publisher misses these deadlines
    std::thread::sleep(3 * LENGTH);
    assert_eq!(missed(), ended, "the count pauses");
}

#[test]
fn an_object_is_shared_by_its_readers_and_dropped_once() {
    let dir = tempfile::tempdir().unwrap();
    let (node, _) = nodes(&dir);
    let mut p =
        node.value_publisher::<Object<Counted>>("object", publisher(Reach::Process)).unwrap();
    let mut readers: Vec<_> = (0..4)
        .map(|_| {
            node.value_subscription::<Object<Counted>>("object", subscription(Reach::Process))
                .unwrap()
        })
        .collect();
    p.publish(Counted::new()).unwrap();
    let samples: Vec<_> = readers.iter_mut().map(|r| r.latest().unwrap().unwrap()).collect();
    assert!(samples.iter().all(|s| std::ptr::eq::<Counted>(&**s, &*samples[0])));
    assert_eq!(ALIVE.load(Ordering::SeqCst), 1);
    drop(samples);
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
    let refused = node
        .value_publisher::<Object<Counted>>("object2", publisher(Reach::Host))
        .err()
        .expect("objects stay inside");
    assert!(refused.to_string().contains("cannot leave the process"), "{refused}");
}
