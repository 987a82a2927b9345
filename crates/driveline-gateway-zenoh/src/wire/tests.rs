// SPDX-License-Identifier: Apache-2.0
use super::*;
use driveline_types::{
    Durability, EndpointId, MonotonicNs, Origin, Origins, Qos, Reliability, SampleHeader, Schema,
    TopicId,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn host(name: &str, n: u64) -> HostId {
    HostId::new(name, n).unwrap()
}

fn mark() -> QosMark {
    QosMark { reliability: Reliability::Reliable, durability: Durability::Volatile }
}

/// One key of each kind.
fn all(a: HostId, b: HostId, topic: &str) -> Vec<Parsed> {
    let topic = || topic.parse().unwrap();
    vec![
        Parsed::Host(a.clone()),
        Parsed::Clock(a.clone()),
        Parsed::Met(a.clone()),
        Parsed::Topic { host: a.clone(), topic: topic() },
        Parsed::Want {
            host: a.clone(),
            of: b.clone(),
            offered: mark(),
            qos: QosMark { reliability: Reliability::BestEffort, ..mark() },
            topic: topic(),
        },
        Parsed::Sample { to: a.clone(), from: b.clone(), offered: mark(), topic: topic() },
        Parsed::Ack { to: a, from: b, offered: mark(), topic: topic() },
    ]
}

#[test]
fn keys_equal_those_of_the_protocol_page() {
    let keys = Keys::new("pilot").unwrap();
    let made: Vec<_> = all(host("car", 0xab), host("roof-1", u64::MAX), "camera/front")
        .iter()
        .map(|k| keys.key(k))
        .collect();
    let expected = [
        "driveline/2/pilot/host/car.00000000000000ab",
        "driveline/2/pilot/clock/car.00000000000000ab",
        "driveline/2/pilot/met/car.00000000000000ab",
        "driveline/2/pilot/pub/car.00000000000000ab/camera/front",
        "driveline/2/pilot/want/car.00000000000000ab/roof-1.ffffffffffffffff/rv/bv/camera/front",
        "driveline/2/pilot/s/car.00000000000000ab/roof-1.ffffffffffffffff/rv/camera/front",
        "driveline/2/pilot/a/car.00000000000000ab/roof-1.ffffffffffffffff/rv/camera/front",
    ];
    assert_eq!(made, expected);
    assert!(
        made.iter().all(|k| Keys::new("other").unwrap().parse(k).is_none()),
        "keys of another domain are not parsed"
    );
}

#[test]
fn names_with_special_characters_of_key_expressions_are_refused() {
    for bad in ["", "a/b", "a.b", "*", "a$*", "a?b", "ä", &"x".repeat(64)] {
        assert!(HostId::new(bad, 1).is_none(), "{bad}");
    }
    for bad in ["", "a/b", "*", "a$*b", "@a", "a b", "a#"] {
        assert!(Keys::new(bad).is_none(), "{bad}");
    }
    let keys = Keys::new("d").unwrap();
    for bad in [
        "driveline/2/d/host/car",
        "driveline/2/d/host/car.1",
        "driveline/2/d/host/car.00000000000000AB",
        "driveline/1/d/host/car.00000000000000ab",
        "driveline/2/d/host/car.00000000000000ab/more",
        "driveline/2/d/s/car.00000000000000ab/b.00000000000000ab/a//b",
        "driveline/2/d/s/car.00000000000000ab/b.00000000000000ab/*",
        "driveline/2/d/want/car.00000000000000ab/b.00000000000000ab/xx/t",
        "driveline/2/d/pub/car.00000000000000ab",
        "driveline/2/d/pub/car.00000000000000ab/*",
        "driveline/2/d/pub/car.+0000000000000ab/t",
        "driveline/2/d/offer/car.00000000000000ab/t",
        &format!("driveline/2/d/s/car.00000000000000ab/b.00000000000000ab/{}", "t".repeat(600)),
    ] {
        assert_eq!(keys.parse(bad), None, "{bad}");
    }
}

#[test]
fn attachments_have_the_layout_of_the_protocol_page() {
    let head = SampleHead {
        place: 0x0304,
        number: 0x0102,
        publisher: 0xaa,
        written: 9,
        owed: 0,
        sent: MonotonicNs(5),
        ..SampleHead::default()
    };
    let bytes = head.encode();
    assert_eq!((bytes.len(), &bytes[6..8]), (104, &[4, 3][..]));
    assert_eq!(
        (&bytes[..2], &bytes[8..10], bytes[16], bytes[40], bytes[48]),
        (&[2, 0][..], &[2, 1][..], 0xaa, 9, 5)
    );
    let mut header = SampleHeader::default();
    header.origins.set(
        (0..8).map(|t| Origin {
            topic: TopicId(t),
            idle_ns: -t.cast_signed(),
            ..Origin::default()
        }),
        3,
    );
    let full = SampleHead { header, ..head };
    assert_eq!((full.encode().len(), full.encode()[96]), (MAX_ATTACHMENT_LEN, 3));
    assert_eq!(SampleHead::decode(&full.encode()), Ok(full));
}

#[test]
fn damaged_attachments_and_acknowledgements_are_refused_by_name() {
    let good = SampleHead::default().encode();
    assert_eq!(
        SampleHead::decode(&good[..103]),
        Err(WireError::Length { found: 103, expected: 104 })
    );
    assert_eq!(
        SampleHead::decode(&[&good[..], &[0]].concat()),
        Err(WireError::Length { found: 105, expected: 104 })
    );
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        SampleHead::decode(&bytes)
    };
    assert_eq!(with(0, 1), Err(WireError::Version { found: 1 }));
    assert_eq!(with(4, 9), Err(WireError::Origins { found: 9 }));
    assert_eq!(with(4, 1), Err(WireError::Length { found: 104, expected: 152 }));
    let mut ack = Ack::default().encode();
    assert_eq!(Ack::decode(&ack[1..]), Err(WireError::Length { found: 39, expected: 40 }));
    ack[2] = 6;
    assert_eq!(Ack::decode(&ack), Err(WireError::Outcome { found: 6 }));
    ack[0] = 0;
    assert_eq!(Ack::decode(&ack), Err(WireError::Version { found: 0 }));
}

