// SPDX-License-Identifier: Apache-2.0
//! Exit codes of `driveline-host`.

/// The module ended normally.
pub const DONE: u8 = 0;
/// Another failure: for example, a component failed to initialise, the system refused something, or
/// the launcher at `--account-socket` was lost.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The graph has errors.
pub const GRAPH: u8 = 3;
/// The module was to end, and a component did not return in time, or not before a second signal.
pub const STUCK: u8 = 5;
