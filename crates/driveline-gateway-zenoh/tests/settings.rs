// SPDX-License-Identifier: Apache-2.0
//! Effects of the settings of a topic and of a host between two hosts: lifespan, deadline, rate,
//! several readers, samples from other hosts, discovery, and a gateway inside another process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{MonotonicNs, Qos, Reliability, Remote, SampleHeader, Schema};
use driveline::{EndpointEvent, Publisher, Subscription};
use driveline_gateway::RouteFigures;
use driveline_gateway::network::GatewayConfig;
use driveline_gateway_zenoh::engine::{Gateway, GatewayError};
use driveline_namespaces::{Namespace, Port};
use driveline_shm::{Participant, ParticipantConfig, PublisherConfig};
use rig::net::Net;
use rig::readings::{Heard, Reading, TOPIC, between, deep, pair, say, small};
use rig::{Carried, Host, Rig, carried, eventually, publisher_options, subscription_options};
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Returns the figures of the first host's only route, once they meet a condition.
#[track_caller]
fn edge(host: &Host, what: &str, holds: impl Fn(&RouteFigures) -> bool) -> RouteFigures {
    let mut figures = None;
    eventually(what, || {
        figures = host.report().and_then(|r| Some(r.edges.first()?.figures));
        figures.as_ref().is_some_and(&holds)
    });
    figures.unwrap()
}

/// Publishes until one more sample is heard.
fn until_heard(
    number: &mut u64,
    publisher: &mut Publisher<Reading>,
    subscription: &mut Subscription<Reading>,
    heard: &mut Heard,
) {
    let before = heard.numbers.len();
    eventually("heard", || {
        *number += 1;
        say(publisher, *number);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        heard.read(subscription);
        heard.numbers.len() > before
    });
}

#[test]
fn a_sample_whose_lifespan_is_over_on_arrival_is_dropped_there_and_counted() {
    const LIFESPAN: Duration = Duration::from_millis(500);
    let qos = Qos { lifespan_ms: Some(LIFESPAN.as_millis() as u32), ..deep() };
    let rig = Rig::new(&small(), &qos);
    let (mut publisher, mut subscription) = pair(&rig, &qos);
    let (mut heard, mut number, mut stale, mut there) = (Heard::default(), 0, Vec::new(), None);
    // If the sending gateway is delayed for as long, it drops the sample itself.
    eventually("one that is too old when it arrives", || {
        until_heard(&mut number, &mut publisher, &mut subscription, &mut heard);
        rig.b.stand_still(true);
        number += 1;
        stale.push(number);
        say(&mut publisher, number);
        // time: a lifespan passes on the real clocks of two processes; a longer pause does no harm
        std::thread::sleep(LIFESPAN + Duration::from_millis(200));
        rig.b.stand_still(false);
        until_heard(&mut number, &mut publisher, &mut subscription, &mut heard);
        there = rig.b.report().and_then(|r| Some(r.inlets.first()?.figures));
        // If this took longer than the time-out of an acknowledgement, the sender has given the
        // sample up, and received no notice.
        let text = rig.a.report().and_then(|r| Some(r.edges.first()?.figures.refused));
        there.is_some_and(|f| f.expired > 0 && text >= Some(f.expired))
    });
    // The last sample may have been too old as well.
    while heard.numbers.last() != Some(&number) {
        until_heard(&mut number, &mut publisher, &mut subscription, &mut heard);
    }
    assert!(
        stale.iter().all(|n| !heard.numbers.contains(n)),
        "{stale:?} were published after their lifespan: {:?}",
        heard.numbers
    );
    assert_eq!(heard.accounted(), number, "each was received or counted");
    let there = there.unwrap();
    assert!(there.lost >= there.expired, "{there:?}");
}

