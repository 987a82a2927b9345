// SPDX-License-Identifier: Apache-2.0
//! Places for other hosts and their publishers on this host. This module assigns the places, and
//! frees the places of departed hosts and publishers.

use super::{Directory, Fate, Host, MAX_HOSTS, RemotePublishers};
use crate::clock::ClockEstimate;
use crate::wire::{HostId, List, Offer};
use driveline_types::{
    Durability, EndpointId, MonotonicNs, Qos, Reliability, TopicName, Uncounted,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of received publishers of other hosts.
pub const MAX_PUBLISHERS: usize = 1024;
/// Maximum number of received publishers on one topic.
pub const MAX_PUBLISHERS_OF_TOPIC: usize = 64;
/// Time for which the remote publisher of a delisted publisher still waits for samples in flight.
const LINGERS: Duration = Duration::from_secs(1);
/// Time that the remote publishers of a lost host wait for its return.
const HOST_MAY_RETURN: Duration = Duration::from_secs(60);

/// Publisher of another host, with its remote publisher here.
pub struct Publisher<I> {
    /// Its host.
    pub host: HostId,
    /// Its topic.
    pub topic: TopicName,
    /// Its remote publisher.
    pub remote_publisher: I,
    /// Offer with which its remote publisher was created.
    pub(super) offer: Offer,
    pub(super) gone: Option<Gone>,
    /// State that was last reported to the remote publisher.
    reported: Option<Fate>,
}

#[derive(Clone, Copy)]
pub(super) struct Gone {
    pub(super) since: MonotonicNs,
    /// End of the publisher as its host reports it. Set if the host is present and does not list
    /// the publisher.
    pub(super) end: Option<Fate>,
}

impl Gone {
    fn for_good(&self) -> bool {
        self.end.is_some()
    }
}

/// Pause before a busy remote publisher is tried again.
const BUSY: Duration = Duration::from_millis(20);

impl<I> Publisher<I> {
    /// Returns true unless the publisher or its host is known to be gone.
    pub fn is_there(&self) -> bool {
        self.gone.is_none()
    }

    fn fate(&self) -> Fate {
        self.gone
            .map_or(Fate::There, |gone| gone.end.unwrap_or(Fate::Unknown(Uncounted::OutOfReach)))
    }

    /// Passes a state to its remote publisher. Returns false if the remote publisher is busy.
    fn report(
        &mut self,
        fate: Fate,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) -> bool {
        if self.reported != Some(fate) && remote_publishers.fate(&self.remote_publisher, fate) {
            self.reported = Some(fate);
        }
        self.reported == Some(fate)
    }

    /// Reports the final state to its remote publisher, which is then removed: the end that its
    /// host has reported, or else `why`.
    fn ends(
        &mut self,
        why: Uncounted,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) {
        let fate = self.gone.and_then(|gone| gone.end).unwrap_or(Fate::Unknown(why));
        self.report(fate, remote_publishers);
    }
}

impl<I> Directory<I> {
    /// Returns the number of free places for hosts.
    pub fn places(&self) -> usize {
        MAX_HOSTS - self.hosts.len()
            + self.may_give_way().filter(|(h, _)| !self.is_of_use(h)).count()
    }

    /// Returns the departed hosts, which may give way. A restarted gateway has a new id, so its
    /// earlier start is among them.
    fn may_give_way(&self) -> impl Iterator<Item = (&HostId, &Host)> {
        self.hosts.iter().filter(|(_, state)| !state.alive)
    }

    /// Returns true if this host is a restart of a departed host, and so gets that host's place.
    pub fn has_place_of_its_own(&self, id: &HostId) -> bool {
        self.may_give_way().any(|(h, _)| h.name() == id.name())
    }

    /// Returns true if this host has remote publishers that wait for its return.
    fn is_of_use(&self, id: &HostId) -> bool {
        self.publishers.values().any(|p| p.host == *id)
    }

    /// Returns the host that gives its place to `new`. This is an earlier start of the same host,
    /// whose remote publishers the new one continues or drops. Otherwise it is the host that has
    /// been gone longest and has no remote publishers.
    pub(super) fn gives_way(&self, new: &HostId) -> Option<HostId> {
        let earlier = |h: &HostId| h.name() == new.name();
        let all = self.may_give_way().filter(|(h, _)| earlier(h) || !self.is_of_use(h));
        all.min_by_key(|(h, state)| (!earlier(h), state.changed)).map(|(h, _)| h.clone())
    }

    /// Handles a listed publisher. Returns the reason if it gets no remote publisher.
    #[allow(clippy::too_many_arguments, reason = "all of one answer")]
    pub(super) fn take(
        &mut self,
        host: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        list: &List,
        offer: &Offer,
        now: MonotonicNs,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) -> Result<(), String> {
        if let Some(known) = self.publishers.get_mut(&id) {
            if known.topic != list.topic || !same_terms(&known.offer, offer) {
                return Err("it is known here with another topic, type, QoS or length".into());
            }
            if known.host != *host {
                if self.hosts.get(&known.host).is_some_and(|h| h.alive) {
                    return Err(format!("host '{}' lists the same publisher", known.host));
                }
                if known.host.name() != host.name() {
                    return Err(format!(
                        "it belonged to host '{}', whose samples are kept for {HOST_MAY_RETURN:?}",
                        known.host
                    ));
                }
                // Its host has a new gateway.
                known.host = host.clone();
                remote_publishers.goes_on(&known.remote_publisher, host, clock);
            }
            known.gone = None;
            return Ok(());
        }
        offer.check()?;
        self.make_room(&list.topic, now, remote_publishers)?;
        let remote_publisher = remote_publishers.open(host, clock, id, &list.topic, offer)?;
        let (host, topic, offer) = (host.clone(), list.topic.clone(), offer.clone());
        self.publishers.insert(
            id,
            Publisher {
                host,
                topic,
                remote_publisher,
                offer,
                gone: None,
                reported: Some(Fate::There),
            },
        );
        Ok(())
    }

    /// Frees a place. A departed publisher gives way, present ones never do. Publishers that their
    /// host no longer lists come before those whose host is gone. Among equals, a weaker QoS comes
    /// before a stronger one, and then an earlier departure before a later one.
    fn make_room(
        &mut self,
        topic: &TopicName,
        now: MonotonicNs,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) -> Result<(), String> {
        let of_topic = self.publishers.values().filter(|p| p.topic == *topic).count()
            >= MAX_PUBLISHERS_OF_TOPIC;
        if !of_topic && self.publishers.len() < MAX_PUBLISHERS {
            return Ok(());
        }
        let promises = |qos: &Qos| {
            (qos.durability == Durability::TransientLocal, qos.reliability == Reliability::Reliable)
        };
        let gone =
            self.publishers.iter().filter(|(_, p)| !of_topic || p.topic == *topic).filter_map(
                |(id, p)| {
                    let gone = p.gone?;
                    Some((!gone.for_good(), promises(&p.offer.qos), gone.since, *id))
                },
            );
        let Some((_, _, since, id)) = gone.min() else {
            return Err(format!(
                "there are too many: {MAX_PUBLISHERS_OF_TOPIC} of a topic and {MAX_PUBLISHERS} in \
                 all can be received; \
                 use fewer publishers on other hosts, or receive fewer topics here"
            ));
        };
        if let Some(mut p) = self.publishers.remove(&id) {
            p.ends(Uncounted::GaveWay, remote_publishers);
            let (host, gone) = (p.host.name(), now.since(since).as_secs());
            remote_publishers.log(format!(
                "topic '{}': the samples of a publisher of host '{host}', which \
                     departed {gone} s ago, gave way to a new publisher",
                p.topic
            ));
            remote_publishers.close(id, p.remote_publisher);
        }
        Ok(())
    }

    /// Passes the states of publishers to their remote publishers, and removes publishers and hosts
    /// that are gone for good. Returns the time of the next check.
    pub fn forget(
        &mut self,
        now: MonotonicNs,
        remote_publishers: &mut impl RemotePublishers<RemotePublisher = I>,
    ) -> Option<MonotonicNs> {
        let mut next: Option<MonotonicNs> = None;
        for p in self.publishers.values_mut() {
            if !p.report(p.fate(), remote_publishers) {
                next = Some(now + BUSY);
            }
        }
        let mut over = |until: MonotonicNs| {
            if now < until {
                next = Some(next.map_or(until, |n| n.min(until)));
            }
            now >= until
        };
        let until = |g: Gone| g.since + if g.for_good() { LINGERS } else { HOST_MAY_RETURN };
        let gone: Vec<EndpointId> = self
            .publishers
            .iter()
            .filter(|(_, p)| p.gone.is_some_and(|g| over(until(g))))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            if let Some(mut p) = self.publishers.remove(&id) {
                p.ends(Uncounted::HostGone, remote_publishers);
                remote_publishers.close(id, p.remote_publisher);
                self.room = true;
            }
        }
        let publishers = &self.publishers;
        let there: BTreeSet<String> = self
            .hosts
            .iter()
            .filter(|(_, h)| h.alive)
            .map(|(id, _)| id.name().to_owned())
            .collect();
        // A departed host stays listed until its place is needed. If another start of it is
        // present, or it never announced itself, it stays only for a minute, or while it has
        // publishers here.
        let kept = |id: &HostId, h: &Host| h.alive || (h.met && !there.contains(id.name()));
        self.hosts.retain(|id, h| {
            kept(id, h)
                || publishers.values().any(|p| p.host == *id)
                || !over(h.changed + HOST_MAY_RETURN)
        });
        next
    }
}

/// Returns true if a remote publisher for one offer also serves the other. The node's name may
/// differ after a restart.
fn same_terms(a: &Offer, b: &Offer) -> bool {
    a.schema == b.schema && a.qos == b.qos && a.max_payload == b.max_payload
}
