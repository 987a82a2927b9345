// SPDX-License-Identifier: Apache-2.0
//! The subscription's side of matching.

use super::dial::{Dial, DialState, InletState, Known};
use super::handshake::{Reception, oversized};
use super::match_limits::{self, Admission};
use super::{Control, Source};
use crate::config::{OwnProcess, SchemaRequest};
use crate::event::{RefusalCode, SubscriptionEvent};
use crate::fault;
use crate::inlet::{Edge, Inlet, Page};
use crate::layout::{OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION};
use crate::limits::{HANDSHAKE_MS, MAX_FOREIGN_MATCHES, MAX_MATCHES, MAX_MATCHES_PER_USER};
use crate::queue::lock;
use crate::sys::blocking_tasks::Foreign;
use crate::sys::descriptors::{self, DescriptorShortage};
use crate::sys::directory::{Kind, Name};
use crate::sys::peer::User;
use crate::sys::socket::{self, ConnectError};
use crate::wire::{Accept, Hello, Message, Refuse};
use driveline_types::{EndpointId, MonotonicNs, Schema};
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// First and longest pause before a publisher that cannot be matched now is dialled again.
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

impl Control {
    pub(super) fn add_inlet(&mut self, inlet: Arc<Inlet>) {
        let watch = super::watch::SubscriptionWatch::new(&inlet.qos);
        let state = InletState {
            topic: inlet.topic.id().0,
            known: HashMap::new(),
            notified: HashSet::new(),
            watch,
            inlet,
        };
        self.inlets.insert(state.inlet.id, state);
        self.discovery.cut = false;
        self.discovery.look();
    }

    pub(super) fn remove_inlet(&mut self, id: EndpointId) {
        let Some(mut state) = self.inlets.remove(&id) else { return };
        let gone: Vec<u64> = self
            .sources
            .iter()
            .filter(|(_, s)| matches!(s, Source::Dial(d) if d.inlet == id))
            .map(|(k, _)| *k)
            .collect();
        for key in gone {
            // Held samples may keep the connection open, so it is removed from epoll now.
            if let Some(Source::Dial(Dial { state: DialState::Matched { edge, .. }, .. })) =
                self.sources.remove(&key)
            {
                let _ = rustix::event::epoll::delete(self.blocking_tasks.epoll(), &edge.socket);
            }
        }
        // Views of the subscription (`Publishers`) can outlive it. They must not count these
        // publishers any more.
        for edge in state.inlet.edges() {
            state.watch.remove(&edge, state.inlet.deadline.as_ref());
        }
        state.inlet.change(Vec::clear);
    }

    /// Handles the name of a publisher: dials it for every subscription of its topic that does not
    /// know the name yet.
    pub(super) fn consider(&mut self, name: &Name) {
        let Kind::Publisher(topic) = name.kind else { return };
        let wanted: Vec<EndpointId> = self
            .inlets
            .values()
            .filter(|s| s.topic == topic && !s.known.contains_key(&name.text))
            .map(|s| s.inlet.id)
            .collect();
        for id in wanted {
            self.dial(id, &name.text, RETRY_FIRST);
        }
    }

    /// Forgets names that are no longer in the directory, except those of living connections.
    pub(super) fn forget_absent(&mut self, present: &HashSet<&str>) {
        for state in self.inlets.values_mut() {
            state.known.retain(|name, known| {
                matches!(known, Known::Connected) || present.contains(name.as_str())
            });
            state.notified.retain(|name| present.contains(name.as_str()));
            lock(&state.inlet.refusals).retain(|name, _| present.contains(name.as_str()));
        }
    }

