// SPDX-License-Identifier: Apache-2.0
//! Checks `docs/protocols/shm.md` against the code: keys, spellings, offsets and the worked
//! examples.
use super::*;
use crate::layout::{
    AFAR_BEFORE_AT, AFAR_COUNT_AT, AFAR_PUBLISHER_AT, ARMED_APART_AT, ARMED_AT, CURSOR_AT,
    HEARTBEAT_AT, LATEST_AT, MAGIC_AT, MAX_INTERVAL_AT, PINS_AT, RING_AT, VERSION_AT, WAITING_AT,
};
use crate::limits::OBSERVER_PINS;
use driveline_types::{Liveliness, PayloadKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/shm.md");
    std::fs::read_to_string(path).unwrap()
}

/// The text below a heading, up to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("the page has no heading {heading:?}"));
    rest.split_once("\n#").map_or(rest, |(text, _)| text)
}

/// Cells of the first table of a section, without its head; code marks are removed.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let lines = section(page, heading)
        .lines()
        .skip_while(|l| !l.starts_with('|'))
        .take_while(|l| l.starts_with('|'));
    let cells =
        |l: &str| l.trim_matches('|').split('|').map(|c| c.trim().replace('`', "")).collect();
    let rows: Vec<Vec<String>> = lines.skip(2).map(cells).collect();
    assert!(!rows.is_empty(), "{heading} has no table");
    rows
}

fn lane_hello() -> Hello {
    Hello {
        topic: "camera/image".parse().unwrap(),
        node: "lane".parse().unwrap(),
        schema: Some(Schema::bytes("demo/Image", "raw", "")),
        qos: Qos::default(),
        offering: None,
        pins: 2,
        observer: false,
        subscription: EndpointId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        participant: EndpointId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20),
        pid: 4711,
        oldest_version: 1,
        newest_version: 1,
        armed_apart: true,
        refuse: None,
    }
}

fn camera_accept() -> Accept {
    Accept {
        publisher: EndpointId(0x2122_2324_2526_2728_292a_2b2c_2d2e_2f30),
        node: "camera".parse().unwrap(),
        pid: 4712,
        schema: Schema::bytes("demo/Image", "raw", ""),
        qos: Qos::default(),
        layout: Layout { slots: 15, ring_len: 3, max_payload: 4096 },
        first: 1,
        version: 1,
        armed_apart: true,
    }
}

fn no_checksum() -> Refuse {
    Refuse::new(RefusalCode::Qos, "topic 'camera/image': no checksums")
}

/// Messages in which every key is written, each with the tables that describe its objects.
fn described() -> [(Message, &'static [(&'static str, &'static str)]); 3] {
    let offering = Some((Reliability::Reliable, Durability::Volatile));
    let hello = Hello { offering, refuse: Some(no_checksum()), ..lane_hello() };
    [
        (
            Message::Hello(Box::new(hello)),
            &[
                ("### HELLO", ""),
                ("### Schema", "/schema"),
                ("### QoS", "/qos"),
                ("### REFUSE", "/refuse"),
            ],
        ),
        (
            Message::Accept(Box::new(camera_accept())),
            &[
                ("### ACCEPT", ""),
                ("### Schema", "/schema"),
                ("### QoS", "/qos"),
                ("### Layout", "/layout"),
            ],
        ),
        (Message::Refuse(no_checksum()), &[("### REFUSE", "")]),
    ]
}

fn body_of(message: &Message) -> Value {
    serde_json::from_slice(&message.encode().unwrap()[FRAME_LEN..]).unwrap()
}

/// Decodes the message with another body.
fn decode_with(message: &Message, body: &Value) -> Result<Message, WireError> {
    let mut packet = message.encode().unwrap()[..8].to_vec();
    let body = body.to_string();
    packet.extend((body.len() as u32).to_le_bytes());
    packet.extend(body.as_bytes());
    Message::decode(&packet)
}

/// Calls `f` for each row of each table with the message, its body, and the path of the object that
/// has the key.
fn for_each_key(mut f: impl FnMut(&Message, &Value, &str, &[String])) {
    let page = page();
    for (message, tables) in described() {
        let body = body_of(&message);
        for (heading, path) in tables {
            table(&page, heading).iter().for_each(|row| f(&message, &body, path, row));
        }
    }
}

fn object_at<'a>(body: &'a mut Value, path: &str) -> &'a mut serde_json::Map<String, Value> {
    body.pointer_mut(path).unwrap().as_object_mut().unwrap()
}

fn decode_replaced(
    message: &Message,
    body: &Value,
    path: &str,
    key: &str,
    value: Value,
) -> Result<Message, WireError> {
    let mut body = body.clone();
    object_at(&mut body, path).insert(key.to_owned(), value);
    decode_with(message, &body)
}

#[test]
fn the_page_has_each_key_and_no_other() {
    let page = page();
    for (message, tables) in described() {
        let mut body = body_of(&message);
        for (heading, path) in tables {
            let listed: BTreeSet<String> =
                table(&page, heading).into_iter().map(|row| row[0].clone()).collect();
            let written: BTreeSet<String> = object_at(&mut body, path).keys().cloned().collect();
            assert_eq!(listed, written, "{heading}: left the page, right the encoder");
        }
    }
}

