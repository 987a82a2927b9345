// SPDX-License-Identifier: Apache-2.0
//! Thread of a topic from ROS 2: takes samples of known writers, publishes them here, and passes
//! them on to nodes of the other profile (DDS or rmw_zenoh).

use super::counters::Counters;
use super::draining::Draining;
use super::endpoint::Handle;
use super::feed::{Came, Feed};
use super::gateway_state::GatewayState;
use super::lock;
use super::remote_publisher::{Numbers, Outside, RemotePublisher};
use super::sequence_memory::SequenceMemory;
use super::unknown::Unknown;
use crate::names::{RosNode, ros_node};
use driveline_types::TopicName;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Maximum time that a sample waits until the control thread knows its writer.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
/// The budget of waiting time grows again slowly: by the elapsed time divided by this number, up to
/// [`KNOWN_WITHIN`] in all. Over Zenoh, any session may send samples of unannounced
/// publishers.
const PAUSES: u32 = 30;
/// Longest pause between checks without an event.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Longest pause between checks for ending remote publishers, if events never stop.
const CHECK_BETWEEN: Duration = Duration::from_millis(100);

pub(super) enum Known {
    Open(Open),
    /// Its samples are dropped and counted under this reason.
    Refused(&'static str),
}

/// A writer whose samples are read.
pub(super) struct Open {
    /// The topic's thread holds a second reference while it publishes, and may wait for readers
    /// then. No other thread publishes.
    pub(super) remote_publisher: Arc<RemotePublisher>,
    pub(super) numbers: Numbers,
    /// Set after the writer has gone. Its remote publisher ends when all of its samples were taken.
    pub(super) gone: Option<Draining>,
}

impl Known {
    pub(super) fn of(remote_publisher: RemotePublisher) -> Self {
        Self::Open(Open {
            remote_publisher: Arc::new(remote_publisher),
            numbers: Numbers::default(),
            gone: None,
        })
    }
}

/// Remaining time for which samples of unknown writers may delay a topic's thread, in total.
pub(super) struct Patience {
    left: Duration,
    since: Instant,
}

impl Patience {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: KNOWN_WITHIN, since: now }
    }

    fn left(&mut self, now: Instant) -> Duration {
        self.left =
            (self.left + now.saturating_duration_since(self.since) / PAUSES).min(KNOWN_WITHIN);
        self.since = now;
        self.left
    }

    /// Uses up the waiting time.
    #[cfg(test)]
    pub(super) fn spend(&mut self, now: Instant) {
        (self.left, self.since) = (Duration::ZERO, now);
    }

    /// Subtracts the time since the last call.
    fn spent(&mut self, now: Instant) {
        self.left = self.left.saturating_sub(now.saturating_duration_since(self.since));
        self.since = now;
    }
}

/// Writers of a topic.
#[derive(Default)]
pub(super) struct Writers {
    /// Writers that the control thread knows.
    pub(super) known: HashMap<Handle, Known>,
    unknown: Unknown,
}

impl Writers {
    /// Number of writers seen in samples but not announced.
    #[cfg(test)]
    pub(super) fn unknown(&self) -> usize {
        self.unknown.len()
    }

    fn heard_of(&self, writer: Handle) -> bool {
        self.known.contains_key(&writer) || self.unknown.contains(writer)
    }
}

/// State shared by the thread of a topic and the control thread.
pub(super) struct Shared {
    topic: TopicName,
    pub(super) feed: Box<dyn Feed>,
    pub(super) stop: AtomicBool,
    pub(super) writers: Mutex<Writers>,
    pub(super) more: Condvar,
    pub(super) counters: Counters,
    sequence_memory: Arc<Mutex<SequenceMemory>>,
    /// Reason why the thread has ended by itself.
    pub(super) ended: OnceLock<String>,
}

impl Shared {
    pub(super) fn new(
        topic: &TopicName,
        feed: Box<dyn Feed>,
        sequence_memory: &Arc<Mutex<SequenceMemory>>,
    ) -> Self {
        let (topic, sequence_memory) = (topic.clone(), sequence_memory.clone());
        let (stop, writers, more, counters) =
            (AtomicBool::new(false), Mutex::default(), Condvar::new(), Counters::default());
        Self { topic, feed, stop, writers, more, counters, sequence_memory, ended: OnceLock::new() }
    }

