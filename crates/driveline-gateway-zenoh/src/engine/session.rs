// SPDX-License-Identifier: Apache-2.0
//! Builds a Zenoh session from the settings under `network:`.

use super::GatewayError;
use crate::wire::MAX_LIST_LEN;
use driveline_gateway::network::{GatewayConfig, NetworkSpec, is_open_to_all};
use driveline_gateway::zenoh_says;
use driveline_zenoh::Opened;
use serde_json::Value;
use std::time::Duration;
use zenoh::Config;

/// Time without a sign of life after which a peer is gone.
const LEASE_MS: u64 = 2_000;
/// Number of keep-alives in a lease: enough that the kernel breaks a dead connection before the
/// lease ends.
const KEEP_ALIVE: u64 = 8;
/// Period of keep-alives over TLS. Zenoh does not flush data that TLS holds back when the kernel's
/// buffer is full, so the end of a sample waits for the next write. With [`KEEP_ALIVE`], that would
/// take up to a quarter of a second.
const FLUSHED_EACH_MS: u64 = 10;
/// Time-out of opening a connection. The kernel sends the first packet at once and again after a
/// second, so a link that returns in between is found.
const OPEN_WITHIN_MS: u64 = 2_000;
/// Time that a message waits for space before it is dropped: a little less than the lease. Zenoh
/// ends a connection only when no thread waits for space in it any more.
const ROOM_WITHIN_MS: u64 = 1_500;
/// The rest of a message that is longer than a batch waits longer for space than
/// [`ROOM_WITHIN_MS`]. The additional wait is this time plus twice the link's time for the longest
/// message.
const REST_WITHIN_MS: u64 = 500;
/// Maximum of the additional wait, for any configured bandwidth.
const REST_WITHIN_AT_MOST_MS: u64 = 60_000;
/// Pause before the next attempt to connect. It is constant: growing pauses would leave a restored
/// link unused for longer.
const RETRY_MS: u64 = 200;
/// Bounds of the size of a batch, which is 1.3 ms of the link's traffic. While a large sample is
/// sent, a small one waits until the current batch is sent. Zenoh's lengths have 16 bits.
const BATCH_BYTES: [u32; 2] = [16 * 1024, u16::MAX as u32];
/// Bounds of the size of the kernel's send buffer, which is 2.6 ms of the link's traffic. The
/// kernel doubles it. It also limits unacknowledged data in flight. With a smaller buffer, TCP
/// finds a lost packet only by its time-out, and a long path is idle for part of each round trip.
/// The kernel reduces sizes beyond `net.core.wmem_max`.
const SEND_BUFFER_BYTES: [u32; 2] = [32 * 1024, 16 << 20];
/// Traffic that the kernel buffers on reception on slow links, as a time. A stopped host is found
/// by its full buffer (see [`unanswered`]), and the kernel's default limit is megabytes. Faster
/// links have no such limit, because it would be less than the traffic in flight.
const SOCKET_RECEIVES_US: u32 = 100_000;
const SOCKET_RECEIVES_BYTES: [u32; 2] = [64 * 1024, 208 * 1024];
/// Space for a message in addition to its payload.
const MESSAGE_HEAD_BYTES: u64 = 64 * 1024;
const RECEIVE_BUFFER_BYTES: u32 = 1 << 20;
/// Maximum number of peers and routers connected at once.
const MAX_SESSIONS: u32 = 64;

/// Returns the number of bytes that this bandwidth carries in `us` microseconds, within the bounds.
/// 1 Mbit/s is one bit each microsecond.
fn bytes_of(mbit: u32, us: u32, [least, most]: [u32; 2]) -> u32 {
    (mbit.saturating_mul(us) / 8).clamp(least, most)
}

/// Returns the additional time that the rest of a message of this length waits for space, in
/// microseconds.
fn rest_within_us(len: u64, mbit: u32) -> u64 {
    let transmission = len.saturating_mul(8) / u64::from(mbit.max(1));
    transmission
        .saturating_mul(2)
        .saturating_add(REST_WITHIN_MS * 1_000)
        .min(REST_WITHIN_AT_MOST_MS * 1_000)
}

