// SPDX-License-Identifier: Apache-2.0
//! Time that callbacks spend on converting between messages and bytes.
//!
//! A message that passes between components as bytes must be encoded and decoded. If this happens
//! inside a callback, its time counts as communication, not as computation: in the ages that travel
//! with samples and in the records of calls. Driveline measures its own conversions; a component
//! that converts payloads itself reports the time with [`during`].

use crate::scope;
use driveline_types::MonotonicNs;

/// Conversions of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// Time to decode inputs, and times that the component reports with [`during`] or [`end`], in
    /// nanoseconds: part of this call's transmission.
    pub own_ns: u64,
    /// Time to encode published messages, in nanoseconds. A message is encoded after its publish
    /// time, so this time is part of the next hop's transmission.
    pub publish_ns: u64,
}

/// Begins a conversion; returns `None` outside of a callback, where no report is needed. For code
/// that cannot use [`during`].
#[must_use]
pub fn begin() -> Option<MonotonicNs> {
    scope::is_open().then(MonotonicNs::now)
}

/// Counts the time since `began` as communication of the callback that runs on this thread. Time
/// before its start and time already counted are left out. Reads the clock once.
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

/// Like [`during`], for encoding that happens after the publish time.
pub(crate) fn publishing<R>(encode: impl FnOnce() -> R) -> R {
    let began = begin();
    let result = encode();
    if let Some(began) = began {
        scope::converted(began, |c| &mut c.publish_ns);
    }
    result
}
