// SPDX-License-Identifier: Apache-2.0
//! Text of other programs that people see in a terminal or on a page: names, log lines, errors of
//! components.

/// Returns true for characters without a visible shape: they change the direction of writing
/// (U+202E), have no width (U+200B), or are line ends at which terminals do not begin a new line
/// (U+2028). Names that differ only in such characters look the same.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// Returns true for characters that a terminal or a reader could misinterpret: control characters
/// including line ends and tabs, and [`is_unseen`].
#[must_use]
pub fn misleads(c: char) -> bool {
    c.is_control() || is_unseen(c)
}

/// Replaces each [unseen](is_unseen) character by U+FFFD. Allocates only if there is one.
#[must_use]
pub fn seen(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().any(is_unseen) {
        text.chars().map(|c| if is_unseen(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
    } else {
        text.into()
    }
}

/// Replaces each character that [misleads] by U+FFFD. Line feeds and tabs stay. Allocates.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_replaced(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns true if [`plain`] does not change the text.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(is_replaced)
}

fn is_replaced(c: char) -> bool {
    misleads(c) && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_the_line_around_is_replaced_and_letters_are_not() {
        assert_eq!(seen("brake\u{202e}ffo"), "brake\u{fffd}ffo");
        assert_eq!(seen("zero\u{200b}width"), "zero\u{fffd}width");
        let borrowed = seen("속도 is m/s\tß\n");
        assert!(matches!(borrowed, std::borrow::Cow::Borrowed(_)), "{borrowed}");
        assert!(misleads('\u{1b}') && misleads('\n') && misleads('\u{2066}') && !misleads('é'));
    }
}
