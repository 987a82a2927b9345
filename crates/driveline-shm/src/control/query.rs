// SPDX-License-Identifier: Apache-2.0
//! State of a connection of a tool.

use crate::sys::blocking_tasks::Foreign;
use driveline_types::MonotonicNs;

/// A tool that has connected.
pub(super) struct Query {
    pub(super) socket: Foreign,
    pub(super) until: MonotonicNs,
    /// Answer, and the number of its bytes that are sent. `None`: the tool has not sent its request
    /// yet.
    pub(super) answer: Option<(Vec<u8>, usize)>,
}

impl Query {
    pub(super) fn undecided(&self) -> Option<&Foreign> {
        self.answer.is_none().then_some(&self.socket)
    }
}
