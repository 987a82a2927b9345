// SPDX-License-Identifier: Apache-2.0
//! Structural check of a file against the JSON Schema that its types generate.
//!
//! serde stops at the first mistake; this check finds all of them, each with its place. It supports
//! the subset of JSON Schema that schemars generates for the graph types; serde still catches
//! everything else.

use super::diagnostic::{Diagnostics, Span, closest, suggest};
use super::units::{self, ByteSize};
use super::yaml::{Node, Value, shorten};
use driveline_types::TopicName;
use serde_json::Value as Json;
use std::path::Path;

/// A structural finding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// Kinds of files that are easily confused: top-level key, description, and the two parts of the
/// command that checks such a file, before and after its path.
const KINDS: [(&str, &str, [&str; 2]); 2] = [
    ("driveline", "graph", ["driveline validate ", ""]),
    ("scenario", "scenario", ["driveline bench run ", " --dry-run"]),
];

/// Returns a finding if the file is of another one of these kinds than `schema` describes. This
/// finding replaces findings about unknown keys.
pub(super) fn another_kind(root: &Node, schema: &Json, path: &Path) -> Option<Finding> {
    let expected = KINDS.iter().find(|(key, ..)| !schema["properties"][key].is_null())?;
    let (is, found) = KINDS.iter().find_map(|kind| Some((kind, root.entry(kind.0)?)))?;
    if is.0 == expected.0 || root.entry(expected.0).is_some() {
        return None;
    }
    // The help names `./FILE` for a file in the current directory: `driveline bench run` takes a
    // word without `/` and `.` for the name of an experiment.
    let path =
        if path.components().count() == 1 { Path::new(".").join(path) } else { path.to_owned() };
    let [before, after] = is.2;
    Some(Finding {
        span: found.key_span,
        message: format!("this is a {}, not a {}", is.1, expected.1),
        help: Some(format!("`{before}{}{after}` checks it", path.display())),
    })
}

/// Returns everything in `root` that does not fit `schema`.
pub(super) fn check(root: &Node, schema: &Json) -> Vec<Finding> {
    let mut c = Checker {
        schema,
        definitions: &schema["$defs"],
        path: Vec::new(),
        about: None,
        inputs: Vec::new(),
        found: Vec::new(),
    };
    c.node(root, schema, root.span);
    c.found
}

struct Checker<'a> {
    /// Schema of the whole file.
    schema: &'a Json,
    definitions: &'a Json,
    path: Vec<String>,
    /// Description of the current key in the schema.
    about: Option<&'a str>,
    /// Inputs of the component under check.
    inputs: Vec<String>,
    found: Vec<Finding>,
}

/// Visitor of the schema's objects, with the keys that lead to them.
type Look<'l, 'a> = dyn FnMut(&[&'a str], &'a serde_json::Map<String, Json>) + 'l;

/// Names that DDS and ROS 2 use for keys that have another name here. Each entry: the foreign name,
/// the key that replaces it in the same mapping, and the help text.
const NAMES_OF_OTHERS: [(&str, &str, &str); 5] = [
    (
        "history",
        "depth",
        "`depth: N` alone keeps the last N samples (`keep_last` of DDS); instead of `keep_all`, \
         `reliability: reliable` makes the publisher wait for room",
    ),
    ("queue_size", "depth", "`depth: N` keeps the last N samples"),
    ("liveliness_lease_duration", "lease_ms", "write `lease_ms: N`, in milliseconds"),
    ("lease_duration", "lease_ms", "write `lease_ms: N`, in milliseconds"),
    ("max_blocking_time", "max_blocking_ms", "write `max_blocking_ms: N`, in milliseconds"),
];

fn of_others(name: &str, keys: &[&str]) -> Option<&'static str> {
    let known = NAMES_OF_OTHERS.iter().find(|(other, own, _)| *other == name && keys.contains(own));
    known.map(|(.., help)| *help)
}

