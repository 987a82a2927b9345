// SPDX-License-Identifier: Apache-2.0
//! Publishers of other hosts, and their remote publishers on this host:
//! `docs/protocols/network.md`, section 3. No thread, no network, no clock: received messages and
//! the time are arguments; requests to send are results.
//!
//! Announcements and answers may arrive late, twice, in any order, or not at all. In the end, each
//! living publisher that is not refused has a remote publisher, and no other publisher has one.

mod places;

pub use places::{MAX_PUBLISHERS, MAX_PUBLISHERS_OF_TOPIC, Publisher};

use crate::clock::ClockEstimate;
use crate::wire::{HostId, List, Offer};
use driveline_types::{EndpointId, MonotonicNs, TopicName, Uncounted};
use places::Gone;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of hosts that are heard.
pub const MAX_HOSTS: usize = 64;
/// Shortest time from a request for a list to the next one, if the first one was answered. It grows
/// if the answers lack announced changes.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// First pause before a list is requested again without an answer. It grows.
const UNANSWERED: Duration = Duration::from_millis(500);
/// Upper limit of all pauses that grow.
const LONGEST: Duration = Duration::from_secs(60);
/// First pause before a list with refused entries is requested again; it doubles.
const REFUSED: Duration = Duration::from_secs(5);
/// Maximum number of remembered topics of a host that are not received here.
const MAX_OTHERS: usize = 256;
/// Limits of the search for misspelt topic names: number of topics of other hosts, and number of
/// topics received here that no other host sends. Names longer than `LONGEST_COMPARED` are not
/// compared.
const MAX_COMPARED: [usize; 2] = [1_024, 64];
const LONGEST_COMPARED: usize = 64;
/// Shortest time from a request for a list to another one that a sample of an unknown publisher
/// causes.
const UNKNOWN: Duration = Duration::from_secs(1);
/// State of a publisher on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It exists.
    There,
    /// It has ended.
    Ended {
        /// Number of samples that it has written in all.
        last: u64,
        /// Number of the first sample that its gateway had to send to this host, at most `last` +
        /// 1. `None`: the gateway does not know the number.
        first: Option<u64>,
    },
    /// The number of its samples is unknown.
    Unknown(Uncounted),
}

/// Creates and removes local publishers for publishers of other hosts.
pub trait RemotePublishers {
    /// A remote publisher.
    type RemotePublisher;
    /// Creates a remote publisher.
    ///
    /// # Errors
    /// Reason why that is not possible.
    fn open(
        &mut self,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        topic: &TopicName,
        offer: &Offer,
    ) -> Result<Self::RemotePublisher, String>;
    /// Continues a remote publisher for the new gateway of its publisher's host.
    fn goes_on(
        &mut self,
        remote_publisher: &Self::RemotePublisher,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
    );
    /// Passes the state of its publisher to a remote publisher. Returns false if the remote
    /// publisher is busy: call again soon.
    fn fate(&mut self, remote_publisher: &Self::RemotePublisher, fate: Fate) -> bool;
    /// Ends a remote publisher.
    fn close(&mut self, id: EndpointId, remote_publisher: Self::RemotePublisher);
    /// Writes a line to the log.
    fn log(&mut self, line: String);
}

/// Another host.
pub struct Host {
    /// Its gateway is present.
    pub alive: bool,
    /// Time of its last arrival or departure.
    pub changed: MonotonicNs,
    /// Number of times that it has come back after an outage.
    pub outages: u64,
    /// Total duration of these outages.
    pub outage: Duration,
    /// Time of the newest request for the time that it has answered since it arrived. It was
    /// reachable then.
    answered: Option<MonotonicNs>,
    /// It was present at some time.
    met: bool,
    /// Its clock.
    pub clock: Arc<Mutex<ClockEstimate>>,
    /// Number of the newest known change of its lists. If the next announced number is more than
    /// one higher, changes were missed. `None`: not known since its last arrival or departure.
    change: Option<u64>,
    listings: BTreeMap<TopicName, Listing>,
    /// Topics that it sends and this host does not receive.
    others: BTreeSet<TopicName>,
    /// Earliest time of the next list request to this host.
    next: Option<MonotonicNs>,
}

