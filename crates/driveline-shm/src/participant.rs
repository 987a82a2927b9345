// SPDX-License-Identifier: Apache-2.0
//! A process's membership in a domain.

use crate::config::{ParticipantConfig, PublisherConfig, SubscriptionConfig};
use crate::control::{Command, Commands, Control, Identity};
use crate::deadline::DeadlineMeter;
use crate::error::MemoryRefusal;
use crate::error::{CreatePublisherError, CreateSubscriptionError, OpenError};
use crate::event::PublisherEvent;
use crate::fault;
use crate::inlet::Inlet;
use crate::layout::Layout;
use crate::limits::{
    MAX_DESCRIPTION_LEN, MAX_HELD, MAX_LOANS, MAX_PINS, MAX_SEQUENCE, OBSERVER_PINS,
};
use crate::protocol::epoch::epoch;
use crate::protocol::writer::Slots;
use crate::publication::{Counters, PubMatch, Publication};
use crate::publisher::Publisher;
use crate::queue::{EventQueue, lock};
use crate::segment::Segment;
use crate::subscription::Subscription;
use crate::sys::admission::admit_memory;
use crate::sys::descriptors;
use crate::sys::descriptors::{DescriptorShortage, ForFirstMatch, Opening};
use crate::sys::directory::Directory;
use crate::sys::fork::Birthplace;
use crate::wire::{Hello, Message};
use driveline_types::id::MAX_NAME_LEN;
use driveline_types::{EndpointId, Qos, Schema};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

struct Running {
    commands: Arc<Commands>,
    thread: JoinHandle<()>,
}

struct Inner {
    identity: Arc<Identity>,
    birthplace: Birthplace,
    running: Mutex<Option<Running>>,
}

/// Membership in a domain. Clones share it; it ends when the last clone and the last endpoint are
/// gone.
///
/// One thread per participant matches endpoints, answers tools and watches deadlines; it starts
/// with the first endpoint and sleeps in the kernel. It reads no payloads, except to copy the
/// unread samples of a publisher that has ended. All methods can be called from any thread.
#[derive(Clone)]
pub struct Participant(Arc<Inner>);

/// Names of a participant in its domain directory. Does not keep the participant alive.
#[derive(Clone, Debug)]
pub struct DomainNames(Arc<Identity>);

impl DomainNames {
    /// Removes the names, for a process that ends without its destructors because a thread hangs.
    /// Does not wait for other threads; if one holds the list of names, nothing is removed.
    pub fn remove(&self) {
        self.0.unlist_all();
    }
}

impl std::fmt::Debug for Participant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Participant")
            .field("id", &self.0.identity.id)
            .field("name", &self.0.identity.name)
            .finish_non_exhaustive()
    }
}

