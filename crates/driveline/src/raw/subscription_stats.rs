// SPDX-License-Identifier: Apache-2.0
//! Counters of a subscription.

use driveline_types::Uncounted;

/// Counters of a subscription since its creation, at every reach.
///
/// At any time, published after the match = received + missed + superseded + expired + corrupt +
/// refused + lost on the way + not read + inactive + standby. Each sample is in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionStats {
    /// Samples read.
    pub received: u64,
    /// Samples that newer ones replaced before they were read.
    pub missed: u64,
    /// Replaced samples of an input that does not trigger its callback: only the newest is wanted.
    pub superseded: u64,
    /// Samples older than the lifespan when a read came to them.
    pub expired: u64,
    /// Samples whose header, checksum or index made no sense.
    pub corrupt: u64,
    /// Samples that broke what their publisher had promised at the match: without its checksum, or
    /// longer than its `max_payload`. At process reach there are none.
    pub refused: u64,
    /// Samples of other hosts, or of ROS 2, that did not arrive here or that the gateway here
    /// dropped, as it reports: gaps between samples that arrived, and samples after the last one
    /// once their number is known.
    pub lost_on_the_way: u64,
    /// Samples that are unread now, expired ones included until a read comes to them.
    pub not_read: u64,
    /// Samples of publishers that were not the owner of the topic (`strength`).
    pub standby: u64,
    /// Samples that arrived, or were unread, while the component was inactive
    /// ([`Lifecycle`](crate::Lifecycle)).
    pub inactive: u64,
    /// Part of `missed` or `superseded`: replaced because the history was full, not passed over by
    /// a read of the newest.
    pub overwritten: u64,
    /// Number of publishers of other hosts, or of ROS 2, that may have published more samples after
    /// the newest one that arrived. Those samples are not in the sum above. Decreases when
    /// publishers are reached again.
    pub uncounted: u64,
    /// Reason for one of these publishers.
    pub uncounted_reason: Option<Uncounted>,
    /// Periods of the requested deadline in which no matched publisher published. Not a number of
    /// samples.
    pub deadlines_missed: u64,
}

impl SubscriptionStats {
    /// Number of samples that arrived or were passed over, whatever happened to them, except those
    /// in `standby`.
    pub(crate) fn came(&self) -> u64 {
        let parts = [
            self.received,
            self.missed,
            self.superseded,
            self.expired,
            self.corrupt,
            self.refused,
            self.not_read,
            self.inactive,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}
