// SPDX-License-Identifier: Apache-2.0
//! Names of the topics that a service is made of, and the word of the sample header that requests
//! and responses carry.
//!
//! See `docs/protocols/services.md`. All functions are pure. Data of other processes is not
//! trusted.

use crate::id::{EndpointId, MAX_NAME_LEN, NameError, TopicName};
use std::fmt;
use std::str::FromStr;

/// First part of the names that are reserved for services.
pub const SERVICE_PREFIX: &str = "_service";
/// Longest text of a refusal, in bytes.
pub const MAX_REFUSAL_LEN: usize = 1024;
/// Greatest number that a request can have.
pub const MAX_REQUEST: u64 = (1 << 48) - 1;

const REQUEST: &str = "/request";
const RESPONSE: &str = "/response/";
/// Hexadecimal digits of a client's id.
const CLIENT_LEN: usize = 16;
/// Longest name of a service, in bytes: the names of its topics must keep the limit as well.
pub const MAX_SERVICE_NAME_LEN: usize =
    MAX_NAME_LEN - SERVICE_PREFIX.len() - 1 - RESPONSE.len() - CLIENT_LEN;

/// A service's name, such as `map/tile`: a topic's name that is neither too long nor reserved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(TopicName);

impl ServiceName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The topic of its requests. Allocates.
    ///
    /// # Errors
    /// Never for a name that was accepted.
    pub fn requests(&self) -> Result<TopicName, NameError> {
        format!("{SERVICE_PREFIX}/{}{REQUEST}", self.0).parse()
    }

    /// The topic of the responses for one client. Allocates.
    ///
    /// # Errors
    /// Never for a name that was accepted.
    pub fn responses(&self, client: ShortId) -> Result<TopicName, NameError> {
        format!("{SERVICE_PREFIX}/{}{RESPONSE}{client}", self.0).parse()
    }
}

impl FromStr for ServiceName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, NameError> {
        let name: TopicName = s.parse()?;
        let refuse = |reason| Err(NameError { name: s.to_owned(), reason });
        if s.len() > MAX_SERVICE_NAME_LEN {
            return refuse(
                "a service's name has at most 165 bytes, because the names of its topics are \
                 longer",
            );
        }
        if is_reserved(s) {
            return refuse(
                "'_service' begins the names of the topics that services are made of; name the \
                 service alone",
            );
        }
        Ok(Self(name))
    }
}

const _: () = assert!(MAX_SERVICE_NAME_LEN == 165);

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns true for topic names that are reserved for services.
#[must_use]
pub fn is_reserved(topic: &str) -> bool {
    topic.strip_prefix(SERVICE_PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Role of a topic in a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceTopic<'a> {
    /// Its requests.
    Requests(&'a str),
    /// Its responses for one client.
    Responses(&'a str, ShortId),
}

impl<'a> ServiceTopic<'a> {
    /// Reads the name of a topic; `None` if it belongs to no service.
    #[must_use]
    pub fn of(topic: &'a str) -> Option<Self> {
        let rest = topic.strip_prefix(SERVICE_PREFIX)?.strip_prefix('/')?;
        if let Some(name) = rest.strip_suffix(REQUEST) {
            return (!name.is_empty()).then_some(Self::Requests(name));
        }
        let (name, client) = rest.rsplit_once(RESPONSE)?;
        let digits = client.len() == CLIENT_LEN
            && client.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
        let client = u64::from_str_radix(client, 16).ok().filter(|_| digits && !name.is_empty())?;
        Some(Self::Responses(name, ShortId(client)))
    }

    /// The service's name.
    #[must_use]
    pub fn service(&self) -> &'a str {
        match self {
            Self::Requests(name) | Self::Responses(name, _) => name,
        }
    }
}

/// The lower half of an endpoint's id, or its number inside the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortId(pub u64);

impl From<EndpointId> for ShortId {
    fn from(id: EndpointId) -> Self {
        Self(id.0 as u64)
    }
}

impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The payload is the response.
    Answered,
    /// The server refused; the payload has the reason.
    Refused,
    /// The server dropped the request without an answer.
    Unanswered,
    /// The server's callback panicked.
    Panicked,
    /// The server has no room for this client or this request.
    NoRoom,
    /// A reason that only a later release knows.
    Other(u8),
}

impl Outcome {
    fn code(self) -> u8 {
        match self {
            Self::Answered => 0,
            Self::Refused => 1,
            Self::Unanswered => 2,
            Self::Panicked => 3,
            Self::NoRoom => 4,
            Self::Other(code) => code,
        }
    }

    fn of(code: u8) -> Self {
        match code {
            0 => Self::Answered,
            1 => Self::Refused,
            2 => Self::Unanswered,
            3 => Self::Panicked,
            4 => Self::NoRoom,
            code => Self::Other(code),
        }
    }
}

/// The word of a response: the answered request and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request.
    pub request: u64,
    /// Outcome of the request.
    pub outcome: Outcome,
}

