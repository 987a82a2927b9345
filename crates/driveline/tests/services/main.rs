// SPDX-License-Identifier: Apache-2.0
//! Requirements on services at each reach, and their protection against hostile writers of their
//! topics.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod calls;
mod crowd;
mod executors;
mod hostile;
mod outcomes;
mod support;