fn set(config: &mut Config, key: &'static str, value: &str) -> Result<(), GatewayError> {
    config.insert_json5(key, value).map_err(|e| GatewayError::ZenohRefuses {
        key,
        value: value.to_owned(),
        reason: zenoh_says(&e),
    })
}

/// Returns the configuration of the session.
pub(super) fn config(gateway: &GatewayConfig) -> Result<Config, GatewayError> {
    let spec = &gateway.network;
    if let Some(path) = &spec.zenoh {
        let config = Config::from_file(path)
            .map_err(|e| GatewayError::ZenohFile { path: path.clone(), reason: zenoh_says(&e) })?;
        return match open_to_all(&config).as_slice() {
            [open, ..] if !spec.insecure => Err(GatewayError::Network {
                key: "zenoh",
                message: format!(
                    "{} has this host listen at `{open}`, so every host that can reach it on any \
                     network may publish and subscribe",
                    path.display()
                ),
                help: "name the intended addresses under `listen: {endpoints: […]}` there, use \
                     `tls/…` with `transport: {link: {tls: {enable_mtls: true}}}`, or write \
                     `insecure: true` next to `zenoh:`"
                    .into(),
            }),
            _ => Ok(config),
        };
    }
    let mut config = Config::default();
    let longest = gateway.topics.iter().map(|t| t.max_payload).fold(MAX_LIST_LEN as u64, u64::max);
    let mbit = spec.bandwidth_mbit();
    let (batch, send_buffer) =
        (bytes_of(mbit, 1300, BATCH_BYTES), bytes_of(mbit, 2600, SEND_BUFFER_BYTES));
    let (lease, batch, buffer) =
        (LEASE_MS.to_string(), batch.to_string(), RECEIVE_BUFFER_BYTES.to_string());
    let open_within = OPEN_WITHIN_MS.to_string();
    let retry = format!(
        "{{ period_init_ms: {RETRY_MS}, period_max_ms: {RETRY_MS}, period_increase_factor: 1 }}"
    );
    let longest = longest.saturating_add(MESSAGE_HEAD_BYTES);
    let (room_within, rest_within) =
        ((ROOM_WITHIN_MS * 1_000).to_string(), rest_within_us(longest, mbit).to_string());
    let longest = longest.to_string();
    let (receive_buffer, send_buffer) =
        (json(receive_buffer(mbit, send_buffer)), json(send_buffer));
    let (listen, connect) = (json(spec.listen_endpoints()), json(spec.connect.clone()));
    let sessions = MAX_SESSIONS.to_string();
    let keep_alive =
        if spec.tls.is_some() { LEASE_MS / FLUSHED_EACH_MS } else { KEEP_ALIVE }.to_string();
    for (key, value) in [
        ("mode", "'peer'"),
        ("listen/endpoints", listen.as_str()),
        ("connect/endpoints", connect.as_str()),
        // The session opens at once and keeps retrying hosts that are not reachable yet.
        ("connect/timeout_ms", "-1"),
        ("connect/exit_on_failure", "false"),
        ("connect/retry", retry.as_str()),
        ("scouting/gossip/enabled", "true"),
        ("scouting/multicast/enabled", if spec.interface.is_some() { "true" } else { "false" }),
        ("timestamping/enabled", "false"),
        ("queries_default_timeout", "2000"),
        ("routing/interests/timeout", "2000"),
        ("open/return_conditions", "{ connect_scouted: false, declares: false }"),
        ("transport/unicast/open_timeout", open_within.as_str()),
        ("transport/unicast/accept_timeout", open_within.as_str()),
        ("transport/unicast/max_sessions", sessions.as_str()),
        ("transport/link/tx/lease", lease.as_str()),
        ("transport/link/tx/batch_size", batch.as_str()),
        ("transport/link/tx/queue/congestion_control/drop/wait_before_drop", room_within.as_str()),
        (
            "transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments",
            rest_within.as_str(),
        ),
        ("transport/link/tx/queue/congestion_control/block/wait_before_close", "2000000"),
        ("transport/link/rx/buffer_size", buffer.as_str()),
        ("transport/link/rx/max_message_size", longest.as_str()),
        ("transport/link/tx/keep_alive", keep_alive.as_str()),
        // For all connections, including those to hosts found by multicast or through other hosts,
        // which no file lists. An endpoint in a file may have its own value.
        ("transport/link/tcp/so_sndbuf", send_buffer.as_str()),
        ("transport/link/tcp/so_rcvbuf", receive_buffer.as_str()),
        ("transport/link/tls/so_sndbuf", send_buffer.as_str()),
        ("transport/link/tls/so_rcvbuf", receive_buffer.as_str()),
    ] {
        set(&mut config, key, value)?;
    }
    if let Some(interface) = &spec.interface {
        set(&mut config, "scouting/multicast/interface", &json(interface.as_str()))?;
    }
    if let Some(tls) = &spec.tls {
        let file = |path: &std::path::Path| json(path.display().to_string());
        for (key, value) in [
            ("transport/link/tls/root_ca_certificate", file(&tls.authority)),
            ("transport/link/tls/listen_certificate", file(&tls.certificate)),
            ("transport/link/tls/listen_private_key", file(&tls.private_key)),
            ("transport/link/tls/connect_certificate", file(&tls.certificate)),
            ("transport/link/tls/connect_private_key", file(&tls.private_key)),
            ("transport/link/tls/enable_mtls", "true".into()),
        ] {
            set(&mut config, key, &value)?;
        }
    }
    Ok(config)
}

