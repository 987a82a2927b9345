// SPDX-License-Identifier: Apache-2.0
use super::*;
use driveline_types::limits::MAX_PINS;

fn mistakes(json: &str) -> Vec<(&'static str, String)> {
    let spec: NetworkSpec = serde_json::from_str(json).unwrap();
    spec.mistakes().into_iter().map(|m| (m.key, format!("{} ({})", m.message, m.help))).collect()
}

#[test]
fn valid_values_are_accepted() {
    for good in [
        "{}",
        r#"{"host": "car-1", "interface": "eth0"}"#,
        r#"{"listen": ["tcp/192.168.1.10:7450", "unixsock-stream//run/my car/gw"],
            "connect": ["udp/car2.local:7450", "tcp/a:1#so_sndbuf=65536;so_rcvbuf=0;", "tcp/a:2#",
                        "tcp/[fe80::1]:7450#iface=eth0;dscp=0x10|4",
                        "tcp/10.0.0.1:7450#bind=10.0.0.2:0", "udp/[::1]:7450#bind=[::1]:0",
                        "tcp/0a:1", "tcp/10.0:1"]}"#,
        r#"{"listen": ["tcp/0.0.0.0:7450"], "insecure": true}"#,
        r#"{"listen": ["tls/[::]:7450"],
            "tls": {"authority": "ca.pem", "certificate": "a.pem", "private_key": "a.key"}}"#,
        r#"{"host": "a", "zenoh": "zenoh.json5"}"#,
        r#"{"zenoh": "zenoh.json5", "insecure": true}"#,
    ] {
        assert_eq!(mistakes(good), [], "{good}");
    }
}

#[test]
fn all_addresses_are_all_addresses_however_they_are_written() {
    for host in [
        "0.0.0.0",
        "[::]",
        "*",
        "",
        "[::0]",
        "[0:0:0:0:0:0:0:0]",
        "[::ffff:0.0.0.0]",
        "[::%eth0]",
        "0",
        "00",
        "0.0",
        "00.0.0.0",
        "0x0",
        "0X0.00",
    ] {
        let found =
            mistakes(&serde_json::json!({ "listen": [format!("tcp/{host}:7450")] }).to_string());
        assert!(
            matches!(found.as_slice(), [("listen", text)] if text.contains("insecure: true")),
            "{host}: {found:?}"
        );
    }
}

#[test]
fn zenoh_endpoints_on_all_addresses_without_client_certificates_are_open() {
    for open in [
        "tcp/[::]:0",
        "tcp/0.0.0.0:7447",
        "udp/*:7447",
        "ws/[::]:1?prio=1",
        "tcp/[::]:7447#so_sndbuf=1",
        "tcp/0.0.0.0:7447#iface=",
        "tcp/0.0.0.0:7447#iface",
        "tcp/0.0.0.0:7447#iface=;so_sndbuf=1",
        "tcp/0.0.0.0:7447#enable_mtls=true",
        "tls/[::]:7447#enable_mtls=false",
        "tls/[::]:7447#enable_mtls=true;enable_mtls=false",
        "tls/[::]:7447#enable_mtls",
    ] {
        assert!([true, false].map(|mtls| is_open_to_all(open, mtls)) == [true; 2], "{open}");
    }
    for unless_asked in ["tls/[::]:7447", "quic/0.0.0.0:7447"] {
        assert_eq!(
            [true, false].map(|mtls| is_open_to_all(unless_asked, mtls)),
            [false, true],
            "{unless_asked}"
        );
    }
    for not in [
        "tls/[::]:7447#enable_mtls=true",
        "quic/[::]:7447#so_sndbuf=1;enable_mtls=true",
        "tls/10.0.0.1:7447",
        "tls/0.0.0.0:7447#iface=eth0",
        "tcp/10.0.0.1:7447",
        "tcp/localhost:7447",
        "tcp/0.0.0.0:7447#iface=eth0",
        "unixsock-stream//run/x",
        "unixpipe//run/x",
        "nonsense",
        "",
    ] {
        assert!([true, false].map(|mtls| is_open_to_all(not, mtls)) == [false; 2], "{not}");
    }
}

