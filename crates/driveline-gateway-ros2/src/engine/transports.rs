// SPDX-License-Identifier: Apache-2.0
//! The transports of a gateway: DDS, rmw_zenoh, or both.

use super::dds::DdsTransport;
use super::endpoint::Profile;
use super::error::GatewayError;
use super::transport::{Discovery, Transport};
use super::waiting::{Signal, Waiting};
use super::zenoh::{ZenohDiscovery, ZenohTransport};
use driveline_gateway::ros2::Ros2Spec;
use std::sync::Arc;

/// Open transports, in the order of their profiles.
pub(super) struct Transports(pub(super) Vec<Box<dyn Transport>>);

impl Transports {
    /// Returns the transport of a profile, or an error if the gateway does not have it.
    pub(super) fn get(&self, profile: Profile) -> Result<&dyn Transport, String> {
        let found = self.iter().find(|transport| transport.profile() == profile);
        found.ok_or_else(|| format!("this gateway does not use {profile}"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn Transport> {
        self.0.iter().map(|transport| &**transport)
    }
}

impl Drop for Transports {
    /// Drops Zenoh before DDS: threads of Zenoh wake the control thread through DDS, on which it
    /// waits.
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// Transports of a gateway that starts.
pub(super) struct Opened {
    pub(super) transports: Transports,
    /// Discovery of each of them.
    pub(super) discoveries: Vec<(Profile, Box<dyn Discovery>)>,
    /// Wait of the control thread.
    pub(super) waiting: Arc<Waiting>,
}

/// Joins ROS 2 with the configured profiles. `longest`: maximum payload, in bytes.
pub(super) fn open(spec: &Ros2Spec, longest: u64) -> Result<Opened, GatewayError> {
    let (mut dds, mut waiting) = (None, Waiting::Signal(Signal::default()));
    if spec.dds {
        let (transport, of_dds) = DdsTransport::open(spec, longest)?;
        (dds, waiting) = (Some(transport), Waiting::Dds(of_dds));
    }
    let waiting = Arc::new(waiting);
    let zenoh = spec.zenoh.as_ref().map(|z| ZenohTransport::open(z, spec, longest, &waiting));
    let zenoh = zenoh.transpose()?;
    let mut discoveries: Vec<(Profile, Box<dyn Discovery>)> = Vec::new();
    if let (Some(dds), Waiting::Dds(of_dds)) = (&dds, &*waiting) {
        let session = zenoh.as_ref().map(|z| z.session().id());
        discoveries.push((Profile::Dds, Box::new(dds.discovery(of_dds, session.as_deref())?)));
    }
    if let Some(zenoh) = &zenoh {
        discoveries.push((Profile::Zenoh, Box::new(ZenohDiscovery::new(zenoh.session()))));
    }
    let dds = dds.map(|dds| Box::new(dds) as Box<dyn Transport>);
    let zenoh = zenoh.map(|zenoh| Box::new(zenoh) as Box<dyn Transport>);
    let transports = Transports(dds.into_iter().chain(zenoh).collect());
    Ok(Opened { transports, discoveries, waiting })
}
