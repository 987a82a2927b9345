// SPDX-License-Identifier: Apache-2.0
//! Topics to ROS 2: one thread for each takes samples of local publishers and writes them over
//! DDS, over Zenoh, or both (`Profile`).

use super::counters::Counters;
use super::dds::HEAD_BYTES;
use super::endpoint::{Profile, Writing};
use super::error::GatewayError;
use super::gateway_state::GatewayState;
use super::lock;
use super::ros_writer::{Offer, OpenError, RosWriter};
use super::sources::Sources;
use crate::convert::{ConvertError, ToRos};
use crate::names::ros_node;
use crate::qos::{mismatches, of_publisher};
use crate::types::Crossing;
use bytes::Bytes;
use driveline_gateway::ros2::{LocalTopic, Rule, RuleQos};
use driveline_gateway::{Refusal, Ros2Publisher, Ros2TopicReport};
use driveline_rosidl::cdr::Fault;
use driveline_shm::{
    Kicker, MatchedPublisher, Sample, SubscriptionEvent, WaitBackend, WaitSet, Wake,
};
use driveline_types::{EndpointId, MonotonicNs, NodeName, Qos, Schema, TopicName};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time that a sample waits until its publisher is known, and pause between checks.
/// Normally this takes microseconds, on a stalled machine longer.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
const CHECK_AGAIN: Duration = Duration::from_micros(200);
/// Pause after a failed take, so that a lasting cause uses no CPU time.
const BREATH: Duration = Duration::from_millis(20);

/// A topic towards ROS 2.
pub(super) struct OutgoingTopic {
    topic: TopicName,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    short: Arc<AtomicBool>,
    kicker: Kicker,
    thread: Option<JoinHandle<()>>,
}

impl Drop for OutgoingTopic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.kicker.kick();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl OutgoingTopic {
    pub(super) fn start(
        common: &Arc<GatewayState>,
        local: &LocalTopic,
        rule: &Rule,
    ) -> Result<Self, GatewayError> {
        let sender = Sender::new(common, local, rule)?;
        let (counters, stop, short, kicker) = (
            sender.counters.clone(),
            sender.stop.clone(),
            sender.short.clone(),
            sender.set.kicker(),
        );
        let thread =
            std::thread::Builder::new().name("dl-to-ros".into()).spawn(move || sender.run());
        let thread =
            thread.map_err(|source| GatewayError::System { action: "start a thread", source })?;
        Ok(Self { topic: local.topic.clone(), counters, stop, short, kicker, thread: Some(thread) })
    }

    /// Notes that there is space for another writer. Publishers that have no writer for lack of
    /// space try again.
    pub(super) fn room(&self) {
        if self.short.load(Ordering::Acquire) {
            self.kicker.kick();
        }
    }

    pub(super) fn report(&self, writings: &[Writing]) -> Ros2TopicReport {
        let mine = writings.iter().filter(|w| w.topic == self.topic);
        let publisher = |w: &Writing| {
            Some(Ros2Publisher {
                node: w.publisher.as_ref()?.to_string(),
                ros_type: w.ros_type.clone(),
                converted: w.converted,
                qos: w.qos.to_string(),
                profile: w.profile.to_string(),
            })
        };
        let mut publishers: Vec<_> = mine.filter_map(publisher).collect();
        publishers.sort();
        let (carried, dropped) = self.counters.figures();
        let (topic, replaced) = (self.topic.to_string(), self.counters.replaced());
        Ros2TopicReport {
            topic,
            publishers,
            carried,
            replaced,
            dropped,
            ..Ros2TopicReport::default()
        }
    }
}

/// A pinned slot as an owner of bytes.
struct Pinned(Sample);

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.0.payload()
    }
}

/// Writers for a publisher's samples.
struct Carried {
    ros_writers: Vec<Box<dyn RosWriter>>,
    crossing: Crossing,
}

/// A known publisher.
#[derive(Default)]
struct Known {
    /// `None`: it is not carried.
    carried: Option<Carried>,
    /// Profiles by which it is not carried for lack of space.
    short: Vec<Profile>,
    gone: bool,
}

