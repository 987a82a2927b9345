// SPDX-License-Identifier: Apache-2.0
//! Network configuration of a host: the section `network:` of a graph file, and the start
//! configuration of a gateway.
//!
//! Not here: the gateway (crate `driveline-gateway-zenoh`).

use driveline::Reach;
use driveline_runtime::launch::GatewayOptions;
use driveline_types::{Qos, TopicName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::endpoint::{self, Use};
use crate::interfaces::interfaces;
use crate::mistakes::{ConfigMistakes, TopicNumbers};
use driveline_graph::ResolvedGraph;
use driveline_graph::model::{Access, EVERY, RATE_HZ, written_qos};

/// Port on which a gateway listens at a named interface.
pub const PORT: u16 = 7450;
/// Name of the gateway's process in a run; no module has this name.
pub const PROCESS: &str = driveline_runtime::launch::GATEWAY_PROCESS;
/// Numbers of Zenoh's receiving and sending threads. Zenoh's defaults are two and one. Zenoh lets
/// `close` of a TCP connection wait up to 10 s for acknowledgements of a lost host, on a receiving
/// thread: after two lost connections, both receiving threads waited, and no message was received
/// from any host. The sending thread waits for threads that wait for space in an ending connection:
/// meanwhile no message was sent to any host (`docs/protocols/network-faults.md`). There is no
/// other setting for these numbers.
pub const ZENOH_THREADS: (&str, &str) =
    ("ZENOH_RUNTIME", "(rx: (worker_threads: 8), tx: (worker_threads: 8))");

/// Numbers of threads if connections use TLS: one thread for both. Zenoh 1.10 reads and writes a
/// TLS connection at the same time, which the TLS library does not allow
/// (eclipse-zenoh/zenoh#2557). With more threads connections ended several times a second, and
/// memory may be damaged.
pub const ZENOH_THREADS_FOR_TLS: (&str, &str) =
    ("ZENOH_RUNTIME", "(rx: (worker_threads: 1), tx: (handover: rx))");

const LOOPBACK: &str = "127.0.0.1:0";
const DEFAULT_BANDWIDTH_MBIT: u32 = 100;
const MAX_BANDWIDTH_MBIT: u32 = 400_000;
const MAX_ENDPOINTS: usize = 64;
/// Number of bytes at the beginning of a Zenoh file that are searched for TLS.
const MAX_ZENOH_FILE_LEN: u64 = 1 << 20;

/// Network configuration of this host. Without endpoints, interface and `zenoh` file, the gateway
/// listens on the loopback device only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// Name of this host, which the others see: letters, digits, `_` and `-`. Default: the
    /// machine's name.
    pub host: Option<String>,
    /// Network interface, such as `eth0`: the gateway listens there on port 7450, with TLS if there
    /// are certificates, and finds others there by multicast.
    pub interface: Option<String>,
    /// Endpoints to listen on, such as `tcp/192.168.1.10:7450`, `tls/192.168.1.10:7450`,
    /// `unixsock-stream//run/car/gateway`.
    pub listen: Vec<String>,
    /// Endpoints of other gateways or routers to connect to; tried again until they
    /// answer.
    pub connect: Vec<String>,
    /// Bandwidth of the slowest link to another host, in Mbit/s. The kernel and Zenoh buffer about
    /// 5 ms of it (at least 80 KiB), which a small sample waits for behind a large one. A value
    /// below the link's makes large samples slow on links with packet loss or long round trips.
    /// Default: 100.
    #[schemars(range(min = 1, max = 400_000))]
    pub bandwidth_mbit: Option<u32>,
    /// Permits a listener on all addresses without TLS: every program that reaches this host can
    /// then publish. Also applies to listeners in the `zenoh` file.
    pub insecure: bool,
    /// Certificates of `tls/` endpoints. Both ends show theirs.
    pub tls: Option<TlsSpec>,
    /// Zenoh's own configuration file. It replaces all keys above except `host` and `insecure`.
    /// Relative to this file.
    pub zenoh: Option<PathBuf>,
}

/// Certificates, as PEM files. Paths are relative to the graph file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Certificate of the authority that has signed those of all hosts.
    pub authority: PathBuf,
    /// This host's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
}

/// Mistake under `network:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Key of the setting.
    pub key: &'static str,
    /// Index in a list.
    pub index: Option<usize>,
    /// Description.
    pub message: String,
    /// Remedy.
    pub help: String,
}

