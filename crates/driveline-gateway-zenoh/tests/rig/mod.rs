// SPDX-License-Identifier: Apache-2.0
//! Two hosts on one machine: two domain directories, and two gateways as processes with a cable
//! between them. Each gateway has its own network namespace where that is permitted. Publishers and
//! subscriptions are in the test.
#![allow(dead_code, reason = "shared by tests that need different parts")]

pub(crate) mod certificates;
pub(crate) mod meeting;
pub(crate) mod net;
pub(crate) mod process;
pub(crate) mod readings;
pub(crate) mod relay;
#[path = "../../../../tools/skipped.rs"]
mod skipped;
pub(crate) mod stopwatch;
pub(crate) mod talk;

use driveline::{Context, ContextOptions, Node, PublisherOptions, Reach, SubscriptionOptions};
use driveline_analyze::Rank;
use driveline_gateway::network::{CarriedTopic, GatewayConfig};
use driveline_gateway::{Answer, Report, ask};
use driveline_graph::model::Access;
use driveline_namespaces::{Direction, Namespace, Port, TapRelay};
use driveline_types::Qos;
use process::Process;
use serde_json::{Value, json};
pub(crate) use skipped::skipped;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const GATEWAY: &str = env!("CARGO_BIN_EXE_driveline-gateway-zenoh");

/// Waits for an effect of other processes. Only a failure takes as long as the time-out.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not {what} within {PATIENCE:?}");
        // time: a pause between polls; only a time-out of a minute or more ends them
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Makes tests run one after the other while they hold the result: they measure, and would disturb
/// each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Advice where network namespaces are not available.
pub(crate) const AS_ROOT: &str =
    "run it as root, with iproute2, nftables and ethtool, outside a sandbox";

/// Returns whether processes can have a clock of their own here.
pub(crate) fn clocks_can_be_shifted() -> bool {
    let unshare = Command::new("unshare")
        .args(["--time", "--monotonic", "3", "--fork", "true"])
        .stderr(Stdio::null())
        .status();
    unshare.is_ok_and(|s| s.success())
}

