// SPDX-License-Identifier: Apache-2.0
//! Events of an endpoint, other than samples.

use crate::sized::{SizedStruct, check_result, read_known, write_result};
use crate::status::*;
use driveline::EndpointEvent;
use std::ffi::c_char;

/// Kind of an event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dl_event_kind {
    /// Nothing.
    DL_EVENT_NONE = 0,
    /// A peer was matched.
    DL_EVENT_MATCHED = 1,
    /// A matched peer ended or died.
    DL_EVENT_UNMATCHED = 2,
    /// A peer on the same topic cannot be matched, or no peer can find this endpoint, for example
    /// because the domain directory was removed. The text has the reason and the remedy.
    DL_EVENT_REFUSED = 3,
    /// No sample came, or was published, for longer than the deadline.
    DL_EVENT_DEADLINE_MISSED = 4,
    /// A publisher gave no sign of life for longer than its lease.
    DL_EVENT_LIVELINESS_LOST = 5,
    /// A publisher that had lost its liveliness gives signs of life again.
    DL_EVENT_LIVELINESS_GAINED = 6,
    /// A reliable subscription is served best effort from now on; the text says which and why.
    DL_EVENT_DOWNGRADED = 7,
    /// Events were lost because they were not polled in time; the text has their number.
    DL_EVENT_EVENTS_LOST = 8,
    /// A publish has waited `max_blocking_ms` for a reliable subscription without success; the text
    /// names it and the remedy.
    DL_EVENT_RELIABLE_TIMEOUT = 9,
}

/// An event of a publisher or a subscription.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_event {
    /// `sizeof(dl_event)`, set by the caller.
    pub size: usize,
    /// Kind of the event, a `dl_event_kind`; `DL_EVENT_NONE` if there is none.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// Memory of the caller, or NULL: gets a text for people, always NUL-terminated.
    pub text: *mut c_char,
    /// Size of that memory, in bytes; set by the caller. 1024 is enough for nearly all texts;
    /// longer ones are cut.
    pub text_capacity: usize,
    /// Length of the whole text without the NUL, in bytes, also if it was cut.
    pub text_len: usize,
    /// For a missed deadline: periods without a sample since the previous such event. For a
    /// reliable time-out: waits for a slow subscription since the previous such event. Else 0.
    pub missed: u64,
    /// The same since the endpoint was created; for a reliable time-out at host reach, number of
    /// publishes that timed out, however many subscriptions were slow. Else 0.
    pub total: u64,
}

// SAFETY: `repr(C)`, `size` is first, integers and a raw pointer may be zero.
unsafe impl SizedStruct for dl_event {
    const NAME: &'static str = "dl_event";
    const FIRST: usize = 40;
}

/// Returns the number missed since the previous event, and the total.
pub(crate) fn missed_of(event: &EndpointEvent) -> (u64, u64) {
    match event {
        EndpointEvent::DeadlineMissed { missed, total, .. } => (*missed, *total),
        EndpointEvent::ReliableTimeout { timeouts, total, .. } => (*timeouts, *total),
        _ => (0, 0),
    }
}

pub(crate) fn kind_of(event: &EndpointEvent) -> dl_event_kind {
    match event {
        EndpointEvent::Matched { .. } => dl_event_kind::DL_EVENT_MATCHED,
        EndpointEvent::Unmatched { .. } => dl_event_kind::DL_EVENT_UNMATCHED,
        EndpointEvent::Refused { .. } => dl_event_kind::DL_EVENT_REFUSED,
        EndpointEvent::DeadlineMissed { .. } => dl_event_kind::DL_EVENT_DEADLINE_MISSED,
        EndpointEvent::LivelinessLost { .. } => dl_event_kind::DL_EVENT_LIVELINESS_LOST,
        EndpointEvent::LivelinessGained { .. } => dl_event_kind::DL_EVENT_LIVELINESS_GAINED,
        EndpointEvent::Downgraded { .. } => dl_event_kind::DL_EVENT_DOWNGRADED,
        EndpointEvent::ReliableTimeout { .. } => dl_event_kind::DL_EVENT_RELIABLE_TIMEOUT,
        EndpointEvent::EventsLost { .. } => dl_event_kind::DL_EVENT_EVENTS_LOST,
    }
}

/// Polls an event and writes it into the caller's struct and text. No event is taken if it could
/// not be written.
///
/// # Safety
/// `out` is NULL or points to `out->size` bytes that may be read and written, and its `text` to
/// `text_capacity` bytes.
pub(crate) unsafe fn poll(
    out: *mut dl_event,
    next: impl FnOnce() -> Option<EndpointEvent>,
) -> Outcome {
    // SAFETY: this function's contract.
    let mut event = unsafe {
        check_result("event", out)?;
        read_known("event", out)?
    };
    let next = next();
    event.kind = next.as_ref().map_or(dl_event_kind::DL_EVENT_NONE, kind_of) as u32;
    (event.missed, event.total) = next.as_ref().map_or((0, 0), missed_of);
    let text = c_text(next.map(|e| e.to_string()).unwrap_or_default());
    let text = text.to_str().unwrap_or_default();
    event.text_len = text.len();
    if !event.text.is_null() && event.text_capacity > 0 {
        let end = (0..=text.len().min(event.text_capacity - 1))
            .rev()
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(0);
        let text = &text[..end];
        // SAFETY: `text_capacity` bytes may be written by this function's contract, and one is left
        // for the NUL.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), event.text.cast(), text.len());
            event.text.add(text.len()).write(0);
        }
    }
    // SAFETY: this function's contract.
    unsafe { write_result("event", out, event) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(capacity: usize, reason: &str) -> (dl_event, [u8; 64]) {
        let mut text = [b'?'; 64];
        let pointer = text.as_mut_ptr().cast();
        let mut event = dl_event {
            size: size_of::<dl_event>(),
            kind: 99,
            reserved: 0,
            text: pointer,
            text_capacity: capacity,
            text_len: 0,
            missed: 9,
            total: 9,
        };
        let refused = EndpointEvent::Refused { text: reason.to_owned() };
        // SAFETY: a struct with its size, and a text at least as long as is said.
        assert!(unsafe { poll(&raw mut event, || Some(refused)) }.is_ok());
        (event, text)
    }

    #[test]
    fn text_is_cut_where_a_character_ends() {
        let (event, text) = polled(64, "too far");
        assert_eq!((event.kind, event.text_len), (dl_event_kind::DL_EVENT_REFUSED as u32, 7));
        assert_eq!((event.missed, event.total), (0, 0));
        assert_eq!(text[..9], *b"too far\0?");
        // An 'ä' has two bytes. Only the first byte of the second 'ä' would fit before the NUL.
        let (event, text) = polled(4, "ääää");
        assert_eq!((event.text_len, &text[..4]), (8, &[0xc3, 0xa4, 0, b'?'][..]));
        assert_eq!(polled(1, "x").1[..2], *b"\0?");
        assert_eq!(polled(0, "x").1[..2], *b"??");
    }
}