/// Returns true if this is a valid host name.
#[must_use]
pub fn is_host_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Returns true if a domain of this name can be carried to other hosts.
#[must_use]
pub fn is_domain_name(name: &str) -> bool {
    let permitted =
        |b: u8| b.is_ascii_graphic() && !matches!(b, b'/' | b'*' | b'$' | b'?' | b'#' | b'@');
    (1..=64).contains(&name.len()) && name.bytes().all(permitted)
}

/// Returns true if a listener at this Zenoh endpoint admits every host that reaches this one on any
/// network. Such a listener accepts connections on all addresses of all interfaces and requests no
/// certificate. `mtls`: certificates are requested over TLS (`transport/link/tls/enable_mtls`),
/// unless the endpoint says otherwise.
#[must_use]
pub fn is_open_to_all(endpoint: &str, mtls: bool) -> bool {
    endpoint::is_open_to_all(endpoint, mtls)
}

/// Returns the machine's name as a host name: up to the first dot, with `-` for invalid characters.
#[must_use]
pub fn machine_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    let short = name.split('.').next().unwrap_or_default();
    let kept: String = short
        .chars()
        .take(63)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .collect();
    if kept.is_empty() { "host".into() } else { kept }
}

impl NetworkSpec {
    /// Returns all mistakes.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut add = |key, index, message: String, help: String| {
            found.push(Mistake { key, index, message, help })
        };
        if let Some(name) = self.host.as_ref().filter(|n| !is_host_name(n)) {
            add(
                "host",
                None,
                format!("`{name}` cannot be the name of a host"),
                "use 1 to 63 letters, digits, `_` and `-`".into(),
            );
        }
        let endpoints =
            self.interface.is_some() || !self.listen.is_empty() || !self.connect.is_empty();
        let named = endpoints || self.tls.is_some() || self.bandwidth_mbit.is_some();
        if self.zenoh.is_some() && named {
            let message = "Zenoh's own configuration file says everything about endpoints, and \
                 something else here does, too"
                .into();
            add(
                "zenoh",
                None,
                message,
                "keep one of the two: `zenoh:`, or `interface`, `listen`, `connect`, \
                 `bandwidth_mbit`, `tls`"
                    .into(),
            );
        }
        if let Some(i) = self.interface.as_ref().filter(|i| !endpoint::is_interface(i)) {
            add(
                "interface",
                None,
                format!("`{i}` cannot be the name of a network interface"),
                "`ip link` lists them".into(),
            );
        }
        if let Some(mbit) = self.bandwidth_mbit.filter(|m| !(1..=MAX_BANDWIDTH_MBIT).contains(m)) {
            let help = format!(
                "write the bandwidth of the slowest link between hosts, 1 to {MAX_BANDWIDTH_MBIT} \
                 Mbit/s, such as 1000"
            );
            add("bandwidth_mbit", None, format!("no link carries {mbit} Mbit/s"), help);
        }
        let rules = endpoint::Rules {
            protocols: &["tcp", "tls", "udp", "unixsock-stream"],
            form: "write protocol and address: `tcp/192.168.1.10:7450`, `tls/10.0.0.1:7450`, \
                 `unixsock-stream//run/car/gateway`",
            port: PORT,
            instead: "name the address or the `interface` of the network that is meant, use \
                 `tls/…`",
            tls: self.tls.is_some(),
            insecure: self.insecure,
        };
        for (key, list, what_for) in
            [("listen", &self.listen, Use::Listen), ("connect", &self.connect, Use::Connect)]
        {
            if list.len() > MAX_ENDPOINTS {
                add(
                    key,
                    None,
                    format!("{} endpoints are too many", list.len()),
                    format!("at most {MAX_ENDPOINTS} are possible"),
                );
            }
            for (i, endpoint) in list.iter().take(MAX_ENDPOINTS).enumerate() {
                if let Some((message, help)) = endpoint::mistake(endpoint, what_for, &rules) {
                    add(key, Some(i), message, help);
                }
            }
        }
        found
    }

    /// Returns the bandwidth of the slowest link, in Mbit/s.
    #[must_use]
    pub fn bandwidth_mbit(&self) -> u32 {
        self.bandwidth_mbit.unwrap_or(DEFAULT_BANDWIDTH_MBIT)
    }

    /// Returns the endpoints to listen on: the configured ones, or the loopback device.
    #[must_use]
    pub fn listen_endpoints(&self) -> Vec<String> {
        let protocol = if self.tls.is_some() { "tls" } else { "tcp" };
        let at_interface =
            self.interface.iter().map(|i| format!("{protocol}/0.0.0.0:{PORT}#iface={i}"));
        let all: Vec<String> = at_interface.chain(self.listen.iter().cloned()).collect();
        if all.is_empty() { vec![format!("{protocol}/{LOOPBACK}")] } else { all }
    }

    /// Returns true if this host can reach others, or be reached: it has an interface, an endpoint
    /// or a Zenoh file.
    #[must_use]
    pub fn reaches_any_host(&self) -> bool {
        self.interface.is_some()
            || self.zenoh.is_some()
            || !self.listen.is_empty()
            || !self.connect.is_empty()
    }

    /// Returns true if a connection uses TLS. A Zenoh file that mentions it counts.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        let names_it = |path: &PathBuf| {
            let mut text = Vec::new();
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(MAX_ZENOH_FILE_LEN).read_to_end(&mut text));
            read.is_ok() && text.windows(4).any(|word| word == b"tls/")
        };
        self.tls.is_some()
            || self.zenoh.as_ref().is_some_and(|path| unreadable(path).is_none() && names_it(path))
    }

    /// Returns true if this host may be a router, which serves only topics of other hosts. Zenoh's
    /// own configuration file decides whether it is one.
    #[must_use]
    pub fn may_be_router(&self) -> bool {
        self.zenoh.is_some()
    }

    /// Returns the named network interface if its name is valid and this computer has no such
    /// interface now.
    #[must_use]
    pub fn missing_interface(&self) -> Option<&str> {
        self.interface.as_deref().filter(|name| endpoint::is_interface(name) && is_missing(name))
    }

    /// Returns the interfaces to listen on that this computer does not have now, with their index
    /// in `listen`.
    #[must_use]
    pub fn missing_listen_interfaces(&self) -> Vec<(usize, &str)> {
        let bound = self
            .listen
            .iter()
            .take(MAX_ENDPOINTS)
            .enumerate()
            .filter_map(|(i, endpoint)| Some((i, endpoint::interface(endpoint)?)));
        bound.filter(|(_, name)| endpoint::is_interface(name) && is_missing(name)).collect()
    }

    /// Returns the interfaces that endpoints under `listen` name. The second value is true if the
    /// endpoint has no single address: the gateway then listens on all addresses of the interface.
    pub fn listen_interfaces(&self) -> impl Iterator<Item = (&str, bool)> {
        let of = |endpoint| {
            Some((endpoint::interface(endpoint)?, endpoint::address(endpoint).is_none()))
        };
        self.listen.iter().take(MAX_ENDPOINTS).filter_map(move |endpoint| of(endpoint))
    }

    /// Returns the addresses to listen on that this computer does not have now, with their index in
    /// `listen`.
    #[must_use]
    pub fn missing_addresses(&self) -> Vec<(usize, IpAddr)> {
        let missing = |(i, endpoint): (usize, &String)| {
            // With `iface=`, the address is not checked: the interface may have a routing table of
            // its own (VRF), and this check's socket is not bound to the interface.
            let address = endpoint::address(endpoint)
                .filter(|a| !a.is_multicast() && endpoint::interface(endpoint).is_none())?;
            // A port chosen by the kernel is free.
            let refused = std::net::UdpSocket::bind((address, 0)).err()?;
            (refused.kind() == std::io::ErrorKind::AddrNotAvailable).then_some((i, address))
        };
        self.listen.iter().take(MAX_ENDPOINTS).enumerate().filter_map(missing).collect()
    }

    /// Returns the named files that cannot be read, have the wrong kind, or occupy the path of a
    /// socket. Each has its key and the reason; a file at the path of a socket also has a remedy.
    #[must_use]
    pub fn unreadable_files(&self) -> Vec<(&'static [&'static str], String, Option<&'static str>)> {
        let tls = self.tls.iter().flat_map(|t| {
            [
                (&["tls", "authority"][..], &t.authority, Some("CERTIFICATE")),
                (&["tls", "certificate"], &t.certificate, Some("CERTIFICATE")),
                (&["tls", "private_key"], &t.private_key, Some("PRIVATE KEY")),
            ]
        });
        let named = tls.chain(self.zenoh.iter().map(|path| (&["zenoh"][..], path, None)));
        let wrong = |(keys, path, pem): (_, &PathBuf, Option<&str>)| {
            let (why, help) = match unreadable(path) {
                Some(why) => (why, None),
                None => (pem.and_then(|label| lacks_pem(path, label))?, Some(WRITE_PEM)),
            };
            Some((keys, format!("cannot read {}: {why}", path.display()), help))
        };
        // Zenoh removes any file at the path of its socket.
        let sockets = self.listen.iter().filter_map(|endpoint| endpoint::socket_path(endpoint));
        let in_the_way = |path: &&Path| {
            std::fs::symlink_metadata(path).is_ok_and(|about| !about.file_type().is_socket())
        };
        let lost = |path: &Path| {
            (
                &["listen"][..],
                format!("{} exists and is not a socket: it would be lost", path.display()),
                Some("move it, or name another path"),
            )
        };
        named.filter_map(wrong).chain(sockets.filter(in_the_way).map(lost)).collect()
    }

    /// Returns the configuration with paths relative to the working directory instead of
    /// `directory`.
    #[must_use]
    pub fn relative_to(mut self, directory: &Path) -> Self {
        let tls = self
            .tls
            .iter_mut()
            .flat_map(|t| [&mut t.authority, &mut t.certificate, &mut t.private_key]);
        for path in tls.chain(&mut self.zenoh) {
            *path = directory.join(&*path);
        }
        self
    }
}

