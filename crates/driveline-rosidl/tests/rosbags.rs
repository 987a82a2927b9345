// SPDX-License-Identifier: Apache-2.0
//! Every message of ROS 2 Humble and Jazzy in the Python package rosbags, and some generated ones:
//! hashes, definitions and samples both ways. Needs DRIVELINE_ROSBAGS_PYTHON, a Python with that
//! package; `make test-gateways` provides it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod support;

use driveline_rosidl::cdr::{self, ByteOrder};
use driveline_rosidl::{Catalog, Detail, Kind, Layout, TypeName, Value};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value as Json, json};
use std::io::Write as _;
use std::process::{Command, Stdio};
use support::{Invented, Random, has, invented, sample};

/// Number of samples of each type in each direction.
const SAMPLES: u64 = 10;
const INVENTED: usize = 60;

fn ask(request: &Json) -> Json {
    let python = std::env::var_os("DRIVELINE_ROSBAGS_PYTHON")
        .expect("DRIVELINE_ROSBAGS_PYTHON names no Python; run `make test-gateways`");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rosbags_peer.py");
    let mut peer = Command::new(python)
        .arg("-B")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = peer.stdin.take().unwrap();
    let text = request.to_string();
    // The peer reads all before it writes anything.
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = peer.wait_with_output().unwrap();
    assert!(output.status.success(), "the peer failed; its reason is above");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &Json) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Converts a value to the JSON that the peer uses for values.