/// State of the list of a host's publishers of one topic.
#[derive(Default)]
struct Listing {
    /// The host sends the topic.
    announced: bool,
    /// Time of the next request for the list.
    due: Option<MonotonicNs>,
    /// Time and number of the last request.
    asked: Option<(MonotonicNs, u64)>,
    /// The last request has no answer yet.
    waiting: bool,
    /// Number of consecutive requests without a usable answer that has all announced changes.
    unanswered: u32,
    /// Change number of the newest list.
    applied: Option<u64>,
    /// Newest announced change.
    newest_change: u64,
    /// A change after the last request may have been missed.
    stale: bool,
    /// Listed publishers without a remote publisher, with the reason.
    refused: BTreeMap<EndpointId, String>,
    /// Number of consecutive lists with refused publishers.
    refusals: u32,
    /// Reason why the list itself was unusable.
    unusable: Option<String>,
}

impl Host {
    /// Returns the time since which the host is present or gone. Zenoh reports a silent host only
    /// after its lease. If this process was stopped, Zenoh reports departures and arrivals
    /// together. So a departed host counts as gone since the last request for the time that it
    /// answered, or, if it never answered, since the report.
    pub fn since(&self) -> MonotonicNs {
        if self.alive { self.changed } else { self.answered.unwrap_or(self.changed) }
    }

    /// Returns true if it sends a topic that is received here.
    pub fn sends_something(&self) -> bool {
        self.listings.values().any(|l| l.announced)
    }

    /// Schedules a list request at `at`, or at the first permitted time after it.
    fn schedule(next: &mut Option<MonotonicNs>, listing: &mut Listing, at: MonotonicNs) {
        let pause = if listing.waiting { UNANSWERED } else { ASK_AGAIN };
        let at = listing.asked.map_or(at, |(asked, _)| at.max(asked + pause));
        let due = listing.due.map_or(at, |d| d.min(at));
        listing.due = Some(due);
        *next = Some(next.map_or(due, |n| n.min(due)));
    }

    fn all_may_have_changed(&mut self, now: MonotonicNs) {
        for listing in self.listings.values_mut().filter(|l| l.announced) {
            (listing.stale, listing.unanswered) = (true, 0);
            Self::schedule(&mut self.next, listing, now);
        }
    }
}

/// A request for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Host to ask.
    pub host: HostId,
    /// Topic of the list.
    pub topic: TopicName,
    /// Number of the request. The answer is passed on together with it.
    pub number: u64,
}

/// A topic of which nothing is received from a host, or not every publisher, and a reason.
pub struct NotReceived<'a> {
    /// Sending host.
    pub host: &'a HostId,
    /// The topic.
    pub topic: &'a TopicName,
    /// Reason.
    pub reason: String,
    /// Time of the next attempt.
    pub retry_at: Option<MonotonicNs>,
}

/// Error: there are too many hosts to hear this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyHosts;

/// See the module.
pub struct Directory<I> {
    /// This host.
    me: HostId,
    topics: BTreeSet<TopicName>,
    hosts: BTreeMap<HostId, Host>,
    publishers: BTreeMap<EndpointId, Publisher<I>>,
    questions: u64,
    /// A place became free: publishers that were refused for lack of space may fit now.
    room: bool,
}

impl<I> Directory<I> {
    /// Creates a directory of these topics, for this host.
    pub fn new(topics: impl IntoIterator<Item = TopicName>, me: HostId) -> Self {
        let topics = topics.into_iter().collect();
        Self {
            me,
            topics,
            hosts: BTreeMap::new(),
            publishers: BTreeMap::new(),
            questions: 0,
            room: false,
        }
    }

    /// Hosts that are present or may return.
    pub fn hosts(&self) -> &BTreeMap<HostId, Host> {
        &self.hosts
    }

    /// Publishers that have a remote publisher.
    pub fn publishers(&self) -> &BTreeMap<EndpointId, Publisher<I>> {
        &self.publishers
    }

