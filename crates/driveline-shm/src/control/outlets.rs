// SPDX-License-Identifier: Apache-2.0
//! The publisher's side of matching.

use super::handshake::{Reception, oversized};
use super::pins::{self, Claim};
use super::{Control, Source};
use crate::event::{PublisherEvent, RefusalCode};
use crate::inlet::first_sequence;
use crate::layout::PAGE_LEN;
use crate::limits::{
    HANDSHAKE_MS, MAX_BLOCKING_TASKS, MAX_GROUPS, MAX_PENDING, MAX_PENDING_PER_USER,
};
use crate::protocol::epoch::Changes;
use crate::publication::{Group, PubMatch, Publication, add};
use crate::sys::blocking_tasks::Foreign;
use crate::sys::fork::GuardedFd;
use crate::sys::{descriptors, futex, memfd, socket};
use crate::wire::{Accept, Hello, Message, Refuse};
use crate::{fault, sys::futex::Scope};
use driveline_types::{EndpointId, MonotonicNs, Reliability, Schema};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

/// A publisher, as the control thread sees it.
pub(super) struct Outlet {
    pub(super) publication: Arc<Publication>,
    pub(super) changes: Changes<Vec<Arc<PubMatch>>>,
    listener: GuardedFd,
    key: u64,
    pub(super) name: String,
    /// True while replaced lists wait for the publishing thread to leave its scan.
    pub(super) reclaiming: bool,
    pub(super) watch: super::watch::PublisherWatch,
    /// True if it was reported that connections cannot be accepted.
    said_shut: bool,
}

/// A connection to a publisher.
pub(super) struct Peer {
    outlet: EndpointId,
    socket: Foreign,
    state: PeerState,
}

impl Peer {
    pub(super) fn undecided(&self) -> Option<&Foreign> {
        matches!(self.state, PeerState::Silent { .. }).then_some(&self.socket)
    }
}

enum PeerState {
    /// Connected; must send its first message by `until`.
    Silent {
        until: MonotonicNs,
    },
    Matched(Arc<PubMatch>),
}

impl Control {
    pub(super) fn add_outlet(
        &mut self,
        publication: Arc<Publication>,
        changes: Changes<Vec<Arc<PubMatch>>>,
        listener: GuardedFd,
        name: String,
    ) {
        let id = publication.id;
        let key = match self.watch(&listener, EventFlags::IN) {
            Ok(key) => key,
            Err(e) => {
                let text = format!(
                    "topic '{}': no process can subscribe: cannot watch the publisher's socket: \
                     {e}",
                    publication.topic
                );
                publication
                    .events
                    .push(PublisherEvent::Refused { code: RefusalCode::System, text });
                return;
            }
        };
        self.sources.insert(key, Source::Listener(id));
        let watch = super::watch::PublisherWatch::new(&publication.qos, self.now);
        let outlet = Outlet {
            publication,
            changes,
            listener,
            key,
            name: name.clone(),
            reclaiming: false,
            watch,
            said_shut: false,
        };
        self.outlets.insert(id, outlet);
        self.discovery.cut = false;
        self.announce(&name);
    }

    pub(super) fn remove_outlet(&mut self, id: EndpointId) {
        let Some(outlet) = self.outlets.remove(&id) else { return };
        self.identity.directory.remove(&outlet.name);
        // Closing takes the descriptors out of epoll.
        socket::turn_away(&outlet.listener, &self.blocking_tasks);
        self.sources.remove(&outlet.key);
        self.sources.retain(|_, s| !matches!(s, Source::Peer(p) if p.outlet == id));
    }

