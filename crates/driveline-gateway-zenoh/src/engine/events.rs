// SPDX-License-Identifier: Apache-2.0
//! Queue of events from Zenoh's callbacks to the control thread.
//!
//! Arrivals and departures are reported once and must not be lost. Changes of lists may be lost:
//! they are numbered, and the last number is requested regularly. So each kind has its own limit,
//! and cannot displace another.

use super::lock;
use crate::directory::Question;
use crate::wire::{HostId, Keys, Parsed};
use driveline_gateway::Notices;
use driveline_shm::Kicker;
use driveline_types::{MonotonicNs, TopicName};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Maximum number of pending tokens: more than any domain has at a time.
const MAX_TOKENS: usize = 65_536;
/// Maximum number of pending changes of lists.
const MAX_CHANGES: usize = 16_384;
/// Maximum number of pending answers, and of their bytes. A host may answer as often as it likes.
/// Reports of unknown publishers count, too.
const MAX_ANSWERS: usize = 16_384;
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// An event for the control thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A token of this version of the protocol has appeared or gone.
    Token { what: Parsed, alive: bool },
    /// A gateway that speaks another version.
    Foreign { host: HostId, version: u16, alive: bool },
    /// A host has changed a list.
    Changed { host: HostId, topic: TopicName, change: u64 },
    /// The answer to a list request.
    List { question: Question, bytes: Vec<u8> },
    /// A host has answered the request for the hosts that it hears.
    Met { host: HostId, bytes: Vec<u8> },
    /// A host has answered a request for the time sent at `asked`, with its number of changes.
    Counted { host: HostId, changes: u64, asked: MonotonicNs },
    /// A sample of an unknown publisher has arrived.
    Unknown { from: HostId, topic: TopicName },
}

impl Event {
    /// Interprets a token; `None`: irrelevant here, or of this gateway itself.
    pub(super) fn of_token(keys: &Keys, me: &HostId, key: &str, alive: bool) -> Option<Self> {
        let Some(what) = keys.parse(key) else {
            return keys.of_another_version(key).map(|(version, host)| Self::Foreign {
                host,
                version,
                alive,
            });
        };
        let matters = match &what {
            Parsed::Host(host) | Parsed::Topic { host, .. } => host != me,
            Parsed::Want { host, of, .. } => of == me && host != me,
            Parsed::Clock(_) | Parsed::Met(_) | Parsed::Sample { .. } | Parsed::Ack { .. } => false,
        };
        matters.then_some(Self::Token { what, alive })
    }

    /// Interprets the announcement of a list's change; `None`: not an announcement.
    pub(super) fn of_change(keys: &Keys, key: &str, payload: &[u8]) -> Option<Self> {
        let change = u64::from_le_bytes(payload.try_into().ok()?);
        match keys.parse(key)? {
            Parsed::Topic { host, topic } => Some(Self::Changed { host, topic, change }),
            _ => None,
        }
    }
}

/// Pending events.
#[derive(Default)]
struct Waiting {
    tokens: VecDeque<Event>,
    changes: VecDeque<Event>,
    answers: VecDeque<Event>,
    answer_bytes: usize,
}

impl Waiting {
    /// Adds an event. `false`: the queue is full.
    fn push(&mut self, what: Event) -> bool {
        let (queue, most) = match &what {
            Event::Token { .. } | Event::Foreign { .. } => (&mut self.tokens, MAX_TOKENS),
            Event::Changed { .. } => (&mut self.changes, MAX_CHANGES),
            Event::List { bytes, .. } | Event::Met { bytes, .. } => {
                if self.answer_bytes.saturating_add(bytes.len()) > MAX_ANSWER_BYTES
                    || self.answers.len() >= MAX_ANSWERS
                {
                    return false;
                }
                self.answer_bytes += bytes.len();
                (&mut self.answers, MAX_ANSWERS)
            }
            Event::Counted { .. } | Event::Unknown { .. } => (&mut self.answers, MAX_ANSWERS),
        };
        let fits = queue.len() < most;
        if fits {
            queue.push_back(what);
        }
        fits
    }

    /// Returns tokens first, because the other events are about hosts that must be known.
    fn into_iter(self) -> impl Iterator<Item = Event> {
        self.tokens.into_iter().chain(self.answers).chain(self.changes)
    }
}

