// SPDX-License-Identifier: Apache-2.0
//! Records of callbacks, and the parts of an age.

use driveline_types::header::Arrival;
use driveline_types::{MonotonicNs, Origin, SampleHeader, TopicId};

/// Largest accepted absolute value of an age, or of a part of an age: 73 years. Ages of decades are
/// possible, because clocks that were never set begin in 1970, and recordings may be old. A larger
/// value is damaged, and a sum of three larger parts could exceed the range of an `i64`.
const BELIEVED_NS: u64 = 1 << 61;

/// One run of one component's callback.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageRecord<'a> {
    /// The component's name.
    pub stage: &'a str,
    /// Start of the callback.
    pub start: MonotonicNs,
    /// End of the callback.
    pub end: MonotonicNs,
    /// Part of the time from start to end that was spent on conversions that belong to this
    /// component's transmission.
    pub conversion_ns: u64,
    /// Part of the time from start to end that was spent on encoding published samples. It belongs
    /// to the transmission of the next component.
    pub encoding_ns: u64,
    /// True if the callback reported an error.
    pub failed: bool,
    /// Inputs that triggered the callback, and other inputs that it read.
    pub inputs: &'a [StageInput<'a>],
}

/// One sample that a callback saw.
#[derive(Clone, Copy, Debug)]
pub struct StageInput<'a> {
    /// The input port's name.
    pub input: &'a str,
    /// Its topic.
    pub topic: TopicId,
    /// Role of the sample: it triggered the callback, or the callback read it.
    pub arrival: Arrival,
    /// The sample's header.
    pub header: &'a SampleHeader,
    /// Samples missed on this edge directly before this one.
    pub missed: u64,
    /// True if this callback is the first that sees the sample.
    pub fresh: bool,
}

/// Age of the oldest contribution of one origin, and the parts that add up to this age. All values
/// are within [`BELIEVED_NS`], and may be negative because of the clock error between hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgeSample {
    pub(crate) end: MonotonicNs,
    pub(crate) communication_ns: i64,
    pub(crate) computation_ns: i64,
    pub(crate) idle_ns: i64,
    /// Age of the newest contribution.
    pub(crate) newest_ns: i64,
}

impl AgeSample {
    /// Returns the age of an origin at `end`. `None` if its parts do not add up to it, or if one of
    /// the values exceeds [`BELIEVED_NS`].
    pub(crate) fn of(origin: &Origin, end: MonotonicNs) -> Option<Self> {
        let Origin { communication_ns, computation_ns, idle_ns, .. } = *origin;
        let (age_ns, newest_ns) = (origin.age_ns(end), end.signed_since(origin.source_newest));
        let believed = [communication_ns, computation_ns, idle_ns, age_ns, newest_ns]
            .iter()
            .all(|ns| ns.unsigned_abs() <= BELIEVED_NS);
        let sample = Self { end, communication_ns, computation_ns, idle_ns, newest_ns };
        (believed && sample.age_ns() == age_ns).then_some(sample)
    }

    pub(crate) fn age_ns(&self) -> i64 {
        self.communication_ns + self.computation_ns + self.idle_ns
    }

    /// Returns the lowest of the age, the newest age and the parts, if it is negative.
    pub(crate) fn below_zero_ns(&self) -> Option<i64> {
        let all = [
            self.age_ns(),
            self.newest_ns,
            self.communication_ns,
            self.computation_ns,
            self.idle_ns,
        ];
        all.into_iter().min().filter(|ns| *ns < 0)
    }
}

/// An input that brought the oldest data of an origin into callbacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carrier {
    pub(crate) topic: TopicId,
    pub(crate) calls: u64,
    /// Time that the data had waited at this input; `before_ns` is the idle time that the data
    /// already had when it arrived at this input. Both are sums over the calls counted in `calls`.
    pub(crate) here_ns: u64,
    pub(crate) before_ns: i64,
}
