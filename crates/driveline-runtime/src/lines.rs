// SPDX-License-Identifier: Apache-2.0
//! Splits a process's output into lines of bounded length.

/// Maximum length of a line, in bytes; longer ones are passed on in pieces of this length.
pub(crate) const MAX_LINE: usize = 4096;

#[derive(Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Takes bytes and passes on every line that they complete, and pieces of lines that are too
    /// long.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(&str)) {
        while !bytes.is_empty() {
            let room = &bytes[..bytes.len().min(MAX_LINE - self.line.len())];
            match room.iter().position(|b| *b == b'\n') {
                Some(end) => {
                    self.line.extend_from_slice(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    self.emit(&mut take);
                }
                None => {
                    self.line.extend_from_slice(room);
                    bytes = &bytes[room.len()..];
                    if self.line.len() == MAX_LINE {
                        self.emit(&mut take);
                    }
                }
            }
        }
    }

    /// Passes on the last line, which may have no end.
    pub(crate) fn end(&mut self, mut take: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.emit(&mut take);
        }
    }

    fn emit(&mut self, take: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.line);
        take(text.strip_suffix('\r').unwrap_or(&text));
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for c in chunks {
            lines.feed(c, |l| out.push(l.to_owned()));
        }
        lines.end(|l| out.push(l.to_owned()));
        out
    }

    #[test]
    fn lines_come_whole_and_long_ones_in_pieces() {
        assert_eq!(cut(&[b"a\r\nb", b"c\n\nd"]), ["a", "bc", "", "d"]);
        let long = "x".repeat(MAX_LINE + 5);
        assert_eq!(
            cut(&[long.as_bytes()]).iter().map(String::len).collect::<Vec<_>>(),
            [MAX_LINE, 5]
        );
        assert_eq!(cut(&[b"\xff\n"]), ["\u{fffd}"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_but_line_ends(text in "[a-z\\n]{0,300}", size in 1usize..50) {
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(cut(&chunks).concat(), text.replace('\n', ""));
        }
    }
}