    pub(super) fn know(&self, handle: Handle, mut known: Known) {
        let mut writers = lock(&self.writers);
        self.let_go(handle, writers.known.get(&handle));
        writers.unknown.remove(handle);
        match &mut known {
            Known::Open(open) => {
                open.numbers = Numbers::after(lock(&self.sequence_memory).take(handle))
            }
            Known::Refused(_) => self.feed.waits_no_more(handle),
        }
        let before = writers.known.insert(handle, known);
        drop(writers);
        self.more.notify_all();
        // Dropped without the lock: the writer in the other profile may take a while to end.
        drop(before);
    }

    /// Handles the end of a writer. If its samples are read, the thread drops its remote publisher
    /// after it has taken all of them.
    pub(super) fn gone(&self, handle: Handle, gone: Draining) -> Option<Weak<RemotePublisher>> {
        let mut writers = lock(&self.writers);
        let draining = match writers.known.get_mut(&handle) {
            Some(Known::Open(open)) => {
                open.gone = Some(gone);
                self.feed.waits_no_more(handle);
                Some(Arc::downgrade(&open.remote_publisher))
            }
            Some(Known::Refused(_)) => {
                writers.known.remove(&handle);
                self.feed.parted(handle);
                // Its next sample does not wait for its announcement.
                writers.unknown.insert(handle);
                None
            }
            None => None,
        };
        drop(writers);
        self.feed.wake();
        draining
    }

    /// Remembers the last sequence number of a writer whose remote publisher ends.
    fn let_go(&self, handle: Handle, known: Option<&Known>) {
        if let Some(Known::Open(open)) = known
            && let Some(last) = open.numbers.furthest()
        {
            lock(&self.sequence_memory).remember(handle, last);
        }
    }

    /// Drops remote publishers whose writers have gone, by [`Draining::ends`]. Returns the time
    /// until the next check.
    pub(super) fn part(
        &self,
        common: &GatewayState,
        now: Instant,
        is_empty: bool,
        rounds: u64,
    ) -> Duration {
        let (mut writers, kept, mut next) = (lock(&self.writers), self.feed.kept(), CHECK_EVERY);
        let mut ends = |known: &mut Known| {
            let Known::Open(Open { gone: Some(gone), .. }) = known else { return false };
            let ends = gone.ends(now, is_empty, rounds, kept);
            next = if ends { next } else { next.min(gone.rests(now)) };
            ends
        };
        let ended: Vec<_> = writers.known.extract_if(|_, known| ends(known)).collect();
        for (handle, known) in &ended {
            self.let_go(*handle, Some(known));
            self.feed.parted(*handle);
        }
        drop(writers);
        if !ended.is_empty() {
            // Dropped without the lock, as above. Other publishers have space now.
            drop(ended);
            common.wake();
        }
        next
    }

    /// Logs local subscriptions that do not match, and shows matching ones in the ROS graph.
    fn listen(&self, common: &GatewayState) {
        let open = |known: &Known| {
            if let Known::Open(open) = known { Some(open.remote_publisher.clone()) } else { None }
        };
        let remote_publishers: Vec<_> =
            lock(&self.writers).known.values().filter_map(open).collect();
        let mut changed = false;
        for remote_publisher in &remote_publishers {
            let happened = remote_publisher.hear();
            happened
                .refused
                .iter()
                .for_each(|text| common.log(format!("topic '/{}': {text}", self.topic)));
            changed |= happened.changed;
        }
        self.feed.show(&self.topic, &self.subscribers());
        if changed {
            common.wake();
        }
    }

    /// Local nodes that subscribe, with their ROS 2 names.
    pub(super) fn subscribers(&self) -> BTreeSet<RosNode> {
        let writers = lock(&self.writers);
        let of = |known: &Known| {
            if let Known::Open(open) = known {
                open.remote_publisher.subscribers()
            } else {
                BTreeSet::new()
            }
        };
        writers.known.values().flat_map(of).map(|node| ros_node(&node)).collect()
    }

