// SPDX-License-Identifier: Apache-2.0
//! Nodes on other middleware than the gateway's, and on other versions of it. The same must hold
//! for all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_gateway_ros2::types::Kind;
use driveline_msgs::proto::{self, BoundingBox2D, Detection2D, Detections2D};
use driveline_msgs::{
    Header, Image, ImageView, Imu, PointCloud, PointField, RadarReturn, RadarScan,
};
use driveline_shm::Publisher;
use driveline_types::plain::payload_len;
use driveline_types::{Plain, PlainMut, PlainRef, Qos, SampleHeader, Schema};
use prost::Message;
use rig::calls::{ADD, add, call, client, domain, ended, report, rig_of, serve, sum_of, two};
use rig::samples::{
    CAMERA, lasting, publish, publish_image, reliable, string, string_schema, take,
};
use rig::{Rig, Vendor, eventually, sum};
use serde_json::json;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Sends strings in both directions. `domain_id`: used by this test alone.
fn strings_pass_both_ways(vendor: Vendor, domain_id: u32) {
    let rules = json!([
        { "topic": "/chatter", "direction": "to_ros" },
        { "topic": "/back", "direction": "from_ros", "qos": { "depth": 64 } },
        { "topic": "/quick", "direction": "from_ros" }
    ]);
    let rig = Rig::new(domain_id, rules, &[("chatter", 4096, reliable(4))]);
    let mut publisher = rig.publisher("chatter", "talker", string_schema(), 4096, &reliable(4));
    let mut fast = rig.node(vendor, "sub rt/chatter string bv1");
    let mut sure = rig.node(vendor, "sub rt/chatter string rv0");
    eventually("heard", || {
        publish(&mut publisher, &string("hello"));
        !fast.samples().is_empty() && !sure.samples().is_empty()
    });
    assert_eq!(fast.samples()[0], (5, sum(b"hello"), "-".into()));
    assert_eq!(sure.samples()[0], (5, sum(b"hello"), "-".into()));
    let mut subscription = rig.subscription("back", &lasting(64));
    let _other = rig.node(vendor, "pub rt/back string 3 60 10000 rt64");
    let mut n = 0;
    let missed = take(&mut subscription, 60, |payload, header| {
        assert_eq!((payload.len(), payload[4], payload[8]), (12, 4, b'a' + n % 26), "sample {n}");
        assert!(header.remote.is_some());
        n += 1;
    });
    assert_eq!(missed, 0);
    // Best effort: samples may be lost, but each arrives whole, once and in order.
    let mut quick = rig.subscription("quick", &Qos { depth: 4, ..Qos::default() });
    let _third = rig.node(vendor, "pub rt/quick string 3 100000 10000 bv16");
    let mut last = None;
    take(&mut quick, 20, |payload, header| {
        assert!(
            payload.len() == 12
                && payload[4] == 4
                && payload[8..11].iter().all(|b| *b == payload[8]),
            "whole: {payload:?}"
        );
        let written = header.origins.as_slice()[0].source_oldest;
        assert!(last.is_none_or(|last| last < written), "each once, in order");
        last = Some(written);
    });
}

fn images_pass_both_ways(vendor: Vendor, domain_id: u32, size: usize) {
    const COUNT: usize = 8;
    let rules = json!([
        { "topic": "/sensing/camera", "direction": "to_ros" },
        { "topic": "/back", "direction": "from_ros", "max_payload": size + 4096 },
    ]);
    // As deep as the number of samples: a keep-last writer does not wait for its readers.
    let qos = reliable(COUNT as u32);
    let rig = Rig::new(domain_id, rules, &[(CAMERA, size as u64 + 4096, qos.clone())]);
    let mut peer = rig.node(vendor, "sub rt/sensing/camera image rv0");
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), size + 4096, &qos);
    // Samples written before DDS has matched do not reach this reader.
    eventually("matched there", || {
        publish_image(&mut publisher, 8, 7);
        std::thread::sleep(Duration::from_millis(20));
        !peer.samples().is_empty()
    });
    (0..COUNT).for_each(|n| publish_image(&mut publisher, size as u32, b'a' + n as u8));
    let big = |peer: &mut rig::Peer| {
        peer.samples().into_iter().filter(|s| s.0 == size).collect::<Vec<_>>()
    };
    eventually("all there", || big(&mut peer).len() == COUNT);
    let expected: Vec<_> =
        (0..COUNT).map(|n| (size, sum(&vec![b'a' + n as u8; size]), "cam".to_owned())).collect();
    assert_eq!(big(&mut peer), expected);
    let mut subscription = rig.subscription("back", &lasting(COUNT as u32));
    let _writer = rig.node(vendor, &format!("pub rt/back image {size} {COUNT} 20000 rt{COUNT}"));
    let mut n = 0;
    let missed = take(&mut subscription, COUNT, |payload, _| {
        let image = ImageView::new(PlainRef::new(payload).unwrap()).unwrap();
        assert!(
            image.width() as usize == size && image.row(0).iter().all(|b| *b == b'a' + n as u8),
            "sample {n} is whole"
        );
        n += 1;
    });
    assert_eq!(missed, 0);
}

