// SPDX-License-Identifier: Apache-2.0
//! Latency added by the gateway: images between a ROS 2 node (CycloneDDS, in C) and Driveline, in
//! both directions, compared with two such nodes that communicate directly. All runs use the
//! loopback device and reliable QoS. One start of this program makes all of them, in turn.
//!
//! Run it on a quiet machine: `cargo bench -p driveline-gateway-ros2 --features engine --bench
//! added_latency`. ROUNDS= (default 5) and SECONDS= of each run (default 6) set the length; LOAD=
//! selects loads whose name begins with its value. `LOAD=W ROUNDS=1 SECONDS=60` measures the camera
//! for a minute in each direction.
//!
//! Lost samples are printed with the gateway's counts by reason. Exit status 1: a sample was lost.
//! A line with UNCOUNTED: gives the number of lost samples that no count includes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark may stop at a surprise"
)]

use driveline::types::{MonotonicNs, Qos, Reliability};
use driveline::{
    Context, ContextOptions, Node, PublisherOptions, Reach, SubscriptionOptions, WaitMode,
};
use driveline_analyze::Rank;
use driveline_gateway::{Answer, ask};
use driveline_msgs::{Encoding, Header, Image, ImageMut, ImageView};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const TOPIC: &str = "sensing/camera";
const DEPTH: u32 = 16;
/// Time-out; only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

struct Load {
    name: &'static str,
    bytes: usize,
    hz: u32,
}

const LOADS: [Load; 3] = [
    Load { name: "S1, 34 560 B at 20 Hz", bytes: 34_560, hz: 20 },
    Load { name: "S2, 921 600 B at 30 Hz", bytes: 921_600, hz: 30 },
    Load { name: "W camera, 4 MiB at 50 Hz", bytes: 4 << 20, hz: 50 },
];

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Direct,
    ToRos,
    FromRos,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Direct, "ROS 2 → ROS 2"),
    (Way::ToRos, "Driveline → gateway → ROS 2"),
    (Way::FromRos, "ROS 2 → gateway → Driveline"),
];

/// Result of one run.
struct Run {
    took_ns: Vec<u64>,
    lost: usize,
    /// Lost samples counted by the gateway and the subscription, by reason.
    counted: BTreeMap<String, u64>,
    /// Processor time of the gateway, in seconds.
    gateway_s: f64,
}

fn number(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect(variable))
}

fn checked(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("{command:?}: {e}; `make setup` installs what is needed"));
    assert!(status.success(), "{command:?}");
}

/// Compiles the node in C; returns its program.
fn build(out: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    checked(Command::new("idlc").arg("-o").arg(out).arg(here.join("tests/peer/types.idl")));
    let parts = [here.join("benches/timing.c"), out.join("types.c")];
    checked(
        Command::new("cc")
            .arg("-O2")
            .arg("-I")
            .arg(out)
            .args(parts)
            .args(["-lddsc", "-o"])
            .arg(out.join("timing")),
    );
    out.join("timing")
}

