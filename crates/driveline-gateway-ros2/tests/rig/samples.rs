// SPDX-License-Identifier: Apache-2.0
//! Samples that pass both ways in these tests, with their QoS.

use super::PATIENCE;
use driveline_msgs::{Encoding, Header, Image, ImageMut};
use driveline_rosidl::{Catalog, parse_msg};
use driveline_shm::{Publisher, Subscription};
use driveline_types::{Durability, PlainMut, Qos, Reliability, SampleHeader, Schema};
use std::time::Instant;

pub(crate) const CAMERA: &str = "sensing/camera";
pub(crate) const BIG: usize = 4 << 20;

pub(crate) fn string_schema() -> Schema {
    let name = "std_msgs/msg/String".parse().unwrap();
    let mut catalog = Catalog::new();
    catalog.add_message(parse_msg(&name, "test", "string data\n").unwrap()).unwrap();
    catalog.schema(&name).unwrap()
}

pub(crate) fn string(text: &str) -> Vec<u8> {
    let mut to = driveline_rosidl::cdr::Encoder::new(driveline_rosidl::cdr::ByteOrder::Little);
    to.string(text.as_bytes()).unwrap();
    to.finish()
}

pub(crate) fn publish(publisher: &mut Publisher, payload: &[u8]) {
    let mut loan = publisher.loan(payload.len()).unwrap();
    loan.payload_mut().copy_from_slice(payload);
    publisher.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
}

pub(crate) fn publish_image(publisher: &mut Publisher, width: u32, fill: u8) {
    let mut loan = publisher.loan(Image::payload_len(width, 1, Encoding::Mono8).unwrap()).unwrap();
    let header = Header::new(driveline_types::MonotonicNs::now().0, "cam", 0).unwrap();
    ImageMut::new(PlainMut::new(loan.payload_mut()).unwrap(), header, width, 1, Encoding::Mono8)
        .unwrap()
        .data_mut()
        .fill(fill);
    publisher.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
}

/// Waits for this many samples, and passes each on. Returns the number of missed samples.
pub(crate) fn take(
    subscription: &mut Subscription,
    count: usize,
    mut each: impl FnMut(&[u8], &SampleHeader),
) -> u64 {
    let mut end = Instant::now() + PATIENCE;
    let (mut taken, mut missed) = (0, 0);
    while taken < count {
        assert!(Instant::now() < end, "{taken} of {count} samples, then none for {PATIENCE:?}");
        match subscription.take_next().unwrap() {
            Some(sample) => {
                taken += 1;
                end = Instant::now() + PATIENCE;
                missed += sample.missed();
                each(sample.payload(), sample.header());
            }
            // time: a pause between polls; they end with the condition
            None => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
    missed
}

pub(crate) fn reliable(depth: u32) -> Qos {
    Qos { reliability: Reliability::Reliable, depth, max_blocking_ms: 10_000, ..Qos::default() }
}

pub(crate) fn lasting(depth: u32) -> Qos {
    Qos { durability: Durability::TransientLocal, ..reliable(depth) }
}