/// Sends images as best effort: they may be lost, but each arrives whole, once and in order. The
/// gateway accounts for each sample that it sends.
fn images_pass_both_ways_with_best_effort(vendor: Vendor, domain_id: u32, size: usize) {
    const ENOUGH: usize = 8;
    let letter = |n: usize| b'a' + (n % 26) as u8;
    let rules = json!([
        { "topic": "/sensing/camera", "direction": "to_ros" },
        { "topic": "/back", "direction": "from_ros", "max_payload": size + 4096 },
    ]);
    let qos = Qos { depth: 4, ..Qos::default() };
    let rig = Rig::new(domain_id, rules, &[(CAMERA, size as u64 + 4096, qos.clone())]);
    let mut peer = rig.node(vendor, "sub rt/sensing/camera image bv16");
    let mut publisher = rig.publisher(CAMERA, "front/camera", Image::schema(), size + 4096, &qos);
    eventually("matched here", || publisher.matched() == 1);
    let mut sent = 0;
    eventually("enough are there", || {
        publish_image(&mut publisher, size as u32, letter(sent));
        sent += 1;
        std::thread::sleep(Duration::from_millis(20));
        peer.samples().len() >= ENOUGH
    });
    let sums: Vec<_> = (0..26).map(|n| sum(&vec![letter(n); size])).collect();
    let mut next = 0;
    for (len, sum, frame) in peer.samples() {
        assert!(len == size && frame == "cam", "{len} {frame}");
        // The checksum must be that of an image sent after the image of the previous match.
        next = (next..sent).find(|n| sums[n % 26] == sum).expect("whole, once and in order") + 1;
    }
    eventually("each was carried or is counted", || {
        let of = rig.report().to_ros.remove(0);
        of.carried + of.dropped.values().sum::<u64>() == sent as u64
    });
    let mut subscription = rig.subscription("back", &Qos { depth: 4, ..Qos::default() });
    let _writer = rig.node(vendor, &format!("pub rt/back image {size} 100000 20000 bv16"));
    let mut last = None;
    take(&mut subscription, ENOUGH, |payload, header| {
        let image = ImageView::new(PlainRef::new(payload).unwrap()).unwrap();
        let letter = image.row(0)[0];
        assert!(
            image.width() as usize == size && image.row(0).iter().all(|b| *b == letter),
            "whole"
        );
        // Its stamp is 0, so the gateway takes the time of writing.
        let written = header.origins.as_slice()[0].source_oldest;
        assert!(last.is_none_or(|last| last < written), "each once, in order");
        last = Some(written);
    });
    let of = rig.report().from_ros.remove(0);
    assert!(
        of.dropped.keys().all(|reason| ["lost", "rejected"].contains(&reason.as_str())),
        "{of:?}"
    );
}

