// SPDX-License-Identifier: Apache-2.0
//! Exit codes of `driveline-host`.

/// The module ended normally.
pub const DONE: u8 = 0;
/// A component failed to initialise, or the system refused something.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The graph has errors.
pub const GRAPH: u8 = 3;
/// The module was asked to end, but a component did not return in time.
pub const STUCK: u8 = 5;
