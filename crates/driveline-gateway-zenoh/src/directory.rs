// SPDX-License-Identifier: Apache-2.0
//! Publishers of other hosts, and which of them have a remote publisher here:
//! `docs/protocols/network.md`, section 3. No thread, no network, no clock: received messages and
//! the time are arguments, requests to send are results.
//!
//! Announcements and answers may arrive late, twice, in any order, or not at all. In the end
//! exactly the living publishers have remote publishers.

mod places;

pub use places::{MAX_PUBLISHERS, MAX_PUBLISHERS_OF_TOPIC, Publisher};

use crate::clock::ClockEstimate;
use crate::wire::{HostId, List, Offer};
use driveline_types::{EndpointId, MonotonicNs, TopicName, Uncounted};
use places::Gone;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most hosts that are heard.
pub const MAX_HOSTS: usize = 64;
/// A list is asked for no sooner than this after the question before was answered …
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// … or not answered; and then less and less often.
const UNANSWERED: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// First pause before a list with refused entries is requested again; it doubles.
const REFUSED: Duration = Duration::from_secs(5);
/// Topics of a host that are not received here, so many of which are known …
const MAX_OTHERS: usize = 256;
/// … and number of topics compared in all, with so many topics that no host sends. Longer names are
/// not compared.
const MAX_COMPARED: [usize; 2] = [1_024, 64];
const LONGEST_COMPARED: usize = 64;
/// Shortest pause between requests for a list caused by samples of an unknown publisher.
const UNKNOWN: Duration = Duration::from_secs(1);
/// State of a publisher on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    There,
    /// It has ended.
    Ended {
        /// Number of samples that it has written in all.
        last: u64,
        /// The first of them that was to come here. `None`: its gateway does not know.
        first: Option<u64>,
    },
    /// It is not known how many samples it has written.
    Unknown(Uncounted),
}

/// Creates and removes the local publishers of remote ones.
pub trait Inlets {
    /// One of them.
    type RemotePublisher;
    /// Makes one.
    ///
    /// # Errors
    /// Why that is not possible.
    fn open(
        &mut self,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        topic: &TopicName,
        offer: &Offer,
    ) -> Result<Self::RemotePublisher, String>;
    /// Its publisher's host has a new gateway, which goes on with it.
    fn goes_on(
        &mut self,
        remote_publisher: &Self::RemotePublisher,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
    );
    /// Says what became of its publisher. `false`: it is busy, and is to be asked again soon.
    fn fate(&mut self, remote_publisher: &Self::RemotePublisher, fate: Fate) -> bool;
    /// Ends one.
    fn close(&mut self, id: EndpointId, remote_publisher: Self::RemotePublisher);
    /// Says something to people.
    fn tell(&mut self, line: String);
}

/// Another host.
pub struct Host {
    /// Its gateway is there.
    pub alive: bool,
    /// Time of its last arrival or departure.
    pub changed: MonotonicNs,
    /// Number of its returns …
    pub outages: u64,
    /// … and how long it was gone until then.
    pub outage: Duration,
    /// Time of the newest answered request for the time since it arrived: it was reachable then.
    answered: Option<MonotonicNs>,
    /// It was there at some time.
    met: bool,
    /// Its clock.
    pub clock: Arc<Mutex<ClockEstimate>>,
    /// Number of changes of its lists, up to the last one received without a gap. `None`: not
    /// requested yet.
    change: Option<u64>,
    listings: BTreeMap<TopicName, Listing>,
    /// Topics that it says it sends, and that are not received here.
    others: BTreeSet<TopicName>,
    /// No list of this host is to be asked for before.
    next: Option<MonotonicNs>,
}

/// Known publishers of a topic on a host.
#[derive(Default)]
struct Listing {
    /// The host says that it sends the topic.
    announced: bool,
    /// Time of the next request for the list.
    due: Option<MonotonicNs>,
    /// Time and number of the last request.
    asked: Option<(MonotonicNs, u64)>,
    /// That question was not answered.
    waiting: bool,
    /// Number of consecutive requests without a usable answer.
    in_vain: u32,
    /// The change that the newest list has.
    applied: Option<u64>,
    /// Newest announced change.
    told: u64,
    /// A change may have been missed since it was asked for.
    stale: bool,
    /// Listed publishers without a remote publisher, with the reason.
    refused: BTreeMap<EndpointId, String>,
    /// Number of consecutive lists with such entries.
    refusals: u32,
    /// Reason why the list itself was unusable.
    unusable: Option<String>,
}