fn late_joiners_get_the_kept_samples(vendor: Vendor, domain_id: u32) {
    let rules = json!([
        { "topic": "/tf_out", "direction": "to_ros" },
        { "topic": "/tf_in", "direction": "from_ros" },
    ]);
    let rig = Rig::new(domain_id, rules, &[("tf_out", 4096, lasting(1))]);
    let mut publishers: Vec<_> = (1..=3)
        .map(|n| {
            rig.publisher("tf_out", &format!("static_{n}"), string_schema(), 4096, &lasting(1))
        })
        .collect();
    publishers
        .iter_mut()
        .enumerate()
        .for_each(|(n, publisher)| publish(publisher, &string(&"x".repeat(n + 1))));
    eventually("carried", || rig.report().to_ros.first().is_some_and(|t| t.carried == 3));
    let mut late = rig.node(vendor, "sub rt/tf_out string rt10");
    eventually("complete", || late.samples().len() == 3);
    let mut lengths: Vec<_> = late.samples().into_iter().map(|s| s.0).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 2, 3]);
    let mut nodes: Vec<_> =
        (1..=2).map(|n| rig.node(vendor, &format!("pub rt/tf_in string {n} 1 0 rt1"))).collect();
    eventually("written", || nodes.iter_mut().all(|p| p.has_printed("written")));
    eventually("here", || rig.report().from_ros.first().is_some_and(|t| t.carried == 2));
    let mut subscription = rig.subscription("tf_in", &lasting(4));
    let mut found = Vec::new();
    take(&mut subscription, 2, |payload, _| found.push(payload[4] - 1));
    found.sort_unstable();
    assert_eq!(found, [1, 2]);
}

#[test]
fn strings_and_fast_dds() {
    strings_pass_both_ways(Vendor::FastDds, 75);
}

#[test]
fn images_of_4_mib_and_fast_dds() {
    images_pass_both_ways(Vendor::FastDds, 76, 4 << 20);
}

#[test]
fn images_of_4_mib_and_fast_dds_with_best_effort() {
    images_pass_both_ways_with_best_effort(Vendor::FastDds, 92, 4 << 20);
}

#[test]
fn images_of_32_kib_and_ros2_client_with_best_effort() {
    images_pass_both_ways_with_best_effort(Vendor::Ros2Client, 100, 32 << 10);
}

#[test]
fn images_of_4_mib_and_cyclone_dds_in_python_with_best_effort() {
    images_pass_both_ways_with_best_effort(Vendor::Python, 93, 4 << 20);
}

#[test]
fn images_of_4_mib_and_cyclone_dds_with_best_effort() {
    images_pass_both_ways_with_best_effort(Vendor::Cyclone, 94, 4 << 20);
}

#[test]
fn late_joiners_and_fast_dds() {
    late_joiners_get_the_kept_samples(Vendor::FastDds, 77);
}

#[test]
fn strings_and_cyclone_dds_in_python() {
    strings_pass_both_ways(Vendor::Python, 78);
}

// Slow, because Python handles one byte at a time.
#[test]
fn images_of_4_mib_and_cyclone_dds_in_python() {
    images_pass_both_ways(Vendor::Python, 79, 4 << 20);
}

#[test]
fn late_joiners_and_cyclone_dds_in_python() {
    late_joiners_get_the_kept_samples(Vendor::Python, 80);
}

#[test]
fn strings_and_ros2_client() {
    strings_pass_both_ways(Vendor::Ros2Client, 89);
}

// RustDDS loses samples of 4 MB.
#[test]
fn images_of_32_kib_and_ros2_client() {
    images_pass_both_ways(Vendor::Ros2Client, 90, 32 << 10);
}

#[test]
fn late_joiners_and_ros2_client() {
    late_joiners_get_the_kept_samples(Vendor::Ros2Client, 91);
}

#[test]
fn the_other_byte_order_is_read() {
    let rules = json!([{ "topic": "/back", "direction": "from_ros", "as": "cdr" }]);
    let rig = Rig::new(81, rules, &[]);
    let mut subscription = rig.subscription("back", &lasting(1));
    let _node = rig.node(Vendor::FastDds, "pub rt/back string_be 3 1 0 rt1");
    // Unchanged: the first word states the byte order of the rest.
    take(&mut subscription, 1, |payload, _| {
        assert_eq!(&payload[..11], &[0, 0, 0, 0, 0, 0, 0, 4, b'a', b'a', b'a'][..11])
    });
}

/// Returns the payload of a plain message.
fn plain<T: Plain>(head: T, tail: &[T::Tail]) -> Vec<u8>
where
    T::Tail: Copy,
{
    let len = payload_len::<T>(tail.len()).unwrap();
    // Aligned as slots are.
    let mut memory = vec![0_u64; len.div_ceil(8)];
    let bytes: &mut [u8] = zerocopy::IntoBytes::as_mut_bytes(memory.as_mut_slice());
    let (to, rest) = PlainMut::<T>::new(&mut bytes[..len]).unwrap().split();
    *to = head;
    rest.copy_from_slice(tail);
    bytes[..len].to_vec()
}