    fn dial(&mut self, id: EndpointId, name: &str, pause: Duration) {
        let own = lock(&self.identity.own_names).contains(name)
            || self.outlets.values().any(|o| o.name == name);
        let Some(state) = self.inlets.get_mut(&id) else { return };
        if own && state.inlet.own_process == OwnProcess::Exclude {
            state.known.insert(name.to_owned(), Known::Refused);
            return;
        }
        if self.blocking_tasks.is_full() && !self.identity.directory.is_of_trusted(name) {
            put_off(state, name, self.now, pause);
            return;
        }
        let dialled = self.sources.values().any(|s| matches!(s, Source::Dial(d) if d.inlet == id));
        let shortage =
            if dialled { descriptors::may_dial() } else { descriptors::can_dial() }.err();
        if shortage.is_some() && state.notified.contains(name) {
            return put_off(state, name, self.now, pause);
        }
        let connection = self.connect(name);
        let Some(state) = self.inlets.get_mut(&id) else { return };
        match connection {
            Ok(socket) if state.inlet.access.permits(socket.user()) => match self
                .admission_for(id, socket.user())
            {
                Admission::Free | Admission::InsteadOf(_) => match shortage {
                    None => self.hello(id, name, socket, pause),
                    Some(shortage) => self.decline_for_shortage(id, name, &socket, pause, shortage),
                },
                Admission::Later => {
                    if let Some(state) = self.inlets.get_mut(&id) {
                        put_off(state, name, self.now, pause);
                    }
                }
                Admission::None => {
                    let Some(state) = self.inlets.get(&id) else { return };
                    let text = format!(
                        "too many publishers are matched: at most {MAX_MATCHES}, \
                         {MAX_FOREIGN_MATCHES} of other users and {MAX_MATCHES_PER_USER} of one \
                         other; end some, or give them a topic of their own"
                    );
                    let here = format!("topic '{}': {text}", state.inlet.topic);
                    self.decline(id, name, &socket, pause, RefusalCode::Limit, (here, text));
                }
            },
            Ok(socket) => {
                let user = socket.user();
                let text = format!(
                    "topic '{}': this subscription does not accept publishers of {user}; {} here",
                    state.inlet.topic,
                    user.remedy()
                );
                self.refused(id, name, &Refuse::new(RefusalCode::Access, text), pause);
            }
            Err(ConnectError::Dead) => {
                if self.identity.directory.remove(name) {
                    state.known.remove(name);
                } else {
                    // The socket is another user's leftover in a sticky directory. Names are never
                    // used again, so this one need not be dialled again.
                    state.known.insert(name.to_owned(), Known::Refused);
                }
            }
            Err(ConnectError::Busy) => put_off(state, name, self.now, pause),
            Err(ConnectError::Denied) => {
                let text = format!(
                    "topic '{}': this user may not connect to the publisher; add it to the topic's \
                     users",
                    state.inlet.topic
                );
                self.refused(id, name, &Refuse::new(RefusalCode::Access, text), pause);
            }
            Err(ConnectError::Other(e)) => {
                let text = format!(
                    "topic '{}': cannot connect to the publisher: {}",
                    state.inlet.topic,
                    descriptors::explain(e)
                );
                self.refused(id, name, &Refuse::new(RefusalCode::System, text), pause);
            }
        }
    }

    /// Decides whether another publisher of this user may be dialled. If necessary, a silent
    /// publisher is disconnected for a while in its favour.
    fn admission_for(&mut self, id: EndpointId, user: User) -> Admission {
        let dials = self.sources.iter().filter_map(|(key, s)| match s {
            Source::Dial(d) if d.inlet == id => Some(d.dialled(*key)),
            _ => None,
        });
        let admission = match_limits::admit(&dials.collect::<Vec<_>>(), user);
        if let Admission::InsteadOf(key) = admission
            && let Some(Source::Dial(silent)) = self.sources.remove(&key)
            && let Some(state) = self.inlets.get_mut(&id)
        {
            put_off(state, &silent.name, self.now, RETRY_LONGEST);
        }
        admission
    }

