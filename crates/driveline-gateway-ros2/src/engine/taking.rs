// SPDX-License-Identifier: Apache-2.0
//! The thread of a topic from ROS 2: it takes samples of writers that it knows, publishes them
//! here, and passes them on to the other profile.

use super::counters::Counters;
use super::departed::Departed;
use super::endpoint::{Handle, Profile};
use super::feed::{Came, Feed};
use super::gateway_state::GatewayState;
use super::inlet::{Inlet, Numbers, Outside};
use super::leaving::Gone;
use super::lock;
use super::unknown::Unknown;
use crate::names::{RosNode, ros_node};
use driveline_types::TopicName;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a sample waits for the conductor to know its writer …
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
/// … and that again only after so many times as long: over Zenoh anybody may send what no publisher
/// has announced.
const PAUSES: u32 = 30;
/// Nobody needs to look more often than that if nothing comes …
const LOOK: Duration = Duration::from_secs(1);
/// … and, for inlets that may end, if something always does.
const LOOK_BETWEEN: Duration = Duration::from_millis(100);

pub(super) enum Known {
    Open(Open),
    /// Not carried; counted under this.
    Refused(&'static str),
}

/// A writer that is taken from.
pub(super) struct Open {
    /// The topic's thread has it too while it publishes, and may wait for readers then: nobody else
    /// does.
    pub(super) inlet: Arc<Inlet>,
    pub(super) numbers: Numbers,
    /// The writer is gone; its inlet ends when everything was taken.
    pub(super) gone: Option<Gone>,
}

impl Known {
    pub(super) fn of(inlet: Inlet) -> Self {
        Self::Open(Open { inlet: Arc::new(inlet), numbers: Numbers::default(), gone: None })
    }
}

/// How long samples of unknown writers, all together, may still hold up a topic's thread.
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

    /// Nobody waits any more.
    #[cfg(test)]
    pub(super) fn spend(&mut self, now: Instant) {
        (self.left, self.since) = (Duration::ZERO, now);
    }

    /// Somebody has waited until `now`, since it was asked last.
    fn spent(&mut self, now: Instant) {
        self.left = self.left.saturating_sub(now.saturating_duration_since(self.since));
        self.since = now;
    }
}

/// Writers of a topic.
#[derive(Default)]
pub(super) struct Writers {
    /// Those that the conductor knows.
    pub(super) known: HashMap<Handle, Known>,
    unknown: Unknown,
}

impl Writers {
    /// How many are kept in mind of whom nobody has told.
    #[cfg(test)]
    pub(super) fn unknown(&self) -> usize {
        self.unknown.len()
    }

    fn heard_of(&self, writer: Handle) -> bool {
        self.known.contains_key(&writer) || self.unknown.contains(writer)
    }
}

/// What the thread of a topic and the conductor share.
pub(super) struct Shared {
    topic: TopicName,
    pub(super) feed: Feed,
    pub(super) stop: AtomicBool,
    pub(super) writers: Mutex<Writers>,
    pub(super) more: Condvar,
    pub(super) counters: Counters,
    departed: Arc<Mutex<Departed>>,
    /// Why the thread has ended by itself.
    pub(super) ended: OnceLock<String>,
}

impl Shared {
    pub(super) fn new(topic: &TopicName, feed: Feed, departed: &Arc<Mutex<Departed>>) -> Self {
        let (topic, departed) = (topic.clone(), departed.clone());
        let (stop, writers, more, counters) =
            (AtomicBool::new(false), Mutex::default(), Condvar::new(), Counters::default());
        Self { topic, feed, stop, writers, more, counters, departed, ended: OnceLock::new() }
    }

    pub(super) fn know(&self, handle: Handle, mut known: Known) {
        let mut writers = lock(&self.writers);
        self.let_go(handle, writers.known.get(&handle));
        writers.unknown.remove(handle);
        match &mut known {
            Known::Open(open) => open.numbers = Numbers::after(lock(&self.departed).take(handle)),
            Known::Refused(_) => self.feed.waits_no_more(handle),
        }
        let before = writers.known.insert(handle, known);
        drop(writers);
        self.more.notify_all();
        // Outside of the lock: what is written to the other profile may take a while to end.
        drop(before);
    }

    /// A writer has gone. If it is taken from, the thread lets go of its inlet when it has taken
    /// everything.
    pub(super) fn gone(&self, handle: Handle, gone: Gone) -> Option<Weak<Inlet>> {
        let mut writers = lock(&self.writers);
        let leaving = match writers.known.get_mut(&handle) {
            Some(Known::Open(open)) => {
                open.gone = Some(gone);
                self.feed.waits_no_more(handle);
                Some(Arc::downgrade(&open.inlet))
            }
            Some(Known::Refused(_)) => {
                writers.known.remove(&handle);
                self.feed.parted(handle);
                // Nobody waits for news of it if something of it comes now.
                writers.unknown.insert(handle);
                None
            }
            None => None,
        };
        drop(writers);
        self.feed.wake();
        leaving
    }

    /// Keeps in mind how far a writer has come whose inlet ends.
    fn let_go(&self, handle: Handle, known: Option<&Known>) {
        if let Some(Known::Open(open)) = known
            && let Some(last) = open.numbers.furthest()
        {
            lock(&self.departed).remember(handle, last);
        }
    }

