// SPDX-License-Identifier: Apache-2.0
//! Executor's record of each call.

use crate::conversion::Conversions;
use crate::event::EndpointEvent;
use crate::trigger::InputStall;
use driveline_types::header::Arrival;
use driveline_types::{MonotonicNs, SampleHeader, TopicId};

/// One finished call of a callback.
#[derive(Debug)]
pub struct CallbackRecord<'a> {
    /// Name of the callback.
    pub callback: &'a str,
    /// Start of the call.
    pub start: MonotonicNs,
    /// End of the call.
    pub end: MonotonicNs,
    /// Part of the call's time spent on conversions, which counts as communication.
    pub conversions: Conversions,
    /// Samples with which the call began, and samples that [`Invocation::read`] has read.
    ///
    /// [`Invocation::read`]: super::Invocation::read
    pub inputs: &'a [InputRecord<'a>],
    /// True if it failed.
    pub failed: bool,
}

/// One sample in a call.
#[derive(Debug)]
pub struct InputRecord<'a> {
    /// Name of the input.
    pub input: &'a str,
    /// Topic that it is connected to.
    pub topic: TopicId,
    /// Relation of the sample to the start of the call.
    pub arrival: Arrival,
    /// Its header.
    pub header: &'a SampleHeader,
    /// Number of its publisher's samples missed before it.
    pub missed: u64,
    /// True if this call is the first that sees the sample.
    pub fresh: bool,
}

/// Gets a record of every call, on the thread that made it. Must not block.
pub trait Observer: Send + Sync {
    /// A call has ended.
    fn callback(&self, record: &CallbackRecord<'_>);

    /// An input of a callback had an event other than a sample. The executor polls events after a
    /// wait or before a call, at most every 100 ms. Missed deadlines are also polled in between,
    /// after a wait.
    fn event(&self, _callback: &str, _input: &str, _event: &EndpointEvent) {}

    /// An input of a callback gets no samples because the callback holds too many, or gets samples
    /// again. Called once for the beginning and once for the end of a stall. The beginning is
    /// reported 0.5 s after the stall began, or later if all threads of the executor run callbacks
    /// then. For an input that does not trigger, it is reported after the first read that fails
    /// after these 0.5 s. Shorter stalls are not reported.
    fn stall(&self, _callback: &str, _input: &str, _stall: &InputStall) {}
}
