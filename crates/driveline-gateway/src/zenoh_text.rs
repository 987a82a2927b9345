// SPDX-License-Identifier: Apache-2.0
//! Error texts of Zenoh for users.

/// Returns the text of an error without positions in Zenoh's sources and without Rust's debug
/// format.
#[must_use]
pub fn zenoh_says(error: &dyn std::fmt::Display) -> String {
    in_words(&place_in_line(&without_sources(&error.to_string())))
}

/// Returns the description of a mistake in a JSON5 file on one line, without the quoted line of the
/// file.
fn place_in_line(text: &str) -> String {
    let placed = || {
        let (before, rest) = text.split_once(" --> ")?;
        let (place, rest) = rest.split_once('\n')?;
        let (line, column) = place.split_once(':')?;
        let (_, why) = rest.rsplit_once("\n  = ")?;
        Some(format!("{before}line {line}, column {column}: {why}"))
    };
    placed().unwrap_or_else(|| text.to_owned())
}

/// Removes positions such as ` at /a/b.rs:12.`.
fn without_sources(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(".rs:") {
        let tail = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let from = before
            .rfind(" at ")
            .filter(|from| tail.len() < after.len() && before[*from..].contains('/'));
        kept.push_str(&before[..from.unwrap_or(before.len())]);
        if from.is_some() {
            rest = tail.strip_prefix('.').unwrap_or(tail);
        } else {
            kept.push_str(".rs:");
            rest = after;
        }
    }
    kept + rest
}

/// Replaces errors in Rust's debug format by their texts.
fn in_words(text: &str) -> String {
    let (mut words, mut rest) = (String::new(), text);
    while let Some(next) = rest.chars().next() {
        match error(rest) {
            Some((says, tail)) => {
                words.push_str(&says);
                rest = tail;
            }
            None => {
                words.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    words
}

/// Returns the text of the error at this position, and the rest. The error may be of the system, of
/// JSON, or another one.
fn error(text: &str) -> Option<(String, &str)> {
    if let Some(text) = text.strip_prefix("Os { code: ") {
        let (code, text) = text.split_once(", kind: ")?;
        let (_, text) = text
            .split_once(", message: ")
            .filter(|(kind, _)| kind.bytes().all(|b| b.is_ascii_alphanumeric()))?;
        let (says, text) = quoted(text)?;
        return Some((
            format!("{says} (os error {})", code.parse::<i32>().ok()?),
            text.strip_prefix(" }")?,
        ));
    }
    if let Some(text) = text.strip_prefix("Message { msg: ") {
        let (says, text) = quoted(text)?;
        if let Some(text) = text.strip_prefix(", location: None }") {
            return Some((says, text));
        }
        let (place, text) =
            text.strip_prefix(", location: Some(Location { line: ")?.split_once(" }) }")?;
        return Some((
            format!("{says} at line {}", place.replacen(", column: ", " column ", 1)),
            text,
        ));
    }
    let (kind, text) = text.strip_prefix("Custom { kind: ")?.split_once(", error: ")?;
    let (says, text) = quoted(text).filter(|_| kind.bytes().all(|b| b.is_ascii_alphanumeric()))?;
    Some((says, text.strip_prefix(" }")?))
}

/// Returns the quoted text at this position, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let (mut says, mut escaped) = (String::new(), false);
    for (i, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some((says, &text[i + 1..])),
            '\\' if !escaped => escaped = true,
            c => {
                says.push(if escaped && c == 'n' { '\n' } else { c });
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_have_no_source_paths_and_no_debug_format() {
        for (raw, says) in [
            (
                "Can not create a new TCP listener bound to tcp/10.0.0.1:7450: [10.0.0.1:7450: \
                 Cannot assign requested address (os error 99) at \
                 /build/src/zenoh-link-commons-1.10.2/src/tcp.rs:61.] at \
                 /build/src/zenoh-link-tcp-1.10.2/src/unicast.rs:338.",
                "Can not create a new TCP listener bound to tcp/10.0.0.1:7450: [10.0.0.1:7450: \
                 Cannot assign requested address (os error 99)]",
            ),
            (
                "bound to tcp/127.0.0.1:1#iface=x: [Os { code: 19, kind: Uncategorized, message: \
                 \"No such device\" }] at /r/src/unicast.rs:338.",
                "bound to tcp/127.0.0.1:1#iface=x: [No such device (os error 19)]",
            ),
            (
                "JSON error: Message { msg: \"unknown field `a\\\"b`\", location: Some(Location { \
                 line: 3, column: 7 }) } at /some build/src/lib.rs:1484.",
                "JSON error: unknown field `a\"b` at line 3 column 7",
            ),
            ("JSON error: Message { msg: \"x\", location: None }", "JSON error: x"),
            ("[Custom { kind: Other, error: \"x\\ny\" }] at lib.rs:1", "[x\ny] at lib.rs:1"),
            (
                " --> 1:1\n  |\n1 | x{\n  | ^---\n  |\n  = expected array at /r/src/lib.rs:1486.",
                "line 1, column 1: expected array",
            ),
            ("no host is at home", "no host is at home"),
            (
                "at .rs: Os { code: , Os { code: 1, kind: A, message: \"",
                "at .rs: Os { code: , Os { code: 1, kind: A, message: \"",
            ),
            ("", ""),
        ] {
            assert_eq!(zenoh_says(&raw), says);
        }
    }
}
