// SPDX-License-Identifier: Apache-2.0
//! [`Context`]: a process's membership in a domain. [`Node`]: creates endpoints.

use crate::error::{EndpointError, NodeError, OpenError};
use crate::local::LocalTopic;
use crate::options::{PublisherOptions, Reach, SubscriptionOptions};
use crate::parameters::Parameters;
use crate::raw::{RawPublisher, RawSubscription};
use crate::service::{ServiceCalls, Tallies};
use driveline_shm::{Participant, ParticipantConfig};
use driveline_types::limits::{MAX_HELD, MAX_LOANS, MAX_PAYLOAD, MAX_PINS};
use driveline_types::service::is_reserved;
use driveline_types::{NameError, NodeName, PayloadKind, Qos, Schema, ServiceName, TopicName};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Options of a [`Context`].
#[derive(Clone, Debug, Default)]
pub struct ContextOptions {
    /// Name of the process, as tools show it.
    pub name: String,
    /// Domain directory; `None` takes `DRIVELINE_DOMAIN_DIR`, or else the user's domain named by
    /// `DRIVELINE_DOMAIN`, or else the user's default domain.
    pub domain_dir: Option<PathBuf>,
}

impl ContextOptions {
    /// The default domain under a given process name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), domain_dir: None }
    }
}

/// A process's membership in a domain. Cheap to clone; any thread. Endpoints keep it alive.
///
/// Until an endpoint with host or network reach is created, the process touches nothing outside
/// itself except the domain's directory, which it creates if missing.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    participant: Participant,
    topics: Mutex<BTreeMap<TopicName, Weak<LocalTopic>>>,
    /// Services that this process offers.
    services: Mutex<BTreeSet<ServiceName>>,
    next_id: AtomicU64,
}

/// Registration of a service that this process offers. Ends when it is dropped.
pub(crate) struct Offer {
    context: Context,
    service: ServiceName,
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.context
            .inner
            .services
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.service);
    }
}

impl Context {
    /// Joins a domain. Blocks for file operations and allocates.
    ///
    /// The first call in a process raises its soft limit on open descriptors to the hard limit
    /// (`ulimit -Hn`), since each match takes one descriptor. Programs started from the process
    /// inherit the limit; `select` cannot be used with descriptors from 1024 on.
    ///
    /// # Errors
    /// [`OpenError`] if the domain directory cannot be used.
    pub fn new(options: ContextOptions) -> Result<Self, OpenError> {
        let participant = Participant::open(ParticipantConfig {
            domain_dir: options.domain_dir,
            name: options.name,
        })?;
        // Ids only have to be unique within the process. They start at the participant's id, so
        // that trace ids of two processes differ.
        let start = participant.id().0 as u64;
        Ok(Self {
            inner: Arc::new(Inner {
                participant,
                topics: Mutex::default(),
                services: Mutex::default(),
                next_id: AtomicU64::new(start),
            }),
        })
    }

    /// Creates a node.
    ///
    /// # Errors
    /// [`NodeError`] if the name breaks the rules.
    pub fn node(&self, name: &str) -> Result<Node, NodeError> {
        Ok(Node {
            context: self.clone(),
            name: name.parse()?,
            parameters: Parameters::default(),
            tallies: Tallies::default(),
        })
    }

    /// The directory through which the processes of the domain find each other.
    #[must_use]
    pub fn domain_dir(&self) -> &Path {
        self.inner.participant.domain_dir()
    }

    /// Sets the text (JSON by convention, at most 64 KiB) that tools show about this process. If it
    /// is longer, tools show a notice in its place, and an error is logged.
    pub fn set_description(&self, json: String) {
        if json.len() > driveline_shm::limits::MAX_DESCRIPTION_LEN {
            let (bytes, most) = (json.len(), driveline_shm::limits::MAX_DESCRIPTION_LEN);
            tracing::error!(
                "the description of this process has {bytes} bytes and may have {most}: tools do \
                 not show it; shorten it"
            );
        }
        self.inner.participant.set_description(json);
    }

