// SPDX-License-Identifier: Apache-2.0
//! Messages between the runner of a measurement and the measured processes.
//!
//! A measured process gets one line on its standard input, a [`Job`] as JSON, and writes
//! [`Event`]s, one JSON object a line, to its standard output. Raw stamps go into files in the
//! directory that the job names, as rows of little-endian 64-bit words, so that a process computes
//! nothing while it is measured. All other output goes to standard error, and is shown if the
//! process fails. Any program that does this can be measured; `docs/protocols/harness.md` is the
//! complete definition for authors of such programs, and [`crate::peers`] finds them.

mod event;
mod job;
mod memcpy;
mod rows;
mod system;

pub use event::{End, Event, OwnTool};
#[cfg(test)]
pub(crate) use job::sample_job;
pub use job::{HOSTS, Job, Pace, Payload, Reach, Reliability, Role, Take, Unset, Wait};
pub use memcpy::{MEMCPY_FROM, MEMCPY_KINDS, MemcpyKind};
pub(crate) use rows::read_bounded;
pub use rows::{ReceivedRow, Row, SentRow, read_rows, write_rows};
pub use system::System;

/// Version of this protocol. It changes only if an existing part changes its meaning. Readers
/// ignore unknown additions.
pub const PROTOCOL: u32 = 1;
