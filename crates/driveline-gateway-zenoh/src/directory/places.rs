// SPDX-License-Identifier: Apache-2.0
//! The places that other hosts and their publishers have here: who gets one, who gives way, and
//! what is let go of.

use super::{Directory, Fate, Host, Inlets, MAX_HOSTS};
use crate::clock::ClockEstimate;
use crate::wire::{HostId, List, Offer};
use driveline_types::{
    Durability, EndpointId, MonotonicNs, Qos, Reliability, TopicName, Uncounted,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most publishers of other hosts.
pub const MAX_PUBLISHERS: usize = 1024;
/// Most of these that publish one topic.
pub const MAX_PUBLISHERS_OF_TOPIC: usize = 64;
/// How long the inlet of a publisher that is listed no longer waits for samples that are on their
/// way.
const LINGERS: Duration = Duration::from_secs(1);
/// How long what a host has published here waits for the host to come back.
const HOST_MAY_RETURN: Duration = Duration::from_secs(60);

/// A publisher of another host that has an inlet here.
pub struct Publisher<I> {
    /// Its host.
    pub host: HostId,
    /// Its topic.
    pub topic: TopicName,
    /// Its inlet.
    pub inlet: I,
    /// What its inlet was made with.
    pub(super) offer: Offer,
    pub(super) gone: Option<Gone>,
    /// What the inlet knows of it.
    told: Option<Fate>,
}

#[derive(Clone, Copy)]
pub(super) struct Gone {
    pub(super) since: MonotonicNs,
    /// Its host is there, and does not list it: what the host says of its end.
    pub(super) end: Option<Fate>,
}

impl Gone {
    fn for_good(&self) -> bool {
        self.end.is_some()
    }
}

/// When an inlet that was busy is asked again.
const BUSY: Duration = Duration::from_millis(20);

impl<I> Publisher<I> {
    /// Neither it nor its host is known to be gone.
    pub fn is_there(&self) -> bool {
        self.gone.is_none()
    }

    fn fate(&self) -> Fate {
        self.gone
            .map_or(Fate::There, |gone| gone.end.unwrap_or(Fate::Unknown(Uncounted::OutOfReach)))
    }

    /// Has its inlet know its fate. `false`: that is busy.
    fn tell(&mut self, fate: Fate, inlets: &mut impl Inlets<Inlet = I>) -> bool {
        if self.told != Some(fate) && inlets.fate(&self.inlet, fate) {
            self.told = Some(fate);
        }
        self.told == Some(fate)
    }

    /// Has its inlet know that its place goes to another, or that its host did not come back.
    fn ends(&mut self, why: Uncounted, inlets: &mut impl Inlets<Inlet = I>) {
        let fate = self.gone.and_then(|gone| gone.end).unwrap_or(Fate::Unknown(why));
        self.tell(fate, inlets);
    }
}

impl<I> Directory<I> {
    /// How many hosts more would find a place, whoever they are.
    pub fn places(&self) -> usize {
        MAX_HOSTS - self.hosts.len()
            + self.may_give_way().filter(|(h, _)| !self.is_of_use(h)).count()
    }

    /// Hosts that are gone: their gateways' next start is another.
    fn may_give_way(&self) -> impl Iterator<Item = (&HostId, &Host)> {
        self.hosts.iter().filter(|(_, state)| !state.alive)
    }

    /// Whether it is another start of a host that is gone, whose place it gets.
    pub fn has_place_of_its_own(&self, id: &HostId) -> bool {
        self.may_give_way().any(|(h, _)| h.name() == id.name())
    }

    /// It has inlets, which wait for its return.
    fn is_of_use(&self, id: &HostId) -> bool {
        self.publishers.values().any(|p| p.host == *id)
    }

    /// Who gives way to `new`: an earlier start of the same host, whose inlets the new one takes
    /// over or nobody does, or whoever is gone for longest and of no more use.
    pub(super) fn gives_way(&self, new: &HostId) -> Option<HostId> {
        let earlier = |h: &HostId| h.name() == new.name();
        let all = self.may_give_way().filter(|(h, _)| earlier(h) || !self.is_of_use(h));
        all.min_by_key(|(h, state)| (!earlier(h), state.changed)).map(|(h, _)| h.clone())
    }

    /// A publisher is in a list. Gives why it has no inlet.
    #[allow(clippy::too_many_arguments, reason = "all of one answer")]
    pub(super) fn take(
        &mut self,
        host: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        list: &List,
        offer: &Offer,
        now: MonotonicNs,
        inlets: &mut impl Inlets<Inlet = I>,
    ) -> Result<(), String> {
        if let Some(known) = self.publishers.get_mut(&id) {
            if known.topic != list.topic || !same_terms(&known.offer, offer) {
                return Err("it is known here with another topic, type, QoS or length".into());
            }
            if known.host != *host {
                if self.hosts.get(&known.host).is_some_and(|h| h.alive) {
                    return Err(format!("host '{}' has the same one", known.host));
                }
                if known.host.name() != host.name() {
                    return Err(format!(
                        "it was one of host '{}', and what that has published is kept for {HOST_MAY_RETURN:?}",
                        known.host
                    ));
                }
                // Its host has a new gateway.
                known.host = host.clone();
                inlets.goes_on(&known.inlet, host, clock);
            }
            known.gone = None;
            return Ok(());
        }
        offer.check()?;
        self.make_room(&list.topic, now, inlets)?;
        let inlet = inlets.open(host, clock, id, &list.topic, offer)?;
        let (host, topic, offer) = (host.clone(), list.topic.clone(), offer.clone());
        self.publishers.insert(
            id,
            Publisher { host, topic, inlet, offer, gone: None, told: Some(Fate::There) },
        );
        Ok(())
    }

    /// What is left of publishers that are gone gives way, first what promises least; nothing of
    /// one that is there does.
    fn make_room(
        &mut self,
        topic: &TopicName,
        now: MonotonicNs,
        inlets: &mut impl Inlets<Inlet = I>,
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
                "there are too many: {MAX_PUBLISHERS_OF_TOPIC} of a topic and {MAX_PUBLISHERS} in all can be received; \
                 have fewer publishers of other hosts, or receive fewer topics here"
            ));
        };
        if let Some(mut p) = self.publishers.remove(&id) {
            p.ends(Uncounted::GaveWay, inlets);
            let (host, gone) = (p.host.name(), now.since(since).as_secs());
            inlets
                .tell(format!("topic '{}': what a publisher of host '{host}', gone for {gone} s, has left gave way to a new one", p.topic));
            inlets.close(id, p.inlet);
        }
        Ok(())
    }

    /// Lets go of publishers and hosts that are gone for good. Gives when to look again.
    pub fn forget(
        &mut self,
        now: MonotonicNs,
        inlets: &mut impl Inlets<Inlet = I>,
    ) -> Option<MonotonicNs> {
        let mut next: Option<MonotonicNs> = None;
        for p in self.publishers.values_mut() {
            if !p.tell(p.fate(), inlets) {
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
                p.ends(Uncounted::HostGone, inlets);
                inlets.close(id, p.inlet);
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
        // One that was there is told of for as long as no other start of it is, and as long as
        // there is room.
        let kept = |id: &HostId, h: &Host| h.alive || (h.met && !there.contains(id.name()));
        self.hosts.retain(|id, h| {
            kept(id, h)
                || publishers.values().any(|p| p.host == *id)
                || !over(h.changed + HOST_MAY_RETURN)
        });
        next
    }
}

/// Whether an inlet that was made with one serves the other: nodes may have another name after a
/// restart.
fn same_terms(a: &Offer, b: &Offer) -> bool {
    a.schema == b.schema && a.qos == b.qos && a.max_payload == b.max_payload
}
