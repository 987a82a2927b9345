// SPDX-License-Identifier: Apache-2.0
//! Valid part of a file: the file without the entries that have mistakes can still be checked, so
//! that one mistake does not hide others.

use super::diagnostic::Span;
use super::yaml::{Entries, Entry, Node, Value};

/// Keys whose entries are removed one by one. For other keys, the whole value is removed.
const LISTS: [&str; 2] = ["topics", "modules"];
/// Key and value of the file's format. If the key is missing, this is reported, and the file is
/// assumed to have this format, the only one.
const FORMAT: (&str, i64) = ("driveline", 1);

/// Returns the file without the modules, topics and top-level keys that contain mistakes. `None`: a
/// mistake is outside of all of them, or the file has another format, in which the keys may have
/// another meaning.
pub(super) fn part(root: &Node, mistakes: &[Span]) -> Option<Node> {
    let Value::Map(entries) = &root.value else { return None };
    let mut left = entries.clone();
    // A key that is missing at the top is reported at the beginning of the file.
    for span in mistakes.iter().filter(|span| **span != root.span) {
        let key = holder(entries, *span).filter(|key| **key != FORMAT.0)?;
        let inside = entries.get(key).filter(|_| LISTS.contains(&key.as_str()));
        let one = match inside.map(|e| &e.value.value) {
            Some(Value::Map(list)) => holder(list, *span),
            _ => None,
        };
        match (one, left.get_mut(key).map(|e| &mut e.value.value)) {
            (Some(one), Some(Value::Map(list))) => drop(list.shift_remove(one)),
            _ => drop(left.shift_remove(key)),
        }
    }
    let (key, version) = FORMAT;
    if !entries.contains_key(key) {
        let value = Node { span: root.span, value: Value::Integer(version) };
        left.insert(key.to_owned(), Entry { key_span: root.span, value });
    }
    Some(Node { span: root.span, value: Value::Map(left) })
}

/// Returns the key of the entry that contains a place. Entries are in the order of the file, and
/// each ends before the next one.
fn holder(entries: &Entries, place: Span) -> Option<&String> {
    let at = |span: Span| (span.line, span.column);
    entries.iter().take_while(|(_, e)| at(e.key_span) <= at(place)).last().map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn left(text: &str, mistakes: &[(usize, usize)]) -> Option<String> {
        let root = yaml::parse(text).0.unwrap();
        let spans: Vec<Span> =
            mistakes.iter().map(|(line, column)| Span::at(*line, *column, 2)).collect();
        let part = part(&root, &spans)?;
        let keys =
            |node: &Node| node.entries().map(|(key, _)| key.clone()).collect::<Vec<_>>().join(" ");
        let lists = LISTS.iter().filter_map(|list| part.entry(list)).map(|e| keys(&e.value));
        Some([keys(&part)].into_iter().chain(lists).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn only_what_holds_a_mistake_is_taken_out() {
        let text = "driveline: 1\nnetwork: {interface: x}\ntopics:\n  a: {}\n  b:\n    reach: \
             x\nmodules: {m: {}, n: {}}\n";
        assert_eq!(left(text, &[]).unwrap(), "driveline network topics modules; a b; m n");
        assert_eq!(left(text, &[(6, 5)]).unwrap(), "driveline network topics modules; a; m n");
        assert_eq!(left(text, &[(2, 12), (7, 14)]).unwrap(), "driveline topics modules; a b; n");
        assert_eq!(
            left(text, &[(3, 1)]).unwrap(),
            "driveline network modules; m n",
            "a list as a whole"
        );
        assert_eq!(left(text, &[(1, 12)]), None, "another format");
        assert_eq!(left("topics: {a: {}}\n", &[(1, 10)]).unwrap(), "topics driveline; ");
        assert_eq!(left("\n\nmodules: {}\n", &[(1, 1)]), None);
        assert_eq!(left("[a]", &[(1, 2)]), None);
    }
}
