// SPDX-License-Identifier: Apache-2.0
//! A gateway with its own domain, and ROS 2 nodes that know nothing of Driveline.
#![allow(dead_code, reason = "shared by tests that need different parts")]

pub(crate) mod calls;
mod domains;
pub(crate) mod rmw;
pub(crate) mod rmw_services;
pub(crate) mod samples;
mod turns;

use driveline_gateway::{Refusal, Ros2Report};
use driveline_gateway_ros2::engine::Gateway;
use driveline_shm::{
    Participant, ParticipantConfig, Publisher, PublisherConfig, SchemaRequest, Subscription,
    SubscriptionConfig,
};
use driveline_types::{Qos, Schema};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Environment variable with the Python for nodes in Python.
const PYTHON: &str = "DRIVELINE_ROS2_PYTHON";
/// Environment variable with the directory of nodes on ros2-client: `jazzy` and `humble`.
const ROS2_CLIENT: &str = "DRIVELINE_ROS2_CLIENT";
/// Known types: those of ROS 2 as upstream defines them, and those of these tests.
pub(crate) const DEFINITIONS: [(&str, &str, &str); 5] = [
    ("std_msgs", "msg/String.msg", "string data\n"),
    ("example_interfaces", "srv/AddTwoInts.srv", "int64 a\nint64 b\n---\nint64 sum\n"),
    ("std_srvs", "srv/Trigger.srv", "---\nbool success\nstring message\n"),
    ("test_srvs", "srv/Blob.srv", "uint8[] data\n---\nuint8[] data\n"),
    ("rcl_interfaces", "srv/GetParameterTypes.srv", "string[] names\n---\nuint8[] types\n"),
];
/// Time-out; only a failure takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not {what} within {PATIENCE:?}");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| {
        panic!("{command:?}: {e}; `make setup` installs what `make test-gateways` needs")
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Implementation of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Vendor {
    /// Debian's CycloneDDS in C, with types that its own compiler generates.
    Cyclone,
    /// The same, with discovery data of Humble.
    Humble,
    /// Debian's Fast DDS in C++.
    FastDds,
    /// The Python package cyclonedds.
    Python,
    /// The crate ros2-client over DDS: RustDDS.
    Ros2Client,
    /// The same, built for Humble.
    Ros2ClientHumble,
}

/// Returns the path of a program that was built elsewhere.
fn from_environment(variable: &str, what: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.unwrap_or_else(|| {
        panic!("{variable} names no {what}; `make measure ONLY=ros2-vendors` sees to it")
    })
}

/// Builds a program and returns its path. A result of an earlier run is replaced atomically, by the
/// same content, also if another run does so at the same time.
fn built(name: &str, build: impl FnOnce(&Path, &Path)) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let out = tempfile::tempdir_in(directory).unwrap();
    build(&source, out.path());
    let program = directory.join(format!("ros2-{name}"));
    std::fs::rename(out.path().join(name), &program).unwrap();
    program
}

/// Builds the node on CycloneDDS in C.
fn cyclone(source: &Path, out: &Path, name: &str, defined: &[&str]) {
    run(Command::new("idlc").args(defined).arg("-o").arg(out).arg(source.join("types.idl")));
    let parts = [source.join("peer.c"), source.join("service.c"), out.join("types.c")];
    run(Command::new("cc")
        .arg("-O1")
        .arg("-I")
        .arg(out)
        .args(parts)
        .args(["-lddsc", "-o"])
        .arg(out.join(name)));
}

impl Vendor {
    /// Returns the command that starts a node; programs are built once.
    fn program(self) -> Vec<PathBuf> {
        static CYCLONE: OnceLock<PathBuf> = OnceLock::new();
        static HUMBLE: OnceLock<PathBuf> = OnceLock::new();
        static FAST_DDS: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Self::Cyclone => vec![
                CYCLONE
                    .get_or_init(|| {
                        built("cyclone", |source, out| cyclone(source, out, "cyclone", &[]))
                    })
                    .clone(),
            ],
            Self::Humble => {
                vec![
                    HUMBLE
                        .get_or_init(|| {
                            built("humble", |source, out| {
                                cyclone(source, out, "humble", &["-DHUMBLE"])
                            })
                        })
                        .clone(),
                ]
            }
            Self::FastDds => {
                let build = |source: &Path, out: &Path| {
                    let libraries = ["-lfastrtps", "-lfastcdr", "-o"];
                    run(Command::new("c++")
                        .args(["-std=c++20", "-O1"])
                        .arg(source.join("fastdds.cpp"))
                        .args(libraries)
                        .arg(out.join("fastdds")));
                };
                vec![FAST_DDS.get_or_init(|| built("fastdds", build)).clone()]
            }
            Self::Python => {
                vec![
                    from_environment(PYTHON, "Python with the package cyclonedds"),
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer/peer.py"),
                ]
            }
            Self::Ros2Client => vec![
                from_environment(ROS2_CLIENT, "directory with nodes on ros2-client").join("jazzy"),
                "dds".into(),
            ],
            Self::Ros2ClientHumble => {
                vec![
                    from_environment(ROS2_CLIENT, "directory with nodes on ros2-client")
                        .join("humble"),
                    "dds".into(),
                ]
            }
        }
    }
}

