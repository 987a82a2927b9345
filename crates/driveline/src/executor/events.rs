// SPDX-License-Identifier: Apache-2.0
//! Events of ports (inputs and outputs) as calls of a callback, under its group's rule of
//! concurrency.

use crate::event::EndpointEvent;
use driveline_shm::Kicker;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of events that wait for one callback; the oldest are dropped and counted.
const MAX_WAITING: usize = 64;

/// Event of an input or output, other than a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// Name of the port. Empty if this callback's queue lost events, of one or several ports.
    pub port: String,
    /// True for an output; false if `port` is empty.
    pub is_output: bool,
    /// The event.
    pub event: EndpointEvent,
}

/// Queue of events for a callback.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<PortEvent>,
    lost: u64,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an event waits. One atomic load.
    pub(super) fn is_due(&self) -> bool {
        // Acquire pairs with the Release in `push`.
        self.any.load(Ordering::Acquire)
    }

    fn push(&self, event: PortEvent) {
        let mut waiting = self.waiting();
        if waiting.events.len() == MAX_WAITING {
            waiting.events.pop_front();
            waiting.lost += 1;
        }
        waiting.events.push_back(event);
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        if self.is_due() {
            *self.waiting() = Waiting::default();
            self.any.store(false, Ordering::Release);
        }
    }

    pub(super) fn pop(&self) -> Option<PortEvent> {
        let mut waiting = self.waiting();
        let next = match std::mem::take(&mut waiting.lost) {
            0 => waiting.events.pop_front(),
            count => Some(PortEvent {
                port: String::new(),
                is_output: false,
                event: EndpointEvent::EventsLost { count },
            }),
        };
        self.any.store(!waiting.events.is_empty(), Ordering::Release);
        next
    }
}

/// Sends events to a callback that
/// [`Executor::add_event_callback`](super::Executor::add_event_callback) has added. Clones send to
/// the same callback; any thread.
#[derive(Clone)]
pub struct EventSender {
    pub(super) inbox: Arc<Inbox>,
    pub(super) kicker: Kicker,
}

impl EventSender {
    /// Queues an event for the callback. Allocates, does not block. At most 64 events wait; when
    /// more come, the oldest are dropped and an [`EndpointEvent::EventsLost`] reports their number.
    pub fn send(&self, port: &str, is_output: bool, event: &EndpointEvent) {
        self.inbox.push(PortEvent { port: port.to_owned(), is_output, event: event.clone() });
        self.kicker.kick();
    }
}