impl Host {
    /// Returns since when it is present or gone. Zenoh reports a silent host only when its lease is
    /// over, and reports departures and arrivals together when this process was stopped. So a host
    /// is gone since its last answer; one that never answered, since the report.
    pub fn since(&self) -> MonotonicNs {
        if self.alive { self.changed } else { self.answered.unwrap_or(self.changed) }
    }

    /// Returns true if it sends a topic that is received here.
    pub fn sends_something(&self) -> bool {
        self.listings.values().any(|l| l.announced)
    }

    /// Has a list asked for at `at`, or as soon after it as is permitted.
    fn schedule(next: &mut Option<MonotonicNs>, listing: &mut Listing, at: MonotonicNs) {
        let pause = if listing.waiting { UNANSWERED } else { ASK_AGAIN };
        let at = listing.asked.map_or(at, |(asked, _)| at.max(asked + pause));
        let due = listing.due.map_or(at, |d| d.min(at));
        listing.due = Some(due);
        *next = Some(next.map_or(due, |n| n.min(due)));
    }

    fn all_may_have_changed(&mut self, now: MonotonicNs) {
        for listing in self.listings.values_mut().filter(|l| l.announced) {
            (listing.stale, listing.in_vain) = (true, 0);
            Self::schedule(&mut self.next, listing, now);
        }
    }
}

/// A question for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Of which host.
    pub host: HostId,
    /// Of which topic.
    pub topic: TopicName,
    /// Number of the request; the answer carries it.
    pub number: u64,
}

/// Something that is not received, and why.
pub struct NotReceived<'a> {
    /// Of which host.
    pub host: &'a HostId,
    /// Of which topic.
    pub topic: &'a TopicName,
    /// Reason.
    pub reason: String,
    /// Time of the next attempt.
    pub retry_at: Option<MonotonicNs>,
}

/// There are so many hosts that this one is not heard.
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
    /// Something has gone: what was refused for want of room may have some.
    room: bool,
}

impl<I> Directory<I> {
    /// Of these topics, for this host.
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

    /// Hosts that are there, or may come back.
    pub fn hosts(&self) -> &BTreeMap<HostId, Host> {
        &self.hosts
    }

    /// Publishers that have a remote publisher.
    pub fn publishers(&self) -> &BTreeMap<EndpointId, Publisher<I>> {
        &self.publishers
    }

    /// A host, which may not have said that it is there yet.
    ///
    /// # Errors
    /// There are too many.
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

    /// A gateway has come or gone. Gives whether that is new.
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

    /// A host says that it sends a topic, or says so no longer.
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

    /// Returns true if a present host sends it.
    pub fn is_sent(&self, topic: &TopicName) -> bool {
        self.hosts.values().any(|h| h.alive && h.listings.get(topic).is_some_and(|l| l.announced))
    }

    /// Returns true if a present host sends it and it is not received here.
    pub fn is_sent_elsewhere(&self, topic: &TopicName) -> bool {
        self.hosts.values().any(|h| h.alive && h.others.contains(topic))
    }

