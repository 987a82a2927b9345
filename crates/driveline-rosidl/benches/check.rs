// SPDX-License-Identifier: Apache-2.0
//! Measures the time to check a sample and to copy it; the gateway does both with each sample.
//! Prints medians. Run it with `cargo bench -p driveline-rosidl --bench check`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark may stop at a surprise")]

use driveline_rosidl::cdr::{self, ByteOrder, Encoder};
use driveline_rosidl::{Catalog, Layout, parse_msg};
use std::hint::black_box;
use std::time::Instant;

const DEFINITIONS: [(&str, &str); 13] = [
    ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec\n"),
    ("std_msgs/msg/Header", "builtin_interfaces/Time stamp\nstring frame_id\n"),
    ("geometry_msgs/msg/Point", "float64 x\nfloat64 y\nfloat64 z\n"),
    ("geometry_msgs/msg/Quaternion", "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1\n"),
    ("geometry_msgs/msg/Pose", "Point position\nQuaternion orientation\n"),
    ("geometry_msgs/msg/PoseWithCovariance", "Pose pose\nfloat64[36] covariance\n"),
    ("geometry_msgs/msg/PoseStamped", "std_msgs/Header header\nPose pose\n"),
    (
        "nav_msgs/msg/Odometry",
        "std_msgs/Header header\nstring child_frame_id\ngeometry_msgs/PoseWithCovariance \
         pose\ngeometry_msgs/PoseWithCovariance twist\n",
    ),
    ("nav_msgs/msg/Path", "std_msgs/Header header\ngeometry_msgs/PoseStamped[] poses\n"),
    ("nav_msgs/msg/OccupancyGrid", "std_msgs/Header header\nint8[] data\n"),
    ("geometry_msgs/msg/PoseArray", "std_msgs/Header header\nPose[] poses\n"),
    ("test/msg/Names", "string[] names\n"),
    ("test/msg/Flags", "bool[] flags\n"),
];

fn layout(name: &str) -> Layout {
    let mut catalog = Catalog::new();
    for (name, text) in DEFINITIONS {
        catalog.add_message(parse_msg(&name.parse().unwrap(), "bench", text).unwrap()).unwrap();
    }
    catalog.layout(&name.parse().unwrap()).unwrap()
}

fn header(to: &mut Encoder) {
    to.number(7_i32);
    to.number(8_u32);
    to.string(b"base_link").unwrap();
}

/// Returns a sample of about `bytes` bytes. Its elements are written one after the other.
fn sample(name: &str, bytes: usize) -> Vec<u8> {
    let mut to = Encoder::new(ByteOrder::Little);
    match name {
        "nav_msgs/msg/Odometry" => {
            header(&mut to);
            to.string(b"base_footprint").unwrap();
            to.numbers(&[0.5_f64; 2 * (7 + 36)]);
        }
        "nav_msgs/msg/OccupancyGrid" => {
            header(&mut to);
            to.length(bytes).unwrap();
            to.bytes(&vec![1; bytes]);
        }
        "geometry_msgs/msg/PoseArray" => {
            header(&mut to);
            to.length(bytes / 56).unwrap();
            to.numbers(&vec![0.5_f64; bytes / 56 * 7]);
        }
        "nav_msgs/msg/Path" => {
            header(&mut to);
            to.length(bytes / 80).unwrap();
            for _ in 0..bytes / 80 {
                header(&mut to);
                to.numbers(&[0.5_f64; 7]);
            }
        }
        "test/msg/Names" => {
            to.length(bytes / 16).unwrap();
            (0..bytes / 16).for_each(|_| to.string(b"left_wheel").unwrap());
        }
        _ => {
            to.length(bytes).unwrap();
            to.bytes(&vec![1; bytes]);
        }
    }
    to.finish()
}

fn median_ns(rounds: usize, mut of: impl FnMut()) -> u128 {
    let mut took: Vec<u128> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            of();
            begin.elapsed().as_nanos()
        })
        .collect();
    took.sort_unstable();
    took[rounds / 2]
}

fn main() {
    println!("{:28} {:>10} {:>12} {:>12}", "type", "bytes", "check ns", "copy ns");
    for (name, bytes, rounds) in [
        ("nav_msgs/msg/Odometry", 0, 100_000),
        ("nav_msgs/msg/OccupancyGrid", 4 << 20, 1000),
        ("geometry_msgs/msg/PoseArray", 4 << 20, 1000),
        ("nav_msgs/msg/Path", 4 << 20, 200),
        ("test/msg/Names", 4 << 20, 200),
        ("test/msg/Flags", 4 << 20, 200),
    ] {
        let (layout, sample) = (layout(name), sample(name, bytes));
        let mut copy = vec![0; sample.len()];
        let copied = median_ns(rounds, || black_box(&mut copy).copy_from_slice(black_box(&sample)));
        let checked =
            median_ns(rounds, || cdr::check(&layout, black_box(&sample)).expect("it is one"));
        println!("{name:28} {:>10} {checked:>12} {copied:>12}", sample.len());
    }
}
