// SPDX-License-Identifier: Apache-2.0
//! Every pair of offered and requested QoS in the table of section 4 of
//! `docs/protocols/ros2-dds.md`, in both directions, with Debian's CycloneDDS: delivery of samples,
//! reports of the gateway, and DDS events at the node. Expected outcomes are written out here,
//! without the gateway's own comparison.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline_types::{Durability, Liveliness, Qos, Reliability};
use rig::samples::{publish, string, string_schema};
use rig::{Peer, Rig, eventually};
use serde_json::{Value, json};

/// QoS of an endpoint: as an argument of the node in C (`peer.c`), and as QoS of Driveline, if
/// Driveline has it.
type Level = (&'static str, Option<Qos>);

fn qos(reliability: Reliability, durability: Durability) -> Qos {
    Qos { reliability, durability, ..Qos::default() }
}

fn reliabilities() -> Vec<Level> {
    use Reliability::{BestEffort, Reliable};
    vec![
        ("bv1", Some(qos(BestEffort, Durability::Volatile))),
        ("rv1", Some(qos(Reliable, Durability::Volatile))),
    ]
}

/// Durabilities, weakest first; Driveline has the first two.
fn durabilities() -> Vec<Level> {
    use Reliability::Reliable;
    vec![
        ("rv1", Some(qos(Reliable, Durability::Volatile))),
        ("rt1", Some(qos(Reliable, Durability::TransientLocal))),
        ("rs1", None),
        ("rp1", None),
    ]
}

/// Deadlines, longest first. All are longer than this test takes, so none is missed.
fn deadlines() -> Vec<Level> {
    let of = |deadline_ms| Some(Qos { deadline_ms, ..Qos::default() });
    vec![
        ("bv1", of(None)),
        ("bv1,d1200000", of(Some(1_200_000))),
        ("bv1,d600000", of(Some(600_000))),
    ]
}

/// Leases, as the deadlines.
fn leases() -> Vec<Level> {
    let of = |lease_ms| Some(Qos { lease_ms, ..Qos::default() });
    vec![
        ("bv1", of(None)),
        ("bv1,l1200000", of(Some(1_200_000))),
        ("bv1,l600000", of(Some(600_000))),
    ]
}

/// Kinds of liveliness, weakest first; Driveline does not have the second.
fn livelinesses() -> Vec<Level> {
    let of = |liveliness| Some(Qos { liveliness, ..Qos::default() });
    vec![
        ("bv1", of(Liveliness::Automatic)),
        ("bv1,p", None),
        ("bv1,m", of(Liveliness::ManualByTopic)),
    ]
}

/// Policies: their names in the gateway and in DDS, and their values, weakest first. A pair matches
/// if the offer is at least the request.
fn table() -> [(&'static str, &'static str, Vec<Level>); 5] {
    [
        ("RELIABILITY: ", "RELIABILITY", reliabilities()),
        ("DURABILITY: ", "DURABILITY", durabilities()),
        ("DEADLINE: ", "DEADLINE", deadlines()),
        ("LIVELINESS: ", "LIVELINESS", livelinesses()),
        ("LIVELINESS lease: ", "LIVELINESS", leases()),
    ]
}

/// Pair of QoS, on its own topic.
struct Pair {
    topic: String,
    /// QoS of the node's endpoint.
    peer: &'static str,
    /// Offer of the publisher here, towards ROS 2.
    offers: Qos,
    /// Request of the rule, from ROS 2.
    asks: Value,
    /// Names of the mismatch in reports of the gateway and of DDS.
    refused: Option<(&'static str, &'static str)>,
}

impl Pair {
    fn rule(&self, direction: &str) -> Value {
        json!({
            "topic": format!("/{}", self.topic), "direction": direction, "max_payload": 4096,
            "qos": self.asks,
        })
    }

    fn end(&self, role: &str) -> String {
        format!("{role}:rt/{}:{}", self.topic, self.peer)
    }
}

/// Pairs of publishers here and subscriptions in ROS 2.
fn to_ros() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (reason, policy, values) in table() {
        for (i, (_, offers)) in values.iter().enumerate() {
            for (k, (peer, _)) in values.iter().enumerate() {
                let Some(offers) = offers.clone() else { continue };
                let (topic, refused) =
                    (format!("to/pair{}", pairs.len()), (i < k).then_some((reason, policy)));
                pairs.push(Pair { topic, peer, offers, asks: json!({}), refused });
            }
        }
    }
    pairs
}

