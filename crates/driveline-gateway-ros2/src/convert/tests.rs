// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::types::Types;
use driveline_gateway::ros2::{Form, SourceTime};
use driveline_msgs::proto::{BoundingBox2D, Detection2D, Detections2D};
use driveline_msgs::{Encoding, Header, Imu, PointCloud, PointField, RadarReturn, RadarScan};
use driveline_rosidl::cdr::{ByteOrder, Encoder};
use driveline_rosidl::{Catalog, Value};
use driveline_types::plain::payload_len;
use driveline_types::{MonotonicNs, Plain, PlainMut};
use proptest::prelude::*;

const WALL: i64 = 1_700_000_000_000_000_000;
const ARRIVAL: Arrival = Arrival {
    time: MonotonicNs(9_000),
    stamps_ahead_ns: Some(WALL),
    frame_index: 7,
    source_time: SourceTime::Stamp,
};

/// Memory aligned as slots are.
#[repr(C, align(64))]
struct Slot([u8; 4096]);

fn slot() -> Box<Slot> {
    Box::new(Slot([0xee; 4096]))
}

/// Writes a plain message; returns the length of the payload.
fn plain<T: Plain>(slot: &mut Slot, head: T, tail: &[T::Tail]) -> usize
where
    T::Tail: Copy,
{
    let len = payload_len::<T>(tail.len()).unwrap();
    let (to, rest) = PlainMut::<T>::new(&mut slot.0[..len]).unwrap().split();
    *to = head;
    rest.copy_from_slice(tail);
    len
}

fn joined(sample: &ToRos<'_>) -> Vec<u8> {
    let all = sample.parts().concat();
    assert_eq!((all.len(), all.len() % 4), (sample.len(), 0), "padded");
    all
}

fn image_bytes(encoding: &str, data: &[u8]) -> Vec<u8> {
    let mut to = Encoder::new(ByteOrder::Little);
    to.number(1_700_000_001i32);
    to.number(5u32);
    to.string(b"cam").unwrap();
    to.number(2u32);
    to.number(2u32);
    to.string(encoding.as_bytes()).unwrap();
    to.number(0u8);
    to.number(4u32);
    to.length(data.len()).unwrap();
    to.bytes(data);
    to.finish()
}

/// Bytes laid out by hand by the rules of XCDR1: 4 bytes of encapsulation, alignment counted after
/// them, strings with their NUL.
#[test]
fn the_bytes_of_an_image() {
    let mut slot = slot();
    let header = Header::new(1_000_000_005, "cam", 3).unwrap();
    let head = driveline_msgs::Image {
        header,
        width: 2,
        height: 1,
        step: 3,
        encoding: Encoding::Mono8 as u32,
    };
    let len = plain(&mut slot, head, &[10, 20, 30]);
    let sample = ToRos::new(Kind::Image, &slot.0[..len], Some(WALL), 4096).unwrap();
    #[rustfmt::skip]
    let golden = [
        0, 1, 0, 1, // little endian; one byte of padding at the end
        0x01, 0xf1, 0x53, 0x65, 5, 0, 0, 0, // 1700000001 s, 5 ns
        4, 0, 0, 0, b'c', b'a', b'm', 0,
        1, 0, 0, 0, 2, 0, 0, 0, // height, width
        6, 0, 0, 0, b'm', b'o', b'n', b'o', b'8', 0, 0, 0, // the last is_bigendian, and a gap
        3, 0, 0, 0, 3, 0, 0, 0, 10, 20, 30, // step; data
        0,
    ];
    assert_eq!(joined(&sample), golden);
    let back = FromRos::new(Kind::Image, &golden, &ARRIVAL).unwrap();
    assert_eq!((back.source_time_ns(), back.payload_len().unwrap()), (1_000_000_005, len));
    let mut again = self::slot();
    back.write(&mut again.0[..len]).unwrap();
    let frame =
        driveline_msgs::ImageView::new(driveline_types::PlainRef::new(&again.0[..len]).unwrap())
            .unwrap();
    assert_eq!(
        (
            frame.head().header.frame_index,
            frame.data(),
            frame.header().frame_id().unwrap().as_str()
        ),
        (7, &[10, 20, 30][..], "cam")
    );
}