/// Returns a remark if a rule offers more QoS in ROS 2 than the publisher offers here.
fn weaker(node: &str, qos: &Qos, rule: &RuleQos) -> Option<String> {
    let weaker = mismatches(&of_publisher(qos, &RuleQos::default()), &of_publisher(qos, rule));
    let pairs: Vec<_> = weaker
        .iter()
        .map(|m| format!("{} ({} here, {} there)", m.policy, m.offered, m.requested))
        .collect();
    (!pairs.is_empty()).then(|| {
        format!(
            "samples of node '{node}' are offered with more QoS in ROS 2 than here: {}; have \
             the publisher offer it, or take it out of the rule's `qos`",
            pairs.join(", ")
        )
    })
}

/// Result of opening writers for a publisher.
#[derive(Default)]
struct Opened {
    ros_writers: Vec<Box<dyn RosWriter>>,
    /// Profiles without space for a writer.
    short: Vec<Profile>,
    /// Reasons of the profiles without a writer.
    reasons: Vec<String>,
}

struct Sender {
    common: Arc<GatewayState>,
    topic: TopicName,
    max_len: usize,
    rule: Rule,
    sources: Sources,
    set: WaitSet,
    publishers: HashMap<EndpointId, Known>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    /// True if a publisher has no writer for lack of space.
    short: Arc<AtomicBool>,
}