/// Opens a session. `identity`: identity of the session, unless a Zenoh file sets another one.
pub(super) fn open(mut config: Config, identity: &str) -> zenoh::Result<Opened> {
    if value(&config, "id").is_null() {
        config.insert_json5("id", &json(identity))?;
    }
    Opened::new(config)
}

/// Returns the time after which the kernel breaks a connection with unacknowledged data. Together
/// with the 0.2 s until the first retransmission, it is less than the remaining lease, even if one
/// keep-alive period of the lease has passed. So the kernel finds a dead connection first. It then
/// wakes threads that wait for space, while Zenoh would let them wait for their time-out.
pub(super) fn unanswered(gateway: &GatewayConfig) -> Result<Duration, GatewayError> {
    let ms =
        config(gateway)?.get_json("transport/link/tx/lease").ok().and_then(|ms| ms.parse().ok());
    Ok(Duration::from_millis(ms.unwrap_or(LEASE_MS)) * 5 / 8)
}

/// Returns a warning if a Zenoh file opens this host to others by Zenoh's defaults, which under
/// `network:` would need an explicit key.
pub(super) fn caution(config: &Config, spec: &NetworkSpec) -> Option<String> {
    let path = spec.zenoh.as_ref()?;
    let open = open_to_all(config);
    let listens = (!open.is_empty()).then(|| {
        format!("listen on all addresses and request no certificate ({})", open.join(", "))
    });
    let looks = (value(config, "scouting/multicast/enabled") != Value::Bool(false))
        .then(|| "look for others by multicast".to_owned());
    let does: Vec<String> = listens.into_iter().chain(looks).collect();
    (!does.is_empty()).then(|| format!("{} has this host {}", path.display(), does.join(", and ")))
}

/// Returns the endpoints that listen on all addresses and request no certificate, which is Zenoh's
/// default.
fn open_to_all(config: &Config) -> Vec<String> {
    let mode = value(config, "mode");
    let listens = match value(config, "listen/endpoints") {
        Value::Object(mut by_mode) => {
            by_mode.remove(mode.as_str().unwrap_or("peer")).unwrap_or_default()
        }
        list => list,
    };
    let listens = listens.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mtls = value(config, "transport/link/tls/enable_mtls") == Value::Bool(true);
    listens.filter(|endpoint| is_open_to_all(endpoint, mtls)).map(str::to_owned).collect()
}

/// Returns the endpoints on which a session with this configuration listens.
pub(super) fn listens(config: &Config) -> Vec<String> {
    endpoints(config, "listen/endpoints")
}

/// Returns the endpoints to which a session with this configuration connects.
pub(super) fn connects(config: &Config) -> Vec<String> {
    endpoints(config, "connect/endpoints")
}

/// Returns true if Zenoh connects to hosts that others report, and the configuration sets no `id`.
/// The session then has the id with this gateway's start number, by which others recognise it.
pub(super) fn meets_through_others(config: &Config) -> bool {
    let is_peer = value(config, "mode").as_str().is_none_or(|mode| mode == "peer");
    is_peer
        && value(config, "scouting/gossip/enabled") != Value::Bool(false)
        && value(config, "id").is_null()
}

