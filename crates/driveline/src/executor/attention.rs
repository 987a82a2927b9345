// SPDX-License-Identifier: Apache-2.0
//! What a callback must see to besides the samples of its inputs: calls whose time is over, peers
//! that have gone.

use crate::raw::RawSample;
use driveline_types::MonotonicNs;

/// Asked by the executor whenever it looks at the callback and no input has anything, under the
/// callback's rule of concurrency. Whoever changes what it waits for kicks the executor.
pub(crate) trait Attention: Send + Sync {
    /// Whether the callback is to be called without samples. If so, the inputs are looked at once
    /// more, and what they have goes first. Must not wait for callbacks.
    fn is_due(&self, now: MonotonicNs) -> bool;
    /// A sample was taken for a call that comes; another thread may look at the callback before
    /// that call begins.
    fn has_taken(&self, sample: &RawSample);
    /// When to look, whatever else happens.
    fn deadline(&self) -> Option<MonotonicNs>;
}