#[test]
fn every_encoding_is_converted_both_ways_by_its_ros_name() {
    let mut slot = slot();
    for encoding in Encoding::ALL {
        let header = Header::new(1_000_000_005, "cam", 3).unwrap();
        let head = driveline_msgs::Image::new(header, 2, 2, encoding).unwrap();
        let data: Vec<u8> = (1..=head.data_len() as u8).collect();
        let len = plain(&mut slot, head, &data);
        let sample = joined(&ToRos::new(Kind::Image, &slot.0[..len], Some(WALL), 4096).unwrap());
        let name = encoding.ros_name().as_bytes();
        assert!(sample.windows(name.len()).any(|w| w == name), "{encoding}");
        let back = FromRos::new(Kind::Image, &sample, &ARRIVAL).unwrap();
        let mut again = self::slot();
        let len = back.payload_len().unwrap();
        back.write(&mut again.0[..len]).unwrap();
        let image = driveline_msgs::ImageView::new(
            driveline_types::PlainRef::new(&again.0[..len]).unwrap(),
        )
        .unwrap();
        assert_eq!((image.encoding(), image.data()), (encoding, &data[..]));
    }
}

#[test]
fn a_compressed_image_is_converted_both_ways() {
    let mut slot = slot();
    let header = Header::new(1_000_000_005, "cam", 3).unwrap();
    let head = driveline_msgs::CompressedImage::new(header, "bgr8; jpeg compressed bgr8").unwrap();
    let len = plain(&mut slot, head, &[0xff, 0xd8, 0xff]);
    let sample =
        joined(&ToRos::new(Kind::CompressedImage, &slot.0[..len], Some(WALL), 4096).unwrap());
    let back = FromRos::new(Kind::CompressedImage, &sample, &ARRIVAL).unwrap();
    assert_eq!((back.source_time_ns(), back.payload_len().unwrap()), (1_000_000_005, len));
    let mut again = self::slot();
    back.write(&mut again.0[..len]).unwrap();
    let image =
        driveline_types::PlainRef::<driveline_msgs::CompressedImage>::new(&again.0[..len]).unwrap();
    assert_eq!(
        (image.copy_head().format(), image.tail()),
        (Ok("bgr8; jpeg compressed bgr8"), &[0xff, 0xd8, 0xff][..])
    );

    let mut to = Encoder::new(ByteOrder::Little);
    to.number(0i32);
    to.number(0u32);
    to.string(b"cam").unwrap();
    to.string(&[b'j'; 64]).unwrap();
    to.number(0u32);
    let e = FromRos::new(Kind::CompressedImage, &to.finish(), &ARRIVAL).unwrap_err();
    assert_eq!(
        (e.name(), e.to_string().as_str()),
        ("format", "the image's format is 64 bytes long where at most 63 fit: shorten it")
    );
}

#[test]
fn images_that_do_not_fit_have_a_named_reason() {
    let reason = |bytes: &[u8]| FromRos::new(Kind::Image, bytes, &ARRIVAL).unwrap_err().name();
    let good = image_bytes("mono8", &[1; 8]);
    assert!(FromRos::new(Kind::Image, &good, &ARRIVAL).is_ok());
    assert!(FromRos::new(Kind::Image, &image_bytes("uyvy", &[1; 8]), &ARRIVAL).is_ok());
    assert_eq!(reason(&image_bytes("32FC3", &[1; 8])), "encoding");
    assert_eq!(reason(&image_bytes("nv12", &[1; 8])), "image", "8 bytes; nv12 needs 12");
    assert_eq!(reason(&image_bytes("mono8", &[1; 7])), "image");
    // `is_bigendian` follows the name and its NUL; it matters only for numbers of several bytes.
    let big = |encoding: &str| {
        let mut bytes = image_bytes(encoding, &[1; 8]);
        let name = bytes.windows(encoding.len()).position(|w| w == encoding.as_bytes()).unwrap();
        bytes[name + encoding.len() + 1] = 1;
        bytes
    };
    assert!(FromRos::new(Kind::Image, &big("mono8"), &ARRIVAL).is_ok());
    assert_eq!(reason(&big("16UC1")), "big_endian");
    assert_eq!(reason(&good[..good.len() - 1]), "length");
    assert_eq!(reason(&good[..30]), "truncated");
    assert_eq!(reason(&[&good[..], &[0; 8]].concat()), "trailing");
    assert_eq!(reason(&[0, 3, 0, 0]), "encapsulation");
    assert_eq!(reason(&[0]), "no_header");
    let mut swapped = good.clone();
    swapped[1] = 0;
    assert_eq!(reason(&swapped), "byte_order");
    let mut long = good.clone();
    long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(reason(&long), "length");
    let frame = |name: &[u8]| {
        let mut to = Encoder::new(ByteOrder::Little);
        to.number(0i32);
        to.number(0u32);
        to.string(name).unwrap();
        reason(&to.finish())
    };
    assert_eq!(frame(&[b'a'; 48]), "frame_id", "one byte too many");
    assert_eq!(frame(b"\xff"), "frame_id");
    assert_eq!(frame(&[b'a'; 47]), "truncated", "the frame fits, and the rest is missing");
}