/// Returns true if this computer has no network interface of this name.
fn is_missing(interface: &str) -> bool {
    let there = interfaces();
    !there.is_empty() && there.iter().all(|i| i.name != interface)
}

/// Returns the reason why a file cannot be read. A pipe, which could block, is not opened.
fn unreadable(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => Some("it is not a regular file".into()),
        Ok(_) => std::fs::File::open(path).err().map(|e| e.to_string()),
        Err(e) => Some(e.to_string()),
    }
}

/// Topic that a gateway carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarriedTopic {
    /// Topic.
    pub topic: TopicName,
    /// True if samples of local publishers go to other hosts.
    pub send: bool,
    /// True if samples of other hosts are received.
    pub receive: bool,
    /// Maximum payload of received samples, in bytes.
    pub max_payload: u64,
    /// Number of samples of one publisher of another host that local subscriptions may hold
    /// together.
    pub pins: u32,
    /// Maximum number of hosts that receive the topic: the route to each of them holds a pin of
    /// each local publisher. `None`: the gateway's limit of routes.
    #[serde(default)]
    pub hosts: Option<u32>,
    /// QoS of the topic. Local publishers are read with its depth and lifespan, and with the
    /// reliability and durability that the receiving host requests.
    #[serde(default, deserialize_with = "written_qos")]
    pub qos: Qos,
    /// Maximum rate of samples to a host, in Hz; of best-effort volatile samples, the newest ones
    /// are sent. `None`: no limit.
    #[serde(default)]
    pub max_rate_hz: Option<f64>,
    /// Only every n-th sample of a publisher is sent. `None` and 1: all.
    #[serde(default)]
    pub every: Option<u32>,
    /// Users with access on this host.
    #[serde(default)]
    pub access: Access,
}

