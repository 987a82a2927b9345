// SPDX-License-Identifier: Apache-2.0
//! From the line of a client to what it asks for.

use crate::socket_clients::{CLIENT_WITHIN, MAX_REQUEST_LEN, Received};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Characters of a client's text that an error quotes.
const QUOTED: usize = 80;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// State of the run.
    Status,
    /// State of the run with a verdict.
    Health,
    /// Ordered stop, as by Ctrl-C.
    Stop,
    /// Switch to a mode, if one is named; else the state of the run.
    Mode,
}

impl Verb {
    const ALL: [Self; 4] = [Self::Status, Self::Stop, Self::Health, Self::Mode];

    fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Health => "health",
            Self::Stop => "stop",
            Self::Mode => "mode",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reason why a request got no other response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// It is no request.
    Malformed,
    /// This launcher does not have the verb.
    UnknownVerb,
    /// Its line is too long.
    TooLong,
    /// Its line did not come in time.
    Late,
    /// Other clients took its place; a new attempt may succeed.
    Busy,
    /// The client's user may not ask.
    Forbidden,
    /// The run has no such mode.
    UnknownMode,
    /// The run does not switch to the mode now.
    Refused,
    /// A code of a later version.
    #[serde(untagged)]
    Other(String),
}

/// An error as a response has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::launch) struct RequestError {
    pub(super) code: ErrorCode,
    pub(super) text: String,
}

impl RequestError {
    fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(in crate::launch) fn unknown_mode(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::UnknownMode, text)
    }

    pub(in crate::launch) fn refused(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Refused, text)
    }

    pub(super) fn forbidden() -> Self {
        Self::new(ErrorCode::Forbidden, "only the user that started this run and root may ask it")
    }
}

/// A request as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    verb: String,
    #[serde(default)]
    mode: Option<String>,
}

/// A request with what belongs to its verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// What to do.
    pub verb: Verb,
    /// Of the verb `mode`: the mode to switch to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl From<Verb> for Ask {
    fn from(verb: Verb) -> Self {
        Self { verb, mode: None }
    }
}

impl Ask {
    /// A switch to a mode.
    #[must_use]
    pub fn mode(mode: &str) -> Self {
        Self { verb: Verb::Mode, mode: Some(mode.to_owned()) }
    }
}

/// Understands a request, or returns the response that says why not.
pub(super) fn parse(received: Received<'_>) -> Result<Ask, RequestError> {
    let line = match received {
        Received::Line(line) => line,
        Received::Incomplete => {
            return Err(RequestError::new(
                ErrorCode::Malformed,
                "the request ended before the end of its line; end it with a line feed",
            ));
        }
        Received::TooLong => {
            return Err(RequestError::new(
                ErrorCode::TooLong,
                format!("the request is longer than {MAX_REQUEST_LEN} bytes"),
            ));
        }
        Received::Late => {
            return Err(RequestError::new(
                ErrorCode::Late,
                format!("no whole line came within {CLIENT_WITHIN:?}"),
            ));
        }
        Received::Crowded => {
            return Err(RequestError::new(
                ErrorCode::Busy,
                "too many others ask this run; try again",
            ));
        }
    };
    let malformed = |why: String| {
        RequestError::new(
            ErrorCode::Malformed,
            format!("{why}; a request is such as {{\"verb\":\"status\"}}"),
        )
    };
    // A list would be taken for the values of the keys.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("the request is no JSON object".into()));
    }
    let Request { verb, mode } = serde_json::from_slice(line)
        .map_err(|e| malformed(format!("the request cannot be read: {e}")))?;
    let known = Verb::ALL.into_iter().find(|v| v.name() == verb);
    if mode.is_some() && known.is_some_and(|v| v != Verb::Mode) {
        return Err(malformed(format!("the verb {verb:?} has no key \"mode\"")));
    }
    known.map(|verb| Ask { verb, mode }).ok_or_else(|| {
        let verb: String = verb.chars().take(QUOTED).collect();
        let all = Verb::ALL.map(Verb::name).join(", ");
        RequestError::new(
            ErrorCode::UnknownVerb,
            format!("there is no verb {verb:?}; this run has: {all}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Result<Ask, ErrorCode> {
        parse(Received::Line(line.as_bytes())).map_err(|e| e.code)
    }

    #[test]
    fn verbs_are_understood_and_mistakes_are_named() {
        for verb in Verb::ALL {
            let ask = Ask::from(verb);
            assert_eq!(parsed(&serde_json::to_string(&ask).unwrap()), Ok(ask));
        }
        assert_eq!(parsed(" { \"verb\" : \"stop\" }\r"), Ok(Verb::Stop.into()));
        let ask = Ask::mode("drive");
        assert_eq!(parsed("{\"verb\":\"mode\",\"mode\":\"drive\"}"), Ok(ask));
        for line in [
            "",
            "stop",
            "[\"stop\"]",
            "\"stop\"",
            "{}",
            "{\"verb\":7}",
            "{\"verb\":\"stop\"",
            "{\"verb\":\"stop\"} x",
        ] {
            assert_eq!(parsed(line), Err(ErrorCode::Malformed), "{line}");
        }
        // Whoever asks for less than a stop must not get one.
        for line in [
            "{\"verb\":\"stop\",\"module\":\"one\"}",
            "{\"verb\":\"stop\",\"mode\":\"drive\"}",
            "{\"verb\":\"status\",\"verb\":\"stop\"}",
        ] {
            assert_eq!(parsed(line), Err(ErrorCode::Malformed), "{line}");
        }
        let error = parse(Received::Line(b"{\"verb\":\"dance\\u001b[2J\"}")).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownVerb);
        assert_eq!(
            error.text,
            "there is no verb \"dance\\u{1b}[2J\"; this run has: status, stop, health, mode"
        );
        for (received, code) in [
            (Received::Incomplete, ErrorCode::Malformed),
            (Received::TooLong, ErrorCode::TooLong),
            (Received::Late, ErrorCode::Late),
            (Received::Crowded, ErrorCode::Busy),
        ] {
            assert_eq!(parse(received).unwrap_err().code, code);
        }
    }

    fn any_line() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::sample::select(vec![
            "verb", "stop", "status", "health", "{", "}", "\"", ":", ",", "[", "]", "1", "null",
            "\\u00",
        ]);
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(word, 0..20).prop_map(|words| words.concat().into_bytes()),
            ".{0,40}"
                .prop_map(|text| serde_json::to_vec(&serde_json::json!({ "verb": text }))
                    .unwrap_or_default()),
        ]
    }

    proptest! {
        /// Whatever comes, it is a verb in exactly one form or an error whose response is one line of JSON.
        #[test]
        fn any_bytes_are_a_verb_or_an_error_in_one_line(line in any_line()) {
            match parse(Received::Line(&line)) {
                Ok(ask) => {
                    let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
                    prop_assert_eq!(value, serde_json::to_value(&ask).unwrap());
                }
                Err(error) => {
                    prop_assert!(error.text.len() < 4096, "{}", error.text);
                    let text = super::super::Response::line(Err(error.clone()));
                    prop_assert_eq!(text.iter().position(|b| *b == b'\n'), Some(text.len() - 1));
                    let back: super::super::Response = serde_json::from_slice(&text).unwrap();
                    prop_assert_eq!((back.ok, back.error), (false, Some(error)));
                }
            }
        }
    }
}