impl<'a> Checker<'a> {
    fn report(&mut self, span: Span, message: String, help: Option<String>) {
        self.found.push(Finding { span, message, help });
    }

    /// Returns ` in \`a.b\``, or ` at the top of the file`.
    fn here(&self) -> String {
        if self.path.is_empty() {
            " at the top of the file".into()
        } else {
            format!(" in `{}`", self.path.join(".").replace(".[", "["))
        }
    }

    /// Name of the current value, for people: for an item of a list also the list.
    fn name(&self) -> String {
        let list = self.path.iter().rposition(|p| !p.starts_with('[')).unwrap_or_default();
        self.path
            .get(list..)
            .filter(|p| !p.is_empty())
            .map_or("the file".into(), |p| format!("`{}`", p.concat()))
    }

    fn resolve(&self, mut schema: &'a Json) -> &'a Json {
        // A chain of references longer than this would be a cycle in our own types.
        for _ in 0..8 {
            match schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
                Some(name) => schema = &self.definitions[name],
                None => break,
            }
        }
        schema
    }

    /// Checks a node. `key` is the place of its key.
    fn node(&mut self, node: &Node, schema: &'a Json, key: Span) {
        let schema = self.resolve(schema);
        if let Some(branches) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            return self.choice(node, branches, key);
        }
        if !type_names(schema).is_empty() && !fits_type(node, schema) {
            let expected = type_names(schema)
                .into_iter()
                .filter(|t| *t != "null")
                .map(for_people)
                .collect::<Vec<_>>();
            return self.wrong_type(node, &expected, key);
        }
        if let Some(constant) = schema["const"].as_str() {
            return self.text_choice(node, &[constant], &[], key);
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<&str> = values.iter().filter_map(Json::as_str).collect();
            return self.text_choice(node, &values, &[], key);
        }
        match &node.value {
            Value::Map(_) => self.map(node, schema, key),
            Value::List(items) => {
                if items.is_empty() && schema["minItems"].as_u64().is_some_and(|least| least > 0) {
                    let help = "name at least one, or remove the key".to_owned();
                    self.report(node.span, format!("{} is an empty list", self.name()), Some(help));
                }
                if let Some(items_schema) = schema.get("items") {
                    for (i, item) in items.iter().enumerate() {
                        if self.found.len() >= Diagnostics::MOST {
                            return;
                        }
                        self.path.push(format!("[{i}]"));
                        self.node(item, items_schema, item.span);
                        self.path.pop();
                    }
                }
            }
            Value::Integer(_) | Value::Float(_) => self.number(node, schema),
            Value::Text(text) => self.text(node, text, schema),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Returns the values that a schema permits, for people; of nested choices, those of each.
    fn expected(&self, schema: &'a Json) -> Vec<String> {
        let schema = self.resolve(schema);
        if let Some(constants) = constants_for_people(schema) {
            return vec![constants];
        }
        match schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            Some(branches) => branches.iter().flat_map(|b| self.expected(b)).collect(),
            None => {
                let types = type_names(schema).into_iter().filter(|t| *t != "null");
                types.map(for_people).collect()
            }
        }
    }

    fn choice(&mut self, node: &Node, branches: &'a [Json], key: Span) {
        let branches: Vec<&Json> = branches.iter().map(|b| self.resolve(b)).collect();
        let fitting: Vec<&Json> = branches.iter().copied().filter(|b| fits_type(node, b)).collect();
        let constants: Vec<&str> = fitting.iter().flat_map(|b| constants(b)).collect();
        match (&node.value, fitting.as_slice()) {
            (_, []) => {
                let mut expected: Vec<String> = Vec::new();
                for words in branches.iter().map(|b| self.expected(b)) {
                    expected.extend(
                        words.into_iter().filter(|w| !expected.contains(w)).collect::<Vec<_>>(),
                    );
                }
                self.wrong_type(node, &expected, key);
            }
            (Value::Text(_), _) if !constants.is_empty() => {
                self.text_choice(node, &constants, &mappings(&branches), key);
            }
            (Value::Map(_), [_, _, ..]) => self.tagged(node, &fitting, key),
            (_, [first, ..]) => self.node(node, first, key),
        }
    }

