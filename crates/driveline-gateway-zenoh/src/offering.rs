// SPDX-License-Identifier: Apache-2.0
//! Publishers of one topic that a host offers to others, and for each ended one the number of its
//! last sample, its *last number*: `docs/protocols/network.md`, sections 3, 4 and 8. No thread, no
//! network, no clock: events and the time are arguments.

use crate::wire::{
    Ended, HostId, List, ListError, MAX_ENDED_LISTED, MAX_LIST_LEN, MAX_LISTED, Offer,
};
use driveline_types::{EndpointId, MonotonicNs, TopicName};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time for which a departed publisher stays in the list, so that routes can read its last samples.
/// After that, it stays while some of its samples are unread or in flight, at most for
/// [`LINGERS_LONGEST`] in all.
const LINGERS: Duration = Duration::from_millis(300);
const LINGERS_LONGEST: Duration = Duration::from_secs(10);
/// Time for which the last number of a publisher is announced. A host that has lost the connection
/// to this host waits a minute for its return.
const ANNOUNCED: Duration = Duration::from_secs(120);

/// See the module.
pub struct Offering {
    topic: TopicName,
    publishers: BTreeMap<EndpointId, Offered>,
    /// Publishers that are not announced because the list is full, with the reason.
    left_out: BTreeMap<EndpointId, String>,
    /// Ended publishers, newest last: time at which each left the list, id, and last number.
    ended: VecDeque<(MonotonicNs, EndpointId, Option<u64>)>,
}

/// A local publisher.
struct Offered {
    offer: Offer,
    gone_since: Option<MonotonicNs>,
    /// Number of its last sample, after its end. `None` before, or if the event of its end was
    /// lost.
    last: Option<u64>,
}

/// Result of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// The list has changed.
    pub changed: bool,
    /// Reasons for newly skipped publishers.
    pub left_out: Vec<String>,
}