    pub(super) fn accept_peers(&mut self, key: u64, id: EndpointId) {
        // A bound, so that one busy publisher cannot starve the others; epoll reports the rest
        // again.
        for _ in 0..32 {
            let Some(outlet) = self.outlets.get_mut(&id) else { return };
            if self.blocking_tasks.is_full() {
                outlet.say_shut(&format!(
                    "{MAX_BLOCKING_TASKS} descriptors from other users wait \
                     to be closed, and the first of them hangs"
                ));
                return self.rest(key);
            }
            let (connection, last) =
                match self.reserve.accept(&outlet.listener, &self.blocking_tasks) {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => return,
                    Err(e) => {
                        outlet.say_shut(&descriptors::explain(e).to_string());
                        return self.rest(key);
                    }
                };
            let user = connection.user();
            let publication = Arc::clone(&outlet.publication);
            let connected =
                self.sources.values().any(|s| matches!(s, Source::Peer(p) if p.outlet == id));
            let shortage = if connected || last { descriptors::may_accept().err() } else { None };
            if let Some(shortage) = shortage {
                // The event is sent once, whatever the number of attempts.
                outlet.say_shut(&shortage.to_string());
                let text = format!(
                    "topic '{}': the publisher's process has {}",
                    publication.topic,
                    shortage.in_short()
                );
                add(&publication.counters.refused_other, 1);
                send_refusal(&connection, Refuse::new(RefusalCode::System, text));
                continue;
            }
            outlet.said_shut = false;
            if !publication.access.permits(user) {
                let text = format!(
                    "topic '{}': {user} has no right to subscribe; {}",
                    publication.topic,
                    user.remedy()
                );
                refuse(&publication, &connection, Refuse::new(RefusalCode::Access, text));
                continue;
            }
            let pending = |s: &&Source| {
                let Source::Peer(p) = s else { return false };
                p.outlet == id && matches!(p.state, PeerState::Silent { .. })
            };
            let of_user = |s: &&Source| matches!(s, Source::Peer(p) if p.socket.user() == user);
            if self.sources.values().filter(pending).count() >= MAX_PENDING
                || self.sources.values().filter(pending).filter(of_user).count()
                    >= MAX_PENDING_PER_USER
            {
                let text = format!(
                    "topic '{}': too many connections wait for a match; try again",
                    publication.topic
                );
                refuse(&publication, &connection, Refuse::new(RefusalCode::Limit, text));
                continue;
            }
            let Ok(key) = self.watch_undecided(&connection) else { continue };
            let until = self.now + Duration::from_millis(HANDSHAKE_MS);
            let at_once = connection.is_harmless();
            self.sources.insert(
                key,
                Source::Peer(Peer {
                    outlet: id,
                    socket: connection,
                    state: PeerState::Silent { until },
                }),
            );
            // The message has usually arrived already.
            if at_once {
                self.listen(key);
            }
        }
    }

    pub(super) fn peer_ready(&mut self, key: u64) {
        let Some(Source::Peer(peer)) = self.sources.get(&key) else { return };
        match peer.state {
            PeerState::Silent { .. } => self.listen(key),
            // A matched peer sends nothing: the connection has ended, or the peer breaks the
            // protocol.
            PeerState::Matched(_) => self.drop_peer(key),
        }
    }