    fn hello(&mut self, id: EndpointId, name: &str, mut socket: Foreign, pause: Duration) {
        let Some(state) = self.inlets.get(&id) else { return };
        let inlet = Arc::clone(&state.inlet);
        let hello = self.request(&inlet);
        let result = (|| {
            let (page_fd, page) = Page::create(inlet.max_held as usize)?;
            let packet = Message::Hello(Box::new(hello))
                .encode()
                .ok_or_else(|| std::io::Error::other("the request is too long"))?;
            socket.is_open_to_descriptors();
            socket::take_descriptors(&socket, true);
            let key = self.watch_undecided(&socket)?;
            fault::point("join.before_hello");
            match socket::send(&socket, &packet, &[page_fd.as_fd()]) {
                // The publisher refused the user and hung up. Its reason can still be read.
                Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
                other => other?,
            }
            Ok::<_, std::io::Error>((key, page))
        })();
        match result {
            Ok((key, page)) => {
                let complain_at = Some(self.now + Duration::from_millis(HANDSHAKE_MS));
                let state = DialState::Asked { socket, page, pause, complain_at };
                self.sources
                    .insert(key, Source::Dial(Dial { inlet: id, name: name.to_owned(), state }));
                if let Some(state) = self.inlets.get_mut(&id) {
                    state.known.insert(name.to_owned(), Known::Connected);
                }
            }
            Err(e) if descriptors::is_shortage(&e) => {
                self.decline_for_shortage(id, name, &socket, pause, descriptors::shortage())
            }
            Err(e) => {
                let text =
                    format!("topic '{}': cannot ask the publisher for a match: {e}", inlet.topic);
                self.refused(id, name, &Refuse::new(RefusalCode::System, text), pause);
            }
        }
    }

    fn decline_for_shortage(
        &mut self,
        id: EndpointId,
        name: &str,
        socket: &Foreign,
        pause: Duration,
        shortage: DescriptorShortage,
    ) {
        let Some(state) = self.inlets.get(&id) else { return };
        let here = format!(
            "topic '{}': the publisher cannot be matched: this process has {shortage}",
            state.inlet.topic
        );
        let there = format!("its process has {}", shortage.in_short());
        self.decline(id, name, socket, pause, RefusalCode::System, (here, there));
    }

    /// Reports to the subscription and, once, to the publisher why they cannot be matched now.
    fn decline(
        &mut self,
        id: EndpointId,
        name: &str,
        socket: &Foreign,
        pause: Duration,
        code: RefusalCode,
        (here, there): (String, String),
    ) {
        let Some(state) = self.inlets.get_mut(&id) else { return };
        if state.notified.insert(name.to_owned()) {
            let inlet = Arc::clone(&state.inlet);
            let hello = Hello { refuse: Some(Refuse::new(code, there)), ..self.request(&inlet) };
            if let Some(packet) = Message::Hello(Box::new(hello)).encode() {
                // A publisher that has hung up need not be notified.
                let _ = socket::send(socket, &packet, &[]);
            }
        }
        self.refused(id, name, &Refuse::new(code, here), pause);
    }

    fn request(&self, inlet: &Inlet) -> Hello {
        Hello {
            topic: inlet.topic.clone(),
            node: inlet.node.clone(),
            schema: match &inlet.schema {
                SchemaRequest::Exact(schema) => Some(schema.clone()),
                SchemaRequest::Any => None,
            },
            qos: inlet.qos.clone(),
            offering: inlet.offering,
            pins: inlet.max_held,
            observer: inlet.observer,
            subscription: inlet.id,
            participant: self.identity.id,
            pid: self.identity.pid,
            oldest_version: OLDEST_PROTOCOL_VERSION,
            newest_version: PROTOCOL_VERSION,
            armed_apart: true,
            refuse: None,
        }
    }

    fn refused(&mut self, id: EndpointId, name: &str, reason: &Refuse, pause: Duration) {
        let now = self.now;
        let Some(state) = self.inlets.get_mut(&id) else { return };
        let known = if reason.code.may_pass() {
            Known::Retry { at: now + pause, pause: (pause * 2).min(RETRY_LONGEST) }
        } else {
            Known::Refused
        };
        state.known.insert(name.to_owned(), known);
        if reason.code == RefusalCode::PassedOver {
            return;
        }
        // The same reason from the same publisher is reported once.
        let before =
            lock(&state.inlet.refusals).insert(name.to_owned(), (reason.code, reason.text.clone()));
        if before.is_none_or(|(_, text)| text != reason.text) {
            state
                .inlet
                .event(SubscriptionEvent::Refused { code: reason.code, text: reason.text.clone() });
        }
    }

    pub(super) fn dial_ready(&mut self, key: u64) {
        let Some(Source::Dial(dial)) = self.sources.get(&key) else { return };
        match dial.state {
            DialState::Asked { .. } => self.listen(key),
            // A publisher sends nothing after its answer.
            DialState::Matched { .. } => self.hung_up(key),
        }
    }