#[test]
fn each_mistake_is_reported_with_its_key_and_a_remedy() {
    for (bad, key, says) in [
        (r#"{"host": "car.local"}"#, "host", "letters, digits"),
        (r#"{"host": ""}"#, "host", "1 to 63"),
        (r#"{"interface": "eth0/1"}"#, "interface", "ip link"),
        (r#"{"listen": ["192.168.1.10:7450"]}"#, "listen", "write protocol and address"),
        (r#"{"listen": ["quic/192.168.1.10:7450"]}"#, "listen", "tcp, tls, udp"),
        (r#"{"connect": ["tcp/192.168.1.10"]}"#, "connect", "has no port"),
        (r#"{"connect": ["tcp/192.168.1.10:"]}"#, "connect", "has no port"),
        (
            r#"{"connect": ["tcp/1.2.3.4:99999"]}"#,
            "connect",
            "`99999` is no port (a port is a number from 1 to 65535",
        ),
        (r#"{"connect": ["tcp/1.2.3.4:+7450"]}"#, "connect", "`+7450` is no port"),
        (r#"{"listen": ["tcp/[::1]:70000#iface=eth0"]}"#, "listen", "`70000` is no port"),
        (r#"{"connect": ["tcp/10.0.0.1:7450 "]}"#, "connect", "has a blank (remove it"),
        (r#"{"connect": [" tcp/10.0.0.1:7450"]}"#, "connect", "has a blank (remove it"),
        (r#"{"connect": ["tcp/10.0.0.1 :7450#iface=eth0"]}"#, "connect", "has a blank (remove it"),
        (
            r#"{"connect": ["tcp/[::1:7450"]}"#,
            "connect",
            "has brackets that are not around an address of IPv6 (write an IPv6 address as in \
             `tcp/[::1]:7450`",
        ),
        (r#"{"connect": ["tcp/::1]:7450"]}"#, "connect", "brackets"),
        (r#"{"connect": ["tcp/[::1]x:7450"]}"#, "connect", "brackets"),
        (r#"{"connect": ["tcp/[roof]:7450"]}"#, "connect", "brackets"),
        (r#"{"connect": ["tcp/192.168.1.10:0"]}"#, "connect", "7450"),
        (r#"{"interface": "eth0:1"}"#, "interface", "ip link"),
        (
            r#"{"listen": ["tcp/[fe80::1%eth0]:7450"]}"#,
            "listen",
            "names its interface where Zenoh does not read it (write \
             `tcp/[fe80::1]:7450#iface=eth0`)",
        ),
        (
            r#"{"connect": ["tcp/[fe80::1]:7450"]}"#,
            "connect",
            "is a link-local address (name the interface: `tcp/[fe80::1]:7450#iface=eth0`)",
        ),
        (
            r#"{"connect": ["tcp/10.77.0.300:7450"]}"#,
            "connect",
            "`10.77.0.300` is no address (an address has four numbers",
        ),
        (r#"{"connect": ["tcp/0.0.0.0:7450"]}"#, "connect", "names no host"),
        (r#"{"connect": ["unixsock-stream/here"]}"#, "connect", "absolute path"),
        (r#"{"connect": ["tls/10.0.0.1:7450"]}"#, "connect", "certificates"),
        (r#"{"listen": ["tcp/0.0.0.0:7450"]}"#, "listen", "insecure: true"),
        (r#"{"listen": ["udp/[::]:7450#iface=eth0"]}"#, "listen", "insecure: true"),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450?rel=nonsense"]}"#,
            "connect",
            "has metadata (`?…`), which a gateway has no use for (remove it",
        ),
        (r#"{"listen": ["tcp/10.0.0.1:7450?prio=1-3#iface=eth0"]}"#, "listen", "has metadata"),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450#dscp=nonsense"]}"#,
            "connect",
            "`nonsense` is no value of `dscp` (write numbers as in `dscp=0x10`)",
        ),
        (r#"{"connect": ["tcp/10.0.0.1:7450#dscp="]}"#, "connect", "`` is no value of `dscp`"),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450#iface=eth0,eth1"]}"#,
            "connect",
            "`eth0,eth1` is no value of `iface` (one interface; `ip link` lists them)",
        ),
        (r#"{"listen": ["tcp/10.0.0.1:7450#iface"]}"#, "listen", "`` is no value of `iface`"),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450#bind=10.0.0.2"]}"#,
            "connect",
            "`10.0.0.2` is no value of `bind` (write an address of this host and a port",
        ),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450#iface=eth0;bind=10.0.0.2:0"]}"#,
            "connect",
            "`iface` and `bind` (keep one of the two)",
        ),
        (
            r#"{"listen": ["tcp/10.0.0.1:7450#iface=eth0;so_sndbuf=64 KiB"]}"#,
            "listen",
            "`so_sndbuf=65536`",
        ),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450#iface=eth0;exit_on_failure=true"]}"#,
            "connect",
            "leave it out",
        ),
        (
            r#"{"connect": ["unixsock-stream//run/gw#retry_period_init_ms=0"]}"#,
            "connect",
            "leave it out",
        ),
        (r#"{"connect": ["tcp/10.0.0.1:7450#so_rcvbuf"]}"#, "connect", "`so_rcvbuf=65536`"),
        (
            r#"{"connect": ["tcp/10.0.0.1:7450#iface=eth0;so_sendbuf=65536"]}"#,
            "connect",
            "no setting `so_sendbuf` (did you mean `so_sndbuf`?)",
        ),
        (
            r#"{"listen": ["unixsock-stream//run/gw#nonsense=5"]}"#,
            "listen",
            "no setting `nonsense` (settings: `iface`, `bind`, `so_sndbuf`, `so_rcvbuf`, `dscp`)",
        ),
        (
            r#"{"connect": ["tls/a:1#verify_name_on_connect=false"]}"#,
            "connect",
            "stand under `tls:`, and both ends always show theirs",
        ),
        (
            r#"{"listen": ["tls/10.0.0.1:1#iface=eth0;enable_mtls=false"]}"#,
            "listen",
            "stand under `tls:`, and both ends always show theirs",
        ),
        (
            r#"{"listen": ["tls/10.0.0.1:1#root_ca_certificate_file=b.pem"]}"#,
            "listen",
            "stand under `tls:`",
        ),
        (r#"{"zenoh": "z.json5", "listen": ["tcp/10.0.0.1:1"]}"#, "zenoh", "keep one of the two"),
    ] {
        let found = mistakes(bad);
        assert!(
            matches!(found.as_slice(), [(k, text)] if *k == key && text.contains(says)),
            "{bad}: {found:?}"
        );
    }
    let many = serde_json::json!({ "connect": vec!["tcp/10.0.0.1:1"; 65] }).to_string();
    assert_eq!(mistakes(&many).len(), 1);
}

fn gateway(network: &str, topics: &[&str]) -> GatewayConfig {
    let json = format!(
        r#"{{"domain": "car", "domain_dir": "/d", "network": {network}, "topics": [{}]}}"#,
        topics.join(", ")
    );
    serde_json::from_str(&json).unwrap()
}

fn topic(name: &str, more: &str) -> String {
    format!(
        r#"{{"topic": "{name}", "send": true, "receive": false, "max_payload": 8,
            "pins": 8{more}}}"#
    )
}

#[test]
fn every_impossible_value_of_a_configuration_is_reported_with_its_place() {
    let sound = [
        topic("a", ""),
        topic("b", r#", "hosts": 1, "max_rate_hz": 0.5, "every": 1, "qos": {"depth": 1024}"#),
    ];
    assert_eq!(gateway("{}", &sound.each_ref().map(String::as_str)).check(), Ok(()));
    let reported = |config: &GatewayConfig| config.check().unwrap_err().to_string();
    for (more, says) in [
        (r#", "hosts": 0"#, "hosts: 0 is out of range; leave it out"),
        (r#", "every": 0"#, "every: 0 is out of range; it must be between 1 and 1000000"),
        (
            r#", "max_rate_hz": 0"#,
            "max_rate_hz: 0 is out of range; it must be between 0.001 and 1000000",
        ),
        (r#", "max_rate_hz": -3.5"#, "max_rate_hz: -3.5 is out of range"),
        (r#", "qos": {"depth": 0}"#, "qos.depth: 0 is out of range; it must be between 1 and 1024"),
        (r#", "qos": {"lifespan_ms": 0}"#, "qos.lifespan_ms: 0 is out of range; leave it out"),
    ] {
        let text = reported(&gateway("{}", &[&topic("a", ""), &topic("b", more)]));
        assert!(text.starts_with(&format!("topics[1].{says}")), "{more}: {text}");
    }
    let mut config = gateway(
        r#"{"host": "a.b", "zenoh": "/nowhere/z.json5"}"#,
        &[&topic("a", ""), &topic("b", ""), &topic("a", "")],
    );
    config.domain = "\u{1b}".into();
    config.topics[0] = CarriedTopic {
        pins: 0,
        max_payload: u64::MAX,
        max_rate_hz: Some(f64::NAN),
        ..config.topics[0].clone()
    };
    config.topics[1] = CarriedTopic { send: false, pins: MAX_PINS + 1, ..config.topics[1].clone() };
    let text = reported(&config);
    let lines = text.lines().map(str::trim_start).collect::<Vec<_>>();
    let beginnings = [
        "the configuration has 9 mistakes",
        "domain: ` ` cannot be the name of a domain",
        "network.host: `a.b` cannot be the name of a host; use 1 to 63",
        "network.zenoh: cannot read /nowhere/z.json5",
        "topics[0].max_payload: 18446744073709551615 is out of range",
        "topics[0].pins: 0 is out of range; it must be between 1 and 8192",
        "topics[0].max_rate_hz: NaN is out of range",
        "topics[1].pins: 8193 is out of range",
        "topics[1]: `b` is neither sent nor received; set `send` or `receive`",
        "topics[2].topic: `a` is the topic of topics[0] already; make one entry of both",
    ];
    assert_eq!(lines.len(), beginnings.len(), "{text}");
    assert!(lines.iter().zip(beginnings).all(|(line, begins)| line.starts_with(begins)), "{text}");
    config.domain = String::new();
    assert!(reported(&config).contains("domain: `` cannot be"), "{}", reported(&config));
    let misspelt = topic("a", r#", "qos": {"dept": 5}"#);
    assert!(
        serde_json::from_str::<CarriedTopic>(&misspelt)
            .unwrap_err()
            .to_string()
            .contains("unknown field `dept`")
    );
}

#[test]
fn missing_files_are_named_with_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let (here, pipe) = (dir.path().join("here.pem"), dir.path().join("pipe"));
    std::fs::write(&here, "-----BEGIN CERTIFICATE-----\n").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let tls = TlsSpec { authority: here, certificate: "/nowhere/a.pem".into(), private_key: pipe };
    let spec = NetworkSpec { tls: Some(tls), ..NetworkSpec::default() };
    let found = spec.unreadable_files();
    assert!(
        matches!(found.as_slice(), [
            (["tls", "certificate"], missing, None),
            (["tls", "private_key"], pipe, None),
        ] if missing.contains("/nowhere/a.pem: No such file")
            && pipe.ends_with("not a regular file")),
        "{found:?}"
    );
}

#[test]
fn addresses_of_other_computers_to_listen_on_are_found() {
    // Addresses reserved for documentation belong to no computer.
    let listen = [
        "tcp/127.0.0.1:7450",
        "tcp/192.0.2.1:7450",
        "tcp/192.0.2.2:7450#iface=lo",
        "tcp/roof:7450",
        "unixsock-stream//run/x",
    ];
    let spec = NetworkSpec { listen: listen.map(String::from).into(), ..NetworkSpec::default() };
    let found: Vec<String> =
        spec.missing_addresses().into_iter().map(|(i, address)| format!("{i} {address}")).collect();
    assert_eq!(
        (found, spec.listen_interfaces().collect()),
        (vec!["1 192.0.2.1".to_owned()], vec![("lo", false)])
    );
    let spec = NetworkSpec {
        listen: vec![
            "tcp/192.0.2.2:7450#iface=lo".into(),
            "tcp/192.0.2.2:7450#iface=nosuch".into(),
        ],
        ..NetworkSpec::default()
    };
    assert_eq!(spec.missing_listen_interfaces(), [(1, "nosuch")]);
}

#[test]
fn a_file_in_the_way_of_a_socket_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (file, socket, free) =
        (dir.path().join("notes"), dir.path().join("socket"), dir.path().join("free"));
    std::fs::write(&file, "").unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let listen = [&socket, &free, &file].map(|path| format!("unixsock-stream/{}", path.display()));
    let spec = NetworkSpec {
        listen: listen.into(),
        connect: vec![format!("unixsock-stream/{}", file.display())],
        ..NetworkSpec::default()
    };
    let found = spec.unreadable_files();
    assert!(
        matches!(&found[..], [(["listen"], why, Some(_))]
            if why.contains("/notes exists and is not a socket")),
        "{found:?}"
    );
}

#[test]
fn connections_over_tls_have_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    let of = |network: serde_json::Value| {
        let config = serde_json::json!({
            "domain": "car", "domain_dir": "/d", "network": network, "topics": [],
        });
        serde_json::from_value::<GatewayConfig>(config).unwrap().environment()
    };
    let file = |text: &str| {
        let path = dir.path().join("zenoh.json5");
        std::fs::write(&path, text).unwrap();
        serde_json::json!({ "zenoh": path })
    };
    let tls = serde_json::json!({
        "authority": "ca.pem", "certificate": "a.pem", "private_key": "a.key",
    });
    for (network, threads) in [
        (serde_json::json!({ "connect": ["tcp/10.0.0.1:7450"] }), ZENOH_THREADS),
        (
            serde_json::json!({ "connect": ["tls/10.0.0.1:7450"], "tls": tls }),
            ZENOH_THREADS_FOR_TLS,
        ),
        (file(r#"{listen: {endpoints: ["tcp/10.0.0.1:7450"]}}"#), ZENOH_THREADS),
        (serde_json::json!({ "zenoh": dir.path() }), ZENOH_THREADS),
    ] {
        assert_eq!(of(network), [threads]);
    }
    assert_eq!(
        of(file(r#"{listen: {endpoints: ["tls/10.0.0.1:7450"]}}"#)),
        [ZENOH_THREADS_FOR_TLS]
    );
}

#[test]
fn files_without_certificates_or_keys_are_named_with_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let found = |certificate: &[u8], key: &[u8]| {
        let file = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).unwrap();
            dir.path().join(name)
        };
        let (certificate, private_key) = (file("a.pem", certificate), file("a.key", key));
        let tls = TlsSpec { authority: certificate.clone(), certificate, private_key };
        let found = NetworkSpec { tls: Some(tls), ..NetworkSpec::default() }.unreadable_files();
        assert!(found.iter().all(|(_, _, help)| help.unwrap().starts_with("write it in PEM")));
        found.into_iter().map(|(keys, why, _)| (keys[1], why)).collect::<Vec<_>>()
    };
    let certificate = b"Subject: CN=a\n-----BEGIN CERTIFICATE-----\r\nMII\n";
    for kind in ["", "EC ", "RSA "] {
        assert_eq!(
            found(certificate, format!("-----BEGIN {kind}PRIVATE KEY-----\nMII").as_bytes()),
            []
        );
    }
    for key in [&b"\x30\x82\xff"[..], certificate, b""] {
        let found = found(certificate, key);
        assert!(
            matches!(&found[..], [("private_key", why)] if why.contains("a.key: it has no \
                 `-----BEGIN PRIVATE KEY-----`")),
            "{found:?}"
        );
    }
    assert_eq!(
        found(b"\x30\x82", b"-----BEGIN PRIVATE KEY-----")
            .iter()
            .map(|(key, _)| *key)
            .collect::<Vec<_>>(),
        ["authority", "certificate"]
    );
}

#[test]
fn without_an_interface_only_the_loopback_device_is_listened_to() {
    let spec = NetworkSpec::default();
    assert_eq!(
        (spec.listen_endpoints(), spec.reaches_any_host()),
        (vec!["tcp/127.0.0.1:0".to_owned()], false)
    );
    let spec = NetworkSpec { interface: Some("eth0".into()), ..spec };
    assert_eq!(
        (spec.listen_endpoints(), spec.reaches_any_host()),
        (vec!["tcp/0.0.0.0:7450#iface=eth0".to_owned()], true)
    );
    let tls = serde_json::from_str(
        r#"{"authority": "ca.pem", "certificate": "a.pem", "private_key": "a.key"}"#,
    )
    .unwrap();
    let spec = NetworkSpec { tls: Some(tls), ..spec };
    assert_eq!(
        spec.listen_endpoints(),
        ["tls/0.0.0.0:7450#iface=eth0"],
        "a host with certificates does not listen without TLS"
    );
    let spec = NetworkSpec { interface: None, ..spec };
    assert_eq!(spec.listen_endpoints(), ["tls/127.0.0.1:0"], "not even on the loopback device");
    assert!(is_host_name(&machine_name()));
}