/// Process that is killed when this value is dropped.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    /// Returns the processor time so far, in seconds.
    fn used_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Closes its standard input, and returns what it prints until it ends.
    fn rest(mut self) -> Vec<String> {
        drop(self.input.take());
        let lines = self.lines.iter().collect();
        self.child.wait().unwrap();
        lines
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Rig {
    node: Node,
    timing: PathBuf,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let timing = build(dir.path());
        let options = ContextOptions {
            domain_dir: Some(dir.path().join("domain")),
            ..ContextOptions::named("bench")
        };
        let node = Context::new(options).unwrap().node("camera").unwrap();
        Self { node, timing, dir }
    }

    /// Starts a gateway as a process, for the measured direction.
    fn gateway(&self, way: Way, load: &Load, domain_id: u32) -> Process {
        let max = load.bytes as u64 + 4096;
        let direction = if way == Way::ToRos { "to_ros" } else { "from_ros" };
        let rule = json!({
            "topic": format!("/{TOPIC}"), "direction": direction, "max_payload": max,
            "qos": { "depth": DEPTH },
        });
        let config = json!({
            "domain_dir": self.dir.path().join("domain"),
            "ros2": { "domain_id": domain_id, "topics": [rule] },
            "topics": [{ "topic": TOPIC, "max_payload": max, "qos": qos() }],
        });
        let path = self.dir.path().join("gateway.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let gateway =
            Process::start(Command::new(env!("CARGO_BIN_EXE_driveline-gateway-ros2")).arg(path));
        gateway.lines.recv_timeout(PATIENCE).expect("the gateway reports that it runs");
        gateway
    }

    /// Returns the samples that the gateway has dropped, by reason. Reasons that do not mean a loss
    /// are omitted.
    fn dropped(&self) -> BTreeMap<String, u64> {
        let answers = ask(&self.dir.path().join("domain"), PATIENCE).unwrap();
        let report = answers.into_iter().find_map(|answer| match answer {
            Answer::Report(report) => report.ros2,
            _ => None,
        });
        let report = report.expect("the gateway reports its counters");
        let topics =
            report.to_ros.into_iter().chain(report.from_ros).filter(|topic| topic.topic == TOPIC);
        let all = topics.flat_map(|topic| topic.dropped);
        all.filter(|(reason, count)| {
            *count > 0 && !["duplicate", "gateway", "other_class"].contains(&reason.as_str())
        })
        .collect()
    }

    fn ros(&self, arguments: &str, domain_id: u32) -> Process {
        let configuration = "<General><Interfaces><NetworkInterface address=\"127.0.0.1\" \
             multicast=\"false\"/></Interfaces>\
            <AllowMulticast>false</AllowMulticast><MaxMessageSize>65500 \
             B</MaxMessageSize></General>\
            <Internal><SocketReceiveBufferSize max=\"16 \
             MiB\"/></Internal><Discovery><ParticipantIndex>auto</ParticipantIndex>\
            <MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer \
             address=\"127.0.0.1\"/></Peers></Discovery>";
        let mut command = Command::new(&self.timing);
        Process::start(
            command
                .args(arguments.split(' '))
                .env("ROS_DOMAIN_ID", domain_id.to_string())
                .env("CYCLONEDDS_URI", configuration),
        )
    }

    fn measure(&self, way: Way, load: &Load, seconds: u32, domain_id: u32) -> Run {
        let count = (load.hz * seconds) as usize;
        let period = Duration::from_secs(1) / load.hz;
        let gateway = (way != Way::Direct).then(|| self.gateway(way, load, domain_id));
        let publish = format!("pub rt/{TOPIC} {} {count} {}", load.bytes, period.as_micros());
        let subscribe = format!("sub rt/{TOPIC}");
        let (mut before, mut missed) = (0.0, 0);
        let used = || gateway.as_ref().map_or(0.0, Process::used_s);
        let took_ns: Vec<u64> = match way {
            Way::Direct => {
                let (reader, writer) =
                    (self.ros(&subscribe, domain_id), self.ros(&publish, domain_id));
                written(&writer);
                latencies(reader)
            }
            Way::ToRos => {
                let reader = self.ros(&subscribe, domain_id);
                before = used();
                self.publish(load.bytes, count, period);
                latencies(reader)
            }
            Way::FromRos => {
                let options = SubscriptionOptions {
                    qos: qos(),
                    reach: Reach::Host,
                    ..SubscriptionOptions::default()
                };
                let mut subscription = self.node.subscription::<Image>(TOPIC, options).unwrap();
                let _writer = self.ros(&publish, domain_id);
                before = used();
                let mut took = Vec::new();
                let end = Instant::now() + PATIENCE + period * count as u32;
                while took.len() < count && Instant::now() < end {
                    // The last samples may be lost.
                    if !subscription.wait(Some(Duration::from_secs(3)), WaitMode::Block).unwrap()
                        && !took.is_empty()
                    {
                        break;
                    }
                    while let Some(sample) = subscription.take().unwrap() {
                        let now = MonotonicNs::now();
                        missed += sample.missed();
                        let view = ImageView::new(sample.view().unwrap()).unwrap();
                        let sent = u64::from_le_bytes(view.row(0)[..8].try_into().unwrap());
                        took.push(now.since(MonotonicNs(sent)).as_nanos() as u64);
                    }
                }
                took
            }
        };
        let mut counted = gateway.as_ref().map(|_| self.dropped()).unwrap_or_default();
        if missed > 0 {
            counted.insert("missed".into(), missed);
        }
        Run { lost: count - took_ns.len().min(count), took_ns, counted, gateway_s: used() - before }
    }

    fn publish(&self, bytes: usize, count: usize, period: Duration) {
        let options = PublisherOptions {
            qos: qos(),
            max_payload: bytes + 4096,
            reach: Reach::Host,
            ..PublisherOptions::default()
        };
        let mut publisher = self.node.publisher::<Image>(TOPIC, options).unwrap();
        let end = Instant::now() + PATIENCE;
        while publisher.raw().matched() == 0 {
            assert!(Instant::now() < end, "the gateway does not subscribe");
            std::thread::sleep(Duration::from_millis(5));
        }
        // DDS has to match too; samples written before the match reach no reader.
        std::thread::sleep(Duration::from_secs(2));
        let mut due = Instant::now();
        for n in 0..count {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due += period;
            let width = bytes as u32;
            let mut loan = publisher
                .raw()
                .loan(Image::payload_len(width, 1, Encoding::Mono8).unwrap())
                .unwrap();
            let now = MonotonicNs::now();
            let header = Header::new(now.0, "cam", n as u64).unwrap();
            let to = driveline::types::PlainMut::new(loan.payload_mut()).unwrap();
            ImageMut::new(to, header, width, 1, Encoding::Mono8).unwrap().data_mut()[..8]
                .copy_from_slice(&now.0.to_le_bytes());
            publisher.raw().publish(loan).unwrap();
        }
        // The last sample may still be in flight.
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn qos() -> Qos {
    Qos {
        reliability: Reliability::Reliable,
        depth: DEPTH,
        max_blocking_ms: 10_000,
        ..Qos::default()
    }
}

fn written(writer: &Process) {
    let patience = PATIENCE + Duration::from_secs(u64::from(number("SECONDS", 6)));
    assert_eq!(writer.lines.recv_timeout(patience).expect("it writes"), "written");
    std::thread::sleep(Duration::from_millis(500));
}

fn latencies(reader: Process) -> Vec<u64> {
    reader.rest().iter().map(|line| line.parse().unwrap()).collect()
}

/// Formats a time in milliseconds, or the reason why there is none.
fn ms(percentile: Option<u64>) -> String {
    percentile.map_or_else(|| "n too small".into(), |ns| format!("{:.3}", ns as f64 / 1e6))
}

/// Returns the difference between a path and the direct path.
fn added(percentile: Option<u64>, direct: Option<u64>) -> String {
    let difference = percentile.zip(direct).map(|(a, b)| (a as f64 - b as f64) / 1e6);
    difference.map_or_else(|| "n too small".into(), |ms| format!("{ms:+.3}"))
}

/// Exact percentiles of all runs of one path, in nanoseconds.
struct Took {
    n: u64,
    p50: Option<u64>,
    /// Needs 300 samples.
    p99: Option<u64>,
}

impl Took {
    fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let n = all.len() as u64;
        let at = |rank: Rank| {
            rank.index(n).filter(|_| n >= rank.needs).and_then(|i| all.get(i as usize)).copied()
        };
        Self { n, p50: at(Rank::P50), p99: at(Rank::P99) }
    }
}

fn main() -> ExitCode {
    let (rounds, seconds) = (number("ROUNDS", 5), number("SECONDS", 6));
    let rig = Rig::new();
    let mut lost_any = false;
    let mut domain_id = 100;
    println!(
        "{rounds} rounds of {seconds} s; milliseconds from just before the write to the sample in \
         hand"
    );
    let only = std::env::var("LOAD").unwrap_or_default();
    for load in LOADS.iter().filter(|load| load.name.starts_with(&only)) {
        let mut all: [Vec<Run>; 3] = Default::default();
        for round in 0..rounds as usize {
            // Each round has another order.
            for n in 0..WAYS.len() {
                let which = (n + round) % WAYS.len();
                // Each run has its own DDS domain, free of participants of the run before.
                domain_id = 100 + (domain_id - 99) % 100;
                all[which].push(rig.measure(WAYS[which].0, load, seconds, domain_id));
            }
        }
        println!("\n{}", load.name);
        let mut direct = (None, None);
        for ((way, name), runs) in WAYS.iter().zip(&all) {
            let took = Took::of(runs.iter().flat_map(|r| r.took_ns.iter().copied()).collect());
            let lost: usize = runs.iter().map(|r| r.lost).sum();
            let mut counted = BTreeMap::new();
            for (reason, count) in runs.iter().flat_map(|r| &r.counted) {
                *counted.entry(reason.as_str()).or_insert(0) += count;
            }
            let uncounted = (lost as u64).saturating_sub(counted.values().sum());
            lost_any |= lost > 0;
            if took.n == 0 {
                println!(
                    "  {name:28} n 0, lost {lost}: nothing arrived; the gateway counted \
                     {counted:?} as dropped"
                );
                continue;
            }
            let cpu = runs.iter().map(|r| r.gateway_s).sum::<f64>() / took.n as f64;
            print!(
                "  {name:28} n {:5}, lost {lost}, p50 {}, p99 {}",
                took.n,
                ms(took.p50),
                ms(took.p99)
            );
            if *way == Way::Direct {
                direct = (took.p50, took.p99);
                println!();
            } else {
                println!(
                    ", added p50 {}, p99 {}; gateway {:.0} µs of processor for each, {:.1} % of a \
                     CPU",
                    added(took.p50, direct.0),
                    added(took.p99, direct.1),
                    cpu * 1e6,
                    cpu * f64::from(load.hz) * 100.0
                );
                println!("  {:28} the gateway counted {counted:?} as dropped", "");
                if uncounted > 0 {
                    println!(
                        "  {:28} UNCOUNTED: {uncounted} of the {lost} lost samples are in no \
                         count",
                        ""
                    );
                }
            }
        }
    }
    if lost_any { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