#[test]
fn stamps_are_exact_or_refused() {
    let time = |sec: i32, nanosec: u32, source_time| {
        let mut bytes = image_bytes("mono8", &[1; 8]);
        bytes[4..8].copy_from_slice(&sec.to_le_bytes());
        bytes[8..12].copy_from_slice(&nanosec.to_le_bytes());
        FromRos::new(Kind::Image, &bytes, &Arrival { source_time, ..ARRIVAL })
            .map(|s| s.source_time_ns())
            .map_err(|e| e.name())
    };
    assert_eq!(time(1_700_000_000, 1, SourceTime::Stamp), Ok(1));
    assert_eq!(time(0, 0, SourceTime::Stamp), Ok(0), "unknown");
    assert_eq!(
        time(1_699_999_999, 0, SourceTime::Stamp),
        Err("stamp"),
        "before this host was started"
    );
    assert_eq!(time(1_700_000_000, 0, SourceTime::Stamp), Err("stamp"), "would read as unknown");
    assert_eq!(time(1_800_000_000, 1_000_000_000, SourceTime::Stamp), Err("stamp"));
    assert_eq!(time(-1, 0, SourceTime::Stamp), Err("stamp"));
    assert_eq!(time(-1, 0, SourceTime::Arrival), Ok(9_000));
    assert_eq!(header::stamp(1, Some(WALL)), Ok((1_700_000_000, 1)));
    assert_eq!(header::stamp(0, Some(WALL)), Ok((0, 0)));
    assert_eq!(header::stamp(1, None), Ok((0, 0)), "the time is not known yet");
    assert_eq!(header::stamp(2, Some(-5)), Ok((-1, 999_999_997)));
    for (source, offset) in [(u64::MAX, 0), (1 << 62, i64::MAX), (3_000_000_000_000_000_000, 0)] {
        assert!(header::stamp(source, Some(offset)).is_err(), "{source} {offset}");
    }
}

/// Returns the sample's value as read by an independent reader that knows only the definition.
fn by_definition(kind: Kind, sample: &[u8]) -> Value {
    let types = Types::new(&[]).unwrap();
    let ros = types.to_ros(&kind.schema()).unwrap().ros;
    let crossing = types.from_ros(&ros.dds(), Form::Cdr).unwrap();
    let (name, catalog) = Catalog::from_schema(&crossing.schema).unwrap();
    driveline_rosidl::cdr::read(&catalog.layout(&name).unwrap(), sample).unwrap()
}

/// Returns the same sample in the other byte order.
fn other_order(kind: Kind, sample: &[u8]) -> Vec<u8> {
    let types = Types::new(&[]).unwrap();
    let ros = types.to_ros(&kind.schema()).unwrap().ros;
    let (name, catalog) =
        Catalog::from_schema(&types.from_ros(&ros.dds(), Form::Cdr).unwrap().schema).unwrap();
    driveline_rosidl::cdr::write(
        &catalog.layout(&name).unwrap(),
        &by_definition(kind, sample),
        ByteOrder::Big,
    )
    .unwrap()
}