#[test]
fn a_link_that_falls_silent_is_a_missed_deadline_there() {
    let qos = Qos { deadline_ms: Some(500), ..deep() };
    let rig = Rig::new(&small(), &qos);
    let (mut publisher, mut subscription) = pair(&rig, &qos);
    let (mut heard, mut number) = (Heard::default(), 0);
    until_heard(&mut number, &mut publisher, &mut subscription, &mut heard);
    if !rig.cable.drop_silently(true) {
        rig::skipped("a link that is cut", "the loopback device cannot be", rig::AS_ROOT);
        return;
    }
    heard.read(&mut subscription);
    while subscription.raw().poll_event().is_some() {}
    let mut missed = false;
    eventually("text", || {
        // The publisher continues, and the other host receives nothing.
        number += 1;
        say(&mut publisher, number);
        while let Some(event) = subscription.raw().poll_event() {
            missed |= matches!(event, EndpointEvent::DeadlineMissed { .. });
        }
        missed
    });
    assert_eq!(subscription.raw().matched(), 1, "its publisher is late, and not gone");
    rig.cable.drop_silently(false);
    until_heard(&mut number, &mut publisher, &mut subscription, &mut heard);
}

#[test]
fn no_more_samples_go_than_the_rate_permits_and_they_are_the_newest() {
    const HZ: f64 = 4.0;
    // The depth does not matter: a rate limit is for few and fresh samples.
    let topic = Carried { max_rate_hz: Some(HZ), ..Carried::from_a(TOPIC, 64) };
    let rig = Rig::new(&[topic], &deep());
    let (mut publisher, mut subscription) = pair(&rig, &deep());
    let mut heard = Heard::default();
    let began = Instant::now();
    (1..=60).for_each(|number| say(&mut publisher, number));
    let published = began.elapsed();
    heard.until(&mut subscription, 60);
    // Permitted samples: those of the rate during the burst, and the first and the last sample of
    // the burst. Without the limit there would be sixty samples.
    let permitted = published.as_secs_f64() * HZ + 3.0;
    assert!(
        (heard.numbers.len() as f64) < permitted,
        "{:?} of a burst of {published:?}",
        heard.numbers
    );
    let mut number = 60;
    while heard.numbers.len() < 12 {
        number += 1;
        say(&mut publisher, number);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(5));
        heard.read(&mut subscription);
    }
    heard.until(&mut subscription, number);
    let (elapsed, count) = (began.elapsed(), heard.numbers.len() as f64);
    assert!(
        count <= elapsed.as_secs_f64() * HZ + 2.0,
        "{count} in {elapsed:?}: {:?}",
        heard.numbers
    );
    assert_eq!(heard.accounted(), number, "each was received or counted");
    let figures = edge(&rig.a, "counted", |f| f.delivered + f.superseded == number);
    assert_eq!(figures.delivered, heard.numbers.len() as u64, "{figures:?}");
}

#[test]
fn a_sample_goes_over_the_network_once_however_many_read_it_there() {
    const SAMPLES: u64 = 50;
    let qos = Qos { reliability: Reliability::Reliable, max_blocking_ms: 60_000, ..deep() };
    let rig = Rig::new(&small(), &qos);
    let mut publisher =
        rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&qos, 64)).unwrap();
    let subscribe =
        || rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&qos)).unwrap();
    let mut subscriptions = [subscribe(), subscribe(), subscribe()];
    eventually("matched over the network", || {
        publisher.raw().matched() == 2 && subscriptions.iter_mut().all(|s| s.raw().matched() == 1)
    });
    (1..=SAMPLES).for_each(|number| say(&mut publisher, number));
    for subscription in &mut subscriptions {
        let mut heard = Heard::default();
        heard.until(subscription, SAMPLES);
        assert_eq!((heard.numbers.len() as u64, heard.missed), (SAMPLES, 0));
    }
    let figures = edge(&rig.a, "all acknowledged", |f| f.delivered == SAMPLES);
    assert_eq!(rig.a.report().unwrap().edges.len(), 1, "one route, to the other host");
    let bytes = SAMPLES * size_of::<Reading>() as u64;
    assert_eq!(
        (figures.sent, figures.sent_again, figures.sent_bytes),
        (SAMPLES, 0, bytes),
        "{figures:?}"
    );
}

