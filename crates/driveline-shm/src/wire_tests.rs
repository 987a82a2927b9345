// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn hello() -> Hello {
    Hello {
        topic: "camera/image".parse().unwrap(),
        node: "lane".parse().unwrap(),
        schema: Some(Schema::bytes("a", "b", "c\n\"d\"")),
        qos: Qos::default(),
        offering: None,
        pins: 3,
        observer: false,
        subscription: EndpointId(u128::MAX),
        participant: EndpointId(7),
        pid: 1,
        oldest_version: 1,
        newest_version: 1,
        armed_apart: true,
        refuse: None,
    }
}

fn accept() -> Accept {
    Accept {
        publisher: EndpointId(1 << 100),
        node: "camera".parse().unwrap(),
        pid: 2,
        schema: Schema::bytes("a", "b", "c"),
        qos: Qos::default(),
        layout: Layout::new(1, 2, 8, 1000).unwrap(),
        first: 1,
        version: 1,
        armed_apart: true,
    }
}

#[test]
fn messages_survive_a_round_trip() {
    for m in [
        Message::Hello(Box::new(hello())),
        Message::Hello(Box::new(Hello { schema: None, ..hello() })),
        Message::Hello(Box::new(Hello {
            offering: Some((Reliability::Reliable, Durability::Volatile)),
            ..hello()
        })),
        Message::Accept(Box::new(accept())),
        Message::Refuse(Refuse::new(RefusalCode::Pins, "no pins")),
        Message::List,
        Message::Listing(vec![1, 2, 3]),
    ] {
        assert_eq!(Message::decode(&m.encode().unwrap()).unwrap(), m);
    }
}

#[test]
fn the_text_of_a_refusal_is_cut_by_sender_and_receiver() {
    let refuse = Refuse::new(RefusalCode::Other, "ä".repeat(MAX_TEXT_LEN));
    assert_eq!(refuse.text.len(), MAX_TEXT_LEN);
    let long =
        Message::Refuse(Refuse { code: RefusalCode::Other, text: "a".repeat(2 * MAX_TEXT_LEN) });
    let Ok(Message::Refuse(read)) = Message::decode(&long.encode().unwrap()) else {
        panic!("it is a refusal")
    };
    assert_eq!(read.text.len(), MAX_TEXT_LEN);
    let hello = Message::Hello(Box::new(Hello {
        refuse: Some(Refuse { code: RefusalCode::Other, text: "a".repeat(9000) }),
        ..hello()
    }));
    let Ok(Message::Hello(read)) = Message::decode(&hello.encode().unwrap()) else {
        panic!("it is a HELLO")
    };
    assert_eq!(read.refuse.unwrap().text.len(), MAX_TEXT_LEN);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |m: Message| Message::decode(&m.encode().unwrap()).unwrap_err().to_string();
    assert!(refused(Message::Hello(Box::new(Hello { pins: 0, ..hello() }))).contains("pins"));
    assert!(refused(Message::Hello(Box::new(Hello { pins: 5000, ..hello() }))).contains("pins"));
    assert!(refused(Message::Accept(Box::new(Accept { first: 0, ..accept() }))).contains("first"));
    assert!(
        refused(Message::Accept(Box::new(Accept {
            qos: Qos { depth: 3, ..Qos::default() },
            ..accept()
        })))
        .contains("depth")
    );
    let layout = Layout { slots: 0, ..accept().layout };
    assert!(refused(Message::Accept(Box::new(Accept { layout, ..accept() }))).contains("slots"));
    let long = Schema::bytes("a", "b", "x".repeat(Schema::MAX_DEFINITION_LEN + 1));
    assert!(
        refused(Message::Hello(Box::new(Hello { schema: Some(long), ..hello() })))
            .contains("definition")
    );
    let long = || "a".repeat(MAX_SCHEMA_TEXT + 1);
    for (what, schema) in
        [("name", Schema::bytes(long(), "b", "")), ("encoding", Schema::bytes("a", long(), ""))]
    {
        let text = refused(Message::Hello(Box::new(Hello { schema: Some(schema), ..hello() })));
        assert!(text.contains(&format!("a schema's {what} of 1025 bytes")), "{text}");
    }
}

