// SPDX-License-Identifier: Apache-2.0
//! Interface of every measured system to the measuring loops.
//!
//! The loops are generic over these traits and compiled for each system, so that a baseline and
//! Driveline run through the very same instructions around the hand-over.

use crate::harness::{Job, OwnTool};
use anyhow::{Result, bail};
use std::time::Duration;

/// The objects of a middleware in a process, or in a thread of it.
pub trait Middleware: Sized + Send {
    /// Its sending end.
    type Sender: Sender;
    /// Its receiving end.
    type Receiver: Receiver;

    /// Joins what `job.domain_dir` stands for, under a name that is unique there.
    ///
    /// # Errors
    /// What the middleware says.
    fn join(job: &Job, name: &str) -> Result<Self>;
    /// The same for another thread of this process.
    ///
    /// # Errors
    /// What the middleware says.
    fn for_thread(&self, name: &str) -> Result<Self>;
    /// The sending end of a topic, which is unique in the domain for each direction of a link.
    ///
    /// # Errors
    /// What the middleware says.
    fn sender(&self, job: &Job, topic: &str) -> Result<Self::Sender>;
    /// A receiving end.
    ///
    /// # Errors
    /// What the middleware says.
    fn receiver(&self, job: &Job, topic: &str) -> Result<Self::Receiver>;
    /// Removes the leftovers of the ends, also of killed ones. Called once all ends are over, if
    /// the description asks for a keeper.
    ///
    /// # Errors
    /// Leftovers that could not be removed.
    fn remove_leftovers(_job: &Job) -> Result<()> {
        Ok(())
    }
    /// Runs the middleware's own latency tool for 5 to 10 s, or until it has done as many round
    /// trips as the job has messages. Called for variants that name one.
    ///
    /// # Errors
    /// That it is not there, with what installs it, or that it measured nothing.
    fn own_tool(job: &Job) -> Result<OwnTool> {
        bail!("{} has no latency tool of its own", job.system)
    }
}

/// The sending end of a link. Used by one thread.
pub trait Sender {
    /// Memory for one payload.
    type Loan;

    /// Waits until so many receivers are there.
    ///
    /// # Errors
    /// If they do not come in time.
    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()>;
    /// Memory for a payload of `len` bytes.
    ///
    /// # Errors
    /// A reason to count, not to end.
    fn loan(&mut self, len: usize) -> Result<Self::Loan, String>;
    /// The bytes of a loan; empty for a system without payload.
    fn payload(loan: &mut Self::Loan) -> &mut [u8];
    /// Sends it and returns its number, from 1 on.
    ///
    /// # Errors
    /// A reason to count, not to end.
    fn publish(&mut self, loan: Self::Loan) -> Result<u64, String>;
    /// Sends the answer to the question of that number, from 1 on (the greeting: 0), and returns
    /// its own number: the question's plus one, unless the system numbers samples itself.
    ///
    /// # Errors
    /// A reason to count, not to end.
    fn answer(&mut self, loan: Self::Loan, question: u64) -> Result<u64, String>;
    /// Sends the mark that nothing more will come. It has a number like any sample.
    ///
    /// # Errors
    /// The reason.
    fn publish_end(&mut self) -> Result<u64, String>;
    /// System calls made so far to wake receivers, if the system counts them.
    fn wake_calls(&self) -> Option<u64>;
}

/// The receiving end of a link. Used by one thread.
pub trait Receiver {
    /// One received sample.
    type Sample: Received;

    /// Waits until the sending end is there.
    ///
    /// # Errors
    /// If it does not come in time.
    fn wait_matched(&mut self, timeout: Duration) -> Result<()>;
    /// Waits until [`Self::take`] may have something, or the time is over; without a limit as long
    /// as it takes.
    ///
    /// # Errors
    /// What the middleware says.
    fn wait(&mut self, limit: Option<Duration>) -> Result<()>;
    /// The oldest unread sample.
    ///
    /// # Errors
    /// What the middleware says.
    fn take(&mut self) -> Result<Option<Self::Sample>>;
}

/// A received sample.
pub trait Received {
    /// Its number, from 1 on.
    fn sequence(&self) -> u64;
    /// The number of the question that this answers; 0 for the greeting.
    fn answers(&self) -> u64 {
        self.sequence().saturating_sub(1)
    }
    /// Samples missed just before this one.
    fn missed(&self) -> u64;
    /// The bytes; empty for a system without payload. Only asked for where they are read: a
    /// middleware that hands a payload over in pieces joins them here.
    fn payload(&self) -> &[u8];
    /// Returns the number of bytes.
    fn size(&self) -> usize {
        self.payload().len()
    }
    /// Copies the bytes to `target`, which is as long: from pieces, without joining them first.
    fn copy_to(&self, target: &mut [u8]) {
        target.copy_from_slice(self.payload());
    }
    /// Returns whether it is the mark of [`Sender::publish_end`].
    fn is_end(&self) -> bool;
}
