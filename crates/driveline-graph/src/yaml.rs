// SPDX-License-Identifier: Apache-2.0
//! YAML text as a tree in which every key and value has its place.
//!
//! The parser yields events; the tree is built here without recursion and within fixed bounds, so
//! that no text can exhaust the stack or the memory. Anchors and aliases work; merge keys, tags and
//! several documents do not.

use super::diagnostic::Span;
use indexmap::IndexMap;
use indexmap::map::Entry as Slot;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::HashMap;

/// Longest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: usize = 4 << 20;
/// Maximum number of values in one file. A value with an anchor counts twice, because a copy is
/// kept. An alias counts as all values that it repeats.
pub(super) const MAX_NODES: usize = 200_000;
/// Maximum number of bytes of text in the values of one file.
pub(super) const MAX_TEXT_BYTES: usize = 16 << 20;
/// Maximum depth of nesting.
pub(super) const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Entries),
}

/// A mapping, in the order of the file.
pub(super) type Entries = IndexMap<String, Entry>;

/// Entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key_span: Span,
    pub(super) value: Node,
}

/// A part of a text that cannot be read as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// Place and name of the conflicting entry.
    pub(super) other: Option<(Span, String)>,
}

impl Fault {
    fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None, other: None }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Node {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.get(key),
            _ => None,
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        let entries = match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        };
        entries.into_iter().flatten()
    }

    /// Name of this kind of value, for people.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Bool(b) => format!("the boolean {b}"),
            Value::Integer(i) => format!("the integer {i}"),
            Value::Float(f) => format!("the number {f}"),
            Value::Text(t) => format!("the text {:?}", shorten(t)),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
        }
    }

    fn size(&self) -> Size {
        let inside = match &self.value {
            Value::Text(text) => Size { nodes: 0, bytes: text.len() },
            Value::List(items) => items.iter().map(Node::size).fold(Size::default(), Size::and),
            Value::Map(entries) => {
                let of = |(key, e): (&String, &Entry)| {
                    e.value.size().and(Size { nodes: 0, bytes: key.len() })
                };
                entries.iter().map(of).fold(Size::default(), Size::and)
            }
            _ => Size::default(),
        };
        inside.and(Size { nodes: 1, bytes: 0 })
    }
}

/// Size of a tree.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    fn and(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Cuts a text to a length that fits into a message.
pub(super) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

/// A container whose end has not been seen yet.
struct Open {
    span: Span,
    anchor: usize,
    key: Option<(String, Span)>,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Entries),
}

struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    size: Size,
    root: Option<Node>,
    faults: Vec<Fault>,
}

/// Reads one document. Empty text gives an empty mapping.
///
/// Faults that leave a usable tree (duplicate keys) are returned with the tree. The tree then has
/// the first of both entries.
pub(super) fn parse(text: &str) -> (Option<Node>, Vec<Fault>) {
    let nothing = Span::default();
    if text.len() > MAX_FILE_BYTES {
        let fault = Fault::new(
            nothing,
            format!("the file has {} bytes; at most {MAX_FILE_BYTES} are read", text.len()),
        );
        return (None, vec![fault.help("split it and use `include:`")]);
    }
    let mut b = Builder {
        open: Vec::new(),
        anchors: HashMap::new(),
        size: Size::default(),
        root: None,
        faults: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let (event, at) = match event {
            Ok(e) => e,
            Err(e) => {
                let span = Span::at(e.marker().line(), e.marker().col() + 1, 1);
                let fault = broken(text, span, e.info());
                let fault = match b.unclosed(text, span) {
                    Some(help) if fault.help.is_none() => fault.help(help),
                    _ => fault,
                };
                b.faults.push(fault);
                return (None, b.faults);
            }
        };
        let len = if at.start.line() == at.end.line() {
            at.end.col().saturating_sub(at.start.col())
        } else {
            1
        };
        let span = Span::at(at.start.line(), at.start.col() + 1, len);
        if let Err(fault) = b.event(event, span) {
            b.faults.push(fault);
            return (None, b.faults);
        }
    }
    let root = b.root.unwrap_or(Node { span: nothing, value: Value::Map(Entries::new()) });
    // A file with comments only is an empty graph, not a null.
    let root = if root.value == Value::Null {
        Node { value: Value::Map(Entries::new()), ..root }
    } else {
        root
    };
    (Some(root), b.faults)
}

