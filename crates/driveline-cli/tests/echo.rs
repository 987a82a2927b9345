// SPDX-License-Identifier: Apache-2.0
//! `topic echo` and the definitions of `topic info`, as people and scripts use them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use driveline_msgs::{Header, PointCloud, PointXyzi};
use driveline_rosidl::cdr::{self, ByteOrder};
use driveline_rosidl::{Catalog, Text, Value, parse_msg};
use driveline_shm::{Participant, ParticipantConfig, Publisher, PublisherConfig};
use driveline_types::{Durability, Plain, PlainMut, Qos, SampleHeader, Schema, plain_type};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zerocopy::IntoBytes;

struct Domain(TempDir);

impl Domain {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("domain")
    }

    fn join(&self) -> Participant {
        Participant::open(ParticipantConfig { domain_dir: Some(self.path()), name: "test".into() })
            .unwrap()
    }

    /// Creates a publisher that keeps published samples for late subscribers.
    fn keeping(&self, topic: &str, schema: Schema) -> Publisher {
        let mut config = PublisherConfig::new(
            topic.parse().unwrap(),
            "talker".parse().unwrap(),
            schema,
            1 << 20,
        );
        config.qos = Qos { depth: 8, durability: Durability::TransientLocal, ..Qos::default() };
        self.join().create_publisher(config).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_driveline"));
        c.args(arguments).env("DRIVELINE_DOMAIN_DIR", self.path()).stdin(Stdio::null());
        c
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        (
            status.code().unwrap(),
            String::from_utf8(stdout).unwrap(),
            String::from_utf8(stderr).unwrap(),
        )
    }

    /// Output of an echo that ends by itself without an error.
    fn echo(&self, arguments: &[&str]) -> String {
        let (code, out, err) =
            self.run(&[&["topic", "echo", "--timeout", "60"], arguments].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out
    }
}

fn publish(publisher: &mut Publisher, payload: &[u8]) {
    let mut loan = publisher.loan(payload.len()).unwrap();
    loan.payload_mut().copy_from_slice(payload);
    publisher.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
}

fn eventually(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "the condition did not become true");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Text without the lines that contain times.
fn fields(text: &str) -> String {
    text.lines().filter(|l| !l.starts_with("# sequence")).map(|l| format!("{l}\n")).collect()
}

/// A command in the background, which ends when the test ends.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    fn start(domain: &Domain, arguments: &[&str]) -> Self {
        let mut child = domain
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) = (
            BufReader::new(child.stdout.take().unwrap()),
            BufReader::new(child.stderr.take().unwrap()),
        );
        Self { child, out, err }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the end of the command. Returns its exit code, and the remaining text on standard
    /// error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut err = String::new();
        self.err.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

/// A definition and a sample, different in each run.
fn invented() -> (Schema, Vec<u8>, String) {
    let random = RandomState::new();
    let mut at = 0_u64;
    let mut next = || {
        at += 1;
        random.hash_one(at)
    };
    let mut catalog = Catalog::new();
    let package = format!("p{}", next() % 1000);
    let (inner, name) =
        (format!("{package}/msg/Inner"), format!("{package}/msg/M{}", next() % 1000));
    let mut text = format!("{package}/Inner[] list\n{package}/Inner single\n");
    let part = |v: u64| {
        Value::Struct(vec![Value::I16(v as i16), Value::String(format!("t{v}").into_bytes())])
    };
    let mut values = vec![Value::List((0..next() % 4).map(part).collect()), part(next())];
    for i in 0..4 + next() % 8 {
        let (ty, value) = match next() % 6 {
            0 => ("int32", Value::I32(next() as i32)),
            1 => ("uint64", Value::U64(next())),
            2 => ("bool", Value::Bool(next() & 1 == 1)),
            3 => ("float64[]", Value::F64s((0..next() % 5).map(|i| i as f64 / 4.0).collect())),
            4 => ("string", Value::String(format!("{:x}", next()).into_bytes())),
            _ => ("uint8[3]", Value::U8s(next().to_le_bytes()[..3].to_vec())),
        };
        text += &format!("{ty} field_{i}\n");
        values.push(value);
    }
    for (name, text) in [(&inner, "int16 number\nstring text\n"), (&name, text.as_str())] {
        catalog.add_message(parse_msg(&name.parse().unwrap(), "invented", text).unwrap()).unwrap();
    }
    let name = name.parse().unwrap();
    let (layout, value) = (catalog.layout(&name).unwrap(), Value::Struct(values));
    let sample = cdr::write(&layout, &value, ByteOrder::Little).unwrap();
    (catalog.schema(&name).unwrap(), sample, Text::new(&layout, &value).to_string())
}

