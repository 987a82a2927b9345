// SPDX-License-Identifier: Apache-2.0
//! Publisher, subscription, loan and sample without their type: the base of the typed API and the C
//! ABI.
//!
//! The transport of an edge follows from reach and payload kind:
//! - reach `process`: always the pointer;
//! - reach `host` or `network`, plain and bytes: shared memory for all readers, this process
//!   included (the payload is written once);
//! - reach `host` or `network`, protobuf: the pointer inside the process, bytes in shared memory if
//!   there is a reader outside.

mod events;
mod matches;
mod ownership;
mod publisher;
mod sample;
mod subscription;
mod subscription_stats;
mod tally;
mod watch;

pub use events::PublisherEvents;
pub(crate) use matches::{Matches, Writer};
pub use publisher::{
    DisplacedValues, Parcel, PublishedCounter, PublisherStats, RawLoan, RawPublisher,
};
pub(crate) use publisher::{MatchedReader, Progress};
pub use sample::RawSample;
pub(crate) use subscription::Order;
pub use subscription::RawSubscription;
pub use subscription_stats::SubscriptionStats;
pub(crate) use tally::Counts;
pub use tally::DeadlineCounter;
pub(crate) use watch::{Promise, reliable_timeout};

use driveline_shm::Kicker;

/// Waiter that a queue wakes.
#[derive(Clone)]
pub(crate) struct Waker(pub(crate) Kicker);

impl Waker {
    pub(crate) fn wake(&self) {
        self.0.kick();
    }
}