#[test]
fn required_keys_are_required_and_others_have_the_default_of_the_page() {
    for_each_key(|message, body, path, row| {
        let (key, default) = (&row[0], &row[2]);
        let mut without = body.clone();
        object_at(&mut without, path).remove(key);
        let decoded = decode_with(message, &without);
        if default == "required" {
            let e = decoded.expect_err(key);
            assert_eq!(e.code(), RefusalCode::Protocol);
            assert!(e.to_string().contains(&format!("missing field `{key}`")), "{path}/{key}: {e}");
        } else {
            let value: Value = serde_json::from_str(default)
                .unwrap_or_else(|e| panic!("{key}: default {default}: {e}"));
            assert_eq!(
                decoded.unwrap(),
                decode_replaced(message, body, path, key, value).unwrap(),
                "{path}/{key}"
            );
        }
    });
}

#[test]
fn values_have_the_types_of_the_page() {
    for_each_key(|message, body, path, row| {
        let (key, kind) = (&row[0], row[1].trim_end_matches(" or null"));
        let decoded = |value: &Value| decode_replaced(message, body, path, key, value.clone());
        assert_eq!(
            decoded(&Value::Null).is_ok(),
            row[1].ends_with(" or null"),
            "{path}/{key}: null"
        );
        let (own, bits): (&str, Option<u32>) = match kind {
            "name" | "id" | "string" => ("string", None),
            "object" | "array" | "boolean" => (kind, None),
            "u16" => ("number", Some(16)),
            "u32" => ("number", Some(32)),
            "u64" => ("number", Some(64)),
            other => panic!("{key}: the page has the type {other:?}"),
        };
        let others = [
            ("boolean", json!(true)),
            ("number", json!(1)),
            ("string", json!("a")),
            ("array", json!([])),
            ("object", json!({})),
        ];
        for (_, value) in others.iter().filter(|(name, _)| *name != own) {
            let e = decoded(value).expect_err(&format!("{path}/{key}: {value} is accepted"));
            assert_eq!(e.code(), RefusalCode::Protocol);
        }
        if let Some(bits) = bits {
            let beyond = (1u128 << bits).to_string();
            for value in
                ["-1", "1.5", beyond.as_str()].map(|v| serde_json::from_str::<Value>(v).unwrap())
            {
                assert!(decoded(&value).is_err(), "{path}/{key}: {value} is accepted");
            }
        }
        if kind == "id" {
            for wrong in ["1", &"g".repeat(32), &format!("+{}", "1".repeat(31))] {
                assert!(decoded(&json!(wrong)).is_err(), "{path}/{key}: {wrong} is accepted");
            }
            assert!(decoded(&json!("AbCdEf0123456789AbCdEf0123456789")).is_ok());
        }
    });
}

/// "1 to 1000" in the column of the meaning.
fn range(meaning: &str) -> Option<(u64, u64)> {
    let (before, after) = meaning.split_once(" to ")?;
    let low = before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some((low, after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?))
}

#[test]
fn ranges_of_the_page_are_those_that_are_accepted() {
    let mut checked = BTreeSet::new();
    for_each_key(|message, body, path, row| {
        let Some((low, high)) = range(&row[3]) else { return };
        let accepts = |n: u64| decode_replaced(message, body, path, &row[0], json!(n)).is_ok();
        assert!(accepts(low) && accepts(high) && !accepts(high + 1), "{path}/{}", row[0]);
        assert!(low == 0 || !accepts(low - 1), "{path}/{}", row[0]);
        checked.insert(row[0].clone());
    });
    assert_eq!(
        checked,
        ["first", "max_payload", "pins", "ring_len", "slots"].map(String::from).into()
    );
}

/// Spellings of all values of an enumeration; a new value does not compile until it is listed.
macro_rules! spellings {
    ($kind:ident: $($value:ident),*) => {{
        let _ = |x: $kind| match x { $($kind::$value => ()),* };
        [$(serde_json::to_value($kind::$value).unwrap().as_str().unwrap().to_owned()),*].into_iter()
    }};
}

#[test]
fn the_page_has_each_spelling_and_no_other() {
    let mut spelled = BTreeSet::new();
    spelled.extend(
        spellings!(PayloadKind: Plain, Protobuf, Object, Bytes).map(|s| ("kind".to_owned(), s)),
    );
    spelled.extend(
        spellings!(Reliability: BestEffort, Reliable).map(|s| ("reliability".to_owned(), s)),
    );
    spelled.extend(
        spellings!(Durability: Volatile, TransientLocal).map(|s| ("durability".to_owned(), s)),
    );
    spelled.extend(
        spellings!(Liveliness: Automatic, ManualByTopic).map(|s| ("liveliness".to_owned(), s)),
    );
    let page = page();
    let listed: BTreeSet<_> = table(&page, "### Spellings")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(listed, spelled, "left the page, right the code");

    let codes = spellings!(
        RefusalCode: Type, Qos, Access, Pins, Limit, Version, Protocol, PassedOver, Silent, System,
            Other
    );
    let later = |code: &str| {
        let code: RefusalCode = serde_json::from_value(json!(code)).unwrap();
        if code.may_pass() { "yes" } else { "no" }.to_owned()
    };
    let codes: BTreeMap<_, _> = codes.map(|code| (code.clone(), later(&code))).collect();
    let listed: BTreeMap<_, _> = table(&page, "### Refusal codes")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(listed, codes, "left the page, right the code");
}