#[test]
fn samples_from_the_network_are_not_sent_on() {
    let rig = Rig::new(&small(), &deep());
    let (_publisher, mut subscription) = pair(&rig, &deep());
    // The sample is published as a gateway to another network would publish it here.
    let config =
        ParticipantConfig { domain_dir: Some(rig.a.domain_dir().to_owned()), name: "other".into() };
    let participant = Participant::open(config).unwrap();
    let schema = Schema::clone(subscription.raw().schema());
    let mut config = PublisherConfig::new(
        TOPIC.parse().unwrap(),
        "other".parse().unwrap(),
        schema,
        size_of::<Reading>(),
    );
    config.qos = deep();
    let mut other = participant.create_publisher(config).unwrap();
    // The route exists already. The other gateway drops samples of a publisher that its report does
    // not list yet. It lists the publisher a moment after the subscription there is matched.
    eventually("matched, and listed there", || {
        other.matched() == 2
            && subscription.raw().matched() == 2
            && rig.b.report().is_some_and(|r| r.inlets.len() == 2)
    });
    let mut publish = |remote: Option<Remote>| {
        let loan = other.loan(size_of::<Reading>()).unwrap();
        let mut header =
            SampleHeader { publish_time: MonotonicNs::now(), remote, ..SampleHeader::default() };
        other.publish(loan, &mut header).unwrap()
    };
    let own = publish(None);
    let foreign = publish(Some(Remote { host: 7, ..Remote::default() }));
    let last = publish(None);
    let mut heard = Vec::new();
    eventually("the last one heard", || {
        heard.extend(
            std::iter::from_fn(|| subscription.take().unwrap()).map(|s| s.header().sequence),
        );
        heard.last() == Some(&last)
    });
    assert_eq!(heard, [own, last], "{foreign} was sent on");
    let figures = edge(&rig.a, "counted", |f| f.delivered == 2);
    assert_eq!((figures.remote, figures.sent), (1, 2), "{figures:?}");
}

#[test]
fn a_gateway_inside_another_process_carries_what_that_process_publishes() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unixsock-stream/{}", dir.path().join("gateway").display());
    let qos = Qos {
        depth: 128,
        reliability: Reliability::Reliable,
        max_blocking_ms: 60_000,
        ..Qos::default()
    };
    let host = |name: &str, key: &str, sends: bool| {
        let network = json!({ "host": name, key: [socket] });
        Host::new(
            dir.path(),
            name,
            Vec::new(),
            &network,
            &[carried(TOPIC, sends, !sends, 64, &qos)],
        )
    };
    let (inside, mut outside) = (host("inside", "listen", true), host("outside", "connect", false));
    let config: GatewayConfig =
        serde_json::from_slice(&std::fs::read(inside.config()).unwrap()).unwrap();
    let gateway = Gateway::start(config).unwrap();
    outside.start();
    let (mut publisher, mut subscription) = between(&inside, &outside, &qos);
    (1..=100).for_each(|number| say(&mut publisher, number));
    let mut heard = Heard::default();
    heard.until(&mut subscription, 100);
    assert_eq!((heard.numbers.len(), heard.missed), (100, 0));
    assert!(gateway.host().starts_with("inside."), "{}", gateway.host());
    eventually("counted", || {
        gateway.report().edges.first().is_some_and(|e| e.figures.delivered == 100)
    });
    assert_eq!(gateway.report().pid, std::process::id());
    // The end of the gateway is announced, as when a gateway's process ends.
    drop(gateway);
    eventually("gone", || outside.report().is_some_and(|r| r.hosts.iter().all(|h| !h.alive)));
}

/// Port of the multicast by which peers of a Zenoh network find each other.
const MULTICAST_PORT: u16 = 7446;

/// Returns whether a process in this network namespace listens there.
fn listens_for_others(host: &Host) -> bool {
    let sockets = std::fs::read_to_string(format!("/proc/{}/net/udp", host.pid())).unwrap();
    sockets.contains(&format!(":{MULTICAST_PORT:04X} "))
}

