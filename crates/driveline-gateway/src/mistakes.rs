// SPDX-License-Identifier: Apache-2.0
//! Mistakes in a gateway's configuration. The gateway finds all of them before it opens a network
//! connection or joins a domain. Numbers have the same limits as in graph files.

use driveline_graph::clean;
use driveline_types::limits::{MAX_PAYLOAD, MAX_PINS};
use driveline_types::{Qos, TopicName};
use std::collections::HashMap;
use std::fmt;

/// Maximum number of kept mistakes; a configuration with more is broken as a whole.
const MOST: usize = 50;

/// All mistakes in a gateway's configuration. As text each mistake is a line: its place, such as
/// `topics[3].pins`, a description and the remedy, without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMistakes {
    lines: Vec<String>,
    count: usize,
}

/// Fields of a topic that the configurations of all gateways have.
pub(crate) struct TopicNumbers<'a> {
    pub(crate) topic: &'a TopicName,
    pub(crate) max_payload: u64,
    pub(crate) pins: u32,
    pub(crate) qos: &'a Qos,
}

impl ConfigMistakes {
    /// Adds a mistake.
    pub(crate) fn add(&mut self, place: &str, message: &str, help: &str) {
        self.count += 1;
        if self.lines.len() < MOST {
            self.lines.push(clean(&format!("{place}: {message}; {help}")));
        }
    }

    /// Adds a mistake if a number is outside of a range.
    pub(crate) fn number<T: PartialOrd + fmt::Display>(
        &mut self,
        place: &str,
        value: T,
        [least, most]: [T; 2],
    ) {
        // For NaN both comparisons are false.
        if !(value >= least && value <= most) {
            self.add(
                place,
                &format!("{value} is out of range"),
                &format!("it must be between {least} and {most}"),
            );
        }
    }

    /// Checks topics: duplicates, numbers, and the results of `check`, which is called with each
    /// topic and its index.
    pub(crate) fn topics<'a>(
        &mut self,
        topics: impl Iterator<Item = TopicNumbers<'a>>,
        mut check: impl FnMut(&mut Self, usize),
    ) {
        let mut seen = HashMap::new();
        for (i, TopicNumbers { topic, max_payload, pins, qos }) in topics.enumerate() {
            let place = |key: &str| format!("topics[{i}].{key}");
            if let Some(first) = seen.get(topic) {
                self.add(
                    &place("topic"),
                    &format!("`{topic}` is the topic of topics[{first}] already"),
                    "make one entry of both",
                );
            } else {
                seen.insert(topic, i);
            }
            self.number(&place("max_payload"), max_payload, [0, MAX_PAYLOAD as u64]);
            self.number(&place("pins"), pins, [1, MAX_PINS]);
            self.number(&place("qos.depth"), qos.depth, [1, Qos::MAX_DEPTH]);
            for (key, ms) in [
                ("deadline_ms", qos.deadline_ms),
                ("lifespan_ms", qos.lifespan_ms),
                ("lease_ms", qos.lease_ms),
            ] {
                if ms == Some(0) {
                    self.add(
                        &place(&format!("qos.{key}")),
                        "0 is out of range",
                        "leave it out, or give at least 1",
                    );
                }
            }
            check(self, i);
        }
    }

    /// # Errors
    /// These mistakes, if there are any.
    pub(crate) fn into_result(self) -> Result<(), Self> {
        if self.count == 0 { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for ConfigMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([only], 1) = (self.lines.as_slice(), self.count) {
            return f.write_str(only);
        }
        write!(f, "the configuration has {} mistakes", self.count)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))?;
        let more = self.count - self.lines.len();
        if more > 0 { write!(f, "\n  and {more} more") } else { Ok(()) }
    }
}

impl std::error::Error for ConfigMistakes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mistake_is_a_line_and_several_are_listed() {
        let mut found = ConfigMistakes::default();
        assert_eq!(found.clone().into_result(), Ok(()));
        found.add("network.host", "`a\u{1b}[31m\nb` is no name", "use letters");
        assert_eq!(found.to_string(), "network.host: `a [31m b` is no name; use letters");
        found.number("x", f64::NAN, [1.0, 2.0]);
        found.number("y", 2, [1, 2]);
        let first = "the configuration has 2 mistakes\n  network.host: `a [31m b` is no name; use \
             letters\n  ";
        assert_eq!(
            found.to_string(),
            format!("{first}x: NaN is out of range; it must be between 1 and 2")
        );
        (0..MOST).for_each(|_| found.number("z", 0, [1, 2]));
        let text = found.into_result().unwrap_err().to_string();
        assert!(
            text.starts_with("the configuration has 52 mistakes\n")
                && text.ends_with("\n  and 2 more"),
            "{text}"
        );
        assert_eq!(text.lines().count(), MOST + 2);
    }
}
