// SPDX-License-Identifier: Apache-2.0
//! What the gateways of this project have in common: how one is run as a program, that it is the only one of its kind, what it says about
//! itself, and the socket on which it says it (`docs/protocols/gateway-status.md`).
//!
//! Not here: what they carry, and how what they say is shown.

mod desk;
mod line_limit;
mod mistakes;
mod only_one;
mod program;
mod report;
mod status;
mod words;
mod zenoh_text;

pub(crate) use mistakes::TopicNumbers;

pub use desk::{Notices, ReportDesk};
pub use line_limit::{LineLimit, LineVerdict};
pub use mistakes::ConfigMistakes;
pub use only_one::{OnlyOne, OnlyOneError};
pub use program::{Gateway, ZENOH_THREADS, ZENOH_THREADS_FOR_TLS, serve};
pub use report::{
    EdgeFigures, EdgeReport, HostReport, InletFigures, InletReport, InletState, NetworkReport,
    PublisherReport, Refusal, Report, Ros2Publisher, Ros2Report, Ros2Server, Ros2ServiceReport,
    Ros2TopicReport, TopicReport,
};
pub use status::{Answer, MAX_REPORT_LEN, StatusSocket, ask};
pub use zenoh_text::zenoh_says;
