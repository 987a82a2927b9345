// SPDX-License-Identifier: Apache-2.0
//! Bounds and defaults of publishers, subscriptions and callbacks: what a graph file permits is
//! what an endpoint accepts.
//!
//! The history depth has its bound in [`Qos::MAX_DEPTH`](crate::Qos::MAX_DEPTH).

/// Most samples of one publisher that a subscription may hold at once.
pub const MAX_HELD: u32 = 1000;
/// Samples that a subscription may hold if it does not say otherwise.
pub const DEFAULT_MAX_HELD: u32 = 2;
/// Most samples that all subscriptions of a topic together may hold of one publisher.
pub const MAX_PINS: u32 = 8192;
/// Samples that they may hold if the publisher does not say otherwise.
pub const DEFAULT_PINS: u32 = 8;
/// Most samples that a publisher may have on loan at once.
pub const MAX_LOANS: u32 = 256;
/// Samples that it may have on loan if it does not say otherwise.
pub const DEFAULT_LOANS: u32 = 2;
/// Longest payload, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 36;
/// Most inputs of one callback.
pub const MAX_INPUTS: usize = 16;
/// Most threads of one executor.
pub const MAX_EXECUTOR_THREADS: usize = 256;
