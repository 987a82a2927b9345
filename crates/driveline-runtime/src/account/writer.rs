// SPDX-License-Identifier: Apache-2.0
//! The writing side of the account: an observer on the data path, and a thread that writes.

use super::{CallbackAccount, HeldEnd, InputAccount, MAX_LINE_BYTES, OriginAccount, Record};
use crossbeam_queue::ArrayQueue;
use driveline::{CallbackRecord, Conversions, EndpointEvent, InputStall, Observer};
use driveline_types::header::Arrival;
use driveline_types::limits::MAX_INPUTS;
use driveline_types::{MAX_ORIGINS, MonotonicNs, Origins, TopicId};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum number of records of calls that wait for the thread: far more than arrive between two of
/// its rounds at sensor rates.
const SLOTS: usize = 512;
/// Maximum number of bytes kept of a name.
const MAX_NAME: usize = 64;
/// Maximum number of waiting rare records, such as failures and counters.
const RARE: usize = 256;
/// Maximum number of waiting records that a run depends on, for example that a component has
/// finished. They wait in the same queue, in addition to [`RARE`].
const VITAL: usize = 64;
/// Number of gathered bytes at which the thread writes them, even before the end of a round.
const BUFFER: usize = 256 * 1024;
/// Time-out of [`Writer::close`] for writing the remaining records, if the reader does not read.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Time-out of a single write, set by the code that makes a writer over a socket. A write that
/// times out is tried again, unless the writer is being closed and [`CLOSE_WITHIN`] has passed.
pub const WRITE_WITHIN: Duration = Duration::from_millis(100);
/// Time for which the thread lets records of calls gather, so that a busy graph costs one wake-up
/// per round and not one per call. Rare records, and half of the slots in use, end it early.
const GATHER: Duration = Duration::from_millis(20);

/// The thread could not be started.
#[derive(Debug, Error)]
#[error("cannot start the account's thread: {0}")]
pub struct WriterError(#[from] std::io::Error);

/// Takes records of calls on the threads that make the calls, and writes them from a thread of its
/// own.
///
/// [`Observer::callback`] neither blocks nor allocates nor locks. It makes a system call, to wake
/// the thread, only if the thread is idle or half of the slots are in use: at most once per 20 ms
/// at sensor rates. An idle writer does nothing at all. Dropping the writer writes the remaining
/// records.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    free: ArrayQueue<Slot>,
    full: ArrayQueue<Slot>,
    rare: ArrayQueue<Record>,
    lost: AtomicU64,
    lost_others: AtomicU64,
    /// False while the thread waits without a time-out, so that the next record must wake it.
    pending: AtomicBool,
    closing: AtomicBool,
    gather: Duration,
    thread: OnceLock<Thread>,
    #[cfg(test)]
    wake_ups: AtomicU64,
}

/// A record of a call. Filling it allocates no memory.
struct Slot {
    callback: Name,
    start: MonotonicNs,
    end: MonotonicNs,
    conversions: Conversions,
    failed: bool,
    inputs: Vec<Input>,
}

struct Input {
    name: Name,
    topic: TopicId,
    arrival: Arrival,
    missed: u64,
    fresh: bool,
    sequence: u64,
    publish_time: MonotonicNs,
    wall_offset_ns: i64,
    trace_id: u64,
    payload_len: u64,
    clock_error_ns: u64,
    origins: Origins,
}

/// The first bytes of a name.
struct Name {
    bytes: [u8; MAX_NAME],
    len: usize,
}

impl Name {
    fn of(text: &str) -> Self {
        let mut len = text.len().min(MAX_NAME);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; MAX_NAME];
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self { bytes, len }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.len]).into_owned()
    }
}

impl Writer {
    /// Starts the thread. It ends when a write to `out` fails, or the writer is closed or dropped.
    /// A write to `out` must not block for long: give a socket the time-out [`WRITE_WITHIN`].
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(out: impl Write + Send + 'static) -> Result<Self, WriterError> {
        Self::gathering(out, GATHER)
    }

