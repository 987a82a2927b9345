// SPDX-License-Identifier: Apache-2.0
//! Names of a workload's counters of deliveries. A message is one delivery for each subscription
//! that must receive it.

/// Number of scheduled deliveries: in time, late, lost, or of messages that were not sent.
pub const SCHEDULED: &str = "deliveries scheduled";
/// Number of scheduled deliveries whose message was sent.
pub const DUE: &str = "deliveries due";
/// Number of due deliveries whose callback began within the deadline after the message was due.
pub const IN_TIME: &str = "deliveries in time";
/// Number of due deliveries whose callback began later.
pub const LATE: &str = "deliveries late";
/// Number of due deliveries whose callback did not begin.
pub const LOST: &str = "deliveries lost";
/// Number of messages that were due.
pub const MESSAGES_SCHEDULED: &str = "messages scheduled";
/// Number of due messages that were sent.
pub const MESSAGES_SENT: &str = "messages sent";
/// Number of due messages that their publisher did not send in time.
pub const MESSAGES_NOT_SENT: &str = "messages scheduled but not sent";
/// Number of subscriptions. Each has a series of latencies of its own.
pub const SUBSCRIPTIONS: &str = "subscriptions";
/// Name of the series with the latencies of all of them.
pub const ALL: &str = "all";