    pub(super) fn publisher_said(&mut self, key: u64, received: Reception) {
        let (decoded, fds) = match received {
            Reception::Said(decoded, fds) => (Ok(decoded), fds),
            Reception::Shortage => {
                let text = format!(
                    "the publisher cannot be matched: this process has {}",
                    descriptors::shortage()
                );
                (Err((RefusalCode::System, text)), Vec::new())
            }
            Reception::Oversized => (
                Err((RefusalCode::Protocol, format!("the publisher's answer: {}", oversized()))),
                Vec::new(),
            ),
            Reception::Nothing | Reception::Ended => return self.hung_up(key),
        };
        let Some(Source::Dial(Dial {
            inlet: id,
            name,
            state: DialState::Asked { socket, page, pause, .. },
        })) = self.sources.remove(&key)
        else {
            return;
        };
        let Some(state) = self.inlets.get_mut(&id) else { return };
        let inlet = Arc::clone(&state.inlet);
        fault::point("join.after_answer");
        let topic = inlet.topic.as_str();
        let refusal = match decoded {
            Ok(Ok(Message::Refuse(refusal))) => refusal,
            Ok(Ok(Message::Accept(accept))) => match open(&accept, fds, page, socket, &inlet) {
                Ok(edge) => {
                    let edge = Arc::new(edge);
                    state.watch.add(&edge, self.now);
                    lock(&inlet.refusals).remove(&name);
                    state.notified.remove(&name);
                    inlet.change(|edges| edges.push(Arc::clone(&edge)));
                    // Sent after the change, so that a thread that receives the event finds the
                    // publisher.
                    inlet.event(SubscriptionEvent::Matched {
                        publisher: edge.publisher,
                        node: edge.node.to_string(),
                        pid: edge.pid,
                        schema: Box::new(accept.schema.clone()),
                        qos: Box::new(edge.qos.clone()),
                        max_payload: edge.segment.layout.max_payload,
                        first: edge.first,
                    });
                    self.watch_decided(key, &edge.socket);
                    let state = DialState::Matched { edge, since: self.now, pause };
                    self.sources.insert(key, Source::Dial(Dial { inlet: id, name, state }));
                    return;
                }
                Err(refusal) => refusal,
            },
            Ok(Err(e)) => {
                Refuse::new(e.code(), format!("topic '{topic}': the publisher's answer: {e}"))
            }
            Err((code, text)) => Refuse::new(code, format!("topic '{topic}': {text}")),
            Ok(_) => Refuse::new(
                RefusalCode::Protocol,
                format!("topic '{topic}': the publisher answered with neither ACCEPT nor REFUSE"),
            ),
        };
        self.refused(id, &name, &refusal, pause);
    }

    /// Handles the end of a connection. The publisher has ended, or it lives and has hung up, for
    /// example for lack of descriptors. Dialling again distinguishes the two, and removes the
    /// socket of a dead publisher.
    fn hung_up(&mut self, key: u64) {
        let Some(Source::Dial(dial)) = self.sources.remove(&key) else { return };
        let Some(state) = self.inlets.get_mut(&dial.inlet) else { return };
        // A publisher that hangs up repeatedly is dialled less and less often.
        let pause = match &dial.state {
            DialState::Asked { pause, .. } => *pause,
            DialState::Matched { since, .. } if self.now.since(*since) > RETRY_LONGEST => {
                RETRY_FIRST
            }
            DialState::Matched { pause, .. } => *pause,
        };
        lock(&state.inlet.refusals).remove(&dial.name);
        put_off(state, &dial.name, self.now, pause);
        let DialState::Matched { edge, .. } = dial.state else { return };
        let _ = rustix::event::epoll::delete(self.blocking_tasks.epoll(), &edge.socket);
        edge.ended.store(true, Relaxed);
        state.watch.remove(&edge, state.inlet.deadline.as_ref());
        let last = crate::protocol::reader::newest(&edge.segment).0;
        state.inlet.events.push(SubscriptionEvent::Unmatched {
            publisher: edge.publisher,
            node: edge.node.to_string(),
            last,
        });
        state.inlet.keep_unread_of_ended(&edge);
        // The publisher may have been restarted under another name.
        self.discovery.look();
        self.discovery.match_ended(self.now);
    }

