// SPDX-License-Identifier: Apache-2.0
//! Readiness as a file descriptor, and conversion of the host transport's events to public ones.

use crate::event::EndpointEvent;
use crate::local::LocalQueue;
use driveline_shm::{Kicker, PublisherEvent, SubscriptionEvent, WaitSet, Wake};
use driveline_types::TopicName;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError};
use std::sync::{Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The helper waits for samples.
const WATCHING: u8 = 0;
/// The descriptor is readable; the helper sleeps until the reader has read everything.
const SIGNALLED: u8 = 1;
/// The subscription is gone.
const CLOSED: u8 = 2;

/// A thread that turns a wake-up into a readable descriptor, once per burst.
pub(super) struct Notifier {
    shared: Arc<NotifierShared>,
    kicker: Kicker,
    thread: Option<JoinHandle<()>>,
}

struct NotifierShared {
    event: OwnedFd,
    state: AtomicU8,
    changed: (Mutex<()>, Condvar),
}

impl Notifier {
    pub(super) fn start(mut set: WaitSet, local: Option<Arc<LocalQueue>>) -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(NotifierShared {
            event,
            state: AtomicU8::new(WATCHING),
            changed: (Mutex::new(()), Condvar::new()),
        });
        let kicker = set.kicker();
        let helper = shared.clone();
        let thread = std::thread::Builder::new()
            .name("driveline-fd".into())
            .spawn(move || helper.watch(&mut set, local.as_deref()))?;
        Ok(Self { shared, kicker, thread: Some(thread) })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Sleeps until the descriptor is readable or the time is over.
    pub(super) fn sleep(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        let timeout = timeout
            .map(rustix::event::Timespec::try_from)
            .transpose()
            .map_err(std::io::Error::other)?;
        let mut fds =
            [rustix::event::PollFd::new(&self.shared.event, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Clears the descriptor and watches again, after the reader found no more samples. The helper
    /// checks before it sleeps, so it finds samples that arrive after the reader's last check.
    pub(super) fn rearm(&mut self) {
        if self.shared.state.load(Ordering::Acquire) == SIGNALLED {
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&self.shared.event, &mut count);
            let _guard = self.shared.changed.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.state.store(WATCHING, Ordering::Release);
            self.shared.changed.1.notify_all();
        }
    }
}

impl NotifierShared {
    fn watch(&self, set: &mut WaitSet, local: Option<&LocalQueue>) {
        loop {
            {
                let mut guard = self.changed.0.lock().unwrap_or_else(PoisonError::into_inner);
                while self.state.load(Ordering::Acquire) == SIGNALLED {
                    guard = self.changed.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
                }
            }
            if self.state.load(Ordering::Acquire) == CLOSED {
                return;
            }
            // A kick may be about a sample that was read long ago, or an event.
            let data = set.wait(None, Duration::ZERO) == Wake::Data
                || local.is_some_and(|q| !q.is_empty());
            if data
                && self
                    .state
                    .compare_exchange(WATCHING, SIGNALLED, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
            {
                // Cannot be full: it is written once per burst.
                let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
            }
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        {
            let _guard = self.shared.changed.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.state.store(CLOSED, Ordering::Release);
            self.shared.changed.1.notify_all();
        }
        self.kicker.kick();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The deadline and the longest wait of an endpoint, for its events.
pub(crate) struct Promise {
    pub(crate) topic: TopicName,
    /// Publishers only.
    pub(crate) max_blocking_ms: u32,
    pub(crate) deadline_ms: Option<u32>,
}

impl Promise {
    fn missed(&self, what: &str, missed: u64, total: u64) -> EndpointEvent {
        let Self { topic, deadline_ms, .. } = self;
        let ms = deadline_ms.unwrap_or(0);
        EndpointEvent::DeadlineMissed {
            text: format!("topic '{topic}': {what} within {ms} ms (`deadline_ms`)"),
            missed,
            total,
        }
    }

    /// Returns the event of a publisher that missed its offered deadline.
    pub(crate) fn offered(&self, missed: u64, total: u64) -> EndpointEvent {
        self.missed("no sample was published", missed, total)
    }

    /// Returns the event of a subscription whose requested deadline was missed.
    pub(super) fn requested(&self, missed: u64, total: u64) -> EndpointEvent {
        self.missed("no sample came", missed, total)
    }
}

pub(super) fn publisher_event(event: PublisherEvent, promise: &Promise) -> EndpointEvent {
    match event {
        PublisherEvent::Matched { node, .. } => EndpointEvent::Matched { peer: node },
        PublisherEvent::Unmatched { node, .. } => EndpointEvent::Unmatched { peer: node },
        PublisherEvent::Refused { text, .. } => EndpointEvent::Refused { text },
        PublisherEvent::DeadlineMissed { missed, total } => promise.offered(missed, total),
        PublisherEvent::LivelinessLost { total } => {
            EndpointEvent::LivelinessLost { peer: format!("this publisher ({total} times so far)") }
        }
        PublisherEvent::Downgraded { node, .. } => EndpointEvent::Downgraded {
            text: format!(
                "subscription of node '{node}' reports reading positions that cannot be; it is \
                 served best effort from now on"
            ),
        },
        PublisherEvent::ReliableTimeout { node, total, .. } => {
            reliable_timeout(&promise.topic, promise.max_blocking_ms, &node, total)
        }
        PublisherEvent::Dropped { count } => EndpointEvent::EventsLost { count },
    }
}

/// Returns the event of a publish that waited for this reader without success.
pub(crate) fn reliable_timeout(
    topic: &TopicName,
    max_blocking_ms: u32,
    reader: &str,
    total: u64,
) -> EndpointEvent {
    EndpointEvent::ReliableTimeout {
        text: format!(
            "topic '{topic}': waited {max_blocking_ms} ms (`max_blocking_ms`) for the reliable \
             reader '{reader}', which has not read; it is not waited for again until it has read \
             everything, and misses samples meanwhile: raise `qos.depth` or `qos.max_blocking_ms`, \
             or publish less often; a reader that has stopped, or keeps as many samples as it \
             may (`max_held`), must read first"
        ),
        timeouts: 1,
        total,
    }
}

pub(super) fn subscription_event(event: SubscriptionEvent, promise: &Promise) -> EndpointEvent {
    match event {
        SubscriptionEvent::Matched { node, .. } => EndpointEvent::Matched { peer: node },
        SubscriptionEvent::Unmatched { node, .. } => EndpointEvent::Unmatched { peer: node },
        SubscriptionEvent::Refused { text, .. } => EndpointEvent::Refused { text },
        SubscriptionEvent::DeadlineMissed { missed, total } => promise.requested(missed, total),
        SubscriptionEvent::LivelinessLost { publisher } => {
            EndpointEvent::LivelinessLost { peer: format!("publisher {publisher}") }
        }
        SubscriptionEvent::LivelinessGained { publisher } => {
            EndpointEvent::LivelinessGained { peer: format!("publisher {publisher}") }
        }
        SubscriptionEvent::Dropped { count } => EndpointEvent::EventsLost { count },
    }
}
