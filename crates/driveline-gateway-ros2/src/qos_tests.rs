// SPDX-License-Identifier: Apache-2.0
use super::*;
use driveline_types::Durability;
use proptest::prelude::*;

fn policies(offered: EndpointQos, requested: EndpointQos) -> Vec<&'static str> {
    mismatches(&offered, &requested).into_iter().map(|m| m.policy).collect()
}

const RELIABILITY: [Reliability; 2] = [Reliability::BestEffort, Reliability::Reliable];
const DURABILITY: [DurabilityKind; 4] = [
    DurabilityKind::Volatile,
    DurabilityKind::TransientLocal,
    DurabilityKind::Transient,
    DurabilityKind::Persistent,
];
const LIVELINESS: [LivelinessKind; 3] =
    [LivelinessKind::Automatic, LivelinessKind::ManualByParticipant, LivelinessKind::ManualByTopic];
const TIMES: [Option<Duration>; 3] =
    [Some(Duration::from_millis(10)), Some(Duration::from_millis(20)), None];

/// All pairs of values of each policy, written out: rows are offered, columns requested.
#[test]
fn the_table_of_dds() {
    let none: &[&str] = &[];
    let d = EndpointQos::default;
    for (i, row) in [[true, false], [true, true]].iter().enumerate() {
        for (k, matches) in row.iter().enumerate() {
            let found = policies(
                EndpointQos { reliability: RELIABILITY[i], ..d() },
                EndpointQos { reliability: RELIABILITY[k], ..d() },
            );
            assert_eq!(found, if *matches { none } else { &["RELIABILITY"] }, "{i} {k}");
        }
    }
    let table = [
        [true, false, false, false],
        [true, true, false, false],
        [true, true, true, false],
        [true, true, true, true],
    ];
    for (i, row) in table.iter().enumerate() {
        for (k, matches) in row.iter().enumerate() {
            let found = policies(
                EndpointQos { durability: DURABILITY[i], ..d() },
                EndpointQos { durability: DURABILITY[k], ..d() },
            );
            assert_eq!(found, if *matches { none } else { &["DURABILITY"] }, "{i} {k}");
        }
    }
    // 10 ms, 20 ms, infinite.
    for (i, row) in
        [[true, true, true], [false, true, true], [false, false, true]].iter().enumerate()
    {
        for (k, matches) in row.iter().enumerate() {
            let found = policies(
                EndpointQos { deadline: TIMES[i], ..d() },
                EndpointQos { deadline: TIMES[k], ..d() },
            );
            assert_eq!(found, if *matches { none } else { &["DEADLINE"] }, "{i} {k}");
            let found = policies(
                EndpointQos { lease: TIMES[i], ..d() },
                EndpointQos { lease: TIMES[k], ..d() },
            );
            assert_eq!(found, if *matches { none } else { &["LIVELINESS lease"] }, "{i} {k}");
        }
    }
    for (i, row) in
        [[true, false, false], [true, true, false], [true, true, true]].iter().enumerate()
    {
        for (k, matches) in row.iter().enumerate() {
            let found = policies(
                EndpointQos { liveliness: LIVELINESS[i], ..d() },
                EndpointQos { liveliness: LIVELINESS[k], ..d() },
            );
            assert_eq!(found, if *matches { none } else { &["LIVELINESS"] }, "{i} {k}");
        }
    }
}

#[test]
fn all_reasons_are_reported_with_both_values_and_a_remedy() {
    let requested = EndpointQos {
        reliability: Reliability::Reliable,
        durability: DurabilityKind::TransientLocal,
        deadline: Some(Duration::from_millis(100)),
        ..EndpointQos::default()
    };
    let reported: Vec<_> =
        mismatches(&EndpointQos::default(), &requested).iter().map(ToString::to_string).collect();
    assert_eq!(reported.len(), 3);
    assert!(
        reported[0].starts_with(
            "RELIABILITY: the writer offers best_effort, the reader requests \
             reliable; make the writer reliable"
        ),
        "{reported:?}"
    );
    assert!(
        reported[1].starts_with(
            "DURABILITY: the writer offers volatile, the reader requests transient_local; "
        ),
        "{reported:?}"
    );
    assert!(
        reported[2]
            .starts_with("DEADLINE: the writer offers infinite, the reader requests 100ms; "),
        "{reported:?}"
    );
}

#[test]
fn the_remedy_for_a_request_of_a_rule_names_rule_and_node() {
    let rule = RuleQos {
        reliability: Some(Reliability::Reliable),
        durability: Some(Durability::TransientLocal),
        deadline_ms: Some(100),
        liveliness: Some(Liveliness::ManualByTopic),
        lease_ms: Some(100),
        ..RuleQos::default()
    };
    let offered = EndpointQos::default();
    let lacks = ReaderClass::of_writer(&offered, &rule).lacks(&offered);
    let keys = ["reliability", "durability", "deadline_ms", "liveliness", "lease_ms"];
    let remedies =
        keys.map(|key| format!("have the node offer it, or take `{key}` out of the rule's `qos`"));
    assert_eq!(lacks.iter().map(|m| m.remedy).collect::<Vec<_>>(), remedies);
}

