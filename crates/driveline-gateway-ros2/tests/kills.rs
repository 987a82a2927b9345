// SPDX-License-Identifier: Apache-2.0
//! Killed processes: gateways in the middle of 4 MiB images, in both directions, and ROS 2 nodes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_msgs::{Image, ImageView};
use driveline_types::{Plain, PlainRef, Qos};
use rig::samples::{BIG, CAMERA, publish_image, reliable};
use rig::{PATIENCE, Rig, eventually, sum};
use serde_json::json;
use std::time::{Duration, Instant};

const KILLS: usize = 4;

/// Returns the checksums of all images that these tests write.
fn known_sums() -> Vec<u32> {
    (0..26).map(|n| sum(&vec![b'a' + n; BIG])).collect()
}

#[test]
fn a_gateway_that_is_killed_while_it_sends_leaves_publishers_alone_and_its_successor_goes_on() {
    let qos = Qos { max_blocking_ms: 20, ..reliable(4) };
    let mut rig = Rig::new(
        25,
        json!([{ "topic": "/sensing/**", "direction": "to_ros" }]),
        &[(CAMERA, BIG as u64 + 4096, qos.clone())],
    );
    rig.stop();
    let known = known_sums();
    let mut peer = rig.peer("sub rt/sensing/camera image rv0");
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), BIG + 4096, &qos);
    let mut n = 0;
    let mut publish = |publisher: &mut _| {
        // The publisher waits for the gateway, at most `max_blocking_ms`, and does not fail.
        publish_image(publisher, BIG as u32, b'a' + (n % 26) as u8);
        n += 1;
    };
    for kill in 0..KILLS {
        let gateway = rig.process();
        let before = peer.samples().len();
        eventually("images arrive", || {
            publish(&mut publisher);
            peer.samples().len() > before + 2
        });
        // Kills it in the middle of an image, at another place each time.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // time: another moment of a transfer each time
                std::thread::sleep(Duration::from_micros(700 * (1 + kill as u64)));
                drop(gateway);
            });
            (0..8).for_each(|_| publish(&mut publisher));
        });
        eventually("it is gone here", || publisher.matched() == 0);
        // All its memory was released, and no publisher waits for it.
        let timeouts = publisher.stats().reliable_timeouts;
        (0..16).for_each(|_| publish(&mut publisher));
        assert_eq!(publisher.stats().reliable_timeouts, timeouts, "it waited for a dead gateway");
    }
    assert!(
        peer.samples().iter().all(|(len, sum, _)| *len == BIG && known.contains(sum)),
        "whole images only"
    );
}

#[test]
fn a_gateway_that_is_killed_while_it_receives_leaves_whole_images_and_its_successor_goes_on() {
    let rules = json!([
        {
            "topic": "/sensing/*", "direction": "from_ros", "max_payload": "5 MiB",
            "qos": { "depth": 4 },
        },
    ]);
    let mut rig = Rig::new(26, rules, &[]);
    rig.stop();
    // Publishes for longer than the test takes.
    let _peer = rig.peer(&format!("pub rt/sensing/camera image {BIG} 100000 10000 rv4"));
    let mut subscription = rig.subscription(CAMERA, &Qos::default());
    let mut take = |count: usize| {
        let (mut taken, end) = (0, Instant::now() + PATIENCE);
        while taken < count {
            assert!(Instant::now() < end, "{taken} of {count} images");
            let Some(sample) = subscription.take_next().unwrap() else {
                // time: a pause between polls; they end with the condition
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let image = ImageView::new(PlainRef::new(sample.payload()).unwrap()).unwrap();
            let first = image.row(0)[0];
            assert!(
                image.width() as usize == BIG && image.row(0).iter().all(|b| *b == first),
                "an image is whole"
            );
            taken += 1;
        }
    };
    for kill in 0..KILLS {
        let gateway = rig.process();
        take(3);
        // time: another moment of a transfer each time
        std::thread::sleep(Duration::from_micros(1300 * kill as u64));
        drop(gateway);
    }
    let _last = rig.process();
    take(3);
}

/// DDS considers the killed reader alive until its lease ends, which is after this test.
#[test]
fn a_reliable_reader_that_is_killed_takes_nothing_from_another_one() {
    const COUNT: usize = 60;
    const LEN: usize = 1 << 20;
    const DEPTH: u32 = 4;
    let qos = reliable(DEPTH);
    let rig = Rig::new(
        71,
        json!([{ "topic": "/sensing/**", "direction": "to_ros" }]),
        &[(CAMERA, LEN as u64 + 4096, qos.clone())],
    );
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), LEN + 4096, &qos);
    let mut stays = rig.peer("sub rt/sensing/camera image rv0");
    let mut dies = rig.peer_that_is_missed("sub rt/sensing/camera image rv0");
    eventually("both read", || {
        publish_image(&mut publisher, 8, 7);
        !stays.samples().is_empty() && !dies.samples().is_empty()
    });
    drop(dies);
    let big = |peer: &mut rig::Peer| {
        peer.samples().into_iter().filter(|s| s.0 == LEN).map(|s| s.1).collect::<Vec<_>>()
    };
    for n in 0..COUNT {
        publish_image(&mut publisher, LEN as u32, b'a' + (n % 26) as u8);
        eventually(&format!("image {n} is there"), || big(&mut stays).len() == n + 1);
    }
    let sums: Vec<_> = (0..COUNT).map(|n| sum(&vec![b'a' + (n % 26) as u8; LEN])).collect();
    assert_eq!(big(&mut stays), sums, "each once, in order");
    // The killed reader has acknowledged nothing, and the writer keeps only the last few. The
    // gateway counts this after it has written a sample.
    let mut to_ros = rig.report().to_ros.remove(0);
    eventually("counted", || {
        to_ros = rig.report().to_ros.remove(0);
        to_ros.replaced >= COUNT as u64 - u64::from(DEPTH)
    });
    assert_eq!(to_ros.readers.len(), 2, "the dead one counts as alive: {to_ros:?}");
    assert!(!to_ros.dropped.contains_key("not_written"), "{to_ros:?}");
}

#[test]
fn a_node_that_is_killed_does_not_keep_what_others_get() {
    let qos = Qos { max_blocking_ms: 50, ..reliable(4) };
    let rig = Rig::new(
        27,
        json!([{ "topic": "/sensing/**", "direction": "to_ros" }]),
        &[(CAMERA, BIG as u64 + 4096, qos.clone())],
    );
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), BIG + 4096, &qos);
    let mut stays = rig.peer("sub rt/sensing/camera image rv0");
    let mut dies = rig.peer("sub rt/sensing/camera image rv0");
    eventually("both read", || {
        publish_image(&mut publisher, 8, 7);
        !stays.samples().is_empty() && !dies.samples().is_empty()
    });
    publish_image(&mut publisher, BIG as u32, b'x');
    // It acknowledges nothing any more, and its end is reported only when its lease has ended.
    drop(dies);
    let marks = |peer: &mut rig::Peer| peer.samples().iter().filter(|s| s.0 == 9).count();
    let before = marks(&mut stays);
    eventually("the other one goes on, and nothing here waits for the dead one", || {
        publish_image(&mut publisher, 9, 7);
        marks(&mut stays) > before + 20
    });
    eventually("the dead one is forgotten", || rig.report().to_ros[0].readers.len() == 1);
}
