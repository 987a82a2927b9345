// SPDX-License-Identifier: Apache-2.0
//! Bounds and defaults of publishers, subscriptions, callbacks and executors. Graph files and
//! endpoints use the same ones.
//!
//! The history depth has its bound in [`Qos::MAX_DEPTH`](crate::Qos::MAX_DEPTH).

/// Largest `max_held` of a subscription: the number of samples that it may hold at once, of all of
/// its publishers together. Also the most pins that it may have on one publisher.
pub const MAX_HELD: u32 = 1000;
/// Default number of samples that a subscription may hold.
pub const DEFAULT_MAX_HELD: u32 = 2;
/// Maximum number of samples of one publisher that its subscriptions together may hold, without
/// observers.
pub const MAX_PINS: u32 = 8192;
/// Default number of these samples.
pub const DEFAULT_PINS: u32 = 8;
/// Maximum number of loans of a publisher at once.
pub const MAX_LOANS: u32 = 256;
/// Default number of loans of a publisher.
pub const DEFAULT_LOANS: u32 = 2;
/// Longest payload, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 36;
/// Maximum number of inputs of one callback.
pub const MAX_INPUTS: usize = 16;
/// Maximum number of threads of one executor.
pub const MAX_EXECUTOR_THREADS: usize = 256;