/// Earlier releases have 0 in place of `accepts`.
#[test]
fn an_acknowledgement_of_a_release_before_places_is_read_and_takes_one_at_a_time() {
    let mut old = [0; 40];
    (old[0], old[8]) = (2, 7);
    assert_eq!(Ack::decode(&old), Ok(Ack { number: 7, ..Ack::default() }));
    let new = Ack { outcome: Outcome::Gap, accepts: 0x0102_0304, number: 7, ..Ack::default() };
    assert_eq!((new.encode()[2], &new.encode()[4..8]), (5, &[4, 3, 2, 1][..]));
}

#[test]
fn gateways_of_other_versions_are_known_by_their_tokens() {
    let keys = Keys::new("d").unwrap();
    assert_eq!(keys.hosts_of_all_versions(), "driveline/*/d/host/*");
    let old = Some((1, host("car", 0xab)));
    assert_eq!(keys.of_another_version("driveline/1/d/host/car.00000000000000ab"), old);
    for bad in [
        "driveline/2/d/host/car.00000000000000ab",
        "driveline/1/e/host/car.00000000000000ab",
        "driveline/1/d/pub/car.00000000000000ab",
        "driveline/1/d/host/car.00000000000000ab/more",
        "driveline/1/d/host/car",
        "driveline/+1/d/host/car.00000000000000ab",
        "driveline/65536/d/host/car.00000000000000ab",
        "driveline//d/host/car.00000000000000ab",
        "other/1/d/host/car.00000000000000ab",
    ] {
        assert_eq!(keys.of_another_version(bad), None, "{bad}");
    }
}

fn offer() -> Offer {
    let schema = Arc::new(Schema::bytes("bytes", "raw", ""));
    Offer { node: "camera".parse().unwrap(), schema, qos: Qos::default(), max_payload: 1 << 20 }
}

fn list() -> List {
    let other = Offer { schema: Arc::new(Schema::bytes("other", "raw", "x")), ..offer() };
    let publishers =
        vec![(EndpointId(7), offer()), (EndpointId(8), other), (EndpointId(9), offer())];
    let host = |name, n| HostId::new(name, n).unwrap();
    let ended = vec![
        Ended {
            id: EndpointId(10),
            last: Some(5),
            first: [(host("car", 1), 3), (host("roof", 2), 6)].into(),
        },
        Ended { id: EndpointId(11), last: None, first: BTreeMap::new() },
    ];
    List { topic: "camera/front".parse().unwrap(), change: 3, publishers, ended }
}

