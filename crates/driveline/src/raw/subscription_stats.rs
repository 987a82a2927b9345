// SPDX-License-Identifier: Apache-2.0
//! Counters of a subscription.

use driveline_types::Uncounted;

/// Counters of a subscription since its creation, at every reach.
///
/// Published after the match = received + missed + superseded + expired + corrupt + refused + lost
/// on the way + not read + inactive + standby, whenever it is asked for; no sample is in two of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionStats {
    /// Samples read.
    pub received: u64,
    /// Samples that newer ones replaced before they were read.
    pub missed: u64,
    /// The same on an input of a callback that does not trigger, of which only the newest sample is
    /// wanted.
    pub superseded: u64,
    /// Samples older than the lifespan when a read came to them.
    pub expired: u64,
    /// Samples whose header, checksum or index made no sense.
    pub corrupt: u64,
    /// Samples that broke what their publisher had promised at the match: without its checksum, or
    /// longer than its `max_payload`. At process reach there are none.
    pub refused: u64,
    /// Samples of other hosts that did not reach this one, as the gateway here reports: between two
    /// that did, and after the last one once it is known how many there were.
    pub lost_on_the_way: u64,
    /// Samples that are unread now, expired ones included until a read comes to them.
    pub not_read: u64,
    /// Samples of publishers that were not the owner of the topic (`strength`).
    pub standby: u64,
    /// Samples that came, or were unread, while the component was inactive
    /// ([`Lifecycle`](crate::Lifecycle)).
    pub inactive: u64,
    /// Part of `missed` or `superseded`: replaced because the history was full, not passed over by
    /// a read of the newest.
    pub overwritten: u64,
    /// Publishers of other hosts of which it is not known how many samples they published after the
    /// newest one that came: the sum above is that of what is known. It falls when they are reached
    /// again.
    pub uncounted: u64,
    /// Reason of one of them.
    pub uncounted_reason: Option<Uncounted>,
    /// Periods of the requested deadline in which a matched publisher published nothing. Not a
    /// number of samples.
    pub deadlines_missed: u64,
}

impl SubscriptionStats {
    /// Number of samples that came or were passed over, whatever became of them.
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