#[test]
fn hosts_discover_each_other_only_on_a_named_interface() {
    let interface = |name: &str| json!({ "host": name, "interface": "dl0" });
    let rig = Rig::with(&small(), &deep(), 0, &|_, _| [interface("a"), interface("b")]);
    if rig.cable.hosts().is_none() {
        rig::skipped(
            "hosts that find each other",
            "the loopback device has no multicast",
            rig::AS_ROOT,
        );
        return;
    }
    let (mut publisher, mut subscription) = pair(&rig, &deep());
    let (mut heard, mut number) = (Heard::default(), 0);
    until_heard(&mut number, &mut publisher, &mut subscription, &mut heard);
    assert!(listens_for_others(&rig.a) && listens_for_others(&rig.b));
    drop((publisher, subscription, rig));

    // The same two hosts, each with an address, but without discovery and without `connect`.
    let silent = Rig::with(&small(), &deep(), 0, &|_, endpoint| {
        [
            json!({ "host": "a", "listen": [endpoint] }),
            json!({ "host": "b", "listen": [endpoint.replace("99.0.1", "99.0.2")] }),
        ]
    });
    for host in [&silent.a, &silent.b] {
        eventually("it runs", || host.report().is_some_and(|r| !r.network.listens.is_empty()));
        assert!(!listens_for_others(host), "it takes part in multicast");
        assert_eq!(host.report().unwrap().network.peers, 0);
    }
}

#[test]
fn a_zenoh_file_without_listen_is_refused_unless_it_is_declared_insecure() {
    let Some(net) = Net::new(1) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("zenoh.json5");
    std::fs::write(&file, "{}").unwrap();
    let host = |network: serde_json::Value| {
        Host::new(
            dir.path(),
            "car",
            net.on(0),
            &network,
            &[carried("map", true, true, 64, &Qos::default())],
        )
    };
    let refused = host(json!({ "zenoh": file }));
    let config: GatewayConfig =
        serde_json::from_slice(&std::fs::read(refused.config()).unwrap()).unwrap();
    let text = Gateway::start(config).map(|_| ()).unwrap_err().to_string();
    assert!(
        text.contains("zenoh.json5")
            && text.contains("listen at `tcp/[::]:0`")
            && text.contains("`insecure: true` next to `zenoh:`"),
        "{text}"
    );
    drop(refused);
    let mut meant = host(json!({ "zenoh": file, "insecure": true }));
    meant.start();
    let mut caution = None;
    eventually("it runs", || {
        caution = meant.report().and_then(|r| r.network.caution);
        caution.is_some()
    });
    let said = format!(
        "{} has this host listen on all addresses and request no certificate (tcp/[::]:0), and \
         look for others by multicast",
        file.display()
    );
    assert_eq!(caution, Some(said));
    assert!(listens_for_others(&meant));
}

#[test]
fn all_configuration_errors_are_reported_before_anything_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let topic = |pins: u32| {
        json!({
            "topic": "a", "send": true, "receive": false, "max_payload": 8, "pins": pins,
        })
    };
    let tls = json!({
        "authority": "/nowhere/ca.pem", "certificate": "/nowhere/a.pem",
        "private_key": "/nowhere/a.key",
    });
    let config = json!({
        "domain": "\u{1b}[31mcar",
        "domain_dir": dir.path().join("domain"),
        "network": { "listen": ["nonsense"], "connect": ["tls/127.0.0.1:7450"], "tls": tls },
        "topics": [topic(8), topic(0)],
    });
    let file = dir.path().join("config.json");
    std::fs::write(&file, config.to_string()).unwrap();
    // The gateway must end by itself: `output` waits for its end.
    let ended = std::process::Command::new(rig::GATEWAY).arg(&file).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    for says in [
        "has 7 mistakes",
        "domain: ` [31mcar` cannot be",
        "network.listen[0]: `nonsense` is not an endpoint",
        "network.tls.private_key: cannot read /nowhere/a.key: No such file",
        "topics[1].pins: 0",
    ] {
        assert!(said.contains(says), "{says:?} is not in\n{said}");
    }
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
    assert!(!dir.path().join("domain").exists());
    assert!(
        matches!(
            Gateway::start(serde_json::from_value(config).unwrap()),
            Err(GatewayError::Mistakes(_))
        ),
        "an embedded gateway reports them, too"
    );
    // An error about an unknown key repeats the key, which another program may have written.
    std::fs::write(&file, json!({ "\u{1b}[31m": 1 }).to_string()).unwrap();
    let said = std::process::Command::new(rig::GATEWAY).arg(&file).output().unwrap().stderr;
    assert!(!said.contains(&0x1b), "{}", String::from_utf8_lossy(&said));
    assert_eq!(
        std::process::Command::new(rig::GATEWAY).output().unwrap().status.code(),
        Some(2),
        "as of `driveline` for invalid arguments"
    );
}