impl CarriedTopic {
    /// Adds mistakes that matter only between hosts.
    fn check_between_hosts(&self, place: &str, found: &mut ConfigMistakes) {
        if !self.send && !self.receive {
            let message = format!("`{}` is neither sent nor received", self.topic);
            found.add(place, &message, "set `send` or `receive` to true, or remove it");
        }
        if self.hosts == Some(0) {
            let help =
                "leave it out for no limit; `send` decides whether the topic goes to other hosts";
            found.add(&format!("{place}.hosts"), "0 is out of range", help);
        }
        if let Some(hz) = self.max_rate_hz {
            found.number(&format!("{place}.max_rate_hz"), hz, RATE_HZ);
        }
        if let Some(every) = self.every {
            found.number(&format!("{place}.every"), every, EVERY);
        }
    }
}

/// Start configuration of a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayConfig {
    /// Name of the domain, the same on all hosts.
    pub domain: String,
    /// Its directory on this host.
    pub domain_dir: PathBuf,
    /// Network configuration of this host.
    #[serde(default)]
    pub network: NetworkSpec,
    /// Carried topics.
    pub topics: Vec<CarriedTopic>,
}

impl GatewayConfig {
    /// Returns the start options of the gateway in a run; for the program see
    /// [`find_gateway`](driveline_runtime::launch::find_gateway).
    ///
    /// # Errors
    /// The configuration cannot be written as JSON.
    pub fn launched_by(&self, program: PathBuf) -> serde_json::Result<GatewayOptions> {
        Ok(GatewayOptions {
            name: PROCESS,
            program,
            config: serde_json::to_string(self)?,
            environment: self.environment(),
        })
    }

