// SPDX-License-Identifier: Apache-2.0
//! C++ and Rust define every type with the same text: otherwise two ends in two languages would
//! refuse each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

use driveline_msgs::{
    CompressedImage, Header, Image, Imu, PointCloud, PointField, RadarReturn, RadarScan, proto,
};
use driveline_types::{Plain, ProtobufMessage, plain_type};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

// The types of `print_schemas.cpp`.

#[plain_type(name = "probe/Point")]
struct Point {
    x: f32,
    y: f32,
}

#[plain_type(name = "probe/Pair")]
struct Pair {
    first: Point,
    others: [Point; 2],
}

#[plain_type(name = "probe/Everything", tail(tail: Pair))]
struct Everything {
    a_u64: u64,
    a_long: i64,
    a_long_long: i64,
    matrix: [[f64; 3]; 2],
    nested_matrix: [[f64; 2]; 2],
    pairs: [Pair; 2],
    a_u32: u32,
    an_i32: i32,
    one_float: [f32; 1],
    a_float: f32,
    a_u16: u16,
    an_i16: i16,
    a_u8: u8,
    an_i8: i8,
    text: [u8; 3],
    raw: [u8; 7],
}

#[plain_type(name = "probe/Aligned", tail(samples: f64))]
#[repr(C, align(32))]
struct Aligned {
    values: [f32; 8],
}

fn rust_definitions() -> BTreeMap<String, String> {
    fn plain<T: Plain>() -> (String, String) {
        let text = T::layout().to_string();
        assert_eq!(text.parse(), Ok(T::layout()), "{} is parsed by the other end", T::NAME);
        (T::NAME.into(), text)
    }
    fn protobuf<T: ProtobufMessage>() -> (String, String) {
        (T::NAME.into(), T::DEFINITION.into())
    }
    let mut all = BTreeMap::from([
        plain::<Header>(),
        plain::<Image>(),
        plain::<CompressedImage>(),
        plain::<Imu>(),
        plain::<PointField>(),
        plain::<PointCloud>(),
        plain::<RadarReturn>(),
        plain::<RadarScan>(),
        plain::<Point>(),
        plain::<Pair>(),
        plain::<Everything>(),
        plain::<Aligned>(),
        protobuf::<proto::Header>(),
        protobuf::<proto::ImageSize>(),
        protobuf::<proto::ImagePoint>(),
        protobuf::<proto::BoundingBox2D>(),
        protobuf::<proto::LaneMarking>(),
        protobuf::<proto::LaneMarkings>(),
        protobuf::<proto::Detection2D>(),
        protobuf::<proto::Detections2D>(),
        protobuf::<proto::Track2D>(),
        protobuf::<proto::Tracks2D>(),
        protobuf::<proto::EgoLane>(),
        protobuf::<proto::SceneObject>(),
        protobuf::<proto::FusedScene>(),
        protobuf::<proto::RunHealth>(),
    ]);
    let probe = tests_dir().join("schema_probe.proto");
    let set = protox::compile([probe], [tests_dir(), root().join("proto")]).unwrap();
    for name in ["driveline.probe.Probe", "driveline.probe.Probe.Part2D"] {
        all.insert(name.into(), driveline_build::definition(&set, name).unwrap());
    }
    all
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn tests_dir() -> PathBuf {
    root().join("sdk/cpp/tests/plain")
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}; run `make setup`"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn cpp_definitions() -> BTreeMap<String, String> {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_twins");
    run(Command::new("cmake").arg("-S").arg(tests_dir()).arg("-B").arg(&build).args([
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DDRIVELINE_SCHEMAS_ONLY=ON",
    ]));
    run(Command::new("cmake").arg("--build").arg(&build).args(["--target", "plain_print_schemas"]));
    let printed = run(&mut Command::new(build.join("plain_print_schemas")));
    let parts = printed.split("=== ").skip(1);
    parts
        .map(|part| {
            part.split_once('\n').map(|(name, text)| (name.to_owned(), text.to_owned())).unwrap()
        })
        .collect()
}

#[test]
fn definitions_are_the_same_in_cpp_byte_for_byte() {
    let (rust, cpp) = (rust_definitions(), cpp_definitions());
    for (name, text) in &rust {
        assert_eq!(cpp.get(name), Some(text), "{name}: C++ (left) and Rust (right)");
    }
    assert_eq!(cpp.len(), rust.len(), "C++ prints types that Rust does not compare");
}

#[test]
fn a_changed_shipped_plain_type_is_noticed() {
    // Recordings and other releases depend on these hashes; a change needs a new type name, or a
    // line in the change log.
    let hash = |name: &str, hash: String| (name.to_owned(), hash);
    let now = [
        hash(Image::NAME, Image::schema().hash().to_string()),
        hash(PointCloud::NAME, PointCloud::schema().hash().to_string()),
        hash(Imu::NAME, Imu::schema().hash().to_string()),
        hash(RadarScan::NAME, RadarScan::schema().hash().to_string()),
    ];
    let known = [
        ("driveline/Image", "6e437f5703d3140a"),
        ("driveline/PointCloud", "9d14ea369e5c6a37"),
        ("driveline/Imu", "7814a79747b9798a"),
        ("driveline/RadarScan", "719a441ac6726526"),
    ];
    assert_eq!(now, known.map(|(n, h)| hash(n, h.to_owned())));
}
