// SPDX-License-Identifier: Apache-2.0
//! Time that callbacks spend between messages and bytes.
//!
//! Decoding and encoding are part of how a message gets from one component to the next, wherever
//! they happen. So their time inside a callback counts as communication, in the ages that travel
//! with samples and in the records of calls. Driveline tells it for the messages that it converts
//! itself; a component that converts payloads of bytes tells it with [`during`].

use crate::scope;
use driveline_types::MonotonicNs;

/// What one call has spent on conversions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// Decoding inputs, and what the component told itself, in nanoseconds: part of this call's
    /// transmission.
    pub own_ns: u64,
    /// Encoding what was published, in nanoseconds. It happens after the publish time, and so is
    /// part of the next hop's transmission.
    pub publish_ns: u64,
}

/// When a conversion begins; `None` where no callback runs on this thread, and nothing need be
/// told. For whom [`during`] does not fit.
#[must_use]
pub fn begin() -> Option<MonotonicNs> {
    scope::is_open().then(MonotonicNs::now)
}

/// Counts the time since `began` as communication of the callback that runs on this thread. What
/// lies before its start or was counted before does not count again. One clock reading.
pub fn end(began: MonotonicNs) {
    scope::converted(began, |c| &mut c.own_ns);
}

/// Runs a conversion whose time counts as communication of the callback that runs on this thread,
/// if one does.
pub fn during<R>(convert: impl FnOnce() -> R) -> R {
    let began = begin();
    let result = convert();
    if let Some(began) = began {
        end(began);
    }
    result
}

/// As [`during`], for what is encoded after its publish time.
pub(crate) fn publishing<R>(encode: impl FnOnce() -> R) -> R {
    let began = begin();
    let result = encode();
    if let Some(began) = began {
        scope::converted(began, |c| &mut c.publish_ns);
    }
    result
}