#[test]
fn lists_of_later_releases_are_read_and_impossible_ones_are_refused() {
    let bytes = list().encode().unwrap();
    assert_eq!(List::decode(&bytes).unwrap(), list());
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(json["schemas"].as_array().map(Vec::len), Some(2), "each type once");
    assert_eq!(json["publishers"][0]["id"], "0".repeat(31) + "7");
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = json.clone();
        change(&mut json);
        List::decode(json.to_string().as_bytes()).map_err(|e| e.to_string())
    };
    assert_eq!(changed(&|j| j["later"] = 3.into()), Ok(list()));
    let earlier = |j: &mut serde_json::Value| drop(j.as_object_mut().unwrap().remove("ended"));
    assert_eq!(
        changed(&earlier),
        Ok(List { ended: Vec::new(), ..list() }),
        "of an earlier release"
    );
    type Change = dyn Fn(&mut serde_json::Value);
    let refused: [(&Change, &str); 16] = [
        (&|j| j["version"] = 1.into(), "version 1"),
        (&|j| *j = serde_json::json!({ "version": 3 }), "version 3"),
        (&|j| j["topic"] = "/a".into(), "not valid"),
        (&|j| j["publishers"][1]["id"] = j["publishers"][0]["id"].clone(), "twice"),
        (&|j| j["publishers"][1]["id"] = "7".into(), "not the id"),
        (&|j| j["publishers"][1]["schema"] = 2.into(), "no schema 2"),
        (
            &|j| j["publishers"] = vec![j["publishers"][0].clone(); MAX_LISTED + 1].into(),
            "maximum is 64",
        ),
        (&|j| j["padding"] = "x".repeat(MAX_LIST_LEN).into(), "maximum is"),
        (&|j| j["publishers"] = 3.into(), "cannot be read"),
        (
            &|j| j["ended"] = vec![j["ended"][0].clone(); MAX_ENDED_LISTED + 1].into(),
            "maximum is 64",
        ),
        (&|j| j["ended"][1]["id"] = j["ended"][0]["id"].clone(), "twice"),
        (&|j| j["ended"][1]["id"] = j["publishers"][0]["id"].clone(), "twice"),
        (&|j| j["ended"][1]["id"] = "7".into(), "is impossible"),
        (&|j| j["ended"][0]["last"] = (1u64 << 48).into(), "is impossible"),
        (
            &|j| j["ended"][0]["first"] = serde_json::json!({ "car.0000000000000001": 7 }),
            "is impossible",
        ),
        (&|j| j["ended"][0]["first"] = serde_json::json!({ "nobody": 1 }), "is impossible"),
    ];
    for (change, text) in refused {
        let found = changed(change);
        assert!(found.as_ref().is_err_and(|e| e.contains(text)), "{text}: {found:?}");
    }
    let long = Offer {
        schema: Arc::new(Schema::bytes("bytes", "raw", "x".repeat(MAX_LIST_LEN))),
        ..offer()
    };
    let too_long = List { publishers: vec![(EndpointId(7), long)], ..list() };
    assert!(matches!(too_long.encode(), Err(ListError::TooLong { .. })));
}

#[test]
fn impossible_offers_are_refused_one_by_one() {
    assert_eq!(offer().check(), Ok(()));
    let qos = |qos: Qos| Offer { qos, ..offer() };
    for (bad, text) in [
        (qos(Qos { depth: 0, ..Qos::default() }), "depth"),
        (qos(Qos { lifespan_ms: Some(0), ..Qos::default() }), "0 ms"),
        (
            Offer {
                schema: Arc::new(Schema::bytes(
                    "bytes",
                    "raw",
                    "x".repeat(Schema::MAX_DEFINITION_LEN + 1),
                )),
                ..offer()
            },
            "definition",
        ),
        (
            Offer { schema: Arc::new(Schema::bytes("b".repeat(300), "raw", "")), ..offer() },
            "too long",
        ),
    ] {
        assert!(bad.check().is_err_and(|e| e.contains(text)), "{text}");
    }
}