/// ROS 2 node (or a gateway as a process), and its output. The process is killed when this value is
/// dropped.
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    pub(crate) printed: Vec<String>,
}

impl Peer {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let input = child.stdin.take();
        Self { child, input, lines, printed: Vec::new() }
    }

    /// Reads its new output, and returns all of it.
    pub(crate) fn read(&mut self) -> &[String] {
        self.printed.extend(self.lines.try_iter());
        &self.printed
    }

    /// Ends it in order, and returns all of its output.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.input.take());
        let _ = self.child.wait();
        self.printed.extend(self.lines.iter());
        std::mem::take(&mut self.printed)
    }

    /// Returns true if it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Stops the process until it is killed.
    pub(crate) fn stand_still(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }

    pub(crate) fn has_printed(&mut self, line: &str) -> bool {
        self.read().iter().any(|l| l == line)
    }

    /// Returns the seconds of the stamp of the last sample.
    pub(crate) fn last_stamp(&mut self) -> Option<i64> {
        self.read().last()?.rsplit(' ').next()?.parse().ok()
    }

    /// Returns length, checksum and frame of samples.
    pub(crate) fn samples(&mut self) -> Vec<(usize, u32, String)> {
        let of = |line: &String| {
            let parts: Vec<_> = line.split(' ').collect();
            (parts[1].parse().unwrap(), parts[2].parse().unwrap(), parts[3].to_owned())
        };
        self.read().iter().map(of).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Computes the checksum of the program in C.
pub(crate) fn sum(data: &[u8]) -> u32 {
    data.iter()
        .fold(2_166_136_261, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619))
}

pub(crate) struct Rig {
    /// Dropped before the directory.
    gateway: Option<Gateway>,
    config: Value,
    pub(crate) participant: Participant,
    pub(crate) dir: tempfile::TempDir,
    domain_id: u32,
    notices: Mutex<Vec<String>>,
}

/// Checks after each test that every call was answered, is in flight, or has ended, exactly once.
impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() || self.gateway.is_none() {
            return;
        }
        eventually("figures of services add up", || {
            self.report()
                .services
                .iter()
                .all(|s| s.calls == s.answered + s.under_way as u64 + s.ended.values().sum::<u64>())
        });
    }
}

impl Rig {
    /// Starts a gateway with these rules, and graph topics with these names and maximum payloads.
    /// `domain_id`: used by this test alone (`domains`).
    pub(crate) fn new(domain_id: u32, rules: Value, topics: &[(&str, u64, Qos)]) -> Self {
        Self::with(json!({ "domain_id": domain_id, "topics": rules }), topics)
    }

    /// As [`new`](Self::new), with the whole section `ros2:` except definitions.
    pub(crate) fn with(mut ros2: Value, topics: &[(&str, u64, Qos)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (package, file, definition) in DEFINITIONS {
            let path = dir.path().join(package).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, definition).unwrap();
        }
        let participant = Participant::open(ParticipantConfig {
            domain_dir: Some(dir.path().join("domain")),
            name: "test".into(),
        })
        .unwrap();
        let topics: Vec<_> = topics
            .iter()
            .map(|(topic, max, qos)| json!({ "topic": topic, "max_payload": max, "qos": qos }))
            .collect();
        ros2["types"] =
            DEFINITIONS.iter().map(|(package, ..)| json!(dir.path().join(package))).collect();
        for rule in ros2.get_mut("services").and_then(Value::as_array_mut).into_iter().flatten() {
            let rule = rule.as_object_mut().unwrap();
            rule.entry("timeout_ms").or_insert_with(|| json!(PATIENCE.as_millis() as u64));
        }
        let domain_id = ros2["domain_id"].as_u64().unwrap() as u32;
        if ros2["dds"] != json!(false) {
            domains::check(domain_id);
        }
        let config =
            json!({ "domain_dir": dir.path().join("domain"), "ros2": ros2, "topics": topics });
        let mut rig =
            Self { gateway: None, config, participant, dir, domain_id, notices: Mutex::default() };
        rig.start();
        rig
    }

