// SPDX-License-Identifier: Apache-2.0
//! Events other than samples that make a callback due: calls that timed out, peers that ended.

use crate::raw::RawSample;
use driveline_types::MonotonicNs;

/// A reason other than samples to call a callback. The executor checks it, under the callback's
/// concurrency rule, when no input of the callback has a sample. Code that changes the result of
/// [`Self::is_due`] kicks the executor.
pub(crate) trait Attention: Send + Sync {
    /// Returns true if the callback is to be called without samples. Then the inputs are checked
    /// once more, and their samples go first. Must not wait for callbacks.
    fn is_due(&self, now: MonotonicNs) -> bool;
    /// Notes that a sample was taken for the next call. Another thread may check the callback
    /// before that call begins.
    fn has_taken(&self, sample: &RawSample);
    /// Returns the time of the next check, independent of other events.
    fn deadline(&self) -> Option<MonotonicNs>;
}
