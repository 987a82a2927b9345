// SPDX-License-Identifier: Apache-2.0
//! Messages being passed to Zenoh, and connections that end meanwhile. Passing a message may take
//! as long as the link needs to carry it.
//!
//! When Zenoh finds that a connection has ended, it ends the writer thread of the connection and
//! waits for that thread. The writer thread waits for threads that wait for space in the
//! connection, but only the writer thread itself would wake these. So the writer thread and the
//! threads that wait for space block each other, for as long as a large sample may wait for space.
//! One of Zenoh's sending threads, which serve all connections, is blocked as well. If the socket
//! is shut, and the writer thread notices that before Zenoh asks it to end, all threads continue at
//! once.

use crate::sockets::shut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zenoh::session::Link;
use zenoh::{Session, Wait};

/// Maximum wait until woken threads have left Zenoh. After that, Zenoh's own behaviour applies.
const WOKEN_WITHIN: Duration = Duration::from_millis(250);
/// Minimum wait, in which the writer thread notices that its socket is shut. It is needed even if
/// no message is in flight here: a message of Zenoh itself may wait for space too.
const SEEN_WITHIN: Duration = Duration::from_millis(20);
/// Time that messages in flight still have when the session is to be closed.
const BEFORE_CLOSING: Duration = Duration::from_millis(300);

/// Messages being passed to Zenoh, with their destinations. Clones share their state.
pub struct InFlight<K>(Arc<Shared<K>>);

struct Shared<K> {
    all: Mutex<All<K>>,
    over: Condvar,
}

struct All<K> {
    /// Number of messages so far.
    begun: u64,
    /// Messages in flight, with their numbers.
    going_on: Vec<(u64, K)>,
    /// True when the session is to be closed.
    given_up: bool,
}

/// A message in flight; it is over when this value is dropped.
struct One<'a, K> {
    shared: &'a Shared<K>,
    number: u64,
}

impl<K> Clone for InFlight<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            all: Mutex::new(All { begun: 0, going_on: Vec::new(), given_up: false }),
            over: Condvar::new(),
        }))
    }
}

impl<K> Shared<K> {
    fn all(&self) -> MutexGuard<'_, All<K>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Drop for One<'_, K> {
    fn drop(&mut self) {
        self.shared.all().going_on.retain(|(number, _)| *number != self.number);
        self.shared.over.notify_all();
    }
}

impl<K: PartialEq> InFlight<K> {
    /// Calls `put`, which hands a message for `whom` to Zenoh and may block. Can be called from any
    /// number of threads. Returns `None` without calling `put` if the session is being closed.
    pub fn during<T>(&self, whom: K, put: impl FnOnce() -> T) -> Option<T> {
        let mut all = self.0.all();
        if all.given_up {
            return None;
        }
        all.begun += 1;
        let number = all.begun;
        all.going_on.push((number, whom));
        drop(all);
        let _one = One { shared: &self.0, number };
        Some(put())
    }

    /// Ends a connection that Zenoh has given up and reported, and that it closes after this call.
    /// Waits until the messages to `whom` that are in flight now have left Zenoh, so that the
    /// writer thread of the connection is free. If there are none, or `whom` is unknown, waits for
    /// all messages in flight now: they may go there through a router. Waits at most 270 ms. Does
    /// nothing if the connection is not a TCP connection. Does not change other connections, so any
    /// program may call this function.
    pub fn end(&self, link: &Link, whom: Option<&K>) {
        let awaited = self.going_on(whom);
        if shut(link) {
            std::thread::sleep(SEEN_WITHIN);
            self.are_over(&awaited, WOKEN_WITHIN);
        }
    }

    /// Gives up messages in flight. Call it before the session is closed: Zenoh closes it only when
    /// no message is in flight, however slow the link. No more messages are accepted. Messages in
    /// flight have 300 ms; then all connections end, and the remaining messages are lost. Blocks
    /// for at most 0.6 s.
    pub fn give_up(&self, session: &Session) {
        self.0.all().given_up = true;
        let awaited = self.going_on(None);
        if !self.are_over(&awaited, BEFORE_CLOSING) {
            for link in session.info().links().wait() {
                shut(&link);
            }
            self.are_over(&awaited, WOKEN_WITHIN);
        }
    }

    /// Returns the numbers of the messages in flight to `whom`; of all messages in flight if none
    /// goes to `whom`.
    fn going_on(&self, whom: Option<&K>) -> Vec<u64> {
        let all = self.0.all();
        let whom = whom.filter(|whom| all.going_on.iter().any(|(_, to)| to == *whom));
        all.going_on
            .iter()
            .filter(|(_, to)| whom.is_none_or(|whom| whom == to))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Waits until these messages are no longer in flight. Returns false after the time-out.
    fn are_over(&self, awaited: &[u64], limit: Duration) -> bool {
        let goes_on =
            |all: &mut All<K>| all.going_on.iter().any(|(number, _)| awaited.contains(number));
        let waited = self
            .0
            .over
            .wait_timeout_while(self.0.all(), limit, goes_on)
            .unwrap_or_else(PoisonError::into_inner);
        !waited.1.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(60);
    // time: the awaited message stays in flight, so only the time-out ends the wait
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn messages_in_flight_to_a_host_are_waited_for_after_the_shutdown() {
        let under_way = InFlight::default();
        let (begun, begins) = channel();
        let [(wake, woken), (go_on, next), (end, other)] = std::array::from_fn(|_| channel::<()>());
        std::thread::scope(|scope| {
            let (of_one, begun_too) = (under_way.clone(), begun.clone());
            scope.spawn(move || {
                of_one.during(1, || {
                    begun.send(()).unwrap();
                    woken.recv().unwrap();
                });
                of_one.during(1, || {
                    begun.send(()).unwrap();
                    next.recv().unwrap();
                });
            });
            let of_other = under_way.clone();
            scope.spawn(move || {
                of_other.during(2, || {
                    begun_too.send(()).unwrap();
                    other.recv().unwrap();
                });
            });
            (0..2).for_each(|_| begins.recv().unwrap());
            let (to_one, to_any) = (under_way.going_on(Some(&1)), under_way.going_on(None));
            assert_eq!((to_one.len(), to_any.len()), (1, 2));
            assert_eq!(
                under_way.going_on(Some(&3)),
                to_any,
                "nothing is in flight to it, so messages to others may go there"
            );
            assert!(!under_way.are_over(&to_one, SHORT), "nothing woke it");
            wake.send(()).unwrap();
            begins.recv().unwrap();
            assert!(under_way.are_over(&to_one, LONG), "its next sample is not waited for");
            assert!(!under_way.are_over(&to_any, SHORT), "a message to another host is in flight");
            end.send(()).unwrap();
            assert!(under_way.are_over(&to_any, LONG));
            let next = under_way.going_on(Some(&1));
            assert!(!under_way.are_over(&next, SHORT));
            under_way.0.all().given_up = true;
            assert_eq!(under_way.during(2, || ()), None);
            go_on.send(()).unwrap();
            assert!(under_way.are_over(&next, LONG));
        });
    }
}