/// Returns a sample with about `len` bytes of data, and `frame` bytes in the name of its frame.
fn long_sample(kind: Kind, order: ByteOrder, frame: usize, len: usize) -> Vec<u8> {
    let mut to = Encoder::new(order);
    let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
    to.number(1_700_000_001i32);
    to.number(5u32);
    to.string(&vec![b'f'; frame]).unwrap();
    match kind {
        Kind::Image => {
            to.numbers(&[1, len as u32]);
            to.string(b"mono8").unwrap();
            to.number(0u8);
            to.number(len as u32);
            to.length(len).unwrap();
            to.bytes(&data);
        }
        Kind::CompressedImage => {
            to.string(b"jpeg").unwrap();
            to.length(len).unwrap();
            to.bytes(&data);
        }
        Kind::PointCloud => {
            to.numbers(&[1, len as u32, 1]);
            to.string(b"x").unwrap();
            to.number(0u32);
            to.number(2u8);
            to.number(1u32);
            to.number(0u8);
            to.numbers(&[1, len as u32]);
            to.length(len).unwrap();
            to.bytes(&data);
            to.number(1u8);
        }
        Kind::Imu => to.numbers(&[0.5f64; 4 + 9 + 3 + 9 + 3 + 9]),
        Kind::RadarScan => {
            to.length(len / 20).unwrap();
            to.numbers(&vec![1.5f32; len / 20 * 5]);
        }
        Kind::Detections2D => {
            to.length(len / 500).unwrap();
            for _ in 0..len / 500 {
                to.numbers(&[0u32; 2]);
                to.string(b"").unwrap();
                to.length(1).unwrap();
                to.string(b"car").unwrap();
                to.numbers(&[0.5f64; 1]);
                to.numbers(&[0.0f64; 7 + 36]);
                to.numbers(&[10.0f64, 20.0, 0.0, 4.0, 8.0]);
                to.string(b"").unwrap();
            }
        }
        Kind::RunHealth => to.length(0).unwrap(),
    }
    to.finish()
}

/// Converts a payload to ROS 2 and back, in both byte orders.
fn round_trip(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let sample = joined(&ToRos::new(kind, payload, Some(WALL), 1 << 20).unwrap());
    let mut last = None;
    for sample in [sample.clone(), other_order(kind, &sample)] {
        let back = FromRos::new(kind, &sample, &ARRIVAL).unwrap();
        let mut slot = slot();
        let len = back.payload_len().unwrap();
        back.write(&mut slot.0[..len]).unwrap();
        let bytes = slot.0[..len].to_vec();
        assert!(last.is_none_or(|l| l == bytes), "both orders say the same");
        last = Some(bytes);
        assert!(back.write(&mut slot.0[..len / 2]).is_err(), "half a slot is refused");
    }
    last.unwrap()
}

fn header() -> impl Strategy<Value = Header> {
    (1..1u64 << 58, "[a-z/é]{0,20}").prop_map(|(time, frame)| Header::new(time, &frame, 7).unwrap())
}

fn numbers<const N: usize>() -> impl Strategy<Value = [f64; N]> {
    prop::array::uniform::<_, N>(-1e9f64..1e9)
}

