// SPDX-License-Identifier: Apache-2.0
//! Shared parts of this project's gateways.
//!
//! - The program around a gateway: its start and end, the lock against a second gateway of its
//!   kind, its report, and the socket that sends the report (`docs/protocols/gateway-status.md`);
//! - [`network`] and [`ros2`]: these sections of a graph file, the start configuration of a
//!   gateway, and the checks of both ([`SECTIONS`]).
//!
//! Not here: the traffic of a gateway, and the display of its report.

mod diagnosis;
pub mod endpoint;
pub mod interfaces;
mod line_limit;
mod mistakes;
pub mod network;
mod network_section;
mod only_one;
mod program;
mod report;
mod report_requests;
pub mod ros2;
mod ros2_section;
mod status;
mod zenoh_text;

pub use mistakes::ConfigMistakes;
pub use network::{ZENOH_THREADS, ZENOH_THREADS_FOR_TLS};

pub use line_limit::{LineLimit, LineVerdict};
pub use only_one::{OnlyOne, OnlyOneError};
pub use program::{Gateway, serve};
pub use report::{
    HostReport, NetworkReport, PublisherReport, Refusal, RemotePublisherFigures,
    RemotePublisherReport, RemotePublisherState, Report, Ros2Publisher, Ros2Report, Ros2Server,
    Ros2ServiceReport, Ros2TopicReport, RouteFigures, RouteReport, TopicReport,
};
pub use report_requests::{Notices, ReportRequests};
pub use status::{Answer, MAX_REPORT_LEN, StatusSocket, ask};
pub use zenoh_text::zenoh_says;

use driveline_graph::Registered;
use driveline_graph::section::Section;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The sections of graph files that the gateways own: `network` and `ros2`.
pub const SECTIONS: &[&dyn Section] =
    &[&network_section::NetworkSection, &ros2_section::Ros2Section];

/// Returns the sections for programs that check whole graphs
/// ([`driveline_graph::LoadOptions::registered`]).
#[must_use]
pub fn registered() -> Registered {
    Registered::Known(SECTIONS)
}

/// Returns the schema of an optional key of a graph.
fn optional<T: JsonSchema>(generator: &mut SchemaGenerator, about: &str) -> Schema {
    let mut schema = generator.subschema_for::<Option<T>>();
    schema.insert("description".to_owned(), about.into());
    schema.insert("default".to_owned(), serde_json::Value::Null);
    schema
}

#[cfg(test)]
use registered as registered_in_tests;

#[cfg(test)]
#[path = "../../driveline-graph/src/fixture.rs"]
#[allow(dead_code, reason = "tests of graph files need more of it")]
mod fixture;
#[cfg(test)]
mod graph_tests;