    /// Checks one of several mappings, which are distinguished by a key with a constant value.
    fn tagged(&mut self, node: &Node, branches: &[&'a Json], key: Span) {
        let tag_of = |b: &'a Json| -> Option<(&'a str, &'a str)> {
            b["properties"]
                .as_object()?
                .iter()
                .find_map(|(k, v)| Some((k.as_str(), v["const"].as_str()?)))
        };
        let Some((tag, _)) = branches.first().and_then(|b| tag_of(b)) else {
            return self.node(node, branches[0], key);
        };
        let values: Vec<&str> = branches.iter().filter_map(|b| tag_of(b)).map(|(_, v)| v).collect();
        let Some(entry) = node.entry(tag) else {
            let help = format!("write one of `{tag}: {}`", values.join(&format!("`, `{tag}: ")));
            return self.report(key, format!("{} needs the key `{tag}`", self.name()), Some(help));
        };
        match branches.iter().find(
            |b| matches!((tag_of(b), &entry.value.value), (Some((_, v)), Value::Text(t)) if v == t),
        ) {
            Some(branch) => self.map(node, branch, key),
            None => {
                self.path.push(tag.to_owned());
                self.text_choice(&entry.value, &values, &[], entry.key_span);
                self.path.pop();
            }
        }
    }

