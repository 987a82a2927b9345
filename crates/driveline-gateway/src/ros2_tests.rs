// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn name(topic: &str) -> TopicName {
    topic.parse().unwrap()
}

#[test]
fn patterns_fit_only_the_names_that_they_describe() {
    for (pattern, fits, fits_not) in [
        ("/a/b", &["a/b"][..], &["a", "a/b/c", "a/c", "b"][..]),
        ("/a/*", &["a/b", "a/c"], &["a", "a/b/c", "b/a"]),
        ("/a/*/c", &["a/b/c"], &["a/c", "a/b/d", "a/b/c/d"]),
        ("/a/**", &["a/b", "a/b/c"], &["a", "b/a", "ab/c"]),
        ("/**", &["a", "a/b/c"], &[]),
        ("/*", &["a"], &["a/b"]),
        ("/a__b/*", &["a__b/c__d"], &["a_b/c"]),
    ] {
        let rule = Rule::new(pattern, Direction::Both);
        assert_eq!(pattern_mistake(pattern), None, "{pattern}");
        for topic in fits {
            assert!(
                rule.covers(&name(topic), true) && rule.covers(&name(topic), false),
                "{pattern} should fit {topic}"
            );
        }
        for topic in fits_not {
            assert!(!rule.covers(&name(topic), true), "{pattern} should not fit {topic}");
        }
    }
}

#[test]
fn nothing_is_carried_without_a_rule_and_the_first_rule_counts() {
    assert_eq!(Ros2Spec::default().rule(&name("a"), true), None);
    let spec: Ros2Spec = serde_json::from_str(
        r#"{"topics": [
            {"topic": "/a/x", "direction": "to_ros"},
            {"topic": "/a/**", "direction": "from_ros", "max_payload": "2 MiB", "as": "cdr"}
        ]}"#,
    )
    .unwrap();
    assert_eq!(spec.mistakes(), []);
    assert_eq!(spec.rule(&name("a/x"), false).unwrap().topic, "/a/x");
    assert_eq!(
        spec.rule(&name("a/x"), true).unwrap().topic,
        "/a/**",
        "a rule of the other direction does not count"
    );
    assert_eq!(spec.rule(&name("a/y"), false), None);
    let rule = spec.rule(&name("a/y"), true).unwrap();
    assert_eq!((rule.max_payload_bytes(), rule.form, rule.single()), (2 << 20, Form::Cdr, None));
    assert_eq!(spec.topics[0].single(), Some(name("a/x")));
}

