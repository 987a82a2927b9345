// SPDX-License-Identifier: Apache-2.0
//! Longest silence of topics, measured by an observer. No publisher waits for the observer, and its
//! pins are among those reserved for tools.
//!
//! A gap is the difference between the publish times of two successive samples of any publishers,
//! so a busy observer does not lengthen it. A gap in which the observer missed samples does not
//! count as the longest gap, but raises the upper bound of the longest gap.

use driveline_shm::{
    Access, Participant, ParticipantConfig, SchemaRequest, Subscription, SubscriptionConfig,
    WaitBackend, WaitSet,
};
use driveline_types::{Durability, MonotonicNs, NodeName, Qos, Reliability, TopicName};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Period at which the observer checks for its end.
const TICK: Duration = Duration::from_millis(100);
/// Number of samples of each publisher that can wait for the observer.
const DEPTH: u32 = 64;

/// Silence of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gap {
    /// Samples seen.
    pub samples: u64,
    /// Longest time between two publishes, in milliseconds.
    pub longest_ms: f64,
    /// Number of gaps left out because the observer missed samples in them.
    pub left_out: u64,
    /// Upper bound of the longest gap, in milliseconds: gaps that were left out count as if nothing
    /// had been published in them.
    pub at_most_ms: f64,
}

/// Silence of a topic before and during the faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// Silence before the first fault.
    pub quiet: Gap,
    /// Silence from the first fault on.
    pub faults: Gap,
}

impl Gap {
    fn add(&mut self, last: Option<MonotonicNs>, at: MonotonicNs, missed: bool) {
        self.samples += 1;
        let Some(last) = last.filter(|last| at > *last) else { return };
        let ms = at.since(last).as_secs_f64() * 1e3;
        self.at_most_ms = self.at_most_ms.max(ms);
        if missed {
            self.left_out += 1;
        } else {
            self.longest_ms = self.longest_ms.max(ms);
        }
    }
}

/// Observes topics on a thread of its own until the result is requested.
#[derive(Debug)]
pub struct Observer {
    thread: JoinHandle<BTreeMap<String, Gaps>>,
    end: Arc<AtomicBool>,
    faults: Arc<AtomicBool>,
    /// Topics that have a publisher.
    matched: Arc<AtomicUsize>,
    topics: usize,
}

impl Observer {
    /// Joins a domain and subscribes to the topics.
    ///
    /// # Errors
    /// If the domain cannot be joined, or a topic cannot be subscribed to. The error is for people.
    pub fn start(domain: PathBuf, topics: &[String]) -> Result<Self, String> {
        let config = ParticipantConfig { domain_dir: Some(domain), name: "driveline chaos".into() };
        let participant = Participant::open(config).map_err(|e| e.to_string())?;
        let mut set = WaitSet::new(WaitBackend::Auto).map_err(|e| e.to_string())?;
        let mut watched = Vec::new();
        for topic in topics {
            let subscriptions = subscriptions(&participant, topic)?;
            for subscription in &subscriptions {
                set.attach(subscription).map_err(|e| e.to_string())?;
            }
            watched.push(Watched {
                topic: topic.clone(),
                subscriptions,
                last: None,
                gaps: Gaps::default(),
            });
        }
        let (end, faults) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let matched = Arc::<AtomicUsize>::default();
        let (ends, breaks, has) = (end.clone(), faults.clone(), matched.clone());
        let observe = move || {
            let _joined = participant;
            while !ends.load(Ordering::Relaxed) {
                let breaks = breaks.load(Ordering::Relaxed);
                let mut came = false;
                for topic in &mut watched {
                    came |= topic.take_all(breaks);
                }
                has.store(watched.iter().filter(|w| w.is_matched()).count(), Ordering::Relaxed);
                if !came {
                    set.wait(Some(MonotonicNs::now() + TICK), Duration::ZERO);
                }
            }
            watched.into_iter().map(|w| (w.topic, w.gaps)).collect()
        };
        let thread = std::thread::Builder::new().name("observer".into()).spawn(observe);
        let thread = thread.map_err(|e| e.to_string())?;
        Ok(Self { thread, end, faults, matched, topics: topics.len() })
    }

    /// Returns true if the observer is connected to a publisher of each topic.
    #[must_use]
    pub fn is_matched(&self) -> bool {
        self.matched.load(Ordering::Relaxed) == self.topics
    }

    /// Marks the start of the faults.
    pub fn faults_begin(&self) {
        self.faults.store(true, Ordering::Relaxed);
    }

    /// Ends the observation. Blocks for 0.1 s at most.
    #[must_use]
    pub fn end(self) -> BTreeMap<String, Gaps> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

struct Watched {
    topic: String,
    subscriptions: Vec<Subscription>,
    last: Option<MonotonicNs>,
    gaps: Gaps,
}

impl Watched {
    fn is_matched(&self) -> bool {
        self.subscriptions.iter().any(|s| s.matched() > 0)
    }

    /// Takes all waiting samples. Returns true if there were any.
    fn take_all(&mut self, breaks: bool) -> bool {
        let mut any = false;
        for subscription in &mut self.subscriptions {
            while subscription.poll_event().is_some() {}
            while let Ok(Some(sample)) = subscription.take_next() {
                any = true;
                let (at, missed) = (sample.header().publish_time, sample.missed() > 0);
                let gap = if breaks { &mut self.gaps.faults } else { &mut self.gaps.quiet };
                gap.add(self.last, at, missed);
                self.last = self.last.max(Some(at));
            }
        }
        any
    }
}

/// Subscribes once for each kind of publisher, by its reliability and durability, as `driveline
/// topic echo` does.
fn subscriptions(participant: &Participant, topic: &str) -> Result<Vec<Subscription>, String> {
    let topic: TopicName = topic.parse().map_err(|e| format!("topic '{topic}': {e}"))?;
    let node: NodeName = "driveline_chaos".parse().map_err(|e| format!("{e}"))?;
    let kinds = [Reliability::BestEffort, Reliability::Reliable].into_iter();
    let kinds =
        kinds.flat_map(|r| [Durability::Volatile, Durability::TransientLocal].map(|d| (r, d)));
    let create = |(reliability, durability)| {
        let mut config = SubscriptionConfig::new(topic.clone(), node.clone(), SchemaRequest::Any);
        config.qos = Qos { depth: DEPTH, durability, ..Qos::default() };
        config.offering = Some((reliability, durability));
        config.max_held = 1;
        config.observer = true;
        config.access = Access::Anyone;
        participant.create_subscription(config).map_err(|e| e.to_string())
    };
    kinds.map(create).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_and_one_with_missed_samples_does_not() {
        let ms = |ms: u64| MonotonicNs(ms * 1_000_000);
        let mut gap = Gap::default();
        gap.add(None, ms(1000), false);
        gap.add(Some(ms(1000)), ms(1040), false);
        gap.add(Some(ms(1040)), ms(1150), false);
        gap.add(Some(ms(1150)), ms(9000), true);
        // A publisher that appears later may send kept samples, which are older.
        gap.add(Some(ms(9000)), ms(8000), false);
        assert_eq!(gap, Gap { samples: 5, longest_ms: 110.0, left_out: 1, at_most_ms: 7850.0 });
    }
}