    fn map(&mut self, node: &Node, schema: &'a Json, key: Span) {
        let properties = schema["properties"].as_object();
        if node.entries().next().is_none()
            && schema["minProperties"].as_u64().is_some_and(|least| least > 0)
        {
            let help = "name at least one, or remove the key".to_owned();
            self.report(node.span, format!("{} is empty", self.name()), Some(help));
        }
        if properties.is_some_and(|p| p.contains_key("inputs")) {
            self.inputs = node
                .entry("inputs")
                .map(|e| e.value.entries().map(|(k, _)| k.clone()).collect())
                .unwrap_or_default();
        }
        for (name, entry) in node.entries() {
            if self.found.len() >= Diagnostics::MOST {
                return;
            }
            let known = properties.and_then(|p| p.get(name));
            let schema = match (known, &schema["additionalProperties"]) {
                (Some(s), _) => s,
                (None, Json::Bool(false)) => {
                    let keys = properties
                        .map(|p| p.keys().map(String::as_str).collect::<Vec<_>>())
                        .unwrap_or_default();
                    let elsewhere = self.elsewhere(name);
                    let near = closest(name, keys.iter().copied());
                    let help = match (near, elsewhere.is_empty()) {
                        _ if let Some(known) = of_others(name, &keys) => known.to_owned(),
                        (Some(near), false) => format!("did you mean `{near}`? {elsewhere}"),
                        (None, false) => elsewhere,
                        (_, true) => suggest(name, "known keys", keys),
                    };
                    let message = format!("unknown key `{}`{}", shorten(name), self.here());
                    self.report(entry.key_span, message, Some(help));
                    continue;
                }
                (None, any @ Json::Object(_)) => any,
                _ => continue,
            };
            self.path.push(shorten(name));
            let outer = std::mem::replace(&mut self.about, schema["description"].as_str());
            self.node(&entry.value, schema, entry.key_span);
            self.about = outer;
            self.path.pop();
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
        {
            if node.entry(required).is_none() {
                let schema = &schema["properties"][required];
                let example = match required {
                    _ if let Some(format) =
                        self.format_of_file(schema).filter(|_| self.path.is_empty()) =>
                    {
                        Some(format!(
                            "add `{required}: {format}` as the first line: the format of the file"
                        ))
                    }
                    "on" if !self.inputs.is_empty() => {
                        let inputs =
                            self.inputs.iter().take(12).map(|i| shorten(i)).collect::<Vec<_>>();
                        Some(format!(
                            "name the input that triggers: `on: {}`",
                            inputs.join("` or `on: ")
                        ))
                    }
                    _ => self.how_to_write(required, schema),
                };
                self.report(
                    key,
                    format!("the key `{required}` is missing{}", self.here()),
                    example,
                );
            }
        }
    }

    /// Returns the number if the schema permits only one. The key at the top of a file that states
    /// the file's format has such a schema.
    fn format_of_file(&self, schema: &Json) -> Option<u64> {
        schema["minimum"].as_u64().filter(|only| schema["maximum"].as_u64() == Some(*only))
    }

    /// Describes where in the file `key` is valid, if it is not valid at the current place. Only
    /// the places nearest to the top are listed. Returns an empty text if the key is valid nowhere,
    /// or if it is valid at the current place with another form of the value.
    fn elsewhere(&self, key: &str) -> String {
        // Deeper keys are within nested lists and mappings, which are unlikely for a misplaced key.
        const DEEPEST: usize = 3;
        let mut level: Vec<(Vec<&'a str>, &'a Json)> = vec![(Vec::new(), self.schema)];
        for _ in 0..=DEEPEST {
            let (mut places, mut next) = (Vec::new(), Vec::new());
            for (path, schema) in level {
                self.inside(path, schema, &mut |path, properties| {
                    if properties.contains_key(key) && !path.is_empty() {
                        places.push(path.to_vec());
                    }
                    next.extend(
                        properties
                            .iter()
                            .map(|(name, schema)| ([path, &[name.as_str()]].concat(), schema)),
                    );
                });
            }
            places.dedup();
            let is_here = |path: &Vec<&str>| {
                let any_item = |p: &str, own: &String| p == "[]" && own.starts_with('[');
                path.len() == self.path.len()
                    && path
                        .iter()
                        .zip(&self.path)
                        .all(|(p, own)| p == own || *p == "NAME" || any_item(p, own))
            };
            if places.iter().any(is_here) {
                return String::new();
            }
            if !places.is_empty() {
                let named: Vec<String> = places
                    .iter()
                    .map(|path| format!("`{}`", path.join(".").replace(".[", "[")))
                    .collect();
                return format!("`{}` goes into {}", shorten(key), named.join(" or "));
            }
            level = next;
        }
        String::new()
    }

    /// Visits the keys that a schema lists, and the keys within its lists and within its mappings
    /// with arbitrary names.
    fn inside(&self, path: Vec<&'a str>, schema: &'a Json, look: &mut Look<'_, 'a>) {
        // More than two steps without a named key: this is a recursive type, such as that of
        // parameter values. It has no named keys, and visiting it would not end.
        let unnamed = path.iter().rev().take_while(|p| ["NAME", "[]"].contains(p)).count();
        if unnamed > 2 {
            return;
        }
        let schema = self.resolve(schema);
        for branch in
            ["anyOf", "oneOf"].into_iter().filter_map(|word| schema[word].as_array()).flatten()
        {
            self.inside(path.clone(), branch, look);
        }
        if let Some(properties) = schema["properties"].as_object() {
            look(&path, properties);
        }
        if schema["additionalProperties"].is_object() {
            self.inside([&path[..], &["NAME"]].concat(), &schema["additionalProperties"], look);
        }
        if schema["items"].is_object() {
            self.inside([&path[..], &["[]"]].concat(), &schema["items"], look);
        }
    }

    /// Shows the form of a missing key.
    fn how_to_write(&self, key: &str, schema: &'a Json) -> Option<String> {
        let about =
            schema["description"].as_str().map(|about| format!("`{key}:` {}", one_line(about)));
        match constants(self.resolve(schema)).as_slice() {
            [] => about,
            values => {
                let write = format!("rite `{key}: {}`", values.join(&format!("` or `{key}: ")));
                Some(about.map_or_else(|| format!("w{write}"), |about| format!("{about} W{write}")))
            }
        }
    }

    fn number(&mut self, node: &Node, schema: &Json) {
        let value = match node.value {
            Value::Integer(i) => i as f64,
            Value::Float(f) => f,
            _ => return,
        };
        let by_format = match schema["format"].as_str() {
            Some("uint32") => Some(f64::from(u32::MAX)),
            Some("uint16") => Some(f64::from(u16::MAX)),
            _ => None,
        };
        let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64().or(by_format));
        if least.is_some_and(|m| value < m) || most.is_some_and(|m| value > m) {
            if let (Some(format), 1) = (self.format_of_file(schema), self.path.len()) {
                let help = format!("this release reads format {format}");
                return self.report(node.span, format!("the file has format {value}"), Some(help));
            }
            let help = match (least, most) {
                (Some(a), Some(b)) if a == b => format!("it must be {a}"),
                (Some(a), Some(b)) => format!("it must be between {a} and {b}"),
                (Some(a), None) => format!("it must be at least {a}"),
                (None, b) => format!("it must be at most {}", b.unwrap_or(f64::MAX)),
            };
            self.report(
                node.span,
                format!("{} is out of range: {}", self.name(), number(value)),
                Some(help),
            );
        }
    }