    pub(super) fn expire_dials(&mut self) {
        let now = self.now;
        let mut again = Vec::new();
        let mut soonest: Option<MonotonicNs> = None;
        let mut note =
            |at: MonotonicNs| soonest = Some(soonest.map_or(at, |s: MonotonicNs| s.min(at)));
        for state in self.inlets.values() {
            for (name, known) in &state.known {
                match known {
                    Known::Retry { at, pause } if *at <= now => {
                        again.push((state.inlet.id, name.clone(), *pause))
                    }
                    Known::Retry { at, .. } => note(*at),
                    _ => {}
                }
            }
        }
        for source in self.sources.values_mut() {
            if let Source::Dial(Dial { inlet, name, state: DialState::Asked { complain_at, .. } }) =
                source
                && let Some(at) = *complain_at
            {
                if at > now {
                    note(at);
                    continue;
                }
                // A silent publisher need not be dead: a stopped process may continue. It stays
                // dialled, and does not delay others.
                *complain_at = None;
                if let Some(state) = self.inlets.get(inlet) {
                    let text = format!(
                        "topic '{}': a publisher has not answered for {HANDSHAKE_MS} ms; is its \
                         process stopped?",
                        state.inlet.topic
                    );
                    let before = lock(&state.inlet.refusals)
                        .insert(name.clone(), (RefusalCode::Silent, text.clone()));
                    if before.is_none_or(|(_, reported)| reported != text) {
                        state
                            .inlet
                            .event(SubscriptionEvent::Refused { code: RefusalCode::Silent, text });
                    }
                }
            }
        }
        for (id, name, pause) in again {
            self.dial(id, &name, pause);
            if let Some(Known::Retry { at, .. }) =
                self.inlets.get(&id).and_then(|s| s.known.get(&name))
            {
                note(*at);
            }
        }
        if let Some(at) = soonest {
            self.wake_at(at);
        }
    }
}

/// Schedules another attempt, with increasing pauses.
fn put_off(state: &mut InletState, name: &str, now: MonotonicNs, pause: Duration) {
    let retry = Known::Retry { at: now + pause, pause: (pause * 2).min(RETRY_LONGEST) };
    state.known.insert(name.to_owned(), retry);
}

/// Checks an ACCEPT as if the publisher had checked nothing.
fn open(
    accept: &Accept,
    fds: Vec<Foreign>,
    page: Page,
    socket: Foreign,
    inlet: &Inlet,
) -> Result<Edge, Refuse> {
    let topic = inlet.topic.as_str();
    if inlet.offering.is_some_and(|o| o != (accept.qos.reliability, accept.qos.durability)) {
        // A publisher of an earlier release does not check `offering`.
        return Err(Refuse::new(
            RefusalCode::PassedOver,
            format!("topic '{topic}': it offers another QoS"),
        ));
    }
    if let SchemaRequest::Exact(expected) = &inlet.schema
        && let Err(e) = Schema::check(topic, &accept.schema, expected)
    {
        return Err(Refuse::new(RefusalCode::Type, e.to_string()));
    }
    if let Err(e) = accept.qos.satisfies(&inlet.qos, topic) {
        return Err(Refuse::new(RefusalCode::Qos, e.to_string()));
    }
    let Ok(fds) = <[Foreign; 2]>::try_from(fds) else {
        return Err(Refuse::new(
            RefusalCode::Protocol,
            format!(
                "topic '{topic}': ACCEPT does not have its two descriptors, of segment and wake \
                 word"
            ),
        ));
    };
    Edge::open(accept, fds, page, socket, inlet).map_err(|e| {
        // Shortages of this process, which may be temporary.
        if e.kind() == std::io::ErrorKind::OutOfMemory || descriptors::is_shortage(&e) {
            let text = format!(
                "topic '{topic}': cannot map the publisher's memory: {}",
                descriptors::explain(e)
            );
            return Refuse::new(RefusalCode::System, text);
        }
        Refuse::new(
            RefusalCode::Protocol,
            format!("topic '{topic}': the publisher's memory is not acceptable: {e}"),
        )
    })
}