fn plain(value: &Value) -> Json {
    match value {
        Value::Bool(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U8(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::F32(v) => json!(hex(&v.to_be_bytes())),
        Value::F64(v) => json!(hex(&v.to_be_bytes())),
        Value::String(v) => json!(std::str::from_utf8(v).unwrap()),
        Value::WString(_) => panic!("rosbags knows no wstring"),
        Value::Bools(v) => json!(v),
        Value::I8s(v) => json!(v),
        Value::U8s(v) => json!(v),
        Value::I16s(v) => json!(v),
        Value::U16s(v) => json!(v),
        Value::I32s(v) => json!(v),
        Value::U32s(v) => json!(v),
        Value::I64s(v) => json!(v),
        Value::U64s(v) => json!(v),
        Value::F32s(v) => v.iter().map(|v| json!(hex(&v.to_be_bytes()))).collect(),
        Value::F64s(v) => v.iter().map(|v| json!(hex(&v.to_be_bytes()))).collect(),
        Value::Struct(v) | Value::List(v) => v.iter().map(plain).collect(),
    }
}

/// Reads the peer's samples and writes them again, in both byte orders. The bytes must be the same.
/// Returns the number of samples.
fn check_theirs(name: &str, layout: &Layout, theirs: &Json) -> usize {
    let samples = theirs["samples"].as_array().unwrap();
    for sample in samples {
        for (key, order, other, other_key) in [
            ("le", ByteOrder::Little, ByteOrder::Big, "be"),
            ("be", ByteOrder::Big, ByteOrder::Little, "le"),
        ] {
            let bytes = unhex(&sample[key]);
            let value = cdr::read(layout, &bytes)
                .unwrap_or_else(|e| panic!("{name} {key}: {e} of {}", sample[key]));
            assert_eq!(plain(&value), sample["value"], "{name} {key}");
            assert_eq!(
                hex(&cdr::write(layout, &value, order).unwrap()),
                hex(&bytes),
                "{name} {key}"
            );
            assert_eq!(
                hex(&cdr::write(layout, &value, other).unwrap()),
                sample[other_key],
                "{name} {key}"
            );
        }
    }
    samples.len()
}

/// Returns random samples for the peer to check.
fn ours(name: &str, layout: &Layout, random: &mut Random) -> Vec<Json> {
    (0..SAMPLES)
        .map(|_| {
            let value = sample(layout, random);
            let bytes = |order| hex(&cdr::write(layout, &value, order).unwrap());
            json!({
                "type": name, "le": bytes(ByteOrder::Little), "be": bytes(ByteOrder::Big),
                "value": plain(&value)
            })
        })
        .collect()
}

fn texts(catalog: &Catalog, name: &TypeName) -> Json {
    let msg = catalog.ros2msg(name, Detail::Full).unwrap().unwrap();
    let idl = catalog.ros2idl(name, Detail::Full).unwrap();
    json!({"msg": msg, "idl": idl, "rihs01": catalog.type_hash(name).unwrap().to_string()})
}

/// Compares the peer's hashes with those in `upstream_hashes.txt`, with which the gateway's own
/// definitions are compared, too (`crates/driveline-gateway-ros2/src/types.rs`). Returns the number
/// of compared hashes.
fn check_hashes(types: &Map<String, Json>) -> usize {
    let known = include_str!("upstream_hashes.txt").lines().filter(|line| !line.starts_with('#'));
    let known = known
        .map(|line| line.split_once(' ').unwrap())
        .filter(|(name, _)| types.contains_key(*name));
    known.map(|(name, hash)| assert_eq!(types[name]["rihs01"], hash, "{name}")).count()
}

fn check_store(store: &str, at_least: usize) {
    let exported =
        ask(&json!({"command": "export", "store": store, "samples": SAMPLES, "seed": 1}));
    let types = exported["types"].as_object().unwrap();
    assert!(types.len() >= at_least, "{store} has {} types", types.len());
    assert_eq!(
        check_hashes(types),
        13,
        "{store} has images (also compressed), clouds, measurements, the clock and what they \
         consist of"
    );
    let mut random = Random(2);
    let (mut samples, mut all_texts, mut theirs, mut with_char) = (Vec::new(), Map::new(), 0, 0);
    for (text, exported) in types {
        let name: TypeName = text.parse().unwrap();
        let definition = exported["definition"].as_str().unwrap();
        let catalog = Catalog::from_text(&name, definition).unwrap();
        let hash = catalog.type_hash(&name).unwrap().to_string();
        assert_eq!(hash, exported["rihs01"], "{name}");
        if hash != exported["rihs01_as_is"] {
            // rosbags treats a char of .msg as a char of IDL. In this, and only in this, it differs
            // from ROS 2 (see tests/hashes.rs).
            assert!(definition.lines().any(|l| l.starts_with("char")), "{name}");
            with_char += 1;
        }
        let layout = catalog.layout(&name).unwrap();
        theirs += check_theirs(text, &layout, exported);
        samples.extend(ours(text, &layout, &mut random));
        all_texts.insert(text.clone(), texts(&catalog, &name));
    }
    println!(
        "{store}: {} types, {} of them with char; {theirs} samples of rosbags, {} of ours, each in \
         both byte orders",
        types.len(),
        with_char,
        samples.len()
    );
    let answer =
        ask(&json!({"command": "check", "store": store, "samples": samples, "texts": all_texts}));
    assert_eq!(answer["failures"], json!([]), "{store}");
}

#[test]
fn every_message_of_humble_comes_and_goes() {
    check_store("ros2_humble", 150);
}

#[test]
fn every_message_of_jazzy_comes_and_goes() {
    check_store("ros2_jazzy", 162);
}

/// Types that the stores of rosbags lack. The test adds their definitions to the stores.
#[test]
fn hashes_of_radar_scans_and_detections_are_those_of_their_packages() {
    let definitions = json!({
        "radar_msgs/msg/RadarReturn": "float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 \
             doppler_velocity\nfloat32 amplitude\n",
        "radar_msgs/msg/RadarScan": "std_msgs/Header header\nradar_msgs/RadarReturn[] returns\n",
        "vision_msgs/msg/ObjectHypothesis": "string class_id\nfloat64 score\n",
        "vision_msgs/msg/ObjectHypothesisWithPose": "ObjectHypothesis \
             hypothesis\ngeometry_msgs/PoseWithCovariance pose\n",
        "vision_msgs/msg/Point2D": "float64 x\nfloat64 y\n",
        "vision_msgs/msg/Pose2D": "vision_msgs/Point2D position\nfloat64 theta\n",
        "vision_msgs/msg/BoundingBox2D": "vision_msgs/Pose2D center\nfloat64 size_x\nfloat64 \
             size_y\n",
        "vision_msgs/msg/Detection2D": "std_msgs/Header header\nObjectHypothesisWithPose[] \
             results\nBoundingBox2D bbox\nstring id\n",
        "vision_msgs/msg/Detection2DArray": "std_msgs/Header header\nvision_msgs/Detection2D[] \
             detections\n",
    });
    for store in ["ros2_humble", "ros2_jazzy"] {
        let exported = ask(&json!({
            "command": "export", "store": store, "definitions": definitions, "samples": 1,
            "seed": 1
        }));
        assert_eq!(check_hashes(exported["types"].as_object().unwrap()), 9, "{store}");
    }
}

/// Invents other messages in each run. SEED= repeats the messages of an earlier run. For types with
/// wstring, rosbags only reads the IDL and computes the hash; it does not support bounded wstrings.
#[test]
fn so_do_messages_that_the_test_invents() {
    let seed: u64 = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64,
    };
    // This output is shown only if the test fails.
    println!("SEED={seed} invents the same again");
    let mut of_runner = [0; 32];
    of_runner[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &of_runner),
    );
    let (mut definitions, mut all, mut wide) = (Map::new(), Vec::new(), 0);
    for i in 0..INVENTED {
        let one = invented().new_tree(&mut runner).unwrap().current();
        // All messages go into one store, so each invented set gets packages of its own.
        let own = |text: &str| text.replace("invented", &format!("invented{i}"));
        let mut catalog = Catalog::new();
        for (k, text) in one.texts.iter().enumerate() {
            let (name, text): (TypeName, _) = (own(&Invented::name(k)).parse().unwrap(), own(text));
            catalog
                .add_message(driveline_rosidl::parse_msg(&name, "invented", &text).unwrap())
                .unwrap();
            let layout = catalog.layout(&name).unwrap();
            let has = |kind: fn(Kind) -> bool| has(&layout, layout.root(), &kind);
            if has(|kind| matches!(kind, Kind::WString(Some(_)))) {
                continue;
            }
            if !has(|kind| kind == Kind::WString(None)) {
                definitions.insert(name.to_string(), json!(text));
            }
            all.push((name, layout, catalog.clone()));
        }
    }
    let exported = ask(
        &json!({"command": "export", "definitions": definitions, "samples": SAMPLES, "seed": seed}),
    );
    let mut random = Random(seed);
    let (mut samples, mut all_texts, mut theirs) = (Vec::new(), Map::new(), 0);
    for (name, layout, catalog) in &all {
        let (text, mut texts) = (name.to_string(), texts(catalog, name));
        if definitions.contains_key(&text) {
            let exported = &exported["types"][&text];
            assert_eq!(texts["rihs01"], exported["rihs01"], "{text}");
            theirs += check_theirs(&text, layout, exported);
            samples.extend(ours(&text, layout, &mut random));
        } else {
            texts.as_object_mut().unwrap().remove("msg");
            wide += 1;
        }
        all_texts.insert(text, texts);
    }
    println!(
        "invented: {} types, {wide} of them with wstring; {theirs} samples of rosbags, {} of ours, \
         each in both byte orders",
        all_texts.len(),
        samples.len()
    );
    assert!(all_texts.len() >= INVENTED && wide > 0 && wide < all_texts.len());
    let answer = ask(&json!(
        {"command": "check", "definitions": definitions, "samples": samples, "texts": all_texts}
    ));
    assert_eq!(answer["failures"], json!([]));
}