    fn text(&mut self, node: &Node, text: &str, schema: &Json) {
        let fault = match schema["format"].as_str() {
            Some("byte-size") => text.parse::<ByteSize>().err().map(|e| e.to_string()),
            Some("domain") => driveline_shm::domain::check_name(text).err().map(|e| e.to_string()),
            Some("name") => text.parse::<TopicName>().err().map(|e| e.to_string()),
            _ => None,
        };
        if let Some(message) = fault {
            let meant = if schema["format"] == "byte-size" { units::meant(text) } else { None };
            self.report(node.span, message, meant.map(|meant| format!("did you mean `{meant}`?")));
        }
    }

    /// Checks a text that must be one of `values`. `mappings`: mappings that are possible instead.
    fn text_choice(&mut self, node: &Node, values: &[&str], mappings: &[String], key: Span) {
        match &node.value {
            Value::Text(t) if values.contains(&t.as_str()) => {}
            Value::Text(t) => {
                let all = values.iter().copied().chain(mappings.iter().map(String::as_str));
                let help = suggest(t, "possible values", all);
                self.report(
                    node.span,
                    format!("{} cannot be `{}`", self.name(), shorten(t)),
                    Some(help),
                );
            }
            _ => self.wrong_type(node, &[format!("one of `{}`", values.join("`, `"))], key),
        }
    }

    fn wrong_type(&mut self, node: &Node, expected: &[String], key: Span) {
        let span = if node.value == Value::Null { key } else { node.span };
        let help = match (&node.value, expected) {
            (Value::Null, _) => Some("give it a value or remove the key".to_owned()),
            (Value::Integer(_) | Value::Float(_) | Value::Bool(_), [only]) if only == "text" => {
                Some("put it in quotes".to_owned())
            }
            (Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Text(_), [only])
                if only == "a list" =>
            {
                let key = self.path.last().map_or("", String::as_str);
                let value = match &node.value {
                    Value::Integer(i) => i.to_string(),
                    Value::Float(f) => f.to_string(),
                    Value::Bool(b) => b.to_string(),
                    Value::Text(t) => shorten(t),
                    _ => String::new(),
                };
                Some(if key.starts_with('[') {
                    format!("write a list: `[{value}]`")
                } else {
                    format!("write a list: `{key}: [{value}]`")
                })
            }
            (Value::List(items), [only]) if only == "text" => match items.as_slice() {
                [Node { value: Value::Text(t), .. }] => {
                    Some(format!("write one value, without brackets: `{}`", shorten(t)))
                }
                _ => Some("write one value, without brackets".to_owned()),
            },
            (Value::Text(t), [only]) if only != "text" && t.parse::<f64>().is_ok() => {
                Some("remove the quotes".to_owned())
            }
            (Value::Text(t), [only]) if only == "a number" || only == "an integer" => {
                let key =
                    self.path.iter().rev().find(|p| !p.starts_with('[')).map_or("", String::as_str);
                let about = self.about.map(one_line);
                let plain = plain_number(key, t);
                if plain.is_some() {
                    Some(about.into_iter().chain(plain).collect::<Vec<_>>().join(" "))
                } else {
                    about
                }
            }
            _ => self.about.map(one_line),
        };
        let expected = expected.join(" or ");
        self.report(
            span,
            format!("{} needs {expected}, and this is {}", self.name(), node.describe()),
            help,
        );
    }
}

