// SPDX-License-Identifier: Apache-2.0
//! `topic echo`: the samples of a topic, one after the other.
//!
//! It joins its domain as an observer: publishers never wait for it, and it uses the pins that each
//! of them reserves for tools. A sample is copied and released before it is read and printed, so
//! that a stopped terminal holds no publisher's memory.

mod record;
mod waiting;

use super::domains::DomainPlace;
use crate::arguments::Echo;
use crate::decoder::Decoder;
use crate::exit;
use crate::text::cut;
use driveline_shm::{
    Access, Participant, ParticipantConfig, SchemaRequest, Subscription, SubscriptionConfig,
    SubscriptionEvent, WaitBackend, WaitSet,
};
use driveline_terminal::screen::Screen;
use driveline_types::print::Limits;
use driveline_types::{
    Durability, EndpointId, MonotonicNs, Qos, Reliability, SampleHeader, Schema, TopicName,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Period of the checks for an end, and for a reason why no sample arrives.
const TICK: Duration = Duration::from_millis(100);
/// Maximum number of unread samples of each publisher, if the publisher keeps as many.
const DEPTH: u32 = 8;
/// Maximum number of remembered publishers: more than can be matched at a time.
const MOST_TALKERS: usize = 1100;
/// Number of attempts to find the event of a publisher, a millisecond apart.
const LOOKS: u32 = 100;
/// Maximum number of refusals shown.
const MOST_REFUSALS: usize = 64;
/// Number of columns to which text that processes of other users may have chosen is cut.
const NAME: usize = 80;
const REASON: usize = 400;

pub(crate) fn echo(arguments: &Echo, domain: Option<&str>, screen: &Screen) -> u8 {
    match run(arguments, domain, screen) {
        Ok(()) => exit::DONE,
        Err(text) => {
            screen.error(text);
            exit::FAILED
        }
    }
}

/// A publisher.
struct Talker {
    node: String,
    pid: Option<u32>,
    type_name: String,
    decoder: Decoder,
}

/// A copied sample, which occupies no slot of its publisher.
struct Taken {
    header: SampleHeader,
    missed: u64,
    publisher: EndpointId,
    talker: Arc<Talker>,
    at: MonotonicNs,
}

fn run(arguments: &Echo, domain: Option<&str>, screen: &Screen) -> Result<(), String> {
    let topic = super::names::name_of(&arguments.topic)?;
    let place = DomainPlace::of(domain)?;
    let interrupted = driveline_terminal::signals::interruption()
        .map_err(|e| format!("cannot listen for signals: {e}"))?;
    let over = || interrupted.load(Relaxed) || screen.has_no_reader();
    let mut waiting = waiting::Waiting::new(&topic, domain, &place, arguments.timeout, screen);
    // An observer creates no directory: before the first process joins, there is nothing to see.
    let directory = loop {
        if over() {
            return Ok(());
        }
        if let Some(directory) =
            driveline_shm::domain::existing(domain).map_err(|e| e.to_string())?
        {
            break directory;
        }
        waiting.look(&[])?;
        std::thread::sleep(TICK);
    };
    let config =
        ParticipantConfig { domain_dir: Some(directory), name: "driveline topic echo".into() };
    let participant = Participant::open(config).map_err(|e| e.to_string())?;
    let mut set = WaitSet::new(WaitBackend::Auto).map_err(|e| e.to_string())?;
    let mut subscriptions = subscriptions(&participant, &topic)?;
    for subscription in &subscriptions {
        set.attach(subscription).map_err(|e| e.to_string())?;
    }
    let mut audience = Audience {
        talkers: HashMap::new(),
        left: None,
        refusals: BTreeSet::new(),
        topic: &topic,
        screen,
    };
    let limits = if arguments.full { Limits::NONE } else { Limits::default() };
    let (mut payload, mut shown) = (Vec::new(), 0_u64);
    while !over() {
        let mut any = false;
        for subscription in &mut subscriptions {
            audience.hear(subscription, waiting.has_reported());
            let Some(taken) = audience.take(subscription, &mut payload)? else { continue };
            any = true;
            waiting.came();
            let text = if screen.json {
                record::json(&topic, &taken, &payload, limits)
            } else {
                record::text(&taken, &payload, limits, screen)
            };
            screen.print_unless(&text, &over);
            shown += 1;
            if arguments.count.is_some_and(|count| shown >= count) || over() {
                return Ok(());
            }
        }
        if !any {
            // Reported only now, after all samples of the departed publisher are printed.
            if let Some((node, pid)) =
                audience.left.take_if(|_| subscriptions.iter().all(|s| s.matched() == 0))
            {
                waiting.is_alone(&node, pid);
            }
            waiting.look(&subscriptions)?;
            set.wait(Some(MonotonicNs::now() + TICK), Duration::ZERO);
        }
    }
    Ok(())
}

/// Creates one subscription for each kind of publisher, so that none is refused, and so that
/// samples of transient-local publishers arrive even if they were published before. A publisher
/// matches exactly one of these subscriptions and ignores the others.
fn subscriptions(
    participant: &Participant,
    topic: &TopicName,
) -> Result<Vec<Subscription>, String> {
    let node: driveline_types::NodeName =
        "driveline_topic_echo".parse().map_err(|e: driveline_types::NameError| e.to_string())?;
    let kinds = [Reliability::BestEffort, Reliability::Reliable].into_iter();
    let kinds =
        kinds.flat_map(|r| [Durability::Volatile, Durability::TransientLocal].map(|d| (r, d)));
    let create = |(reliability, durability)| {
        let mut config = SubscriptionConfig::new(topic.clone(), node.clone(), SchemaRequest::Any);
        config.qos = Qos { depth: DEPTH, durability, ..Qos::default() };
        config.offering = Some((reliability, durability));
        config.max_held = 1;
        config.observer = true;
        // The command shows samples of all users, and trusts none of them.
        config.access = Access::Anyone;
        participant.create_subscription(config).map_err(|e| e.to_string())
    };
    kinds.map(create).collect()
}

/// Known publishers.
struct Audience<'a> {
    talkers: HashMap<EndpointId, Arc<Talker>>,
    /// Node and process of the publisher that left last.
    left: Option<(String, Option<u32>)>,
    refusals: BTreeSet<String>,
    topic: &'a TopicName,
    screen: &'a Screen,
}