proptest! {
    #[test]
    fn images_round_trip(
        header in header(),
        width in 0u32..9,
        height in 0u32..9,
        gap in 0u32..4,
        seed: u8,
    ) {
        let head = driveline_msgs::Image {
            header,
            width,
            height,
            step: width * 3 + gap,
            encoding: Encoding::Rgb8 as u32,
        };
        let data: Vec<u8> = (0..head.step * height).map(|i| seed.wrapping_add(i as u8)).collect();
        let mut slot = slot();
        let len = plain(&mut slot, head, &data);
        prop_assert_eq!(
            &round_trip(Kind::Image, &slot.0[..len])[..size_of_val(&head)],
            &slot.0[..size_of_val(&head)]
        );
        let sample = joined(&ToRos::new(Kind::Image, &slot.0[..len], Some(WALL), 4096).unwrap());
        let Value::Struct(read) = by_definition(Kind::Image, &sample) else { panic!() };
        prop_assert_eq!(
            &read[1..4],
            &[Value::U32(height), Value::U32(width), Value::String(b"rgb8".to_vec())]
        );
        prop_assert_eq!(&read[5..], &[Value::U32(head.step), Value::U8s(data)]);
    }

    #[test]
    fn clouds_round_trip(
        header in header(),
        width in 0u32..5,
        height in 0u32..4,
        names in prop::collection::vec("[a-z_]{0,19}", 0..16),
        is_dense in 0u32..2,
    ) {
        let mut head = PointCloud {
            header,
            width,
            height,
            point_step: 20,
            row_step: width * 20 + 3,
            is_dense,
            field_count: names.len() as u32,
            ..PointCloud::default()
        };
        for (field, name) in head.fields.iter_mut().zip(&names) {
            *field = PointField {
                name: driveline_msgs::header::to_fixed_text("name", name).unwrap(),
                offset: 12,
                datatype: 7,
                count: 2,
            };
        }
        let data: Vec<u8> = (0..head.row_step * height).map(|i| i as u8).collect();
        let mut slot = slot();
        let len = plain(&mut slot, head, &data);
        let back = round_trip(Kind::PointCloud, &slot.0[..len]);
        let view =
            driveline_msgs::CloudView::new(driveline_types::PlainRef::new(&back).unwrap()).ok();
        // The copy is a `Vec`, which may not be aligned as a slot. Then there is no view, and only
        // the length is compared.
        if let Some(view) = view {
            prop_assert_eq!((view.head(), view.data()), (&head, &data[..]));
        }
        prop_assert_eq!(back.len(), len);
    }

    #[test]
    fn measurements_round_trip(
        header in header(),
        a in numbers::<4>(),
        b in numbers::<9>(),
        c in numbers::<3>(),
    ) {
        let imu = Imu {
            header,
            orientation: a,
            orientation_covariance: b,
            angular_velocity: c,
            angular_velocity_covariance: b,
            linear_acceleration: c,
            linear_acceleration_covariance: b,
        };
        let mut slot = slot();
        let len = plain(&mut slot, imu, &[]);
        prop_assert_eq!(&round_trip(Kind::Imu, &slot.0[..len])[..], &slot.0[..len]);
    }

    #[test]
    fn radar_scans_round_trip(
        header in header(),
        numbers in prop::collection::vec(prop::array::uniform5(-1e3f32..1e3), 0..20),
    ) {
        let returns: Vec<_> = numbers
            .iter()
            .map(|[range, azimuth, elevation, doppler_velocity, amplitude]| RadarReturn {
                range: *range,
                azimuth: *azimuth,
                elevation: *elevation,
                doppler_velocity: *doppler_velocity,
                amplitude: *amplitude,
            })
            .collect();
        let mut slot = slot();
        let len = plain(&mut slot, RadarScan { header }, &returns);
        let tail = len - returns.len() * size_of::<RadarReturn>();
        prop_assert_eq!(&round_trip(Kind::RadarScan, &slot.0[..len])[tail..], &slot.0[tail..len]);
    }

    #[test]
    fn detections_round_trip(
        header in header(),
        boxes in prop::collection::vec(
            (-500i16..500, -500i16..500, 0i16..500, 0i16..500, "[a-z]{1,9}", 0f32..1.0),
            0..6,
        ),
    ) {
        let frame_id = header.frame_id().unwrap().to_string();
        let message = Detections2D {
            header: Some(driveline_msgs::proto::Header {
                source_time_ns: header.source_time_ns,
                frame_id,
                frame_index: 7,
            }),
            detections: boxes
                .iter()
                .map(|(x, y, w, h, label, score)| Detection2D {
                    r#box: Some(BoundingBox2D {
                        x: f32::from(*x),
                        y: f32::from(*y),
                        width: f32::from(*w),
                        height: f32::from(*h),
                    }),
                    class_id: 0,
                    class_label: label.clone(),
                    score: *score,
                })
                .collect(),
            ..Detections2D::default()
        };
        let bytes = prost::Message::encode_to_vec(&message);
        prop_assert_eq!(round_trip(Kind::Detections2D, &bytes), bytes.clone());
        prop_assert!(
            boxes.is_empty()
                || ToRos::new(Kind::Detections2D, &bytes, Some(WALL), 300)
                    .is_err_and(|e| e.name() == "too_long")
        );
    }

    #[test]
    fn a_sample_in_pieces_is_the_same_sample(
        kind in 0usize..5,
        order in 0u8..2,
        frame in 0usize..60,
        len in 0usize..3000,
        cuts in prop::collection::vec(0usize..3200, 0..6),
        flaw in 0usize..4,
    ) {
        let (kind, order) =
            (Kind::ALL[kind], if order == 0 { ByteOrder::Big } else { ByteOrder::Little });
        let mut sample = long_sample(kind, order, frame, len);
        match flaw {
            1 => sample.truncate(sample.len() / 2),
            2 => sample.extend([0; 5]),
            3 => sample[0] = 7,
            _ => {}
        }
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(sample.len())).collect();
        cuts.extend([0, sample.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|w| &sample[w[0]..w[1]]).collect();
        let read = |sample: Result<FromRos<'_>>| {
            sample.map_err(|e| e.to_string()).map(|read| {
                let (mut slot, len) = (slot(), read.payload_len().unwrap());
                read.write(&mut slot.0[..len]).unwrap();
                assert!(read.write(&mut slot.0[..len / 2]).is_err());
                (read.source_time_ns(), slot.0[..len].to_vec())
            })
        };
        let in_pieces = Pieces::from(pieces.as_slice());
        prop_assert_eq!(
            read(FromRos::of_pieces(kind, in_pieces, &ARRIVAL)),
            read(FromRos::new(kind, &sample, &ARRIVAL))
        );
        let passed_on = PassedOn::new(in_pieces, 4096).map(|p| p.parts().concat());
        prop_assert_eq!(passed_on, ToRos::of_cdr(&sample, 4096).map(|s| s.parts().concat()));
        let mut copy = vec![0; sample.len()];
        in_pieces.copy_to(&mut copy).unwrap();
        prop_assert_eq!(&copy, &sample);
        prop_assert!(in_pieces.copy_to(&mut [0; 5000]).is_err());
    }

    #[test]
    fn any_bytes_are_a_sample_or_an_error(
        noise in prop::collection::vec(any::<u8>(), 0..600),
        kind in 0usize..5,
        order in 0u8..2,
    ) {
        let kind = Kind::ALL[kind];
        let sample = [&[0, order, 0, 0][..], &noise].concat();
        if let Ok(back) = FromRos::new(kind, &sample, &ARRIVAL) {
            let mut slot = slot();
            let len = back.payload_len().unwrap();
            prop_assert!(len <= slot.0.len() && back.write(&mut slot.0[..len]).is_ok());
        }
        let mut slot = slot();
        slot.0[..noise.len()].copy_from_slice(&noise);
        for len in [noise.len(), 4096] {
            if let Ok(sample) = ToRos::new(kind, &slot.0[..len], Some(WALL), 1 << 20) {
                prop_assert!(by_definition(kind, &joined(&sample)) != Value::Bool(true));
            }
        }
    }
}