/// Sends a sample to ROS 2, where a node with independent definitions decodes and encodes it again;
/// checks that it returns unchanged.
fn comes_back(
    domain_id: u32,
    kind: &str,
    schema: Schema,
    payload: &[u8],
    same: impl Fn(&[u8], &[u8]),
) {
    let rules = json!([
        { "topic": "/there", "direction": "to_ros" },
        { "topic": "/back", "direction": "from_ros" },
    ]);
    let rig = Rig::new(domain_id, rules, &[("there", 65536, lasting(1))]);
    let mut publisher: Publisher = rig.publisher("there", "sensor", schema, 65536, &lasting(1));
    let mut loan = publisher.loan(payload.len()).unwrap();
    loan.payload_mut().copy_from_slice(payload);
    publisher.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
    let mut node = rig.node(Vendor::Python, &format!("echo rt/there rt/back {kind}"));
    eventually("echoed", || node.has_printed("echoed sensor_frame"));
    let mut subscription = rig.subscription("back", &lasting(1));
    take(&mut subscription, 1, |back, _| same(payload, back));
    let report = rig.report();
    let converted = |topics: &[driveline_gateway::Ros2TopicReport]| {
        topics[0].publishers.iter().all(|p| p.converted)
    };
    assert!(converted(&report.to_ros) && converted(&report.from_ros), "{report:?}");
}

/// Compares plain messages, which all begin with the header.
fn equal(sent: &[u8], back: &[u8]) {
    const TIME: usize = std::mem::offset_of!(Header, source_time_ns);
    const FRAME: usize = std::mem::offset_of!(Header, frame_id);
    let time = |bytes: &[u8]| u64::from_ne_bytes(bytes[TIME..TIME + 8].try_into().unwrap());
    // ROS 2 has wall time, which is read once for each direction; it does not have the number of
    // the frame.
    assert!(time(sent).abs_diff(time(back)) < 1_000_000_000, "{} {}", time(sent), time(back));
    assert_eq!(sent[FRAME..], back[FRAME..]);
}

fn header() -> Header {
    Header::new(driveline_types::MonotonicNs::now().0, "sensor_frame", 0).unwrap()
}

#[test]
fn imu_comes_back_from_ros_2() {
    let mut head = Imu { header: header(), ..Imu::default() };
    head.orientation = [0.1, 0.2, 0.3, 0.9];
    head.angular_velocity = [1.5, -2.5, 3.5];
    head.linear_acceleration = [0.25, 9.75, -0.5];
    head.angular_velocity_covariance[4] = 0.5;
    comes_back(82, "imu", Imu::schema(), &plain(head, &[]), equal);
}

#[test]
fn a_point_cloud_comes_back_from_ros_2() {
    let mut head = PointCloud {
        header: header(),
        width: 5,
        height: 2,
        point_step: 12,
        row_step: 60,
        is_dense: 1,
        field_count: 3,
        ..PointCloud::default()
    };
    for (n, (field, name)) in head.fields.iter_mut().zip(["x", "y", "z"]).enumerate() {
        *field = PointField {
            name: driveline_msgs::header::to_fixed_text("name", name).unwrap(),
            offset: 4 * n as u32,
            datatype: 7,
            count: 1,
        };
    }
    let data: Vec<u8> = (0..120).collect();
    comes_back(83, "cloud", PointCloud::schema(), &plain(head, &data), equal);
}

#[test]
fn a_radar_scan_comes_back_from_ros_2() {
    let returns: Vec<_> = (0..7_u8)
        .map(|n| RadarReturn {
            range: f32::from(n) * 3.5,
            azimuth: 0.25,
            elevation: -0.125,
            doppler_velocity: -f32::from(n),
            amplitude: 60.0,
        })
        .collect();
    comes_back(
        84,
        "radar",
        RadarScan::schema(),
        &plain(RadarScan { header: header() }, &returns),
        equal,
    );
}