#[test]
fn lines_reported_to_a_run_are_not_logged_twice() {
    for config in ["[]", r#"{"domain": "a/b", "domain_dir": "/nowhere", "topics": []}"#] {
        let (mut run, gateway) = std::os::unix::net::UnixStream::pair().unwrap();
        writeln!(run, "{config}").unwrap();
        let started = std::process::Command::new(rig::GATEWAY)
            .arg("--account-stdin")
            .stdin(std::os::fd::OwnedFd::from(gateway))
            .output()
            .unwrap();
        let mut text = String::new();
        run.read_to_string(&mut text).unwrap();
        assert_eq!(started.status.code(), Some(1));
        assert!(text.contains("failed"), "{text}");
        assert_eq!(String::from_utf8_lossy(&started.stderr), "", "{text}");
    }
}

#[test]
fn errors_name_broken_certificates_and_addresses_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.pem");
    std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n").unwrap();
    let start = |network: &serde_json::Value| {
        let config = json!({
            "domain": "car", "domain_dir": dir.path().join("domain"), "network": network,
            "topics": [],
        });
        Gateway::start(serde_json::from_value(config).unwrap()).map(|_| ()).unwrap_err().to_string()
    };
    let text = start(&json!({
        "listen": ["tls/127.0.0.1:0"],
        "tls": { "authority": file, "certificate": file, "private_key": file },
    }));
    assert!(
        text.contains("network.tls.certificate: ")
            && text.contains("a.pem has no certificate that can be read"),
        "{text}"
    );
    assert!(text.contains("openssl x509") && !text.contains("ss -ltnp"), "{text}");
    // Zenoh itself reads the files that a Zenoh file names.
    let of_zenoh = dir.path().join("zenoh.json5");
    let of_tls = json!({
        "root_ca_certificate": file, "listen_certificate": file, "listen_private_key": file,
        "enable_mtls": true,
    });
    let zenoh = json!({
        "mode": "peer", "listen": { "endpoints": ["tls/127.0.0.1:0"] },
        "scouting": { "multicast": { "enabled": false } },
        "transport": { "link": { "tls": of_tls } },
    });
    std::fs::write(&of_zenoh, zenoh.to_string()).unwrap();
    let text = start(&json!({ "zenoh": of_zenoh }));
    assert!(text.contains("certificates in PEM") && !text.contains("ss -ltnp"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = start(&json!({ "listen": [format!("tcp/{}", taken.local_addr().unwrap())] }));
    assert!(text.contains("ss -ltnp") && !text.contains("PEM"), "{text}");
    // Zenoh's text does not name the endpoint here.
    let text = start(&json!({ "listen": ["tcp/nosuch.invalid:7450"] }));
    assert!(text.contains("tcp/nosuch.invalid:7450") && !text.contains(".rs"), "{text}");
}

#[test]
fn an_address_and_an_interface_that_this_host_does_not_have_yet_are_no_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    for (network, says) in [
        (
            json!({ "listen": ["tcp/127.0.0.1:0#iface=nosuch"] }),
            ["interface nosuch is not there", "`ip address` lists"],
        ),
        // An address reserved for documentation belongs to no host.
        (
            json!({ "listen": ["tcp/192.0.2.1:7450"] }),
            ["this host has no address 192.0.2.1", "`ip address` lists"],
        ),
        (json!({ "interface": "nosuch" }), ["interface nosuch is not there", "`ip address` lists"]),
    ] {
        let config = json!({
            "domain": "car", "domain_dir": dir.path().join("domain"), "network": network,
            "topics": [],
        });
        let gateway = Gateway::start(serde_json::from_value(config).unwrap()).unwrap();
        let text = gateway.take_notices();
        let [line] = text.as_slice() else { panic!("{text:?}") };
        assert!(
            line.starts_with("not in the network; trying again each second: ")
                && !line.contains(".rs"),
            "{line}"
        );
        assert!(says.iter().all(|s| line.contains(s)), "{says:?} are not in {line}");
        let report = gateway.report();
        assert!(report.network.kept_out.is_some_and(|why| line.ends_with(&why)), "{line}");
        assert_eq!(
            (report.domain.as_str(), report.stale, gateway.host()),
            ("car", false, String::new())
        );
    }
}