    /// Returns the names of this process in the domain directory. They do not keep the context
    /// alive.
    #[must_use]
    pub fn names(&self) -> driveline_shm::DomainNames {
        self.inner.participant.names()
    }

    pub(crate) fn participant(&self) -> &Participant {
        &self.inner.participant
    }

    /// Registers a service of this process; returns `None` if the process offers it already.
    pub(crate) fn offer(&self, service: &ServiceName) -> Option<Offer> {
        let mut services = self.inner.services.lock().unwrap_or_else(PoisonError::into_inner);
        services
            .insert(service.clone())
            .then(|| Offer { context: self.clone(), service: service.clone() })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn topic(&self, name: &TopicName) -> Arc<LocalTopic> {
        let mut topics = self.inner.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = topics.get(name).and_then(Weak::upgrade) {
            return topic;
        }
        topics.retain(|_, t| t.strong_count() > 0);
        let topic = Arc::new(LocalTopic::new(name.clone()));
        topics.insert(name.clone(), Arc::downgrade(&topic));
        topic
    }
}

/// A named part of the system that publishes, subscribes and has parameters. Cheap to clone; any
/// thread.
#[derive(Clone)]
pub struct Node {
    context: Context,
    name: NodeName,
    parameters: Parameters,
    tallies: Tallies,
}

impl Node {
    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(crate) fn node_name(&self) -> &NodeName {
        &self.name
    }

