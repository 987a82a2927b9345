// SPDX-License-Identifier: Apache-2.0
//! Threads that process a queue, so that the sender does not wait.

use super::lock;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Queue of a thread, as the thread sees it.
pub(super) struct Mailbox<Q> {
    state: Mutex<State<Q>>,
    changed: Condvar,
}

struct State<Q> {
    waiting: Q,
    stop: bool,
}

impl<Q> Mailbox<Q> {
    /// Calls a function with the queue.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Q) -> T) -> T {
        f(&mut lock(&self.state).waiting)
    }

    /// Returns the next result of `take`; waits until there is one. `None`: the handle was dropped.
    pub(super) fn next<T>(&self, take: impl Fn(&mut Q) -> Option<T>) -> Option<T> {
        let mut state = lock(&self.state);
        while !state.stop {
            if let Some(next) = take(&mut state.waiting) {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// Handle of the threads. Dropping it ends each thread after its current work. The queue is
/// dropped.
pub(super) struct Worker<Q>(Arc<Mailbox<Q>>);

impl<Q: Send + 'static> Worker<Q> {
    /// Starts a thread that calls `run`. `run` returns when [`Mailbox::next`] returns `None`.
    pub(super) fn start(
        name: &str,
        waiting: Q,
        run: impl FnOnce(&Mailbox<Q>) + Send + 'static,
    ) -> io::Result<Self> {
        let worker = Self::new(waiting);
        worker.add_thread(name, run)?;
        Ok(worker)
    }

    /// Starts several threads. If one cannot be started, none runs.
    pub(super) fn start_several(
        threads: usize,
        name: &str,
        waiting: Q,
        run: impl FnOnce(&Mailbox<Q>) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let worker = Self::new(waiting);
        (0..threads).try_for_each(|_| worker.add_thread(name, run.clone()))?;
        Ok(worker)
    }

    fn new(waiting: Q) -> Self {
        Self(Arc::new(Mailbox {
            state: Mutex::new(State { waiting, stop: false }),
            changed: Condvar::new(),
        }))
    }

    fn add_thread(
        &self,
        name: &str,
        run: impl FnOnce(&Mailbox<Q>) + Send + 'static,
    ) -> io::Result<()> {
        let mailbox = self.0.clone();
        std::thread::Builder::new().name(name.into()).spawn(move || run(&mailbox)).map(drop)
    }

    /// Changes the queue, and wakes a thread.
    pub(super) fn put<T>(&self, f: impl FnOnce(&mut Q) -> T) -> T {
        let result = self.0.with(f);
        self.0.changed.notify_one();
        result
    }
}

impl<Q> Drop for Worker<Q> {
    fn drop(&mut self) {
        lock(&self.0.state).stop = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_takes_what_waits_and_ends_with_its_handle() {
        let (done, results) = channel();
        let run = move |mailbox: &Mailbox<Vec<u32>>| {
            while let Some(number) = mailbox.next(Vec::pop) {
                done.send(number).unwrap();
            }
        };
        let worker = Worker::start("test", vec![1], run).unwrap();
        assert_eq!(results.recv(), Ok(1));
        worker.put(|waiting| waiting.push(2));
        assert_eq!(results.recv(), Ok(2));
        drop(worker);
        assert!(results.recv().is_err(), "the thread is gone");
    }
}