impl Builder {
    /// Returns a hint that a bracket of an earlier line may not be closed, if the text that makes
    /// no sense is within such a bracket.
    fn unclosed(&self, text: &str, at: Span) -> Option<String> {
        let bracket = |span: Span| {
            text.lines()
                .nth((span.line as usize).checked_sub(1)?)?
                .chars()
                .nth((span.column as usize).checked_sub(1)?)
        };
        let (line, open, close) =
            self.open.iter().rev().filter(|o| o.span.line < at.line).find_map(
                |o| match bracket(o.span)? {
                    '{' => Some((o.span.line, '{', '}')),
                    '[' => Some((o.span.line, '[', ']')),
                    _ => None,
                },
            )?;
        Some(format!(
            "the `{open}` in line {line} is not closed before this: is a `{close}` missing there?"
        ))
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(tag) = tag {
                    return Err(no_tags(span, &tag.to_string()));
                }
                // A key is the text as it stands, so `1:` and `on:` are ordinary names.
                let wants_key = matches!(
                    self.open.last(),
                    Some(Open { key: None, content: Content::Map(_), .. })
                );
                let value = if style == ScalarStyle::Plain && !wants_key {
                    plain(&text, span)?
                } else {
                    Value::Text(text.into_owned())
                };
                self.finish(Node { span, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Content::List(Vec::new()), anchor, span, tag.map(|t| t.to_string()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(Content::Map(Entries::new()), anchor, span, tag.map(|t| t.to_string()))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let value = match open.content {
                    Content::List(items) => Value::List(items),
                    Content::Map(entries) => Value::Map(entries),
                };
                self.finish(Node { span: open.span, value }, open.anchor)
            }
            Event::Alias(anchor) => {
                let Some(size) = self.anchors.get(&anchor).map(Node::size) else {
                    return Err(Fault::new(
                        span,
                        "this alias stands inside the value that it names",
                    )
                    .help("an alias can only repeat a finished value"));
                };
                // Counted before the copy is made.
                self.grow(size, span)?;
                match self.anchors.get(&anchor).cloned() {
                    Some(node) => self.place(Node { span, ..node }),
                    None => Ok(()),
                }
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(Fault::new(span, "a second document starts here, and a file is one document")
                    .help("move it into a file of its own; graphs name that under `include:`"))
            }
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        content: Content,
        anchor: usize,
        span: Span,
        tag: Option<String>,
    ) -> Result<(), Fault> {
        if let Some(tag) = tag {
            return Err(no_tags(span, &tag));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::new(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        if matches!(self.open.last(), Some(Open { key: None, content: Content::Map(_), .. })) {
            return Err(Fault::new(
                span,
                "a key must be a single word or quoted text, not a list or mapping",
            ));
        }
        self.open.push(Open { span: Span { len: 1, ..span }, anchor, key: None, content });
        Ok(())
    }

    /// Counts the size of a value that will be kept.
    fn grow(&mut self, by: Size, span: Span) -> Result<(), Fault> {
        self.size = self.size.and(by);
        if self.size.nodes > MAX_NODES {
            Err(Fault::new(
                span,
                format!("the file has more than {MAX_NODES} values, aliases expanded"),
            ))
        } else if self.size.bytes > MAX_TEXT_BYTES {
            Err(Fault::new(
                span,
                format!("the file has more than {MAX_TEXT_BYTES} bytes of text, aliases expanded"),
            ))
        } else {
            Ok(())
        }
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let own = if let Value::Text(text) = &node.value { text.len() } else { 0 };
        self.grow(Size { nodes: 1, bytes: own }, node.span)?;
        if anchor != 0 {
            self.grow(node.size(), node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    /// Inserts a value into its container.
    fn place(&mut self, node: Node) -> Result<(), Fault> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut parent.content, parent.key.take()) {
            (Content::List(items), _) => items.push(node),
            (Content::Map(_), None) => match node.value {
                Value::Text(key) if key == "<<" => {
                    return Err(Fault::new(node.span, "merge keys (`<<`) are not supported").help(
                        "write out what is to be merged; an alias (`*name`) may stand for a \
                             whole value",
                    ));
                }
                Value::Text(key) => parent.key = Some((key, node.span)),
                _ => {
                    return Err(Fault::new(
                        node.span,
                        "a key must be a single word or quoted text",
                    ));
                }
            },
            (Content::Map(entries), Some((key, key_span))) => match entries.entry(key) {
                Slot::Occupied(first) => self.faults.push(Fault {
                    span: key_span,
                    message: format!("the key `{}` is given twice", shorten(first.key())),
                    help: Some("remove or rename one of them".into()),
                    other: Some((first.get().key_span, "first given here".into())),
                }),
                Slot::Vacant(slot) => drop(slot.insert(Entry { key_span, value: node })),
            },
        }
        Ok(())
    }
}

/// Returns the parser's message, or a message about a tab in the indentation. Tabs are the most
/// frequent mistake, and the parser may report one in the line before or after it.
fn broken(text: &str, span: Span, info: &str) -> Fault {
    let at = span.line as usize;
    for (number, line) in text.lines().enumerate().skip(at.saturating_sub(2)).take(3) {
        let indent = &line[..line.len() - line.trim_start().len()];
        if let Some(tab) = indent.find('\t') {
            let span = Span::at(number + 1, tab + 1, 1);
            return Fault::new(span, "this line is indented with a tab, which YAML does not allow")
                .help("use spaces");
        }
    }
    Fault::new(span, format!("this is not YAML: {info}"))
}

fn no_tags(span: Span, tag: &str) -> Fault {
    Fault::new(span, format!("the tag `{}` is not supported", shorten(tag)))
        .help("remove it; write text in quotes")
}

/// Interprets an unquoted scalar (YAML 1.2 core schema).
fn plain(text: &str, span: Span) -> Result<Value, Fault> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
            let based = |prefix: &str, radix| {
                let digits = text.strip_prefix(prefix)?;
                let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
                is_number.then(|| i64::from_str_radix(digits, radix).map_err(|_| too_large(span)))
            };
            if let Some(n) = based("0x", 16).or_else(|| based("0o", 8)) {
                Value::Integer(n?)
            } else if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
                Value::Integer(text.parse().map_err(|_| too_large(span))?)
            } else if looks_like_float(unsigned) {
                match text.parse::<f64>() {
                    Ok(f) if f.is_finite() => Value::Float(f),
                    _ => {
                        return Err(Fault::new(
                            span,
                            "this number is too large for a 64-bit float",
                        ));
                    }
                }
            } else if matches!(unsigned.to_ascii_lowercase().as_str(), ".inf" | ".nan") {
                return Err(Fault::new(span, "infinity and not-a-number are not accepted here")
                    .help("leave the key out where there is no limit"));
            } else {
                Value::Text(text.to_owned())
            }
        }
    })
}