#[test]
fn offsets_of_segment_and_page_are_those_of_the_code() {
    let offsets = |heading: &str| -> Vec<usize> {
        table(&page(), heading).iter().filter_map(|row| row[0].parse().ok()).collect()
    };
    assert_eq!(
        offsets("### Segment"),
        [
            MAGIC_AT,
            VERSION_AT,
            LATEST_AT,
            HEARTBEAT_AT,
            MAX_INTERVAL_AT,
            WAITING_AT,
            AFAR_PUBLISHER_AT,
            AFAR_BEFORE_AT,
            AFAR_COUNT_AT,
            RING_AT
        ]
    );
    assert_eq!(offsets("### Page"), [ARMED_AT, CURSOR_AT, PINS_AT, ARMED_APART_AT]);
}

#[test]
fn layouts_of_the_page_are_those_of_the_code() {
    let (_, by_example) =
        page().split_once("| depth | loans |").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let rows = by_example.lines().skip(2).take_while(|l| l.starts_with('|'));
    let mut payloads = BTreeSet::new();
    for row in rows {
        let n: Vec<usize> =
            row.trim_matches('|').split('|').map(|c| c.trim().parse().unwrap()).collect();
        let l = Layout::new(n[0], n[1], n[2] + OBSERVER_PINS as usize, n[3]).unwrap();
        let computed = [
            l.ring_len as usize,
            l.slots as usize,
            l.meta_at(0),
            l.payload_at(0),
            l.stride(),
            l.payload_at(1),
            l.len(),
        ];
        assert_eq!(n[4..], computed, "{row}");
        payloads.insert(n[3]);
    }
    assert!(payloads.is_superset(&[4095, 4096, 4097].into()), "{payloads:?}");
}

#[test]
fn kinds_of_messages_and_their_longest_length_are_those_of_the_code() {
    let page = page();
    let messages = section(&page, "## 2. Messages");
    let mut kinds = BTreeMap::new();
    for m in
        described().map(|(m, _)| m).into_iter().chain([Message::List, Message::Listing(Vec::new())])
    {
        let name = match &m {
            Message::Hello(_) => "HELLO",
            Message::Accept(_) => "ACCEPT",
            Message::Refuse(_) => "REFUSE",
            Message::List => "LIST",
            Message::Listing(_) => "LISTING",
        };
        kinds.insert(m.encode().unwrap()[6].to_string(), name.to_owned());
    }
    let cells =
        messages.lines().filter_map(|l| l.strip_prefix("| ")?.split(" | ").next()?.split_once(' '));
    let listed: BTreeMap<_, _> = cells.map(|(n, name)| (n.to_owned(), name.to_owned())).collect();
    assert_eq!(listed, kinds, "left the page, right the code");
    assert_eq!(MAX_MESSAGE_LEN, 163_840);
    assert!(messages.contains("at most 163 840 bytes"));
}

/// Returns the bytes as `hexdump -C` prints them, without the last line.
fn dump(bytes: &[u8]) -> String {
    let line = |(i, chunk): (usize, &[u8])| {
        let hex: Vec<String> = chunk.iter().map(|b| format!("{b:02x}")).collect();
        let text: String = chunk
            .iter()
            .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
            .collect();
        format!("{:08x}  {:47}  |{text}|", i * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn bytes_of(dump: &str) -> Vec<u8> {
    let hex = |l: &str| {
        l[10..57].split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect::<Vec<_>>()
    };
    dump.lines().flat_map(hex).collect()
}

#[test]
fn the_worked_exchange_is_what_the_encoder_writes() {
    let page = page();
    let exchange = section(&page, "### A worked exchange");
    let id = lane_hello().topic.id();
    assert!(exchange.contains(&format!("`p-{id}-…`")), "the socket's name begins with p-{id}-");
    let dumps: Vec<&str> = exchange
        .split("```text\n")
        .skip(1)
        .map(|rest| rest.split_once("\n```").unwrap().0)
        .collect();
    let messages = [
        Message::Hello(Box::new(lane_hello())),
        Message::Accept(Box::new(camera_accept())),
        Message::Refuse(no_checksum()),
    ];
    assert_eq!(dumps.len(), messages.len());
    for (printed, message) in dumps.into_iter().zip(messages) {
        let packet = message.encode().unwrap();
        assert_eq!(printed, dump(&packet), "the page needs:\n{}\n", dump(&packet));
        assert_eq!(Message::decode(&bytes_of(printed)), Ok(message));
    }
}
