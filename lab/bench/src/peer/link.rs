// SPDX-License-Identifier: Apache-2.0
//! Interface between measured systems and the measuring loops.
//!
//! The loops are generic over these traits and compiled for each system, so that a baseline and
//! Driveline run the same instructions around the hand-over.

use crate::harness::{Job, OwnTool};
use anyhow::{Result, bail};
use std::time::Duration;

/// Objects of a middleware in a process, or in one of its threads.
pub trait Middleware: Sized + Send {
    /// Its sending end.
    type Sender: Sender;
    /// Its receiving end.
    type Receiver: Receiver;

    /// Joins the domain of `job.domain_dir` under a name that is unique there.
    ///
    /// # Errors
    /// The error of the middleware.
    fn join(job: &Job, name: &str) -> Result<Self>;
    /// Joins for another thread of this process.
    ///
    /// # Errors
    /// The error of the middleware.
    fn for_thread(&self, name: &str) -> Result<Self>;
    /// Makes the sending end of a topic. Each direction of a link has a topic that is unique in the
    /// domain.
    ///
    /// # Errors
    /// The error of the middleware.
    fn sender(&self, job: &Job, topic: &str) -> Result<Self::Sender>;
    /// Makes a receiving end.
    ///
    /// # Errors
    /// The error of the middleware.
    fn receiver(&self, job: &Job, topic: &str) -> Result<Self::Receiver>;
    /// Removes the remains of the ends, also of killed ones. Called once all ends have ended, if
    /// the description asks for a keeper.
    ///
    /// # Errors
    /// Remains that could not be removed.
    fn remove_leftovers(_job: &Job) -> Result<()> {
        Ok(())
    }
    /// Runs the middleware's own latency tool for 2 to 10 s, or until it has made as many round
    /// trips as the job has messages. Called for variants that name one.
    ///
    /// # Errors
    /// If the tool is missing (the error names the package that installs it), or measured nothing.
    fn own_tool(job: &Job) -> Result<OwnTool> {
        bail!("{} has no latency tool of its own", job.system)
    }
}

/// The sending end of a link. Used by one thread.
pub trait Sender {
    /// Memory for one payload.
    type Loan;

    /// Waits until this many receivers are connected.
    ///
    /// # Errors
    /// If they do not connect in time.
    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()>;
    /// Returns memory for a payload of `len` bytes.
    ///
    /// # Errors
    /// The reason why the sample is not sent. The loops count it under this reason, and continue.
    fn loan(&mut self, len: usize) -> Result<Self::Loan, String>;
    /// Returns the bytes of a loan; empty for a system without payload.
    fn payload(loan: &mut Self::Loan) -> &mut [u8];
    /// Sends the loan and returns the sample's number; numbers begin with 1.
    ///
    /// # Errors
    /// The reason why the sample is not sent. The loops count it under this reason, and continue.
    fn publish(&mut self, loan: Self::Loan) -> Result<u64, String>;
    /// Sends the answer to question number `question`; questions are numbered from 1, and 0 stands
    /// for the greeting. Returns the number of the answer: the question's plus one, unless the
    /// system numbers samples itself.
    ///
    /// # Errors
    /// The reason why the sample is not sent. The loops count it under this reason, and continue.
    fn answer(&mut self, loan: Self::Loan, question: u64) -> Result<u64, String>;
    /// Sends the end mark. It has a number like any sample.
    ///
    /// # Errors
    /// The reason.
    fn publish_end(&mut self) -> Result<u64, String>;
    /// Returns the number of system calls made to wake receivers, if the system counts them.
    fn wake_calls(&self) -> Option<u64>;
}

/// The receiving end of a link. Used by one thread.
pub trait Receiver {
    /// One received sample.
    type Sample: Received;

    /// Waits until the sending end is connected.
    ///
    /// # Errors
    /// If it does not connect in time.
    fn wait_matched(&mut self, timeout: Duration) -> Result<()>;
    /// Waits until [`Self::take`] may have a sample, or until the limit; without a limit, forever.
    ///
    /// # Errors
    /// The error of the middleware.
    fn wait(&mut self, limit: Option<Duration>) -> Result<()>;
    /// Returns the oldest unread sample.
    ///
    /// # Errors
    /// The error of the middleware.
    fn take(&mut self) -> Result<Option<Self::Sample>>;
}

/// A received sample.
pub trait Received {
    /// Returns its number, from 1 on.
    fn sequence(&self) -> u64;
    /// Returns the number of the answered question; 0 for the greeting.
    fn answers(&self) -> u64 {
        self.sequence().saturating_sub(1)
    }
    /// Returns the number of samples missed just before this one.
    fn missed(&self) -> u64;
    /// Returns the bytes; empty for a system without payload. Called only if the bytes are read.
    /// Middleware that delivers a payload in pieces joins the pieces here.
    fn payload(&self) -> &[u8];
    /// Returns the number of bytes.
    fn size(&self) -> usize {
        self.payload().len()
    }
    /// Copies the bytes to `target`, which has the same length. Pieces are copied one by one,
    /// without joining them first.
    fn copy_to(&self, target: &mut [u8]) {
        target.copy_from_slice(self.payload());
    }
    /// Returns true if it is the mark of [`Sender::publish_end`].
    fn is_end(&self) -> bool;
}
