// SPDX-License-Identifier: Apache-2.0
//! Waits of a publisher for reliable subscriptions, each for a limited time. A publish
//! waits nowhere else.

use crate::event::PublisherEvent;
use crate::protocol::cursor;
use crate::protocol::epoch::Scan;
use crate::publication::{NOT_BEGUN, PubMatch, Publication, add};
use crate::publisher::Publisher;
use crate::sys::futex::{self, Scope, Word};
use driveline_types::MonotonicNs;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};
use std::time::Duration;

/// Longest sleep of a publisher without `futex_waitv`, where a leaving subscription cannot wake it.
const SLICE: Duration = Duration::from_millis(10);

/// Result of reading the position of one match.
enum Position {
    /// The publisher need not wait for it.
    Fine,
    /// It has not read enough. Contains the low half of its cursor, to sleep on.
    Lagging(u32),
}

impl Publisher {
    /// Waits until every reliable subscription has read up to `sequence - depth`. Waits at most
    /// `max_blocking_ms`, and not beyond the time `latest` if there is one.
    pub(crate) fn wait_for_reliable(&mut self, sequence: u64, latest: Option<MonotonicNs>) {
        let publication = Arc::clone(&self.shared);
        let Some(needed) =
            sequence.checked_sub(u64::from(publication.qos.depth)).filter(|n| *n > 0)
        else {
            return;
        };
        let published = sequence - 1;
        if first_lagging(&self.matches.enter(), &publication, needed, published).is_none() {
            return;
        }
        let began = MonotonicNs::real_now();
        publication.blocking.begin(began);
        let deadline = began + Duration::from_millis(u64::from(publication.qos.max_blocking_ms));
        let deadline = latest.map_or(deadline, |latest| deadline.min(latest));
        cursor::begin_waiting(publication.segment.waiting());
        loop {
            let kick = publication.kick.load(Acquire);
            // `first_lagging` has a fence between storing `waiting` and reading the cursors; the
            // subscription has one between storing its cursor and reading `waiting`.
            let Some((lagging, cursor)) =
                first_lagging(&self.matches.enter(), &publication, needed, published)
            else {
                break;
            };
            if MonotonicNs::real_now() >= deadline {
                publication.blocking.time_out();
                give_up(&self.matches.enter(), &publication, needed, published);
                break;
            }
            if futex::have_waitv() {
                let words = [
                    Word { word: lagging.cursor_futex(), scope: Scope::Shared, expected: cursor },
                    Word { word: &publication.kick, scope: Scope::Private, expected: kick },
                ];
                self.wait_list.wait_any(words.into_iter(), Some(deadline));
            } else {
                futex::wait(
                    lagging.cursor_futex(),
                    Scope::Shared,
                    cursor,
                    Some(deadline.min(MonotonicNs::real_now() + SLICE)),
                );
            }
        }
        cursor::end_waiting(publication.segment.waiting());
        publication.blocking.end(MonotonicNs::real_now());
    }
}

fn first_lagging(
    scan: &Scan<'_, Vec<Arc<PubMatch>>>,
    publication: &Publication,
    needed: u64,
    published: u64,
) -> Option<(Arc<PubMatch>, u32)> {
    // The fence has two uses: epoch::Scans::enter requires it before the list is loaded, and it
    // orders the store of `waiting` before the reading of the cursors.
    cursor::settle();
    scan.load().iter().find_map(|m| match look(m, publication, needed, published) {
        Position::Fine => None,
        Position::Lagging(cursor) => Some((Arc::clone(m), cursor)),
    })
}

fn give_up(
    scan: &Scan<'_, Vec<Arc<PubMatch>>>,
    publication: &Publication,
    needed: u64,
    published: u64,
) {
    cursor::settle();
    for m in scan.load() {
        if let Position::Lagging(_) = look(m, publication, needed, published) {
            m.given_up.store(true, Relaxed);
            publication.events.push(PublisherEvent::ReliableTimeout {
                subscription: m.hello.subscription,
                node: m.hello.node.to_string(),
                total: publication.blocking.blocked(MonotonicNs::real_now()).timeouts,
            });
        }
    }
}

fn look(m: &PubMatch, publication: &Publication, needed: u64, published: u64) -> Position {
    // Acquire pairs with the Release store with which the control thread begins the match.
    let believed = m.believed.load(Acquire);
    if believed == NOT_BEGUN || !m.reliable.load(Relaxed) || m.gone.load(Relaxed) {
        return Position::Fine;
    }
    let cursor = cursor::position(m.cursor());
    // 0: it has not read anything yet.
    if cursor != 0 {
        if cursor < believed || cursor > published {
            add(&publication.counters.cursor_lies, 1);
            m.reliable.store(false, Relaxed);
            publication.events.push(PublisherEvent::Downgraded {
                subscription: m.hello.subscription,
                node: m.hello.node.to_string(),
            });
            return Position::Fine;
        }
        m.believed.store(cursor, Relaxed);
    }
    let believed = believed.max(cursor);
    if believed >= published {
        m.given_up.store(false, Relaxed);
    }
    // `given_up` ends only when the subscription has read everything. If it ended as soon as the
    // subscription had read up to `needed`, the publisher would wait for a very slow subscription
    // at every second publish.
    if believed >= needed || m.given_up.load(Relaxed) {
        return Position::Fine;
    }
    Position::Lagging(cursor as u32)
}
