// SPDX-License-Identifier: Apache-2.0
//! What happens to an endpoint besides samples.

use crate::status::c_text;
use driveline::EndpointEvent;
use std::ffi::{CString, c_char};

/// What happened.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dl_event_kind {
    /// Nothing.
    DL_EVENT_NONE = 0,
    /// A peer was matched.
    DL_EVENT_MATCHED = 1,
    /// A matched peer went away or died.
    DL_EVENT_UNMATCHED = 2,
    /// A peer on the same topic cannot be matched; the text says why and what to do.
    DL_EVENT_REFUSED = 3,
    /// No sample came, or was published, for longer than the deadline.
    DL_EVENT_DEADLINE_MISSED = 4,
    /// A publisher gave no sign of life for longer than its lease.
    DL_EVENT_LIVELINESS_LOST = 5,
    /// It is back.
    DL_EVENT_LIVELINESS_GAINED = 6,
    /// A reliable subscription is served best effort from now on; the text says which and why.
    DL_EVENT_DOWNGRADED = 7,
    /// Events were lost because nobody asked for them in time; the text says how many.
    DL_EVENT_EVENTS_LOST = 8,
}

/// An event of a publisher or a subscription.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_event {
    /// What happened; `DL_EVENT_NONE` if nothing did.
    pub kind: dl_event_kind,
    /// For people. Borrowed: valid until the endpoint's next event is polled. Never NULL.
    pub text: *const c_char,
}

/// The text of the event that was polled last.
#[derive(Default)]
pub(crate) struct EventText(CString);

impl EventText {
    pub(crate) fn keep(&mut self, event: Option<&EndpointEvent>) -> dl_event {
        self.0 = event.map(|e| c_text(e.to_string())).unwrap_or_default();
        let kind = match event {
            None => dl_event_kind::DL_EVENT_NONE,
            Some(EndpointEvent::Matched { .. }) => dl_event_kind::DL_EVENT_MATCHED,
            Some(EndpointEvent::Unmatched { .. }) => dl_event_kind::DL_EVENT_UNMATCHED,
            Some(EndpointEvent::Refused { .. }) => dl_event_kind::DL_EVENT_REFUSED,
            Some(EndpointEvent::DeadlineMissed { .. }) => dl_event_kind::DL_EVENT_DEADLINE_MISSED,
            Some(EndpointEvent::LivelinessLost { .. }) => dl_event_kind::DL_EVENT_LIVELINESS_LOST,
            Some(EndpointEvent::LivelinessGained { .. }) => dl_event_kind::DL_EVENT_LIVELINESS_GAINED,
            Some(EndpointEvent::Downgraded { .. }) => dl_event_kind::DL_EVENT_DOWNGRADED,
            Some(EndpointEvent::EventsLost { .. }) => dl_event_kind::DL_EVENT_EVENTS_LOST,
        };
        dl_event { kind, text: self.0.as_ptr() }
    }
}