    /// Topics of these that no host sends, each with one that a host sends, that is not among
    /// `carried`, and whose name is much the same: perhaps one of the two is misspelt. Takes time
    /// that grows with the product of both, and is bounded.
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
            others.iter().find(|o| much_the_same(t.as_str(), o.as_str())).map(|o| (*o).clone())
        };
        silent.filter_map(|t| Some((t.clone(), like(t)?))).collect()
    }

    /// A host says that it has changed the list of a topic, as its change number `change`.
    pub fn changed(&mut self, id: &HostId, topic: &TopicName, change: u64, now: MonotonicNs) {
        let Some(host) = self.hosts.get_mut(id) else { return };
        let before = host.change;
        if before.is_some_and(|b| change > b) {
            host.change = Some(change);
        }
        if before.is_some_and(|b| change > b.saturating_add(1)) {
            // Some that came before it did not come here.
            host.all_may_have_changed(now);
        }
        let Some(listing) = host.listings.get_mut(topic) else { return };
        listing.told = listing.told.max(change);
        if listing.announced && listing.applied.is_none_or(|a| a < change) {
            Host::schedule(&mut host.next, listing, now);
        }
    }

    /// A host was asked for the time at `asked`, and has answered that its lists had so many
    /// changes.
    pub fn counted(&mut self, id: &HostId, changes: u64, asked: MonotonicNs, now: MonotonicNs) {
        let Some(host) = self.hosts.get_mut(id).filter(|h| h.alive) else { return };
        // An answer that comes after it has come back may be to a question from before it went.
        if asked >= host.changed {
            host.answered = host.answered.max(Some(asked));
        }
        match host.change {
            // Changes after this answer are announced with the next numbers, so lists requested
            // from now on contain all of them.
            None => host.change = Some(changes),
            Some(known) if changes > known => {
                host.change = Some(changes);
                host.all_may_have_changed(now);
            }
            Some(_) => {}
        }
    }

    /// A sample came whose publisher is not known.
    pub fn unknown(&mut self, id: &HostId, topic: &TopicName, now: MonotonicNs) {
        let Some(host) = self.hosts.get_mut(id) else { return };
        let Some(listing) = host.listings.get_mut(topic).filter(|l| l.announced) else { return };
        let at = listing.asked.map_or(now, |(asked, _)| now.max(asked + UNKNOWN));
        Host::schedule(&mut host.next, listing, at);
    }

    /// The lists to be asked for now; and when to look again.
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
                    listing.due = Some(now + pause(UNANSWERED, listing.in_vain));
                    listing.in_vain = listing.in_vain.saturating_add(1);
                }
                host.next =
                    host.listings.values().filter(|l| l.announced).filter_map(|l| l.due).min();
            }
            next = [next, host.next].into_iter().flatten().min();
        }
        (questions, next)
    }

    /// A question was answered with something that is no list.
    pub fn unusable(
        &mut self,
        question: &Question,
        reason: String,
        remote_publishers: &mut impl Inlets<RemotePublisher = I>,
    ) {
        let listing =
            self.hosts.get_mut(&question.host).and_then(|h| h.listings.get_mut(&question.topic));
        let Some(listing) = listing.filter(|l| l.asked.is_some_and(|(_, n)| n == question.number))
        else {
            return;
        };
        // It is asked for again as if it had not been answered.
        if listing.unusable.as_ref() != Some(&reason) {
            remote_publishers.tell(format!(
                "topic '{}': nothing is received from host '{}': {reason}",
                question.topic,
                question.host.name()
            ));
        }
        listing.unusable = Some(reason);
    }

    /// A question was answered.
    pub fn listed(
        &mut self,
        question: &Question,
        list: &List,
        now: MonotonicNs,
        remote_publishers: &mut impl Inlets<RemotePublisher = I>,
    ) {
        let Question { host: id, topic, number } = question;
        if list.topic != *topic {
            return self.unusable(
                question,
                format!("it lists topic '{}' instead", list.topic),
                remote_publishers,
            );
        }
        // What comes from a host that is gone again is asked for when it is back.
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
                    remote_publishers.tell(format!(
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
        if listing.told > list.change || listing.stale {
            // A host that announces changes which its lists do not have is asked less and less
            // often.
            let times = if progress { 0 } else { listing.in_vain };
            Host::schedule(&mut host.next, listing, now + pause(ASK_AGAIN, times));
            return;
        }
        listing.in_vain = 0;
        if listing.refused.is_empty() {
            listing.refusals = 0;
        } else {
            // What was missing here (memory, a free place) may be there then.
            let at = now + pause(REFUSED, listing.refusals);
            listing.refusals = listing.refusals.saturating_add(1);
            Host::schedule(&mut host.next, listing, at);
        }
    }

    /// Publishers that are listed and will not be received as things are.
    pub fn refused(&self) -> BTreeSet<EndpointId> {
        self.hosts
            .values()
            .filter(|h| h.alive)
            .flat_map(|h| h.listings.values())
            .flat_map(|l| l.refused.keys().copied())
            .collect()
    }

    /// Returns the topics that are not received, with the reason.
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
                        not("it was asked for its publishers and has not answered yet")
                    }
                    None => {}
                }
                listing.refused.values().for_each(|reason| not(reason));
            }
        }
        all
    }
}

/// Doubles each time, up to a minute.
fn pause(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(12)).min(LONGEST)
}

/// Returns true if one name may be a misspelling of the other: capitals, or one place with up to
/// two letters added, removed or changed. Digits are excluded, because several sensors differ in
/// them.
fn much_the_same(a: &str, b: &str) -> bool {
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