impl Offering {
    /// Makes the empty offering of a topic.
    #[must_use]
    pub fn new(topic: TopicName) -> Self {
        Self {
            topic,
            publishers: BTreeMap::new(),
            left_out: BTreeMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Returns true if departed publishers are on offer.
    #[must_use]
    pub fn lingers(&self) -> bool {
        self.publishers.values().any(|p| p.gone_since.is_some())
    }

    /// Notes the end of a local publisher. `last`: number of its last sample.
    pub fn ended(&mut self, id: EndpointId, last: u64) {
        if let Some(offered) = self.publishers.get_mut(&id) {
            offered.last = Some(last);
        }
    }

    /// Publishers on offer.
    pub fn publishers(&self) -> impl Iterator<Item = (&EndpointId, &Offer)> {
        self.publishers.iter().map(|(id, o)| (id, &o.offer))
    }

    /// Publishers that do not fit into the list, with the reason.
    #[must_use]
    pub fn left_out(&self) -> &BTreeMap<EndpointId, String> {
        &self.left_out
    }

    /// Returns true if a publisher is on offer, or its end is announced.
    #[must_use]
    pub fn knows(&self, id: EndpointId) -> bool {
        self.publishers.contains_key(&id) || self.ended.iter().any(|(_, ended, _)| *ended == id)
    }

    /// Updates the list to the present publishers. Departed ones stay for a time. `owed`: true for
    /// a publisher with samples that routes have not read, or that are in flight.
    pub fn compare(
        &mut self,
        there: Vec<(EndpointId, Offer)>,
        now: MonotonicNs,
        owed: impl Fn(EndpointId) -> bool,
    ) -> Compared {
        let is_there = |id: &EndpointId| there.iter().any(|(t, _)| t == id);
        let mut compared = Compared::default();
        let ended = &mut self.ended;
        ended.retain(|(since, id, _)| now < *since + ANNOUNCED && !is_there(id));
        self.publishers.retain(|id, offered| {
            if is_there(id) {
                (offered.gone_since, offered.last) = (None, None);
                return true;
            }
            let since = *offered.gone_since.get_or_insert(now);
            let stays = now < since + LINGERS || (now < since + LINGERS_LONGEST && owed(*id));
            if !stays {
                ended.push_back((now, *id, offered.last));
                compared.changed = true;
            }
            stays
        });
        ended.drain(..ended.len().saturating_sub(MAX_ENDED_LISTED));
        self.left_out.retain(|id, _| is_there(id));
        // Publishers in the list stay; skipped ones take free places.
        for (publisher, offer) in there {
            if self.publishers.contains_key(&publisher) {
                continue;
            }
            if let Err(why) = self.admit(publisher, offer) {
                if self.left_out.insert(publisher, why.clone()).is_none() {
                    compared.left_out.push(why);
                }
                continue;
            }
            self.left_out.remove(&publisher);
            compared.changed = true;
        }
        compared
    }

    /// Adds a publisher to the list, or returns the reason why it does not fit.
    fn admit(&mut self, id: EndpointId, offer: Offer) -> Result<(), String> {
        let node = offer.node.clone();
        if self.publishers.len() >= MAX_LISTED {
            return Err(format!(
                "'{node}' is one too many: the list of a topic for other hosts has at most \
                 {MAX_LISTED} publishers; use fewer publishers, or more topics"
            ));
        }
        self.publishers.insert(id, Offered { offer, gone_since: None, last: None });
        let Err(e) = self.list(u64::MAX).encode() else { return Ok(()) };
        self.publishers.remove(&id);
        Err(match e {
            ListError::TooLong { .. } => {
                format!(
                    "no space for '{node}': the list of a topic's types for other hosts has at \
                     most {MAX_LIST_LEN} bytes; use one type"
                )
            }
            e => format!("'{node}': {e}"),
        })
    }

    fn list(&self, change: u64) -> List {
        let publishers = self.publishers.iter().map(|(id, o)| (*id, o.offer.clone())).collect();
        List { topic: self.topic.clone(), change, publishers, ended: Vec::new() }
    }

    /// Encodes the list for other hosts. `first`: first sample of a publisher for each host. If
    /// last numbers do not fit, the oldest are left out.
    ///
    /// # Errors
    /// [`ListError`] if it is too long.
    pub fn encoded(
        &self,
        change: u64,
        first: impl Fn(EndpointId) -> BTreeMap<HostId, u64>,
    ) -> Result<Vec<u8>, ListError> {
        let mut list = self.list(change);
        list.ended = self
            .ended
            .iter()
            .map(|(_, id, last)| Ended { id: *id, last: *last, first: first(*id) })
            .collect();
        loop {
            match list.encode() {
                Err(ListError::TooLong { .. }) if !list.ended.is_empty() => {
                    drop(list.ended.drain(..list.ended.len().div_ceil(2)))
                }
                encoded => return encoded,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::{Qos, Schema};
    use std::sync::Arc;

    fn offer(definition: String) -> Offer {
        Offer {
            node: "n".parse().unwrap(),
            schema: Arc::new(Schema::bytes("b", "raw", definition)),
            qos: Qos::default(),
            max_payload: 8,
        }
    }

    fn there(ids: &[u128]) -> Vec<(EndpointId, Offer)> {
        ids.iter().map(|id| (EndpointId(*id), offer(String::new()))).collect()
    }

    fn at(ms: u64) -> MonotonicNs {
        MonotonicNs(1_000_000_000 + ms * 1_000_000)
    }

    fn listed(offering: &Offering) -> (Vec<u128>, Vec<(u128, Option<u64>)>) {
        let list = List::decode(&offering.encoded(1, |_| BTreeMap::new()).unwrap()).unwrap();
        (
            list.publishers.iter().map(|(id, _)| id.0).collect(),
            list.ended.iter().map(|e| (e.id.0, e.last)).collect(),
        )
    }

    #[test]
    fn a_publisher_that_ends_is_announced_with_its_last_number_once_its_samples_are_through() {
        let mut offering = Offering::new("t".parse().unwrap());
        assert!(offering.compare(there(&[1, 2]), at(0), |_| false).changed);
        offering.ended(EndpointId(1), 7);
        assert!(!offering.compare(there(&[2]), at(1), |_| true).changed);
        assert!(
            !offering.compare(there(&[2]), at(5_000), |_| true).changed,
            "some are on their way"
        );
        assert_eq!(listed(&offering), (vec![1, 2], vec![]));
        assert!(offering.compare(there(&[2]), at(5_001), |_| false).changed);
        assert_eq!(listed(&offering), (vec![2], vec![(1, Some(7))]));
        assert!(offering.compare(there(&[]), at(5_002), |_| false) == Compared::default());
        assert!(offering.compare(there(&[]), at(6_000), |_| false).changed);
        assert_eq!(
            listed(&offering),
            (vec![], vec![(1, Some(7)), (2, None)]),
            "the end of publisher 2 was not reported, so its last number is unknown"
        );
        assert!(offering.compare(there(&[1]), at(7_000), |_| false).changed);
        assert_eq!(listed(&offering), (vec![1], vec![(2, None)]), "publisher 1 is back");
        offering.compare(there(&[1]), at(6_000 + 120_000), |_| false);
        assert_eq!(listed(&offering), (vec![1], vec![]));
    }

    #[test]
    fn last_numbers_are_bounded_and_keep_no_publisher_out() {
        let mut offering = Offering::new("t".parse().unwrap());
        for id in 0..u128::from(2 * MAX_ENDED_LISTED as u64) {
            offering.compare(there(&[id]), at(0), |_| false);
            offering.ended(EndpointId(id), 5);
            offering.compare(there(&[]), at(0), |_| false);
            offering.compare(there(&[]), at(1_000), |_| false);
        }
        assert_eq!(listed(&offering).1.len(), MAX_ENDED_LISTED);
        // Each ended publisher names as many hosts as possible, in a list that is almost full
        // without them.
        let large = |n: u128| offer(format!("{n:030000}"));
        let all: Vec<_> = (1_000..1_008).map(|n| (EndpointId(n), large(n))).collect();
        assert_eq!(offering.compare(all, at(1_001), |_| false).left_out, Vec::<String>::new());
        let hosts: BTreeMap<_, _> =
            (0..64).map(|n| (HostId::new(&"h".repeat(60), n).unwrap(), 1)).collect();
        let list = List::decode(&offering.encoded(1, |_| hosts.clone()).unwrap()).unwrap();
        assert_eq!(list.publishers.len(), 8);
        assert!(!list.ended.is_empty() && list.ended.len() < MAX_ENDED_LISTED);
        assert_eq!(
            list.ended.last().map(|e| e.id.0),
            Some(2 * MAX_ENDED_LISTED as u128 - 1),
            "the newest stay"
        );
    }
}