    /// Returns a host, and adds it if it is not known yet.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn host(&mut self, id: &HostId, now: MonotonicNs) -> Result<&mut Host, TooManyHosts> {
        if !self.hosts.contains_key(id) && self.hosts.len() >= MAX_HOSTS {
            let gives_way = self.gives_way(id).ok_or(TooManyHosts)?;
            self.hosts.remove(&gives_way);
        }
        let new = || Host {
            alive: false,
            changed: now,
            outages: 0,
            outage: Duration::ZERO,
            answered: None,
            met: false,
            clock: Arc::default(),
            change: None,
            listings: BTreeMap::new(),
            others: BTreeSet::new(),
            next: None,
        };
        Ok(self.hosts.entry(id.clone()).or_insert_with(new))
    }

    /// Notes the arrival or departure of a gateway. Returns true if that is new.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn host_is(
        &mut self,
        id: &HostId,
        alive: bool,
        now: MonotonicNs,
    ) -> Result<bool, TooManyHosts> {
        let host = self.host(id, now)?;
        if host.alive == alive {
            return Ok(false);
        }
        if alive && host.met {
            host.outages += 1;
            host.outage += now.since(host.since());
        }
        if alive {
            host.answered = None;
        }
        host.met |= alive;
        (host.alive, host.changed, host.change) = (alive, now, None);
        if alive {
            host.all_may_have_changed(now);
        } else {
            for p in self.publishers.values_mut().filter(|p| p.host == *id) {
                p.gone.get_or_insert(Gone { since: now, end: None });
            }
            self.room = true;
        }
        Ok(true)
    }

    /// Notes that a host sends a topic, or no longer does.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn topic_is(
        &mut self,
        id: &HostId,
        topic: &TopicName,
        announced: bool,
        now: MonotonicNs,
    ) -> Result<(), TooManyHosts> {
        if !announced && !self.hosts.contains_key(id) {
            return Ok(());
        }
        let received = self.topics.contains(topic);
        let host = self.host(id, now)?;
        if !received {
            if !announced {
                host.others.remove(topic);
            } else if host.others.len() < MAX_OTHERS {
                host.others.insert(topic.clone());
            }
            return Ok(());
        }
        let listing = host.listings.entry(topic.clone()).or_default();
        listing.announced = announced;
        if announced {
            listing.stale = true;
            Host::schedule(&mut host.next, listing, now);
        }
        Ok(())
    }

    /// Returns true if a present host sends this topic, and it is received here.
    pub fn is_sent(&self, topic: &TopicName) -> bool {
        self.hosts.values().any(|h| h.alive && h.listings.get(topic).is_some_and(|l| l.announced))
    }

    /// Returns true if a present host sends this topic, and it is not received here.
    pub fn is_sent_elsewhere(&self, topic: &TopicName) -> bool {
        self.hosts.values().any(|h| h.alive && h.others.contains(topic))
    }

    /// Returns the topics received here that no other host sends, each with a topic of a similar
    /// name that a host sends and that is not in `carried`: one of the two names may be misspelt.
    /// The time grows with the product of both numbers of topics, and is bounded.
    pub fn similar(&self, carried: &BTreeSet<TopicName>) -> BTreeMap<TopicName, TopicName> {
        let short = |t: &&TopicName| t.as_str().len() <= LONGEST_COMPARED;
        let others = self
            .hosts
            .values()
            .filter(|h| h.alive)
            .flat_map(|h| &h.others)
            .filter(|t| !carried.contains(*t));
        let others: Vec<&TopicName> = others.filter(short).take(MAX_COMPARED[0]).collect();
        let silent =
            self.topics.iter().filter(|t| !self.is_sent(t)).filter(short).take(MAX_COMPARED[1]);
        let like = |t: &TopicName| {
            others.iter().find(|o| nearly_same(t.as_str(), o.as_str())).map(|o| (*o).clone())
        };
        silent.filter_map(|t| Some((t.clone(), like(t)?))).collect()
    }

    /// Notes change number `change` of a host's lists, which concerns this topic.
    pub fn changed(&mut self, id: &HostId, topic: &TopicName, change: u64, now: MonotonicNs) {
        let Some(host) = self.hosts.get_mut(id) else { return };
        let before = host.change;
        if before.is_some_and(|b| change > b) {
            host.change = Some(change);
        }
        if before.is_some_and(|b| change > b.saturating_add(1)) {
            // Earlier changes were missed.
            host.all_may_have_changed(now);
        }
        let Some(listing) = host.listings.get_mut(topic) else { return };
        listing.newest_change = listing.newest_change.max(change);
        if listing.announced && listing.applied.is_none_or(|a| a < change) {
            Host::schedule(&mut host.next, listing, now);
        }
    }

    /// Notes the number of changes of a host's lists, from its answer to the time request sent at
    /// `asked`.
    pub fn counted(&mut self, id: &HostId, changes: u64, asked: MonotonicNs, now: MonotonicNs) {
        let Some(host) = self.hosts.get_mut(id).filter(|h| h.alive) else { return };
        // An answer after a host's return may belong to a request from before its departure.
        if asked >= host.changed {
            host.answered = host.answered.max(Some(asked));
        }
        match host.change {
            // Lists requested from now on contain these changes. Later ones are announced with the
            // next numbers, so a gap shows.
            None => host.change = Some(changes),
            Some(known) if changes > known => {
                host.change = Some(changes);
                host.all_may_have_changed(now);
            }
            Some(_) => {}
        }
    }

    /// Handles a sample of an unknown publisher.
    pub fn unknown(&mut self, id: &HostId, topic: &TopicName, now: MonotonicNs) {
        let Some(host) = self.hosts.get_mut(id) else { return };
        let Some(listing) = host.listings.get_mut(topic).filter(|l| l.announced) else { return };
        let at = listing.asked.map_or(now, |(asked, _)| now.max(asked + UNKNOWN));
        Host::schedule(&mut host.next, listing, at);
    }

    /// Returns the list requests to send now, and the time of the next check.
    pub fn questions(&mut self, now: MonotonicNs) -> (Vec<Question>, Option<MonotonicNs>) {
        if std::mem::take(&mut self.room) {
            for host in self.hosts.values_mut() {
                for listing in
                    host.listings.values_mut().filter(|l| l.announced && !l.refused.is_empty())
                {
                    Host::schedule(&mut host.next, listing, now);
                }
            }
        }
        let mut questions = Vec::new();
        let mut next: Option<MonotonicNs> = None;
        for (id, host) in self.hosts.iter_mut().filter(|(_, h)| h.alive && h.change.is_some()) {
            if host.next.is_some_and(|n| now >= n) {
                for (topic, listing) in host
                    .listings
                    .iter_mut()
                    .filter(|(_, l)| l.announced && l.due.is_some_and(|d| now >= d))
                {
                    self.questions += 1;
                    questions.push(Question {
                        host: id.clone(),
                        topic: topic.clone(),
                        number: self.questions,
                    });
                    listing.asked = Some((now, self.questions));
                    (listing.waiting, listing.stale) = (true, false);
                    listing.due = Some(now + pause(UNANSWERED, listing.unanswered));
                    listing.unanswered = listing.unanswered.saturating_add(1);
                }
                host.next =
                    host.listings.values().filter(|l| l.announced).filter_map(|l| l.due).min();
            }
            next = [next, host.next].into_iter().flatten().min();
        }
        (questions, next)
    }

    /// Handles an answer that is not a valid list.
    pub fn unusable(
        &mut self,
        question: &Question,
        reason: String,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) {
        let listing =
            self.hosts.get_mut(&question.host).and_then(|h| h.listings.get_mut(&question.topic));
        let Some(listing) = listing.filter(|l| l.asked.is_some_and(|(_, n)| n == question.number))
        else {
            return;
        };
        // The list is requested again, as without an answer.
        if listing.unusable.as_ref() != Some(&reason) {
            remote_publishers.log(format!(
                "topic '{}': nothing is received from host '{}': {reason}",
                question.topic,
                question.host.name()
            ));
        }
        listing.unusable = Some(reason);
    }

    /// Handles the answer to a list request.
    pub fn listed(
        &mut self,
        question: &Question,
        list: &List,
        now: MonotonicNs,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) {
        let Question { host: id, topic, number } = question;
        if list.topic != *topic {
            return self.unusable(
                question,
                format!("it lists topic '{}' instead", list.topic),
                remote_publishers,
            );
        }
        // Lists of a departed host are requested after its return.
        let Some(host) = self.hosts.get(id).filter(|h| h.alive) else { return };
        let clock = host.clock.clone();
        let Some(listing) = host.listings.get(topic).filter(|l| l.announced && l.asked.is_some())
        else {
            return;
        };
        if listing.applied.is_some_and(|a| list.change < a) {
            return;
        }
        let before = listing.refused.clone();
        let mut refused = BTreeMap::new();
        for (publisher, offer) in &list.publishers {
            if let Err(reason) =
                self.take(id, &clock, *publisher, list, offer, now, remote_publishers)
            {
                if before.get(publisher) != Some(&reason) {
                    remote_publishers.log(format!(
                        "topic '{topic}': a publisher of host '{}' is not received: {reason}",
                        id.name()
                    ));
                }
                refused.insert(*publisher, reason);
            }
        }
        let listed = |id: EndpointId| list.publishers.iter().any(|(l, _)| *l == id);
        for (publisher, p) in
            self.publishers.iter_mut().filter(|(_, p)| p.host == *id && p.topic == *topic)
        {
            if listed(*publisher) {
                continue;
            }
            let gone = p
                .gone
                .filter(|g| g.end.is_some())
                .unwrap_or(Gone { since: now, end: Some(Fate::Unknown(Uncounted::NotAnnounced)) });
            let ended = list.ended.iter().find(|e| e.id == *publisher);
            let end = ended.and_then(|e| {
                Some(Fate::Ended { last: e.last?, first: e.first.get(&self.me).copied() })
            });
            p.gone = Some(Gone { end: end.or(gone.end), ..gone });
        }
        let Some(host) = self.hosts.get_mut(id) else { return };
        let Some(listing) = host.listings.get_mut(topic) else { return };
        let progress = listing.applied.is_none_or(|a| a < list.change);
        listing.applied = Some(list.change);
        listing.refused = refused;
        listing.unusable = None;
        if listing.asked.is_none_or(|(_, last)| last != *number) {
            return;
        }
        (listing.waiting, listing.due) = (false, None);
        if listing.newest_change > list.change || listing.stale {
            // A host may announce changes that its lists do not have. It is asked less and less
            // often.
            let times = if progress { 0 } else { listing.unanswered };
            Host::schedule(&mut host.next, listing, now + pause(ASK_AGAIN, times));
            return;
        }
        listing.unanswered = 0;
        if listing.refused.is_empty() {
            listing.refusals = 0;
        } else {
            // The missing resource (memory, a free place) may be available then.
            let at = now + pause(REFUSED, listing.refusals);
            listing.refusals = listing.refusals.saturating_add(1);
            Host::schedule(&mut host.next, listing, at);
        }
    }

    /// Returns the publishers that are listed and cannot be received at present.
    pub fn refused(&self) -> BTreeSet<EndpointId> {
        self.hosts
            .values()
            .filter(|h| h.alive)
            .flat_map(|h| h.listings.values())
            .flat_map(|l| l.refused.keys().copied())
            .collect()
    }

    /// Returns the topics that are not received, or not from every listed publisher, each with a
    /// reason. A topic of a host may appear several times.
    pub fn not_received(&self) -> Vec<NotReceived<'_>> {
        let mut all = Vec::new();
        for (host, state) in self.hosts.iter().filter(|(_, h)| h.alive) {
            for (topic, listing) in state.listings.iter().filter(|(_, l)| l.announced) {
                let mut not = |reason: &str| {
                    all.push(NotReceived {
                        host,
                        topic,
                        reason: reason.to_owned(),
                        retry_at: listing.due,
                    })
                };
                match &listing.unusable {
                    Some(reason) => not(reason),
                    None if listing.applied.is_none() && listing.waiting => {
                        not("it has not answered the request for its publishers yet")
                    }
                    None => {}
                }
                listing.refused.values().for_each(|reason| not(reason));
            }
        }
        all
    }
}

/// Returns a pause that doubles each time, up to a minute.
fn pause(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(12)).min(LONGEST)
}

/// Returns true if one name may be a misspelling of the other. They may differ in capitals, or in
/// one place where up to two letters were added, removed or changed, if at least three other
/// letters agree. Names that differ only in digits do not count, because names of several sensors
/// often do.
fn nearly_same(a: &str, b: &str) -> bool {
    if a.eq_ignore_ascii_case(b) {
        return true;
    }
    let letters = |name: &str| {
        name.bytes()
            .filter(|c| !c.is_ascii_digit())
            .map(|c| c.to_ascii_lowercase())
            .collect::<Vec<_>>()
    };
    let (a, b) = (letters(a), letters(b));
    let before = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[before..], &b[before..]);
    let after = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let other = a.len().max(b.len()) - after;
    (1..=2).contains(&other) && before + after >= 3
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