#[test]
fn an_address_and_an_interface_that_come_later_are_used_then() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(why) => {
            return rig::skipped(
                "a host that gets its address late",
                &format!("no network namespaces here ({why:#})"),
                rig::AS_ROOT,
            );
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let topics = [carried("map", true, true, 64, &Qos::default())];
    let host = |name: &str, network: serde_json::Value| {
        Host::new(dir.path(), name, namespace.command_prefix().into(), &network, &topics)
    };
    let mut by_address =
        host("address", json!({ "host": "address", "listen": ["tcp/10.98.0.1:7451"] }));
    let mut by_interface = host(
        "interface",
        json!({ "host": "interface", "interface": "dl9", "connect": ["tcp/10.98.0.1:7451"] }),
    );
    by_address.start();
    by_interface.start();
    let out = |host: &Host| host.report().and_then(|r| r.network.kept_out);
    eventually("text", || [&by_address, &by_interface].iter().all(|host| out(host).is_some()));
    namespace.run("ip link add dl9 type veth peer name dl8").unwrap();
    // time: longer than between two attempts; a slow machine makes fewer
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(out(&by_interface).is_some(), "an interface without an address is of no use yet");
    namespace.add_address("dl9", std::net::Ipv4Addr::new(10, 98, 0, 1)).unwrap();
    // time: longer than between two attempts; a slow machine makes fewer
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(out(&by_interface).is_some(), "nor is an interface without a carrier");
    namespace.run("ip link set dl8 up").unwrap();
    let met = |host: &Host, other: &str| {
        host.report().is_some_and(|r| {
            r.network.kept_out.is_none()
                && r.hosts.iter().any(|h| h.alive && h.host.starts_with(other))
        })
    };
    eventually("in the network", || {
        met(&by_address, "interface.") && met(&by_interface, "address.")
    });
    // The interface is deleted, and another one with the same name is created.
    namespace.run("ip link delete dl9").unwrap();
    eventually("text", || out(&by_interface).is_some());
    namespace.run("ip link add dl9 type veth peer name dl8").unwrap();
    namespace.add_address("dl9", std::net::Ipv4Addr::new(10, 98, 0, 1)).unwrap();
    namespace.run("ip link set dl8 up").unwrap();
    eventually("in the network again", || {
        met(&by_address, "interface.") && met(&by_interface, "address.")
    });
}

#[test]
fn a_gateway_whose_interface_has_another_address_ends_and_the_next_one_uses_it() {
    let Some(mut net) = Net::new(2) else { return };
    let wire = net.wire(0, 1);
    let dir = tempfile::tempdir().unwrap();
    let topics = [carried("map", true, true, 64, &Qos::default())];
    let mut hosts = ["a", "b"].map(|name| {
        let network = json!({ "host": name, "interface": wire.card() });
        Host::new(dir.path(), name, net.on(usize::from(name == "b")), &network, &topics)
    });
    hosts.iter_mut().for_each(Host::start);
    let met = |host: &Host, other: &str| {
        host.report().is_some_and(|r| r.hosts.iter().any(|h| h.alive && h.host.starts_with(other)))
    };
    eventually("met", || met(&hosts[0], "b.") && met(&hosts[1], "a."));
    // An additional address is no reason to end, and neither is a time without any.
    net.run(0, &format!("ip address add 10.98.77.1/24 dev {}", wire.card()));
    // time: longer than between two looks at the addresses; a slow machine takes fewer
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(!hosts[0].has_ended());
    net.run(0, &format!("ip address flush dev {} scope global", wire.card()));
    // time: longer than between two looks at the addresses; a slow machine takes fewer
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(!hosts[0].has_ended());
    net.run(0, &format!("ip address add 10.98.1.7/24 dev {}", wire.card()));
    eventually("ended", || hosts[0].has_ended());
    // Restarts it, as `driveline run` does.
    hosts[0].start();
    eventually("met again", || met(&hosts[0], "b.") && met(&hosts[1], "a."));
}

