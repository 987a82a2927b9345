// SPDX-License-Identifier: Apache-2.0
//! Makes the ends of a service in a profile.

use super::{Answers, Asking, Interface, Offered, Requests, ServiceEndpoint};
use crate::engine::endpoint::Profile;
use crate::engine::gateway_state::GatewayState;
use crate::engine::{dds, zenoh};
use crate::names::RosNode;
use std::sync::Arc;

pub(super) fn offer(
    profile: Profile,
    common: &Arc<GatewayState>,
    of: &Interface,
    node: &RosNode,
    requests: Arc<dyn Requests>,
) -> Result<Box<dyn Offered>, String> {
    match profile {
        Profile::Dds => dds::service::offer(common.dds()?, common.spec.release, of, node, requests),
        Profile::Zenoh => zenoh::service::offer(common, of, node, requests),
    }
}

pub(super) fn ask(
    common: &Arc<GatewayState>,
    of: &Interface,
    node: &RosNode,
    server: &ServiceEndpoint,
    answers: Arc<dyn Answers>,
) -> Result<Arc<dyn Asking>, String> {
    match server.profile {
        Profile::Dds => {
            dds::service::ask(common.dds()?, common.spec.release, of, node, server, answers)
        }
        Profile::Zenoh => zenoh::service::ask(common, of, node, server, answers),
    }
}