    pub(crate) fn start(&mut self) {
        self.gateway = None;
        self.gateway =
            Some(Gateway::start(serde_json::from_value(self.config.clone()).unwrap()).unwrap());
    }

    pub(crate) fn stop(&mut self) {
        self.gateway = None;
    }

    /// Starts a gateway with the same configuration as a process, which is killed when the result
    /// is dropped. Returns when it takes part.
    pub(crate) fn process(&self) -> Peer {
        self.started(&mut self.program())
    }

    /// As [`process`](Self::process); the output of its libraries goes to the file.
    pub(crate) fn process_that_says(&self, said: File) -> Peer {
        self.started(self.program().stderr(said))
    }

    /// As [`process`](Self::process), on another host: `host` is the command before its programs.
    pub(crate) fn process_on(&self, host: &[String]) -> Peer {
        let program = self.program();
        self.started(
            Command::new(&host[0])
                .args(&host[1..])
                .arg(program.get_program())
                .args(program.get_args()),
        )
    }

    fn program(&self) -> Command {
        let path = self.dir.path().join("gateway.json");
        std::fs::write(&path, self.config.to_string()).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_driveline-gateway-ros2"));
        program.arg(path);
        program
    }

    fn started(&self, program: &mut Command) -> Peer {
        let mut gateway = Peer::start(program);
        eventually("the gateway says that it is there", || !gateway.read().is_empty());
        gateway
    }

    /// Reason why it cannot continue, if it cannot.
    pub(crate) fn failure(&self) -> Option<String> {
        self.gateway.as_ref().unwrap().failure()
    }

    /// Returns the current report.
    pub(crate) fn report(&self) -> Ros2Report {
        let mut report = None;
        eventually("a report that is not stale", || {
            report = Some(self.gateway.as_ref().unwrap().report()).filter(|report| !report.stale);
            report.is_some()
        });
        report.unwrap().ros2.unwrap()
    }

    /// Returns its configuration.
    pub(crate) fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the number of routers and nodes that the gateway is connected to.
    pub(crate) fn neighbours(&self) -> (usize, usize) {
        let network = self.gateway.as_ref().unwrap().report().network;
        (network.routers, network.peers)
    }

    /// Returns the report of a service.
    pub(crate) fn service(&self, name: &str) -> driveline_gateway::Ros2ServiceReport {
        self.report().services.into_iter().find(|s| s.service == name).unwrap()
    }

    /// Returns the number of calls of a service that ended for this reason.
    pub(crate) fn ended(&self, name: &str, reason: &str) -> u64 {
        self.service(name).ended.get(reason).copied().unwrap_or_default()
    }

    /// Returns the number of messages of a service that ended no call, by this reason.
    pub(crate) fn strays(&self, name: &str, reason: &str) -> u64 {
        self.service(name).strays.get(reason).copied().unwrap_or_default()
    }

    pub(crate) fn refused(&self) -> Vec<Refusal> {
        self.gateway.as_ref().unwrap().report().refused
    }

    /// Returns true if a line with this text was logged.
    pub(crate) fn logged(&self, part: &str) -> bool {
        let mut notices = self.notices.lock().unwrap();
        notices.extend(self.gateway.as_ref().unwrap().take_notices());
        notices.iter().any(|n| n.contains(part))
    }

    pub(crate) fn dropped(&self, topic: &str, reason: &str) -> u64 {
        let report = self.report();
        let of = report.from_ros.iter().chain(&report.to_ros).filter(|t| t.topic == topic);
        of.filter_map(|t| t.dropped.get(reason)).sum()
    }

    pub(crate) fn peer(&self, arguments: &str) -> Peer {
        self.node(Vendor::Cyclone, arguments)
    }

