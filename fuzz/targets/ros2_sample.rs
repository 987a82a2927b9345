// SPDX-License-Identifier: Apache-2.0
//! Samples of ROS 2 nodes: any bytes convert to a sample that fits its slot, or to an error with a
//! name. A sample that is converted back gives a sample of the same length again, except
//! detections. The first byte chooses the type, or other data: descriptions of participants, and
//! parts of services.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_gateway::ros2::{Release, SourceTime};
use driveline_gateway_ros2::convert::{Arrival, FromRos, Pieces, ToRos};
use driveline_gateway_ros2::discovery_info::{self, ParticipantInfo};
use driveline_gateway_ros2::rmw_cyclonedds::{CallId, Role, dds_topic, service_of_dds};
use driveline_gateway_ros2::types::Kind;
use driveline_types::MonotonicNs;
use libfuzzer_sys::fuzz_target;
use zerocopy::{FromBytes, IntoBytes};

const WALL: i64 = 1_700_000_000_000_000_000;
const MAX: usize = 1 << 20;

/// Memory with the alignment of a slot.
#[derive(Clone, IntoBytes, FromBytes)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Checks parts of services on CycloneDDS: the head of a request, the owner of an endpoint, and the
/// name of a topic.
fn service(bytes: &[u8]) {
    if let Ok((id, encapsulation, body)) = CallId::split(bytes) {
        let head = id.head(encapsulation).expect("the encapsulation that was read");
        assert_eq!([&head[..], body].concat(), bytes);
    }
    for role in [Role::Client, Role::Server] {
        assert!(role.id(bytes).is_none_or(|id| id.len() <= bytes.len()));
    }
    if let Some((service, which)) = std::str::from_utf8(bytes).ok().and_then(service_of_dds) {
        assert_eq!(dds_topic(&service, which).as_deref().map(str::as_bytes), Some(bytes));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, sample)) = input.split_first() else { return };
    let Some(kind) = Kind::ALL.get(usize::from(*choice)) else {
        let _ = (discovery_info::is_gateway(sample), discovery_info::type_hash(sample));
        if let Some(info) = ParticipantInfo::decode(sample) {
            let again = info.encode(Release::Jazzy).expect("short lists");
            assert_eq!(ParticipantInfo::decode(&again), Some(info));
        }
        service(sample);
        return;
    };
    let arrival = Arrival {
        time: MonotonicNs(5),
        stamps_ahead_ns: Some(WALL),
        frame_index: 1,
        source_time: SourceTime::Stamp,
    };
    // A sample in two pieces, cut at a place that depends on its length, converts to the same
    // length.
    let (first, rest) = sample.split_at(sample.len() % 61);
    let pieces = [first, rest];
    let in_pieces = FromRos::of_pieces(*kind, Pieces::from(pieces.as_slice()), &arrival);
    let read = match FromRos::new(*kind, sample, &arrival) {
        Ok(read) => {
            assert_eq!(
                in_pieces.map(|r| r.payload_len().ok()).ok(),
                Some(read.payload_len().ok()),
                "in pieces"
            );
            read
        }
        Err(e) => return assert!(!e.name().is_empty() && !e.to_string().is_empty()),
    };
    let len = read.payload_len().expect("no more than the sample");
    assert!(len <= sample.len() + 4096, "a slot of {len} bytes for {}", sample.len());
    let mut memory = vec![Line([0xee; 64]); len.div_ceil(64)];
    let payload = memory.as_mut_slice().as_mut_bytes().get_mut(..len).expect("so many lines");
    read.write(payload).expect("it has the length that was asked for");
    // Only lengths are compared.
    if let Ok(back) = ToRos::new(*kind, payload, Some(WALL), MAX) {
        let bytes = back.parts().concat();
        assert_eq!(bytes.len() % 4, 0);
        let again = FromRos::new(*kind, &bytes, &arrival).expect("it was written here");
        // A class without a name is written with its number. Read back, the number is its name, so
        // the length of detections may change.
        assert!(*kind == Kind::Detections2D || again.payload_len().ok() == Some(len));
    }
});