#[test]
fn a_possibly_misspelt_topic_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unixsock-stream/{}/socket", dir.path().display());
    let start = |name: &str, topic: &str, network: serde_json::Value| {
        let topics = [carried(topic, true, true, 64, &Qos::default())];
        let config = json!({
            "domain": "car", "domain_dir": dir.path().join(name), "network": network,
            "topics": topics,
        });
        Gateway::start(serde_json::from_value(config).unwrap()).unwrap()
    };
    let _roof = start("roof", "camera/image", json!({ "host": "roof", "listen": [socket] }));
    let trunk = start("trunk", "camera/imag", json!({ "host": "trunk", "connect": [socket] }));
    let mut text = Vec::new();
    let hint = "no other host sends topic 'camera/imag' yet; 'camera/image' is sent, and is not \
         received here: is one of the two misspelt?";
    eventually("text", || {
        text.extend(trunk.take_notices());
        text.iter().any(|line| line == hint)
    });
    assert_eq!(trunk.report().topics[0].similar.as_deref(), Some("camera/image"));
}

#[test]
fn a_host_that_finds_no_other_logs_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("unixsock-stream/{}/nobody", dir.path().display());
    let start = |network: &str, says: &str| {
        let network = network.replace("ENDPOINT", &endpoint);
        let network: serde_json::Value = serde_json::from_str(&network).unwrap();
        let config = json!({
            "domain": "car", "domain_dir": dir.path().join(says), "network": network, "topics": [],
        });
        Gateway::start(serde_json::from_value(config).unwrap()).unwrap()
    };
    // Started first, so that this gateway has had at least as much time as the others.
    let silent = start("{}", "silent");
    let (waits, calls) = (
        start(r#"{ "listen": ["tcp/127.0.0.1:0"] }"#, "waits"),
        start(r#"{ "listen": ["tcp/127.0.0.1:0"], "connect": ["ENDPOINT"] }"#, "calls"),
    );
    for (gateway, says) in [
        (waits, "no host has connected yet".to_owned()),
        (
            calls,
            format!(
                "no gateway answers at {endpoint}, or it refuses this host; does a gateway run \
                 there, and does a firewall let it through?"
            ),
        ),
    ] {
        let mut text = Vec::new();
        eventually("text", || {
            text.extend(gateway.take_notices());
            !text.is_empty()
        });
        // The gateway checks again before it answers.
        assert!(!gateway.report().stale);
        text.extend(gateway.take_notices());
        assert_eq!(
            text,
            [format!("no other host was reached yet, and the gateway goes on trying: {says}")]
        );
    }
    assert!(!silent.report().stale);
    assert_eq!(
        silent.take_notices(),
        Vec::<String>::new(),
        "no other host can come to know of this one"
    );
}

#[test]
fn a_failed_start_leaves_no_gateway_in_the_network() {
    let dir = tempfile::tempdir().unwrap();
    let port = Port::new().unwrap();
    let network = json!({ "host": "car", "listen": [port.endpoint()] });
    let host = Host::new(
        dir.path(),
        "car",
        Vec::new(),
        &network,
        &[carried("map", true, true, 64, &Qos::default())],
    );
    let in_the_way = host.domain_dir().join("gateway-zenoh.status");
    std::fs::create_dir(&in_the_way).unwrap();
    let config: GatewayConfig =
        serde_json::from_slice(&std::fs::read(host.config()).unwrap()).unwrap();
    let why = Gateway::start(config.clone()).map(drop).unwrap_err().to_string();
    assert!(why.contains("gateway-zenoh.status"), "{why}");
    std::fs::remove_dir(&in_the_way).unwrap();
    // The session of the failed start listened on the port. A process that another test starts at
    // this moment has a copy of the socket until it executes its program.
    eventually("the port is free", || match Gateway::start(config.clone()) {
        Err(GatewayError::Open { reason, .. }) if reason.contains("(os error 98)") => false,
        started => {
            drop(started.unwrap());
            true
        }
    });
}
