// SPDX-License-Identifier: Apache-2.0
//! Lines from the launcher on the account's socket (`docs/protocols/account.md`,
//! `docs/protocols/modes.md`).

use driveline::ParameterValue;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Longest line; a longer one is ignored.
const MAX_LINE: usize = 1024 * 1024;

/// A line from the launcher.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// The callbacks start.
    Go,
    /// A component of the run has finished.
    Drain,
    /// Components change their states.
    Mode(ModeWord),
    /// Requests the remaining work; a record of this round responds.
    Work(u64),
    /// A parameter is changed.
    Parameter(ParameterWord),
    /// The log is changed.
    Log(LogWord),
}

/// A change of a parameter. `Record::Changed` responds; `Record::ParameterSet` if its number is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParameterWord {
    /// Number of the change.
    pub(crate) change: u64,
    pub(crate) component: String,
    pub(crate) name: String,
    pub(crate) value: ParameterValue,
    /// Mode that sets it; `None` for a command's change, and for a value that the launcher sends
    /// again after a restart of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
}

impl ParameterWord {
    /// Creates a change for which no command waits.
    pub(crate) fn unasked(
        component: &str,
        name: &str,
        value: &ParameterValue,
        mode: Option<&str>,
    ) -> Self {
        Self {
            change: 0,
            component: component.into(),
            name: name.into(),
            value: value.clone(),
            mode: mode.map(str::to_owned),
        }
    }
}

/// A change of the log; `Record::Changed` responds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogWord {
    /// Number of the change.
    pub(crate) change: u64,
    /// Filter, such as `debug`.
    pub(crate) filter: String,
}

/// States of modal components, which are those that a mode of the graph names in `active`. A
/// component that this word does not name stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModeWord {
    /// Number of the switch, repeated in each acknowledgement.
    pub(crate) switch: u64,
    /// The mode.
    pub(crate) mode: String,
    /// Components that become active.
    #[serde(default)]
    pub(crate) activate: Vec<String>,
    /// Components that become inactive.
    #[serde(default)]
    pub(crate) deactivate: Vec<String>,
    /// Parameters to set first, by component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) parameters: BTreeMap<String, BTreeMap<String, ParameterValue>>,
}

/// A line as it is written in JSON.
#[derive(Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
enum Line {
    Mode(ModeWord),
    Work { round: u64 },
    Parameter(ParameterWord),
    Log(LogWord),
}

impl Line {
    fn bytes(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

impl ParameterWord {
    /// Returns the line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        Line::Parameter(self.clone()).bytes()
    }
}

impl LogWord {
    /// Returns the line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        Line::Log(self.clone()).bytes()
    }
}

impl ModeWord {
    /// Returns the line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        Line::Mode(self.clone()).bytes()
    }
}

/// Returns the line that requests the remaining work, with its end.
pub(crate) fn work_line(round: u64) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Line::Work { round }).unwrap_or_default();
    line.push(b'\n');
    line
}

fn word(line: &[u8]) -> Option<Word> {
    match line.trim_ascii() {
        b"go" => Some(Word::Go),
        b"drain" => Some(Word::Drain),
        line => serde_json::from_slice(line).ok().map(|line| match line {
            Line::Mode(mode) => Word::Mode(mode),
            Line::Work { round } => Word::Work(round),
            Line::Parameter(parameter) => Word::Parameter(parameter),
            Line::Log(log) => Word::Log(log),
        }),
    }
}

/// Removes components from words about modes if a later word names the same component.
pub(super) fn drop_replaced(words: &mut [Word]) {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for word in words.iter_mut().rev() {
        let Word::Mode(word) = word else { continue };
        word.activate.retain(|component| !named.contains(component));
        word.deactivate.retain(|component| !named.contains(component));
        named.extend(word.activate.iter().chain(&word.deactivate).cloned());
    }
}

/// Splits received bytes into lines. A line of a later release is ignored.
#[derive(Debug, Default)]
pub(super) struct Words {
    partial: Vec<u8>,
    /// True while the rest of a line that is too long is ignored.
    skipping: bool,
}

impl Words {
    /// Returns the words of the lines that end in `bytes`.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Word> {
        let mut words = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            if self.partial.len() + piece.len() > MAX_LINE {
                (self.skipping, self.partial) = (true, Vec::new());
            }
            if !self.skipping {
                self.partial.extend_from_slice(piece);
            }
            if piece.last() == Some(&b'\n') {
                words.extend(word(&std::mem::take(&mut self.partial)).filter(|_| !self.skipping));
                self.skipping = false;
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_come_in_any_pieces_and_others_are_ignored() {
        let mode = ModeWord {
            switch: 3,
            mode: "drive".into(),
            activate: vec!["lane".into()],
            deactivate: vec!["joystick".into()],
            parameters: BTreeMap::from([(
                "lane".into(),
                BTreeMap::from([("gain".into(), ParameterValue::Float(1.5))]),
            )]),
        };
        let others = b"go\nlater\n{\"word\":\"dance\"}\n";
        let text = [others, &mode.line()[..], &work_line(7), b"drain\n"].concat();
        let expected = [Word::Go, Word::Mode(mode), Word::Work(7), Word::Drain];
        for size in 1..text.len() {
            let mut words = Words::default();
            let all: Vec<_> = text.chunks(size).flat_map(|piece| words.feed(piece)).collect();
            assert_eq!(all, expected, "pieces of {size}");
        }
    }

    #[test]
    fn only_the_newest_state_of_a_component_remains() {
        let word = |switch, activate: &[&str], deactivate: &[&str]| {
            let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
            let (activate, deactivate) = (names(activate), names(deactivate));
            Word::Mode(ModeWord { switch, activate, deactivate, ..ModeWord::default() })
        };
        let mut words =
            [word(1, &["planner", "lane"], &[]), Word::Go, word(2, &["brake"], &["planner"])];
        drop_replaced(&mut words);
        assert_eq!(words, [word(1, &["lane"], &[]), Word::Go, word(2, &["brake"], &["planner"])]);
    }

    #[test]
    fn a_line_that_is_too_long_is_ignored_and_the_next_is_read() {
        let mut words = Words::default();
        for _ in 0..3 {
            assert_eq!(words.feed(&vec![b'x'; MAX_LINE / 2]), []);
        }
        assert_eq!(words.feed(b"go\ngo\n"), [Word::Go]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_words_or_ignored(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Words::default().feed(&bytes);
        }
    }
}