    /// Starts a node that other nodes consider alive for an hour after it was killed.
    pub(crate) fn peer_that_is_missed(&self, arguments: &str) -> Peer {
        let mut command = self.command(Vendor::Cyclone, arguments);
        let configured = command
            .get_envs()
            .find(|(name, _)| *name == "CYCLONEDDS_URI")
            .and_then(|(_, value)| value?.to_str())
            .unwrap();
        let configured =
            format!("{configured},<Discovery><LeaseDuration>3600 s</LeaseDuration></Discovery>");
        Peer::start(command.env("CYCLONEDDS_URI", configured))
    }

    /// Starts a node.
    pub(crate) fn node(&self, vendor: Vendor, arguments: &str) -> Peer {
        Peer::start(&mut self.command(vendor, arguments))
    }

    /// Starts a node on another host and on this interface. `host`: command before its programs.
    pub(crate) fn node_on(&self, host: &[String], interface: &str, arguments: &str) -> Peer {
        let configuration = format!(
            "<General><Interfaces><NetworkInterface name=\"{interface}\"/></Interfaces></General>"
        );
        let node = self.command(Vendor::Cyclone, arguments);
        let mut command = Command::new(&host[0]);
        command.args(&host[1..]).arg(node.get_program()).args(node.get_args());
        Peer::start(
            command
                .env("ROS_DOMAIN_ID", self.domain_id.to_string())
                .env("CYCLONEDDS_URI", configuration),
        )
    }

    /// Starts a node that announces its name, which is a namespace and a name.
    pub(crate) fn named(&self, vendor: Vendor, name: &str, arguments: &str) -> Peer {
        Peer::start(self.command(vendor, arguments).env("NODE", name))
    }

    /// Starts a node on ros2-client over Zenoh. It connects only to the router, and to other nodes
    /// by gossip.
    pub(crate) fn over_zenoh(&self, router: &rmw::Router, name: &str, arguments: &str) -> Peer {
        let program =
            from_environment(ROS2_CLIENT, "directory with nodes on ros2-client").join("jazzy");
        let settings = rmw::NODE_SETTINGS
            .iter()
            .map(|(key, value)| format!("{key}={value};"))
            .collect::<String>();
        let settings = format!("{settings}connect/endpoints=['{}']", router.endpoint());
        let mut command = Command::new(program);
        command
            .arg("zenoh")
            .args(arguments.split(' '))
            .env("ROS_DOMAIN_ID", self.domain_id.to_string());
        Peer::start(command.env("NODE", name).env("ZENOH_CONFIG_OVERRIDE", settings))
    }

    /// Waits until the only outgoing topic has this node as its reader. Over Zenoh, no sample is
    /// lost from then on: a node announces its subscription before it appears in the graph, on the
    /// same connection, and no router forwards either. A received sample proves less. A new
    /// connection carries every sample until the other end has announced its interests, and then
    /// none until it has announced the subscription.
    #[track_caller]
    pub(crate) fn is_read_by(&self, node: &str) {
        eventually(&format!("read by {node}"), || {
            self.report().to_ros[0].readers.iter().any(|reader| reader == node)
        });
    }

    fn command(&self, vendor: Vendor, arguments: &str) -> Command {
        let configuration = "<General><Interfaces><NetworkInterface address=\"127.0.0.1\" \
             multicast=\"false\"/></Interfaces>\
            <AllowMulticast>false</AllowMulticast></General><Discovery>\
            <ParticipantIndex>auto</ParticipantIndex>\
            <MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer \
             address=\"127.0.0.1\"/></Peers></Discovery>";
        let program = vendor.program();
        let mut command = Command::new(&program[0]);
        command
            .args(&program[1..])
            .args(arguments.split(' '))
            .env("ROS_DOMAIN_ID", self.domain_id.to_string())
            .env("CYCLONEDDS_URI", configuration);
        command
    }

    pub(crate) fn publisher(
        &self,
        topic: &str,
        node: &str,
        schema: Schema,
        max_payload: usize,
        qos: &Qos,
    ) -> Publisher {
        let mut config = PublisherConfig::new(
            topic.parse().unwrap(),
            node.parse().unwrap(),
            schema,
            max_payload,
        );
        config.qos = qos.clone();
        self.participant.create_publisher(config).unwrap()
    }

    pub(crate) fn subscription(&self, topic: &str, qos: &Qos) -> Subscription {
        let mut config = SubscriptionConfig::new(
            topic.parse().unwrap(),
            "reader".parse().unwrap(),
            SchemaRequest::Any,
        );
        config.qos = qos.clone();
        self.participant.create_subscription(config).unwrap()
    }
}