/// Returns the value of a key; null if it is not set.
fn value(config: &Config, key: &str) -> Value {
    config.get_json(key).ok().and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
}

/// Returns the endpoints of a key, without Zenoh's settings except the interface. The key has one
/// list, or one list for each mode.
fn endpoints(config: &Config, key: &str) -> Vec<String> {
    let lists = match value(config, key) {
        Value::Object(by_mode) => by_mode.into_iter().map(|(_, list)| list).collect(),
        list => vec![list],
    };
    let named = |v: &Value| {
        let (endpoint, settings) = v.as_str().map(|e| e.split_once('#').unwrap_or((e, "")))?;
        let interface = settings.split(';').find(|setting| setting.starts_with("iface="));
        Some(
            interface
                .map_or_else(|| endpoint.to_owned(), |interface| format!("{endpoint}#{interface}")),
        )
    };
    let mut all: Vec<String> =
        lists.iter().filter_map(Value::as_array).flatten().filter_map(named).collect();
    all.dedup();
    all
}

/// Returns the name of this host.
pub(super) fn host_name(spec: &NetworkSpec) -> String {
    spec.host.clone().unwrap_or_else(driveline_gateway::network::machine_name)
}

/// Returns the size of the kernel's receive buffer. `None`: the kernel's default.
fn receive_buffer(mbit: u32, send: u32) -> Option<u32> {
    let [_, most] = SOCKET_RECEIVES_BYTES;
    (send.saturating_mul(2) <= most)
        .then(|| bytes_of(mbit, SOCKET_RECEIVES_US, SOCKET_RECEIVES_BYTES))
}