    /// Returns environment variables for Zenoh: its numbers of threads. Reads the `zenoh:` file, if
    /// there is one.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, &'static str)> {
        vec![if self.network.speaks_tls() { ZENOH_THREADS_FOR_TLS } else { ZENOH_THREADS }]
    }

    /// Returns the gateway configuration of a graph, if the graph needs a gateway. It contains each
    /// topic with network reach: in the directions for which this graph has publishers or
    /// subscriptions, or in both directions if the topic is external.
    #[must_use]
    pub fn of_graph(graph: &ResolvedGraph, domain: &str, domain_dir: &Path) -> Option<Self> {
        let ends = |topic: &TopicName| {
            let outputs =
                graph.components().any(|(_, c)| c.outputs.iter().any(|o| o.topic == *topic));
            let inputs =
                graph.components().any(|(_, c)| c.inputs.iter().any(|i| i.topic == *topic));
            (outputs, inputs)
        };
        let topics: Vec<_> = graph
            .topics
            .iter()
            .filter(|(_, t)| t.reach == Reach::Network)
            .map(|(name, t)| {
                let (send, receive) = ends(name);
                CarriedTopic {
                    topic: name.clone(),
                    send: send || t.external,
                    receive: receive || t.external,
                    max_payload: t.max_payload,
                    pins: t.pins,
                    hosts: Some(t.hosts),
                    qos: t.qos.clone(),
                    max_rate_hz: t.network.max_rate_hz,
                    every: t.network.every,
                    access: t.access.clone(),
                }
            })
            // With `--module`, drops topics that only another part of the graph publishes or reads.
            .filter(|t| t.send || t.receive)
            .collect();
        let network = graph.sections.get::<NetworkSpec>().cloned().unwrap_or_default();
        (!topics.is_empty() || network.may_be_router()).then(|| Self {
            domain: domain.to_owned(),
            domain_dir: domain_dir.to_owned(),
            network,
            topics,
        })
    }

    /// Checks that a gateway can start with this configuration. Opens only the files that it names.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<(), ConfigMistakes> {
        let mut found = ConfigMistakes::default();
        if !is_domain_name(&self.domain) {
            let message =
                format!("`{}` cannot be the name of a domain that other hosts know", self.domain);
            found.add("domain", &message, "use 1 to 64 letters, digits, `_`, `-` and `.`");
        }
        for m in self.network.mistakes() {
            let item = m.index.map_or(String::new(), |i| format!("[{i}]"));
            found.add(&format!("network.{}{item}", m.key), &m.message, &m.help);
        }
        for (keys, message, help) in self.network.unreadable_files() {
            found.add(
                &format!("network.{}", keys.join(".")),
                &message,
                help.unwrap_or(
                    "paths are relative to the directory in which the gateway is started",
                ),
            );
        }
        let numbers = self.topics.iter().map(|t| TopicNumbers {
            topic: &t.topic,
            max_payload: t.max_payload,
            pins: t.pins,
            qos: &t.qos,
        });
        found.topics(numbers, |found, i| {
            self.topics[i].check_between_hosts(&format!("topics[{i}]"), found)
        });
        found.into_result()
    }
}

/// Number of bytes at the beginning of a certificate or key file that are checked.
const MAX_PEM_LEN: u64 = 1 << 20;
const WRITE_PEM: &str =
    "write it in PEM: `openssl x509` converts certificates, `openssl pkey` keys";

/// Returns the reason why a file has no PEM block of this kind. Zenoh does not report it for
/// outgoing connections.
fn lacks_pem(path: &Path, label: &str) -> Option<String> {
    let mut bytes = Vec::new();
    if let Err(e) =
        std::fs::File::open(path).and_then(|file| file.take(MAX_PEM_LEN).read_to_end(&mut bytes))
    {
        return Some(e.to_string());
    }
    let text = String::from_utf8_lossy(&bytes);
    let has = text.lines().any(|line| {
        line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{label}-----"))
    });
    (!has).then(|| format!("it has no `-----BEGIN {label}-----`"))
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