    pub(super) fn peer_said(&mut self, key: u64, received: Reception) {
        let (decoded, fds) = match received {
            Reception::Said(decoded, fds) => (Ok(decoded), fds),
            Reception::Shortage => {
                let text =
                    format!("the publisher's process has {}", descriptors::shortage().in_short());
                (Err((RefusalCode::System, text)), Vec::new())
            }
            Reception::Oversized => (Err((RefusalCode::Protocol, oversized())), Vec::new()),
            Reception::Nothing | Reception::Ended => return self.drop_peer(key),
        };
        let Some(Source::Peer(peer)) = self.sources.get(&key) else { return };
        self.drop_ended_peers(peer.outlet);
        let Some(Source::Peer(peer)) = self.sources.get_mut(&key) else { return };
        let Some(outlet) = self.outlets.get_mut(&peer.outlet) else { return };
        fault::point("join.after_hello");
        let result = match decoded {
            Ok(Ok(Message::Hello(hello))) => outlet.admit(*hello, fds, peer),
            Ok(Err(e)) => {
                Err(Refuse::new(e.code(), format!("topic '{}': {e}", outlet.publication.topic)))
            }
            Ok(_) => Err(Refuse::new(
                RefusalCode::Protocol,
                format!("topic '{}': the first message is not HELLO", outlet.publication.topic),
            )),
            Err((code, text)) => {
                Err(Refuse::new(code, format!("topic '{}': {text}", outlet.publication.topic)))
            }
        };
        match result {
            Ok(m) => {
                fault::point("join.after_accept");
                let publication = &outlet.publication;
                publication.events.push(PublisherEvent::Matched {
                    subscription: m.hello.subscription,
                    node: m.hello.node.to_string(),
                    pid: m.hello.pid,
                    qos: Box::new(m.hello.qos.clone()),
                });
                peer.state = PeerState::Matched(m);
                if let Some(Source::Peer(peer)) = self.sources.get(&key) {
                    self.watch_decided(key, &peer.socket);
                }
            }
            Err(reason) => {
                refuse(&outlet.publication, &peer.socket, reason);
                self.sources.remove(&key);
            }
        }
    }

    fn drop_peer(&mut self, key: u64) {
        let Some(Source::Peer(peer)) = self.sources.remove(&key) else { return };
        let PeerState::Matched(m) = &peer.state else { return };
        self.discovery.match_ended(self.now);
        if let Some(outlet) = self.outlets.get_mut(&peer.outlet) {
            outlet.dismiss(m);
            outlet.publication.events.push(PublisherEvent::Unmatched {
                subscription: m.hello.subscription,
                node: m.hello.node.to_string(),
            });
        }
    }

    /// Drops the matches whose connections have ended. epoll may report a new connection before it
    /// reports that an earlier one has ended. Without this call, the new one could be refused
    /// although the pins of the earlier one are free.
    fn drop_ended_peers(&mut self, id: EndpointId) {
        let matched = self.sources.iter().filter_map(|(key, source)| match source {
            Source::Peer(p) if p.outlet == id && matches!(p.state, PeerState::Matched(_)) => {
                Some((*key, &p.socket))
            }
            _ => None,
        });
        let (keys, mut fds): (Vec<u64>, Vec<PollFd<'_>>) =
            matched.map(|(key, socket)| (key, PollFd::new(socket, PollFlags::IN))).unzip();
        // If there is no memory for the poll, ended matches are dropped later, by their events.
        if !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..)) {
            return;
        }
        let ended: Vec<u64> = keys
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(key, _)| key)
            .collect();
        for key in ended {
            self.drop_peer(key);
        }
    }

    pub(super) fn expire_peers(&mut self) {
        let now = self.now;
        let mut soonest: Option<MonotonicNs> = None;
        let mut late = Vec::new();
        for (key, source) in &self.sources {
            if let Source::Peer(Peer { state: PeerState::Silent { until }, .. }) = source {
                if *until <= now {
                    late.push(*key);
                } else {
                    soonest = Some(soonest.map_or(*until, |s| s.min(*until)));
                }
            }
        }
        for key in late {
            if let Some(Source::Peer(peer)) = self.sources.remove(&key)
                && let Some(outlet) = self.outlets.get(&peer.outlet)
            {
                let text = format!(
                    "topic '{}': connected for {HANDSHAKE_MS} ms without saying HELLO",
                    outlet.publication.topic
                );
                refuse(&outlet.publication, &peer.socket, Refuse::new(RefusalCode::Silent, text));
            }
        }
        if let Some(at) = soonest {
            self.wake_at(at);
        }
    }

    /// Frees replaced lists of matches that no scan uses any more.
    pub(super) fn reclaim(&mut self) {
        let mut left = false;
        for outlet in self.outlets.values_mut().filter(|o| o.reclaiming) {
            outlet.reclaiming = !outlet.changes.reclaim();
            left |= outlet.reclaiming;
        }
        if left {
            self.wake_in(Duration::from_millis(5));
        }
    }
}

