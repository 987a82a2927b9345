// SPDX-License-Identifier: Apache-2.0
//! State that all parts of the gateway share.

use super::endpoint::{Endpoint, Profile, Writing};
use super::ros_writer::{Offer, OpenError, RosWriter, WriterList};
use super::transport::Transport;
use super::transports::Transports;
use super::waiting::Waiting;
use crate::clock::StampClock;
use crate::types::Types;
use driveline_gateway::ros2::Ros2Spec;
use driveline_gateway::{Notices, Refusal};
use driveline_shm::Participant;
use driveline_types::{EndpointId, NodeName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Participant, transports and settings of a gateway.
pub(super) struct GatewayState {
    pub(super) participant: Participant,
    pub(super) spec: Ros2Spec,
    /// Maximum payload over all topics and services, in bytes.
    pub(super) longest: u64,
    pub(super) types: Types,
    pub(super) node: NodeName,
    /// Clock of stamps.
    pub(super) clock: StampClock,
    /// Random number that identifies this gateway in headers of samples and in reports.
    pub(super) mark: u64,
    pub(super) writings: Arc<Mutex<Vec<Writing>>>,
    /// Local publishers that are not sent to ROS 2, with the reasons.
    pub(super) refusals: Mutex<HashMap<EndpointId, Refusal>>,
    pub(super) notices: Notices,
    pub(super) failed: OnceLock<String>,
    pub(super) waiting: Arc<Waiting>,
    /// The last field: dropped after everything that uses them.
    pub(super) transports: Transports,
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
        self.transport(profile).is_ok()
    }

    /// Profiles of the gateway.
    pub(super) fn profiles(&self) -> impl Iterator<Item = Profile> {
        self.transports.iter().map(|transport| transport.profile())
    }

    /// Returns the transport of a profile, or an error if the gateway does not have it.
    pub(super) fn transport(&self, profile: Profile) -> Result<&dyn Transport, String> {
        self.transports.get(profile)
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
        Ok(self.transport(profile)?.writer(offer, list)?)
    }

    /// Reasons why a writer of the gateway and a reader of ROS 2 on the same topic and profile do
    /// not match; empty if they do.
    pub(super) fn against(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        self.transport(writing.profile).map(|t| t.against(writing, reader)).unwrap_or_default()
    }

    /// Remarks for a reader of ROS 2 that gets samples of a writer of the gateway; empty if there
    /// are none.
    pub(super) fn remarks(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        self.transport(writing.profile).map(|t| t.remarks(writing, reader)).unwrap_or_default()
    }
}