#[test]
fn samples_of_an_unknown_type_are_printed() {
    let domain = Domain::new();
    let (schema, sample, text) = invented();
    let mut publisher = domain.keeping("detector/status", schema.clone());
    publish(&mut publisher, &sample);
    publish(&mut publisher, &sample);
    let out = domain.echo(&["/detector/status", "--count", "2"]);
    assert_eq!(fields(&out), format!("{text}---\n{text}---\n"), "{schema:?}");
    let first = out.lines().next().unwrap();
    let (pid, age) = (std::process::id(), first.split_once(", ").unwrap().1);
    assert!(
        first.starts_with(&format!("# sequence 1 from 'talker' (process {pid}), "))
            && age.ends_with("s old"),
        "{first}"
    );

    let out = domain.echo(&["detector/status", "--count", "2", "--json"]);
    let lines: Vec<serde_json::Value> =
        out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for (line, sequence) in lines.iter().zip(1..) {
        let header = &line["header"];
        assert_eq!(
            (&header["sequence"], &header["type"], &header["missed"]),
            (&json!(sequence), &json!(schema.name), &json!(0))
        );
        assert_eq!(
            (&header["publisher"]["node"], &header["publisher"]["pid"]),
            (&json!("talker"), &json!(pid))
        );
        assert!(
            header["source_time_ns"].is_u64()
                && header["publish_time_ns"].is_u64()
                && line["fields"]["single"].is_object(),
            "{line}"
        );
    }
    // An observer that has ended leaves no trace.
    eventually(|| publisher.matched() == 0);
}

#[plain_type(name = "test/Point")]
#[derive(Debug, Default)]
struct Point {
    x: f32,
    y: f32,
}

#[plain_type(name = "test/Scan", tail(returns: Point))]
#[derive(Debug, Default)]
struct Scan {
    time_ns: u64,
    origin: Point,
    frame_id: [u8; 16],
    _reserved: [u64; 4],
}

#[test]
fn plain_types_and_protobuf_messages_are_read_by_their_schema() {
    let domain = Domain::new();
    let mut publisher = domain.keeping("radar", Scan::schema());
    let mut frame_id = [0; 16];
    frame_id[..5].copy_from_slice(b"radar");
    let head = Scan { time_ns: 5, origin: Point { x: 0.5, y: -1.0 }, frame_id, ..Scan::default() };
    let len = driveline_types::plain::payload_len::<Scan>(1).unwrap();
    let mut loan = publisher.loan(len).unwrap();
    PlainMut::write(loan.payload_mut(), &head, &[Point { x: 1.0, y: 2.0 }]).unwrap();
    publisher.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
    publish(&mut publisher, &[0; 10]);
    let out = domain.echo(&["radar", "--count", "2"]);
    let expected = "time_ns: 5\norigin:\n  x: 0.5\n  y: -1.0\nframe_id: radar\n_reserved: [0, 0, \
         0, 0]\nreturns:\n-\n  x: 1.0\n  y: 2.0\n---\n# error: test/Scan: 10 bytes, of which there \
         should be 64 at least; ";
    assert!(fields(&out).starts_with(expected), "{out}");

    let definition = "driveline protobuf 1\nmessage t.Box\nfield 1 width optional uint32\nfield 2 \
         label optional string\n";
    let mut publisher = domain.keeping("boxes", Schema::protobuf("t.Box", definition));
    publish(&mut publisher, &[0x08, 0x96, 0x01, 0x12, 0x03, b'c', b'a', b'r']);
    assert_eq!(fields(&domain.echo(&["boxes", "--count", "1"])), "width: 150\nlabel: car\n---\n");
}

/// As a publisher of clouds writes it: the points begin at a multiple of 64 bytes.
fn cloud(points: &[PointXyzi]) -> Vec<u8> {
    let header = Header::new(7, "lidar", 3).unwrap();
    let head = PointCloud::new::<PointXyzi>(header, points.len() as u32, 1).unwrap();
    let mut payload = head.as_bytes().to_vec();
    let all = PointCloud::payload_len::<PointXyzi>(points.len()).unwrap();
    payload.resize(all - size_of_val(points), 0);
    payload.extend_from_slice(points.as_bytes());
    payload
}

