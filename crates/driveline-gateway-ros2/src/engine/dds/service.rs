// SPDX-License-Identifier: Apache-2.0
//! Ends of services over DDS: `docs/protocols/ros2-services.md`.

use crate::engine::conductor::Common;
use crate::engine::service::{Answers, Asking, Interface, Offered, Party, Requests};
use std::sync::Arc;

const NOT_YET: &str = "services over DDS are not carried yet: have the nodes use rmw_zenoh, and add `zenoh: {}`";

/// Offers a service to nodes on DDS, under a node's namespace and name.
pub(in crate::engine) fn offer(
    _common: &Arc<Common>,
    _of: &Interface,
    _node: &(String, String),
    _requests: Arc<dyn Requests>,
) -> Result<Box<dyn Offered>, String> {
    Err(NOT_YET.into())
}

/// Asks a server on DDS, under a node's namespace and name.
pub(in crate::engine) fn ask(
    _common: &Arc<Common>,
    _of: &Interface,
    _node: &(String, String),
    _server: &Party,
    _answers: Arc<dyn Answers>,
) -> Result<Arc<dyn Asking>, String> {
    Err(NOT_YET.into())
}
