// SPDX-License-Identifier: Apache-2.0
//! What the gateways of this project have in common: how one is run as a program, that it is the only one of its kind, what it says about
//! itself, and the socket on which it says it (`docs/protocols/gateway-status.md`).
//!
//! Not here: what they carry, and how what they say is shown.

mod desk;
mod line_limit;
mod only_one;
mod program;
mod report;
mod status;
mod words;
mod zenoh_text;

pub use driveline_graph::ConfigMistakes;
pub use driveline_graph::network::{ZENOH_THREADS, ZENOH_THREADS_FOR_TLS};

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
