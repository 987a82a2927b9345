// SPDX-License-Identifier: Apache-2.0
//! Records of the measuring loops, and settings of their threads: CPU, priority, timers.

use crate::harness::{Job, Reach, Row, Unset, write_rows};
use crate::peer::payload;
use anyhow::{Context, Result};
use driveline::{Schedule, SchedulingClass};
use driveline_runtime::host::lock_memory;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::path::PathBuf;

/// Returns the current time on `CLOCK_MONOTONIC`, in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    driveline::types::MonotonicNs::now().0
}

/// Rows in memory that is touched before the clock starts.
pub(crate) struct Recorder<R> {
    rows: Vec<R>,
}

impl<R: Row + Copy + Default> Recorder<R> {
    pub(crate) fn for_job(job: &Job) -> Self {
        let capacity = (job.warm_up + job.messages + 2) as usize;
        let mut rows = vec![R::default(); capacity];
        // A zeroed vector is not mapped until it is written to.
        rows.iter_mut().for_each(|r| *r = R::from_words([1; 5]));
        rows.clear();
        Self { rows }
    }

    #[inline]
    pub(crate) fn push(&mut self, row: R) {
        // Never grows: rows beyond the number of samples that the job announces are dropped.
        if self.rows.len() < self.rows.capacity() {
            self.rows.push(row);
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    pub(crate) fn write(&self, job: &Job, name: &str, index: usize) -> Result<PathBuf> {
        let path = job.raw_dir.join(format!("{name}-{index}.rows"));
        write_rows(&path, &self.rows)
            .with_context(|| format!("cannot write the stamps to {}", path.display()))?;
        Ok(path)
    }
}

/// Counts of verified and wrong payloads.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) verified: u64,
    pub(crate) mismatched: u64,
    mismatches: Vec<String>,
}

impl Verdict {
    const SHOWN: usize = 3;

    pub(crate) fn check(&mut self, bytes: &[u8], sequence: u64) {
        self.verified += 1;
        if let Err(text) = payload::verify(bytes, sequence) {
            self.mismatched += 1;
            if self.mismatches.len() < Self::SHOWN {
                self.mismatches.push(text);
            }
        }
    }

    pub(crate) fn into_mismatches(mut self) -> Vec<String> {
        let more = self.mismatched - self.mismatches.len() as u64;
        if more > 0 {
            self.mismatches.push(format!("and {more} more"));
        }
        self.mismatches
    }
}

/// Returns the processor time that this process has used so far. If both ends share a process, it
/// is the time of this thread.
pub(crate) fn cpu_ns(job: &Job) -> u64 {
    let clock = match job.reach {
        Reach::Host | Reach::Network => ClockId::ProcessCPUTime,
        Reach::Process => ClockId::ThreadCPUTime,
    };
    let t = clock_gettime(clock);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Keeps the calling thread busy for this much of its own processor time: preemption does not
/// shorten the work.
pub(crate) fn burn(microseconds: u64) {
    if microseconds == 0 {
        return;
    }
    let used = || {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
    };
    let until = used().saturating_add(microseconds.saturating_mul(1000));
    while used() < until {
        std::hint::spin_loop();
    }
}

/// Gives the calling thread this CPU and the priority of the job, and checks the result. Makes
/// timers as exact as the kernel can. An end with a real-time priority locks its memory, as
/// real-time programs do.
pub(crate) fn settle(job: &Job, cpu: Option<usize>) -> Unset {
    let class = if job.priority > 0 { SchedulingClass::Fifo } else { SchedulingClass::Other };
    let cpus = cpu.into_iter().collect();
    let schedule = Schedule { class, priority: job.priority, cpus, ..Schedule::default() };
    let mut unset = schedule.apply_to_this_thread("bench").refused;
    if let (true, Err(e)) = (job.priority > 0, lock_memory()) {
        unset.push(format!("locked memory: {e}"));
    }
    // The default of 50 µs would be a part of every schedule-relative latency.
    if let Err(e) = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)) {
        unset.push(format!("timer slack of 1 ns: {e}"));
    }
    unset
}

/// Sleeps until a time on `CLOCK_MONOTONIC`, in nanoseconds; returns at once if it has passed. As
/// exact as the calling thread's timer slack.
pub fn sleep_until(at_ns: u64) {
    let request =
        Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as _ };
    while now() < at_ns
        && rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request).is_err()
    {}
}
