// SPDX-License-Identifier: Apache-2.0
//! What services must do, run over each reach; and what nobody who writes their topics can do to
//! them.
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
