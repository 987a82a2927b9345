// SPDX-License-Identifier: Apache-2.0
//! What the gateways of this project have in common.
//!
//! - The program around a gateway: how it is run, that it is the only one of its kind, its report,
//!   and the socket for it (`docs/protocols/gateway-status.md`);
//! - [`network`] and [`ros2`]: what stands under these keys of a graph file, what a gateway is
//!   started with, and the checks of both ([`SECTIONS`]).
//!
//! Not here: what a gateway carries, and how its report is shown.

mod desk;
pub mod endpoint;
pub mod interfaces;
mod line_limit;
mod mistakes;
pub mod network;
mod network_section;
mod only_one;
mod program;
mod report;
pub mod ros2;
mod ros2_section;
mod status;
mod words;
mod zenoh_text;

pub use mistakes::ConfigMistakes;
pub use network::{ZENOH_THREADS, ZENOH_THREADS_FOR_TLS};

pub use desk::{Notices, ReportDesk};
pub use line_limit::{LineLimit, LineVerdict};
pub use only_one::{OnlyOne, OnlyOneError};
pub use program::{Gateway, serve};
pub use report::{
    EdgeFigures, EdgeReport, HostReport, InletFigures, InletReport, InletState, NetworkReport,
    PublisherReport, Refusal, Report, Ros2Publisher, Ros2Report, Ros2Server, Ros2ServiceReport,
    Ros2TopicReport, TopicReport,
};
pub use status::{Answer, MAX_REPORT_LEN, StatusSocket, ask};
pub use zenoh_text::zenoh_says;

use driveline_graph::Registered;
use driveline_graph::section::Section;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The sections of graph files that the gateways own: `network` and `ros2`.
pub const SECTIONS: &[&dyn Section] =
    &[&network_section::NetworkSection, &ros2_section::Ros2Section];

/// For programs that check whole graphs ([`driveline_graph::LoadOptions::registered`]).
#[must_use]
pub fn registered() -> Registered {
    Registered::Known(SECTIONS)
}

/// The schema of a key that a graph may lack.
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
