// SPDX-License-Identifier: Apache-2.0
//! The command as people and scripts use it: real processes, exit codes, output.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod completion;
mod control;
mod doctor;
mod files;
mod fixture;
mod health;
mod large;
mod modes;
mod runs;
#[path = "../../../../tools/skipped.rs"]
mod skipped;
mod supervision;
