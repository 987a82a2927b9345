// SPDX-License-Identifier: Apache-2.0
//! Converts a sample's header on the receiving host, and counts lost samples:
//! `docs/protocols/network.md`, section 4.

use crate::clock::Offset;
use crate::directory::Fate;
use crate::wire::SampleHead;
use driveline_shm::{AfarCount, AfarState};
use driveline_types::{EndpointId, MonotonicNs, Remote, SampleHeader, wall_offset_ns};

/// Arrived samples of one publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Number of the newest sample, as counted by its publisher; 0 before the first.
    newest: u64,
    /// Number of samples written before the first one that this host should have received.
    before: u64,
    /// Number of missing samples from the first that this host should have received to the newest:
    /// they have not arrived, or could not be published here.
    lost: u64,
    duplicates: u64,
}

impl Arrivals {
    /// Counts a sample. `owed`: number of earlier samples of its publisher that this host should
    /// have received; if this sample is the first that arrives, they all count as lost. Returns
    /// `false` if this sample or a newer one has arrived before.
    pub fn is_new(&mut self, written: u64, owed: u32) -> bool {
        if written <= self.newest {
            self.duplicates += 1;
            return false;
        }
        if self.newest == 0 {
            self.lost = u64::from(owed).min(written - 1);
            self.before = written - 1 - self.lost;
        } else {
            self.lost = self.lost.saturating_add(written - self.newest - 1);
        }
        self.newest = written;
        true
    }

    /// Returns the number of samples up to the newest that are missing here. Readers that received
    /// samples from an earlier gateway use this number to count their losses since then.
    #[must_use]
    pub fn not_here(&self) -> u64 {
        self.before.saturating_add(self.lost)
    }

    /// Returns the report for local readers on a publisher and its missing samples. Call it before
    /// publishing an arrived sample.
    #[must_use]
    pub fn count(&self, publisher: EndpointId, fate: Fate) -> AfarCount {
        // The same half of the id as in the header of each sample.
        let publisher = publisher.0 as u64;
        let before = (self.newest != 0).then_some(self.before);
        let missing = self.not_here();
        let count = |before, missing, state| AfarCount { publisher, before, missing, state };
        match (fate, before) {
            (Fate::There, _) => count(before, missing, AfarState::There),
            (Fate::Unknown(why), _) => count(before, missing, AfarState::Unknown(why)),
            (Fate::Ended { last, .. }, Some(_)) => count(
                before,
                missing.saturating_add(last.saturating_sub(self.newest)),
                AfarState::Ended,
            ),
            // No sample of it arrived.
            (Fate::Ended { last, first: Some(first) }, None) => {
                count(Some(first.saturating_sub(1).min(last)), last, AfarState::Ended)
            }
            (Fate::Ended { last: 0, first: None }, None) => count(Some(0), 0, AfarState::Ended),
            (Fate::Ended { last, first: None }, None) => count(None, last, AfarState::Ended),
        }
    }

