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

/// A sending end whose messages differ in length.
pub trait StageSender: Sender {
    /// Only the first `len` bytes of a loan are to be sent. Middleware whose payloads always have
    /// the same size ignores it.
    fn shorten(loan: &mut Self::Loan, len: usize) {
        let _ = (loan, len);
    }
    /// Sends the mark that nothing more will come, numbered like any message; not to be lost, where
    /// the middleware can help it. Returns its number.
    ///
    /// # Errors
    /// The reason.
    fn publish_last(&mut self, message: &[u8]) -> Result<u64, String>;
}

/// A receiving end that can give up.
pub trait StageReceiver: Receiver {
    /// Waits until [`Receiver::take`] may have something, as the job says, but no longer than
    /// `limit`; not at all if that is zero.
    ///
    /// # Errors
    /// What the middleware says.
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