#[test]
fn an_answer_to_a_question_for_the_time_has_three_numbers() {
    let time = Time { received: MonotonicNs(5), answered: MonotonicNs(6), changes: 7 };
    assert_eq!(Time::decode(&time.encode()), Some(time));
    assert_eq!((time.encode()[0], time.encode()[8], time.encode()[16]), (5, 6, 7));
    assert_eq!((Time::decode(&time.encode()[..16]), Time::decode(&[0; 25])), (None, None));
}

fn origins() -> impl Strategy<Value = Vec<[u64; 6]>> {
    proptest::collection::vec(any::<[u64; 6]>(), 0..=8)
}

#[test]
fn only_addresses_that_others_may_reach_are_places() {
    for (endpoint, at) in [
        ("tcp/10.0.0.1:7450", "tcp/10.0.0.1:7450"),
        ("tls/[fd00::1]:7450?rel=1", "tls/[fd00::1]:7450"),
        ("tls/roof.local:7450#so_sndbuf=1;iface=lo", "tls/roof.local:7450"),
        ("quic/3com.example:1", "quic/3com.example:1"),
    ] {
        assert_eq!(place(endpoint).as_deref(), Some(at));
    }
    for none in [
        "tcp/127.0.0.1:7450",
        "tls/[::1]:7450",
        "udp/localhost:7450",
        "udp/a.localhost:7450",
        "tcp/0.0.0.0:7450",
        "tcp/[::]:7450?rel=1",
        "tcp/0.1.2.3:7450",
        "tcp/127.1:7450",
        "tcp/2130706433:7450",
        "tcp/0x7f.1:7450",
        "tcp/[::ffff:127.0.0.1]:7450",
        "tcp/[fe80::1]:7450",
        "tcp/[fe80::1%3]:7450",
        "tcp/[fe80::1%eth0]:7450",
        "tcp/224.0.0.224:7446",
        "tcp/[ff02::1]:1",
        "tcp/255.255.255.255:1",
        "tcp/10.0.0.1:0",
        "tcp/10.0.0.1",
        "tcp/:1",
        "tcp/",
        "tcp",
        "/10.0.0.1:1",
        "",
        "unixsock-stream//run/car/gateway",
        "tcp/\u{202e}0.1:1",
        "tcp/roof local:1",
        "t`p/10.0.0.1:1",
        "tcp/10.0.0.1:1 or run `it`",
    ] {
        assert_eq!(place(none), None, "{none}");
    }
    assert_eq!(place(&format!("tcp/{}:1", "a".repeat(200))), None);
}