    pub(super) fn run(&self, common: &GatewayState) {
        let mut patience = Patience::new(Instant::now());
        // Number of rounds with samples, and time of the last check for ending remote publishers.
        let (mut rounds, mut looked) = (0, Instant::now());
        while !self.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            let taken = self.feed.take(&mut |came| self.sample(common, came, &mut patience));
            self.feed
                .losses()
                .into_iter()
                .for_each(|(reason, count)| self.counters.set(reason, count));
            let waited = match taken {
                Ok(true) => {
                    rounds += 1;
                    if now.duration_since(looked) >= CHECK_BETWEEN {
                        self.part(common, now, false, rounds);
                        self.listen(common);
                        looked = now;
                    }
                    continue;
                }
                Ok(false) => {
                    self.listen(common);
                    self.feed.wait(self.part(common, now, true, rounds))
                }
                Err(e) => {
                    common.log(format!("topic '/{}': {e}", self.topic));
                    self.feed.wait(CHECK_EVERY)
                }
            };
            if let Err(e) = waited {
                let _ = self.ended.set(e);
                return common.wake();
            }
        }
    }

    pub(super) fn sample(&self, common: &GatewayState, sample: &Came<'_>, patience: &mut Patience) {
        let mut writers = lock(&self.writers);
        if !writers.heard_of(sample.writer) {
            // The writer was matched before the control thread knew it.
            common.wake();
            let longest = patience.left(Instant::now());
            let unknown =
                |w: &mut Writers| !w.heard_of(sample.writer) && !self.stop.load(Ordering::Acquire);
            writers = self
                .more
                .wait_timeout_while(writers, longest, unknown)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            patience.spent(Instant::now());
        }
        let dropped = |reason, text: &str, node: &str| {
            if self.counters.dropped(reason) {
                common.log(format!(
                    "topic '/{}': a sample of node '{node}' is dropped ({reason}): {text}",
                    self.topic
                ));
            }
        };
        let reason = match writers.known.get_mut(&sample.writer) {
            Some(Known::Open(open)) if open.remote_publisher.class != sample.class => "other_class",
            Some(Known::Open(open)) => match open.numbers.gap(sample.number) {
                None => "duplicate",
                Some(gap) => {
                    let (remote_publisher, gaps) =
                        (open.remote_publisher.clone(), open.numbers.gaps());
                    let lost = open.numbers.lost(gap, sample.rejected);
                    // Other threads may access the topic while this thread waits for readers, here
                    // or in the other profile.
                    drop(writers);
                    self.counters.add("lost", lost);
                    let unchecked = match remote_publisher.take(
                        sample,
                        gaps,
                        Outside::of(common, self.feed.same_clock()),
                    ) {
                        Ok(()) => {
                            self.counters.carried();
                            None
                        }
                        Err(e) => {
                            dropped(e.reason, &e.text, remote_publisher.node.as_str());
                            if e.broken {
                                return;
                            }
                            Some(&remote_publisher.crossing)
                        }
                    };
                    match remote_publisher
                        .across
                        .get()
                        .and_then(|across| across.pass_on(sample, unchecked))
                    {
                        None => {}
                        Some(Ok(written)) => {
                            self.counters.passed_on();
                            let log_drop = |why: &str| {
                                let node = &remote_publisher.node;
                                common.log(format!(
                                    "topic '/{}': a sample of node '{node}' is \
                                         dropped (not_passed_on): {why}",
                                    self.topic
                                ));
                            };
                            self.counters.written(&written, "not_passed_on", log_drop);
                        }
                        Some(Err(text)) => {
                            dropped("not_passed_on", &text, remote_publisher.node.as_str())
                        }
                    }
                    return;
                }
            },
            Some(Known::Refused(reason)) => reason,
            None => {
                // Its next sample does not wait. The control thread reports the writer when it
                // knows it.
                writers.unknown.insert(sample.writer);
                "unknown"
            }
        };
        if let Some(number) = sample.number {
            // It is counted here, so it is not counted as missing if its writer comes back.
            lock(&self.sequence_memory).heard(sample.writer, number);
        }
        self.counters.dropped(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_writers_hold_up_a_topic_for_a_small_part_of_the_time() {
        let began = Instant::now();
        let mut patience = Patience::new(began);
        let (mut now, mut waited) = (began, Duration::ZERO);
        // 600 writers, one after the other. Each delays the topic for the permitted time.
        for _ in 0..600 {
            let left = patience.left(now);
            now += left;
            waited += left;
            patience.spent(now);
            now += Duration::from_secs(1);
        }
        assert!(
            waited <= KNOWN_WITHIN + now.duration_since(began) / PAUSES,
            "{waited:?} of {:?}",
            now.duration_since(began)
        );
        assert!(waited > KNOWN_WITHIN * 2, "waiting time is granted again");
    }
}