    pub(super) fn gathering(
        out: impl Write + Send + 'static,
        gather: Duration,
    ) -> Result<Self, WriterError> {
        let shared = Arc::new(Shared {
            free: ArrayQueue::new(SLOTS),
            full: ArrayQueue::new(SLOTS),
            rare: ArrayQueue::new(RARE + VITAL),
            lost: AtomicU64::new(0),
            lost_others: AtomicU64::new(0),
            pending: AtomicBool::new(true),
            closing: AtomicBool::new(false),
            gather,
            thread: OnceLock::new(),
            #[cfg(test)]
            wake_ups: AtomicU64::new(0),
        });
        for _ in 0..SLOTS {
            let inputs = Vec::with_capacity(MAX_INPUTS);
            let (start, end) = (MonotonicNs(0), MonotonicNs(0));
            let slot = Slot {
                callback: Name::of(""),
                start,
                end,
                conversions: Conversions::default(),
                failed: false,
                inputs,
            };
            let _ = shared.free.push(slot);
        }
        let for_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("account".into())
            .spawn(move || for_thread.write(out))?;
        let _ = shared.thread.set(thread.thread().clone());
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Writes a record that is not of a call. Does not block: if too many records wait, it is
    /// dropped and counted.
    pub fn send(&self, record: Record) {
        if self.shared.rare.len() < RARE {
            self.send_vital(record);
        } else {
            self.shared.lost_others.fetch_add(1, Ordering::Relaxed);
            self.shared.wake_now();
        }
    }

    /// As [`Self::send`], for the few records on which the run depends: the queue has reserved room
    /// for them.
    pub fn send_vital(&self, record: Record) {
        if self.shared.rare.push(record).is_err() {
            self.shared.lost_others.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.wake_now();
    }

    /// Records an event of a port that must be known after the run.
    pub(crate) fn endpoint(&self, component: &str, port: &str, event: &EndpointEvent) {
        let (component, port) = (component.to_owned(), port.to_owned());
        match event {
            EndpointEvent::Refused { text } => {
                self.send(Record::Refused { component, port, text: text.clone() })
            }
            EndpointEvent::Matched { peer } => {
                self.send(Record::Matched { component, port, peer: peer.clone() })
            }
            _ => {}
        }
    }

    /// Writes the remaining records and ends the thread; nothing is written after it. Blocks until
    /// then. If the reader does not read, this takes at most [`CLOSE_WITHIN`] plus the time-outs of
    /// two writes.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
impl Writer {
    /// Number of times that a record woke the thread.
    pub(super) fn wake_ups(&self) -> u64 {
        self.shared.wake_ups.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Observer for Writer {
    fn callback(&self, record: &CallbackRecord<'_>) {
        let Some(mut slot) = self.shared.free.pop() else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return self.shared.wake();
        };
        (slot.callback, slot.start, slot.end, slot.failed) =
            (Name::of(record.callback), record.start, record.end, record.failed);
        slot.conversions = record.conversions;
        slot.inputs.clear();
        for i in record.inputs.iter().take(MAX_INPUTS) {
            slot.inputs.push(Input {
                name: Name::of(i.input),
                topic: i.topic,
                arrival: i.arrival,
                missed: i.missed,
                fresh: i.fresh,
                sequence: i.header.sequence,
                publish_time: i.header.publish_time,
                wall_offset_ns: i.header.wall_offset_ns,
                trace_id: i.header.trace_id,
                payload_len: i.header.payload_len,
                clock_error_ns: i.header.clock_error_ns,
                origins: i.header.origins,
            });
        }
        // Cannot fail: the queue has a place for each slot.
        let _ = self.shared.full.push(slot);
        self.shared.wake();
    }

    fn event(&self, callback: &str, input: &str, event: &EndpointEvent) {
        self.endpoint(callback, input, event);
    }

    fn stall(&self, callback: &str, input: &str, stall: &InputStall) {
        let lasted_ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        self.send(Record::Held {
            component: callback.to_owned(),
            input: input.to_owned(),
            topic: stall.topic.to_string(),
            held: stall.held,
            triggers: stall.triggers,
            end: stall
                .end
                .map(|end| HeldEnd { lasted_ms: lasted_ms(end.lasted), missed: end.missed }),
        });
    }
}

impl Shared {
    /// Wakes the thread if it is idle, or if many records wait.
    fn wake(&self) {
        // Release pairs with the Acquire in `write`: the thread that clears the flag sees all that
        // was written before the flag was set.
        if !self.pending.swap(true, Ordering::AcqRel) || self.free.len() < SLOTS / 2 {
            self.wake_now();
        }
    }

    /// Wakes the thread, also while it lets records gather.
    fn wake_now(&self) {
        #[cfg(test)]
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn write(&self, out: impl Write) {
        let mut out = Outlet {
            out,
            bytes: Vec::with_capacity(BUFFER),
            closing: &self.closing,
            give_up: None,
        };
        let mut reported = (0, 0);
        loop {
            let closing = self.closing.load(Ordering::Acquire);
            if self.round(&mut out, &mut reported).is_err() || closing {
                // The reader is gone or has not read in time, or the writer is being closed and
                // this was its last round.
                return;
            }
            // `pending` stays true meanwhile, so that records of calls do not wake it.
            std::thread::park_timeout(self.gather);
            if self.has_work(reported) {
                continue;
            }
            self.pending.swap(false, Ordering::AcqRel);
            // Checked once more before the first wait: a record that was added before the swap did
            // not wake it.
            while !self.has_work(reported) {
                std::thread::park();
            }
            self.pending.store(true, Ordering::Release);
        }
    }

    fn has_work(&self, reported: (u64, u64)) -> bool {
        !self.full.is_empty()
            || !self.rare.is_empty()
            || self.closing.load(Ordering::Acquire)
            || self.lost() != reported
    }

    fn lost(&self) -> (u64, u64) {
        (self.lost.load(Ordering::Relaxed), self.lost_others.load(Ordering::Relaxed))
    }

    fn round(
        &self,
        out: &mut Outlet<'_, impl Write>,
        reported: &mut (u64, u64),
    ) -> std::io::Result<()> {
        // At most as many records as the queue holds, so that this round ends even if records
        // arrive faster than they are written.
        for _ in 0..RARE + VITAL {
            let Some(record) = self.rare.pop() else { break };
            out.line(&record)?;
        }
        for _ in 0..SLOTS {
            let Some(mut slot) = self.full.pop() else { break };
            let written = out.line(&Record::Callback(slot.account()));
            slot.inputs.clear();
            let _ = self.free.push(slot);
            written?;
        }
        let lost = self.lost();
        if lost != *reported {
            *reported = lost;
            out.line(&Record::Lost { callbacks: lost.0, others: lost.1 })?;
        }
        out.flush()
    }
}

/// Bytes for a reader that may be slow, stopped or gone.
struct Outlet<'a, W> {
    out: W,
    bytes: Vec<u8>,
    closing: &'a AtomicBool,
    /// Time to give up; set once the stream is to end.
    give_up: Option<Instant>,
}

impl<W: Write> Outlet<'_, W> {
    fn line(&mut self, record: &Record) -> std::io::Result<()> {
        let start = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, record)?;
        if self.bytes.len() - start > MAX_LINE_BYTES {
            // A component's error may have any length, and the failure matters more than its whole
            // text.
            self.bytes.truncate(start);
            serde_json::to_writer(&mut self.bytes, &record.clone().shortened())?;
        }
        self.bytes.push(b'\n');
        if self.bytes.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes all bytes. While the reader does not read, it tries again, until the stream is to end
    /// and its time-out has passed.
    fn flush(&mut self) -> std::io::Result<()> {
        let mut written = 0;
        while written < self.bytes.len() {
            match self.out.write(&self.bytes[written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.closing.load(Ordering::Acquire)
                        && *self.give_up.get_or_insert_with(|| Instant::now() + CLOSE_WITHIN)
                            <= Instant::now()
                    {
                        return Err(e);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        self.bytes.clear();
        self.out.flush()
    }
}

impl Slot {
    fn account(&self) -> CallbackAccount {
        let origin = |o: &driveline_types::Origin| OriginAccount {
            topic: o.topic,
            oldest_ns: o.source_oldest.signed(),
            newest_ns: o.source_newest.signed(),
            communication_ns: o.communication_ns,
            computation_ns: o.computation_ns,
            idle_ns: o.idle_ns,
        };
        let input = |i: &Input| InputAccount {
            input: i.name.text(),
            topic: i.topic,
            triggered: i.arrival == Arrival::Triggered,
            missed: i.missed,
            fresh: i.fresh,
            sequence: i.sequence,
            publish_ns: i.publish_time.0,
            wall_offset_ns: i.wall_offset_ns,
            trace_id: i.trace_id,
            payload_len: i.payload_len,
            clock_error_ns: i.clock_error_ns,
            origins: i.origins.as_slice().iter().map(origin).collect(),
        };
        CallbackAccount {
            component: self.callback.text(),
            start_ns: self.start.0,
            end_ns: self.end.0,
            conversion_ns: self.conversions.own_ns,
            encoding_ns: self.conversions.publish_ns,
            failed: self.failed,
            inputs: self.inputs.iter().map(input).collect(),
        }
    }
}

// A line with the longest names and the most origins is shorter than the longest line that a reader
// accepts.
const _: () =
    assert!(MAX_INPUTS * (400 + 2 * MAX_NAME + MAX_ORIGINS * 250) < super::MAX_LINE_BYTES);