/// Command prefix for a program without any network, where that is permitted.
pub(crate) fn without_network() -> Vec<String> {
    let possible = Command::new("unshare")
        .args(["--net", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if possible {
        return ["unshare", "--net"].map(String::from).to_vec();
    }
    skipped(
        "a host without any network",
        "`unshare --net` is refused, so with one that it does not use",
        AS_ROOT,
    );
    Vec::new()
}

/// Connection between the hosts.
pub(crate) enum Cable {
    /// Two namespaces with a device in each.
    Wire {
        /// Relay of a delayed link. Its devices keep the namespaces alive, so it is dropped first.
        relay: Option<TapRelay>,
        hosts: [Namespace; 2],
    },
    /// The loopback device, because namespaces are refused.
    Loopback(Port),
}

/// Name of the device at each end of the cable.
const DEVICE: &str = "dl0";
/// Addresses of the two hosts on the cable.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// Capacity of each direction of a delayed link: more than any test has in flight.
const KEEPS: usize = 16 << 20;

impl Cable {
    fn new() -> Self {
        Self::wire(|[a, b]| a.add_veth(DEVICE, (b, DEVICE)).map(|()| None)).unwrap_or_else(|why| {
            skipped(
                "two network stacks",
                &format!("no network namespaces here ({why:#}), so over the loopback device"),
                AS_ROOT,
            );
            Self::Loopback(Port::new().expect("a port"))
        })
    }

    /// Makes a cable with these delays, one for each direction. `None`, with a message: not
    /// possible here.
    pub(crate) fn with_delays(delays: [Duration; 2]) -> Option<Self> {
        let directions = delays.map(|delay| Direction { delay, queue_bytes: KEEPS });
        let made =
            Self::wire(|[a, b]| TapRelay::new([(a, DEVICE), (b, DEVICE)], directions).map(Some));
        made.map_err(|why| skipped("a delayed link", &format!("{why:#}"), AS_ROOT)).ok()
    }

    fn wire(
        lay: impl FnOnce(&[Namespace; 2]) -> anyhow::Result<Option<TapRelay>>,
    ) -> anyhow::Result<Self> {
        let hosts = [Namespace::new()?, Namespace::new()?];
        let relay = lay(&hosts)?;
        hosts
            .iter()
            .zip(ADDRESSES)
            .try_for_each(|(host, address)| host.add_address(DEVICE, address))?;
        Ok(Self::Wire { relay, hosts })
    }

    fn endpoint(&self) -> String {
        match self {
            Self::Wire { .. } => format!("tcp/{}:7450", ADDRESSES[0]),
            Self::Loopback(port) => port.endpoint(),
        }
    }

    /// Returns the command prefix for a program that runs on one side.
    fn words(&self, side: usize) -> Vec<String> {
        self.hosts().map_or_else(Vec::new, |hosts| hosts[side].command_prefix().into())
    }

    /// Pulls the cable, or plugs it in. `false`: no cable can be pulled.
    pub(crate) fn set_up(&self, up: bool) -> bool {
        let Some([a, _]) = self.hosts() else { return false };
        a.run(&format!("ip link set {DEVICE} {}", if up { "up" } else { "down" }))
            .expect("the link");
        true
    }

    /// Sends every packet to a card that does not exist, in both directions, or to the right card
    /// again. Neither end is notified, unlike after a loss of carrier. `false`: there is no cable.
    pub(crate) fn drop_silently(&self, dropping: bool) -> bool {
        let Some([a, b]) = self.hosts() else { return false };
        misdirect((a, DEVICE), (b, DEVICE), ADDRESSES[1], dropping);
        misdirect((b, DEVICE), (a, DEVICE), ADDRESSES[0], dropping);
        true
    }

    /// Removes the network of a host, with all connection state of its kernel. The host gets a new
    /// network, without a cable.
    fn take_away(&mut self, side: usize) {
        let Self::Wire { relay, hosts } = self else { return };
        assert!(relay.is_none(), "the cable that is laid again would have no delay");
        // The kernel may keep the namespace while it tries to close connections in it.
        hosts[side].run(&format!("ip link delete {DEVICE}")).expect("the link");
        hosts[side] = Namespace::new().expect("a namespace");
    }

    /// Lays the removed cable again.
    fn give_back(&self) {
        let Some([a, b]) = self.hosts() else { return };
        a.add_veth(DEVICE, (b, DEVICE)).expect("a cable");
        [a, b]
            .into_iter()
            .zip(ADDRESSES)
            .for_each(|(host, address)| host.add_address(DEVICE, address).expect("a link"));
    }

    /// The hosts' network namespaces, if there are any.
    pub(crate) fn hosts(&self) -> Option<&[Namespace; 2]> {
        if let Self::Wire { hosts, .. } = self { Some(hosts) } else { None }
    }

    /// Returns the relay, if this is a delayed link.
    pub(crate) fn relay(&self) -> Option<&TapRelay> {
        if let Self::Wire { relay, .. } = self { relay.as_ref() } else { None }
    }

    /// Loses this percentage of packets in each direction, as on a wire. `false`: no cable, or no
    /// tools.
    pub(crate) fn lose(&self, percent: u32) -> bool {
        let Some(hosts) = self.hosts() else { return false };
        let lost = hosts.iter().try_for_each(|host| {
            host.disable_offloads(DEVICE).and_then(|()| host.drop_incoming(DEVICE, percent.into()))
        });
        lost.map_err(|why| skipped("a cable that loses packets", &format!("{why:#}"), AS_ROOT))
            .is_ok()
    }

    /// Breaks all connections over the cable, with the data in flight. They can be restored at
    /// once. `false`: not possible here.
    pub(crate) fn reset_connections(&self) -> bool {
        let Some([a, _]) = self.hosts() else { return false };
        let other = ADDRESSES[1].to_string();
        // `ss` lists the connections that it has ended.
        a.run(&format!("ss -K dst {other}")).is_ok_and(|ended| ended.contains(&other))
    }

    /// Limits the bandwidth in both directions, without a long queue. `false`: there is no cable.
    pub(crate) fn limit(&self, mbit: u32) -> bool {
        let Some(hosts) = self.hosts() else { return false };
        hosts.iter().for_each(|host| host.limit_rate(DEVICE, mbit).expect("tbf"));
        true
    }
}

/// Sends packets for an address to a card that does not exist, or to the right card again.
pub(crate) fn misdirect(
    (from, card): (&Namespace, &str),
    (to, its_card): (&Namespace, &str),
    address: Ipv4Addr,
    wrongly: bool,
) {
    let real = to.hardware_address(its_card).expect("a card");
    let card_address = if wrongly { "02:00:00:00:00:01" } else { &real };
    from.run(&format!("ip neigh replace {address} lladdr {card_address} nud permanent dev {card}"))
        .expect("a neighbour");
}

/// One host: its domain, and its gateway while that runs.
pub(crate) struct Host {
    pub(crate) node: Node,
    domain_dir: PathBuf,
    /// Number of times that it has lost its domain's directory.
    starts: u32,
    settings: GatewayConfig,
    config: PathBuf,
    gateway: Option<Child>,
    /// Command prefix for the gateway's program.
    words: Vec<String>,
}

impl Host {
    /// Makes a host without a running gateway. The gateway is started behind `words`, with
    /// `network` as its network configuration and `topics`. Its files are in `directory`.
    pub(crate) fn new(
        directory: &Path,
        name: &str,
        words: Vec<String>,
        network: &Value,
        topics: &[Value],
    ) -> Self {
        let domain_dir = directory.join(name);
        let context = Context::new(ContextOptions {
            name: name.into(),
            domain_dir: Some(domain_dir.clone()),
        })
        .unwrap();
        let settings = GatewayConfig {
            domain: "test".into(),
            domain_dir: domain_dir.clone(),
            network: serde_json::from_value(network.clone()).unwrap(),
            topics: topics.iter().map(|t| serde_json::from_value(t.clone()).unwrap()).collect(),
        };
        let config = directory.join(format!("{name}.json"));
        let host = Self {
            node: context.node(name).unwrap(),
            domain_dir,
            starts: 0,
            settings,
            config,
            gateway: None,
            words,
        };
        host.write_config();
        host
    }

    fn write_config(&self) {
        std::fs::write(&self.config, serde_json::to_string(&self.settings).unwrap()).unwrap();
    }

    /// Gives the domain a new, empty directory, as after a boot; `node` is still in the old one.
    fn forget(&mut self) {
        self.starts += 1;
        self.domain_dir.set_extension(self.starts.to_string());
        self.settings.domain_dir = self.domain_dir.clone();
        self.write_config();
    }

    /// Starts its gateway.
    pub(crate) fn start(&mut self) {
        let mut words = self.words.clone();
        words.push(GATEWAY.into());
        let mut command = Command::new(&words[0]);
        let child = command
            .args(&words[1..])
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.gateway = Some(child.expect("to start the gateway"));
    }

    /// Returns whether its gateway was started and has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.gateway
            .as_mut()
            .is_some_and(|child| child.try_wait().expect("to ask for it").is_some())
    }

    /// Process id of the started child. This is the gateway itself, because `nsenter` becomes it;
    /// on a host with a shifted clock, it is `unshare`.
    pub(crate) fn pid(&self) -> u32 {
        self.gateway.as_ref().map_or(0, Child::id)
    }

    pub(crate) fn domain_dir(&self) -> &Path {
        &self.domain_dir
    }

    /// Configuration file of its gateway.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the gateway's own report.
    pub(crate) fn report(&self) -> Option<Report> {
        match ask(&self.domain_dir, Duration::from_secs(5))
            .expect("the domain's directory")
            .pop()?
        {
            Answer::Report(report) => Some(*report),
            Answer::Dead { .. } | Answer::Silent { .. } => None,
        }
    }

    /// Private memory of the gateway that belongs to no file, in bytes.
    pub(crate) fn private_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Asks the gateway to end, without waiting.
    pub(crate) fn ask_to_end(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).expect("a gateway");
        rustix::process::kill_process(pid, signal).expect("to signal it");
    }

    /// Stops the gateway (SIGSTOP), or continues it.
    pub(crate) fn stand_still(&self, still: bool) {
        self.signal(if still {
            rustix::process::Signal::STOP
        } else {
            rustix::process::Signal::CONT
        });
        let stands = || {
            std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
                .expect("its status")
                .contains("State:\tT")
        };
        eventually("stopped, or going on", || stands() == still);
    }

    /// Ends the gateway as a crash does.
    pub(crate) fn kill_gateway(&mut self) {
        if let Some(mut child) = self.gateway.take() {
            child.kill().expect("to kill the gateway");
            child.wait().expect("its end");
        }
    }
}