impl Participant {
    /// Joins a domain: opens its directory, or creates it if it is missing, and checks it. Starts
    /// no thread. Blocks on files and allocates; any thread.
    ///
    /// The first call in a process raises its soft limit on open descriptors (`RLIMIT_NOFILE`) to
    /// the hard limit: each match takes one. Programs started from this process inherit the raised
    /// limit; `select` cannot be used with descriptors from 1024 on.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: ParticipantConfig) -> Result<Self, OpenError> {
        descriptors::raise_limit();
        let system = |action| move |source| OpenError::System { action, source };
        let birthplace = Birthplace::here().map_err(system("distinguish processes"))?;
        let directory = Directory::open(config.domain_dir.as_deref())?;
        let id = EndpointId::random().map_err(system("draw a random identity"))?;
        let mut name = config.name;
        cut(&mut name, MAX_NAME_LEN);
        let identity = Identity {
            id,
            name,
            pid: std::process::id(),
            directory,
            description: Mutex::new(String::new()),
            own_names: Mutex::default(),
        };
        Ok(Self(Arc::new(Inner {
            identity: Arc::new(identity),
            birthplace,
            running: Mutex::new(None),
        })))
    }

    /// Returns its names in the domain directory.
    #[must_use]
    pub fn names(&self) -> DomainNames {
        DomainNames(Arc::clone(&self.0.identity))
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> EndpointId {
        self.0.identity.id
    }

    /// The domain's directory.
    #[must_use]
    pub fn domain_dir(&self) -> &Path {
        self.0.identity.directory.path()
    }

    /// Sets the free-form text that listings return for this participant. A text longer than 64 KiB
    /// is replaced by a text with the reason.
    pub fn set_description(&self, mut json: String) {
        if !self.0.birthplace.is_here() {
            return;
        }
        if json.len() > MAX_DESCRIPTION_LEN {
            json = format!(
                "{{\"error\": \"the description has {} bytes and may have \
                 {MAX_DESCRIPTION_LEN}\"}}",
                json.len()
            );
        }
        *lock(&self.0.identity.description) = json;
    }

    /// Creates a publisher: reserves and prefaults its segment, then makes it visible to
    /// subscriptions. Matching continues in the background. Allocates, and takes as long as the
    /// kernel needs to clear the memory. Blocks up to 10 s while other processes of this user
    /// reserve memory.
    ///
    /// # Errors
    /// See [`CreatePublisherError`].
    pub fn create_publisher(
        &self,
        config: PublisherConfig,
    ) -> Result<Publisher, CreatePublisherError> {
        if !self.0.birthplace.is_here() {
            return Err(CreatePublisherError::Forked);
        }
        let topic = config.topic.to_string();
        let refuse = |reason| CreatePublisherError::Config { topic: topic.clone(), reason };
        let system = |action| {
            let topic = topic.clone();
            move |e| CreatePublisherError::System { topic, action, source: descriptors::explain(e) }
        };
        check_numbers(&config).and_then(|()| check_sendable(&config.schema)).map_err(refuse)?;
        let cells = (config.pins + OBSERVER_PINS) as usize;
        let (opening, first_match) =
            self.admit(descriptors::OF_PUBLISHER, descriptors::FIRST_OF_PUBLISHER).map_err(
                |shortage| CreatePublisherError::Descriptors { topic: topic.clone(), shortage },
            )?;
        let layout = Layout::new(
            config.qos.depth as usize,
            config.loans as usize,
            cells,
            config.max_payload,
        )
        .map_err(refuse)?;
        let commands = self.start().map_err(system("start the participant"))?;
        let admission = admit_memory(layout.len() as u64)
            .map_err(|refusal| no_memory(&topic, &layout, refusal))?;
        let (segment_fd, segment) = Segment::create("driveline-segment", layout)
            .map_err(system("reserve its shared memory"))?;
        fault::point("memory.after_reserve");
        drop(admission);
        let id = EndpointId::random().map_err(system("draw a random identity"))?;
        let slots = layout.slots as usize;
        let zeros = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let publication = Arc::new(Publication {
            id,
            topic: config.topic,
            node: config.node,
            schema: config.schema,
            access: config.access,
            max_payload: config.max_payload,
            loans: config.loans,
            pins: config.pins,
            segment,
            segment_fd,
            returned: zeros(slots.div_ceil(64)),
            slot_sequences: zeros(slots),
            counters: Counters::default(),
            events: EventQueue::<PublisherEvent>::new(),
            blocking: Arc::default(),
            deadline: config
                .qos
                .deadline_ms
                .map(|ms| Arc::new(DeadlineMeter::new(Duration::from_millis(u64::from(ms))))),
            deadline_reports: Mutex::default(),
            last_publish_ns: AtomicU64::new(0),
            passed_by: AtomicU64::new(0),
            kick: AtomicU32::new(0),
            wake_limit: config.pins + OBSERVER_PINS,
            qos: config.qos,
            first_match,
        });
        let (scans, changes) = epoch(Vec::<Arc<PubMatch>>::new());
        let (listener, name) = self
            .0
            .identity
            .listen(publication.topic.id(), publication.socket_mode())
            .map_err(system("make a socket in the domain directory"))?;
        let command = Command::AddPublication {
            publication: Arc::clone(&publication),
            changes,
            listener,
            name: name.clone(),
        };
        drop(opening);
        commands.send(command);
        let endpoint = Endpoint { participant: self.clone(), name: Some(name), id };
        let kept = crate::layout::kept(publication.qos.depth as usize);
        let slots = Slots::new(layout.slots as u16, kept, publication.loans as usize);
        Ok(Publisher::new(publication, slots, scans, endpoint))
    }

    /// Creates a subscription. Matching continues in the background, now and for later publishers.
    ///
    /// # Errors
    /// See [`CreateSubscriptionError`].
    pub fn create_subscription(
        &self,
        config: SubscriptionConfig,
    ) -> Result<Subscription, CreateSubscriptionError> {
        if !self.0.birthplace.is_here() {
            return Err(CreateSubscriptionError::Forked);
        }
        let topic = config.topic.to_string();
        let refuse = |reason| CreateSubscriptionError::Config { topic: topic.clone(), reason };
        let system = |action| {
            let topic = topic.clone();
            move |e| CreateSubscriptionError::System {
                topic,
                action,
                source: descriptors::explain(e),
            }
        };
        if config.max_held == 0 || config.max_held > MAX_HELD {
            return Err(refuse(format!(
                "max_held is {} and must be between 1 and {MAX_HELD}",
                config.max_held
            )));
        }
        check_qos(&config.qos).map_err(refuse)?;
        if let crate::config::SchemaRequest::Exact(schema) = &config.schema {
            check_sendable(schema).map_err(refuse)?;
        }
        let (_opening, first_match) =
            self.admit(0, descriptors::FIRST_OF_SUBSCRIPTION).map_err(|shortage| {
                CreateSubscriptionError::Descriptors { topic: topic.clone(), shortage }
            })?;
        let commands = self.start().map_err(system("start the participant"))?;
        let id = EndpointId::random().map_err(system("draw a random identity"))?;
        let inlet = Arc::new(Inlet::new(id, config, first_match));
        commands.send(Command::AddInlet(Arc::clone(&inlet)));
        let endpoint = Endpoint { participant: self.clone(), name: None, id };
        Ok(Subscription::new(inlet, self.0.birthplace, endpoint))
    }

    /// Admits an endpoint if enough descriptors are free for it and for the first matches of all
    /// existing endpoints.
    fn admit(
        &self,
        opens: usize,
        first: usize,
    ) -> Result<(Opening, ForFirstMatch), DescriptorShortage> {
        let of_participant =
            if lock(&self.0.running).is_some() { 0 } else { descriptors::OF_PARTICIPANT };
        descriptors::admit(opens + of_participant, first)
    }

    fn start(&self) -> io::Result<Arc<Commands>> {
        let mut running = lock(&self.0.running);
        if let Some(r) = &*running {
            return Ok(Arc::clone(&r.commands));
        }
        let commands = Arc::new(Commands::new()?);
        let control = Control::new(Arc::clone(&self.0.identity), Arc::clone(&commands))?;
        let thread = std::thread::Builder::new()
            .name("driveline-ctl".into())
            .spawn(move || control.run())?;
        *running = Some(Running { commands: Arc::clone(&commands), thread });
        Ok(commands)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.birthplace.is_here() {
            // The thread does not exist in a child, and its sockets are closed.
            return;
        }
        if let Some(running) = lock(&self.running).take() {
            running.commands.send(Command::Stop);
            // The thread sleeps only in `epoll`, and the command wakes it. A panic in it has been
            // reported already.
            let _ = running.thread.join();
        }
    }
}

