// SPDX-License-Identifier: Apache-2.0
//! The minimal hand-over: one shared word, and a futex or a spinning reader.

use super::WORDS_FD;
use super::link::{Middleware, Received, Receiver, Sender};
use crate::harness::{Job, Role, System};
use anyhow::{Context as _, Result};
use driveline_shm::floor::SharedWords;
use rustix::thread::futex;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

/// Bit that is set only in the number of the end mark; numbers of samples stay below it.
const END_BIT: u32 = 1 << 31;
/// Index of the word for samples, and of the word for answers.
const FORTH: usize = 0;
const BACK: usize = 1;
/// Offset from a direction's word to the word that counts its receivers.
const ARRIVED: usize = 2;

/// Both directions of a floor.
#[derive(Clone)]
pub(crate) struct FloorEnds {
    pub(crate) words: Arc<SharedWords>,
    /// `true` if the reader spins instead of sleeping.
    pub(crate) spins: bool,
    /// `true` if other processes share the words. A futex that is private to one process is
    /// cheaper.
    pub(crate) shared: bool,
}

impl FloorEnds {
    fn flags(&self) -> futex::Flags {
        if self.shared { futex::Flags::empty() } else { futex::Flags::PRIVATE }
    }
}

/// Returns the index of a topic's word. A link has at most two topics.
fn direction(topic: &str) -> usize {
    if topic.ends_with("/pong") { BACK } else { FORTH }
}

fn inherited_words() -> Result<SharedWords> {
    // Opening the file again gives this process a descriptor of its own, without taking ownership
    // of a bare descriptor number.
    let path = format!("/proc/self/fd/{WORDS_FD}");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("the floor's shared words are not at {path}"))?;
    SharedWords::open(OwnedFd::from(file)).context("cannot use the floor's shared words")
}

impl Middleware for FloorEnds {
    type Sender = FloorSender;
    type Receiver = FloorReceiver;

    fn join(job: &Job, _name: &str) -> Result<Self> {
        let alone = job.role == Role::Threads;
        let words = if alone {
            SharedWords::create().context("cannot make the floor's words")
        } else {
            inherited_words()
        }?;
        Ok(Self { words: Arc::new(words), spins: job.system == System::Spin, shared: !alone })
    }

    fn for_thread(&self, _name: &str) -> Result<Self> {
        Ok(self.clone())
    }

    fn sender(&self, job: &Job, topic: &str) -> Result<FloorSender> {
        let receivers = if job.role == Role::Publisher { job.subscribers } else { 1 };
        Ok(FloorSender {
            ends: self.clone(),
            direction: direction(topic),
            receivers: receivers as u32,
            sequence: 0,
            wakes: 0,
        })
    }

    fn receiver(&self, _job: &Job, topic: &str) -> Result<FloorReceiver> {
        let direction = direction(topic);
        self.words.word(direction + ARRIVED).fetch_add(1, Release);
        Ok(FloorReceiver { ends: self.clone(), direction, seen: 0 })
    }
}

pub(crate) struct FloorSender {
    ends: FloorEnds,
    direction: usize,
    receivers: u32,
    sequence: u32,
    wakes: u64,
}

impl FloorSender {
    #[inline]
    fn store(&mut self, value: u32) {
        let word = self.ends.words.word(self.direction);
        word.store(value, Release);
        if !self.ends.spins {
            self.wakes += 1;
            // `wake` fails only for invalid memory; a reference is valid.
            let _ = futex::wake(word, self.ends.flags(), self.receivers);
        }
    }
}

impl Sender for FloorSender {
    type Loan = ();

    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while self.ends.words.word(self.direction + ARRIVED).load(Acquire) < receivers as u32 {
            anyhow::ensure!(
                start.elapsed() < timeout,
                "the receivers of the floor did not come within {timeout:?}"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    #[inline]
    fn loan(&mut self, _len: usize) -> Result<(), String> {
        Ok(())
    }

    #[inline]
    fn payload((): &mut ()) -> &mut [u8] {
        &mut []
    }

    #[inline]
    fn publish(&mut self, (): ()) -> Result<u64, String> {
        self.sequence += 1;
        self.store(self.sequence);
        Ok(u64::from(self.sequence))
    }

    #[inline]
    fn answer(&mut self, (): (), question: u64) -> Result<u64, String> {
        self.sequence = u32::try_from(question + 1).map_err(|e| e.to_string())?;
        self.store(self.sequence);
        Ok(u64::from(self.sequence))
    }

    fn publish_end(&mut self) -> Result<u64, String> {
        self.sequence += 1;
        self.store(self.sequence | END_BIT);
        Ok(u64::from(self.sequence))
    }

    fn wake_calls(&self) -> Option<u64> {
        Some(self.wakes)
    }
}

pub(crate) struct FloorReceiver {
    ends: FloorEnds,
    direction: usize,
    seen: u32,
}

impl FloorReceiver {
    fn word(&self) -> &AtomicU32 {
        self.ends.words.word(self.direction)
    }
}

impl Receiver for FloorReceiver {
    type Sample = FloorSample;

    fn wait_matched(&mut self, _timeout: Duration) -> Result<()> {
        Ok(())
    }

    /// Waits without a limit: the word keeps its newest value, so the end mark always arrives, and
    /// the kernel ends a reader whose runner has died.
    #[inline]
    fn wait(&mut self, _limit: Option<Duration>) -> Result<()> {
        let word = self.word();
        // Relaxed: `take` loads the value with Acquire.
        while word.load(Relaxed) == self.seen {
            if self.ends.spins {
                std::hint::spin_loop();
            } else {
                // Returns early for a changed word or a signal; the loop checks again.
                let _ = futex::wait(word, self.ends.flags(), self.seen, None);
            }
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> Result<Option<FloorSample>> {
        let value = self.word().load(Acquire);
        if value == self.seen {
            return Ok(None);
        }
        let sequence = value & !END_BIT;
        let missed = u64::from((sequence - 1).saturating_sub(self.seen));
        self.seen = value;
        Ok(Some(FloorSample {
            sequence: u64::from(sequence),
            missed,
            is_end: value & END_BIT != 0,
        }))
    }
}

pub(crate) struct FloorSample {
    sequence: u64,
    missed: u64,
    is_end: bool,
}

impl Received for FloorSample {
    fn sequence(&self) -> u64 {
        self.sequence
    }
    fn missed(&self) -> u64 {
        self.missed
    }
    fn payload(&self) -> &[u8] {
        &[]
    }
    fn is_end(&self) -> bool {
        self.is_end
    }
}
