// SPDX-License-Identifier: Apache-2.0
//! Queues samples for a writer that may block, for example because its link has no space. A thread
//! per writer hands them over, so no other writer and no local subscription blocks as well.

use super::lock;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Maximum number of queued bytes of one writer. A single sample may be longer.
const MAX_BYTES: usize = 64 << 20;
/// Minimum size of the queue, whatever the writer's depth: samples that arrive while its thread
/// wakes up are no backlog.
const MIN_SAMPLES: usize = 16;

/// Outcome of a queued sample, and of earlier ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pushed {
    /// Number of queued samples that this sample replaced. The oldest samples are replaced first.
    pub(super) replaced: u64,
    /// Number of samples that were not written since the last call, and reason for the last of
    /// them.
    pub(super) failed: u64,
    pub(super) why: String,
}

struct State<T> {
    /// Queued samples with their lengths in bytes.
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    failed: u64,
    why: String,
    over: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    more: Condvar,
}

/// Queue of the newest samples. After it is dropped, its thread writes the queued samples and ends.
/// The dropping thread does not wait.
pub(super) struct Backlog<T> {
    shared: Arc<Shared<T>>,
    most: usize,
}

impl<T: Send + 'static> Backlog<T> {
    /// Starts the thread. `depth`: maximum number of queued samples, if above [`MIN_SAMPLES`].
    /// `send` writes one, on the backlog's thread.
    pub(super) fn start(
        depth: u32,
        mut send: impl FnMut(T) -> Result<(), String> + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let state = State {
            waiting: VecDeque::new(),
            bytes: 0,
            failed: 0,
            why: String::new(),
            over: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), more: Condvar::new() });
        let of_thread = shared.clone();
        let run = move || {
            while let Some(sample) = of_thread.next() {
                if let Err(why) = send(sample) {
                    let mut state = lock(&of_thread.state);
                    state.failed += 1;
                    state.why = why;
                }
            }
        };
        let thread = std::thread::Builder::new().name("dl-backlog".into()).spawn(run)?;
        Ok((Self { shared, most: (depth as usize).max(MIN_SAMPLES) }, thread))
    }

    /// Queues a sample of `len` bytes. Does not block.
    pub(super) fn push(&self, sample: T, len: usize) -> Pushed {
        let mut state = lock(&self.shared.state);
        let mut pushed = Pushed {
            replaced: 0,
            failed: std::mem::take(&mut state.failed),
            why: std::mem::take(&mut state.why),
        };
        while !state.waiting.is_empty()
            && (state.waiting.len() >= self.most || state.bytes + len > MAX_BYTES)
        {
            let oldest = state.waiting.pop_front().map_or(0, |(_, len)| len);
            state.bytes -= oldest;
            pushed.replaced += 1;
        }
        state.waiting.push_back((sample, len));
        state.bytes += len;
        drop(state);
        self.shared.more.notify_one();
        pushed
    }
}

impl<T> Shared<T> {
    /// Waits for the next sample. `None`: the queue is empty and was dropped.
    fn next(&self) -> Option<T> {
        let idle = |state: &mut State<T>| state.waiting.is_empty() && !state.over;
        let mut state =
            self.more.wait_while(lock(&self.state), idle).unwrap_or_else(PoisonError::into_inner);
        let (sample, len) = state.waiting.pop_front()?;
        state.bytes -= len;
        Some(sample)
    }
}

impl<T> Drop for Backlog<T> {
    fn drop(&mut self) {
        lock(&self.shared.state).over = true;
        self.shared.more.notify_one();
    }
}

/// Threads of backlogs. Dropping this value waits until all of them have ended.
#[derive(Default)]
pub(super) struct BacklogThreads(Mutex<Vec<JoinHandle<()>>>);

impl BacklogThreads {
    pub(super) fn add(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.0);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }
}

impl Drop for BacklogThreads {
    fn drop(&mut self) {
        // A panic of a thread is already in the output.
        lock(&self.0).drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A writer that accepts one sample for each permission of the test.
    struct Link {
        backlog: Backlog<u32>,
        permits: Sender<Result<(), String>>,
        begun: Receiver<u32>,
        thread: JoinHandle<()>,
    }

    impl Link {
        fn new(depth: u32) -> Self {
            let ((permits, permitted), (begins, begun)) =
                (channel::<Result<(), String>>(), channel());
            let send = move |sample| {
                begins.send(sample).unwrap();
                permitted.recv().unwrap()
            };
            let (backlog, thread) = Backlog::start(depth, send).unwrap();
            Self { backlog, permits, begun, thread }
        }
    }

    #[test]
    fn a_waiting_writer_blocks_no_other_and_the_newest_samples_are_kept_for_it() {
        let link = Link::new(20);
        assert_eq!(link.backlog.push(0, 1), Pushed::default());
        // The link has no space: the first sample waits in `send`, the others in the queue.
        assert_eq!(link.begun.recv().unwrap(), 0);
        let pushed: u64 = (1..=25).map(|n| link.backlog.push(n, 1).replaced).sum();
        assert_eq!(pushed, 5);
        link.permits.send(Err("no room".into())).unwrap();
        let sent: Vec<u32> = (6..=25)
            .map(|_| {
                let sample = link.begun.recv().unwrap();
                link.permits.send(Ok(())).unwrap();
                sample
            })
            .collect();
        assert_eq!(sent, (6..=25).collect::<Vec<_>>(), "the newest, in order");
        let failed = link.backlog.push(26, 1);
        assert_eq!((failed.failed, failed.why.as_str(), failed.replaced), (1, "no room", 0));
        assert_eq!(link.begun.recv().unwrap(), 26);
        // Samples queued when the writer is dropped are still written.
        link.backlog.push(27, 1);
        drop(link.backlog);
        (0..2).for_each(|_| link.permits.send(Ok(())).unwrap());
        link.thread.join().unwrap();
        assert_eq!(link.begun.try_iter().collect::<Vec<_>>(), [27]);
    }

    #[test]
    fn the_queue_is_bounded_in_bytes_and_a_depth_of_1_has_space_for_a_burst() {
        let link = Link::new(1);
        link.backlog.push(0, 1);
        link.begun.recv().unwrap();
        let burst: u64 = (1..=MIN_SAMPLES as u32)
            .map(|n| link.backlog.push(n, MAX_BYTES / MIN_SAMPLES).replaced)
            .sum();
        assert_eq!(burst, 0);
        assert_eq!(link.backlog.push(100, MAX_BYTES / 2).replaced, MIN_SAMPLES as u64 / 2);
        assert_eq!(
            link.backlog.push(101, MAX_BYTES * 2).replaced,
            MIN_SAMPLES as u64 / 2 + 1,
            "one sample may be longer"
        );
        drop(link.permits);
    }
}