/// Resources that end with a publisher or subscription.
pub(crate) struct Endpoint {
    participant: Participant,
    /// Socket in the directory, if it has one.
    name: Option<String>,
    id: EndpointId,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let inner = &self.participant.0;
        if !inner.birthplace.is_here() {
            return;
        }
        if let Some(name) = &self.name {
            inner.identity.unlist(name);
        }
        if let Some(running) = &*lock(&inner.running) {
            running.commands.send(Command::Remove(self.id));
        }
    }
}

fn cut(text: &mut String, len: usize) {
    let mut end = text.len().min(len);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

fn no_memory(topic: &str, layout: &Layout, refusal: MemoryRefusal) -> CreatePublisherError {
    let topic = topic.to_owned();
    match refusal {
        MemoryRefusal::Short { needed, available, limit } => CreatePublisherError::Memory {
            topic,
            needed,
            slots: layout.slots as usize,
            slot_len: layout.stride(),
            available,
            limit,
        },
        refusal @ MemoryRefusal::Busy { .. } => CreatePublisherError::MemoryBusy { topic, refusal },
    }
}

fn check_qos(qos: &Qos) -> Result<(), String> {
    if qos.depth == 0 || qos.depth > Qos::MAX_DEPTH {
        return Err(format!("depth is {} and must be between 1 and {}", qos.depth, Qos::MAX_DEPTH));
    }
    for (name, ms) in [
        ("deadline_ms", qos.deadline_ms),
        ("lifespan_ms", qos.lifespan_ms),
        ("lease_ms", qos.lease_ms),
    ] {
        if ms == Some(0) {
            return Err(format!("{name} is 0: leave it out, or give at least 1"));
        }
    }
    Ok(())
}

fn check_numbers(c: &PublisherConfig) -> Result<(), String> {
    check_qos(&c.qos)?;
    if c.loans == 0 || c.loans > MAX_LOANS {
        return Err(format!("loans is {} and must be between 1 and {MAX_LOANS}", c.loans));
    }
    if c.pins > MAX_PINS {
        return Err(format!("pins is {} and must be at most {MAX_PINS}", c.pins));
    }
    Ok(())
}

/// Checks that a schema fits into the messages of the handshake.
fn check_sendable(schema: &Schema) -> Result<(), String> {
    if schema.definition.len() > Schema::MAX_DEFINITION_LEN {
        return Err(format!(
            "the schema's definition has {} bytes and may have {}",
            schema.definition.len(),
            Schema::MAX_DEFINITION_LEN
        ));
    }
    let name = || "n".parse().map_err(|e: driveline_types::NameError| e.to_string());
    let hello = Hello {
        topic: "t".parse().map_err(|e: driveline_types::NameError| e.to_string())?,
        node: name()?,
        schema: Some(schema.clone()),
        qos: Qos::default(),
        offering: None,
        pins: 1,
        observer: false,
        subscription: EndpointId(u128::from(MAX_SEQUENCE)),
        participant: EndpointId(0),
        pid: 0,
        oldest_version: u16::MAX,
        newest_version: u16::MAX,
        armed_apart: true,
        refuse: None,
    };
    // The real message is longer by two names and some digits. The peer decodes it with the same
    // limits.
    match Message::Hello(Box::new(hello)).encode() {
        Some(packet) if packet.len() + 1024 <= crate::limits::MAX_MESSAGE_LEN => Ok(()),
        _ => {
            Err("the schema's definition has too many characters that need escaping: shorten it"
                .into())
        }
    }
}
