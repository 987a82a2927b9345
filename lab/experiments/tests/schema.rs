// SPDX-License-Identifier: Apache-2.0
//! The schema that `bench list --schema` prints, as an editor uses it: it accepts every scenario,
//! and refuses wrong ones. The validator in this test follows JSON Schema 2020-12 and shares
//! nothing with the loader of scenarios.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use driveline_graph::{Colour, parse_document};
use driveline_lab::scenario::{builtin, load, schema};
use serde_json::{Value, json};
use std::path::Path;

/// Returns the errors, each with its place. Panics at an unknown keyword of JSON Schema, because
/// ignoring it would accept wrong files.
fn mistakes(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let words = match schema {
        Value::Bool(true) => return Vec::new(),
        Value::Bool(false) => return vec![format!("{place}: nothing may be here")],
        other => other.as_object().unwrap(),
    };
    let mut found = Vec::new();
    let wrong = |what: String| format!("{place}: {what}");
    let all = |schema: &Value, value: &Value, place: &str| mistakes(root, schema, value, place);
    let number = |limit: &Value| value.as_f64().zip(limit.as_f64());
    for (word, says) in words {
        match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => {}
            "$ref" => found.extend(all(
                root.pointer(says.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(),
                value,
                place,
            )),
            "type" => {
                let types: Vec<&str> = says.as_array().map_or_else(
                    || vec![says.as_str().unwrap()],
                    |a| a.iter().map(|t| t.as_str().unwrap()).collect(),
                );
                found.extend(
                    (!types.iter().any(|t| is(value, t)))
                        .then(|| wrong(format!("{value} is not {types:?}"))),
                );
            }
            "const" => {
                found.extend((value != says).then(|| wrong(format!("{value} is not {says}"))))
            }
            "minimum" => found.extend(
                number(says)
                    .filter(|(v, limit)| v < limit)
                    .map(|_| wrong(format!("{value} is below {says}"))),
            ),
            "maximum" => found.extend(
                number(says)
                    .filter(|(v, limit)| v > limit)
                    .map(|_| wrong(format!("{value} is above {says}"))),
            ),
            "minItems" => {
                let few =
                    value.as_array().is_some_and(|a| (a.len() as u64) < says.as_u64().unwrap());
                found.extend(few.then(|| wrong("too few items".into())));
            }
            "minProperties" => {
                let few =
                    value.as_object().is_some_and(|o| (o.len() as u64) < says.as_u64().unwrap());
                found.extend(few.then(|| wrong("too few keys".into())));
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                found.extend(items.flat_map(|(i, item)| all(says, item, &format!("{place}/{i}"))));
            }
            "required" => {
                let lacks = |key: &&Value| {
                    value.as_object().is_some_and(|o| !o.contains_key(key.as_str().unwrap()))
                };
                found.extend(
                    says.as_array()
                        .unwrap()
                        .iter()
                        .filter(lacks)
                        .map(|key| wrong(format!("{key} is missing"))),
                );
            }
            "properties" => {
                let known = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter_map(|(key, v)| Some((key, v, says.get(key)?)));
                found.extend(
                    known.flat_map(|(key, v, schema)| all(schema, v, &format!("{place}/{key}"))),
                );
            }
            "additionalProperties" => {
                let listed =
                    |key: &str| words.get("properties").is_some_and(|p| p.get(key).is_some());
                let others =
                    value.as_object().into_iter().flatten().filter(|(key, _)| !listed(key));
                found.extend(others.flat_map(|(key, v)| all(says, v, &format!("{place}/{key}"))));
            }
            "anyOf" | "oneOf" => {
                let fit = says
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|s| all(s, value, place).is_empty())
                    .count();
                let enough = if word == "anyOf" { fit > 0 } else { fit == 1 };
                found.extend(
                    (!enough).then(|| wrong(format!("{value} fits {fit} of what is possible"))),
                );
            }
            "pattern" => {
                assert_eq!(
                    says, "^[0-9]+([.][0-9]+)? *(B|kB|MB|GB|KiB|MiB|GiB)?$",
                    "the only pattern that this test knows"
                );
                found.extend(
                    value
                        .as_str()
                        .is_some_and(|text| !is_size(text))
                        .then(|| wrong(format!("{value} is no size"))),
                );
            }
            other => panic!("'{other}' is a word of JSON Schema that this test does not know"),
        }
    }
    found
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|x| x.fract() == 0.0),
        other => panic!("no type '{other}'"),
    }
}