fn too_large(span: Span) -> Fault {
    Fault::new(span, "this integer does not fit into 64 bits")
}

/// `[0-9]*.?[0-9]*([eE][-+]?[0-9]+)?` with at least one digit in front of the exponent.
fn looks_like_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e)),
        None => (unsigned, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_ok = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_ok
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root(text: &str) -> Node {
        let (node, faults) = parse(text);
        assert_eq!(faults, [], "{text}");
        node.unwrap()
    }

    fn value(text: &str) -> Value {
        root(&format!("k: {text}")).entry("k").unwrap().value.value.clone()
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("yes", Value::Text("yes".into())),
            ("True", Value::Bool(true)),
            ("", Value::Null),
            ("-12", Value::Integer(-12)),
            ("0x1F", Value::Integer(31)),
            ("1e3", Value::Float(1000.0)),
            (".5", Value::Float(0.5)),
            (".", Value::Text(".".into())),
            ("1.2.3", Value::Text("1.2.3".into())),
            ("\"12\"", Value::Text("12".into())),
            ("2 MiB", Value::Text("2 MiB".into())),
            ("0x", Value::Text("0x".into())),
            ("e5", Value::Text("e5".into())),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = root("a:\n  b: [1, two]\n");
        let b = node.entry("a").unwrap().value.entry("b").unwrap();
        assert_eq!((b.key_span.line, b.key_span.column, b.key_span.len), (2, 3, 1));
        let Value::List(items) = &b.value.value else { panic!("{b:?}") };
        assert_eq!((items[1].span.line, items[1].span.column, items[1].span.len), (2, 10, 3));
    }

    #[test]
    fn aliases_repeat_values_and_bombs_are_refused() {
        let node = root("a: &x {k: 1}\nb: *x\n");
        assert_eq!(
            node.entry("b").unwrap().value.entry("k").unwrap().value.value,
            Value::Integer(1)
        );

        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let list = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb += &format!("a{i}: &a{i} [{list}]\n");
        }
        assert!(parse(&bomb).1[0].message.contains("more than"));
    }

    #[test]
    fn text_and_anchors_count_as_what_they_take() {
        let long = "x".repeat(1 << 20);
        let bomb = format!("a: &a '{long}'\nb: [{}]\n", vec!["*a"; 1000].join(", "));
        assert!(parse(&bomb).1[0].message.contains("bytes of text"));
        let keys = format!("a: &a\n  ? '{long}'\n  : 1\nb: [{}]\n", vec!["*a"; 1000].join(", "));
        assert!(parse(&keys).1[0].message.contains("bytes of text"), "{:?}", parse(&keys).1);
        // Each anchor copies its whole content once more.
        let nested: String = (0..30).map(|i| format!("&a{i} [")).collect();
        let nested = format!("k: {nested}{}{}", vec!["x"; 20_000].join(","), "]".repeat(30));
        assert!(parse(&nested).1[0].message.contains("more than"));
    }

    #[test]
    fn keys_are_found_and_kept_in_their_order() {
        let text: String = (0..1000).rev().map(|i| format!("k{i}: {i}\n")).collect();
        let node = root(&text);
        assert_eq!(node.entry("k7").unwrap().value.value, Value::Integer(7));
        assert!(
            node.entries().map(|(k, _)| k.clone()).eq((0..1000).rev().map(|i| format!("k{i}")))
        );
        assert_eq!(
            parse(&(text + "k5: x\n")).1[0].other.as_ref().map(|(at, _)| at.line),
            Some(995)
        );
    }

    #[test]
    fn tabs_are_named_as_what_they_are() {
        for text in ["a:\n\tb: 1\n", "a:\n  \tb: 1\n  c: 1\n", "a:\n  b: 1\n\tc: 1\n"] {
            let faults = parse(text).1;
            let told = (faults[0].message.contains("a tab"), faults[0].help.as_deref());
            assert_eq!(told, (true, Some("use spaces")), "{text:?} {faults:?}");
        }
    }

    #[test]
    fn an_unclosed_bracket_is_reported_with_its_line() {
        for (text, help) in [
            (
                "a:\n  b: {c: 1\n  d: {e: 2}\n",
                "the `{` in line 2 is not closed before this: is a `}` missing there?",
            ),
            (
                "a: [x,\n  y\nb: 1\n",
                "the `[` in line 1 is not closed before this: is a `]` missing there?",
            ),
        ] {
            let faults = parse(text).1;
            assert_eq!(faults[0].help.as_deref(), Some(help), "{text:?} {faults:?}");
        }
        assert_eq!(parse("a: {b: 1}\nc: }\n").1[0].help, None);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, word) in [
            ("a: 1\na: 2", "given twice"),
            ("a: [", "not YAML"),
            ("a: !!binary x", "tag"),
            ("a: 1\n---\nb: 2", "second document"),
            ("a: &x {b: 1}\nc: {<<: *x}", "merge keys"),
            ("a: &x {b: 1}\nc:\n  <<: [*x]\n  d: 2", "merge keys"),
            ("? [x]\n: 1", "key must be"),
            ("a: 99999999999999999999", "64 bits"),
            ("a: .inf", "infinity"),
            ("a: &x [*x]", "alias"),
        ] {
            let (_, faults) = parse(text);
            assert!(faults.first().is_some_and(|f| f.message.contains(word)), "{text}: {faults:?}");
        }
        let deep: String = (0..100).map(|i| format!("{}k:\n", " ".repeat(i))).collect();
        assert!(parse(&deep).1[0].message.contains("nested deeper"));
        // The parser's own bound may be reached before `MAX_DEPTH`.
        assert!(parse(&"[".repeat(100_000)).0.is_none());
        assert!(parse(&"{a: ".repeat(100_000)).0.is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn any_text_is_read_or_refused(text in "[-a-z0-9:{}\\[\\]&*!?|>'\"#%@ \
             ,.\\n\\t\\r~\u{e9}]{0,120}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_characters_are_read_or_refused(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