pub(crate) struct Rig {
    // The first field, so that the gateways end before their network.
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) cable: Cable,
    _dir: tempfile::TempDir,
}

/// A topic and its direction: from the first host, to it, or both.
#[derive(Clone, Copy)]
pub(crate) struct Carried<'a> {
    pub(crate) topic: &'a str,
    pub(crate) max_payload: u64,
    pub(crate) from_a: bool,
    pub(crate) from_b: bool,
    /// Sends only every n-th sample.
    pub(crate) every: Option<u32>,
    /// Maximum rate.
    pub(crate) max_rate_hz: Option<f64>,
}

impl<'a> Carried<'a> {
    pub(crate) fn from_a(topic: &'a str, max_payload: u64) -> Self {
        Self { topic, max_payload, from_a: true, from_b: false, every: None, max_rate_hz: None }
    }
}

impl Rig {
    pub(crate) fn new(topics: &[Carried<'_>], qos: &Qos) -> Self {
        Self::with_shifted_clock(topics, qos, 0)
    }

    /// Creates hosts; the second one's clock is ahead of the first one's.
    pub(crate) fn with_shifted_clock(topics: &[Carried<'_>], qos: &Qos, shift_s: i32) -> Self {
        Self::over(Cable::new(), topics, qos, shift_s, &calls)
    }

    /// Makes hosts with delays on the cable: from the first to the second, and back. `None`, with a
    /// message: not possible here.
    pub(crate) fn with_delays(
        topics: &[Carried<'_>],
        qos: &Qos,
        shift_s: i32,
        delays: [Duration; 2],
    ) -> Option<Self> {
        Some(Self::over(Cable::with_delays(delays)?, topics, qos, shift_s, &calls))
    }

    /// Makes hosts with the network configuration `network`, given a directory for files and the
    /// address of the first host.
    pub(crate) fn with(
        topics: &[Carried<'_>],
        qos: &Qos,
        shift_s: i32,
        network: &dyn Fn(&Path, &str) -> [Value; 2],
    ) -> Self {
        Self::over(Cable::new(), topics, qos, shift_s, network)
    }

    /// Makes hosts on this cable.
    fn over(
        cable: Cable,
        topics: &[Carried<'_>],
        qos: &Qos,
        shift_s: i32,
        network: &dyn Fn(&Path, &str) -> [Value; 2],
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [of_a, of_b] = network(dir.path(), &cable.endpoint());
        let host = |name: &str, side: usize, network: &Value| {
            let carried: Vec<Value> = topics
                .iter()
                .map(|t| {
                    let (send, receive) =
                        if side == 0 { (t.from_a, t.from_b) } else { (t.from_b, t.from_a) };
                    let mut topic = carried(t.topic, send, receive, t.max_payload, qos);
                    topic["every"] = json!(t.every);
                    topic["max_rate_hz"] = json!(t.max_rate_hz);
                    topic
                })
                .collect();
            let mut words = cable.words(side);
            if side == 1 && shift_s != 0 {
                let shift = shift_s.to_string();
                words.extend(
                    ["unshare", "--time", "--monotonic", &shift, "--fork", "--kill-child=KILL"]
                        .map(String::from),
                );
            }
            Host::new(dir.path(), name, words, network, &carried)
        };
        let (a, b) = (host("a", 0, &of_a), host("b", 1, &of_b));
        let mut rig = Self { a, b, cable, _dir: dir };
        rig.start(0);
        rig.start(1);
        rig
    }

    /// Limits the bandwidth of the cable, or prints that `what` is not tested.
    pub(crate) fn limit(&self, mbit: u32, what: &str) -> bool {
        let limited = self.cable.limit(mbit);
        if !limited {
            skipped(what, "the loopback device cannot be slowed down", AS_ROOT);
        }
        limited
    }

    pub(crate) fn start(&mut self, side: usize) {
        self.host(side).start();
    }

    pub(crate) fn host(&mut self, side: usize) -> &mut Host {
        if side == 0 { &mut self.a } else { &mut self.b }
    }

    /// Simulates a power failure of one host: its gateway and this process die, and neither they
    /// nor the kernel announce it. Returns false without network namespaces, because then the
    /// kernel does.
    pub(crate) fn switch_off(&mut self, side: usize, process: Process) -> bool {
        let silent = self.cable.drop_silently(true);
        drop(process);
        self.host(side).kill_gateway();
        self.cable.take_away(side);
        let words = self.cable.words(side);
        self.host(side).words.splice(..words.len(), words);
        self.host(side).forget();
        silent
    }

    /// Starts a host that was switched off, with a new gateway.
    pub(crate) fn switch_on(&mut self, side: usize) {
        self.cable.give_back();
        self.start(side);
    }
}

/// Network configurations in which the second host connects to the first one.
fn calls(_: &Path, endpoint: &str) -> [Value; 2] {
    [json!({ "host": "a", "listen": [endpoint] }), json!({ "host": "b", "connect": [endpoint] })]
}

/// Returns a topic as in a gateway's configuration.
pub(crate) fn carried(
    topic: &str,
    send: bool,
    receive: bool,
    max_payload: u64,
    qos: &Qos,
) -> Value {
    let topic = CarriedTopic {
        topic: topic.parse().unwrap(),
        send,
        receive,
        max_payload,
        pins: 8,
        hosts: None,
        qos: qos.clone(),
        max_rate_hz: None,
        every: None,
        access: Access::default(),
    };
    serde_json::to_value(topic).unwrap()
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Printed to find the cause of a failure.
            eprintln!("its gateway says: {:#?}", ask(&self.domain_dir, Duration::from_secs(5)));
        }
        self.kill_gateway();
    }
}

/// Formats a percentile of times in nanoseconds as milliseconds, or the reason why there is none.
pub(crate) fn ms(percentile: Option<u64>) -> String {
    percentile.map_or_else(|| "n too small".into(), |ns| format!("{:.2} ms", ns as f64 / 1e6))
}

/// Like [`ms`], for values that may be negative.
pub(crate) fn signed_ms(percentile: Option<i64>) -> String {
    percentile.map_or_else(|| "n too small".into(), |ns| format!("{:.2} ms", ns as f64 / 1e6))
}

/// Exact percentiles of transit times in nanoseconds, from the headers. They may be negative by at
/// most the error of the clocks' offset.
pub(crate) struct Transit {
    pub(crate) n: u64,
    pub(crate) p50: Option<i64>,
    pub(crate) p99: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl Transit {
    pub(crate) fn of(mut all: Vec<i64>) -> Self {
        all.sort_unstable();
        let n = all.len() as u64;
        let at = |rank: Rank| {
            rank.index(n).filter(|_| n >= rank.needs).and_then(|i| all.get(i as usize)).copied()
        };
        Self { n, p50: at(Rank::P50), p99: at(Rank::P99), max: all.last().copied() }
    }
}

pub(crate) fn publisher_options(qos: &Qos, max_payload: usize) -> PublisherOptions {
    PublisherOptions {
        reach: Reach::Network,
        qos: qos.clone(),
        max_payload,
        ..PublisherOptions::default()
    }
}

pub(crate) fn subscription_options(qos: &Qos) -> SubscriptionOptions {
    SubscriptionOptions {
        reach: Reach::Network,
        qos: qos.clone(),
        ..SubscriptionOptions::default()
    }
}
