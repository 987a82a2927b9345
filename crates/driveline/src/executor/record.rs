// SPDX-License-Identifier: Apache-2.0
//! What an executor tells about each call.

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
    /// When it was entered.
    pub start: MonotonicNs,
    /// When it returned.
    pub end: MonotonicNs,
    /// How much of the time in between went into conversions, and is communication.
    pub conversions: Conversions,
    /// What it was called with, and what it read while it ran.
    pub inputs: &'a [InputRecord<'a>],
    /// Whether it failed.
    pub failed: bool,
}

/// One sample in a call.
#[derive(Debug)]
pub struct InputRecord<'a> {
    /// Name of the input.
    pub input: &'a str,
    /// Topic that it is connected to.
    pub topic: TopicId,
    /// Whether the sample started the call.
    pub arrival: Arrival,
    /// Its header.
    pub header: &'a SampleHeader,
    /// How many of its publisher's samples were missed before it.
    pub missed: u64,
    /// Whether this call is the first that sees the sample.
    pub fresh: bool,
}

/// Gets a record of every call, on the thread that made it. Must not block.
pub trait Observer: Send + Sync {
    /// A call has ended.
    fn callback(&self, record: &CallbackRecord<'_>);

    /// Something other than a sample has happened to an input of a callback. The executor polls for
    /// it after a wait, and between calls at most every 100 ms.
    fn event(&self, _callback: &str, _input: &str, _event: &EndpointEvent) {}

    /// An input of a callback gets no samples because too many of them are kept, or gets them
    /// again. Once each, at the latest 0.5 s after it began unless all threads of the executor are
    /// in callbacks; shorter stalls are not reported.
    fn stall(&self, _callback: &str, _input: &str, _stall: &InputStall) {}
}
