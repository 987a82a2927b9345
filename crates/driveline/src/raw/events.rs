// SPDX-License-Identifier: Apache-2.0
//! A publisher's events, for its owner and for one more poller.

use crate::event::EndpointEvent;
use crate::local::LocalEnd;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Maximum number of events that wait for one of the two pollers.
const MAX_WAITING: usize = 64;

/// Sources of a publisher's events, and the events that one of the two pollers has not received
/// yet.
pub(super) struct EventSources {
    local: Option<Arc<LocalEnd>>,
    host: Option<Box<dyn Fn() -> Option<EndpointEvent> + Send + Sync>>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    owner: Queue,
    watcher: Queue,
    watched: bool,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<EndpointEvent>,
    lost: u64,
}

impl Queue {
    fn push(&mut self, event: EndpointEvent) {
        if self.events.len() == MAX_WAITING {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(event);
    }

    fn pop(&mut self) -> Option<EndpointEvent> {
        match std::mem::take(&mut self.lost) {
            0 => self.events.pop_front(),
            count => Some(EndpointEvent::EventsLost { count }),
        }
    }
}

impl EventSources {
    pub(super) fn new(
        local: Option<Arc<LocalEnd>>,
        host: Option<Box<dyn Fn() -> Option<EndpointEvent> + Send + Sync>>,
    ) -> Arc<Self> {
        Arc::new(Self { local, host, waiting: Mutex::default() })
    }

    /// Returns the owner's next event.
    pub(super) fn poll(&self) -> Option<EndpointEvent> {
        self.next(false)
    }

    pub(super) fn watch(self: &Arc<Self>) -> PublisherEvents {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).watched = true;
        PublisherEvents { sources: Arc::downgrade(self) }
    }

    fn next(&self, for_watcher: bool) -> Option<EndpointEvent> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting { owner, watcher, watched } = &mut *waiting;
        // Bounded: events that come continually must not keep this thread here. The next poll takes
        // further events.
        for _ in 0..2 * MAX_WAITING {
            let new = self
                .local
                .as_ref()
                .and_then(|l| l.poll_event())
                .or_else(|| self.host.as_ref().and_then(|h| h()));
            let Some(new) = new else { break };
            if *watched {
                watcher.push(new.clone());
            }
            owner.push(new);
        }
        if for_watcher { watcher.pop() } else { owner.pop() }
    }
}

/// Events of one publisher for code that does not own it, such as the process's log. An event
/// polled here is still available to the publisher's own `poll_event`, and vice versa. All views of
/// a publisher share one queue, so only one of them gets an event. They end with the publisher.
pub struct PublisherEvents {
    sources: Weak<EventSources>,
}

impl PublisherEvents {
    /// The next event, if any. Any thread; waits at most while the publisher polls its own.
    #[must_use]
    pub fn poll(&self) -> Option<EndpointEvent> {
        self.sources.upgrade()?.next(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_have_every_event_and_know_of_those_that_were_lost() {
        let made = Mutex::new(0);
        let source = move || {
            let mut made = made.lock().unwrap();
            *made += 1;
            (*made <= 100).then(|| EndpointEvent::Matched { peer: made.to_string() })
        };
        let sources = EventSources::new(None, Some(Box::new(source)));
        let watcher = sources.watch();
        assert_eq!(watcher.poll(), Some(EndpointEvent::EventsLost { count: 36 }));
        let seen: Vec<_> = std::iter::from_fn(|| watcher.poll()).collect();
        assert_eq!(seen.len(), 64);
        assert_eq!(seen.last(), Some(&EndpointEvent::Matched { peer: "100".into() }));
        assert_eq!(sources.poll(), Some(EndpointEvent::EventsLost { count: 36 }));
        assert_eq!(std::iter::from_fn(|| sources.poll()).collect::<Vec<_>>(), seen);
        drop(sources);
        assert_eq!(watcher.poll(), None);
    }
}
