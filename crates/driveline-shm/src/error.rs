// SPDX-License-Identifier: Apache-2.0
//! One error enum per family of operations. The texts say what to do next, except where they only
//! have the kernel's reason.

use crate::limits;
use crate::sys::descriptors::DescriptorShortage;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// A domain could not be joined.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The domain's name is empty or too long, or has a character that is not allowed.
    #[error(
        "the domain name {name:?} is not possible: use at most 64 letters, digits, '_' and '-'"
    )]
    Name {
        /// Given name.
        name: String,
    },
    /// The directory cannot be made or opened.
    #[error(
        "cannot {action} the domain directory {path}: {source}; choose another with \
         DRIVELINE_DOMAIN_DIR"
    )]
    Directory {
        /// Attempted action.
        action: &'static str,
        /// The directory.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Its owner, group or mode is not safe, or the user namespace does not map this user.
    #[error("the domain directory {path} is not safe: {reason}; {remedy}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// Description of the error.
        reason: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// A kernel object could not be made.
    #[error("cannot {action}: {source}")]
    System {
        /// Attempted action.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// A publisher could not be created.
#[derive(Debug, Error)]
pub enum CreatePublisherError {
    /// A number in the configuration is out of range, or the schema is too long.
    #[error("topic '{topic}': {reason}")]
    Config {
        /// The topic.
        topic: String,
        /// Value and its limits.
        reason: String,
    },
    /// There is not enough memory in addition to the margin that is kept free.
    #[error(
        "topic '{topic}': {} MiB ({slots} slots of {slot_len} bytes) are needed but {} MiB are \
         available; the limit is {limit}; lower max_payload, pins or depth, or give it more memory",
        needed.div_ceil(1 << 20),
        available >> 20
    )]
    Memory {
        /// The topic.
        topic: String,
        /// Bytes needed.
        needed: u64,
        /// Number of slots.
        slots: usize,
        /// Bytes of one slot.
        slot_len: usize,
        /// Bytes available, without the margin that is kept free.
        available: u64,
        /// Place of the limit, such as a memory cgroup.
        limit: String,
    },
    /// Another process of this user does not end its own reservation of memory.
    #[error("topic '{topic}': {refusal}")]
    MemoryBusy {
        /// The topic.
        topic: String,
        /// The reason with its numbers, and the remedy.
        refusal: MemoryRefusal,
    },
    /// The process may open too few descriptors for one more endpoint.
    #[error("topic '{topic}': {shortage}")]
    Descriptors {
        /// The topic.
        topic: String,
        /// Numbers and remedy.
        shortage: DescriptorShortage,
    },
    /// The kernel refused something.
    #[error("topic '{topic}': cannot {action}: {source}")]
    System {
        /// The topic.
        topic: String,
        /// Attempted action.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The participant was created before a `fork`, and this is the child.
    #[error("{}", limits::FORKED)]
    Forked,
}

/// A subscription could not be created.
#[derive(Debug, Error)]
pub enum CreateSubscriptionError {
    /// A number in the configuration is out of range, or the schema is too long.
    #[error("topic '{topic}': {reason}")]
    Config {
        /// The topic.
        topic: String,
        /// Value and its limits.
        reason: String,
    },
    /// The process may open too few descriptors for one more endpoint.
    #[error("topic '{topic}': {shortage}")]
    Descriptors {
        /// The topic.
        topic: String,
        /// Numbers and remedy.
        shortage: DescriptorShortage,
    },
    /// The kernel refused something.
    #[error("topic '{topic}': cannot {action}: {source}")]
    System {
        /// The topic.
        topic: String,
        /// Attempted action.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The participant was created before a `fork`, and this is the child.
    #[error("{}", limits::FORKED)]
    Forked,
}

/// A loan was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LoanError {
    /// Longer than the slots.
    #[error(
        "a payload of {len} bytes does not fit: the publisher was created for at most \
         {max_payload}; raise max_payload"
    )]
    TooLong {
        /// Requested length.
        len: usize,
        /// Length of a slot.
        max_payload: usize,
    },
    /// As many loans exist as were declared.
    #[error("all {loans} loans are in use: publish or drop one first, or raise loans")]
    TooManyLoans {
        /// Declared number.
        loans: u32,
    },
    /// The handle was created before a `fork`, and this is the child.
    #[error("{}", limits::FORKED)]
    Forked,
}

/// A sample was not published; the loan is returned to its publisher.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PublishError {
    /// The loan is another publisher's.
    #[error("the loan comes from another publisher: publish it there")]
    ForeignLoan,
    /// 2^48 − 1 samples were published.
    #[error("all sequence numbers are used up: create the publisher anew")]
    SequenceExhausted,
    /// The handle was created before a `fork`, and this is the child.
    #[error("{}", limits::FORKED)]
    Forked,
}

/// No sample could be taken although there may be one.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TakeError {
    /// `max_held` samples are held.
    #[error(
        "all {max_held} samples that this subscription may hold are held: drop one first, or raise \
         max_held"
    )]
    AllHeld {
        /// Declared number.
        max_held: u32,
    },
    /// The buffer of a copy is too short; nothing was taken.
    #[error("the sample has {needed} bytes and the buffer {len}: give at least {needed}")]
    BufferTooShort {
        /// Bytes of the sample.
        needed: usize,
        /// Bytes of the buffer.
        len: usize,
    },
    /// The handle was created before a `fork`, and this is the child.
    #[error("{}", limits::FORKED)]
    Forked,
}

/// A wait set refused something.
#[derive(Debug, Error)]
pub enum WaitSetError {
    /// The subscription is attached to another wait set: it has one word to announce that it
    /// sleeps.
    #[error(
        "topic '{topic}': the subscription is attached to another wait set: detach it there first"
    )]
    AttachedElsewhere {
        /// The topic.
        topic: String,
    },
    /// `futex_waitv` was requested, and this kernel does not have it.
    #[error("this kernel has no futex_waitv (it came with Linux 5.16): use WaitBackend::Auto")]
    NoFutexWaitv,
    /// The handle was created before a `fork`, and this is the child.
    #[error("{}", limits::FORKED)]
    Forked,
    /// The kernel refuses the page of memory by which a wait set recognises a forked child.
    #[error("cannot create a wait set: {0}")]
    Page(std::io::Error),
}

/// The domain could not be listed.
#[derive(Debug, Error)]
pub enum ListError {
    /// The directory cannot be read.
    #[error(
        "cannot read the domain directory {path}: {source}; is anything running in this domain?"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A kernel object could not be made.
    #[error("cannot {action}: {source}")]
    System {
        /// Attempted action.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// Memory was not admitted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MemoryRefusal {
    /// Too little memory is available.
    #[error("{} MiB are needed but {} MiB are available; the limit is \
         {limit}", needed.div_ceil(1 << 20), available >> 20)]
    Short {
        /// Bytes needed.
        needed: u64,
        /// Bytes available, without the margin that is kept free.
        available: u64,
        /// Place of the limit, such as a memory cgroup.
        limit: String,
    },
    /// Another process of this user did not end its reservation in time.
    #[error(
        "{} has been reserving memory for {} s, and more than half of the {} MiB that are \
         available are needed here: is it stopped? Continue or end it, and try again",
        .holder.map_or_else(|| "another process of this \
             user".into(), |pid| format!("process {pid}")),
        waited.as_secs(),
        available >> 20
    )]
    Busy {
        /// The process that has the lock, if `/proc/locks` names it.
        holder: Option<u32>,
        /// Time waited for it.
        waited: Duration,
        /// Bytes available, without the margin that is kept free.
        available: u64,
    },
}