fn json(value: impl Into<Value>) -> String {
    value.into().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(network: &str) -> Result<Config, GatewayError> {
        let network = serde_json::from_str(network).unwrap();
        config(&GatewayConfig {
            domain: "d".into(),
            domain_dir: "/nowhere".into(),
            network,
            topics: Vec::new(),
        })
    }

    #[test]
    fn zenoh_takes_every_setting() {
        for good in [
            "{}",
            r#"{"interface": "eth0"}"#,
            r#"{"interface": "eth0", "bandwidth_mbit": 400000}"#,
            r#"{"listen": ["tcp/127.0.0.1:0#iface=lo", "unixsock-stream//tmp/x", "udp/127.0.0.1:0"],
                "connect": ["tcp/10.0.0.1:7450"]}"#,
            r#"{"listen": ["tls/0.0.0.0:1"],
                "tls": {"authority": "a", "certificate": "b", "private_key": "c"}}"#,
        ] {
            of(good).unwrap();
        }
    }

    #[test]
    fn no_length_overflows() {
        let topic = r#"{"topic": "t", "send": true, "receive": false,
            "max_payload": 18446744073709551615, "pins": 1, "qos": {}}"#;
        let topics = vec![serde_json::from_str(topic).unwrap()];
        config(&GatewayConfig {
            domain: "d".into(),
            domain_dir: "/nowhere".into(),
            network: serde_json::from_str("{}").unwrap(),
            topics,
        })
        .unwrap();
    }

    #[test]
    fn the_rest_of_a_message_waits_for_room_as_long_as_the_link_needs() {
        assert_eq!(rest_within_us(0, 100), 500_000);
        assert_eq!(rest_within_us(4 << 20, 10), 500_000 + 2 * (4 << 20) * 8 / 10);
        assert_eq!(
            rest_within_us((8 << 20) + MESSAGE_HEAD_BYTES, 100),
            1_852_662,
            "as in examples/router and examples/access_control, rounded"
        );
        assert_eq!(rest_within_us(u64::MAX, 1), 60_000_000);
        let config = of("{}").unwrap();
        let of_all = config.get_json("transport/link/tx/queue/congestion_control/drop").unwrap();
        let rest = rest_within_us(MAX_LIST_LEN as u64 + MESSAGE_HEAD_BYTES, 100);
        assert_eq!(
            serde_json::from_str::<Value>(&of_all).unwrap(),
            json!({ "wait_before_drop": 1_500_000, "max_wait_before_drop_fragments": rest })
        );
    }

    /// Checks times in `docs/protocols/network-faults.md`, "A link that is back".
    #[test]
    fn a_restored_link_is_tried_soon_enough() {
        /// Time after which Linux repeats the first packet of a connection.
        const REPEATED_AFTER_MS: u64 = 1_000;
        let config = of("{}").unwrap();
        let number = |key: &str| config.get_json(key).unwrap().parse::<f64>().unwrap() as u64;
        let retry: Value =
            serde_json::from_str(&config.get_json("connect/retry").unwrap()).unwrap();
        let (first, longest) =
            (retry["period_init_ms"].as_u64().unwrap(), retry["period_max_ms"].as_u64().unwrap());
        let open_within = number("transport/unicast/open_timeout");
        // While packets are lost, the longest pause between packets that open a connection: from
        // the first packet of an attempt to its repetition, or from there to the first packet of
        // the next attempt.
        let lost = REPEATED_AFTER_MS.max(open_within - REPEATED_AFTER_MS + first.max(longest));
        // Before the lease ends, TCP repeats its data, or a new connection is made, whichever comes
        // first.
        let lease = number("transport/link/tx/lease");
        let (flush, repeated_first) = (lease / 4, 300);
        let kept = (lease + flush + longest + repeated_first) / 2;
        assert!(
            lost <= 1_200 && kept <= 1_500,
            "{lost} {kept}: nothing is left of 2 s for the rest"
        );
    }

    #[test]
    fn the_kernel_gives_up_before_the_lease_does() {
        /// Time until the kernel repeats unacknowledged data, with a round trip of 0.1 s.
        const REPEATED_AFTER_MS: u128 = 300;
        let file = tempfile::Builder::new().suffix(".json5").tempfile().unwrap();
        std::fs::write(file.path(), "{ transport: { link: { tx: { lease: 10000 } } } }").unwrap();
        let of = |network: Value| {
            let network = serde_json::from_value(network).unwrap();
            let gateway = GatewayConfig {
                domain: "d".into(),
                domain_dir: "/nowhere".into(),
                network,
                topics: Vec::new(),
            };
            let config = config(&gateway).unwrap();
            let number = |key: &str| config.get_json(key).unwrap().parse::<u128>().unwrap();
            let (lease, keep_alive) =
                (number("transport/link/tx/lease"), number("transport/link/tx/keep_alive"));
            (unanswered(&gateway).unwrap().as_millis(), lease - lease / keep_alive)
        };
        for (network, limit) in
            [(json!({}), 1_250), (json!({ "zenoh": file.path(), "insecure": true }), 6_250)]
        {
            let (unanswered, lease_is_over) = of(network);
            assert_eq!(unanswered, limit);
            assert!(unanswered + REPEATED_AFTER_MS < lease_is_over, "{unanswered} {lease_is_over}");
        }
    }

    #[test]
    fn the_kernel_s_buffer_is_bounded_on_a_slow_link() {
        for (mbit, send, receive) in [
            (1, 32_768, json!(65_536)),
            (10, 32_768, json!(125_000)),
            (100, 32_768, json!(212_992)),
            (1000, 325_000, Value::Null),
        ] {
            let config = of(&json!({ "bandwidth_mbit": mbit }).to_string()).unwrap();
            for protocol in ["transport/link/tcp", "transport/link/tls"] {
                let settings: Value =
                    serde_json::from_str(&config.get_json(protocol).unwrap()).unwrap();
                assert_eq!(
                    (&settings["so_sndbuf"], &settings["so_rcvbuf"]),
                    (&json!(send), &receive),
                    "{mbit} {protocol}"
                );
            }
        }
    }

    #[test]
    fn endpoints_are_listed_with_their_interface_and_without_other_settings() {
        let network = r#"{"interface": "eth0", "listen": ["tcp/10.0.0.1:1"],
            "connect": ["tls/[::1]:1#so_sndbuf=7;iface=eth1"]}"#;
        let config = of(network).unwrap();
        assert_eq!(listens(&config), ["tcp/0.0.0.0:7450#iface=eth0", "tcp/10.0.0.1:1"]);
        assert_eq!(connects(&config), ["tls/[::1]:1#iface=eth1"]);
    }

    #[test]
    fn an_unusable_zenoh_file_is_named() {
        let text = of(r#"{"zenoh": "/nowhere/zenoh.json5"}"#).unwrap_err().to_string();
        assert!(text.contains("/nowhere/zenoh.json5"), "{text}");
    }

    /// Result and warning of a gateway with this Zenoh file.
    fn of_file(text: &str, insecure: bool) -> Result<Option<String>, String> {
        let file = tempfile::Builder::new().suffix(".json5").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let network = json!({ "zenoh": file.path(), "insecure": insecure });
        let spec: NetworkSpec = serde_json::from_value(network.clone()).unwrap();
        let config = of(&network.to_string()).map_err(|e| e.to_string())?;
        let named = file.path().display().to_string();
        Ok(caution(&config, &spec).map(|said| {
            said.strip_prefix(&format!("{named} ")).expect("the file first").to_owned()
        }))
    }

    #[test]
    fn a_zenoh_file_open_to_all_is_refused_unless_declared_insecure() {
        for (text, at) in [
            ("{}", "tcp/[::]:0"),
            ("{ mode: 'router' }", "tcp/[::]:7447"),
            (
                "{ listen: { endpoints: ['tls/10.0.0.1:1', 'udp/0.0.0.0:7447'] } }",
                "udp/0.0.0.0:7447",
            ),
            ("{ listen: { endpoints: ['tls/[::]:1'] } }", "tls/[::]:1"),
            (
                "{ listen: { endpoints: ['tls/[::]:1#enable_mtls=false'] }, transport: { link: { \
                 tls: { enable_mtls: true } } } }",
                "tls/[::]:1#enable_mtls=false",
            ),
            ("{ listen: { endpoints: ['tcp/0.0.0.0:1#iface='] } }", "tcp/0.0.0.0:1#iface"),
            (
                "{ mode: 'router', listen: { endpoints: { router: ['tcp/*:7447'], peer: [] } } }",
                "tcp/*:7447",
            ),
        ] {
            let refused = of_file(text, false).unwrap_err();
            assert!(
                refused.starts_with("network.zenoh: ")
                    && refused.contains(at)
                    && refused.contains("`insecure: true` next to `zenoh:`"),
                "{refused}"
            );
            let caution = of_file(text, true).unwrap().unwrap();
            assert_eq!(
                caution,
                format!(
                    "has this host listen on all addresses and request no certificate ({at}), and \
                     look for others by multicast"
                )
            );
        }
        let multicast = Some("has this host look for others by multicast".to_owned());
        for (text, caution) in [
            (
                "{ listen: { endpoints: ['tcp/127.0.0.1:0', 'tcp/0.0.0.0:7447#iface=eth0'] } }",
                multicast.clone(),
            ),
            (
                "{ listen: { endpoints: { router: ['tcp/[::]:1'], peer: \
                 ['tls/[::]:1#enable_mtls=true'] } }, scouting: { multicast: { interface: 'eth0' } \
                 } }",
                multicast.clone(),
            ),
            (
                "{ listen: { endpoints: ['tls/[::]:1'] }, transport: { link: { tls: { enable_mtls: \
                 true } } } }",
                multicast.clone(),
            ),
            ("{ mode: 'client' }", multicast),
            ("{ listen: { endpoints: [] }, scouting: { multicast: { enabled: false } } }", None),
            (include_str!("../../../../examples/router/router.json5"), None),
            (include_str!("../../../../examples/access_control/roof.json5"), None),
        ] {
            for insecure in [false, true] {
                assert_eq!(of_file(text, insecure), Ok(caution.clone()), "{text}");
            }
        }
        assert_eq!(caution(&of("{}").unwrap(), &NetworkSpec::default()), None);
    }

    #[test]
    fn queues_hold_as_long_on_every_link() {
        let of =
            |mbit| (bytes_of(mbit, 1300, BATCH_BYTES), bytes_of(mbit, 2600, SEND_BUFFER_BYTES));
        assert_eq!(of(1), (16_384, 32_768));
        assert_eq!(of(100), (16_384, 32_768));
        assert_eq!(of(1000), (65_535, 325_000));
        assert_eq!(of(400_000), (65_535, 16 << 20));
    }
}