/// Queue of events to the control thread.
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    kicker: Kicker,
    notices: Arc<Notices>,
}

impl Inbox {
    pub(super) fn new(kicker: Kicker, notices: Arc<Notices>) -> Self {
        Self { waiting: Mutex::default(), kicker, notices }
    }

    pub(super) fn push(&self, what: Event) {
        let is_token = matches!(what, Event::Token { .. } | Event::Foreign { .. });
        if lock(&self.waiting).push(what) {
            self.kicker.kick();
        } else if is_token {
            self.notices.log(format!(
                "more than {MAX_TOKENS} announcements at once, so some were lost; restart the \
                 gateway"
            ));
        }
    }

    /// Returns all pending events, in the order in which to handle them.
    pub(super) fn take(&self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut *lock(&self.waiting)).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u64) -> HostId {
        HostId::new("car", n).unwrap()
    }

    fn change(change: u64) -> Event {
        Event::Changed { host: host(1), topic: "map".parse().unwrap(), change }
    }

    fn list(len: usize) -> Event {
        let question = Question { host: host(1), topic: "map".parse().unwrap(), number: 1 };
        Event::List { question, bytes: vec![0; len] }
    }

    fn token(n: u64) -> Event {
        Event::Token { what: Parsed::Host(host(n)), alive: true }
    }

    #[test]
    fn a_flood_of_one_kind_leaves_space_for_the_others() {
        let mut waiting = Waiting::default();
        let kept = (0..100_000).filter(|n| waiting.push(change(*n))).count();
        let answers = (0..10_000).filter(|_| waiting.push(list(256 << 10))).count();
        assert_eq!((kept, answers), (MAX_CHANGES, MAX_ANSWER_BYTES / (256 << 10)));
        assert!(
            waiting.push(Event::Counted { host: host(1), changes: 7, asked: MonotonicNs(0) })
                && waiting.push(token(1))
        );
        let first: Vec<_> = waiting.into_iter().take(1).collect();
        assert_eq!(first, [token(1)], "tokens come first");
        let mut waiting = Waiting::default();
        assert_eq!((0..100_000).filter(|n| waiting.push(token(*n))).count(), MAX_TOKENS);
        assert!(waiting.push(change(1)) && waiting.push(list(1)));
        let mut waiting = Waiting::default();
        assert_eq!((0..100_000).filter(|_| waiting.push(list(0))).count(), MAX_ANSWERS);
    }

    #[test]
    fn irrelevant_events_are_not_queued() {
        let (keys, me) = (Keys::new("test").unwrap(), host(1));
        let of = |key: &str| Event::of_token(&keys, &me, key, true);
        assert_eq!(of(&keys.key(&Parsed::Host(host(2)))), Some(token(2)));
        let foreign = Event::Foreign { host: host(2), version: 1, alive: true };
        assert_eq!(of("driveline/1/test/host/car.0000000000000002"), Some(foreign));
        let want = |host, of| Parsed::Want {
            host,
            of,
            offered: "rv".parse().unwrap(),
            qos: "bv".parse().unwrap(),
            topic: "map".parse().unwrap(),
        };
        assert!(of(&keys.key(&want(host(2), host(1)))).is_some());
        let long = format!("driveline/2/test/pub/{}/{}", host(2), "a/".repeat(600));
        for nothing in [
            keys.key(&Parsed::Host(me.clone())),
            keys.key(&want(host(1), host(1))),
            keys.key(&want(host(2), host(3))),
            keys.key(&Parsed::Clock(host(2))),
            keys.key(&Parsed::Met(host(2))),
            "driveline/2/other/host/car.0000000000000002".into(),
            "driveline/2/test/host/car".into(),
            long.clone(),
        ] {
            assert_eq!(of(&nothing), None, "{nothing}");
        }
        let key = keys.key(&Parsed::Topic { host: host(1), topic: "map".parse().unwrap() });
        assert_eq!(Event::of_change(&keys, &key, &[7, 0, 0, 0, 0, 0, 0, 0]), Some(change(7)));
        assert_eq!(
            [Event::of_change(&keys, &key, &[7]), Event::of_change(&keys, &long, &[0; 8])],
            [None, None]
        );
    }
}
