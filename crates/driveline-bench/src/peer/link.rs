// SPDX-License-Identifier: Apache-2.0
//! What every measured system looks like to the measuring loops.
//!
//! The loops are generic over these traits and compiled for each system, so that a floor and Driveline run through the
//! very same instructions around the hand-over.

use anyhow::Result;
use std::time::Duration;

/// The sending end of a link.
pub(crate) trait Sender {
    /// Memory for one payload.
    type Loan;

    /// Waits until so many receivers are there.
    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()>;
    /// Memory for a payload of `len` bytes. The error is a reason to count, not to end.
    fn loan(&mut self, len: usize) -> Result<Self::Loan, String>;
    /// The bytes of a loan; empty for a system without payload.
    fn payload(loan: &mut Self::Loan) -> &mut [u8];
    /// Sends it and returns its sequence number.
    fn publish(&mut self, loan: Self::Loan) -> Result<u64, String>;
    /// Sends the mark that nothing more will come. It has a sequence number like any sample.
    fn publish_end(&mut self) -> Result<u64, String>;
    /// System calls made so far to wake receivers, if the system counts them.
    fn wake_calls(&self) -> Option<u64>;
}

/// The receiving end of a link.
pub(crate) trait Receiver {
    /// One received sample.
    type Sample: Received;

    /// Waits until the sending end is there.
    fn wait_matched(&mut self, timeout: Duration) -> Result<()>;
    /// Waits, as long as it takes, until [`Self::take`] may have something.
    fn wait(&mut self) -> Result<()>;
    /// The oldest unread sample.
    fn take(&mut self) -> Result<Option<Self::Sample>>;
}

/// A received sample.
pub(crate) trait Received {
    fn sequence(&self) -> u64;
    /// Samples missed just before this one.
    fn missed(&self) -> u64;
    /// The bytes; empty for a system without payload.
    fn payload(&self) -> &[u8];
    /// Whether it is the mark of [`Sender::publish_end`].
    fn is_end(&self) -> bool;
}