fn refuse(publication: &Publication, socket: &Foreign, refusal: Refuse) {
    let c = &publication.counters;
    let counter = match refusal.code {
        RefusalCode::Type => Some(&c.refused_type),
        RefusalCode::Qos => Some(&c.refused_qos),
        RefusalCode::Access => Some(&c.refused_access),
        RefusalCode::Pins => Some(&c.refused_pins),
        RefusalCode::PassedOver => None,
        _ => Some(&c.refused_other),
    };
    if let Some(counter) = counter {
        add(counter, 1);
        publication
            .events
            .push(PublisherEvent::Refused { code: refusal.code, text: refusal.text.clone() });
    }
    send_refusal(socket, refusal);
}

fn send_refusal(socket: &Foreign, refusal: Refuse) {
    if let Some(packet) = Message::Refuse(refusal).encode() {
        // A peer that does not read its socket misses the message.
        let _ = socket::send(socket, &packet, &[]);
    }
}

impl Outlet {
    pub(super) fn listener(&self) -> &GuardedFd {
        &self.listener
    }

    pub(super) fn replace_listener(&mut self, listener: GuardedFd) {
        self.listener = listener;
    }

    /// Reports that connections cannot be accepted. Reports it again only after a connection was
    /// accepted meanwhile.
    fn say_shut(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.said_shut, true) {
            let text = format!(
                "topic '{}': no process can subscribe for now: {reason}",
                self.publication.topic
            );
            self.publication
                .events
                .push(PublisherEvent::Refused { code: RefusalCode::System, text });
        }
    }

    /// Checks a request. If it is valid, enters the match, then answers. In this order, each
    /// answered subscription is in the list that the next scan reads.
    fn admit(
        &mut self,
        hello: Hello,
        fds: Vec<Foreign>,
        peer: &Peer,
    ) -> Result<Arc<PubMatch>, Refuse> {
        let publication = Arc::clone(&self.publication);
        let p = &*publication;
        let topic = p.topic.as_str();
        let no = |code, text: String| Err(Refuse::new(code, text));
        if hello.topic != p.topic {
            return no(
                RefusalCode::Protocol,
                format!("the request is for topic '{}'; this publisher has '{topic}'", hello.topic),
            );
        }
        let version = match hello.common_version() {
            Ok(version) => version,
            Err(text) => return no(RefusalCode::Version, format!("topic '{topic}': {text}")),
        };
        if let Some(refuse) = &hello.refuse {
            // A HELLO may contain only a temporary refusal. Permanent refusals are sent only by
            // publishers, as the answer to a HELLO.
            let code = if refuse.code.may_pass() { refuse.code } else { RefusalCode::Protocol };
            return no(
                code,
                format!(
                    "topic '{topic}': the subscription of node '{}' cannot be matched: {}",
                    hello.node, refuse.text
                ),
            );
        }
        if hello.offering.is_some_and(|o| o != (p.qos.reliability, p.qos.durability)) {
            return no(
                RefusalCode::PassedOver,
                format!("topic '{topic}': the subscription reads publishers with another QoS"),
            );
        }
        if let Some(expected) = &hello.schema
            && let Err(e) = Schema::check(topic, &p.schema, expected)
        {
            return no(RefusalCode::Type, e.to_string());
        }
        if let Err(e) = p.qos.satisfies(&hello.qos, topic) {
            return no(RefusalCode::Qos, e.to_string());
        }
        let Ok([mut sent]) = <[Foreign; 1]>::try_from(fds) else {
            return no(
                RefusalCode::Protocol,
                format!("topic '{topic}': HELLO does not have exactly one descriptor, of its page"),
            );
        };
        let page = match memfd::open(&mut sent, PAGE_LEN) {
            Ok(page) => page,
            Err(e) => {
                return no(
                    RefusalCode::Protocol,
                    format!("topic '{topic}': the subscription's page is not acceptable: {e}"),
                );
            }
        };
        let matches = self.changes.get();
        let claims = matches.iter().map(|m| Claim {
            user: m.user,
            pins: m.hello.pins,
            observer: m.hello.observer,
        });
        let claim = Claim { user: peer.socket.user(), pins: hello.pins, observer: hello.observer };
        if let Err(e) = pins::grant(&claims.collect::<Vec<_>>(), claim, p.pins, &p.access) {
            return no(
                RefusalCode::Pins,
                format!("topic '{topic}': the subscription of node '{}': {e}", hello.node),
            );
        }
        let group = match Group::of(peer.socket.user(), matches) {
            Ok(Some(group)) => group,
            Ok(None) => {
                let text = format!(
                    "topic '{topic}': subscriptions of {MAX_GROUPS} users are matched, and no more \
                     can be at a time"
                );
                return no(RefusalCode::Limit, text);
            }
            Err(e) => {
                return no(
                    RefusalCode::System,
                    format!(
                        "topic '{topic}': cannot make a wake word: {}",
                        descriptors::explain(e)
                    ),
                );
            }
        };

        let reliable = p.qos.reliability == Reliability::Reliable
            && hello.qos.reliability == Reliability::Reliable
            && !hello.observer;
        let (requested, armed_apart) = (hello.qos.clone(), hello.armed_apart);
        let m =
            Arc::new(PubMatch::new(page, hello, peer.socket.user(), Arc::clone(&group), reliable));
        let mut list = matches.clone();
        list.push(Arc::clone(&m));
        self.reclaiming |= !self.changes.replace(list);
        fault::point("join.after_entry");
        // Determined after the entry: from here on, the publisher respects the subscription's pins
        // and wakes it.
        let first = first_sequence(p.sequence(), &p.qos, &requested, reliable);
        let accept = Accept {
            publisher: p.id,
            node: p.node.clone(),
            pid: std::process::id(),
            schema: p.schema.clone(),
            qos: p.qos.clone(),
            layout: p.segment.layout,
            first,
            version,
            armed_apart,
        };
        let sent = Message::Accept(Box::new(accept))
            .encode()
            .ok_or_else(|| io::Error::other("the answer is too long"))
            .and_then(|packet| {
                socket::send(&peer.socket, &packet, &[p.segment_fd.as_fd(), group.fd.as_fd()])
            });
        if let Err(e) = sent {
            self.dismiss(&m);
            if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) {
                // The subscription has left meanwhile, as a finished tool does. This is no refusal.
                let text = format!("topic '{topic}': the subscription has left");
                return no(RefusalCode::PassedOver, text);
            }
            return no(RefusalCode::System, format!("topic '{topic}': cannot answer: {e}"));
        }
        // Release pairs with the Acquire in reliable::look; from now on the publisher may wait for
        // the subscription.
        m.believed.store(first - 1, Release);
        self.publication.counters.matched.store(self.changes.get().len() as u64, Relaxed);
        self.publication.first_match.keep_if(false);
        Ok(m)
    }

    /// Takes a match out of the list. Its pins no longer count.
    fn dismiss(&mut self, m: &Arc<PubMatch>) {
        m.gone.store(true, Relaxed);
        let list: Vec<_> =
            self.changes.get().iter().filter(|o| !Arc::ptr_eq(o, m)).cloned().collect();
        self.publication.counters.matched.store(list.len() as u64, Relaxed);
        self.publication.first_match.keep_if(list.is_empty());
        self.reclaiming |= !self.changes.replace(list);
        self.publication.kick.fetch_add(1, Release);
        futex::wake(&self.publication.kick, Scope::Private, 1);
    }
}
