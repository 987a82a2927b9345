// SPDX-License-Identifier: Apache-2.0
//! Names of a workload's counters of deliveries: a message is one delivery for each subscription
//! that must receive it.

/// Deliveries that were to be: in time, late, lost, or of messages that were not sent.
pub const SCHEDULED: &str = "deliveries scheduled";
/// Of those: of messages that were sent.
pub const DUE: &str = "deliveries due";
/// Of those: the callback began within the deadline after the message was due.
pub const IN_TIME: &str = "deliveries in time";
/// Of those: it began after that.
pub const LATE: &str = "deliveries late";
/// Of those: it did not begin.
pub const LOST: &str = "deliveries lost";
/// Messages that were due.
pub const MESSAGES_SCHEDULED: &str = "messages scheduled";
/// Of those: sent.
pub const MESSAGES_SENT: &str = "messages sent";
/// Of those: their publisher did not come to them.
pub const MESSAGES_NOT_SENT: &str = "messages scheduled but not sent";
/// Number of subscriptions. Each has a series of latencies of its own.
pub const SUBSCRIPTIONS: &str = "subscriptions";
/// The series with the latencies of all of them.
pub const ALL: &str = "all";