    /// Lets go of inlets whose writers have gone, as [`Gone::ends`] has it. For how long nobody
    /// needs to look if nothing comes.
    pub(super) fn part(
        &self,
        common: &GatewayState,
        now: Instant,
        is_empty: bool,
        rounds: u64,
    ) -> Duration {
        let (mut writers, kept, mut next) = (lock(&self.writers), self.feed.kept(), LOOK);
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
            // Outside of the lock, as above; and there is room for others.
            drop(ended);
            common.wake();
        }
        next
    }

    /// Tells of subscriptions here that do not match, and shows those that do in the ROS graph.
    fn listen(&self, common: &GatewayState) {
        let open = |known: &Known| {
            if let Known::Open(open) = known { Some(open.inlet.clone()) } else { None }
        };
        let inlets: Vec<_> = lock(&self.writers).known.values().filter_map(open).collect();
        let mut changed = false;
        for inlet in &inlets {
            let happened = inlet.hear();
            happened
                .refused
                .iter()
                .for_each(|text| common.tell(format!("topic '/{}': {text}", self.topic)));
            changed |= happened.changed;
        }
        self.feed.show(common, &self.topic, &self.subscribers());
        if changed {
            common.wake();
        }
    }

    /// Nodes here that subscribe, as ROS 2 calls them.
    pub(super) fn subscribers(&self) -> BTreeSet<RosNode> {
        let writers = lock(&self.writers);
        let of = |known: &Known| {
            if let Known::Open(open) = known { open.inlet.subscribers() } else { BTreeSet::new() }
        };
        writers.known.values().flat_map(of).map(|node| ros_node(&node)).collect()
    }

    pub(super) fn run(&self, common: &GatewayState, profile: Profile) {
        let mut patience = Patience::new(Instant::now());
        // Rounds of the feed that have taken something, and when somebody looked for inlets that
        // end.
        let (mut rounds, mut looked) = (0, Instant::now());
        while !self.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            let taken = self.feed.take(|came| self.sample(common, profile, came, &mut patience));
            self.feed
                .losses()
                .into_iter()
                .for_each(|(reason, count)| self.counters.set(reason, count));
            let waited = match taken {
                Ok(true) => {
                    rounds += 1;
                    if now.duration_since(looked) >= LOOK_BETWEEN {
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
                    common.tell(format!("topic '/{}': {e}", self.topic));
                    self.feed.wait(LOOK)
                }
            };
            if let Err(e) = waited {
                let _ = self.ended.set(e);
                return common.wake();
            }
        }
    }

    pub(super) fn sample(
        &self,
        common: &GatewayState,
        profile: Profile,
        sample: &Came<'_>,
        patience: &mut Patience,
    ) {
        let mut writers = lock(&self.writers);
        if !writers.heard_of(sample.writer) {
            // It was matched before the conductor has heard of it.
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
                common.tell(format!(
                    "topic '/{}': a sample of node '{node}' is dropped ({reason}): {text}",
                    self.topic
                ));
            }
        };
        let reason = match writers.known.get_mut(&sample.writer) {
            Some(Known::Open(open)) if open.inlet.class != sample.class => "other_class",
            Some(Known::Open(open)) => match open.numbers.gap(sample.number) {
                None => "duplicate",
                Some(gap) => {
                    let (inlet, gaps) = (open.inlet.clone(), open.numbers.gaps());
                    let lost = open.numbers.lost(gap, sample.rejected);
                    // Others may look at the topic while this waits for readers, here and then by
                    // the other profile.
                    drop(writers);
                    self.counters.add("lost", lost);
                    let unchecked = match inlet.take(sample, gaps, Outside::of(common, profile)) {
                        Ok(()) => {
                            self.counters.carried();
                            None
                        }
                        Err(e) => {
                            dropped(e.reason, &e.text, inlet.node.as_str());
                            if e.broken {
                                return;
                            }
                            Some(&inlet.crossing)
                        }
                    };
                    match inlet.across.get().and_then(|across| across.pass_on(sample, unchecked)) {
                        None => {}
                        Some(Ok(written)) => {
                            self.counters.passed_on();
                            let tell = |why: &str| {
                                let node = &inlet.node;
                                common
                                    .tell(format!("topic '/{}': a sample of node '{node}' is dropped (not_passed_on): {why}", self.topic));
                            };
                            self.counters.written(&written, "not_passed_on", tell);
                        }
                        Some(Err(text)) => dropped("not_passed_on", &text, inlet.node.as_str()),
                    }
                    return;
                }
            },
            Some(Known::Refused(reason)) => reason,
            None => {
                // The next one does not wait; if the conductor comes to know of the writer, it says
                // so.
                writers.unknown.insert(sample.writer);
                "unknown"
            }
        };
        if let Some(number) = sample.number {
            // It is counted here: it is not missing as well if its writer comes back.
            lock(&self.departed).heard(sample.writer, number);
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
        // One after the other, and each waits as long as it may.
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
        assert!(waited > KNOWN_WITHIN * 2, "it comes back");
    }
}