    /// The node's parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns counters of the calls of the node's clients and services, by service and end, at
    /// most 256. Calls of dropped clients and services are included. Allocates; any thread.
    #[must_use]
    pub fn calls(&self) -> Vec<ServiceCalls> {
        self.tallies.read()
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// The context that the node belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Creates a publisher of any payload kind. Reserves all its memory.
    ///
    /// # Errors
    /// [`EndpointError`], for example if the name or an option is not possible, or memory is short.
    pub fn raw_publisher(
        &self,
        topic: &str,
        schema: Schema,
        options: PublisherOptions,
    ) -> Result<RawPublisher, EndpointError> {
        let name = topic_name(topic)?;
        check(topic, &schema, options.reach, &options.qos)?;
        within(topic, "loans", options.loans, 1..=MAX_LOANS)?;
        within(topic, "pins", options.pins, 0..=MAX_PINS)?;
        if options.max_payload > MAX_PAYLOAD {
            return Err(option(
                topic,
                "max_payload",
                options.max_payload,
                format!("at most {MAX_PAYLOAD} bytes are possible"),
            ));
        }
        RawPublisher::new(&self.context, &self.name, name, schema, options)
    }

    /// Creates a subscription of any payload kind.
    ///
    /// # Errors
    /// [`EndpointError`], for example if the name or an option is not possible, or memory is short.
    pub fn raw_subscription(
        &self,
        topic: &str,
        schema: Schema,
        options: SubscriptionOptions,
    ) -> Result<RawSubscription, EndpointError> {
        let name = topic_name(topic)?;
        check(topic, &schema, options.reach, &options.qos)?;
        within(topic, "max_held", options.max_held, 1..=MAX_HELD)?;
        RawSubscription::new(&self.context, &self.name, name, schema, options)
    }

    /// A publisher of opaque bytes with a named encoding.
    ///
    /// # Errors
    /// As [`Self::raw_publisher`].
    pub fn bytes_publisher(
        &self,
        topic: &str,
        encoding: &str,
        options: PublisherOptions,
    ) -> Result<RawPublisher, EndpointError> {
        self.raw_publisher(topic, Schema::bytes("bytes", encoding.to_owned(), ""), options)
    }

    /// A subscription of opaque bytes with a named encoding.
    ///
    /// # Errors
    /// As [`Self::raw_subscription`].
    pub fn bytes_subscription(
        &self,
        topic: &str,
        encoding: &str,
        options: SubscriptionOptions,
    ) -> Result<RawSubscription, EndpointError> {
        self.raw_subscription(topic, Schema::bytes("bytes", encoding.to_owned(), ""), options)
    }
}

/// Parses the name of an application's topic; names of service topics are reserved.
fn topic_name(topic: &str) -> Result<TopicName, NameError> {
    if is_reserved(topic) {
        let reason = "'_service' begins the names of topics that services are made of; make a \
             client or a service with the name that follows it";
        return Err(NameError { name: topic.to_owned(), reason });
    }
    topic.parse()
}

fn check(topic: &str, schema: &Schema, reach: Reach, qos: &Qos) -> Result<(), EndpointError> {
    if schema.kind == PayloadKind::Object && reach != Reach::Process {
        return Err(EndpointError::ObjectBeyondProcess { topic: topic.to_owned() });
    }
    within(topic, "qos.depth", qos.depth, 1..=Qos::MAX_DEPTH)?;
    for (name, ms) in [
        ("qos.deadline_ms", qos.deadline_ms),
        ("qos.lifespan_ms", qos.lifespan_ms),
        ("qos.lease_ms", qos.lease_ms),
    ] {
        if ms == Some(0) {
            return Err(option(topic, name, 0, "leave it out, or give at least 1"));
        }
    }
    Ok(())
}

fn within(
    topic: &str,
    name: &'static str,
    value: u32,
    range: RangeInclusive<u32>,
) -> Result<(), EndpointError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(option(
        topic,
        name,
        value,
        format!("it must be between {} and {}", range.start(), range.end()),
    ))
}

fn option(
    topic: &str,
    option: &'static str,
    value: impl ToString,
    reason: impl Into<String>,
) -> EndpointError {
    EndpointError::Option {
        topic: topic.to_owned(),
        option,
        value: value.to_string(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that the host transport refuses is refused at every reach, so that changing the
    /// reach changes nothing else.
    #[test]
    fn bounds_are_the_same_at_every_reach() {
        let dir = tempfile::tempdir().unwrap();
        let options = ContextOptions {
            domain_dir: Some(dir.path().join("d")),
            ..ContextOptions::named("test")
        };
        let node = Context::new(options).unwrap().node("n").unwrap();
        for reach in [Reach::Process, Reach::Host] {
            let publisher = |change: &dyn Fn(&mut PublisherOptions)| {
                let mut o =
                    PublisherOptions { reach, max_payload: 8, ..PublisherOptions::default() };
                change(&mut o);
                node.bytes_publisher("t", "e", o).map(drop).map_err(|e| e.to_string())
            };
            let subscription = |max_held, depth| {
                let qos = Qos { depth, ..Qos::default() };
                node.bytes_subscription(
                    "t",
                    "e",
                    SubscriptionOptions { reach, max_held, qos, ..SubscriptionOptions::default() },
                )
                .map(drop)
                .map_err(|e| e.to_string())
            };
            assert_eq!(
                publisher(
                    &|o| (o.loans, o.pins, o.qos.depth) = (MAX_LOANS, MAX_PINS, Qos::MAX_DEPTH)
                ),
                Ok(())
            );
            assert_eq!(subscription(MAX_HELD, Qos::MAX_DEPTH), Ok(()));
            let refusals = [
                publisher(&|o| o.loans = MAX_LOANS + 1),
                publisher(&|o| o.pins = MAX_PINS + 1),
                publisher(&|o| o.max_payload = MAX_PAYLOAD + 1),
                publisher(&|o| o.qos.depth = Qos::MAX_DEPTH + 1),
                publisher(&|o| o.qos.deadline_ms = Some(0)),
                publisher(&|o| o.qos.lifespan_ms = Some(0)),
                publisher(&|o| o.qos.lease_ms = Some(0)),
                subscription(MAX_HELD + 1, 1),
                subscription(1, 0),
            ];
            for (i, r) in refusals.iter().enumerate() {
                assert!(
                    r.as_ref()
                        .is_err_and(|e| e.contains("topic 't'") && e.contains("is not possible")),
                    "{reach:?} {i}: {r:?}"
                );
            }
        }
    }
}
