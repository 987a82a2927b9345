// SPDX-License-Identifier: Apache-2.0
//! What a running gateway says about itself, and the socket on which it says it (`docs/protocols/network.md`, *Status*).
//!
//! Not here: gateways, and how what they say is shown.

mod report;
mod status;

pub use report::{
    EdgeFigures, EdgeReport, HostReport, InletFigures, InletReport, InletState, NetworkReport, PublisherReport, Refusal, Report,
    TopicReport,
};
pub use status::{Answer, MAX_REPORT_LEN, StatusSocket, ask};