#[test]
fn of_a_point_cloud_the_used_fields_and_the_first_points_are_printed() {
    let domain = Domain::new();
    let mut publisher = domain.keeping("lidar/points", PointCloud::schema());
    let point = |i: u16| PointXyzi { x: f32::from(i), y: -0.5, z: 2.0, intensity: 0.1 };
    publish(&mut publisher, &cloud(&(0..100).map(point).collect::<Vec<_>>()));
    let one = ["lidar/points", "--count", "1"];
    let out = fields(&domain.echo(&one));
    assert!(out.starts_with("frame_id: lidar\nsource_time_ns: 7\n"), "{out}");
    assert!(out.lines().count() < 40 && !out.contains("data:"), "no bytes: {out}");
    assert!(out.contains("name: x\n") && out.contains("max: 99.0\n"), "{out}");
    let points = "points_in_all: 100\nfirst_points:\n- [0.0, -0.5, 2.0, 0.1]\n";
    assert!(out.contains(points) && !out.contains("[3.0, "), "{out}");
    let out = domain.echo(&[&one[..], &["--full"]].concat());
    assert!(out.contains("\npoints:\n") && out.contains("- [99.0, -0.5, 2.0, 0.1]\n"), "{out}");
    let out = domain.echo(&[&one[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (all, first) = (&json["fields"]["points_in_all"], &json["fields"]["first_points"]);
    assert_eq!((all, &first[1]), (&json!(100), &json!([1.0, -0.5, 2.0, 0.1])), "{json}");
    assert_eq!(json["header"]["type"], "driveline/PointCloud");
}

#[test]
fn an_unreadable_sample_is_reported_and_the_next_sample_follows() {
    let domain = Domain::new();
    let mut publisher =
        domain.keeping("status", Schema::bytes("p/msg/M", "cdr", "string text\nint32 x\n"));
    let good = [0, 1, 0, 0, 3, 0, 0, 0, b'h', b'i', 0, 0, 7, 0, 0, 0];
    publish(&mut publisher, &good);
    publish(&mut publisher, &[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1b]);
    publish(&mut publisher, &good);
    let out = fields(&domain.echo(&["status", "--count", "3"]));
    let error =
        "# error: p/msg/M: text at byte 4: length 4294967295, for which 1 bytes cannot be enough; ";
    assert!(out.starts_with(&format!("text: hi\nx: 7\n---\n{error}")), "{out}");
    assert!(
        out.ends_with("# payload: 00 01 00 00 ff ff ff ff 1b\n---\ntext: hi\nx: 7\n---\n"),
        "{out}"
    );
    let out = domain.echo(&["status", "--count", "3", "--json"]);
    let second: serde_json::Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
    assert!(
        second["error"].as_str().unwrap().starts_with("text at byte 4: ")
            && second["header"]["sequence"] == 2,
        "{second}"
    );

    let mut publisher = domain.keeping("count", Schema::bytes("demo/Count", "raw", ""));
    publish(&mut publisher, &[0x1b, 0xff]);
    let (code, out, err) = domain.run(&["topic", "echo", "count", "--count", "1"]);
    assert_eq!((code, fields(&out).as_str()), (0, "payload: \"1b ff\"\n---\n"));
    assert!(
        err.starts_with("warning: samples of 'talker' (process ")
            && err.contains("encoding 'raw' is not known here; "),
        "{err}"
    );
}

#[test]
fn long_lists_are_shortened_unless_all_is_asked_for() {
    let domain = Domain::new();
    let mut publisher = domain
        .keeping("image", Schema::bytes("p/msg/Image", "cdr", "uint32 width\nuint8[] data\n"));
    let mut sample = vec![0, 1, 0, 0, 5, 0, 0, 0];
    sample.extend(1_000_000_u32.to_le_bytes());
    sample.extend(vec![7; 1_000_000]);
    publish(&mut publisher, &sample);
    let out = domain.echo(&["image", "--count", "1"]);
    assert!(out.len() < 1000 && out.ends_with(", 7, … (1000000 in all)]\n---\n"), "{out}");
    let out = domain.echo(&["image", "--count", "1", "--full"]);
    assert!(out.len() > 3_000_000 && !out.contains('…'));
    let line = |arguments: &[&str]| {
        serde_json::from_str::<serde_json::Value>(
            &domain.echo(&[&["image", "--json", "--count", "1"], arguments].concat()),
        )
        .unwrap()
    };
    let data = &line(&[])["fields"]["data"];
    assert_eq!((&data["length"], data["head"].as_array().unwrap().len()), (&json!(1_000_000), 128));
    assert_eq!(line(&["--full"])["fields"]["data"].as_array().unwrap().len(), 1_000_000);
}

#[test]
fn nothing_to_hear_is_explained() {
    let domain = Domain::new();
    let (code, out, err) = domain.run(&["topic", "echo", "status", "--timeout", "0.1"]);
    assert_eq!((code, out.as_str()), (1, ""));
    let no_publisher = "no process publishes it in the domain in ";
    assert!(
        err.starts_with(&format!("error: no sample of 'status' came within 0.1 s: {no_publisher}")),
        "{err}"
    );
    assert!(
        err.contains("unless with `reach: process`, which other processes cannot see"),
        "{err}"
    );
    assert!(!domain.path().exists(), "an observer makes no directory");

    let mut waiting = Running::start(&domain, &["topic", "echo", "status"]);
    let text = line(&mut waiting.err);
    assert!(text.starts_with(&format!("waiting for 'status': {no_publisher}")), "{text}");
    let mut publisher = domain.keeping("status", Schema::bytes("greeting", "utf-8", ""));
    let now = line(&mut waiting.err);
    assert!(now.starts_with("'status' is published by 'talker' (process "), "{now}");
    publish(&mut publisher, b"hello");
    assert!(line(&mut waiting.out).starts_with("# sequence 1 from 'talker'"));
    assert_eq!(
        (line(&mut waiting.out), line(&mut waiting.out)),
        ("text: hello\n".into(), "---\n".into())
    );
    waiting.signal(Signal::INT);
    assert_eq!(waiting.end(), (Some(0), String::new()));

    let _silent = domain.keeping("silent", Schema::bytes("greeting", "utf-8", ""));
    let (code, _, err) = domain.run(&["topic", "echo", "silent", "--timeout", "1"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("'talker' (process ") && err.contains("is there, with 0 samples so far"),
        "{err}"
    );
    let (code, _, err) = domain.run(&["topic", "echo", "other", "--timeout", "0.1"]);
    assert!(code == 1 && err.contains("topics there: silent, status\n"), "{err}");
    let (code, _, err) = domain.run(&["topic", "echo", "a b"]);
    assert!(code == 1 && err.contains("is not valid"), "{err}");
    assert_eq!(domain.run(&["topic", "echo", "a", "--count", "0"]).0, 2);
    assert_eq!(domain.run(&["topic", "echo", "a", "--timeout", "soon"]).0, 2);
}

#[test]
fn the_end_of_a_publisher_is_reported_once_and_the_next_one_is_heard() {
    let domain = Domain::new();
    let greeting = || Schema::bytes("greeting", "utf-8", "");
    let mut first = domain.keeping("status", greeting());
    publish(&mut first, b"hello");
    let mut echo = Running::start(&domain, &["topic", "echo", "status", "--count", "2"]);
    assert!(line(&mut echo.out).starts_with("# sequence 1 from 'talker'"));
    assert_eq!(
        (line(&mut echo.out), line(&mut echo.out)),
        ("text: hello\n".into(), "---\n".into())
    );
    drop(first);
    let pid = std::process::id();
    let gone = format!(
        "'status' has no publisher any more: 'talker' (process {pid}) is gone; waiting for the \
         next\n"
    );
    assert_eq!(line(&mut echo.err), gone);
    let mut second = domain.keeping("status", greeting());
    assert_eq!(
        line(&mut echo.err),
        format!("'status' is published by 'talker' (process {pid}) now\n")
    );
    publish(&mut second, b"again");
    assert!(line(&mut echo.out).starts_with("# sequence 1 from 'talker'"));
    assert_eq!(line(&mut echo.out), "text: again\n");
    assert_eq!(echo.end(), (Some(0), String::new()));

    let (code, out, err) = domain.run(&["topic", "echo", "status", "--timeout", "2"]);
    assert!(code == 1 && out.contains("text: again\n"), "{out}");
    assert!(
        err.starts_with("error: no further sample of 'status' came within 2 s: 'talker' (process "),
        "{err}"
    );
}

#[test]
fn an_echo_too_many_is_refused_with_the_limit_and_the_remedy() {
    let domain = Domain::new();
    let publisher = domain.keeping("a", Schema::bytes("n", "utf-8", ""));
    let _first = Running::start(&domain, &["topic", "echo", "a"]);
    let _second = Running::start(&domain, &["topic", "echo", "a"]);
    eventually(|| publisher.matched() == 2);
    let (code, _, err) = domain.run(&["topic", "echo", "a", "--timeout", "2"]);
    assert_eq!(code, 1);
    let limit = "a publisher keeps 2 pins for tools such as `driveline topic echo`";
    let remedy = "end one of the others (`driveline topic info` lists them)";
    assert!(
        err.starts_with("warning: topic 'a': ") && err.contains(limit) && err.contains(remedy),
        "{err}"
    );
}

#[test]
fn names_that_are_no_topics_are_explained() {
    let domain = Domain::new();
    for command in ["echo", "info"] {
        let (code, _, err) = domain.run(&["topic", command, "//camera/image"]);
        assert!(
            code == 1
                && err.contains("'//camera/image' is no name")
                && err.contains("did you mean 'camera/image'?"),
            "{err}"
        );
        let (code, _, err) = domain.run(&["topic", command, "/"]);
        assert!(code == 1 && err.contains("is not valid: it is empty"), "{err}");
    }
    let request = domain.keeping("_service/map/tile/request", Schema::bytes("n", "utf-8", ""));
    for arguments in
        [&["topic", "echo", "/map/tile", "--timeout", "0.1"][..], &["topic", "info", "map/tile"]]
    {
        let (code, _, err) = domain.run(arguments);
        assert!(
            code == 1 && err.contains("'map/tile' is a service: `driveline service list`"),
            "{err}"
        );
        assert!(err.contains("`driveline topic info _service/map/tile/request`"), "{err}");
    }
    drop(request);
    let response = "_service/map/tile/response/0123456789abcdef";
    for arguments in
        [&["topic", "echo", response, "--timeout", "0.1"][..], &["topic", "info", response]]
    {
        let (code, _, err) = domain.run(arguments);
        assert!(
            code == 1
                && err.contains("it belongs to the service 'map/tile'; `driveline service list`"),
            "{err}"
        );
    }
}

#[test]
fn samples_that_stay_inside_their_process_are_counted() {
    let domain = Domain::new();
    let mut config = PublisherConfig::new(
        "tracks".parse().unwrap(),
        "tracker".parse().unwrap(),
        Schema::protobuf(
            "t.Track",
            "driveline protobuf 1\nmessage t.Track\nfield 1 id optional uint32\n",
        ),
        64,
    );
    config.qos = Qos { depth: 1, ..Qos::default() };
    let participant = domain.join();
    let mut publisher = participant.create_publisher(config).unwrap();
    for _ in 0..3 {
        publisher.has_passed_by(driveline_types::MonotonicNs::now());
    }
    let row = |out: &str| {
        out.lines()
            .find(|l| l.starts_with("tracks"))
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row(&domain.run(&["topic", "list"]).1), ["tracks", "t.Track", "1", "0", "3", "0"]);
    let out = domain.run(&["topic", "info", "tracks"]).1;
    let text = "published 3 samples (0 B into shared memory), newest sequence 3; 3 of them passed \
         inside process test only, as no other process subscribed\n";
    assert!(out.contains(text), "{out}");
    // This sample is written into shared memory, as if another process subscribed; the sequence
    // numbers continue.
    publish(&mut publisher, &[8, 1]);
    let out = domain.run(&["topic", "info", "tracks"]).1;
    assert!(
        out.contains(
            "published 4 samples (2 B into shared memory), newest sequence 4; 3 of them passed"
        ),
        "{out}"
    );
    let listening = driveline_shm::SubscriptionConfig::new(
        "tracks".parse().unwrap(),
        "fusion".parse().unwrap(),
        driveline_shm::SchemaRequest::Any,
    );
    let _listens = participant.create_subscription(listening).unwrap();
    let out = domain.run(&["topic", "info", "tracks"]).1;
    assert!(
        out.contains(
            "\n  inside process test: its own samples pass as pointers, and are not counted here\n"
        ),
        "{out}"
    );
}

#[test]
fn missed_samples_are_reported_and_no_publisher_waits() {
    let domain = Domain::new();
    let mut config = PublisherConfig::new(
        "a".parse().unwrap(),
        "talker".parse().unwrap(),
        Schema::bytes("n", "text", ""),
        64,
    );
    config.qos = Qos {
        depth: 1,
        reliability: driveline_types::Reliability::Reliable,
        max_blocking_ms: 60_000,
        ..Qos::default()
    };
    let mut publisher = domain.join().create_publisher(config).unwrap();
    let mut echo = Running::start(&domain, &["topic", "echo", "a", "--count", "2"]);
    eventually(|| publisher.matched() == 1);
    publish(&mut publisher, b"first");
    assert!(line(&mut echo.out).starts_with("# sequence 1 "));
    assert_eq!(
        (line(&mut echo.out), line(&mut echo.out)),
        ("text: first\n".into(), "---\n".into())
    );
    let info = domain.run(&["topic", "info", "a"]).1;
    assert_eq!(info.matches("subscription driveline_topic_echo").count(), 1, "{info}");
    assert!(info.contains(", a tool that looks on\n"), "{info}");

    echo.signal(Signal::STOP);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", echo.child.id())).unwrap();
    eventually(|| state().rsplit_once(") ").unwrap().1.starts_with('T'));
    for n in 0..20 {
        publish(&mut publisher, format!("n{n}").as_bytes());
    }
    assert_eq!((publisher.stats().reliable_waits, publisher.stats().reliable_timeouts), (0, 0));
    echo.signal(Signal::CONT);
    let text = line(&mut echo.out);
    assert!(
        text.starts_with("# sequence 21 ") && text.ends_with("; 19 missed before it\n"),
        "{text}"
    );
    assert_eq!(line(&mut echo.out), "text: n19\n");
    assert_eq!(echo.end(), (Some(0), String::new()));
}

#[test]
fn without_a_reader_it_ends_also_if_nothing_comes() {
    let domain = Domain::new();
    let publisher = domain.keeping("a", Schema::bytes("n", "text", ""));
    let Output { status, .. } = {
        let mut child = domain
            .command(&["topic", "echo", "a"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually(|| publisher.matched() == 1);
        drop(child.stdout.take());
        child.wait_with_output().unwrap()
    };
    assert_eq!(status.code(), Some(0));
}

/// No process empties the pipe of the output. The command still obeys Ctrl-C, and holds no memory
/// of the publisher.
#[test]
fn a_stopped_reader_delays_no_other() {
    let domain = Domain::new();
    let mut publisher = domain.keeping("a", Schema::bytes("p/msg/M", "cdr", "uint8[] data\n"));
    let sample = [&[0, 1, 0, 0][..], &500_000_u32.to_le_bytes(), &[9; 500_000]].concat();
    publish(&mut publisher, &sample);
    let mut echo = Running::start(&domain, &["topic", "echo", "a", "--full"]);
    assert!(line(&mut echo.out).starts_with("# sequence 1 "));
    let held = || {
        driveline_shm::list(&domain.path(), Duration::from_secs(60)).unwrap()[0].publishers.clone()
    };
    let _ = held();
    eventually(|| held().iter().all(|p| p.matches.iter().all(|m| m.held.is_empty())));
    echo.signal(Signal::INT);
    let Running { ref mut child, .. } = echo;
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_definition_is_shown_shortened_or_whole() {
    let domain = Domain::new();
    let text: String = (0..30).map(|i| format!("int32 field_{i}\n")).collect();
    let _long = domain.keeping("long", Schema::bytes("p/msg/Long", "cdr", text));
    let out = domain.run(&["topic", "info", "long"]).1;
    assert!(
        out.contains("\n  ROS 2 knows it by RIHS01_") && out.contains("\n    int32 field_0\n"),
        "{out}"
    );
    assert!(
        out.contains("    int32 field_23\n    … (30 lines in all: --definition prints them)\n"),
        "{out}"
    );
    let out = domain.run(&["topic", "info", "long", "--definition"]).1;
    assert!(out.contains("    int32 field_29\n\npublisher talker") && !out.contains('…'), "{out}");
}

#[test]
fn help_and_completion_know_it() {
    let domain = Domain::new();
    let help = domain.run(&["topic", "echo", "--help"]).1;
    for part in [
        "Examples:",
        "driveline topic echo /detector/status --count 1 --timeout 5",
        "--full",
        "--domain",
    ] {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = domain.run(&["completion", shell]).1;
        assert!(script.contains("echo") && script.contains("timeout"), "{shell}");
    }
}