    /// Number of lost samples so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Counts a sample that arrived and could not be published here.
    pub fn dropped(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// Number of arrivals of samples that had arrived before, or that came after a later sample.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

/// Returns the least time since the publication of a sample, in nanoseconds: the time by the
/// estimated offset of the clocks, less the error of this offset; 0 if the sample may be from the
/// future.
#[must_use]
pub fn least_age_ns(head: &SampleHead, offset: Offset, now: MonotonicNs) -> u64 {
    let age = now.signed_since(offset.to_local(head.header.publish_time));
    u64::try_from(age).unwrap_or(0).saturating_sub(offset.error_ns)
}

/// Returns the header under which a sample is published on this host at `now`. The parts of each
/// origin's age (communication, computation and idle) still add up to this age.
#[must_use]
pub fn localized(
    head: &SampleHead,
    host: u64,
    offset: Offset,
    lost: u64,
    now: MonotonicNs,
) -> SampleHeader {
    let transit_ns = now.signed_since(offset.to_local(head.header.publish_time));
    // Half of a random id is enough to distinguish publishers.
    let publisher = head.publisher as u64;
    let mut header = SampleHeader {
        publish_time: now,
        wall_offset_ns: wall_offset_ns(),
        clock_error_ns: head.header.clock_error_ns.saturating_add(offset.error_ns),
        remote: Some(Remote {
            host,
            lost,
            publisher,
            transit_ns,
            offset_error_ns: offset.error_ns,
        }),
        ..head.header
    };
    for origin in header.origins.as_mut_slice() {
        origin.source_oldest = offset.to_local(origin.source_oldest);
        origin.source_newest = offset.to_local(origin.source_newest);
        origin.communication_ns = origin.communication_ns.wrapping_add(transit_ns);
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::{Lineage, TopicId, Uncounted};
    use proptest::prelude::*;

    #[test]
    fn gaps_are_losses_and_repetitions_are_not_new() {
        let mut a = Arrivals::default();
        let new: Vec<_> = [7, 8, 8, 11, 9, 12].iter().map(|n| a.is_new(*n, 0)).collect();
        assert_eq!(new, [true, true, false, true, false, true]);
        assert_eq!((a.lost(), a.not_here(), a.duplicates()), (2, 8, 2));
        a.dropped();
        assert_eq!((a.lost(), a.not_here()), (3, 9));
        let mut a = Arrivals::default();
        assert!(a.is_new(7, 2));
        assert_eq!(
            (a.lost(), a.not_here(), a.count(EndpointId(1), Fate::There).before),
            (2, 6, Some(4)),
            "5 and 6 were to come"
        );
        assert!(Arrivals::default().is_new(3, u32::MAX), "only 2 earlier samples can be owed");
    }

    #[test]
    fn the_last_number_shows_the_losses_after_the_newest_sample() {
        let count = |a: &Arrivals, fate| {
            let AfarCount { publisher, before, missing, state } =
                a.count(EndpointId(1 << 64 | 6), fate);
            assert_eq!(publisher, 6);
            (before, missing, state)
        };
        let mut a = Arrivals::default();
        assert_eq!(count(&a, Fate::There), (None, 0, AfarState::There));
        assert_eq!(
            count(&a, Fate::Ended { last: 9, first: Some(4) }),
            (Some(3), 9, AfarState::Ended),
            "six are lost"
        );
        assert_eq!(
            count(&a, Fate::Ended { last: 9, first: Some(10) }),
            (Some(9), 9, AfarState::Ended),
            "none was to come"
        );
        assert_eq!(
            count(&a, Fate::Ended { last: 0, first: None }),
            (Some(0), 0, AfarState::Ended),
            "it has published nothing"
        );
        assert_eq!(
            count(&a, Fate::Ended { last: 9, first: None }),
            (None, 9, AfarState::Ended),
            "readers may know the number to expect"
        );
        [7, 8, 11].into_iter().for_each(|n| assert!(a.is_new(n, 0)));
        assert_eq!(count(&a, Fate::There), (Some(6), 8, AfarState::There));
        assert_eq!(
            count(&a, Fate::Unknown(Uncounted::OutOfReach)),
            (Some(6), 8, AfarState::Unknown(Uncounted::OutOfReach))
        );
        assert_eq!(
            count(&a, Fate::Ended { last: 13, first: None }),
            (Some(6), 10, AfarState::Ended)
        );
        assert_eq!(
            count(&a, Fate::Ended { last: 11, first: None }),
            (Some(6), 8, AfarState::Ended)
        );
        assert_eq!(
            count(&a, Fate::Ended { last: 3, first: None }),
            (Some(6), 8, AfarState::Ended),
            "a last number below the newest sample is impossible, and ignored"
        );
        a.dropped();
        assert_eq!(
            count(&a, Fate::Ended { last: 13, first: None }),
            (Some(6), 11, AfarState::Ended)
        );
    }

    fn head(source: u64, publish: u64) -> SampleHead {
        let mut header = SampleHeader {
            publish_time: MonotonicNs(publish),
            sequence: 4,
            ..SampleHeader::default()
        };
        Lineage::start(MonotonicNs(source)).stamp(
            &mut header,
            TopicId(1),
            Some(MonotonicNs(source)),
            9,
        );
        SampleHead { header, publisher: 1 << 64 | 6, ..SampleHead::default() }
    }

    #[test]
    fn a_negative_transit_time_is_reported_and_not_clamped() {
        let offset = Offset { ns: 1_000, error_ns: 40 };
        let h = localized(&head(2_000, 2_050), 3, offset, 5, MonotonicNs(1_040));
        assert_eq!(
            h.remote,
            Some(Remote { host: 3, lost: 5, publisher: 6, transit_ns: -10, offset_error_ns: 40 })
        );
        assert_eq!((h.publish_time.0, h.sequence, h.trace_id, h.clock_error_ns), (1_040, 4, 9, 40));
        let o = h.origins.as_slice()[0];
        assert_eq!((o.source_oldest.0, o.communication_ns, o.computation_ns), (1_000, -10, 50));
        assert_eq!(least_age_ns(&head(2_000, 2_050), offset, MonotonicNs(1_040)), 0);
        assert_eq!(least_age_ns(&head(2_000, 2_050), offset, MonotonicNs(1_100)), 10);
    }

    proptest! {
        #[test]
        fn the_split_of_an_age_adds_up_on_the_other_host_too(
            source in 0u64..1 << 40,
            compute in 0u64..1 << 30,
            offset in -(1i64 << 50)..1 << 50,
            way in -1000i64..1 << 30,
        ) {
            let publish = source + compute;
            let clock = Offset { ns: offset, error_ns: 0 };
            let now = MonotonicNs(clock.to_local(MonotonicNs(publish)).0.wrapping_add(way as u64));
            let h = localized(&head(source, publish), 1, clock, 0, now);
            let o = h.origins.as_slice()[0];
            let parts = o.communication_ns.wrapping_add(o.computation_ns).wrapping_add(o.idle_ns);
            prop_assert_eq!(parts, now.signed_since(o.source_oldest));
            prop_assert_eq!(h.remote.unwrap().transit_ns, way);
        }
    }
}
