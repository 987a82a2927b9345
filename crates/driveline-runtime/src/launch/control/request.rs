// SPDX-License-Identifier: Apache-2.0
//! Parses the line of a client into a request.

use super::change::ChangeAsk;
use crate::socket_clients::{CLIENT_WITHIN, MAX_REQUEST_LEN, Received};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of characters of a client's text that an error quotes.
const QUOTED: usize = 80;

/// Keys of requests, in addition to the verb.
const KEYS: [&str; 6] = ["mode", "component", "name", "value", "module", "filter"];

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
    /// All parameters, and the newest changes.
    Param,
    /// Change of a parameter.
    ParamSet,
    /// Change of the log of a module.
    LogLevel,
}

impl Verb {
    const ALL: [Self; 7] = [
        Self::Status,
        Self::Stop,
        Self::Health,
        Self::Mode,
        Self::Param,
        Self::ParamSet,
        Self::LogLevel,
    ];

    /// Returns the keys of a request with this verb: required ones, and optional ones.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Mode => (&[], &["mode"]),
            Self::ParamSet => (&["component", "name", "value"], &[]),
            Self::LogLevel => (&["module", "filter"], &[]),
            Self::Status | Self::Stop | Self::Health | Self::Param => (&[], &[]),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Health => "health",
            Self::Stop => "stop",
            Self::Mode => "mode",
            Self::Param => "param",
            Self::ParamSet => "param_set",
            Self::LogLevel => "log_level",
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
    /// The line is not a request.
    Malformed,
    /// This launcher does not have the verb.
    UnknownVerb,
    /// Its line is too long.
    TooLong,
    /// Its line did not come in time.
    Late,
    /// Other clients took its place; a new attempt may succeed.
    Busy,
    /// The client's user has no permission.
    Forbidden,
    /// The run has no such mode.
    UnknownMode,
    /// The run does not switch to the mode now, or does not make the change.
    Refused,
    /// A code of a later version.
    #[serde(untagged)]
    Other(String),
}

/// An error in a response.
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

/// A request as it is written in JSON.
#[derive(Deserialize)]
struct Request {
    verb: String,
    #[serde(flatten)]
    keys: Keys,
}

/// Keys in addition to the verb, each once.
#[derive(Default)]
struct Keys(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Keys::default();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    if keys.0.insert(key.clone(), value).is_some() {
                        return Err(A::Error::custom(format!("the key {key:?} is given twice")));
                    }
                }
                Ok(keys)
            }
        }
        from.deserialize_map(Once)
    }
}

/// A request: a verb and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// Requested action.
    pub verb: Verb,
    /// For the verb `mode`: the mode to switch to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// For the verbs `param_set` and `log_level`: the change.
    #[serde(flatten)]
    pub change: Option<ChangeAsk>,
}

impl From<Verb> for Ask {
    fn from(verb: Verb) -> Self {
        Self { verb, mode: None, change: None }
    }
}

impl Ask {
    /// Creates a request for a switch to a mode.
    #[must_use]
    pub fn mode(mode: &str) -> Self {
        Self { mode: Some(mode.to_owned()), ..Verb::Mode.into() }
    }

    /// Creates a request for a change.
    #[must_use]
    pub fn change(change: ChangeAsk) -> Self {
        let verb = match change {
            ChangeAsk::Parameter { .. } => Verb::ParamSet,
            ChangeAsk::Log { .. } => Verb::LogLevel,
        };
        Self { change: Some(change), ..verb.into() }
    }
}

/// Parses a request, or returns the error for the response.
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
    // A JSON list would be parsed as the values of the keys.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("the request is no JSON object".into()));
    }
    let Request { verb, keys: Keys(mut keys) } = serde_json::from_slice(line)
        .map_err(|e| malformed(format!("the request cannot be read: {e}")))?;
    let Some(known) = Verb::ALL.into_iter().find(|v| v.name() == verb) else {
        if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(malformed(format!("there is no key {key:?}")));
        }
        let verb: String = verb.chars().take(QUOTED).collect();
        let all = Verb::ALL.map(Verb::name).join(", ");
        return Err(RequestError::new(
            ErrorCode::UnknownVerb,
            format!("there is no verb {verb:?}; this run has: {all}"),
        ));
    };
    let (needed, possible) = known.keys();
    let is_key = |key: &str| needed.contains(&key) || possible.contains(&key);
    if let Some(key) = keys.keys().find(|key| !is_key(key)) {
        return Err(malformed(format!("the verb {verb:?} has no key {key:?}")));
    }
    if let Some(key) = needed.iter().find(|key| !keys.contains_key(**key)) {
        return Err(malformed(format!("the verb {verb:?} needs the key {key:?}")));
    }
    let mut text = |key: &str| keys.remove(key).unwrap_or_default();
    let change = match known {
        Verb::ParamSet => Some(ChangeAsk::Parameter {
            component: text("component"),
            name: text("name"),
            value: text("value"),
        }),
        Verb::LogLevel => Some(ChangeAsk::Log { module: text("module"), filter: text("filter") }),
        _ => None,
    };
    Ok(Ask { verb: known, mode: keys.remove("mode"), change })
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
        for verb in Verb::ALL.into_iter().filter(|v| v.keys().0.is_empty()) {
            let ask = Ask::from(verb);
            assert_eq!(parsed(&serde_json::to_string(&ask).unwrap()), Ok(ask));
        }
        assert_eq!(parsed(" { \"verb\" : \"stop\" }\r"), Ok(Verb::Stop.into()));
        for change in [
            ChangeAsk::Parameter { component: "a".into(), name: "b".into(), value: "7".into() },
            ChangeAsk::Log { module: "m".into(), filter: "debug".into() },
        ] {
            let ask = Ask::change(change);
            assert_eq!(parsed(&serde_json::to_string(&ask).unwrap()), Ok(ask));
        }
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
        // A request with a wrong, missing or repeated key is refused. In particular, it stops
        // nothing.
        for line in [
            "{\"verb\":\"stop\",\"module\":\"one\"}",
            "{\"verb\":\"stop\",\"mode\":\"drive\"}",
            "{\"verb\":\"param_set\",\"component\":\"a\",\"name\":\"b\"}",
            "{\"verb\":\"param_set\",\"component\":\"a\",\"name\":\"b\",\"value\":7}",
            "{\"verb\":\"log_level\",\"module\":\"a\",\"filter\":\"b\",\"filter\":\"c\"}",
            "{\"verb\":\"status\",\"verb\":\"stop\"}",
        ] {
            assert_eq!(parsed(line), Err(ErrorCode::Malformed), "{line}");
        }
        let error = parse(Received::Line(b"{\"verb\":\"dance\\u001b[2J\"}")).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownVerb);
        assert_eq!(
            error.text,
            "there is no verb \"dance\\u{1b}[2J\"; this run has: status, stop, health, mode, \
             param, param_set, log_level"
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
        /// Any bytes are either a request in its only form, or an error whose response is one line
        /// of JSON.
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
