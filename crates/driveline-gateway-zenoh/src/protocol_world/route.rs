// SPDX-License-Identifier: Apache-2.0
//! Topic to another gateway, sent as in `engine/route.rs`.

use super::Source;
use super::gateway::{DEPTH, LEN, PATIENCE};
use crate::window::{Overdue, Place, Window, bytes_in_flight};
use crate::wire::{HostId, SampleHead};
use driveline_types::{EndpointId, MonotonicNs, SampleHeader};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Standing {
    Received,
    Awaited(MonotonicNs),
}

/// A topic to another gateway.
pub(super) struct Route {
    pub(super) window: Window,
    /// For each publisher: its first sample for this route, and the next one.
    next: BTreeMap<EndpointId, (u64, u64)>,
    pub(super) held: VecDeque<SampleHead>,
    pub(super) standing: BTreeMap<EndpointId, Standing>,
    pub(super) parked_since: Option<MonotonicNs>,
    /// The last number of each publisher in flight.
    senders: BTreeMap<EndpointId, u64>,
}

impl Route {
    pub(super) fn new(reliable: bool, now: MonotonicNs) -> Self {
        Self {
            window: Window::new(reliable, bytes_in_flight(100), now.0),
            next: BTreeMap::new(),
            held: VecDeque::new(),
            standing: BTreeMap::new(),
            parked_since: None,
            senders: BTreeMap::new(),
        }
    }

    /// Matches the route with publishers that it does not know yet.
    pub(super) fn matches(
        &mut self,
        host: usize,
        topic: usize,
        to: &HostId,
        sources: &BTreeMap<EndpointId, Source>,
        firsts: &mut BTreeMap<(EndpointId, HostId), u64>,
    ) {
        let new = sources.iter().filter(|(_, s)| s.alive && s.host == host && s.topic == topic);
        for (id, source) in new {
            if !self.next.contains_key(id) {
                let first = source.written() + 1;
                self.next.insert(*id, (first, first));
                firsts.insert((*id, to.clone()), first);
            }
        }
    }

    pub(super) fn release_held(&mut self) {
        let oldest = self.window.oldest();
        self.held.retain(|head| oldest.is_some_and(|oldest| head.number >= oldest));
        self.senders.retain(|_, last| oldest.is_some_and(|oldest| *last >= oldest));
    }

    pub(super) fn waits_for(&mut self, publisher: EndpointId, now: MonotonicNs) -> bool {
        if let Some(Standing::Awaited(until)) = self.standing.get(&publisher) {
            return now < *until;
        }
        self.standing.insert(publisher, Standing::Awaited(now + PATIENCE));
        true
    }

    /// Returns true if samples of a publisher are still in flight or still to be taken.
    pub(super) fn owes(&self, id: EndpointId, sources: &BTreeMap<EndpointId, Source>) -> bool {
        let unread = self.next.get(&id).is_some_and(|(_, next)| *next <= sources[&id].written());
        self.parked_since.is_none() && (unread || self.senders.contains_key(&id))
    }

    /// Takes the next sample of a publisher that has one. Samples beyond its depth were replaced.
    pub(super) fn take(
        &mut self,
        sources: &BTreeMap<EndpointId, Source>,
    ) -> Option<(EndpointId, u64, u64)> {
        let (id, (first, next)) =
            self.next.iter_mut().find(|(id, (_, next))| *next <= sources[*id].written())?;
        let number = (*next).max((sources[id].written() + 1).saturating_sub(DEPTH));
        *next = number + 1;
        Some((*id, *first, number))
    }

    /// Step of the route's thread when it wakes. Returns the samples that it passes to Zenoh.
    pub(super) fn turn(
        &mut self,
        now: MonotonicNs,
        sources: &BTreeMap<EndpointId, Source>,
    ) -> Vec<SampleHead> {
        let mut put = Vec::new();
        while self.parked_since.is_none() {
            match self.window.overdue(now) {
                Overdue::Rewind { number } => {
                    let head = self.held.iter().find(|head| head.number == number);
                    let head = head.expect("a sample that may be sent again is held").clone();
                    let Place { place, .. } = self.window.send_again(now);
                    put.push(SampleHead { sent_again: true, place, ..head });
                    continue;
                }
                Overdue::GivenUp => self.release_held(),
                Overdue::Nothing => {}
            }
            if !self.window.has_room() {
                break;
            }
            let Some((id, first, written)) = self.take(sources) else { break };
            let reliable = self.window.is_reliable();
            let alone = reliable && self.standing.get(&id) != Some(&Standing::Received);
            let Place { number, place } = self.window.send(LEN, alone, now);
            self.window.handed_over(number, now);
            self.senders.insert(id, number);
            let header = SampleHeader {
                sequence: written,
                publish_time: sources[&id]
                    .clock
                    .local(sources[&id].published[written as usize - 1]),
                ..SampleHeader::default()
            };
            let owed = u32::try_from(written - first).unwrap();
            let head = SampleHead {
                place,
                number,
                publisher: id.0,
                written,
                owed,
                header,
                sent: now,
                ..SampleHead::default()
            };
            if reliable {
                self.held.push_back(head.clone());
            }
            put.push(head);
        }
        put
    }
}
