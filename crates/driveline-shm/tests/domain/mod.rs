// SPDX-License-Identifier: Apache-2.0
//! A separate domain for each test, with endpoints of one topic.

use driveline_shm::*;
use driveline_types::Schema;

pub(crate) struct Domain(pub(crate) tempfile::TempDir);

impl Domain {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    pub(crate) fn join(&self, name: &str) -> Participant {
        Participant::open(ParticipantConfig {
            domain_dir: Some(self.0.path().into()),
            name: name.into(),
        })
        .unwrap()
    }
}

pub(crate) fn schema() -> Schema {
    Schema::bytes("test/Text", "utf-8", "")
}

pub(crate) fn publisher(p: &Participant, f: impl FnOnce(&mut PublisherConfig)) -> Publisher {
    let mut c =
        PublisherConfig::new("t".parse().unwrap(), "talker".parse().unwrap(), schema(), 256);
    f(&mut c);
    p.create_publisher(c).unwrap()
}

pub(crate) fn subscription(
    p: &Participant,
    f: impl FnOnce(&mut SubscriptionConfig),
) -> Subscription {
    let mut c =
        SubscriptionConfig::new("t".parse().unwrap(), "listener".parse().unwrap(), schema());
    f(&mut c);
    p.create_subscription(c).unwrap()
}