#[test]
fn the_longest_permitted_schema_fits_into_a_message() {
    // Every character of the definition escaped to six.
    let definition = "\u{1}".repeat(Schema::MAX_DEFINITION_LEN);
    let m = Hello { schema: Some(Schema::bytes("a", "b", definition)), ..hello() };
    assert!(
        serde_json::to_vec(&m).unwrap().len() > MAX_MESSAGE_LEN,
        "else the next line is pointless"
    );
    // Such text is no definition of anything; it is refused at creation because it cannot be sent.
    assert_eq!(Message::Hello(Box::new(m)).encode(), None);
    let definition = "\"".repeat(Schema::MAX_DEFINITION_LEN);
    let m = Hello { schema: Some(Schema::bytes("a", "b", definition)), ..hello() };
    assert!(Message::Hello(Box::new(m)).encode().is_some());
}

#[test]
fn another_version_is_named() {
    let mut packet = Message::List.encode().unwrap();
    packet[4] = 99;
    let e = Message::decode(&packet).unwrap_err();
    assert_eq!(e.code(), RefusalCode::Version);
    assert!(e.to_string().contains("99"), "{e}");
}

fn with(
    message: Message,
    change: impl FnOnce(&mut serde_json::Value),
) -> Result<Message, WireError> {
    let packet = message.encode().unwrap();
    let (frame, body) = packet.split_first_chunk::<FRAME_LEN>().unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(body).unwrap();
    change(&mut value);
    let body = value.to_string();
    let mut packet = frame[..8].to_vec();
    packet.extend((body.len() as u32).to_le_bytes());
    packet.extend(body.as_bytes());
    Message::decode(&packet)
}

#[test]
fn what_later_releases_add_is_ignored_and_what_the_first_did_not_say_is_assumed() {
    let m = Message::Hello(Box::new(hello()));
    let grown = with(m.clone(), |v| {
        v["later"] = 1.into();
        v["qos"]["later"] = 2.into();
        v["schema"]["later"] = 3.into();
    });
    assert_eq!(grown.unwrap(), m);
    let a = Message::Accept(Box::new(accept()));
    let grown = with(a.clone(), |v| {
        v["later"] = 1.into();
        v["layout"]["later"] = 2.into();
    });
    assert_eq!(grown.unwrap(), a);
    let r = with(Message::Refuse(Refuse::new(RefusalCode::Pins, "no")), |v| {
        v["code"] = "moon_phase".into()
    });
    assert_eq!(r.unwrap(), Message::Refuse(Refuse::new(RefusalCode::Other, "no")));
    let first = with(m.clone(), |v| {
        v.as_object_mut().unwrap().retain(|k, _| !k.ends_with("_version"));
    });
    assert_eq!(first.unwrap(), m);
    assert_eq!(with(a.clone(), |v| _ = v.as_object_mut().unwrap().remove("version")).unwrap(), a);
    for m in [m, a] {
        let without = with(m, |v| _ = v.as_object_mut().unwrap().remove("armed_apart")).unwrap();
        assert!(
            matches!(&without, Message::Hello(h) if !h.armed_apart)
                || matches!(&without, Message::Accept(a) if !a.armed_apart)
        );
    }
}

#[test]
fn the_ends_agree_on_the_newest_version_that_both_speak() {
    let speaking =
        |oldest_version, newest_version| Hello { oldest_version, newest_version, ..hello() };
    assert_eq!(speaking(1, 1).common_version(), Ok(1));
    assert_eq!(speaking(1, 9).common_version(), Ok(PROTOCOL_VERSION));
    let text = speaking(PROTOCOL_VERSION + 1, 99).common_version().unwrap_err();
    assert!(text.contains("versions 2 to 99"), "{text}");
    for (oldest, newest) in [(0, 1), (3, 2)] {
        let e =
            Message::decode(&Message::Hello(Box::new(speaking(oldest, newest))).encode().unwrap())
                .unwrap_err();
        assert!(e.to_string().contains("no valid range"), "{e}");
    }
    let e = Message::decode(
        &Message::Accept(Box::new(Accept { version: 7, ..accept() })).encode().unwrap(),
    )
    .unwrap_err();
    assert_eq!(e.code(), RefusalCode::Version);
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let body = br#"{"code": "qos", "text": "a", "code": "qos"}"#;
    let mut packet =
        Message::Refuse(Refuse::new(RefusalCode::Qos, "a")).encode().unwrap()[..8].to_vec();
    packet.extend((body.len() as u32).to_le_bytes());
    packet.extend(body);
    let e = Message::decode(&packet).unwrap_err();
    assert!(
        e.code() == RefusalCode::Protocol && e.to_string().contains("duplicate field `code`"),
        "{e}"
    );
}

