// SPDX-License-Identifier: Apache-2.0
//! State that all parts of the gateway share.

use super::backlog::BacklogThreads;
use super::dds::{DdsFeed, kept, writer};
use super::endpoint::{Profile, Writing};
use super::feed::Feed;
use super::ros_writer::{Offer, OpenError, RosWriter, WriterList};
use super::waiting::Waiting;
use super::zenoh::{self, Session, ZenohFeed};
use crate::clock::StampClock;
use crate::dds;
use crate::types::Types;
use driveline_gateway::ros2::{Ros2Spec, Rule};
use driveline_gateway::{Notices, Refusal};
use driveline_shm::Participant;
use driveline_types::{EndpointId, NodeName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Participants, session and settings of a gateway.
pub(super) struct GatewayState {
    pub(super) participant: Participant,
    pub(super) spec: Ros2Spec,
    /// Maximum length of a sample over all topics, in bytes: over DDS, any sample may have it.
    pub(super) longest: u64,
    pub(super) types: Types,
    pub(super) node: NodeName,
    /// Clock of stamps.
    pub(super) clock: StampClock,
    /// Random number of this gateway.
    pub(super) mark: u64,
    pub(super) writings: Arc<Mutex<Vec<Writing>>>,
    /// Local publishers that are not sent to ROS 2, with the reasons.
    pub(super) refusals: Mutex<HashMap<EndpointId, Refusal>>,
    pub(super) notices: Notices,
    pub(super) failed: OnceLock<String>,
    pub(super) waiting: Arc<Waiting>,
    /// Dropped before the writers that they use.
    pub(super) backlogs: BacklogThreads,
    /// Dropped after all of its parts.
    pub(super) zenoh: Option<Arc<Session>>,
    /// Dropped after all of its parts.
    pub(super) dds: Option<Arc<dds::Participant>>,
}

impl GatewayState {
    /// Writes a line to the log.
    pub(super) fn log(&self, line: String) {
        self.notices.log(line);
    }

    /// Notes the reason why the gateway cannot continue. Its owner ends it.
    pub(super) fn fail(&self, why: String) {
        // The first reason is the cause of later ones.
        let _ = self.failed.set(why);
    }

    /// Wakes the control thread.
    pub(super) fn wake(&self) {
        self.waiting.wake();
    }

    /// Returns true if the gateway has this profile.
    pub(super) fn has(&self, profile: Profile) -> bool {
        match profile {
            Profile::Dds => self.dds.is_some(),
            Profile::Zenoh => self.zenoh.is_some(),
        }
    }

    /// Profiles of the gateway.
    pub(super) fn profiles(&self) -> impl Iterator<Item = Profile> {
        [Profile::Dds, Profile::Zenoh].into_iter().filter(|profile| self.has(*profile))
    }

    /// Returns the DDS participant, or an error if the gateway does not have this profile.
    pub(super) fn dds(&self) -> Result<&Arc<dds::Participant>, String> {
        self.dds.as_ref().ok_or_else(|| "it takes no part in DDS".to_owned())
    }

    /// Returns a feed of the samples of a topic.
    pub(super) fn feed(&self, profile: Profile, rule: &Rule) -> Result<Box<dyn Feed>, String> {
        Ok(match profile {
            Profile::Dds => {
                let kept = kept(rule.max_payload_bytes(), self.longest);
                let same_clock = self.spec.interface.is_none();
                Box::new(DdsFeed::new(self.dds()?, self.spec.release, kept, same_clock)?)
            }
            Profile::Zenoh => Box::new(ZenohFeed::new(self.zenoh()?, rule)),
        })
    }

    /// List of the gateway's writers.
    pub(super) fn writer_list(&self) -> WriterList<'_> {
        WriterList { writings: &self.writings, control_thread: &self.waiting }
    }

    /// Opens a writer.
    pub(super) fn writer(
        &self,
        profile: Profile,
        offer: Offer<'_>,
    ) -> Result<Box<dyn RosWriter>, OpenError> {
        let list = self.writer_list();
        if !list.has_room() {
            return Err(OpenError::NoRoom);
        }
        let release = self.spec.release;
        Ok(match profile {
            Profile::Dds => writer::open(self.dds()?, release, offer, list)?,
            Profile::Zenoh => {
                zenoh::writer::open(self.zenoh()?, &self.backlogs, release, offer, list)?
            }
        })
    }

    /// Returns the Zenoh session, or an error if the gateway does not have this profile.
    pub(super) fn zenoh(&self) -> Result<&Arc<Session>, String> {
        self.zenoh.as_ref().ok_or_else(|| "it takes no part in Zenoh".to_owned())
    }
}