proptest! {
    #[test]
    fn heads_round_trip(
        numbers: [u64; 9],
        place: u16,
        owed: u32,
        publisher: u128,
        reconnect: bool,
        sum: Option<u64>,
        list in origins(),
        dropped: u32,
    ) {
        let [number, written, sent, sequence, publish, wall, trace, error, _] = numbers;
        let mut origins = Origins::default();
        let origin = |w: [u64; 6]| Origin {
            topic: TopicId(w[0]),
            source_oldest: MonotonicNs(w[1]),
            source_newest: MonotonicNs(w[2]),
            communication_ns: w[3].cast_signed(),
            computation_ns: w[4].cast_signed(),
            idle_ns: w[5].cast_signed(),
        };
        origins.set(list.into_iter().map(origin), dropped);
        let header = SampleHeader {
            sequence,
            publish_time: MonotonicNs(publish),
            wall_offset_ns: wall as i64,
            trace_id: trace,
            checksum: sum,
            clock_error_ns: error,
            origins,
            ..SampleHeader::default()
        };
        let head = SampleHead {
            sent_again: reconnect,
            place,
            number,
            publisher,
            written,
            owed,
            sent: MonotonicNs(sent),
            header,
        };
        prop_assert_eq!(SampleHead::decode(&head.encode()), Ok(head));
    }

    #[test]
    fn acknowledgements_round_trip(w: [u64; 4], accepts: u32, outcome in 0usize..6) {
        let outcome = [
            Outcome::Published,
            Outcome::Expired,
            Outcome::Damaged,
            Outcome::Unknown,
            Outcome::NotYet,
            Outcome::Gap,
        ][outcome];
        let ack = Ack {
            outcome,
            accepts,
            number: w[0],
            sent: MonotonicNs(w[1]),
            received: MonotonicNs(w[2]),
            answered: MonotonicNs(w[3]),
        };
        prop_assert_eq!(Ack::decode(&ack.encode()), Ok(ack));
    }

    #[test]
    fn any_bytes_give_something_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        origins in 0u16..10,
    ) {
        let _ = (
            SampleHead::decode(&bytes),
            Ack::decode(&bytes),
            List::decode(&bytes).is_ok(),
            Time::decode(&bytes),
            KnownHosts::decode(&bytes),
        );
        let mut closer = bytes;
        if closer.len() >= 8 {
            closer[..6].copy_from_slice(&[2, 0, 0, 0, origins as u8, 0]);
            closer.resize(104 + 48 * usize::from(origins), 0);
            prop_assert_eq!(SampleHead::decode(&closer).is_ok(), origins <= 8);
        }
    }

    #[test]
    fn lists_round_trip_and_damaged_ones_are_refused_or_another_list(
        ids in proptest::collection::btree_map(
            any::<u128>(),
            (0usize..4, any::<u64>(), 1u32..100),
            0..MAX_LISTED,
        ),
        change: u64,
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8),
    ) {
        let offer = |(kind, max_payload, depth): (usize, u64, u32)| {
            let schema = Arc::new(Schema::bytes(format!("type {kind}"), "raw", "x".repeat(kind)));
            Offer { schema, max_payload, qos: Qos { depth, ..Qos::default() }, ..offer() }
        };
        let publishers = ids.into_iter().map(|(id, rest)| (EndpointId(id), offer(rest))).collect();
        let list = List { change, publishers, ..list() };
        let mut bytes = list.encode().unwrap();
        prop_assert_eq!(List::decode(&bytes).unwrap(), list);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(other) = List::decode(&bytes) {
            prop_assert_eq!(List::decode(&other.encode().unwrap()).unwrap(), other);
        }
    }

    /// Messages with any number of hosts stay within the bounds, and decode to the encoded content.
    #[test]
    fn known_hosts_are_bounded_and_survive_damage(
        hears in prop::collection::vec(
            (any::<u64>(), prop::collection::vec("(tcp/[0-9.:]{1,40}|\\PC{0,200})", 0..6)),
            0..30,
        ),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
    ) {
        let known = KnownHosts {
            listens: vec!["tcp/10.0.0.1:7450".into()],
            hears: hears.into_iter().map(|(n, listens)| (host("car", n), listens)).collect(),
        };
        let mut bytes = known.encode();
        prop_assert!(bytes.len() <= MAX_KNOWN_HOSTS_LEN);
        let read = KnownHosts::decode(&bytes).unwrap();
        prop_assert!(
            read.hears.len() <= known.hears.len()
                && read.hears.iter().all(|(_, l)| l.len() <= 4 && l.iter().all(|a| a.len() <= 128))
        );
        prop_assert_eq!(KnownHosts::decode(&read.encode()), Some(read));
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Some(other) = KnownHosts::decode(&bytes) {
            prop_assert!(
                other
                    .hears
                    .iter()
                    .all(|(_, l)| l.iter().flat_map(|a| a.chars()).all(|c| c.is_ascii_graphic()))
            );
        }
        prop_assert_eq!(KnownHosts::decode(&vec![b' '; MAX_KNOWN_HOSTS_LEN + 1]), None);
    }

    #[test]
    fn keys_round_trip(
        a in "[a-zA-Z0-9_-]{1,63}",
        b in "[a-z]{1,9}",
        n: u64,
        m: u64,
        topic in "[a-z]{1,9}(/[a-zA-Z0-9_-]{1,9}){0,5}",
    ) {
        let keys = Keys::new("d").unwrap();
        for k in all(host(&a, n), host(&b, m), &topic) {
            prop_assert_eq!(keys.parse(&keys.key(&k)), Some(k));
        }
    }

    /// No two texts have the same meaning, so a key cannot pass for another one.
    #[test]
    fn each_parsed_key_has_one_spelling(
        key in "driveline/2/d/(s|a|host|pub|want|clock|met)/\
                [a-z]{0,2}\\.[0-9a-fA-F]{15,17}(/[ab0-9./*]{0,40}){0,3}",
    ) {
        let keys = Keys::new("d").unwrap();
        if let Some(parsed) = keys.parse(&key) {
            prop_assert_eq!(keys.key(&parsed), key);
        }
    }
}
