// SPDX-License-Identifier: Apache-2.0
//! Answers to tools.

use super::handshake::Reception;
use super::query::Query;
use super::{Control, Source};
use crate::config::Access;
use crate::info::ParticipantInfo;
use crate::limits::{
    HANDSHAKE_MS, MAX_INFO_CONNECTIONS, MAX_INFO_CONNECTIONS_PER_USER, MAX_LISTING_LEN,
};
use crate::queue::lock;
use crate::sys::peer::User;
use crate::sys::socket;
use crate::wire::Message;
use rustix::event::epoll::{self, EventFlags};
use std::time::Duration;

/// Bytes of a listing in one packet.
const PART_LEN: usize = 32 * 1024;

impl Control {
    pub(super) fn accept_queries(&mut self, key: u64) {
        for _ in 0..MAX_INFO_CONNECTIONS {
            if self.blocking_tasks.is_full() {
                return self.rest(key);
            }
            // Uses even the last descriptor, so that tools can show why nothing else works.
            let socket = match self.reserve.accept(&self.info_listener, &self.blocking_tasks) {
                Ok(Some((socket, _))) => socket,
                Ok(None) => return,
                Err(_) => return self.rest(key),
            };
            let user = socket.user();
            // The tools of one user cannot use up the connections for those of other users. All
            // other users together cannot use up the connections for this process's own user.
            let own = user.is_surely(User::own());
            let users = || {
                self.sources.values().filter_map(|s| {
                    if let Source::Info(q) = s { Some(q.socket.user()) } else { None }
                })
            };
            if users().filter(|u| *u == user).count() >= MAX_INFO_CONNECTIONS_PER_USER
                || !own
                    && users().filter(|u| !u.is_surely(User::own())).count() >= MAX_INFO_CONNECTIONS
            {
                continue;
            }
            let Ok(key) = self.watch_undecided(&socket) else { continue };
            let until = self.now + Duration::from_millis(HANDSHAKE_MS);
            let at_once = socket.is_harmless();
            self.sources.insert(key, Source::Info(Query { socket, until, answer: None }));
            if at_once {
                self.listen(key);
            }
        }
    }

    pub(super) fn query_ready(&mut self, key: u64) {
        match self.sources.get(&key) {
            Some(Source::Info(Query { answer: None, .. })) => self.listen(key),
            _ => self.send_parts(key),
        }
    }

    pub(super) fn tool_said(&mut self, key: u64, received: Reception) {
        let asks = matches!(received, Reception::Said(Ok(Message::List), _));
        let user = match self.sources.get(&key) {
            Some(Source::Info(query)) if asks => Some(query.socket.user()),
            _ => None,
        };
        let answer = user.and_then(|user| self.listing(user));
        match (answer, self.sources.get_mut(&key)) {
            (Some(text), Some(Source::Info(query))) if query.answer.is_none() => {
                query.answer = Some((text, 0))
            }
            _ => {
                self.sources.remove(&key);
                return;
            }
        }
        self.send_parts(key);
    }

    fn send_parts(&mut self, key: u64) {
        let Some(Source::Info(Query { socket, answer: Some((answer, sent)), .. })) =
            self.sources.get_mut(&key)
        else {
            return;
        };
        loop {
            let part = answer.get(*sent..answer.len().min(*sent + PART_LEN)).unwrap_or_default();
            let last = part.is_empty();
            let Some(packet) = Message::Listing(part.to_vec()).encode() else { break };
            match socket::send(&*socket, &packet, &[]) {
                Ok(()) => *sent += part.len(),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    let _ = epoll::modify(
                        self.blocking_tasks.epoll(),
                        &*socket,
                        epoll::EventData::new_u64(key),
                        EventFlags::OUT,
                    );
                    return;
                }
                Err(_) => break,
            }
            if last {
                break;
            }
        }
        self.sources.remove(&key);
    }

    /// Returns the listing for a user: the endpoints of topics on which the user has a right, with
    /// names and counters.
    fn listing(&self, user: User) -> Option<Vec<u8>> {
        let shows = |access: &Access| user.is_trusted() || access.permits(user);
        let mut info = ParticipantInfo {
            id: self.identity.id,
            name: self.identity.name.clone(),
            of_this_user: true,
            pid_in_its_namespace: self.identity.pid,
            description: lock(&self.identity.description).clone(),
            publishers: self
                .outlets
                .values()
                .filter(|o| shows(&o.publication.access))
                .map(|o| o.publication.info(o.changes.get()))
                .collect(),
            subscriptions: self
                .inlets
                .values()
                .filter(|s| shows(&s.inlet.access))
                .map(|s| s.inlet.info())
                .collect(),
            incomplete: String::new(),
        };
        if info.publishers.len() + info.subscriptions.len() < self.outlets.len() + self.inlets.len()
        {
            info.incomplete =
                "topics on which this user has no right are left out (`access:`); ask as their \
                 user, or as root"
                    .into();
        }
        let whole = serde_json::to_vec(&info).ok()?;
        if whole.len() <= MAX_LISTING_LEN {
            return Some(whole);
        }
        let too_long =
            format!("its listing has {} bytes and may have {MAX_LISTING_LEN}", whole.len());
        drop(whole);
        info.publishers.iter_mut().for_each(|p| p.schema.definition = "".into());
        info.subscriptions
            .iter_mut()
            .filter_map(|s| s.schema.as_mut())
            .for_each(|s| s.definition = "".into());
        info.incomplete = format!("{too_long}: the definitions of its types are left out");
        let short = serde_json::to_vec(&info).ok()?;
        if short.len() <= MAX_LISTING_LEN {
            return Some(short);
        }
        let (publishers, subscriptions) = (info.publishers.len(), info.subscriptions.len());
        info.incomplete = format!(
            "{too_long}: its {publishers} publishers and {subscriptions} subscriptions are left out"
        );
        info.publishers.clear();
        info.subscriptions.clear();
        serde_json::to_vec(&info).ok()
    }

    pub(super) fn expire_queries(&mut self) {
        let now = self.now;
        self.sources.retain(|_, s| !matches!(s, Source::Info(q) if q.until <= now));
        let soonest = self
            .sources
            .values()
            .filter_map(|s| if let Source::Info(q) = s { Some(q.until) } else { None })
            .min();
        if let Some(at) = soonest {
            self.wake_at(at);
        }
    }
}
