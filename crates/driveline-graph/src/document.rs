// SPDX-License-Identifier: Apache-2.0
//! A YAML file other than a graph, read and checked in the same way.

use super::de;
use super::diagnostic::{Diagnostic, Diagnostics, Site, Sources, Span};
use super::files::{CHECK_PATH, Unreadable, bounded_text};
use super::yaml::{self, Node, Value};
use super::{files, shape};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::path::Path;

/// A file's value, with the places of its keys and values.
pub struct Document<T> {
    /// Content of the file.
    pub value: T,
    sources: Sources,
    file: usize,
    root: Node,
}

/// Reads a file into `T`, checked against its schema first. Blocks for reading a file of at most 4
/// MiB.
///
/// # Errors
/// All mistakes that were found, each with its line.
pub fn read_document<T: DeserializeOwned + JsonSchema>(
    path: &Path,
) -> Result<Document<T>, Diagnostics> {
    match bounded_text(path, files::MAX_BYTES) {
        Ok(text) => parse_document(path, text),
        Err(Unreadable { reason, help }) => {
            let mut found = Diagnostics::default();
            found.push(
                Diagnostic::error(format!("cannot read {}: {reason}", path.display()))
                    .help(help.unwrap_or_else(|| CHECK_PATH.to_owned())),
            );
            Err(found)
        }
    }
}

/// Like [`read_document`], for a text in memory; `path` is its name in messages.
///
/// # Errors
/// All mistakes that were found, each with its line.
pub fn parse_document<T: DeserializeOwned + JsonSchema>(
    path: &Path,
    text: String,
) -> Result<Document<T>, Diagnostics> {
    let mut sources = Sources::default();
    let (root, faults) = yaml::parse(&text);
    let file = sources.add(path.to_owned(), text);
    let mut found = Diagnostics::default();
    let at = |span: Span| sources.place(Site { file, span });
    for f in faults {
        let mut d = Diagnostic::error(f.message).at(at(f.span)).maybe_help(f.help);
        if let Some((span, message)) = f.other {
            d = d.related(message, at(span));
        }
        found.push(d);
    }
    let Some(root) = root else {
        if found.errors() == 0 {
            found.push(Diagnostic::error("the file is empty").at(at(Span::default())));
        }
        return Err(found);
    };
    let schema = schemars::schema_for!(T).to_value();
    let findings = shape::another_kind(&root, &schema, path)
        .map_or_else(|| shape::check(&root, &schema), |other| vec![other]);
    for f in findings {
        found.push(Diagnostic::error(f.message).at(at(f.span)).maybe_help(f.help));
    }
    if found.errors() > 0 {
        found.sort();
        return Err(found);
    }
    match de::typed(&root) {
        Ok(value) => Ok(Document { value, sources, file, root }),
        Err(e) => {
            found.push(Diagnostic::error(e.message).at(at(e.span.unwrap_or(root.span))));
            Err(found)
        }
    }
}

impl<T> Document<T> {
    /// Returns a finding at `path` (keys of mappings and indices of list items), or at its longest
    /// existing part. Marks the last key: either the key is wrong, or its value as a whole.
    #[must_use]
    pub fn mistake(&self, path: &[&str], message: String, help: Option<String>) -> Diagnostics {
        self.found(self.at(path).0, message, help)
    }

    /// Like [`Self::mistake`], for an invalid value: marks the value.
    #[must_use]
    pub fn bad_value(&self, path: &[&str], message: String, help: Option<String>) -> Diagnostics {
        self.found(self.at(path).1, message, help)
    }

    /// Returns the places of the last key of a path and of its value.
    fn at(&self, path: &[&str]) -> (Span, Span) {
        let mut node = &self.root;
        let mut key_span = node.span;
        for key in path {
            (key_span, node) = match (node.entry(key), &node.value) {
                (Some(entry), _) => (entry.key_span, &entry.value),
                (None, Value::List(items)) => {
                    match key.parse().ok().and_then(|i: usize| items.get(i)) {
                        Some(item) => (item.span, item),
                        None => break,
                    }
                }
                _ => break,
            };
        }
        (key_span, node.span)
    }

    fn found(&self, span: Span, message: String, help: Option<String>) -> Diagnostics {
        let mut found = Diagnostics::default();
        found.push(
            Diagnostic::error(message)
                .at(self.sources.place(Site { file: self.file, span }))
                .maybe_help(help),
        );
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;
    use schemars::JsonSchema;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        size: u32,
        #[serde(default)]
        names: Vec<String>,
    }

    fn parse(text: &str) -> Result<Document<Thing>, String> {
        parse_document(Path::new("thing.yaml"), text.to_owned()).map_err(|d| d.render(Colour::No))
    }

    #[test]
    fn a_document_is_a_value_or_a_list_of_mistakes_with_their_lines() {
        let thing = parse("size: 3\nnames: [a, b]\n").unwrap();
        assert_eq!((thing.value.size, thing.value.names.len()), (3, 2));
        let text = parse("size: many\nname: [a]\n").map(|_| ()).unwrap_err();
        assert!(
            text.contains("thing.yaml:1")
                && text.contains("thing.yaml:2")
                && text.contains("`names`"),
            "{text}"
        );
        for (bad, says) in
            [("", "`size` is missing"), ("[1]", "thing.yaml:1"), ("size: [", "thing.yaml:2")]
        {
            let text = parse(bad).map(|_| ()).unwrap_err();
            assert!(text.contains(says), "{bad:?}: {text}");
        }
    }

    #[test]
    fn mistakes_between_values_have_a_place_too() {
        let thing = parse("size: 3\nnames: [a]\n").unwrap();
        let text =
            thing.mistake(&["names", "x"], "one name is too few".into(), None).render(Colour::No);
        assert!(text.contains("thing.yaml:2:1") && text.contains("too few"), "{text}");
        // A finding about a bad value marks the value, not the key; in a list, it marks the item.
        let thing = parse("size: 3\nnames: [a, bc]\n").unwrap();
        for (path, marked) in [
            (&["names"][..], "2:8"),
            (&["names", "1"], "2:12"),
            (&["names", "7"], "2:8"),
            (&["size"], "1:7"),
        ] {
            let text = thing.bad_value(path, "bad".into(), None).render(Colour::No);
            assert!(text.contains(&format!("thing.yaml:{marked}\n")), "{path:?}: {text}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let text = read_document::<Thing>(Path::new("/nowhere/x.yaml"))
            .map(|_| ())
            .unwrap_err()
            .render(Colour::No);
        assert!(text.contains("/nowhere/x.yaml"), "{text}");
    }
}