impl Audience<'_> {
    /// Notes new publishers, and shows why one cannot be received. With `waits`, also announces new
    /// publishers: the user has read that no sample arrives.
    fn hear(&mut self, subscription: &mut Subscription, waits: bool) {
        while let Some(event) = subscription.poll_event() {
            match event {
                SubscriptionEvent::Matched { publisher, node, pid, schema, .. } => {
                    if waits {
                        let topic = self.topic;
                        self.screen.print_error(&format!(
                            "'{topic}' is published by '{}' (process {pid}) now\n",
                            cut(&node, NAME)
                        ));
                    }
                    self.meet(publisher, &node, Some(pid), &schema);
                }
                SubscriptionEvent::Unmatched { publisher, node, .. } => {
                    let pid = self.talkers.get(&publisher).and_then(|t| t.pid);
                    self.left = Some((cut(&node, NAME), pid));
                }
                SubscriptionEvent::Refused { text, .. } => {
                    let text = cut(&text, REASON);
                    if self.refusals.len() < MOST_REFUSALS && self.refusals.insert(text.clone()) {
                        self.screen.print_error(&format!("warning: {text}\n"));
                    }
                }
                _ => {}
            }
        }
    }

    fn meet(
        &mut self,
        publisher: EndpointId,
        node: &str,
        pid: Option<u32>,
        schema: &Schema,
    ) -> Arc<Talker> {
        let (decoder, why) = Decoder::of(schema);
        let (node, type_name) = (cut(node, NAME), cut(&schema.name, NAME));
        if let Some(why) = why {
            let process = pid.map(|p| format!(" (process {p})")).unwrap_or_default();
            let why = cut(&why, REASON);
            self.screen.print_error(&format!(
                "warning: samples of '{node}'{process} are shown as \
                 bytes: type '{type_name}': {why}\n"
            ));
        }
        if self.talkers.len() >= MOST_TALKERS {
            self.talkers.clear();
        }
        let talker = Arc::new(Talker { node, pid, type_name, decoder });
        self.talkers.insert(publisher, Arc::clone(&talker));
        talker
    }

    /// Returns the publisher of a sample. Samples can arrive just before the event of their
    /// publisher.
    fn talker(&mut self, publisher: EndpointId, subscription: &mut Subscription) -> Arc<Talker> {
        for look in 0..LOOKS {
            if let Some(talker) = self.talkers.get(&publisher) {
                return Arc::clone(talker);
            }
            if look > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.hear(subscription, false);
        }
        // More events arrived at once than are kept, so the event of this publisher was dropped.
        let known = subscription.publishers().into_iter().find(|p| p.publisher == publisher);
        match known.and_then(|p| Some((p.node.to_string(), p.schema?))) {
            Some((node, schema)) => self.meet(publisher, &node, None, &schema),
            None => {
                let unknown = "?".to_owned();
                Arc::new(Talker {
                    node: unknown.clone(),
                    pid: None,
                    type_name: unknown,
                    decoder: Decoder::Bytes,
                })
            }
        }
    }

    /// Takes the next sample: copies its payload and releases it at once.
    fn take(
        &mut self,
        subscription: &mut Subscription,
        payload: &mut Vec<u8>,
    ) -> Result<Option<Taken>, String> {
        let Some(sample) = subscription.take_next().map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        let at = MonotonicNs::now();
        payload.clear();
        payload.extend_from_slice(sample.payload());
        let (header, missed, publisher) = (*sample.header(), sample.missed(), sample.publisher());
        drop(sample);
        let talker = self.talker(publisher, subscription);
        Ok(Some(Taken { header, missed, publisher, talker, at }))
    }
}