/// Pairs of publishers in ROS 2 and rules here. A rule requests one value, or none: then every
/// offer is enough. A rule cannot request an infinite time.
fn from_ros() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (reason, policy, values) in table() {
        // Requested value, and its index among the values.
        let asked = match reason {
            "RELIABILITY: " => vec![
                (0, json!({ "reliability": "best_effort" })),
                (1, json!({ "reliability": "reliable" })),
            ],
            "DURABILITY: " => vec![
                (0, json!({ "durability": "volatile" })),
                (1, json!({ "durability": "transient_local" })),
            ],
            "DEADLINE: " => vec![
                (1, json!({ "deadline_ms": 1_200_000 })),
                (2, json!({ "deadline_ms": 600_000 })),
            ],
            "LIVELINESS: " => vec![
                (0, json!({ "liveliness": "automatic" })),
                (2, json!({ "liveliness": "manual_by_topic" })),
            ],
            _ => vec![(1, json!({ "lease_ms": 1_200_000 })), (2, json!({ "lease_ms": 600_000 }))],
        };
        for (i, (peer, _)) in values.iter().enumerate() {
            for (k, asks) in asked.iter().chain([&(0, json!({}))]) {
                let (topic, refused) =
                    (format!("from/pair{}", pairs.len()), (i < *k).then_some((reason, policy)));
                pairs.push(Pair {
                    topic,
                    peer,
                    offers: Qos::default(),
                    asks: asks.clone(),
                    refused,
                });
            }
        }
    }
    pairs
}

/// Checks that the node reported exactly the expected events for each of its endpoints: the
/// mismatch, or the match and, if `heard`, a received sample.
#[track_caller]
fn check(peer: &mut Peer, pairs: &[Pair], heard: bool) {
    let printed = peer.read();
    for (n, pair) in pairs.iter().enumerate() {
        let begins = format!("{n} ");
        let mut said: Vec<_> =
            printed.iter().filter_map(|line| line.strip_prefix(&begins)).collect();
        said.sort_unstable();
        let expected = match pair.refused {
            Some((_, policy)) => vec![format!("refused {policy}")],
            None if heard => vec!["heard".to_owned(), "matched".to_owned()],
            None => vec!["matched".to_owned()],
        };
        assert_eq!(said, expected, "{} {:?} {} {}", pair.topic, pair.offers, pair.peer, pair.asks);
    }
}

#[test]
fn every_pair_matches_or_is_refused_on_both_sides() {
    let (to, from) = (to_ros(), from_ros());
    // Both outcomes of each policy, in each direction.
    assert_eq!(
        (to.len(), to.iter().filter(|p| p.refused.is_some()).count()),
        (4 + 8 + 9 + 6 + 9, 1 + 5 + 3 + 2 + 3)
    );
    assert_eq!(
        (from.len(), from.iter().filter(|p| p.refused.is_some()).count()),
        (6 + 12 + 9 + 9 + 9, 1 + 1 + 3 + 2 + 3)
    );
    let rules: Vec<_> = to
        .iter()
        .map(|p| p.rule("to_ros"))
        .chain(from.iter().map(|p| p.rule("from_ros")))
        .collect();
    let of_graph = |p: &Pair| Qos {
        reliability: p.offers.reliability,
        durability: p.offers.durability,
        ..Qos::default()
    };
    let topics: Vec<_> = to.iter().map(|p| (p.topic.as_str(), 4096, of_graph(p))).collect();
    let rig = Rig::new(24, json!(rules), &topics);
    let mut publishers: Vec<_> = to
        .iter()
        .enumerate()
        .map(|(n, p)| {
            rig.publisher(&p.topic, &format!("talker{n}"), string_schema(), 4096, &p.offers)
        })
        .collect();
    let ends = |role: &str, pairs: &[Pair]| {
        rig.peer(&format!(
            "ends {}",
            pairs.iter().map(|p| p.end(role)).collect::<Vec<_>>().join(" ")
        ))
    };
    let (mut listener, mut talker) = (ends("sub", &to), ends("pub", &from));
    let complete = |peer: &mut Peer, pairs: &[Pair], each: usize| {
        let matching = pairs.iter().filter(|p| p.refused.is_none()).count();
        peer.read().len() >= each * matching + (pairs.len() - matching)
    };
    eventually("all of them heard, or refused there", || {
        publishers.iter_mut().for_each(|publisher| publish(publisher, &string("hello")));
        // time: paces the publisher
        std::thread::sleep(std::time::Duration::from_millis(10));
        complete(&mut listener, &to, 2) && complete(&mut talker, &from, 1)
    });
    let carried = |topic: &str| {
        rig.report().from_ros.iter().filter(|t| t.topic == topic).map(|t| t.carried).sum::<u64>()
    };
    eventually("all that matches is carried", || {
        from.iter().all(|p| (carried(&p.topic) > 0) == p.refused.is_none())
    });
    check(&mut listener, &to, true);
    check(&mut talker, &from, false);
    let refused = rig.refused();
    for (pair, outgoing) in to.iter().map(|p| (p, true)).chain(from.iter().map(|p| (p, false))) {
        let reported: Vec<_> = refused.iter().filter(|r| r.topic == pair.topic).collect();
        match (pair.refused, reported.as_slice()) {
            (None, []) => {}
            (Some((reason, _)), [one]) => {
                assert!(
                    one.outgoing == outgoing
                        && one.subscription == outgoing
                        && one.reason.starts_with(reason),
                    "{one:?}"
                );
                assert_eq!(
                    one.reason.matches(": the writer offers ").count(),
                    1,
                    "one policy alone: {one:?}"
                );
            }
            _ => {
                panic!("{} {:?} {} {}: {reported:?}", pair.topic, pair.offers, pair.peer, pair.asks)
            }
        }
    }
    talker.end();
    eventually("forgotten", || rig.refused().iter().all(|r| r.outgoing));
}