#[test]
fn a_detection_with_more_than_driveline_has_is_named() {
    struct Parts {
        header: (i32, &'static str),
        hypotheses: u32,
        qx: f64,
        theta: f64,
        size: f64,
        id: &'static str,
    }
    let plain = || Parts { header: (0, ""), hypotheses: 1, qx: 0.0, theta: 0.0, size: 4.0, id: "" };
    let read = |p: Parts| {
        let mut to = Encoder::new(ByteOrder::Little);
        to.number(1_700_000_001i32);
        to.number(0u32);
        to.string(b"cam").unwrap();
        to.length(1).unwrap();
        to.number(p.header.0);
        to.number(0u32);
        to.string(p.header.1.as_bytes()).unwrap();
        to.number(p.hypotheses);
        to.string(b"12").unwrap();
        to.number(0.5f64);
        to.numbers(&[0.0, 0.0, 0.0, p.qx, 0.0, 0.0, 1.0]);
        to.numbers(&[0.0; 36]);
        to.numbers(&[10.0, 20.0, p.theta, p.size, 8.0]);
        to.string(p.id.as_bytes()).unwrap();
        let sample = to.finish();
        let read = FromRos::new(Kind::Detections2D, &sample, &ARRIVAL).map_err(|e| e.name())?;
        let Content::Detections2D(d) = read.content else { panic!("another kind") };
        Ok::<_, &str>(d)
    };
    let d = read(plain()).unwrap();
    let expected = Detection2D {
        r#box: Some(BoundingBox2D { x: 8.0, y: 16.0, width: 4.0, height: 8.0 }),
        class_id: 12,
        class_label: "12".into(),
        score: 0.5,
    };
    assert_eq!(d.detections, [expected]);
    assert!(
        read(Parts { header: (1_700_000_001, "cam"), ..plain() }).is_ok(),
        "the same header again"
    );
    for (parts, reason) in [
        (Parts { header: (5, ""), ..plain() }, "detection_header"),
        (Parts { header: (0, "other"), ..plain() }, "detection_header"),
        (Parts { hypotheses: 0, ..plain() }, "hypotheses"),
        (Parts { hypotheses: 2, ..plain() }, "hypotheses"),
        (Parts { qx: 0.1, ..plain() }, "pose"),
        (Parts { theta: 0.1, ..plain() }, "rotated"),
        (Parts { size: 1e300, ..plain() }, "range"),
        (Parts { id: "7", ..plain() }, "track_id"),
    ] {
        assert_eq!(read(parts).unwrap_err(), reason);
    }
}

#[test]
fn cdr_passes_unchanged_and_is_padded() {
    let sample = [0, 1, 0, 2, 3, 0, 0, 0, b'h', b'i', 0];
    let to = ToRos::of_cdr(&sample, 12).unwrap();
    assert_eq!(joined(&to), [0, 1, 0, 1, 3, 0, 0, 0, b'h', b'i', 0, 0]);
    assert_eq!(ToRos::of_cdr(&sample, 11).unwrap_err().name(), "too_long");
    assert_eq!(ToRos::of_cdr(&[0, 7, 0, 0], 99).unwrap_err().name(), "encapsulation");
    assert_eq!(ToRos::of_cdr(&[], 99).unwrap_err().name(), "no_header");
}

#[test]
fn health_becomes_diagnostics_with_levels_and_figures() {
    use driveline_msgs::proto;
    let end = |port: &str, state: &str, min_hz| proto::TopicEndHealth {
        port: port.into(),
        topic: format!("t/{port}"),
        state: state.into(),
        rate_hz: 24.5,
        min_hz,
        ..Default::default()
    };
    let lane = proto::ComponentHealth {
        name: "lane".into(),
        state: "active".into(),
        calls: 7,
        ends: vec![end("image", "flowing", 0.0), end("lanes", "slow", 25.0)],
        ..Default::default()
    };
    let fault = proto::HealthFault { text: "killed by SIGKILL".into(), ago_ms: 5 };
    let module = |name: &str, state: &str, components, last_fault| proto::ModuleHealth {
        name: name.into(),
        state: state.into(),
        ready: state == "ready",
        components,
        last_fault,
        ..Default::default()
    };
    let run = proto::RunHealth {
        header: Some(proto::Header { source_time_ns: 1_000_000_005, ..Default::default() }),
        graph: "comp".into(),
        phase: "running".into(),
        reason: "module 'sensing' is down".into(),
        modules: vec![
            module("sensing", "down", Vec::new(), Some(fault)),
            module("perception", "ready", vec![lane], None),
        ],
        ..Default::default()
    };
    let payload = prost::Message::encode_to_vec(&run);
    let sample = ToRos::new(Kind::RunHealth, &payload, Some(WALL), usize::MAX).unwrap();
    let bytes = joined(&sample);
    let types = Types::new(&[]).unwrap();
    types.to_ros(&Kind::RunHealth.schema()).unwrap().check(&bytes).unwrap();
    let mut from = driveline_rosidl::cdr::Decoder::new(&bytes).unwrap();
    let stamp: (i32, u32) = (from.number().unwrap(), from.number().unwrap());
    assert_eq!(stamp, (1_700_000_001, 5));
    let text = |from: &mut driveline_rosidl::cdr::Decoder<'_>| {
        String::from_utf8(from.string().unwrap().to_vec()).unwrap()
    };
    assert_eq!(text(&mut from), "", "frame");
    let count = from.length(1).unwrap();
    let mut all = Vec::new();
    for _ in 0..count {
        let level: u8 = from.number().unwrap();
        let (name, message, hardware) = (text(&mut from), text(&mut from), text(&mut from));
        assert_eq!(hardware, "");
        let values = from.length(1).unwrap();
        let values: Vec<_> = (0..values).map(|_| (text(&mut from), text(&mut from))).collect();
        all.push((level, name, message, values));
    }
    let short: Vec<_> = all.iter().map(|(l, n, m, _)| (*l, n.as_str(), m.as_str())).collect();
    assert_eq!(
        short,
        [
            (2, "comp", "module 'sensing' is down"),
            (2, "comp/sensing", "down"),
            (1, "comp/perception/lane", "active: 't/lanes' is slow"),
            (0, "comp/perception", "ready"),
        ]
    );
    let has = |of: usize, key: &str, value: &str| {
        let found = all[of].3.iter().any(|(k, v)| k == key && v == value);
        assert!(found, "{key}: {:?}", all[of].3);
    };
    has(1, "last_fault", "killed by SIGKILL");
    has(2, "lanes min_hz", "25");
    has(2, "lanes rate_hz", "24.5");
    has(2, "calls", "7");
    let short = ToRos::new(Kind::RunHealth, &payload, Some(WALL), 100).unwrap_err();
    assert!(matches!(short, ConvertError::TooLong { .. }), "{short}");
}