#[test]
fn each_mistake_is_reported_with_its_place_and_a_remedy() {
    let rules = |rules: &str| format!(r#"{{"topics": [{rules}]}}"#);
    for (bad, key, index, says) in [
        (r#"{"domain_id": 233}"#.to_owned(), "domain_id", None, "at most 232"),
        (r#"{"interface": "eth0/1"}"#.to_owned(), "interface", None, "ip link"),
        (r#"{"interface": "<x>"}"#.to_owned(), "interface", None, "ip link"),
        (r#"{"dds": false}"#.to_owned(), "dds", None, "add `zenoh: {}`"),
        (
            r#"{"zenoh": {"connect": ["192.168.1.10:7447"]}}"#.to_owned(),
            "zenoh",
            None,
            "tcp or udp",
        ),
        (r#"{"zenoh": {"connect": ["tcp/192.168.1.10:0"]}}"#.to_owned(), "zenoh", None, "port 0"),
        (r#"{"zenoh": {"listen": ["tcp/[::1]"]}}"#.to_owned(), "zenoh", None, "has no port"),
        (
            r#"{"zenoh": {"listen": ["quic/[::1]:7447"]}}"#.to_owned(),
            "zenoh",
            None,
            "speaks tcp, udp",
        ),
        (r#"{"zenoh": {"listen": ["tcp/[::]:7447"]}}"#.to_owned(), "zenoh", None, "insecure: true"),
        (rules(r#"{"topic": "a", "direction": "both"}"#), "topics", Some(0), "leading `/`"),
        (rules(r#"{"topic": "/", "direction": "both"}"#), "topics", Some(0), "letters, digits"),
        (rules(r#"{"topic": "/a-b", "direction": "both"}"#), "topics", Some(0), "letters, digits"),
        (rules(r#"{"topic": "/1a", "direction": "both"}"#), "topics", Some(0), "letters, digits"),
        (rules(r#"{"topic": "/a*", "direction": "both"}"#), "topics", Some(0), "`**` at the end"),
        (
            rules(r#"{"topic": "/**/a", "direction": "both"}"#),
            "topics",
            Some(0),
            "only stand at the end",
        ),
        (
            rules(r#"{"topic": "/a", "direction": "both", "max_payload": "2 GiB"}"#),
            "topics",
            Some(0),
            "1 GiB",
        ),
        (
            rules(r#"{"topic": "/a", "direction": "both", "qos": {"depth": 0}}"#),
            "topics",
            Some(0),
            "at least 1",
        ),
        (
            rules(r#"{"topic": "/a", "direction": "both", "qos": {"deadline_ms": 0}}"#),
            "topics",
            Some(0),
            "`deadline_ms` is at least 1",
        ),
        (
            rules(r#"{"topic": "/a", "direction": "both", "qos": {"lease_ms": 0}}"#),
            "topics",
            Some(0),
            "`lease_ms` is at least 1",
        ),
        (
            rules(r#"{"topic": "/a", "direction": "both", "pins": 0}"#),
            "topics",
            Some(0),
            "at least 1",
        ),
        (
            rules(
                r#"{"topic": "/a", "direction": "both"}, {"topic": "/a", "direction": "to_ros"}"#,
            ),
            "topics",
            Some(1),
            "remove one",
        ),
    ] {
        let spec: Ros2Spec = serde_json::from_str(&bad).unwrap();
        let found = spec.mistakes();
        let [m] = found.as_slice() else { panic!("{bad}: {found:?}") };
        assert_eq!((m.key, m.index), (key, index), "{bad}");
        assert!(format!("{} ({})", m.message, m.help).contains(says), "{bad}: {m:?}");
    }
    assert!(
        serde_json::from_str::<Ros2Spec>(r#"{"topics": [{"topic": "/a"}]}"#).is_err(),
        "a rule has a direction"
    );
}

#[test]
fn types_may_be_the_installed_ros_2_as_a_whole() {
    let of = |entry: &str, prefixes: Option<&str>| {
        let spec = Ros2Spec { types: vec![entry.into()], ..Ros2Spec::default() };
        spec.resolved(Path::new("/graphs"), prefixes.map(OsStr::new)).types[0].display().to_string()
    };
    assert_eq!(of("msgs/tf2_msgs", None), "/graphs/msgs/tf2_msgs");
    assert_eq!(of("/opt/ros/jazzy/share", None), "/opt/ros/jazzy/share");
    assert_eq!(of("ws/install:/opt/ros/jazzy", None), "/graphs/ws/install:/opt/ros/jazzy");
    assert_eq!(
        of("$AMENT_PREFIX_PATH", Some("/ws/install/a:/opt/ros/jazzy")),
        "/ws/install/a:/opt/ros/jazzy"
    );
    assert_eq!(
        [of("$AMENT_PREFIX_PATH", None), of("$AMENT_PREFIX_PATH", Some(""))],
        ["$AMENT_PREFIX_PATH"; 2]
    );
}

#[test]
fn dds_is_used_by_default_and_rmw_zenoh_on_request() {
    let of = |json: &str| serde_json::from_str::<Ros2Spec>(json).unwrap();
    assert_eq!((of("{}").dds, of("{}").zenoh), (true, None), "as in files of old releases");
    let spec = of(r#"{"dds": false, "zenoh": {}}"#);
    assert_eq!((spec.dds, spec.mistakes()), (false, Vec::new()));
    let zenoh = spec.zenoh.unwrap();
    assert_eq!(
        (zenoh.connect, zenoh.listen),
        (vec!["tcp/localhost:7447".to_owned()], vec!["tcp/localhost:0".to_owned()])
    );
    let elsewhere =
        of(r#"{"zenoh": {"connect": ["tcp/[fe80::1]:7447#iface=eth0", "udp/car.local:7447"],
                     "listen": ["tcp/[::]:7447"], "insecure": true}}"#);
    assert_eq!(elsewhere.mistakes(), []);
}

proptest! {
    #[test]
    fn any_text_is_a_pattern_or_a_mistake_and_a_name_without_stars_covers_itself_only(
        pattern in "/?[a-c_1*/-]{0,12}",
        other in "[a-c_]{1,3}(/[a-c_]{1,3}){0,2}",
    ) {
        let rule = Rule::new(pattern.clone(), Direction::Both);
        let good = pattern_mistake(&pattern).is_none();
        let covers = rule.covers(&name(&other), true);
        if good && !pattern.contains('*') {
            prop_assert_eq!(covers, pattern == format!("/{other}"));
            prop_assert!(rule.single().is_some_and(|t| rule.covers(&t, false)));
        }
        prop_assert!(covers || pattern != "/**");
    }
}

#[test]
fn every_impossible_value_of_a_configuration_is_reported_with_its_place() {
    let config = |domain: &str, ros2: &str, topics: &str| -> Ros2GatewayConfig {
        serde_json::from_str(&format!(
            r#"{{"domain": "{domain}", "domain_dir": "/d", "ros2": {ros2}, "topics": {topics}}}"#
        ))
        .unwrap()
    };
    let sound = r#"[{"topic": "a", "max_payload": 8},
        {"topic": "b", "max_payload": 0, "pins": 1, "qos": {"depth": 3}}]"#;
    assert_eq!(config("", "{}", sound).check(), Ok(()));
    let topics = r#"[{"topic": "a", "max_payload": 8},
        {"topic": "a", "max_payload": 8, "pins": 0, "qos": {"depth": 0}}]"#;
    let ros2 = r#"{"domain_id": 233, "topics": [
        {"topic": "/a", "direction": "both"}, {"topic": "a", "direction": "both", "pins": 0}]}"#;
    let text = config("\\u001b", ros2, topics).check().unwrap_err().to_string();
    for says in [
        "has 7 mistakes",
        "domain: ` ` has control characters",
        "ros2.domain_id: DDS has no domain 233; use ROS_DOMAIN_ID",
        "ros2.topics[1]: `a` has no leading `/`",
        "ros2.topics[1]: `pins` is at least 1",
        "topics[1].topic: `a` is the topic of topics[0] already",
        "topics[1].pins: 0 is out of range",
        "topics[1].qos.depth: 0 is out of range",
    ] {
        assert!(text.contains(says), "{says:?} is not in\n{text}");
    }
    let misspelt = r#"{"topic": "a", "max_payload": 8, "qos": {"dept": 5}}"#;
    assert!(
        serde_json::from_str::<LocalTopic>(misspelt)
            .unwrap_err()
            .to_string()
            .contains("unknown field `dept`")
    );
}