fn is_size(text: &str) -> bool {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let (whole, part) = number
        .trim_end_matches(' ')
        .split_once('.')
        .map_or((number.trim_end_matches(' '), None), |(w, p)| (w, Some(p)));
    digits(whole)
        && part.is_none_or(digits)
        && ["", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB"].contains(&unit)
}

/// Returns the data of a file, without interpretation.
fn data(name: &str, text: &str) -> Value {
    parse_document(Path::new(name), text.to_owned())
        .unwrap_or_else(|d| panic!("{}", d.render(Colour::No)))
        .value
}

fn judged(value: &Value) -> Vec<String> {
    let schema = schema().to_value();
    mistakes(&schema, &schema, value, "")
}

#[test]
fn the_schema_knows_every_scenario_that_there_is() {
    for b in builtin() {
        assert_eq!(judged(&data(b.id, b.text)), [""; 0], "{}", b.id);
    }
    // The schema also accepts the scenario files next to the published tables, which the program
    // accepts.
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benchmarks");
    let files: Vec<_> = std::fs::read_dir(docs)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .collect();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(judged(&data("scenario.yaml", &text)), [""; 0], "{}", file.display());
        load(file.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn the_schema_refuses_what_the_program_refuses() {
    let head = "scenario: 1\nid: X\ntitle: t\nsource: s\nquestion: q\n";
    assert_eq!(
        judged(&data("x.yaml", &format!("{head}cases: {{a: {{size: 1.5 MiB, rate_hz: 30}}}}\n"))),
        [""; 0]
    );
    for (rest, place) in [
        ("cases: {a: {sise: 1}}\n", "/cases/a/sise"),
        ("cases: {a: {size: 1 XB}}\n", "/cases/a/size"),
        ("cases: {a: {size: 0}}\n", "/cases/a/size"),
        ("cases: {a: {size: many}}\n", "/cases/a/size"),
        ("cases: {a: {size: 64, subscribers: 0}}\n", "/cases/a/subscribers"),
        ("cases: {a: {size: 64, subscribers: 1.5}}\n", "/cases/a/subscribers"),
        ("cases: {a: {size: 64, reliability: sure}}\n", "/cases/a/reliability"),
        ("cases: {a: {links: {x: {size: 1, rate: 2}}}}\n", "/cases/a/links/x/rate"),
        ("cases: {a: {workload: {parameters: {}}}}\n", "/cases/a/workload"),
        ("cases: {a: {favour: {exclusive_cpu: maybe}}}\n", "/cases/a/favour"),
        ("link: {driveline_edges: [x]}\n", "/link/driveline_edges"),
        ("cases: [a, b]\n", "/cases"),
        ("answer: speed\n", "/answer"),
        ("vary: {rate_hz: [10, -5]}\n", "/vary/rate_hz/1"),
        ("vary: {subscribers: []}\n", "/vary/subscribers"),
        ("quick: {rounds: 0}\n", "/quick/rounds"),
        ("systems: []\n", "/systems"),
        ("systems: driveline\n", "/systems"),
        ("watch_every_ms: 1\n", "/watch_every_ms"),
        ("chain: {stages: {a: {work: copy, input: [x]}}, edges: {x: 1 KiB}}\n", "/chain"),
        ("published: [{mean_us: 1}]\n", "/published/0"),
        ("notes: one\n", "/notes"),
    ] {
        let found = judged(&data("x.yaml", &format!("{head}{rest}")));
        assert!(found.iter().any(|f| f.starts_with(place)), "{rest}: {found:?}");
    }
    for (was, is, place) in [
        ("scenario: 1", "scenario: 2", "/scenario"),
        ("title: t\n", "", ": \"title\""),
        ("id: X", "id: 7", "/id"),
    ] {
        let found = judged(&data("x.yaml", &format!("{}cases: {{}}\n", head.replace(was, is))));
        assert!(found.iter().any(|f| f.starts_with(place)), "{is}: {found:?}");
    }
}

#[test]
fn what_judges_here_would_see_a_mistake() {
    let schema = json!({
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"oneOf": [{"const": 1}, {"type": "integer", "maximum": 5}]}},
        "additionalProperties": false
    });
    let judged = |value: Value| mistakes(&schema, &schema, &value, "").len();
    // With `oneOf`, exactly one schema must match.
    assert_eq!(
        [
            json!({"a": 2}),
            json!({"a": 1}),
            json!({"a": 6}),
            json!({"a": 2, "b": 1}),
            json!({}),
            json!(1)
        ]
        .map(judged),
        [0, 1, 1, 1, 1, 1]
    );
    assert_eq!(
        ["1", "1.5 kB", "10  MiB", "", "MiB", "1. kB", "1 mb", "-1", "1 kB "].map(is_size),
        [true, true, true, false, false, false, false, false, false]
    );
}