/// Paths of all keys, those of inner objects included.
fn paths(value: &serde_json::Value) -> Vec<Vec<String>> {
    let below = |(key, inner): (&String, &serde_json::Value)| {
        let inner = paths(inner).into_iter().map(|path| [vec![key.clone()], path].concat());
        [vec![key.clone()]].into_iter().chain(inner).collect::<Vec<_>>()
    };
    value.as_object().into_iter().flatten().flat_map(below).collect()
}

/// Removes a key, or gives it another value.
fn change(body: &mut serde_json::Value, path: &[String], value: Option<serde_json::Value>) {
    let (key, outer) = path.split_last().unwrap();
    let object = outer.iter().fold(body, |v, key| &mut v[key.as_str()]).as_object_mut().unwrap();
    match value {
        Some(value) => _ = object.insert(key.clone(), value),
        None => _ = object.remove(key),
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::json;
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|v| json!(v)),
        any::<i64>().prop_map(|v| json!(v)),
        any::<u64>().prop_map(|v| json!(v)),
        (0u64..70_000).prop_map(|v| json!(v)),
        any::<f64>().prop_map(|v| json!(v)),
        "[a-z0-9_/\"\\\\{},: ]{0,40}".prop_map(|v| json!(v)),
        "[0-9a-f]{32}".prop_map(|v| json!(v)),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| json!(v)),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4).prop_map(|v| json!(v)),
        ]
    })
}

proptest! {
    #[test]
    fn one_key_removed_or_retyped_gives_a_message_or_an_error_that_names_it(
        at: prop::sample::Index,
        value in prop::option::of(any_json()),
    ) {
        let offering = Some((Reliability::Reliable, Durability::Volatile));
        for m in [
            Message::Hello(Box::new(Hello { offering, ..hello() })),
            Message::Accept(Box::new(accept())),
        ] {
            let mut path = Vec::new();
            let decoded = with(m, |body| {
                path = at.get(&paths(body)).clone();
                change(body, &path, value.clone());
            });
            match decoded {
                Ok(m) => prop_assert_eq!(Message::decode(&m.encode().unwrap()).unwrap(), m),
                Err(e) => {
                    let (text, key) = (e.to_string(), path.last().unwrap());
                    let is_version = key == "version" && e.code() == RefusalCode::Version;
                    prop_assert!(e.code() == RefusalCode::Protocol || is_version, "{text}");
                    // Ranges are refused in words: "a ring of 1 entries" for `ring_len`.
                    prop_assert!(
                        key.split('_').any(|word| text.contains(word)),
                        "{path:?} is not \
                         named: {text}"
                    );
                    if let Some((place, _)) = text
                        .split_once(
                            "malformed: key \
                         '",
                        )
                        .and_then(|(_, rest)| rest.split_once("': "))
                    {
                        prop_assert!(
                            place == path.join(".") || path[..path.len() - 1].join(".") == place,
                            "{path:?} has another name: {text}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_give_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn any_body_gives_a_message_or_an_error(
        kind in 0u16..8,
        body in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut packet = Vec::new();
        packet.extend(MAGIC.to_le_bytes());
        packet.extend(PROTOCOL_VERSION.to_le_bytes());
        packet.extend(kind.to_le_bytes());
        packet.extend((body.len() as u32).to_le_bytes());
        packet.extend(body);
        let _ = Message::decode(&packet);
    }

    #[test]
    fn damaged_messages_never_panic_and_stay_in_range(
        at in 0usize..500,
        byte: u8,
        cut in 0usize..500,
    ) {
        for m in [Message::Hello(Box::new(hello())), Message::Accept(Box::new(accept()))] {
            let mut packet = m.encode().unwrap();
            if let Some(b) = packet.get_mut(at) {
                *b = byte;
            }
            if let Ok(Message::Accept(a)) = Message::decode(&packet) {
                prop_assert!(
                    a.layout.check().is_ok() && a.first > 0 && a.qos.depth < a.layout.ring_len
                );
            }
            packet.truncate(cut);
            let _ = Message::decode(&packet);
        }
    }
}
