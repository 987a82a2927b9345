// SPDX-License-Identifier: Apache-2.0
//! The role `stage` of `docs/protocols/chain.md`, for peers in Rust: the counterpart of
//! `lab/peers/harness` for peers in C++.
//!
//! A peer implements [`StageSender`] and [`StageReceiver`] in addition to the traits of links, and
//! calls [`program`] from `main`.

mod driveline_edge;
mod edge;
mod message;
mod stage;
mod work;

use anyhow::Result;
use driveline_bench::peers::Description;
use driveline_bench::{Middleware, Receiver, Sender};
use std::process::ExitCode;
use std::time::Duration;

/// Sending end whose messages differ in length.
pub trait StageSender: Sender {
    /// Limits the message to the first `len` bytes of a loan. Middleware whose payloads always have
    /// the same size ignores it.
    fn shorten(loan: &mut Self::Loan, len: usize) {
        let _ = (loan, len);
    }
    /// Sends the end mark, numbered like any message, and returns its number. The mark must not be
    /// lost if the middleware can prevent it.
    ///
    /// # Errors
    /// The reason.
    fn publish_last(&mut self, message: &[u8]) -> Result<u64, String>;
}

/// Receiving end whose wait has a limit.
pub trait StageReceiver: Receiver {
    /// Waits as the job specifies until [`Receiver::take`] may have a message, but at most `limit`;
    /// not at all if that is zero.
    ///
    /// # Errors
    /// The error of the middleware.
    fn wait_at_most(&mut self, limit: Duration) -> Result<()>;
}

/// `main` of a peer that has the role `stage` in addition to those of links.
#[must_use]
pub fn program<M>(describe: impl FnOnce() -> Description) -> ExitCode
where
    M: Middleware + 'static,
    M::Sender: StageSender + 'static,
    M::Receiver: StageReceiver + 'static,
{
    driveline_bench::peer_program_with_stages::<M>(describe, stage::run::<M>)
}