#[test]
fn writers_offer_the_qos_of_publishers_unless_a_rule_differs() {
    let publisher = Qos {
        reliability: Reliability::Reliable,
        durability: Durability::TransientLocal,
        deadline_ms: Some(30),
        liveliness: Liveliness::ManualByTopic,
        lease_ms: Some(50),
        ..Qos::default()
    };
    let offered = EndpointQos {
        reliability: Reliability::Reliable,
        durability: DurabilityKind::TransientLocal,
        deadline: Some(Duration::from_millis(30)),
        liveliness: LivelinessKind::ManualByTopic,
        lease: Some(Duration::from_millis(50)),
    };
    assert_eq!(of_publisher(&publisher, &RuleQos::default()), offered);
    assert_eq!(of_publisher(&Qos::default(), &RuleQos::default()), EndpointQos::default());
    let rule = RuleQos {
        reliability: Some(Reliability::BestEffort),
        durability: Some(Durability::Volatile),
        ..RuleQos::default()
    };
    let replaced = EndpointQos {
        reliability: Reliability::BestEffort,
        durability: DurabilityKind::Volatile,
        ..offered
    };
    assert_eq!(of_publisher(&publisher, &rule), replaced);
    let rule = RuleQos {
        deadline_ms: Some(7),
        liveliness: Some(Liveliness::Automatic),
        lease_ms: Some(9),
        ..RuleQos::default()
    };
    let (deadline, lease) = (Some(Duration::from_millis(7)), Some(Duration::from_millis(9)));
    assert_eq!(
        of_publisher(&publisher, &rule),
        EndpointQos { deadline, liveliness: LivelinessKind::Automatic, lease, ..offered }
    );
}

/// Each policy alone, with both outcomes.
#[test]
fn times_and_liveliness_are_requested_by_the_rule() {
    let ms = |ms| Some(Duration::from_millis(ms));
    let offered = EndpointQos {
        deadline: ms(20),
        liveliness: LivelinessKind::ManualByParticipant,
        lease: ms(50),
        ..EndpointQos::default()
    };
    let lacks = |rule: RuleQos| {
        ReaderClass::of_writer(&offered, &rule)
            .lacks(&offered)
            .into_iter()
            .map(|m| m.policy)
            .collect::<Vec<_>>()
    };
    for (deadline, policies) in [(19, &["DEADLINE"][..]), (20, &[]), (21, &[])] {
        assert_eq!(
            lacks(RuleQos { deadline_ms: Some(deadline), ..RuleQos::default() }),
            policies,
            "{deadline}"
        );
    }
    for (liveliness, policies) in
        [(Liveliness::ManualByTopic, &["LIVELINESS"][..]), (Liveliness::Automatic, &[])]
    {
        assert_eq!(
            lacks(RuleQos { liveliness: Some(liveliness), ..RuleQos::default() }),
            policies,
            "{liveliness:?}"
        );
    }
    for (lease, policies) in [(49, &["LIVELINESS lease"][..]), (50, &[])] {
        assert_eq!(
            lacks(RuleQos { lease_ms: Some(lease), ..RuleQos::default() }),
            policies,
            "{lease}"
        );
    }
}

#[test]
fn a_writers_deadline_is_offered_here_and_its_lease_is_not() {
    let class = ReaderClass::new(Reliability::Reliable, Durability::Volatile);
    let of = |us: u64| {
        of_writer(
            &EndpointQos { deadline: Some(Duration::from_micros(us)), ..EndpointQos::default() },
            class,
            3,
        )
    };
    let asks = |deadline_ms: u32| Qos { deadline_ms: Some(deadline_ms), ..Qos::default() };
    assert_eq!(
        [
            of(33_300).satisfies(&asks(34), "t").is_ok(),
            of(33_300).satisfies(&asks(33), "t").is_ok()
        ],
        [true, false]
    );
    assert_eq!(
        [of(0).deadline_ms, of(20_000).deadline_ms, of(u64::MAX).deadline_ms],
        [Some(1), Some(20), None]
    );
    assert_eq!(
        (of(1).depth, of(1).reliability, of(1).durability),
        (3, Reliability::Reliable, Durability::Volatile)
    );
    let alive = EndpointQos {
        lease: Some(Duration::from_millis(10)),
        liveliness: LivelinessKind::ManualByTopic,
        ..EndpointQos::default()
    };
    assert_eq!(of_writer(&alive, class, 1).lease_ms, None, "the gateway could not keep a lease");
}

proptest! {
    #[test]
    fn without_a_rule_every_writer_is_read_with_its_own_offer(
        r in 0usize..2,
        d in 0usize..4,
        t in 0usize..3,
        l in 0usize..3,
        lease in 0usize..3,
    ) {
        let offered = EndpointQos {
            reliability: RELIABILITY[r],
            durability: DURABILITY[d],
            deadline: TIMES[t],
            liveliness: LIVELINESS[l],
            lease: TIMES[lease],
        };
        let class = ReaderClass::of_writer(&offered, &RuleQos::default());
        prop_assert!(class.lacks(&offered).is_empty());
        prop_assert_eq!(class.reliability, offered.reliability);
        prop_assert_eq!(class.durability == Durability::TransientLocal, d > 0);
        let rule = RuleQos {
            reliability: Some(Reliability::Reliable),
            durability: Some(Durability::TransientLocal),
            ..RuleQos::default()
        };
        prop_assert_eq!(
            ReaderClass::of_writer(&offered, &rule).lacks(&offered).is_empty(),
            r == 1 && d > 0
        );
    }
}