impl Sender {
    fn new(
        common: &Arc<GatewayState>,
        local: &LocalTopic,
        rule: &Rule,
    ) -> Result<Self, GatewayError> {
        let sources = Sources::new(common, local, rule)?;
        let mut set = WaitSet::new(WaitBackend::Auto)?;
        sources.attach(&mut set)?;
        sources.kick_when_given_back(&set.kicker());
        Ok(Self {
            common: common.clone(),
            topic: local.topic.clone(),
            max_len: usize::try_from(local.max_payload + HEAD_BYTES).unwrap_or(usize::MAX),
            rule: rule.clone(),
            sources,
            set,
            publishers: HashMap::new(),
            counters: Arc::default(),
            stop: Arc::default(),
            short: Arc::default(),
        })
    }

    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            if !self.step() {
                self.set.wait(None, Duration::ZERO);
            }
        }
    }

    /// Updates the publishers, and takes one sample. `false`: there was none.
    fn step(&mut self) -> bool {
        self.events();
        self.forget();
        self.try_again();
        let taken = match self.sources.take_next() {
            Ok(Some(sample)) => {
                self.carry(sample);
                true
            }
            Ok(None) => {
                // The unread samples of ended publishers may have expired.
                self.forget();
                false
            }
            Err(_) => {
                // Zenoh still holds the previous sample.
                self.breathe(BREATH);
                true
            }
        };
        let (superseded, expired) = self.sources.losses();
        self.counters.set("superseded", superseded);
        self.counters.set("expired", expired);
        taken
    }

    /// Waits until a sample is released or an event occurs, at most for `longest`. Samples that can
    /// be taken meanwhile do not end the wait.
    fn breathe(&mut self, longest: Duration) -> Wake {
        self.sources.set_muted(&mut self.set, true);
        let woken = self.set.wait(Some(MonotonicNs::now() + longest), Duration::ZERO);
        self.sources.set_muted(&mut self.set, false);
        woken
    }

    fn log(&self, text: &str) {
        self.common.log(format!("topic '/{}' to ROS 2: {text}", self.topic));
    }

    /// Refuses a publisher on this host whose samples cannot be sent to ROS 2.
    fn refuse(&self, publisher: EndpointId, node: &str, reason: String) {
        self.log(&reason);
        let refusal = Refusal {
            topic: self.topic.to_string(),
            host: node.to_owned(),
            outgoing: true,
            subscription: false,
            reason,
            again_ms: None,
        };
        lock(&self.common.refusals).insert(publisher, refusal);
    }

    fn events(&mut self) {
        while let Some(event) = self.sources.poll_event() {
            match event {
                SubscriptionEvent::Matched { publisher, node, schema, qos, .. } => {
                    self.here(publisher, &node, &schema, &qos)
                }
                SubscriptionEvent::Unmatched { publisher, .. } => {
                    if let Some(known) = self.publishers.get_mut(&publisher) {
                        known.gone = true;
                    }
                }
                SubscriptionEvent::Refused { text, .. } => self.log(&text),
                SubscriptionEvent::Dropped { .. } => self.compare(),
                _ => {}
            }
        }
    }

    /// Handles a new or returning publisher.
    fn here(&mut self, publisher: EndpointId, node: &str, schema: &Schema, qos: &Qos) {
        let refused = lock(&self.common.refusals).contains_key(&publisher);
        if let Some(known) = self.publishers.get_mut(&publisher)
            && (known.carried.is_some() || refused)
        {
            known.gone = false;
            return;
        }
        let profiles: Vec<_> = self.common.profiles().collect();
        let crossing = self.common.types.to_ros(schema).map_err(|e| e.to_string());
        let opened = crossing
            .and_then(|crossing| Ok((self.open(node, &crossing, qos, &profiles)?, crossing)));
        self.publishers.insert(publisher, Known::default());
        match opened {
            Ok((opened, crossing)) => {
                let weaker =
                    weaker(node, qos, &self.rule.qos).filter(|_| !opened.ros_writers.is_empty());
                weaker.iter().for_each(|weaker| {
                    self.common.log(format!("topic '/{}': {weaker}", self.topic))
                });
                self.settle(publisher, node, opened, crossing);
            }
            Err(reason) => self.refuse(publisher, node, reason),
        }
        self.count_short();
    }

    /// Notes the result of opening writers for a publisher.
    fn settle(&mut self, publisher: EndpointId, node: &str, opened: Opened, crossing: Crossing) {
        let known = self.publishers.entry(publisher).or_default();
        known.short = opened.short;
        if !opened.ros_writers.is_empty() {
            known
                .carried
                .get_or_insert_with(|| Carried { ros_writers: Vec::new(), crossing })
                .ros_writers
                .extend(opened.ros_writers);
        }
        if known.carried.is_some() {
            opened.reasons.iter().for_each(|reason| self.log(reason));
        } else {
            self.refuse(publisher, node, opened.reasons.join("; "));
        }
    }

    /// Stores whether a publisher has no writer for lack of room. The control thread then wakes
    /// this thread when there is room.
    fn count_short(&self) {
        self.short.store(
            self.publishers.values().any(|known| !known.short.is_empty()),
            Ordering::Release,
        );
    }

    /// Opens writers that had no space, if there is some now.
    fn try_again(&mut self) {
        if !self.short.load(Ordering::Acquire) || !self.common.writer_list().has_room() {
            return;
        }
        for MatchedPublisher { publisher, node, schema, qos, .. } in self.sources.publishers() {
            let (Some(schema), Some(known)) = (schema, self.publishers.get(&publisher)) else {
                continue;
            };
            let profiles = known.short.clone();
            let Some(crossing) =
                self.common.types.to_ros(&schema).ok().filter(|_| !profiles.is_empty())
            else {
                continue;
            };
            let Ok(opened) = self.open(node.as_str(), &crossing, &qos, &profiles) else { continue };
            if opened.short == profiles {
                // The reason was logged already.
                continue;
            }
            if !opened.ros_writers.is_empty() {
                lock(&self.common.refusals).remove(&publisher);
                self.common.log(format!(
                    "topic '/{}': samples of node '{node}' go to ROS 2 now, since there is space \
                     again",
                    self.topic
                ));
            }
            self.settle(publisher, node.as_str(), opened, crossing);
        }
        self.count_short();
    }

    /// Updates the list of publishers after events were dropped, which happens while a write waits
    /// for the link: marks those that have ended, and adds new ones.
    fn compare(&mut self) {
        let there = self.sources.publishers();
        for (publisher, known) in &mut self.publishers {
            known.gone |= !there.iter().any(|p| p.publisher == *publisher);
        }
        for MatchedPublisher { publisher, node, schema, qos, .. } in there {
            if let Some(schema) = schema {
                self.here(publisher, node.as_str(), &schema, &qos);
            }
        }
        // Refused publishers are not in the list of matched ones.
        self.sources.refusals().iter().for_each(|text| self.log(text));
    }

    /// Opens writers with these profiles, as far as there is space.
    fn open(
        &self,
        node: &str,
        crossing: &Crossing,
        qos: &Qos,
        profiles: &[Profile],
    ) -> Result<Opened, String> {
        let node: NodeName = node.parse().map_err(|e| format!("{e}"))?;
        let ros_writer = |profile| {
            let offer = Offer {
                topic: &self.topic,
                crossing,
                qos: of_publisher(qos, &self.rule.qos),
                depth: self.rule.qos.depth.unwrap_or(qos.depth),
                lifespan: qos.lifespan_ms.map(|ms| Duration::from_millis(ms.into())),
                apart: self.common.profiles().count() > 1,
                publisher: Some(node.clone()),
                offered: Some(qos.clone()),
                weaker: weaker(node.as_str(), qos, &self.rule.qos),
                node: ros_node(&node),
            };
            self.common.writer(profile, offer)
        };
        let mut opened = Opened::default();
        for &profile in profiles {
            match ros_writer(profile) {
                Ok(ros_writer) => opened.ros_writers.push(ros_writer),
                Err(e) => {
                    opened.reasons.push(format!("by {profile}: {e}"));
                    if matches!(e, OpenError::NoRoom) {
                        opened.short.push(profile);
                    }
                }
            }
        }
        Ok(opened)
    }

    /// Ends writers of ended publishers as soon as all of their samples were taken, also if other
    /// publishers never pause.
    fn forget(&mut self) {
        if !self.publishers.values().any(|known| known.gone) {
            return;
        }
        let unread = self.sources.unread_of_gone();
        let ends =
            |(publisher, known): &(&EndpointId, &Known)| known.gone && !unread.contains(publisher);
        let ended: Vec<_> =
            self.publishers.iter().filter(ends).map(|(publisher, _)| *publisher).collect();
        for publisher in &ended {
            self.publishers.remove(publisher);
            lock(&self.common.refusals).remove(publisher);
        }
        if !ended.is_empty() {
            self.count_short();
            self.common.wake();
        }
    }

    /// Waits for the event of a publisher whose sample has arrived already. The event follows the
    /// first samples shortly.
    fn meet(&mut self, publisher: EndpointId) {
        let end = Instant::now() + KNOWN_WITHIN;
        loop {
            self.events();
            if self.publishers.contains_key(&publisher) || self.stop.load(Ordering::Acquire) {
                return;
            }
            if Instant::now() > end {
                // The publisher's next sample does not wait.
                self.publishers.insert(publisher, Known::default());
                return;
            }
            std::thread::sleep(CHECK_AGAIN);
        }
    }

    fn carry(&mut self, sample: Sample) {
        let (publisher, header) = (sample.publisher(), sample.header());
        if header.remote.is_some() {
            self.counters.dropped("remote");
            return;
        }
        let offset = header.wall_offset_ns;
        let published = header.publish_time.0.cast_signed().wrapping_add(offset);
        if !self.publishers.contains_key(&publisher) {
            self.meet(publisher);
        }
        let Some(carried) =
            self.publishers.get(&publisher).and_then(|known| known.carried.as_ref())
        else {
            self.counters.dropped("refused");
            return;
        };
        // Pinned until the last profile has accepted it. A profile copies it only into the message
        // that it sends.
        let slot = Bytes::from_owner(Pinned(sample));
        let converted = match carried.crossing.kind {
            Some(kind) => ToRos::new(kind, &slot, self.common.clock.ahead_ns(offset), self.max_len),
            None => carried
                .crossing
                .check(&slot)
                .map_err(Into::into)
                .and_then(|()| ToRos::of_cdr(&slot, self.max_len)),
        };
        let converted = match converted {
            Ok(converted) => converted,
            Err(e) => {
                if self.counters.dropped(e.name()) {
                    self.log(&format!(
                        "a sample is dropped ({}): {e}{}",
                        e.name(),
                        undefined(&carried.crossing, &e)
                    ));
                }
                return;
            }
        };
        let mut taken = false;
        for ros_writer in &carried.ros_writers {
            match ros_writer.write(&converted.parts(), Some(&slot), published) {
                Ok(written) => {
                    taken = true;
                    self.counters.written(&written, "not_written", |why| {
                        self.log(&format!("a sample is dropped (not_written): {why}"))
                    });
                }
                Err(e) => {
                    if self.counters.dropped("not_written") {
                        self.log(&format!("a sample is dropped (not_written): {e}"));
                    }
                }
            }
        }
        if taken {
            self.counters.carried();
        }
    }
}

/// Returns the remedy if samples do not fit a schema without a definition. Such a schema describes
/// a message without fields.
fn undefined(crossing: &Crossing, e: &ConvertError) -> &'static str {
    let trails = matches!(e, ConvertError::Cdr(e) if matches!(e.fault, Fault::Trailing(_)));
    if trails && crossing.schema.definition.trim().is_empty() {
        "; its schema has no definition, which means a message without fields: have the publisher \
         name the fields there, as in a `.msg` file"
    } else {
        ""
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let publishers = &self.publishers;
        lock(&self.common.refusals).retain(|publisher, _| !publishers.contains_key(publisher));
    }
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