/// Shows how to write a quantity whose key has the unit in its name.
fn plain_number(key: &str, text: &str) -> Option<String> {
    const TIMES: [(&str, f64); 6] =
        [("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3), ("sec", 1e3), ("min", 60e3)];
    const RATES: [(&str, f64); 2] = [("hz", 1.0), ("khz", 1e3)];
    let (units, what, of_key): (&[_], _, _) = match key.rsplit_once('_')?.1 {
        "ms" => (&TIMES, "milliseconds", 1.0),
        "us" => (&TIMES, "microseconds", 1e-3),
        "s" => (&TIMES, "seconds", 1e3),
        "hz" => (&RATES, "hertz", 1.0),
        _ => return None,
    };
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let factor = units.iter().find(|(u, _)| *u == unit.trim().to_lowercase())?.1;
    // Rounded, to remove the digits that binary fractions add.
    let value = (number * factor / of_key * 1e6).round() / 1e6;
    Some(format!("Write a plain number, which is in {what}: `{key}: {value}`"))
}

/// Formats a number for people; a very large or very small one gets an exponent.
fn number(value: f64) -> String {
    let plain = value == 0.0 || (1e-6..1e15).contains(&value.abs());
    if plain { value.to_string() } else { format!("{value:e}") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn type_names(schema: &Json) -> Vec<&str> {
    match &schema["type"] {
        Json::String(t) => vec![t],
        Json::Array(list) => list.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits_type(node: &Node, schema: &Json) -> bool {
    type_names(schema).into_iter().any(|t| {
        matches!(
            (t, &node.value),
            ("null", Value::Null)
                | ("boolean", Value::Bool(_))
                | ("integer", Value::Integer(_))
                | ("number", Value::Integer(_) | Value::Float(_))
                | ("string", Value::Text(_))
                | ("array", Value::List(_))
                | ("object", Value::Map(_))
        )
    }) || schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))
        .and_then(Json::as_array)
        .is_some_and(|b| b.iter().any(|b| fits_type(node, b)))
}

fn constants(schema: &Json) -> Vec<&str> {
    let one = schema["const"].as_str().into_iter();
    let listed = schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let nested = schema["oneOf"].as_array().into_iter().flatten().flat_map(constants);
    one.chain(listed).chain(nested).collect()
}

/// Returns the mappings with a single key among the branches, as they are written.
fn mappings(branches: &[&Json]) -> Vec<String> {
    let nested = |b: &Json| -> Vec<String> {
        mappings(&b["oneOf"].as_array().into_iter().flatten().collect::<Vec<_>>())
    };
    let own = |b: &Json| match b["properties"].as_object()?.iter().collect::<Vec<_>>()[..] {
        [(key, value)] if value["type"] == "string" => Some(format!("{{ {key}: NAME }}")),
        [(key, value)] if value["items"]["type"] == "integer" => {
            Some(format!("{{ {key}: [NUMBER] }}"))
        }
        _ => None,
    };
    branches.iter().flat_map(|b| own(b).into_iter().chain(nested(b))).collect()
}

fn constants_for_people(schema: &Json) -> Option<String> {
    let all = constants(schema);
    (!all.is_empty()).then(|| format!("`{}`", all.join("`, `")))
}

fn for_people(json_type: &str) -> String {
    match json_type {
        "integer" => "an integer",
        "number" => "a number",
        "string" => "text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a mapping",
        other => other,
    }
    .to_owned()
}