#[test]
fn detections_come_back_from_ros_2() {
    let of = |x: f32, label: &str| Detection2D {
        r#box: Some(BoundingBox2D { x, y: 20.0, width: 30.0, height: 40.0 }),
        class_id: 0,
        class_label: label.into(),
        score: 0.75,
    };
    let header = proto::Header {
        source_time_ns: driveline_types::MonotonicNs::now().0,
        frame_id: "sensor_frame".into(),
        frame_index: 0,
    };
    let message = Detections2D {
        header: Some(header),
        detections: vec![of(1.0, "car"), of(2.0, "truck")],
        ..Detections2D::default()
    };
    let same = |_: &[u8], back: &[u8]| {
        let back = Detections2D::decode(back).unwrap();
        assert_eq!(
            (back.header.unwrap().frame_id.as_str(), &back.detections),
            ("sensor_frame", &message.detections)
        );
    };
    comes_back(85, "detections", Kind::Detections2D.schema(), &message.encode_to_vec(), same);
}

/// DDS sends a request to every matched reader. A server on Fast DDS would read the first bytes of
/// the request as lengths.
#[test]
fn a_server_on_fast_dds_is_refused_and_no_request_reaches_it() {
    let rig = rig_of(86, json!([{ "service": "/add", "type": ADD, "server": "ros" }]));
    let _good = rig.peer("serve add add 0");
    let mut asking = client(&domain(&rig), "add", ADD);
    assert_eq!(sum_of(&call(&mut asking, &two(1, 2)).unwrap()), 3);
    let mut other = rig.node(Vendor::FastDds, "serve add");
    eventually("both are seen", || report(&rig).servers.len() == 2);
    // The Fast DDS server has matched the gateway's client. From here on the gateway holds requests
    // back, not DDS.
    eventually("matched", || other.has_printed("matched"));
    for n in 0..5 {
        let refused = call(&mut asking, &two(n, 2)).unwrap_err().to_string();
        assert!(refused.contains("2 nodes offer it"), "{refused}");
    }
    let printed = other.end();
    assert!(!printed.iter().any(|l| l.starts_with("got")), "{printed:?}");
    eventually("alone again", || report(&rig).callable);
    assert_eq!(sum_of(&call(&mut asking, &two(2, 2)).unwrap()), 4);
}

#[test]
fn a_server_on_fast_dds_alone_is_refused_with_the_reason() {
    let rig = rig_of(87, json!([{ "service": "/add", "type": ADD, "server": "ros" }]));
    let other = rig.node(Vendor::FastDds, "serve add");
    let mut asking = client(&domain(&rig), "add", ADD);
    let refused = call(&mut asking, &two(1, 2)).unwrap_err().to_string();
    assert!(refused.contains("Fast DDS") && refused.contains("rmw_cyclonedds_cpp"), "{refused}");
    let reported = report(&rig);
    assert!(
        reported.servers[0].problem.as_ref().is_some_and(|p| p.contains("Fast DDS")),
        "{reported:?}"
    );
    // The gateway refuses calls before it logs the reason, and reports after that.
    assert!(rig.logged("Fast DDS"));
    let printed = other.end();
    assert!(!printed.iter().any(|l| l.starts_with("got")), "{printed:?}");
}

#[test]
fn a_client_on_fast_dds_is_refused_and_others_are_served() {
    let rig = rig_of(88, json!([{ "service": "/add", "type": ADD, "server": "driveline" }]));
    let (sender, asked) = channel();
    let sender = Mutex::new(sender);
    let _server = serve(&rig, "add", ADD, "adder", move |request| {
        sender.lock().unwrap().send(request.sample.payload().unwrap()[4]).unwrap();
        add(request);
    });
    let mut other = rig.node(Vendor::FastDds, "call add");
    eventually("its requests are counted", || ended(&rig, "other_vendor") >= 3);
    assert!(rig.logged("Fast DDS"));
    // Another thread reads the node's output.
    eventually("matched", || other.has_printed("matched"));
    let problems = report(&rig).problems;
    assert!(
        problems.len() == 1 && problems[0].contains("is not served: it is on Fast DDS"),
        "{problems:?}"
    );
    let mut good = rig.peer("call add add 100 3");
    eventually("answered", || good.has_printed("answer 3: 105"));
    assert!(asked.try_iter().all(|a| a == 100), "the other client asks for 2 + 3");
}