impl Answer {
    /// Returns the word.
    #[must_use]
    pub fn encode(self) -> u64 {
        (self.request & MAX_REQUEST) | u64::from(self.outcome.code()) << 48
    }

    /// Reads a word; any bits are an answer.
    #[must_use]
    pub fn decode(word: u64) -> Self {
        Self { request: word & MAX_REQUEST, outcome: Outcome::of((word >> 48) as u8) }
    }
}

/// Returns the text of a refusal from bytes of another process, cut if it is too long.
#[must_use]
pub fn refusal_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MAX_REFUSAL_LEN).unwrap_or(bytes)).into_owned()
}

/// Cuts a text at the end of a character to the maximum length of a refusal.
#[must_use]
pub fn cut_refusal(text: &str) -> &str {
    let mut end = text.len().min(MAX_REFUSAL_LEN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_topics_say_what_they_are_to_which_service() {
        let name: ServiceName = "map/tile".parse().unwrap();
        let (requests, responses) =
            (name.requests().unwrap(), name.responses(ShortId(0xab)).unwrap());
        assert_eq!(requests.as_str(), "_service/map/tile/request");
        assert_eq!(responses.as_str(), "_service/map/tile/response/00000000000000ab");
        assert_eq!(ServiceTopic::of(requests.as_str()), Some(ServiceTopic::Requests("map/tile")));
        assert_eq!(
            ServiceTopic::of(responses.as_str()),
            Some(ServiceTopic::Responses("map/tile", ShortId(0xab)))
        );
        assert_eq!(ServiceTopic::of(responses.as_str()).unwrap().service(), "map/tile");
        for other in [
            "map/tile",
            "_service",
            "_service/request",
            "_service//request",
            "_service/a/response/ab",
            "_services/a/request",
        ] {
            assert_eq!(ServiceTopic::of(other), None, "{other}");
        }
        assert!(
            is_reserved("_service")
                && is_reserved("_service/x")
                && !is_reserved("_services/x")
                && !is_reserved("x/_service")
        );
    }

    #[test]
    fn a_service_has_the_longest_name_that_its_topics_permit() {
        let longest = "n".repeat(MAX_SERVICE_NAME_LEN);
        let name: ServiceName = longest.parse().unwrap();
        assert_eq!(name.responses(ShortId(u64::MAX)).unwrap().as_str().len(), MAX_NAME_LEN);
        let longer = format!("{longest}n").parse::<ServiceName>().unwrap_err().to_string();
        assert!(longer.contains("165"), "{longer}");
        let reserved = "_service/a".parse::<ServiceName>().unwrap_err().to_string();
        assert!(reserved.contains("name the service alone"), "{reserved}");
    }

    proptest! {
        #[test]
        fn any_word_is_an_answer_and_keeps_what_it_says(
            word: u64,
            request in 0..=MAX_REQUEST,
            code: u8,
        ) {
            let answer = Answer { request, outcome: Outcome::of(code) };
            prop_assert_eq!(Answer::decode(answer.encode()), answer);
            prop_assert_eq!(answer.encode() >> 56, 0);
            prop_assert_eq!(Answer::decode(word).encode(), word & ((1 << 56) - 1));
        }

        #[test]
        fn a_name_leads_to_topics_and_back(name in "[a-z_/]{1,20}", client: u64) {
            if let Ok(service) = name.parse::<ServiceName>() {
                let (requests, responses) =
                    (service.requests().unwrap(), service.responses(ShortId(client)).unwrap());
                prop_assert_eq!(
                    ServiceTopic::of(requests.as_str()),
                    Some(ServiceTopic::Requests(&name))
                );
                prop_assert_eq!(
                    ServiceTopic::of(responses.as_str()),
                    Some(ServiceTopic::Responses(&name, ShortId(client)))
                );
            }
        }

        #[test]
        fn texts_are_bounded_whatever_they_are(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            text in "\\PC{0,700}",
        ) {
            prop_assert!(refusal_text(&bytes).chars().count() <= MAX_REFUSAL_LEN);
            prop_assert!(
                cut_refusal(&text).len() <= MAX_REFUSAL_LEN && text.starts_with(cut_refusal(&text))
            );
            let _ = ServiceTopic::of(&text);
        }
    }
}
